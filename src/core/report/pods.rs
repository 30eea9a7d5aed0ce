//! What pods hold a rollout by.

use std::collections::BTreeMap;

use super::text::{KUBERNETES_MAX, agree, because, count, last_line, one_line};
use super::{BlockedPod, Blocker, Cause, Survey, pods_of};
use crate::snapshot::{Container, ContainerState, Pod, PodCondition};
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
/// A container that has run for longer no longer counts as one that ends again and again: the kubelet forgets
/// its back-off then.
const BACK_OFF_FORGOTTEN: i64 = 600;
const CONTAINER_CONFIG: [&str; 5] = [
    "CreateContainerConfigError",
    "CreateContainerError",
    "PreCreateHookError",
    "PreStartHookError",
    "PostStartHookError",
];

/// Why one pod is not available.
struct Finding {
    cause: Cause,
    pod: BlockedPod,
    image: String,
    init: bool,
}

impl Finding {
    /// Those that have waited longest come first.
    fn rank(&self) -> (bool, Option<Time>, &str) {
        (self.pod.since.is_none(), self.pod.since, &self.pod.name)
    }
}

impl Survey<'_> {
    /// Why new pods are not available, one blocker for each cause.
    pub(super) fn new_pods(&self) -> Vec<Blocker> {
        let Some(new) = self.new else {
            return Vec::new();
        };
        let missing = i64::from(new.replicas) - i64::from(new.status.available_replicas);
        if missing <= 0 {
            return Vec::new();
        }
        let min_ready = i64::from(self.snapshot.deployment.spec.min_ready_seconds);
        let mut found: BTreeMap<Cause, Vec<Finding>> = BTreeMap::new();
        let alive = self.pods.iter();
        for pod in alive.filter(|pod| pod.metadata.deletion_timestamp.is_none()) {
            if let Some(finding) = examine(pod, self.snapshot.now, min_ready) {
                found.entry(finding.cause).or_default().push(finding);
            }
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

    /// No pod tells why some are not available.
    fn unexplained(&self, missing: i64, size: i64) -> Blocker {
        let are = agree(format!("{missing} of {}", count(size, "new pod")), missing);
        let alive = self.pods.iter();
        let alive = alive.filter(|pod| pod.metadata.deletion_timestamp.is_none());
        let alive = i64::try_from(alive.count()).unwrap_or(i64::MAX);
        let (message, remedy) = if alive >= size {
            (
                format!("{are} not counted as available yet, though all are ready"),
                "",
            )
        } else if self.snapshot.pods_complete {
            (
                format!("{are} not available: {alive} exist, the rest is yet to be created"),
                "",
            )
        } else {
            (
                format!("{are} not available, and the snapshot does not say why"),
                "send the pods of the ReplicaSets along",
            )
        };
        Blocker::new(Cause::NotAvailable, message, remedy)
    }

    fn is_refused(&self) -> bool {
        crate::status::condition(self.status, crate::status::REPLICA_FAILURE)
            .is_some_and(|condition| condition.status == "True")
    }

    fn blocker(&self, cause: Cause, mut findings: Vec<Finding>, size: i64) -> Blocker {
        findings.sort_by(|a, b| a.rank().cmp(&b.rank()));
        let now = self.snapshot.now;
        let number = i64::try_from(findings.len()).unwrap_or(i64::MAX);
        // Failed pods are beside those that the ReplicaSet counts.
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
        let role = if first.init {
            "init container"
        } else {
            "container"
        };
        let image = &first.image;
        let why = because(message);
        let (text, remedy) = match cause {
            Cause::ImagePull => (
                format!("image {image} of {role} {container} cannot be pulled ({example})"),
                "correct the image, its tag or the pull secret".to_owned(),
            ),
            Cause::ContainerConfig => (
                format!("{role} {container} cannot be made ({example}){why}"),
                "create what it refers to, or correct the reference".to_owned(),
            ),
            Cause::CrashLoop => {
                let ends = match restarts {
                    0 => "has ended".to_owned(),
                    _ => {
                        let restarts = count(i64::from(*restarts), "restart");
                        format!("ends again and again, {restarts}")
                    }
                };
                let previous = if *restarts > 0 { " --previous" } else { "" };
                (
                    format!("{role} {container} {ends} ({example}){why}"),
                    format!("read its log: kubectl logs {name} -c {container}{previous}"),
                )
            }
            Cause::PodFailed => (
                format!("{of} failed: {what}{why}"),
                "see why the node ended them".to_owned(),
            ),
            Cause::Unschedulable if reason == "SchedulingGated" => (
                format!("new pods wait for a scheduling gate ({example}){why}"),
                "see what is to take the gate off".to_owned(),
            ),
            Cause::Unschedulable => (
                format!("no node takes new pods ({example}){why}"),
                "free or add resources, or ask for less".to_owned(),
            ),
            Cause::NotReady if container.is_empty() => (
                format!("new pods run and wait for a readiness gate ({example}){why}"),
                "see what is to set the condition that the gate names".to_owned(),
            ),
            Cause::NotReady => (
                format!("{role} {container} runs and is not ready ({example})"),
                "see why its readiness check fails".to_owned(),
            ),
            Cause::MinReadySeconds => {
                let seconds = self.snapshot.deployment.spec.min_ready_seconds;
                let are = agree(of, number);
                (
                    format!("{are} ready, but not yet for minReadySeconds ({seconds} s): {what}"),
                    String::new(),
                )
            }
            _ => (
                format!("{} starting: {what}", agree(of, number)),
                String::new(),
            ),
        };
        let mut blocker = Blocker::new(cause, text, remedy);
        if cause == Cause::MinReadySeconds {
            let min_ready = i64::from(self.snapshot.deployment.spec.min_ready_seconds);
            let ready = findings.iter().filter_map(|finding| finding.pod.since);
            blocker.remaining = ready
                .map(|since| since.plus_seconds(min_ready).since(now))
                .min();
        }
        blocker.with_pods(findings.into_iter().map(|finding| finding.pod).collect())
    }

    /// Recreate waits for the last old pod, and for a list that is known to be complete.
    pub(super) fn old_pods_running(&self) -> Option<Blocker> {
        let wanted = i64::from(self.limits.replicas);
        let is_sized = self.new_size == wanted && wanted > 0;
        if self.is_rolling() || self.old.is_empty() || is_sized {
            return None;
        }
        let now = self.snapshot.now;
        let pods = pods_of(self.snapshot, &self.old).into_iter();
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
            // A pod's deletion time is the one by which it is to be gone.
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
            let verb = if number == 1 { "runs" } else { "run" };
            let message = format!(
                "{} still {verb}, and Recreate waits for the last{example}",
                count(number, "old pod")
            );
            let due: Option<Vec<Time>> = running
                .iter()
                .map(|pod| pod.metadata.deletion_timestamp)
                .collect();
            let last = due.and_then(|due| due.into_iter().max());
            let remedy = "see what keeps them: a long grace period, a container that does not \
                          stop or a node that is gone";
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
                "Recreate waits: the controller of old ReplicaSet {} has not seen its latest size yet",
                set.metadata.name
            );
            return Some(Blocker::new(Cause::OldPodsRunning, message, ""));
        }
        (!self.snapshot.pods_complete).then(|| {
            let message =
                "Recreate waits: without the full list of pods an old one may still run".to_owned();
            let remedy = "send every pod of the old ReplicaSets, and say that the list is complete";
            Blocker::new(Cause::PodsIncomplete, message, remedy)
        })
    }
}

