//! Converts the time of a simulation, in seconds since its start.

use rollplan_core::time::Time;

/// 2026-01-15T12:00:00Z.
const START_SECONDS: i64 = 1_768_478_400;

/// The time this many seconds after the start of the simulation.
#[must_use]
pub fn at(seconds: i64) -> Time {
    Time::MIN.plus_seconds(START_SECONDS - Time::MIN.seconds() + seconds)
}
