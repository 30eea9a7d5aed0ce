//! What a request takes in memory and in processor time, estimated from its bytes before it is decoded: two bytes may
//! become half a KiB, and forty thousand may be ten milliseconds of work.
//!
//! One walk over the bytes adds up what each field takes. It also finds what Kubernetes itself refuses by its size, so that
//! nothing of it is ever decoded. Of the ReplicaSets, pods and events of a snapshot, only those that are selected are refused;
//! others count by what they take.

use std::collections::BTreeMap;
use std::mem;
use std::sync::LazyLock;

use bytes::Buf as _;
use prost::Name;
use prost_reflect::{DescriptorPool, FieldDescriptor, Kind, MessageDescriptor};
use rollplan_core::interrupt::{Interrupt, Interrupted, Never};

use super::Error;
use super::error::{Reason, Violations};
use super::fields::next_field;
use super::limits::{
    ANSWERS_MAX, CONFIGURATIONS_MAX, EVENTS_MAX, PODS_MAX, REPLICA_SETS_MAX, WORKLOADS_MAX,
};
use super::parse::path::Path;
use super::parse::selected::find_selected;
use crate::proto::RawStruct;
use crate::proto::{
    Configuration, ContainerStatus, DeploymentCondition, FailureRule, LabelSelectorRequirement,
    NamespaceSettings, ObservedEvent, OwnerReference, Pod, PodCondition, Reference, ReplicaSet,
    ReplicaSetCondition, StepAnswer, Workload, WorkloadKind,
};

/// Bytes that a request may take in memory. As many pods as there may be, each with what Kubernetes writes into its
/// status, take less than half of it.
pub const MEMORY_BYTES_MAX: usize = 256 << 20;
/// Bytes that an encoded object may have: the API server accepts no larger request.
pub const OBJECT_BYTES_MAX: usize = 3 << 20;
/// Bytes that the annotations of an object may have, keys and values together (Kubernetes:
/// TotalAnnotationSizeLimitB).
pub const ANNOTATIONS_BYTES_MAX: usize = 256 << 10;
/// Entries that a list or map of an object may have. Kubernetes has no such limit, and objects have some dozens.
pub const ENTRIES_MAX: usize = 10_000;

/// What a request takes, about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Estimate {
    /// Bytes in memory at the peak, the encoded request aside.
    pub memory: usize,
    /// Processor time, in nanoseconds of the machine of docs/benchmarks.md.
    pub work: u64,
}

/// What one more entry of a list takes in memory, by the name of its message.
const ENTRIES: [(&str, usize); 16] = [
    size::<Configuration>(),
    size::<ContainerStatus>(),
    size::<DeploymentCondition>(),
    size::<FailureRule>(),
    size::<LabelSelectorRequirement>(),
    size::<NamespaceSettings>(),
    size::<ObservedEvent>(),
    size::<OwnerReference>(),
    size::<Pod>(),
    size::<PodCondition>(),
    size::<Reference>(),
    size::<ReplicaSet>(),
    size::<ReplicaSetCondition>(),
    size::<StepAnswer>(),
    (Workload::NAME, size_of::<Workload>() + RESTART_PLAN),
    size::<WorkloadKind>(),
];

/// What the plan for a workload takes, in half: its state three times, changes, conditions and the body of a call.
const RESTART_PLAN: usize = 2048;

/// What one more entry of a map takes, key and value: nodes of the tree are half full.
const MAP_ENTRY: usize = 4 * size_of::<String>();

/// Room for so many entries is made for the first one, in a list and in a map.
const FIRST: [usize; 2] = [4, 12];

/// The allocator has no smaller block.
const BLOCK: usize = 16;

/// No list or map of a message may have more than this many fields before it: their numbers index an array.
const NUMBERS: usize = 16;

const fn size<M: Name>() -> (&'static str, usize) {
    (M::NAME, size_of::<M>())
}

