//! Tests of the crate through its public interface. They are one binary, because each binary is linked again after every
//! change.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that fails may panic"
)]

mod cli;
mod report;
mod request;
mod server;
mod structure;
mod wire;

use base64::prelude::{BASE64_STANDARD, Engine as _};

/// A JSON value in the encoding of a `bytes` field in protobuf JSON.
fn base64(value: &serde_json::Value) -> String {
    BASE64_STANDARD.encode(value.to_string())
}
