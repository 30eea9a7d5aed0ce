//! Parses YAML into JSON values as Kubernetes does, including the types of plain scalars (sigs.k8s.io/yaml).
//!
//! The rules are those of YAML 1.1 in go-yaml: `on` and `yes` are true, and `0644` is octal. A file means the same here
//! as for `kubectl apply`.

use std::collections::HashMap;

use saphyr_parser::{Event, Parser, ScalarStyle, ScanError, Span, StrInput, Tag};
use serde_json::map::Entry;
use serde_json::{Map, Number, Value};

/// A syntax error and its position.
#[derive(Debug)]
pub(crate) struct YamlFault {
    /// The line, starting at 1.
    pub(crate) line: usize,
    /// The column, starting at 1.
    pub(crate) column: Option<usize>,
    pub(crate) text: String,
}

/// The maximum depth, as in serde_json.
const DEPTH_MAX: usize = 128;
/// 2^53: smaller integers are exact as a double.
const EXACT_MAX: f64 = 9_007_199_254_740_992.0;
/// The maximum number of values from aliases: a few lines of aliases can expand to billions of values.
const ALIASED_VALUES_MAX: usize = 1_000_000;

/// Parses all documents of a text.
pub(crate) fn read(text: &str, documents: &mut Vec<Value>) -> Result<(), YamlFault> {
    let mut reader = Reader::new(text)?;
    loop {
        match reader.next()? {
            (Event::StreamEnd, _) => return Ok(()),
            (Event::DocumentStart(_), _) => {
                let first = reader.next()?;
                documents.push(reader.value(first, 0)?);
            }
            // The start and end of the stream and of documents.
            _ => {}
        }
    }
}

/// Converts all documents of a text to JSON without building trees, so that memory is linear in the text. For this reason,
/// aliases are rejected.
pub(crate) fn to_json(text: &str) -> Result<Vec<String>, YamlFault> {
    let mut reader = Reader::new(text)?;
    let mut documents = Vec::new();
    loop {
        match reader.next()? {
            (Event::StreamEnd, _) => break,
            (Event::DocumentStart(_), _) => {
                let mut json = String::new();
                let first = reader.next()?;
                reader.write(first, 0, &mut json)?;
                documents.push(json);
            }
            _ => {}
        }
    }
    documents.retain(|json| json != "null");
    Ok(documents)
}

struct Reader<'a> {
    events: Parser<'a, StrInput<'a>>,
    anchors: HashMap<usize, Value>,
    aliased: usize,
}

impl<'a> Reader<'a> {
    fn new(text: &'a str) -> Result<Self, YamlFault> {
        check_characters(text)?;
        Ok(Self {
            events: Parser::new_from_str(text),
            anchors: HashMap::new(),
            aliased: 0,
        })
    }

    fn next(&mut self) -> Result<(Event<'a>, Span), YamlFault> {
        match self.events.next() {
            Some(event) => event.map_err(|error| scan_fault(&error)),
            None => Ok((Event::StreamEnd, Span::default())),
        }
    }

