//! The ReplicaSet controller: it creates or deletes pods until their number matches the spec.
//!
//! Kubernetes source: `pkg/controller/replicaset/replica_set.go`, `replica_set_utils.go`, and
//! `ActivePodsWithRanks` in `pkg/controller/controller_utils.go`, of v1.37.

use std::cmp::{Ordering, Reverse};

use rollplan_core::snapshot::{Condition, ReplicaSet, ReplicaSetStatus};
use rollplan_core::status::REPLICA_FAILURE;
use rollplan_core::time::Time;

use crate::pods::{PodState, StoredPod};

/// The maximum number of pods that one sync creates or deletes (`BurstReplicas`).
const BURST: usize = 500;

/// What a sync does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sync {
    /// As many pods exist as are desired, or the ReplicaSet is being deleted.
    Nothing,
    /// Create this number of pods.
    Create(usize),
    /// Delete this number of pods: those that [`choose`] returns.
    Delete(usize),
}

/// The pods of a ReplicaSet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PodCounts {
    /// The number of active pods.
    pub active: usize,
    /// The number of these that are ready.
    pub ready: usize,
    /// The number of these that are available.
    pub available: usize,
    /// The number of terminating pods.
    pub terminating: usize,
}

/// `manageReplicas`, for a ReplicaSet with this number of active pods.
#[must_use]
pub fn sync(set: &ReplicaSet, active: usize) -> Sync {
    let wanted = usize::try_from(set.replicas).unwrap_or(0);
    if set.metadata.deletion_timestamp.is_some() || active == wanted {
        return Sync::Nothing;
    }
    if active < wanted {
        Sync::Create((wanted - active).min(BURST))
    } else {
        Sync::Delete((active - wanted).min(BURST))
    }
}

/// `getPodsToDelete`: this number of active pods, and the others. `ranks` has the number of active pods on each node that
/// belong to ReplicaSets with the same owner. `now` is in milliseconds since the moment from which the pods count seconds.
/// As in Kubernetes, the result may depend on the order of `pods`, because their comparison is not transitive.
#[must_use]
pub fn choose<'a>(
    mut pods: Vec<&'a StoredPod>,
    count: usize,
    ranks: &[usize],
    now: i64,
) -> (Vec<&'a StoredPod>, Vec<&'a StoredPod>) {
    let (mut chosen, mut kept) = (Vec::new(), Vec::new());
    // The quickselect algorithm: sorting all pods of a large ReplicaSet for each sync would take too long, and the sort of
    // the standard library requires a total order.
    while chosen.len() < count && !pods.is_empty() {
        let pivot = pods[pods.len() / 2];
        let (mut before, mut equal, mut after) = (Vec::new(), Vec::new(), Vec::new());
        for pod in pods {
            match deletion_order(pod, pivot, ranks, now) {
                Ordering::Less => before.push(pod),
                Ordering::Equal => equal.push(pod),
                Ordering::Greater => after.push(pod),
            }
        }
        let missing = count - chosen.len();
        if missing < before.len() {
            kept.extend(equal);
            kept.extend(after);
            pods = before;
        } else {
            chosen.extend(before);
            let surplus = equal.split_off((count - chosen.len()).min(equal.len()));
            chosen.extend(equal);
            kept.extend(surplus);
            pods = after;
        }
    }
    kept.extend(pods);
    (chosen, kept)
}

/// `calculateStatus`, with the pods before the sync. `failure` is the message of a rejected create and its time.
#[must_use]
pub fn status(
    set: &ReplicaSet,
    counts: PodCounts,
    failure: Option<(String, Time)>,
) -> ReplicaSetStatus {
    let clamp = |count: usize| i32::try_from(count).unwrap_or(i32::MAX);
    let condition = failure.map(|(message, time)| {
        let known = set.status.conditions.first().cloned();
        known.unwrap_or_else(|| Condition {
            kind: REPLICA_FAILURE.to_owned(),
            status: "True".to_owned(),
            reason: "FailedCreate".to_owned(),
            message,
            last_update_time: None,
            last_transition_time: Some(time.whole_seconds()),
        })
    });
    ReplicaSetStatus {
        replicas: clamp(counts.active),
        ready_replicas: clamp(counts.ready),
        available_replicas: clamp(counts.available),
        terminating_replicas: Some(clamp(counts.terminating)),
        observed_generation: set.metadata.generation,
        conditions: condition.into_iter().collect(),
    }
}

/// `ActivePodsWithRanks.Less`, without deletion costs: the lesser of two pods is deleted first. This is not transitive,
/// because pods that became ready in the same second are not compared in the same way as others.
fn deletion_order(a: &StoredPod, b: &StoredPod, ranks: &[usize], now: i64) -> Ordering {
    let rank = |node: u32| ranks.get(node as usize).copied();
    let class = |pod: &StoredPod| {
        (
            pod.node.is_some(),
            pod.state >= PodState::Running,
            pod.is_ready(),
            Reverse(pod.node.and_then(rank).unwrap_or(0)),
        )
    };
    // Kubernetes compares the binary logarithms of ages in nanoseconds.
    let magnitude = |since: i64| {
        let age = now.saturating_sub(since.saturating_mul(1000));
        age.saturating_mul(1_000_000).checked_ilog2()
    };
    // The younger pod first.
    let by_age = |first: i64, second: i64| {
        let by_magnitude = magnitude(first).cmp(&magnitude(second));
        by_magnitude.then_with(|| a.uid.cmp(&b.uid))
    };
    let by_start = || match (a.ready_since, b.ready_since) {
        (Some(first), Some(second)) if first != second => by_age(first, second),
        _ => match b.restarts.cmp(&a.restarts) {
            Ordering::Equal if a.created != b.created => by_age(a.created, b.created),
            by_restarts => by_restarts,
        },
    };
    class(a).cmp(&class(b)).then_with(by_start)
}
