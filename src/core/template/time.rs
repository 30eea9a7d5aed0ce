//! Kubernetes times, given as RFC 3339 text.

use std::fmt;

use jiff::SignedDuration;
use jiff::civil::{self, Date, DateTime, datetime};

use crate::time::Time;

/// A point in time with nanosecond precision, in UTC, within the years 0 to 9999. Displays as RFC 3339.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Instant(DateTime);

// === impl Instant ===

impl Instant {
    /// The zero value of Go's `time.Time`, which is also the value of an absent time.
    pub(super) const ZERO: Self = Self(datetime(1, 1, 1, 0, 0, 0, 0));

    /// [`ZERO`](Self::ZERO) as JSON.
    pub(super) const ZERO_JSON: &str = r#""0001-01-01T00:00:00Z""#;

    /// Parses RFC 3339 strictly. Like Go, it ignores digits below one nanosecond. Unlike Go, it rejects a comma before
    /// the fraction, and an hour with one digit. It also rejects a time whose year in UTC is not between 0 and 9999.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (date, rest) = text.split_at_checked(10)?;
        let (time, rest) = rest.strip_prefix('T')?.split_at_checked(8)?;
        let [year, month, day] = numbers(date, b'-', [4, 2, 2])?;
        let [hour, minute, second] = numbers(time, b':', [2, 2, 2])?;
        let (nanos, rest) = match rest.strip_prefix('.') {
            Some(rest) => parse_fraction(rest)?,
            None => (0, rest),
        };
        let date = Date::new(year, i8::try_from(month).ok()?, i8::try_from(day).ok()?).ok()?;
        let [hour, minute, second] = [hour, minute, second].map(i8::try_from);
        let time = civil::Time::new(hour.ok()?, minute.ok()?, second.ok()?, nanos).ok()?;
        let utc = date
            .to_datetime(time)
            .checked_sub(parse_offset(rest)?)
            .ok()?;
        (0..=9999).contains(&utc.year()).then_some(Self(utc))
    }
}

/// Parses a time of RFC 3339 strictly. `None` also for the year 0.
#[must_use]
pub fn parse_time(text: &str) -> Option<Time> {
    Time::from_civil(Instant::parse(text)?.0)
}

/// Parses numbers with the given numbers of digits, separated by `separator`.
fn numbers<const N: usize>(text: &str, separator: u8, widths: [usize; N]) -> Option<[i16; N]> {
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
            numbers[i] = numbers[i] * 10 + i16::from(digit - b'0');
        }
        rest = remaining;
    }
    rest.is_empty().then_some(numbers)
}

fn parse_fraction(text: &str) -> Option<(i32, &str)> {
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
                .map_or(0, |digit| i32::from(digit - b'0'))
    });
    Some((nanos, rest))
}

fn parse_offset(text: &str) -> Option<SignedDuration> {
    if text == "Z" {
        return Some(SignedDuration::ZERO);
    }
    let (sign, offset) = match text.as_bytes().first()? {
        b'+' => (1, &text[1..]),
        b'-' => (-1, &text[1..]),
        _ => return None,
    };
    let [hours, minutes] = numbers(offset, b':', [2, 2])?;
    let minutes_in_all = i64::from(sign * (hours * 60 + minutes));
    (hours <= 23 && minutes <= 59).then_some(SignedDuration::from_mins(minutes_in_all))
}

impl fmt::Display for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}Z", self.0)
    }
}
