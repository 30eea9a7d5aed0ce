//! How long a failure has lasted. Clocks differ: what counts are times of one clock, and the difference of two clocks only
//! with a margin.

use crate::diagnosis::examiner::Examiner;
use crate::diagnosis::pods::{Finding, GATES_NOT_READY, condition};
use crate::snapshot::{Container, ContainerState, ObservedEvent, Pod};
use crate::time::{Span, Time};

use super::class::Class;
use super::definite;

/// How far the clock of the caller may be off that of the cluster.
const CLOCK_SKEW_SECONDS: i64 = 300;
/// How long the containers of a pod must have kept terminating: with a short backoff, restarts alone come fast.
const CRASHING_SECONDS: i64 = 60;
/// How much later than its pod a container is that has been ready before. The first report of a kubelet takes less.
const READY_BEFORE_SECONDS: i64 = 10;

impl Examiner<'_> {
    /// When the grace of a failure ends, by the clock of the caller. Not later than now if it has ended.
    pub(super) fn grace_ends(
        &self,
        finding: &Finding<'_>,
        grace: i64,
        reported: Time,
    ) -> Option<Time> {
        let now = self.now;
        let mut ends = Vec::new();
        // The failure was reported to the caller by its own clock.
        if !finding.is_from_event {
            ends.push(reported.plus_seconds(grace));
            let since = attempts_since(finding);
            ends.extend(since.map(|since| since.plus_seconds(grace + CLOCK_SKEW_SECONDS)));
        }
        let span = self.repeated_for(finding);
        ends.extend(span.map(|span| match span.seconds() >= grace {
            true => now,
            false => now.plus_seconds(grace - span.seconds()),
        }));
        ends.into_iter().min()
    }

    /// How long the kubelet has been repeating a failure, by its own clock.
    fn repeated_for(&self, finding: &Finding<'_>) -> Option<Span> {
        let class = finding.class?;
        let container = &finding.pod.container;
        let events: Vec<_> = self
            .events_about(&finding.source.metadata.uid)
            .filter(|event| event.may_concern(container) && is_about(event, class))
            .collect();
        let definite = |event: &&&ObservedEvent| match class {
            Class::ImagePull => {
                definite::is_image(&event.message) || event.message.contains("ErrImageNeverPull")
            }
            Class::Config => definite::is_config(&event.message),
            _ => true,
        };
        let is_chosen = self.judgement.rules.changes(class);
        let counted = || events.iter().filter(|event| is_chosen || definite(event));
        let attempts: i64 = counted().map(|event| i64::from(event.count)).sum();
        let first = counted().filter_map(|event| event.first).min()?;
        let last = events.iter().filter_map(|event| event.last).max()?;
        (attempts >= 2).then(|| last.since(first))
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
        // Both by the clock of the kubelet. The first and the last crash are at least so far apart.
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

/// Whether a pod is not ready although its containers are: its node has stopped reporting.
pub(in crate::diagnosis) fn is_node_lost(pod: &Pod) -> bool {
    let is_ready = |container: &Container| {
        let is_done = matches!(
            container.state,
            ContainerState::Terminated { exit_code: 0, .. }
        );
        // A sidecar counts as the other containers do.
        container.ready || container.init && is_done
    };
    condition(pod, "Ready").is_some_and(|ready| {
        ready.status != "True"
            && ready.reason != GATES_NOT_READY
            && pod.containers.iter().any(|container| !container.init)
            && pod.containers.iter().all(is_ready)
    })
}

/// When the first attempt at what fails can have been made.
fn attempts_since(finding: &Finding<'_>) -> Option<Time> {
    let pod = finding.source;
    let is_init = finding.container.is_some_and(|container| container.init);
    let scheduled = condition(pod, "PodScheduled").and_then(|it| it.last_transition_time);
    let initialized = condition(pod, "Initialized").filter(|it| it.status == "True" && !is_init);
    let initialized = initialized.and_then(|it| it.last_transition_time);
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
        .max()
        .or(pod.metadata.creation_timestamp)
}

fn is_about(event: &ObservedEvent, class: Class) -> bool {
    let has = |text: &str| event.message.contains(text);
    match class {
        Class::ImagePull => {
            matches!(
                event.reason.as_str(),
                "Failed" | "BackOff" | "ErrImageNeverPull"
            ) && (has("image") || has("ImagePull") || has("ErrImage"))
        }
        Class::Config => matches!(event.reason.as_str(), "Failed" | "FailedMount"),
        Class::Unschedulable => event.reason == "FailedScheduling",
        Class::NotReady => event.reason == "Unhealthy",
        _ => false,
    }
}
