//! Reads and prints what leads the loop of an adapter: `Sync` and `SyncResponse`.

pub(super) mod value;

use std::collections::BTreeMap;

use rollplan_core::Plan;
use rollplan_core::action::Step;
use rollplan_core::interrupt::Interrupt;
use rollplan_core::snapshot::{Deployment, Snapshot, StepFailure};
use rollplan_core::strategy;
use rollplan_core::sync::{
    Answer, Controller, Decision, NativeController, Origin, Read, State, Sync, Version, Written,
    native_controller_event,
};
use rollplan_core::time::{Span, Time};
use sha2::{Digest as _, Sha256};

use super::error::{Error, Reason, Violations};
use super::limits::{ANSWERS_MAX, limit};
use super::objects::{Found, Objects, is_deployment, matches};
use super::parse::{Owner, Parser, Path, rejection};
use super::path::{OwnerResource, of_kind};
use super::print_time::duration;
use super::read::{Lenient, objects};
use crate::proto;

/// The maximum length of a session, in bytes.
const SESSION_BYTES_MAX: usize = 256;
/// The id of the read of all ReplicaSets.
const LIST: &str = "list";
/// The prefix of the ids of reads of one object, before its UID.
const GET: &str = "get.";
/// The field manager of the native Deployment controller.
const NATIVE_MANAGER: &str = "kube-controller-manager";

objects! {
    /// Whether a status has the number of terminating pods.
    struct WithTerminating {
        status: Lenient<TerminatingStatus> = "status",
    }

    struct TerminatingStatus {
        terminating_replicas: Option<i32> = "terminatingReplicas",
    }

    /// Who has written which part of an object.
    struct Managed {
        metadata: ManagedMetadata = "metadata",
    }

    struct ManagedMetadata {
        managed_fields: Vec<ManagedFields> = "managedFields",
    }

    struct ManagedFields {
        manager: Lenient<String> = "manager",
        subresource: Lenient<String> = "subresource",
        time: Lenient<Option<Time>> = "time",
    }
}

/// What an adapter says of its loop in each request.
#[derive(Debug)]
pub(super) struct SyncSettings {
    /// The value of the request.
    pub(super) value: Vec<u8>,
    pub(super) session: String,
    status_interval: Span,
    pub(super) min_interval: Span,
}

/// The loop of an adapter in a request.
#[derive(Debug)]
pub(super) struct SyncInput {
    settings: SyncSettings,
    turn: Sync,
    native: NativeController,
}

/// A rejection, and the position of its answer.
pub(super) struct Rejected {
    failure: StepFailure,
    index: usize,
}

/// The rejections among the answers.
pub(super) struct LoopAnswers<'a> {
    pub(super) rejected: Vec<Rejected>,
    pub(super) answers: &'a [proto::Answer],
}

/// The fields of a request before the objects are read.
pub(super) struct SyncRequest {
    pub(super) settings: SyncSettings,
    pub(super) answers: Vec<proto::Answer>,
}

// === impl LoopAnswers ===

impl LoopAnswers<'_> {
    /// The rejections with the objects that have the names of those that could not be created.
    pub(super) fn failures(self, owner: &Owner<'_>, parser: &mut Parser<'_>) -> Vec<StepFailure> {
        let path = Path::Root("sync");
        let path = path.field("answers");
        let answers = self.answers;
        let rejected = self.rejected.into_iter();
        rejected
            .map(|Rejected { failure, index }| {
                let existing = answers.get(index).and_then(|answer| {
                    let path = path.index(index);
                    parser.existing(&answer.existing, owner, &path.field("existing"))
                });
                StepFailure {
                    existing,
                    ..failure
                }
            })
            .collect()
    }
}

// === impl SyncRequest ===

impl SyncRequest {
    pub(super) fn take_answers(&mut self) -> Vec<proto::Answer> {
        std::mem::take(&mut self.answers)
    }

    pub(super) fn read(sync: proto::Sync, parser: &mut Parser<'_>) -> Result<Self, Error> {
        let path = Path::Root("sync");
        let proto::Sync {
            value,
            session,
            answers,
            status_interval,
            min_interval,
        } = sync;
        if session.is_empty() {
            parser.violation(&path.field("session"), Reason::Required, "is required");
        }
        if session.len() > SESSION_BYTES_MAX {
            let description = format_args!("must have at most {SESSION_BYTES_MAX} bytes");
            parser.violation(&path.field("session"), Reason::OutOfRange, description);
        }
        limit("sync.answers", answers.len(), ANSWERS_MAX)?;
        let mut interval = |given: Option<prost_types::Duration>, field| {
            let given = parser.span(given.unwrap_or_default(), &path.field(field));
            // Parts of a millisecond are rounded up.
            let millis = given.as_nanos().div_ceil(1_000_000);
            Span::from_millis(u64::try_from(millis).unwrap_or(u64::MAX))
        };
        Ok(Self {
            settings: SyncSettings {
                value,
                session,
                status_interval: interval(status_interval, "status_interval"),
                min_interval: interval(min_interval, "min_interval"),
            },
            answers,
        })
    }

