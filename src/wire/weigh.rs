//! What a message would take in memory, told before it is decoded: two bytes may become half a KiB.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use bytes::Buf as _;
use prost::Name;
use prost::encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field};
use prost_reflect::{DescriptorPool, FieldDescriptor, Kind, MessageDescriptor};

use super::{Error, RawStruct};
use crate::proto::{
    ContainerStatus, DeploymentCondition, LabelSelectorRequirement, OwnerReference, Pod,
    PodCondition, ReplicaSet, ReplicaSetCondition, StepFailure,
};

/// Bytes that a request may take in memory. As many pods as there may be, each with what Kubernetes writes into its
/// status, take less than half of it.
pub const DECODED_BYTES_MAX: usize = 256 << 20;

/// No message of the contract grows more than this when it is decoded: what is smaller need not be weighed.
const GROWTH_MAX: usize = 1024;

/// What one more entry of a list takes, by the name of its message.
const ENTRIES: [(&str, usize); 9] = [
    weight::<ContainerStatus>(),
    weight::<DeploymentCondition>(),
    weight::<LabelSelectorRequirement>(),
    weight::<OwnerReference>(),
    weight::<Pod>(),
    weight::<PodCondition>(),
    weight::<ReplicaSet>(),
    weight::<ReplicaSetCondition>(),
    weight::<StepFailure>(),
];

/// What one more entry of a map takes: key and value.
const MAP_ENTRY: usize = 2 * size_of::<String>();

/// Room for so many entries is made for the first one, in a list and in a map.
const FIRST: [usize; 2] = [4, 12];

const fn weight<M: Name>() -> (&'static str, usize) {
    (M::NAME, size_of::<M>())
}

/// The fields of a message, by their numbers.
#[derive(Default)]
struct Shape(Vec<Field>);

#[derive(Clone, Copy, Default)]
struct Field {
    /// What it takes each time it comes. Nothing where it only takes the place that is there.
    bytes: usize,
    /// What it takes besides when it comes first.
    first: usize,
    /// What each of its bytes takes besides.
    growth: usize,
    /// What is in it.
    inner: Option<usize>,
}

/// Of all messages of the contract. Empty if this build is broken; tests see that it is not.
#[derive(Default)]
struct Shapes {
    all: Vec<Shape>,
    by_name: BTreeMap<String, usize>,
}

static SHAPES: LazyLock<Shapes> =
    LazyLock::new(|| super::json::descriptors().map_or_else(Shapes::default, Shapes::read));

/// Refuses what would take too much.
///
/// # Errors
///
/// [`Error::TooLarge`]. What is no such message is left for the decoder to refuse.
pub(super) fn weigh<M: Name>(encoded: &[u8]) -> Result<(), Error> {
    if encoded.len() <= DECODED_BYTES_MAX / GROWTH_MAX {
        return Ok(());
    }
    let Some(&shape) = SHAPES.by_name.get(&M::full_name()) else {
        return Ok(());
    };
    let count = encoded.len().saturating_add(SHAPES.weigh(shape, encoded));
    if count > DECODED_BYTES_MAX {
        return Err(Error::TooLarge {
            what: "request",
            unit: "bytes in memory",
            count,
            max: DECODED_BYTES_MAX,
        });
    }
    Ok(())
}

// === impl Shapes ===

impl Shapes {
    fn read(pool: &DescriptorPool) -> Self {
        let messages: Vec<_> = pool.all_messages().collect();
        let names = messages.iter().map(|it| it.full_name().to_owned());
        let by_name: BTreeMap<_, _> = names.zip(0..).collect();
        let all = messages.iter().map(|it| Shape::read(it, &by_name));
        let all = all.collect();
        Self { all, by_name }
    }

