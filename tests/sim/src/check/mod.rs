//! What must hold, checked as it happens: of each plan (`plans`), of each write (`writes`, `bounds`), and of the
//! world when nothing moves any more (`rest`, `stuck`).

mod bounds;
mod plans;
mod rest;
mod stuck;
mod writes;

use std::fmt;

use rollplan_core::size::Limits;
use rollplan_core::snapshot::{Deployment, ReplicaSet, Strategy};

use crate::world::World;

/// Something that is not as it must be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The check that found it.
    pub check: &'static str,
    /// What it found.
    pub message: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.check, self.message)
    }
}

impl World {
    /// Notes the first violation.
    pub(crate) fn violate(&mut self, check: &'static str, message: String) {
        self.violation.get_or_insert(Violation { check, message });
    }
}

/// The limits that a Deployment's strategy sets.
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

/// Whether a ReplicaSet is a Deployment's, or would be once it is adopted.
fn is_ours(deployment: &Deployment, set: &ReplicaSet) -> bool {
    let controller = set.metadata.controller();
    controller.is_none_or(|owner| owner.uid == deployment.metadata.uid)
        && deployment.spec.selector.matches(&set.metadata.labels)
}

/// Whether a ReplicaSet is a Deployment's.
fn is_owned(deployment: &Deployment, set: &ReplicaSet) -> bool {
    set.metadata.controller().is_some() && is_ours(deployment, set)
}
