//! Tests of the planner, by subject. `rollplan_world` has the builders that they share.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that fails may panic"
)]

mod absurd;
mod action;
mod argo;
mod caps;
mod controller_revisions;
mod create;
mod exhaustive;
mod lint;
mod references;
mod requirements;
mod revision;
mod rollout;
mod scaling;
mod scenarios;
mod size;
mod status;
mod undo;