fn examine(pod: &Pod, now: Time, min_ready: i64) -> Option<Finding> {
    let finding = |cause, container: Option<&Container>, reason: &str, message: &str, since| {
        Some(Finding {
            cause,
            image: container.map_or_else(String::new, |container| container.image.clone()),
            init: container.is_some_and(|container| container.init),
            pod: BlockedPod {
                name: pod.metadata.name.clone(),
                container: container.map_or_else(String::new, |container| container.name.clone()),
                reason: reason.to_owned(),
                message: one_line(message, KUBERNETES_MAX),
                restarts: container.map_or(0, |container| container.restarts),
                since,
            },
        })
    };
    let created = pod.metadata.creation_timestamp;
    let ready = condition(pod, "Ready");
    if matches!(pod.phase.as_str(), "Failed" | "Succeeded") {
        let since = ready.and_then(|condition| condition.last_transition_time);
        let (reason, message) = (or(&pod.reason, &pod.phase), &pod.message);
        return finding(Cause::PodFailed, None, reason, message, since.or(created));
    }
    if let Some(condition) = ready.filter(|condition| condition.status == "True") {
        let since = condition.last_transition_time;
        let ready_for = since.map_or(Span::default(), |since| now.since(since));
        return (ready_for < Span::from_seconds(min_ready))
            .then(|| finding(Cause::MinReadySeconds, None, "Ready", "", since))?;
    }
    if let Some(condition) =
        condition(pod, "PodScheduled").filter(|condition| condition.status == "False")
    {
        let (reason, message) = (or(&condition.reason, "Unschedulable"), &condition.message);
        let since = condition.last_transition_time.or(created);
        return finding(Cause::Unschedulable, None, reason, message, since);
    }
    let has_started = pod.containers.iter().any(|container| {
        !container.init && matches!(container.state, ContainerState::Running { .. })
    });
    // The container that is worst off speaks for the pod.
    let worst = pod
        .containers
        .iter()
        .filter_map(|container| {
            let (cause, reason, message, since) = examine_container(container, has_started, now)?;
            Some((cause, container, reason, message, since))
        })
        .min_by_key(|(cause, ..)| *cause);
    if let Some((cause, container, reason, message, since)) = worst {
        let scheduled = condition(pod, "PodScheduled");
        let since = since
            .or_else(|| scheduled.and_then(|condition| condition.last_transition_time))
            .or(created);
        return finding(cause, Some(container), reason, &message, since);
    }
    if let Some(condition) = ready.filter(|condition| condition.reason == "ReadinessGatesNotReady")
    {
        let since = condition.last_transition_time.or(created);
        let (reason, message) = (&condition.reason, &condition.message);
        return finding(Cause::NotReady, None, reason, message, since);
    }
    finding(
        Cause::Starting,
        None,
        or(&pod.phase, "Pending"),
        "",
        created,
    )
}

