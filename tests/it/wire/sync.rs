//! The loop of an adapter that the planner leads: what is read before a write, and what earlier answers change.

use std::time::Duration;

use rollplan::proto::{self, Answer, ApiCall, PlanRolloutResponse, Verb};
use rollplan::wire::{Error, Reason};
use serde_json::{Value, json};

use crate::request::half_way;

const UNLIMITED: i32 = 1_000;

/// An API server with one Deployment and its ReplicaSets.
#[derive(Clone)]
struct Cluster {
    objects: Vec<Value>,
    version: u64,
    /// The codes and bodies with which the next calls of a verb fail. 0 stands for a missing answer.
    failures: Vec<(Verb, i32, String)>,
    /// Whether it stores `status.terminatingReplicas` of Deployments.
    stores_terminating: bool,
}

/// An adapter: it has a cache, calls the planner, and makes the calls that it is told to make.
#[derive(Clone)]
struct Adapter {
    cache: Vec<Value>,
    value: Vec<u8>,
    session: &'static str,
    answers: Vec<Answer>,
    seconds: i64,
    /// The time since the whole second, in milliseconds.
    millis: i32,
    pods: Option<Vec<Value>>,
    status_interval: Duration,
    /// The calls so far.
    calls: Vec<String>,
}

fn status_body(reason: &str, message: &str, causes: &Value) -> String {
    json!({"kind": "Status", "apiVersion": "v1", "reason": reason, "message": message, "details": {"causes": causes}})
        .to_string()
}

/// Applies a JSON merge patch.
fn merge(into: &mut Value, patch: &Value) {
    let Some(patch) = patch.as_object() else {
        *into = patch.clone();
        return;
    };
    if !into.is_object() {
        *into = json!({});
    }
    for (key, value) in patch {
        if value.is_null() {
            into.as_object_mut().unwrap().remove(key);
        } else {
            merge(&mut into[key], value);
        }
    }
}

// === impl Cluster ===

impl Cluster {
    /// A rollout half way, as in other tests.
    fn new() -> Self {
        let items = half_way().items;
        let items = items.into_iter().filter(|it| it["kind"] != "Pod");
        Self {
            objects: items.collect(),
            version: 100,
            failures: Vec::new(),
            stores_terminating: true,
        }
    }

    fn find(&mut self, kind: &str, name: &str) -> Option<&mut Value> {
        let mut objects = self.objects.iter_mut();
        objects.find(|it| it["kind"] == kind && it["metadata"]["name"] == name)
    }

    fn owner(&mut self) -> &mut Value {
        &mut self.objects[0]
    }

    /// Makes a call, and returns the code and the body of its answer.
    fn call(&mut self, call: &ApiCall) -> (i32, Vec<u8>) {
        let mut failures = self.failures.iter();
        if let Some(next) = failures.position(|(verb, ..)| *verb == call.verb()) {
            let (_, code, body) = self.failures.remove(next);
            return (code, body.into());
        }
        let (code, body) = self.answer(call);
        (code, body.to_string().into())
    }

