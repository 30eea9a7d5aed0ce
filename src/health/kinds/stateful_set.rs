//! StatefulSets: updated from the highest ordinal down to the partition. Ordered ones are updated one pod at a time.

use rollplan_core::size::IntOrPercent;
use rollplan_core::snapshot::Pod;

use super::REVISION_LABEL;
use super::observed::{ObservedObject, counters, phase_of, rollout_words};
use crate::explain::pods::Explanation;
use crate::explain::{BlockedPod, Blocker, Cause, deletion};
use crate::judge::failure::{Certainty, Failure, Group};
use crate::judge::pending::certain;
use crate::judge::verdict::{Outlook, Verdict};
use crate::observe::pod::condition;
use crate::observe::pod::{is_node_lost, was_ready};
use crate::report::{Phase, Report};
use crate::text::{NAME_MAX, agree, count, one_line, share, word};

/// The fields of a StatefulSet that a report uses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StatefulSet {
    /// `spec.replicas`.
    pub replicas: i32,
    /// `spec.ordinals.start`.
    pub start: i32,
    /// Whether `spec.updateStrategy.type` is OnDelete.
    pub is_on_delete: bool,
    /// `spec.updateStrategy.rollingUpdate.partition`: pods with a lower ordinal keep their revision.
    pub partition: i32,
    /// The number of pods that may be unavailable during an update. 1 by default.
    pub max_unavailable: Option<IntOrPercent>,
    /// Whether `spec.podManagementPolicy` is OrderedReady.
    pub is_ordered: bool,
    /// `status.replicas`.
    pub existing: i32,
    /// `status.readyReplicas`.
    pub ready: i32,
    /// `status.availableReplicas`. Without minReadySeconds, ready pods are available.
    pub available: Option<i32>,
    /// `status.updatedReplicas`.
    pub updated: i32,
    /// `status.currentReplicas`.
    pub current: i32,
    /// `status.currentRevision`.
    pub current_revision: String,
    /// `status.updateRevision`.
    pub update_revision: String,
}

impl StatefulSet {
    fn available(&self) -> i32 {
        self.available.unwrap_or(self.ready)
    }

    /// The number of pods that must have the new revision.
    fn wanted_updates(&self) -> i32 {
        self.replicas.saturating_sub(self.partition).max(0)
    }

    fn is_sized(&self) -> bool {
        self.existing == self.replicas && self.available() >= self.replicas
    }

    fn is_updated(&self) -> bool {
        let is_one_revision = self.current_revision == self.update_revision;
        // With a single revision, both counters are about it. After a rollback of a partial update, some pods still have
        // another revision.
        let updated =
            if is_one_revision && (self.partition == 0 || !self.update_revision.is_empty()) {
                self.updated.max(self.current)
            } else {
                self.updated
            };
        updated >= self.wanted_updates() && (is_one_revision || self.partition > 0)
    }

    /// Whether a pod has the new revision. Without revisions, every pod does.
    fn is_new(&self, pod: &Pod) -> bool {
        let revision = pod.metadata.labels.get(REVISION_LABEL);
        revision.is_none_or(|revision| {
            self.update_revision.is_empty() || *revision == self.update_revision
        })
    }

    /// The ordinal of a pod, if it is within the replicas of the set.
    fn ordinal(&self, pod: &Pod) -> Option<i64> {
        let (_, ordinal) = pod.metadata.name.rsplit_once('-')?;
        let ordinal: i64 = ordinal.parse().ok()?;
        let start = i64::from(self.start);
        (start..start + i64::from(self.replicas))
            .contains(&ordinal)
            .then_some(ordinal)
    }

    /// The number of pods that may be unavailable during an update.
    fn unavailable_max(&self) -> i32 {
        let max = self.max_unavailable.unwrap_or(IntOrPercent::Int(1));
        max.rounded_down(self.replicas).max(1)
    }
}

