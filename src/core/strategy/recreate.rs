//! Recreate: all old pods terminate before the first new pod is created.
//!
//! Kubernetes source: `pkg/controller/deployment/recreate.go`.

use super::{Arithmetic, Next, Role, RolloutStrategy, Scale, View};
use crate::scaling::ScaleReason;
use crate::size::Limits;

pub(super) struct Recreate;

impl RolloutStrategy for Recreate {
    fn limits(&self, replicas: i32) -> Limits {
        Limits::recreate(replicas)
    }

    fn initial_size(&self, limits: Limits, _: i64) -> i32 {
        limits.replicas
    }

    /// `rolloutRecreate`.
    fn next(&self, view: &View<'_>) -> Next {
        let to_zero = |(index, _)| Scale {
            set: Role::Old(index),
            to: 0,
            reason: ScaleReason::OldPodsFirst,
            may_fail: false,
        };
        let down: Vec<Scale> = view.active().map(to_zero).collect();
        if !down.is_empty() {
            if view.caps.permit_recreation() {
                Next::Scale(down)
            } else {
                // Removing pods that none may replace would only be an outage.
                Next::Wait
            }
        } else if (view.old_pods_may_run)() {
            Next::Wait
        } else if view.new.is_none() {
            Next::Create
        } else {
            let size = view.new.map_or(0, |new| new.replicas);
            Next::Finish(view.caps.new_size(size, view.limits.replicas))
        }
    }

    fn min_available(&self, _: Limits) -> Option<i32> {
        None
    }

    fn awaits_old_pods(&self) -> bool {
        true
    }

    fn scales_proportionally(&self) -> bool {
        false
    }

    fn explain(&self, limits: Limits) -> Arithmetic {
        let wanted = limits.replicas;
        Arithmetic {
            max_total: format!("{wanted}, Recreate does not use maxSurge"),
            min_available: "0, Recreate deletes all old pods before it creates new ones".to_owned(),
            surge: format!("{wanted} + maxSurge 0 = {wanted}"),
            unavailable: limits.max_unavailable.to_string(),
        }
    }
}
