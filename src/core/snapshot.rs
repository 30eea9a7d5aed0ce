//! The observations of a caller: a Deployment, its ReplicaSets and pods, and the time.
//!
//! A snapshot has been validated: counts and sizes are not negative, every ReplicaSet is in the namespace of the Deployment,
//! and absent fields of the spec have the defaults of the Kubernetes API. No two of the ReplicaSets that the Deployment owns
//! or may adopt, nor of their pods, have the same UID or name. Other ReplicaSets are not validated. They matter because
//! their names are already in use, and because a custom resource must not select the pods of a Deployment.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

pub use crate::object::{ObjectMeta, OwnerReference, StringMap};

use crate::call::CallId;
use crate::caps::Caps;
use crate::reference::ConfigurationKind;
use crate::selector::LabelSelector;
use crate::size::IntOrPercent;
use crate::template::Template;
use crate::time::Time;

/// The input of a plan.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The time of the decision.
    pub now: Time,
    /// The Deployment, or the custom resource that acts as one.
    pub deployment: Deployment,
    /// ReplicaSets of its namespace. There may be more than its own.
    pub replica_sets: Vec<ReplicaSet>,
    /// Whether `replica_sets` contains all ReplicaSets of the Deployment. Otherwise, nothing is planned or counted.
    pub replica_sets_complete: bool,
    /// Pods. There may be more than its own. They are shared, because a look-ahead copies the snapshot.
    pub pods: Arc<[Pod]>,
    /// Whether `pods` contains all pods of the ReplicaSets.
    pub pods_complete: bool,
    /// The calls that were rejected when the last plan was carried out.
    pub failures: Vec<StepFailure>,
    /// Events about the Deployment, its ReplicaSets and their pods, if the caller has read them.
    pub events: Arc<[ObservedEvent]>,
    /// What shows why pods wait, besides the objects of the Deployment.
    pub surroundings: Arc<Surroundings>,
}

/// The object that is rolled out.
#[derive(Clone, Debug)]
pub struct Deployment {
    /// Group and version: "apps/v1", or those of a custom resource.
    pub api_version: String,
    /// Kind: "Deployment", or that of a custom resource.
    pub kind: String,
    /// Metadata.
    pub metadata: ObjectMeta,
    /// The desired state.
    pub spec: DeploymentSpec,
    /// The stored status.
    pub status: DeploymentStatus,
}

impl Deployment {
    /// Whether this is a Deployment of Kubernetes rather than a custom resource.
    #[must_use]
    pub fn is_native(&self) -> bool {
        self.api_version == "apps/v1" && self.kind == "Deployment"
    }

    /// Whether it controls a ReplicaSet.
    #[must_use]
    pub(crate) fn controls(&self, set: &ReplicaSet) -> bool {
        let controller = set.metadata.controller();
        controller.is_some_and(|owner| owner.uid == self.metadata.uid)
    }

    /// How far its rollout may go: the caps of the options and those of its annotations. Without desired pods, there is nothing
    /// to stop.
    #[must_use]
    pub fn caps(&self, options: Options) -> Caps {
        match self.spec.replicas {
            0 => Caps::NONE,
            _ => options.caps.and_annotated(&self.metadata.annotations),
        }
    }
}

/// The desired state of a Deployment.
#[derive(Clone, Debug)]
pub struct DeploymentSpec {
    /// The number of desired pods.
    pub replicas: i32,
    /// The selector of its ReplicaSets and pods.
    pub selector: LabelSelector,
    /// The template of its pods.
    pub template: Template,
    /// How old pods are replaced.
    pub strategy: Strategy,
    /// The number of seconds that a pod must be ready before it counts as available.
    pub min_ready_seconds: i32,
    /// The number of old ReplicaSets to keep. `i32::MAX` keeps all.
    pub revision_history_limit: i32,
    /// Whether rollouts are paused.
    pub paused: bool,
    /// The number of seconds without progress after which a rollout counts as failed. `i32::MAX` means no deadline.
    pub progress_deadline_seconds: i32,
}

/// How old pods are replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// Gradually, within limits.
    RollingUpdate {
        /// The number of pods that may exist above the desired number.
        max_surge: IntOrPercent,
        /// The number of pods that may be unavailable.
        max_unavailable: IntOrPercent,
    },
    /// All old pods terminate before the first new pod is created.
    Recreate,
}

impl Strategy {
    /// The names of all strategies.
    pub const NAMES: [&str; 2] = ["RollingUpdate", "Recreate"];

    /// The name in the API, one of [`NAMES`](Self::NAMES).
    #[must_use]
    pub fn name(&self) -> &'static str {
        let [rolling_update, recreate] = Self::NAMES;
        match self {
            Self::RollingUpdate { .. } => rolling_update,
            Self::Recreate => recreate,
        }
    }
}

