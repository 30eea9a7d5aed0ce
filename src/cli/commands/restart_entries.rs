//! The entries of ConfigMaps and Secrets.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value as Json, json};

/// The entries of a configuration, by key.
pub(super) type Entries = BTreeMap<String, Entry>;

/// An entry of a configuration.
#[derive(PartialEq, Eq)]
pub(super) struct Entry {
    /// Whether it is in `binaryData`, which variables do not read.
    pub(super) is_binary: bool,
    /// In base64.
    pub(super) value: Json,
}

/// Whether two configurations have the same entries.
pub(super) fn has_same_entries(a: &Json, b: &Json) -> bool {
    entries(a) == entries(b)
}

/// The entries as the API server stores them: it adds `stringData` of a Secret to its data.
pub(super) fn entries(object: &Json) -> Entries {
    let is_secret = object["kind"] == "Secret";
    let of = |field: &'static str, is_base64: bool| {
        let entries = object.get(field).and_then(Json::as_object);
        let entries = entries.into_iter().flatten();
        entries.map(move |(key, value)| {
            let value = match (value.as_str(), is_base64) {
                // Go's decoder ignores line breaks.
                (Some(text), true) => json!(text.replace(['\r', '\n'], "")),
                (Some(text), false) => json!(STANDARD.encode(text)),
                (None, _) => value.clone(),
            };
            let entry = Entry {
                is_binary: field == "binaryData",
                value,
            };
            (key.clone(), entry)
        })
    };
    let data = of("data", is_secret).chain(of("binaryData", true));
    if is_secret {
        data.chain(of("stringData", false)).collect()
    } else {
        data.collect()
    }
}
