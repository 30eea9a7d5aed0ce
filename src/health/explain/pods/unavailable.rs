//! Determines why a pod is not available.

use rollplan_core::snapshot::{Container, ContainerState, ObservedEvent, Pod};
use rollplan_core::time::{Span, Time};

use super::scheduling::scheduler_text;
use super::{Explanation, NODE_LOST, POST_START_ERROR, RUN_ERROR, START_ERROR};
use crate::explain::Cause;
use crate::explain::template::ProbeKind;
use crate::judge::class::Class;
use crate::messages::image::{BACK_OFF_PULL, FAILED_PULL};
use crate::messages::{self, Facts, Message, Persistence};
use crate::observe::context::{PodContext, may_concern};
use crate::observe::pod::{GATES_NOT_READY, condition, is_creating, is_node_lost};
use crate::text::{KUBERNETES_MAX, NAME_MAX, because, last_line, one_line, or, word};

/// The number of seconds after which a running container no longer counts as crashing, because the kubelet resets its
/// backoff.
const BACKOFF_RESET_SECONDS: i64 = 600;
/// How many seconds controllers may take to count a pod as available. A busy one takes several.
const COUNTING_SECONDS: i64 = 60;

impl<'a> PodContext<'a> {
    /// The reasons why pods are not available. Pods that are being deleted are skipped.
    pub(crate) fn explain_all(&self, pods: impl Iterator<Item = &'a Pod>) -> Vec<Explanation<'a>> {
        pods.filter(|pod| pod.metadata.deletion_timestamp.is_none())
            .take_while(|_| !self.interrupt.is_interrupted())
            .filter_map(|pod| self.explain(pod))
            .collect()
    }

    /// The reason why a pod is not available. `None` if it is.
    pub(crate) fn explain(&self, pod: &'a Pod) -> Option<Explanation<'a>> {
        let now = self.now;
        let created = pod.metadata.creation_timestamp;
        let ready = condition(pod, "Ready");
        if matches!(pod.phase.as_str(), "Failed" | "Succeeded") {
            let since = ready.and_then(|condition| condition.last_transition_time);
            let explanation = |reason: &str, message: &str, since| {
                Explanation::new(Cause::PodFailed, pod, reason, message, since)
            };
            // The reason of a pod is set only by what has ended the pod from outside, for example an eviction.
            let disrupted = condition(pod, "DisruptionTarget").filter(|it| it.status == "True");
            return Some(match (failed_container(pod), disrupted) {
                (Some((container, reason)), None) if pod.reason.is_empty() => {
                    let how = self.termination(pod, container, &container.state);
                    let (how, at) = how.unwrap_or_default();
                    let explanation = explanation(or(reason, &pod.phase), "", at.or(since));
                    let mut explanation = explanation.with_message(how).of_container(container);
                    if let Some(error) = start_error(&container.state) {
                        explanation.remedy = self.start_remedy(pod, container, &error);
                    }
                    explanation
                }
                (_, Some(condition)) if pod.reason.is_empty() => {
                    explanation(&condition.reason, &condition.message, since.or(created))
                }
                _ => explanation(or(&pod.reason, &pod.phase), &pod.message, since.or(created)),
            });
        }
        if let Some(condition) = ready.filter(|condition| condition.status == "True") {
            let min_ready = i64::from(self.min_ready_seconds);
            let since = condition.last_transition_time;
            let ready_for = since.map_or(Span::default(), |since| now.since(since));
            return (ready_for < Span::from_seconds(min_ready)).then(|| {
                let mut explanation =
                    Explanation::new(Cause::MinReadySeconds, pod, "Ready", "", since);
                explanation.available_by = self.counted_by(pod);
                explanation
            });
        }
        if let Some(condition) =
            condition(pod, "PodScheduled").filter(|condition| condition.status == "False")
        {
            let reason = or(&condition.reason, "Unschedulable");
            let message = scheduler_text(&condition.message);
            let since = condition.last_transition_time.or(created);
            let explanation = Explanation::new(Cause::Unschedulable, pod, reason, message, since);
            return Some(explanation.of_class(Class::Unschedulable, false));
        }
        if self.awaits_scheduler(pod) {
            let explanation = Explanation::new(Cause::Unschedulable, pod, "Pending", "", created);
            return Some(explanation.of_class(Class::Unschedulable, false));
        }
        let has_started = pod.containers.iter().any(|container| {
            !container.init && matches!(container.state, ContainerState::Running { .. })
        });
        // The worst container determines the cause, and of several the one whose probe certainly fails.
        let worst = pod
            .containers
            .iter()
            .filter_map(|container| self.explain_container(pod, container, has_started))
            .min_by_key(|explanation| (explanation.cause, explanation.failing.is_none()));
        let worst = match (worst, self.kept_running(pod)) {
            (Some(mut worst), Some(kept)) if worst.cause < Cause::NotReady => {
                let state = worst.container.map(|container| &container.state);
                if matches!(state, Some(ContainerState::Terminated { .. })) {
                    worst.detail = format!("container {} keeps running", kept.blocked.container);
                }
                Some(worst)
            }
            (worst, kept) => kept.or(worst),
        };
        if let Some(mut explanation) = worst {
            let scheduled = condition(pod, "PodScheduled");
            explanation.blocked.since = explanation
                .blocked
                .since
                .or_else(|| scheduled.and_then(|condition| condition.last_transition_time))
                .or(created);
            if explanation.cause == Cause::Starting && explanation.available_by.is_none() {
                self.explain_start(&mut explanation);
            }
            return Some(explanation);
        }
        if let Some(condition) = ready {
            let since = condition.last_transition_time.or(created);
            let (reason, message) = (&condition.reason, &condition.message);
            let is_gated = reason == GATES_NOT_READY;
            if is_gated || is_node_lost(pod) {
                let reason = if is_gated { reason } else { NODE_LOST };
                let explanation = Explanation::new(Cause::NotReady, pod, reason, message, since);
                return Some(explanation.of_class(Class::NotReady, false));
            }
        }
        if self.may_complete && pod.phase == "Running" {
            // Its containers have completed or are running.
            return None;
        }
        let mut explanation =
            Explanation::new(Cause::Starting, pod, or(&pod.phase, "Pending"), "", created);
        self.explain_start(&mut explanation);
        Some(explanation)
    }

    /// A container that keeps a pod running although another one has ended for good. The kubelet stops native sidecars
    /// itself, which are init containers.
    fn kept_running(&self, pod: &'a Pod) -> Option<Explanation<'a>> {
        let containers = || pod.containers.iter().filter(|container| !container.init);
        let ended = containers().filter_map(|container| match &container.state {
            ContainerState::Terminated { finished_at, .. } => Some((container, *finished_at)),
            _ => None,
        });
        let ended = ended
            .max_by_key(|(_, at)| *at)
            .filter(|_| self.may_complete);
        let (ended, at) = ended?;
        containers().find_map(|container| match &container.state {
            ContainerState::Running { started_at } => {
                let mut explanation =
                    Explanation::new(Cause::Running, pod, "Running", "", *started_at);
                let ago = at.map(|at| format!(" {} ago", self.now.since(at)));
                let ago = ago.unwrap_or_default();
                explanation.detail = format!("container {} completed{ago}", ended.name);
                Some(explanation.of_container(container))
            }
            _ => None,
        })
    }

    /// The reason why a container is not ready. `has_started` means that the pod is initialized, so that an init container
    /// that is still running is a sidecar.
    fn explain_container(
        &self,
        pod: &'a Pod,
        container: &'a Container,
        has_started: bool,
    ) -> Option<Explanation<'a>> {
        let explanation = |cause, reason: &str, message: &str, since| {
            Explanation::new(cause, pod, reason, message, since).of_container(container)
        };
        let crash = |reason: &str, state: &ContainerState, otherwise: &str| {
            let class = self.class_of_crash(pod, container, state);
            let end = self.termination(pod, container, state);
            let at = end.as_ref().and_then(|(_, at)| *at);
            let how = end.map_or_else(|| otherwise.to_owned(), |(how, _)| how);
            let mut explanation = explanation(Cause::CrashLoop, reason, &how, at);
            explanation = explanation.of_class(class, !self.is_inherited(pod));
            if let Some(error) = start_error(state) {
                explanation.is_definite &= self.is_certain(&error, Some(container));
                explanation.remedy = self.start_remedy(pod, container, &error);
            }
            self.explain_kill(&mut explanation, pod, class);
            explanation
        };
        match &container.state {
            ContainerState::Waiting { reason, message } => {
                let reason = or(reason, "Waiting");
                let facts = self.facts(pod, container);
                if messages::image::TABLE.reasons.contains(&reason) {
                    let text = self.pull_error(pod, container, message);
                    let error = messages::image::TABLE.look_up(text);
                    let mut explanation = explanation(Cause::ImagePull, reason, message, None);
                    explanation.detail = error.cause(&facts);
                    explanation.remedy = error.remedy(&facts);
                    explanation.image = self.pulled_image(pod, container, message);
                    let (class, is_definite) = match reason {
                        "InvalidImageName" => (Class::ImageName, true),
                        "ErrImageNeverPull" => (Class::ImagePull, true),
                        _ => (Class::ImagePull, error.is_definite()),
                    };
                    Some(explanation.of_class(class, is_definite))
                } else if messages::container::TABLE.reasons.contains(&reason) {
                    let error = messages::container::TABLE.look_up(message);
                    let mut explanation =
                        explanation(Cause::ContainerConfig, reason, message, None);
                    explanation.detail = error.cause(&facts);
                    explanation.remedy = self.start_remedy(pod, container, &error);
                    let is_definite = self.is_certain(&error, Some(container));
                    Some(explanation.of_class(Class::Config, is_definite))
                } else if reason == RUN_ERROR && termination_of(&container.last_state).is_none() {
                    let error = messages::container::TABLE.look_up(message);
                    let mut explanation = explanation(Cause::CrashLoop, reason, message, None);
                    explanation.blocked.message = error.cause(&facts);
                    explanation.remedy = self.start_remedy(pod, container, &error);
                    let is_definite = self.is_certain(&error, Some(container));
                    Some(
                        explanation
                            .of_class(Class::StartError, is_definite && !self.is_inherited(pod)),
                    )
                } else if matches!(reason, "CrashLoopBackOff" | RUN_ERROR | POST_START_ERROR)
                    || container.restarts > 0
                {
                    // The message about a failed hook has its output.
                    let otherwise = match reason {
                        POST_START_ERROR => "",
                        _ => message,
                    };
                    Some(crash(reason, &container.last_state, otherwise))
                } else {
                    Some(explanation(Cause::Starting, reason, message, None))
                }
            }
            ContainerState::Running { .. } if container.ready => None,
            ContainerState::Running { started_at }
                if container.init && !has_started && !self.is_sidecar(container) =>
            {
                let mut explanation = explanation(Cause::Starting, "Init", "", *started_at);
                explanation.detail = format!(
                    "init container {} is running",
                    one_line(&container.name, NAME_MAX)
                );
                Some(explanation)
            }
            ContainerState::Running { started_at } => {
                let recent = started_at.is_some_and(|started| {
                    self.now.since(started) < Span::from_seconds(BACKOFF_RESET_SECONDS)
                });
                let last = self.termination(pod, container, &container.last_state);
                if let Some((how, _)) = last.filter(|_| container.restarts > 0 && recent) {
                    let mut explanation =
                        explanation(Cause::CrashLoop, "Running", &how, *started_at);
                    // It is running now, so it has not failed again.
                    let class = self.class_of_crash(pod, container, &container.last_state);
                    self.explain_kill(&mut explanation, pod, class);
                    return Some(explanation);
                }
                let startup = self.probe(container, ProbeKind::Startup);
                let is_starting = startup.is_some() && container.started == Some(false);
                // A sidecar that has started does not delay the containers that follow.
                if container.init && !has_started && !is_starting {
                    return None;
                }
                let readiness = self.probe(container, ProbeKind::Readiness);
                // Readiness is probed once the startup probe has passed, which may take all of its time.
                let available_by = startup.as_ref().zip(*started_at).map(|(startup, started)| {
                    let readiness = readiness.as_ref().map_or(0, |readiness| readiness.budget);
                    started.plus_seconds(startup.budget.saturating_add(readiness))
                });
                let available_by = available_by.filter(|_| container.restarts == 0);
                if let Some(probe) = startup.filter(|_| is_starting) {
                    let mut explanation = explanation(Cause::Starting, "Running", "", *started_at);
                    let action = probe.action;
                    explanation.detail = format!("startup probe {action} has not passed yet");
                    explanation.available_by = available_by;
                    let end = started_at.map(|started| started.plus_seconds(probe.budget));
                    if let Some(end) = end.filter(|_| container.restarts == 0) {
                        let left = end.since(self.now);
                        explanation.detail = format!("{}, {left} left", explanation.detail);
                    }
                    return Some(explanation);
                }
                let mut explanation = explanation(Cause::NotReady, "Running", "", *started_at);
                explanation.available_by = available_by.filter(|end| *end > self.now);
                let failure = self.readiness_failure(pod, container, *started_at);
                // A webhook may have added the container, and its probe.
                let action = readiness.map(|probe| format!(" {}", probe.action));
                explanation.detail = match (&failure, action) {
                    (Some(failure), action) => {
                        let action = action.unwrap_or_default();
                        format!("readiness probe{action} fails{}", because(failure))
                    }
                    (None, Some(action)) => format!("readiness probe{action} has not passed yet"),
                    (None, None) => String::new(),
                };
                explanation.failing = failure.map(|failure| (ProbeKind::Readiness, failure));
                Some(explanation.of_class(Class::NotReady, false))
            }
            ContainerState::Terminated {
                exit_code, reason, ..
            } if *exit_code != 0 || !(container.init || self.may_complete) => {
                Some(crash(or(reason, "Terminated"), &container.state, ""))
            }
            ContainerState::Terminated { .. } | ContainerState::Unknown => None,
        }
    }

    /// The time by which the controllers will have counted a ready pod as available. `None` if the pod is not ready, or if
    /// this time has passed.
    pub(crate) fn counted_by(&self, pod: &Pod) -> Option<Time> {
        let ready = condition(pod, "Ready").filter(|condition| condition.status == "True")?;
        let wait = i64::from(self.min_ready_seconds).saturating_add(COUNTING_SECONDS);
        let end = ready.last_transition_time?.plus_seconds(wait);
        (end > self.now).then_some(end)
    }

    /// Whether the restarts of a pod are those of an earlier rollout.
    fn is_inherited(&self, pod: &Pod) -> bool {
        let created = pod.metadata.creation_timestamp;
        let began = created.zip(self.rollout_began);
        began.is_some_and(|(created, began)| created < began)
    }

    /// How and when a container terminated, for example "Error, exit code 1: last line of its output".
    fn termination(
        &self,
        pod: &Pod,
        container: &Container,
        state: &ContainerState,
    ) -> Option<(String, Option<Time>)> {
        let (reason, exit_code, message, finished_at) = termination_of(state)?;
        let output = match start_error(state) {
            Some(error) => error.cause(&self.facts(pod, container)),
            None => last_line(message),
        };
        let reason = match reason {
            "" => String::new(),
            reason => format!("{reason}, "),
        };
        let how = format!("{reason}exit code {exit_code}{}", because(&output));
        Some((how, finished_at))
    }

    /// What to do about a container that cannot be created or started.
    fn start_remedy(&self, pod: &Pod, container: &Container, error: &Message) -> String {
        let facts = self.facts(pod, container);
        match self.volume_of(error, Some(container)) {
            Some(mount) if error.persistence() == Persistence::UnlessOnVolume => format!(
                "check which container puts {} on the volume at {}, or correct the command of container {}",
                one_line(error.hole("file").unwrap_or_default(), NAME_MAX),
                one_line(&mount, NAME_MAX),
                facts.container
            ),
            _ => error.remedy(&facts),
        }
    }

    /// What remedies name.
    pub(super) fn facts(&self, pod: &Pod, container: &Container) -> Facts {
        let node = pod.node_name.as_str();
        Facts {
            namespace: word(self.namespace),
            pod: word(&pod.metadata.name),
            container: word(&container.name),
            node: if node.is_empty() {
                String::new()
            } else {
                word(node)
            },
            ..Facts::default()
        }
    }

    /// Why an image cannot be pulled. Older kubelets report this in events only.
    fn pull_error(&self, pod: &Pod, container: &Container, message: &'a str) -> &'a str {
        if message.contains(": ") {
            return message;
        }
        self.failed_pull(pod, container).unwrap_or(message)
    }

    /// The image that cannot be pulled. The status of a container also reports that of a volume of type image, which only
    /// the kubelet's text names (pkg/kubelet/kuberuntime/kuberuntime_manager.go, SyncPod).
    fn pulled_image(&self, pod: &Pod, container: &'a Container, message: &'a str) -> &'a str {
        let named = |text: &'a str| {
            let mut beginnings = [BACK_OFF_PULL, FAILED_PULL].into_iter();
            let quoted = beginnings.find_map(|beginning| text.strip_prefix(beginning))?;
            Some(quoted.strip_prefix('"')?.split_once('"')?.0)
        };
        let named = named(message).or_else(|| named(self.failed_pull(pod, container)?));
        named.unwrap_or(&container.image)
    }

    /// The message of the newest event about a failed attempt to pull an image for a container.
    fn failed_pull(&self, pod: &Pod, container: &Container) -> Option<&'a str> {
        let events = self.events_about(&pod.metadata.uid);
        let failed = events.filter(|event| {
            event.message.starts_with(FAILED_PULL) && may_concern(event, &container.name)
        });
        let newest = failed.max_by_key(|event| event.last)?;
        Some(&newest.message)
    }