// Nanoseconds, by measurement: `cargo bench --bench bounds` holds them against what is measured.
/// Of any request: headers, the answer.
const WORK_REQUEST: u64 = 30_000;
/// Of a text or a message.
const WORK_FIELD: u64 = 60;
/// Of an entry of a map.
const WORK_MAP_ENTRY: u64 = 150;
/// Of an object.
const WORK_OBJECT: u64 = 1_000;
/// Of an annotation of a Deployment or ReplicaSet: each pass of a plan may copy it.
const WORK_ANNOTATION: u64 = 3_000;
/// So many bytes in memory take a nanosecond to write and to free.
const MEMORY_BYTES_PER_WORK: usize = 2;
/// Of a byte of a template.
const WORK_TEMPLATE_BYTE: u64 = 8;
/// Of a byte of Kubernetes JSON.
const WORK_JSON_BYTE: u64 = 6;
/// Bytes in memory for each byte of Kubernetes JSON, and for each object in it; what Kubernetes writes has an object for so
/// many bytes, and more than that may be lists of empty messages.
const JSON_MEMORY: usize = 8;
const JSON_MAP_MEMORY: usize = 300;
const JSON_BYTES_PER_MAP: usize = 40;
const JSON_DENSE_MEMORY: usize = 700;
/// The same for values: what Kubernetes writes has one for so many bytes and more, and more than that may be short annotations
/// of ReplicaSets.
const JSON_VALUE_MEMORY: usize = COPIES * (MAP_ENTRY + 2 * BLOCK);
const JSON_BYTES_PER_VALUE: usize = 24;
/// Bytes in memory for each byte of a Deployment: its template becomes values, which are hashed and printed.
const DEPLOYMENT_MEMORY: usize = 4;
/// Holding the selector against a ReplicaSet, in all passes of a plan, is this part of reading the selector.
const MATCHES_PART: u64 = 8;
/// Fields that are read between two questions whether to go on.
const FIELDS_UNASKED: u32 = 4096;
/// How much a plan copies of ReplicaSets.
pub(super) const COPIES: usize = 3;

/// The fields of a message, by their numbers.
#[derive(Default)]
struct Shape(Vec<Field>);

#[derive(Clone, Default)]
struct Field {
    name: String,
    /// As an error names it.
    what: String,
    /// What it takes each time it comes. Nothing where it only takes the place that is there.
    memory: usize,
    /// What it takes besides when it comes first.
    first: usize,
    /// What each of its bytes takes besides.
    growth: usize,
    work: u64,
    work_by_byte: u64,
    rule: Rule,
    /// How many there may be.
    entries_max: Option<usize>,
    /// Whether more of them refuse the request, and not the object that has them.
    is_of_request: bool,
    /// What each takes besides beyond that, in a list, which grows by doubling.
    beyond: usize,
    /// Which shape is in it.
    inner: Option<usize>,
}

/// What else is to be done about a field.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Rule {
    #[default]
    None,
    /// A text.
    Text,
    /// An object as the API server stores it.
    Object,
    /// One that is refused only if it is selected.
    Member,
    /// One whose annotations a plan copies.
    Deployment,
    /// A member that a plan copies.
    ReplicaSet,
    Annotations,
    /// It is held against each ReplicaSet.
    Selector,
    /// A text of Kubernetes JSON.
    Objects,
}

/// Of all messages of the contract. Empty if this build is broken; tests see that it is not.
#[derive(Default)]
struct Shapes {
    all: Vec<Shape>,
    by_name: BTreeMap<String, usize>,
}

static SHAPES: LazyLock<Shapes> =
    LazyLock::new(|| super::json::descriptors().map_or_else(Shapes::default, Shapes::read));

/// Estimates what it takes to answer a request.
///
/// # Errors
///
/// [`Error::InvalidArgument`] for what Kubernetes refuses by its size, [`Error::TooLarge`] beyond the limits of the
/// contract. What is not such a message is left for the decoder to refuse.
pub fn estimate<M: Name>(encoded: &[u8]) -> Result<Estimate, Error> {
    estimate_named(&M::full_name(), encoded, &Never)
}

/// Refuses a request that takes more bytes in memory than one may.
pub(super) fn check_memory(bytes: usize) -> Result<(), Error> {
    if bytes > MEMORY_BYTES_MAX {
        return Err(Error::TooLarge {
            what: "request",
            unit: "bytes in memory",
            count: bytes,
            max: MEMORY_BYTES_MAX,
        });
    }
    Ok(())
}

/// Estimates what it takes to find the objects in a text of Kubernetes JSON.
#[must_use]
pub fn estimate_objects(json: &[u8]) -> Estimate {
    let (maps, values) = (count(json, b'{'), count(json, b','));
    let dense = maps.saturating_sub(json.len() / JSON_BYTES_PER_MAP);
    let dense_values = values.saturating_sub(json.len() / JSON_BYTES_PER_VALUE);
    Estimate {
        memory: json.len() * JSON_MEMORY
            + maps * JSON_MAP_MEMORY
            + dense * JSON_DENSE_MEMORY
            + dense_values * JSON_VALUE_MEMORY,
        work: json.len() as u64 * WORK_JSON_BYTE + maps as u64 * WORK_FIELD,
    }
}

