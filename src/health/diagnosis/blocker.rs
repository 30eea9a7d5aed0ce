//! What blocks a rollout, for people and for programs.

use super::cause::Cause;
use rollplan_core::time::{Span, Time};

/// The maximum number of pods that a blocker lists.
pub const BLOCKED_PODS_MAX: usize = 20;

/// A cause that blocks a rollout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocker {
    /// The kind of the cause.
    pub cause: Cause,
    /// A human-readable sentence with the numbers.
    pub message: String,
    /// The smallest change that would let the rollout continue. Empty if it only takes time.
    pub remedy: String,
    /// At most [`BLOCKED_PODS_MAX`] of the affected pods, beginning with those that have been blocked longest.
    pub pods: Vec<BlockedPod>,
    /// The number of affected pods.
    pub pod_count: usize,
    /// The time since which it has been the case.
    pub since: Option<Time>,
    /// The time left until the cause resolves by itself.
    pub remaining: Option<Span>,
}

/// A pod that blocks a rollout.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlockedPod {
    /// The name of the pod.
    pub name: String,
    /// The container that causes the problem. Empty if the pod as a whole does.
    pub container: String,
    /// The reason that Kubernetes reports.
    pub reason: String,
    /// The message that Kubernetes reports, as a single line. Only the last line of a container's output is included.
    pub message: String,
    /// The number of times the container has been restarted.
    pub restarts: i32,
    /// The time since which it has been the case.
    pub since: Option<Time>,
}

// === impl Blocker ===

impl Blocker {
    pub(crate) fn new(cause: Cause, message: String, remedy: impl Into<String>) -> Self {
        Self {
            cause,
            message,
            remedy: remedy.into(),
            pods: Vec::new(),
            pod_count: 0,
            since: None,
            remaining: None,
        }
    }

    pub(crate) fn with_pods(mut self, mut pods: Vec<BlockedPod>) -> Self {
        self.pod_count = pods.len();
        self.since = self
            .since
            .or_else(|| pods.iter().filter_map(|pod| pod.since).min());
        pods.truncate(BLOCKED_PODS_MAX);
        self.pods = pods;
        self
    }
}
