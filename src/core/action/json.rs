//! JSON for the bodies of API calls, which borrows its strings and copies templates from their bytes.

use std::borrow::Cow;
use std::fmt::Write as _;

use crate::snapshot::StringMap;
use crate::template::{Template, Value, write_list, write_map, write_string};

/// A JSON value that borrows its strings.
#[derive(Clone, Debug)]
pub(super) enum Json<'a> {
    Null,
    Bool(bool),
    Integer(i64),
    Text(Cow<'a, str>),
    List(Vec<Json<'a>>),
    /// Entries in any order, with unique keys.
    Object(Vec<(&'a str, Json<'a>)>),
    /// A pod template.
    Template(&'a Template),
    /// A decoded pod template.
    Value(&'a Value),
}

impl<'a> Json<'a> {
    /// A map of strings.
    pub(super) fn strings(map: &'a StringMap) -> Self {
        let entries = map.iter();
        Self::Object(
            entries
                .map(|(key, value)| (key.as_str(), value.as_str().into()))
                .collect(),
        )
    }

    /// Compact JSON with keys in byte order, as [`Value::to_json`] returns it.
    pub(super) fn into_text(mut self) -> String {
        // Most bodies are patches of a few fields.
        let mut text = String::with_capacity(512);
        self.write(&mut text);
        text
    }

    fn write(&mut self, text: &mut String) {
        match self {
            Self::Null => text.push_str("null"),
            Self::Bool(true) => text.push_str("true"),
            Self::Bool(false) => text.push_str("false"),
            // Writing to a String cannot fail.
            Self::Integer(number) => _ = write!(text, "{number}"),
            Self::Text(string) => write_string(text, string),
            Self::List(items) => write_list(text, items, |text, item| item.write(text)),
            Self::Object(entries) => {
                entries.sort_unstable_by_key(|(key, _)| *key);
                let entries = entries.iter_mut().map(|(key, value)| (*key, value));
                write_map(text, entries, |text, value| value.write(text));
            }
            Self::Template(template) => template.write_json(text),
            Self::Value(value) => value.write_json(text),
        }
    }
}

impl From<bool> for Json<'_> {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<i32> for Json<'_> {
    fn from(value: i32) -> Self {
        Self::Integer(value.into())
    }
}

impl From<i64> for Json<'_> {
    fn from(value: i64) -> Self {
        Self::Integer(value)
    }
}

impl<'a> From<&'a str> for Json<'a> {
    fn from(value: &'a str) -> Self {
        Self::Text(Cow::Borrowed(value))
    }
}

impl From<String> for Json<'_> {
    fn from(value: String) -> Self {
        Self::Text(Cow::Owned(value))
    }
}

impl<T: Into<Self>> From<Option<T>> for Json<'_> {
    /// `None` becomes `null`.
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}