/// How many times a byte occurs.
fn count(bytes: &[u8], wanted: u8) -> usize {
    // In parts of which a byte can count all, for the compiler to count many at once.
    let counts = bytes.chunks(usize::from(u8::MAX)).map(|part| {
        let found = part.iter().map(|&byte| u8::from(byte == wanted));
        usize::from(found.sum::<u8>())
    });
    counts.sum()
}

/// [`estimate`] of the message with this full name. Nothing is estimated for one that the contract does not have.
///
/// # Errors
///
/// As [`estimate`], and [`Error::Interrupted`].
pub fn estimate_named(
    message: &str,
    encoded: &[u8],
    interrupt: &dyn Interrupt,
) -> Result<Estimate, Error> {
    let Some(walk) = Walk::run(message, encoded, u64::MAX, interrupt) else {
        return Ok(Estimate::default());
    };
    walk.finish(encoded)
}

/// [`estimate_named`], if it is no more work than this. Does not read on where it is more.
///
/// # Errors
///
/// As [`estimate`].
pub fn estimate_up_to(
    message: &str,
    encoded: &[u8],
    work_max: u64,
) -> Result<Option<Estimate>, Error> {
    let Some(walk) = Walk::run(message, encoded, work_max, &Never) else {
        return Ok(Some(Estimate::default()));
    };
    if walk.work() > work_max {
        return Ok(None);
    }
    walk.finish(encoded).map(Some)
}

pub(super) fn annotations_too_large(bytes: usize) -> String {
    format!("{bytes} bytes of keys and values exceed the limit of {ANNOTATIONS_BYTES_MAX}")
}

/// An object that breaks limits, and must be selected to be refused for it.
struct Oversized {
    /// Where its bytes are.
    address: usize,
    violations: Violations,
}

/// What was found so far.
struct Walk<'i> {
    interrupt: &'i dyn Interrupt,
    unasked: u32,
    is_interrupted: bool,
    work_max: u64,
    memory: usize,
    work: u64,
    /// The part of the work that is the selector's, and how many objects it is held against.
    selector: u64,
    replica_sets: u64,
    /// What an annotation takes besides, of the object that is being read.
    annotation: u64,
    /// Whether the selector is being read: it has limits of its own.
    is_selector: bool,
    /// Whether a member is being read.
    is_member: bool,
    oversized: Vec<Oversized>,
    violations: Violations,
    too_large: Option<Error>,
}

// === impl Walk ===

impl<'i> Walk<'i> {
    fn run(
        message: &str,
        encoded: &[u8],
        work_max: u64,
        interrupt: &'i dyn Interrupt,
    ) -> Option<Self> {
        let &shape = SHAPES.by_name.get(message)?;
        let mut walk = Self {
            interrupt,
            unasked: 0,
            is_interrupted: false,
            work_max,
            memory: 0,
            work: WORK_REQUEST,
            selector: 0,
            replica_sets: 0,
            annotation: 0,
            is_selector: false,
            is_member: false,
            oversized: Vec::new(),
            violations: Violations::default(),
            too_large: None,
        };
        walk.message(shape, encoded, None);
        Some(walk)
    }

    fn work(&self) -> u64 {
        let matches = self.replica_sets.saturating_mul(self.selector) / MATCHES_PART;
        let memory = (self.memory / MEMORY_BYTES_PER_WORK) as u64;
        self.work.saturating_add(matches).saturating_add(memory)
    }

    fn finish(mut self, encoded: &[u8]) -> Result<Estimate, Error> {
        let estimate = Estimate {
            memory: self.memory,
            work: self.work(),
        };
        if !self.is_interrupted && self.violations.is_empty() && !self.oversized.is_empty() {
            self.refuse_selected(encoded)?;
        }
        if self.is_interrupted {
            return Err(Interrupted.into());
        }
        if let Some(error) = self.too_large {
            return Err(error);
        }
        if !self.violations.is_empty() {
            return Err(Error::InvalidArgument(self.violations));
        }
        check_memory(estimate.memory)?;
        Ok(estimate)
    }

    /// Notes what is wrong with members that are selected.
    fn refuse_selected(&mut self, request: &[u8]) -> Result<(), Interrupted> {
        let selected = find_selected(request, self.interrupt)?;
        for Oversized {
            address,
            violations,
        } in mem::take(&mut self.oversized)
        {
            if selected.contains(&address) {
                self.violations.extend(violations);
            }
        }
        Ok(())
    }

