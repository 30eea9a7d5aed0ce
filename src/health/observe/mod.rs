//! The first step: what a snapshot shows about a rollout and its pods.
//!
//! A policy can use [`observe()`] to hold a rollout or to roll it back, because it needs no plan. A
//! [report](crate::report) adds the status and the steps of a plan.
//!
//! ```
//! use rollplan_core::snapshot::{Options, Snapshot};
//! use rollplan_core::{Plan, plan_settled};
//! use rollplan_health::judge::{Certainty, VerdictOptions};
//! use rollplan_health::observe::observe;
//!
//! /// Holds a rollout as soon as a failure of its new pods is certain.
//! fn plan(mut snapshot: Snapshot, options: Options) -> Plan {
//!     let failure = observe(&snapshot, VerdictOptions::default()).failure();
//!     if failure.is_some_and(|failure| failure.certainty == Certainty::Certain) {
//!         snapshot.deployment.spec.paused = true;
//!     }
//!     plan_settled(&snapshot, options)
//! }
//! ```

pub(crate) mod context;
pub(crate) mod peers;
pub(crate) mod pod;
mod rollout;

pub use self::pod::is_creating;
pub use self::rollout::{ObservedRollout, observe, observe_until};
