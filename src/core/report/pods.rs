//! Blockers that are caused by pods.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::template::{self, Probe, ProbeKind};
use super::text::{
    KUBERNETES_MAX, NAME_MAX, PROGRAM_MAX, agree, because, count, last_line, one_line, word,
};
use super::verdict::class::Class;
use super::verdict::definite::{is_config, is_image, missing_object};
use super::{BlockedPod, Blocker, Cause, Survey};
use crate::snapshot::{Container, ContainerState, ObservedEvent, Pod, PodCondition};
use crate::time::{Span, Time};

const IMAGE_PULL: [&str; 7] = [
    "ErrImagePull",
    "ImagePullBackOff",
    "InvalidImageName",
    "ErrImageNeverPull",
    "ImageInspectError",
    "RegistryUnavailable",
    "SignatureValidationFailed",
];
/// The number of seconds after which a running container no longer counts as crashing, because the kubelet resets its
/// backoff.
const BACKOFF_RESET_SECONDS: i64 = 600;
/// How long after a failure of a probe a container ends that the kubelet stops for it: the default grace period.
const PROBE_KILL_SECONDS: i64 = 30;
/// The exit codes of a container that the kubelet has stopped or killed.
const KILLED: [i32; 3] = [0, 137, 143];
/// The reason of a container that ran out of memory.
const OOM_KILLED: &str = "OOMKilled";
/// The reason of a pod that waits for a scheduling gate.
const GATED: &str = "SchedulingGated";
/// The reason of a pod of which a readiness gate is not met.
pub(super) const GATES_NOT_READY: &str = "ReadinessGatesNotReady";
/// The reason of a pod that is not ready although its containers are.
const NODE_LOST: &str = "ContainersReady";
const CONTAINER_CONFIG: [&str; 5] = [
    "CreateContainerConfigError",
    "CreateContainerError",
    "PreCreateHookError",
    "PreStartHookError",
    "PostStartHookError",
];

/// The reason why a pod is not available.
pub(super) struct Finding<'a> {
    pub(super) cause: Cause,
    /// The class of the failure. `None` if it is not a failure.
    pub(super) class: Option<Class>,
    /// Whether what is reported leaves no doubt that the failure persists.
    pub(super) is_definite: bool,
    /// Whether only an event shows the failure, which may be outdated.
    pub(super) is_from_event: bool,
    /// When the kubelet kills the container unless it passes its startup probe.
    pub(super) startup_ends: Option<Time>,
    pub(super) source: &'a Pod,
    pub(super) container: Option<&'a Container>,
    pub(super) pod: BlockedPod,
    /// What else is known, for the message.
    detail: String,
}

impl<'a> Finding<'a> {
    fn new(
        cause: Cause,
        source: &'a Pod,
        reason: &str,
        message: &str,
        since: Option<Time>,
    ) -> Self {
        Self {
            cause,
            class: None,
            is_definite: false,
            is_from_event: false,
            startup_ends: None,
            source,
            container: None,
            pod: BlockedPod {
                name: source.metadata.name.clone(),
                container: String::new(),
                reason: reason.to_owned(),
                message: one_line(message, KUBERNETES_MAX),
                restarts: 0,
                since,
            },
            detail: String::new(),
        }
    }

    fn of_container(mut self, container: &'a Container) -> Self {
        self.pod.container.clone_from(&container.name);
        self.pod.restarts = container.restarts;
        self.container = Some(container);
        self
    }

    fn of_class(mut self, class: Class, is_definite: bool) -> Self {
        self.class = Some(class);
        self.is_definite = is_definite;
        self
    }

    /// Pods with the most restarts, which decide, come first, and then those that have been blocked longest.
    fn rank(&self) -> (Reverse<i32>, bool, Option<Time>, &str) {
        let pod = &self.pod;
        (
            Reverse(pod.restarts),
            pod.since.is_none(),
            pod.since,
            &pod.name,
        )
    }
}

impl<'a> Survey<'a> {
    /// The reasons why new pods are not available.
    pub(super) fn findings(&self) -> Vec<Finding<'a>> {
        let missing = self.new.map_or(0, |new| {
            i64::from(new.replicas) - i64::from(new.status.available_replicas)
        });
        if missing <= 0 {
            return Vec::new();
        }
        let alive = self.pods.iter();
        let alive = alive.filter(|pod| pod.metadata.deletion_timestamp.is_none());
        alive
            .take_while(|_| !self.interrupt.is_interrupted())
            .filter_map(|pod| self.examine(pod))
            .collect()
    }
}

