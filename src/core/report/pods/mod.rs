//! Blockers that are caused by pods.

mod blocker;
mod examine;

use std::cmp::Reverse;

use super::text::{KUBERNETES_MAX, agree, count, one_line};
use super::verdict::class::Class;
use super::{BlockedPod, Blocker, Cause, Survey};
use crate::snapshot::{Container, Pod, PodCondition};
use crate::time::Time;

/// The reason of a pod that waits for a scheduling gate.
const GATED: &str = "SchedulingGated";
/// The reason of a container that ran out of memory.
const OOM_KILLED: &str = "OOMKilled";
/// The reason of a pod of which a readiness gate is not met.
pub(super) const GATES_NOT_READY: &str = "ReadinessGatesNotReady";
/// The reason of a pod that is not ready although its containers are.
const NODE_LOST: &str = "ContainersReady";

/// The reason why a pod is not available.
pub(crate) struct Finding<'a> {
    pub(crate) cause: Cause,
    /// The class of the failure. `None` if it is not a failure.
    pub(crate) class: Option<Class>,
    /// Whether what is reported leaves no doubt that the failure persists.
    pub(crate) is_definite: bool,
    /// Whether only an event shows the failure, which may be outdated.
    pub(crate) is_from_event: bool,
    /// When the kubelet kills the container unless it passes its startup probe.
    pub(crate) startup_ends: Option<Time>,
    pub(crate) source: &'a Pod,
    pub(crate) container: Option<&'a Container>,
    pub(crate) pod: BlockedPod,
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
            .take_while(|_| !self.examiner.interrupt.is_interrupted())
            .filter_map(|pod| self.examiner.examine(pod))
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
        if findings.is_empty() && !self.is_refused() {
            return vec![self.unexplained(missing, i64::from(new.replicas))];
        }
        self.examiner.blockers(findings, new.replicas.into())
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

pub(crate) fn condition<'a>(pod: &'a Pod, kind: &str) -> Option<&'a PodCondition> {
    pod.conditions
        .iter()
        .find(|condition| condition.kind == kind)
}

fn or<'a>(text: &'a str, otherwise: &'a str) -> &'a str {
    if text.is_empty() { otherwise } else { text }
}
