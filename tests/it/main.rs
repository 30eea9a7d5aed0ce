//! Tests of the crate through its public interface. They are one binary, because each binary is linked again after every
//! change.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that fails may panic"
)]

mod cli;
mod recipes;
mod report;
mod request;
mod server;
mod structure;
mod wire;
