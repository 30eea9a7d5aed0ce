//! Estimates an upper limit of the memory for reading a request from its encoded bytes, because an empty entry of a list has
//! two bytes in protobuf, but may take half a KiB of memory. The same estimate determines which requests are large.

use std::collections::HashMap;
use std::sync::LazyLock;

use prost::Name;
use prost::encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field};
use prost_reflect::{DescriptorPool, FieldDescriptor, Kind};
use prost_types::Duration;
use rollplan_core::interrupt::Interrupt;

use rollplan_wire::proto::{
    Answer, CanaryCommand, CanaryPolicyStep, CanaryVerdict, Configuration, DeploymentChange,
    FailureRule, StepAnswer, WorkloadKind,
};
use rollplan_wire::{Error, MEMORY_BYTES_MAX, check_memory, json};

use super::method::Method;

/// The memory of a string in a list.
const STRING: usize = size_of::<String>();
/// The memory of a map entry, key and value. The nodes of the tree are half full.
const MAP_ENTRY: usize = 4 * STRING;
/// The memory of a configuration in a plan: a copy, and its entry in a map that may just have grown.
const RESTART_CONFIGURATION: usize = 768;
/// The memory of list entries, by the names of their messages. Lists grow by doubling.
const ENTRIES: [(&str, usize); 9] = [
    entry::<Answer>(0),
    entry::<CanaryPolicyStep>(0),
    entry::<CanaryVerdict>(0),
    entry::<Configuration>(RESTART_CONFIGURATION),
    entry::<DeploymentChange>(0),
    entry::<Duration>(0),
    entry::<FailureRule>(0),
    entry::<StepAnswer>(0),
    entry::<WorkloadKind>(0),
];

/// The memory of a forecast, besides that of its objects: the pods of a simulation, of which there may be tens of thousands,
/// and the courses of three scenarios. Every forecast is a large call, because it takes long.
pub(crate) const FORECAST_BYTES: usize = 16 << 20;

// The memory of Kubernetes JSON: for each byte, for each object and list in it, and for each value.
const JSON_BYTE: usize = 8;
const JSON_OPENED: usize = 300;
/// The minimum size of objects and lists that Kubernetes writes. Smaller ones may be lists of empty objects.
const JSON_BYTES_PER_OPENED: usize = 40;
const JSON_DENSE_OPENED: usize = 700;
/// The minimum average size of values that Kubernetes writes. Smaller ones may be short annotations of ReplicaSets, which a
/// plan copies.
const JSON_BYTES_PER_VALUE: usize = 24;
const JSON_DENSE_VALUE: usize = 384;

/// The number of fields between two checks for an interruption.
const CHECK_INTERVAL_FIELDS: usize = 4096;

const fn entry<M: Name>(more: usize) -> (&'static str, usize) {
    (M::NAME, 2 * size_of::<M>() + more)
}

/// The fields of a message with a length, by number.
#[derive(Default)]
struct MessageFields(Vec<CountedField>);

#[derive(Clone, Copy, Default)]
struct CountedField {
    /// The memory of each occurrence, besides its bytes.
    memory: usize,
    /// Whether it is a text of Kubernetes JSON.
    is_json: bool,
    /// The index of its message.
    inner: Option<usize>,
}

/// All messages of the contract. Empty if the descriptors are invalid, which tests rule out.
#[derive(Default)]
struct Contract {
    all: Vec<MessageFields>,
    by_name: HashMap<String, usize>,
}

static CONTRACT: LazyLock<Contract> =
    LazyLock::new(|| json::descriptors().map_or_else(Contract::default, Contract::read));

/// The maximum memory in bytes for reading and answering a request. Malformed messages are not an error here, because
/// the decoder rejects them.
///
/// # Errors
///
/// [`Error::TooLarge`] for requests that take too much memory, [`Error::Interrupted`].
pub fn memory(method: &Method, encoded: &[u8], interrupt: &dyn Interrupt) -> Result<usize, Error> {
    let Some(&index) = CONTRACT.by_name.get(method.request) else {
        return Ok(0);
    };
    let mut count = Count {
        bytes: encoded.len() + method.memory,
        fields: 0,
        interrupt,
    };
    count.message(index, encoded)?;
    Ok(count.bytes)
}

/// The maximum memory in bytes for reading a text of Kubernetes JSON.
#[must_use]
pub fn memory_of_json(json: &[u8]) -> usize {
    let [objects, lists, values] = count(json, [b'{', b'[', b',']);
    let opened = objects + lists;
    let dense = opened.saturating_sub(json.len() / JSON_BYTES_PER_OPENED);
    let dense_values = values.saturating_sub(json.len() / JSON_BYTES_PER_VALUE);
    json.len() * JSON_BYTE
        + opened * JSON_OPENED
        + dense * JSON_DENSE_OPENED
        + dense_values * JSON_DENSE_VALUE
}

