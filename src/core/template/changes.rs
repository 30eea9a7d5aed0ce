//! The differences between two templates, as people read them.

use std::collections::{BTreeMap, BTreeSet};

use super::canonical::{HASH_LABEL, MAX_DEPTH, field, strip_key};
use super::kind::Kind;
use super::same::same_trees;
use super::shape::TEMPLATE;
use super::stored::Template;
use super::tree::Tree as _;
use super::value::Value;
use crate::interrupt::Interrupt;

/// The maximum length in bytes of a path below which differences are listed one by one. There may be twenty thousand of
/// them, and each repeats the path, so a map with a key of a megabyte would take gigabytes.
const PATH_BYTES_MAX: usize = 512;

/// A difference between two templates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TemplateChange {
    /// The path, for example "spec.containers[name=app].image".
    pub path: String,
    /// The value in the first template, if there is one.
    pub from: Option<Value>,
    /// The value in the second template, if there is one.
    pub to: Option<Value>,
}

/// The differences between two templates in the order of their paths, after the API server has stored them. Templates that
/// Kubernetes considers equal have none: the [canonical](super::canonical()) forms with all defaults are compared, and
/// fields that these do not have are not shown. List items that have names are matched by them. Values of environment
/// variables may be secret and are not shown. After an interruption, differences are missing.
#[must_use]
pub fn template_changes(
    from: &Template,
    to: &Template,
    interrupt: &dyn Interrupt,
) -> Vec<TemplateChange> {
    let (from, to) = (from.defaulted(), to.defaulted());
    let mut changes = Changes {
        found: Vec::new(),
        interrupt,
    };
    let place = Place {
        kind: Some(&TEMPLATE),
        skip: HASH_LABEL,
        depth: 0,
        in_env: false,
    };
    if !place.is_same(from, to) {
        changes.collect("", place, from, to);
    }
    changes.found
}

/// The differences that were found so far.
struct Changes<'i> {
    found: Vec<TemplateChange>,
    interrupt: &'i dyn Interrupt,
}

/// What is known about a value from its position.
#[derive(Clone, Copy)]
struct Place {
    /// `None` below a field that Kubernetes does not know.
    kind: Option<&'static Kind>,
    /// The path to the hash label, which does not count.
    skip: &'static [&'static str],
    depth: usize,
    /// Whether it is part of an environment variable.
    in_env: bool,
}

// === impl Place ===

impl Place {
    /// The place of an entry of a map or a struct.
    fn of_key(self, key: &str) -> Self {
        let kind = match self.kind {
            Some(Kind::Struct(of)) => of.field(key).map(|field| &field.kind),
            Some(Kind::Map(of)) => Some(*of),
            _ => None,
        };
        Self {
            kind,
            skip: strip_key(self.skip, key).unwrap_or_default(),
            depth: self.depth + 1,
            in_env: self.in_env && key == "value" || key == "env",
        }
    }

    /// The place of an item of a list.
    fn of_item(self) -> Self {
        let kind = match self.kind {
            Some(Kind::List(of)) => Some(*of),
            _ => None,
        };
        Self {
            kind,
            skip: &[],
            depth: self.depth + 1,
            in_env: self.in_env,
        }
    }

    /// Whether Kubernetes considers two values equal.
    fn is_same(self, from: &Value, to: &Value) -> bool {
        match self.kind {
            Some(kind) => same_trees(kind, from, to, self.skip, self.depth),
            None => from == to,
        }
    }

    /// The value of an entry of a map or a struct, unless it counts as absent.
    fn entry<'v>(self, entries: &'v BTreeMap<String, Value>, key: &str) -> Option<&'v Value> {
        let value = entries.get(key)?;
        let counts = match self.kind {
            Some(Kind::Struct(of)) => {
                let mut form = String::new();
                field(of, key, value.node(), self.skip, self.depth, &mut form)
            }
            _ => strip_key(self.skip, key).is_none_or(|below| !below.is_empty()),
        };
        counts.then_some(value)
    }

    /// The value as it is shown: without fields that count as absent, and without the values of environment variables.
    fn shown(self, value: &Value) -> Value {
        match value {
            _ if self.depth > MAX_DEPTH => Value::Null,
            Value::Map(entries) => {
                let kept = entries.keys().filter_map(|key| {
                    let value = self.entry(entries, key)?;
                    Some((key.clone(), self.of_key(key).shown(value)))
                });
                Value::Map(kept.collect())
            }
            Value::List(items) => {
                let place = self.of_item();
                Value::List(items.iter().map(|item| place.shown(item)).collect())
            }
            _ if self.in_env => Value::from("(not shown)"),
            value => value.clone(),
        }
    }
}

// === impl Changes ===

impl Changes<'_> {
    /// Adds the differences between two values that are not the same.
    fn collect(&mut self, path: &str, place: Place, from: &Value, to: &Value) {
        if self.interrupt.is_interrupted() {
            return;
        }
        match (from, to) {
            _ if path.len() > PATH_BYTES_MAX => {}
            (Value::Map(from), Value::Map(to)) => {
                let keys: BTreeSet<&String> = from.keys().chain(to.keys()).collect();
                for key in keys {
                    let path = match path {
                        "" => key.clone(),
                        path => format!("{path}.{key}"),
                    };
                    let (from, to) = (place.entry(from, key), place.entry(to, key));
                    self.compare(&path, place.of_key(key), from, to);
                }
                return;
            }
            (Value::List(from), Value::List(to)) => {
                if let (Some(from), Some(to)) = (by_name(from), by_name(to)) {
                    let count = self.found.len();
                    let names: BTreeSet<&str> = from.keys().chain(to.keys()).copied().collect();
                    for name in names {
                        let path = format!("{path}[name={name}]");
                        let (from, to) = (from.get(name).copied(), to.get(name).copied());
                        self.compare(&path, place.of_item(), from, to);
                    }
                    // Otherwise, only the order differs, which makes another template as well.
                    if self.found.len() > count {
                        return;
                    }
                }
            }
            _ => {}
        }
        self.push(path, place, Some(from), Some(to));
    }

    /// Adds the differences between two values that may be absent or the same.
    fn compare(&mut self, path: &str, place: Place, from: Option<&Value>, to: Option<&Value>) {
        match (from, to) {
            (None, None) => {}
            (Some(from), Some(to)) if place.is_same(from, to) => {}
            (Some(from), Some(to)) => self.collect(path, place, from, to),
            (from, to) => self.push(path, place, from, to),
        }
    }

    fn push(&mut self, path: &str, place: Place, from: Option<&Value>, to: Option<&Value>) {
        self.found.push(TemplateChange {
            path: path.to_owned(),
            from: from.map(|value| place.shown(value)),
            to: to.map(|value| place.shown(value)),
        });
    }
}

/// The items by name, if all of them have one and the names are unique.
fn by_name(items: &[Value]) -> Option<BTreeMap<&str, &Value>> {
    let named = items
        .iter()
        .map(|item| Some((item.get("name")?.as_str()?, item)));
    let named: Option<BTreeMap<&str, &Value>> = named.collect();
    named.filter(|named| named.len() == items.len())
}
