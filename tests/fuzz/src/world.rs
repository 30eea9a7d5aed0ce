//! Worlds that are right and may be absurd: every number from zero to its largest, times from year 1 to 9999,
//! annotations that say anything.

use std::collections::BTreeMap;

use arbitrary::Arbitrary;
use prost::Message as _;
use prost_types::value::Kind;
use prost_types::{ListValue, Struct, Timestamp, Value};
use rollplan::proto;
use rollplan::proto::RawStruct;
use rollplan::wire;

/// 2026-11-20T23:27:30Z, and the first and the last second that there is.
const NOW_SECONDS: i64 = 1_795_217_250;
const FIRST_SECONDS: i64 = -62_135_596_800;
const LAST_SECONDS: i64 = 253_402_300_799;

const REVISION: &str = "deployment.kubernetes.io/revision";
const DESIRED_REPLICAS: &str = "deployment.kubernetes.io/desired-replicas";
const MAX_REPLICAS: &str = "deployment.kubernetes.io/max-replicas";
const ROLLBACK_TO: &str = "deprecated.deployment.rollback.to";

/// A number of pods or seconds.
#[derive(Arbitrary, Clone, Copy, Debug)]
enum Count {
    Few(u8),
    Many(u16),
    Any(u32),
    Largest,
    NextToLargest,
}

impl Count {
    fn get(self) -> i32 {
        match self {
            Self::Few(number) => i32::from(number % 8),
            Self::Many(number) => i32::from(number),
            Self::Any(number) => i32::try_from(number >> 1).unwrap_or(i32::MAX),
            Self::Largest => i32::MAX,
            Self::NextToLargest => i32::MAX - 1,
        }
    }
}

#[derive(Arbitrary, Clone, Copy, Debug)]
enum Generation {
    Few(u8),
    Largest,
}

impl Generation {
    fn get(self) -> i64 {
        match self {
            Self::Few(number) => i64::from(number % 4),
            Self::Largest => i64::MAX,
        }
    }
}

#[derive(Arbitrary, Clone, Copy, Debug)]
enum Limit {
    Absent,
    Pods(Count),
    Percent(Count),
}

impl Limit {
    fn value(self) -> Option<Value> {
        let kind = match self {
            Self::Absent => return None,
            Self::Pods(count) => Kind::NumberValue(count.get().into()),
            Self::Percent(count) => Kind::StringValue(format!("{}%", count.get())),
        };
        Some(Value { kind: Some(kind) })
    }
}

#[derive(Arbitrary, Clone, Copy, Debug)]
enum Moment {
    First,
    Ago(u16),
    Ahead(u16),
    Last,
}

impl Moment {
    fn get(self) -> Option<Timestamp> {
        let seconds = match self {
            Self::First => FIRST_SECONDS,
            Self::Ago(seconds) => NOW_SECONDS - i64::from(seconds),
            Self::Ahead(seconds) => NOW_SECONDS + i64::from(seconds),
            Self::Last => LAST_SECONDS,
        };
        Some(Timestamp { seconds, nanos: 0 })
    }
}

/// A number that is written as text.
#[derive(Arbitrary, Clone, Copy, Debug)]
enum Number {
    Absent,
    Count(Count),
    Odd(u8),
}

impl Number {
    fn put(self, key: &str, annotations: &mut BTreeMap<String, String>) {
        const ODD: [&str; 8] = [
            "",
            "x",
            "-1",
            "+1",
            " 1",
            "9223372036854775807",
            "9223372036854775808",
            "1e3",
        ];
        let text = match self {
            Self::Absent => return,
            Self::Count(count) => count.get().to_string(),
            Self::Odd(which) => ODD[usize::from(which) % ODD.len()].to_owned(),
        };
        annotations.insert(key.to_owned(), text);
    }
}

#[derive(Arbitrary, Clone, Copy, Debug)]
enum Strategy {
    Default,
    Rolling(Limit, Limit),
    Recreate,
}

impl Strategy {
    fn message(self) -> Option<proto::DeploymentStrategy> {
        let (kind, rolling_update) = match self {
            Self::Default => return None,
            Self::Rolling(max_surge, max_unavailable) => (
                "RollingUpdate",
                Some(proto::RollingUpdateDeployment {
                    max_unavailable: max_unavailable.value(),
                    max_surge: max_surge.value(),
                }),
            ),
            Self::Recreate => ("Recreate", None),
        };
        Some(proto::DeploymentStrategy {
            r#type: kind.to_owned(),
            rolling_update,
        })
    }
}

