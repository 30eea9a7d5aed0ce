//! Reads the fields of syntactically valid Kubernetes JSON. Values of unexpected types count as absent.

use std::collections::BTreeMap;

use rollplan_core::template::parse_time;
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
