//! Points in time and durations of the Kubernetes API. Nothing here reads a clock.

use std::fmt;

const NANOS_PER_SECOND: i128 = 1_000_000_000;
const SECONDS_PER_DAY: i64 = 86_400;

/// The calendar repeats after this many days, which are 400 years.
const DAYS_PER_ERA: i64 = 146_097;
/// The days from 0000-03-01 to 1970-01-01. In the calculations, years begin in March, so that leap days are last.
const DAYS_TO_1970: i64 = 719_468;

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

    /// Parses RFC 3339 strictly, in the years 0 to 9999 of UTC. Like Go, it ignores digits below one nanosecond. Unlike Go,
    /// it rejects a comma before the fraction, and an hour with one digit.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (date, rest) = text.as_bytes().split_at_checked(10)?;
        let (clock, rest) = rest.strip_prefix(b"T")?.split_at_checked(5)?;
        let (second, rest) = rest.strip_prefix(b":")?.split_at_checked(2)?;
        let second = number(second).filter(|second| *second < 60)?;
        let (nanos, offset) = parse_fraction(rest)?;
        let offset = match offset.split_first()? {
            (b'Z', []) => 0,
            (b'+', clock) => parse_minutes(clock)?,
            (b'-', clock) => -parse_minutes(clock)?,
            _ => return None,
        };
        let minutes = parse_minutes(clock)? - offset;
        let seconds = parse_date(date)? * SECONDS_PER_DAY + minutes * 60 + second;
        let year_0 = Self::MIN.seconds - 366 * SECONDS_PER_DAY;
        (year_0..=Self::MAX.seconds)
            .contains(&seconds)
            .then_some(Self { seconds, nanos })
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
        let (year, month, day) = date(self.seconds.div_euclid(SECONDS_PER_DAY));
        let second = self.seconds.rem_euclid(SECONDS_PER_DAY);
        let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
        write!(
            f,
            "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}"
        )?;
        if self.nanos > 0 {
            let digits = format!("{:09}", self.nanos);
            write!(f, ".{}", digits.trim_end_matches('0'))?;
        }
        f.write_str("Z")
    }
}

/// Parses a time of RFC 3339 strictly, in the years 1 to 9999 of UTC.
#[must_use]
pub fn parse_time(text: &str) -> Option<Time> {
    Time::parse(text).filter(|time| *time >= Time::MIN)
}

/// Parses a number without a sign.
fn number(digits: &[u8]) -> Option<i64> {
    digits.iter().try_fold(0, |number, digit| {
        let value = i64::from(digit.wrapping_sub(b'0'));
        (value < 10).then_some(number * 10 + value)
    })
}

/// Parses a time of day or an offset, for example "12:30", in minutes.
fn parse_minutes(clock: &[u8]) -> Option<i64> {
    let [h1, h2, b':', m1, m2] = *clock else {
        return None;
    };
    let (hours, minutes) = (number(&[h1, h2])?, number(&[m1, m2])?);
    (hours < 24 && minutes < 60).then_some(hours * 60 + minutes)
}

/// Parses the fraction of a second, if there is one. Returns its nanoseconds and the rest of the text.
fn parse_fraction(text: &[u8]) -> Option<(u32, &[u8])> {
    let Some(rest) = text.strip_prefix(b".") else {
        return Some((0, text));
    };
    let count = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (digits, rest) = rest.split_at(count);
    let nine = digits.iter().chain(b"000000000").take(9);
    let nanos = nine.fold(0, |nanos, digit| nanos * 10 + u32::from(digit - b'0'));
    (count > 0).then_some((nanos, rest))
}

