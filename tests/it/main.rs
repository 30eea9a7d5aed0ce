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
mod structure;
mod wire;

use base64::prelude::{BASE64_STANDARD, Engine as _};

/// A JSON value as protobuf JSON has it in a `bytes` field.
fn base64(value: &serde_json::Value) -> String {
    BASE64_STANDARD.encode(value.to_string())
}
