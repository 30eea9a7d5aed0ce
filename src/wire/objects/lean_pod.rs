//! Reads pods in JSON for a plan without a report, which depends on little more than the owner and phase of a pod.
//!
//! Other fields are only validated and not converted to a message. If anything is unusual, the full reader decides,
//! which reports errors.

use prost::Name as _;
use rollplan_core::snapshot::{ObjectMeta, OwnerReference, Pod};
use rollplan_core::time::Time;

use super::found::{Found, Members};
use super::transcode::shape::{Field, Json as Kind, Repeated, SHAPES, Seen, Shape};
use crate::proto;
use crate::wire::parse::lean_pod::{
    BYTES_MAX, OWNERS_MAX, is_usual_annotation, is_usual_label, lean_pod,
};
use crate::wire::plain_json::Json;

/// A pod with its owner and phase, and the number of bytes of its JSON. Its namespace is empty if the JSON has none.
/// `None` if anything is unusual.
pub(super) fn read_lean_pod(object: &Found<'_>) -> Option<(Pod, usize)> {
    let bytes: usize = object
        .fields()
        .filter(|field| field.name != "spec")
        .map(|field| field.text.len())
        .sum();
    let is_odd = bytes > BYTES_MAX || object.duplicate_key.is_some();
    if is_odd || (&*object.api_version, &*object.kind) != ("v1", "Pod") {
        return None;
    }
    let metadata = object.members("metadata")?;
    let metadata = read_metadata(&metadata)?;
    let shape = SHAPES.named(&proto::Pod::full_name())?;
    for name in ["spec", "status"] {
        if object.field(name).is_some() {
            let members = object.members(name)?;
            check_members(&members, shape.message(name)?)?;
        }
    }
    let status = object.members("status");
    let phase = match status.as_ref().and_then(|status| status.get("phase")) {
        None | Some("null") => "",
        Some(text) => Json::new(text).string()?,
    };
    Some((lean_pod(metadata, phase)?, bytes))
}

/// Reads the metadata that a plan needs.
fn read_metadata(members: &Members<'_>) -> Option<ObjectMeta> {
    check_members(members, SHAPES.named(&proto::ObjectMeta::full_name())?)?;
    let text = |name| match members.get(name) {
        None | Some("null") => Some(String::new()),
        Some(text) => Json::new(text).string().map(str::to_owned),
    };
    let mut metadata = ObjectMeta {
        name: text("name")?,
        namespace: text("namespace")?,
        uid: text("uid")?,
        ..ObjectMeta::default()
    };
    if let Some(labels) = members.get("labels") {
        check_map(labels, is_usual_label)?;
    }
    if let Some(annotations) = members.get("annotations") {
        check_map(annotations, |key, _| is_usual_annotation(key))?;
    }
    if let Some(owners) = members.get("ownerReferences").filter(|it| *it != "null") {
        let mut owners = Json::new(owners);
        owners.begin(b'[')?;
        while owners.has_next(b']')? {
            if metadata.owner_references.len() == OWNERS_MAX {
                return None;
            }
            metadata.owner_references.push(owner(&mut owners)?);
        }
    }
    Some(metadata)
}

/// Reads an owner that has been validated.
fn owner(json: &mut Json<'_>) -> Option<OwnerReference> {
    let mut owner = OwnerReference::default();
    json.begin(b'{')?;
    while json.has_next(b'}')? {
        match json.key()? {
            "apiVersion" => owner.api_version = json.string()?.to_owned(),
            "kind" => owner.kind = json.string()?.to_owned(),
            "name" => owner.name = json.string()?.to_owned(),
            "uid" => owner.uid = json.string()?.to_owned(),
            "controller" => owner.controller = flag(json.value()?),
            "blockOwnerDeletion" => owner.block_owner_deletion = flag(json.value()?),
            _ => _ = json.value()?,
        }
    }
    Some(owner)
}

fn flag(text: &str) -> Option<bool> {
    match text {
        "true" => Some(true),
        "false" => Some(false),
        _ => None,
    }
}