/// The status of a Deployment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeploymentStatus {
    /// The generation that the status is about.
    pub observed_generation: i64,
    /// The number of pods that are not terminating.
    pub replicas: i32,
    /// The number of these that have the current template.
    pub updated_replicas: i32,
    /// The number of these that are ready.
    pub ready_replicas: i32,
    /// The number of these that are available.
    pub available_replicas: i32,
    /// The sizes of the ReplicaSets less the available pods.
    pub unavailable_replicas: i32,
    /// The number of terminating pods, if every ReplicaSet reports them.
    pub terminating_replicas: Option<i32>,
    /// The number of collisions of the name of a new ReplicaSet.
    pub collision_count: Option<i32>,
    /// The conditions in the order of their last change.
    pub conditions: Vec<Condition>,
}

/// A condition of a Deployment or ReplicaSet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Condition {
    /// The type, for example "Progressing".
    pub kind: String,
    /// "True", "False" or "Unknown".
    pub status: String,
    /// The machine-readable reason.
    pub reason: String,
    /// A human-readable sentence.
    pub message: String,
    /// When it was last updated. Absent in ReplicaSets.
    pub last_update_time: Option<Time>,
    /// When its status last changed.
    pub last_transition_time: Option<Time>,
}

/// A ReplicaSet.
#[derive(Clone, Debug)]
pub struct ReplicaSet {
    /// Metadata.
    pub metadata: ObjectMeta,
    /// The size: the number of desired pods.
    pub replicas: i32,
    /// The number of seconds that a pod must be ready before it counts as available.
    pub min_ready_seconds: i32,
    /// The template of its pods.
    pub template: Template,
    /// The stored status.
    pub status: ReplicaSetStatus,
    /// The maximum number of available pods that a look-ahead may count on: the smallest size that it has given the
    /// ReplicaSet so far. [`ReplicaSet::UNTOUCHED`] in a snapshot.
    pub available_max: i32,
}

impl ReplicaSet {
    /// No look-ahead has changed the size of the ReplicaSet.
    pub const UNTOUCHED: i32 = i32::MAX;
}

/// The status of a ReplicaSet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReplicaSetStatus {
    /// The number of pods that are not terminating.
    pub replicas: i32,
    /// The number of these that are ready.
    pub ready_replicas: i32,
    /// The number of these that are available.
    pub available_replicas: i32,
    /// The number of terminating pods, if the API server keeps the field.
    pub terminating_replicas: Option<i32>,
    /// The generation that the status is about.
    pub observed_generation: i64,
    /// Conditions.
    pub conditions: Vec<Condition>,
}

/// A pod. Plans depend only on the namespaces, owners and phases of pods, and only under Recreate. Reports use the other
/// fields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pod {
    /// Metadata.
    pub metadata: ObjectMeta,
    /// The phase, for example "Running".
    pub phase: String,
    /// The machine-readable reason for the phase.
    pub reason: String,
    /// The human-readable reason for the phase.
    pub message: String,
    /// Conditions.
    pub conditions: Vec<PodCondition>,
    /// The init containers, and then the other containers.
    pub containers: Vec<Container>,
    /// The node that it is scheduled to. Empty if it is not.
    pub node_name: String,
    /// The node on which the scheduler preempts other pods for it. Empty if it does not.
    pub nominated_node_name: String,
    /// The scheduler that must find a node for it. Empty if the pod does not name one.
    pub scheduler_name: String,
    /// The gates that must be removed before a scheduler considers it.
    pub scheduling_gates: Vec<String>,
    /// The volumes that are claims.
    pub claims: Vec<ClaimVolume>,
    /// The ports of the node that it uses.
    pub host_ports: Vec<HostPort>,
    /// When the kubelet acknowledged it.
    pub start_time: Option<Time>,
}

/// A volume of a pod that is a PersistentVolumeClaim.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClaimVolume {
    /// The name of the volume in the pod.
    pub volume: String,
    /// The name of the claim.
    pub claim: String,
}

/// A port of the node that a container uses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostPort {
    /// The number of the port.
    pub port: i32,
    /// "TCP", "UDP" or "SCTP".
    pub protocol: String,
    /// The address of the node. Empty for all addresses.
    pub ip: String,
}

impl HostPort {
    /// Whether two pods that use these ports cannot run on one node.
    #[must_use]
    pub fn conflicts_with(&self, other: &Self) -> bool {
        let is_any = |ip: &str| matches!(ip, "" | "0.0.0.0");
        self.port == other.port
            && self.protocol == other.protocol
            && (self.ip == other.ip || is_any(&self.ip) || is_any(&other.ip))
    }
}