    /// Parses the value that starts with this event.
    fn value(
        &mut self,
        (event, span): (Event<'a>, Span),
        depth: usize,
    ) -> Result<Value, YamlFault> {
        if depth > DEPTH_MAX {
            let text = format!("more than {DEPTH_MAX} levels deep");
            return Err(fault(&span, text));
        }
        let (anchor, value) = match event {
            Event::Scalar(text, style, anchor, tag) => {
                let value = scalar(&text, style, tag.as_deref());
                (anchor, value.map_err(|text| fault(&span, text))?)
            }
            Event::SequenceStart(anchor, tag) => {
                collection_tag(tag.as_deref(), "seq").map_err(|text| fault(&span, text))?;
                (anchor, self.list(depth)?)
            }
            Event::MappingStart(anchor, tag) => {
                collection_tag(tag.as_deref(), "map").map_err(|text| fault(&span, text))?;
                (anchor, self.map(depth)?)
            }
            Event::Alias(anchor) => return self.alias(anchor, &span, depth),
            Event::Nothing
            | Event::StreamStart
            | Event::StreamEnd
            | Event::DocumentStart(_)
            | Event::DocumentEnd
            | Event::SequenceEnd
            | Event::MappingEnd => return Ok(Value::Null),
        };
        if anchor > 0 {
            self.anchors.insert(anchor, value.clone());
        }
        Ok(value)
    }

    fn list(&mut self, depth: usize) -> Result<Value, YamlFault> {
        let mut items = Vec::new();
        loop {
            match self.next()? {
                (Event::SequenceEnd | Event::StreamEnd, _) => return Ok(Value::Array(items)),
                event => items.push(self.value(event, depth + 1)?),
            }
        }
    }

    fn map(&mut self, depth: usize) -> Result<Value, YamlFault> {
        let mut entries = Map::new();
        loop {
            let (event, span) = self.next()?;
            let key = match event {
                Event::MappingEnd | Event::StreamEnd => return Ok(Value::Object(entries)),
                Event::Scalar(text, style, anchor, tag) => {
                    let key = key(&text, style, tag.as_deref());
                    let key = key.map_err(|text| fault(&span, text))?;
                    if anchor > 0 {
                        self.anchors.insert(anchor, Value::String(key.clone()));
                    }
                    key
                }
                _ => return Err(fault(&span, "a key that is not a string")),
            };
            let first = self.next()?;
            let value = self.value(first, depth + 1)?;
            match entries.entry(key) {
                Entry::Vacant(entry) => entry.insert(value),
                Entry::Occupied(entry) => {
                    return Err(fault(&span, format!("duplicate key {:?}", entry.key())));
                }
            };
        }
    }

    /// Writes the value that starts with this event as JSON.
    fn write(
        &mut self,
        (event, span): (Event<'a>, Span),
        depth: usize,
        json: &mut String,
    ) -> Result<(), YamlFault> {
        if depth > DEPTH_MAX {
            return Err(fault(&span, format!("more than {DEPTH_MAX} levels deep")));
        }
        match event {
            Event::Scalar(text, style, _, tag) => {
                let value = scalar(&text, style, tag.as_deref());
                let value = value.map_err(|text| fault(&span, text))?;
                json.push_str(&value.to_string());
            }
            Event::SequenceStart(_, tag) => {
                collection_tag(tag.as_deref(), "seq").map_err(|text| fault(&span, text))?;
                json.push('[');
                loop {
                    match self.next()? {
                        (Event::SequenceEnd | Event::StreamEnd, _) => break,
                        event => {
                            separate(json, '[');
                            self.write(event, depth + 1, json)?;
                        }
                    }
                }
                json.push(']');
            }
            Event::MappingStart(_, tag) => {
                collection_tag(tag.as_deref(), "map").map_err(|text| fault(&span, text))?;
                json.push('{');
                loop {
                    let (event, span) = self.next()?;
                    let name = match event {
                        Event::MappingEnd | Event::StreamEnd => break,
                        Event::Scalar(text, style, _, tag) => {
                            let key = key(&text, style, tag.as_deref());
                            key.map_err(|text| fault(&span, text))?
                        }
                        _ => return Err(fault(&span, "a key that is not a string")),
                    };
                    separate(json, '{');
                    json.push_str(&Value::String(name).to_string());
                    json.push(':');
                    let first = self.next()?;
                    self.write(first, depth + 1, json)?;
                }
                json.push('}');
            }
            Event::Alias(_) => return Err(fault(&span, "aliases are not supported")),
            _ => json.push_str("null"),
        }
        Ok(())
    }

    fn alias(&mut self, anchor: usize, span: &Span, depth: usize) -> Result<Value, YamlFault> {
        let value = self.anchors.get(&anchor);
        // An anchor is registered once its value is complete, so a value cannot contain itself.
        let value = value.ok_or_else(|| fault(span, "an alias that contains itself"))?;
        let (values, levels) = measure(value);
        self.aliased = self.aliased.saturating_add(values);
        if self.aliased > ALIASED_VALUES_MAX {
            let text = format!("aliases add up to more than {ALIASED_VALUES_MAX} values");
            return Err(fault(span, text));
        }
        if depth + levels > DEPTH_MAX {
            return Err(fault(span, format!("more than {DEPTH_MAX} levels deep")));
        }
        Ok(value.clone())
    }
}

/// Adds a comma, unless the list or map that began last is empty.
fn separate(json: &mut String, begin: char) {
    if !json.ends_with(begin) {
        json.push(',');
    }
}

/// The number of values in a value, and its depth.
fn measure(value: &Value) -> (usize, usize) {
    let parts: Vec<&Value> = match value {
        Value::Array(items) => items.iter().collect(),
        Value::Object(entries) => entries.values().collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => return (1, 0),
    };
    parts
        .into_iter()
        .map(measure)
        .fold((1, 0), |(sum, deepest), (values, levels)| {
            (sum + values, deepest.max(levels + 1))
        })
}

/// Rejects the characters that YAML excludes and go-yaml rejects. saphyr accepts them.
fn check_characters(text: &str) -> Result<(), YamlFault> {
    let is_excluded = |c: char| match c {
        '\t' | '\n' | '\r' | '\u{85}' => false,
        '\u{fffe}' | '\u{ffff}' => true,
        _ => c.is_control(),
    };
    let Some(at) = text.find(is_excluded) else {
        return Ok(());
    };
    let before = &text[..at];
    let line = before.rsplit('\n').next().unwrap_or_default();
    Err(YamlFault {
        line: before.matches('\n').count() + 1,
        column: Some(line.chars().count() + 1),
        text: "control characters are not allowed".to_owned(),
    })
}

fn scan_fault(error: &ScanError) -> YamlFault {
    YamlFault {
        line: error.marker().line(),
        column: Some(error.marker().col() + 1),
        text: error.info().to_owned(),
    }
}

fn fault(span: &Span, text: impl Into<String>) -> YamlFault {
    YamlFault {
        line: span.start.line(),
        column: Some(span.start.col() + 1),
        text: text.into(),
    }
}

/// Checks a tag of a collection: only the redundant ones are allowed.
fn collection_tag(tag: Option<&Tag>, kind: &str) -> Result<(), String> {
    match tag {
        None => Ok(()),
        Some(tag) if tag.is_yaml_core_schema() && tag.suffix == kind => Ok(()),
        Some(tag) => Err(unknown_tag(tag)),
    }
}

fn unknown_tag(tag: &Tag) -> String {
    format!("the tag {}{} is not supported", tag.handle, tag.suffix)
}

fn scalar(text: &str, style: ScalarStyle, tag: Option<&Tag>) -> Result<Value, String> {
    let kind = match tag {
        None if style == ScalarStyle::Plain => None,
        None => Some("str"),
        Some(tag) if tag.is_yaml_core_schema() => Some(tag.suffix.as_str()),
        Some(tag) if tag.handle.is_empty() && tag.suffix == "!" => Some("str"),
        Some(tag) => return Err(unknown_tag(tag)),
    };
    let value = plain(text)?;
    let fits = match kind {
        Some("str") => return Ok(Value::String(text.to_owned())),
        None => true,
        Some("null") => value.is_null(),
        Some("bool") => value.is_boolean(),
        Some("int") => value.is_i64() || value.is_u64(),
        Some("float") => value.is_number(),
        Some(kind) => return Err(format!("the tag !!{kind} is not supported")),
    };
    if !fits {
        return Err(format!("{text:?} does not match its tag"));
    }
    Ok(value)
}

/// Keys must be strings. Kubernetes converts other scalars to strings: they are accepted if both write them the same
/// way.
fn key(text: &str, style: ScalarStyle, tag: Option<&Tag>) -> Result<String, String> {
    if style == ScalarStyle::Plain && tag.is_none() && text == "<<" {
        return Err("merge keys (<<) are not supported".to_owned());
    }
    let value = scalar(text, style, tag)?;
    if let Value::String(key) = value {
        return Ok(key);
    }
    let key = value.to_string();
    if key == text {
        Ok(key)
    } else {
        Err(format!(
            "the key {text} must be quoted: without quotes, it is not a string"
        ))
    }
}

/// The value of a plain scalar, as go-yaml's `resolve` has it. Timestamps are strings.
fn plain(text: &str) -> Result<Value, String> {
    Ok(match text {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => {
            Value::Bool(true)
        }
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            Value::Bool(false)
        }
        ".nan" | ".NaN" | ".NAN" | ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF"
        | "-.inf" | "-.Inf" | "-.INF" => {
            return Err(format!("{text} is not a number in JSON"));
        }
        _ if text.starts_with(['+', '-', '.'])
            || text.starts_with(|c: char| c.is_ascii_digit()) =>
        {
            match number(&text.replace('_', "")) {
                Some(number) => Value::Number(number),
                None => Value::String(text.to_owned()),
            }
        }
        _ => Value::String(text.to_owned()),
    })
}

fn number(text: &str) -> Option<Number> {
    let (negative, digits) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    if let Some(size) = integer(digits) {
        return if negative {
            i64::try_from(-i128::from(size)).ok().map(Number::from)
        } else {
            Some(Number::from(size))
        };
    }
    // Rust parses the same texts as go-yaml, and names such as `inf`, which `from_f64` rejects.
    let value: f64 = text.parse().ok()?;
    // Go writes a double without a fraction as an integer: `1e3` is 1000. A number beyond 64 bits becomes the nearest
    // double, and is rejected where an integer is required.
    if value.fract() == 0.0 && value.abs() < EXACT_MAX {
        #[allow(clippy::cast_possible_truncation, reason = "less than 2^53")]
        return Some(Number::from(value as i64));
    }
    Number::from_f64(value)
}

/// Parses digits in one of four bases. `None` beyond 64 bits.
fn integer(digits: &str) -> Option<u64> {
    let (digits, radix) = match digits.as_bytes() {
        [b'0', b'x' | b'X', ..] => (&digits[2..], 16),
        [b'0', b'o' | b'O', ..] => (&digits[2..], 8),
        [b'0', b'b' | b'B', ..] => (&digits[2..], 2),
        [b'0', _, ..] => (&digits[1..], 8),
        _ => (digits, 10),
    };
    // `from_str_radix` would accept a sign.
    if digits.starts_with(['+', '-']) {
        return None;
    }
    u64::from_str_radix(digits, radix).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parse(text: &str) -> Result<Value, String> {
        let mut documents = Vec::new();
        match read(text, &mut documents) {
            Ok(()) => Ok(documents.remove(0)),
            Err(fault) => Err(fault.text),
        }
    }

    #[test]
    fn numbers_are_those_of_go_yaml() {
        for (text, expected) in [
            ("1e3", json!(1000)),
            ("-1.5E+1", json!(-15)),
            (".5", json!(0.5)),
            ("1_0.5", json!(10.5)),
            ("9007199254740991.0", json!(9_007_199_254_740_991_i64)),
            ("9007199254740992.0", json!(9_007_199_254_740_992.0)),
            ("!!int -5", json!(-5)),
            ("!!int 18446744073709551615", json!(u64::MAX)),
            ("!!float 5", json!(5)),
        ] {
            assert_eq!(parse(text), Ok(expected), "{text}");
        }
        for text in [
            "_1",
            "+inf",
            "-nan",
            "+infinity",
            "1e999",
            "1.2.3",
            "1e",
            "1e+",
            "1.5e5.",
            "+-5",
            ".",
            "-.",
            ".e5",
        ] {
            assert_eq!(parse(text), Ok(json!(text)));
        }
    }

    #[test]
    fn redundant_tags_are_accepted_and_others_rejected() {
        for (text, expected) in [
            ("!!seq [1]", json!([1])),
            ("!!map {a: 1}", json!({"a": 1})),
            ("! 5", json!("5")),
            ("!!bool on", json!(true)),
        ] {
            assert_eq!(parse(text), Ok(expected), "{text}");
        }
        for text in [
            "!foo 5",
            "!<foo> 5",
            "!foo [1]",
            "!!set [1]",
            "!!map [1]",
            "!!seq {a: 1}",
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.ends_with(" is not supported"), "{text}: {error}");
        }
        assert_eq!(
            parse("!!int 1.5"),
            Err("\"1.5\" does not match its tag".to_owned())
        );
    }

