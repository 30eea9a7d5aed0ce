//! Deleting old ReplicaSets beyond the history limit.
//!
//! Kubernetes source: `cleanupDeployment` in `pkg/controller/deployment/sync.go`.

use std::cmp::Ordering;

use super::{Flow, Held, Pass, Stop};
use crate::action::{Action, OnFailure};
use crate::revision;

impl Pass<'_> {
    /// `cleanupDeployment`. The lowest revisions are looked at; those that still have pods are passed over,
    /// not replaced by others.
    pub(super) fn clean_up(&mut self, old: &[Held]) -> Flow<()> {
        let limit = self.owner.deployment.spec.revision_history_limit;
        if limit == i32::MAX {
            return Ok(());
        }
        let mut alive: Vec<&Held> = old
            .iter()
            .filter(|set| self.cached(set).metadata.deletion_timestamp.is_none())
            .collect();
        let surplus = alive
            .len()
            .saturating_sub(usize::try_from(limit).unwrap_or(0));
        if surplus == 0 {
            return Ok(());
        }
        self.sort_by_revision(&mut alive);
        for set in &alive[..surplus] {
            if self.is_deletable(set) {
                let action = Action::DeleteReplicaSet {
                    set: self.sets[set.index].target(),
                };
                let gone = OnFailure::Tolerate(&[404]);
                if let Err(failure) = self.act(action, gone)
                    && !gone.tolerates(failure.http_code)
                {
                    return Err(Stop::Refused);
                }
            }
        }
        Ok(())
    }

    fn is_deletable(&self, set: &Held) -> bool {
        let managed = &self.sets[set.index];
        let cached = &managed.cached;
        let idle = cached.status.replicas == 0
            && set.replicas == 0
            && cached.metadata.generation <= cached.status.observed_generation;
        // Kubernetes deletes a set that this very pass has scaled up (a listed difference).
        idle && managed.stored.replicas == 0
    }

    /// `ReplicaSetsByRevision`. Sets whose revision is not a number are compared by age alone, which is no
    /// order at all: what comes out depends on what goes in and on how it is sorted. Go sorts up to twelve
    /// by insertion, and so do we; beyond that its result is as good as any.
    fn sort_by_revision(&self, sets: &mut [&Held]) {
        let numbered = |set: &Held| revision::revision_of(self.annotations(set));
        let compare = |a: &Held, b: &Held| -> Ordering {
            let by_age = || revision::by_age(self.cached(a), self.cached(b));
            match (numbered(a), numbered(b)) {
                (Some(a), Some(b)) => a.cmp(&b).then_with(by_age),
                _ => by_age(),
            }
        };
        if sets.iter().all(|set| numbered(set).is_some()) {
            sets.sort_by(|a, b| compare(a, b));
            return;
        }
        if sets.len() > 12 {
            sets.sort_by_cached_key(|set| (numbered(set), set.index));
            return;
        }
        for end in 1..sets.len() {
            let mut at = end;
            while at > 0 && compare(sets[at], sets[at - 1]).is_lt() {
                sets.swap(at, at - 1);
                at -= 1;
            }
        }
    }
}
