//! Kubernetes quantities (`1500m`, `1Ki`, `2e3`) by value.

use std::fmt;

/// A Kubernetes quantity, exact and in lowest terms: equal quantities are equal values.
///
/// Accepted and rounded is what `resource.ParseQuantity` accepts and rounds: a value below one nano is rounded up
/// (away from zero), as is any finer than that, and one with a binary suffix is capped at 2^63 − 1. Its oddities are
/// kept: a sign alone is 0, and so is a suffix alone (`m`).
///
/// Known differences: an exponent that does not fit an `i32` is refused here and wraps around upstream, and one within
/// some digits of that limit is exact here. No API server can have printed either.
///
/// Prints as a quantity, digits with an exponent if need be: `1024`, `15e-1`, `1e9`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Quantity {
    /// Never set for zero.
    negative: bool,
    digits: Digits,
    /// The power of ten. 0 for zero, and never below −9.
    exponent: i64,
}

/// Decimal digits without zeros at either end; no digits for zero.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Digits {
    /// Up to 38 digits, which always fit.
    Few(u128),
    /// More, one decimal digit a byte.
    Many(Vec<u8>),
}

/// The finest quantity is a nano.
const NANO: i64 = -9;
/// What fits a `u128` whatever the digits.
const DIGITS_MAX_FEW: usize = 38;

enum Suffix {
    Decimal(i32),
    Binary(u32),
}

// === impl Quantity ===

impl Quantity {
    /// Reads a quantity. `None` if upstream would call it malformed; space around it is allowed, as in its JSON.
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
            // Upstream's quick way takes no digits for 0; its exact way, chosen by the suffix, refuses them.
            let quick = match suffix {
                Suffix::Decimal(exponent) => i64::from(exponent) >= NANO,
                Suffix::Binary(exponent) => exponent <= 40,
            };
            return quick.then(Self::zero);
        }
        Some(match suffix {
            Suffix::Decimal(exponent) => Self::from_decimal(negative, whole, fraction, exponent),
            Suffix::Binary(exponent) => Self::from_binary(negative, whole, fraction, exponent),
        })
    }

    /// Whether it is 0, which an absent quantity equals.
    #[must_use]
    pub fn is_zero(&self) -> bool {
        self.digits == Digits::Few(0)
    }

    fn zero() -> Self {
        Self {
            negative: false,
            digits: Digits::Few(0),
            exponent: 0,
        }
    }

    fn from_decimal(negative: bool, whole: &str, fraction: &str, exponent: i32) -> Self {
        // Text is at most as long as memory, so neither sum nor difference can overflow.
        let mut exponent = i64::from(exponent) - length(fraction.len());
        let all = whole.len() + fraction.len();
        let digit = |i: usize| match i.checked_sub(whole.len()) {
            None => whole.as_bytes()[i] - b'0',
            Some(i) => fraction.as_bytes()[i] - b'0',
        };
        let Some(start) = (0..all).find(|&i| digit(i) != 0) else {
            return Self::zero();
        };
        // Digits finer than a nano are cut off, and round up what is left.
        let mut end = all;
        let mut round_up = false;
        if exponent < NANO {
            let cut = usize::try_from(NANO - exponent).unwrap_or(usize::MAX);
            end = all.saturating_sub(cut).max(start);
            round_up = (end..all).any(|i| digit(i) != 0);
            exponent = NANO;
        }
        if end - start < DIGITS_MAX_FEW {
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

    /// Binary suffixes count in integers: value × 2^exponent in nanos, rounded up, capped.
    fn from_binary(negative: bool, whole: &str, fraction: &str, exponent: u32) -> Self {
        const NANOS_A_UNIT: u128 = 1_000_000_000;
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
        // The first nine digits after the point are nanos. What comes after them is multiplied digit by digit from the
        // right: the carry stays below 2^exponent, and a digit that is left behind says only that there is more.
        let (nanos, finer) = fraction.split_at(fraction.len().min(9));
        let missing = u32::try_from(9 - nanos.len()).unwrap_or(0);
        let nanos = to_number(nanos) * 10_u128.pow(missing);
        let mut carry = 0_u128;
        let mut more = false;
        for digit in finer.bytes().rev() {
            carry += u128::from(digit - b'0') << exponent;
            more |= !carry.is_multiple_of(10);
            carry /= 10;
        }
        let total = ((units * NANOS_A_UNIT + nanos) << exponent) + carry + u128::from(more);
        if total > MAX * NANOS_A_UNIT {
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
        if digits.len() > DIGITS_MAX_FEW {
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

/// At most 28 digits, which fit.
fn to_number(digits: &str) -> u128 {
    digits
        .bytes()
        .fold(0, |number, digit| number * 10 + u128::from(digit - b'0'))
}

fn length(bytes: usize) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX / 2)
}

/// Adds one to a number of decimal digits.
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
                // i32::from_str takes what Go's ParseInt takes: a sign and digits, nothing else.
                let exponent = text.strip_prefix(['e', 'E'])?;
                Self::Decimal(exponent.parse().ok()?)
            }
        })
    }
}