    #[test]
    fn json_has_the_same_values() {
        let text = "a: [1, 0o7, 'it''s', {b: ~}, [], {}]\nc: |\n  x\n  [\n'[': \"{\"\n";
        let json = to_json(text).unwrap().remove(0);
        assert_eq!(serde_json::from_str(&json).ok(), parse(text).ok(), "{json}");
        for (text, expected) in [
            ("a: &a 1\nb: *a", "aliases are not supported"),
            ("[1]: 2", "a key that is not a string"),
            ("a: !foo 5", "the tag !foo is not supported"),
        ] {
            let fault = to_json(text).unwrap_err();
            assert_eq!(fault.text, expected, "{text}");
        }
        let nested = |levels: usize| "[".repeat(levels) + &"]".repeat(levels);
        assert!(to_json(&nested(DEPTH_MAX + 1)).is_ok());
        assert!(to_json(&nested(DEPTH_MAX + 2)).is_err());
    }

    #[test]
    fn control_characters_are_rejected() {
        for (text, line, column) in [
            ("\u{18}", 1, 1),
            ("a: 1\nb: ü\u{1b}[2J", 2, 5),
            ("\na: \u{0}", 2, 4),
            ("a: '\u{7f}'", 1, 5),
            ("# \u{9f}\na: 1", 1, 3),
            ("a: \u{ffff}", 1, 4),
        ] {
            let fault = to_json(text).unwrap_err();
            assert_eq!((fault.line, fault.column), (line, Some(column)), "{text:?}");
            assert_eq!(fault.text, "control characters are not allowed");
            assert!(read(text, &mut Vec::new()).is_err(), "{text:?}");
        }
        assert_eq!(
            parse("a:\t\"\\e\u{85}\u{a0}😀\"\r\n"),
            Ok(json!({"a": "\u{1b}\u{85}\u{a0}😀"}))
        );
    }

