//! Valid worlds with arbitrary values: numbers from zero to the maximum, times from year 1 to 9999, and annotations with any
//! text.

use arbitrary::Arbitrary;
use prost_types::Timestamp;
use rollplan::proto;
use rollplan_core::revision::{DESIRED_REPLICAS, MAX_REPLICAS, REVISION, ROLLBACK_TO};
use rollplan_world::json::{controlled, list, object, pod_template};
use serde_json::{Map, Value, json};

/// 2026-11-20T23:27:30Z, and the first and the last valid second.
const NOW_SECONDS: i64 = 1_795_217_250;
const FIRST_SECONDS: i64 = -62_135_596_800;
const LAST_SECONDS: i64 = 253_402_300_799;

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
    fn json(self) -> Value {
        match self {
            Self::Absent => Value::Null,
            Self::Pods(count) => count.get().into(),
            Self::Percent(count) => format!("{}%", count.get()).into(),
        }
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
    fn get(self) -> Timestamp {
        let seconds = match self {
            Self::First => FIRST_SECONDS,
            Self::Ago(seconds) => NOW_SECONDS - i64::from(seconds),
            Self::Ahead(seconds) => NOW_SECONDS + i64::from(seconds),
            Self::Last => LAST_SECONDS,
        };
        Timestamp { seconds, nanos: 0 }
    }

    fn json(self) -> Value {
        self.get().to_string().into()
    }
}

/// A number as text.
#[derive(Arbitrary, Clone, Copy, Debug)]
enum Number {
    Absent,
    Count(Count),
    Odd(u8),
}

impl Number {
    fn put(self, key: &str, annotations: &mut Map<String, Value>) {
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
        annotations.insert(key.to_owned(), text.into());
    }
}

#[derive(Arbitrary, Clone, Copy, Debug)]
enum Strategy {
    Default,
    Rolling(Limit, Limit),
    Recreate,
}

impl Strategy {
    fn json(self) -> Value {
        match self {
            Self::Default => Value::Null,
            Self::Rolling(max_surge, max_unavailable) => json!({
                "type": "RollingUpdate",
                "rollingUpdate": {"maxUnavailable": max_unavailable.json(), "maxSurge": max_surge.json()},
            }),
            Self::Recreate => json!({"type": "Recreate"}),
        }
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
    fn json(self) -> Value {
        const KINDS: [&str; 3] = ["Progressing", "Available", "ReplicaFailure"];
        const REASONS: [&str; 5] = [
            "NewReplicaSetAvailable",
            "ProgressDeadlineExceeded",
            "DeploymentPaused",
            "ReplicaSetUpdated",
            "FailedCreate",
        ];
        json!({
            "type": KINDS[usize::from(self.kind) % KINDS.len()],
            "status": if self.holds { "True" } else { "False" },
            "lastUpdateTime": self.updated.json(),
            "lastTransitionTime": self.changed.json(),
            "reason": REASONS[usize::from(self.reason) % REASONS.len()],
            "message": "as it was",
        })
    }
}

/// The owner of an object.
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

/// The counts of pods that a ReplicaSet reports.
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
    fn json(self, size: i32, generation: i64) -> Value {
        let consistent = |available: i32| {
            json!({
                "replicas": size,
                "readyReplicas": available,
                "availableReplicas": available,
                "observedGeneration": generation,
            })
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
            } => json!({
                "replicas": replicas.get(),
                "readyReplicas": ready.get(),
                "availableReplicas": available.get(),
                "terminatingReplicas": terminating.map(Count::get),
                "observedGeneration": observed.get(),
            }),
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

/// The rejection of a call of the plan.
#[derive(Arbitrary, Clone, Copy, Debug)]
struct Refusal {
    step: u8,
    how: u8,
}

/// A snapshot and options that are valid according to the contract.
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
    new_max: Option<Count>,
    old_min: Option<Count>,
}

impl World {
    /// The maximum number of ReplicaSets and pods. More of them would only make each run slower.
    const OBJECTS_MAX: usize = 24;

