//! PlanRestarts: Kubernetes JSON and checksums in, pages of plans out.

mod context;
mod pages;
mod plans;
mod secrets;
mod sync;
mod violations;

use rollplan::proto::{PlanRestartsRequest, PlanRestartsResponse, RestartPlan};
use rollplan::wire::json;
use rollplan_world::json::{config_map, controlled, object, workload};
use serde_json::{Value, json};

use crate::request::{list, restarts_of};

const NOW: &str = "2026-01-01T01:00:00Z";

const STATE: &str = "rollplan.dev/restart-state";

fn request(request: &Value) -> PlanRestartsRequest {
    json::from_json(&request.to_string()).unwrap()
}

fn plan(value: &Value) -> PlanRestartsResponse {
    rollplan::service::answer(request(value)).unwrap()
}

/// A request with objects of Kubernetes.
fn objects(objects: &[Value], options: Value) -> Value {
    let mut request = restarts_of(NOW, &[list(objects).to_string()]);
    request["options"] = options;
    request
}

fn deployment(name: &str, state: Option<&str>) -> Value {
    let mut annotations = json!({"rollplan.dev/restart": "enabled"});
    if let Some(state) = state {
        annotations[STATE] = json!(state);
    }
    workload(
        name,
        annotations,
        json!({"envFrom": [{"configMapRef": {"name": "app"}}]}),
    )
}

/// A ReplicaSet of a revision of this Deployment, with a pod.
fn revision_of(deployment: &Value, revision: &str) -> Value {
    let set = object("apps/v1", "ReplicaSet", &format!("web-{revision}"));
    let mut set = controlled(set, deployment);
    set["metadata"]["annotations"] = json!({"deployment.kubernetes.io/revision": revision});
    set["status"] = json!({"replicas": 1});
    set
}

/// A running pod of this object.
fn pod_of(owner: &Value, started_at: &str) -> Value {
    let mut pod = controlled(object("v1", "Pod", "p"), owner);
    let running = json!({"running": {"startedAt": started_at}});
    pod["status"] =
        json!({"phase": "Running", "containerStatuses": [{"name": "app", "state": running}]});
    pod
}

/// The state that the first step of a plan writes.
fn state(plan: &RestartPlan) -> String {
    let body: Value = serde_json::from_str(&call(plan).body_json).unwrap();
    let operations = body.as_array().unwrap().iter();
    let mut writes = operations.filter(|it| it["op"] == "add");
    let written =
        writes.find(|it| it["path"] == "/metadata/annotations/rollplan.dev~1restart-state");
    written.unwrap()["value"].as_str().unwrap().to_owned()
}

fn call(plan: &RestartPlan) -> &rollplan::proto::ApiCall {
    plan.steps[0].call.as_ref().unwrap()
}

fn decisions(response: &PlanRestartsResponse) -> Vec<(String, String)> {
    let plans = response.plans.iter();
    plans
        .map(|it| {
            (
                it.name.clone(),
                it.decision().as_str_name()["RESTART_DECISION_".len()..].to_owned(),
            )
        })
        .collect()
}
