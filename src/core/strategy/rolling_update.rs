//! Rolling update: scales the new ReplicaSet up as far as the surge allows, and then the old ones down as far as the
//! availability allows. Each pass does one of the two.
//!
//! Kubernetes source: `pkg/controller/deployment/rolling.go`.

use super::{Arithmetic, Next, Role, RolloutStrategy, Scale, SetView, View};
use crate::scaling::ScaleReason;
use crate::size::{IntOrPercent, Limits, clamp};

pub(super) struct RollingUpdate {
    pub(super) max_surge: IntOrPercent,
    pub(super) max_unavailable: IntOrPercent,
}

impl RolloutStrategy for RollingUpdate {
    fn limits(&self, replicas: i32) -> Limits {
        Limits::rolling(replicas, self.max_surge, self.max_unavailable)
    }

    fn initial_size(&self, limits: Limits, total: i64) -> i32 {
        limits.new_set_size(0, total)
    }

    /// `rolloutRolling`.
    fn next(&self, view: &View<'_>) -> Next {
        let Some(new) = view.new else {
            return Next::Create;
        };
        let size = new_size(view, new);
        if size == new.replicas {
            return scale_old(view, new);
        }
        let up = Scale {
            set: Role::New,
            to: size,
            reason: if size > new.replicas {
                ScaleReason::RoomForNewPods
            } else {
                ScaleReason::ReplicasChanged
            },
            may_fail: false,
        };
        Next::Scale(vec![up])
    }

    fn min_available(&self, limits: Limits) -> Option<i32> {
        Some(limits.min_available())
    }

    fn awaits_old_pods(&self) -> bool {
        false
    }

    fn scales_proportionally(&self) -> bool {
        true
    }

    fn explain(&self, limits: Limits) -> Arithmetic {
        let wanted = limits.replicas;
        let allowed = self.max_unavailable.rounded_down(wanted);
        let unavailable = match limits.max_unavailable {
            1 if allowed == 0 => "1 (both limits resolve to 0)".to_owned(),
            all if all < allowed => format!("{all} (maxUnavailable allows {allowed})"),
            _ => term(self.max_unavailable, "down"),
        };
        let (max, min) = (limits.max_total(), limits.min_available());
        Arithmetic {
            max_total: format!("{wanted} + {} = {max}", term(self.max_surge, "up")),
            min_available: format!("{wanted} − {unavailable} = {min}"),
            surge: self.surge(limits),
            unavailable: self.unavailable(limits),
        }
    }
}

/// `reconcileNewReplicaSet`.
fn new_size(view: &View<'_>, new: SetView) -> i32 {
    let limits = view.limits;
    let size = if new.replicas > limits.replicas {
        limits.replicas
    } else {
        limits.new_set_size(new.replicas, view.total())
    };
    view.caps.new_size(new.replicas, size)
}

/// `reconcileOldReplicaSets`. A failure ends the scale-down, but not the pass.
fn scale_old(view: &View<'_>, new: SetView) -> Next {
    let unavailable = i64::from(new.replicas) - i64::from(new.available);
    let mut old: Vec<(usize, SetView)> = view.active().collect();
    let room = view.limits.max_scaled_down(view.total(), unavailable);
    let room = room.min(removable(view, &old, new));
    let mut sizes = Vec::new();
    if room > 0 {
        if remove_unhealthy(&mut old, room, &mut sizes).is_none() {
            return Next::ScaleBlindly(sizes);
        }
        remove_healthy(view, &old, new, &mut sizes);
    }
    Next::Scale(sizes)
}

/// `cleanupUnhealthyReplicas`: pods that are not available are removed first, because they would block the rollout that
/// fixes them. The ReplicaSet controller deletes such pods before others.
fn remove_unhealthy(old: &mut [(usize, SetView)], room: i64, sizes: &mut Vec<Scale>) -> Option<()> {
    let mut removed = 0;
    for (index, set) in old {
        if removed >= room {
            break;
        }
        let unhealthy = i64::from(set.replicas) - i64::from(set.available);
        if unhealthy == 0 {
            continue;
        }
        if unhealthy < 0 {
            // The status is older than the size. The function of Kubernetes fails here, and its caller drops the error.
            return None;
        }
        let count = unhealthy.min(room - removed);
        set.replicas = clamp(i64::from(set.replicas) - count);
        sizes.push(down(*index, set.replicas, ScaleReason::UnhealthyPods));
        removed += count;
    }
    Some(())
}

/// `scaleDownOldReplicaSetsForRollingUpdate`: removes the pods that are available beyond the minimum, beginning with the
/// oldest ReplicaSet.
fn remove_healthy(view: &View<'_>, old: &[(usize, SetView)], new: SetView, sizes: &mut Vec<Scale>) {
    let all = old.iter().map(|(_, set)| set).chain([&new]);
    let available: i64 = all.map(|set| i64::from(set.available)).sum();
    let spare = available - i64::from(view.limits.min_available());
    let spare = spare.min(removable(view, old, new));
    let mut removed = 0;
    for (index, set) in old {
        if removed >= spare {
            break;
        }
        if set.replicas == 0 {
            continue;
        }
        let count = i64::from(set.replicas).min(spare - removed);
        let to = clamp(i64::from(set.replicas) - count);
        sizes.push(down(*index, to, ScaleReason::SparePods));
        removed += count;
    }
}

/// The number of old pods that the caps allow to be removed.
fn removable(view: &View<'_>, old: &[(usize, SetView)], new: SetView) -> i64 {
    let sizes = old.iter().map(|(_, set)| i64::from(set.replicas));
    view.caps.removable(view.limits, new.replicas, sizes.sum())
}

fn down(index: usize, to: i32, reason: ScaleReason) -> Scale {
    Scale {
        set: Role::Old(index),
        to,
        reason,
        may_fail: true,
    }
}

// === impl RollingUpdate ===

impl RollingUpdate {
    /// How `max_total` results from maxSurge.
    fn surge(&self, limits: Limits) -> String {
        let (wanted, max) = (limits.replicas, limits.max_total());
        let surge = self.max_surge;
        let is_rounded = |percent| i64::from(percent) * i64::from(wanted) % 100 != 0;
        let rounded = if surge.percent().is_some_and(is_rounded) {
            " rounded up"
        } else {
            ""
        };
        format!("{wanted} + maxSurge {surge}{rounded} = {max}")
    }

    /// maxUnavailable as in the spec, or as the resolved number if the two differ.
    fn unavailable(&self, limits: Limits) -> String {
        let resolved = limits.max_unavailable;
        let unavailable = self.max_unavailable;
        if unavailable.rounded_down(limits.replicas) == resolved {
            unavailable.to_string()
        } else {
            resolved.to_string()
        }
    }
}

fn term(limit: IntOrPercent, direction: &str) -> String {
    match limit.percent() {
        None => limit.to_string(),
        Some(_) => format!("{limit} rounded {direction}"),
    }
}
