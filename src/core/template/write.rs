//! Writes the JSON of templates and API calls, to a string or directly to a hash.

use std::fmt::Write as _;

use super::tree::{Node, Tree};
use super::value::{Number, Value};

/// A destination of JSON: a string or a hash.
pub(crate) trait JsonSink: Sized {
    /// Appends a part.
    fn push(&mut self, part: &str);

    /// Appends a string that needs no escapes, in quotes.
    fn push_quoted(&mut self, text: &str);

    /// Appends a number.
    fn push_number(&mut self, number: Number) {
        self.push(&number.to_string());
    }
}

impl JsonSink for String {
    #[inline]
    fn push(&mut self, part: &str) {
        self.push_str(part);
    }

    #[inline]
    fn push_quoted(&mut self, text: &str) {
        Self::push(self, '"');
        self.push_str(text);
        Self::push(self, '"');
    }

    fn push_number(&mut self, number: Number) {
        match number.as_i64() {
            // Faster than through a formatter.
            Some(integer) => self.push_str(&integer.to_string()),
            // Writing to a String cannot fail.
            None => _ = write!(self, "{number}"),
        }
    }
}

/// Appends a tree. Lists and maps below `levels` levels count as `null`.
pub(super) fn write_tree<'a, T: Tree<'a>>(
    json: &mut impl JsonSink,
    node: Node<'a, T>,
    levels: usize,
) {
    match node {
        Node::Null => json.push("null"),
        Node::Bool(true) => json.push("true"),
        Node::Bool(false) => json.push("false"),
        Node::Number(number) => json.push_number(number),
        Node::String(text) => write_string(json, text),
        Node::List(_) | Node::Map(_) if levels == 0 => json.push("null"),
        Node::List(items) => {
            json.push("[");
            write_items(json, items, |json, item| {
                write_tree(json, item.node(), levels - 1);
            });
        }
        Node::Map(entries) => write_map(json, entries, |json, value| {
            write_tree(json, value.node(), levels - 1);
        }),
    }
}

/// Appends a JSON array. `write` appends one item.
pub(crate) fn write_list<J: JsonSink, T>(
    json: &mut J,
    items: impl IntoIterator<Item = T>,
    write: impl Fn(&mut J, T),
) {
    json.push("[");
    write_items(json, items, write);
}

/// Appends the items and the end of a JSON array, and returns how many there are.
pub(super) fn write_items<J: JsonSink, T>(
    json: &mut J,
    items: impl IntoIterator<Item = T>,
    write: impl Fn(&mut J, T),
) -> usize {
    let mut count = 0;
    for item in items {
        if count > 0 {
            json.push(",");
        }
        write(json, item);
        count += 1;
    }
    json.push("]");
    count
}

/// Appends a JSON object with its entries in the given order. `write` appends one value.
pub(crate) fn write_map<'k, J: JsonSink, T>(
    json: &mut J,
    entries: impl IntoIterator<Item = (&'k str, T)>,
    write: impl Fn(&mut J, T),
) {
    json.push("{");
    let mut is_first = true;
    for (key, value) in entries {
        write_entry(json, key, is_first);
        is_first = false;
        write(json, value);
    }
    json.push("}");
}

/// Appends the key of an entry, with the separators before and after it.
pub(super) fn write_entry(json: &mut impl JsonSink, key: &str, is_first: bool) {
    if !is_first {
        json.push(",");
    }
    write_string(json, key);
    json.push(":");
}

/// Appends a JSON string. Only the characters that RFC 8259 requires are escaped: quotes, backslashes and control
/// characters below U+0020.
#[inline]
pub(crate) fn write_string(json: &mut impl JsonSink, text: &str) {
    if needs_escapes(text) {
        write_escaped(json, text);
    } else {
        json.push_quoted(text);
    }
}

#[cold]
fn write_escaped(json: &mut impl JsonSink, text: &str) {
    json.push(&serde_json::Value::from(text).to_string());
}

fn needs_escapes(text: &str) -> bool {
    let is_escaped = |byte| matches!(byte, b'"' | b'\\' | 0..0x20);
    text.bytes().any(is_escaped)
}

// === impl Value ===

impl Value {
    /// The value as compact JSON: keys in byte order, integers as integers, and only the necessary escapes.
    #[must_use]
    pub fn to_json(&self) -> String {
        let mut json = String::new();
        self.write_json(&mut json);
        json
    }

    /// Appends the output of [`to_json`](Self::to_json).
    pub fn write_json(&self, json: &mut String) {
        write_tree(json, self.node(), usize::MAX);
    }
}
