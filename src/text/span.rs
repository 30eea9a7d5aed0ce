//! Parses and formats durations.

use std::time::Duration;

const DAY: u64 = 24 * HOUR;
const HOUR: u64 = 60 * MINUTE;
const MINUTE: u64 = 60;

/// Parses a duration: "10m", "1h30m", "1.5s", "500ms", or a number of seconds.
pub fn parse(text: &str) -> Result<Duration, String> {
    let wrong = || "not a duration, for example 90s, 10m or 1h30m".to_owned();
    if text.starts_with('-') {
        return Err("may not be negative; leave it out for no limit".to_owned());
    }
    let part = |number: &str, unit: f64| {
        let number = Some(number)
            .filter(|number| number.starts_with(|c: char| c.is_ascii_digit()))
            .and_then(|number| number.parse::<f64>().ok())
            .and_then(|number| Duration::try_from_secs_f64(number * unit).ok());
        number.ok_or_else(wrong)
    };
    if !text.ends_with(|c: char| c.is_ascii_alphabetic()) {
        return part(text, 1.0);
    }
    let mut total = Duration::ZERO;
    let mut rest = text;
    while !rest.is_empty() {
        let is_number = |c: char| c.is_ascii_digit() || c == '.';
        let end = rest.find(|c| !is_number(c)).ok_or_else(wrong)?;
        let (number, tail) = rest.split_at(end);
        let end = tail.find(is_number).unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(end);
        let unit = match unit {
            "ms" => 0.001,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3600.0,
            _ => return Err(wrong()),
        };
        total = total.checked_add(part(number, unit)?).ok_or_else(wrong)?;
        rest = tail;
    }
    Ok(total)
}

/// The duration with all its units, for example "9m55s".
pub fn exact(seconds: u64) -> String {
    let parts = [
        (seconds / HOUR, "h"),
        (seconds / MINUTE % 60, "m"),
        (seconds % 60, "s"),
    ];
    let parts = parts.into_iter().filter(|(count, _)| *count > 0);
    let text: String = parts
        .map(|(count, unit)| format!("{count}{unit}"))
        .collect();
    match text.as_str() {
        "" => "0s".to_owned(),
        _ => text,
    }
}

/// The duration as kubectl prints ages: "45s", "5m10s", "3h", "2d4h", "400d".
pub fn age(seconds: u64) -> String {
    let both = |large: u64, large_unit: &str, small: u64, small_unit: &str| match small {
        0 => format!("{large}{large_unit}"),
        small => format!("{large}{large_unit}{small}{small_unit}"),
    };
    match seconds {
        0..120 => format!("{seconds}s"),
        120..600 => both(seconds / MINUTE, "m", seconds % MINUTE, "s"),
        600..10_800 => format!("{}m", seconds / MINUTE),
        10_800..28_800 => both(seconds / HOUR, "h", seconds % HOUR / MINUTE, "m"),
        28_800..172_800 => format!("{}h", seconds / HOUR),
        172_800..691_200 => both(seconds / DAY, "d", seconds % DAY / HOUR, "h"),
        _ => format!("{}d", seconds / DAY),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_parsed() {
        let check = |text: &str, expected: Option<u64>| {
            let expected = expected.map(Duration::from_millis);
            assert_eq!(parse(text).ok(), expected, "{text}");
        };
        check("10m", Some(600_000));
        check("1h30m", Some(5_400_000));
        check("1.5s", Some(1500));
        check("500ms", Some(500));
        check("0", Some(0));
        check("0s", Some(0));
        check("90", Some(90_000));
        for wrong in [
            "", "m", "-5s", "5x", "1h-3m", "1 h", "1e99h", ".s", "inf", "nan", "5s5",
        ] {
            check(wrong, None);
        }
    }

    #[test]
    fn durations_are_formatted() {
        assert_eq!(exact(0), "0s");
        assert_eq!(exact(3661), "1h1m1s");
        assert_eq!(exact(600), "10m");
        for (seconds, expected) in [
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (310, "5m10s"),
            (600, "10m"),
            (10_800, "3h"),
            (11_460, "3h11m"),
            (100_000, "27h"),
            (187_200, "2d4h"),
            (34_560_000, "400d"),
        ] {
            assert_eq!(age(seconds), expected);
        }
    }
}
