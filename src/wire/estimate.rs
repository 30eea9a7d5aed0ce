//! Estimates the memory and processor time of a request from its bytes before it is decoded: two bytes may become half
//! a KiB, and 40,000 bytes may be 10 ms of work.
//!
//! A single walk over the bytes adds up the costs of all fields. It also finds objects that exceed the size limits of
//! Kubernetes, so that they are never decoded. ReplicaSets, pods and events of a snapshot are refused only if they are
//! selected; others only add to the costs.

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

/// The maximum memory of a request, in bytes. The maximum number of pods, each with a full status as written by
/// Kubernetes, uses less than half of it.
pub const MEMORY_BYTES_MAX: usize = 256 << 20;
/// The maximum size of an encoded object, in bytes: the API server accepts no larger request.
pub const OBJECT_BYTES_MAX: usize = 3 << 20;
/// The maximum size of the annotations of an object, keys and values together, in bytes (TotalAnnotationSizeLimitB in
/// Kubernetes).
pub const ANNOTATIONS_BYTES_MAX: usize = 256 << 10;
/// The maximum number of entries in a list or map of an object. Kubernetes has no such limit, but objects have at most
/// dozens.
pub const ENTRIES_MAX: usize = 10_000;

/// The estimated costs of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Estimate {
    /// The peak memory in bytes, without the encoded request.
    pub memory: usize,
    /// The processor time in nanoseconds, on the machine of docs/benchmarks.md.
    pub work: u64,
}

/// The memory of a list entry, by the name of its message.
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

/// Half of the memory of a workload's plan: three copies of its state, changes, conditions and the body of a call.
const RESTART_PLAN: usize = 2048;

/// The memory of a map entry, key and value. The nodes of the tree are half full.
const MAP_ENTRY: usize = 4 * size_of::<String>();

/// The number of entries that the first entry allocates memory for, in a list and in a map.
const FIRST: [usize; 2] = [4, 12];

/// The smallest block of the allocator.
const BLOCK: usize = 16;

/// An upper bound for the numbers of lists and maps in a message, which index an array.
const NUMBERS: usize = 16;

const fn size<M: Name>() -> (&'static str, usize) {
    (M::NAME, size_of::<M>())
}

// Work in nanoseconds, as measured: `cargo bench --bench bounds` compares these with measurements.
/// Per request: headers and the answer.
const WORK_REQUEST: u64 = 30_000;
/// Per string or message.
const WORK_FIELD: u64 = 60;
/// Per map entry.
const WORK_MAP_ENTRY: u64 = 150;
/// Per object.
const WORK_OBJECT: u64 = 1_000;
/// Per annotation of a Deployment or ReplicaSet, because each pass of a plan may copy it.
const WORK_ANNOTATION: u64 = 3_000;
/// The number of bytes in memory that are written and freed in a nanosecond.
const MEMORY_BYTES_PER_WORK: usize = 2;
/// Per byte of a template.
const WORK_TEMPLATE_BYTE: u64 = 8;
/// Per byte of Kubernetes JSON.
const WORK_JSON_BYTE: u64 = 6;
/// The memory per byte of Kubernetes JSON, and per object in it. Objects that Kubernetes writes have at least this
/// number of bytes; smaller ones may be lists of empty messages.
const JSON_MEMORY: usize = 8;
const JSON_MAP_MEMORY: usize = 300;
const JSON_BYTES_PER_MAP: usize = 40;
const JSON_DENSE_MEMORY: usize = 700;
/// The same for values. Values that Kubernetes writes have at least this number of bytes on average; smaller ones may
/// be short annotations of ReplicaSets.
const JSON_VALUE_MEMORY: usize = COPIES * (MAP_ENTRY + 2 * BLOCK);
const JSON_BYTES_PER_VALUE: usize = 24;
/// The memory per byte of a Deployment: its template is converted to values, which are hashed and printed.
const DEPLOYMENT_MEMORY: usize = 4;
/// Evaluating the selector for a ReplicaSet, in all passes of a plan, takes this fraction of the work of reading the
/// selector.
const MATCHES_PART: u64 = 8;
/// The number of fields between two checks for an interruption.
const CHECK_INTERVAL_FIELDS: u32 = 4096;
/// The number of copies of ReplicaSets in a plan.
pub(super) const COPIES: usize = 3;

/// The fields of a message, by number.
#[derive(Default)]
struct Shape(Vec<Field>);

