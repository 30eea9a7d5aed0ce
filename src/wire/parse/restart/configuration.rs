//! Parses the configurations of a request for restarts, given as checksums.

use std::collections::{BTreeMap, BTreeSet};

use rollplan_core::snapshot::{ConfigurationKeys, Existence};
use rollplan_restart::{Configuration, ConfigurationKind, Content};

use crate::error::Reason;
use crate::parse::Parser;
use crate::parse::path::Path;
use crate::proto;

/// The minimum number of digits in the checksum of a key.
const CHECKSUM_DIGITS_MIN: usize = 16;

impl Parser<'_> {
    pub(super) fn configuration_kind(
        &mut self,
        kind: i32,
        path: &Path<'_>,
    ) -> Option<ConfigurationKind> {
        match proto::ConfigurationKind::try_from(kind) {
            Ok(proto::ConfigurationKind::ConfigMap) => Some(ConfigurationKind::ConfigMap),
            Ok(proto::ConfigurationKind::Secret) => Some(ConfigurationKind::Secret),
            Ok(proto::ConfigurationKind::SecretProviderClass) => {
                Some(ConfigurationKind::SecretProviderClass)
            }
            Ok(proto::ConfigurationKind::Unspecified) => {
                self.violation(&path.field("kind"), Reason::Required, "is required");
                None
            }
            Err(_) => {
                self.unknown::<()>("kind", kind, path);
                None
            }
        }
    }

    /// Reads a ConfigMap or Secret that the caller has looked up. `None` after a violation.
    pub(crate) fn looked_up(
        &mut self,
        message: proto::LookedUpConfiguration,
        path: &Path<'_>,
    ) -> Option<((ConfigurationKind, String), Existence)> {
        let proto::LookedUpConfiguration {
            kind,
            name,
            absent,
            keys,
            binary_keys,
            keys_unknown,
        } = message;
        let kind = self.configuration_kind(kind, path)?;
        if kind == ConfigurationKind::SecretProviderClass {
            let description = "must be a ConfigMap or a Secret";
            self.violation(&path.field("kind"), Reason::OutOfRange, description);
        }
        let name = self.name(name, &path.field("name"));
        let has_keys = !keys.is_empty() || !binary_keys.is_empty();
        let existence = match (absent, keys_unknown) {
            (true, false) if !has_keys => Existence::Absent,
            (false, true) if !has_keys => Existence::Present,
            (false, false) => Existence::WithKeys(ConfigurationKeys {
                data: keys.into_iter().collect(),
                binary: binary_keys.into_iter().collect(),
            }),
            _ => {
                let field = if absent { "absent" } else { "keys_unknown" };
                let description = "may not be set together with keys";
                self.violation(&path.field(field), Reason::Exclusive, description);
                return None;
            }
        };
        Some(((kind, name), existence))
    }

    pub(super) fn configuration(
        &mut self,
        message: proto::Configuration,
        path: &Path<'_>,
    ) -> Option<Configuration> {
        let proto::Configuration {
            kind,
            namespace,
            name,
            annotations,
            key_checksums,
            checksum,
            absent,
            changed_at,
            observations,
            created_at,
            change_uncertain,
            resource_version,
            binary_keys,
        } = message;
        let kind = self.configuration_kind(kind, path);
        let namespace = self.text(namespace, &path.field("namespace"));
        let namespace = self.namespace(namespace, &path.field("namespace"));
        let name = self.name(name, &path.field("name"));
        self.annotations(&annotations, &path.field("annotations"));
        let checksums_path = path.field("key_checksums");
        for (key, checksum) in &key_checksums {
            if checksum.len() < CHECKSUM_DIGITS_MIN || !is_hexadecimal(checksum) {
                let description = "must be at least 16 lower-case hexadecimal digits";
                self.violation(&checksums_path.key(key), Reason::OutOfRange, description);
            }
        }
        let checksum_path = path.field("checksum");
        if !is_hexadecimal(&checksum) {
            let description = "must be lower-case hexadecimal digits";
            self.violation(&checksum_path, Reason::OutOfRange, description);
        }
        let content = match (absent, key_checksums.is_empty(), checksum.is_empty()) {
            (true, true, true) => Content::Absent,
            (true, ..) => {
                let description = "may not be set together with checksums";
                self.violation(&path.field("absent"), Reason::Exclusive, description);
                Content::Absent
            }
            // Only an empty configuration has neither.
            (false, true, true) => Content::Present {
                keys: Some(BTreeMap::new()),
                binary: BTreeSet::new(),
                whole: String::new(),
            },
            (false, is_whole, _) => Content::Present {
                keys: (!is_whole).then_some(key_checksums),
                binary: binary_keys.into_iter().collect(),
                whole: checksum,
            },
        };
        let observations = self.count(observations, &path.field("observations"));
        let changed_at = self.optional_time(changed_at, &path.field("changed_at"));
        let created_at = self.optional_time(created_at, &path.field("created_at"));
        Some(Configuration {
            kind: kind?,
            namespace,
            name,
            annotations,
            content,
            created_at,
            changed_at,
            is_change_uncertain: change_uncertain,
            version: Some(resource_version).filter(|it| *it > 0),
            observations: u32::try_from(observations).unwrap_or_default(),
        })
    }
}

fn is_hexadecimal(text: &str) -> bool {
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    text.bytes().all(is_digit)
}
