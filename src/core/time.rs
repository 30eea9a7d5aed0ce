//! Points in time and durations of the Kubernetes API. Nothing here reads a clock.

use std::fmt;

use jiff::SignedDuration;
use jiff::civil::{DateTime, datetime};

const NANOS_PER_SECOND: i128 = 1_000_000_000;

/// The origin of [`Time`], in UTC.
const EPOCH: DateTime = datetime(1970, 1, 1, 0, 0, 0, 0);

/// A point in time, in seconds and nanoseconds since 1970-01-01T00:00:00Z.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time {
    seconds: i64,
    nanos: u32,
}

impl Time {
    /// The earliest second of year 1, the earliest that protobuf's Timestamp can carry.
    pub const MIN: Self = Self {
        seconds: -62_135_596_800,
        nanos: 0,
    };
    /// The latest second of year 9999, the latest that protobuf's Timestamp can carry.
    pub const MAX: Self = Self {
        seconds: 253_402_300_799,
        nanos: 999_999_999,
    };

    /// The time `seconds` and `nanos` after the epoch. `None` outside the years 1 to 9999, or if `nanos` is a full
    /// second or more.
    #[must_use]
    pub fn new(seconds: i64, nanos: u32) -> Option<Self> {
        let time = Self { seconds, nanos };
        (i128::from(nanos) < NANOS_PER_SECOND && (Self::MIN..=Self::MAX).contains(&time))
            .then_some(time)
    }

    /// The time for a date and time in UTC. `None` outside the years 1 to 9999.
    pub(crate) fn from_civil(civil: DateTime) -> Option<Self> {
        let nanos = civil.subsec_nanosecond();
        let whole = civil
            .checked_sub(SignedDuration::from_nanos(nanos.into()))
            .ok()?;
        Self::new(whole.duration_since(EPOCH).as_secs(), nanos.unsigned_abs())
    }

    /// Whole seconds since the epoch, rounded down.
    #[must_use]
    pub fn seconds(self) -> i64 {
        self.seconds
    }

    /// Nanoseconds within the second.
    #[must_use]
    pub fn nanos(self) -> u32 {
        self.nanos
    }

    /// The time without its fraction of a second, as Kubernetes stores it.
    #[must_use]
    pub fn whole_seconds(self) -> Self {
        Self {
            seconds: self.seconds,
            nanos: 0,
        }
    }

    /// The span from `earlier` to this time. Zero if `earlier` is later, because clocks differ.
    #[must_use]
    pub fn since(self, earlier: Self) -> Span {
        Span::from_nanos(self.total_nanos() - earlier.total_nanos())
    }

    /// The time `seconds` later, clamped to the years 1 to 9999.
    #[must_use]
    pub fn plus_seconds(self, seconds: i64) -> Self {
        Self {
            seconds: self.seconds.saturating_add(seconds),
            nanos: self.nanos,
        }
        .clamp(Self::MIN, Self::MAX)
    }

    fn total_nanos(self) -> i128 {
        i128::from(self.seconds) * NANOS_PER_SECOND + i128::from(self.nanos)
    }
}

/// RFC 3339 in UTC. Like the Kubernetes API, it omits a fraction of zero.
impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // This cannot fail: every time is within the years of the calendar.
        let Ok(civil) = EPOCH.checked_add(SignedDuration::new(self.seconds, 0)) else {
            return Err(fmt::Error);
        };
        match self.nanos {
            0 => write!(f, "{civil}Z"),
            nanos => write!(f, "{civil}.{nanos:09}Z"),
        }
    }
}

/// A non-negative span of time, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span {
    nanos: i128,
}

impl Span {
    /// A span of whole seconds; zero for a negative count.
    #[must_use]
    pub fn from_seconds(seconds: i64) -> Self {
        Self::from_nanos(i128::from(seconds) * NANOS_PER_SECOND)
    }

    fn from_nanos(nanos: i128) -> Self {
        Self {
            nanos: nanos.max(0),
        }
    }

