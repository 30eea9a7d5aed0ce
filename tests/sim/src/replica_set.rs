//! Carries out what the ReplicaSet controller decides, within the quota, and records which available pods were lost for
//! other reasons than our scaling.

use std::sync::Arc;

use rollplan_core::snapshot::ReplicaSet;
use rollplan_simulation::pods::StoredPod;
use rollplan_simulation::replica_set::{self, Sync};
use rollplan_world::at;

use crate::pods::{self, SimPod};
use crate::server::{StoredSet, Writer};
use crate::tally::Tally;
use crate::world::World;

impl World {
    /// `syncReplicaSet`. The status is based on the pods before this sync creates or deletes any.
    pub(crate) fn sync_set(&mut self, stored: &Arc<StoredSet>) {
        let version_before = self.store.version;
        let set = &stored.set;
        let uid = set.metadata.uid.as_str();
        // The status does not count the pods that this sync deletes as lost, either.
        let lost = self.lost_of(uid);
        let pods: Vec<Arc<SimPod>> = self
            .store
            .pods_of(uid)
            .filter(|pod| pod.is_active())
            .cloned()
            .collect();
        let mut failure = None;
        match replica_set::sync(set, pods.len()) {
            Sync::Nothing => {}
            Sync::Create(count) => failure = self.create_pods(stored, count).err(),
            Sync::Delete(count) => {
                let ranks = self.ranks(stored);
                let millis = self.now * 1000;
                let active = pods.iter().map(|pod| &pod.stored).collect();
                let (deleted, kept) = replica_set::choose(active, count, &ranks, millis);
                self.delete_pods(stored, &deleted, &kept);
            }
        }
        self.write_set_status(stored, &pods, lost, failure);
        if self.store.version != version_before {
            self.tallies.count(Tally::Synced);
        }
    }

    fn create_pods(&mut self, stored: &StoredSet, count: usize) -> Result<(), String> {
        for _ in 0..count {
            let counted = self
                .store
                .pods
                .values()
                .filter(|pod| !pod.is_evicted)
                .count();
            if self
                .quota_pods
                .is_some_and(|max| counted >= usize::from(max))
            {
                self.tallies.count(Tally::PodRejected);
                return Err("exceeded quota: pods".to_owned());
            }
            self.pods_made += 1;
            let (number, now) = (self.pods_made, self.now);
            let pod = SimPod::created(number, &stored.set, stored.template, now);
            self.store.put_pod(pod);
            self.tallies.count(Tally::PodCreated);
        }
        Ok(())
    }

    fn delete_pods(&mut self, stored: &StoredSet, deleted: &[&StoredPod], kept: &[&StoredPod]) {
        let available = |pods: &[&StoredPod]| {
            pods.iter()
                .filter(|pod| pod.is_available(stored.set.min_ready_seconds, self.now))
                .count()
        };
        let remaining = available(kept);
        let before = available(deleted) + remaining;
        // The available pods that our own scaling may cost at least. Any further loss is due to the deletion order or to
        // another client.
        let due = match stored.changed_by {
            Writer::Adapter => before.min(kept.len()),
            Writer::Other => before,
        };
        self.record_lost(&stored.set.metadata.uid, due.saturating_sub(remaining));
        for pod in deleted {
            self.delete_pod(pod.number);
            self.tallies.count(Tally::PodRemoved);
        }
    }

    fn ranks(&self, stored: &StoredSet) -> Vec<usize> {
        let owner = |set: &ReplicaSet| set.metadata.controller().map(|owner| owner.uid.clone());
        let of = owner(&stored.set);
        let related = self.store.sets.values().filter(|other| {
            other.set.metadata.uid == stored.set.metadata.uid
                || of.is_some() && owner(&other.set) == of
        });
        pods::ranks(related.flat_map(|set| self.store.pods_of(&set.set.metadata.uid)))
    }

    /// Deletes a pod. A pod that is not scheduled yet is removed immediately.
    pub(crate) fn delete_pod(&mut self, number: u32) {
        let Some(pod) = self.store.pods.get(&number) else {
            return;
        };
        if pod.stored.node.is_none() {
            self.store.remove_pod(number);
        } else if pod.stored.deleting.is_none() {
            let mut pod = SimPod::clone(pod);
            pod.stored.deleting = Some(self.now);
            self.store.put_pod(pod);
        }
    }

    fn write_set_status(
        &mut self,
        stored: &StoredSet,
        pods: &[Arc<SimPod>],
        lost: u32,
        failure: Option<String>,
    ) {
        let set = &stored.set;
        let uid = set.metadata.uid.as_str();
        let terminating = self
            .store
            .pods_of(uid)
            .filter(|pod| pod.stored.deleting.is_some() && !pod.is_evicted)
            .count();
        let failure = failure.map(|message| (message, at(self.now)));
        let counts = pods::counts(pods, terminating, set.min_ready_seconds, self.now);
        let status = replica_set::status(set, counts, failure);
        if status != set.status {
            let mut changed = stored.clone();
            changed.set.status = status;
            changed.lost = lost;
            self.store.put_set(changed, Writer::Other);
        }
    }
}
