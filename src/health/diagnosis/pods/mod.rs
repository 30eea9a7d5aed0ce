//! Why pods are not available.

mod examine;
mod explain;
mod mounted_program;
mod probe;
mod scheduling;
mod volumes;

use std::cmp::Reverse;

use super::failure::class::Class;
use super::template::ProbeKind;
use super::text::{KUBERNETES_MAX, one_line};
use super::{BlockedPod, Cause, Log};
use rollplan_core::snapshot::{Container, ObservedEvent, Pod, PodCondition};
use rollplan_core::time::Time;

/// The reason of a pod that waits for a scheduling gate.
const GATED: &str = "SchedulingGated";
/// The reason of a container that ran out of memory.
const OOM_KILLED: &str = "OOMKilled";
/// The reasons of a container whose program could not be started, as containerd and dockerd set them.
const START_ERROR: [&str; 2] = ["StartError", "ContainerCannotRun"];
/// The reason of a container that the kubelet could not start. Its last state may show why as well.
const RUN_ERROR: &str = "RunContainerError";
/// The reason of a container whose postStart hook failed.
const POST_START_ERROR: &str = "PostStartHookError";
/// The reason of a pod with a readiness gate that is not met.
pub(super) const GATES_NOT_READY: &str = "ReadinessGatesNotReady";
/// The reason of a pod that is not ready although its containers are.
const NODE_LOST: &str = "ContainersReady";

/// Whether a container with this reason waits for what comes before it: the volumes, the network and the init containers of
/// its pod (`ContainerCreating` and `PodInitializing` in pkg/kubelet/kubelet_pods.go of Kubernetes).
#[must_use]
pub fn is_creating(reason: &str) -> bool {
    matches!(reason, "ContainerCreating" | "PodInitializing")
}

/// The reason why a pod is not available.
pub struct Finding<'a> {
    /// The kind of the cause.
    pub cause: Cause,
    /// The class of the failure. `None` if it is not a failure.
    pub class: Option<Class>,
    /// Whether the report proves that the failure persists.
    pub(crate) is_definite: bool,
    /// Whether only an event shows the failure, which may be outdated.
    pub(crate) is_from_event: bool,
    /// The time until which the pod may become available without a change, because of its startup probe or
    /// `minReadySeconds`.
    pub(crate) available_by: Option<Time>,
    /// The pod in the snapshot.
    pub source: &'a Pod,
    /// The container that causes the problem. `None` if the pod as a whole does.
    pub container: Option<&'a Container>,
    /// The pod in the report.
    pub pod: BlockedPod,
    /// Additional text for the message.
    detail: String,
    /// The event that shows why the pod has not started.
    event: Option<&'a ObservedEvent>,
    /// What to do, if the message of Kubernetes shows it.
    remedy: String,
    /// The failing probe and its output.
    failing: Option<(ProbeKind, String)>,
}

impl<'a> Finding<'a> {
    fn new(
        cause: Cause,
        source: &'a Pod,
        reason: &str,
        message: &str,
        since: Option<Time>,
    ) -> Self {
        Self {
            cause,
            class: None,
            is_definite: false,
            is_from_event: false,
            available_by: None,
            source,
            container: None,
            pod: BlockedPod {
                name: source.metadata.name.clone(),
                container: String::new(),
                reason: reason.to_owned(),
                message: one_line(message, KUBERNETES_MAX),
                restarts: 0,
                since,
                log: None,
            },
            detail: String::new(),
            event: None,
            remedy: String::new(),
            failing: None,
        }
    }

    fn of_container(mut self, container: &'a Container) -> Self {
        self.pod.container.clone_from(&container.name);
        self.pod.restarts = container.restarts;
        self.pod.log = Log::of(container);
        self.container = Some(container);
        self
    }

    fn with_message(mut self, message: String) -> Self {
        self.pod.message = message;
        self
    }

    fn of_class(mut self, class: Class, is_definite: bool) -> Self {
        self.class = Some(class);
        self.is_definite = is_definite;
        self
    }

    /// Pods with the most restarts, which decide, come first, and then those that have been blocked longest.
    fn rank(&self) -> (Reverse<i32>, bool, Option<Time>, &str) {
        let pod = &self.pod;
        (
            Reverse(pod.restarts),
            pod.since.is_none(),
            pod.since,
            &pod.name,
        )
    }
}

pub(crate) fn condition<'a>(pod: &'a Pod, kind: &str) -> Option<&'a PodCondition> {
    pod.conditions
        .iter()
        .find(|condition| condition.kind == kind)
}

/// A text, or another one if it is empty.
pub(crate) fn or<'a>(text: &'a str, otherwise: &'a str) -> &'a str {
    if text.is_empty() { otherwise } else { text }
}
