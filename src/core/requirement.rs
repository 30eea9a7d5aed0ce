//! The ConfigMaps and Secrets without which pods with a template do not start, and those of them that do not exist.

use std::collections::{BTreeMap, BTreeSet};

use crate::reference::{ConfigurationKind, Reference, Usage, references};
use crate::snapshot::{Existence, Surroundings};
use crate::template::{Value, images};

/// A ConfigMap or Secret without which pods with a template do not start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requirement {
    /// Its kind.
    pub kind: ConfigurationKind,
    /// Its name.
    pub name: String,
    /// The keys without which they do not start.
    pub keys: BTreeSet<String>,
    /// Those of `keys` that environment variables read, which do not read `binaryData`.
    variables: BTreeSet<String>,
}

/// What pods with a template require, ordered by kind and name.
#[must_use]
pub fn requirements(template: &Value) -> Vec<Requirement> {
    let mut found: BTreeMap<_, Requirement> = BTreeMap::new();
    for reference in references(template).into_iter().filter(is_required) {
        let Reference {
            kind,
            name,
            usage,
            required_keys,
            ..
        } = reference;
        let entry = found.entry((kind, name.clone()));
        let requirement = entry.or_insert_with(|| Requirement {
            kind,
            name,
            keys: BTreeSet::new(),
            variables: BTreeSet::new(),
        });
        if usage == Usage::Env {
            requirement.variables.extend(required_keys.iter().cloned());
        }
        requirement.keys.extend(required_keys);
    }
    found.into_values().collect()
}

/// Whether pods do not start without it. The kubelet waits for the volumes that containers mount
/// (volumemanager/volume_manager.go, `getExpectedVolumes`), and needs the credentials to mount them.
fn is_required(reference: &Reference) -> bool {
    let Reference {
        kind,
        usage,
        optional,
        container,
        ..
    } = reference;
    match usage {
        _ if *kind == ConfigurationKind::SecretProviderClass => false,
        Usage::VolumeAccess => true,
        Usage::Unmounted => !optional && container.is_some(),
        _ => !optional,
    }
}

/// Whether a configuration exists. `None` if this is not known.
fn existence<'a>(
    kind: ConfigurationKind,
    name: &str,
    surroundings: &'a Surroundings,
) -> Option<&'a Existence> {
    let looked_up = surroundings.looked_up.get(&(kind, name.to_owned()));
    looked_up.or_else(|| {
        let all = surroundings.configurations.get(&kind)?;
        Some(all.get(name).unwrap_or(&Existence::Absent))
    })
}

/// What required configurations and keys do not exist, as notes.
pub(crate) fn missing(required: &[Requirement], surroundings: &Surroundings) -> Vec<String> {
    let notes = required.iter().filter_map(|requirement| {
        let Requirement {
            kind,
            name,
            keys,
            variables,
        } = requirement;
        let present = match existence(*kind, name, surroundings) {
            None | Some(Existence::Present) => return None,
            Some(Existence::Absent) => {
                return Some(format!(
                    "{kind} {name} does not exist: pods with this template cannot start without it"
                ));
            }
            Some(Existence::WithKeys(present)) => present,
        };
        let is_missing = |key: &&String| {
            let is_file = !variables.contains(*key) && present.binary.contains(*key);
            !present.data.contains(*key) && !is_file
        };
        let missing: Vec<&str> = keys.iter().filter(is_missing).map(String::as_str).collect();
        let keys = if missing.len() == 1 { "key" } else { "keys" };
        let without = if missing.len() == 1 { "it" } else { "them" };
        (!missing.is_empty()).then(|| {
            format!(
                "{kind} {name} does not have the {keys} {}: pods with this template cannot start without {without}",
                missing.join(", ")
            )
        })
    });
    notes.collect()
}

/// What may have changed since pods with a template were started, as notes.
pub(crate) fn template_notes(template: &Value, surroundings: &Surroundings) -> Vec<String> {
    let used = references(template).into_iter().filter(|it| {
        it.kind != ConfigurationKind::SecretProviderClass
            && it.usage != Usage::ImagePull
            && existence(it.kind, &it.name, surroundings) != Some(&Existence::Absent)
    });
    let names: BTreeSet<(ConfigurationKind, String)> = used.map(|it| (it.kind, it.name)).collect();
    let contents = names
        .into_iter()
        .map(|(kind, name)| format!("{kind} {name} keeps its current content"));
    let mut notes: Vec<String> = contents.collect();
    for image in images(template) {
        if image.ends_with(":latest") || is_untagged(&image) {
            notes.push(format!(
                "image {image} may have been replaced in the registry"
            ));
        }
    }
    notes
}

fn is_untagged(image: &str) -> bool {
    let name = image.rsplit('/').next().unwrap_or(image);
    !name.contains([':', '@'])
}
