//! Whether a rollout or another object is healthy, and if not, why.
//!
//! A [diagnosis] shows the problems of a rollout, from a snapshot alone. A [report] adds the status and the steps of a plan,
//! and the [verdict](report::verdict::Verdict): whether the rollout completes by itself. [Other kinds](kinds) are judged by
//! the status that their controllers publish. Like the planner, these are total functions: no I/O, no clock, no panic.

pub mod diagnosis;
pub mod kinds;
mod messages;
pub mod report;
