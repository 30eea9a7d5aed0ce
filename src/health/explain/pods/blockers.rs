//! Formats messages about pods that are not available, with remedies.

use std::collections::BTreeMap;

use rollplan_core::snapshot::{ContainerState, Pod};
use rollplan_core::time::Span;

use super::scheduling::scheduler_name;
use super::{Explanation, GATED, NODE_LOST, OOM_KILLED};
use crate::explain::template::{self, ProbeKind};
use crate::explain::{BlockedPod, Blocker, Cause};
use crate::judge::class::Class;
use crate::messages::{Facts, probe};
use crate::observe::context::PodContext;
use crate::observe::pod::condition;
use crate::text::{KUBERNETES_MAX, NAME_MAX, agree, because, count, one_line, word};

impl PodContext<'_> {
    /// Why pods are not available: one blocker for each cause. `size` is the number of desired pods.
    pub(crate) fn blockers(&self, explanations: &[Explanation<'_>], size: i64) -> Vec<Blocker> {
        let mut found: BTreeMap<Cause, Vec<&Explanation<'_>>> = BTreeMap::new();
        for explanation in explanations {
            found
                .entry(explanation.cause)
                .or_default()
                .push(explanation);
        }
        let found = found.into_iter();
        found
            .map(|(cause, explanations)| self.blocker(cause, explanations, size))
            .collect()
    }

    /// One blocker for all pods with the same cause.
    fn blocker(&self, cause: Cause, mut explanations: Vec<&Explanation<'_>>, size: i64) -> Blocker {
        explanations.sort_by(|a, b| a.rank().cmp(&b.rank()));
        let now = self.now;
        let noun = self.noun;
        let number = i64::try_from(explanations.len()).unwrap_or(i64::MAX);
        // The ReplicaSet does not count failed pods.
        let of = if cause == Cause::PodFailed {
            count(number, self.noun)
        } else {
            format!("{number} of {}", count(size, self.noun))
        };
        let Some(first) = explanations.first() else {
            return Blocker::new(cause, of, "");
        };
        let BlockedPod {
            name,
            container,
            reason,
            message,
            restarts,
            since,
            log: _,
        } = &first.blocked;
        let age = since.map_or_else(String::new, |since| format!(" for {}", now.since(since)));
        let what = format!("{name} {reason}{age}");
        let example = format!("{of}: {what}");
        let role = match first.container {
            Some(container) if self.is_sidecar(container) => "sidecar container",
            Some(container) if container.init => "init container",
            _ => "container",
        };
        let image = one_line(first.image, KUBERNETES_MAX);
        let why = because(message);
        let detail = because(&first.detail);
        let text = match cause {
            Cause::ImagePull => {
                format!("image {image} of {role} {container} cannot be pulled ({example}){detail}")
            }
            Cause::ContainerConfig if container.is_empty() => {
                format!("volumes of the {noun}s cannot be mounted ({example}){detail}")
            }
            Cause::ContainerConfig => {
                format!("{role} {container} cannot be created ({example}){detail}")
            }
            Cause::CrashLoop => {
                let problem = match (restarts, first.class) {
                    (0, Some(Class::StartError)) => format!("cannot be started ({example})"),
                    (0, _) => format!("has terminated ({example})"),
                    (restarts, class) => {
                        let restarts = count(i64::from(*restarts), "restart");
                        let verb = match class {
                            Some(Class::StartError) => "cannot be started",
                            Some(Class::StartupProbe) => "keeps being killed by its startup probe",
                            _ if first.blocked.message.starts_with(OOM_KILLED) => {
                                "keeps running out of memory"
                            }
                            _ => "keeps crashing",
                        };
                        format!("{verb} ({restarts}; {example})")
                    }
                };
                format!("{role} {container} {problem}{why}{detail}")
            }
            Cause::PodFailed => format!("{of} failed: {what}{why}"),
            Cause::Unschedulable if reason == GATED => {
                let gates = match gates(first.pod).as_str() {
                    "" => "a scheduling gate".to_owned(),
                    gates => gates.to_owned(),
                };
                format!("the {noun}s are waiting for {gates} ({example}){why}")
            }
            Cause::Unschedulable => {
                let pod = first.pod;
                let claim = self.claim_problem(pod).map(|(text, _)| text);
                let claim = claim.unwrap_or_default();
                let autoscaling = self.autoscaling(pod);
                let what = match condition(pod, "PodScheduled") {
                    Some(_) => format!("no node can run the {noun}s ({example}){why}"),
                    None => format!(
                        "no scheduler has reported on the {noun}s ({example}): their schedulerName is {}",
                        one_line(scheduler_name(pod), NAME_MAX)
                    ),
                };
                let what = if claim.is_empty() && autoscaling.is_empty() {
                    &what
                } else {
                    what.trim_end_matches('.')
                };
                format!("{what}{claim}{autoscaling}")
            }
            Cause::NotReady if reason == NODE_LOST => format!(
                "the containers are ready, but the pod is not ({example}): node {} may have stopped reporting",
                one_line(&first.pod.node_name, NAME_MAX)
            ),
            Cause::NotReady if container.is_empty() => {
                format!("the {noun}s are running but waiting for a readiness gate ({example}){why}")
            }
            Cause::NotReady => {
                format!("{role} {container} is running but not ready ({example}){detail}")
            }
            Cause::Running => {
                format!(
                    "{role} {container} keeps running ({example}), although {}",
                    first.detail
                )
            }
            Cause::MinReadySeconds => {
                let wanted = Span::from_seconds(self.min_ready_seconds.into());
                let are = agree(of, number);
                let left = self.min_ready_left(&explanations);
                let left = left.map_or_else(String::new, |left| format!(", {left} left"));
                format!("{are} ready, but not yet for minReadySeconds ({wanted}): {what}{left}")
            }
            _ => {
                let more = self.start_detail(first);
                format!("{} starting: {what}{detail}{more}", agree(of, number))
            }
        };
        let remedy = self.remedy(first);
        let mut blocker = Blocker::new(cause, text, remedy);
        if cause == Cause::MinReadySeconds {
            blocker.remaining = self.min_ready_left(&explanations);
        }
        blocker.with_pods(
            explanations
                .into_iter()
                .map(|explanation| explanation.blocked.clone())
                .collect(),
        )
    }

    /// The time until the first of the ready pods is available.
    fn min_ready_left(&self, explanations: &[&Explanation<'_>]) -> Option<Span> {
        let min_ready = i64::from(self.min_ready_seconds);
        let ready = explanations
            .iter()
            .filter_map(|explanation| explanation.blocked.since);
        ready
            .map(|since| since.plus_seconds(min_ready).since(self.now))
            .min()
    }

    /// The remedy for a pod that is not available. Commands are complete and can be pasted.
    pub(crate) fn remedy(&self, explanation: &Explanation<'_>) -> String {
        let namespace = word(self.namespace);
        let name = word(&explanation.blocked.name);
        let container = word(&explanation.blocked.container);
        let reason = explanation.blocked.reason.as_str();
        let message = explanation.blocked.message.as_str();
        // Without --previous, kubectl prints the log of the running container, or of the last one if none is running.
        let is_running = explanation
            .container
            .is_some_and(|it| matches!(it.state, ContainerState::Running { .. }));
        let previous = if is_running { " --previous" } else { "" };
        let log = |previous| format!("kubectl logs {name} -n {namespace} -c {container}{previous}");
        match explanation.cause {
            Cause::ImagePull | Cause::ContainerConfig => explanation.remedy.clone(),
            Cause::CrashLoop if explanation.class == Some(Class::StartError) => {
                explanation.remedy.clone()
            }
            Cause::CrashLoop | Cause::PodFailed if message.starts_with(OOM_KILLED) => {
                let container = explanation.container;
                let template =
                    container.and_then(|it| template::container(self.template?, &it.name, it.init));
                let limit = template.and_then(template::memory_limit);
                let limit = limit.map_or_else(String::new, |limit| format!(" (now {limit})"));
                format!(
                    "raise resources.limits.memory of container {}{limit}",
                    explanation.blocked.container
                )
            }
            Cause::CrashLoop if !explanation.remedy.is_empty() => explanation.remedy.clone(),
            Cause::CrashLoop => match &explanation.failing {
                Some(failing) => probe_remedy(failing, log(previous)),
                None => format!("read its log: {}", log(previous)),
            },
            Cause::PodFailed if !explanation.remedy.is_empty() => explanation.remedy.clone(),
            Cause::PodFailed if explanation.container.is_some() => {
                format!("read its log: {}", log(previous))
            }
            Cause::PodFailed => {
                "check why the pods failed: their events and the state of the node".to_owned()
            }
            Cause::Unschedulable if reason == GATED => match gates(explanation.pod).as_str() {
                "" => "check which controller must remove the gate".to_owned(),
                gates => format!("check the controller that must remove {gates}"),
            },
            Cause::Unschedulable => self.remedy_for_unscheduled(explanation.pod, message),
            Cause::Starting => self.remedy_for_start(explanation),
            Cause::NotReady if reason == NODE_LOST => {
                format!(
                    "check the node: kubectl describe node {}",
                    word(&explanation.pod.node_name)
                )
            }
            Cause::NotReady if explanation.container.is_none() => {
                "check which controller must set the condition of the gate".to_owned()
            }
            Cause::NotReady => match &explanation.failing {
                Some(failing) => probe_remedy(failing, log("")),
                None => String::new(),
            },
            Cause::Running => format!(
                "if container {0} does not end by itself, run it as a native sidecar: move it to initContainers, with \
                 restartPolicy Always",
                explanation.blocked.container
            ),
            _ => String::new(),
        }
    }
}

/// The scheduling gates of a pod, for example "scheduling gate kueue.x-k8s.io/admission". Empty if they are not known.
fn gates(pod: &Pod) -> String {
    let gates = pod.scheduling_gates.iter();
    let gates: Vec<String> = gates.map(|gate| one_line(gate, NAME_MAX)).collect();
    match gates.as_slice() {
        [] => String::new(),
        [gate] => format!("scheduling gate {gate}"),
        gates => format!("scheduling gates {}", gates.join(", ")),
    }
}

/// What to change so that a probe passes. `log` is the command that prints the log of the container.
fn probe_remedy((kind, output): &(ProbeKind, String), log: String) -> String {
    let facts = Facts {
        probe: kind.name().to_lowercase(),
        log,
        ..Facts::default()
    };
    match probe::TABLE.look_up(output).remedy(&facts) {
        remedy if remedy.is_empty() => {
            format!("check why its {} probe fails: {}", facts.probe, facts.log)
        }
        remedy => remedy,
    }
}