    /// Begins the call about an owner, with the answers to the last plan and to its reads. Returns the newest versions
    /// of the objects, and the rejections.
    pub(super) fn begin<'a>(
        self,
        found: Vec<Found<'a>>,
        answers: &'a [proto::Answer],
        owner: Option<&proto::Target>,
        now: Time,
        interrupt: &'a dyn Interrupt,
        parser: &mut Parser<'_>,
    ) -> Result<(SyncInput, Vec<Found<'a>>, Vec<Rejected>), Error> {
        let is_owner = |found: &&Found<'a>| owner.is_some_and(|owner| matches(owner, found));
        let observed_owner = found.iter().find(is_owner);
        let owner_uid = observed_owner.map_or_else(String::new, |it| it.metadata.uid.to_string());
        let state = value::decode(&self.settings.value, &self.settings.session).unwrap_or_default();
        let mut reading = Reading {
            turn: Sync::begin(state, &owner_uid, now),
            owner_uid,
            answered: Vec::new(),
            rejected: Vec::new(),
            interrupt,
        };
        let nonce = nonce_of(&self.settings, &reading.turn.state);
        reading.answers(&nonce, answers, &found, parser)?;
        let Reading {
            mut turn,
            owner_uid,
            answered,
            rejected,
            ..
        } = reading;
        let observed_versions = versions(&found, &owner_uid);
        let answered_versions = versions(&answered, &owner_uid);
        let current = turn.current(&observed_versions, &answered_versions);
        drop((observed_versions, answered_versions));
        let mut observed: Vec<_> = found.into_iter().map(Some).collect();
        let mut answered: Vec<_> = answered.into_iter().map(Some).collect();
        let objects: Vec<Found<'a>> = current
            .into_iter()
            .filter_map(|origin| match origin {
                Origin::Observed(index) => observed.get_mut(index)?.take(),
                Origin::Answered(index) => answered.get_mut(index)?.take(),
            })
            .collect();
        let native_write = objects
            .iter()
            .find(is_owner)
            .filter(|owner| is_native(owner))
            .and_then(last_native_write);
        let native = turn.native_controller(native_write);
        let input = SyncInput {
            settings: self.settings,
            turn,
            native,
        };
        Ok((input, objects, rejected))
    }
}

/// Checks what a loop requires of the snapshot.
pub(super) fn check_snapshot(snapshot: &proto::Snapshot, parser: &mut Parser<'_>) {
    let path = Path::Root("snapshot");
    let target = snapshot.target.clone().unwrap_or_default();
    let fields = [
        ("api_version", target.api_version),
        ("kind", target.kind),
        ("namespace", target.namespace),
        ("name", target.name),
    ];
    for (field, value) in fields {
        if value.is_empty() {
            let path = path.field("target");
            parser.violation(
                &path.field(field),
                Reason::Required,
                "is required with sync",
            );
        }
    }
    if !snapshot.answers.is_empty() {
        let description = "must be empty with sync: its answers are sync.answers";
        parser.violation(&path.field("answers"), Reason::Exclusive, description);
    }
}

/// The answers of a request while they are read.
struct Reading<'a> {
    turn: Sync,
    owner_uid: String,
    /// The objects in the answers.
    answered: Vec<Found<'a>>,
    rejected: Vec<Rejected>,
    interrupt: &'a dyn Interrupt,
}

// === impl Reading ===

