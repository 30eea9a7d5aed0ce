//! What a caller sees: a Deployment, its ReplicaSets and pods, and the time. Validated before it comes here:
//! counts and sizes are not negative, every ReplicaSet is of the Deployment's namespace, absent fields of the spec have
//! the defaults of the Kubernetes API. No other object of its kind has the uid or the name of a selected one: one that
//! the Deployment owns or may adopt, or a pod of such a ReplicaSet. ReplicaSets of others are here for their names alone,
//! and are not checked.

use std::sync::Arc;

pub use crate::object::{ObjectMeta, OwnerReference, StringMap};

use crate::call::ApiCall;
use crate::diagnosis::failure::judgement::Judgement;
use crate::selector::LabelSelector;
use crate::size::IntOrPercent;
use crate::template::Template;
use crate::time::Time;

/// Everything a plan is made from.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The time of the decision.
    pub now: Time,
    /// The Deployment, or the custom resource that acts as one.
    pub deployment: Deployment,
    /// ReplicaSets of its namespace; more than its own are fine.
    pub replica_sets: Vec<ReplicaSet>,
    /// Whether `replica_sets` holds every ReplicaSet of the Deployment. Nothing is planned or counted otherwise.
    pub replica_sets_complete: bool,
    /// Pods; more than its own are fine. Shared, for a look-ahead copies the rest.
    pub pods: Arc<[Pod]>,
    /// Whether `pods` holds every pod of the ReplicaSets.
    pub pods_complete: bool,
    /// What was refused when the last plan was carried out.
    pub failures: Vec<StepFailure>,
    /// Events about the Deployment, its ReplicaSets and their pods, as far as the caller has read them.
    pub events: Arc<[ObservedEvent]>,
}

/// The object that is rolled out.
#[derive(Clone, Debug)]
pub struct Deployment {
    /// Group and version, "apps/v1" for Kubernetes' own.
    pub api_version: String,
    /// Kind, "Deployment" for Kubernetes' own.
    pub kind: String,
    /// Metadata.
    pub metadata: ObjectMeta,
    /// What is wanted.
    pub spec: DeploymentSpec,
    /// What was published last.
    pub status: DeploymentStatus,
}

impl Deployment {
    /// Whether this is Kubernetes' own Deployment rather than a custom resource.
    #[must_use]
    pub fn is_native(&self) -> bool {
        self.api_version == "apps/v1" && self.kind == "Deployment"
    }
}

/// What is wanted of a Deployment.
#[derive(Clone, Debug)]
pub struct DeploymentSpec {
    /// Wanted pods, zero or more.
    pub replicas: i32,
    /// Which ReplicaSets belong to it.
    pub selector: LabelSelector,
    /// The pods to run.
    pub template: Template,
    /// How old pods are replaced.
    pub strategy: Strategy,
    /// Seconds a pod must be ready before it counts as available.
    pub min_ready_seconds: i32,
    /// Old ReplicaSets to keep; `i32::MAX` keeps all.
    pub revision_history_limit: i32,
    /// Whether rollouts are held.
    pub paused: bool,
    /// Seconds without progress after which a rollout counts as failed; `i32::MAX` for no deadline.
    pub progress_deadline_seconds: i32,
}

/// How old pods are replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// Step by step, within limits.
    RollingUpdate {
        /// Pods that may exist above the wanted number.
        max_surge: IntOrPercent,
        /// Pods that may be unavailable.
        max_unavailable: IntOrPercent,
    },
    /// All old pods end before the first new one starts.
    Recreate,
}

/// What was last published about a Deployment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeploymentStatus {
    /// Generation that the status speaks of.
    pub observed_generation: i64,
    /// Pods that are not terminating.
    pub replicas: i32,
    /// Of these, pods of the current template.
    pub updated_replicas: i32,
    /// Of these, ready pods.
    pub ready_replicas: i32,
    /// Of these, available pods.
    pub available_replicas: i32,
    /// Pods wanted by the ReplicaSets and not available.
    pub unavailable_replicas: i32,
    /// Terminating pods, where every ReplicaSet reports them.
    pub terminating_replicas: Option<i32>,
    /// How often the name of a new ReplicaSet collided.
    pub collision_count: Option<i32>,
    /// Conditions, in the order of their last change.
    pub conditions: Vec<Condition>,
}

/// A condition of a Deployment or ReplicaSet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Condition {
    /// What it is about, as "Progressing".
    pub kind: String,
    /// "True", "False" or "Unknown".
    pub status: String,
    /// Stable reason.
    pub reason: String,
    /// Text for people.
    pub message: String,
    /// When it was last updated. ReplicaSets have no such time.
    pub last_update_time: Option<Time>,
    /// When its status last changed.
    pub last_transition_time: Option<Time>,
}

