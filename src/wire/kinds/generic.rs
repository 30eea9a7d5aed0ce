//! Reads the objects of kinds without a view of their own. Their row in the table of kinds names the fields, so that
//! these are values: a value of an unexpected type counts as absent, because the fields of an unknown kind have no
//! expected types.

use rollplan_core::kind::group;
use rollplan_core::template::{Value, parse_time};
use rollplan_health::kinds::table::{self, Key, KindRow, Nested, OWN_NAMESPACE};
use rollplan_health::kinds::{Condition, Fields, Item, ObjectSnapshot, View};

use super::views;
use crate::read::{kubernetes, objects};

/// The maximum number of errors and nested conditions that are read.
const DETAILS_MAX: usize = 16;
/// The depth to which the status is searched for them.
const DEPTH_MAX: usize = 4;
/// Fields that contain errors, as texts or as objects with a text.
const ERRORS: [&str; 6] = [
    "error",
    "errors",
    "errorMessage",
    "failureMessage",
    "lastError",
    "validationErrors",
];
/// The fields of an error with its text.
const ERROR_TEXTS: [&str; 3] = ["message", "errorMessage", "error"];

objects! {
    /// An object of any kind.
    struct AnyObject {
        metadata: kubernetes::ObjectMeta = "metadata",
        spec: Value = "spec",
        status: Value = "status",
        /// Of an Application of Argo CD.
        operation: Value = "operation",
    }
}

pub(super) fn object(
    object: AnyObject,
    base: ObjectSnapshot,
    has_status_subresource: Option<bool>,
) -> ObjectSnapshot {
    let row = table::rule(group(&base.api_version), &base.kind);
    let namespace = &base.metadata.namespace;
    let fields = fields(row, namespace, &object, has_status_subresource);
    let AnyObject {
        metadata, status, ..
    } = object;
    ObjectSnapshot {
        metadata: views::metadata(base.metadata, metadata),
        // Some controllers write a string.
        observed_generation: status.get("observedGeneration").and_then(number),
        conditions: conditions(&status),
        view: View::Other(fields),
        ..base
    }
}

/// The fields that a row reads.
fn fields(
    row: &KindRow,
    namespace: &str,
    object: &AnyObject,
    has_status_subresource: Option<bool>,
) -> Fields {
    let AnyObject {
        spec,
        status,
        operation,
        ..
    } = object;
    let at = |path: &str| match path.split_once('.') {
        Some(("spec", path)) => values(spec, path),
        Some(("status", path)) => values(status, path),
        _ => Vec::new(),
    };
    let text = |path| Some((path, scalar(at(path).first()?)?));
    let numbers = |path| {
        let numbers: Vec<i64> = at(path).into_iter().filter_map(number).collect();
        let sum = numbers
            .iter()
            .fold(0_i64, |sum, it| sum.saturating_add(*it));
        (!numbers.is_empty()).then_some((path, sum))
    };
    let list = |path: &str| at(path).first().map(|it| items(it)).unwrap_or_default();
    let nested = |nested: Nested| -> Vec<Item> {
        let items = list(nested.path).iter().map(|item| Item {
            key: match nested.reference {
                "" => key(item, nested.key, namespace),
                reference => {
                    let item = item.get(reference).unwrap_or(&Value::Null);
                    key(item, nested.key, namespace)
                }
            },
            conditions: conditions(item),
        });
        items.collect()
    };
    let wanted = |nested: Nested| -> Vec<Vec<String>> {
        let items = list(nested.wanted).iter();
        items.map(|item| key(item, nested.key, namespace)).collect()
    };
    let is_requested = |field: &&str| *field == "operation" && !operation.is_null();
    let mut details = Details::default();
    details.collect(status, "status", row.nested, 0);
    Fields {
        has_status: status.as_map().is_some_and(|fields| !fields.is_empty()),
        has_status_subresource,
        texts: row.texts().filter_map(text).collect(),
        requests: row.requests.iter().copied().filter(is_requested).collect(),
        numbers: row.numbers().filter_map(numbers).collect(),
        nested: row.nested.map(nested).unwrap_or_default(),
        wanted: row.nested.map(wanted).unwrap_or_default(),
        errors: details.errors,
        inner_conditions: details.conditions,
    }
}

