//! Worlds that must pass all checks, and deliberate bugs that each check must detect.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that fails may panic"
)]

mod canary;
mod checks;
mod restarts;
