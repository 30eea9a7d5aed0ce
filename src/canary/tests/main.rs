//! Tests of canaries.

#![expect(
    clippy::unwrap_used,
    reason = "a test that unwraps fails where it should"
)]

mod abort;
mod decision;
mod interference;
mod pipelines;
mod refusals;
mod rollback;
mod world;
