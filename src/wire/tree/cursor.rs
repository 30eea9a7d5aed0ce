//! Implements the planner's [`Tree`] for a tape.

use rollplan_core::template::{Node, Tree, Value};

use super::baseline::next_sibling;
use super::{Cell, Tape};

/// A value on a [`Tape`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor<'t, 'a> {
    tape: &'t Tape<'a>,
    at: usize,
}

/// The items of a list on a [`Tape`].
#[derive(Debug)]
pub(crate) struct Items<'t, 'a> {
    next: Cursor<'t, 'a>,
    end: usize,
}

/// The entries of a map on a [`Tape`], sorted by key, without duplicates.
#[derive(Debug)]
pub(crate) struct Entries<'t, 'a> {
    tape: &'t Tape<'a>,
    next: usize,
}

impl<'t, 'a> Cursor<'t, 'a> {
    /// The value at a cell, which is on the baseline if the cell refers to it.
    pub(super) fn new(tape: &'t Tape<'a>, at: usize) -> Self {
        match (tape.cells[at], tape.baseline) {
            (Cell::Same { at }, Some(tape)) => Self { tape, at },
            _ => Self { tape, at },
        }
    }
}

impl<'t, 'a> Tree<'a> for Cursor<'t, 'a> {
    type Items = Items<'t, 'a>;
    type Entries = Entries<'t, 'a>;

    fn node(self) -> Node<'a, Self> {
        let Self { tape, at } = self;
        match tape.cells[at] {
            // Cursors never point to a key, nor to a cell that refers to the baseline.
            Cell::Null | Cell::Key { .. } | Cell::Same { .. } => Node::Null,
            Cell::Bool(value) => Node::Bool(value),
            Cell::Number(number) => Node::Number(number),
            Cell::String(text) => Node::String(text),
            Cell::List { end, .. } => {
                let next = Self { tape, at: at + 1 };
                Node::List(Items { next, end })
            }
            Cell::Map { first, .. } => Node::Map(Entries { tape, next: first }),
        }
    }

    fn identity(self) -> *const () {
        (&raw const self.tape.cells[self.at]).cast()
    }
}

impl<'t, 'a> Iterator for Items<'t, 'a> {
    type Item = Cursor<'t, 'a>;

    fn next(&mut self) -> Option<Self::Item> {
        let Cursor { tape, at } = self.next;
        if at >= self.end {
            return None;
        }
        self.next.at = next_sibling(&tape.cells, at);
        Some(Cursor::new(tape, at))
    }
}

impl<'t, 'a> Iterator for Entries<'t, 'a> {
    type Item = (&'a str, Cursor<'t, 'a>);

    fn next(&mut self) -> Option<Self::Item> {
        let Cell::Key { text, next } = self.tape.cells[self.next] else {
            // NONE is the cell of the template itself, which is not a key.
            return None;
        };
        let value = Cursor::new(self.tape, self.next + 1);
        self.next = next;
        Some((text, value))
    }
}

impl Tape<'_> {
    /// The whole template, decoded.
    pub(crate) fn to_value(&self) -> Value {
        to_value(self.root())
    }
}

fn to_value<'a>(tree: Cursor<'_, 'a>) -> Value {
    match tree.node() {
        Node::Null => Value::Null,
        Node::Bool(value) => Value::Bool(value),
        Node::Number(number) => Value::Number(number),
        Node::String(text) => Value::String(text.to_owned()),
        Node::List(items) => Value::List(items.map(to_value).collect()),
        Node::Map(entries) => Value::Map(
            entries
                .map(|(key, value)| (key.to_owned(), to_value(value)))
                .collect(),
        ),
    }
}
