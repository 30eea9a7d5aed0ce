//! Failing probes according to events, and containers that the kubelet stops because of them.

use rollplan_core::snapshot::{Container, ContainerState, ObservedEvent, Pod};
use rollplan_core::time::Time;

use super::unavailable::start_error;
use super::{Explanation, OOM_KILLED, POST_START_ERROR};
use crate::explain::template::{self, Probe, ProbeKind};
use crate::judge::class::Class;
use crate::messages::{Facts, probe};
use crate::observe::context::{CLOCK_SKEW_SECONDS, PodContext, may_concern};
use crate::observe::pod::was_ready;
use crate::text::{PROGRAM_MAX, because, one_line};

/// How long the kubelet may take to stop a container after its grace period.
const KILL_MARGIN_SECONDS: i64 = 10;
/// The reason of events about hooks that failed. Their messages have no details, because these may contain passwords
/// (kubelet: pkg/kubelet/kuberuntime/kuberuntime_container.go, startContainer, executePreStopHook).
const POST_START_FAILED: &str = "FailedPostStartHook";
const PRE_STOP_FAILED: &str = "FailedPreStopHook";
/// The exit codes of a container that the kubelet has stopped or killed.
const KILLED: [i32; 3] = [0, 137, 143];

impl<'a> PodContext<'a> {
    /// A probe of a container, if the template has one.
    pub(super) fn probe(&self, container: &Container, kind: ProbeKind) -> Option<Probe> {
        let container = template::container(self.template?, &container.name, container.init)?;
        template::probe(container, kind)
    }

    /// The class of a terminated container: it could not start, the kubelet killed it, or it ended by itself.
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
        if start_error(end).is_some() {
            return Class::StartError;
        }
        let is_killed = KILLED.contains(exit_code) && reason != OOM_KILLED;
        let failed = self.unhealthy(pod, container, ProbeKind::Startup);
        if is_killed && failed.is_some() && container.started != Some(true) {
            return Class::StartupProbe;
        }
        Class::CrashLoop
    }

    /// Whether an init container is a sidecar, according to the pod or the template.
    pub(super) fn is_sidecar(&self, container: &Container) -> bool {
        if container.is_sidecar {
            return true;
        }
        let template = self.template.filter(|_| container.init);
        let template = template.and_then(|it| template::container(it, &container.name, true));
        template.is_some_and(template::is_sidecar)
    }

    /// The failure that the readiness probe of a running container reports. `None` unless the probe has certainly failed,
    /// according to an event or because its time has passed.
    pub(super) fn readiness_failure(
        &self,
        pod: &Pod,
        container: &Container,
        started_at: Option<Time>,
    ) -> Option<String> {
        let failed = self.unhealthy(pod, container, ProbeKind::Readiness);
        if let Some((_, output)) = failed.filter(|(event, _)| event.last >= started_at) {
            return Some(output);
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

    /// Adds the probe because of which the kubelet kills a container, and the failure of this probe.
    pub(super) fn explain_kill(&self, explanation: &mut Explanation<'_>, pod: &Pod, class: Class) {
        let Some(container) = explanation.container else {
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
        let grace = self.template.map_or(0, template::grace_period);
        let is_recent = |event: &ObservedEvent| {
            let last = event.last.zip(*finished_at);
            let end = grace.saturating_add(KILL_MARGIN_SECONDS);
            last.is_some_and(|(last, finished)| last.plus_seconds(end) >= finished)
        };
        // A hook also fails because the program has ended by itself.
        let hook = self.latest(pod, container, POST_START_FAILED);
        if class == Class::CrashLoop
            && is_killed
            && (explanation.blocked.reason == POST_START_ERROR || hook.is_some_and(is_recent))
        {
            explanation.detail =
                format!("killed because its postStart hook fails ({POST_START_FAILED})");
            explanation.remedy = format!(
                "correct lifecycle.postStart of container {}: only the log of the kubelet has its output",
                self.facts(pod, container).container
            );
            return;
        }
        let failed = |kind| {
            let failure = self.unhealthy(pod, container, kind);
            reason != OOM_KILLED && failure.is_some_and(|(event, _)| is_recent(event))
        };
        let kind = match class {
            Class::StartupProbe => ProbeKind::Startup,
            Class::CrashLoop if is_killed => ProbeKind::Liveness,
            // A program that the kubelet stops may exit with any code.
            Class::CrashLoop if failed(ProbeKind::Startup) => ProbeKind::Startup,
            Class::CrashLoop if failed(ProbeKind::Liveness) => ProbeKind::Liveness,
            _ => return,
        };
        let Some((_, output)) = self.unhealthy(pod, container, kind) else {
            return;
        };
        let (what, verb) = if is_killed {
            ("killed because", "fails")
        } else {
            ("after", "failed")
        };
        let name = kind.name().to_lowercase();
        let probe = self.probe(container, kind);
        let action = probe.map_or_else(String::new, |probe| format!(" {}", probe.action));
        let stop = self.latest(pod, container, PRE_STOP_FAILED);
        let stop = if stop.is_some_and(is_recent) {
            format!("; its preStop hook fails as well ({PRE_STOP_FAILED})")
        } else {
            String::new()
        };
        explanation.detail = format!(
            "{what} its {name} probe{action} {verb}{}{stop}",
            because(&output)
        );
        explanation.failing = Some((kind, output));
    }

    /// The latest failure of a probe: the event, and the output, which may be empty.
    pub(super) fn unhealthy(
        &self,
        pod: &Pod,
        container: &Container,
        kind: ProbeKind,
    ) -> Option<(&'a ObservedEvent, String)> {
        let events = self.events_about(&pod.metadata.uid);
        let of_kind = events.filter(|event| {
            event.reason == "Unhealthy"
                && event.message.starts_with(kind.name())
                && may_concern(event, &container.name)
        });
        let event = of_kind.max_by_key(|event| event.last)?;
        let output = probe::output(&event.message);
        let cause = probe::TABLE.look_up(&output).cause(&Facts::default());
        Some((event, one_line(&cause, PROGRAM_MAX)))
    }

    /// The latest event about a container with a reason.
    fn latest(&self, pod: &Pod, container: &Container, reason: &str) -> Option<&'a ObservedEvent> {
        let events = self.events_about(&pod.metadata.uid);
        let of_reason =
            events.filter(|event| event.reason == reason && may_concern(event, &container.name));
        of_reason.max_by_key(|event| event.last)
    }
}
