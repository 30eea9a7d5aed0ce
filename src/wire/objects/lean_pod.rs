//! Reads pods in JSON for a plan without a report, which depends on little more than the owner and phase of a pod.
//!
//! Pods are read while their text is scanned. Other fields are only validated and not converted to a message. If
//! anything is unusual, the full reader decides, which reports errors.

use prost::Name as _;
use rollplan_core::snapshot::{ObjectMeta, OwnerReference, Pod};
use rollplan_core::time::Time;

use super::time;
use super::transcode::shape::{Field, Json as Kind, Repeated, SHAPES, Seen, Shape};
use crate::proto;
use crate::wire::parse::lean_pod::{OWNERS_MAX, is_usual_annotation, is_usual_label, lean_pod};
use crate::wire::plain_json::Json;

/// The fields of a pod that are read.
const FIELDS: [&str; 3] = ["metadata", "spec", "status"];

/// The data of a pod that decides a plan. A text is empty if the pod does not have it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LeanPod<'a> {
    has_metadata: bool,
    pub(super) name: &'a str,
    pub(super) namespace: &'a str,
    pub(super) uid: &'a str,
    phase: &'a str,
    /// The list of owners.
    owners: &'a str,
    /// The UID of its controller.
    pub(super) controller: Option<&'a str>,
}

/// Reads the pods of a text.
#[derive(Debug)]
pub(super) struct LeanPodReader<'a> {
    /// The messages in [`FIELDS`].
    messages: [Message<'a>; FIELDS.len()],
}

/// A message of pods.
#[derive(Debug)]
struct Message<'a> {
    shape: &'static Shape,
    /// The entries of the last pod, and their data. Most pods have the same keys in the same order, and many of the same
    /// values.
    last: (Vec<Entry<'a>>, LeanPod<'a>),
}

/// A valid entry of an object.
#[derive(Clone, Copy, Debug)]
struct Entry<'a> {
    text: &'a str,
    key: &'a str,
    /// `None` for entries that are not read.
    field: Option<&'static Field>,
}

// === impl LeanPodReader ===

impl<'a> LeanPodReader<'a> {
    /// `None` if the contract does not have the messages.
    pub(super) fn new() -> Option<Self> {
        let pod = SHAPES.named(&proto::Pod::full_name())?;
        let [metadata, spec, status] = FIELDS.map(|name| {
            Some(Message {
                shape: pod.message(name)?,
                last: Default::default(),
            })
        });
        Some(Self {
            messages: [metadata?, spec?, status?],
        })
    }

    /// Reads the object in a field of a pod, and returns its text. `None` if anything is unusual.
    pub(super) fn read(
        &mut self,
        name: &str,
        json: &mut Json<'a>,
        pod: &mut LeanPod<'a>,
    ) -> Option<&'a str> {
        let message = FIELDS.iter().position(|known| *known == name)?;
        let Message { shape, last } = &mut self.messages[message];
        // If anything is unusual, the next pod is not compared.
        let (mut entries, last_pod) = std::mem::take(last);
        let mut seen = Seen::default();
        let text = json.text_of(|json| {
            json.begin(b'{')?;
            let mut index = 0;
            while json.has_next(b'}')? {
                let expected = entries.get(index).copied();
                let same = expected.filter(|entry| json.skip_entry(entry.text));
                let entry = match same {
                    Some(entry) => {
                        last_pod.copy(entry, pod);
                        entry
                    }
                    None => read_entry(shape, expected, json, pod)?,
                };
                if entry.field.is_some_and(|field| !seen.add(field)) {
                    return None;
                }
                match entries.get_mut(index) {
                    Some(last) => *last = entry,
                    None => entries.push(entry),
                }
                index += 1;
            }
            entries.truncate(index);
            Some(())
        })?;
        pod.has_metadata |= name == "metadata";
        *last = (entries, *pod);
        Some(text)
    }
}

