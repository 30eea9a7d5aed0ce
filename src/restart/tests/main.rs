//! Tests of the restart planner on a small simulated cluster.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that fails may panic"
)]

mod checksums;
mod decisions;
mod differences;
mod first;
mod guards;
mod reloader;
mod starts;
mod world;
mod xing;
