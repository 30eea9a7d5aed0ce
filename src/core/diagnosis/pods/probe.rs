//! What events show of probes that fail, and of the containers that the kubelet stops because of them.

use super::OOM_KILLED;
use crate::diagnosis::examiner::Examiner;
use crate::diagnosis::failure::class::Class;
use crate::diagnosis::template::{self, Probe, ProbeKind};
use crate::diagnosis::text::{PROGRAM_MAX, one_line};
use crate::snapshot::{Container, ContainerState, ObservedEvent, Pod};
use crate::time::Time;

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
        let failed = !self.unhealthy(pod, container, "Startup").is_empty();
        if is_killed && failed && container.started != Some(true) {
            return Class::StartupProbe;
        }
        Class::CrashLoop
    }

    /// Which probe makes the kubelet kill a container, and how it fails.
    pub(super) fn probe_failure(&self, pod: &Pod, container: &Container, class: Class) -> String {
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
            return String::new();
        };
        let is_killed = KILLED.contains(exit_code) && reason != OOM_KILLED;
        let failed =
            |name| reason != OOM_KILLED && self.failed_before(pod, container, name, *finished_at);
        let (kind, name) = match class {
            Class::StartupProbe => (ProbeKind::Startup, "Startup"),
            Class::CrashLoop if is_killed => (ProbeKind::Liveness, "Liveness"),
            // A program that the kubelet stops may exit with any code.
            Class::CrashLoop if failed("Startup") => (ProbeKind::Startup, "Startup"),
            Class::CrashLoop if failed("Liveness") => (ProbeKind::Liveness, "Liveness"),
            _ => return String::new(),
        };
        let failure = self.unhealthy(pod, container, name);
        let Some(probe) = self.probe(container, kind).filter(|_| !failure.is_empty()) else {
            return String::new();
        };
        let (what, verb) = match is_killed {
            true => ("killed because", "fails"),
            false => ("after", "failed"),
        };
        let name = name.to_lowercase();
        format!("{what} its {name} probe {} {verb}: {failure}", probe.action)
    }

    /// Whether a probe has failed shortly before the end of a container, by the clock of the kubelet.
    fn failed_before(
        &self,
        pod: &Pod,
        container: &Container,
        kind: &str,
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
        kind: &str,
    ) -> Option<&'a ObservedEvent> {
        let events = self.events_about(&pod.metadata.uid);
        let of_kind = events.filter(|event| {
            event.reason == "Unhealthy"
                && event.message.starts_with(kind)
                && event.may_concern(&container.name)
        });
        of_kind.max_by_key(|event| event.last)
    }

    /// The text of the latest failure of a probe.
    pub(super) fn unhealthy(&self, pod: &Pod, container: &Container, kind: &str) -> String {
        let latest = self.latest_unhealthy(pod, container, kind);
        let text = latest.map_or("", |event| event.message.as_str());
        let text = text
            .split_once(" probe failed: ")
            .map_or(text, |(_, text)| text);
        one_line(text, PROGRAM_MAX)
    }
}
