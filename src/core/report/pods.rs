//! What pods hold a rollout by.

use std::collections::BTreeMap;

use super::{BlockedPod, Blocker, Cause, Survey, count};
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
            let message = format!(
                "{missing} of {} new pods are not available, and the snapshot does not say why",
                new.replicas
            );
            let remedy = "send the pods of the ReplicaSets along";
            return vec![Blocker::new(Cause::NotAvailable, message, remedy)];
        }
        let size = new.replicas;
        let blockers = found.into_iter();
        blockers
            .map(|(cause, findings)| self.blocker(cause, findings, size))
            .collect()
    }

    fn is_refused(&self) -> bool {
        crate::status::condition(self.status, crate::status::REPLICA_FAILURE)
            .is_some_and(|condition| condition.status == "True")
    }

    fn blocker(&self, cause: Cause, findings: Vec<Finding>, size: i32) -> Blocker {
        let now = self.snapshot.now;
        let pods = findings.len();
        let of = format!("{pods} of {size} new pods");
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
        let example = format!("{of}: {name} {reason}{age}");
        let image = &first.image;
        let (text, remedy) = match cause {
            Cause::ImagePull => (
                format!("image {image} of container {container} cannot be pulled ({example})"),
                "correct the image, its tag or the pull secret".to_owned(),
            ),
            Cause::ContainerConfig => (
                format!("container {container} cannot be made ({example}): {message}"),
                "create what it refers to, or correct the reference".to_owned(),
            ),
            Cause::CrashLoop => (
                format!(
                    "container {container} ends again and again, {} ({example}): {message}",
                    count(i64::from(*restarts), "restart")
                ),
                format!("read its log: kubectl logs {name} -c {container} --previous"),
            ),
            Cause::PodFailed => (
                format!("pods have failed ({example}): {message}"),
                "see why the node ended them".to_owned(),
            ),
            Cause::Unschedulable => (
                format!("no node takes new pods ({example}): {message}"),
                "free or add resources, or ask for less".to_owned(),
            ),
            Cause::NotReady => (
                format!("container {container} runs and is not ready ({example})"),
                "see why its readiness check fails".to_owned(),
            ),
            Cause::MinReadySeconds => {
                let seconds = self.snapshot.deployment.spec.min_ready_seconds;
                (
                    format!("{of} are ready, but not yet for minReadySeconds ({seconds} s)"),
                    String::new(),
                )
            }
            _ => (
                format!("{of} are starting: {name} {reason}{age}"),
                String::new(),
            ),
        };
        let text = text.trim_end_matches([':', ' ']).to_owned();
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
        if self.is_rolling() || self.old.is_empty() || self.new_size > 0 {
            return None;
        }
        let running: Vec<BlockedPod> = self
            .old_pods
            .iter()
            .filter(|pod| !matches!(pod.phase.as_str(), "Failed" | "Succeeded"))
            .map(|pod| BlockedPod {
                name: pod.metadata.name.clone(),
                reason: match pod.metadata.deletion_timestamp {
                    Some(_) => "Terminating".to_owned(),
                    None => pod.phase.clone(),
                },
                since: pod.metadata.deletion_timestamp,
                ..BlockedPod::default()
            })
            .collect();
        let counted: i64 = self
            .old
            .iter()
            .map(|set| i64::from(set.status.replicas))
            .sum();
        let number = counted.max(i64::try_from(running.len()).unwrap_or(i64::MAX));
        if number > 0 {
            let age = |since: Option<Time>| {
                since.map_or_else(String::new, |since| {
                    format!(" for {}", self.snapshot.now.since(since))
                })
            };
            let example = running.first().map_or_else(String::new, |pod| {
                format!(": {} {}{}", pod.name, pod.reason, age(pod.since))
            });
            let verb = if number == 1 { "runs" } else { "run" };
            let message = format!(
                "{} still {verb}, and Recreate waits for the last{example}",
                count(number, "old pod")
            );
            let remedy =
                "see what keeps them: a finalizer, a long grace period or a node that is gone";
            return Some(Blocker::new(Cause::OldPodsRunning, message, remedy).with_pods(running));
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
            pod: BlockedPod {
                name: pod.metadata.name.clone(),
                container: container.map_or_else(String::new, |container| container.name.clone()),
                reason: reason.to_owned(),
                message: message.to_owned(),
                restarts: container.map_or(0, |container| container.restarts),
                since,
            },
        })
    };
    let created = pod.metadata.creation_timestamp;
    if pod.phase == "Failed" {
        return finding(
            Cause::PodFailed,
            None,
            or(&pod.reason, "Failed"),
            &pod.message,
            created,
        );
    }
    if let Some(condition) = condition(pod, "Ready").filter(|condition| condition.status == "True")
    {
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
    // The container that is worst off speaks for the pod.
    let worst = pod
        .containers
        .iter()
        .filter_map(|container| {
            let (cause, reason, message, since) = examine_container(container)?;
            Some((cause, container, reason, message, since))
        })
        .min_by_key(|(cause, ..)| *cause);
    if let Some((cause, container, reason, message, since)) = worst {
        let scheduled = condition(pod, "PodScheduled");
        let since = since
            .or_else(|| scheduled.and_then(|condition| condition.last_transition_time))
            .or(created);
        return finding(cause, Some(container), reason, message, since);
    }
    finding(
        Cause::Starting,
        None,
        or(&pod.phase, "Pending"),
        "",
        created,
    )
}

type ContainerFinding<'a> = (Cause, &'a str, &'a str, Option<Time>);

fn examine_container(container: &Container) -> Option<ContainerFinding<'_>> {
    match &container.state {
        ContainerState::Waiting { reason, message } => {
            let reason = reason.as_str();
            if IMAGE_PULL.contains(&reason) {
                Some((Cause::ImagePull, reason, message, None))
            } else if CONTAINER_CONFIG.contains(&reason) {
                Some((Cause::ContainerConfig, reason, message, None))
            } else if reason == "CrashLoopBackOff" || container.restarts > 0 {
                let (how, since) = last_end(container);
                Some((
                    Cause::CrashLoop,
                    or(reason, "Waiting"),
                    how.unwrap_or(message),
                    since,
                ))
            } else {
                Some((Cause::Starting, or(reason, "Waiting"), message, None))
            }
        }
        ContainerState::Running { started_at } if !container.ready && !container.init => {
            Some((Cause::NotReady, "Running", "", *started_at))
        }
        ContainerState::Running { started_at } if container.init => {
            Some((Cause::Starting, "Init", "", *started_at))
        }
        ContainerState::Terminated {
            exit_code,
            reason,
            message,
            finished_at,
        } if !(container.init && *exit_code == 0) => Some((
            Cause::CrashLoop,
            or(reason, "Terminated"),
            message,
            *finished_at,
        )),
        ContainerState::Running { .. }
        | ContainerState::Terminated { .. }
        | ContainerState::Unknown => None,
    }
}

/// How the container last ended, and when.
fn last_end(container: &Container) -> (Option<&str>, Option<Time>) {
    match &container.last_state {
        ContainerState::Terminated {
            reason,
            message,
            finished_at,
            ..
        } => {
            let how = [message, reason].into_iter().find(|text| !text.is_empty());
            (how.map(String::as_str), *finished_at)
        }
        ContainerState::Waiting { .. }
        | ContainerState::Running { .. }
        | ContainerState::Unknown => (None, None),
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
