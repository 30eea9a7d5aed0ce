//! What the status of a pod shows.

use rollplan_core::snapshot::{Container, ContainerState, Pod, PodCondition};
use rollplan_core::time::{Span, Time};

/// The reason of a pod with a readiness gate that is not met.
pub(crate) const GATES_NOT_READY: &str = "ReadinessGatesNotReady";
/// A condition Ready that changed later than this after the start of its pod shows that the pod was ready before. The first
/// report of a kubelet takes less.
const READY_BEFORE_SECONDS: i64 = 10;
/// How long a pod still counts as terminating after the end of its grace period: the kubelet takes a while to report, and
/// clocks differ.
const TERMINATING_MARGIN_SECONDS: i64 = 360;

/// The condition of a type.
pub(crate) fn condition<'a>(pod: &'a Pod, kind: &str) -> Option<&'a PodCondition> {
    pod.conditions
        .iter()
        .find(|condition| condition.kind == kind)
}

/// Whether a container with this reason waits for what comes before it: the volumes, the network and the init containers of
/// its pod (`ContainerCreating` and `PodInitializing` in pkg/kubelet/kubelet_pods.go of Kubernetes).
#[must_use]
pub fn is_creating(reason: &str) -> bool {
    matches!(reason, "ContainerCreating" | "PodInitializing")
}

/// Whether the kubelet has begun to create the containers of a pod, now or after a time of its clock: only then are all
/// volumes mounted, and is the sandbox ready. kubelet: pkg/kubelet/kubelet.go, `SyncPod`, and
/// pkg/kubelet/kuberuntime/kuberuntime_manager.go, `SyncPod`.
pub(crate) fn has_begun_since(pod: &Pod, since: Option<Time>) -> bool {
    let is_later = |state: &ContainerState| match state {
        ContainerState::Terminated { finished_at, .. } => *finished_at > since,
        _ => false,
    };
    let has_begun = |container: &Container| match &container.state {
        ContainerState::Running { .. } => true,
        ContainerState::Waiting { reason, .. } if !reason.is_empty() && !is_creating(reason) => {
            true
        }
        state => is_later(state) || is_later(&container.last_state),
    };
    condition(pod, "PodReadyToStartContainers").is_some_and(|it| it.status == "True")
        || pod.containers.iter().any(has_begun)
}

/// Whether a pod that is not ready has been ready before.
pub(crate) fn was_ready(pod: &Pod) -> bool {
    let ready = condition(pod, "Ready").filter(|ready| ready.status != "True");
    let changed = ready.and_then(|ready| ready.last_transition_time);
    let changed = changed.zip(pod.start_time);
    let is_later = changed.is_some_and(|(changed, start)| {
        changed.since(start) > Span::from_seconds(READY_BEFORE_SECONDS)
    });
    is_later || is_node_lost(pod)
}

/// Whether a pod is not ready although its containers are: its node has stopped reporting. kube-controller-manager:
/// pkg/controller/util/node/controller_utils.go, `MarkPodsNotReady`. The kubelet changes both conditions, unless a readiness
/// gate is not met, which it states as the reason.
pub(crate) fn is_node_lost(pod: &Pod) -> bool {
    if matches!(pod.phase.as_str(), "Failed" | "Succeeded") {
        return false;
    }
    let is_ready = |container: &Container| {
        let is_done = matches!(
            container.state,
            ContainerState::Terminated { exit_code: 0, .. }
        );
        // A sidecar counts like the main containers.
        container.ready || container.init && is_done
    };
    let are_ready = || match condition(pod, "ContainersReady") {
        Some(containers) => containers.status == "True",
        None => {
            pod.containers.iter().any(|container| !container.init)
                && pod.containers.iter().all(is_ready)
        }
    };
    condition(pod, "Ready").is_some_and(|ready| {
        ready.status != "True" && ready.reason != GATES_NOT_READY && are_ready()
    })
}

/// Whether a pod is terminating within its grace period and a margin. One that exceeds both is lost.
pub(crate) fn is_terminating(pod: &Pod, now: Time) -> bool {
    let end = pod.metadata.deletion_timestamp;
    let end = end.map(|end| end.plus_seconds(TERMINATING_MARGIN_SECONDS));
    end.is_some_and(|end| end > now) && !matches!(pod.phase.as_str(), "Failed" | "Succeeded")
}
