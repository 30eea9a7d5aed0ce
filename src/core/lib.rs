//! The planner of rollplan: from what a caller sees of a Deployment to the writes that it should make next.
//!
//! A total function: no I/O, no clock, no panic; the same snapshot gives the same plan. It decides as the
//! Deployment controller of Kubernetes v1.36 does. `docs/architecture.md` has the map and the invariants,
//! `docs/parity.md` the few deliberate differences.

pub mod action;
mod call;
mod history;
pub mod interrupt;
pub mod lint;
mod object;
pub mod pass;
mod plan;
pub mod revision;
mod rollback;
pub mod scaling;
pub mod selector;
mod settle;
pub mod size;
pub mod snapshot;
pub mod status;
pub mod strategy;
pub mod template;
pub mod time;

pub use history::{Revision, list_revisions, list_revisions_until};
pub use plan::{Plan, compute_status, compute_status_until, plan_pass, plan_pass_until};
pub use rollback::{Rollback, RollbackError, TemplateChange, rollback, rollback_until};
pub use settle::{plan_settled, plan_settled_unclamped, plan_settled_until};