    #[test]
    fn keys_may_be_anchors_and_quoted_merge_signs() {
        assert_eq!(
            parse("{&k key: 1, b: *k, \"<<\": 2}"),
            Ok(json!({"key": 1, "b": "key", "<<": 2}))
        );
    }

    #[test]
    fn depth_is_limited_in_lists_maps_and_aliases() {
        let nested = |open: &str, levels: usize, value: &str, close: &str| {
            format!("{}{value}{}", open.repeat(levels), close.repeat(levels))
        };
        let hundred = nested("[", 100, "x", "]");
        let texts = |levels: usize| {
            [
                format!("a: {}", nested("[", levels, "x", "]")),
                format!("a: {}", nested("{b: ", levels, "x", "}")),
                format!(
                    "a: &a {hundred}\nb: {}",
                    nested("[", levels - 100, "*a", "]")
                ),
            ]
        };
        for text in texts(DEPTH_MAX - 1) {
            assert!(parse(&text).is_ok(), "{text}");
        }
        for text in texts(DEPTH_MAX) {
            let expected = "more than 128 levels deep".to_owned();
            assert_eq!(parse(&text), Err(expected), "{text}");
        }
    }

    #[test]
    fn values_of_aliases_are_limited() {
        // A list is a value, too.
        let thousand = ["0"; 999].join(",");
        let text = |aliases: usize| {
            let aliases = vec!["*a"; aliases].join(",");
            format!("a: &a [{thousand}]\nb: [{aliases}]")
        };
        let most = ALIASED_VALUES_MAX / 1000;
        assert!(parse(&text(most)).is_ok());
        assert_eq!(
            parse(&text(most + 1)),
            Err("aliases add up to more than 1000000 values".to_owned())
        );
    }

    #[test]
    fn depth_of_converted_documents_is_limited() {
        let nested = |levels: usize| {
            let [list, map] = [("[", "]"), ("{b: ", "}")]
                .map(|(open, close)| format!("{}x{}", open.repeat(levels), close.repeat(levels)));
            [list, map]
        };
        for text in nested(DEPTH_MAX) {
            assert!(to_json(&text).is_ok(), "{text}");
        }
        for text in nested(DEPTH_MAX + 1) {
            let fault = to_json(&text).map_err(|fault| fault.text);
            assert_eq!(fault, Err("more than 128 levels deep".to_owned()), "{text}");
        }
    }

    #[test]
    fn numbers_may_have_a_sign() {
        for (text, expected) in [
            ("+5", 5),
            ("-5", -5),
            ("+0x10", 16),
            ("-0x10", -16),
            ("+0o17", 15),
        ] {
            assert_eq!(parse(text), Ok(Value::from(expected)), "{text}");
        }
    }
}
