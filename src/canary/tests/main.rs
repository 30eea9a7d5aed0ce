//! Tests of canaries.

#![expect(
    clippy::unwrap_used,
    reason = "a test that unwraps fails where it should"
)]

mod abort;
mod decision;
mod documentation;
mod interference;
mod pipelines;
#[path = "../../../tests/sim/src/pods.rs"]
#[allow(
    dead_code,
    unreachable_pub,
    reason = "the simulation uses the rest, from outside its crate"
)]
mod pods;
mod refusals;
mod rollback;
mod steps;
mod world;
