//! `status` and `wait` for every kind of workload, with objects from kubectl or from files.

mod files;
mod jobs;
mod reads;
mod status;
mod waiting;

use rollplan_world::json;
use serde_json::{Value, json};

use super::kubectl::{Answer, Poll, poll};

/// An object of generation 1.
fn object(api_version: &str, kind: &str, name: &str, spec: Value, status: Value) -> Value {
    let mut object = json::object(api_version, kind, name);
    object["metadata"]["uid"] = format!("{kind}-{name}").into();
    object["metadata"]["generation"] = 1.into();
    object["metadata"]["creationTimestamp"] = "2026-11-20T11:00:00Z".into();
    (object["spec"], object["status"]) = (spec, status);
    object
}

/// A spec with a selector and a template.
fn spec(fields: Value) -> Value {
    let spec = json!({
        "selector": {"matchLabels": {"app": "db"}},
        "template": {"metadata": {"labels": {"app": "db"}}, "spec": {"containers": [{"name": "db", "image": "db:1"}]}},
    });
    json::with(spec, &fields)
}

pub(super) fn stateful_set(available: i32) -> Value {
    let status = json!({
        "observedGeneration": 1, "replicas": 2, "readyReplicas": available, "availableReplicas": available,
        "updatedReplicas": 2, "currentReplicas": 2, "currentRevision": "db-1", "updateRevision": "db-1",
    });
    object(
        "apps/v1",
        "StatefulSet",
        "db",
        spec(json!({"replicas": 2, "updateStrategy": {"type": "RollingUpdate"}})),
        status,
    )
}

fn replication_controller(available: i32) -> Value {
    let status = json!({
        "observedGeneration": 1, "replicas": 2, "fullyLabeledReplicas": 2, "readyReplicas": available,
        "availableReplicas": available,
    });
    let mut spec = spec(json!({"replicas": 2}));
    spec["selector"] = json!({"app": "db"});
    object("v1", "ReplicationController", "db", spec, status)
}

fn daemon_set(available: i32) -> Value {
    let status = json!({
        "observedGeneration": 1, "desiredNumberScheduled": 3, "currentNumberScheduled": 3, "updatedNumberScheduled": 3,
        "numberReady": available, "numberAvailable": available,
    });
    object(
        "apps/v1",
        "DaemonSet",
        "db",
        spec(json!({"updateStrategy": {"type": "RollingUpdate"}})),
        status,
    )
}

fn replica_set(available: i32) -> Value {
    let status = json!({
        "observedGeneration": 1, "replicas": 2, "fullyLabeledReplicas": 2, "readyReplicas": available,
        "availableReplicas": available,
    });
    object(
        "apps/v1",
        "ReplicaSet",
        "db",
        spec(json!({"replicas": 2})),
        status,
    )
}

fn job(status: Value) -> Value {
    let all = json::with(json!({"startTime": "2026-11-20T11:59:00Z"}), &status);
    let spec = spec(json!({"completions": 2, "parallelism": 1, "backoffLimit": 3}));
    object("batch/v1", "Job", "db", spec, all)
}

pub(super) fn running_job() -> Value {
    job(json!({"active": 1, "succeeded": 1}))
}

pub(super) fn ended_job(condition: &str, reason: &str) -> Value {
    job(json!({
        "succeeded": 2, "failed": 4,
        "conditions": [{"type": condition, "status": "True", "reason": reason, "message": "it ended"}],
    }))
}

fn service(ingress: Value) -> Value {
    let spec = json!({"type": "LoadBalancer", "clusterIP": "10.0.0.1"});
    let status = json!({"loadBalancer": {"ingress": ingress}});
    object("v1", "Service", "db", spec, status)
}

fn claim(phase: &str) -> Value {
    let spec = json!({"storageClassName": "slow"});
    object(
        "v1",
        "PersistentVolumeClaim",
        "db",
        spec,
        json!({"phase": phase}),
    )
}

pub(super) fn certificate(ready: &str) -> Value {
    let status = json!({"conditions": [{"type": "Ready", "status": ready, "reason": "Issuing", "message": "wait"}]});
    object(
        "cert-manager.io/v1",
        "Certificate",
        "db",
        json!({"secretName": "tls"}),
        status,
    )
}

/// A pod, with an owner if given.
fn pod(owner: Option<&Value>, name: &str, status: Value) -> Value {
    let mut pod = object(
        "v1",
        "Pod",
        name,
        json!({"containers": [{"name": "db", "image": "db:1"}]}),
        status,
    );
    if let Some(owner) = owner {
        pod = json::controlled(pod, owner);
        pod["metadata"]["labels"] = json!({"app": "db", "controller-revision-hash": "db-1"});
    }
    pod
}

fn failing_pod(owner: Option<&Value>, name: &str) -> Value {
    let waiting =
        json!({"waiting": {"reason": "InvalidImageName", "message": "invalid reference format"}});
    let container = json!({"name": "db", "image": "DB", "state": waiting, "restartCount": 0});
    pod(
        owner,
        name,
        json!({"phase": "Pending", "containerStatuses": [container]}),
    )
}

/// The output of kubectl for an object with these pods.
fn read(object: Value, pods: Vec<Value>) -> Poll {
    Poll {
        deployment: Answer::Out(object.to_string()),
        ..poll(pods)
    }
}

pub(super) fn alone(object: Value) -> Poll {
    read(object, Vec::new())
}