/// Checks that all entries of a map of strings are usual, and that its keys are sorted, as API servers print them.
fn check_map(text: &str, is_usual: impl Fn(&str, &str) -> bool) -> Option<()> {
    if text == "null" {
        return Some(());
    }
    let mut json = Json::new(text);
    let mut last = None;
    json.begin(b'{')?;
    while json.has_next(b'}')? {
        let key = json.key()?;
        // Values of annotations may contain escapes. In a label, an escape is unusual.
        let value = json.value()?;
        let value = value.strip_prefix('"')?.strip_suffix('"')?;
        if !is_usual(key, value) || last.is_some_and(|last| last >= key) {
            return None;
        }
        last = Some(key);
    }
    Some(())
}

/// Checks the types of the fields of a message.
fn check_members(members: &Members<'_>, shape: &Shape) -> Option<()> {
    let mut seen = Seen::default();
    for (name, text) in members.iter() {
        let Some(field) = shape.get(name) else {
            continue;
        };
        if !seen.add(field) {
            return None;
        }
        check(&mut Json::new(text), field, field.repeated)?;
    }
    Some(())
}

/// Checks the type of a value. `null` is absent.
fn check(json: &mut Json<'_>, field: &Field, repeated: Repeated) -> Option<()> {
    let first = json.peek()?;
    match (repeated, field.value) {
        _ if first == b'n' => _ = json.value()?,
        (Repeated::List, _) => {
            json.begin(b'[')?;
            while json.has_next(b']')? {
                check(json, field, Repeated::No)?;
            }
        }
        // The caller checks the entries.
        (Repeated::Map, _) if first == b'{' => _ = json.value()?,
        (Repeated::No, Kind::Text) if first == b'"' => _ = json.value()?,
        (Repeated::No, Kind::Bool) if matches!(first, b't' | b'f') => _ = json.value()?,
        (Repeated::No, Kind::Integer(..)) => {
            // No number of a pod is negative or has more digits.
            let text = json.value()?;
            let is_usual = text.len() <= 9 && text.bytes().all(|byte| byte.is_ascii_digit());
            return is_usual.then_some(());
        }
        (Repeated::No, Kind::Time) => return check_time(json.string()?),
        (Repeated::No, Kind::Message(shape)) => {
            let shape = SHAPES.at(shape);
            let mut seen = Seen::default();
            json.begin(b'{')?;
            while json.has_next(b'}')? {
                match shape.get(json.key()?) {
                    Some(field) if seen.add(field) => check(json, field, field.repeated)?,
                    Some(_) => return None,
                    None => _ = json.value()?,
                }
            }
        }
        _ => return None,
    }
    Some(())
}

/// A time in RFC 3339: in UTC with whole seconds, as Kubernetes prints it, or in any other form.
fn check_time(text: &str) -> Option<()> {
    if is_whole_second(text) {
        return Some(());
    }
    let time: prost_types::Timestamp = text.parse().ok()?;
    Time::new(time.seconds, u32::try_from(time.nanos).ok()?)?;
    // The parser also accepts a date without a time, which is invalid here.
    (text.len() >= "2026-01-31T12:00:00Z".len()).then_some(())
}

/// Whether the text is a time such as "2026-01-31T12:00:00Z". This fast check does not accept 29 February.
fn is_whole_second(text: &str) -> bool {
    let Ok(text) = <&[u8; 20]>::try_from(text.as_bytes()) else {
        return false;
    };
    let two = |at: usize| match (text[at], text[at + 1]) {
        (tens @ b'0'..=b'9', ones @ b'0'..=b'9') => (tens - b'0') * 10 + (ones - b'0'),
        _ => u8::MAX,
    };
    let [century, year, month, day, hour, minute, second] = [0, 2, 5, 8, 11, 14, 17].map(two);
    let days = match month {
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    };
    (century, year) != (0, 0)
        && century < 100
        && year < 100
        && (1..=12).contains(&month)
        && (1..=days).contains(&day)
        && hour < 24
        && minute < 60
        && second < 60
        && [4, 7, 10, 13, 16, 19].map(|at| text[at]) == *b"--T::Z"
}

