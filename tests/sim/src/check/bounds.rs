//! Checks the two limits of a rolling update and the guarantee of Recreate after each write, against the actual state. A
//! plan is based on an earlier state. If others have changed the state since, exactly the effect of their changes is
//! exempt.

use std::sync::Arc;

use rollplan_core::revision::{self, ROLLBACK_TO};
use rollplan_core::snapshot::{ReplicaSet, Snapshot, Strategy};

use super::{is_ours, limits};
use crate::adapter::{Running, clamped};
use crate::server::{StoredSet, Writer};
use crate::tally::Tally;
use crate::world::World;

/// Whether sizes change because a user scaled the Deployment or paused it.
pub(crate) fn is_scaled(snapshot: &Snapshot) -> bool {
    let wanted = snapshot.deployment.spec.replicas;
    snapshot.deployment.spec.paused
        || snapshot.replica_sets.iter().any(|set| {
            let desired = revision::desired_replicas(&set.metadata.annotations);
            set.replicas > 0 && desired.is_some_and(|desired| desired != wanted)
        })
}

impl World {
    fn ours(&self, running: &Running) -> Vec<Arc<StoredSet>> {
        let deployment = &running.seen.snapshot.deployment;
        let sets = self.store.sets.values();
        sets.filter(|stored| is_ours(deployment, &stored.set))
            .cloned()
            .collect()
    }

    /// Checks the total after a ReplicaSet was created or scaled up from a size.
    pub(super) fn check_scale_up(&mut self, running: &Running, after: &StoredSet, from: i32) {
        self.tallies.count(Tally::CheckTotal);
        let seen = &running.seen.snapshot;
        let target = &after.set.metadata;
        let max = i64::from(limits(&seen.deployment).max_total());
        let ours = self.ours(running);
        let total: i64 = ours
            .iter()
            .map(|stored| i64::from(stored.set.replicas))
            .sum();
        if total > max && after.set.replicas > from {
            let others = ours.iter().filter(|stored| {
                stored.set.metadata.uid != target.uid && stored.changed_by == Writer::Other
            });
            let grown: i64 = others
                .map(|stored| {
                    let uid = &stored.set.metadata.uid;
                    let counted = |set: &&ReplicaSet| {
                        set.metadata.uid == *uid && is_ours(&seen.deployment, set)
                    };
                    let counted = seen.replica_sets.iter().find(counted);
                    let believed = counted.and_then(|_| running.sizes.get(uid));
                    let believed = believed.copied().unwrap_or(0);
                    i64::from(stored.set.replicas - believed).max(0)
                })
                .sum();
            if total - grown <= max {
                self.tallies.count(Tally::ExemptResized);
            } else if seen
                .deployment
                .metadata
                .annotations
                .contains_key(ROLLBACK_TO)
            {
                self.tallies.count(Tally::ExemptRollback);
            } else {
                let name = &target.name;
                let message =
                    format!("{total} pods exceed the maximum of {max} after scaling up {name}");
                self.violate("total", message);
            }
        }
        self.check_recreate(running, after);
    }

    /// Under Recreate, the new ReplicaSet is scaled up only if no pod of another ReplicaSet may be running.
    fn check_recreate(&mut self, running: &Running, after: &StoredSet) {
        let seen = &running.seen;
        let deployment = &seen.snapshot.deployment;
        if deployment.spec.strategy != Strategy::Recreate
            || !after.set.template.same_as(&deployment.spec.template)
            || after.set.replicas == 0
        {
            return;
        }
        self.tallies.count(Tally::CheckRecreate);
        let uid = &after.set.metadata.uid;
        let old = self.ours(running);
        let old = old.iter().filter(|stored| {
            stored.set.metadata.uid != *uid && stored.set.metadata.controller().is_some()
        });
        let mut exempt = None;
        let mut found = None;
        for stored in old {
            for pod in self.store.pods_of(&stored.set.metadata.uid) {
                if pod.is_evicted {
                    continue;
                }
                if deployment.metadata.annotations.contains_key(ROLLBACK_TO) {
                    exempt = Some(Tally::ExemptRollback);
                } else if is_scaled(&seen.snapshot) {
                    exempt = Some(Tally::ExemptRecreatePaused);
                } else if !seen.pods.contains_key(&pod.stored.number) {
                    exempt = Some(Tally::ExemptUnseenPod);
                } else {
                    found = Some(pod.name());
                }
            }
        }
        if let Some(exempt) = exempt {
            self.tallies.count(exempt);
        }
        if let Some(pod) = found {
            let name = &after.set.metadata.name;
            self.violate(
                "recreate",
                format!("{name} is scaled up while {pod} may be running"),
            );
        }
    }

