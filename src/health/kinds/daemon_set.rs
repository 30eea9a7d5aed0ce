//! DaemonSets: one pod on each selected node, updated within maxUnavailable and maxSurge.

use std::collections::BTreeSet;

use rollplan_core::size::IntOrPercent;
use rollplan_core::snapshot::Pod;

use super::observed::{ObservedObject, counters, phase_of, rollout_words};
use super::{ObjectSnapshot, REVISION_LABEL};
use crate::explain::pods::Explanation;
use crate::explain::{BlockedPod, Blocker, Cause};
use crate::judge::failure::Group;
use crate::judge::verdict::{Outlook, Verdict};
use crate::observe::peers::{Peers, Replacement};
use crate::observe::pod::condition;
use crate::observe::pod::was_ready;
use crate::report::{Phase, Report};
use crate::text::{NAME_MAX, agree, count, one_line, word};

/// The generation of the template: a label of pods, and an annotation of the DaemonSet.
const TEMPLATE_LABEL: &str = "pod-template-generation";
const TEMPLATE_ANNOTATION: &str = "deprecated.daemonset.template.generation";
/// The maximum number of nodes in a message.
const NODES_LISTED_MAX: usize = 5;

/// The fields of a DaemonSet that a report uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DaemonSet {
    /// Whether `spec.updateStrategy.type` is OnDelete.
    pub is_on_delete: bool,
    /// Nodes on which the pod may be unavailable during an update.
    pub max_unavailable: IntOrPercent,
    /// Nodes that may run the old and the new pod during an update.
    pub max_surge: IntOrPercent,
    /// The hash of the newest ControllerRevision, if it is known.
    pub revision: Option<String>,
    /// `status.desiredNumberScheduled`.
    pub desired: Option<i32>,
    /// `status.currentNumberScheduled`.
    pub current: i32,
    /// `status.updatedNumberScheduled`.
    pub updated: i32,
    /// `status.numberReady`.
    pub ready: i32,
    /// `status.numberAvailable`.
    pub available: i32,
    /// `status.numberMisscheduled`.
    pub misscheduled: i32,
}

impl Default for DaemonSet {
    fn default() -> Self {
        Self {
            is_on_delete: false,
            max_unavailable: IntOrPercent::Int(1),
            max_surge: IntOrPercent::Int(0),
            revision: None,
            desired: None,
            current: 0,
            updated: 0,
            ready: 0,
            available: 0,
            misscheduled: 0,
        }
    }
}

/// The pods by their revisions. With maxSurge, a DaemonSet creates the new pod of a node before it deletes the old one.
pub(super) fn peers<'a>(set: &DaemonSet, observed: &'a ObjectSnapshot) -> Peers<'a> {
    let pods = observed.pods.iter();
    let (old, own) = pods.partition(|pod| is_new(set, observed, pod) == Some(false));
    let old: Vec<&Pod> = old;
    Peers {
        old: old.into_iter().map(|pod| (pod, None)).collect(),
        own,
        surroundings: &observed.surroundings,
        replacement: if set.max_surge.rounded_up(set.desired.unwrap_or_default()) > 0 {
            Replacement::SurgeOnNode
        } else {
            Replacement::AfterOld
        },
    }
}

/// Whether a pod has the current template. `None` if that is unknown.
fn is_new(set: &DaemonSet, observed: &ObjectSnapshot, pod: &Pod) -> Option<bool> {
    let labels = &pod.metadata.labels;
    let by_hash = set.revision.as_ref().zip(labels.get(REVISION_LABEL));
    let annotations = &observed.metadata.annotations;
    let by_number = annotations
        .get(TEMPLATE_ANNOTATION)
        .zip(labels.get(TEMPLATE_LABEL));
    // One match is enough, as in the DaemonSet controller.
    match (by_hash, by_number) {
        (None, None) => None,
        (hash, number) => Some(
            hash.is_some_and(|(wanted, has)| wanted == has)
                || number.is_some_and(|(wanted, has)| wanted == has),
        ),
    }
}

