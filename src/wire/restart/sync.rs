//! Reads and prints what leads the loop of a controller of restarts. The ids of its steps describe their calls, so that the
//! value does not need to.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use rollplan_core::interrupt::Interrupt;
use rollplan_core::kind;
use rollplan_restart::sync::{Answer, Call, LoopState, Next, Page, Read, Turn, Version};
use rollplan_restart::{Decision, Input, Plan, Profile, Workload};

use super::value;
use crate::error::{Error, Reason};
use crate::parse::restart::RestartOptions;
use crate::parse::{Parser, Path, is_of_terminating_namespace};
use crate::path::OwnerResource;
use crate::print_time::duration;
use crate::proto;
use crate::read::{Json, objects, read_all};
use crate::sync::{SyncRequest, SyncSettings, escape, is_success, nonce};

/// The id of the read of a page.
const PAGE: &str = "page";
/// The prefix of the ids of reads of one workload, before its UID.
const GET: &str = "get ";
/// The number of workloads in a page.
const PAGE_ITEMS: usize = 500;
/// The answers to calls and reads have only metadata, if the API server supports that.
const METADATA: &str =
    "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";
const METADATA_LIST: &str =
    "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";

objects! {
    /// A list of workloads, or of their metadata.
    struct MetadataList {
        metadata: ListMetadata = "metadata",
        items: Vec<WithMetadata> = "items",
    }

    struct ListMetadata {
        continues: String = "continue",
    }

    /// A workload, or its metadata.
    struct WithMetadata {
        metadata: WorkloadMetadata = "metadata",
    }

    struct WorkloadMetadata {
        name: String = "name",
        namespace: String = "namespace",
        uid: String = "uid",
        resource_version: String = "resourceVersion",
        annotations: BTreeMap<String, String> = "annotations",
    }
}

/// The fields of a request that lead the loop.
pub(super) struct LoopRequest {
    settings: SyncSettings,
    answers: Vec<proto::Answer>,
    included: BTreeSet<String>,
    observed_namespaces: Vec<String>,
    label_selector: String,
}

/// The loop of a controller in a request.
#[derive(Debug)]
pub(super) struct LoopInput {
    settings: SyncSettings,
    turn: Turn,
    next: Next,
    collections: Vec<Collection>,
    label_selector: String,
}

/// The workloads of a kind, in a namespace or in all.
#[derive(Debug)]
struct Collection {
    api_version: String,
    kind: String,
    /// The plural of a custom resource. Empty if it is derived.
    resource: String,
    /// Empty for all namespaces.
    namespace: String,
}

// === impl LoopRequest ===

impl LoopRequest {
    /// Reads the fields of a request. `None` if it has no `sync`.
    pub(super) fn read(
        sync: Option<proto::Sync>,
        scope: Option<proto::RestartScope>,
        interrupt: &dyn Interrupt,
    ) -> Result<Option<Self>, Error> {
        let mut parser = Parser::new(interrupt);
        let path = Path::Root("scope");
        let Some(sync) = sync else {
            if scope.is_some() {
                parser.violation(&path, Reason::Exclusive, "must be empty without sync");
            }
            return parser.finish(None);
        };
        let request = SyncRequest::read(sync, &mut parser)?;
        let proto::RestartScope {
            namespaces,
            observed_namespaces,
            label_selector,
        } = scope.unwrap_or_default();
        let included_path = path.field("namespaces");
        if namespaces.is_empty() {
            parser.violation(&included_path, Reason::Required, "is required with sync");
        }
        let observed_path = path.field("observed_namespaces");
        let lists = [
            (&namespaces, included_path),
            (&observed_namespaces, observed_path),
        ];
        for (names, path) in lists {
            for (index, name) in names.iter().enumerate() {
                let path = path.index(index);
                let name = parser.text(name.clone(), &path);
                parser.namespace(name, &path);
            }
        }
        let SyncRequest { settings, answers } = request;
        parser.finish(Some(Self {
            settings,
            answers,
            included: namespaces.into_iter().collect(),
            observed_namespaces,
            label_selector,
        }))
    }

    /// Begins the call, with the answers to the last response.
    pub(super) fn begin(
        self,
        input: &mut Input,
        options: &RestartOptions,
        interrupt: &dyn Interrupt,
    ) -> Result<LoopInput, Error> {
        let Self {
            settings,
            answers,
            included,
            observed_namespaces,
            label_selector,
        } = self;
        let state = value::decode(&settings.value, &settings.session).unwrap_or_default();
        let nonce = nonce_of(&settings, &state);
        let mut reading = Reading {
            turn: Turn::begin(state, included, input),
            collections: collections(options, observed_namespaces),
            interrupt,
        };
        for answer in &answers {
            interrupt.check()?;
            // Answers to another response, or of another leadership, say nothing about the last one.
            if let Some(id) = answer.id.strip_prefix(&nonce) {
                reading.answer(id, answer);
            }
        }
        let Reading {
            mut turn,
            collections,
            ..
        } = reading;
        turn.end_calls();
        let next = turn.observe(input, collections.len());
        Ok(LoopInput {
            settings,
            turn,
            next,
            collections,
            label_selector,
        })
    }
}

