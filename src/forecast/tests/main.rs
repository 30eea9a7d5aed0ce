//! Tests of forecasts.

#![expect(clippy::unwrap_used, reason = "a test fails at the first surprise")]

mod rollouts;
mod world;