    /// The request for a plan. Its rejections are those of calls in the plan for the same snapshot.
    #[must_use]
    pub fn into_request(self) -> proto::PlanRolloutRequest {
        let horizon = if self.pass {
            proto::Horizon::Pass
        } else {
            proto::Horizon::Settled
        };
        let options = proto::PlanOptions {
            horizon: horizon.into(),
            terminating_replicas: self.terminating,
            events_as_calls: self.pass,
            report: self.pods_complete,
            caps: Some(proto::RolloutCaps {
                new_max: self.new_max.map(Count::get),
                old_min: self.old_min.map(Count::get),
            }),
        };
        let refusals = self.refusals.clone();
        let mut request = proto::PlanRolloutRequest {
            snapshot: Some(self.into_snapshot()),
            options: Some(options),
            sync: None,
        };
        for refusal in refusals.into_iter().take(4) {
            let plan = rollplan::service::answer(request.clone()).expect("the request is valid");
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
        let (api_version, kind) = if self.custom {
            ("apps.rollplan.dev/v1alpha1", "PlannedDeployment")
        } else {
            ("apps/v1", "Deployment")
        };
        let sets = self.sets.iter().take(Self::OBJECTS_MAX).enumerate();
        let sets: Vec<Value> = sets
            .map(|(index, set)| set.json(index, (api_version, kind)))
            .collect();
        let pods = self.pods.iter().take(Self::OBJECTS_MAX).enumerate();
        let pods: Vec<Value> = pods.map(|(index, pod)| pod.json(index, &sets)).collect();
        let (now, pods_complete) = (self.now.get(), self.pods_complete);
        let mut items = vec![self.deployment((api_version, kind))];
        items.extend(sets);
        items.extend(pods);
        proto::Snapshot {
            now: Some(now),
            objects: vec![list(&items).to_string()],
            replica_sets_complete: true,
            pods_complete,
            target: Some(proto::Target {
                api_version: api_version.to_owned(),
                kind: kind.to_owned(),
                ..proto::Target::default()
            }),
            ..proto::Snapshot::default()
        }
    }

    fn deployment(self, kind: (&str, &str)) -> Value {
        let mut annotations = Map::new();
        self.revision.put(REVISION, &mut annotations);
        if let Some(revision) = self.rollback_to {
            revision.put(ROLLBACK_TO, &mut annotations);
        }
        let mut deployment = mk_object(kind, "web");
        let metadata = &mut deployment["metadata"];
        metadata["annotations"] = annotations.into();
        metadata["deletionTimestamp"] = self.deleting.then(|| self.now.json()).into();
        metadata["generation"] = self.generation.get().into();
        let [replicas, updated, ready, available, unavailable] = self.status.map(Count::get);
        let conditions = self.conditions.iter().take(4);
        let conditions: Vec<Value> = conditions.map(|condition| condition.json()).collect();
        deployment["spec"] = json!({
            "replicas": self.replicas.map(Count::get),
            "selector": {"matchLabels": labels(true)},
            "template": template(0),
            "strategy": self.strategy.json(),
            "minReadySeconds": self.min_ready_seconds.get(),
            "revisionHistoryLimit": self.history_limit.map(Count::get),
            "paused": self.paused,
            // The API requires more than `minReadySeconds`, but the contract only a positive number.
            "progressDeadlineSeconds": self.deadline.map(|count| count.get().max(1)),
        });
        deployment["status"] = json!({
            "observedGeneration": self.observed.get(),
            "replicas": replicas,
            "updatedReplicas": updated,
            "readyReplicas": ready,
            "availableReplicas": available,
            "unavailableReplicas": unavailable,
            "collisionCount": self.collisions.map(Count::get),
            "conditions": conditions,
        });
        deployment
    }
}

impl Set {
    fn json(&self, index: usize, owner: (&str, &str)) -> Value {
        let mut annotations = Map::new();
        for (number, key) in [
            (self.revision, REVISION),
            (self.desired, DESIRED_REPLICAS),
            (self.max, MAX_REPLICAS),
        ] {
            number.put(key, &mut annotations);
        }
        let set = mk_object(("apps/v1", "ReplicaSet"), &format!("web-{index}"));
        let mut set = match self.owner {
            Owner::Ours => controlled(set, &mk_object(owner, "web")),
            Owner::Nobody => set,
            Owner::Another => controlled(set, &mk_object(owner, "other")),
        };
        let (size, generation) = (self.size.get(), self.generation.get());
        let metadata = &mut set["metadata"];
        metadata["labels"] = labels(self.matches);
        metadata["annotations"] = annotations.into();
        metadata["creationTimestamp"] = self.created.json();
        metadata["deletionTimestamp"] = self.deleting.then(|| self.created.json()).into();
        metadata["generation"] = generation.into();
        set["spec"] = json!({
            "replicas": size,
            "minReadySeconds": self.min_ready_seconds.map(Count::get),
            "template": template(self.image % 4),
        });
        set["status"] = self.reports.json(size, generation);
        set
    }
}

impl Pod {
    fn json(&self, index: usize, sets: &[Value]) -> Value {
        const PHASES: [&str; 5] = ["Pending", "Running", "Succeeded", "Failed", ""];
        const WAITING: [&str; 4] = ["CrashLoopBackOff", "ImagePullBackOff", "Unheard", ""];
        let since = self.since.json();
        let mut pod = mk_object(("v1", "Pod"), &format!("pod-{index}"));
        if let Some(set) = sets.get(usize::from(self.set) % sets.len().max(1)) {
            pod = controlled(pod, set);
        }
        let metadata = &mut pod["metadata"];
        metadata["labels"] = labels(true);
        metadata["creationTimestamp"] = since.clone();
        metadata["deletionTimestamp"] = self.deleting.then(|| since.clone()).into();
        pod["status"] = json!({
            "phase": PHASES[usize::from(self.phase) % PHASES.len()],
            "conditions": [{
                "type": "Ready",
                "status": if self.ready { "True" } else { "False" },
                "lastTransitionTime": since,
            }],
            "startTime": since,
            "containerStatuses": [{
                "name": "main",
                "state": {"waiting": {
                    "reason": WAITING[usize::from(self.waiting) % WAITING.len()],
                    "message": "back-off",
                }},
                "ready": self.ready,
                "restartCount": self.restarts.get(),
            }],
        });
        pod
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

/// An object with a version.
fn mk_object((api_version, kind): (&str, &str), name: &str) -> Value {
    let mut object = object(api_version, kind, name);
    object["metadata"]["resourceVersion"] = "7".into();
    object
}

fn labels(matching: bool) -> Value {
    json!({"app": if matching { "web" } else { "other" }})
}

fn template(image: u8) -> Value {
    pod_template("web", json!({"image": format!("web:{image}")}))
}