    /// Adds what is in a message, and returns the bytes of its texts. To where it cannot be read any further: nothing is
    /// decoded after that.
    fn message(&mut self, shape: usize, mut encoded: &[u8], path: Option<&Path<'_>>) -> usize {
        let fields = &SHAPES.all[shape].0;
        let mut text = 0_usize;
        let mut counts = [0_usize; NUMBERS];
        let mut has_too_many = false;
        let mut annotations = 0_usize;
        while encoded.has_remaining() && self.goes_on() {
            let Some((number, inside)) = next_field(&mut encoded) else {
                break;
            };
            let Some(inside) = inside else {
                continue;
            };
            let (Some(field), Some(count)) =
                (fields.get(number as usize), counts.get_mut(number as usize))
            else {
                continue;
            };
            *count += 1;
            if field.entries_max.is_some_and(|max| *count > max) {
                has_too_many = true;
                if !self.is_member {
                    continue;
                }
                self.memory = self.memory.saturating_add(field.beyond);
            }
            let index = *count - 1;
            self.memory = self.memory.saturating_add(field.memory);
            if index == 0 {
                self.memory = self.memory.saturating_add(field.first);
            }
            self.grow(field, inside.len());
            if field.rule == Rule::Text {
                text = text.saturating_add(inside.len());
            }
            if field.rule == Rule::Objects {
                self.objects(inside);
            }
            let Some(inner) = field.inner else {
                continue;
            };
            let place = match path {
                None => Path::Root(&field.name),
                Some(path) => Path::Field(path, &field.name),
            };
            let item = match field.entries_max {
                Some(_) => place.index(index),
                None => place,
            };
            let inner_text = self.inside(field, inner, inside, &item);
            text = text.saturating_add(inner_text);
            if field.rule == Rule::Annotations {
                annotations = annotations.saturating_add(inner_text);
                self.work = self.work.saturating_add(self.annotation);
            }
        }
        if annotations > ANNOTATIONS_BYTES_MAX
            && let Some(path) = path
        {
            let description = annotations_too_large(annotations);
            let path = path.field("annotations");
            self.violations
                .add(path, Reason::AnnotationsTooLarge, description);
        }
        if has_too_many {
            self.note_too_many(fields, &counts, path);
        }
        text
    }

    fn note_too_many(
        &mut self,
        fields: &'static [Field],
        counts: &[usize],
        path: Option<&Path<'_>>,
    ) {
        for (field, &count) in fields.iter().zip(counts) {
            let Some(max) = field.entries_max.filter(|max| count > *max) else {
                continue;
            };
            match path {
                Some(path) if !field.is_of_request && !self.is_selector => {
                    let description = format_args!("{count} entries exceed the limit of {max}");
                    let path = path.field(&field.name);
                    self.violations
                        .add(path, Reason::ObjectTooLarge, description);
                }
                _ => {
                    self.too_large.get_or_insert(Error::TooLarge {
                        what: &field.what,
                        unit: "entries",
                        count,
                        max,
                    });
                }
            }
        }
    }

    /// Whether to read another field.
    fn goes_on(&mut self) -> bool {
        self.unasked += 1;
        if self.unasked == FIELDS_UNASKED {
            self.unasked = 0;
            self.is_interrupted |= self.interrupt.is_interrupted();
        }
        !self.is_interrupted && self.work() <= self.work_max
    }

    /// Adds what the bytes of a field take by themselves.
    fn grow(&mut self, field: &Field, bytes: usize) {
        self.memory = self
            .memory
            .saturating_add(field.growth.saturating_mul(bytes));
        if field.rule == Rule::Text {
            self.memory = self.memory.saturating_add(bytes.next_multiple_of(BLOCK));
        }
        let by_byte = field.work_by_byte.saturating_mul(bytes as u64);
        self.work = self.work.saturating_add(field.work.saturating_add(by_byte));
    }

    /// Adds what Kubernetes JSON takes, of which nobody knows yet what is selected. What is selected is measured once it is
    /// read, and refused above the limit: so no text takes more.
    fn objects(&mut self, json: &[u8]) {
        let Estimate { memory, work } = estimate_objects(json);
        self.memory = self.memory.saturating_add(memory).min(MEMORY_BYTES_MAX);
        self.work = self.work.saturating_add(work);
    }