    fn answer(&mut self, call: &ApiCall) -> (i32, Value) {
        let not_found = (404, json!({"kind": "Status", "reason": "NotFound"}));
        if call.verb() == Verb::Get && call.name.is_empty() {
            let sets = self.objects.iter().filter(|it| it["kind"] == call.kind);
            let sets: Vec<_> = sets.cloned().collect();
            return (
                200,
                json!({"kind": "ReplicaSetList", "apiVersion": "apps/v1", "items": sets}),
            );
        }
        self.version += 1;
        let version = json!(self.version.to_string());
        let stores_terminating = self.stores_terminating;
        if call.verb() == Verb::Create {
            let mut object: Value = serde_json::from_str(&call.body_json).unwrap();
            object["metadata"]["uid"] = json!(format!("uid-{}", self.version));
            object["metadata"]["resourceVersion"] = version;
            object["metadata"]["generation"] = 1.into();
            self.objects.push(object.clone());
            return (201, object);
        }
        if call.verb() == Verb::Delete {
            let before = self.objects.len();
            self.objects
                .retain(|it| it["kind"] != call.kind || it["metadata"]["name"] != call.name);
            return if self.objects.len() == before {
                not_found
            } else {
                (200, json!({"kind": "Status", "status": "Success"}))
            };
        }
        let Some(object) = self.find(&call.kind, &call.name) else {
            return not_found;
        };
        if call.verb() == Verb::Get {
            return (200, object.clone());
        }
        let patch: Value = serde_json::from_str(&call.body_json).unwrap();
        match patch.as_array() {
            Some(operations) => {
                for operation in operations {
                    let pointer = operation["path"].as_str().unwrap();
                    let (parent, key) = pointer.rsplit_once('/').unwrap();
                    let key = key.replace("~1", "/");
                    if operation["op"] == "test" {
                        if object.pointer(pointer).unwrap_or(&Value::Null) != &operation["value"] {
                            return (422, json!({"kind": "Status", "reason": "Invalid"}));
                        }
                    } else {
                        object.pointer_mut(parent).unwrap()[key] = operation["value"].clone();
                    }
                }
                object["metadata"]["generation"] =
                    (object["metadata"]["generation"].as_i64().unwrap() + 1).into();
            }
            None => {
                let expected = &patch["metadata"]["resourceVersion"];
                if !expected.is_null() && *expected != object["metadata"]["resourceVersion"] {
                    return (409, json!({"kind": "Status", "reason": "Conflict"}));
                }
                merge(object, &patch);
            }
        }
        object["metadata"]["resourceVersion"] = version;
        if !stores_terminating && call.kind == "Deployment" {
            let status = object["status"].as_object_mut().unwrap();
            status.remove("terminatingReplicas");
        }
        (200, object.clone())
    }
}

// === impl Adapter ===

impl Adapter {
    fn new(cluster: &Cluster) -> Self {
        Self {
            cache: cluster.objects.clone(),
            value: Vec::new(),
            session: "a",
            answers: Vec::new(),
            seconds: 1_767_312_000,
            millis: 0,
            pods: None,
            status_interval: Duration::ZERO,
            calls: Vec::new(),
        }
    }

    fn request(&self) -> proto::PlanRolloutRequest {
        let owner = &self.cache[0];
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let objects = self.cache.iter().chain(self.pods.iter().flatten());
        proto::PlanRolloutRequest {
            snapshot: Some(proto::Snapshot {
                now: Some(prost_types::Timestamp {
                    seconds: self.seconds,
                    nanos: self.millis * 1_000_000,
                }),
                objects: objects.map(ToString::to_string).collect(),
                replica_sets_complete: true,
                pods_complete: self.pods.is_some(),
                target: Some(proto::Target {
                    api_version: text(&owner["apiVersion"]),
                    kind: text(&owner["kind"]),
                    namespace: text(&owner["metadata"]["namespace"]),
                    name: text(&owner["metadata"]["name"]),
                    ..proto::Target::default()
                }),
                answers: Vec::new(),
            }),
            options: None,
            sync: Some(proto::Sync {
                value: self.value.clone(),
                session: self.session.to_owned(),
                answers: self.answers.clone(),
                status_interval: self.status_interval.try_into().ok(),
                min_interval: Duration::from_millis(100).try_into().ok(),
            }),
        }
    }

    fn ask(&self) -> PlanRolloutResponse {
        rollplan::service::answer(self.request()).unwrap()
    }

    /// Asks, makes the reads, asks again, and carries out the steps until `steps` of them were made. Returns the last
    /// response.
    fn turn(&mut self, cluster: &mut Cluster, steps: i32) -> PlanRolloutResponse {
        loop {
            let response = self.ask();
            let sync = response.sync.clone().unwrap();
            self.value = sync.value;
            assert!(self.value.len() < 1024, "{}", self.value.len());
            if sync.reads.is_empty() {
                self.carry_out(cluster, &response, steps);
                return response;
            }
            assert_eq!(response.steps, []);
            for read in sync.reads {
                let call = read.call.unwrap();
                let (code, body) = cluster.call(&call);
                self.calls.push(match call.name.as_str() {
                    "" => "LIST".to_owned(),
                    name => format!("GET {name}"),
                });
                self.answers.push(mk_answer(&read.id, code, body));
            }
        }
    }

