//! Builders of snapshots, with defaults for everything that a test does not set, and of objects as JSON ([`json`]).
//!
//! The Deployment is `web` in `default`, and its pods run the image `v1`. ReplicaSets are named after their image, and are
//! in the state after a complete rollout until a test changes a field.

#![expect(clippy::unwrap_used, reason = "a builder that fails fails its test")]

pub mod json;
pub mod page;
pub mod patch;
pub mod random;
#[cfg(feature = "yaml")]
pub mod yaml;

use std::sync::Arc;

use rollplan_core::action::apply;
use rollplan_core::plan_settled;
use rollplan_core::revision::{DESIRED_REPLICAS, MAX_REPLICAS, POD_TEMPLATE_HASH, REVISION};
use rollplan_core::selector::LabelSelector;
use rollplan_core::size::IntOrPercent;
use rollplan_core::snapshot::{
    Condition, Deployment, DeploymentSpec, DeploymentStatus, ObjectMeta, Options, OwnerReference,
    Pod, PodCondition, ReplicaSet, ReplicaSetStatus, Snapshot, Strategy, StringMap,
};
use rollplan_core::template::{Template, Value};
use rollplan_core::time::Time;

/// 2026-01-15T12:00:00Z, the current time of the tests.
pub const NOW_SECONDS: i64 = 1_768_478_400;

/// The current time.
pub fn now() -> Time {
    at(0)
}

/// The time `seconds` after [`now`], or before it if negative.
pub fn at(seconds: i64) -> Time {
    Time::new(NOW_SECONDS + seconds, 0).unwrap()
}

/// A map of strings.
pub fn strings<const N: usize>(entries: [(&str, &str); N]) -> StringMap {
    entries
        .into_iter()
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect()
}

/// A pod template that runs an image; templates of different images differ.
pub fn mk_template(image: &str) -> Value {
    let container = Value::from([("image", image), ("name", "main")]);
    Value::from([
        (
            "metadata",
            Value::from([("labels", Value::from([("app", "web")]))]),
        ),
        (
            "spec",
            Value::from([("containers", Value::from(vec![container]))]),
        ),
    ])
}

/// A rolling update with limits in pods.
pub fn rolling(max_surge: i32, max_unavailable: i32) -> Strategy {
    Strategy::RollingUpdate {
        max_surge: IntOrPercent::Int(max_surge),
        max_unavailable: IntOrPercent::Int(max_unavailable),
    }
}

/// The Deployment `web` with the image `v1` and the defaults of the Kubernetes API. No controller has observed it.
pub fn mk_deployment(replicas: i32) -> Deployment {
    Deployment {
        api_version: "apps/v1".to_owned(),
        kind: "Deployment".to_owned(),
        metadata: ObjectMeta {
            name: "web".to_owned(),
            namespace: "default".to_owned(),
            uid: "web-uid".to_owned(),
            resource_version: "100".to_owned(),
            generation: 1,
            creation_timestamp: Some(at(-7200)),
            ..ObjectMeta::default()
        },
        spec: DeploymentSpec {
            replicas,
            selector: LabelSelector {
                match_labels: strings([("app", "web")]),
                match_expressions: Vec::new(),
            },
            template: Template::from(mk_template("v1")),
            strategy: Strategy::RollingUpdate {
                max_surge: IntOrPercent::DEFAULT,
                max_unavailable: IntOrPercent::DEFAULT,
            },
            min_ready_seconds: 0,
            revision_history_limit: 10,
            paused: false,
            progress_deadline_seconds: 600,
        },
        status: DeploymentStatus::default(),
    }
}