#[derive(Arbitrary, Clone, Copy, Debug)]
struct Condition {
    kind: u8,
    holds: bool,
    reason: u8,
    updated: Moment,
    changed: Moment,
}

impl Condition {
    fn message(self) -> proto::DeploymentCondition {
        const KINDS: [&str; 3] = ["Progressing", "Available", "ReplicaFailure"];
        const REASONS: [&str; 5] = [
            "NewReplicaSetAvailable",
            "ProgressDeadlineExceeded",
            "DeploymentPaused",
            "ReplicaSetUpdated",
            "FailedCreate",
        ];
        proto::DeploymentCondition {
            r#type: KINDS[usize::from(self.kind) % KINDS.len()].to_owned(),
            status: if self.holds { "True" } else { "False" }.to_owned(),
            last_update_time: self.updated.get(),
            last_transition_time: self.changed.get(),
            reason: REASONS[usize::from(self.reason) % REASONS.len()].to_owned(),
            message: "as it was".to_owned(),
        }
    }
}

/// Whose an object is.
#[derive(Arbitrary, Clone, Copy, Debug, PartialEq)]
enum Owner {
    Ours,
    Nobody,
    Another,
}

#[derive(Arbitrary, Clone, Debug)]
struct Set {
    size: Count,
    image: u8,
    owner: Owner,
    matches: bool,
    deleting: bool,
    created: Moment,
    generation: Generation,
    min_ready_seconds: Option<Count>,
    revision: Number,
    desired: Number,
    max: Number,
    reports: Reports,
}

/// What a ReplicaSet says of its pods.
#[derive(Arbitrary, Clone, Copy, Debug)]
enum Reports {
    All,
    Part(u8),
    Anything {
        replicas: Count,
        ready: Count,
        available: Count,
        terminating: Option<Count>,
        observed: Generation,
    },
}

impl Reports {
    fn message(self, size: i32, generation: i64) -> proto::ReplicaSetStatus {
        let consistent = |available| proto::ReplicaSetStatus {
            replicas: size,
            ready_replicas: available,
            available_replicas: available,
            observed_generation: generation,
            ..Default::default()
        };
        match self {
            Self::All => consistent(size),
            Self::Part(part) => {
                let part = i64::from(size) * i64::from(part) / 255;
                consistent(i32::try_from(part).unwrap_or(size))
            }
            Self::Anything {
                replicas,
                ready,
                available,
                terminating,
                observed,
            } => proto::ReplicaSetStatus {
                replicas: replicas.get(),
                ready_replicas: ready.get(),
                available_replicas: available.get(),
                terminating_replicas: terminating.map(Count::get),
                observed_generation: observed.get(),
                ..Default::default()
            },
        }
    }
}

#[derive(Arbitrary, Clone, Debug)]
struct Pod {
    set: u8,
    phase: u8,
    deleting: bool,
    ready: bool,
    since: Moment,
    waiting: u8,
    restarts: Count,
}

/// How a call of the plan was refused.
#[derive(Arbitrary, Clone, Copy, Debug)]
struct Refusal {
    step: u8,
    how: u8,
}

/// A snapshot and options: right by the contract, whatever they are.
#[derive(Arbitrary, Clone, Debug)]
pub struct World {
    now: Moment,
    custom: bool,
    replicas: Option<Count>,
    strategy: Strategy,
    min_ready_seconds: Count,
    history_limit: Option<Count>,
    paused: bool,
    deadline: Option<Count>,
    generation: Generation,
    deleting: bool,
    revision: Number,
    rollback_to: Option<Number>,
    status: [Count; 5],
    observed: Generation,
    collisions: Option<Count>,
    conditions: Vec<Condition>,
    sets: Vec<Set>,
    pods: Vec<Pod>,
    pods_complete: bool,
    refusals: Vec<Refusal>,
    pass: bool,
    terminating: Option<bool>,
}

impl World {
    /// Sets and pods at most: more only make each try slower.
    const OBJECTS_MAX: usize = 24;

    /// The request that asks for a plan. Refusals are of calls that the planner comes to.
    #[must_use]
    pub fn into_request(self) -> proto::PlanRolloutRequest {
        let horizon = match self.pass {
            true => proto::Horizon::Pass,
            false => proto::Horizon::Settled,
        };
        let options = proto::PlanOptions {
            horizon: horizon.into(),
            terminating_replicas: self.terminating,
            events_as_calls: self.pass,
            report: self.pods_complete,
        };
        let refusals = self.refusals.clone();
        let mut request = proto::PlanRolloutRequest {
            snapshot: Some(self.into_snapshot()),
            options: Some(options),
        };
        for refusal in refusals.into_iter().take(4) {
            let plan = wire::plan_rollout(request.clone()).expect("an absurd request is right");
            let calls: Vec<_> = plan
                .steps
                .into_iter()
                .filter_map(|step| step.call)
                .collect();
            let Some(call) = calls.get(usize::from(refusal.step) % calls.len().max(1)) else {
                break;
            };
            let answer = refusal.answer(call.clone());
            let snapshot = request.snapshot.get_or_insert_default();
            snapshot.answers.push(answer);
        }
        request
    }

