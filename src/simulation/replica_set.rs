//! The ReplicaSet controller: it creates or deletes pods until their number matches the spec.
//!
//! Kubernetes source: `pkg/controller/replicaset/replica_set.go`, `replica_set_utils.go`, and
//! `ActivePodsWithRanks` in `pkg/controller/controller_utils.go`, of v1.37.

use std::borrow::Borrow;
use std::cmp::Reverse;

use rollplan_core::snapshot::{Condition, ReplicaSet, ReplicaSetStatus};
use rollplan_core::status::REPLICA_FAILURE;
use rollplan_core::time::Time;

use crate::pods::{NODES, PodState, StoredPod};

/// The maximum number of pods that one sync creates or deletes (`BurstReplicas`).
const BURST: usize = 500;

/// The number of active pods on each node that belong to ReplicaSets with the same owner.
pub type Ranks = [usize; NODES as usize];

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
pub struct Counts {
    /// The number of active pods.
    pub active: usize,
    /// The number of these that are ready.
    pub ready: usize,
    /// The number of these that are available.
    pub available: usize,
    /// The number of terminating pods.
    pub terminating: usize,
}

// === impl Counts ===

impl Counts {
    /// Counts active pods.
    #[must_use]
    pub fn of<P: Borrow<StoredPod>>(
        active: &[P],
        terminating: usize,
        min_ready_seconds: i32,
        now: i64,
    ) -> Self {
        let count = |is_counted: &dyn Fn(&StoredPod) -> bool| {
            let pods = active.iter().map(Borrow::borrow);
            pods.filter(|pod| is_counted(pod)).count()
        };
        Self {
            active: active.len(),
            ready: count(&StoredPod::is_ready),
            available: count(&|pod| pod.is_available(min_ready_seconds, now)),
            terminating,
        }
    }
}

/// `manageReplicas`, for a ReplicaSet with this number of active pods.
#[must_use]
pub fn sync(set: &ReplicaSet, active: usize) -> Sync {
    let wanted = usize::try_from(set.replicas).unwrap_or(0);
    if set.metadata.deletion_timestamp.is_some() || active == wanted {
        return Sync::Nothing;
    }
    match active < wanted {
        true => Sync::Create((wanted - active).min(BURST)),
        false => Sync::Delete((active - wanted).min(BURST)),
    }
}

/// `getPodsToDelete`: this number of active pods, in the order in which they are deleted, and the others. `ranks` has one entry for
/// each node, as in [`Ranks`].
#[must_use]
pub fn choose<P: Borrow<StoredPod>>(
    pods: Vec<P>,
    count: usize,
    ranks: &[usize],
    now: i64,
) -> (Vec<P>, Vec<P>) {
    let key = |pod: P| {
        let stored = pod.borrow();
        let rank = stored
            .node
            .and_then(|node| ranks.get(node as usize).copied())
            .unwrap_or(0);
        (deletion_key(stored, rank, now), pod)
    };
    let mut chosen: Vec<_> = pods.into_iter().map(key).collect();
    let count = count.min(chosen.len());
    if 0 < count && count < chosen.len() {
        // All others are not sorted: there may be thousands.
        chosen.select_nth_unstable_by(count - 1, |a, b| a.0.cmp(&b.0));
    }
    let kept = chosen.split_off(count);
    chosen.sort_unstable_by(|a, b| a.0.cmp(&b.0));
    let pods = |keyed: Vec<(_, P)>| keyed.into_iter().map(|it| it.1).collect();
    (pods(chosen), pods(kept))
}

/// Counts pods by node, for [`choose`].
#[must_use]
pub fn ranks<'a, P: Borrow<StoredPod> + 'a>(pods: impl Iterator<Item = &'a P>) -> Ranks {
    let mut ranks = Ranks::default();
    for pod in pods.map(Borrow::borrow).filter(|pod| pod.is_active()) {
        if let Some(node) = pod.node {
            ranks[node as usize % NODES as usize] += 1;
        }
    }
    ranks
}

/// `calculateStatus`, with the pods before the sync. `failure` is the message of a rejected create and its time.
#[must_use]
pub fn status(
    set: &ReplicaSet,
    counts: Counts,
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

/// `ActivePodsWithRanks.Less`, without deletion costs: pods with lower keys are deleted first.
fn deletion_key(pod: &StoredPod, rank: usize, now: i64) -> impl Ord + use<> {
    // Younger pods first, but only if the ages differ by an order of magnitude.
    let magnitude = |since: i64| (now - since).max(0).checked_ilog2();
    let is_ready = pod.is_ready();
    (
        pod.node.is_some(),
        pod.state >= PodState::Crashed,
        is_ready,
        Reverse(rank),
        pod.ready_since.filter(|_| is_ready).map(magnitude),
        Reverse(pod.restarts),
        magnitude(pod.created),
        pod.number,
    )
}
