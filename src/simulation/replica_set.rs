//! The ReplicaSet controller: it creates or deletes pods until their number matches the spec.
//!
//! Kubernetes source: `pkg/controller/replicaset/replica_set.go`, `replica_set_utils.go`, and
//! `ActivePodsWithRanks` in `pkg/controller/controller_utils.go`, of v1.37.

use std::borrow::Borrow;
use std::cmp::{Ordering, Reverse};

use rollplan_core::snapshot::{Condition, ReplicaSet, ReplicaSetStatus};
use rollplan_core::status::REPLICA_FAILURE;
use rollplan_core::time::Time;

use crate::pods::{NODES, PodState, StoredPod};

/// The maximum number of pods that one sync creates or deletes (`BurstReplicas`).
const BURST: usize = 500;

/// The number of active pods on each node that belong to ReplicaSets with the same owner.
pub type Ranks = [usize; NODES as usize];

/// What a sync does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sync<P> {
    /// As many pods exist as are desired, or the ReplicaSet is being deleted.
    Nothing,
    /// Create this number of pods.
    Create(usize),
    /// Delete these pods, and keep the others.
    Delete {
        /// The pods to delete.
        deleted: Vec<P>,
        /// The pods that remain.
        kept: Vec<P>,
    },
}

/// `manageReplicas`, for the active pods of a ReplicaSet.
#[must_use]
pub fn sync<P: Borrow<StoredPod> + Clone>(
    set: &ReplicaSet,
    pods: &[P],
    ranks: Ranks,
    now: i64,
) -> Sync<P> {
    let wanted = usize::try_from(set.replicas).unwrap_or(0);
    if set.metadata.deletion_timestamp.is_some() || pods.len() == wanted {
        return Sync::Nothing;
    }
    if pods.len() < wanted {
        return Sync::Create((wanted - pods.len()).min(BURST));
    }
    let mut deleted = pods.to_vec();
    let rank = |pod: &StoredPod| {
        pod.node
            .map_or(0, |node| ranks[node as usize % ranks.len()])
    };
    deleted.sort_by(|a, b| {
        let (a, b) = (a.borrow(), b.borrow());
        deletion_order(a, b, rank(a), rank(b), now)
    });
    let kept = deleted.split_off((pods.len() - wanted).min(BURST));
    Sync::Delete { deleted, kept }
}

/// Counts pods by node, for [`sync`].
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

/// `calculateStatus`. `pods` are the active pods before the sync, `failure` is the message of a rejected create and its time.
#[must_use]
pub fn status<P: Borrow<StoredPod>>(
    set: &ReplicaSet,
    pods: &[P],
    terminating: usize,
    failure: Option<(String, Time)>,
    now: i64,
) -> ReplicaSetStatus {
    let clamp = |count: usize| i32::try_from(count).unwrap_or(i32::MAX);
    let (mut ready, mut available) = (0, 0);
    for pod in pods.iter().map(Borrow::borrow) {
        ready += usize::from(pod.is_ready());
        available += usize::from(pod.is_available(set.min_ready_seconds, now));
    }
    let known = set.status.conditions.first().cloned();
    let condition = failure.map(|(message, time)| {
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
        replicas: clamp(pods.len()),
        ready_replicas: clamp(ready),
        available_replicas: clamp(available),
        terminating_replicas: Some(clamp(terminating)),
        observed_generation: set.metadata.generation,
        conditions: condition.into_iter().collect(),
    }
}

/// `ActivePodsWithRanks.Less`, without deletion costs.
fn deletion_order(
    a: &StoredPod,
    b: &StoredPod,
    rank_a: usize,
    rank_b: usize,
    now: i64,
) -> Ordering {
    // Younger pods first, but only if the ages differ by an order of magnitude.
    let by_age = |a: Option<i64>, b: Option<i64>| {
        let magnitude = |since: i64| (now - since).max(0).checked_ilog2();
        a.map(magnitude).cmp(&b.map(magnitude))
    };
    let phase = |pod: &StoredPod| pod.state >= PodState::Crashed;
    a.node
        .is_some()
        .cmp(&b.node.is_some())
        .then_with(|| phase(a).cmp(&phase(b)))
        .then_with(|| a.is_ready().cmp(&b.is_ready()))
        .then_with(|| Reverse(rank_a).cmp(&Reverse(rank_b)))
        .then_with(|| match (a.is_ready(), b.is_ready()) {
            (true, true) => by_age(a.ready_since, b.ready_since),
            _ => Ordering::Equal,
        })
        .then_with(|| Reverse(a.restarts).cmp(&Reverse(b.restarts)))
        .then_with(|| by_age(Some(a.created), Some(b.created)))
        .then_with(|| a.number.cmp(&b.number))
}
