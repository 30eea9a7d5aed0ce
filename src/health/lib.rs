//! Whether a rollout or another object is healthy, and if not, why.
//!
//! This takes three steps: [observe] what a snapshot shows, [explain] why pods are not available, and [judge]
//! whether the rollout completes by itself. A [report] has the results, with the status and the steps of a plan. [Other
//! kinds](kinds) are judged by the status that their controllers publish. Like the planner, these are total functions: no
//! I/O, no clock, no panic.
//!
//! ```
//! use rollplan_core::plan_settled;
//! use rollplan_core::snapshot::Options;
//! use rollplan_health::judge::{Outlook, VerdictOptions};
//! use rollplan_health::observe::observe;
//! use rollplan_health::report::{Phase, report};
//! use rollplan_world::{mk_deployment, mk_set, mk_snapshot, settle};
//!
//! let deployment = mk_deployment(3);
//! let set = mk_set(&deployment, "v1", 1, 3);
//! let mut snapshot = mk_snapshot(deployment, vec![set]);
//! settle(&mut snapshot);
//!
//! let options = Options::default();
//! let plan = plan_settled(&snapshot, options);
//! let observed = observe(&snapshot, VerdictOptions::default());
//! let report = report(&observed, options, &plan.status, &plan.steps);
//! assert_eq!(report.phase, Phase::Complete);
//! assert_eq!(report.verdict.outlook, Outlook::Complete);
//! ```

pub mod explain;
pub mod judge;
pub mod kinds;
mod messages;
pub mod observe;
pub mod report;
mod text;
