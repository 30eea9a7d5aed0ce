//! Kubernetes quantities (`1500m`, `1Ki`, `2e3`), compared by value.

use std::fmt;

use super::value::{Number, Value};

/// A Kubernetes quantity, exact and normalized: quantities are equal if and only if their values are.
///
/// Accepts and rounds like `resource.ParseQuantity`: digits below one nano are rounded up (away from zero), and a value
/// with a binary suffix is capped at 2^63 − 1. Like upstream, it accepts a sign or a suffix (`m`) without digits as 0.
///
/// Known differences: an exponent that does not fit into an `i32` is rejected here and wraps around upstream, and an
/// exponent close to that limit is exact here. API servers print neither.
///
/// Displays as digits with an exponent if necessary: `1024`, `15e-1`, `1e9`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Quantity {
    /// Never set for zero.
    negative: bool,
    digits: Digits,
    /// The power of ten. 0 if the value is 0; never less than −9.
    exponent: i64,
}

/// Decimal digits without leading or trailing zeros.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Digits {
    /// At most 38 digits, which always fit into a `u128`.
    Few(u128),
    /// More digits, one per byte.
    Many(Vec<u8>),
}

/// The exponent of the smallest unit.
const NANO: i64 = -9;
/// The number of digits that always fit into a `u128`.
const FEW_DIGITS_MAX: usize = 38;

enum Suffix {
    Decimal(i32),
    Binary(u32),
}

// === impl Quantity ===

impl Quantity {
    /// The quantity of a string or a number. `None` for text that upstream rejects, and for other values.
    #[must_use]
    pub fn of(value: &Value) -> Option<Self> {
        match value {
            Value::String(text) => Self::parse(text),
            Value::Number(number) => Self::of_number(*number),
            _ => None,
        }
    }

    /// The quantity of a JSON number. Upstream parses the text of the number. That text is not available here, so the
    /// shortest text for the same float replaces it.
    pub(super) fn of_number(number: Number) -> Option<Self> {
        let text = match number.as_i64() {
            Some(integer) => integer.to_string(),
            // With an exponent, because 1e300 would otherwise have 300 digits. Infinity and NaN do not parse as quantities.
            None => format!("{:e}", number.as_f64()),
        };
        Self::parse(&text)
    }