    fn into_snapshot(self) -> proto::Snapshot {
        let api_version = match self.custom {
            true => ("apps.rollplan.dev/v1alpha1", "PlannedDeployment"),
            false => ("apps/v1", "Deployment"),
        };
        let sets: Vec<proto::ReplicaSet> = self
            .sets
            .iter()
            .take(Self::OBJECTS_MAX)
            .enumerate()
            .map(|(index, set)| set.message(index, api_version))
            .collect();
        let pods = self.pods.iter().take(Self::OBJECTS_MAX).enumerate();
        let pods = pods.map(|(index, pod)| pod.message(index, &sets)).collect();
        proto::Snapshot {
            now: self.now.get(),
            pods_complete: self.pods_complete,
            replica_sets_complete: true,
            deployment: Some(self.deployment(api_version)),
            replica_sets: sets,
            pods,
            answers: Vec::new(),
            objects_json: Vec::new(),
            target: None,
            events: Vec::new(),
        }
    }

    fn deployment(self, (api_version, kind): (&str, &str)) -> proto::Deployment {
        let mut annotations = BTreeMap::new();
        self.revision.put(REVISION, &mut annotations);
        if let Some(revision) = self.rollback_to {
            revision.put(ROLLBACK_TO, &mut annotations);
        }
        let [replicas, updated, ready, available, unavailable] = self.status.map(Count::get);
        proto::Deployment {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
            metadata: Some(proto::ObjectMeta {
                annotations,
                deletion_timestamp: self.deleting.then(|| self.now.get()).flatten(),
                generation: self.generation.get(),
                ..mk_metadata("web")
            }),
            spec: Some(proto::DeploymentSpec {
                replicas: self.replicas.map(Count::get),
                selector: Some(proto::LabelSelector {
                    match_labels: labels(true),
                    ..Default::default()
                }),
                template: Some(template(0)),
                strategy: self.strategy.message(),
                min_ready_seconds: self.min_ready_seconds.get(),
                revision_history_limit: self.history_limit.map(Count::get),
                paused: self.paused,
                // The API has it greater than the seconds to be ready, and the contract only above zero.
                progress_deadline_seconds: self.deadline.map(|count| count.get().max(1)),
            }),
            status: Some(proto::DeploymentStatus {
                observed_generation: self.observed.get(),
                replicas,
                updated_replicas: updated,
                ready_replicas: ready,
                available_replicas: available,
                unavailable_replicas: unavailable,
                collision_count: self.collisions.map(Count::get),
                conditions: self
                    .conditions
                    .iter()
                    .take(4)
                    .map(|condition| condition.message())
                    .collect(),
                ..Default::default()
            }),
        }
    }
}

impl Set {
    fn message(&self, index: usize, owner: (&str, &str)) -> proto::ReplicaSet {
        let mut metadata = mk_metadata(&format!("web-{index}"));
        metadata.labels = labels(self.matches);
        metadata.creation_timestamp = self.created.get();
        metadata.deletion_timestamp = self.deleting.then(|| self.created.get()).flatten();
        metadata.generation = self.generation.get();
        for (number, key) in [
            (self.revision, REVISION),
            (self.desired, DESIRED_REPLICAS),
            (self.max, MAX_REPLICAS),
        ] {
            number.put(key, &mut metadata.annotations);
        }
        metadata.owner_references = match self.owner {
            Owner::Ours => vec![reference(owner, "web")],
            Owner::Nobody => vec![],
            Owner::Another => vec![reference(owner, "other")],
        };
        let size = self.size.get();
        proto::ReplicaSet {
            spec: Some(proto::ReplicaSetSpec {
                replicas: Some(size),
                min_ready_seconds: self.min_ready_seconds.map_or(0, Count::get),
                template: Some(template(self.image % 4)),
                ..Default::default()
            }),
            status: Some(self.reports.message(size, metadata.generation)),
            metadata: Some(metadata),
            ..Default::default()
        }
    }
}

