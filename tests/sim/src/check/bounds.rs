//! The two bounds and Recreate's promise, at each write, against the world as it is. A plan knows the world as it
//! was seen: where others have changed it since, so much is exempt as they have changed, and no more.

use std::sync::Arc;

use rollplan_core::revision::{self, ROLLBACK_TO};
use rollplan_core::snapshot::{ReplicaSet, Snapshot, Strategy};

use super::{is_ours, limits};
use crate::adapter::Running;
use crate::server::{StoredSet, Writer};
use crate::tally::Tally;
use crate::world::World;

/// Whether a user has asked for other sizes: by scaling, or while paused.
fn is_scaled(snapshot: &Snapshot) -> bool {
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

    /// A ReplicaSet was created or grew from a size.
    pub(super) fn check_growth(&mut self, running: &Running, after: &StoredSet, from: i32) {
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
                let message = format!("{total} pods wanted of {max} allowed, by growing {name}");
                self.violate("total", message);
            }
        }
        self.check_recreate(running, after);
    }

    /// Under Recreate a ReplicaSet of the current template grows only when no pod of another one may run.
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
                if !pod.may_run() {
                    continue;
                }
                if deployment.metadata.annotations.contains_key(ROLLBACK_TO) {
                    exempt = Some(Tally::ExemptRollback);
                } else if is_scaled(&seen.snapshot) {
                    exempt = Some(Tally::ExemptRecreatePaused);
                } else if !seen.pods.contains_key(&pod.number) {
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
            self.violate("recreate", format!("{name} grows while {pod} runs"));
        }
    }

    /// A ReplicaSet shrank from a size. What is not available goes first, so that so many are left as were
    /// available, or as are still wanted.
    pub(super) fn check_shrinking(&mut self, running: &Running, after: &StoredSet, from: i32) {
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
        let gone: i64 = seen
            .sets
            .iter()
            .filter(|(uid, _)| {
                // One that no longer matches is released, and may have counted as the new one all the same.
                let was_ours = seen.snapshot.replica_sets.iter().any(|set| {
                    let owner = set.metadata.controller();
                    let owned = owner.is_some_and(|owner| owner.uid == deployment.metadata.uid);
                    set.metadata.uid == **uid && (owned || is_ours(deployment, set))
                });
                was_ours && !ours.iter().any(|stored| stored.set.metadata.uid == **uid)
            })
            .map(|(_, known)| i64::from(known.available))
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
            // What was taken was not available when it was seen.
            self.tallies.count(Tally::ExemptNewlyAvailable);
        } else if left + failed + unobserved + gone + shrunk < min {
            let name = &after.set.metadata.name;
            let message = format!(
                "{left} left of {min} by shrinking {name}; since it was seen {failed} failed, \
                 {unobserved} were not observed, {gone} were taken away, {shrunk} shrunk by others"
            );
            self.violate("available", message);
        }
    }

    fn seen_min_ready(&self, running: &Running, uid: &str) -> i32 {
        let sets = &running.seen.snapshot.replica_sets;
        let seen = sets.iter().find(|set| set.metadata.uid == uid);
        seen.map_or(0, |set| set.min_ready_seconds)
    }

    /// The pods of a ReplicaSet that are available, truly.
    fn available(&self, stored: &StoredSet) -> i32 {
        let seconds = stored.set.min_ready_seconds;
        let pods = self.store.pods_of(&stored.set.metadata.uid);
        let available = pods.filter(|pod| pod.is_available(seconds, self.now));
        i32::try_from(available.count()).unwrap_or(i32::MAX)
    }
}
