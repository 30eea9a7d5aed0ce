//! `rollplan restarts --since`: what a change of manifests does to the pods of workloads.

use std::collections::{BTreeMap, BTreeSet};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rollplan_core::interrupt::Never;
use rollplan_core::template::{Value, template_changes};
use serde_json::{Value as Json, json};

use super::restart_consequences::{Configurations, Consequence, Consequences, configuration_kind};
use super::restart_objects::{ObjectKey, id, objects};
use crate::proto;
use crate::text::{ConfigurationChange, ManifestChanges, WorkloadChange, WorkloadResult};

/// The maximum number of changed fields of a template that are listed.
const FIELDS_LISTED_MAX: usize = 3;

/// The workloads, ConfigMaps and Secrets of manifests.
#[derive(Debug, Default)]
pub(super) struct Manifests(BTreeMap<ObjectKey, Json>);

/// The entries of a configuration, by key.
type Entries = BTreeMap<String, Json>;

// === impl Manifests ===

impl Manifests {
    /// The objects in texts of Kubernetes JSON.
    pub(super) fn new(texts: &[String]) -> Self {
        let objects = objects(texts).into_iter();
        Self(objects.map(|object| (id(&object), object)).collect())
    }

    fn configurations(&self) -> BTreeMap<&ObjectKey, Entries> {
        let all = self.0.iter().filter(|(id, _)| is_configuration(id));
        all.map(|(id, object)| (id, entries(object))).collect()
    }

    /// The pod template of a workload.
    fn template(&self, id: &ObjectKey) -> Option<Value> {
        let path = match id.1.as_str() {
            "CronJob" => "/spec/jobTemplate/spec/template",
            _ => "/spec/template",
        };
        self.0.get(id)?.pointer(path).map(Value::from)
    }
}

/// The configurations of manifests before and after a change. One that only one side has does not exist on the other.
pub(super) fn sides(old: &Manifests, new: &Manifests) -> [Configurations; 2] {
    let side = |this: &Manifests, other: &Manifests| {
        let own = this.0.iter().filter(|(id, _)| is_configuration(id));
        let absent = other.0.keys().filter(|id| is_configuration(id));
        let absent = absent.filter(|id| !this.0.contains_key(*id));
        Configurations {
            objects: own.map(|(_, object)| object.clone()).collect(),
            summaries: absent.map(absence).collect(),
        }
    };
    [side(old, new), side(new, old)]
}

fn absence((namespace, kind, name): &ObjectKey) -> proto::Configuration {
    proto::Configuration {
        kind: configuration_kind(kind).into(),
        namespace: namespace.clone(),
        name: name.clone(),
        absent: true,
        ..proto::Configuration::default()
    }
}

fn is_configuration(id: &ObjectKey) -> bool {
    matches!(id.1.as_str(), "ConfigMap" | "Secret")
}

/// The entries as the API server stores them: it adds `stringData` of a Secret to its data.
fn entries(object: &Json) -> Entries {
    let is_secret = object["kind"] == "Secret";
    let of = |field: &str, is_base64: bool| {
        let entries = object.get(field).and_then(Json::as_object);
        let entries = entries.into_iter().flatten();
        entries.map(move |(key, value)| {
            let value = match (value.as_str(), is_base64) {
                // Go's decoder ignores line breaks.
                (Some(text), true) => json!(text.replace(['\r', '\n'], "")),
                (Some(text), false) if is_secret => json!(STANDARD.encode(text)),
                _ => value.clone(),
            };
            (key.clone(), value)
        })
    };
    let data = of("data", is_secret).chain(of("binaryData", true));
    match is_secret {
        true => data.chain(of("stringData", false)).collect(),
        false => data.collect(),
    }
}

/// The changed configurations, and what happens to the workloads. `reason` explains why a workload does not react to a
/// change that it reads.
pub(super) fn changes(
    old: &Manifests,
    new: &Manifests,
    consequences: &Consequences,
    reason: &dyn Fn(&ObjectKey, &Consequence) -> String,
) -> ManifestChanges {
    let known: BTreeSet<&ObjectKey> = consequences.workloads().collect();
    let kinds = ["CronJob", "DaemonSet", "Deployment", "Job", "StatefulSet"];
    let removed = old
        .0
        .keys()
        .filter(|id| kinds.contains(&id.1.as_str()) && !new.0.contains_key(*id));
    let removed = removed.map(|id| workload(id, WorkloadResult::Removed, Vec::new()));
    let workloads = known.iter().filter_map(|id| {
        let Some(before) = old.template(id) else {
            return Some(workload(
                id,
                WorkloadResult::Added,
                consequences.missing(id),
            ));
        };
        let after = new.template(id)?;
        if let Some(fields) = difference(before, after) {
            let object = new.0.get(*id).unwrap_or(&Json::Null);
            let (result, note) = replaced(id, object);
            let notes = [fields].into_iter().chain(note);
            let notes = notes.chain(consequences.missing(id));
            return Some(workload(id, result, notes.collect()));
        }
        let mut consequence = consequences.of(id)?;
        if consequence.reasons.is_empty() {
            consequence.reasons = vec![reason(id, &consequence)];
        }
        let result = match consequence.is_restarted {
            true => WorkloadResult::Restarted,
            false => WorkloadResult::NotRestarted,
        };
        Some(workload(id, result, consequence.reasons))
    });
    let mut workloads: Vec<WorkloadChange> = workloads.chain(removed).collect();
    workloads.sort_by(|a, b| a.name.cmp(&b.name));
    ManifestChanges {
        workloads,
        configurations: configurations(old, new, consequences),
    }
}