/// Parses a date, for example "2026-01-31", in days since 1970-01-01.
fn parse_date(text: &[u8]) -> Option<i64> {
    let [y1, y2, y3, y4, b'-', m1, m2, b'-', d1, d2] = *text else {
        return None;
    };
    let (year, month, day) = (
        number(&[y1, y2, y3, y4])?,
        number(&[m1, m2])?,
        number(&[d1, d2])?,
    );
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days = match month {
        2 => 28 + i64::from(is_leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    if !(1..=days).contains(&day) {
        return None;
    }
    let year = year - i64::from(month <= 2);
    let (era, year) = (year.div_euclid(400), year.rem_euclid(400));
    let day = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    Some(era * DAYS_PER_ERA + year * 365 + year / 4 - year / 100 + day - DAYS_TO_1970)
}

/// The year, month and day, this many days after 1970-01-01.
fn date(days: i64) -> (i64, i64, i64) {
    let days = days + DAYS_TO_1970;
    let (era, day) = (days.div_euclid(DAYS_PER_ERA), days.rem_euclid(DAYS_PER_ERA));
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (year * 365 + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let month = (month + 2) % 12 + 1;
    (era * 400 + year + i64::from(month <= 2), month, day)
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

    /// A span of milliseconds.
    #[must_use]
    pub fn from_millis(millis: u64) -> Self {
        Self::from_nanos(i128::from(millis) * 1_000_000)
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

    /// The span without `other`. Zero if that is longer.
    #[must_use]
    pub fn minus(self, other: Self) -> Self {
        Self::from_nanos(self.nanos - other.nanos)
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
        let (large, small) = if days > 0 {
            ((days, "d"), (hours % 24, "h"))
        } else if hours > 0 {
            ((hours, "h"), (minutes % 60, "m"))
        } else if minutes > 0 {
            ((minutes, "m"), (seconds % 60, "s"))
        } else {
            ((seconds, "s"), (0, ""))
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
    fn texts_are_parsed_as_rfc_3339() {
        let check = |text: &str, want: Option<&str>| {
            assert_eq!(
                Time::parse(text).map(|time| time.to_string()).as_deref(),
                want,
                "{text}"
            );
        };
        for same in [
            "0000-01-01T00:00:00Z",
            "0000-12-31T23:59:59Z",
            "0001-01-01T00:00:00Z",
            "1970-01-01T00:00:00Z",
            "2000-02-29T12:00:00Z",
            "2100-03-01T00:00:00Z",
            "9999-12-31T23:59:59.000000001Z",
        ] {
            check(same, Some(same));
        }
        check("2024-03-01T00:30:00+01:00", Some("2024-02-29T23:30:00Z"));
        check(
            "2023-12-31T23:30:00.250-01:00",
            Some("2024-01-01T00:30:00.25Z"),
        );
        check("2000-01-01T04:30:00+05:30", Some("1999-12-31T23:00:00Z"));
        for bad in [
            "",
            "2024",
            "2023-02-29T00:00:00Z",
            "2100-02-29T00:00:00Z",
            "2024-13-01T00:00:00Z",
            "2024-00-01T00:00:00Z",
            "2024-01-00T00:00:00Z",
            "2024-01-01T24:00:00Z",
            "2024-01-01T0::00:00Z",
            "2024-01-01T00:00:60Z",
            "2024-01-01T00:00:00",
            "2024-01-01T00:00:00.Z",
            "2024-01-01 00:00:00Z",
            "2024-01-01T00:00:00+1:00",
            "2024-01-01T00:00:00-24:00",
            "2024-01-01T00:00:00+00:60",
            "2024-01-01T00:00:00Zé",
            "é024-01-01T00:00:00Z",
            "0000-01-01T00:00:00+01:00",
            "9999-12-31T23:59:59-01:00",
        ] {
            check(bad, None);
        }
    }

    #[test]
    fn days_are_those_of_the_calendar() {
        let mut days = Time::parse("0000-01-01T00:00:00Z").unwrap().seconds() / SECONDS_PER_DAY;
        for year in 0..=9999 {
            let is_leap = year % 4 == 0 && year % 100 != 0 || year % 400 == 0;
            let february = if is_leap { 29 } else { 28 };
            let lengths = [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
            for (month, length) in (1..).zip(lengths) {
                for day in 1..=length {
                    let text = format!("{year:04}-{month:02}-{day:02}");
                    assert_eq!(parse_date(text.as_bytes()), Some(days), "{text}");
                    assert_eq!(date(days), (year, month, day));
                    days += 1;
                }
                let text = format!("{year:04}-{month:02}-{:02}", length + 1);
                assert_eq!(parse_date(text.as_bytes()), None, "{text}");
            }
        }
        assert_eq!(days, Time::MAX.seconds() / SECONDS_PER_DAY + 1);
    }

    #[test]
    fn times_outside_the_years_1_to_9999_are_rejected() {
        assert_eq!(Time::new(Time::MIN.seconds() - 1, 0), None);
        assert_eq!(Time::new(Time::MAX.seconds() + 1, 0), None);
        assert_eq!(Time::new(0, 1_000_000_000), None);
        assert_eq!(parse_time("0000-12-31T23:59:59Z"), None);
        assert_eq!(parse_time("0001-01-01T00:00:00Z"), Some(Time::MIN));
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
