//! The canonical form of a pod template: templates that Kubernetes considers equal have the same canonical form.
//!
//! [`walk`] is the only place that contains the rules; [`equal()`](super::equal()) uses it too.

use std::fmt::{Display, Write as _};

use super::kind::{Field, Kind, Struct};
use super::quantity::Quantity;
use super::shape::TEMPLATE;
use super::tree::{Node, Tree};
use super::write::{JsonSink, write_entry, write_items, write_string, write_tree};
use crate::time::Time;

/// The maximum depth of nested lists and maps. Anything deeper counts as `null`.
///
/// The `wire` layer rejects deeper templates, and the types of Kubernetes are far shallower. The limit is repeated here
/// so that no input can exhaust the stack.
pub const MAX_DEPTH: usize = 100;

/// The label that the controller adds to the template of a ReplicaSet. Comparisons ignore it (upstream:
/// `EqualIgnoreHash`).
pub(super) const HASH_LABEL: &[&str] = &["metadata", "labels", "pod-template-hash"];

/// The canonical form of a template, as JSON. Kubernetes considers two templates equal (upstream: `EqualIgnoreHash`) if and
/// only if their canonical forms are equal.
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

/// A destination of the canonical form. [`walk`] also reports where it differs from the template as written, for a
/// destination that needs both.
///
/// `path` is the path to the hash label, relative to the map or value that is being written. It is empty for all others.
pub(super) trait CanonicalSink: JsonSink {
    /// A position that [`back_to`](Self::back_to) accepts.
    type Mark: Copy;

    /// Appends the key of an entry, and returns the position before it. `is_first` is whether all entries before it were
    /// removed.
    fn push_key(&mut self, key: &str, is_first: bool, path: &[&str]) -> Self::Mark;

    /// Removes the entry that begins at a position.
    fn back_to(&mut self, mark: Self::Mark);

    /// Appends a `null` as the value of an entry that is then removed.
    fn push_null(&mut self, _path: &[&str]) {}

    /// Appends a value whose canonical form may differ from the value as written.
    fn push_normalized<'a, T: Tree<'a>>(&mut self, canonical: &str, _written: Node<'a, T>) {
        self.push(canonical);
    }

    /// Called in place of the hash label, and at the end of each map.
    fn omit_label(&mut self, _path: &[&str]) {}
}

impl CanonicalSink for String {
    type Mark = usize;

    fn push_key(&mut self, key: &str, is_first: bool, _path: &[&str]) -> usize {
        let before = self.len();
        write_entry(self, key, is_first);
        before
    }

    fn back_to(&mut self, mark: usize) {
        self.truncate(mark);
    }
}

/// Appends the output of [`canonical`].
pub(super) fn write_canonical<'a>(template: impl Tree<'a>, json: &mut impl CanonicalSink) {
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
    json: &mut impl CanonicalSink,
) -> IsZero {
    match (kind, node) {
        (Kind::Struct(_) | Kind::List(_) | Kind::Map(_), Node::List(_) | Node::Map(_))
            if depth == MAX_DEPTH =>
        {
            json.push("null");
            false
        }
        (Kind::Struct(of), Node::Map(entries)) => walk_struct(of, entries, skip, depth, json),
        (Kind::Map(of), Node::Map(entries)) => walk_map(of, entries, skip, depth, json),
        (Kind::List(of), Node::List(items)) => {
            json.push("[");
            let count = write_items(json, items, |json, item| {
                walk(of, item.node(), &[], depth + 1, json);
            });
            count == 0
        }
        (Kind::String, Node::String(text)) => {
            write_string(json, text);
            text.is_empty()
        }
        (kind, node) => walk_other(kind, node, depth, json),
    }
}

