//! What a change of configurations does to workloads: what the planner decides about workloads that have applied the earlier
//! configurations. `restarts --since` and `uses` print it.

use std::collections::BTreeMap;

use rollplan_restart::{STATE, XING_STATE};
use rollplan_wire::proto::{
    self, PlanRestartsRequest, PlanRestartsResponse, RestartConditionEffect as Effect,
    RestartDecision, RestartOptions, RestartPlan, RestartProfile,
};
use serde_json::{Map, Value as Json, json};

use super::restart_objects::{
    InputObject, ObjectKey, as_workloads, id, namespace_of, other_kinds, plan_id,
    without_annotations,
};
use crate::cli::error::Error;

/// The annotations in which workloads record what they have applied.
const STATES: [&str; 2] = [STATE, XING_STATE];

/// The configurations before or after a change.
#[derive(Clone, Debug, Default)]
pub(super) struct Configurations {
    /// As Kubernetes JSON.
    pub(super) objects: Vec<Json>,
    /// As checksums, and those that do not exist.
    pub(super) summaries: Vec<proto::Configuration>,
}

/// Requests all pages of a plan.
pub(super) type Plan<'p> =
    dyn FnMut(PlanRestartsRequest) -> Result<PlanRestartsResponse, Error> + 'p;

/// What a change of configurations does to each workload.
#[derive(Debug)]
pub(super) struct Consequences {
    /// Workloads that the options select.
    selected: BTreeMap<ObjectKey, Planned>,
    /// All workloads, as if the options selected them with all their uses.
    all: BTreeMap<ObjectKey, Planned>,
}

/// The plan for a workload after the change.
#[derive(Debug)]
struct Planned {
    plan: RestartPlan,
    /// Required configurations and keys that were already missing before the change.
    was_missing: Vec<String>,
}

/// What the change does to a workload that uses what has changed.
#[derive(Debug, Default)]
pub(super) struct Consequence {
    pub(super) is_restarted: bool,
    /// The changes that restart it, or the conditions that prevent that. Empty if the workload does not react to the change.
    pub(super) reasons: Vec<String>,
    /// Whether the options select the workload.
    pub(super) is_selected: bool,
    /// Whether the workload reacts to changes of one of the configurations.
    pub(super) reacts: bool,
    /// The changed configurations that it uses, and how.
    pub(super) uses: Vec<proto::ConfigurationUse>,
}

// === impl Consequences ===

impl Consequences {
    /// Plans the change of the configurations for the workloads in the input of a request.
    pub(super) fn new(
        request: &PlanRestartsRequest,
        objects: &[InputObject],
        before: &Configurations,
        after: &Configurations,
        plan: &mut Plan<'_>,
    ) -> Result<Self, Error> {
        let workloads = objects.iter().map(|object| &object.json);
        let workloads = workloads.filter(|object| {
            !matches!(
                object["kind"].as_str(),
                Some(
                    "ConfigMap" | "Secret" | "SecretProviderClassPodStatus" | "Pod" | "ReplicaSet"
                )
            )
        });
        let of_all_kinds = as_workloads(objects).into_iter();
        let of_all_kinds = of_all_kinds.filter(|object| {
            !matches!(
                object["kind"].as_str(),
                Some("ConfigMap" | "Secret" | "SecretProviderClassPodStatus")
            )
        });
        let of_all_kinds: Vec<Json> = of_all_kinds.collect();
        let options = request.options.clone().unwrap_or_default();
        let immediate = RestartOptions {
            quiet: Some(prost_types::Duration::default()),
            max_wait: Some(prost_types::Duration::default()),
            min_interval: Some(prost_types::Duration::default()),
            include_unchanged: true,
            ..options
        };
        let every = of_all_workloads(immediate.clone());
        let now = request.now;
        let mut planned = |options, workloads: &[Json], before, after| {
            let request = PlanRestartsRequest {
                now,
                options: Some(options),
                ..PlanRestartsRequest::default()
            };
            planned(&request, workloads, before, after, plan)
        };
        let rolled_out: Vec<Json> = workloads.cloned().map(rolled_out).collect();
        let selected = planned(immediate, &rolled_out, before, after)?;
        let (before, after) = (before.without_annotations(), after.without_annotations());
        let all = planned(every, &without_annotations(of_all_kinds), &before, &after)?;
        Ok(Self { selected, all })
    }

    /// The workloads that the planner knows.
    pub(super) fn workloads(&self) -> impl Iterator<Item = &ObjectKey> {
        self.all.keys()
    }