    fn carry_out(&mut self, cluster: &mut Cluster, response: &PlanRolloutResponse, steps: i32) {
        self.answers.clear();
        let mut is_ended = false;
        for (index, step) in (0..).zip(&response.steps) {
            let Some(call) = &step.call else {
                continue;
            };
            if index >= steps {
                return;
            }
            if is_ended {
                self.answers.push(Answer {
                    id: step.id.clone(),
                    ..Answer::default()
                });
                continue;
            }
            let (code, body) = cluster.call(call);
            let verb = &call.verb().as_str_name()["VERB_".len()..];
            let has_failed = !(200..300).contains(&code);
            let outcome = if has_failed { "failed" } else { "" };
            let words = [verb, &call.kind, &call.subresource, outcome];
            let words: Vec<_> = words.into_iter().filter(|word| !word.is_empty()).collect();
            self.calls.push(words.join(" "));
            is_ended = has_failed && !step.done_http_codes.contains(&code);
            let mut answer = mk_answer(&step.id, code, body);
            if let Some(read) = step.read_on_conflict.as_ref().filter(|_| code == 409) {
                answer.existing = cluster.call(read).1;
            }
            self.answers.push(answer);
        }
    }

    /// The watches deliver everything.
    fn observe(&mut self, cluster: &Cluster) {
        self.cache = cluster.objects.clone();
    }

    fn take_calls(&mut self) -> Vec<String> {
        std::mem::take(&mut self.calls)
    }
}

fn mk_answer(id: &str, http_code: i32, body: Vec<u8>) -> Answer {
    Answer {
        id: id.to_owned(),
        made: true,
        http_code,
        body,
        existing: Vec::new(),
    }
}

/// A cluster and an adapter after its first plan, which created a ReplicaSet.
fn after_create() -> (Cluster, Adapter) {
    let mut cluster = Cluster::new();
    let container = &mut cluster.owner()["spec"]["template"]["spec"]["containers"][0];
    container["image"] = json!("web:3");
    let mut adapter = Adapter::new(&cluster);
    adapter.turn(&mut cluster, UNLIMITED);
    let calls = adapter.take_calls();
    assert!(calls.contains(&"CREATE ReplicaSet".to_owned()), "{calls:?}");
    (cluster, adapter)
}

fn at_latest(response: &PlanRolloutResponse) -> Option<Duration> {
    let at_latest = response.sync.as_ref().unwrap().at_latest;
    at_latest.map(|it| Duration::try_from(it).unwrap())
}

#[test]
fn first_plan_lists_replica_sets_before_it_writes_them() {
    let mut cluster = Cluster::new();
    let mut adapter = Adapter::new(&cluster);
    let response = adapter.ask();
    assert_eq!(response.steps, []);
    let [read] = &response.sync.as_ref().unwrap().reads[..] else {
        panic!("{response:?}");
    };
    let call = read.call.as_ref().unwrap();
    assert_eq!(call.path, "/apis/apps/v1/namespaces/shop/replicasets");
    assert_eq!(call.query, "labelSelector=app%3Dweb");
    // A previous leader scaled the new ReplicaSet, and the cache does not show it yet.
    cluster.find("ReplicaSet", "new").unwrap()["spec"]["replicas"] = 11.into();
    cluster.find("ReplicaSet", "new").unwrap()["metadata"]["resourceVersion"] = "50".into();
    let response = adapter.turn(&mut cluster, UNLIMITED);
    let scales = response
        .steps
        .iter()
        .filter(|step| step.summary.contains("scale up"));
    assert_eq!(scales.count(), 0, "{response:?}");
    assert_eq!(adapter.take_calls()[0], "LIST");
    // One list is enough.
    adapter.observe(&cluster);
    adapter.turn(&mut cluster, UNLIMITED);
    assert!(!adapter.take_calls().contains(&"LIST".to_owned()));
}

#[test]
fn steps_have_ids_and_single_questions_do_not() {
    let cluster = Cluster::new();
    let mut adapter = Adapter::new(&cluster);
    let mut single = adapter.request();
    single.sync = None;
    let single = rollplan::service::answer(single).unwrap();
    assert_eq!(single.sync, None);
    assert!(single.steps.iter().all(|step| step.id.is_empty()));
    let response = adapter.turn(&mut Cluster::new(), UNLIMITED);
    let ids: Vec<_> = response.steps.iter().map(|step| step.id.as_str()).collect();
    for (index, id) in ids.iter().enumerate() {
        assert!(id.ends_with(&format!(".{index}")), "{ids:?}");
    }
    let steps = |steps: &[proto::Step]| {
        let steps = steps.iter().map(|step| step.summary.clone());
        steps.collect::<Vec<_>>()
    };
    assert_eq!(steps(&response.steps), steps(&single.steps));
}

