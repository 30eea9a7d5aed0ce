//! Deleting old ReplicaSets beyond the history limit.
//!
//! Kubernetes source: `cleanupDeployment` in `pkg/controller/deployment/sync.go`.

use super::{Pass, Stop, SyncResult, WorkingCopy};
use crate::action::{Action, OnFailure};
use crate::revision;

impl Pass<'_> {
    /// `cleanupDeployment`. The lowest revisions are looked at; those that still have pods are passed over,
    /// not replaced by others.
    pub(super) fn clean_up(&mut self, old: &[WorkingCopy]) -> SyncResult<()> {
        let limit = self.owner.deployment.spec.revision_history_limit;
        if limit == i32::MAX {
            return Ok(());
        }
        let mut alive: Vec<&WorkingCopy> = old
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
            self.checkpoint()?;
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

    fn is_deletable(&self, set: &WorkingCopy) -> bool {
        let managed = &self.sets[set.index];
        let cached = &managed.cached;
        let idle = cached.status.replicas == 0
            && set.replicas == 0
            && cached.metadata.generation <= cached.status.observed_generation;
        // Kubernetes deletes a set that this very pass has scaled up (a listed difference).
        idle && managed.stored.replicas == 0
    }

    /// `ReplicaSetsByRevision`. Sets whose revision is not a number are compared by age alone, which is no
    /// order at all: what comes out depends on what goes in and on how it is sorted. Go sorts up to twelve by
    /// insertion, and so do we; what it makes of more, out of a list in the order of a map, is as good as any.
    fn sort_by_revision(&self, sets: &mut [&WorkingCopy]) {
        let mut numbered: Vec<(Option<i64>, &WorkingCopy)> = sets
            .iter()
            .map(|set| (revision::revision_of(self.annotations(set)), *set))
            .collect();
        let compare = |(a_number, a): &(Option<i64>, &WorkingCopy),
                       (b_number, b): &(_, &WorkingCopy)| {
            let by_age = || revision::by_age(self.cached(a), self.cached(b));
            match (a_number, b_number) {
                (Some(a), Some(b)) => a.cmp(b).then_with(by_age),
                _ => by_age(),
            }
        };
        if numbered.iter().all(|(number, _)| number.is_some()) {
            numbered.sort_by(compare);
        } else {
            for end in 1..numbered.len() {
                let mut at = end;
                while at > 0 && compare(&numbered[at], &numbered[at - 1]).is_lt() {
                    numbered.swap(at, at - 1);
                    at -= 1;
                }
            }
        }
        for (place, (_, set)) in sets.iter_mut().zip(numbered) {
            *place = set;
        }
    }
}