    /// Adds what is in a field that is a message.
    fn inside(&mut self, field: &Field, inner: usize, inside: &[u8], path: &Path<'_>) -> usize {
        match field.rule {
            Rule::None | Rule::Text | Rule::Annotations | Rule::Objects => {
                self.message(inner, inside, Some(path))
            }
            Rule::Selector => {
                let before = self.work;
                self.is_selector = true;
                let text = self.message(inner, inside, Some(path));
                self.is_selector = false;
                self.selector = self.work - before;
                text
            }
            Rule::Deployment | Rule::Object => self.object(field.rule, inner, inside, path),
            Rule::ReplicaSet | Rule::Member => self.member(field.rule, inner, inside, path),
        }
    }

    /// Adds what is in an object. Nothing, where it is too large and refused for it in any case.
    fn object(&mut self, rule: Rule, inner: usize, inside: &[u8], path: &Path<'_>) -> usize {
        if inside.len() > OBJECT_BYTES_MAX {
            let description = format_args!(
                "{} bytes exceed the limit of {OBJECT_BYTES_MAX} for an object",
                inside.len()
            );
            self.violations
                .add(path, Reason::ObjectTooLarge, description);
            if !self.is_member {
                return 0;
            }
        }
        if rule == Rule::Deployment {
            let template = inside.len().saturating_mul(DEPLOYMENT_MEMORY);
            self.memory = self.memory.saturating_add(template);
        }
        self.annotation = match rule {
            Rule::Object | Rule::Member => 0,
            _ => WORK_ANNOTATION,
        };
        self.message(inner, inside, Some(path))
    }

    /// Adds what is in an object that may not be selected.
    fn member(&mut self, rule: Rule, inner: usize, inside: &[u8], path: &Path<'_>) -> usize {
        let before = self.memory;
        let others = mem::take(&mut self.violations);
        self.is_member = true;
        let text = self.object(rule, inner, inside, path);
        self.is_member = false;
        let violations = mem::replace(&mut self.violations, others);
        if !violations.is_empty() {
            self.oversized.push(Oversized {
                address: inside.as_ptr().addr(),
                violations,
            });
        }
        if rule == Rule::ReplicaSet {
            self.replica_sets += 1;
            let copied = (self.memory - before).saturating_mul(COPIES - 1);
            self.memory = self.memory.saturating_add(copied);
        }
        text
    }
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
        let parent = field.parent_message();
        let name = field.name().to_owned();
        match (parent.full_name(), field.kind()) {
            // Kept in the bytes that it came in, and its entries beside them.
            ("google.protobuf.Struct", _) => Self {
                memory: RawStruct::ENTRY_BYTES,
                growth: 1,
                work: WORK_FIELD,
                work_by_byte: WORK_TEMPLATE_BYTE,
                ..Self::default()
            },
            // Stands where a number or a percentage should, and not a list or map: it is refused, once decoded.
            ("google.protobuf.Value", Kind::Message(_)) => Self {
                growth: 1024,
                work_by_byte: 100,
                ..Self::default()
            },
            (parent, kind) => {
                let memory = entry_bytes(field).unwrap_or_default();
                let rule = Rule::of(parent, field.name(), &kind);
                let object = match rule {
                    Rule::Deployment | Rule::ReplicaSet | Rule::Object | Rule::Member => {
                        WORK_OBJECT
                    }
                    _ => 0,
                };
                let entry = if field.is_map() { WORK_MAP_ENTRY } else { 0 };
                let what = match parent {
                    "rollplan.v1.Snapshot" => format!("snapshot.{name}"),
                    _ => format!("{}.{name}", field.parent_message().name()),
                };
                Self {
                    what,
                    memory,
                    first: memory * (FIRST[usize::from(field.is_map())] - 1),
                    work: WORK_FIELD + object + entry,
                    rule,
                    entries_max: entries_max(parent, field),
                    is_of_request: is_of_request(field),
                    beyond: if field.is_map() { 0 } else { memory },
                    inner: match kind {
                        Kind::Message(inner) => by_name.get(inner.full_name()).copied(),
                        _ => None,
                    },
                    name,
                    ..Self::default()
                }
            }
        }
    }
}

