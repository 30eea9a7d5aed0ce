//! The canonical form of a pod template: templates that Kubernetes considers equal have the same canonical form.
//!
//! [`walk`] is the only place that contains the rules; [`equal()`](super::equal()) uses it too.

use super::kind::{Field, Kind, Struct};
use super::quantity::Quantity;
use super::shape::TEMPLATE;
use super::time::Instant;
use super::tree::{Node, Tree};
use super::value::Number;
use super::write::{JsonSink, write_entry, write_items, write_string, write_tree};

/// The maximum depth of nested lists and maps. Anything deeper counts as `null`.
///
/// The `wire` layer rejects deeper templates, and the types of Kubernetes are far shallower. The limit is repeated here
/// so that no input can exhaust the stack.
pub const MAX_DEPTH: usize = 100;

/// The label that the controller adds to the template of a ReplicaSet. Comparisons ignore it (upstream:
/// `EqualIgnoreHash`).
pub(super) const HASH_LABEL: &[&str] = &["metadata", "labels", "pod-template-hash"];

/// The canonical form of a template, as JSON. Kubernetes considers two templates equal (upstream: `EqualIgnoreHash`) if and only
/// if their canonical forms are equal.
///
/// Fields that decode to the Go zero value are omitted where Go does not distinguish zero from absent, quantities and
/// times have a single notation, and the label `pod-template-hash` is removed. The result is a template again, and is
/// its own canonical form.
///
/// Deliberate differences from Kubernetes:
/// - An unknown field counts, unless it is `null`. (A typed client drops it before it compares.)
/// - A value of the wrong type counts unchanged, as does a string that is not a valid quantity or time. (A typed client
///   rejects the object.)
/// - Key order and whitespace inside a `fieldsV1` do not count. (Upstream compares its bytes.)
/// - Values deeper than [`MAX_DEPTH`] do not count.
/// - The few differences listed at [`Quantity`].
#[must_use]
pub fn canonical<'a>(template: impl Tree<'a>) -> String {
    let mut json = String::new();
    write_canonical(template, &mut json);
    json
}

/// Appends the output of [`canonical`].
pub(super) fn write_canonical<'a>(template: impl Tree<'a>, json: &mut impl JsonSink) {
    walk(&TEMPLATE, template.node(), HASH_LABEL, 0, json);
}

/// Whether Go decodes a node to the zero value of its type.
type IsZero = bool;

/// Appends the canonical form of a node that is present. `skip` is the path, relative to the node, of an entry that is
/// omitted.
pub(super) fn walk<'a, T: Tree<'a>>(
    kind: &Kind,
    node: Node<'a, T>,
    skip: &[&str],
    depth: usize,
    json: &mut impl JsonSink,
) -> IsZero {
    match (kind, node) {
        // Go leaves the zero value unchanged when it decodes a null.
        (kind, Node::Null) if !matches!(kind, Kind::Raw) => {
            json.push(zero_value(kind));
            true
        }
        (Kind::Bool, Node::Bool(value)) => {
            json.push(if value { "true" } else { "false" });
            !value
        }
        (Kind::Integer | Kind::IntOrString, Node::Number(number)) => {
            json.push_number(number);
            number.as_i64() == Some(0)
        }
        (Kind::String | Kind::IntOrString, Node::String(text)) => {
            write_string(json, text);
            matches!(kind, Kind::String) && text.is_empty()
        }
        (Kind::Quantity, Node::String(text)) => match Quantity::parse(text) {
            Some(quantity) => {
                write_string(json, &quantity.to_string());
                quantity.is_zero()
            }
            None => {
                write_string(json, text);
                false
            }
        },
        (Kind::Quantity, Node::Number(number)) => match quantity_of(number) {
            Some(quantity) => {
                write_string(json, &quantity.to_string());
                quantity.is_zero()
            }
            None => {
                json.push_number(number);
                false
            }
        },
        (Kind::Time, Node::String(text)) => match Instant::parse(text) {
            Some(instant) => {
                write_string(json, &instant.to_string());
                instant == Instant::ZERO
            }
            None => {
                write_string(json, text);
                false
            }
        },
        (Kind::Struct(_) | Kind::List(_) | Kind::Map(_), Node::List(_) | Node::Map(_))
            if depth == MAX_DEPTH =>
        {
            json.push("null");
            false
        }
        (Kind::Struct(of), Node::Map(entries)) => {
            json.push("{");
            let mut is_empty = true;
            for (key, node) in entries {
                let before = json.mark();
                write_entry(json, key, is_empty);
                match field(of, key, node.node(), skip, depth, json) {
                    true => is_empty = false,
                    false => json.back_to(before),
                }
            }
            json.push("}");
            is_empty
        }
        (Kind::Map(of), Node::Map(entries)) => {
            json.push("{");
            let mut is_empty = true;
            for (key, node) in entries {
                let skip = strip_key(skip, key);
                if skip.is_some_and(<[_]>::is_empty) {
                    continue;
                }
                write_entry(json, key, is_empty);
                let skip = skip.unwrap_or_default();
                walk(of, node.node(), skip, depth + 1, json);
                is_empty = false;
            }
            json.push("}");
            is_empty
        }
        (Kind::List(of), Node::List(items)) => {
            json.push("[");
            let count = write_items(json, items, |json, item| {
                walk(of, item.node(), &[], depth + 1, json);
            });
            count == 0
        }
        (_, node) => {
            write_tree(json, node, MAX_DEPTH.saturating_sub(depth));
            false
        }
    }
}

/// Appends the canonical form of a struct field. Returns false if Go treats the field as absent: the caller then removes
/// the appended text.
pub(super) fn field<'a, T: Tree<'a>>(
    of: &Struct,
    key: &str,
    node: Node<'a, T>,
    skip: &[&str],
    depth: usize,
    json: &mut impl JsonSink,
) -> bool {
    if matches!(node, Node::Null) {
        return false;
    }
    let Some(Field {
        name: _,
        pointer,
        kind,
    }) = of.field(key)
    else {
        write_tree(json, node, MAX_DEPTH.saturating_sub(depth + 1));
        return true;
    };
    let skip = strip_key(skip, key).unwrap_or_default();
    let is_zero = walk(kind, node, skip, depth + 1, json);
    *pointer || !is_zero
}

/// The rest of a path, if it starts with this key.
pub(super) fn strip_key<'p, 's>(path: &'p [&'s str], key: &str) -> Option<&'p [&'s str]> {
    path.split_first()
        .and_then(|(first, rest)| (*first == key).then_some(rest))
}

/// The zero value of a kind, for list items and map entries: unlike fields, they cannot be omitted.
fn zero_value(kind: &Kind) -> &'static str {
    match kind {
        Kind::Bool => "false",
        Kind::Integer | Kind::IntOrString => "0",
        Kind::String => r#""""#,
        Kind::Quantity => r#""0""#,
        Kind::Time => Instant::ZERO_JSON,
        Kind::Raw => "null",
        Kind::Struct(_) | Kind::Map(_) => "{}",
        Kind::List(_) => "[]",
    }
}

/// The quantity of a JSON number. Upstream parses the text of the number. That text is not available here, so the shortest
/// text for the same float replaces it.
fn quantity_of(number: Number) -> Option<Quantity> {
    let text = match number.as_i64() {
        Some(integer) => integer.to_string(),
        // With an exponent, because 1e300 would otherwise have 300 digits. Infinity and NaN do not parse as quantities.
        None => format!("{:e}", number.as_f64()),
    };
    Quantity::parse(&text)
}