/// Objects that do not belong to a workload and show why its pods wait, as far as the caller has sent them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Surroundings {
    /// Pods of other owners that use a claim or a port of a waiting pod.
    pub pods: Vec<Pod>,
    /// The claims of waiting pods.
    pub claims: Vec<ObservedClaim>,
    /// The ConfigMaps and Secrets of the namespace, by kind and name. The objects of a kind that is missing are not known.
    pub configurations: BTreeMap<ConfigurationKind, BTreeMap<String, Existence>>,
    /// ConfigMaps and Secrets that the caller has looked up.
    pub looked_up: BTreeMap<(ConfigurationKind, String), Existence>,
}

/// Whether a ConfigMap or a Secret exists, as far as it is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Existence {
    /// It does not exist.
    Absent,
    /// It exists. Its keys are not known.
    Present,
    /// It exists with these keys.
    WithKeys(ConfigurationKeys),
}

/// The keys of a ConfigMap or a Secret.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConfigurationKeys {
    /// Those of `data`.
    pub data: BTreeSet<String>,
    /// Those of `binaryData`.
    pub binary: BTreeSet<String>,
}

/// A PersistentVolumeClaim with its volume.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObservedClaim {
    /// The name of the claim.
    pub name: String,
    /// How the volume may be mounted. Empty if the claim is not known.
    pub access_modes: Vec<String>,
    /// Whether it is known to have a volume.
    pub is_bound: bool,
    /// The PersistentVolume that is bound to it, if it is known.
    pub volume: Option<ObservedVolume>,
    /// Events about the claim.
    pub events: Vec<ObservedEvent>,
}

/// A PersistentVolume.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObservedVolume {
    /// The name.
    pub name: String,
    /// The labels of the nodes that can use it. Empty if all can.
    pub topology: Vec<TopologyTerm>,
}

/// A label that a node must have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TopologyTerm {
    /// The key of the label, for example "topology.kubernetes.io/zone".
    pub key: String,
    /// The permitted values.
    pub values: Vec<String>,
}

/// A condition of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodCondition {
    /// The type, for example "Ready".
    pub kind: String,
    /// "True", "False" or "Unknown".
    pub status: String,
    /// The machine-readable reason.
    pub reason: String,
    /// A human-readable sentence.
    pub message: String,
    /// When its status last changed.
    pub last_transition_time: Option<Time>,
}

/// The status of a container, as the kubelet reports it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Container {
    /// The name.
    pub name: String,
    /// Whether it is an init container.
    pub init: bool,
    /// Whether it is an init container that runs beside the main containers (`restartPolicy: Always`), according to the pod.
    /// Webhooks add such containers, so the template may not have it.
    pub is_sidecar: bool,
    /// The paths at which the pod mounts volumes into it.
    pub mounts: Vec<String>,
    /// The image.
    pub image: String,
    /// Whether it is ready.
    pub ready: bool,
    /// Whether it has passed its startup probe, if the kubelet reports that.
    pub started: Option<bool>,
    /// The number of times it has been restarted.
    pub restarts: i32,
    /// The current state.
    pub state: ContainerState,
    /// The state at its last termination, if there was one.
    pub last_state: ContainerState,
}

/// The state of a container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ContainerState {
    /// Nothing is reported.
    #[default]
    Unknown,
    /// It is waiting.
    Waiting {
        /// The machine-readable reason.
        reason: String,
        /// The human-readable reason.
        message: String,
    },
    /// It is running.
    Running {
        /// When it was started.
        started_at: Option<Time>,
    },
    /// It has terminated.
    Terminated {
        /// The exit code.
        exit_code: i32,
        /// The machine-readable reason.
        reason: String,
        /// The human-readable reason.
        message: String,
        /// When it terminated.
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

/// A call of the last plan that the API server certainly rejected.
#[derive(Clone, Debug)]
pub struct StepFailure {
    /// The call of the plan.
    pub call: CallId,
    /// The HTTP status code of the answer.
    pub http_code: i32,
    /// `reason` of the Status in the answer.
    pub reason: String,
    /// `message` of the Status in the answer.
    pub message: String,
    /// The reasons of the causes in the answer.
    pub causes: Vec<String>,
    /// The object that has the name, if the answer was AlreadyExists.
    pub existing: Option<ReplicaSet>,
}

/// Whether the causes of a rejection are that nothing can be created anymore, because the namespace is being deleted.
#[must_use]
pub fn is_of_terminating_namespace(causes: &[String]) -> bool {
    causes.iter().any(|cause| cause == "NamespaceTerminating")
}

/// Options of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Whether the API server keeps `status.terminatingReplicas` of Deployments.
    pub terminating_replicas: bool,
    /// How far the caller lets a rollout go.
    pub caps: Caps,
}

impl Default for Options {
    /// The defaults of Kubernetes 1.37.
    fn default() -> Self {
        Self {
            terminating_replicas: true,
            caps: Caps::NONE,
        }
    }
}