fn creates(response: &PlanRolloutResponse) -> bool {
    let mut steps = response.steps.iter();
    steps.any(|step| step.summary.contains("create"))
}

#[test]
fn created_replica_set_is_known_before_the_cache_shows_it() {
    let (mut cluster, mut adapter) = after_create();
    // The answers of the last plan contain the object.
    let response = adapter.turn(&mut cluster, UNLIMITED);
    assert!(!creates(&response), "{response:?}");
    let reads = |calls: Vec<String>| -> Vec<String> {
        calls
            .into_iter()
            .filter(|call| call.starts_with("GET") || call == "LIST")
            .collect()
    };
    assert_eq!(reads(adapter.take_calls()), [""; 0]);
    // After that, they must be read.
    let response = adapter.turn(&mut cluster, UNLIMITED);
    assert!(!creates(&response), "{response:?}");
    let calls = reads(adapter.take_calls());
    assert!(
        calls.iter().any(|call| call.starts_with("GET web-")),
        "{calls:?}"
    );
    // Someone deletes it, and the watch is still silent.
    cluster.objects.pop();
    let response = adapter.turn(&mut cluster, UNLIMITED);
    assert!(creates(&response), "{response:?}");
}

#[test]
fn deleted_replica_set_is_hidden_until_the_cache_shows_it() {
    let mut cluster = Cluster::new();
    cluster.owner()["spec"]["revisionHistoryLimit"] = 0.into();
    let old = cluster.find("ReplicaSet", "old").unwrap();
    old["spec"]["replicas"] = 0.into();
    old["status"] = json!({"replicas": 0, "observedGeneration": 1});
    let new = cluster.find("ReplicaSet", "new").unwrap();
    new["spec"]["replicas"] = 10.into();
    new["status"] = json!({"replicas": 10, "readyReplicas": 10, "availableReplicas": 10, "observedGeneration": 1});
    let mut adapter = Adapter::new(&cluster);
    for _ in 0..4 {
        adapter.turn(&mut cluster, UNLIMITED);
        let deployment = cluster.objects[0].clone();
        adapter.cache[0] = deployment;
    }
    let calls = adapter.take_calls();
    let deletes = calls.iter().filter(|call| call.starts_with("DELETE"));
    assert_eq!(deletes.count(), 1, "{calls:?}");
}

#[test]
fn replica_set_that_is_deleted_before_the_cache_shows_it_stays_hidden() {
    let (mut cluster, mut adapter) = after_create();
    adapter.turn(&mut cluster, UNLIMITED);
    // Someone deletes it, so it is created again.
    let deleted = cluster.objects.pop().unwrap();
    let response = adapter.turn(&mut cluster, UNLIMITED);
    assert!(creates(&response), "{response:?}");
    let expected = adapter.clone().turn(&mut cluster.clone(), UNLIMITED);
    // The watch delivers the first creation.
    adapter.cache.push(deleted);
    let response = adapter.turn(&mut cluster, UNLIMITED);
    assert_eq!(response.steps, expected.steps);
}

#[test]
fn calls_with_an_unknown_outcome_are_followed_by_a_list() {
    let conflict = status_body("Conflict", "", &json!([]));
    for (code, body) in [
        (409, conflict.as_str()),
        (0, ""),
        (500, "{}"),
        (504, "<html>"),
    ] {
        let mut cluster = Cluster::new();
        let mut adapter = Adapter::new(&cluster);
        cluster.failures = vec![(Verb::Patch, code, body.to_owned())];
        adapter.turn(&mut cluster, UNLIMITED);
        assert_eq!(adapter.take_calls()[0], "LIST");
        adapter.turn(&mut cluster, UNLIMITED);
        assert_eq!(adapter.take_calls()[0], "LIST", "{code} {body}");
    }
}

#[test]
fn missing_answers_are_followed_by_a_list() {
    let mut cluster = Cluster::new();
    let mut adapter = Adapter::new(&cluster);
    // The adapter ends before the first call.
    adapter.turn(&mut cluster, 0);
    adapter.take_calls();
    cluster.owner()["spec"]["replicas"] = 20.into();
    adapter.observe(&cluster);
    adapter.turn(&mut cluster, UNLIMITED);
    assert_eq!(adapter.take_calls()[0], "LIST");
}

