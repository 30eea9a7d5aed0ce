//! The ReplicaSet controller: it creates or deletes pods until their number matches the spec.
//!
//! Kubernetes source: `pkg/controller/replicaset/replica_set.go`, `replica_set_utils.go`, and
//! `ActivePodsWithRanks` in `pkg/controller/controller_utils.go`, of v1.36.

use std::cmp::{Ordering, Reverse};
use std::sync::Arc;

use rollplan_core::snapshot::{Condition, ReplicaSet, ReplicaSetStatus};

use crate::clock;
use crate::pods::{NODES, PodState, StoredPod};

const REPLICA_FAILURE: &str = "ReplicaFailure";

/// The number of active pods on each node that belong to ReplicaSets with the same owner.
pub type Ranks = [usize; NODES as usize];

/// What a sync does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sync {
    /// As many pods exist as are desired, or the ReplicaSet is being deleted.
    Nothing,
    /// Create this number of pods.
    Create(usize),
    /// Delete these pods, and keep the others.
    Delete {
        /// The pods to delete.
        deleted: Vec<Arc<StoredPod>>,
        /// The pods that remain.
        kept: Vec<Arc<StoredPod>>,
    },
}

/// `manageReplicas`, for the active pods of a ReplicaSet.
#[must_use]
pub fn sync(set: &ReplicaSet, pods: &[Arc<StoredPod>], ranks: Ranks, now: i64) -> Sync {
    let wanted = usize::try_from(set.replicas).unwrap_or(0);
    if set.metadata.deletion_timestamp.is_some() || pods.len() == wanted {
        return Sync::Nothing;
    }
    if pods.len() < wanted {
        return Sync::Create(wanted - pods.len());
    }
    let mut deleted = pods.to_vec();
    let rank = |pod: &StoredPod| {
        pod.node
            .map_or(0, |node| ranks[node as usize % ranks.len()])
    };
    deleted.sort_by(|a, b| deletion_order(a, b, rank(a), rank(b), now));
    let kept = deleted.split_off(pods.len() - wanted);
    Sync::Delete { deleted, kept }
}

/// Counts pods by node, for [`sync`].
#[must_use]
pub fn ranks<'a>(pods: impl Iterator<Item = &'a Arc<StoredPod>>) -> Ranks {
    let mut ranks = Ranks::default();
    for pod in pods.filter(|pod| pod.is_active()) {
        if let Some(node) = pod.node {
            ranks[node as usize % NODES as usize] += 1;
        }
    }
    ranks
}

/// `calculateStatus`. `pods` are the active pods before the sync, `failure` is the message of a rejected create.
#[must_use]
pub fn status(
    set: &ReplicaSet,
    pods: &[Arc<StoredPod>],
    terminating: usize,
    failure: Option<String>,
    now: i64,
) -> ReplicaSetStatus {
    let count = |counts: &dyn Fn(&StoredPod) -> bool| {
        let number = pods.iter().filter(|pod| counts(pod)).count();
        i32::try_from(number).unwrap_or(i32::MAX)
    };
    let known = set.status.conditions.first().cloned();
    let condition = failure.map(|message| {
        known.unwrap_or_else(|| Condition {
            kind: REPLICA_FAILURE.to_owned(),
            status: "True".to_owned(),
            reason: "FailedCreate".to_owned(),
            message,
            last_update_time: None,
            last_transition_time: Some(clock::at(now)),
        })
    });
    ReplicaSetStatus {
        replicas: count(&|_| true),
        ready_replicas: count(&StoredPod::is_ready),
        available_replicas: count(&|pod| pod.is_available(set.min_ready_seconds, now)),
        terminating_replicas: Some(i32::try_from(terminating).unwrap_or(i32::MAX)),
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