    /// What the lists and maps in a message take. To where it cannot be read any further: nothing is decoded after that.
    fn weigh(&self, shape: usize, mut encoded: &[u8]) -> usize {
        let mut bytes = 0_usize;
        // By number: the contract has no more than 64 fields in a message, or some count as first each time.
        let mut seen = 0_u64;
        while encoded.has_remaining() {
            let Ok((number, wire_type)) = decode_key(&mut encoded) else {
                break;
            };
            if wire_type != WireType::LengthDelimited {
                let skipped = skip_field(wire_type, number, &mut encoded, DecodeContext::default());
                if skipped.is_err() {
                    break;
                }
                continue;
            }
            let length = decode_varint(&mut encoded);
            let length = length.ok().and_then(|it| usize::try_from(it).ok());
            let Some((inside, rest)) = length.and_then(|it| encoded.split_at_checked(it)) else {
                break;
            };
            encoded = rest;
            let field = self.all[shape].0.get(number as usize);
            let Field {
                bytes: own,
                first,
                growth,
                inner,
            } = field.copied().unwrap_or_default();
            bytes = bytes.saturating_add(own.saturating_add(growth.saturating_mul(inside.len())));
            let bit = 1_u64.checked_shl(number).unwrap_or_default();
            if seen & bit == 0 {
                bytes = bytes.saturating_add(first);
                seen |= bit;
            }
            if let Some(inner) = inner {
                bytes = bytes.saturating_add(self.weigh(inner, inside));
            }
        }
        bytes
    }
}

impl Shape {
    fn read(message: &MessageDescriptor, by_name: &BTreeMap<String, usize>) -> Self {
        let mut fields = Vec::new();
        for field in message.fields() {
            let number = field.number() as usize;
            fields.resize(fields.len().max(number + 1), Field::default());
            fields[number] = Field::read(&field, by_name);
        }
        Self(fields)
    }
}

impl Field {
    fn read(field: &FieldDescriptor, by_name: &BTreeMap<String, usize>) -> Self {
        let bytes = entry_bytes(field).unwrap_or_default();
        match (field.parent_message().full_name(), field.kind()) {
            // Kept in the bytes that it came in, and its entries beside them.
            ("google.protobuf.Struct", _) => Self {
                bytes: RawStruct::ENTRY_BYTES,
                ..Self::default()
            },
            // Stands where a number or a percentage should, and no list or map: it is refused, once decoded.
            ("google.protobuf.Value", Kind::Message(_)) => Self {
                growth: GROWTH_MAX,
                ..Self::default()
            },
            (_, kind) => Self {
                bytes,
                first: bytes * (FIRST[usize::from(field.is_map())] - 1),
                growth: 0,
                inner: match kind {
                    Kind::Message(inner) => by_name.get(inner.full_name()).copied(),
                    _ => None,
                },
            },
        }
    }
}

