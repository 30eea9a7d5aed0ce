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
/// status, take half of it.
pub const DECODED_BYTES_MAX: usize = 128 << 20;

/// No message of the contract grows more than this when it is decoded: what is smaller need not be weighed.
const GROWTH_MAX: usize = 512;

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

/// What one more entry of a map takes: key and value, and its part of the tree.
const MAP_ENTRY: usize = 2 * size_of::<String>() + 16;

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
    /// What each of its bytes takes besides.
    growth: usize,
    /// What is in it.
    inner: Option<usize>,
}

/// Of all messages of the contract. Empty if this build is broken; tests see that it is not.
struct Shapes {
    all: Vec<Shape>,
    by_name: BTreeMap<String, usize>,
}

static SHAPES: LazyLock<Shapes> = LazyLock::new(|| {
    super::json::descriptors().map_or_else(
        || Shapes {
            all: Vec::new(),
            by_name: BTreeMap::new(),
        },
        Shapes::read,
    )
});

/// Refuses what would take too much.
///
/// # Errors
///
/// [`Error::TooLarge`]. What is no such message is left for the decoder to refuse.
pub fn weigh<M: Name>(encoded: &[u8]) -> Result<(), Error> {
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
                growth,
                inner,
            } = field.copied().unwrap_or_default();
            bytes = bytes.saturating_add(own.saturating_add(growth.saturating_mul(inside.len())));
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
                bytes: entry_bytes(field).unwrap_or_default(),
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
        let expected = 2 * size_of::<Pod>() + 6 * size_of::<ContainerStatus>();
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

    #[test]
    fn two_bytes_that_become_many_are_refused_and_nothing_usual_is() {
        let pods = |count: usize, encoded: &[u8]| {
            let one = [&[0x22, u8::try_from(encoded.len()).unwrap()], encoded].concat();
            let snapshot = one.repeat(count);
            let mut request = vec![0x0a];
            prost::encoding::encode_varint(snapshot.len() as u64, &mut request);
            request.extend(snapshot);
            request
        };
        let refused = weigh::<PlanRolloutRequest>(&pods(8 << 20, &[]));
        assert!(matches!(
            refused,
            Err(Error::TooLarge {
                what: "request",
                ..
            })
        ));
        // The smallest that is weighed at all could not take too much.
        let most = DECODED_BYTES_MAX / GROWTH_MAX / 2;
        assert!(weigh::<PlanRolloutRequest>(&pods(most, &[])).is_ok());
        assert!(most * size_of::<Pod>() <= DECODED_BYTES_MAX);
    }
}
