//! Scaling in the middle of a rollout or while it is paused: every active ReplicaSet keeps its share, so that scaling does
//! not accelerate the rollout of a template that may be broken.
//!
//! Kubernetes source: `scale` in `pkg/controller/deployment/sync.go`.

use std::cmp::Reverse;

use super::sets::{Found, WorkingCopy, total};
use super::{Pass, Rules, SyncResult};
use crate::action::OnFailure;
use crate::revision;
use crate::scaling::ScaleReason;
use crate::size::{self, Share};

impl Pass<'_> {
    /// `scale`. Sorts the old ReplicaSets from the newest to the oldest. Clean-up depends on this order.
    pub(super) fn scale_all(&mut self, found: &mut Found) -> SyncResult<()> {
        found.old.reverse();
        let wanted = self.limits.replicas;
        if let Some(set) = active_or_latest(found) {
            let size = self.size_alone(found, &set);
            // Without the annotation, the scaling event would never end.
            let force = size != wanted || self.is_wedged(&set);
            self.scale_set(
                &set,
                size,
                force,
                ScaleReason::ReplicasChanged,
                OnFailure::Stop,
            )?;
            return Ok(());
        }
        if found.new.as_ref().is_some_and(|new| self.is_saturated(new)) {
            return self.remove_old_pods(found);
        }
        if self.strategy.scales_proportionally() {
            self.scale_proportionally(found)
        } else {
            self.refresh_wedged(found)
        }
    }

    /// The size of the only ReplicaSet to scale. Caps limit the new one only during its rollout. If it had all desired pods
    /// so far, it is scaled as usual.
    fn size_alone(&self, found: &Found, set: &WorkingCopy) -> i32 {
        let wanted = self.limits.replicas;
        let desired = revision::desired_replicas_lenient(self.sets.annotations(set));
        if !found.is_new(set) || desired == Some(set.replicas) {
            return wanted;
        }
        self.caps.new_size(set.replicas, wanted)
    }

    /// Removes the old pods that the caps do not keep.
    fn remove_old_pods(&mut self, found: &Found) -> SyncResult<()> {
        let new = found.new.as_ref().map_or(0, |new| new.replicas);
        let mut left = self.caps.removable(self.limits, new, total(&found.old));
        for set in found.old.iter().filter(|set| set.replicas > 0) {
            let removed = i64::from(set.replicas).min(left.max(0));
            let size = size::clamp(i64::from(set.replicas) - removed);
            left -= removed;
            // Without the annotation, the scaling event of pods that are kept would never end.
            self.scale_set(set, size, size > 0, ScaleReason::Saturated, OnFailure::Stop)?;
        }
        Ok(())
    }

    fn refresh_wedged(&mut self, found: &Found) -> SyncResult<()> {
        for set in found.all() {
            if self.is_wedged(set) {
                // Only its annotations change.
                self.scale_set(
                    set,
                    set.replicas,
                    true,
                    ScaleReason::ReplicasChanged,
                    OnFailure::Stop,
                )?;
            }
        }
        Ok(())
    }

    /// Whether Kubernetes would detect a scaling event in a ReplicaSet indefinitely: its `desired-replicas` is stale, and
    /// Kubernetes writes that annotation only together with another size. It becomes stale after a crash between two scaling
    /// writes, and if an edit changes the strategy to Recreate while several ReplicaSets are active. While the Deployment is
    /// paused, nothing waits for the event to pass: the annotation is updated when the rollout resumes.
    fn is_wedged(&self, set: &WorkingCopy) -> bool {
        let wanted = self.limits.replicas;
        self.rules == Rules::LookAhead
            && !self.owner.deployment.spec.paused
            && revision::is_scaled_for_another(self.sets.annotations(set), set.replicas, wanted)
    }

    fn scale_proportionally(&mut self, found: &Found) -> SyncResult<()> {
        let mut active: Vec<&WorkingCopy> = found.all().filter(|set| set.replicas > 0).collect();
        let total = total(active.iter().copied());
        let allowed = self.limits.scaled_total();
        // The indices are in the order of age.
        if total < allowed {
            active.sort_by_key(|set| (Reverse(set.replicas), Reverse(set.index)));
        } else if total > allowed {
            active.sort_by_key(|set| (Reverse(set.replicas), set.index));
        }
        let mut shares: Vec<Share> = active.iter().map(|set| self.share(set)).collect();
        if self.rules == Rules::LookAhead && total > allowed {
            // A user has resized a ReplicaSet whose annotation has a smaller total. Kubernetes would let it grow without a
            // bound although the total must shrink.
            for share in &mut shares {
                share.max_total_before = share.max_total_before.max(size::clamp(allowed));
            }
        }
        let mut sizes = size::proportional(self.limits, &shares);
        let roles: Vec<(i32, bool)> = active
            .iter()
            .map(|set| (set.replicas, found.is_new(set)))
            .collect();
        self.caps.cut_share(&roles, &mut sizes);
        let mut scaled: Vec<(&WorkingCopy, i32)> = active.into_iter().zip(sizes).collect();
        if self.rules == Rules::LookAhead {
            // Scale up only after all scale-downs. If a scale-down is rejected, nothing is scaled up.
            scaled.sort_by_key(|(set, size)| *size > set.replicas);
        }
        for (set, size) in scaled {
            self.scale_set(set, size, true, ScaleReason::Proportional, OnFailure::Stop)?;
        }
        Ok(())
    }

    fn share(&self, set: &WorkingCopy) -> Share {
        let annotated = revision::max_replicas(self.sets.annotations(set)).filter(|&max| max != 0);
        Share {
            size: set.replicas,
            // A user may have removed the annotation. The current size replaces it.
            max_total_before: annotated.unwrap_or(self.owner.status.replicas),
        }
    }

    /// `IsSaturated`: by its size and its annotation, the ReplicaSet has all desired pods, and they are available.
    fn is_saturated(&self, new: &WorkingCopy) -> bool {
        let wanted = self.limits.replicas;
        new.replicas == wanted
            && revision::desired_replicas_lenient(self.sets.annotations(new)) == Some(wanted)
            && self.available(new) == wanted
    }
}

/// `FindActiveOrLatest`: the only active ReplicaSet or, with none active, the new one or else the latest.
fn active_or_latest(found: &Found) -> Option<WorkingCopy> {
    let mut active = found.all().filter(|set| set.replicas > 0);
    match (active.next(), active.next()) {
        (Some(only), None) => Some(only.clone()),
        (Some(_), Some(_)) => None,
        (None, _) => found.new.as_ref().or(found.old.first()).cloned(),
    }
}
