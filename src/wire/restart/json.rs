//! Reads the fields of values. Those of unexpected types count as absent.

use std::collections::BTreeMap;
use std::mem;

use rollplan_core::template::{Value, parse_time};
use rollplan_core::time::Time;

/// The value at a path of keys, for example "/state/running". `None` if it is absent or null.
pub(super) fn at<'a>(value: &'a Value, path: &str) -> Option<&'a Value> {
    let mut keys = path.split('/').skip(1);
    let value = keys.try_fold(value, |value, key| value.get(key));
    value.filter(|value| !value.is_null())
}

/// Takes the value at a path of keys out of the maps that contain it. Null if it is absent.
pub(super) fn take(value: &mut Value, path: &str) -> Value {
    let mut keys = path.split('/').skip(1);
    let value = keys.try_fold(value, |value, key| value.as_map_mut()?.get_mut(key));
    value.map_or(Value::Null, mem::take)
}

/// The items of a list.
pub(super) fn items<'a>(value: &'a Value, path: &str) -> &'a [Value] {
    at(value, path).and_then(Value::as_list).unwrap_or_default()
}

/// The strings of a map.
pub(super) fn strings(value: &Value, path: &str) -> BTreeMap<String, String> {
    let entries = at(value, path).and_then(Value::as_map);
    let entries = entries.into_iter().flatten();
    entries
        .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
        .collect()
}

/// A string. Empty if it is absent.
pub(super) fn text<'a>(value: &'a Value, path: &str) -> &'a str {
    at(value, path).and_then(Value::as_str).unwrap_or_default()
}

/// An integer.
pub(super) fn integer(value: &Value, path: &str) -> Option<i64> {
    at(value, path)?.as_number()?.as_i64()
}

/// A time.
pub(super) fn time(value: &Value, path: &str) -> Option<Time> {
    parse_time(text(value, path))
}