    /// What the change does to a workload. `None` if the workload uses nothing that has changed.
    pub(super) fn of(&self, id: &ObjectKey) -> Option<Consequence> {
        let (selected, all) = (self.selected.get(id), self.all.get(id));
        let known = || [selected, all].into_iter().flatten();
        let mut missing = known().flat_map(Planned::missing);
        let is_missing = missing.any(|it| !known().any(|known| known.was_missing.contains(it)));
        let changes = || known().flat_map(|it| &it.plan.changes);
        let conditions = selected.into_iter().flat_map(|it| &it.plan.conditions);
        // Without pods, a change is only recorded.
        let is_recorded = conditions
            .into_iter()
            .any(|it| it.effect() == Effect::NotNeeded);
        if !is_missing && !is_recorded && changes().next().is_none() {
            return None;
        }
        let decision = selected.map(|it| it.plan.decision());
        let is_restarted = matches!(
            decision,
            Some(RestartDecision::Restart | RestartDecision::Wait)
        );
        let plan = selected.map(|it| &it.plan);
        let mut reasons: Vec<String> = match plan {
            Some(plan) if is_restarted => {
                plan.changes.iter().map(|it| it.message.clone()).collect()
            }
            _ => {
                let conditions = plan.into_iter().flat_map(|it| &it.conditions);
                let conditions = conditions.filter(|it| {
                    matches!(
                        it.effect(),
                        Effect::Holds | Effect::NotNeeded | Effect::Informs
                    )
                });
                conditions.map(|it| it.message.clone()).collect()
            }
        };
        reasons.sort_unstable();
        reasons.dedup();
        let has_changed = |used: &&proto::ConfigurationUse| {
            changes().any(|it| it.kind() == used.kind() && it.name == used.name)
        };
        let uses = all.into_iter().flat_map(|it| &it.plan.uses);
        let reacts = plan.is_some_and(|it| it.uses.iter().any(|it| has_changed(&it)));
        Some(Consequence {
            is_restarted,
            reasons,
            is_selected: selected.is_some(),
            reacts,
            uses: uses.filter(has_changed).cloned().collect(),
        })
    }

    /// The required configurations and keys without which new pods of a workload could not start.
    pub(super) fn missing(&self, id: &ObjectKey) -> Vec<String> {
        let known = self.all.get(id).into_iter();
        known.flat_map(Planned::missing).cloned().collect()
    }

    /// The workloads that use what has changed in a configuration: what `has_changed` says, or all of it for `None`.
    pub(super) fn users(
        &self,
        configuration: &ObjectKey,
        has_changed: Option<&dyn Fn(&proto::ConfigurationUse) -> bool>,
    ) -> Vec<&ObjectKey> {
        let (namespace, kind, name) = configuration;
        let kind = configuration_kind(kind);
        let is_changed = |it: &Planned| {
            let mut changes = it.plan.changes.iter();
            changes.any(|it| it.kind() == kind && it.name == *name)
        };
        // If pods cannot start, before the change or after it, the plan has no change.
        let uses = |planned: &Planned| {
            let mut uses = planned.plan.uses.iter();
            let can_start = planned.was_missing.is_empty() && planned.missing().next().is_none();
            uses.any(|it| {
                let is_it = it.kind() == kind && it.name == *name;
                is_it && has_changed.is_none_or(|has_changed| !can_start && has_changed(it))
            })
        };
        let users = self.all.iter().filter(|(id, all)| {
            let selected = self.selected.get(*id);
            id.0 == *namespace && (is_changed(all) || uses(all) || selected.is_some_and(is_changed))
        });
        users.map(|(id, _)| id).collect()
    }
}

// === impl Planned ===

impl Planned {
    fn missing(&self) -> impl Iterator<Item = &String> {
        let conditions = self.plan.conditions.iter();
        let missing = conditions.filter(|it| it.effect() == Effect::PreventsStart);
        missing.map(|it| &it.message)
    }
}

// === impl Configurations ===

impl Configurations {
    /// The same configurations without their annotations, which would decide which workloads react to them.
    fn without_annotations(&self) -> Self {
        let mut summaries = self.summaries.clone();
        for summary in &mut summaries {
            summary.annotations.clear();
        }
        Self {
            objects: without_annotations(self.objects.clone()),
            summaries,
        }
    }
}