/// The collections that a controller observes, whose restarts take time.
fn collections(options: &RestartOptions, namespaces: Vec<String>) -> Vec<Collection> {
    let namespaces = if namespaces.is_empty() {
        vec![String::new()]
    } else {
        namespaces
    };
    // Jobs are created, and run to their end: their restarts take no time.
    let native = kind::KINDS.iter().filter(|it| {
        let is_of_profile = options.plan.profile != Profile::Xing || it.name != "DaemonSet";
        it.restarted_template.is_some() && it.api_version == "apps/v1" && is_of_profile
    });
    let native = native.map(|it| (it.api_version, it.name, ""));
    let custom = options.kinds.iter();
    let custom = custom.map(|it| (&*it.api_version, &*it.kind, &*it.resource));
    let kinds: Vec<_> = native.chain(custom).collect();
    let all = namespaces.iter().flat_map(|namespace| {
        kinds
            .iter()
            .map(move |(api_version, kind, resource)| Collection {
                api_version: (*api_version).to_owned(),
                kind: (*kind).to_owned(),
                resource: (*resource).to_owned(),
                namespace: namespace.clone(),
            })
    });
    all.collect()
}

/// The answers of a request while they are read.
struct Reading<'a> {
    turn: Turn,
    collections: Vec<Collection>,
    interrupt: &'a dyn Interrupt,
}

// === impl Reading ===

impl Reading<'_> {
    fn answer(&mut self, id: &str, answer: &proto::Answer) {
        if id == PAGE {
            self.page(answer);
        } else if let Some(uid) = id.strip_prefix(GET) {
            self.object(uid, answer);
        } else if let Some((call, done_codes)) = parse_id(id) {
            let object = self.metadata(answer);
            let answer = match answer.http_code {
                _ if !answer.made => Answer::NotMade,
                code if is_success(answer) || done_codes.contains(&code) => {
                    Answer::Done(object.as_ref().map(WithMetadata::version))
                }
                // An internal error raises doubts: if etcd does not answer in time, the write may nevertheless have been made.
                400..=407 | 409..=499 => Answer::Rejected {
                    is_final: is_of_terminating_namespace(&answer.body),
                },
                _ => Answer::Unknown,
            };
            self.turn.record_call(call, answer);
        }
    }

    fn metadata(&self, answer: &proto::Answer) -> Option<WithMetadata> {
        let text = str::from_utf8(&answer.body).ok()?;
        let object: WithMetadata = read_all(&mut Json::new(text, self.interrupt)).ok()?;
        let has_version =
            !object.metadata.uid.is_empty() && !object.metadata.resource_version.is_empty();
        has_version.then_some(object)
    }

    fn object(&mut self, uid: &str, answer: &proto::Answer) {
        match self.metadata(answer) {
            Some(object) if is_success(answer) => self.turn.record_object(uid, object.version()),
            _ if answer.http_code == 404 => self.turn.record_absent(uid),
            _ => self.turn.record_unreadable(),
        }
    }

    fn page(&mut self, answer: &proto::Answer) {
        let text = str::from_utf8(&answer.body).ok();
        let list: Option<MetadataList> =
            text.and_then(|text| read_all(&mut Json::new(text, self.interrupt)).ok());
        let collection = self.collections.get(self.turn.state.page.collection);
        match (list, collection) {
            (Some(list), Some(collection)) if is_success(answer) => {
                let workloads = list.items.iter().map(|it| {
                    let WorkloadMetadata {
                        name, namespace, ..
                    } = &it.metadata;
                    let path = format!("{}/{name}", collection.path(namespace));
                    (it.version(), path)
                });
                self.turn.record_page(workloads, &list.metadata.continues);
            }
            // The kind is not served.
            _ if answer.http_code == 404 => self.turn.record_no_collection(),
            _ if answer.http_code == 410 => self.turn.record_expired(),
            _ => self.turn.record_unreadable(),
        }
    }
}

// === impl WithMetadata ===

impl WithMetadata {
    fn version(&self) -> Version<'_> {
        let WorkloadMetadata {
            namespace,
            uid,
            resource_version,
            annotations,
            ..
        } = &self.metadata;
        Version {
            uid,
            version: resource_version,
            namespace,
            annotations,
        }
    }
}