    /// Checks the available pods after a ReplicaSet was scaled down from a size. Unavailable pods are deleted first, so the
    /// smaller of its size and its available pods remains available.
    pub(super) fn check_scale_down(&mut self, running: &Running, after: &StoredSet, from: i32) {
        let seen = &running.seen;
        let deployment = &seen.snapshot.deployment;
        if deployment.spec.strategy == Strategy::Recreate {
            return;
        }
        self.tallies.count(Tally::CheckAvailable);
        let min = i64::from(limits(deployment).min_available());
        let target = &after.set.metadata.uid;
        let ours = self.ours(running);
        let (mut left, mut cost) = (0, 0);
        let (mut seen_left, mut seen_cost) = (0, 0);
        let (mut failed, mut unobserved, mut shrunk) = (0, 0, 0);
        for stored in &ours {
            let set = &stored.set;
            let uid = &set.metadata.uid;
            let available = self.available(stored);
            let kept = available.min(set.replicas);
            left += i64::from(kept);
            if uid == target {
                cost = available.min(from) - kept;
            }
            let Some(known) = seen.sets.get(uid) else {
                continue;
            };
            let seen_kept = known.available.min(set.replicas);
            seen_left += i64::from(seen_kept);
            if uid != target && stored.changed_by == Writer::Other {
                let believed = running.sizes.get(uid).copied().unwrap_or(0);
                shrunk += i64::from(known.available.min(believed) - seen_kept).max(0);
            }
            if uid == target {
                seen_cost = known.available.min(from) - seen_kept;
            }
            let missing = i64::from(seen_kept - kept).max(0);
            if !known.observed || stored.set.min_ready_seconds != self.seen_min_ready(running, uid)
            {
                unobserved += missing;
            } else {
                let lost = self.lost_of(uid).saturating_sub(known.lost);
                failed += missing.min(i64::from(lost));
            }
        }
        // A ReplicaSet that no longer matches is released, but may have counted as the new one before: in the snapshot, or, as
        // upstream, if it has the name of the one to create.
        let snapshot = &seen.snapshot;
        let failures = snapshot.failures.iter();
        let existing = failures.filter_map(|failure| failure.existing.as_ref());
        let existing = existing.filter(|set| !seen.sets.contains_key(&set.metadata.uid));
        let gone: i64 = snapshot
            .replica_sets
            .iter()
            .chain(existing)
            .filter(|set| {
                let uid = &set.metadata.uid;
                let owner = set.metadata.controller();
                let owned = owner.is_some_and(|owner| owner.uid == deployment.metadata.uid);
                let was_ours = owned || is_ours(deployment, set);
                was_ours && !ours.iter().any(|stored| stored.set.metadata.uid == *uid)
            })
            .map(|set| i64::from(clamped(set)))
            .sum();
        if left == min {
            self.tallies.count(Tally::CheckAvailableTight);
        }
        if left >= min || cost <= 0 {
            return;
        }
        if is_scaled(&seen.snapshot) {
            return self.tallies.count(Tally::ExemptScaling);
        }
        for (number, tally) in [
            (failed, Tally::ExemptPodsFailed),
            (unobserved, Tally::ExemptUnobserved),
            (gone, Tally::ExemptTakenAway),
            (shrunk, Tally::ExemptShrunk),
        ] {
            if number > 0 {
                self.tallies.count(tally);
            }
        }
        if seen_left < min && seen_cost <= 0 {
            // The removed pods were not available when the plan was made.
            self.tallies.count(Tally::ExemptNewlyAvailable);
        } else if left + failed + unobserved + gone + shrunk < min {
            let name = &after.set.metadata.name;
            let message = format!(
                "{left} available pods are less than {min} after scaling down {name}; since the plan was made, \
                 {failed} failed, {unobserved} were not observed, {gone} were removed, \
                 others scaled down {shrunk}"
            );
            self.violate("available", message);
        }
    }

    fn seen_min_ready(&self, running: &Running, uid: &str) -> i32 {
        let sets = &running.seen.snapshot.replica_sets;
        let seen = sets.iter().find(|set| set.metadata.uid == uid);
        seen.map_or(0, |set| set.min_ready_seconds)
    }

    /// The actual number of available pods of a ReplicaSet.
    fn available(&self, stored: &StoredSet) -> i32 {
        let seconds = stored.set.min_ready_seconds;
        let pods = self.store.pods_of(&stored.set.metadata.uid);
        let available = pods.filter(|pod| pod.stored.is_available(seconds, self.now));
        i32::try_from(available.count()).unwrap_or(i32::MAX)
    }
}