#[derive(Clone, Default)]
struct Field {
    name: String,
    /// The name in errors.
    what: String,
    /// The memory of each occurrence. Zero if it is part of the memory of the message.
    memory: usize,
    /// The additional memory of the first occurrence.
    first: usize,
    /// The additional memory per byte.
    growth: usize,
    work: u64,
    work_by_byte: u64,
    rule: Rule,
    /// The maximum number of entries.
    entries_max: Option<usize>,
    /// Whether exceeding it is an error of the request, not of the object.
    is_of_request: bool,
    /// The additional memory per entry over the maximum, because lists grow by doubling.
    beyond: usize,
    /// The index of the shape of its message.
    inner: Option<usize>,
}

/// The special rule for a field.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Rule {
    #[default]
    None,
    /// A string.
    Text,
    /// An object as stored by the API server.
    Object,
    /// An object that is refused only if it is selected.
    Member,
    /// An object whose annotations are copied by a plan.
    Deployment,
    /// A member that a plan copies.
    ReplicaSet,
    Annotations,
    /// A selector, which is evaluated for each ReplicaSet.
    Selector,
    /// A text of Kubernetes JSON.
    Objects,
}

/// The shapes of all messages of the contract. Empty if the descriptors are invalid, which tests rule out.
#[derive(Default)]
struct Shapes {
    all: Vec<Shape>,
    by_name: BTreeMap<String, usize>,
}

static SHAPES: LazyLock<Shapes> =
    LazyLock::new(|| super::json::descriptors().map_or_else(Shapes::default, Shapes::read));

/// Estimates the costs of answering a request.
///
/// # Errors
///
/// [`Error::InvalidArgument`] for objects that exceed the size limits of Kubernetes, [`Error::TooLarge`] for requests
/// that exceed the limits of the contract. Malformed messages are not an error here: the decoder refuses them.
pub fn estimate<M: Name>(encoded: &[u8]) -> Result<Estimate, Error> {
    estimate_named(&M::full_name(), encoded, &Never)
}

/// Refuses a request that needs too much memory.
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