impl Pod {
    fn message(&self, index: usize, sets: &[proto::ReplicaSet]) -> proto::Pod {
        const PHASES: [&str; 5] = ["Pending", "Running", "Succeeded", "Failed", ""];
        const WAITING: [&str; 4] = ["CrashLoopBackOff", "ImagePullBackOff", "Unheard", ""];
        let mut metadata = mk_metadata(&format!("pod-{index}"));
        metadata.labels = labels(true);
        metadata.creation_timestamp = self.since.get();
        metadata.deletion_timestamp = self.deleting.then(|| self.since.get()).flatten();
        let set = sets.get(usize::from(self.set) % sets.len().max(1));
        if let Some(set) = set.and_then(|set| set.metadata.as_ref()) {
            metadata.owner_references = vec![proto::OwnerReference {
                uid: set.uid.clone(),
                ..reference(("apps/v1", "ReplicaSet"), &set.name)
            }];
        }
        let waiting = WAITING[usize::from(self.waiting) % WAITING.len()].to_owned();
        proto::Pod {
            metadata: Some(metadata),
            status: Some(proto::PodStatus {
                phase: PHASES[usize::from(self.phase) % PHASES.len()].to_owned(),
                conditions: vec![proto::PodCondition {
                    r#type: "Ready".to_owned(),
                    status: if self.ready { "True" } else { "False" }.to_owned(),
                    last_transition_time: self.since.get(),
                    ..Default::default()
                }],
                start_time: self.since.get(),
                container_statuses: vec![proto::ContainerStatus {
                    name: "main".to_owned(),
                    state: Some(proto::ContainerState {
                        waiting: Some(proto::ContainerStateWaiting {
                            reason: waiting,
                            message: "back-off".to_owned(),
                        }),
                        ..Default::default()
                    }),
                    ready: self.ready,
                    restart_count: self.restarts.get(),
                    ..Default::default()
                }],
                ..Default::default()
            }),
            ..Default::default()
        }
    }
}

impl Refusal {
    fn answer(self, call: proto::ApiCall) -> proto::StepAnswer {
        const HOW: [(i32, &str, &str); 6] = [
            (403, "Forbidden", "exceeded quota: pods"),
            (403, "Forbidden", "because it is being terminated"),
            (409, "AlreadyExists", "already exists"),
            (404, "NotFound", "not found"),
            (422, "Invalid", "is invalid"),
            (500, "InternalError", "no"),
        ];
        let (http_code, reason, message) = HOW[usize::from(self.how) % HOW.len()];
        let causes = match (http_code, message) {
            (403, "because it is being terminated") => r#"[{"reason":"NamespaceTerminating"}]"#,
            (422, _) => r#"[{"reason":"FieldValueInvalid"}]"#,
            _ => "[]",
        };
        let body = format!(
            r#"{{"kind":"Status","reason":"{reason}","message":"{message}","details":{{"causes":{causes}}}}}"#
        );
        proto::StepAnswer {
            call: Some(call),
            http_code,
            body: body.into(),
            existing_json: Vec::new(),
        }
    }
}

fn mk_metadata(name: &str) -> proto::ObjectMeta {
    proto::ObjectMeta {
        name: name.to_owned(),
        namespace: "shop".to_owned(),
        uid: format!("uid-{name}"),
        resource_version: "7".to_owned(),
        ..Default::default()
    }
}

fn labels(matching: bool) -> BTreeMap<String, String> {
    let app = if matching { "web" } else { "other" };
    BTreeMap::from([("app".to_owned(), app.to_owned())])
}

fn reference((api_version, kind): (&str, &str), name: &str) -> proto::OwnerReference {
    proto::OwnerReference {
        api_version: api_version.to_owned(),
        kind: kind.to_owned(),
        name: name.to_owned(),
        uid: format!("uid-{name}"),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}

fn template(image: u8) -> RawStruct {
    let text = |text: String| Kind::StringValue(text);
    let map = |key: &str, kind: Kind| Struct {
        fields: BTreeMap::from([(key.to_owned(), Value { kind: Some(kind) })]),
    };
    let container = map("image", text(format!("web:{image}")));
    let containers = ListValue {
        values: vec![Value {
            kind: Some(Kind::StructValue(container)),
        }],
    };
    let labels = map("labels", Kind::StructValue(map("app", text("web".into()))));
    let mut template = map("metadata", Kind::StructValue(labels));
    let spec = map("containers", Kind::ListValue(containers));
    let spec = Value {
        kind: Some(Kind::StructValue(spec)),
    };
    template.fields.insert("spec".to_owned(), spec);
    RawStruct::decode(&template.encode_to_vec()[..]).expect("what was encoded is decoded")
}