/// The values that identify an item, after defaulting.
fn key(item: &Value, fields: &[Key], namespace: &str) -> Vec<String> {
    let value = |key: &Key| {
        let field = item.get(key.field).filter(|field| !field.is_null());
        let text = field.and_then(scalar).unwrap_or_default();
        match (key.default, key.alias) {
            (OWN_NAMESPACE, _) if text.is_empty() => namespace.to_owned(),
            (default, _) if field.is_none() => default.to_owned(),
            (_, Some((alias, name))) if alias == text => name.to_owned(),
            _ => text,
        }
    };
    fields.iter().map(value).collect()
}

/// What a status reports apart from the conditions that are judged.
#[derive(Default)]
struct Details {
    errors: Vec<String>,
    conditions: Vec<(String, Condition)>,
}

impl Details {
    /// `path` is that of the value, for example `status.nodes[0]`.
    fn collect(&mut self, value: &Value, path: &str, nested: Option<Nested>, depth: usize) {
        let is_judged = nested.is_some_and(|nested| nested.path == path);
        if depth > DEPTH_MAX || is_judged {
            return;
        }
        // The conditions of the object itself are judged.
        if depth > 0 {
            let conditions = conditions(value).into_iter();
            self.conditions
                .extend(conditions.map(|condition| (path.to_owned(), condition)));
        }
        for (index, item) in items(value).iter().enumerate() {
            self.collect(item, &format!("{path}[{index}]"), nested, depth + 1);
        }
        for (name, value) in value.as_map().into_iter().flatten() {
            if ERRORS.contains(&name.as_str()) {
                self.errors.extend(errors(value));
            } else if name != "conditions" {
                self.collect(value, &format!("{path}.{name}"), nested, depth + 1);
            }
        }
        self.errors.truncate(DETAILS_MAX);
        self.conditions.truncate(DETAILS_MAX);
    }
}

/// The texts of a field that contains an error, or a list of them.
fn errors(value: &Value) -> Vec<String> {
    let items = match items(value) {
        [] => std::slice::from_ref(value),
        items => items,
    };
    let first = |item: &Value| {
        let own = item.as_str().unwrap_or_default().to_owned();
        let fields = ERROR_TEXTS.iter().map(|name| text(item, name));
        let mut texts = std::iter::once(own).chain(fields);
        texts.find(|text| !text.is_empty())
    };
    items.iter().filter_map(first).collect()
}

/// The conditions with a type.
fn conditions(value: &Value) -> Vec<Condition> {
    let conditions = value.get("conditions").map(items).unwrap_or_default();
    let conditions = conditions.iter().map(|condition| {
        let time = condition.get("lastTransitionTime").and_then(Value::as_str);
        Condition {
            kind: text(condition, "type"),
            status: text(condition, "status"),
            reason: text(condition, "reason"),
            message: text(condition, "message"),
            observed_generation: condition.get("observedGeneration").and_then(number),
            last_transition_time: time.and_then(parse_time),
        }
    });
    let conditions = conditions.filter(|condition| !condition.kind.is_empty());
    conditions.collect()
}

/// The values at a path such as "health.status". With "[]" after the name of a list, those in each of its items.
fn values<'v>(root: &'v Value, path: &str) -> Vec<&'v Value> {
    let mut found = vec![root];
    for name in path.split('.') {
        found = match name.strip_suffix("[]") {
            Some(name) => {
                let lists = found.iter().filter_map(|it| it.get(name));
                lists.flat_map(items).collect()
            }
            None => found.iter().filter_map(|it| it.get(name)).collect(),
        };
    }
    found
}

/// The items of a list. Empty for any other value.
fn items(value: &Value) -> &[Value] {
    value.as_list().unwrap_or_default()
}

/// A field that is a string. Empty for any other value.
fn text(value: &Value, field: &str) -> String {
    let text = value.get(field).and_then(Value::as_str);
    text.unwrap_or_default().to_owned()
}

/// An integer, also as a string.
fn number(value: &Value) -> Option<i64> {
    match value {
        Value::Number(number) => number.as_i64(),
        value => value.as_str()?.parse().ok(),
    }
}

/// A string, number or truth value as text. `None` for other and empty values.
fn scalar(value: &Value) -> Option<String> {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        Value::Bool(value) => value.to_string(),
        _ => return None,
    };
    (!text.is_empty()).then_some(text)
}
