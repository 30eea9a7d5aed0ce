//! The planner of rollplan: computes the next writes for a Deployment from a snapshot.
//!
//! It is a total function: no I/O, no clock, no panic, and the same snapshot always gives the same plan. It makes the
//! decisions of the Deployment controller of Kubernetes v1.37. `docs/contributors/architecture.md` has the map and the
//! invariants, `docs/contributors/parity.md` the few deliberate differences.
//!
//! One subject a file, read in this order: [snapshot] is the observed state, [template] decides when two pod templates are
//! equal, [revision] numbers them, and [size] is the arithmetic and nothing else. [strategy] says how old pods are replaced.
//! [pass] is one sync of the upstream controller: what it works on (`owner`, `sets`, `writes`), and what it does (`claims`,
//! `find`, `create`, `rollout`, `scale`, `cleanup`, `publish`). [status] has the conditions and the deadline. [action] is a
//! part of a plan, and its effect on the world. `settle` repeats passes on a predicted world, and [sync] leads the loop of an
//! adapter. [lint] checks every settled plan independently.
//!
//! ```
//! use rollplan_core::plan_settled;
//! use rollplan_core::snapshot::Options;
//! use rollplan_core::template::Template;
//! use rollplan_world::{mk_deployment, mk_set, mk_snapshot, mk_template};
//!
//! // Three pods run the image v1, and the Deployment now has the image v2.
//! let mut deployment = mk_deployment(3);
//! let old = mk_set(&deployment, "v1", 1, 3);
//! deployment.spec.template = Template::from(mk_template("v2"));
//! let plan = plan_settled(&mk_snapshot(deployment, vec![old]), Options::default());
//! assert!(plan.steps[0].summary().starts_with("create ReplicaSet web-"));
//! ```

pub mod action;
pub mod autoscaler;
mod call;
pub mod caps;
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
