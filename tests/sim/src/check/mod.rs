//! Checks each plan (`plans`), each write (`writes`, `bounds`), and the state of the world when nothing changes anymore
//! (`rest`, `native`, `stuck`, `verdict`).

mod bounds;
mod native;
mod plans;
mod rest;
mod stuck;
mod verdict;
mod writes;

pub(crate) use bounds::is_scaled;
pub(crate) use native::Native;

use std::fmt;

use rollplan_core::size::Limits;
use rollplan_core::snapshot::{Deployment, ReplicaSet, Strategy};

use crate::world::World;

/// A failed check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The name of the check.
    pub check: &'static str,
    /// What the check found.
    pub message: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.check, self.message)
    }
}

impl World {
    /// Records a violation. Only the first one is kept.
    pub(crate) fn violate(&mut self, check: &'static str, message: String) {
        self.violation.get_or_insert(Violation { check, message });
    }
}

/// The limits of a Deployment's strategy.
fn limits(deployment: &Deployment) -> Limits {
    let replicas = deployment.spec.replicas;
    match deployment.spec.strategy {
        Strategy::RollingUpdate {
            max_surge,
            max_unavailable,
        } => Limits::rolling(replicas, max_surge, max_unavailable),
        Strategy::Recreate => Limits::recreate(replicas),
    }
}

/// Whether a ReplicaSet belongs to a Deployment, or would belong to it after an adoption.
fn is_ours(deployment: &Deployment, set: &ReplicaSet) -> bool {
    let controller = set.metadata.controller();
    controller.is_none_or(|owner| owner.uid == deployment.metadata.uid)
        && deployment.spec.selector.matches(&set.metadata.labels)
}

/// Whether a Deployment owns a ReplicaSet.
fn is_owned(deployment: &Deployment, set: &ReplicaSet) -> bool {
    set.metadata.controller().is_some() && is_ours(deployment, set)
}