/// The owner reference to a controller, whose UID is `<name>-uid`.
pub fn mk_controller(api_version: &str, kind: &str, name: &str) -> OwnerReference {
    OwnerReference {
        api_version: api_version.to_owned(),
        kind: kind.to_owned(),
        name: name.to_owned(),
        uid: format!("{name}-uid"),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}

/// The owner reference of a ReplicaSet to its Deployment.
pub fn mk_owner(deployment: &Deployment) -> OwnerReference {
    OwnerReference {
        uid: deployment.metadata.uid.clone(),
        ..mk_controller(
            &deployment.api_version,
            &deployment.kind,
            &deployment.metadata.name,
        )
    }
}

/// A ReplicaSet `web-<image>` of a Deployment, with `replicas` available pods and annotations for the current size of the
/// Deployment. A higher revision is younger.
pub fn mk_set(deployment: &Deployment, image: &str, revision: i64, replicas: i32) -> ReplicaSet {
    let name = format!("web-{image}");
    let limits = rollplan_core::strategy::of(deployment).limits(deployment.spec.replicas);
    let max_total = limits.max_total();
    let mut template = mk_template(image);
    set_label(&mut template, POD_TEMPLATE_HASH, image);
    ReplicaSet {
        metadata: ObjectMeta {
            namespace: deployment.metadata.namespace.clone(),
            uid: format!("{name}-uid"),
            name,
            resource_version: "10".to_owned(),
            generation: 1,
            creation_timestamp: Some(at(-3600 + revision * 60)),
            labels: strings([("app", "web"), (POD_TEMPLATE_HASH, image)]),
            annotations: strings([
                (REVISION, &revision.to_string()),
                (DESIRED_REPLICAS, &deployment.spec.replicas.to_string()),
                (MAX_REPLICAS, &max_total.to_string()),
            ]),
            owner_references: vec![mk_owner(deployment)],
            ..ObjectMeta::default()
        },
        replicas,
        min_ready_seconds: deployment.spec.min_ready_seconds,
        template: Template::from(template),
        status: mk_set_status(replicas, replicas),
        available_max: ReplicaSet::UNTOUCHED,
    }
}

/// The status of a ReplicaSet with `replicas` pods, `available` of which are ready and available.
pub fn mk_set_status(replicas: i32, available: i32) -> ReplicaSetStatus {
    ReplicaSetStatus {
        replicas,
        ready_replicas: available,
        available_replicas: available,
        terminating_replicas: Some(0),
        observed_generation: 1,
        conditions: Vec::new(),
    }
}

/// A pod of a ReplicaSet in a phase.
pub fn mk_pod(set: &ReplicaSet, name: &str, phase: &str) -> Pod {
    Pod {
        metadata: ObjectMeta {
            name: name.to_owned(),
            namespace: set.metadata.namespace.clone(),
            uid: format!("{name}-uid"),
            labels: set.metadata.labels.clone(),
            owner_references: vec![OwnerReference {
                uid: set.metadata.uid.clone(),
                ..mk_controller("apps/v1", "ReplicaSet", &set.metadata.name)
            }],
            ..ObjectMeta::default()
        },
        phase: phase.to_owned(),
        ..Pod::default()
    }
}

/// A condition that last changed and was last updated at one time.
pub fn mk_condition(kind: &str, status: &str, reason: &str, since: Time) -> Condition {
    Condition {
        kind: kind.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message: format!("{reason} since {since}"),
        last_update_time: Some(since),
        last_transition_time: Some(since),
    }
}

/// A condition of a pod.
pub fn mk_pod_condition(kind: &str, status: &str, reason: &str, since: Time) -> PodCondition {
    PodCondition {
        kind: kind.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message: String::new(),
        last_transition_time: Some(since),
    }
}

/// A snapshot of a Deployment and its ReplicaSets, without pods, complete.
pub fn mk_snapshot(deployment: Deployment, replica_sets: Vec<ReplicaSet>) -> Snapshot {
    Snapshot {
        now: now(),
        deployment,
        replica_sets,
        pods: Arc::new([]),
        replica_sets_complete: true,
        pods_complete: true,
        failures: Vec::new(),
        events: Arc::new([]),
        surroundings: Arc::default(),
    }
}

/// Gives all templates the defaults that the API server stores.
pub fn store_defaults(snapshot: &mut Snapshot) {
    let sets = snapshot.replica_sets.iter_mut();
    let templates = sets.map(|set| &mut set.template);
    for template in templates.chain([&mut snapshot.deployment.spec.template]) {
        *template = Template::from(template.defaulted().clone());
    }
}

/// Carries out plans until nothing is left to do. Pods do not change meanwhile.
pub fn settle(snapshot: &mut Snapshot) {
    loop {
        let steps = plan_settled(snapshot, Options::default()).steps;
        let actions: Vec<_> = steps.into_iter().filter_map(|it| it.action).collect();
        if actions.is_empty() {
            return;
        }
        actions.iter().for_each(|action| apply(snapshot, action));
    }
}

/// Adds a label to a template.
pub fn set_label(template: &mut Value, key: &str, value: &str) {
    let metadata = template.as_map_mut().unwrap().get_mut("metadata").unwrap();
    let labels = metadata.as_map_mut().unwrap().get_mut("labels").unwrap();
    labels
        .as_map_mut()
        .unwrap()
        .insert(key.to_owned(), value.into());
}
