//! Reads fields of Kubernetes JSON whose syntax was found valid, leniently: what has another type counts as absent.

use std::collections::BTreeMap;

use rollplan_core::template::{Number, Value, parse_time};
use rollplan_core::time::Time;
use serde_json::Value as Json;

/// The strings of a map.
pub(super) fn strings(json: &Json) -> BTreeMap<String, String> {
    let entries = json.as_object().into_iter().flatten();
    entries
        .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
        .collect()
}

/// A string. Empty if it is absent.
pub(super) fn text<'a>(json: &'a Json, pointer: &str) -> &'a str {
    json.pointer(pointer)
        .and_then(Json::as_str)
        .unwrap_or_default()
}

/// An integer.
pub(super) fn integer(json: &Json, pointer: &str) -> Option<i64> {
    json.pointer(pointer).and_then(Json::as_i64)
}

/// A time.
pub(super) fn time(json: &Json, pointer: &str) -> Option<Time> {
    parse_time(text(json, pointer))
}

/// The same value for the planner.
pub(super) fn value(json: &Json) -> Value {
    match json {
        Json::Null => Value::Null,
        Json::Bool(value) => Value::Bool(*value),
        Json::Number(number) => Value::Number(match number.as_i64() {
            Some(integer) => Number::from(integer),
            None => Number::from(number.as_f64().unwrap_or_default()),
        }),
        Json::String(text) => Value::from(text.as_str()),
        Json::Array(items) => Value::List(items.iter().map(value).collect()),
        Json::Object(entries) => {
            let entries = entries.iter().map(|(key, it)| (key.clone(), value(it)));
            Value::Map(entries.collect())
        }
    }
}