// === impl Collection ===

impl Collection {
    fn path(&self, namespace: &str) -> String {
        let Self {
            api_version,
            kind,
            resource,
            ..
        } = self;
        let resource = OwnerResource {
            api_version,
            kind,
            plural: resource,
        };
        resource.path_of_kind(api_version, kind, namespace)
    }
}

// === impl LoopInput ===

impl LoopInput {
    /// Whether a plan is to be made.
    pub(super) fn plans(&self) -> bool {
        self.next == Next::Plan
    }

    /// Ends the call with its plan.
    pub(super) fn lead(mut self, plan: &mut Plan, input: &Input) -> Led {
        let state = &mut self.turn.state;
        state.turns = state.turns.wrapping_add(1);
        let nonce = nonce_of(&self.settings, state);
        let mut response = proto::SyncResponse {
            not_before: Some(duration(self.settings.min_interval)),
            ..proto::SyncResponse::default()
        };
        match &self.next {
            Next::Read(reads) => {
                let reads = reads.iter();
                response.reads = reads.map(|read| self.print_read(read, &nonce)).collect();
            }
            Next::Include => {}
            Next::Wait(delay) => response.at_latest = Some(duration(*delay)),
            Next::Plan => {
                self.turn.conclude(plan, input);
                response.at_latest = plan.requeue_after.map(duration);
            }
        }
        response.value = value::encode(&self.turn.state, &self.settings.session);
        Led {
            response,
            nonce,
            namespaces: self.turn.namespaces().into_iter().collect(),
        }
    }

    fn print_read(&self, read: &Read, nonce: &str) -> proto::Read {
        let get = proto::ApiCall {
            verb: proto::Verb::Get.into(),
            ..proto::ApiCall::default()
        };
        match read {
            Read::Page(Page {
                collection,
                continues,
            }) => {
                let mut query = format!("limit={PAGE_ITEMS}");
                for (name, value) in [
                    ("labelSelector", &self.label_selector),
                    ("continue", continues),
                ] {
                    if !value.is_empty() {
                        _ = write!(query, "&{name}={}", escape(value));
                    }
                }
                let collection = &self.collections[*collection];
                proto::Read {
                    id: format!("{nonce}{PAGE}"),
                    call: Some(proto::ApiCall {
                        api_version: collection.api_version.clone(),
                        kind: collection.kind.clone(),
                        namespace: collection.namespace.clone(),
                        path: collection.path(&collection.namespace),
                        query,
                        accept: METADATA_LIST.to_owned(),
                        ..get
                    }),
                }
            }
            Read::Object { uid, path } => proto::Read {
                id: format!("{nonce}{GET}{uid}"),
                call: Some(proto::ApiCall {
                    path: path.clone(),
                    accept: METADATA.to_owned(),
                    ..get
                }),
            },
        }
    }
}

/// What the controller does next.
pub(super) struct Led {
    pub(super) response: proto::SyncResponse,
    /// The beginning of the ids of the steps.
    pub(super) nonce: String,
    pub(super) namespaces: Vec<String>,
}

/// Adds to a step what the loop needs: an id that describes its call, and that the answer has only metadata.
pub(super) fn identify(
    step: &mut proto::Step,
    nonce: &str,
    index: usize,
    workload: &Workload,
    owner: &OwnerResource<'_>,
    decision: Decision,
) {
    if let Some(call) = &mut step.call {
        METADATA.clone_into(&mut call.accept);
    }
    let kind = if decision == Decision::Restart {
        "restart"
    } else {
        "record"
    };
    let codes = step.done_http_codes.iter().map(i32::to_string);
    let codes = codes.collect::<Vec<_>>().join(",");
    let Workload {
        api_version,
        kind: workload_kind,
        namespace,
        name,
        uid,
        ..
    } = workload;
    let path = owner.path_of_kind(api_version, workload_kind, namespace);
    step.id = format!("{nonce}{index} {kind} {codes} {uid} {namespace} {path}/{name}");
}

/// Reads the call that the id of a step describes, and the HTTP status codes besides those of success with which it counts as
/// carried out.
fn parse_id(id: &str) -> Option<(Call<'_>, Vec<i32>)> {
    let mut parts = id.splitn(6, ' ');
    let (_, kind, codes) = (parts.next()?, parts.next()?, parts.next()?);
    let call = Call {
        uid: parts.next()?,
        namespace: parts.next()?,
        path: parts.next()?,
        is_restart: kind == "restart",
    };
    let codes = codes.split(',').filter_map(|code| code.parse().ok());
    Some((call, codes.collect()))
}

fn nonce_of(settings: &SyncSettings, state: &LoopState) -> String {
    nonce(&settings.session, "restarts", state.turns)
}
