//! Blockers that are caused by pods.

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
/// The number of seconds after which a running container no longer counts as crashing, because the kubelet resets its
/// backoff.
const BACKOFF_RESET_SECONDS: i64 = 600;
const CONTAINER_CONFIG: [&str; 5] = [
    "CreateContainerConfigError",
    "CreateContainerError",
    "PreCreateHookError",
    "PreStartHookError",
    "PostStartHookError",
];

/// The reason why a pod is not available.
struct Finding {
    cause: Cause,
    pod: BlockedPod,
    image: String,
    init: bool,
}

impl Finding {
    /// Pods that have been blocked longest come first.
    fn rank(&self) -> (bool, Option<Time>, &str) {
        (self.pod.since.is_none(), self.pod.since, &self.pod.name)
    }
}

impl Survey<'_> {
    /// The reasons why new pods are not available: one blocker for each cause.
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
            if self.interrupt.is_interrupted() {
                break;
            }
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

    fn blocker(&self, cause: Cause, mut findings: Vec<Finding>, size: i64) -> Blocker {
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
                "fix the image name, its tag or the pull secret".to_owned(),
            ),
            Cause::ContainerConfig => (
                format!("{role} {container} cannot be created ({example}){why}"),
                "create the missing object, or fix the reference to it".to_owned(),
            ),
            Cause::CrashLoop => {
                let (problem, previous) = match restarts {
                    0 => (format!("has terminated ({example})"), ""),
                    _ => {
                        let restarts = count(i64::from(*restarts), "restart");
                        (
                            format!("keeps crashing ({restarts}; {example})"),
                            " --previous",
                        )
                    }
                };
                (
                    format!("{role} {container} {problem}{why}"),
                    format!("read its log: kubectl logs {name} -c {container}{previous}"),
                )
            }
            Cause::PodFailed => (
                format!("{of} failed: {what}{why}"),
                "check why the pods failed: their events and the state of the node".to_owned(),
            ),
            Cause::Unschedulable if reason == "SchedulingGated" => (
                format!("the new pods are waiting for a scheduling gate ({example}){why}"),
                "check which controller must remove the gate".to_owned(),
            ),
            Cause::Unschedulable => (
                format!("no node can run the new pods ({example}){why}"),
                "add or free resources, or lower the requests of the pods".to_owned(),
            ),
            Cause::NotReady if container.is_empty() => (
                format!(
                    "the new pods are running but waiting for a readiness gate ({example}){why}"
                ),
                "check which controller must set the condition of the gate".to_owned(),
            ),
            Cause::NotReady => (
                format!("{role} {container} is running but not ready ({example})"),
                "check why its readiness probe fails".to_owned(),
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

    /// Recreate waits for the old pods to terminate, and for a list of pods that is known to be complete.
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
    // The worst container determines the cause.
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

/// The reason why a container is not ready. `has_started` means that the pod is initialized, so that an init container
/// that is still running is a sidecar.
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
                let end = termination(&container.last_state);
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
            let recent = started_at.is_some_and(|started| {
                now.since(started) < Span::from_seconds(BACKOFF_RESET_SECONDS)
            });
            Some(match termination(&container.last_state) {
                Some((how, _)) if container.restarts > 0 && recent => {
                    (Cause::CrashLoop, "Running", how, *started_at)
                }
                _ => (Cause::NotReady, "Running", String::new(), *started_at),
            })
        }
        ContainerState::Terminated {
            exit_code, reason, ..
        } if !(container.init && *exit_code == 0) => {
            let (how, since) = termination(&container.state)?;
            Some((Cause::CrashLoop, or(reason, "Terminated"), how, since))
        }
        ContainerState::Terminated { .. } | ContainerState::Unknown => None,
    }
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
            let output = because(&last_line(message));
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

fn condition<'a>(pod: &'a Pod, kind: &str) -> Option<&'a PodCondition> {
    pod.conditions
        .iter()
        .find(|condition| condition.kind == kind)
}

fn or<'a>(text: &'a str, otherwise: &'a str) -> &'a str {
    if text.is_empty() { otherwise } else { text }
}