    /// Why a pod has not started. Problems with volumes and networks are reported in events only.
    fn explain_start(&self, explanation: &mut Explanation<'a>) {
        let failed = self.start_failure(explanation.pod);
        if let Some(pulling) = self.pulling(explanation)
            && failed.is_none_or(|failed| failed.last < pulling.last)
        {
            explanation.blocked.reason.clone_from(&pulling.reason);
            explanation.blocked.since = pulling.last.or(explanation.blocked.since);
            explanation.detail = one_line(&pulling.message, KUBERNETES_MAX);
            return;
        }
        let Some(event) = failed else {
            return;
        };
        explanation.event = Some(event);
        let error = messages::mount::TABLE.look_up(&event.message);
        if event.reason == "FailedMount" && error.is_definite() {
            explanation.cause = Cause::ContainerConfig;
            explanation.class = Some(Class::Config);
            explanation.is_definite = true;
            explanation.is_from_event = true;
            explanation.blocked.container.clear();
            explanation.blocked.message = one_line(&event.message, KUBERNETES_MAX);
            explanation.detail.clone_from(&explanation.blocked.message);
            let facts = Facts {
                namespace: word(self.namespace),
                ..Facts::default()
            };
            explanation.remedy = error.remedy(&facts);
        } else {
            let text = format!("{}: {}", event.reason, event.message);
            explanation.detail = one_line(&text, KUBERNETES_MAX);
        }
    }