impl Survey<'_> {
    /// The reasons why new pods are not available: one blocker for each cause.
    pub(super) fn new_pods(&self, findings: &[Finding<'_>]) -> Vec<Blocker> {
        let Some(new) = self.new else {
            return Vec::new();
        };
        let missing = i64::from(new.replicas) - i64::from(new.status.available_replicas);
        if missing <= 0 {
            return Vec::new();
        }
        let mut found: BTreeMap<Cause, Vec<&Finding<'_>>> = BTreeMap::new();
        for finding in findings {
            found.entry(finding.cause).or_default().push(finding);
        }
        if found.is_empty() && !self.is_refused() {
            return vec![self.unexplained(missing, i64::from(new.replicas))];
        }
        let size = i64::from(new.replicas);
        let blockers = found.into_iter();
        blockers
            .map(|(cause, findings)| self.blocker(cause, findings, size))
            .collect()
    }

    /// The blocker if no pod shows a reason.
    fn unexplained(&self, missing: i64, size: i64) -> Blocker {
        let are = agree(format!("{missing} of {}", count(size, "new pod")), missing);
        let alive = self.pods.iter();
        let alive = alive.filter(|pod| pod.metadata.deletion_timestamp.is_none());
        let alive = i64::try_from(alive.count()).unwrap_or(i64::MAX);
        let (message, remedy) = if alive >= size {
            (
                format!("{are} not counted as available yet, although all pods are ready"),
                "",
            )
        } else if self.snapshot.pods_complete {
            (
                format!("{are} not available: {alive} exist, the others have not been created yet"),
                "",
            )
        } else {
            (
                format!(
                    "{are} not available, and the snapshot does not contain the pods that would show why"
                ),
                "include the pods of the ReplicaSets in the snapshot",
            )
        };
        Blocker::new(Cause::NotAvailable, message, remedy)
    }

    fn is_refused(&self) -> bool {
        crate::status::condition(self.status, crate::status::REPLICA_FAILURE)
            .is_some_and(|condition| condition.status == "True")
    }

    fn blocker(&self, cause: Cause, mut findings: Vec<&Finding<'_>>, size: i64) -> Blocker {
        findings.sort_by(|a, b| a.rank().cmp(&b.rank()));
        let now = self.snapshot.now;
        let number = i64::try_from(findings.len()).unwrap_or(i64::MAX);
        // The ReplicaSet does not count failed pods.
        let of = if cause == Cause::PodFailed {
            count(number, "new pod")
        } else {
            format!("{number} of {}", count(size, "new pod"))
        };
        let Some(first) = findings.first() else {
            return Blocker::new(cause, of, "");
        };
        let BlockedPod {
            name,
            container,
            reason,
            message,
            restarts,
            since,
        } = &first.pod;
        let age = since.map_or_else(String::new, |since| format!(" for {}", now.since(since)));
        let what = format!("{name} {reason}{age}");
        let example = format!("{of}: {what}");
        let role = match first.container {
            Some(container) if container.init => "init container",
            _ => "container",
        };
        let image = first
            .container
            .map_or("", |container| container.image.as_str());
        let why = because(message);
        let detail = because(&first.detail);
        let text = match cause {
            Cause::ImagePull => {
                format!("image {image} of {role} {container} cannot be pulled ({example}){detail}")
            }
            Cause::ContainerConfig if container.is_empty() => {
                format!("volumes of the new pods cannot be mounted ({example}){why}")
            }
            Cause::ContainerConfig => {
                format!("{role} {container} cannot be created ({example}){why}")
            }
            Cause::CrashLoop => {
                let problem = match (restarts, first.class) {
                    (0, _) => format!("has terminated ({example})"),
                    (restarts, class) => {
                        let restarts = count(i64::from(*restarts), "restart");
                        let verb = match class {
                            Some(Class::StartError) => "cannot be started",
                            Some(Class::StartupProbe) => "keeps being killed by its startup probe",
                            _ if first.pod.message.starts_with(OOM_KILLED) => {
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
                format!("the new pods are waiting for a scheduling gate ({example}){why}")
            }
            Cause::Unschedulable => format!("no node can run the new pods ({example}){why}"),
            Cause::NotReady if reason == NODE_LOST => format!(
                "the containers are ready, but the pod is not ({example}): node {} may have stopped reporting",
                one_line(&first.source.node_name, NAME_MAX)
            ),
            Cause::NotReady if container.is_empty() => format!(
                "the new pods are running but waiting for a readiness gate ({example}){why}"
            ),
            Cause::NotReady => {
                format!("{role} {container} is running but not ready ({example}){detail}")
            }
            Cause::MinReadySeconds => {
                let seconds = self.snapshot.deployment.spec.min_ready_seconds;
                let are = agree(of, number);
                let left = self.min_ready_left(&findings);
                let left = left.map_or_else(String::new, |left| format!(", {left} left"));
                format!("{are} ready, but not yet for minReadySeconds ({seconds} s): {what}{left}")
            }
            _ => format!("{} starting: {what}{detail}", agree(of, number)),
        };
        let remedy = self.remedy(first);
        let mut blocker = Blocker::new(cause, text, remedy);
        if cause == Cause::MinReadySeconds {
            blocker.remaining = self.min_ready_left(&findings);
        }
        blocker.with_pods(
            findings
                .into_iter()
                .map(|finding| finding.pod.clone())
                .collect(),
        )
    }

    /// The time until the first of the ready pods is available.
    fn min_ready_left(&self, findings: &[&Finding<'_>]) -> Option<Span> {
        let min_ready = i64::from(self.snapshot.deployment.spec.min_ready_seconds);
        let ready = findings.iter().filter_map(|finding| finding.pod.since);
        ready
            .map(|since| since.plus_seconds(min_ready).since(self.snapshot.now))
            .min()
    }

    /// What to do about a pod that is not available. Commands are complete, and work when they are pasted.
    fn remedy(&self, finding: &Finding<'_>) -> String {
        let namespace = word(&self.snapshot.deployment.metadata.namespace);
        let name = word(&finding.pod.name);
        let container = word(&finding.pod.container);
        let reason = finding.pod.reason.as_str();
        let message = finding.pod.message.as_str();
        // Of the log of the one that is running, and otherwise of the last one, kubectl prints without --previous.
        let is_running = finding
            .container
            .is_some_and(|it| matches!(it.state, ContainerState::Running { .. }));
        let previous = if is_running { " --previous" } else { "" };
        let log = |previous| format!("kubectl logs {name} -n {namespace} -c {container}{previous}");
        match finding.cause {
            Cause::ImagePull => match reason {
                "InvalidImageName" => "correct the name of the image".to_owned(),
                "ErrImageNeverPull" => "load the image on the node, or change imagePullPolicy".to_owned(),
                _ if is_access_denied(&finding.detail) => {
                    "check imagePullSecrets and the rights of their account, or the name of the image".to_owned()
                }
                _ if is_image(&finding.detail) => "correct the image name or its tag, or push the image".to_owned(),
                _ => "check the registry, the image name and the pull secret".to_owned(),
            },
            Cause::ContainerConfig => match missing_object(message) {
                Some((kind, name)) => format!(
                    "create the missing {kind} {name} in namespace {namespace}, or correct the reference to it"
                ),
                None => "create the missing object, or fix the reference to it".to_owned(),
            },
            Cause::CrashLoop if finding.class == Some(Class::StartError) => {
                format!("correct the command of container {container}, or its image")
            }
            Cause::CrashLoop if message.starts_with(OOM_KILLED) => {
                let container = finding.container;
                let template = container.and_then(|it| {
                    template::container(&self.snapshot.deployment, &it.name, it.init)
                });
                let limit = template.and_then(template::memory_limit);
                let limit = limit.map_or_else(String::new, |limit| format!(" (now {limit})"));
                format!("raise resources.limits.memory of container {}{limit}", finding.pod.container)
            }
            Cause::CrashLoop => format!("read its log: {}", log(previous)),
            Cause::PodFailed => {
                "check why the pods failed: their events and the state of the node".to_owned()
            }
            Cause::Unschedulable if reason == GATED => {
                "check which controller must remove the gate".to_owned()
            }
            Cause::Unschedulable => unschedulable_remedy(message, &namespace),
            Cause::NotReady if reason == NODE_LOST => {
                format!("check the node: kubectl describe node {}", word(&finding.source.node_name))
            }
            Cause::NotReady if finding.container.is_none() => {
                "check which controller must set the condition of the gate".to_owned()
            }
            Cause::NotReady => format!("check why its readiness probe fails: {}", log("")),
            _ => String::new(),
        }
    }

    /// Recreate waits for the old pods to terminate, and for a list of pods that is known to be complete.
    pub(super) fn old_pods_running(&self) -> Option<Blocker> {
        let wanted = i64::from(self.limits.replicas);
        let is_sized = self.new_size == wanted && wanted > 0;
        if !self.strategy.awaits_old_pods() || self.old.is_empty() || is_sized {
            return None;
        }
        let now = self.snapshot.now;
        let pods = self.old_pods.iter().copied();
        let mut running: Vec<_> = pods
            .filter(|pod| !matches!(pod.phase.as_str(), "Failed" | "Succeeded"))
            .collect();
        running.sort_by_key(|pod| {
            let due = pod.metadata.deletion_timestamp;
            (due.is_none(), due, &pod.metadata.name)
        });
        let counted: i64 = self
            .old
            .iter()
            .map(|set| i64::from(set.status.replicas))
            .sum();
        let listed = i64::try_from(running.len()).unwrap_or(i64::MAX);
        let number = counted.max(listed);
        if number > 0 {
            // The deletion timestamp is the end of the grace period.
            let example = running.first().map_or_else(String::new, |pod| {
                let how = match pod.metadata.deletion_timestamp {
                    Some(due) if due <= now => {
                        format!("Terminating, {} past its grace period", now.since(due))
                    }
                    Some(due) => {
                        format!("Terminating, {} of its grace period left", due.since(now))
                    }
                    None => or(&pod.phase, "Pending").to_owned(),
                };
                format!(": {} {how}", pod.metadata.name)
            });
            let message = format!(
                "Recreate is waiting for {} to terminate{example}",
                count(number, "old pod")
            );
            let due: Option<Vec<Time>> = running
                .iter()
                .map(|pod| pod.metadata.deletion_timestamp)
                .collect();
            let last = due.and_then(|due| due.into_iter().max());
            let remedy = "check what delays them: a long grace period, a container that does not \
                          stop or a lost node";
            let blocked = running.iter().map(|pod| BlockedPod {
                name: pod.metadata.name.clone(),
                reason: match pod.metadata.deletion_timestamp {
                    Some(_) => "Terminating".to_owned(),
                    None => or(&pod.phase, "Pending").to_owned(),
                },
                since: pod.metadata.deletion_timestamp.filter(|due| *due <= now),
                ..BlockedPod::default()
            });
            let mut blocker =
                Blocker::new(Cause::OldPodsRunning, message, remedy).with_pods(blocked.collect());
            blocker.pod_count = usize::try_from(number).unwrap_or(blocker.pod_count);
            blocker.remaining = last.filter(|last| *last > now).map(|last| last.since(now));
            return Some(blocker);
        }
        let lagging = self
            .old
            .iter()
            .find(|set| set.status.observed_generation < set.metadata.generation);
        if let Some(set) = lagging {
            let message = format!(
                "Recreate is waiting: the ReplicaSet controller has not observed the latest size of old ReplicaSet {} yet",
                set.metadata.name
            );
            return Some(Blocker::new(Cause::OldPodsRunning, message, ""));
        }
        (!self.snapshot.pods_complete).then(|| {
            let message =
                "Recreate is waiting: the list of pods is incomplete, so old pods may still be running".to_owned();
            let remedy = "send all pods of the old ReplicaSets, and set podsComplete";
            Blocker::new(Cause::PodsIncomplete, message, remedy)
        })
    }
}

impl<'a> Survey<'a> {
    fn examine(&self, pod: &'a Pod) -> Option<Finding<'a>> {
        let now = self.snapshot.now;
        let created = pod.metadata.creation_timestamp;
        let ready = condition(pod, "Ready");
        if matches!(pod.phase.as_str(), "Failed" | "Succeeded") {
            let since = ready.and_then(|condition| condition.last_transition_time);
            let (reason, message) = (or(&pod.reason, &pod.phase), &pod.message);
            let since = since.or(created);
            return Some(Finding::new(Cause::PodFailed, pod, reason, message, since));
        }
        if let Some(condition) = ready.filter(|condition| condition.status == "True") {
            let min_ready = i64::from(self.snapshot.deployment.spec.min_ready_seconds);
            let since = condition.last_transition_time;
            let ready_for = since.map_or(Span::default(), |since| now.since(since));
            return (ready_for < Span::from_seconds(min_ready))
                .then(|| Finding::new(Cause::MinReadySeconds, pod, "Ready", "", since));
        }
        if let Some(condition) =
            condition(pod, "PodScheduled").filter(|condition| condition.status == "False")
        {
            let reason = or(&condition.reason, "Unschedulable");
            let message = scheduler_text(&condition.message);
            let since = condition.last_transition_time.or(created);
            let finding = Finding::new(Cause::Unschedulable, pod, reason, message, since);
            return Some(finding.of_class(Class::Unschedulable, false));
        }
        let has_started = pod.containers.iter().any(|container| {
            !container.init && matches!(container.state, ContainerState::Running { .. })
        });
        // The worst container determines the cause.
        let worst = pod
            .containers
            .iter()
            .filter_map(|container| self.examine_container(pod, container, has_started))
            .min_by_key(|finding| finding.cause);
        if let Some(mut finding) = worst {
            let scheduled = condition(pod, "PodScheduled");
            finding.pod.since = finding
                .pod
                .since
                .or_else(|| scheduled.and_then(|condition| condition.last_transition_time))
                .or(created);
            if finding.cause == Cause::Starting && finding.startup_ends.is_none() {
                self.explain_start(&mut finding);
            }
            return Some(finding);
        }
        if let Some(condition) = ready {
            let since = condition.last_transition_time.or(created);
            let (reason, message) = (&condition.reason, &condition.message);
            let is_gated = reason == GATES_NOT_READY;
            if is_gated || Self::is_node_lost(pod) {
                let reason = if is_gated { reason } else { NODE_LOST };
                let finding = Finding::new(Cause::NotReady, pod, reason, message, since);
                return Some(finding.of_class(Class::NotReady, false));
            }
        }
        let mut finding =
            Finding::new(Cause::Starting, pod, or(&pod.phase, "Pending"), "", created);
        self.explain_start(&mut finding);
        Some(finding)
    }

    /// The reason why a container is not ready. `has_started` means that the pod is initialized, so that an init container
    /// that is still running is a sidecar.
    fn examine_container(
        &self,
        pod: &'a Pod,
        container: &'a Container,
        has_started: bool,
    ) -> Option<Finding<'a>> {
        let finding = |cause, reason: &str, message: &str, since| {
            Finding::new(cause, pod, reason, message, since).of_container(container)
        };
        let crash = |reason: &str, state: &ContainerState, otherwise: &str, since| {
            let (how, at) = termination(state).unwrap_or_else(|| (otherwise.to_owned(), None));
            let mut finding = finding(Cause::CrashLoop, reason, &how, at.or(since));
            let class = self.class_of_crash(pod, container, state);
            finding = finding.of_class(class, !self.is_inherited(pod));
            finding.detail = self.probe_failure(pod, container, class);
            finding
        };
        match &container.state {
            ContainerState::Waiting { reason, message } => {
                let reason = or(reason, "Waiting");
                if IMAGE_PULL.contains(&reason) {
                    let text = self.pull_error(pod, container, message);
                    let mut finding = finding(Cause::ImagePull, reason, message, None);
                    finding.detail = last_clause(text);
                    let (class, is_definite) = match reason {
                        "InvalidImageName" => (Class::ImageName, true),
                        "ErrImageNeverPull" => (Class::ImagePull, true),
                        _ => (Class::ImagePull, is_image(text)),
                    };
                    Some(finding.of_class(class, is_definite))
                } else if CONTAINER_CONFIG.contains(&reason) {
                    let finding = finding(Cause::ContainerConfig, reason, message, None);
                    Some(finding.of_class(Class::Config, is_config(message)))
                } else if reason == "CrashLoopBackOff" || container.restarts > 0 {
                    Some(crash(reason, &container.last_state, message, None))
                } else {
                    Some(finding(Cause::Starting, reason, message, None))
                }
            }
            ContainerState::Running { .. } if container.ready => None,
            ContainerState::Running { started_at } if container.init && !has_started => {
                let mut finding = finding(Cause::Starting, "Init", "", *started_at);
                finding.detail = format!(
                    "init container {} is running",
                    one_line(&container.name, NAME_MAX)
                );
                Some(finding)
            }
            ContainerState::Running { started_at } => {
                let recent = started_at.is_some_and(|started| {
                    self.snapshot.now.since(started) < Span::from_seconds(BACKOFF_RESET_SECONDS)
                });
                if termination(&container.last_state).is_some() && container.restarts > 0 && recent
                {
                    let how = termination(&container.last_state).map(|(how, _)| how);
                    let mut finding = finding(
                        Cause::CrashLoop,
                        "Running",
                        &how.unwrap_or_default(),
                        *started_at,
                    );
                    // It is running now, so it has not failed again.
                    let class = self.class_of_crash(pod, container, &container.last_state);
                    finding.detail = self.probe_failure(pod, container, class);
                    return Some(finding);
                }
                if let Some(probe) = self.probe(container, ProbeKind::Startup)
                    && container.started == Some(false)
                {
                    let mut finding = finding(Cause::Starting, "Running", "", *started_at);
                    let action = probe.action;
                    finding.detail = format!("startup probe {action} has not passed yet");
                    if container.restarts == 0 {
                        let end = started_at.map(|started| started.plus_seconds(probe.budget));
                        finding.startup_ends = end;
                        let left = end.map(|end| end.since(self.snapshot.now));
                        if let Some(left) = left {
                            finding.detail = format!("{}, {left} left", finding.detail);
                        }
                    }
                    return Some(finding);
                }
                let mut finding = finding(Cause::NotReady, "Running", "", *started_at);
                if let Some(probe) = self.probe(container, ProbeKind::Readiness) {
                    let failure = self.unhealthy(pod, container, "Readiness");
                    let why = because(&failure);
                    finding.detail = format!("readiness probe {} fails{why}", probe.action);
                }
                Some(finding.of_class(Class::NotReady, false))
            }
            ContainerState::Terminated {
                exit_code, reason, ..
            } if !(container.init && *exit_code == 0) => {
                Some(crash(or(reason, "Terminated"), &container.state, "", None))
            }
            ContainerState::Terminated { .. } | ContainerState::Unknown => None,
        }
    }

    fn probe(&self, container: &Container, kind: ProbeKind) -> Option<Probe> {
        let deployment = &self.snapshot.deployment;
        let container = template::container(deployment, &container.name, container.init)?;
        template::probe(container, kind)
    }

    /// Whether a pod is older than an old ReplicaSet, as after a rollback to a ReplicaSet that still has pods: then its
    /// restarts are not of this rollout.
    fn is_inherited(&self, pod: &Pod) -> bool {
        let created = pod.metadata.creation_timestamp;
        let sets = self
            .old
            .iter()
            .filter_map(|set| set.metadata.creation_timestamp);
        created.zip(sets.max()).is_some_and(|(pod, set)| pod < set)
    }

    /// Tells containers that cannot start, and those that the kubelet kills, from those that end by themselves.
    fn class_of_crash(&self, pod: &Pod, container: &Container, end: &ContainerState) -> Class {
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
    fn probe_failure(&self, pod: &Pod, container: &Container, class: Class) -> String {
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
    ) -> Option<&ObservedEvent> {
        let events = self.events_about(&pod.metadata.uid);
        let of_kind = events.filter(|event| {
            event.reason == "Unhealthy"
                && event.message.starts_with(kind)
                && event.may_concern(&container.name)
        });
        of_kind.max_by_key(|event| event.last)
    }

    /// The text of the latest failure of a probe.
    fn unhealthy(&self, pod: &Pod, container: &Container, kind: &str) -> String {
        let latest = self.latest_unhealthy(pod, container, kind);
        let text = latest.map_or("", |event| event.message.as_str());
        let text = text
            .split_once(" probe failed: ")
            .map_or(text, |(_, text)| text);
        one_line(text, PROGRAM_MAX)
    }

    /// Why an image cannot be pulled: older kubelets say so in events only.
    fn pull_error(&self, pod: &Pod, container: &Container, message: &'a str) -> &'a str {
        if message.contains(": ") {
            return message;
        }
        let events = self.events_about(&pod.metadata.uid);
        let failed = events.filter(|event| {
            event.message.starts_with("Failed to pull image") && event.may_concern(&container.name)
        });
        failed
            .max_by_key(|event| event.last)
            .map_or(message, |event| event.message.as_str())
    }

    /// Why a pod has not started: volumes and networks are in events only.
    fn explain_start(&self, finding: &mut Finding<'_>) {
        let events = self.events_about(&finding.source.metadata.uid);
        let failed = events.filter(|event| {
            event.kind == "Warning"
                && event.reason.starts_with("Failed")
                && event.reason != "FailedScheduling"
        });
        let Some(event) = failed.max_by_key(|event| event.last) else {
            return;
        };
        if event.reason == "FailedMount" && is_config(&event.message) {
            finding.cause = Cause::ContainerConfig;
            finding.class = Some(Class::Config);
            finding.is_definite = true;
            finding.is_from_event = true;
            finding.pod.container.clear();
            finding.pod.message = one_line(&event.message, KUBERNETES_MAX);
        } else {
            let text = format!("{}: {}", event.reason, event.message);
            finding.detail = one_line(&text, KUBERNETES_MAX);
        }
    }
}

/// What to change so that a node can run the pods.
fn unschedulable_remedy(message: &str, namespace: &str) -> String {
    let has = |text: &str| message.contains(text);
    if has("PersistentVolumeClaim") || has("persistentvolumeclaim") {
        format!("create or bind the claims: kubectl get pvc -n {namespace}")
    } else if has("Insufficient ") {
        "add or free resources, or lower the requests of the pods".to_owned()
    } else if has("free ports") {
        "set maxSurge to 0, or remove hostPort".to_owned()
    } else if has("untolerated taint") {
        "add a toleration to the template, or remove the taint of a node".to_owned()
    } else if has("node affinity") || has("node selector") {
        "label a node as the template demands, or correct its nodeSelector or affinity".to_owned()
    } else if has("were unschedulable") {
        "uncordon a node".to_owned()
    } else {
        "add or free resources, or lower the requests of the pods".to_owned()
    }
}

/// The text of the scheduler without what it tried besides.
fn scheduler_text(message: &str) -> &str {
    let ends = [
        " no new claims to deallocate",
        ", no new claims",
        " preemption: ",
    ];
    let ends = ends.iter().filter_map(|end| message.find(end));
    ends.min().map_or(message, |end| &message[..end])
}

/// The last clause of an error of a registry, for example "not found".
fn last_clause(message: &str) -> String {
    let (_, clause) = message.trim_end().rsplit_once(": ").unwrap_or_default();
    one_line(clause, PROGRAM_MAX)
}

fn is_access_denied(clause: &str) -> bool {
    let clause = clause.to_lowercase();
    [
        "unauthorized",
        "forbidden",
        "denied",
        "insufficient_scope",
        "authentication",
    ]
    .iter()
    .any(|word| clause.contains(word))
}

/// How and when a container terminated, for example "Error, exit code 1: last line of its output".
fn termination(state: &ContainerState) -> Option<(String, Option<Time>)> {
    match state {
        ContainerState::Terminated {
            exit_code,
            reason,
            message,
            finished_at,
        } => {
            let reason = if reason.is_empty() {
                String::new()
            } else {
                format!("{reason}, ")
            };
            let output = because(&start_error(&last_line(message)));
            Some((
                format!("{reason}exit code {exit_code}{output}"),
                *finished_at,
            ))
        }
        ContainerState::Waiting { .. }
        | ContainerState::Running { .. }
        | ContainerState::Unknown => None,
    }
}

/// The error of a program that cannot be started, without what the runtime tried before.
fn start_error(line: &str) -> String {
    let line = match line.find("exec: ") {
        Some(at) if line.contains("container process") => &line[at..],
        _ => line,
    };
    line.strip_suffix(": unknown").unwrap_or(line).to_owned()
}

pub(super) fn condition<'a>(pod: &'a Pod, kind: &str) -> Option<&'a PodCondition> {
    pod.conditions
        .iter()
        .find(|condition| condition.kind == kind)
}

fn or<'a>(text: &'a str, otherwise: &'a str) -> &'a str {
    if text.is_empty() { otherwise } else { text }
}