#[cfg(test)]
mod tests {
    use super::super::scan;
    use super::super::transcode::Transcoder;
    use super::*;
    use crate::wire::error::Violations;
    use crate::wire::parse::lean_pod;
    use crate::wire::random::Random;

    #[test]
    fn times_are_distinguished_from_other_text() {
        for text in [
            "2026-01-31T12:00:00Z",
            "0001-12-01T00:00:00Z",
            "9999-11-30T23:59:59Z",
        ] {
            assert!(is_whole_second(text), "{text}");
            assert!(check_time(text).is_some(), "{text}");
        }
        for text in [
            "",
            "2026-01-31",
            "0000-01-31T12:00:00Z",
            "2026-00-31T12:00:00Z",
            "2026-13-31T12:00:00Z",
            "2026-04-31T12:00:00Z",
            "2026-02-30T12:00:00Z",
            "2026-01-00T12:00:00Z",
            "2026-01-31T24:00:00Z",
            "2026-01-31T12:60:00Z",
            "2026-01-31 12:00:0xZ",
            "2026-01-31T12:00:00ü",
        ] {
            assert!(!is_whole_second(text), "{text}");
            assert!(check_time(text).is_none(), "{text}");
        }
        for text in ["2028-02-29T12:00:00Z", "2026-01-31T12:00:00.25+01:00"] {
            assert!(!is_whole_second(text), "{text}");
            assert!(check_time(text).is_some(), "{text}");
        }
    }

    /// The pod that is read from the transcoded message. `None` if that is invalid or unusual.
    fn read_message(object: &Found<'_>) -> Option<Pod> {
        let transcoded = Transcoder::default().message(
            &proto::Pod::full_name(),
            &object.api_version,
            &object.kind,
            object.fields(),
        );
        lean_pod::read_lean_pod(&transcoded.ok()?.bytes)
    }

    #[test]
    fn lean_reader_agrees_with_the_message() {
        let saved = include_str!("../../../examples/stuck-crash-loop.json");
        let saved: serde_json::Value = serde_json::from_str(saved).unwrap();
        let pods = saved["items"].as_array().unwrap().iter();
        let pods = pods.filter(|item| item["kind"] == "Pod");
        let texts: Vec<String> = pods
            .map(|pod| {
                let mut pod = pod.clone();
                // The spec is most of a pod, and is skipped.
                pod["spec"] = serde_json::json!({"nodeName": "node", "priority": 0});
                pod["metadata"]["annotations"] = serde_json::json!({"a": "\"ü", "b/C": ""});
                pod.to_string()
            })
            .collect();
        let mut random = Random(1);
        let mut below = |end: usize| random.below(end);
        let words = [
            "null",
            "true",
            "0",
            "-1",
            "1.5",
            "1e3",
            "\"\"",
            "\"a\"",
            "{}",
            "[]",
            "[null]",
            "\\u0061",
            "2147483648",
            "A",
            "é",
            " ",
            "9",
            "\"2026-01-31T12:00:00Z\"",
        ];
        let mut read = 0;
        for round in 0..40_000 {
            let mut text = texts[below(texts.len())].clone();
            if round > 100 {
                // Replaces a value or a part of one.
                let at = text.floor_char_boundary(below(text.len()));
                let end = match below(3) {
                    0 => at,
                    1 => text.ceil_char_boundary(at + 1),
                    _ => {
                        let rest = text[at..].find([',', '}', ']', ':']);
                        rest.map_or(at, |length| at + length)
                    }
                };
                text.replace_range(at..end, words[below(words.len())]);
            }
            let (mut found, mut violations) = (Vec::new(), Violations::default());
            scan(0, text.as_bytes(), &mut found, &mut violations).unwrap();
            let [object] = found.as_slice() else {
                continue;
            };
            let Some((pod, _)) = read_lean_pod(object) else {
                assert!(round > 100, "{text}");
                continue;
            };
            read += 1;
            assert_eq!(Some(pod), read_message(object), "{text}");
        }
        assert!(read > 5_000, "{read}");
    }
}
