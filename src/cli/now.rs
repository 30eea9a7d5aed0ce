//! The time of a decision. The command line reads the clock here and nowhere else.

use std::time::SystemTime;

use prost_types::Timestamp;

/// The clock.
pub(super) fn read() -> Timestamp {
    Timestamp::from(SystemTime::now())
}