    /// The event about an image that the kubelet is still pulling. While it does, the status of the container shows the
    /// state before, which is ContainerCreating at first.
    fn pulling(&self, explanation: &Explanation<'_>) -> Option<&'a ObservedEvent> {
        let is_being_created = |container: &Container| {
            let ContainerState::Waiting { reason, .. } = &container.state else {
                return false;
            };
            is_creating(reason)
        };
        if !explanation.container.is_some_and(is_being_created) {
            return None;
        }
        let events = || self.events_about(&explanation.pod.metadata.uid);
        let pulling = events().filter(|event| event.reason == "Pulling");
        let pulling = pulling.max_by_key(|event| event.last)?;
        // kubelet: pkg/kubelet/images/image_manager.go, pullImage: Pulled, or Failed, ends the attempt.
        let is_over = events().any(|event| {
            matches!(
                event.reason.as_str(),
                "Pulled" | "Failed" | "Created" | "Started"
            ) && event.field_path == pulling.field_path
                && event.last >= pulling.last
        });
        (!is_over).then_some(pulling)
    }
}

/// The first container of a pod that ended with an error, and the reason. Containers that ended later may have been stopped
/// because of it.
fn failed_container(pod: &Pod) -> Option<(&Container, &str)> {
    let failed = pod
        .containers
        .iter()
        .filter_map(|container| match &container.state {
            ContainerState::Terminated {
                exit_code,
                reason,
                finished_at,
                ..
            } if *exit_code != 0 => Some((container, reason.as_str(), *finished_at)),
            _ => None,
        });
    let first = failed.min_by_key(|(_, _, at)| (at.is_none(), *at))?;
    Some((first.0, first.1))
}

/// How a container terminated, if it did.
fn termination_of(state: &ContainerState) -> Option<(&str, i32, &str, Option<Time>)> {
    match state {
        ContainerState::Terminated {
            exit_code,
            reason,
            message,
            finished_at,
        } => Some((reason, *exit_code, message, *finished_at)),
        ContainerState::Waiting { .. }
        | ContainerState::Running { .. }
        | ContainerState::Unknown => None,
    }
}

/// The error of the runtime because of which the program of a container could not be started.
pub(super) fn start_error(state: &ContainerState) -> Option<Message> {
    let (reason, exit_code, message, _) = termination_of(state)?;
    if START_ERROR.contains(&reason) {
        return Some(messages::container::TABLE.look_up(message));
    }
    let error = messages::container::EXECUTIONS.look_up(message);
    (exit_code != 0 && error.is_known()).then_some(error)
}