    /// Parses a quantity. Returns `None` for text that upstream rejects. Surrounding whitespace is allowed, as in JSON.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        if text.is_empty() {
            return None;
        }
        let (negative, unsigned) = match text.as_bytes()[0] {
            b'-' => (true, &text[1..]),
            b'+' => (false, &text[1..]),
            _ => (false, text),
        };
        let (whole, rest) = split_digits(unsigned);
        let (fraction, rest) = match rest.strip_prefix('.') {
            Some(rest) => split_digits(rest),
            None => ("", rest),
        };
        let suffix = Suffix::parse(rest)?;
        if whole.is_empty() && fraction.is_empty() {
            // Upstream has a fast path, which accepts missing digits as 0, and an exact path, which rejects them. The
            // suffix determines the path.
            let fast_path = match suffix {
                Suffix::Decimal(exponent) => i64::from(exponent) >= NANO,
                Suffix::Binary(exponent) => exponent <= 40,
            };
            return fast_path.then(Self::zero);
        }
        Some(match suffix {
            Suffix::Decimal(exponent) => Self::from_decimal(negative, whole, fraction, exponent),
            Suffix::Binary(exponent) => Self::from_binary(negative, whole, fraction, exponent),
        })
    }

    /// Whether the quantity is 0, and so equal to an absent one.
    #[must_use]
    pub fn is_zero(&self) -> bool {
        self.digits == Digits::Few(0)
    }

    /// The value in units of one nano, if it is not too large to be counted in them.
    #[must_use]
    pub fn to_nanos(&self) -> Option<i128> {
        let Digits::Few(digits) = self.digits else {
            return None;
        };
        let power = u32::try_from(self.exponent - NANO).ok()?;
        let nanos = i128::try_from(digits).ok()?;
        let nanos = nanos.checked_mul(10_i128.checked_pow(power)?)?;
        Some(if self.negative { -nanos } else { nanos })
    }

    fn zero() -> Self {
        Self {
            negative: false,
            digits: Digits::Few(0),
            exponent: 0,
        }
    }

    fn from_decimal(negative: bool, whole: &str, fraction: &str, exponent: i32) -> Self {
        // The text fits into memory, so neither the sum nor the difference can overflow.
        let mut exponent = i64::from(exponent) - length(fraction.len());
        let all = whole.len() + fraction.len();
        let digit = |i: usize| match i.checked_sub(whole.len()) {
            None => whole.as_bytes()[i] - b'0',
            Some(i) => fraction.as_bytes()[i] - b'0',
        };
        let Some(start) = (0..all).find(|&i| digit(i) != 0) else {
            return Self::zero();
        };
        // Digits below one nano are cut off, and the rest is rounded up.
        let mut end = all;
        let mut round_up = false;
        if exponent < NANO {
            let cut = usize::try_from(NANO - exponent).unwrap_or(usize::MAX);
            end = all.saturating_sub(cut).max(start);
            round_up = (end..all).any(|i| digit(i) != 0);
            exponent = NANO;
        }
        if end - start < FEW_DIGITS_MAX {
            let kept = (start..end).fold(0, |number, i| number * 10 + u128::from(digit(i)));
            Self::from_few(negative, kept + u128::from(round_up), exponent)
        } else {
            let mut kept: Vec<u8> = (start..end).map(digit).collect();
            if round_up {
                increment(&mut kept);
            }
            Self::from_many(negative, kept, exponent)
        }
    }

    /// The value × 2^exponent in nanos, rounded up and capped.
    fn from_binary(negative: bool, whole: &str, fraction: &str, exponent: u32) -> Self {
        const NANOS_PER_UNIT: u128 = 1_000_000_000;
        const MAX: u128 = i64::MAX as u128;
        let whole = whole.trim_start_matches('0');
        // 2^63 − 1 has 19 digits.
        let units = if whole.len() > 19 {
            u128::MAX
        } else {
            to_number(whole)
        };
        if units > MAX >> exponent {
            return Self::from_few(negative, MAX, 0);
        }
        if fraction.is_empty() {
            return Self::from_few(negative, units << exponent, 0);
        }
        // The first nine digits after the point are nanos. The digits after those are multiplied one at a time, from the
        // right: only the carry, which is less than 2^exponent, affects the nanos, and a remainder only rounds them up.
        let (nanos, rest) = fraction.split_at(fraction.len().min(9));
        let missing = u32::try_from(9 - nanos.len()).unwrap_or(0);
        let nanos = to_number(nanos) * 10_u128.pow(missing);
        let mut carry = 0_u128;
        let mut remainder = false;
        for digit in rest.bytes().rev() {
            carry += u128::from(digit - b'0') << exponent;
            remainder |= !carry.is_multiple_of(10);
            carry /= 10;
        }
        let total = ((units * NANOS_PER_UNIT + nanos) << exponent) + carry + u128::from(remainder);
        if total > MAX * NANOS_PER_UNIT {
            return Self::from_few(negative, MAX, 0);
        }
        Self::from_few(negative, total, NANO)
    }

    fn from_few(negative: bool, mut digits: u128, mut exponent: i64) -> Self {
        if digits == 0 {
            return Self::zero();
        }
        while digits.is_multiple_of(10) {
            digits /= 10;
            exponent += 1;
        }
        Self {
            negative,
            digits: Digits::Few(digits),
            exponent,
        }
    }

    fn from_many(negative: bool, mut digits: Vec<u8>, mut exponent: i64) -> Self {
        while digits.pop_if(|digit| *digit == 0).is_some() {
            exponent += 1;
        }
        if digits.len() > FEW_DIGITS_MAX {
            return Self {
                negative,
                digits: Digits::Many(digits),
                exponent,
            };
        }
        let few = digits
            .iter()
            .fold(0, |number, digit| number * 10 + u128::from(*digit));
        Self::from_few(negative, few, exponent)
    }
}

fn split_digits(text: &str) -> (&str, &str) {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    text.split_at(digits)
}

/// Parses at most 38 decimal digits, which fit into a `u128`.
fn to_number(digits: &str) -> u128 {
    digits
        .bytes()
        .fold(0, |number, digit| number * 10 + u128::from(digit - b'0'))
}

fn length(bytes: usize) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX / 2)
}

/// Adds one to a number given as decimal digits.
fn increment(digits: &mut Vec<u8>) {
    for digit in digits.iter_mut().rev() {
        if *digit < 9 {
            *digit += 1;
            return;
        }
        *digit = 0;
    }
    digits.insert(0, 1);
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            negative,
            digits,
            exponent,
        } = self;
        if *negative {
            f.write_str("-")?;
        }
        match digits {
            Digits::Few(number) => write!(f, "{number}")?,
            Digits::Many(digits) => {
                for digit in digits {
                    write!(f, "{digit}")?;
                }
            }
        }
        if *exponent != 0 {
            write!(f, "e{exponent}")?;
        }
        Ok(())
    }
}

// === impl Suffix ===

impl Suffix {
    fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "n" => Self::Decimal(-9),
            "u" => Self::Decimal(-6),
            "m" => Self::Decimal(-3),
            "" => Self::Decimal(0),
            "k" => Self::Decimal(3),
            "M" => Self::Decimal(6),
            "G" => Self::Decimal(9),
            "T" => Self::Decimal(12),
            "P" => Self::Decimal(15),
            "E" => Self::Decimal(18),
            "Ki" => Self::Binary(10),
            "Mi" => Self::Binary(20),
            "Gi" => Self::Binary(30),
            "Ti" => Self::Binary(40),
            "Pi" => Self::Binary(50),
            "Ei" => Self::Binary(60),
            _ => {
                // Like Go's ParseInt, i32::from_str accepts an optional sign and digits, and nothing else.
                let exponent = text.strip_prefix(['e', 'E'])?;
                Self::Decimal(exponent.parse().ok()?)
            }
        })
    }
}
