//! What events show of probes that fail, and of the containers that the kubelet stops because of them.

use super::{Finding, OOM_KILLED};
use crate::diagnosis::examiner::{Examiner, may_concern};
use crate::diagnosis::failure::class::Class;
use crate::diagnosis::failure::evidence::{CLOCK_SKEW_SECONDS, was_ready};
use crate::diagnosis::template::{self, Probe, ProbeKind};
use crate::diagnosis::text::{PROGRAM_MAX, one_line};
use rollplan_core::snapshot::{Container, ContainerState, ObservedEvent, Pod};
use rollplan_core::time::Time;

/// How long after a failure of a probe a container ends that the kubelet stops for it: the default grace period.
const PROBE_KILL_SECONDS: i64 = 30;
/// The exit codes of a container that the kubelet has stopped or killed.
const KILLED: [i32; 3] = [0, 137, 143];

impl<'a> Examiner<'a> {
    /// A probe of a container, if its template has it.
    pub(super) fn probe(&self, container: &Container, kind: ProbeKind) -> Option<Probe> {
        let container = template::container(self.template?, &container.name, container.init)?;
        template::probe(container, kind)
    }

    /// Tells containers that cannot start, and those that the kubelet kills, from those that end by themselves.
    pub(super) fn class_of_crash(
        &self,
        pod: &Pod,
        container: &Container,
        end: &ContainerState,
    ) -> Class {
        let ContainerState::Terminated {
            exit_code, reason, ..
        } = end
        else {
            return Class::CrashLoop;
        };
        if matches!(reason.as_str(), "StartError" | "ContainerCannotRun") {
            return Class::StartError;
        }
        let is_killed = KILLED.contains(exit_code) && reason != OOM_KILLED;
        let failed = !self
            .unhealthy(pod, container, ProbeKind::Startup)
            .is_empty();
        if is_killed && failed && container.started != Some(true) {
            return Class::StartupProbe;
        }
        Class::CrashLoop
    }

    /// Whether an init container is a sidecar, as far as its template shows.
    pub(super) fn is_sidecar(&self, container: &Container) -> bool {
        let template = self.template.filter(|_| container.init);
        let template = template.and_then(|it| template::container(it, &container.name, true));
        template.is_some_and(template::is_sidecar)
    }

    /// What the readiness probe of a running container reports. `None` until it has certainly failed: according to an event, or
    /// because it could have passed within its time.
    pub(super) fn readiness_failure(
        &self,
        pod: &Pod,
        container: &Container,
        started_at: Option<Time>,
    ) -> Option<String> {
        let event = self.latest_unhealthy(pod, container, ProbeKind::Readiness);
        let is_current = |event: &&ObservedEvent| event.last >= started_at;
        if event.filter(is_current).is_some() {
            return Some(self.unhealthy(pod, container, ProbeKind::Readiness));
        }
        if was_ready(pod) {
            return Some(String::new());
        }
        let readiness = self.probe(container, ProbeKind::Readiness)?;
        // It begins once the startup probe has passed.
        let startup = self.probe(container, ProbeKind::Startup);
        let startup = startup.map_or(0, |probe| probe.budget);
        let time = startup.saturating_add(readiness.budget);
        let end = started_at.map(|started| started.plus_seconds(time + CLOCK_SKEW_SECONDS));
        let is_over = end.is_some_and(|end| end <= self.now);
        is_over.then(String::new)
    }

    /// Adds which probe makes the kubelet kill a container, and how it fails.
    pub(super) fn explain_kill(&self, finding: &mut Finding<'_>, pod: &Pod, class: Class) {
        let Some(container) = finding.container else {
            return;
        };
        let end = match &container.state {
            ContainerState::Terminated { .. } => &container.state,
            _ => &container.last_state,
        };
        let ContainerState::Terminated {
            exit_code,
            reason,
            finished_at,
            ..
        } = end
        else {
            return;
        };
        let is_killed = KILLED.contains(exit_code) && reason != OOM_KILLED;
        let failed =
            |kind| reason != OOM_KILLED && self.failed_before(pod, container, kind, *finished_at);
        let kind = match class {
            Class::StartupProbe => ProbeKind::Startup,
            Class::CrashLoop if is_killed => ProbeKind::Liveness,
            // A program that the kubelet stops may exit with any code.
            Class::CrashLoop if failed(ProbeKind::Startup) => ProbeKind::Startup,
            Class::CrashLoop if failed(ProbeKind::Liveness) => ProbeKind::Liveness,
            _ => return,
        };
        let failure = self.unhealthy(pod, container, kind);
        let Some(probe) = self.probe(container, kind).filter(|_| !failure.is_empty()) else {
            return;
        };
        let (what, verb) = match is_killed {
            true => ("killed because", "fails"),
            false => ("after", "failed"),
        };
        let name = kind.name().to_lowercase();
        let action = probe.action;
        finding.detail = format!("{what} its {name} probe {action} {verb}: {failure}");
        finding.failing = Some((kind, failure));
    }

    /// Whether a probe has failed shortly before the end of a container, by the clock of the kubelet.
    fn failed_before(
        &self,
        pod: &Pod,
        container: &Container,
        kind: ProbeKind,
        finished: Option<Time>,
    ) -> bool {
        let failed = self.latest_unhealthy(pod, container, kind);
        let failed = failed.and_then(|event| event.last).zip(finished);
        failed.is_some_and(|(failed, finished)| failed.plus_seconds(PROBE_KILL_SECONDS) >= finished)
    }

    /// The latest failure of a probe that events show.
    fn latest_unhealthy(
        &self,
        pod: &Pod,
        container: &Container,
        kind: ProbeKind,
    ) -> Option<&'a ObservedEvent> {
        let events = self.events_about(&pod.metadata.uid);
        let of_kind = events.filter(|event| {
            event.reason == "Unhealthy"
                && event.message.starts_with(kind.name())
                && may_concern(event, &container.name)
        });
        of_kind.max_by_key(|event| event.last)
    }

    /// The text of the latest failure of a probe.
    pub(super) fn unhealthy(&self, pod: &Pod, container: &Container, kind: ProbeKind) -> String {
        let latest = self.latest_unhealthy(pod, container, kind);
        let text = latest.map_or("", |event| event.message.as_str());
        let text = text
            .split_once(" probe failed: ")
            .map_or(text, |(_, text)| text);
        one_line(text, PROGRAM_MAX)
    }
}
