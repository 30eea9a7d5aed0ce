//! Transcodes JSON that is formatted like that of API servers, several times faster than the exact reader.

use prost::Message;
use prost::encoding::{WireType, encode_varint};

use super::Transcoder;
use super::shape::{Field, Json as Kind, Repeated, SHAPES, Seen};
use crate::wire::objects::time;
use crate::wire::plain_json::Json;

impl<'de> Transcoder<'de> {
    /// Writes the value of a field. If it returns `None`, the value may be partially written, and the exact reader is
    /// needed.
    pub(super) fn plain_field(&mut self, field: &Field, text: &'de str) -> Option<()> {
        let mut json = Json::new(text);
        // `null` is absent.
        match json.peek()? {
            b'n' => _ = json.value()?,
            _ => self.plain_value(&mut json, field, field.repeated)?,
        }
        json.end()
    }

    fn plain_value(
        &mut self,
        json: &mut Json<'de>,
        field: &Field,
        repeated: Repeated,
    ) -> Option<()> {
        match (repeated, field.value) {
            (Repeated::List, _) => {
                json.begin(b'[')?;
                while json.has_next(b']')? {
                    self.plain_value(json, field, Repeated::No)?;
                }
            }
            (Repeated::Map, _) => self.plain_map(json, field)?,
            (Repeated::No, Kind::Text) => self.bytes(field.number, json.any_string()?.as_bytes()),
            (Repeated::No, Kind::Bool) => {
                let value = match json.value()? {
                    "true" => 1,
                    "false" => 0,
                    _ => return None,
                };
                self.varint(field.number, value);
            }
            (Repeated::No, Kind::Integer(min, max)) => {
                let text = json.value()?;
                let value: i64 = text.parse().ok()?;
                // A negative zero is a float.
                if text == "-0" || !(min..=max).contains(&value) {
                    return None;
                }
                self.varint(field.number, value);
            }
            (Repeated::No, Kind::Time) => {
                let time = time::parse(json.string()?)?;
                self.bytes(field.number, &time.encode_to_vec());
            }
            (Repeated::No, Kind::IntOrPercent) => {
                let start = self.open(field.number);
                self.bytes(3, json.string()?.as_bytes());
                self.close(start);
            }
            (Repeated::No, Kind::Message(shape)) => self.plain_message(json, field, shape)?,
            (Repeated::No, Kind::Template) => return None,
        }
        Some(())
    }

    /// Writes a map of strings. Its keys must be sorted, as API servers print them, so that none occurs twice.
    fn plain_map(&mut self, json: &mut Json<'de>, field: &Field) -> Option<()> {
        let mut last = None;
        json.begin(b'{')?;
        while json.has_next(b'}')? {
            let key = json.key()?;
            if last.is_some_and(|last| last >= key) {
                return None;
            }
            let start = self.open(field.number);
            self.bytes(1, key.as_bytes());
            self.bytes(2, json.any_string()?.as_bytes());
            self.close(start);
            last = Some(key);
        }
        Some(())
    }

    fn plain_message(&mut self, json: &mut Json<'de>, field: &Field, shape: usize) -> Option<()> {
        let start = self.open(field.number);
        let shape = SHAPES.at(shape);
        let mut seen = Seen::default();
        json.begin(b'{')?;
        while json.has_next(b'}')? {
            let Some(inner) = shape.get(json.key()?) else {
                json.value()?;
                continue;
            };
            if !seen.add(inner) {
                return None;
            }
            match json.peek()? {
                b'n' => _ = json.value()?,
                _ => self.plain_value(json, inner, inner.repeated)?,
            }
        }
        self.close(start);
        Some(())
    }

    fn varint(&mut self, number: u32, value: i64) {
        self.key(number, WireType::Varint);
        encode_varint(value as u64, &mut self.out);
    }
}

#[cfg(test)]
mod tests {
    use prost::Name as _;
    use serde::de::DeserializeSeed as _;
    use serde_json::{Value as Json, json};

    use super::super::Value;
    use super::*;
    use crate::proto;
    use crate::wire::random::Random;