impl<'a> Reading<'a> {
    fn answers(
        &mut self,
        nonce: &str,
        answers: &'a [proto::Answer],
        observed: &[Found<'a>],
        parser: &mut Parser<'_>,
    ) -> Result<(), Error> {
        let mut steps: BTreeMap<u32, (usize, &'a proto::Answer, Option<usize>)> = BTreeMap::new();
        let mut reads = Vec::new();
        let path = Path::Root("sync");
        let path = path.field("answers");
        for (index, answer) in answers.iter().enumerate() {
            parser.answer_in_loop(answer, &path.index(index));
            // Answers to another plan, or of another leadership, say nothing about the last one.
            let Some(id) = answer.id.strip_prefix(nonce) else {
                continue;
            };
            if id == LIST || id.starts_with(GET) {
                reads.push((index, id, answer));
            } else if let Ok(step) = id.parse() {
                let rejected = self.rejection(step, answer, index);
                steps.insert(step, (index, answer, rejected));
            }
        }
        let mut written = BTreeMap::new();
        for (&step, &(index, answer, _)) in &steps {
            if is_success(answer) {
                written.insert(step, self.object(index, answer)?);
            }
        }
        let outcomes: BTreeMap<u32, Answer<'_>> = steps
            .iter()
            .map(|(&step, (_, answer, rejected))| {
                let object = written.get(&step).copied().flatten();
                let object = object.and_then(|object| self.answered.get(object));
                let rejection = rejected.and_then(|index| self.rejected.get(index));
                let outcome = outcome(answer, object, rejection.map(|it| &it.failure));
                (step, outcome)
            })
            .collect();
        self.turn.record_answers(&outcomes);
        drop(outcomes);
        for (index, id, answer) in reads {
            self.read(index, id, answer, observed)?;
        }
        Ok(())
    }

    /// Records the rejection in an answer, and returns its position.
    fn rejection(&mut self, step: u32, answer: &proto::Answer, index: usize) -> Option<usize> {
        let call = self.turn.pending(step)?;
        let failure = rejection(&call.id, answer.http_code, &answer.body)?;
        self.rejected.push(Rejected { failure, index });
        Some(self.rejected.len() - 1)
    }

    /// Reads the answer to a read.
    fn read(
        &mut self,
        index: usize,
        id: &str,
        answer: &'a proto::Answer,
        observed: &[Found<'a>],
    ) -> Result<(), Error> {
        if let Some(uid) = id.strip_prefix(GET) {
            match self.object(index, answer)? {
                Some(object) if is_success(answer) => {
                    let object = &self.answered[object];
                    if object.metadata.uid == uid {
                        self.turn.record_object(&version(object, &self.owner_uid));
                    } else {
                        // Another object has the name now.
                        self.turn.record_absent(uid);
                    }
                }
                _ if answer.http_code == 404 => self.turn.record_absent(uid),
                _ => self.turn.record_unreadable(),
            }
            return Ok(());
        }
        let before = self.answered.len();
        let is_list = is_success(answer) && self.objects(index, answer)?;
        if !is_list {
            self.turn.record_unreadable();
            return Ok(());
        }
        let listed = versions(&self.answered[before..], &self.owner_uid);
        self.turn
            .record_list(&listed, &versions(observed, &self.owner_uid));
        Ok(())
    }

    /// The position of the only object in an answer.
    fn object(&mut self, index: usize, answer: &'a proto::Answer) -> Result<Option<usize>, Error> {
        let before = self.answered.len();
        let is_read = self.objects(index, answer)?;
        Ok((is_read && self.answered.len() == before + 1).then_some(before))
    }

    /// Finds the objects in the body of an answer. Returns whether it is Kubernetes JSON.
    fn objects(&mut self, index: usize, answer: &'a proto::Answer) -> Result<bool, Error> {
        let Ok(text) = str::from_utf8(&answer.body) else {
            return Ok(false);
        };
        let mut violations = Violations::default();
        let found = Objects::find_in(
            &format!("sync.answers[{index}].body"),
            text,
            &mut violations,
            self.interrupt,
        )?;
        let is_whole = violations.is_empty() && !found.is_continued;
        if is_whole {
            self.answered.extend(found.found);
        }
        Ok(is_whole)
    }
}

// === impl SyncInput ===

impl SyncInput {
    /// Whether the API server stores `status.terminatingReplicas`, as far as it is known.
    pub(super) fn stores_terminating(&mut self, snapshot: &Snapshot) -> bool {
        let mut sets = snapshot.replica_sets.iter();
        let has_field = sets.any(|set| set.status.terminating_replicas.is_some());
        self.turn.stores_terminating(has_field)
    }

    /// Replaces the steps of a plan that is not to be carried out, and returns what the adapter does next.
    pub(super) fn lead(
        mut self,
        plan: &mut Plan,
        snapshot: &Snapshot,
        owner: &OwnerResource<'_>,
    ) -> (proto::SyncResponse, String) {
        let settings = self.settings;
        let needs_pods = strategy::of(&snapshot.deployment).awaits_old_pods();
        let is_missing_pods = needs_pods && !snapshot.pods_complete;
        let decision = if is_missing_pods {
            Decision::Read(Vec::new())
        } else if self.native == NativeController::Absent {
            self.turn
                .decide(plan, &snapshot.deployment, settings.status_interval)
        } else {
            self.turn.suspend()
        };
        let mut response = proto::SyncResponse {
            watch_pods: needs_pods,
            not_before: Some(duration(settings.min_interval)),
            ..proto::SyncResponse::default()
        };
        let is_carried_out = matches!(decision, Decision::CarryOut { .. });
        if !is_carried_out {
            plan.steps.clear();
        }
        if self.native == NativeController::Detected && !is_missing_pods {
            plan.steps.push(Step::of_event(native_controller_event()));
        }
        let nonce = nonce_of(&settings, &self.turn.state);
        match decision {
            Decision::Read(reads) => {
                response.value = settings.value;
                let reads = reads.into_iter();
                let reads = reads.map(|read| print_read(read, &nonce, &snapshot.deployment, owner));
                response.reads = reads.collect();
            }
            Decision::CarryOut { at_latest } | Decision::Wait { at_latest } => {
                response.value = value::encode(&self.turn.state, &settings.session);
                response.at_latest = at_latest.map(duration);
            }
        }
        (response, nonce)
    }
}

fn nonce_of(settings: &SyncSettings, state: &State) -> String {
    nonce(&settings.session, &state.owner_uid, state.plans)
}

/// The beginning of the ids of the steps and reads of a response. `count` is the number of responses before it.
pub(super) fn nonce(session: &str, subject: &str, count: u64) -> String {
    let mut hash = Sha256::new();
    for part in [session.as_bytes(), subject.as_bytes()] {
        hash.update(part);
        hash.update([0]);
    }
    hash.update(count.to_be_bytes());
    let hash = hash.finalize();
    let digits = hash[..4].iter().map(|byte| format!("{byte:02x}"));
    digits.collect::<String>() + "."
}

pub(super) fn is_success(answer: &proto::Answer) -> bool {
    answer.made && (200..300).contains(&answer.http_code)
}

fn outcome<'f>(
    answer: &proto::Answer,
    object: Option<&'f Found<'_>>,
    rejection: Option<&'f StepFailure>,
) -> Answer<'f> {
    if !answer.made {
        return Answer::NotMade;
    }
    if !is_success(answer) {
        return Answer::Failed {
            http_code: answer.http_code,
            rejection,
        };
    }
    Answer::Done(object.map(|object| {
        let WithTerminating { status } = object.read_leniently();
        Written {
            version: version(object, ""),
            has_terminating: status.0.terminating_replicas.is_some(),
        }
    }))
}

fn versions<'f>(found: &'f [Found<'_>], owner_uid: &str) -> Vec<Version<'f>> {
    found.iter().map(|it| version(it, owner_uid)).collect()
}

fn version<'f>(found: &'f Found<'_>, owner_uid: &str) -> Version<'f> {
    let metadata = &found.metadata;
    let controller = metadata.controller_uid();
    Version {
        kind: &found.kind,
        name: &metadata.name,
        uid: &metadata.uid,
        version: &metadata.resource_version,
        is_deleting: metadata.is_deleting,
        controller: match controller {
            Some(uid) if found.is_replica_set() && uid == owner_uid => Controller::Owner,
            Some(_) if found.is_replica_set() => Controller::Other,
            _ => Controller::None,
        },
    }
}

/// Whether the native Deployment controller may manage the object.
fn is_native(found: &Found<'_>) -> bool {
    is_deployment(found) && found.api_version == "apps/v1"
}

/// The latest write of the native Deployment controller to the status.
fn last_native_write(owner: &Found<'_>) -> Option<Time> {
    let Managed { metadata } = owner.read_leniently();
    let writes = metadata.managed_fields.into_iter();
    let writes = writes.filter(|it| it.manager.0 == NATIVE_MANAGER && it.subresource.0 == "status");
    writes.filter_map(|it| it.time.0).max()
}

fn print_read(
    read: Read,
    nonce: &str,
    deployment: &Deployment,
    owner: &OwnerResource<'_>,
) -> proto::Read {
    let namespace = &deployment.metadata.namespace;
    let get = |kind: &str, api_version: &str| proto::ApiCall {
        verb: proto::Verb::Get.into(),
        api_version: api_version.to_owned(),
        kind: kind.to_owned(),
        namespace: namespace.clone(),
        ..proto::ApiCall::default()
    };
    match read {
        Read::ReplicaSets => proto::Read {
            id: format!("{nonce}{LIST}"),
            call: Some(proto::ApiCall {
                path: of_kind("apps/v1", "ReplicaSet", namespace),
                query: format!(
                    "labelSelector={}",
                    escape(&deployment.spec.selector.to_string())
                ),
                ..get("ReplicaSet", "apps/v1")
            }),
        },
        Read::Object { kind, name, uid } => {
            let is_owner = kind == deployment.kind && name == deployment.metadata.name;
            let api_version = if is_owner {
                &*deployment.api_version
            } else {
                "apps/v1"
            };
            let collection = owner.path_of_kind(api_version, &kind, namespace);
            proto::Read {
                id: format!("{nonce}{GET}{uid}"),
                call: Some(proto::ApiCall {
                    path: format!("{collection}/{name}"),
                    name,
                    ..get(&kind, api_version)
                }),
            }
        }
    }
}

/// A text in the query of a URL.
pub(super) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                escaped.push(char::from(byte));
            }
            _ => escaped.push_str(&format!("%{byte:02X}")),
        }
    }
    escaped
}
