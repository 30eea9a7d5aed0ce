//! Rolling update: scale the new ReplicaSet up as far as the surge allows, then the old ones down as far as
//! availability allows, one of the two in each pass.
//!
//! Kubernetes source: `pkg/controller/deployment/rolling.go`.

use super::{Found, Pass, RolloutStrategy, SyncResult, WorkingCopy};
use crate::action::OnFailure;
use crate::size::clamp;
use crate::status;

pub(super) struct RollingUpdate;

impl RolloutStrategy for RollingUpdate {
    /// `rolloutRolling`.
    fn rollout(&self, pass: &mut Pass<'_>) -> SyncResult<()> {
        let found = pass.find_and_sync_revision(true)?;
        if pass.scale_new(&found)? || pass.scale_old(&found) {
            return pass.sync_rollout_status(&found);
        }
        if status::is_complete(pass.owner.deployment, &pass.owner.status) {
            pass.clean_up(&found.old)?;
        }
        pass.sync_rollout_status(&found)
    }
}

impl Pass<'_> {
    /// `reconcileNewReplicaSet`.
    fn scale_new(&mut self, found: &Found) -> SyncResult<bool> {
        let Some(new) = &found.new else {
            return Ok(false);
        };
        let wanted = self.limits.replicas;
        let size = if new.replicas > wanted {
            wanted
        } else {
            self.limits
                .new_set_size(new.replicas, self.total(found.all()))
        };
        let (scaled, _) = self.scale_set(new, size, false, OnFailure::Stop)?;
        Ok(scaled)
    }

    /// `reconcileOldReplicaSets`. An error ends the scaling down, not the pass, and then nothing counts as
    /// scaled, although some may be.
    fn scale_old(&mut self, found: &Found) -> bool {
        let Some(new) = &found.new else {
            return false;
        };
        let mut active: Vec<WorkingCopy> = found
            .old
            .iter()
            .filter(|set| set.replicas > 0)
            .cloned()
            .collect();
        let new_unavailable = i64::from(new.replicas) - i64::from(self.available(new));
        let room = self
            .limits
            .max_scaled_down(self.total(found.all()), new_unavailable);
        if active.is_empty() || room <= 0 {
            return false;
        }
        let Ok(unhealthy) = self.clean_up_unhealthy(&mut active, room) else {
            return false;
        };
        let Ok(healthy) = self.scale_down_healthy(&active, new) else {
            return false;
        };
        unhealthy + healthy > 0
    }

    /// `cleanupUnhealthyReplicas`: pods that are not available go first, or they would block the rollout that
    /// fixes them. The ReplicaSet controller deletes such pods before others. Returns how many.
    fn clean_up_unhealthy(&mut self, old: &mut [WorkingCopy], room: i64) -> Result<i64, ()> {
        let mut removed = 0;
        for set in old {
            if removed >= room {
                break;
            }
            let available = self.available(set);
            if set.replicas == available {
                continue;
            }
            let unhealthy = i64::from(set.replicas) - i64::from(available);
            if unhealthy < 0 {
                // The status is older than the size. Kubernetes gives up for this pass.
                return Err(());
            }
            let count = unhealthy.min(room - removed);
            let size = clamp(i64::from(set.replicas) - count);
            let scaled = self.scale_set(set, size, false, OnFailure::Continue);
            *set = scaled.map_err(|_| ())?.1;
            removed += count;
        }
        Ok(removed)
    }

    /// `scaleDownOldReplicaSetsForRollingUpdate`: takes away what is available beyond the minimum, from the
    /// oldest ReplicaSet on. Returns how many.
    fn scale_down_healthy(&mut self, old: &[WorkingCopy], new: &WorkingCopy) -> Result<i64, ()> {
        let available: i64 = old
            .iter()
            .chain([new])
            .map(|set| i64::from(self.available(set)))
            .sum();
        let spare = available - i64::from(self.limits.min_available());
        let mut removed = 0;
        for set in old {
            if removed >= spare {
                break;
            }
            if set.replicas == 0 {
                continue;
            }
            let count = i64::from(set.replicas).min(spare - removed);
            let size = clamp(i64::from(set.replicas) - count);
            self.scale_set(set, size, false, OnFailure::Continue)
                .map_err(|_| ())?;
            removed += count;
        }
        Ok(removed)
    }
}
