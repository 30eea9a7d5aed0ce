//! The time of a world, in seconds since it began.

use rollplan_core::time::Time;

/// 2026-01-15T12:00:00Z.
const BEGIN_SECONDS: i64 = 1_768_478_400;

/// The time so many seconds after the world began.
pub(crate) fn at(seconds: i64) -> Time {
    Time::MIN.plus_seconds(BEGIN_SECONDS - Time::MIN.seconds() + seconds)
}
