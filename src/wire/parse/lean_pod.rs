//! Reads encoded pods for a plan without a report, which depends on little more than the owner and phase of a pod.
//!
//! Other fields are only validated and not converted to values, which would be most of the cost of decoding. If
//! anything is unusual, the decoder and [`pod`](super::pod) decide, which report errors.

use rollplan_core::snapshot::{ObjectMeta, OwnerReference, Pod};
use rollplan_core::time::Time;

use super::name::{
    is_annotation_key, is_dns_label, is_dns_subdomain, is_label_value, is_qualified_name,
};
use crate::wire::tree::{Field, field};

/// The maximum size of such a pod, in bytes. Its lists, maps and strings are then far below all other limits.
pub(in crate::wire) const BYTES_MAX: usize = 16 << 10;

/// The maximum number of owners of such a pod.
pub(in crate::wire) const OWNERS_MAX: usize = 8;

/// The type of a field.
#[derive(Clone, Copy, Debug)]
enum Shape {
    Text,
    /// A bool, or a number that may be negative.
    Number,
    /// A 32-bit number that is not negative.
    Count,
    Time,
    Message(&'static [Shape]),
}

use Shape::{Count, Message, Number, Text};

// The fields of each message, by number, starting at 1.
const SPEC: &[Shape] = &[Text];
const STATUS: &[Shape] = &[
    Text,
    Message(CONDITION),
    Text,
    Text,
    Shape::Time,
    Message(CONTAINER),
    Message(CONTAINER),
    Text,
    Text,
];
const CONDITION: &[Shape] = &[Text, Text, Shape::Time, Text, Text];
const CONTAINER: &[Shape] = &[
    Text,
    Message(STATE),
    Message(STATE),
    Number,
    Count,
    Text,
    Number,
];
const STATE: &[Shape] = &[Message(WAITING), Message(RUNNING), Message(TERMINATED)];
const WAITING: &[Shape] = &[Text, Text];
const RUNNING: &[Shape] = &[Shape::Time];
const TERMINATED: &[Shape] = &[Number, Number, Text, Text, Shape::Time, Shape::Time];

/// The memory of a pod with this encoded size, in bytes.
pub(in crate::wire) fn lean_pod_memory(bytes: usize) -> usize {
    // Short strings take more memory than their bytes.
    size_of::<Pod>() + OWNERS_MAX * size_of::<OwnerReference>() + 2 * bytes
}

/// A pod with its owner and phase. Its namespace is empty if the message has none. `None` if anything is unusual.
pub(in crate::wire) fn read_lean_pod(mut bytes: &[u8]) -> Option<Pod> {
    if bytes.len() > BYTES_MAX {
        return None;
    }
    let (mut api_version, mut kind) = ("", "");
    let mut metadata = None;
    let mut phase = "";
    while !bytes.is_empty() {
        match field(&mut bytes)? {
            (1, Field::Bytes(inside)) => api_version = text(inside)?,
            (2, Field::Bytes(inside)) => kind = text(inside)?,
            (3, Field::Bytes(inside)) => {
                read_metadata(inside, metadata.get_or_insert_default())?;
            }
            (4, Field::Bytes(inside)) => check(inside, SPEC)?,
            (5, Field::Bytes(inside)) => {
                check(inside, STATUS)?;
                phase = phase_of(inside)?.unwrap_or(phase);
            }
            (1..=5, _) => return None,
            _ => {}
        }
    }
    let is_usual = matches!(api_version, "" | "v1") && matches!(kind, "" | "Pod");
    is_usual.then(|| lean_pod(metadata?, phase)).flatten()
}

/// A pod whose other fields have been checked. `None` if its metadata is unusual.
pub(in crate::wire) fn lean_pod(metadata: ObjectMeta, phase: &str) -> Option<Pod> {
    let controllers = metadata.owner_references.iter();
    let controllers = controllers.filter(|owner| owner.controller == Some(true));
    let is_usual = !metadata.uid.is_empty()
        && is_dns_subdomain(&metadata.name)
        && (metadata.namespace.is_empty() || is_dns_label(&metadata.namespace))
        && metadata
            .owner_references
            .iter()
            .all(|it| !it.uid.is_empty())
        && controllers.count() <= 1;
    is_usual.then(|| Pod {
        metadata,
        phase: phase.to_owned(),
        ..Pod::default()
    })
}

pub(in crate::wire) fn is_usual_label(key: &str, value: &str) -> bool {
    is_qualified_name(key) && is_label_value(value)
}

pub(in crate::wire) fn is_usual_annotation(key: &str) -> bool {
    is_annotation_key(key)
}

/// Adds the metadata that a plan needs.
fn read_metadata(mut bytes: &[u8], metadata: &mut ObjectMeta) -> Option<()> {
    while !bytes.is_empty() {
        match field(&mut bytes)? {
            (1, Field::Bytes(inside)) => metadata.name = text(inside)?.to_owned(),
            (2, Field::Bytes(inside)) => metadata.namespace = text(inside)?.to_owned(),
            (3, Field::Bytes(inside)) => metadata.uid = text(inside)?.to_owned(),
            (4, Field::Bytes(inside)) => _ = text(inside)?,
            (5, Field::Varint(generation)) if !generation.cast_signed().is_negative() => {}
            (6 | 7, Field::Bytes(inside)) => check_time(inside)?,
            (8, Field::Bytes(inside)) => {
                let (key, value) = entry(inside)?;
                if !is_usual_label(key, value) {
                    return None;
                }
            }
            (9, Field::Bytes(inside)) => {
                let (key, _) = entry(inside)?;
                if !is_usual_annotation(key) {
                    return None;
                }
            }
            (10, Field::Bytes(inside)) if metadata.owner_references.len() < OWNERS_MAX => {
                metadata.owner_references.push(owner(inside)?);
            }
            (1..=10, _) => return None,
            _ => {}
        }
    }
    Some(())
}

fn owner(mut bytes: &[u8]) -> Option<OwnerReference> {
    let mut owner = OwnerReference::default();
    while !bytes.is_empty() {
        match field(&mut bytes)? {
            (1, Field::Bytes(inside)) => owner.api_version = text(inside)?.to_owned(),
            (2, Field::Bytes(inside)) => owner.kind = text(inside)?.to_owned(),
            (3, Field::Bytes(inside)) => owner.name = text(inside)?.to_owned(),
            (4, Field::Bytes(inside)) => owner.uid = text(inside)?.to_owned(),
            (5, Field::Varint(value)) => owner.controller = Some(value != 0),
            (6, Field::Varint(value)) => owner.block_owner_deletion = Some(value != 0),
            (1..=6, _) => return None,
            _ => {}
        }
    }
    Some(owner)
}

/// The key and value of a map entry. Missing ones are empty.
fn entry(mut bytes: &[u8]) -> Option<(&str, &str)> {
    let (mut key, mut value) = ("", "");
    while !bytes.is_empty() {
        match field(&mut bytes)? {
            (1, Field::Bytes(inside)) => key = text(inside)?,
            (2, Field::Bytes(inside)) => value = text(inside)?,
            (1 | 2, _) => return None,
            _ => {}
        }
    }
    Some((key, value))
}

/// The phase in a status. The last occurrence applies.
fn phase_of(mut status: &[u8]) -> Option<Option<&str>> {
    let mut phase = None;
    while !status.is_empty() {
        if let (1, Field::Bytes(inside)) = field(&mut status)? {
            phase = Some(text(inside)?);
        }
    }
    Some(phase)
}

/// Checks the types of all fields of a message. If a field occurs several times, all occurrences are checked: merging
/// valid messages gives a valid message.
fn check(mut bytes: &[u8], shapes: &[Shape]) -> Option<()> {
    while !bytes.is_empty() {
        let (number, field) = field(&mut bytes)?;
        let index = usize::try_from(number).ok()?.checked_sub(1)?;
        match (shapes.get(index), field) {
            (None, _) | (Some(Number), Field::Varint(_)) => {}
            (Some(Text), Field::Bytes(inside)) => _ = text(inside)?,
            (Some(Count), Field::Varint(count)) => {
                // Decoders truncate larger numbers to 32 bits.
                if (count as i32).is_negative() {
                    return None;
                }
            }
            (Some(Shape::Time), Field::Bytes(inside)) => check_time(inside)?,
            (Some(Message(shapes)), Field::Bytes(inside)) => check(inside, shapes)?,
            _ => return None,
        }
    }
    Some(())
}

/// Checks that a time is in the years 1 to 9999.
fn check_time(mut bytes: &[u8]) -> Option<()> {
    let (mut seconds, mut nanos) = (0, 0);
    while !bytes.is_empty() {
        match field(&mut bytes)? {
            (1, Field::Varint(value)) => seconds = value.cast_signed(),
            (2, Field::Varint(value)) => nanos = value as i32,
            (1 | 2, _) => return None,
            _ => {}
        }
    }
    Time::new(seconds, u32::try_from(nanos).ok()?)?;
    Some(())
}

fn text(bytes: &[u8]) -> Option<&str> {
    str::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use prost::Message as _;
    use prost_reflect::{Kind, MessageDescriptor};
    use rollplan_core::interrupt::Never;

    use super::super::{Parser, Path};
    use super::*;
    use crate::proto;
    use crate::wire::json;
    use crate::wire::random::Random;

    fn shapes_are_of(message: &MessageDescriptor, shapes: &[Shape]) {
        let name = message.full_name();
        assert_eq!(message.fields().len(), shapes.len(), "{name}");
        for field in message.fields() {
            match (field.kind(), shapes[field.number() as usize - 1]) {
                (Kind::String, Text) | (Kind::Bool, Number) => {}
                // Signals and exit codes may be negative.
                (Kind::Int32, Number) => assert_eq!(name, "rollplan.v1.ContainerStateTerminated"),
                (Kind::Int32, Count) => {}
                (Kind::Message(inner), Shape::Time) => {
                    assert_eq!(inner.full_name(), "google.protobuf.Timestamp");
                }
                (Kind::Message(inner), Message(shapes)) => shapes_are_of(&inner, shapes),
                (kind, shape) => panic!("{name}.{}: {kind:?} is {shape:?}", field.name()),
            }
        }
    }

    #[test]
    fn shapes_match_the_contract() {
        let pool = json::descriptors().unwrap();
        let message = |name: &str| pool.get_message_by_name(name).unwrap();
        shapes_are_of(&message("rollplan.v1.PodSpec"), SPEC);
        shapes_are_of(&message("rollplan.v1.PodStatus"), STATUS);
        for (name, fields) in [("Pod", 5), ("ObjectMeta", 10), ("OwnerReference", 6)] {
            let message = message(&format!("rollplan.v1.{name}"));
            assert_eq!(message.fields().len(), fields, "{name}");
        }
    }

    /// The parts of a pod that decide a plan, as read by the decoder and the parser. `None` if these refuse the pod.
    fn read_whole(bytes: &[u8]) -> Option<Pod> {
        let pod = proto::Pod::decode(bytes).ok()?;
        let mut parser = Parser::new(&Never);
        let pod = parser.pod(pod, "", &Path::Root("pod"));
        let Pod {
            metadata, phase, ..
        } = parser.finish(pod).ok()?;
        Some(Pod {
            metadata: ObjectMeta {
                name: metadata.name,
                namespace: metadata.namespace,
                uid: metadata.uid,
                owner_references: metadata.owner_references,
                ..ObjectMeta::default()
            },
            phase,
            ..Pod::default()
        })
    }

    /// The pods of the examples, and one with all possible fields.
    fn pods() -> Vec<Vec<u8>> {
        let saved = [
            include_str!("../../../examples/mid-rollout.json"),
            include_str!("../../../examples/stuck-crash-loop.json"),
        ];
        let saved = saved.iter().flat_map(|text| {
            let list: serde_json::Value = serde_json::from_str(text).unwrap();
            list["items"].as_array().unwrap().clone()
        });
        let whole = serde_json::json!({
            "kind": "Pod",
            "apiVersion": "v1",
            "metadata": {
                "name": "a", "namespace": "shop", "uid": "u", "resourceVersion": "1", "generation": 3,
                "creationTimestamp": "2026-01-02T03:04:05.6Z", "deletionTimestamp": "2026-01-02T03:04:05Z",
                "labels": {"a": "b", "c/d": ""}, "annotations": {"Ab/c": "ü", "e": ""},
                "ownerReferences": [
                    {"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "n", "blockOwnerDeletion": false},
                    {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "r", "controller": true},
                ],
            },
            "spec": {"nodeName": "n"},
            "status": {
                "phase": "Failed", "message": "m", "reason": "r", "startTime": "2026-01-02T03:04:05Z",
                "podIP": "10.0.0.1", "nominatedNodeName": "n",
                "conditions": [{
                    "type": "Ready", "status": "True", "lastTransitionTime": "2026-01-02T03:04:05Z", "reason": "r",
                    "message": "m",
                }],
                "initContainerStatuses": [{"name": "i", "state": {"waiting": {"reason": "r", "message": "m"}}}],
                "containerStatuses": [{
                    "name": "c", "ready": true, "restartCount": 7, "image": "i", "started": true,
                    "state": {"running": {"startedAt": "2026-01-02T03:04:05Z"}},
                    "lastState": {"terminated": {
                        "exitCode": -1, "signal": 9, "reason": "r", "message": "m",
                        "startedAt": "2026-01-02T03:04:05Z", "finishedAt": "2026-01-02T03:04:05Z",
                    }},
                }],
            },
        });
        let pods = saved.filter(|item| item["kind"] == "Pod").chain([whole]);
        pods.map(|pod| {
            let pod: proto::Pod = json::from_json(&pod.to_string()).unwrap();
            pod.encode_to_vec()
        })
        .collect()
    }

    #[test]
    fn usual_pods_are_read() {
        for bytes in pods() {
            let pod = read_lean_pod(&bytes);
            assert!(pod.is_some());
            assert_eq!(pod, read_whole(&bytes));
        }
    }

    #[test]
    fn lean_reader_agrees_with_the_decoder() {
        let pods = pods();
        let mut random = Random(1);
        let mut below = |end: usize| random.below(end);
        let mut read = 0;
        for _ in 0..40_000 {
            let mut bytes = pods[below(pods.len())].clone();
            // Concatenated messages are merged.
            if below(4) == 0 {
                bytes.extend_from_slice(&pods[below(pods.len())]);
            }
            for _ in 0..below(3) {
                let at = below(bytes.len());
                match below(4) {
                    0 => bytes[at] = below(256) as u8,
                    1 => bytes[at] ^= 1 << below(8),
                    2 => bytes.truncate(at + 1),
                    _ => _ = bytes.remove(at),
                }
                if bytes.is_empty() {
                    break;
                }
            }
            if let Some(pod) = read_lean_pod(&bytes) {
                read += 1;
                assert_eq!(Some(pod), read_whole(&bytes), "{bytes:?}");
            }
        }
        assert!(read > 10_000, "{read}");
    }
}
