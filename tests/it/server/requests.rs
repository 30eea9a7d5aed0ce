//! What is asked for.

use rollplan::proto::{PlanRolloutRequest, Pod};
use rollplan::wire::json;
use serde_json::Value;

/// A rollout under way, as a real API server had it.
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
    }});
    json::from_json(&request.to_string()).unwrap()
}

/// The same with so many pods, all different.
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

/// The same with an annotation of so many bytes on a pod, which comes back in no answer.
pub(super) fn mk_request_with_bytes(count: usize) -> PlanRolloutRequest {
    let mut request = mk_request();
    let pod = &mut request.snapshot.as_mut().unwrap().pods[0];
    let long = "x".repeat(count);
    let metadata = pod.metadata.as_mut().unwrap();
    metadata.annotations.insert("long".to_owned(), long);
    request
}