pub(super) fn report(set: &StatefulSet, object: &ObservedObject<'_>) -> Report {
    let mut rows = counters([
        ("desired", set.replicas),
        ("total", set.existing),
        ("updated", set.updated),
        ("ready", set.ready),
        ("available", set.available()),
    ]);
    if set.partition > 0 {
        rows.extend(counters([("partition", set.partition)]));
    }
    let outdated = outdated(set, object);
    let is_waiting_for_deletion = set.is_on_delete
        && set.current_revision != set.update_revision
        && set.is_sized()
        && set.updated < set.replicas;
    if is_waiting_for_deletion {
        let blocker = on_delete(&outdated, set, object);
        let verdict = Verdict::new(Outlook::NeedsChange, true, Some(&blocker));
        return object.report(Phase::Paused, "is waiting", vec![blocker], verdict, rows);
    }
    if set.is_sized() && (set.is_on_delete || set.is_updated()) {
        let what = match (set.replicas, set.partition) {
            (0, _) => "has 0 replicas".to_owned(),
            (all, partition) if partition > 0 && set.current_revision != set.update_revision => {
                format!(
                    "successfully rolled out to its partition ({} of {all} updated, ordinals below {} stay)",
                    set.updated,
                    i64::from(set.start) + i64::from(partition)
                )
            }
            (all, _) => format!(
                "successfully rolled out ({} of {all} available)",
                set.available()
            ),
        };
        return object.complete(&what, rows);
    }
    let new = object.snapshot.pods.iter().filter(|pod| set.is_new(pod));
    let explanations = if set.available() >= set.replicas {
        Vec::new()
    } else {
        object.context.explain_all(new.clone())
    };
    let mut blockers = object.context.blockers(&explanations, set.replicas.into());
    let (blocking, certainty) = blocking_old_pod(set, object);
    blockers.extend(blocking);
    if set.existing < set.replicas {
        blockers.extend(object.pods_refused());
    }
    blockers.extend(object.terminating());
    if blockers.is_empty() {
        blockers.push(unexplained(set, object));
    }
    blockers.sort_by_key(|blocker| blocker.cause);
    note_own_fix(set, &mut blockers, object);
    let group = Group {
        existing: if set.current_revision == set.update_revision {
            set.existing.into()
        } else {
            set.updated.into()
        },
        has_ready: new.clone().any(is_ready),
        makes_room: object.pods_terminate(),
    };
    let verdict = match certainty {
        Some(verdict) => verdict,
        None => object.judge(&blockers, &explanations, &group),
    };
    let is_degraded = set.is_updated()
        && set.existing == set.replicas
        && explanations
            .iter()
            .any(|explanation| was_ready(explanation.pod));
    let phase = if is_degraded {
        Phase::Degraded
    } else {
        Phase::Progressing
    };
    let phase = phase_of(&verdict, phase);
    let wanted = set.wanted_updates();
    let what = format!(
        "{} ({}, {})",
        rollout_words(phase),
        share(set.updated, wanted, "updated"),
        share(set.available(), set.replicas, "available")
    );
    object.report(phase, what, blockers, verdict, rows)
}

fn is_ready(pod: &Pod) -> bool {
    condition(pod, "Ready").is_some_and(|ready| ready.status == "True")
}

/// The pods of older revisions that the update replaces, ordered from the highest ordinal down.
fn outdated<'a>(set: &StatefulSet, object: &ObservedObject<'a>) -> Vec<&'a Pod> {
    let first = i64::from(set.start) + i64::from(set.partition);
    let pods = object.snapshot.pods.iter();
    let mut pods: Vec<_> = pods
        .filter_map(|pod| Some((set.ordinal(pod)?, pod)))
        .filter(|(ordinal, pod)| *ordinal >= first && !set.is_new(pod))
        .collect();
    pods.sort_by_key(|(ordinal, _)| std::cmp::Reverse(*ordinal));
    pods.into_iter().map(|(_, pod)| pod).collect()
}

/// The old pods that a user must delete, because the strategy is OnDelete.
fn on_delete(outdated: &[&Pod], set: &StatefulSet, object: &ObservedObject<'_>) -> Blocker {
    let missing = i64::from(set.replicas) - i64::from(set.updated);
    let have = if missing == 1 { "has" } else { "have" };
    let message = format!(
        "{} {have} an older revision, and updateStrategy OnDelete replaces a pod only when it is deleted",
        count(missing, "pod")
    );
    let remedy = outdated.first().map_or_else(String::new, |pod| {
        format!(
            "kubectl delete pod {}{}",
            word(&pod.metadata.name),
            object.in_namespace()
        )
    });
    let pods = outdated.iter().map(|pod| BlockedPod {
        name: pod.metadata.name.clone(),
        reason: "Outdated".to_owned(),
        ..BlockedPod::default()
    });
    Blocker::new(Cause::OnDelete, message, remedy).with_pods(pods.collect())
}

