//! Scaling in the middle of a rollout, or while paused: every active ReplicaSet keeps its share, so that
//! scaling does not hasten the rollout of a template that may be bad.
//!
//! Kubernetes source: `scale` in `pkg/controller/deployment/sync.go`.

use std::cmp::Reverse;

use super::{Found, Pass, Rules, SyncResult, WorkingCopy};
use crate::action::OnFailure;
use crate::revision;
use crate::scaling::ScaleReason;
use crate::size::{self, Share};

impl Pass<'_> {
    /// `scale`. Leaves the old ReplicaSets newest first, and clean-up goes on in that order.
    pub(super) fn scale_all(&mut self, found: &mut Found) -> SyncResult<()> {
        found.old.reverse();
        let wanted = self.limits.replicas;
        if let Some(set) = active_or_latest(found) {
            let force = self.is_wedged(&set);
            self.scale_set(
                &set,
                wanted,
                force,
                ScaleReason::ReplicasChanged,
                OnFailure::Stop,
            )?;
            return Ok(());
        }
        if found.new.as_ref().is_some_and(|new| self.is_saturated(new)) {
            for set in found.old.iter().filter(|set| set.replicas > 0) {
                self.scale_set(set, 0, false, ScaleReason::Saturated, OnFailure::Stop)?;
            }
            return Ok(());
        }
        if self.strategy.scales_proportionally() {
            self.scale_proportionally(found)
        } else {
            self.refresh_wedged(found)
        }
    }

    fn refresh_wedged(&mut self, found: &Found) -> SyncResult<()> {
        for set in found.all() {
            if self.is_wedged(set) {
                // Its annotations alone.
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

    /// Whether Kubernetes would see a scaling event in a ReplicaSet indefinitely: its `desired-replicas` is stale,
    /// and Kubernetes writes that annotation only along with another size. It becomes stale after a crash between
    /// two scaling writes, and when an edit makes several active ReplicaSets Recreate's. While the Deployment is
    /// paused, nothing waits for the event to pass: the annotation is refreshed once the rollout resumes.
    fn is_wedged(&self, set: &WorkingCopy) -> bool {
        let wanted = self.limits.replicas;
        self.rules == Rules::LookAhead
            && !self.owner.deployment.spec.paused
            && revision::is_scaled_for_another(self.annotations(set), set.replicas, wanted)
    }

    fn scale_proportionally(&mut self, found: &Found) -> SyncResult<()> {
        let mut active: Vec<&WorkingCopy> = found.all().filter(|set| set.replicas > 0).collect();
        let total = self.total(active.iter().copied());
        let allowed = self.limits.scaled_total();
        // `look_up` order is by age, so the index stands for it.
        if total < allowed {
            active.sort_by_key(|set| (Reverse(set.replicas), Reverse(set.index)));
        } else if total > allowed {
            active.sort_by_key(|set| (Reverse(set.replicas), set.index));
        }
        let mut shares: Vec<Share> = active.iter().map(|set| self.share(set)).collect();
        if self.rules == Rules::LookAhead && total > allowed {
            // Somebody has resized a ReplicaSet whose annotation tells of a smaller whole: Kubernetes would let it
            // grow, beyond all bounds, while the whole is to shrink.
            for share in &mut shares {
                share.max_total_before = share.max_total_before.max(size::clamp(allowed));
            }
        }
        let sizes = size::proportional(self.limits, &shares);
        let mut scaled: Vec<(&WorkingCopy, i32)> = active.into_iter().zip(sizes).collect();
        if self.rules == Rules::LookAhead {
            // Growth counts on the room that the others make: where one of these was refused, nothing grows.
            scaled.sort_by_key(|(set, size)| *size > set.replicas);
        }
        for (set, size) in scaled {
            self.scale_set(set, size, true, ScaleReason::Proportional, OnFailure::Stop)?;
        }
        Ok(())
    }

    fn share(&self, set: &WorkingCopy) -> Share {
        let annotated = revision::max_replicas(self.annotations(set)).filter(|&max| max != 0);
        Share {
            size: set.replicas,
            // Somebody may have removed the annotation: the present size stands in for it.
            max_total_before: annotated.unwrap_or(self.owner.status.replicas),
        }
    }

    /// `IsSaturated`: both the Deployment and the ReplicaSet hold that it can carry all wanted pods, and they
    /// are available.
    fn is_saturated(&self, new: &WorkingCopy) -> bool {
        let wanted = self.limits.replicas;
        new.replicas == wanted
            && revision::desired_replicas_lenient(self.annotations(new)) == Some(wanted)
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
