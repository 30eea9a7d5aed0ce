//! What blocks a rollout, for people and for programs.

use rollplan_core::snapshot::{Container, ContainerState};
use rollplan_core::time::{Span, Time};

use super::cause::Cause;

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
    /// The log of the container that may show the problem.
    pub log: Option<Log>,
}

/// The log of one of the runs of a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Log {
    /// That of the running container or, if it is not running, of its last run.
    Current,
    /// That of the run before the running one.
    Previous,
}

// === impl Log ===

impl Log {
    /// The log that may show the problem of a container. `None` if it has not been started.
    pub(crate) fn of(container: &Container) -> Option<Self> {
        match (&container.state, &container.last_state) {
            (ContainerState::Running { .. }, _) if container.restarts > 0 => Some(Self::Previous),
            (ContainerState::Running { .. } | ContainerState::Terminated { .. }, _)
            | (_, ContainerState::Terminated { .. }) => Some(Self::Current),
            _ => None,
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_is_that_of_the_run_that_failed() {
        let running = || ContainerState::Running { started_at: None };
        let waiting = || ContainerState::Waiting {
            reason: String::new(),
            message: String::new(),
        };
        let ended = || ContainerState::Terminated {
            exit_code: 1,
            reason: String::new(),
            message: String::new(),
            finished_at: None,
        };
        for (state, last_state, restarts, expected) in [
            (running(), ContainerState::Unknown, 0, Some(Log::Current)),
            (running(), ended(), 1, Some(Log::Previous)),
            (ended(), ended(), 1, Some(Log::Current)),
            // kubectl prints the log of the last run.
            (waiting(), ended(), 1, Some(Log::Current)),
            // It has not been started.
            (waiting(), ContainerState::Unknown, 0, None),
        ] {
            let container = Container {
                state,
                last_state,
                restarts,
                ..Container::default()
            };
            assert_eq!(Log::of(&container), expected, "{container:?}");
        }
    }
}