/// The pod of an older revision that is not ready: the controller waits for it although the update would replace it
/// (kubernetes/kubernetes#67250). For an ordered set, it waits until the pod is ready.
fn blocking_old_pod(
    set: &StatefulSet,
    object: &ObservedObject<'_>,
) -> (Option<Blocker>, Option<Verdict>) {
    if set.is_on_delete || set.updated >= set.wanted_updates() {
        return (None, None);
    }
    let mut pods: Vec<_> = object
        .snapshot
        .pods
        .iter()
        .filter_map(|pod| Some((set.ordinal(pod)?, pod)))
        .collect();
    pods.sort_by_key(|(ordinal, _)| *ordinal);
    // The controller processes the pods in this order, and stops at the first that is not available.
    let Some((ordinal, pod)) = pods.into_iter().find(|(_, pod)| !is_ready(pod)) else {
        return (None, None);
    };
    let is_replaced = matches!(pod.phase.as_str(), "Failed" | "Succeeded");
    if set.is_new(pod) || is_replaced || pod.metadata.deletion_timestamp.is_some() {
        return (None, None);
    }
    let Some(explanation) = object.context.explain(pod) else {
        return (None, None);
    };
    let unavailable = set.replicas.saturating_sub(set.available());
    if !set.is_ordered && unavailable < set.unavailable_max() {
        return (None, None);
    }
    let name = &pod.metadata.name;
    let is_held = ordinal < i64::from(set.start) + i64::from(set.partition);
    let is_lost = is_node_lost(pod) || object.context.awaits_kubelet(pod);
    let reason = if is_lost {
        let node = one_line(&pod.node_name, NAME_MAX);
        format!("node {node} has stopped reporting")
    } else {
        explanation.blocked.reason.clone()
    };
    let message = if is_held {
        format!(
            "pod {name} is not ready ({reason}) and blocks the update; it keeps its revision because its ordinal is below \
             the partition"
        )
    } else {
        format!(
            "pod {name} of an older revision is not ready ({reason}) and blocks the update that would replace it"
        )
    };
    let remedy = match (is_lost, is_held) {
        (true, _) => deletion::of_lost_node(pod),
        (false, true) => "lower the partition, or fix the older revision".to_owned(),
        (false, false) => format!("kubectl delete pod {}{}", word(name), object.in_namespace()),
    };
    let mut blocker = Blocker::new(Cause::OldPodBlocks, message, remedy);
    blocker.since = explanation.blocked.since;
    let group = Group {
        existing: 1,
        has_ready: false,
        makes_room: false,
    };
    let explanations: [Explanation<'_>; 1] = [explanation];
    let failure = object
        .context
        .shared_failure(&explanations, &group, Some(Cause::OldPodBlocks))
        .filter(|_| set.is_ordered);
    let [explanation] = explanations;
    blocker = blocker.with_pods(vec![explanation.blocked]);
    let verdict = failure.and_then(
        |Failure {
             certainty, since, ..
         }| match certainty {
            Certainty::Certain => Some(certain(&blocker, Some(since))),
            Certainty::Pending(at) => Some(Verdict {
                since: Some(since),
                decided_after: at,
                ..Verdict::new(Outlook::Undecided, false, Some(&blocker))
            }),
            Certainty::Open => None,
        },
    );
    (Some(blocker), verdict)
}

/// Adds to the remedy that a broken new pod must be deleted: a corrected template does not replace it, because an ordered
/// set waits for the pod to become ready.
fn note_own_fix(set: &StatefulSet, blockers: &mut [Blocker], object: &ObservedObject<'_>) {
    if !set.is_ordered || set.is_on_delete {
        return;
    }
    let Some(first) = blockers.first_mut() else {
        return;
    };
    let needs_fix = matches!(
        first.cause,
        Cause::ImagePull | Cause::ContainerConfig | Cause::CrashLoop
    );
    if let Some(pod) = first.pods.first().filter(|_| needs_fix) {
        let before = match first.remedy.as_str() {
            "" => String::new(),
            remedy => format!("{remedy}; "),
        };
        first.remedy = format!(
            "{before}after a change of the template also: kubectl delete pod {}{}",
            word(&pod.name),
            object.in_namespace()
        );
    }
}

/// The blocker if no pod explains why the status is incomplete.
fn unexplained(set: &StatefulSet, object: &ObservedObject<'_>) -> Blocker {
    let extra = i64::from(set.existing) - i64::from(set.replicas);
    let left = i64::from(set.wanted_updates()) - i64::from(set.updated);
    let missing = i64::from(set.replicas) - i64::from(set.available());
    let message = if extra > 0 {
        format!("{} still to be removed", agree(count(extra, "pod"), extra))
    } else if missing > 0 && object.snapshot.pods.is_empty() && !object.snapshot.pods_complete {
        format!(
            "{} not available, and the snapshot does not contain the pods that would show why",
            agree(count(missing, "pod"), missing)
        )
    } else if missing > 0 {
        format!(
            "{} not available yet",
            agree(count(missing, "pod"), missing)
        )
    } else if left > 0 {
        format!(
            "{} still to be updated, at most {} at a time",
            agree(count(left, "pod"), left),
            set.unavailable_max()
        )
    } else {
        "the controller has not completed the update yet".to_owned()
    };
    Blocker::new(Cause::NotAvailable, message, "")
}
