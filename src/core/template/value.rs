//! JSON values, for decoded templates and for the bodies of API calls.

use std::collections::BTreeMap;
use std::fmt;

/// A JSON value. Maps are ordered by key, so equal values always have the same JSON text.
///
/// Cloning and dropping a value recurse to its full depth, so code that builds a value from untrusted input must limit
/// the depth. (The `wire` layer limits it to [`MAX_DEPTH`](super::MAX_DEPTH).)
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Value {
    /// `null`.
    #[default]
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number.
    Number(Number),
    /// A string.
    String(String),
    /// An array.
    List(Vec<Value>),
    /// An object.
    Map(BTreeMap<String, Value>),
}

/// A JSON number: an exact integer, or the exact bits of a float.
///
/// The order is total, for use in maps and sets. It is not the numerical order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Number(Repr);

/// Every number has exactly one representation, so the derived equality is correct.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Repr {
    Integer(i64),
    /// The bits of a float that is not an integer within ±[`Number::MAX_SAFE`].
    Float(u64),
}

// === impl Value ===

impl Value {
    /// An empty map.
    #[must_use]
    pub fn map() -> Self {
        Self::Map(BTreeMap::new())
    }

    /// The value of a key, if this is a map that contains it.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.as_map()?.get(key)
    }

    /// The value at a path of keys, if every value on the way is a map.
    #[must_use]
    pub fn at(&self, path: &[&str]) -> Option<&Value> {
        path.iter().try_fold(self, |value, key| value.get(key))
    }

    /// Whether this is `null`.
    #[must_use]
    pub fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }

    /// The number, if this is one.
    #[must_use]
    pub fn as_number(&self) -> Option<Number> {
        match self {
            Self::Number(number) => Some(*number),
            _ => None,
        }
    }

    /// The string, if this is one.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::String(text) => Some(text),
            _ => None,
        }
    }

    /// The items, if this is a list.
    #[must_use]
    pub fn as_list(&self) -> Option<&[Value]> {
        match self {
            Self::List(items) => Some(items),
            _ => None,
        }
    }

    /// The entries, if this is a map.
    #[must_use]
    pub fn as_map(&self) -> Option<&BTreeMap<String, Value>> {
        match self {
            Self::Map(entries) => Some(entries),
            _ => None,
        }
    }

    /// The entries for modification, if this is a map.
    #[must_use]
    pub fn as_map_mut(&mut self) -> Option<&mut BTreeMap<String, Value>> {
        match self {
            Self::Map(entries) => Some(entries),
            _ => None,
        }
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<i32> for Value {
    fn from(value: i32) -> Self {
        Self::Number(Number::from(i64::from(value)))
    }
}

impl From<i64> for Value {
    fn from(value: i64) -> Self {
        Self::Number(Number::from(value))
    }
}

impl From<Number> for Value {
    fn from(value: Number) -> Self {
        Self::Number(value)
    }
}

impl From<&str> for Value {
    fn from(value: &str) -> Self {
        Self::String(value.to_owned())
    }
}

impl From<String> for Value {
    fn from(value: String) -> Self {
        Self::String(value)
    }
}

impl From<Vec<Value>> for Value {
    fn from(value: Vec<Value>) -> Self {
        Self::List(value)
    }
}

/// Recurses to the depth of the JSON, which its parser limits.
impl From<&serde_json::Value> for Value {
    fn from(json: &serde_json::Value) -> Self {
        match json {
            serde_json::Value::Null => Self::Null,
            serde_json::Value::Bool(value) => Self::Bool(*value),
            serde_json::Value::Number(number) => match (number.as_i64(), number.as_f64()) {
                (Some(integer), _) => Self::from(integer),
                (None, Some(float)) => Self::from(Number::from(float)),
                (None, None) => Self::Null,
            },
            serde_json::Value::String(text) => Self::from(text.as_str()),
            serde_json::Value::Array(items) => Self::List(items.iter().map(Self::from).collect()),
            serde_json::Value::Object(entries) => {
                let entries = entries.iter();
                Self::Map(entries.map(|(key, it)| (key.clone(), it.into())).collect())
            }
        }
    }
}

impl<K: Into<String>, V: Into<Value>, const N: usize> From<[(K, V); N]> for Value {
    fn from(entries: [(K, V); N]) -> Self {
        Self::Map(
            entries
                .into_iter()
                .map(|(key, value)| (key.into(), value.into()))
                .collect(),
        )
    }
}

// === impl Number ===

impl Number {
    /// 2^53 − 1: up to this value a float, which is how protobuf encodes JSON numbers, represents every integer exactly.
    pub const MAX_SAFE: i64 = (1 << 53) - 1;

    /// The integer, if it is one.
    #[must_use]
    pub fn as_i64(self) -> Option<i64> {
        match self.0 {
            Repr::Integer(value) => Some(value),
            Repr::Float(_) => None,
        }
    }

    /// The nearest float.
    #[must_use]
    pub fn as_f64(self) -> f64 {
        match self.0 {
            Repr::Integer(value) => value as f64,
            Repr::Float(bits) => f64::from_bits(bits),
        }
    }
}

impl From<i64> for Number {
    /// Every integer is kept exactly. Beyond ±[`MAX_SAFE`](Number::MAX_SAFE) an integer is not equal to the float nearest
    /// to it; the `wire` layer rejects such integers.
    fn from(value: i64) -> Self {
        Self(Repr::Integer(value))
    }
}

impl From<f64> for Number {
    /// A float that is an integer within ±[`MAX_SAFE`](Number::MAX_SAFE) becomes that integer, and −0 becomes 0. Any other
    /// float is kept.
    fn from(value: f64) -> Self {
        if value.trunc() == value && value.abs() <= Self::MAX_SAFE as f64 {
            Self(Repr::Integer(value as i64))
        } else {
            Self(Repr::Float(value.to_bits()))
        }
    }
}

impl fmt::Display for Number {
    /// Formats the number as JSON. Infinity and NaN, which JSON does not have, become `null`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Repr::Integer(value) => write!(f, "{value}"),
            Repr::Float(bits) => {
                let value = f64::from_bits(bits);
                if !value.is_finite() {
                    f.write_str("null")
                } else if (1e-6..1e21).contains(&value.abs()) {
                    write!(f, "{value}")
                } else {
                    write!(f, "{value:e}")
                }
            }
        }
    }
}

impl fmt::Debug for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
