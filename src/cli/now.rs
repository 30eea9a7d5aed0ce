//! The time of a decision. No other code of the command line reads the wall clock.

use std::time::SystemTime;

use prost_types::Timestamp;

/// The current time.
pub(super) fn read() -> Timestamp {
    Timestamp::from(SystemTime::now())
}