    /// Whole seconds of the span.
    #[must_use]
    pub fn seconds(self) -> i64 {
        i64::try_from(self.nanos / NANOS_PER_SECOND).unwrap_or(i64::MAX)
    }

    /// Nanoseconds beyond the whole seconds.
    #[must_use]
    pub fn subsec_nanos(self) -> i32 {
        i32::try_from(self.nanos % NANOS_PER_SECOND).unwrap_or(0)
    }

    /// The span with `seconds` added.
    #[must_use]
    pub fn plus_seconds(self, seconds: i64) -> Self {
        Self::from_nanos(self.nanos + i128::from(seconds) * NANOS_PER_SECOND)
    }
}

/// The two largest units, like the ages that `kubectl` prints: for example "4m10s".
impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.seconds();
        let (days, hours, minutes) = (seconds / 86_400, seconds / 3600, seconds / 60);
        let (large, small) = match () {
            () if days > 0 => ((days, "d"), (hours % 24, "h")),
            () if hours > 0 => ((hours, "h"), (minutes % 60, "m")),
            () if minutes > 0 => ((minutes, "m"), (seconds % 60, "s")),
            () => ((seconds, "s"), (0, "")),
        };
        write!(f, "{}{}", large.0, large.1)?;
        match small {
            (0, _) => Ok(()),
            (count, unit) => write!(f, "{count}{unit}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_print_as_rfc_3339() {
        for (seconds, nanos, text) in [
            (0, 0, "1970-01-01T00:00:00Z"),
            (951_827_696, 0, "2000-02-29T12:34:56Z"),
            (4_107_542_399, 0, "2100-02-28T23:59:59Z"),
            (4_107_542_400, 0, "2100-03-01T00:00:00Z"),
            (-1, 5, "1969-12-31T23:59:59.000000005Z"),
            (Time::MIN.seconds(), 0, "0001-01-01T00:00:00Z"),
            (Time::MAX.seconds(), 0, "9999-12-31T23:59:59Z"),
        ] {
            let time = Time::new(seconds, nanos).unwrap();
            assert_eq!(time.to_string(), text);
            assert_eq!((time.seconds(), time.nanos()), (seconds, nanos));
        }
    }

    #[test]
    fn times_outside_the_years_1_to_9999_are_rejected() {
        assert_eq!(Time::new(Time::MIN.seconds() - 1, 0), None);
        assert_eq!(Time::new(Time::MAX.seconds() + 1, 0), None);
        assert_eq!(Time::new(0, 1_000_000_000), None);
        assert!(Time::new(Time::MAX.seconds(), 999_999_999).is_some());
    }

    #[test]
    fn spans_are_never_negative_and_times_stay_in_range() {
        let (early, late) = (Time::new(10, 0).unwrap(), Time::new(12, 500).unwrap());
        assert_eq!(early.since(late), Span::default());
        assert_eq!(
            (
                late.since(early).seconds(),
                late.since(early).subsec_nanos()
            ),
            (2, 500)
        );
        assert_eq!(Time::MAX.plus_seconds(i64::MAX), Time::MAX);
        assert_eq!(Time::MIN.plus_seconds(i64::MIN), Time::MIN);
        assert_eq!(late.plus_seconds(3), Time::new(15, 500).unwrap());
        assert_eq!(late.whole_seconds(), Time::new(12, 0).unwrap());
        assert_eq!(Span::from_seconds(3).plus_seconds(-5), Span::default());
        assert_eq!(Span::from_seconds(-3), Span::default());
        assert_eq!(Span::from_seconds(3).plus_seconds(1).seconds(), 4);
    }

    #[test]
    fn spans_print_as_ages() {
        for (seconds, text) in [
            (0, "0s"),
            (59, "59s"),
            (250, "4m10s"),
            (600, "10m"),
            (7_260, "2h1m"),
            (176_400, "2d1h"),
        ] {
            assert_eq!(Span::from_seconds(seconds).to_string(), text);
        }
    }
}
