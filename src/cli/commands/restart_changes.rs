//! `rollplan restarts --since`: what a change of manifests does to the pods of workloads.

use std::collections::{BTreeMap, BTreeSet};

use rollplan_text::{
    ConfigurationChange, ManifestChanges, ObjectName, WorkloadChange, WorkloadResult,
};
use rollplan_wire::proto;
use serde_json::{Value as Json, json};

use super::restart_consequences::{Configurations, Consequence, Consequences, configuration_kind};
use super::restart_entries::{Entries, Entry, entries};
use super::restart_objects::{
    InputObject, ObjectKey, changed_fields, id, is_other_kind, pod_template, template,
};
use super::restart_refusals::{Refusals, is_recreated};

/// The maximum number of changed fields of a template that are listed.
const FIELDS_LISTED_MAX: usize = 3;

/// The workloads, ConfigMaps and Secrets of manifests.
#[derive(Debug, Default)]
pub(super) struct Manifests(BTreeMap<ObjectKey, Json>);

// === impl Manifests ===

impl Manifests {
    pub(super) fn new(objects: &[InputObject]) -> Self {
        let objects = objects.iter().map(|object| &object.json);
        let objects = objects.map(|object| (id(object), object.clone()));
        let objects = objects.filter(|(id, it)| is_configuration(id) || pod_template(it).is_some());
        Self(objects.collect())
    }

    fn configurations(&self) -> BTreeMap<&ObjectKey, Entries> {
        let all = self.0.iter().filter(|(id, _)| is_configuration(id));
        all.map(|(id, object)| (id, entries(object))).collect()
    }
}

/// The configurations of manifests before and after a change. One that only one side has does not exist on the other.
pub(super) fn sides(old: &Manifests, new: &Manifests) -> [Configurations; 2] {
    let side = |this: &Manifests, other: &Manifests| {
        let own = this.0.iter().filter(|(id, _)| is_configuration(id));
        let own = own.map(|(_, object)| object.clone());
        let absent = other.0.keys().filter(|id| is_configuration(id));
        let absent = absent.filter(|id| !this.0.contains_key(*id));
        Configurations {
            objects: own.collect(),
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

/// The changed configurations, and what happens to the workloads. `accepted` are the new manifests with the earlier ones of
/// objects whose changes are refused. `reason` explains why a workload does not react to a change that it reads.
pub(super) fn changes(
    [old, new, accepted]: [&Manifests; 3],
    refusals: &Refusals,
    consequences: &Consequences,
    reason: &dyn Fn(&ObjectKey, &Consequence) -> String,
) -> ManifestChanges {
    let known: BTreeSet<&ObjectKey> = consequences.workloads().collect();
    let workload = |id: &ObjectKey, result, reasons| WorkloadChange {
        workload: name(id),
        result,
        reasons,
        missing: consequences.missing(id),
        refusal: refusals.of(id),
    };
    let removed = old
        .0
        .keys()
        .filter(|id| !is_configuration(id) && !new.0.contains_key(*id));
    let removed = removed.map(|id| workload(id, WorkloadResult::Removed, Vec::new()));
    let workloads = known.iter().filter_map(|id| {
        let Some(before) = old.0.get(*id).and_then(template) else {
            return Some(workload(id, WorkloadResult::Added, Vec::new()));
        };
        let object = accepted.0.get(*id)?;
        let fields = changed_fields([before, template(object)?]);
        if !fields.is_empty() {
            let (result, note) = replaced(id, object);
            let notes = [listed(&fields)].into_iter().chain(note);
            return Some(workload(id, result, notes.collect()));
        }
        let Some(mut consequence) = consequences.of(id) else {
            let kept = workload(id, WorkloadResult::NotRestarted, Vec::new());
            return (!kept.refusal.is_empty()).then_some(kept);
        };
        if consequence.reasons.is_empty() && consequences.missing(id).is_empty() {
            consequence.reasons = vec![reason(id, &consequence)];
        }
        let result = if consequence.is_restarted {
            WorkloadResult::Restarted
        } else {
            WorkloadResult::NotRestarted
        };
        Some(workload(id, result, consequence.reasons))
    });
    let mut workloads: Vec<WorkloadChange> = workloads.chain(removed).collect();
    workloads.sort_by_cached_key(|it| it.workload.to_string());
    ManifestChanges {
        workloads,
        configurations: configurations(old, new, refusals, consequences),
        notes: Vec::new(),
    }
}

fn name((namespace, kind, name): &ObjectKey) -> ObjectName {
    ObjectName {
        namespace: namespace.clone(),
        kind: kind.clone(),
        name: name.clone(),
    }
}

/// The first fields of a list.
fn listed(fields: &[String]) -> String {
    match fields.split_at_checked(FIELDS_LISTED_MAX) {
        Some((first, more)) if !more.is_empty() => {
            format!("{} and {} more fields", first.join(", "), more.len())
        }
        _ => fields.join(", "),
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
        "Pod" => {
            "the API server refuses most changes of a pod, and a new image restarts only its container: delete the pod and create \
             it again"
        }
        "ReplicaSet" | "ReplicationController" => {
            "it replaces no pods: delete them, so that it creates new ones"
        }
        kind if is_other_kind(kind) => {
            let note = "rollplan does not know the update strategy of this kind".to_owned();
            return (WorkloadResult::Replaced, Some(note));
        }
        "CronJob" => "the next Job starts with the new template",
        "Job" if is_recreated(object) => return (WorkloadResult::Replaced, None),
        "Job" => {
            "the API server accepts the change only while the Job is suspended and has never started"
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
    refusals: &Refusals,
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
        let has_changed = |used: &proto::ConfigurationUse| {
            let is_variable = |it: proto::ReferenceUsage| {
                matches!(
                    it,
                    proto::ReferenceUsage::Env | proto::ReferenceUsage::EnvFrom
                )
            };
            let has_variables = used.usages().any(is_variable);
            let has_files = !used.usages().all(is_variable);
            let variable =
                |it: Option<&Entry>| it.filter(|it| !it.is_binary).map(|it| it.value.clone());
            let file = |it: Option<&Entry>| it.map(|it| it.value.clone());
            keys.iter().any(|key| {
                let (was, is) = (was.get(key), is.get(key));
                (used.keys.is_empty() || used.keys.contains(key))
                    && (has_variables && variable(was) != variable(is)
                        || has_files && file(was) != file(is))
            })
        };
        let what = match (before, after) {
            (None, _) => "added",
            (_, None) => "removed",
            _ => "changed",
        };
        let refusal = refusals.of(id);
        let is_whole = what != "changed" || !refusal.is_empty();
        if !is_whole && keys.is_empty() {
            return None;
        }
        let part: &dyn Fn(&proto::ConfigurationUse) -> bool = &has_changed;
        let users = consequences.users(id, (!is_whole).then_some(part));
        let users: Vec<ObjectName> = users.into_iter().map(name).collect();
        Some(ConfigurationChange {
            configuration: name(id),
            what,
            keys,
            users,
            refusal,
        })
    });
    changed.collect()
}