#[test]
fn damaged_and_foreign_values_count_as_empty() {
    let (mut cluster, adapter) = after_create();
    let mut values = vec![Vec::new(), b"not ours".to_vec()];
    values.push(adapter.value[..adapter.value.len() / 2].to_vec());
    let mut newer = adapter.value.clone();
    newer[0] += 1;
    values.push(newer);
    for value in values {
        let mut adapter = Adapter::new(&cluster);
        cluster.owner()["spec"]["replicas"] = 12.into();
        adapter.observe(&cluster);
        adapter.value = value;
        adapter.turn(&mut cluster, 0);
        assert_eq!(adapter.take_calls(), ["LIST"]);
    }
}

#[test]
fn value_of_another_leadership_counts_as_empty() {
    let (mut cluster, mut adapter) = after_create();
    // Another leader scales, and the first one leads again, with an old cache.
    let old = cluster.find("ReplicaSet", "old").unwrap();
    old["spec"]["replicas"] = 9.into();
    old["metadata"]["resourceVersion"] = "200".into();
    adapter.session = "b";
    adapter.turn(&mut cluster, UNLIMITED);
    assert_eq!(adapter.take_calls()[0], "LIST");
}

#[test]
fn dropped_field_of_the_status_is_not_written_again() {
    let mut cluster = Cluster::new();
    cluster.stores_terminating = false;
    cluster.objects.truncate(1);
    cluster.owner()["spec"]["paused"] = true.into();
    let mut adapter = Adapter::new(&cluster);
    adapter.turn(&mut cluster, UNLIMITED);
    assert_eq!(adapter.take_calls(), ["PATCH Deployment status"]);
    for _ in 0..3 {
        adapter.observe(&cluster);
        adapter.turn(&mut cluster, UNLIMITED);
        assert_eq!(adapter.take_calls(), [""; 0]);
    }
}

