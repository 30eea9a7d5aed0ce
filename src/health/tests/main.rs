//! Tests of observations, reports and verdicts, by subject.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that fails may panic"
)]

mod observe;
mod report;
mod surroundings;
mod verdict;
