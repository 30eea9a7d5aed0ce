//! Kubernetes times, given as RFC 3339 text.

use std::fmt;

use crate::time::Time;

/// A point in time with nanosecond precision. Displays as RFC 3339 in UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Instant {
    /// Seconds since 0000-01-01T00:00:00Z, within the years 0 to 9999.
    seconds: i64,
    nanos: u32,
}

const SECONDS_PER_DAY: i64 = 86_400;
/// Days from 0000-01-01 to 0001-01-01. Year 0 is a leap year.
const DAYS_TO_YEAR_1: i64 = 366;
const SECONDS_TO_YEAR_10000: i64 = 3_652_425 * SECONDS_PER_DAY;

// === impl Instant ===

impl Instant {
    /// The zero value of Go's `time.Time`, which is also the value of an absent time.
    pub(super) const ZERO: Self = Self {
        seconds: DAYS_TO_YEAR_1 * SECONDS_PER_DAY,
        nanos: 0,
    };

    /// [`ZERO`](Self::ZERO) as JSON.
    pub(super) const ZERO_JSON: &str = r#""0001-01-01T00:00:00Z""#;

    /// Parses RFC 3339 strictly. Like Go, it ignores digits below one nanosecond. Unlike Go, it rejects a comma before
    /// the fraction, and an hour with one digit. It also rejects a time whose year in UTC is not between 0 and 9999.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (date, rest) = text.split_at_checked(10)?;
        let (time, rest) = rest.strip_prefix('T')?.split_at_checked(8)?;
        let [year, month, day] = numbers(date, b'-', [4, 2, 2])?;
        let [hour, minute, second] = numbers(time, b':', [2, 2, 2])?;
        if !(1..=12).contains(&month) || !(1..=days_in_month(year, month)).contains(&day) {
            return None;
        }
        if hour > 23 || minute > 59 || second > 59 {
            return None;
        }
        let (nanos, rest) = match rest.strip_prefix('.') {
            Some(rest) => parse_fraction(rest)?,
            None => (0, rest),
        };
        let seconds =
            days_before(year, month, day) * SECONDS_PER_DAY + hour * 3600 + minute * 60 + second;
        let seconds = seconds - parse_offset(rest)?;
        (0..SECONDS_TO_YEAR_10000)
            .contains(&seconds)
            .then_some(Self { seconds, nanos })
    }
}

/// Parses a time of RFC 3339 strictly. `None` also for the year 0.
#[must_use]
pub fn parse_time(text: &str) -> Option<Time> {
    let Instant { seconds, nanos } = Instant::parse(text)?;
    Time::new(seconds - days_before(1970, 1, 1) * SECONDS_PER_DAY, nanos)
}

/// Parses numbers with the given numbers of digits, separated by `separator`.
fn numbers<const N: usize>(text: &str, separator: u8, widths: [usize; N]) -> Option<[i64; N]> {
    let mut rest = text.as_bytes();
    let mut numbers = [0; N];
    for (i, width) in widths.into_iter().enumerate() {
        if i > 0 {
            rest = rest.strip_prefix(&[separator])?;
        }
        let (digits, remaining) = rest.split_at_checked(width)?;
        for digit in digits {
            if !digit.is_ascii_digit() {
                return None;
            }
            numbers[i] = numbers[i] * 10 + i64::from(digit - b'0');
        }
        rest = remaining;
    }
    rest.is_empty().then_some(numbers)
}

fn parse_fraction(text: &str) -> Option<(u32, &str)> {
    let count = text.bytes().take_while(u8::is_ascii_digit).count();
    let (digits, rest) = text.split_at(count);
    if digits.is_empty() {
        return None;
    }
    let nanos = (0..9).fold(0, |nanos, i| {
        nanos * 10
            + digits
                .as_bytes()
                .get(i)
                .map_or(0, |digit| u32::from(digit - b'0'))
    });
    Some((nanos, rest))
}

fn parse_offset(text: &str) -> Option<i64> {
    if text == "Z" {
        return Some(0);
    }
    let (sign, offset) = match text.as_bytes().first()? {
        b'+' => (1, &text[1..]),
        b'-' => (-1, &text[1..]),
        _ => return None,
    };
    let [hours, minutes] = numbers(offset, b':', [2, 2])?;
    (hours <= 23 && minutes <= 59).then_some(sign * (hours * 3600 + minutes * 60))
}

fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

fn days_in_month(year: i64, month: i64) -> i64 {
    match month {
        2 => 28 + i64::from(is_leap(year)),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days from 0000-01-01 to a date.
fn days_before(year: i64, month: i64, day: i64) -> i64 {
    // The last term counts year 0, which is a leap year.
    let leap_days = if year == 0 {
        0
    } else {
        (year - 1) / 4 - (year - 1) / 100 + (year - 1) / 400 + 1
    };
    let days_to_month: i64 = (1..month).map(|month| days_in_month(year, month)).sum();
    year * 365 + leap_days + days_to_month + day - 1
}

impl fmt::Display for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seconds, nanos } = *self;
        let (mut days, time) = (seconds / SECONDS_PER_DAY, seconds % SECONDS_PER_DAY);
        // No year has more than 366 days, so the estimate is never too late, and the loop takes few steps.
        let mut year = days / 366;
        while days_before(year + 1, 1, 1) <= days {
            year += 1;
        }
        days -= days_before(year, 1, 1);
        let mut month = 1;
        while days >= days_in_month(year, month) {
            days -= days_in_month(year, month);
            month += 1;
        }
        let (hour, minute, second) = (time / 3600, time / 60 % 60, time % 60);
        write!(
            f,
            "{year:04}-{month:02}-{:02}T{hour:02}:{minute:02}:{second:02}",
            days + 1
        )?;
        if nanos == 0 {
            return f.write_str("Z");
        }
        let (mut fraction, mut width) = (nanos, 9);
        while fraction % 10 == 0 {
            fraction /= 10;
            width -= 1;
        }
        write!(f, ".{fraction:0width$}Z")
    }
}