impl Rule {
    fn of(parent: &str, name: &str, kind: &Kind) -> Self {
        match (parent, name) {
            ("rollplan.v1.Snapshot" | "rollplan.v1.PlanRestartsRequest", "objects_json")
            | ("rollplan.v1.StepAnswer", "existing_json") => Self::Objects,
            ("rollplan.v1.Snapshot", "replica_sets") => Self::ReplicaSet,
            ("rollplan.v1.Snapshot", "deployment") => Self::Deployment,
            ("rollplan.v1.Snapshot", "pods" | "events") => Self::Member,
            ("rollplan.v1.PlanRestartsRequest", "workloads" | "configurations") => Self::Object,
            ("rollplan.v1.ObjectMeta" | "rollplan.v1.Configuration", "annotations") => {
                Self::Annotations
            }
            ("rollplan.v1.DeploymentSpec", "selector") => Self::Selector,
            _ if matches!(kind, Kind::String | Kind::Bytes) => Self::Text,
            _ => Self::None,
        }
    }
}

/// Whether a list or map is not that of an object.
fn is_of_request(field: &FieldDescriptor) -> bool {
    let parent = field.parent_message();
    matches!(
        parent.full_name(),
        "rollplan.v1.Snapshot" | "rollplan.v1.PlanRestartsRequest"
    )
}

