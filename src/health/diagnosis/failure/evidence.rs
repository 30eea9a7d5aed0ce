//! How long a failure has lasted. Because clocks differ, times are compared only if they are from the same clock, or with a
//! margin.

use crate::diagnosis::examiner::{Examiner, may_concern};
use crate::diagnosis::pods::{Finding, GATES_NOT_READY, condition};
use crate::messages::{container, image, mount};
use rollplan_core::snapshot::{Container, ContainerState, ObservedEvent, Pod};
use rollplan_core::time::{Span, Time};

use super::class::Class;
use super::retries::{BACK_OFF, NEVER_PULL, Retries};

/// The maximum difference between the clocks of the caller and of the cluster.
pub(in crate::diagnosis) const CLOCK_SKEW_SECONDS: i64 = 300;
/// The minimum time for which the containers of a pod must have kept terminating, because a short backoff allows many
/// restarts within seconds.
const CRASHING_SECONDS: i64 = 60;
/// A condition Ready that changed later than this after the start of its pod shows that the pod was ready before. The first
/// report of a kubelet takes less.
const READY_BEFORE_SECONDS: i64 = 10;

/// The beginning of an event about a failed attempt to pull an image (kubelet: pkg/kubelet/images/image_manager.go).
pub(in crate::diagnosis) const FAILED_PULL: &str = "Failed to pull image ";

impl Examiner<'_> {
    /// The time, by the clock of the caller, at which it is certain that an attempt after the grace of a failure has failed:
    /// now if this is already certain, and otherwise a later estimate.
    pub(super) fn grace_ends(
        &self,
        finding: &Finding<'_>,
        grace: i64,
        reported: Time,
    ) -> Option<Time> {
        let now = self.now;
        let retries = Retries::of(finding);
        let mut ends = Vec::new();
        if let Some(span) = self.attempts_span(finding) {
            if span.seconds() >= grace {
                return Some(now);
            }
            // The first attempt was made before it was reported.
            let next = retries.next_after(grace);
            ends.push(reported.plus_seconds(next));
            ends.push(now.plus_seconds(next - span.seconds()));
        }
        if !finding.is_from_event && is_synchronized(finding, grace) {
            let begins = [
                // The failure was reported to the caller by its own clock.
                Some(reported),
                attempts_since(finding).map(|since| since.plus_seconds(CLOCK_SKEW_SECONDS)),
            ];
            for begin in begins.into_iter().flatten() {
                let proven = retries.proven_after(grace, &finding.pod.reason);
                if begin.plus_seconds(proven) <= now {
                    return Some(now);
                }
                let later = [
                    retries.shown_after(grace),
                    retries.proven_after(grace, BACK_OFF),
                ];
                ends.extend(later.map(|after| begin.plus_seconds(after)));
            }
        }
        ends.into_iter().filter(|end| *end > now).min()
    }

    /// The time from the first to the last attempt that events report, by the clock of the kubelet.
    fn attempts_span(&self, finding: &Finding<'_>) -> Option<Span> {
        let class = finding.class?;
        let name = &finding.pod.container;
        let is_chosen = self.judgement.rules.changes(class);
        let definite = |event: &ObservedEvent| {
            let table = match class {
                Class::ImagePull => &image::TABLE,
                Class::Config if finding.is_from_event => &mount::TABLE,
                Class::Config => &container::TABLE,
                _ => return true,
            };
            self.is_certain(&table.look_up(&event.message), finding.container)
        };
        let attempts: Vec<_> = self
            .events_about(&finding.source.metadata.uid)
            .filter(|event| may_concern(event, name) && is_attempt(event, finding))
            .filter(|event| is_chosen || definite(event))
            .collect();
        let first = attempts.iter().filter_map(|event| event.first).min()?;
        let last = attempts.iter().filter_map(|event| event.last).max()?;
        Some(last.since(first))
    }

    /// How often the container of a failure has been restarted in the current rollout.
    pub(super) fn restarts(&self, finding: &Finding<'_>) -> i32 {
        let Some(container) = finding.container.filter(|_| finding.is_definite) else {
            return 0;
        };
        let finished = match (&container.state, &container.last_state) {
            (ContainerState::Terminated { finished_at, .. }, _)
            | (_, ContainerState::Terminated { finished_at, .. }) => *finished_at,
            _ => None,
        };
        // Both times are from the clock of the kubelet. All crashes are within this time.
        let lasted = finished.zip(finding.source.start_time);
        let is_chosen = finding
            .class
            .is_some_and(|class| self.judgement.rules.changes(class));
        let is_short = lasted.is_none_or(|(finished, start)| {
            finished.since(start) < Span::from_seconds(CRASHING_SECONDS)
        });
        if finding.class == Some(Class::CrashLoop) && is_short && !is_chosen {
            return 0;
        }
        container.restarts
    }
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

