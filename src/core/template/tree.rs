//! Reading a template where it lies, be it a [`Value`] or bytes of the wire.

use std::collections::btree_map;
use std::slice;

use super::value::{Number, Value};

/// A node of a JSON-like tree that can be read without being taken out of its encoding.
///
/// What the implementer sees to: a map yields each key **once** (of a repeated key, the last entry counts, as in
/// protobuf), in the order of the keys' bytes; and walking to the end always ends.
pub trait Tree<'a>: Copy {
    /// The items of a list, in order.
    type Items: Iterator<Item = Self>;
    /// The entries of a map, by key.
    type Entries: Iterator<Item = (&'a str, Self)>;

    /// What this node is, and the way to what it holds.
    fn node(self) -> Node<'a, Self>;

    /// Where it lies. Two nodes in one place are one: nothing needs to be read to know that they are the same.
    fn place(self) -> *const ();
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

// === impl Tree for Value ===

/// The entries of a [`Value`] that is a map.
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

    fn place(self) -> *const () {
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
