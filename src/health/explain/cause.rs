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

/// What is known about a kind of cause.
struct Row {
    cause: Cause,
    /// The machine-readable reason.
    reason: &'static str,
    /// What blocks the rollout.
    blocks: &'static str,
    /// What to do about it.
    action: &'static str,
}

/// All causes, in their order.
const TABLE: [Row; 36] = [
    Row {
        cause: Cause::ReplicaSetsIncomplete,
        reason: "REPLICA_SETS_INCOMPLETE",
        blocks: "the list of ReplicaSets may be incomplete, so nothing can be planned or counted",
        action: "send all of them, or set `replica_sets_complete` if none are missing",
    },
    Row {
        cause: Cause::SelectorEmpty,
        reason: "SELECTOR_EMPTY",
        blocks: "the selector is empty and would select all pods",
        action: "use the template's labels",
    },
    Row {
        cause: Cause::GenerationUnobserved,
        reason: "GENERATION_UNOBSERVED",
        blocks: "no controller has observed the latest change",
        action: "check that a controller is running",
    },
    Row {
        cause: Cause::ReplicaSetUnobserved,
        reason: "REPLICA_SET_UNOBSERVED",
        blocks: "the counters of a ReplicaSet belong to an earlier generation",
        action: "check that the ReplicaSet controller is running",
    },
    Row {
        cause: Cause::Deleting,
        reason: "DELETING",
        blocks: "the object is being deleted, and has finalizers; or a pod has not ended yet",
        action: "wait; check the controller that removes the finalizer, or the node of the pod",
    },
    Row {
        cause: Cause::Paused,
        reason: "PAUSED",
        blocks: "`spec.paused` is true",
        action: "resume the rollout",
    },
    Row {
        cause: Cause::Capped,
        reason: "CAPPED",
        blocks: "the caps of the options or of the annotations stop the rollout, and nothing else does",
        action: "raise `new_max`, or lower `old_min`",
    },
    Row {
        cause: Cause::JobFailed,
        reason: "JOB_FAILED",
        blocks: "a Job has failed (limit or rule, and the container that failed last), or an object of another kind \
                 that runs once",
        action: "read the log of the container, or what its message reports",
    },
    Row {
        cause: Cause::ControllerStalled,
        reason: "STALLED",
        blocks: "the controller of an object reports that it makes no progress",
        action: "fix what its message reports",
    },
    Row {
        cause: Cause::OldPodBlocks,
        reason: "OLD_POD_BLOCKS",
        blocks: "a pod of an older revision is not ready, and the StatefulSet waits for it",
        action: "delete the pod; if its node has stopped reporting, repair the node",
    },
    Row {
        cause: Cause::OnDelete,
        reason: "ON_DELETE",
        blocks: "`updateStrategy` OnDelete replaces a pod only when it is deleted",
        action: "delete the pods",
    },
    Row {
        cause: Cause::ReplicaSetRefused,
        reason: "REPLICA_SET_REFUSED",
        blocks: "the API server rejects the new ReplicaSet",
        action: "fix what the message reports",
    },
    Row {
        cause: Cause::ImagePull,
        reason: "IMAGE_PULL",
        blocks: "an image cannot be pulled",
        action: "fix the image name, the tag or the pull secret",
    },
    Row {
        cause: Cause::ContainerConfig,
        reason: "CONTAINER_CONFIG",
        blocks: "a container cannot be created from its configuration",
        action: "create the missing ConfigMap or Secret, add the missing key, or set `runAsUser`",
    },
    Row {
        cause: Cause::CrashLoop,
        reason: "CRASH_LOOP",
        blocks: "a container has terminated or keeps crashing (exit code and last line of output)",
        action: "read its log, with `--previous` while it is running again; raise the memory limit, or correct the \
                 command",
    },
    Row {
        cause: Cause::Unschedulable,
        reason: "UNSCHEDULABLE",
        blocks: "no node can run the pods, no scheduler has reported on them, or a scheduling gate blocks them",
        action: "depends on the reasons of the scheduler and of the autoscaler; check which controller must remove \
                 the gate",
    },
    Row {
        cause: Cause::PodsRefused,
        reason: "PODS_REFUSED",
        blocks: "the API server rejects the creation (quota, admission) or deletion of pods; the message of a quota \
                 may be older than its state",
        action: "raise the quota, wait for the next attempt, or fix what the message reports",
    },
    Row {
        cause: Cause::NotReady,
        reason: "NOT_READY",
        blocks: "containers are running but not ready, or a readiness gate is not met",
        action: "wait until the readiness probe has passed; once it has failed, correct the probe, or read the log",
    },
    Row {
        cause: Cause::PodFailed,
        reason: "POD_FAILED",
        blocks: "pods fail, for example because of an eviction; problems of their replacements rank higher",
        action: "check their events and the state of the node",
    },
    Row {
        cause: Cause::OldPodsRunning,
        reason: "OLD_PODS_RUNNING",
        blocks: "Recreate, a StatefulSet or a DaemonSet is waiting for pods to terminate, or Recreate for the \
                 ReplicaSet controller; `remaining` is the rest of the grace period",
        action: "wait; past the grace period, check what delays them: a container that does not stop, a finalizer, \
                 a lost node",
    },
    Row {
        cause: Cause::PodsIncomplete,
        reason: "PODS_INCOMPLETE",
        blocks: "the list of pods may be incomplete, and Recreate needs all old pods",
        action: "send them, and set `pods_complete`",
    },
    Row {
        cause: Cause::NotBound,
        reason: "NOT_BOUND",
        blocks: "a claim is not bound to a volume",
        action: "check its StorageClass",
    },
    Row {
        cause: Cause::NoAddress,
        reason: "NO_ADDRESS",
        blocks: "a load balancer has no address",
        action: "check its controller",
    },
    Row {
        cause: Cause::ConditionFalse,
        reason: "CONDITION_FALSE",
        blocks: "a condition that must be true is not",
        action: "see the message of the condition",
    },
    Row {
        cause: Cause::NotJudged,
        reason: "NOT_JUDGED",
        blocks: "no rule judges the object: its status is empty, or in a form that the planner does not know",
        action: "wait until its controller has written a status, or judge it by a condition or value that the \
                 message names",
    },
    Row {
        cause: Cause::Reconciling,
        reason: "RECONCILING",
        blocks: "the controller of an object is working on it",
        action: "wait",
    },
    Row {
        cause: Cause::Starting,
        reason: "STARTING",
        blocks: "pods are starting; with the event that delays them, or the claims that may",
        action: "wait; fix what the event reports, or check the node that has not acknowledged the pod",
    },
    Row {
        cause: Cause::Running,
        reason: "RUNNING",
        blocks: "the pods of a Job are running, the next one is awaited after a failure, or a container keeps a pod \
                 running although another one has completed",
        action: "wait; read the log of the pod that failed last; run a proxy as a native sidecar",
    },
    Row {
        cause: Cause::NotFinal,
        reason: "NOT_FINAL",
        blocks: "a Job has succeeded, and its last pods are terminating",
        action: "wait; past the grace period, check what delays them",
    },
    Row {
        cause: Cause::MinReadySeconds,
        reason: "MIN_READY_SECONDS",
        blocks: "pods are ready, but not for long enough; `remaining` is the time until the first is available",
        action: "wait",
    },
    Row {
        cause: Cause::NotAvailable,
        reason: "NOT_AVAILABLE",
        blocks: "new pods do not exist yet, are ready but not counted yet, or are not in the snapshot",
        action: "wait, or include the pods in the snapshot",
    },
    Row {
        cause: Cause::HeldBySurge,
        reason: "HELD_BY_SURGE",
        blocks: "maxSurge does not allow more new pods, and nothing else is the cause",
        action: "wait",
    },
    Row {
        cause: Cause::HeldByAvailability,
        reason: "HELD_BY_AVAILABILITY",
        blocks: "old pods must stay to preserve the minimum of available pods, and nothing else is the cause",
        action: "wait",
    },
    Row {
        cause: Cause::StaleAnnotation,
        reason: "STALE_ANNOTATION",
        blocks: "the annotation `desired-replicas` of a ReplicaSet is stale although the generation is observed",
        action: "carry out the plan",
    },
    Row {
        cause: Cause::DeadlineExceeded,
        reason: "DEADLINE_EXCEEDED",
        blocks: "no progress within the deadline",
        action: "fix the first blocker, or roll back",
    },
    Row {
        cause: Cause::SelectorOverlap,
        reason: "SELECTOR_OVERLAP",
        blocks: "nothing: a warning, also of a complete rollout. The selector matches a ReplicaSet of another \
                 controller, as far as the snapshot contains it. Only a custom resource without ReplicaSets of its \
                 own is refused, if that ReplicaSet has pods of an apps/v1 Deployment",
        action: "create one of the two again with labels and a selector of its own; to hand the pods over, delete \
                 the Deployment with `--cascade=orphan`",
    },
];

