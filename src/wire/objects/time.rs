//! Times in JSON.

use prost_types::Timestamp;

/// The length of a time with whole seconds, as Kubernetes prints it.
const WHOLE: usize = "2026-01-31T12:00:00Z".len();

/// Parses a time of RFC 3339. Times in the formatting of Kubernetes are parsed several times faster than others.
pub(super) fn parse(text: &str) -> Option<Timestamp> {
    // The parsers also accept a date without a time, and leap seconds. Kubernetes does not.
    if text.len() < WHOLE || text.get(17..19) == Some("60") {
        return None;
    }
    parse_whole(text).or_else(|| text.parse().ok())
}

/// Parses a time such as "2026-01-31T12:00:00Z".
fn parse_whole(text: &str) -> Option<Timestamp> {
    let text: &[u8; WHOLE] = text.as_bytes().try_into().ok()?;
    let two = |at: usize| match (text[at], text[at + 1]) {
        (tens @ b'0'..=b'9', ones @ b'0'..=b'9') => Some((tens - b'0') * 10 + (ones - b'0')),
        _ => None,
    };
    if [4, 7, 10, 13, 16, 19].map(|at| text[at]) != *b"--T::Z" {
        return None;
    }
    let year = i64::from(two(0)?) * 100 + i64::from(two(2)?);
    let [month, day, hour, minute, second] = [two(5)?, two(8)?, two(11)?, two(14)?, two(17)?];
    Timestamp::date_time(year, month, day, hour, minute, second).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_seconds_are_those_of_the_full_parser() {
        for text in [
            "1970-01-01T00:00:00Z",
            "2026-01-31T12:00:00Z",
            "2028-02-29T12:00:00Z",
            "0001-12-01T00:00:00Z",
            "9999-11-30T23:59:59Z",
            "1969-12-31T23:59:59Z",
        ] {
            assert_eq!(parse_whole(text), text.parse().ok(), "{text}");
            assert!(parse_whole(text).is_some(), "{text}");
        }
    }

    #[test]
    fn times_are_distinguished_from_other_text() {
        for text in [
            "",
            "2026-01-31",
            "2026-00-31T12:00:00Z",
            "2026-13-31T12:00:00Z",
            "2026-04-31T12:00:00Z",
            "2026-02-29T12:00:00Z",
            "2026-01-00T12:00:00Z",
            "2026-01-31T24:00:00Z",
            "2026-01-31T12:60:00Z",
            "2026-01-31T12:00:60Z",
            "2026-01-31 12:00:0xZ",
            "2026-01-31T12:00:00ü",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
        for text in ["2026-01-31T12:00:00.25+01:00", "2026-01-31t12:00:00z"] {
            assert_eq!(parse_whole(text), None, "{text}");
            assert!(parse(text).is_some(), "{text}");
        }
    }
}
