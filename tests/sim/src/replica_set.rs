//! The ReplicaSet controller: it creates or deletes pods until their number matches the spec. The status that it writes
//! is based on the pods that existed before.
//!
//! Kubernetes source: `pkg/controller/replicaset/replica_set.go`, `replica_set_utils.go`, and
//! `ActivePodsWithRanks` in `pkg/controller/controller_utils.go`, of v1.37.

use std::cmp::{Ordering, Reverse};
use std::sync::Arc;

use rollplan_core::snapshot::{Condition, ReplicaSet, ReplicaSetStatus};

use crate::clock;
use crate::pods::{PodState, StoredPod};
use crate::server::{StoredSet, Writer};
use crate::tally::Tally;
use crate::world::World;

const REPLICA_FAILURE: &str = "ReplicaFailure";

impl World {
    /// `syncReplicaSet`. The status is based on the pods before this sync creates or deletes any.
    pub(crate) fn sync_set(&mut self, stored: &Arc<StoredSet>) {
        let version_before = self.store.version;
        let set = &stored.set;
        let uid = set.metadata.uid.as_str();
        let pods: Vec<Arc<StoredPod>> = self
            .store
            .pods_of(uid)
            .filter(|pod| pod.is_active())
            .cloned()
            .collect();
        let wanted = usize::try_from(set.replicas).unwrap_or(0);
        let mut failure = None;
        if set.metadata.deletion_timestamp.is_none() {
            if pods.len() < wanted {
                failure = self.create_pods(stored, wanted - pods.len()).err();
            } else if pods.len() > wanted {
                self.delete_pods(stored, &pods, pods.len() - wanted);
            }
        }
        self.write_set_status(stored, &pods, failure);
        if self.store.version != version_before {
            self.tallies.count(Tally::Synced);
        }
    }

    fn create_pods(&mut self, stored: &StoredSet, count: usize) -> Result<(), String> {
        for _ in 0..count {
            let counted = self.store.pods.values().filter(|pod| pod.may_run()).count();
            if self
                .quota_pods
                .is_some_and(|max| counted >= usize::from(max))
            {
                self.tallies.count(Tally::PodRejected);
                return Err("exceeded quota: pods".to_owned());
            }
            self.pods_made += 1;
            self.store.put_pod(StoredPod {
                number: self.pods_made,
                set_uid: stored.set.metadata.uid.as_str().into(),
                set_name: stored.set.metadata.name.as_str().into(),
                template: stored.template,
                state: PodState::Pending,
                node: None,
                created: self.now,
                started: self.now,
                ready_since: None,
                restarts: 0,
                deleting: None,
            });
            self.tallies.count(Tally::PodCreated);
        }
        Ok(())
    }

    fn delete_pods(&mut self, stored: &StoredSet, pods: &[Arc<StoredPod>], count: usize) {
        let now = self.now;
        let related = self.ranks(stored);
        let mut ranked: Vec<&Arc<StoredPod>> = pods.iter().collect();
        let on_node = |pod: &StoredPod| pod.node.map_or(0, |node| related[node as usize % 2]);
        ranked.sort_by(|a, b| deletion_order(a, b, on_node(a), on_node(b), now));
        let min_ready = stored.set.min_ready_seconds;
        let available = |pods: &[&Arc<StoredPod>]| {
            pods.iter()
                .filter(|pod| pod.is_available(min_ready, now))
                .count()
        };
        let before = available(&ranked);
        let remaining = available(&ranked[count..]);
        // The available pods that our own scaling may cost at least. Any further loss is due to the deletion order or to
        // another client.
        let due = match stored.changed_by {
            Writer::Adapter => before.min(ranked.len() - count),
            Writer::Other => before,
        };
        self.record_lost(&stored.set.metadata.uid, due.saturating_sub(remaining));
        for pod in &ranked[..count] {
            self.delete_pod(pod);
            self.tallies.count(Tally::PodRemoved);
        }
    }

    /// The number of active pods on each node that belong to ReplicaSets with the same owner.
    fn ranks(&self, stored: &StoredSet) -> [usize; 2] {
        let owner = |set: &ReplicaSet| set.metadata.controller().map(|owner| owner.uid.clone());
        let of = owner(&stored.set);
        let related = self.store.sets.values().filter(|other| {
            other.set.metadata.uid == stored.set.metadata.uid
                || of.is_some() && owner(&other.set) == of
        });
        let mut ranks = [0; 2];
        for set in related {
            for pod in self.store.pods_of(&set.set.metadata.uid) {
                if let Some(node) = pod.node.filter(|_| pod.is_active()) {
                    ranks[node as usize % 2] += 1;
                }
            }
        }
        ranks
    }

    /// Deletes a pod. A pod that is not scheduled yet is removed immediately.
    pub(crate) fn delete_pod(&mut self, pod: &StoredPod) {
        if pod.node.is_none() {
            self.store.remove_pod(pod.number);
        } else if pod.deleting.is_none() {
            let deleting = Some(self.now);
            self.store.put_pod(StoredPod {
                deleting,
                ..pod.clone()
            });
        }
    }

    fn write_set_status(
        &mut self,
        stored: &StoredSet,
        pods: &[Arc<StoredPod>],
        failure: Option<String>,
    ) {
        let set = &stored.set;
        let count = |counts: &dyn Fn(&StoredPod) -> bool| {
            let number = pods.iter().filter(|pod| counts(pod)).count();
            i32::try_from(number).unwrap_or(i32::MAX)
        };
        let uid = set.metadata.uid.as_str();
        let terminating = self
            .store
            .pods_of(uid)
            .filter(|pod| pod.deleting.is_some() && pod.may_run())
            .count();
        let known = set.status.conditions.first().cloned();
        let condition = failure.map(|message| {
            known.unwrap_or_else(|| Condition {
                kind: REPLICA_FAILURE.to_owned(),
                status: "True".to_owned(),
                reason: "FailedCreate".to_owned(),
                message,
                last_update_time: None,
                last_transition_time: Some(clock::at(self.now)),
            })
        });
        let status = ReplicaSetStatus {
            replicas: count(&|_| true),
            ready_replicas: count(&StoredPod::is_ready),
            available_replicas: count(&|pod| pod.is_available(set.min_ready_seconds, self.now)),
            terminating_replicas: Some(i32::try_from(terminating).unwrap_or(i32::MAX)),
            observed_generation: set.metadata.generation,
            conditions: condition.into_iter().collect(),
        };
        if status != set.status {
            let mut changed = stored.clone();
            changed.set.status = status;
            changed.lost = self.lost_of(uid);
            self.store.put_set(changed, Writer::Other);
        }
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
