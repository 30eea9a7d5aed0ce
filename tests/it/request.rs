//! Requests with their Kubernetes objects as JSON, which tests change.

use std::sync::LazyLock;

use bytes::Bytes;
use rollplan::proto;
use rollplan::service::{Status, find_method};
use rollplan::wire::Context;
pub(crate) use rollplan_world::json::list;
use rollplan_world::json::{controlled, object, pod_template};
use serde_json::{Value, json};

/// The path of the objects of a [`Request`].
pub(crate) const ITEMS: &str = "snapshot.objects[0].items";

/// Calls a method with an encoded request.
pub(crate) fn call(method: &str, request: &[u8]) -> Result<Vec<u8>, Status> {
    let request = Bytes::copy_from_slice(request);
    find_method(method)
        .unwrap()
        .call(request, &mut Context::default())
}

/// A request for restarts with these texts, as protobuf JSON.
pub(crate) fn restarts_of(now: &str, texts: &[String]) -> Value {
    json!({"now": now, "objects": texts, "configurationsComplete": true})
}

/// A request whose objects are one text: a List, in which the Deployment is the first item.
#[derive(Clone)]
pub(crate) struct Request {
    pub(crate) items: Vec<Value>,
    /// Everything else in the snapshot.
    pub(crate) snapshot: proto::Snapshot,
    pub(crate) options: proto::PlanOptions,
}

/// A valid request for a rollout in progress: a Deployment of 10, a new and an old ReplicaSet, two pods, and a rejected
/// call.
pub(crate) fn mk_request() -> Request {
    static REQUEST: LazyLock<Request> = LazyLock::new(rollout_half_way);
    REQUEST.clone()
}

/// The same without the rejected call.
pub(crate) fn half_way() -> Request {
    let mut request = mk_request();
    request.snapshot.answers.clear();
    request
}

fn rollout_half_way() -> Request {
    let stored = |kind: &str, name: &str, version: &str| {
        let mut object = object("apps/v1", kind, name);
        object["metadata"]["resourceVersion"] = version.into();
        object["metadata"]["generation"] = 1.into();
        object
    };
    let template = |image: &str| pod_template("web", json!({"image": image}));
    let mut deployment = stored("Deployment", "web", "9");
    deployment["metadata"]["generation"] = 2.into();
    deployment["spec"] = json!({
        "replicas": 10,
        "selector": {"matchLabels": {"app": "web"}},
        "template": template("web:2"),
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}},
    });
    let set = |name: &str, image: &str, replicas: i32| {
        let mut set = controlled(stored("ReplicaSet", name, "5"), &deployment);
        set["metadata"]["labels"] = json!({"app": "web"});
        set["spec"] = json!({"replicas": replicas, "template": template(image)});
        set["status"] = json!({"replicas": replicas, "observedGeneration": 1});
        set
    };
    let sets = [set("new", "web:2", 3), set("old", "web:1", 8)];
    let pods = ["a", "b"].map(|name| {
        let mut pod = controlled(object("v1", "Pod", name), &sets[0]);
        pod["status"] = json!({"phase": "Running"});
        pod
    });
    let call = proto::ApiCall {
        verb: proto::Verb::Create.into(),
        api_version: "apps/v1".to_owned(),
        kind: "ReplicaSet".to_owned(),
        name: "x".to_owned(),
        ..Default::default()
    };
    let rejected = proto::StepAnswer {
        call: Some(call),
        http_code: 403,
        body: br#"{"kind":"Status","reason":"Forbidden"}"#.to_vec(),
        existing_json: set("existing", "web:3", 1).to_string().into(),
    };
    let objects = [deployment].into_iter().chain(sets).chain(pods);
    let mut request = Request::at("2026-01-02T00:00:00Z", objects.collect());
    request.snapshot.pods_complete = false;
    request.snapshot.answers = vec![rejected];
    request
}

// === impl Request ===

impl Request {
    /// A request with all ReplicaSets and pods at this time.
    pub(crate) fn at(now: &str, items: Vec<Value>) -> Self {
        Self {
            items,
            snapshot: proto::Snapshot {
                now: Some(now.parse().unwrap()),
                replica_sets_complete: true,
                pods_complete: true,
                ..Default::default()
            },
            options: Default::default(),
        }
    }

    /// A request with a List that kubectl has printed.
    pub(crate) fn of_list(now: &str, text: &str) -> Self {
        let mut list: Value = serde_json::from_str(text).unwrap();
        Self::at(now, serde_json::from_value(list["items"].take()).unwrap())
    }

    /// The text of the objects.
    pub(crate) fn text(&self) -> String {
        list(&self.items).to_string()
    }

    pub(crate) fn message(&self) -> proto::PlanRolloutRequest {
        self.with_texts(vec![self.text()])
    }

    /// The request with other texts than that of its objects.
    pub(crate) fn with_texts(&self, texts: Vec<String>) -> proto::PlanRolloutRequest {
        let mut snapshot = self.snapshot.clone();
        snapshot.objects = texts;
        proto::PlanRolloutRequest {
            snapshot: Some(snapshot),
            options: Some(self.options),
            sync: None,
        }
    }

    pub(crate) fn plan(&self) -> proto::PlanRolloutResponse {
        rollplan::service::answer(self.message()).unwrap()
    }

    pub(crate) fn compute_status(&self) -> proto::ComputeStatusResponse {
        rollplan::service::answer(self.status_request()).unwrap()
    }

    pub(crate) fn status_request(&self) -> proto::ComputeStatusRequest {
        proto::ComputeStatusRequest {
            snapshot: self.message().snapshot,
            ..Default::default()
        }
    }

    pub(crate) fn rollback_request(&self) -> proto::RollbackRequest {
        proto::RollbackRequest {
            snapshot: self.message().snapshot,
            ..Default::default()
        }
    }

    pub(crate) fn revisions_request(&self) -> proto::ListRevisionsRequest {
        proto::ListRevisionsRequest {
            snapshot: self.message().snapshot,
        }
    }

    // The parts of a request.

    pub(crate) fn deployment(&mut self) -> &mut Value {
        &mut self.items[0]
    }

    pub(crate) fn meta(&mut self) -> &mut Value {
        &mut self.deployment()["metadata"]
    }

    pub(crate) fn spec(&mut self) -> &mut Value {
        &mut self.deployment()["spec"]
    }

    /// The objects of a kind.
    pub(crate) fn all(&mut self, kind: &str) -> impl Iterator<Item = &mut Value> {
        self.items.iter_mut().filter(move |it| it["kind"] == kind)
    }

    pub(crate) fn set(&mut self, index: usize) -> &mut Value {
        self.all("ReplicaSet").nth(index).unwrap()
    }

    pub(crate) fn pod(&mut self, index: usize) -> &mut Value {
        self.all("Pod").nth(index).unwrap()
    }

    pub(crate) fn remove_all(&mut self, kind: &str) {
        self.items.retain(|it| it["kind"] != kind);
    }

    /// Makes the Deployment the target, with another kind.
    pub(crate) fn set_kind(&mut self, api_version: &str, kind: &str) {
        self.deployment()["apiVersion"] = api_version.into();
        self.deployment()["kind"] = kind.into();
        self.snapshot.target = Some(proto::Target {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
            ..Default::default()
        });
    }

    pub(crate) fn answer(&mut self) -> &mut proto::StepAnswer {
        &mut self.snapshot.answers[0]
    }

    pub(crate) fn call(&mut self) -> &mut proto::ApiCall {
        self.answer().call.as_mut().unwrap()
    }
}
