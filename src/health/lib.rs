//! Whether a rollout or another object is healthy, and if not, why.
//!
//! This takes three steps: [observe] what a snapshot shows, [explain] why pods are not available, and [judge]
//! whether the rollout completes by itself. A [report] has the results, with the status and the steps of a plan. [Other
//! kinds](kinds) are judged by the status that their controllers publish. Like the planner, these are total functions: no
//! I/O, no clock, no panic.

pub mod explain;
pub mod judge;
pub mod kinds;
mod messages;
pub mod observe;
pub mod report;
mod text;
