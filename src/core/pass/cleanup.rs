//! Deleting old ReplicaSets beyond the history limit.
//!
//! Kubernetes source: `cleanupDeployment` in `pkg/controller/deployment/sync.go`.

use super::sets::{Sets, WorkingCopy};
use super::{Pass, Stop, SyncResult};
use crate::action::{Action, OnFailure};
use crate::interrupt::Interrupt;
use crate::revision;

/// Go sorts no more than this many by insertion (`pdqsort` in package sort).
const INSERTION_SORTED_MAX: usize = 12;

impl Pass<'_> {
    /// `cleanupDeployment`. Of the lowest revisions beyond the limit, those that still have pods are kept, and no others are
    /// deleted instead.
    pub(super) fn clean_up(&mut self, old: &[WorkingCopy]) -> SyncResult<()> {
        let limit = self.owner.deployment.spec.revision_history_limit;
        if limit == i32::MAX {
            return Ok(());
        }
        let mut alive: Vec<&WorkingCopy> = old
            .iter()
            .filter(|set| self.sets.cached(set).metadata.deletion_timestamp.is_none())
            .collect();
        let surplus = alive
            .len()
            .saturating_sub(usize::try_from(limit).unwrap_or(0));
        if surplus == 0 {
            return Ok(());
        }
        sort_by_revision(&self.sets, &mut alive, self.interrupt)?;
        for set in &alive[..surplus] {
            self.checkpoint()?;
            if !is_deletable(&self.sets, set) {
                continue;
            }
            let set = self.sets.target(set);
            let on_failure = OnFailure::Tolerate(&[404]);
            let written = self
                .writes
                .act(Action::DeleteReplicaSet { set }, on_failure);
            if written.is_err_and(|failure| !on_failure.tolerates(failure.http_code)) {
                return Err(Stop::Refused);
            }
        }
        Ok(())
    }
}

fn is_deletable(sets: &Sets<'_>, set: &WorkingCopy) -> bool {
    let cached = sets.cached(set);
    let idle = cached.status.replicas == 0
        && set.replicas == 0
        && cached.metadata.generation <= cached.status.observed_generation;
    // Kubernetes deletes a ReplicaSet that the same pass has scaled up (a listed difference).
    idle && sets.stored_replicas(set) == 0
}

/// `ReplicaSetsByRevision`. ReplicaSets whose revision is not a number are compared by age alone. This comparison is not
/// transitive, so the result depends on the input and on the algorithm. Go sorts up to twelve items by insertion, and so
/// does this function. With more items, the result of Go is random, because it starts from the order of a map. The result of
/// this function is then one of those in which each item is in the right order relative to the next. (The sort of the
/// standard library may panic if the comparison is not transitive.)
fn sort_by_revision(
    sets: &Sets<'_>,
    copies: &mut [&WorkingCopy],
    interrupt: &dyn Interrupt,
) -> SyncResult<()> {
    let checkpoint = || interrupt.check().map_err(|_| Stop::Interrupted);
    let mut numbered: Vec<(Option<i64>, &WorkingCopy)> = copies
        .iter()
        .map(|set| (revision::revision_of(sets.annotations(set)), *set))
        .collect();
    let is_less = |(a_number, a): &(Option<i64>, &WorkingCopy),
                   (b_number, b): &(Option<i64>, &WorkingCopy)| {
        let by_age = || revision::by_age(sets.cached(a), sets.cached(b));
        let order = match (a_number, b_number) {
            (Some(a), Some(b)) => a.cmp(b).then_with(by_age),
            _ => by_age(),
        };
        order.is_lt()
    };
    for run in numbered.chunks_mut(INSERTION_SORTED_MAX) {
        checkpoint()?;
        insertion_sort(run, is_less);
    }
    let mut sorted = INSERTION_SORTED_MAX;
    while sorted < numbered.len() {
        let mut merged = Vec::with_capacity(numbered.len());
        for runs in numbered.chunks(2 * sorted) {
            checkpoint()?;
            let (left, right) = runs.split_at(sorted.min(runs.len()));
            merge(left, right, is_less, &mut merged);
        }
        numbered = merged;
        sorted *= 2;
    }
    for (place, (_, set)) in copies.iter_mut().zip(numbered) {
        *place = set;
    }
    Ok(())
}

fn insertion_sort<T>(items: &mut [T], is_less: impl Fn(&T, &T) -> bool) {
    for end in 1..items.len() {
        let mut at = end;
        while at > 0 && is_less(&items[at], &items[at - 1]) {
            items.swap(at, at - 1);
            at -= 1;
        }
    }
}

/// Appends two sorted runs in order; of equal items, the left one comes first.
fn merge<T: Copy>(
    mut left: &[T],
    mut right: &[T],
    is_less: impl Fn(&T, &T) -> bool,
    merged: &mut Vec<T>,
) {
    while let ([first, left_rest @ ..], [second, right_rest @ ..]) = (left, right) {
        if is_less(second, first) {
            merged.push(*second);
            right = right_rest;
        } else {
            merged.push(*first);
            left = left_rest;
        }
    }
    merged.extend_from_slice(left);
    merged.extend_from_slice(right);
}