/// Estimates the costs of finding the objects in a text of Kubernetes JSON.
#[must_use]
pub fn estimate_objects(json: &[u8]) -> Estimate {
    let [maps, values] = count(json, [b'{', b',']);
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

/// The numbers of occurrences of two bytes.
fn count(bytes: &[u8], wanted: [u8; 2]) -> [usize; 2] {
    // In chunks whose counts fit in a byte and that fill vectors, so that the compiler can vectorize the loop.
    const CHUNK: usize = 240;
    let mut counts = [0; 2];
    for part in bytes.chunks(CHUNK) {
        let mut found = [0_u8; 2];
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

/// Like [`estimate`], for the message with this full name. Zero if the contract does not have it.
///
/// # Errors
///
/// See [`estimate`]; also [`Error::Interrupted`].
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

/// Like [`estimate_named`]. Returns `None` without reading further if the work exceeds this maximum.
///
/// # Errors
///
/// See [`estimate`].
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

/// An object that exceeds limits. It is refused if it is selected.
struct Oversized {
    /// The address of its bytes.
    address: usize,
    violations: Violations,
}

/// The state of the walk.
struct Walk<'i> {
    interrupt: &'i dyn Interrupt,
    fields_since_check: u32,
    is_interrupted: bool,
    work_max: u64,
    memory: usize,
    work: u64,
    /// The work for the selector, and the number of ReplicaSets that it is evaluated for.
    selector: u64,
    replica_sets: u64,
    /// The additional work per annotation of the current object.
    annotation: u64,
    /// Whether the current message is the selector, which has its own limits.
    is_selector: bool,
    /// Whether the current object is a member.
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
            fields_since_check: 0,
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

    /// Records the violations of the oversized members that are selected.
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

    /// Adds the costs of a message, and returns the total length of its strings. Stops at malformed bytes, because
    /// decoding stops there, too.
    fn message(&mut self, shape: usize, mut encoded: &[u8], path: Option<&Path<'_>>) -> usize {
        let fields = &SHAPES.all[shape].0;
        let mut text = 0_usize;
        let mut counts = [0_usize; NUMBERS];
        let mut has_too_many = false;
        let mut annotations = 0_usize;
        while encoded.has_remaining() && self.should_continue() {
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

    /// Whether to read the next field.
    fn should_continue(&mut self) -> bool {
        self.fields_since_check += 1;
        if self.fields_since_check == CHECK_INTERVAL_FIELDS {
            self.fields_since_check = 0;
            self.is_interrupted |= self.interrupt.is_interrupted();
        }
        !self.is_interrupted && self.work() <= self.work_max
    }

    /// Adds the costs of the bytes of a field.
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

    /// Adds the costs of Kubernetes JSON before it is known which objects are selected. Selected objects are measured
    /// when they are read, and refused above the memory limit, so no text needs more.
    fn objects(&mut self, json: &[u8]) {
        let Estimate { memory, work } = estimate_objects(json);
        self.memory = self.memory.saturating_add(memory).min(MEMORY_BYTES_MAX);
        self.work = self.work.saturating_add(work);
    }

    /// Adds the costs of the message in a field.
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

    /// Adds the costs of an object, unless it is refused for its size in any case.
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

    /// Adds the costs of an object that may not be selected.
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
            // The bytes are kept encoded, with additional memory for the entries.
            ("google.protobuf.Struct", _) => Self {
                memory: RawStruct::ENTRY_BYTES,
                growth: 1,
                work: WORK_FIELD,
                work_by_byte: WORK_TEMPLATE_BYTE,
                ..Self::default()
            },
            // A list or map in the place of a number or percentage. It is refused after decoding.
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

/// Whether a list or map belongs to a request, not to an object.
fn is_of_request(field: &FieldDescriptor) -> bool {
    let parent = field.parent_message();
    matches!(
        parent.full_name(),
        "rollplan.v1.Snapshot" | "rollplan.v1.PlanRestartsRequest"
    )
}

/// The maximum number of entries in a list or map. `None` for other fields.
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

/// The memory of an entry in a list or map, zero for other fields. `None` if unknown.
fn entry_bytes(field: &FieldDescriptor) -> Option<usize> {
    if !field.is_list() && !field.is_map() {
        return Some(0);
    }
    match field.kind() {
        Kind::Message(_) if field.is_map() => Some(MAP_ENTRY),
        Kind::Message(entry) => {
            let known = ENTRIES.iter().find(|(name, _)| *name == entry.name());
            // One copy is decoded and one is parsed. Long lists, which occur in requests, have a third copy while they
            // grow by doubling.
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

    /// All lists and maps in a message of a request, at any depth.
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
    fn all_lists_of_requests_have_a_size_and_limit() {
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
    fn unknown_fields_are_skipped() {
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
        // A group, which is deprecated, and unknown fields.
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

    /// A request with this number of pods, all with these encoded fields.
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
    fn large_messages_in_few_bytes_are_refused() {
        let too_many = estimate::<PlanRolloutRequest>(&pods(1 << 20, &[]));
        let Err(Error::TooLarge { what, count, .. }) = too_many else {
            panic!("{too_many:?}");
        };
        assert_eq!((what, count), ("snapshot.pods", 1 << 20));
        // The maximum number of containers in each pod.
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
        // The pod is not selected, so it is not refused.
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
    fn objects_over_the_size_limits_of_kubernetes_are_refused() {
        let of_bytes = |bytes| annotated([("key".to_owned(), "x".repeat(bytes - 3))]);
        let all = own(vec![
            of_bytes(ANNOTATIONS_BYTES_MAX),
            of_bytes(ANNOTATIONS_BYTES_MAX + 1),
        ]);
        let path = "snapshot.pods[1].metadata.annotations".to_owned();
        assert_eq!(violation(&all), (path, Reason::AnnotationsTooLarge));
        let all = own(vec![of_bytes(ANNOTATIONS_BYTES_MAX); 2]);
        estimate::<PlanRolloutRequest>(&all).unwrap();
        // The limit applies to the sum of all entries.
        let many = (0..5_000).map(|i| (format!("{i:060}"), String::new()));
        let path = "snapshot.pods[0].metadata.annotations".to_owned();
        assert_eq!(
            violation(&own(vec![annotated(many)])),
            (path, Reason::AnnotationsTooLarge)
        );
        let long = |bytes: usize| {
            let mut pod = own_pod();
            // The tag and length of the string.
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
        // JSON of Kubernetes has no such entries.
        let printed = include_str!("../../examples/mid-rollout.json");
        let printed: serde_json::Value = serde_json::from_str(printed).unwrap();
        let printed = printed.to_string();
        let maps = printed.matches('{').count();
        assert_eq!(
            estimate_objects(printed.as_bytes()).memory,
            printed.len() * JSON_MEMORY + maps * JSON_MAP_MEMORY
        );
    }

    /// While a list grows, the old entries remain until they have been copied.
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
    fn estimate_stops_at_the_given_work() {
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

    /// Counts the checks.
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
        let count = 4 * CHECK_INTERVAL_FIELDS;
        let all = of(vec![Pod::default(); count as usize]);
        estimate_named(&name, &all, &interrupt).unwrap();
        let asked = interrupt.0.get();
        assert!(
            (1..=2 * count / CHECK_INTERVAL_FIELDS).contains(&asked),
            "{asked}"
        );
    }

    #[test]
    fn maximum_number_of_pods_is_within_the_memory_limit() {
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
