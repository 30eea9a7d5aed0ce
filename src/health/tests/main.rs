//! Tests of diagnoses, reports and verdicts, by subject.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that fails may panic"
)]

mod diagnosis;
mod report;
mod surroundings;
mod verdict;