fn walk_struct<'a, T: Tree<'a>>(
    of: &Struct,
    entries: impl Iterator<Item = (&'a str, T)>,
    skip: &[&str],
    depth: usize,
    json: &mut impl CanonicalSink,
) -> IsZero {
    json.push("{");
    let mut is_empty = true;
    for (key, node) in entries {
        let before = json.push_key(key, is_empty, skip);
        if field(of, key, node.node(), skip, depth, json) {
            is_empty = false;
        } else {
            json.back_to(before);
        }
    }
    json.omit_label(skip);
    json.push("}");
    is_empty
}

fn walk_map<'a, T: Tree<'a>>(
    of: &Kind,
    entries: impl Iterator<Item = (&'a str, T)>,
    skip: &[&str],
    depth: usize,
    json: &mut impl CanonicalSink,
) -> IsZero {
    json.push("{");
    let mut is_empty = true;
    for (key, node) in entries {
        let below = strip_key(skip, key);
        if below.is_some_and(<[_]>::is_empty) {
            json.omit_label(skip);
            continue;
        }
        json.push_key(key, is_empty, skip);
        let below = below.unwrap_or_default();
        walk(of, node.node(), below, depth + 1, json);
        is_empty = false;
    }
    json.omit_label(skip);
    json.push("}");
    is_empty
}

/// Appends a value that is neither a string nor has parts that have kinds of their own.
fn walk_other<'a, T: Tree<'a>>(
    kind: &Kind,
    node: Node<'a, T>,
    depth: usize,
    json: &mut impl CanonicalSink,
) -> IsZero {
    match (kind, node) {
        // Go leaves the zero value unchanged when it decodes a null.
        (kind, node @ Node::Null) if !matches!(kind, Kind::Raw) => {
            json.push_normalized(zero_value(kind), node);
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
        (Kind::Quantity, Node::String(text)) => match Quantity::parse(text) {
            Some(quantity) => {
                json.push_normalized(&quoted(&quantity), Node::<T>::String(text));
                quantity.is_zero()
            }
            None => {
                write_string(json, text);
                false
            }
        },
        (Kind::Quantity, Node::Number(number)) => match Quantity::of_number(number) {
            Some(quantity) => {
                json.push_normalized(&quoted(&quantity), Node::<T>::Number(number));
                quantity.is_zero()
            }
            None => {
                json.push_number(number);
                false
            }
        },
        (Kind::Time, Node::String(text)) => match Time::parse(text) {
            Some(time) => {
                json.push_normalized(&quoted(&time), Node::<T>::String(text));
                // The zero value of Go.
                time == Time::MIN
            }
            None => {
                write_string(json, text);
                false
            }
        },
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
    json: &mut impl CanonicalSink,
) -> bool {
    let skip = strip_key(skip, key).unwrap_or_default();
    if matches!(node, Node::Null) {
        json.push_null(skip);
        return false;
    }
    let Some(Field { pointer, kind, .. }) = of.field(key) else {
        write_tree(json, node, MAX_DEPTH.saturating_sub(depth + 1));
        return true;
    };
    let is_zero = walk(kind, node, skip, depth + 1, json);
    *pointer || !is_zero
}

/// The rest of a path, if it starts with this key.
pub(super) fn strip_key<'p, 's>(path: &'p [&'s str], key: &str) -> Option<&'p [&'s str]> {
    path.split_first()
        .and_then(|(first, rest)| (*first == key).then_some(rest))
}

/// The text of a quantity or time, which needs no escapes, as JSON.
fn quoted(value: &impl Display) -> String {
    let mut text = String::with_capacity(32);
    // Writing to a String cannot fail.
    _ = write!(text, "\"{value}\"");
    text
}

/// The zero value of a kind, for list items and map entries: unlike fields, they cannot be omitted.
fn zero_value(kind: &Kind) -> &'static str {
    match kind {
        Kind::Bool => "false",
        Kind::Integer | Kind::IntOrString => "0",
        Kind::String => r#""""#,
        Kind::Quantity => r#""0""#,
        Kind::Time => r#""0001-01-01T00:00:00Z""#,
        Kind::Raw => "null",
        Kind::Struct(_) | Kind::Map(_) => "{}",
        Kind::List(_) => "[]",
    }
}
