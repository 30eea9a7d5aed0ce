//! Tests of forecasts.

#![expect(clippy::unwrap_used, reason = "a test fails at the first surprise")]

mod bounds;
mod changes;
mod clusters;
mod coverage;
mod rollouts;
mod times;
mod world;