/// What one more entry takes, where there may be several. `None` if that is not known.
fn entry_bytes(field: &FieldDescriptor) -> Option<usize> {
    if !field.is_list() && !field.is_map() {
        return Some(0);
    }
    match field.kind() {
        Kind::Message(_) if field.is_map() => Some(MAP_ENTRY),
        Kind::Message(entry) => {
            let known = ENTRIES.iter().find(|(name, _)| *name == entry.name());
            known.map(|(_, bytes)| *bytes)
        }
        Kind::String | Kind::Bytes => Some(size_of::<String>()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use prost::Message as _;

    use super::*;
    use crate::proto::{PlanRolloutRequest, PodStatus, Snapshot};

    /// All lists and maps below a message that has been asked for.
    fn lists(
        message: &MessageDescriptor,
        seen: &mut Vec<String>,
        found: &mut Vec<FieldDescriptor>,
    ) {
        if seen.contains(&message.full_name().to_owned()) {
            return;
        }
        seen.push(message.full_name().to_owned());
        for field in message.fields() {
            if field.is_list() || field.is_map() {
                found.push(field.clone());
            }
            if let Kind::Message(inner) = field.kind()
                && !["google.protobuf.Struct", "google.protobuf.Value"].contains(&inner.full_name())
            {
                lists(&inner, seen, found);
            }
        }
    }

    #[test]
    fn every_list_of_a_request_has_its_weight() {
        let pool = super::super::json::descriptors().unwrap();
        let mut found = Vec::new();
        for name in ["PlanRollout", "ComputeStatus", "Rollback", "ListRevisions"] {
            let name = format!("rollplan.v1.{name}Request");
            let message = pool.get_message_by_name(&name).unwrap();
            lists(&message, &mut Vec::new(), &mut found);
        }
        assert!(found.len() > 20);
        for field in found {
            let bytes = entry_bytes(&field);
            assert!(
                bytes.is_some_and(|it| it > 0 && it <= 2 * GROWTH_MAX),
                "{}: {bytes:?}",
                field.full_name()
            );
        }
    }

    #[test]
    fn a_message_weighs_what_its_entries_take() {
        let pod = Pod {
            status: Some(PodStatus {
                container_statuses: vec![ContainerStatus::default(); 3],
                ..PodStatus::default()
            }),
            ..Pod::default()
        };
        let request = PlanRolloutRequest {
            snapshot: Some(Snapshot {
                pods: vec![pod; 2],
                ..Snapshot::default()
            }),
            options: None,
        };
        let shape = SHAPES.by_name["rollplan.v1.PlanRolloutRequest"];
        let mut encoded = request.encode_to_vec();
        // Room for four in each of three lists.
        let expected =
            4 * size_of::<Pod>() + size_of::<Pod>() + 2 * (4 + 2) * size_of::<ContainerStatus>();
        assert_eq!(SHAPES.weigh(shape, &encoded), expected);
        // What a decoder skips is skipped: a group, as no generator writes them any more, and fields of the future.
        let (start, end) = ((900_u32 << 3) | 3, (900_u32 << 3) | 4);
        let mut unknown = Vec::new();
        for key in [start, end] {
            prost::encoding::encode_varint(u64::from(key), &mut unknown);
        }
        unknown.append(&mut encoded);
        assert_eq!(SHAPES.weigh(shape, &unknown), expected);
        assert!(PlanRolloutRequest::decode(&unknown[..]).is_ok());
    }

    /// A request with so many pods, all with these encoded fields.
    fn pods(count: usize, fields: &[u8]) -> Vec<u8> {
        let pod = [&[0x22, u8::try_from(fields.len()).unwrap()], fields].concat();
        let snapshot = pod.repeat(count);
        let mut request = vec![0x0a];
        prost::encoding::encode_varint(snapshot.len() as u64, &mut request);
        request.extend(snapshot);
        request
    }

    #[test]
    fn two_bytes_that_become_many_are_refused_and_nothing_usual_is() {
        let refused = weigh::<PlanRolloutRequest>(&pods(8 << 20, &[]));
        assert!(matches!(
            refused,
            Err(Error::TooLarge {
                what: "request",
                ..
            })
        ));
        // Lists of one, each with room for four, and maps.
        let status = [0x2a, 8, 0x12, 0, 0x32, 0, 0x3a, 0, 0x3a, 0];
        let metadata = [0x1a, 6, 0x42, 0, 0x4a, 0, 0x52, 0];
        let one = [&metadata[..], &status].concat();
        let refused = weigh::<PlanRolloutRequest>(&pods(100_000, &one));
        assert!(matches!(refused, Err(Error::TooLarge { .. })));
    }

    /// The smallest that is weighed at all could not take too much: nothing grows by more than [`GROWTH_MAX`].
    #[test]
    fn what_is_not_weighed_does_not_take_too_much() {
        let shape = SHAPES.by_name["rollplan.v1.PlanRolloutRequest"];
        let status = [0x2a, 6, 0x12, 0, 0x32, 0, 0x3a, 0];
        let metadata = [0x1a, 6, 0x42, 0, 0x4a, 0, 0x52, 0];
        for inside in [&[][..], &status, &metadata, &[status, metadata].concat()] {
            let request = pods(1000, inside);
            let bytes = SHAPES.weigh(shape, &request);
            assert!(bytes <= GROWTH_MAX * request.len(), "{bytes}");
        }
    }

    #[test]
    fn as_many_pods_as_there_may_be_take_less_than_half() {
        let saved = include_str!("../../examples/mid-rollout.json");
        let saved: serde_json::Value = serde_json::from_str(saved).unwrap();
        let pods = saved["items"].as_array().unwrap().iter();
        let pods = pods.filter(|item| item["kind"] == "Pod");
        let shape = SHAPES.by_name["rollplan.v1.Pod"];
        let weights = pods.map(|pod| {
            let pod: Pod = super::super::json::from_json(&pod.to_string()).unwrap();
            let encoded = pod.encode_to_vec();
            size_of::<Pod>() + encoded.len() + SHAPES.weigh(shape, &encoded)
        });
        let heaviest = weights.max().unwrap();
        assert!(
            heaviest * super::super::PODS_MAX < DECODED_BYTES_MAX / 2,
            "{heaviest}"
        );
    }
}