/// The earliest possible time of the first attempt that failed.
fn attempts_since(finding: &Finding<'_>) -> Option<Time> {
    let pod = finding.source;
    let is_init = finding.container.is_some_and(|container| container.init);
    let scheduled = condition(pod, "PodScheduled").and_then(|it| it.last_transition_time);
    let initialized = condition(pod, "Initialized").filter(|it| it.status == "True" && !is_init);
    let initialized = initialized.and_then(|it| it.last_transition_time);
    // Volumes and network come first.
    let sandbox = condition(pod, "PodReadyToStartContainers").filter(|it| it.status == "True");
    let sandbox = sandbox.and_then(|it| it.last_transition_time);
    // The kubelet starts one container after the other, and pulls the image of each first.
    let earlier = pod
        .containers
        .iter()
        .filter_map(|container| match &container.state {
            ContainerState::Running { started_at } => *started_at,
            ContainerState::Terminated { finished_at, .. } => *finished_at,
            ContainerState::Waiting { .. } | ContainerState::Unknown => None,
        });
    earlier
        .chain(scheduled)
        .chain(initialized)
        .chain(sandbox)
        .max()
        .or(pod.metadata.creation_timestamp)
}

/// Whether no other container of the pod can have delayed the synchronizations since the grace ended. The kubelet pulls
/// images one by one, and waits longer while a container crashes.
fn is_synchronized(finding: &Finding<'_>, grace: i64) -> bool {
    let pod = finding.source;
    let mut others = pod.containers.iter();
    others.all(|other| match &other.state {
        _ if other.name == finding.pod.container => true,
        ContainerState::Waiting { reason, .. } => {
            reason == "PodInitializing" || *reason == finding.pod.reason
        }
        // Both by the clock of the kubelet.
        ContainerState::Running { started_at } => {
            let started = started_at.zip(pod.start_time);
            started.is_some_and(|(started, start)| started <= start.plus_seconds(grace))
        }
        ContainerState::Terminated { exit_code, .. } => other.init && *exit_code == 0,
        ContainerState::Unknown => true,
    })
}

/// Whether an event reports another attempt of the kubelet or the scheduler.
fn is_attempt(event: &ObservedEvent, finding: &Finding<'_>) -> bool {
    let reason = event.reason.as_str();
    match finding.class {
        Some(Class::ImagePull) => {
            reason == NEVER_PULL || reason == "Failed" && event.message.starts_with(FAILED_PULL)
        }
        // The kubelet also reports that it is still waiting for the volumes.
        Some(Class::Config) if finding.is_from_event => {
            reason == "FailedMount"
                && !event
                    .message
                    .starts_with("Unable to attach or mount volumes")
        }
        Some(Class::Config) => {
            let error = event.message.strip_prefix("Error: ");
            reason == "Failed" && error.is_some_and(|error| !image::TABLE.reasons.contains(&error))
        }
        Some(Class::Unschedulable) => reason == "FailedScheduling",
        Some(Class::NotReady) => reason == "Unhealthy",
        _ => false,
    }
}
