//! Formats the bodies of API calls as lines of JSON that shells do not change.

use serde::de::IgnoredAny;

use crate::cli::error::{Error, chain};

/// The maximum line length, except for longer strings.
const COLUMNS: usize = 116;

/// Formats JSON in lines of printable ASCII. Strings contain no quote, backquote, dollar sign, exclamation mark or
/// backslash: these and non-ASCII characters are escaped.
pub(super) fn lines(json: &str) -> Result<String, Error> {
    let bug =
        |error: serde_json::Error| Error::Bug(format!("the body of a call: {}", chain(&error)));
    let _: IgnoredAny = serde_json::from_str(json).map_err(bug)?;
    // kubectl parses text that starts with a brace as JSON, and any other text, such as a JSON Patch, as YAML. YAML has
    // no surrogate pairs.
    let is_yaml = json.trim_start().starts_with('[');
    let mut lines = Lines::default();
    let mut rest = json;
    while let Some(c) = rest.chars().next() {
        let mut end = c.len_utf8();
        match c {
            '"' => {
                let mut texts = serde_json::Deserializer::from_str(rest).into_iter::<String>();
                let text = texts.next().transpose().map_err(bug)?.unwrap_or_default();
                end = texts.byte_offset();
                lines.token.push('"');
                for c in text.chars() {
                    push(&mut lines.token, c, is_yaml);
                }
                lines.token.push('"');
            }
            ' ' | '\n' | '\r' | '\t' => {}
            c => lines.token.push(c),
        }
        match c {
            '{' | '[' => lines.depth += 1,
            '}' | ']' => lines.depth = lines.depth.saturating_sub(1),
            _ => {}
        }
        if matches!(c, '{' | '[' | ',') {
            lines.end_token();
        }
        rest = &rest[end..];
    }
    lines.end_token();
    lines.end_line();
    Ok(lines.text)
}

fn push(token: &mut String, c: char, is_yaml: bool) {
    match c {
        '"' | '\\' | '\'' | '`' | '$' | '!' | '^' => {
            token.push_str(&format!("\\u{:04x}", u32::from(c)))
        }
        ' '..='~' => token.push(c),
        c if is_yaml && c > '\u{ffff}' => token.push_str(&format!("\\U{:08x}", u32::from(c))),
        c => {
            for unit in c.encode_utf16(&mut [0; 2]) {
                token.push_str(&format!("\\u{unit:04x}"));
            }
        }
    }
}

/// Fills lines with tokens.
#[derive(Default)]
struct Lines {
    text: String,
    line: String,
    /// The current token, which is never split: for example, a field with the comma after it.
    token: String,
    depth: usize,
}

// === impl Lines ===

impl Lines {
    fn end_token(&mut self) {
        if !self.line.is_empty() && self.line.len() + self.token.len() > COLUMNS {
            self.end_line();
        }
        self.line.push_str(&self.token);
        // Each operation of a JSON Patch starts a new line.
        if self.depth == 1 && self.token.ends_with("},") {
            self.end_line();
        }
        self.token.clear();
    }

    fn end_line(&mut self) {
        self.text.push_str(&self.line);
        self.text.push('\n');
        self.line.clear();
    }
}

#[cfg(test)]
#[allow(clippy::expect_used, reason = "a test that fails may panic")]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn lines_are_the_same_json() {
        let nasty = "it's \"quoted\" $HOME `id` $(id) \\ \\\\ \n\r\t\u{8}\u{c}\nEOF\n!! ^a^b \u{1b}[31m \u{9b} \
                     \u{7f} \u{202e} \u{2028} ü 🦀 %s";
        for value in [
            json!({nasty: nasty, "n": 9_007_199_254_740_993_i64, "f": -1.5e-7, "l": [null, true, {}, []]}),
            json!([nasty, "x".repeat(10_000), 1, [[]]]),
            json!("text"),
            json!(7),
        ] {
            for json in [value.to_string(), format!("{value:#}")] {
                let lines = lines(&json).expect("JSON");
                let read: Value =
                    serde_json::from_str(&lines.replace("\\U0001f980", "🦀")).expect("JSON");
                assert_eq!(read, value, "{lines}");
                let is_safe = |c: char| c == '\n' || matches!(c, ' '..='~') && !"'`$!^".contains(c);
                assert!(lines.chars().all(is_safe), "{lines}");
                assert!(
                    !lines.contains("\\\\") && !lines.contains("\\\""),
                    "{lines}"
                );
            }
        }
        assert_eq!(lines("[\"🦀\"]").expect("JSON"), "[\"\\U0001f980\"]\n");
        let escaped = "\"\\u00fc\\/\\ud83e\\udd80\"";
        assert_eq!(
            lines(escaped).expect("JSON"),
            "\"\\u00fc/\\ud83e\\udd80\"\n"
        );
    }

    #[test]
    fn lines_are_filled() {
        let long = json!({"a": "x".repeat(80), "b": "x".repeat(200), "c": [1, 2, 3]});
        let expected = format!(
            "{{\"a\":\"{}\",\n\"b\":\"{}\",\n\"c\":[1,2,3]}}\n",
            "x".repeat(80),
            "x".repeat(200)
        );
        assert_eq!(lines(&long.to_string()).expect("JSON"), expected);
        let patch = json!([{"op": "test", "value": {"a": 1}}, {"op": "add"}]);
        assert_eq!(
            lines(&patch.to_string()).expect("JSON"),
            "[{\"op\":\"test\",\"value\":{\"a\":1}},\n{\"op\":\"add\"}]\n"
        );
    }

    #[test]
    fn other_text_is_refused() {
        for text in ["", "'; touch pwned #", "{\"a\": 1} x", "\"\u{1b}\"", "{"] {
            assert!(lines(text).is_err(), "{text}");
        }
    }
}