type ContainerFinding<'a> = (Cause, &'a str, String, Option<Time>);

/// Why a container keeps its pod from being ready. `has_started` says that the pod is past its initialisation:
/// what still runs to initialise it is a sidecar.
fn examine_container(
    container: &Container,
    has_started: bool,
    now: Time,
) -> Option<ContainerFinding<'_>> {
    match &container.state {
        ContainerState::Waiting { reason, message } => {
            let reason = or(reason, "Waiting");
            let cause = if IMAGE_PULL.contains(&reason) {
                Cause::ImagePull
            } else if CONTAINER_CONFIG.contains(&reason) {
                Cause::ContainerConfig
            } else if reason == "CrashLoopBackOff" || container.restarts > 0 {
                let end = ended(&container.last_state);
                let (how, since) = end.unwrap_or_else(|| (message.clone(), None));
                return Some((Cause::CrashLoop, reason, how, since));
            } else {
                Cause::Starting
            };
            Some((cause, reason, message.clone(), None))
        }
        ContainerState::Running { .. } if container.ready => None,
        ContainerState::Running { started_at } if container.init && !has_started => {
            Some((Cause::Starting, "Init", String::new(), *started_at))
        }
        ContainerState::Running { started_at } => {
            let recent = started_at
                .is_some_and(|started| now.since(started) < Span::from_seconds(BACK_OFF_FORGOTTEN));
            Some(match ended(&container.last_state) {
                Some((how, _)) if container.restarts > 0 && recent => {
                    (Cause::CrashLoop, "Running", how, *started_at)
                }
                _ => (Cause::NotReady, "Running", String::new(), *started_at),
            })
        }
        ContainerState::Terminated {
            exit_code, reason, ..
        } if !(container.init && *exit_code == 0) => {
            let (how, since) = ended(&container.state)?;
            Some((Cause::CrashLoop, or(reason, "Terminated"), how, since))
        }
        ContainerState::Terminated { .. } | ContainerState::Unknown => None,
    }
}

/// How and when a container ended: "Error, exit code 1: what it wrote last".
fn ended(state: &ContainerState) -> Option<(String, Option<Time>)> {
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
            let wrote = because(&last_line(message));
            Some((
                format!("{reason}exit code {exit_code}{wrote}"),
                *finished_at,
            ))
        }
        ContainerState::Waiting { .. }
        | ContainerState::Running { .. }
        | ContainerState::Unknown => None,
    }
}

fn condition<'a>(pod: &'a Pod, kind: &str) -> Option<&'a PodCondition> {
    pod.conditions
        .iter()
        .find(|condition| condition.kind == kind)
}

fn or<'a>(text: &'a str, otherwise: &'a str) -> &'a str {
    if text.is_empty() { otherwise } else { text }
}
