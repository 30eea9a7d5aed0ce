//! Requests for tests.

use rollplan::proto::PlanRolloutRequest;
use serde_json::{Value, json};

use crate::request::Request;

/// A rollout in progress, from a real API server.
pub(super) fn mk_rollout() -> Request {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/mid-rollout.json");
    let text = std::fs::read_to_string(path).unwrap();
    Request::of_list("2026-11-20T23:27:30Z", &text)
}

pub(super) fn mk_request() -> PlanRolloutRequest {
    mk_rollout().message()
}

/// The same rollout with `count` different pods.
pub(super) fn mk_rollout_with_pods(count: usize) -> Request {
    let mut request = mk_rollout();
    let pod = request.pod(0).clone();
    request.remove_all("Pod");
    let pods = (0..count).map(|i| mk_pod(&pod, i));
    request.items.extend(pods);
    request
}

fn mk_pod(like: &Value, i: usize) -> Value {
    let mut pod = like.clone();
    pod["metadata"]["name"] = format!("pod-{i}").into();
    pod["metadata"]["uid"] = format!("uid-{i}").into();
    pod
}

pub(super) fn mk_request_with_pods(count: usize) -> PlanRolloutRequest {
    mk_rollout_with_pods(count).message()
}

/// The same request with enough work for a large call.
pub(super) fn mk_large_request() -> PlanRolloutRequest {
    mk_request_with_pods(2_000)
}

/// The same request with `count` more bytes that are not part of the answer.
pub(super) fn mk_request_with_bytes(count: usize) -> PlanRolloutRequest {
    const BYTES_EACH: usize = 1 << 20;
    let mut request = mk_rollout();
    let like = request.pod(0).clone();
    for start in (0..count).step_by(BYTES_EACH) {
        let mut pod = mk_pod(&like, start);
        pod["status"]["podIP"] = "x".repeat(BYTES_EACH.min(count - start)).into();
        request.items.push(pod);
    }
    request.message()
}

/// A request whose answer has more than `count` bytes: a condition, which the answer contains three times.
pub(super) fn mk_request_with_long_answer(count: usize) -> PlanRolloutRequest {
    let mut request = mk_rollout();
    request.remove_all("Pod");
    let status = &mut request.deployment()["status"];
    status["observedGeneration"] = 0.into();
    let long = "x".repeat(count / 3);
    let condition = json!({"type": "Long", "status": "True", "message": long});
    status["conditions"].as_array_mut().unwrap().push(condition);
    request.message()
}
