//! What the crate does as a whole, through its public interface. One binary, because every further one would be
//! linked at every change.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that fails may panic"
)]

mod cli;
mod report;
mod server;
mod wire;