/// How many entries a list or map may have. `None` for what is neither.
fn entries_max(parent: &str, field: &FieldDescriptor) -> Option<usize> {
    match (parent, field.name()) {
        ("rollplan.v1.Snapshot", "replica_sets") => Some(REPLICA_SETS_MAX),
        ("rollplan.v1.Snapshot", "pods") => Some(PODS_MAX),
        ("rollplan.v1.Snapshot", "answers") => Some(ANSWERS_MAX),
        ("rollplan.v1.Snapshot", "events") => Some(EVENTS_MAX),
        ("rollplan.v1.PlanRestartsRequest", "workloads") => Some(WORKLOADS_MAX),
        ("rollplan.v1.PlanRestartsRequest", "configurations") => Some(CONFIGURATIONS_MAX),
        _ if field.is_list() || field.is_map() => Some(ENTRIES_MAX),
        _ => None,
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
            // Once as decoded, once as parsed. Long lists are those of the request: such a list grows by doubling.
            let copies = if is_of_request(field) { 3 } else { 2 };
            known.map(|(_, bytes)| copies * *bytes)
        }
        Kind::String | Kind::Bytes => Some(size_of::<String>()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use prost::Message as _;

    use super::*;
    use crate::proto::{Deployment, ObjectMeta, PlanRolloutRequest, PodStatus, Snapshot};

    /// All lists and maps below a message of a request.
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
    fn every_list_of_a_request_has_its_size_and_limit() {
        let pool = super::super::json::descriptors().unwrap();
        let mut found = Vec::new();
        let service = pool
            .get_service_by_name("rollplan.v1.RolloutPlanner")
            .unwrap();
        for method in service.methods() {
            lists(&method.input(), &mut Vec::new(), &mut found);
        }
        assert!(found.len() > 20);
        for field in found {
            let name = field.full_name();
            assert!(entry_bytes(&field).is_some_and(|it| it > 0), "{name}");
            assert!((field.number() as usize) < NUMBERS, "{name}");
        }
    }

    fn of(pods: Vec<Pod>) -> Vec<u8> {
        let request = PlanRolloutRequest {
            snapshot: Some(Snapshot {
                pods,
                ..Snapshot::default()
            }),
            options: None,
        };
        request.encode_to_vec()
    }

    #[test]
    fn what_decoders_skip_is_skipped() {
        let pod = Pod {
            status: Some(PodStatus {
                container_statuses: vec![ContainerStatus::default(); 3],
                ..PodStatus::default()
            }),
            ..Pod::default()
        };
        let mut encoded = of(vec![pod; 2]);
        let expected = estimate::<PlanRolloutRequest>(&encoded).unwrap();
        assert!(expected.memory > 2 * size_of::<Pod>() + 6 * size_of::<ContainerStatus>());
        // A group, as no generator writes them any more, and fields of the future.
        let (start, end) = ((900_u32 << 3) | 3, (900_u32 << 3) | 4);
        let mut unknown = Vec::new();
        for key in [start, end] {
            prost::encoding::encode_varint(u64::from(key), &mut unknown);
        }
        unknown.append(&mut encoded);
        let estimated = estimate::<PlanRolloutRequest>(&unknown).unwrap();
        assert_eq!(estimated, expected);
        assert!(PlanRolloutRequest::decode(&unknown[..]).is_ok());
    }

    /// A request with so many pods, all with these encoded fields.
    fn pods(count: usize, fields: &[u8]) -> Vec<u8> {
        let mut pod = vec![0x22];
        prost::encoding::encode_varint(fields.len() as u64, &mut pod);
        pod.extend_from_slice(fields);
        let snapshot = pod.repeat(count);
        let mut request = vec![0x0a];
        prost::encoding::encode_varint(snapshot.len() as u64, &mut request);
        request.extend(snapshot);
        request
    }

    #[test]
    fn two_bytes_that_become_many_are_refused() {
        let too_many = estimate::<PlanRolloutRequest>(&pods(1 << 20, &[]));
        let Err(Error::TooLarge { what, count, .. }) = too_many else {
            panic!("{too_many:?}");
        };
        assert_eq!((what, count), ("snapshot.pods", 1 << 20));
        // As many as there may be in each pod.
        let containers = [0x3a, 0].repeat(ENTRIES_MAX);
        let mut status = vec![0x2a];
        prost::encoding::encode_varint(containers.len() as u64, &mut status);
        status.extend(containers);
        let too_much = estimate::<PlanRolloutRequest>(&pods(700, &status));
        let Err(Error::TooLarge { what, unit, .. }) = too_much else {
            panic!("{too_much:?}");
        };
        assert_eq!((what, unit), ("request", "bytes in memory"));
        let more = [0x3a, 0].repeat(ENTRIES_MAX + 1);
        let mut status = vec![0x2a];
        prost::encoding::encode_varint(more.len() as u64, &mut status);
        status.extend(more);
        // Of one that is not selected, nobody reads them.
        estimate::<PlanRolloutRequest>(&pods(1, &status)).unwrap();
    }

    fn owned_by(uid: &str) -> ObjectMeta {
        ObjectMeta {
            owner_references: vec![OwnerReference {
                uid: uid.to_owned(),
                controller: Some(true),
                ..OwnerReference::default()
            }],
            ..ObjectMeta::default()
        }
    }

    /// A request with these pods, and with the Deployment and the ReplicaSet that control [`own_pod`].
    fn own(pods: Vec<Pod>) -> Vec<u8> {
        let mut set = ReplicaSet {
            metadata: Some(owned_by("deployment")),
            ..ReplicaSet::default()
        };
        set.metadata.as_mut().unwrap().uid = "set".to_owned();
        let request = PlanRolloutRequest {
            snapshot: Some(Snapshot {
                deployment: Some(Deployment {
                    metadata: Some(ObjectMeta {
                        uid: "deployment".to_owned(),
                        ..ObjectMeta::default()
                    }),
                    ..Deployment::default()
                }),
                replica_sets: vec![set],
                pods,
                ..Snapshot::default()
            }),
            options: None,
        };
        request.encode_to_vec()
    }

    fn own_pod() -> Pod {
        Pod {
            metadata: Some(owned_by("set")),
            ..Pod::default()
        }
    }

    fn annotated(entries: impl IntoIterator<Item = (String, String)>) -> Pod {
        let mut pod = own_pod();
        let annotations = &mut pod.metadata.as_mut().unwrap().annotations;
        annotations.extend(entries);
        pod
    }

    fn violation(encoded: &[u8]) -> (String, Reason) {
        match estimate::<PlanRolloutRequest>(encoded) {
            Err(Error::InvalidArgument(mut violations)) => {
                assert_eq!(violations.omitted, 0);
                let violation = violations.listed.remove(0);
                (violation.field, violation.reason)
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_kubernetes_refuses_by_its_size_is_refused() {
        let of_bytes = |bytes| annotated([("key".to_owned(), "x".repeat(bytes - 3))]);
        let all = own(vec![
            of_bytes(ANNOTATIONS_BYTES_MAX),
            of_bytes(ANNOTATIONS_BYTES_MAX + 1),
        ]);
        let path = "snapshot.pods[1].metadata.annotations".to_owned();
        assert_eq!(violation(&all), (path, Reason::AnnotationsTooLarge));
        let all = own(vec![of_bytes(ANNOTATIONS_BYTES_MAX); 2]);
        estimate::<PlanRolloutRequest>(&all).unwrap();
        // In many entries as in one.
        let many = (0..5_000).map(|i| (format!("{i:060}"), String::new()));
        let path = "snapshot.pods[0].metadata.annotations".to_owned();
        assert_eq!(
            violation(&own(vec![annotated(many)])),
            (path, Reason::AnnotationsTooLarge)
        );
        let long = |bytes: usize| {
            let mut pod = own_pod();
            // Tag and length of the text.
            pod.api_version = "x".repeat(bytes - pod.encoded_len() - 5);
            assert_eq!(pod.encoded_len(), bytes);
            own(vec![pod])
        };
        estimate::<PlanRolloutRequest>(&long(OBJECT_BYTES_MAX)).unwrap();
        let path = "snapshot.pods[0]".to_owned();
        assert_eq!(
            violation(&long(OBJECT_BYTES_MAX + 1)),
            (path, Reason::ObjectTooLarge)
        );
    }

    #[test]
    fn short_entries_of_json_take_more_than_their_bytes() {
        let entries: Vec<_> = (0..10_000).map(|i| format!("\"{i}\":\"\"")).collect();
        let map = format!("{{{}}}", entries.join(","));
        // Once as decoded, and once as copied.
        let one = 2 * (MAP_ENTRY + BLOCK);
        assert!(estimate_objects(map.as_bytes()).memory > entries.len() * one);
        // What Kubernetes prints has none.
        let printed = include_str!("../../examples/mid-rollout.json");
        let printed: serde_json::Value = serde_json::from_str(printed).unwrap();
        let printed = printed.to_string();
        let maps = printed.matches('{').count();
        assert_eq!(
            estimate_objects(printed.as_bytes()).memory,
            printed.len() * JSON_MEMORY + maps * JSON_MAP_MEMORY
        );
    }

    /// While a list grows, what it has stays where it is until it has been copied.
    #[test]
    fn long_lists_take_three_times_their_entries() {
        let pods = |count| {
            estimate::<PlanRolloutRequest>(&pods(count, &[]))
                .unwrap()
                .memory
        };
        assert!(pods((1 << 14) + 1) - pods(1) >= 3 * (1 << 14) * size_of::<Pod>());
        let containers = (1 << 17) + 1;
        let pod = Pod {
            status: Some(PodStatus {
                container_statuses: vec![ContainerStatus::default(); containers],
                ..PodStatus::default()
            }),
            ..Pod::default()
        };
        let memory = estimate::<PlanRolloutRequest>(&of(vec![pod])).unwrap();
        assert!(memory.memory > 3 * containers * size_of::<ContainerStatus>());
    }

    #[test]
    fn more_work_than_asked_for_is_not_looked_at() {
        let all = of(vec![Pod::default(); 20_000]);
        let name = PlanRolloutRequest::full_name();
        let Estimate { work, .. } = estimate_named(&name, &all, &Never).unwrap();
        assert!(work > 7_000_000, "{work}");
        assert_eq!(estimate_up_to(&name, &all, work - 1).unwrap(), None);
        let whole = estimate_up_to(&name, &all, work).unwrap();
        assert_eq!(whole.unwrap().work, work);
        let walk = Walk::run(&name, &all, 1_000_000, &Never).unwrap();
        assert!(walk.work() < 1_010_000);
    }

    #[test]
    fn objects_take_at_least_the_memory_of_their_text() {
        let text = format!(r#"{{"kind":"{}"}}"#, "x".repeat(1 << 20));
        assert!(estimate_objects(text.as_bytes()).memory >= text.len());
    }

    /// Counts how often it is checked.
    struct Counted(Cell<u32>);

    impl Interrupt for Counted {
        fn is_interrupted(&self) -> bool {
            self.0.update(|asked| asked + 1);
            false
        }
    }

    #[test]
    fn interrupts_are_checked_once_in_many_fields() {
        let interrupt = Counted(Cell::new(0));
        let name = PlanRolloutRequest::full_name();
        let count = 4 * FIELDS_UNASKED;
        let all = of(vec![Pod::default(); count as usize]);
        estimate_named(&name, &all, &interrupt).unwrap();
        let asked = interrupt.0.get();
        assert!((1..=2 * count / FIELDS_UNASKED).contains(&asked), "{asked}");
    }

    #[test]
    fn as_many_pods_as_there_may_be_are_within_the_limit() {
        let saved = include_str!("../../examples/mid-rollout.json");
        let saved: serde_json::Value = serde_json::from_str(saved).unwrap();
        let pods = saved["items"].as_array().unwrap().iter();
        let pods = pods.filter(|item| item["kind"] == "Pod");
        let heaviest = pods.map(|pod| {
            let pod: Pod = super::super::json::from_json(&pod.to_string()).unwrap();
            estimate::<PlanRolloutRequest>(&of(vec![pod; 1_000]))
                .unwrap()
                .memory
                / 1_000
        });
        let heaviest = heaviest.max().unwrap();
        assert!(heaviest * PODS_MAX < MEMORY_BYTES_MAX, "{heaviest}");
    }
}