pub(super) fn report(set: &DaemonSet, object: &ObservedObject<'_>) -> Report {
    let Some(desired) = set.desired else {
        let message = "no controller has counted its nodes yet".to_owned();
        let blocker = Blocker::new(Cause::GenerationUnobserved, message, "");
        return object.open(Phase::Progressing, "is waiting", blocker);
    };
    let rows = counters([
        ("desired", desired),
        ("current", set.current),
        ("updated", set.updated),
        ("ready", set.ready),
        ("available", set.available),
        ("misscheduled", set.misscheduled),
    ]);
    let is_available = set.current >= desired && set.available >= desired && set.ready >= desired;
    if is_available && set.updated >= desired {
        let what = match desired {
            0 => {
                "has no node to run on: no node matches its nodeSelector, affinity and tolerations"
                    .to_owned()
            }
            _ => format!(
                "successfully rolled out ({} of {desired} nodes available)",
                set.available
            ),
        };
        return object.complete(&what, rows);
    }
    if is_available && set.is_on_delete {
        let blocker = on_delete(set, desired, object);
        let verdict = Verdict::new(Outlook::NeedsChange, true, Some(&blocker));
        return object.report(Phase::Paused, "is waiting", vec![blocker], verdict, rows);
    }
    let is_updated = set.updated >= desired;
    let new: Vec<&Pod> = object
        .snapshot
        .pods
        .iter()
        // If old and new pods cannot be distinguished, all are new once the update is complete.
        .filter(|pod| is_new(set, object.snapshot, pod).unwrap_or(is_updated))
        .collect();
    let explanations = object.context.explain_all(new.iter().copied());
    let mut blockers = object.context.blockers(&explanations, desired.into());
    for blocker in &mut blockers {
        name_nodes(blocker, &explanations);
    }
    if set.current < desired {
        blockers.extend(object.pods_refused());
    }
    // The new pod of a node is created only when the old one has ended.
    blockers.extend(object.terminating());
    if blockers.is_empty() {
        blockers.push(unexplained(set, desired, object));
    }
    blockers.sort_by_key(|blocker| blocker.cause);
    let existing = if is_updated { set.current } else { set.updated };
    let group = Group {
        existing: existing.into(),
        has_ready: new
            .iter()
            .any(|pod| condition(pod, "Ready").is_some_and(|ready| ready.status == "True")),
        makes_room: object.pods_terminate(),
    };
    let verdict = object.judge(&blockers, &explanations, &group);
    let is_degraded = is_updated
        && set.current >= desired
        && explanations
            .iter()
            .any(|explanation| was_ready(explanation.pod));
    let phase = if is_degraded {
        Phase::Degraded
    } else {
        Phase::Progressing
    };
    let phase = phase_of(&verdict, phase);
    let what = format!(
        "{} ({} of {desired} nodes updated, {} of {desired} available)",
        rollout_words(phase),
        set.updated.min(desired),
        set.available
    );
    object.report(phase, what, blockers, verdict, rows)
}

/// Adds the nodes of the affected pods to the message.
fn name_nodes(blocker: &mut Blocker, explanations: &[Explanation<'_>]) {
    let nodes: BTreeSet<&str> = explanations
        .iter()
        .filter(|explanation| explanation.cause == blocker.cause)
        .map(|explanation| explanation.pod.node_name.as_str())
        .filter(|node| !node.is_empty())
        .collect();
    if nodes.is_empty() {
        return;
    }
    let listed: Vec<_> = nodes
        .iter()
        .take(NODES_LISTED_MAX)
        .map(|node| one_line(node, NAME_MAX))
        .collect();
    let more = match nodes.len().saturating_sub(listed.len()) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let noun = if nodes.len() == 1 { "node" } else { "nodes" };
    // The message may name the node of its example.
    let named = nodes.iter().find_map(|node| {
        let named = format!(" (node {node})");
        blocker.message.strip_suffix(named.as_str())
    });
    let message = named.unwrap_or(&blocker.message);
    blocker.message = format!("{message} ({noun} {}{more})", listed.join(", "));
}

/// The old pods that a user must delete, because the strategy is OnDelete.
fn on_delete(set: &DaemonSet, desired: i32, object: &ObservedObject<'_>) -> Blocker {
    let mut old: Vec<&Pod> = object
        .snapshot
        .pods
        .iter()
        .filter(|pod| is_new(set, object.snapshot, pod) == Some(false))
        .collect();
    old.sort_by_key(|pod| &pod.metadata.name);
    let missing = i64::from(desired) - i64::from(set.updated);
    let have = if missing == 1 { "has" } else { "have" };
    let message = format!(
        "{} {have} an older revision, and updateStrategy OnDelete replaces a pod only when it is deleted",
        count(missing, "pod")
    );
    let remedy = old.first().map_or_else(String::new, |pod| {
        format!(
            "kubectl delete pod {}{}",
            word(&pod.metadata.name),
            object.in_namespace()
        )
    });
    let pods = old.iter().map(|pod| BlockedPod {
        name: pod.metadata.name.clone(),
        reason: "Outdated".to_owned(),
        ..BlockedPod::default()
    });
    Blocker::new(Cause::OnDelete, message, remedy).with_pods(pods.collect())
}

/// The blocker if no pod explains why the status is incomplete.
fn unexplained(set: &DaemonSet, desired: i32, object: &ObservedObject<'_>) -> Blocker {
    let left = i64::from(desired) - i64::from(set.updated);
    let missing = i64::from(desired) - i64::from(set.available.min(set.ready).min(set.current));
    // For DaemonSets, both limits are rounded up.
    let surge = set.max_surge.rounded_up(desired);
    let unavailable = set.max_unavailable.rounded_up(desired);
    let has_pods = !object.snapshot.pods.is_empty() || object.snapshot.pods_complete;
    let message = if left > 0 && !set.is_on_delete {
        let limit = match surge {
            0 => format!(
                "at most {} unavailable at a time",
                agree(count(unavailable.into(), "node"), unavailable.into())
            ),
            _ => format!(
                "at most {} with an additional pod at a time",
                count(surge.into(), "node")
            ),
        };
        let held = if missing > 0 && surge == 0 && missing >= i64::from(unavailable) {
            format!(", {missing} now")
        } else {
            String::new()
        };
        format!(
            "{} still to be updated: {limit}{held}",
            agree(count(left, "node"), left)
        )
    } else if missing > 0 && !has_pods {
        format!(
            "the pods on {} are not available, and the snapshot does not contain the pods that would show why",
            count(missing, "node")
        )
    } else {
        format!(
            "the pods on {} are not available yet",
            count(missing, "node")
        )
    };
    Blocker::new(Cause::NotAvailable, message, "")
}
