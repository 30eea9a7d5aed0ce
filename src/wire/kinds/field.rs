//! Reads the fields of an object individually. Other fields are not examined.

use std::cell::RefCell;
use std::fmt;

use rollplan_core::size::IntOrPercent;
use rollplan_core::template::{Value, parse_time};
use rollplan_core::time::Time;

use crate::wire::error::{Reason, Violations};
use crate::wire::origin::Origin;

/// The errors in the fields that were read.
#[derive(Debug)]
pub(super) struct Faults {
    origin: Origin,
    violations: RefCell<Violations>,
    /// Whether a value of an unexpected type counts as absent, because the fields of an unknown kind have no expected
    /// types.
    is_lenient: bool,
}

/// A field of an object, which may be absent.
#[derive(Clone, Debug)]
pub(super) struct Field<'v, 'f> {
    value: Option<&'v Value>,
    /// The path within the object, for example ".spec.replicas".
    path: String,
    faults: &'f Faults,
}

// === impl Faults ===

impl Faults {
    pub(super) fn new(origin: Origin, is_lenient: bool) -> Self {
        Self {
            origin,
            violations: RefCell::default(),
            is_lenient,
        }
    }

    pub(super) fn into_violations(self) -> Violations {
        self.violations.into_inner()
    }

    /// A top-level field of the object.
    pub(super) fn field<'v>(&self, name: &str, value: &'v Value) -> Field<'v, '_> {
        Field {
            value: Some(value).filter(|value| !value.is_null()),
            path: format!(".{name}"),
            faults: self,
        }
    }
}

// === impl Field ===

impl<'v, 'f> Field<'v, 'f> {
    fn wrong(&self, reason: Reason, description: impl fmt::Display) {
        if !self.faults.is_lenient {
            let origin = &self.faults.origin;
            let field = format_args!("{origin}{}", self.path);
            let description = format_args!("{description} ({})", origin.object);
            let mut violations = self.faults.violations.borrow_mut();
            violations.add(field, reason, description);
        }
    }

    fn wrong_type<T>(&self, description: &str) -> Option<T> {
        self.wrong(Reason::WrongType, description);
        None
    }

    fn inside(&self, path: String, value: Option<&'v Value>) -> Self {
        Self {
            value: value.filter(|value| !value.is_null()),
            path,
            faults: self.faults,
        }
    }

    pub(super) fn is_present(&self) -> bool {
        self.value.is_some()
    }

    /// A nested field. This field must be an object.
    pub(super) fn get(&self, name: &str) -> Self {
        let path = format!("{}.{name}", self.path);
        if self.value.is_some_and(|value| value.as_map().is_none()) {
            self.wrong(Reason::WrongType, "must be an object");
        }
        self.inside(path, self.value.and_then(|value| value.get(name)))
    }

    /// Whether this is an object without fields, or none.
    pub(super) fn is_empty(&self) -> bool {
        let entries = self.value.and_then(Value::as_map);
        entries.is_none_or(|entries| entries.is_empty())
    }

    pub(super) fn list(&self) -> Vec<Self> {
        let Some(value) = self.value else {
            return Vec::new();
        };
        let Some(items) = value.as_list() else {
            return self.wrong_type("must be a list").unwrap_or_default();
        };
        let items = items.iter().enumerate();
        items
            .map(|(index, item)| self.inside(format!("{}[{index}]", self.path), Some(item)))
            .collect()
    }

    /// The path within the object, for example "spec.replicas".
    pub(super) fn path(&self) -> &str {
        self.path.trim_start_matches('.')
    }

    /// The nested fields of an object. Empty for any other value.
    pub(super) fn entries(&self) -> Vec<(&'v str, Self)> {
        let entries = self.value.and_then(Value::as_map);
        let entries = entries.into_iter().flatten();
        entries
            .map(|(name, value)| {
                let path = format!("{}.{name}", self.path);
                (name.as_str(), self.inside(path, Some(value)))
            })
            .collect()
    }

    fn as_str(&self) -> Option<&'v str> {
        self.value.and_then(Value::as_str)
    }

    fn as_i64(&self) -> Option<i64> {
        self.value?.as_number()?.as_i64()
    }

    pub(super) fn text(&self) -> String {
        match (self.value, self.as_str()) {
            (Some(_), None) => self.wrong_type("must be a string").unwrap_or_default(),
            (_, text) => text.unwrap_or_default().to_owned(),
        }
    }

    pub(super) fn is_true(&self) -> bool {
        match self.value {
            Some(Value::Bool(value)) => *value,
            None => false,
            Some(_) => self.wrong_type("must be true or false").unwrap_or_default(),
        }
    }

    /// An integer, which may be negative.
    pub(super) fn integer(&self) -> Option<i64> {
        self.value?;
        self.as_i64()
            .or_else(|| self.wrong_type("must be an integer of 64 bits, without a fraction"))
    }

    /// An integer, also as a string. `None` for other values.
    pub(super) fn number(&self) -> Option<i64> {
        self.as_i64().or_else(|| self.as_str()?.parse().ok())
    }

    /// A string, number or truth value as text. `None` for other and empty values.
    pub(super) fn scalar(&self) -> Option<String> {
        let text = match self.value? {
            Value::String(text) => text.clone(),
            Value::Number(number) => number.to_string(),
            Value::Bool(value) => value.to_string(),
            _ => return None,
        };
        (!text.is_empty()).then_some(text)
    }

    /// A number of pods or seconds.
    pub(super) fn count(&self) -> Option<i32> {
        let integer = self.integer()?;
        match i32::try_from(integer) {
            Ok(count) if count >= 0 => Some(count),
            Ok(_) => {
                let description = format_args!("is {integer}, and may not be negative");
                self.wrong(Reason::Negative, description);
                None
            }
            Err(_) => {
                let description =
                    format_args!("is {integer}, and must be between 0 and {}", i32::MAX);
                self.wrong(Reason::OutOfRange, description);
                None
            }
        }
    }

    pub(super) fn time(&self) -> Option<Time> {
        self.value?;
        let time = self.as_str().and_then(parse_time);
        time.or_else(|| {
            self.wrong_type("must be a time of RFC 3339, for example \"2026-01-31T12:00:00Z\"")
        })
    }

    pub(super) fn int_or_percent(&self) -> Option<IntOrPercent> {
        self.value?;
        let read = match self.as_str() {
            Some(percent) => percent
                .strip_suffix('%')
                .and_then(IntOrPercent::from_percent),
            None => self
                .as_i64()
                .and_then(|number| number.try_into().ok())
                .filter(|number| *number >= 0)
                .map(IntOrPercent::Int),
        };
        read.or_else(|| {
            let description =
                "must be a whole number that is not negative, or a percentage, for example \"25%\"";
            self.wrong(Reason::NotIntOrPercent, description);
            None
        })
    }

    /// The whole value.
    pub(super) fn value(&self) -> Option<Value> {
        self.value.cloned()
    }
}