#[test]
fn rejections_are_reported_and_repeated_with_a_backoff() {
    let mut cluster = Cluster::new();
    let container = &mut cluster.owner()["spec"]["template"]["spec"]["containers"][0];
    container["image"] = json!("web:3");
    let mut adapter = Adapter::new(&cluster);
    let mut delays = Vec::new();
    for _ in 0..5 {
        cluster.failures = vec![(
            Verb::Create,
            403,
            status_body("Forbidden", "exceeded quota", &json!([])),
        )];
        adapter.turn(&mut cluster, UNLIMITED);
        let calls = adapter.take_calls();
        assert!(
            calls.contains(&"CREATE ReplicaSet failed".to_owned()),
            "{calls:?}"
        );
        cluster.failures.clear();
        // The next plan reports the rejection, and does not repeat the call.
        let response = adapter.turn(&mut cluster, UNLIMITED);
        let status = response.status.as_ref().unwrap();
        let mut conditions = status.conditions.iter();
        let progressing = conditions.find(|it| it.r#type == "Progressing").unwrap();
        assert_eq!(progressing.reason, "ReplicaSetCreateError");
        assert!(
            progressing.message.ends_with("exceeded quota"),
            "{progressing:?}"
        );
        assert!(
            !adapter
                .take_calls()
                .iter()
                .any(|call| call.starts_with("CREATE"))
        );
        delays.push(at_latest(&response).unwrap());
        adapter.observe(&cluster);
    }
    for (delay, millis) in delays.iter().zip([5, 10, 20, 40, 80]) {
        let range = Duration::from_millis(millis * 3 / 4)..=Duration::from_millis(millis);
        assert!(range.contains(delay), "{delays:?}");
    }
    // A rejection raises no doubts about the ReplicaSets, and after a success, the backoff begins again.
    adapter.turn(&mut cluster, UNLIMITED);
    adapter.observe(&cluster);
    adapter.turn(&mut cluster, UNLIMITED);
    cluster.owner()["spec"]["template"]["spec"]["containers"][0]["image"] = json!("web:4");
    adapter.observe(&cluster);
    cluster.failures = vec![(
        Verb::Create,
        403,
        status_body("Forbidden", "exceeded quota", &json!([])),
    )];
    adapter.turn(&mut cluster, UNLIMITED);
    let response = adapter.turn(&mut cluster, UNLIMITED);
    assert!(at_latest(&response).unwrap() <= Duration::from_millis(5));
    assert!(!adapter.take_calls().contains(&"LIST".to_owned()));
}

#[test]
fn nothing_is_repeated_in_a_namespace_that_is_being_deleted() {
    let mut cluster = Cluster::new();
    let container = &mut cluster.owner()["spec"]["template"]["spec"]["containers"][0];
    container["image"] = json!("web:3");
    let mut adapter = Adapter::new(&cluster);
    let causes = json!([{"reason": "NamespaceTerminating"}]);
    cluster.failures = vec![(
        Verb::Create,
        403,
        status_body("Forbidden", "it is being terminated", &causes),
    )];
    adapter.turn(&mut cluster, UNLIMITED);
    let response = adapter.turn(&mut cluster, UNLIMITED);
    assert!(
        at_latest(&response).is_none_or(|it| it > Duration::from_secs(60)),
        "{response:?}"
    );
}

#[test]
fn failed_reads_are_repeated_with_a_backoff_and_nothing_is_written() {
    let mut cluster = Cluster::new();
    let mut adapter = Adapter::new(&cluster);
    for code in [0, 403, 503] {
        let before = adapter.ask().sync.unwrap();
        adapter.value = before.value;
        let read = &before.reads[0];
        adapter.answers = vec![mk_answer(&read.id, code, Vec::new())];
        let response = adapter.ask();
        let sync = response.sync.as_ref().unwrap();
        assert_eq!((&response.steps, &sync.reads), (&Vec::new(), &Vec::new()));
        assert!(at_latest(&response).unwrap() < Duration::from_secs(1));
        adapter.value = sync.value.clone();
        adapter.answers.clear();
    }
    adapter.turn(&mut cluster, UNLIMITED);
    assert_eq!(adapter.take_calls()[0], "LIST");
}

#[test]
fn owner_that_does_not_exist_anymore_is_left_alone() {
    let mut cluster = Cluster::new();
    let mut adapter = Adapter::new(&cluster);
    // The answer to the status has a version that the cache does not show.
    adapter.turn(&mut cluster, UNLIMITED);
    adapter.turn(&mut cluster, UNLIMITED);
    adapter.take_calls();
    cluster.objects.remove(0);
    let response = adapter.turn(&mut cluster, UNLIMITED);
    assert_eq!((response.steps.len(), at_latest(&response)), (0, None));
    assert_eq!(adapter.take_calls()[0], "GET web");
}

#[test]
fn owner_that_a_write_did_not_find_is_read_before_the_next_one() {
    let (mut cluster, mut adapter) = after_create();
    adapter.turn(&mut cluster, UNLIMITED);
    let container = &mut cluster.owner()["spec"]["template"]["spec"]["containers"][0];
    container["image"] = json!("web:4");
    adapter.observe(&cluster);
    cluster.objects.remove(0);
    adapter.turn(&mut cluster, UNLIMITED);
    let calls = adapter.take_calls();
    let has_failed =
        |call: &String| call.starts_with("PATCH Deployment") && call.ends_with("failed");
    assert!(calls.iter().any(has_failed), "{calls:?}");
    // Until the watch delivers the deletion.
    for _ in 0..2 {
        let response = adapter.turn(&mut cluster, UNLIMITED);
        assert_eq!((response.steps.len(), at_latest(&response)), (0, None));
        assert_eq!(adapter.take_calls()[0], "GET web");
    }
}

#[test]
fn status_that_only_reports_progress_waits() {
    let mut cluster = Cluster::new();
    let mut adapter = Adapter::new(&cluster);
    adapter.status_interval = Duration::from_millis(500);
    adapter.turn(&mut cluster, UNLIMITED);
    adapter.observe(&cluster);
    adapter.turn(&mut cluster, UNLIMITED);
    adapter.observe(&cluster);
    adapter.take_calls();
    let mut waits = Vec::new();
    for ready in 1..=3 {
        let new = cluster.find("ReplicaSet", "new").unwrap();
        new["status"]["readyReplicas"] = ready.into();
        adapter.observe(&cluster);
        let response = adapter.turn(&mut cluster, UNLIMITED);
        waits.push((at_latest(&response), adapter.take_calls().len()));
        adapter.millis += 250;
    }
    let millis = Duration::from_millis;
    assert_eq!(waits[..2], [(Some(millis(500)), 0), (Some(millis(250)), 0)]);
    assert_eq!(waits[2].1, 1);
}

#[test]
fn pods_are_requested_for_recreate_only() {
    let mut cluster = Cluster::new();
    let mut adapter = Adapter::new(&cluster);
    assert!(!adapter.turn(&mut cluster, 0).sync.unwrap().watch_pods);
    cluster.owner()["spec"]["strategy"] = json!({"type": "Recreate"});
    adapter.observe(&cluster);
    adapter.answers.clear();
    let response = adapter.ask();
    assert_eq!(response.steps, []);
    assert!(response.sync.unwrap().watch_pods);
    adapter.pods = Some(Vec::new());
    let response = adapter.turn(&mut cluster, UNLIMITED);
    assert!(!response.steps.is_empty());
}

#[test]
fn work_is_suspended_while_the_native_controller_writes() {
    let mut cluster = Cluster::new();
    let native = |second: u32| {
        let time = format!("2026-01-02T00:00:{second:02}Z");
        json!([{"manager": "kube-controller-manager", "subresource": "status", "operation": "Update", "time": time}])
    };
    cluster.owner()["metadata"]["managedFields"] = native(1);
    let mut adapter = Adapter::new(&cluster);
    // Its writes before the first observation do not count.
    assert!(!adapter.turn(&mut cluster, 0).steps.is_empty());
    adapter.answers.clear();
    cluster.owner()["metadata"]["managedFields"] = native(9);
    adapter.observe(&cluster);
    let response = adapter.turn(&mut cluster, UNLIMITED);
    let [step] = &response.steps[..] else {
        panic!("{response:?}");
    };
    assert_eq!(
        (step.call.is_none(), step.events[0].reason.as_str()),
        (true, "NativeController")
    );
    assert_eq!(at_latest(&response), Some(Duration::from_secs(60)));
    adapter.seconds += 59;
    assert_eq!(adapter.turn(&mut cluster, UNLIMITED).steps, []);
    adapter.take_calls();
    adapter.seconds += 1;
    adapter.turn(&mut cluster, UNLIMITED);
    assert_eq!(adapter.take_calls()[0], "LIST");
}

/// They are compared as numbers of any length, and read again if they are not numbers.
#[test]
fn resource_versions_have_any_form() {
    for (known, shown, is_read) in [
        (
            "99999999999999999999999999",
            "99999999999999999999999998",
            true,
        ),
        (
            "99999999999999999999999999",
            "100000000000000000000000000",
            false,
        ),
        ("9", "10", false),
        ("a", "b", true),
        ("a", "a", false),
    ] {
        let mut cluster = Cluster::new();
        let mut adapter = Adapter::new(&cluster);
        let set = |cluster: &mut Cluster, version: &str| {
            let new = cluster.find("ReplicaSet", "new").unwrap();
            new["metadata"]["resourceVersion"] = version.into();
        };
        set(&mut cluster, known);
        adapter.turn(&mut cluster, 0);
        adapter.answers.clear();
        set(&mut cluster, shown);
        adapter.observe(&cluster);
        adapter.take_calls();
        // Nothing but the list has shown the version.
        cluster.owner()["spec"]["replicas"] = 10.into();
        let reads = adapter.ask().sync.unwrap().reads;
        let is_get = reads.iter().any(|read| read.id.contains(".get."));
        assert_eq!(is_get, is_read, "{known} {shown} {reads:?}");
    }
}

#[test]
fn violations_name_their_fields() {
    let cluster = Cluster::new();
    let mut request = Adapter::new(&cluster).request();
    let snapshot = request.snapshot.as_mut().unwrap();
    snapshot.target = None;
    snapshot.answers = vec![proto::StepAnswer::default()];
    let sync = request.sync.as_mut().unwrap();
    sync.session.clear();
    sync.min_interval = Some(prost_types::Duration {
        seconds: -1,
        nanos: 0,
    });
    sync.answers = vec![Answer {
        http_code: 99,
        body: vec![b' '; 65_537],
        ..Answer::default()
    }];
    let Err(Error::InvalidArgument(violations)) = rollplan::service::answer(request) else {
        panic!("accepted");
    };
    let found = violations
        .listed
        .iter()
        .map(|it| (it.field.as_str(), it.reason));
    let found: Vec<_> = found.collect();
    for expected in [
        ("snapshot.target.api_version", Reason::Required),
        ("snapshot.target.name", Reason::Required),
        ("snapshot.answers", Reason::Exclusive),
        ("sync.session", Reason::Required),
        ("sync.min_interval", Reason::Negative),
        ("sync.answers[0].http_code", Reason::OutOfRange),
        ("sync.answers[0].body", Reason::OutOfRange),
    ] {
        assert!(found.contains(&expected), "{expected:?} in {found:?}");
    }
}