fn workload(id: &ObjectKey, result: WorkloadResult, reasons: Vec<String>) -> WorkloadChange {
    WorkloadChange {
        name: name(id),
        result,
        reasons,
    }
}

/// For example "Deployment shop/web".
fn name((namespace, kind, name): &ObjectKey) -> String {
    format!("{kind} {namespace}/{name}")
}

/// The fields that differ. `None` if the templates are equal, as the planner compares them.
fn difference(before: Value, after: Value) -> Option<String> {
    let changes = template_changes(&before.into(), &after.into(), &Never);
    let mut paths: Vec<&str> = changes.iter().map(|it| it.path.as_str()).collect();
    let more = paths.len().saturating_sub(FIELDS_LISTED_MAX);
    paths.truncate(FIELDS_LISTED_MAX);
    match (paths.is_empty(), more) {
        (true, _) => None,
        (false, 0) => Some(paths.join(", ")),
        (false, more) => Some(format!("{} and {more} more fields", paths.join(", "))),
    }
}

/// What a new template does to the pods of a workload, and why not all of them are replaced.
fn replaced(id: &ObjectKey, object: &Json) -> (WorkloadResult, Option<String>) {
    let number = |pointer| object.pointer(pointer).and_then(Json::as_i64);
    let replicas = number("/spec/replicas").unwrap_or(1);
    let partition = number("/spec/updateStrategy/rollingUpdate/partition").unwrap_or(0);
    let is_on_delete = object.pointer("/spec/updateStrategy/type") == Some(&json!("OnDelete"));
    let is_paused = object.pointer("/spec/paused") == Some(&Json::Bool(true));
    let note = match id.1.as_str() {
        "CronJob" => "the next Job starts with the new template",
        "Job" => {
            "the API server refuses to change the template of a Job: delete the Job and create it again"
        }
        "DaemonSet" | "StatefulSet" if is_on_delete => {
            "the update strategy is OnDelete: delete the pods to replace them"
        }
        "Deployment" | "StatefulSet" if replicas == 0 => "there are no pods to replace",
        "Deployment" if is_paused => {
            "the rollout is paused: the pods are replaced when it is resumed"
        }
        "StatefulSet" if partition >= replicas => {
            "the partition of the update strategy includes all pods"
        }
        "StatefulSet" if partition > 0 => {
            let updated = replicas.saturating_sub(partition);
            let note =
                format!("only the last {updated} of {replicas} pods (partition {partition})");
            return (WorkloadResult::Replaced, Some(note));
        }
        _ => return (WorkloadResult::Replaced, None),
    };
    (WorkloadResult::NotRestarted, Some(note.to_owned()))
}

/// The configurations whose entries differ.
fn configurations(
    old: &Manifests,
    new: &Manifests,
    consequences: &Consequences,
) -> Vec<ConfigurationChange> {
    let (old, new) = (old.configurations(), new.configurations());
    let ids: BTreeSet<&ObjectKey> = old.keys().chain(new.keys()).copied().collect();
    let changed = ids.into_iter().filter_map(|id| {
        let (before, after) = (old.get(id), new.get(id));
        let none = Entries::new();
        let (was, is) = (before.unwrap_or(&none), after.unwrap_or(&none));
        let keys: BTreeSet<&String> = was.keys().chain(is.keys()).collect();
        let keys = keys.into_iter().filter(|key| was.get(*key) != is.get(*key));
        let keys: Vec<String> = keys.cloned().collect();
        let what = match (before, after) {
            (None, _) => "added",
            (_, None) => "removed",
            _ if keys.is_empty() => return None,
            _ => "changed",
        };
        Some(ConfigurationChange {
            name: name(id),
            what,
            keys,
            users: consequences
                .users(id, what == "changed")
                .into_iter()
                .map(name)
                .collect(),
        })
    });
    changed.collect()
}
