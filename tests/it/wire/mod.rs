//! Requests in, responses out.

mod absurd;
mod answers;
mod baseline;
mod calls;
mod capacity;
mod encoded;
mod fixtures;
mod interrupts;
mod kinds;
mod objects;
mod overlap;
mod oversized;
mod random;
mod refused_objects;
mod restarts;
mod steps;
mod summary;
mod templates;
mod violations;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use rollplan::proto;
use rollplan::wire::json;
use serde_json::{Value, json};

use crate::base64;

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: impl AsRef<Path>) -> String {
    let path = root().join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The saved snapshots in examples/, by name, as requests.
fn examples() -> Vec<(String, Value)> {
    let mut examples: Vec<_> = fs::read_dir(root().join("examples"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "json")
        })
        .map(|path| {
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            (
                name,
                request_of(&serde_json::from_str(&read(&path)).unwrap()),
            )
        })
        .collect();
    examples.sort_by(|a, b| a.0.cmp(&b.0));
    assert!(examples.len() >= 9, "{} examples", examples.len());
    examples
}

/// The example with this name.
fn example(name: &str) -> Value {
    let (_, example) = examples()
        .into_iter()
        .find(|(example, _)| example == name)
        .unwrap_or_else(|| panic!("no example {name}"));
    example
}

fn request_of(list: &Value) -> Value {
    let of = |kind: &str| -> Vec<&Value> {
        let items = list["items"].as_array().unwrap().iter();
        items.filter(|item| item["kind"] == kind).collect()
    };
    json!({
        "snapshot": {
            "now": "2026-11-20T23:27:30Z",
            "deployment": of("Deployment")[0],
            "replicaSets": of("ReplicaSet"),
            "pods": of("Pod"),
            "podsComplete": true,
            "replicaSetsComplete": true,
        }
    })
}

fn request(json: &Value) -> proto::PlanRolloutRequest {
    json::from_json(&json.to_string()).unwrap()
}

/// A valid request for a rollout in progress: a Deployment of 10, a new and an old ReplicaSet, two pods, and a rejected
/// call.
fn mk_request() -> proto::PlanRolloutRequest {
    static REQUEST: LazyLock<proto::PlanRolloutRequest> = LazyLock::new(rollout_half_way);
    REQUEST.clone()
}

fn rollout_half_way() -> proto::PlanRolloutRequest {
    let owners = json!([{
        "apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "d", "controller": true,
    }]);
    let template = |image: &str| {
        json!({
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "web", "image": image}]},
        })
    };
    let set = |name: &str, image: &str, replicas: i32| {
        json!({
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "metadata": {
                "name": name, "namespace": "shop", "uid": name, "resourceVersion": "5", "generation": 1,
                "labels": {"app": "web"}, "ownerReferences": owners,
            },
            "spec": {"replicas": replicas, "template": template(image)},
            "status": {"replicas": replicas, "observedGeneration": 1},
        })
    };
    let pod = |name: &str| {
        json!({
            "metadata": {
                "name": name, "namespace": "shop", "uid": name,
                "ownerReferences": [{
                    "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "new", "uid": "new", "controller": true,
                }],
            },
            "status": {"phase": "Running"},
        })
    };
    request(&json!({
        "snapshot": {
            "now": "2026-01-02T00:00:00Z",
            "deployment": {
                "metadata": {
                    "name": "web", "namespace": "shop", "uid": "d", "resourceVersion": "9", "generation": 2,
                },
                "spec": {
                    "replicas": 10,
                    "selector": {"matchLabels": {"app": "web"}},
                    "template": template("web:2"),
                    "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}},
                },
            },
            "replicaSets": [set("new", "web:2", 3), set("old", "web:1", 8)],
            "replicaSetsComplete": true,
            "pods": [pod("a"), pod("b")],
            "answers": [{
                "call": {"verb": "VERB_CREATE", "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "x"},
                "httpCode": 403,
                "body": base64(&json!({"kind": "Status", "reason": "Forbidden"})),
                "existingJson": base64(&set("existing", "web:3", 1)),
            }],
        }
    }))
}

/// The parts of a request that tests change.
trait Parts {
    fn snapshot(&mut self) -> &mut proto::Snapshot;
    fn deployment(&mut self) -> &mut proto::Deployment {
        self.snapshot().deployment.as_mut().unwrap()
    }
    fn spec(&mut self) -> &mut proto::DeploymentSpec {
        self.deployment().spec.as_mut().unwrap()
    }
    fn status(&mut self) -> &mut proto::DeploymentStatus {
        self.deployment().status.get_or_insert_default()
    }
    fn meta(&mut self) -> &mut proto::ObjectMeta {
        self.deployment().metadata.as_mut().unwrap()
    }
    fn rolling(&mut self) -> &mut proto::RollingUpdateDeployment {
        let strategy = self.spec().strategy.as_mut().unwrap();
        strategy.rolling_update.as_mut().unwrap()
    }
    fn set(&mut self, index: usize) -> &mut proto::ReplicaSet {
        &mut self.snapshot().replica_sets[index]
    }
    fn set_meta(&mut self, index: usize) -> &mut proto::ObjectMeta {
        self.set(index).metadata.as_mut().unwrap()
    }
    fn set_spec(&mut self, index: usize) -> &mut proto::ReplicaSetSpec {
        self.set(index).spec.as_mut().unwrap()
    }
    fn set_status(&mut self, index: usize) -> &mut proto::ReplicaSetStatus {
        self.set(index).status.as_mut().unwrap()
    }
    fn pod_meta(&mut self, index: usize) -> &mut proto::ObjectMeta {
        self.snapshot().pods[index].metadata.as_mut().unwrap()
    }
    fn answer(&mut self) -> &mut proto::StepAnswer {
        &mut self.snapshot().answers[0]
    }
    fn call(&mut self) -> &mut proto::ApiCall {
        self.answer().call.as_mut().unwrap()
    }
}

impl Parts for proto::PlanRolloutRequest {
    fn snapshot(&mut self) -> &mut proto::Snapshot {
        self.snapshot.as_mut().unwrap()
    }
}
