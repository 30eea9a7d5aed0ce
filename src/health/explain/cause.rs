//! The kinds of causes that block a rollout.

use std::fmt;

/// The kinds of causes that block a rollout, beginning with those to fix first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// The list of ReplicaSets may be incomplete, and every decision needs all of them.
    ReplicaSetsIncomplete,
    /// The selector is empty.
    SelectorEmpty,
    /// The stored status is based on an earlier generation.
    GenerationUnobserved,
    /// The counters of a ReplicaSet are based on an earlier size.
    ReplicaSetUnobserved,
    /// The object is being deleted, and has finalizers.
    Deleting,
    /// The rollout is paused.
    Paused,
    /// The caps of the caller stop the rollout.
    Capped,
    /// A Job has failed, or an object of another kind that runs once.
    JobFailed,
    /// The controller of an object reports that it makes no progress (condition Stalled).
    ControllerStalled,
    /// A pod of an older revision is not ready, and the update that would replace it waits for it.
    OldPodBlocks,
    /// Pods are only updated when a user deletes them (updateStrategy OnDelete).
    OnDelete,
    /// The new ReplicaSet cannot be created.
    ReplicaSetRefused,
    /// An image cannot be pulled.
    ImagePull,
    /// A container cannot be created from its configuration, for example because a ConfigMap or Secret is missing.
    ContainerConfig,
    /// A container keeps crashing.
    CrashLoop,
    /// No node can run the pod.
    Unschedulable,
    /// The API server rejects pods, for example because of a quota.
    PodsRefused,
    /// A container is running, but its readiness probe fails.
    NotReady,
    /// A pod has failed. Another pod replaces it, and a problem of that pod ranks higher.
    PodFailed,
    /// Old pods have not terminated yet (Recreate).
    OldPodsRunning,
    /// The list of pods may be incomplete, and Recreate needs all pods.
    PodsIncomplete,
    /// A claim is not bound to a volume.
    NotBound,
    /// A load balancer has no address.
    NoAddress,
    /// A condition that must be true is not.
    ConditionFalse,
    /// No rule judges the object.
    NotJudged,
    /// The controller of an object is working on it (condition Reconciling).
    Reconciling,
    /// A pod is starting for the first time.
    Starting,
    /// The pods of a Job are running, or the next one is awaited.
    Running,
    /// A Job has succeeded, and its last pods are ending.
    NotFinal,
    /// Pods are ready, but not for long enough.
    MinReadySeconds,
    /// New pods are not available, and the snapshot does not show why.
    NotAvailable,
    /// maxSurge does not allow more new pods.
    HeldBySurge,
    /// Old pods are needed to preserve the minimum of available pods.
    HeldByAvailability,
    /// The Deployment controller of Kubernetes would treat a stale annotation of a ReplicaSet as a scaling event.
    StaleAnnotation,
    /// The progress deadline has passed.
    DeadlineExceeded,
    /// The selector also matches pods of another controller. This only blocks a custom resource that would run the pods of a
    /// Deployment twice.
    SelectorOverlap,
}

// === impl Cause ===

impl Cause {
    /// All causes, in their order.
    pub const ALL: [Self; 36] = [
        Self::ReplicaSetsIncomplete,
        Self::SelectorEmpty,
        Self::GenerationUnobserved,
        Self::ReplicaSetUnobserved,
        Self::Deleting,
        Self::Paused,
        Self::Capped,
        Self::JobFailed,
        Self::ControllerStalled,
        Self::OldPodBlocks,
        Self::OnDelete,
        Self::ReplicaSetRefused,
        Self::ImagePull,
        Self::ContainerConfig,
        Self::CrashLoop,
        Self::Unschedulable,
        Self::PodsRefused,
        Self::NotReady,
        Self::PodFailed,
        Self::OldPodsRunning,
        Self::PodsIncomplete,
        Self::NotBound,
        Self::NoAddress,
        Self::ConditionFalse,
        Self::NotJudged,
        Self::Reconciling,
        Self::Starting,
        Self::Running,
        Self::NotFinal,
        Self::MinReadySeconds,
        Self::NotAvailable,
        Self::HeldBySurge,
        Self::HeldByAvailability,
        Self::StaleAnnotation,
        Self::DeadlineExceeded,
        Self::SelectorOverlap,
    ];

    /// The cause with this machine-readable reason.
    #[must_use]
    pub fn from_reason(reason: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|cause| cause.as_str() == reason)
    }

    /// The machine-readable reason.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ReplicaSetsIncomplete => "REPLICA_SETS_INCOMPLETE",
            Self::ReplicaSetUnobserved => "REPLICA_SET_UNOBSERVED",
            Self::SelectorEmpty => "SELECTOR_EMPTY",
            Self::Deleting => "DELETING",
            Self::Paused => "PAUSED",
            Self::Capped => "CAPPED",
            Self::JobFailed => "JOB_FAILED",
            Self::ControllerStalled => "STALLED",
            Self::OldPodBlocks => "OLD_POD_BLOCKS",
            Self::OnDelete => "ON_DELETE",
            Self::NotBound => "NOT_BOUND",
            Self::NoAddress => "NO_ADDRESS",
            Self::ConditionFalse => "CONDITION_FALSE",
            Self::NotJudged => "NOT_JUDGED",
            Self::Reconciling => "RECONCILING",
            Self::Running => "RUNNING",
            Self::NotFinal => "NOT_FINAL",
            Self::ReplicaSetRefused => "REPLICA_SET_REFUSED",
            Self::ImagePull => "IMAGE_PULL",
            Self::ContainerConfig => "CONTAINER_CONFIG",
            Self::CrashLoop => "CRASH_LOOP",
            Self::PodFailed => "POD_FAILED",
            Self::Unschedulable => "UNSCHEDULABLE",
            Self::PodsRefused => "PODS_REFUSED",
            Self::NotReady => "NOT_READY",
            Self::OldPodsRunning => "OLD_PODS_RUNNING",
            Self::PodsIncomplete => "PODS_INCOMPLETE",
            Self::Starting => "STARTING",
            Self::MinReadySeconds => "MIN_READY_SECONDS",
            Self::NotAvailable => "NOT_AVAILABLE",
            Self::HeldBySurge => "HELD_BY_SURGE",
            Self::HeldByAvailability => "HELD_BY_AVAILABILITY",
            Self::StaleAnnotation => "STALE_ANNOTATION",
            Self::DeadlineExceeded => "DEADLINE_EXCEEDED",
            Self::SelectorOverlap => "SELECTOR_OVERLAP",
            Self::GenerationUnobserved => "GENERATION_UNOBSERVED",
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
