//! Checksums of configurations: one for each key, and those of the xing controller and Reloader, bit for bit.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha1::Sha1;
use sha2::{Digest as _, Sha256};

use rollplan_core::reference::ConfigurationKind;

use super::configuration::Content;
use super::options::Profile;

/// The data of a ConfigMap or Secret, with the strings of its JSON.
#[derive(Clone, Copy, Debug)]
pub struct Data<'a> {
    /// `data`. Values of Secrets are in base64.
    pub data: Option<&'a BTreeMap<String, String>>,
    /// `binaryData` of a ConfigMap, in base64.
    pub binary_data: Option<&'a BTreeMap<String, String>>,
}

/// A value that is not base64. The error does not contain the value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}[{key:?}] is not base64")]
pub struct DataError {
    /// The field, for example "data".
    pub field: &'static str,
    /// The key in it.
    pub key: String,
}

/// Computes checksums, with HMAC if it has a key.
#[derive(Clone, Default)]
pub struct Hasher {
    key: Option<Hmac<Sha256>>,
}

// === impl Hasher ===

impl Hasher {
    /// With an empty key, checksums are plain hashes: anyone who may read the workloads can then verify guesses of secret
    /// values.
    #[must_use]
    pub fn new(key: &[u8]) -> Self {
        let key = (!key.is_empty()).then(|| Hmac::new_from_slice(key).ok());
        Self { key: key.flatten() }
    }

    /// The checksums of a configuration.
    ///
    /// # Errors
    ///
    /// [`DataError`] for values that must be base64 and are not.
    pub fn content(
        &self,
        kind: ConfigurationKind,
        profile: Profile,
        data: Data<'_>,
    ) -> Result<Content, DataError> {
        let decode = |field, key: &str, text: &str| {
            // Go's decoder ignores line breaks.
            let text = text.replace(['\r', '\n'], "");
            STANDARD.decode(text).map_err(|_| DataError {
                field,
                key: key.to_owned(),
            })
        };
        let is_secret = kind == ConfigurationKind::Secret;
        let mut keys = BTreeMap::new();
        let mut entries = Vec::new();
        for (key, text) in data.data.into_iter().flatten() {
            let value = if is_secret {
                decode("data", key, text)?
            } else {
                text.clone().into_bytes()
            };
            keys.insert(key.clone(), self.hex(&value));
            entries.push([key.as_bytes(), b"=", &value].concat());
        }
        for (key, text) in data.binary_data.into_iter().flatten() {
            let value = decode("binaryData", key, text)?;
            keys.insert(key.clone(), self.hex(&value));
            let text = STANDARD.encode(value);
            entries.push([key.as_bytes(), b"=", text.as_bytes()].concat());
        }
        let whole = match profile {
            Profile::Rollplan => String::new(),
            Profile::Xing => self.xing(data.data),
            Profile::Reloader => self.reloader(entries),
        };
        Ok(Content::Present {
            keys: Some(keys),
            binary: data
                .binary_data
                .into_iter()
                .flatten()
                .map(|(key, _)| key.clone())
                .collect(),
            whole,
        })
    }

    /// The checksums of a SecretProviderClass, from the versions of its objects by ID.
    #[must_use]
    pub fn class(
        &self,
        name: &str,
        profile: Profile,
        versions: &BTreeMap<String, String>,
    ) -> Content {
        let keys = versions
            .iter()
            .map(|(id, version)| (id.clone(), self.hex(version.as_bytes())));
        let mut entries: Vec<_> = versions
            .iter()
            .map(|(id, version)| format!("{id}={version}").into_bytes())
            .collect();
        entries.push(format!("SecretProviderClassName={name}").into_bytes());
        let whole = match profile {
            Profile::Reloader => self.reloader(entries),
            Profile::Rollplan | Profile::Xing => String::new(),
        };
        Content::Present {
            keys: Some(keys.collect()),
            binary: BTreeSet::new(),
            whole,
        }
    }

    /// SHA-256, or HMAC-SHA-256, in hexadecimal.
    #[must_use]
    pub fn hex(&self, bytes: &[u8]) -> String {
        match &self.key {
            None => hex(&Sha256::digest(bytes)),
            Some(key) => {
                let mut mac = key.clone();
                mac.update(bytes);
                hex(&mac.finalize().into_bytes())
            }
        }
    }

    /// The checksum of the xing controller: the first 8 bytes of the SHA-256 of `.data`, as JSON written by Go.
    fn xing(&self, data: Option<&BTreeMap<String, String>>) -> String {
        let mut json = String::new();
        match data {
            None => json.push_str("null"),
            Some(data) => {
                json.push('{');
                for (index, (key, value)) in data.iter().enumerate() {
                    if index > 0 {
                        json.push(',');
                    }
                    write_go_string(&mut json, key);
                    json.push(':');
                    write_go_string(&mut json, value);
                }
                json.push('}');
            }
        }
        let mut checksum = self.hex(json.as_bytes());
        checksum.truncate(16);
        checksum
    }

    /// The checksum of Reloader: the SHA-1 of all entries. With a key, an HMAC of the same length.
    fn reloader(&self, mut entries: Vec<Vec<u8>>) -> String {
        entries.sort_unstable();
        let all = entries.join(&b';');
        match self.key {
            None => hex(&Sha1::digest(&all)),
            Some(_) => {
                let mut checksum = self.hex(&all);
                checksum.truncate(40);
                checksum
            }
        }
    }
}

/// A short digest of checksums. It needs no key, because the checksums have one.
pub(super) fn digest<'a>(parts: impl IntoIterator<Item = &'a str>) -> String {
    let mut hasher = Sha256::new();
    for part in parts {
        hasher.update(part.as_bytes());
        hasher.update([0]);
    }
    hex(&hasher.finalize()[..8])
}

fn hex(bytes: &[u8]) -> String {
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits
        .map(|digit| char::from(b"0123456789abcdef"[usize::from(digit)]))
        .collect()
}

/// Appends a JSON string as Go's `encoding/json` wrote it in 2018.
fn write_go_string(json: &mut String, text: &str) {
    json.push('"');
    for char in text.chars() {
        match char {
            '"' => json.push_str("\\\""),
            '\\' => json.push_str("\\\\"),
            '\n' => json.push_str("\\n"),
            '\r' => json.push_str("\\r"),
            '\t' => json.push_str("\\t"),
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' | '\0'..' ' => {
                _ = write!(json, "\\u{:04x}", u32::from(char));
            }
            char => json.push(char),
        }
    }
    json.push('"');
}
