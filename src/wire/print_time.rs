//! Converts times and durations to messages.

use rollplan_core::time::{Span, Time};

/// Converts a time.
#[must_use]
pub fn timestamp(time: Time) -> prost_types::Timestamp {
    prost_types::Timestamp {
        seconds: time.seconds(),
        // Below a billion, so the sign does not change.
        nanos: time.nanos().cast_signed(),
    }
}

pub(super) fn duration(span: Span) -> prost_types::Duration {
    prost_types::Duration {
        seconds: span.seconds(),
        nanos: span.subsec_nanos(),
    }
}