/// A ReplicaSet.
#[derive(Clone, Debug)]
pub struct ReplicaSet {
    /// Metadata.
    pub metadata: ObjectMeta,
    /// Wanted pods, zero or more.
    pub replicas: i32,
    /// Seconds a pod must be ready before it counts as available.
    pub min_ready_seconds: i32,
    /// The pods it runs.
    pub template: Template,
    /// What its controller last reported.
    pub status: ReplicaSetStatus,
    /// The most available pods that a look-ahead may still count on: the smallest size that it has given the
    /// ReplicaSet so far. [`ReplicaSet::UNTOUCHED`] in a snapshot.
    pub available_max: i32,
}

impl ReplicaSet {
    /// No look-ahead has given the ReplicaSet a size yet.
    pub const UNTOUCHED: i32 = i32::MAX;
}

/// What was last reported about a ReplicaSet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReplicaSetStatus {
    /// Pods that are not terminating.
    pub replicas: i32,
    /// Of these, ready pods.
    pub ready_replicas: i32,
    /// Of these, available pods.
    pub available_replicas: i32,
    /// Terminating pods, where the server keeps the field.
    pub terminating_replicas: Option<i32>,
    /// Generation that the status speaks of.
    pub observed_generation: i64,
    /// Conditions.
    pub conditions: Vec<Condition>,
}

/// A pod. Only Recreate decides by pods, by owner and phase; the rest is for reports.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pod {
    /// Metadata.
    pub metadata: ObjectMeta,
    /// Phase, as "Running".
    pub phase: String,
    /// Why it is in this phase, one word.
    pub reason: String,
    /// Why it is in this phase, for people.
    pub message: String,
    /// Conditions.
    pub conditions: Vec<PodCondition>,
    /// Its containers, those that initialise it first.
    pub containers: Vec<Container>,
    /// The node that it is scheduled to. Empty if it is not.
    pub node_name: String,
    /// The node on which the scheduler frees room for it. Empty if it does not.
    pub nominated_node_name: String,
    /// When the kubelet acknowledged it.
    pub start_time: Option<Time>,
}

/// A condition of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodCondition {
    /// What it is about, as "Ready".
    pub kind: String,
    /// "True", "False" or "Unknown".
    pub status: String,
    /// Stable reason.
    pub reason: String,
    /// Text for people.
    pub message: String,
    /// When its status last changed.
    pub last_transition_time: Option<Time>,
}

/// A container of a pod, as its node reports it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Container {
    /// Name.
    pub name: String,
    /// Whether it initialises the pod.
    pub init: bool,
    /// Image.
    pub image: String,
    /// Whether it passes its readiness check.
    pub ready: bool,
    /// Whether it has passed its startup probe, once the kubelet reports that.
    pub started: Option<bool>,
    /// How often it was started again.
    pub restarts: i32,
    /// What it does now.
    pub state: ContainerState,
    /// How it last ended, where it did.
    pub last_state: ContainerState,
}

/// What a container does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ContainerState {
    /// Nothing is reported.
    #[default]
    Unknown,
    /// It waits to run.
    Waiting {
        /// Why, one word.
        reason: String,
        /// Why, for people.
        message: String,
    },
    /// It runs.
    Running {
        /// Since when.
        started_at: Option<Time>,
    },
    /// It has ended.
    Terminated {
        /// Exit status.
        exit_code: i32,
        /// Why, one word.
        reason: String,
        /// Why, for people.
        message: String,
        /// When.
        finished_at: Option<Time>,
    },
}

/// An event that a component of the cluster has recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObservedEvent {
    /// The UID of the object that it is about.
    pub object_uid: String,
    /// The part of the object that it is about, for example "spec.containers{web}".
    pub field_path: String,
    /// "Normal" or "Warning".
    pub kind: String,
    /// The machine-readable reason.
    pub reason: String,
    /// The human-readable description.
    pub message: String,
    /// How often it has occurred, at least once.
    pub count: i32,
    /// When it occurred first.
    pub first: Option<Time>,
    /// When it occurred last.
    pub last: Option<Time>,
}

impl ObservedEvent {
    /// Whether the event is about this container. An event that names none may be about any.
    pub(crate) fn may_concern(&self, container: &str) -> bool {
        let named = self
            .field_path
            .split_once('{')
            .map(|(_, rest)| rest.trim_end_matches('}'));
        named.is_none_or(|named| container.is_empty() || named == container)
    }
}

/// A call of the last plan that the API server definitely refused.
#[derive(Clone, Debug)]
pub struct StepFailure {
    /// The call, as the plan gave it.
    pub call: ApiCall,
    /// HTTP status of the answer.
    pub http_code: i32,
    /// `reason` of the answer's Status.
    pub reason: String,
    /// `message` of the answer's Status.
    pub message: String,
    /// Reasons of the answer's causes.
    pub causes: Vec<String>,
    /// The object that has the name, after an AlreadyExists.
    pub existing: Option<ReplicaSet>,
}

/// What a plan is made by besides the snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Whether the API server keeps `status.terminatingReplicas` of Deployments.
    pub terminating_replicas: bool,
    /// How a report judges the rollout. No plan depends on it.
    pub judgement: Judgement,
}

impl Default for Options {
    /// As Kubernetes 1.36 is by default.
    fn default() -> Self {
        Self {
            terminating_replicas: true,
            judgement: Judgement::default(),
        }
    }
}