/// Reads an entry of a message of a pod. Probably it has the expected key.
fn read_entry<'a>(
    shape: &'static Shape,
    expected: Option<Entry<'a>>,
    json: &mut Json<'a>,
    pod: &mut LeanPod<'a>,
) -> Option<Entry<'a>> {
    let (mut key, mut field) = ("", None);
    let text = json.text_of(|json| {
        (key, field) = match expected {
            Some(expected) if json.skip_key_of(expected.text, expected.key) => {
                (expected.key, expected.field)
            }
            _ => {
                let key = json.key()?;
                (key, shape.get(key))
            }
        };
        let Some(field) = field else {
            return json.value_of(key).map(|_| ());
        };
        match key {
            "name" => pod.name = string(json)?,
            "namespace" => pod.namespace = string(json)?,
            "uid" => pod.uid = string(json)?,
            "phase" => pod.phase = string(json)?,
            "labels" => check_map(json, is_usual_label)?,
            "annotations" => check_map(json, |key, _| is_usual_annotation(key))?,
            "ownerReferences" => {
                pod.owners = json.text_of(|json| check(json, field, field.repeated))?;
                pod.controller = controller(pod.owners)?;
            }
            _ => check(json, field, field.repeated)?,
        }
        Some(())
    })?;
    Some(Entry { text, key, field })
}

// === impl LeanPod ===

impl<'a> LeanPod<'a> {
    /// Copies the data of an entry to another pod.
    fn copy(&self, entry: Entry<'_>, to: &mut Self) {
        match entry.field.map_or("", |field| &field.name) {
            "name" => to.name = self.name,
            "namespace" => to.namespace = self.namespace,
            "uid" => to.uid = self.uid,
            "phase" => to.phase = self.phase,
            "ownerReferences" => {
                to.owners = self.owners;
                to.controller = self.controller;
            }
            _ => {}
        }
    }

    /// The owners of the pod. `None` if there are unusually many.
    fn owners(&self) -> Option<Vec<OwnerReference>> {
        let mut owners = Vec::new();
        if matches!(self.owners, "" | "null") {
            return Some(owners);
        }
        let mut json = Json::new(self.owners);
        json.begin(b'[')?;
        while json.has_next(b']')? {
            if owners.len() == OWNERS_MAX {
                return None;
            }
            owners.push(owner(&mut json)?);
        }
        Some(owners)
    }
}

/// Converts pods.
#[derive(Debug, Default)]
pub(super) struct LeanPods<'a> {
    /// The owners of the last pod, and their list. Usually, the next pod has the same.
    last: (&'a str, Vec<OwnerReference>),
}

// === impl LeanPods ===

impl<'a> LeanPods<'a> {
    /// A pod with its owner and phase. Its namespace is empty if the JSON has none. `None` if anything is unusual.
    pub(super) fn pod(&mut self, pod: LeanPod<'a>) -> Option<Pod> {
        if !pod.has_metadata {
            return None;
        }
        let (text, owners) = &mut self.last;
        if pod.owners != *text {
            (*text, *owners) = (pod.owners, pod.owners()?);
        }
        let metadata = ObjectMeta {
            name: pod.name.to_owned(),
            namespace: pod.namespace.to_owned(),
            uid: pod.uid.to_owned(),
            owner_references: owners.clone(),
            ..ObjectMeta::default()
        };
        lean_pod(metadata, pod.phase)
    }
}

/// A string without escapes. Empty for `null`.
fn string<'a>(json: &mut Json<'a>) -> Option<&'a str> {
    match json.peek()? {
        b'n' => json.value().map(|_| ""),
        _ => json.string(),
    }
}

