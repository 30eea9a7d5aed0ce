//! Why pods are not available.

mod blockers;
mod mounted_program;
mod probe;
mod scheduling;
mod unavailable;
mod volumes;

use std::cmp::Reverse;

use rollplan_core::snapshot::{Container, ObservedEvent, Pod};
use rollplan_core::time::Time;

use super::template::ProbeKind;
use super::{BlockedPod, Cause, Log};
use crate::judge::class::Class;
use crate::text::{KUBERNETES_MAX, one_line};

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
/// The reason of a pod that is not ready although its containers are.
const NODE_LOST: &str = "ContainersReady";

/// Why a pod is not available.
pub struct Explanation<'a> {
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
    pub pod: &'a Pod,
    /// The container that causes the problem. `None` if the pod as a whole does.
    pub container: Option<&'a Container>,
    /// The pod in the report.
    pub blocked: BlockedPod,
    /// Additional text for the message.
    detail: String,
    /// The image that cannot be pulled: that of the container, or of one of its volumes.
    image: &'a str,
    /// The event that shows why the pod has not started.
    event: Option<&'a ObservedEvent>,
    /// What to do, if the message of Kubernetes shows it.
    remedy: String,
    /// The failing probe and its output.
    failing: Option<(ProbeKind, String)>,
}

impl<'a> Explanation<'a> {
    fn new(cause: Cause, pod: &'a Pod, reason: &str, message: &str, since: Option<Time>) -> Self {
        Self {
            cause,
            class: None,
            is_definite: false,
            is_from_event: false,
            available_by: None,
            pod,
            container: None,
            blocked: BlockedPod {
                name: pod.metadata.name.clone(),
                container: String::new(),
                reason: reason.to_owned(),
                message: one_line(message, KUBERNETES_MAX),
                restarts: 0,
                since,
                log: None,
            },
            detail: String::new(),
            image: "",
            event: None,
            remedy: String::new(),
            failing: None,
        }
    }

    fn of_container(mut self, container: &'a Container) -> Self {
        self.blocked.container.clone_from(&container.name);
        self.blocked.restarts = container.restarts;
        self.blocked.log = Log::of(container);
        self.container = Some(container);
        self
    }

    fn with_message(mut self, message: String) -> Self {
        self.blocked.message = message;
        self
    }

    fn of_class(mut self, class: Class, is_definite: bool) -> Self {
        self.class = Some(class);
        self.is_definite = is_definite;
        self
    }

    /// Pods with the most restarts, which decide, come first, and then those that have been blocked longest.
    fn rank(&self) -> (Reverse<i32>, bool, Option<Time>, &str) {
        let pod = &self.blocked;
        (
            Reverse(pod.restarts),
            pod.since.is_none(),
            pod.since,
            &pod.name,
        )
    }
}