/// The numbers of occurrences of bytes.
fn count<const N: usize>(bytes: &[u8], wanted: [u8; N]) -> [usize; N] {
    // In chunks whose counts fit in a byte and that fill vectors, so that the compiler can vectorize the loop.
    const CHUNK: usize = 240;
    let mut counts = [0; N];
    for part in bytes.chunks(CHUNK) {
        let mut found = [0_u8; N];
        for byte in part {
            for (found, wanted) in found.iter_mut().zip(wanted) {
                *found += u8::from(*byte == wanted);
            }
        }
        for (count, found) in counts.iter_mut().zip(found) {
            *count += usize::from(found);
        }
    }
    counts
}

struct Count<'i> {
    bytes: usize,
    /// The number of fields so far.
    fields: usize,
    interrupt: &'i dyn Interrupt,
}

// === impl Count ===

impl Count<'_> {
    /// Counts the fields of a message. Stops at malformed bytes, because decoding stops there, too.
    fn message(&mut self, index: usize, mut encoded: &[u8]) -> Result<(), Error> {
        let fields = &CONTRACT.all[index].0;
        while let Some((number, inside)) = next_field(&mut encoded) {
            self.fields += 1;
            if self.fields.is_multiple_of(CHECK_INTERVAL_FIELDS) {
                self.interrupt.check()?;
            }
            let (Some(field), Some(inside)) = (fields.get(number as usize), inside) else {
                continue;
            };
            self.bytes = self.bytes.saturating_add(field.memory);
            if field.is_json {
                // Objects are measured again when they are read, and rejected above the limit, so no text takes more.
                let bytes = self.bytes.saturating_add(memory_of_json(inside));
                self.bytes = bytes.min(MEMORY_BYTES_MAX.max(self.bytes));
            }
            check_memory(self.bytes)?;
            if let Some(inner) = field.inner {
                self.message(inner, inside)?;
            }
        }
        Ok(())
    }
}

/// The number of the next field, and its bytes if it has a length. `None` at the end, or if it is malformed.
fn next_field<'a>(encoded: &mut &'a [u8]) -> Option<(u32, Option<&'a [u8]>)> {
    let (number, wire_type) = decode_key(encoded).ok()?;
    if wire_type != WireType::LengthDelimited {
        skip_field(wire_type, number, encoded, DecodeContext::default()).ok()?;
        return Some((number, None));
    }
    let length = usize::try_from(decode_varint(encoded).ok()?).ok()?;
    let (inside, rest) = encoded.split_at_checked(length)?;
    *encoded = rest;
    Some((number, Some(inside)))
}

// === impl Contract ===

impl Contract {
    fn read(pool: &DescriptorPool) -> Self {
        let messages: Vec<_> = pool.all_messages().collect();
        let names = messages.iter().map(|it| it.full_name().to_owned());
        let by_name: HashMap<_, _> = names.zip(0..).collect();
        let all = messages.iter().map(|message| {
            let mut fields = Vec::new();
            for field in message.fields() {
                let number = field.number() as usize;
                fields.resize(fields.len().max(number + 1), CountedField::default());
                fields[number] = CountedField::read(&field, &by_name);
            }
            MessageFields(fields)
        });
        Self {
            all: all.collect(),
            by_name,
        }
    }
}

// === impl CountedField ===

impl CountedField {
    fn read(field: &FieldDescriptor, by_name: &HashMap<String, usize>) -> Self {
        let owners = [CanaryCommand::NAME, DeploymentChange::NAME];
        let is_json = field.name() == "objects"
            || (field.name() == "body" && field.parent_message().name() == Answer::NAME)
            || (field.name() == "deployment" && owners.contains(&field.parent_message().name()));
        match field.kind() {
            _ if field.is_map() => Self {
                memory: MAP_ENTRY,
                ..Self::default()
            },
            Kind::Message(message) => Self {
                memory: if field.is_list() {
                    size_of_entry(message.name())
                } else {
                    0
                },
                inner: by_name.get(message.full_name()).copied(),
                ..Self::default()
            },
            _ => Self {
                memory: STRING,
                is_json,
                ..Self::default()
            },
        }
    }
}

/// The memory of a list entry. The lists of other messages are parts of responses.
fn size_of_entry(message: &str) -> usize {
    let entry = ENTRIES.iter().find(|(name, _)| *name == message);
    entry.map_or(0, |(_, size)| *size)
}