/// The controller in a list of owners that has been validated. `None` if anything is unusual.
fn controller(owners: &str) -> Option<Option<&str>> {
    let mut json = Json::new(owners);
    if json.peek()? == b'n' {
        return Some(None);
    }
    json.begin(b'[')?;
    while json.has_next(b']')? {
        let (mut uid, mut is_controller) = ("", false);
        json.begin(b'{')?;
        while json.has_next(b'}')? {
            match json.key()? {
                "uid" => uid = json.string()?,
                "controller" => is_controller = json.value()? == "true",
                _ => _ = json.value()?,
            }
        }
        if is_controller {
            return Some(Some(uid));
        }
    }
    Some(None)
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
fn check_map(json: &mut Json<'_>, is_usual: impl Fn(&str, &str) -> bool) -> Option<()> {
    if json.peek()? == b'n' {
        return json.value().map(|_| ());
    }
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

fn check_time(text: &str) -> Option<()> {
    let time = time::parse(text)?;
    Time::new(time.seconds, u32::try_from(time.nanos).ok()?).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::super::found::Found;
    use super::super::transcode::Transcoder;
    use super::super::{scan, scan_with_lean_pods};
    use super::*;
    use crate::wire::error::Violations;
    use crate::wire::parse::lean_pod::{self, BYTES_MAX};
    use crate::wire::random::Random;

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
        for round in 0..20_000 {
            // Each pod is compared with the one before it.
            let mut list: Vec<_> = (0..4).map(|_| texts[below(texts.len())].clone()).collect();
            if round > 100 {
                for _ in 0..=below(3) {
                    let text = &mut list[below(4)];
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
            }
            let text = format!(r#"{{"kind":"List","items":[{}]}}"#, list.join(","));
            let (mut found, mut violations) = (Vec::new(), Violations::default());
            scan_with_lean_pods(0, text.as_bytes(), &mut found, &mut violations).unwrap();
            let mut pods = LeanPods::default();
            for object in &found {
                let pod = object.lean_pod().and_then(|(pod, _)| pods.pod(pod));
                let Some(pod) = pod else {
                    assert!(round > 100, "{text}");
                    continue;
                };
                read += 1;
                assert_eq!(Some(pod), read_message(object), "{text}");
            }
            // Objects are selected by their metadata.
            let (mut whole, mut violations) = (Vec::new(), Violations::default());
            scan(0, text.as_bytes(), &mut whole, &mut violations).unwrap();
            let metadata = |found: &[Found<'_>]| {
                let metadata = found
                    .iter()
                    .map(|object| format!("{:?}", object.metadata()));
                metadata.collect::<Vec<_>>()
            };
            assert_eq!(metadata(&found), metadata(&whole), "{text}");
        }
        assert!(read > 10_000, "{read}");
    }

    /// The lean pods in a list.
    fn lean_pods(pods: &[&str]) -> Vec<Option<Pod>> {
        let text = format!(
            r#"{{"kind":"PodList","apiVersion":"v1","items":[{}]}}"#,
            pods.join(",")
        );
        let (mut found, mut violations) = (Vec::new(), Violations::default());
        scan_with_lean_pods(0, text.as_bytes(), &mut found, &mut violations).unwrap();
        assert!(violations.is_empty(), "{violations:?}");
        assert_eq!(found.len(), pods.len());
        let mut pods = LeanPods::default();
        let pods = found.iter().map(|object| pods.pod(object.lean_pod()?.0));
        pods.collect()
    }

    #[test]
    fn absent_fields_are_not_those_of_the_pod_before() {
        let owned = r#"{"metadata":{"name":"a","ownerReferences":[{"controller":true,"uid":"u"}],"uid":"a"},
            "status":{"hostIP":"h","phase":"Failed"}}"#;
        let orphan = r#"{"metadata":{"name":"a","uid":"a"},"status":{"hostIP":"h"}}"#;
        let no_status = r#"{"metadata":{"name":"a","ownerReferences":null,"uid":"a"}}"#;
        let pods = lean_pods(&[owned, orphan, owned, no_status, owned, orphan, orphan]);
        let read = pods.iter().map(|pod| {
            let pod = pod.as_ref().unwrap();
            (&*pod.phase, pod.metadata.owner_references.len())
        });
        let (some, none) = (("Failed", 1), ("", 0));
        assert!(read.eq([some, none, some, none, some, none, none]));
    }

    #[test]
    fn unusual_pods_are_not_read() {
        let usual = r#"{"metadata":{"name":"a","uid":"a"}}"#;
        assert!(lean_pods(&[usual])[0].is_some());
        let note = "n".repeat(BYTES_MAX);
        for pod in [
            "{}",
            r#"{"metadata":null}"#,
            r#"{"metadata":{"name":"a","uid":"a"},"spec":[]}"#,
            r#"{"metadata":{"name":"a","uid":"a"},"status":7}"#,
            r#"{"metadata":{"name":"a","name":"a","uid":"a"}}"#,
            r#"{"kind":"Node","apiVersion":"v1","metadata":{"name":"a","uid":"a"}}"#,
            r#"{"kind":"Pod","apiVersion":"v2","metadata":{"name":"a","uid":"a"}}"#,
            &format!(r#"{{"metadata":{{"annotations":{{"a":"{note}"}},"name":"a","uid":"a"}}}}"#),
        ] {
            let pods = lean_pods(&[usual, pod, pod, usual]);
            let are_read = pods.iter().map(Option::is_some);
            assert!(are_read.eq([true, false, false, true]), "{pod:.80}");
        }
        // The exact reader reads the whole text.
        let duplicate = r#"{"metadata":{"name":"a","uid":"a"},"x":1,"x":1}"#;
        assert_eq!(lean_pods(&[usual, duplicate]), [None, None]);
    }
}
