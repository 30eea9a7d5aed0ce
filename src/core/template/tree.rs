//! Read access to a template, whether it is a [`Value`] or still encoded.

use std::collections::btree_map;
use std::slice;

use super::value::{Number, Value};

/// A node of a JSON-like tree that can be read without decoding the whole tree.
///
/// Implementations must ensure that a map yields each key **once** (as in protobuf, the last entry for a key wins), that
/// its keys are in byte order, and that the tree is finite.
pub trait Tree<'a>: Copy {
    /// The items of a list, in order.
    type Items: Iterator<Item = Self>;
    /// The entries of a map, sorted by key.
    type Entries: Iterator<Item = (&'a str, Self)>;

    /// The content of this node.
    fn node(self) -> Node<'a, Self>;

    /// A pointer that identifies this node. Nodes with the same identity are equal, which saves a comparison.
    fn identity(self) -> *const ();
}

/// One node of a [`Tree`].
#[derive(Debug)]
pub enum Node<'a, T: Tree<'a>> {
    /// `null`.
    Null,
    /// A bool.
    Bool(bool),
    /// A number.
    Number(Number),
    /// A string.
    String(&'a str),
    /// A list.
    List(T::Items),
    /// A map.
    Map(T::Entries),
}

/// The value of a key, if this is a map that contains it.
pub(super) fn entry<'a, T: Tree<'a>>(map: T, key: &str) -> Option<T> {
    let Node::Map(mut entries) = map.node() else {
        return None;
    };
    let entry = entries.find(|(other, _)| *other == key);
    entry.map(|(_, value)| value)
}

// === impl Tree for Value ===

/// The entries of a [`Value::Map`].
#[derive(Clone, Debug)]
pub struct ValueEntries<'a>(btree_map::Iter<'a, String, Value>);

impl<'a> Tree<'a> for &'a Value {
    type Items = slice::Iter<'a, Value>;
    type Entries = ValueEntries<'a>;

    fn node(self) -> Node<'a, Self> {
        match self {
            Value::Null => Node::Null,
            Value::Bool(value) => Node::Bool(*value),
            Value::Number(number) => Node::Number(*number),
            Value::String(text) => Node::String(text),
            Value::List(items) => Node::List(items.iter()),
            Value::Map(entries) => Node::Map(ValueEntries(entries.iter())),
        }
    }

    fn identity(self) -> *const () {
        std::ptr::from_ref(self).cast()
    }
}

impl<'a> Iterator for ValueEntries<'a> {
    type Item = (&'a str, &'a Value);

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next().map(|(key, value)| (key.as_str(), value))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.0.size_hint()
    }
}
