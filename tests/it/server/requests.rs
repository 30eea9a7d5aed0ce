//! Requests for tests.

use prost::Message as _;
use rollplan::proto::RawStruct;
use rollplan::proto::{PlanRolloutRequest, Pod};
use rollplan::wire::json;
use serde_json::Value;

/// A rollout in progress, from a real API server.
pub(super) fn mk_request() -> PlanRolloutRequest {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/mid-rollout.json");
    let list: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let of_kind = |kind: &str| -> Vec<&Value> {
        let items = list["items"].as_array().unwrap();
        items.iter().filter(|item| item["kind"] == kind).collect()
    };
    let request = serde_json::json!({"snapshot": {
        "now": "2026-11-20T23:27:30Z",
        "deployment": of_kind("Deployment")[0],
        "replicaSets": of_kind("ReplicaSet"),
        "pods": of_kind("Pod"),
        "podsComplete": true,
        "replicaSetsComplete": true,
    }});
    json::from_json(&request.to_string()).unwrap()
}

/// The same request with `count` different pods.
pub(super) fn mk_request_with_pods(count: usize) -> PlanRolloutRequest {
    let mut request = mk_request();
    let pods = &mut request.snapshot.as_mut().unwrap().pods;
    let pod = pods[0].clone();
    *pods = (0..count).map(|i| mk_pod(&pod, i)).collect();
    request
}

fn mk_pod(like: &Pod, i: usize) -> Pod {
    let mut pod = like.clone();
    let metadata = pod.metadata.as_mut().unwrap();
    metadata.name = format!("pod-{i}");
    metadata.uid = format!("uid-{i}");
    pod
}

/// The same request with enough work for a large call.
pub(super) fn mk_large_request() -> PlanRolloutRequest {
    mk_request_with_pods(2_000)
}

/// The same request with `count` more bytes that are not part of the answer.
pub(super) fn mk_request_with_bytes(count: usize) -> PlanRolloutRequest {
    const BYTES_EACH: usize = 1 << 20;
    let mut request = mk_request();
    let pods = &mut request.snapshot.as_mut().unwrap().pods;
    let like = pods[0].clone();
    for start in (0..count).step_by(BYTES_EACH) {
        let mut pod = mk_pod(&like, start);
        let status = pod.status.get_or_insert_default();
        status.pod_ip = "x".repeat(BYTES_EACH.min(count - start));
        pods.push(pod);
    }
    request
}

/// A request whose answer has more than `count` bytes: they are part of the template of the new ReplicaSet. A double quote
/// takes two bytes in the JSON of the answer.
pub(super) fn mk_request_with_long_answer(count: usize) -> PlanRolloutRequest {
    let mut request = mk_request();
    let deployment = request.snapshot.as_mut().unwrap().deployment.as_mut();
    let spec = deployment.unwrap().spec.as_mut().unwrap();
    let encoded = spec.template.as_ref().unwrap().encode_to_vec();
    let mut template = prost_types::Struct::decode(&encoded[..]).unwrap();
    let long = prost_types::Value::from("\"".repeat(count / 2));
    template.fields.insert("long".to_owned(), long);
    spec.template = Some(RawStruct::decode(&template.encode_to_vec()[..]).unwrap());
    request
}
