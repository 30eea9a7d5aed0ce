//! Durations, in the notation of Go and in milliseconds.

use std::time::Duration;

/// Parses a duration such as "90s", "1h30m" or "500ms" (Go: `time.ParseDuration`, without negative values).
#[must_use]
pub fn parse_duration(text: &str) -> Option<Duration> {
    if text == "0" {
        return Some(Duration::ZERO);
    }
    let mut rest = text;
    let mut total = 0_f64;
    while !rest.is_empty() {
        let digits = rest
            .find(|char: char| !char.is_ascii_digit() && char != '.')
            .filter(|end| *end > 0)?;
        let (number, after) = rest.split_at(digits);
        let number: f64 = number.parse().ok()?;
        let end = after
            .find(|char: char| char.is_ascii_digit() || char == '.')
            .unwrap_or(after.len());
        let (unit, after) = after.split_at(end);
        let seconds = match unit {
            "ns" => 1e-9,
            "us" | "µs" | "μs" => 1e-6,
            "ms" => 1e-3,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3600.0,
            _ => return None,
        };
        total += number * seconds;
        rest = after;
    }
    (!text.is_empty())
        .then(|| Duration::try_from_secs_f64(total).ok())
        .flatten()
}

/// The duration in milliseconds.
pub(super) fn span(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX / 4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_parse_like_go() {
        for (text, millis) in [
            ("0", 0),
            ("90s", 90_000),
            ("1h30m", 5_400_000),
            ("1.5s", 1_500),
            ("500ms", 500),
            ("2500us", 2),
            ("2500µs", 2),
            ("2500μs", 2),
            ("2500000ns", 2),
        ] {
            let duration = parse_duration(text).map(|it| it.as_millis());
            assert_eq!(duration, Some(millis), "{text}");
        }
        for text in ["", "5", "s", "-5s", "5 s", "1d", "1h x", ".", "1..5s"] {
            assert_eq!(parse_duration(text), None, "{text}");
        }
    }
}
