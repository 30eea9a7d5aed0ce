//! What the benchmarks share: requests, a codec that copies bytes, and the usual way to read objects.

#![allow(
    clippy::unwrap_used,
    reason = "a benchmark that cannot start may panic"
)]

pub mod bytes_codec;
pub mod derive;
pub mod request;
pub mod shapes;
