//! The planner of rollplan: computes the next writes for a Deployment from a snapshot.
//!
//! It is a total function: no I/O, no clock, no panic, and the same snapshot always gives the same plan. It makes the
//! decisions of the Deployment controller of Kubernetes v1.37. `docs/contributors/architecture.md` has the map and the
//! invariants, `docs/contributors/parity.md` the few deliberate differences.

pub mod action;
pub mod autoscaler;
mod call;
pub mod controller_revision;
mod history;
pub mod interrupt;
pub mod kind;
pub mod lint;
mod object;
pub mod pass;
mod plan;
pub mod reference;
pub mod requirement;
pub mod revision;
mod rollback;
pub mod scaling;
pub mod selector;
mod settle;
pub mod size;
pub mod snapshot;
pub mod status;
pub mod strategy;
pub mod sync;
pub mod template;
pub mod time;

pub use history::{Revision, list_revisions, list_revisions_until};
pub use plan::{Plan, compute_status, compute_status_until, plan_pass, plan_pass_until};
pub use rollback::{
    Rollback, RollbackError, Subject, last_available_revision, most_available,
    previous_was_never_available, rollback, rollback_until,
};
pub use settle::{plan_settled, plan_settled_unclamped, plan_settled_until};