// === impl Cause ===

impl Cause {
    /// The cause with this machine-readable reason.
    #[must_use]
    pub fn from_reason(reason: &str) -> Option<Self> {
        let row = TABLE.iter().find(|row| row.reason == reason)?;
        Some(row.cause)
    }

    /// The machine-readable reason.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        self.row().reason
    }

    /// What blocks the rollout, for documentation.
    #[must_use]
    pub fn description(self) -> &'static str {
        self.row().blocks
    }

    /// What to do about it, for documentation. [`Blocker::remedy`](super::Blocker) is about one rollout.
    #[must_use]
    pub fn advice(self) -> &'static str {
        self.row().action
    }

    fn row(self) -> &'static Row {
        &TABLE[self as usize]
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_has_the_order_of_the_causes() {
        for (index, row) in TABLE.iter().enumerate() {
            assert_eq!(row.cause as usize, index);
            assert_eq!(Cause::from_reason(row.reason), Some(row.cause));
        }
        assert_eq!(Cause::from_reason("OTHER"), None);
    }

    #[test]
    fn documentation_has_the_blockers() {
        let row = |row: &Row| {
            let Row { cause, .. } = row;
            let texts = [cause.as_str(), cause.description(), cause.advice()];
            texts.map(str::to_owned).to_vec()
        };
        let headers = ["reason", "what blocks the rollout", "what to do"];
        let table = rollplan_world::page::table(&headers, TABLE.iter().map(row));
        rollplan_world::page::check("docs/reference/api.md", "blockers", &table);
    }
}
