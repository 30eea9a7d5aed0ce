//! `rollplan restarts --since`: which workloads a change of manifests restarts.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use serde_json::Value as Json;

use super::restart_objects::{ObjectKey, objects};
use crate::cli::error::Error;
use crate::cli::input::{self, Texts};
use crate::proto::{ConfigurationKind, ConfigurationUse, RestartPlan};
use crate::text::{self, ChangeEffect, ConfigurationChange, identity};

/// The entries of a configuration, by key.
type Entries = BTreeMap<String, Json>;

/// The ConfigMaps and Secrets in texts of Kubernetes JSON.
pub(super) fn configurations(texts: &[String]) -> BTreeMap<ObjectKey, Entries> {
    let mut found = BTreeMap::new();
    for object in objects(texts) {
        let string = |pointer| {
            object
                .pointer(pointer)
                .and_then(Json::as_str)
                .unwrap_or_default()
        };
        let kind = string("/kind");
        if !matches!(kind, "ConfigMap" | "Secret") {
            continue;
        }
        let id = (
            string("/metadata/namespace"),
            kind,
            string("/metadata/name"),
        );
        let id = (id.0.to_owned(), id.1.to_owned(), id.2.to_owned());
        let fields = ["data", "binaryData", "stringData"];
        let fields = fields.iter().filter_map(|field| object[*field].as_object());
        let entries = fields
            .flatten()
            .map(|(key, value)| (key.clone(), value.clone()));
        found.insert(id, entries.collect());
    }
    found
}

/// Reads the configurations of files and directories. A directory without manifests has none.
pub(super) fn earlier(files: &[std::path::PathBuf]) -> Result<BTreeMap<ObjectKey, Entries>, Error> {
    let files: Vec<_> = files
        .iter()
        .filter(|file| !is_empty_directory(file))
        .cloned()
        .collect();
    let sources = input::sources(&files)?;
    let texts = Texts::read(&sources)?;
    let texts: Vec<String> = texts.documents().map(|(_, json)| json.to_owned()).collect();
    Ok(configurations(&texts))
}

/// In the commit before the first manifest, the directory may be missing or empty.
fn is_empty_directory(file: &std::path::Path) -> bool {
    std::fs::read_dir(file).is_ok_and(|mut entries| entries.next().is_none())
}

/// The changed configurations with their effects. `all` are the plans of all workloads, and `selected` of those that react
/// to changes.
pub(super) fn changes(
    old: &BTreeMap<ObjectKey, Entries>,
    new: &BTreeMap<ObjectKey, Entries>,
    all: &[RestartPlan],
    selected: &[RestartPlan],
) -> Vec<ConfigurationChange> {
    let ids: BTreeSet<&ObjectKey> = old.keys().chain(new.keys()).collect();
    let changed = ids.into_iter().filter_map(|id| {
        let (before, after) = (old.get(id), new.get(id));
        let none = Entries::new();
        let (was, is) = (before.unwrap_or(&none), after.unwrap_or(&none));
        let keys: BTreeSet<&String> = was.keys().chain(is.keys()).collect();
        let keys: Vec<String> = keys
            .into_iter()
            .filter(|key| was.get(*key) != is.get(*key))
            .cloned()
            .collect();
        let what = match (before, after) {
            (None, _) => "added",
            (_, None) => "removed",
            _ if keys.is_empty() => return None,
            _ => "changed",
        };
        let (namespace, kind, name) = id;
        Some(ConfigurationChange {
            name: match namespace.as_str() {
                "" => format!("{kind} {name}"),
                namespace => format!("{kind} {namespace}/{name}"),
            },
            what,
            effects: effects(id, &keys, all, selected),
            keys,
        })
    });
    changed.collect()
}

/// The effects of changed keys of a configuration.
fn effects(
    (namespace, kind, name): &ObjectKey,
    changed: &[String],
    all: &[RestartPlan],
    selected: &[RestartPlan],
) -> Vec<ChangeEffect> {
    let kind = match kind.as_str() {
        "Secret" => ConfigurationKind::Secret,
        _ => ConfigurationKind::ConfigMap,
    };
    let (all, selected) = users(all, selected, &|plan, used| {
        let is_read = used.keys.is_empty() || used.keys.iter().any(|key| changed.contains(key));
        plan.namespace == *namespace && used.kind() == kind && used.name == *name && is_read
    });
    text::effects(&all, &selected)
}

/// The workloads of both lists with the given uses, and these only. A selected workload is also in the first list if only
/// one of its annotations names the configuration.
pub(super) fn users(
    all: &[RestartPlan],
    selected: &[RestartPlan],
    is_meant: &dyn Fn(&RestartPlan, &ConfigurationUse) -> bool,
) -> (Vec<RestartPlan>, Vec<RestartPlan>) {
    let with_uses = |plans: &[RestartPlan]| -> Vec<RestartPlan> {
        let is_user = |plan: &&RestartPlan| plan.uses.iter().any(|used| is_meant(plan, used));
        let mut plans: Vec<RestartPlan> = plans.iter().filter(is_user).cloned().collect();
        for plan in &mut plans {
            let mut uses = std::mem::take(&mut plan.uses);
            uses.retain(|used| is_meant(plan, used));
            plan.uses = uses;
        }
        plans
    };
    let (mut all, selected) = (with_uses(all), with_uses(selected));
    let found: HashSet<_> = all.iter().map(identity).collect();
    let named = selected.iter().filter(|it| !found.contains(&identity(it)));
    let named: Vec<_> = named.cloned().collect();
    all.extend(named);
    all.sort_by(|a, b| identity(a).cmp(&identity(b)));
    (all, selected)
}
