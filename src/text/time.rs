//! Parses times.

use prost_types::Timestamp;

/// Parses a time in the format of RFC 3339: date, time and offset.
pub fn parse(text: &str) -> Result<Timestamp, String> {
    // The parser of Timestamp accepts more, such as a date without a time, or a time without an offset.
    let complete = text.contains(['T', 't']) && has_offset(text);
    complete
        .then(|| text.parse().ok())
        .flatten()
        .ok_or_else(|| "not a time in RFC 3339, for example 2026-11-20T23:26:19Z".to_owned())
}

fn has_offset(text: &str) -> bool {
    let numeric = |tail: &[u8]| matches!(tail, [b'+' | b'-', _, _, b':', _, _]);
    text.ends_with(['Z', 'z'])
        || text
            .as_bytes()
            .last_chunk::<6>()
            .is_some_and(|tail| numeric(tail))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn incomplete_times_are_refused() {
        let parsed = |text| parse(text).map(|time| time.to_string()).ok();
        assert_eq!(
            parsed("2026-11-20T23:26:19Z").as_deref(),
            Some("2026-11-20T23:26:19Z")
        );
        assert_eq!(
            parsed("2026-11-21T01:26:19.5+02:00").as_deref(),
            Some("2026-11-20T23:26:19.500Z")
        );
        for wrong in [
            "",
            "now",
            "2026-11-20",
            "2026-11-20T23:26:19",
            "2026-11-20 23:26:19Z",
            "2026-11-20T23:26:19+02",
            "2026-13-20T23:26:19Z",
            "1795217179",
            "2026-11-20T23:26:19ZZ",
        ] {
            assert_eq!(parsed(wrong), None, "{wrong}");
        }
    }
}
