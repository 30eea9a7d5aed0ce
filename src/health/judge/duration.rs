//! How long a failure has lasted. Because clocks differ, times are compared only if they are from the same clock, or with a
//! margin.

use rollplan_core::snapshot::{ContainerState, ObservedEvent};
use rollplan_core::time::{Span, Time};

use crate::explain::pods::Explanation;
use crate::messages::image::FAILED_PULL;
use crate::messages::{container, image, mount};
use crate::observe::context::{CLOCK_SKEW_SECONDS, PodContext, may_concern};
use crate::observe::pod::condition;

use super::class::Class;
use super::retries::{BACK_OFF, NEVER_PULL, PULL_SECONDS, Retries};

/// The minimum time for which the containers of a pod must have kept terminating, because a short backoff allows many
/// restarts within seconds.
const CRASHING_SECONDS: i64 = 60;

impl PodContext<'_> {
    /// The time, by the clock of the caller, at which it is certain that an attempt after the grace of a failure has failed:
    /// now if this is already certain, and otherwise a later estimate.
    pub(super) fn grace_ends(
        &self,
        explanation: &Explanation<'_>,
        grace: i64,
        reported: Time,
    ) -> Option<Time> {
        let now = self.now;
        if let Some(end) = self.pull_ends(explanation).filter(|end| *end > now) {
            return Some(end);
        }
        let retries = Retries::of(explanation);
        let mut ends = Vec::new();
        if let Some(span) = self.attempts_span(explanation) {
            if span.seconds() >= grace {
                return Some(now);
            }
            // The first attempt was made before it was reported.
            let next = retries.next_after(grace);
            ends.push(reported.plus_seconds(next));
            ends.push(now.plus_seconds(next - span.seconds()));
        }
        if !explanation.is_from_event && is_synchronized(explanation, grace) {
            let begins = [
                // The failure was reported to the caller by its own clock.
                Some(reported),
                attempts_since(explanation).map(|since| since.plus_seconds(CLOCK_SKEW_SECONDS)),
            ];
            for begin in begins.into_iter().flatten() {
                let proven = retries.proven_after(grace, &explanation.blocked.reason);
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

    /// When an attempt to pull an image that is newer than the last failed one ends at the latest. Until its end, the status of
    /// the container shows the failure before it.
    fn pull_ends(&self, explanation: &Explanation<'_>) -> Option<Time> {
        if explanation.class != Some(Class::ImagePull) {
            return None;
        }
        let name = &explanation.blocked.container;
        let events = || {
            let events = self.events_about(&explanation.pod.metadata.uid);
            events.filter(|event| may_concern(event, name))
        };
        let attempts =
            events().filter(|event| matches!(event.reason.as_str(), "Pulling" | "Pulled"));
        let begun = attempts.filter_map(|event| event.last).max()?;
        let failed = events().filter(|event| is_attempt(event, explanation));
        let failed = failed.filter_map(|event| event.last).max();
        (Some(begun) > failed).then(|| begun.plus_seconds(PULL_SECONDS))
    }

    /// The time from the first to the last attempt that events report, by the clock of the kubelet.
    fn attempts_span(&self, explanation: &Explanation<'_>) -> Option<Span> {
        let class = explanation.class?;
        let name = &explanation.blocked.container;
        let is_chosen = self.options.rules.changes(class);
        let definite = |event: &ObservedEvent| {
            let table = match class {
                Class::ImagePull => &image::TABLE,
                Class::Config if explanation.is_from_event => &mount::TABLE,
                Class::Config => &container::TABLE,
                _ => return true,
            };
            self.is_certain(&table.look_up(&event.message), explanation.container)
        };
        let attempts: Vec<_> = self
            .events_about(&explanation.pod.metadata.uid)
            .filter(|event| may_concern(event, name) && is_attempt(event, explanation))
            .filter(|event| is_chosen || definite(event))
            .collect();
        let first = attempts.iter().filter_map(|event| event.first).min()?;
        let last = attempts.iter().filter_map(|event| event.last).max()?;
        Some(last.since(first))
    }

    /// How often the container of a failure has been restarted in the current rollout.
    pub(super) fn restarts(&self, explanation: &Explanation<'_>) -> i32 {
        let Some(container) = explanation.container.filter(|_| explanation.is_definite) else {
            return 0;
        };
        let finished = match (&container.state, &container.last_state) {
            (ContainerState::Terminated { finished_at, .. }, _)
            | (_, ContainerState::Terminated { finished_at, .. }) => *finished_at,
            _ => None,
        };
        // Both times are from the clock of the kubelet. All crashes are within this time.
        let lasted = finished.zip(explanation.pod.start_time);
        let is_chosen = explanation
            .class
            .is_some_and(|class| self.options.rules.changes(class));
        let is_short = lasted.is_none_or(|(finished, start)| {
            finished.since(start) < Span::from_seconds(CRASHING_SECONDS)
        });
        if explanation.class == Some(Class::CrashLoop) && is_short && !is_chosen {
            return 0;
        }
        container.restarts
    }
}

/// The earliest possible time of the first attempt that failed.
fn attempts_since(explanation: &Explanation<'_>) -> Option<Time> {
    let pod = explanation.pod;
    let is_init = explanation
        .container
        .is_some_and(|container| container.init);
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
fn is_synchronized(explanation: &Explanation<'_>, grace: i64) -> bool {
    let pod = explanation.pod;
    let mut others = pod.containers.iter();
    others.all(|other| match &other.state {
        _ if other.name == explanation.blocked.container => true,
        ContainerState::Waiting { reason, .. } => {
            reason == "PodInitializing" || *reason == explanation.blocked.reason
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
fn is_attempt(event: &ObservedEvent, explanation: &Explanation<'_>) -> bool {
    let reason = event.reason.as_str();
    match explanation.class {
        Some(Class::ImagePull) => {
            matches!(reason, NEVER_PULL | "InspectFailed")
                || reason == "Failed" && event.message.starts_with(FAILED_PULL)
        }
        // The kubelet also reports that it is still waiting for the volumes.
        Some(Class::Config) if explanation.is_from_event => {
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
