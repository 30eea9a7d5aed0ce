//! The reports on kinds other than Deployments, for each state.

mod jobs;
mod others;
mod requests;
mod stateful_sets;
mod table;

use prost_types::Timestamp;
use rollplan::proto::{self, Outlook, Phase};
use rollplan_world::json;
use serde_json::{Value, json};

use crate::request::list;

/// All times are relative to this one, in seconds since the epoch.
const START: i64 = 1_800_000_000;

fn at(seconds: i64) -> String {
    Timestamp {
        seconds: START + seconds,
        nanos: 0,
    }
    .to_string()
}

fn request(now: i64, target: &Value, others: &[Value]) -> proto::ComputeStatusRequest {
    let text = |object: &Value| object["metadata"]["name"].as_str().unwrap_or("").to_owned();
    let of = |name: &str| target[name].as_str().unwrap_or("").to_owned();
    let all: Vec<Value> = others.iter().chain([target]).cloned().collect();
    proto::ComputeStatusRequest {
        snapshot: Some(proto::Snapshot {
            now: Some(Timestamp {
                seconds: START + now,
                nanos: 0,
            }),
            target: Some(proto::Target {
                api_version: of("apiVersion"),
                kind: of("kind"),
                name: text(target),
                ..Default::default()
            }),
            objects: vec![list(&all).to_string()],
            pods_complete: true,
            ..Default::default()
        }),
        ..Default::default()
    }
}

fn report(now: i64, target: &Value, others: &[Value]) -> proto::RolloutReport {
    let request = request(now, target, others);
    let response = rollplan::service::answer(request).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(response.status, None);
    let object = response.object.unwrap();
    assert_eq!(target["kind"], *object.kind);
    response.report.unwrap()
}

/// Checks the phase, the outlook, whether it is certain, the reason and the message.
#[track_caller]
fn check(
    report: &proto::RolloutReport,
    phase: Phase,
    outlook: Outlook,
    certain: bool,
    reason: &str,
    message: &str,
) {
    let verdict = report.verdict.as_ref().unwrap();
    assert_eq!(report.phase(), phase, "{report:#?}");
    assert_eq!(verdict.outlook(), outlook, "{report:#?}");
    assert_eq!(verdict.certain, certain, "{report:#?}");
    assert_eq!(verdict.reason, reason, "{report:#?}");
    assert_eq!(report.message, message);
}

/// The names of the pods of a blocker, and their reasons.
fn listed(blocker: &proto::Blocker) -> Vec<(&str, &str)> {
    let pods = blocker.pods.iter();
    pods.map(|pod| (&*pod.name, &*pod.reason)).collect()
}

/// An object with the fields that the API server sets.
fn object(api_version: &str, kind: &str, name: &str, spec: Value, status: Value) -> Value {
    let mut object = json::object(api_version, kind, name);
    let metadata = &mut object["metadata"];
    metadata["resourceVersion"] = "1".into();
    metadata["generation"] = 1.into();
    metadata["creationTimestamp"] = at(0).into();
    (object["spec"], object["status"]) = (spec, status);
    object
}

/// A pod that was created and scheduled at time 0.
fn pod(name: &str, owner: &Value, revision: &str, node: &str, status: Value) -> Value {
    let scheduled =
        json!([{"type": "PodScheduled", "status": "True", "lastTransitionTime": at(0)}]);
    let pending = json!({"phase": "Pending", "startTime": at(0), "conditions": scheduled});
    let pod = object("v1", "Pod", name, json!({"nodeName": node}), pending);
    let mut pod = json::controlled(pod, owner);
    pod["metadata"]["labels"] = json!({"controller-revision-hash": revision});
    pod["status"] = json::with(pod["status"].take(), &status);
    pod
}

fn container(state: Value) -> Value {
    json!([{"name": "web", "image": "web:2", "ready": false, "restartCount": 0, "state": state}])
}

fn ready() -> Value {
    json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": at(5)}],
           "containerStatuses": [{"name": "web", "image": "web:2", "ready": true, "restartCount": 0,
                                  "state": {"running": {"startedAt": at(3)}}}]})
}

fn no_image() -> Value {
    let text = "failed to pull and unpack image \"web:2\": failed to resolve reference \"web:2\": not found";
    json!({"containerStatuses": container(json!({"waiting": {"reason": "ErrImagePull", "message": text}}))})
}

fn running() -> Value {
    json!({"phase": "Running",
           "conditions": [{"type": "Ready", "status": "False", "lastTransitionTime": at(0)}],
           "containerStatuses": container(json!({"running": {"startedAt": at(3)}}))})
}

fn warning(uid: &str, reason: &str, message: &str, first: i64, last: i64) -> Value {
    json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": "e", "namespace": "shop", "uid": "e"},
           "involvedObject": {"uid": uid}, "type": "Warning", "reason": reason, "message": message, "count": 5,
           "firstTimestamp": at(first), "lastTimestamp": at(last)})
}

fn stateful_set(spec: Value, status: Value) -> Value {
    let all = json!({"replicas": 3, "template": {"spec": {"containers": [{"name": "web"}]}}});
    let counts = json!({"observedGeneration": 1, "replicas": 3, "readyReplicas": 3, "availableReplicas": 3,
        "updatedReplicas": 3, "currentRevision": "web-new", "updateRevision": "web-new"});
    let (spec, status) = (json::with(all, &spec), json::with(counts, &status));
    object("apps/v1", "StatefulSet", "web", spec, status)
}

fn daemon_set(spec: Value, status: Value) -> Value {
    let counts = json!({"observedGeneration": 1, "desiredNumberScheduled": 3, "currentNumberScheduled": 3,
        "updatedNumberScheduled": 3, "numberReady": 3, "numberAvailable": 3, "numberMisscheduled": 0});
    object(
        "apps/v1",
        "DaemonSet",
        "agent",
        spec,
        json::with(counts, &status),
    )
}

fn job(spec: Value, status: Value) -> Value {
    object("batch/v1", "Job", "migrate", spec, status)
}

fn condition(kind: &str, reason: &str, message: &str) -> Value {
    json!([{"type": kind, "status": "True", "reason": reason, "message": message, "lastTransitionTime": at(50)}])
}