    /// What the plain and the exact reader write for a field. `None` if a reader refuses the text. Both together write
    /// what the exact reader does.
    fn written(field: &'static Field, text: &str) -> [Option<Vec<u8>>; 2] {
        let mut plain = Transcoder::default();
        let is_plain = plain.plain_field(field, text).is_some();
        let mut exact = Transcoder::default();
        let writer = Value {
            to: &mut exact,
            field,
            repeated: field.repeated,
        };
        let mut json = serde_json::Deserializer::from_str(text);
        let is_exact = writer.deserialize(&mut json).is_ok() && json.end().is_ok();
        let exact = is_exact.then_some(exact.out);
        let mut both = Transcoder::default();
        let is_read = both.field(field, text).is_ok();
        if let Some(exact) = &exact {
            assert!(is_read && both.out == *exact, "{text}");
        }
        [is_plain.then_some(plain.out), exact]
    }

    /// The fields of the objects of an example, with their texts.
    fn fields() -> Vec<(&'static Field, String)> {
        let saved = include_str!("../../../../examples/stuck-crash-loop.json");
        let saved: Json = serde_json::from_str(saved).unwrap();
        let items = saved["items"].as_array().unwrap().iter();
        let fields = items.flat_map(|item| {
            let message = match item["kind"].as_str() {
                Some("Deployment") => proto::Deployment::full_name(),
                Some("ReplicaSet") => proto::ReplicaSet::full_name(),
                Some("Pod") => proto::Pod::full_name(),
                kind => panic!("{kind:?}"),
            };
            let shape = SHAPES.named(&message).unwrap();
            ["metadata", "spec", "status"].map(|name| {
                let mut value = item[name].clone();
                // Templates have a reader of their own.
                value.as_object_mut().unwrap().remove("template");
                (shape.get(name).unwrap(), value.to_string())
            })
        });
        fields.collect()
    }

    #[test]
    fn plain_reader_agrees_with_the_exact_reader() {
        let fields = fields();
        for (field, text) in &fields {
            let [plain, exact] = written(field, text);
            assert!(plain.is_some(), "{text}");
            assert_eq!(plain, exact, "{text}");
        }
        let mut random = Random(1);
        let mut below = |end: usize| random.below(end);
        let words = [
            "null",
            "true",
            "-0",
            "-1",
            "1.0",
            "1e3",
            "\"\"",
            "\"25%\"",
            "{}",
            "[]",
            "[null]",
            "\\u0061",
            "\\ud800",
            "9999999999",
            " ",
            "9",
            "\"2026-01-31T12:00:00Z\"",
            "\"name\":\"a\",",
            "\"replicas\":1,",
            "\"a\":\"b\",",
        ];
        let mut read = 0;
        for _ in 0..60_000 {
            let (field, text) = &fields[below(fields.len())];
            let mut text = text.clone();
            for _ in 0..=below(2) {
                let at = text.floor_char_boundary(below(text.len()));
                // Keys and values start and end at these.
                let rest = text[at..].find(['{', ',', '}', ']', ':']);
                let start = at + rest.unwrap_or(0);
                let start = text.ceil_char_boundary(start + below(2)).min(text.len());
                let rest = text[start..].find([',', '}', ']', ':']);
                let end = match below(2) {
                    0 => start,
                    _ => rest.map_or(start, |length| start + length),
                };
                text.replace_range(start..end, words[below(words.len())]);
            }
            let [plain, exact] = written(field, &text);
            if plain.is_some() {
                read += 1;
                assert_eq!(plain, exact, "{text}");
            }
        }
        assert!(read > 3_000, "{read}");
    }

    #[test]
    fn unusual_values_are_not_read() {
        let shape = SHAPES.named(&proto::Deployment::full_name()).unwrap();
        let metadata = shape.get("metadata").unwrap();
        let usual =
            json!({"name": "a", "labels": {"a": "1", "b": "2"}, "generation": 3}).to_string();
        assert!(written(metadata, &usual)[0].is_some());
        for unusual in [
            r#"{"name":"a","name":"a"}"#,
            r#"{"labels":{"b":"2","a":"1"}}"#,
            r#"{"labels":{"a":"1","a":"1"}}"#,
            r#"{"labels":{"a":null}}"#,
            r#"{"generation":-0}"#,
            r#"{"generation":9223372036854775808}"#,
            r#"{"name":7}"#,
            r#"{"name":"a"} 7"#,
            "[]",
        ] {
            assert_eq!(written(metadata, unusual)[0], None, "{unusual}");
        }
        let spec = shape.get("spec").unwrap();
        assert_eq!(written(spec, r#"{"replicas":2147483648}"#)[0], None);
    }
}