/// Plans twice: the first plan records the earlier configurations.
fn planned(
    request: &PlanRestartsRequest,
    workloads: &[Json],
    before: &Configurations,
    after: &Configurations,
    plan: &mut Plan<'_>,
) -> Result<BTreeMap<ObjectKey, Planned>, Error> {
    let mut workloads: BTreeMap<ObjectKey, Json> = workloads
        .iter()
        .enumerate()
        .map(|(index, object)| (id(object), unrecorded(object.clone(), index)))
        .collect();
    let mut with = |workloads: &BTreeMap<ObjectKey, Json>, configurations: &Configurations| {
        let mut objects = configurations.objects.clone();
        for metadata in objects
            .iter_mut()
            .filter_map(|it| it["metadata"].as_object_mut())
        {
            in_namespace(metadata);
        }
        let items: Vec<&Json> = workloads.values().chain(&objects).collect();
        plan(PlanRestartsRequest {
            objects: vec![list(&items)],
            configurations: configurations.summaries.clone(),
            ..request.clone()
        })
    };
    let mut was_missing = BTreeMap::new();
    for plan in with(&workloads, before)?.plans {
        let id = plan_id(&plan);
        if let Some(object) = workloads.get_mut(&id) {
            record(object, &plan);
        }
        let planned = Planned {
            plan,
            was_missing: Vec::new(),
        };
        was_missing.insert(id, planned.missing().cloned().collect());
    }
    let plans = with(&workloads, after)?.plans.into_iter();
    let planned = plans.map(|plan| {
        let id = plan_id(&plan);
        let was_missing = was_missing.remove(&id).unwrap_or_default();
        (id, Planned { plan, was_missing })
    });
    Ok(planned.collect())
}

/// Options that select all workloads with all their uses.
pub(super) fn of_all_workloads(options: RestartOptions) -> RestartOptions {
    RestartOptions {
        profile: RestartProfile::Rollplan.into(),
        all_workloads: true,
        image_pull_secrets: true,
        restart_on: proto::RestartOn::All.into(),
        include_unchanged: true,
        kinds: other_kinds(),
        ..options
    }
}

/// A List of objects.
pub(super) fn list<T: serde::Serialize>(items: &[T]) -> String {
    json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string()
}

/// The workload without a recorded state, and with a UID: no steps are planned for manifests.
fn unrecorded(mut object: Json, index: usize) -> Json {
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.insert("uid".to_owned(), json!(index.to_string()));
        in_namespace(metadata);
        if let Some(annotations) = metadata
            .get_mut("annotations")
            .and_then(Json::as_object_mut)
        {
            annotations.retain(|key, _| !STATES.contains(&key.as_str()));
        }
    }
    object
}

/// The workload after its rollout: all pods that it asks for exist.
fn rolled_out(mut object: Json) -> Json {
    if object.get("spec").is_none() {
        return object;
    }
    let number = |pointer| object.pointer(pointer).and_then(Json::as_i64);
    let replicas = number("/spec/replicas").unwrap_or(1);
    let partition = number("/spec/updateStrategy/rollingUpdate/partition").unwrap_or(0);
    object["status"] = json!({
        "observedGeneration": 1, "replicas": replicas, "readyReplicas": replicas, "availableReplicas": replicas,
        "updatedReplicas": if object["kind"] == "StatefulSet" { replicas.saturating_sub(partition).max(0) } else { replicas },
        "desiredNumberScheduled": 1, "updatedNumberScheduled": 1, "numberAvailable": 1,
    });
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.insert("generation".to_owned(), json!(1));
    }
    object
}

/// Sets the annotations in which a plan records the configuration.
fn record(object: &mut Json, plan: &RestartPlan) {
    let calls = plan.steps.iter().filter_map(|step| step.call.as_ref());
    let bodies = calls.filter_map(|call| serde_json::from_str::<Json>(&call.body_json).ok());
    let mut recorded = Map::new();
    for operation in bodies.flat_map(|body| body.as_array().cloned().unwrap_or_default()) {
        let path = operation["path"].as_str().unwrap_or_default();
        let Some(key) = path.strip_prefix("/metadata/annotations") else {
            continue;
        };
        match (key.strip_prefix('/'), &operation["value"]) {
            (Some(key), Json::String(value)) => {
                let key = key.replace("~1", "/").replace("~0", "~");
                recorded.insert(key, json!(value));
            }
            (None, Json::Object(first)) => recorded.extend(first.clone()),
            _ => {}
        }
    }
    recorded.retain(|key, _| STATES.contains(&key.as_str()));
    let Some(metadata) = object["metadata"].as_object_mut() else {
        return;
    };
    let annotations = metadata.entry("annotations").or_insert_with(|| json!({}));
    if !annotations.is_object() {
        *annotations = json!({});
    }
    if let Some(annotations) = annotations.as_object_mut() {
        annotations.extend(recorded);
    }
}

/// A UID requires a namespace, which manifests may omit.
fn in_namespace(metadata: &mut Map<String, Json>) {
    let namespace = metadata.get("namespace").and_then(Json::as_str);
    let namespace = namespace_of(namespace.unwrap_or_default());
    metadata.insert("namespace".to_owned(), json!(namespace));
}

pub(super) fn configuration_kind(kind: &str) -> proto::ConfigurationKind {
    match kind {
        "Secret" => proto::ConfigurationKind::Secret,
        "SecretProviderClass" => proto::ConfigurationKind::SecretProviderClass,
        _ => proto::ConfigurationKind::ConfigMap,
    }
}
