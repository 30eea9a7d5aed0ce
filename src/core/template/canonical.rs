//! The canonical form of a pod template: templates that Kubernetes considers equal have the same canonical form.
//!
//! [`walk`] is the only place that contains the rules; [`equal()`](super::equal()) uses it too.

use std::collections::BTreeMap;

use super::kind::{Field, Kind, Struct};
use super::quantity::Quantity;
use super::shape::TEMPLATE;
use super::time::Instant;
use super::tree::{Node, Tree};
use super::value::{Number, Value};

/// The maximum depth of nested lists and maps. Anything deeper counts as `null`.
///
/// The `wire` layer rejects deeper templates, and the types of Kubernetes are far shallower. The limit is repeated here
/// so that no input can exhaust the stack.
pub const MAX_DEPTH: usize = 100;

/// The label that the controller adds to the template of a ReplicaSet. Comparisons ignore it (upstream:
/// `EqualIgnoreHash`).
pub(super) const HASH_LABEL: &[&str] = &["metadata", "labels", "pod-template-hash"];

/// The canonical form of a template. Kubernetes considers two templates equal (upstream: `EqualIgnoreHash`) if and only
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
pub fn canonical(template: &Value) -> Value {
    walk(&TEMPLATE, template.node(), HASH_LABEL, 0).value
}

/// The canonical form of one node.
pub(super) struct Form {
    pub(super) value: Value,
    /// Whether Go decodes the node to the zero value of its type.
    is_zero: bool,
}

/// Canonicalizes a node that is present. `skip` is the path, relative to the node, of an entry that is omitted.
pub(super) fn walk<'a, T: Tree<'a>>(
    kind: &Kind,
    node: Node<'a, T>,
    skip: &[&str],
    depth: usize,
) -> Form {
    match (kind, node) {
        (Kind::Raw, node) => Form::significant(verbatim(node, depth)),
        // Go leaves the zero value unchanged when it decodes a null.
        (kind, Node::Null) => Form::new(zero_value(kind), true),
        (Kind::Bool, Node::Bool(value)) => Form::new(value, !value),
        (Kind::Integer | Kind::IntOrString, Node::Number(number)) => {
            Form::new(number, number.as_i64() == Some(0))
        }
        (Kind::String, Node::String(text)) => Form::new(text, text.is_empty()),
        (Kind::IntOrString, Node::String(text)) => Form::significant(text),
        (Kind::Quantity, Node::String(text)) => match Quantity::parse(text) {
            Some(quantity) => Form::new(quantity.to_string(), quantity.is_zero()),
            None => Form::significant(text),
        },
        (Kind::Quantity, Node::Number(number)) => match quantity_of(number) {
            Some(quantity) => Form::new(quantity.to_string(), quantity.is_zero()),
            None => Form::significant(number),
        },
        (Kind::Time, Node::String(text)) => match Instant::parse(text) {
            Some(instant) => Form::new(instant.to_string(), instant == Instant::ZERO),
            None => Form::significant(text),
        },
        (Kind::Struct(_) | Kind::List(_) | Kind::Map(_), Node::List(_) | Node::Map(_))
            if depth == MAX_DEPTH =>
        {
            Form::significant(Value::Null)
        }
        (Kind::Struct(of), Node::Map(entries)) => Form::map(
            entries
                .filter_map(|(key, node)| {
                    let field = field_value(of, key, node.node(), skip, depth)?;
                    Some((key.to_owned(), field))
                })
                .collect(),
        ),
        (Kind::Map(of), Node::Map(entries)) => Form::map(
            entries
                .filter_map(|(key, node)| {
                    let skip = strip_key(skip, key);
                    if skip.is_some_and(<[_]>::is_empty) {
                        return None;
                    }
                    let form = walk(of, node.node(), skip.unwrap_or_default(), depth + 1);
                    Some((key.to_owned(), form.value))
                })
                .collect(),
        ),
        (Kind::List(of), Node::List(items)) => {
            let items: Vec<_> = items
                .map(|item| walk(of, item.node(), &[], depth + 1).value)
                .collect();
            let is_zero = items.is_empty();
            Form::new(items, is_zero)
        }
        (_, node) => Form::significant(verbatim(node, depth)),
    }
}

/// The canonical value of a struct field. `None` if Go treats the field as absent.
pub(super) fn field_value<'a, T: Tree<'a>>(
    of: &Struct,
    key: &str,
    node: Node<'a, T>,
    skip: &[&str],
    depth: usize,
) -> Option<Value> {
    if matches!(node, Node::Null) {
        return None;
    }
    let Some(Field {
        name: _,
        pointer,
        kind,
    }) = of.field(key)
    else {
        return Some(verbatim(node, depth + 1));
    };
    let skip = strip_key(skip, key).unwrap_or_default();
    let Form { value, is_zero } = walk(kind, node, skip, depth + 1);
    (*pointer || !is_zero).then_some(value)
}

/// The rest of a path that starts with this key.
pub(super) fn strip_key<'p, 's>(path: &'p [&'s str], key: &str) -> Option<&'p [&'s str]> {
    path.split_first()
        .and_then(|(first, rest)| (*first == key).then_some(rest))
}

/// A value that has no entry in the shape table, unchanged.
pub(super) fn verbatim<'a, T: Tree<'a>>(node: Node<'a, T>, depth: usize) -> Value {
    match node {
        Node::Null => Value::Null,
        Node::Bool(value) => Value::Bool(value),
        Node::Number(number) => Value::Number(number),
        Node::String(text) => Value::from(text),
        Node::List(_) | Node::Map(_) if depth >= MAX_DEPTH => Value::Null,
        Node::List(items) => {
            Value::List(items.map(|item| verbatim(item.node(), depth + 1)).collect())
        }
        Node::Map(entries) => Value::Map(
            entries
                .map(|(key, node)| (key.to_owned(), verbatim(node.node(), depth + 1)))
                .collect(),
        ),
    }
}

/// The zero value of a kind, for items of lists and entries of maps: unlike fields, they cannot be omitted.
fn zero_value(kind: &Kind) -> Value {
    match kind {
        Kind::Bool => Value::Bool(false),
        Kind::Integer | Kind::IntOrString => Value::from(0),
        Kind::String => Value::from(""),
        Kind::Quantity => Value::from("0"),
        Kind::Time => Value::from(Instant::ZERO.to_string()),
        Kind::Raw => Value::Null,
        Kind::Struct(_) | Kind::Map(_) => Value::map(),
        Kind::List(_) => Value::List(Vec::new()),
    }
}

/// The quantity that a JSON number stands for. Upstream parses the text of the number; what remains of that text here
/// is the shortest one for the same float.
fn quantity_of(number: Number) -> Option<Quantity> {
    let text = match number.as_i64() {
        Some(integer) => integer.to_string(),
        // With an exponent, because 1e300 would otherwise have 300 digits. Infinity and NaN do not parse as quantities.
        None => format!("{:e}", number.as_f64()),
    };
    Quantity::parse(&text)
}

// === impl Form ===

impl Form {
    fn new(value: impl Into<Value>, is_zero: bool) -> Self {
        let value = value.into();
        Self { value, is_zero }
    }

    /// A value that differs from an absent one in any case.
    fn significant(value: impl Into<Value>) -> Self {
        Self::new(value, false)
    }

    fn map(entries: BTreeMap<String, Value>) -> Self {
        let is_zero = entries.is_empty();
        Self::new(entries, is_zero)
    }
}
