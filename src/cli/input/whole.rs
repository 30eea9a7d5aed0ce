//! Whole objects, with the fields that no planner reads.

use std::collections::HashMap;

use serde_json::Value;

use super::source::Source;

/// The objects that kubectl printed, alone or in a list, by their UIDs.
pub(in crate::cli) fn whole(source: &Source) -> HashMap<String, Value> {
    let mut printed: Value = serde_json::from_str(&source.text).unwrap_or_default();
    let objects = match printed.get_mut("items").map(Value::take) {
        Some(Value::Array(items)) => items,
        _ => vec![printed],
    };
    let objects = objects.into_iter();
    objects
        .filter_map(|object| Some((object["metadata"]["uid"].as_str()?.to_owned(), object)))
        .collect()
}
