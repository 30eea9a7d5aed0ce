//! Requests of all shapes: usual ones, and the most expensive ones within the limits of Kubernetes.

use prost::{Message, Name};
use rollplan::proto::{self, PlanRestartsRequest, PlanRolloutRequest};
use serde_json::{Map, Value, json};

use crate::request::{SIZES, objects, request, request_of_text};

/// The size of the part that is made large. Encoded requests may have 16 MiB, so this leaves room for the rest.
const BYTES: usize = 15 << 20;
/// The size of an object, a little below the limit of Kubernetes.
const OBJECT_BYTES: usize = (3 << 20) - (64 << 10);
const ANNOTATIONS_BYTES: usize = 256 << 10;
/// The maximum number of entries in a list or map of an object.
const ENTRIES: usize = 10_000;
/// The maximum number of values in a template, less those that contain them.
const VALUES: usize = 19_990;

const REVISION: &str = "deployment.kubernetes.io/revision";

/// A request and its name.
pub struct Shape {
    /// What is large, or unusual.
    pub name: String,
    /// The method whose request it is.
    pub method: &'static str,
    /// The encoded request.
    pub bytes: Vec<u8>,
}

impl Shape {
    /// Encodes the request.
    pub fn new<Q: Message + Name>(name: impl Into<String>, request: &Q) -> Self {
        Self {
            name: name.into(),
            method: Q::NAME.trim_end_matches("Request"),
            bytes: request.encode_to_vec(),
        }
    }
}

/// All shapes. Names of those that callers send start with "usual".
pub fn all() -> Vec<Shape> {
    let mut shapes = Vec::new();
    for (sets, pods) in SIZES {
        let name = format!("usual: {sets} ReplicaSets, {pods} pods");
        shapes.push(Shape::new(name, &request(sets, pods)));
    }
    let mut add = |name: &str, items: &Items| {
        shapes.push(Shape::new(name, &items.request()));
    };
    add("5,000 pods of others", &pods_of_others());
    add("20,000 pods with four fields", &small_pods());
    add("pods with 750 fields in each part", &many_fields());
    add("labels of pods", &labels_of_pods());
    add("containers of pods", &containers_of_pods());
    add("10,000 ReplicaSets", &small_sets());
    add(
        "10,000 ReplicaSets, selector of 1,000 values",
        &small_sets().with_selector(),
    );
    add(
        "20,000 pods, selector of 1,000 values",
        &small_pods().with_selector(),
    );
    add("annotations of ReplicaSets", &annotations_of_sets());
    add("labels of ReplicaSets", &labels_of_sets());
    add("labels of an orphan", &labels_of_orphan());
    add("owners of ReplicaSets to release", &owners_of_sets());
    add("conditions of ReplicaSets", &conditions_of_sets());
    add("20,000 events", &events());
    add("a million annotations", &million_annotations());
    add("templates: many small values", &templates(small_values));
    add("templates: keys out of order", &templates(unordered_values));
    add("templates: environment", &templates(environment));
    add("templates: deep", &templates(deep_values));
    add("a long key above 19,000 values", &templates(long_key));
    add(
        "10,000 ReplicaSets to delete, in no order",
        &deletable_sets(),
    );
    add("net change, one pod at a time", &slow_rollout(1, 0));
    add(
        "net change, one pod at a time, annotations",
        &slow_rollout(1, ENTRIES - 10),
    );
    add(
        "net change, one pod at a time, 16 ReplicaSets",
        &slow_rollout(16, 0),
    );
    add(
        "net change, one pod at a time, 10,000 ReplicaSets",
        &slow_rollout(9_998, 0),
    );
    add("net change of 10,000 ReplicaSets", &net_changes());
    // Without a complete list of ReplicaSets, the answer is a report.
    let mut reported = request(3, 5_000);
    reported.snapshot.as_mut().unwrap().replica_sets_complete = false;
    shapes.push(Shape::new("5,000 pods, with a report", &reported));
    shapes.push(Shape::new("1,000 rejections", &rejections(&Items::usual())));
    shapes.push(Shape::new(
        "1,000 rejections, 10,000 ReplicaSets to delete",
        &rejections(&deletable_sets()),
    ));
    let values = |name: &str, value: &str| {
        let list = vec![value; BYTES / (value.len() + 1)].join(",");
        Shape::new(name, &with_stranger(&format!("[{list}]")))
    };
    shapes.push(values("empty maps", "{}"));
    shapes.push(values("objects of others", r#"{"kind":"Pod"}"#));
    let nested = "[".repeat(BYTES);
    shapes.push(Shape::new("brackets", &request_of_text(nested)));
    // As many references as are admitted.
    shapes.push(Shape::new(
        "20,000 workloads with references",
        &workloads(20_000, 3),
    ));
    shapes.push(Shape::new(
        "a workload with 90,000 references",
        &workloads(1, 90_000),
    ));
    shapes.push(Shape::new("40,000 configurations", &configurations()));
    let objects = list(&Items::of_others(20_000, "shop").0);
    let restarts = PlanRestartsRequest {
        objects: vec![objects],
        ..restarts()
    };
    shapes.push(Shape::new("restarts: 20,000 workloads", &restarts));
    shapes
}

/// The texts of objects.
struct Items(Vec<String>);

// === impl Items ===

impl Items {
    /// The Deployment of the example, its ReplicaSets and its pods.
    fn usual() -> Self {
        Self(texts(&objects(3, 13)))
    }

    /// The Deployment of the example, and its first ReplicaSet. The rest has the maximum size.
    fn of_sets(count: usize, mut change: impl FnMut(&mut Value, usize)) -> Self {
        let [deployment, set, _] = example();
        let mut items = texts(&[deployment, set.clone()]);
        items.extend(fitting((0..count).map(|i| {
            let mut set = set.clone();
            name(&mut set, "s", i);
            set["spec"]["replicas"] = 0.into();
            set["status"] = json!({});
            change(&mut set, i);
            set.to_string()
        })));
        Self(items)
    }

    /// The usual objects with other pods.
    fn of_pods(count: usize, mut change: impl FnMut(&mut Value, usize)) -> Self {
        let [.., pod] = example();
        let mut items = texts(&objects(3, 0));
        items.truncate(4);
        items.extend(fitting((0..count).map(|i| {
            let mut pod = pod.clone();
            name(&mut pod, "p", i);
            change(&mut pod, i);
            pod.to_string()
        })));
        Self(items)
    }

    /// Small Deployments.
    fn of_others(count: usize, namespace: &str) -> Self {
        let text = |i| {
            json!({
                "apiVersion": "apps/v1", "kind": "Deployment",
                "metadata": {"name": format!("d{i}"), "namespace": namespace, "uid": format!("u{i}")},
                "spec": {"template": {"spec": {"containers": [{"name": "a", "envFrom": [{"configMapRef": {"name": "c"}}]}]}}},
            })
            .to_string()
        };
        Self(fitting((0..count).map(text)).collect())
    }

    /// A selector with the maximum number of expressions and values, which all objects match.
    fn with_selector(mut self) -> Self {
        const KEY: &str = "app.kubernetes.io/name";
        let mut deployment: Value = serde_json::from_str(&self.0[0]).unwrap();
        let values: Vec<_> = (0..10).map(|i| format!("{i:063}")).collect();
        let expression = json!({"key": KEY, "operator": "NotIn", "values": values});
        deployment["spec"]["selector"]["matchExpressions"] = vec![expression; 100].into();
        self.0[0] = deployment.to_string();
        self
    }

    /// Changes the Deployment.
    fn with_deployment(mut self, change: impl FnOnce(&mut Value)) -> Self {
        let mut deployment = serde_json::from_str(&self.0[0]).unwrap();
        change(&mut deployment);
        self.0[0] = deployment.to_string();
        self
    }

    fn request(&self) -> PlanRolloutRequest {
        request_of_text(list(&self.0))
    }
}

/// As many texts as fit in a request.
fn fitting(texts: impl Iterator<Item = String>) -> impl Iterator<Item = String> {
    let mut bytes = 0;
    texts.take_while(move |text| {
        bytes += text.len() + 1;
        bytes <= BYTES
    })
}

/// Objects as a List.
pub fn list(texts: &[String]) -> String {
    let items = texts.join(",");
    format!(r#"{{"apiVersion":"v1","kind":"List","items":[{items}]}}"#)
}

fn texts(items: &[Value]) -> Vec<String> {
    items.iter().map(Value::to_string).collect()
}

/// The Deployment, a ReplicaSet and a pod of the example.
pub fn example() -> [Value; 3] {
    let items = objects(3, 13);
    ["Deployment", "ReplicaSet", "Pod"].map(|kind| {
        let mut items = items.iter();
        items.find(|item| item["kind"] == kind).unwrap().clone()
    })
}

fn name(object: &mut Value, prefix: &str, i: usize) {
    object["metadata"]["name"] = format!("{prefix}{i}").into();
    object["metadata"]["uid"] = format!("{prefix}-{i}").into();
}

/// Short texts that all differ.
pub fn short(mut i: usize) -> String {
    const DIGITS: &[u8; 36] = b"0123456789abcdefghijklmnopqrstuvwxyz";
    let mut text = String::new();
    loop {
        text.push(char::from(DIGITS[i % 36]));
        i /= 36;
        if i == 0 {
            return text;
        }
    }
}

/// A map with short keys and this value.
fn map(count: usize, value: &Value) -> Value {
    let entries = (0..count).map(|i| (short(i), value.clone()));
    entries.collect::<Map<_, _>>().into()
}

/// Keys of annotations: their bytes count, without quotes and commas.
fn annotations() -> Value {
    let mut bytes = 0;
    let keys = (0..ENTRIES - 10).map(short);
    let keys = keys.take_while(|key| {
        bytes += key.len();
        bytes <= ANNOTATIONS_BYTES
    });
    let entries = keys.map(|key| (key, Value::from("")));
    entries.collect::<Map<_, _>>().into()
}

fn pods_of_others() -> Items {
    Items::of_pods(5_000, |pod, _| {
        pod["metadata"]["ownerReferences"][0]["uid"] = "other".into();
    })
}

fn small_pods() -> Items {
    Items::of_pods(20_000, |pod, _| {
        let metadata = &pod["metadata"];
        *pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": metadata["name"], "namespace": "shop", "uid": metadata["uid"], "labels": metadata["labels"],
                "ownerReferences": [{"uid": metadata["ownerReferences"][0]["uid"], "controller": true}],
            },
        });
    })
}

fn many_fields() -> Items {
    let fields = map(750, &0.into());
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": fields, "spec": fields, "status": fields}).to_string();
    let mut items = Items::usual();
    items.0.extend(fitting(std::iter::repeat(pod)));
    items
}

fn labels_of_pods() -> Items {
    let labels = map(ENTRIES - 10, &"".into());
    Items::of_pods(200, |pod, _| {
        pod["spec"].take();
        pod["metadata"]["labels"] = labels.clone();
    })
}

fn containers_of_pods() -> Items {
    Items::of_pods(2_000, |pod, _| {
        pod["spec"].take();
        pod["status"]["containerStatuses"] = vec![json!({}); ENTRIES / 4].into();
    })
}

fn small_sets() -> Items {
    Items::of_sets(9_999, |set, i| {
        set["spec"] = json!({"replicas": 0, "template": {format!("x{i}"): ""}});
    })
}

fn annotations_of_sets() -> Items {
    let annotations = annotations();
    Items::of_sets(10_000, |set, _| {
        set["metadata"]["annotations"] = annotations.clone();
    })
}

fn labels_of_sets() -> Items {
    let labels = map(ENTRIES - 10, &"".into());
    Items::of_sets(10_000, |set, _| set["metadata"]["labels"] = labels.clone())
}

/// A ReplicaSet without a controller that the selector does not match.
fn labels_of_orphan() -> Items {
    let mut items = Items::usual();
    let [_, mut set, _] = example();
    // A possible name of the new ReplicaSet.
    set["metadata"]["name"] = "web-x".into();
    set["metadata"]["uid"] = "x".into();
    set["metadata"]["ownerReferences"].take();
    set["metadata"]["labels"] = map(BYTES / 12, &"".into());
    items.0.push(set.to_string());
    items
}

/// Owned ReplicaSets that do not match the selector: each release writes all remaining owners.
fn owners_of_sets() -> Items {
    let owner = json!({"apiVersion": "v1", "kind": "A", "name": "a", "uid": "a"});
    let more = vec![owner; ENTRIES - 10];
    Items::of_sets(10_000, |set, _| {
        set["metadata"]["labels"].take();
        let owners = set["metadata"]["ownerReferences"].as_array_mut();
        owners.unwrap().extend_from_slice(&more);
    })
}

fn conditions_of_sets() -> Items {
    Items::of_sets(500, |set, _| {
        set["status"]["conditions"] = vec![json!({}); ENTRIES - 10].into();
    })
}

fn events() -> Items {
    let uid = example()[0]["metadata"]["uid"].clone();
    let mut items = Items::usual();
    items.0.extend(fitting((0..20_000).map(|i| {
        json!({
            "apiVersion": "v1", "kind": "Event", "metadata": {"name": format!("e{i}"), "namespace": "shop"},
            "involvedObject": {"uid": uid}, "type": "Warning", "reason": short(i), "message": short(i), "count": 1,
            "lastTimestamp": "2026-11-20T23:27:00Z",
        })
        .to_string()
    })));
    items
}

/// The annotations of a single object, which exceed the limit of Kubernetes.
fn million_annotations() -> Items {
    Items::usual().with_deployment(|deployment| {
        deployment["metadata"]["annotations"] = map(1_000_000, &"".into());
    })
}

/// Templates of the maximum size of an object, which differ only at their end.
fn templates(template: fn(usize) -> String) -> Items {
    let [mut deployment, mut set, _] = example();
    let text = |object: &mut Value, i: usize| {
        object["spec"]["template"] = "TEMPLATE".into();
        object.to_string().replace("\"TEMPLATE\"", &template(i))
    };
    let mut items = vec![text(&mut deployment, 0)];
    items.extend(fitting((1..60).map(|i| {
        name(&mut set, "s", i);
        set["spec"]["replicas"] = 0.into();
        text(&mut set, i)
    })));
    Items(items)
}

fn keys(order: impl Fn(usize) -> usize, i: usize) -> String {
    let keys = (0..VALUES).map(|k| format!("\"{:05}\":0", order(k)));
    let keys: Vec<_> = keys.collect();
    // Inside a map of annotations, which is compared entry by entry.
    format!(
        r#"{{"metadata":{{"annotations":{{{},"~{i}":0}}}}}}"#,
        keys.join(",")
    )
}

fn small_values(i: usize) -> String {
    keys(|k| k, i)
}

/// With a prime stride, keys that are adjacent in order are not adjacent in the map.
fn unordered_values(i: usize) -> String {
    keys(|k| k * 7_919 % VALUES, i)
}

fn environment(i: usize) -> String {
    let variable = |k: usize| json!({"name": format!("A{k}"), "value": "a"});
    let variables = (0..VALUES / 3 - 10).chain([1_000_000 + i]).map(variable);
    let env: Value = variables.collect();
    json!({"spec": {"containers": [{"env": env}]}}).to_string()
}

fn deep_values(i: usize) -> String {
    let deep = format!("{}{i}{}", "[".repeat(30), "]".repeat(30));
    format!(r#"{{"unknown":[{}]}}"#, vec![deep; VALUES / 31].join(","))
}

fn long_key(i: usize) -> String {
    let key = "k".repeat(OBJECT_BYTES / 4);
    format!(r#"{{"{key}":{}}}"#, keys(|k| k, i))
}

/// ReplicaSets of a paused Deployment without a history limit above zero, which examines them from newest to oldest. Their
/// revisions give no order.
fn deletable_sets() -> Items {
    let items = Items::of_sets(9_999, |set, i| {
        let number = match i % 2 {
            0 => "x".to_owned(),
            _ => (i * 7_919 % 10_000).to_string(),
        };
        set["metadata"]["annotations"][REVISION] = number.into();
        set["spec"] = json!({"replicas": 0, "template": {format!("x{i}"): ""}});
        set["status"] = json!({"observedGeneration": set["metadata"]["generation"]});
    });
    items.with_deployment(|deployment| {
        deployment["spec"]["paused"] = true.into();
        deployment["spec"]["revisionHistoryLimit"] = 0.into();
    })
}

/// Answers that are compared with each call of the plan, with a ReplicaSet each.
fn rejections(items: &Items) -> PlanRolloutRequest {
    let mut request = items.request();
    let [_, mut set, _] = example();
    let rejection = |i: usize| {
        name(&mut set, "s", i);
        proto::StepAnswer {
            call: Some(proto::ApiCall {
                verb: proto::Verb::Create.into(),
                api_version: "apps/v1".to_owned(),
                kind: "ReplicaSet".to_owned(),
                namespace: "shop".to_owned(),
                name: format!("s{i}"),
                ..proto::ApiCall::default()
            }),
            http_code: 409,
            body: br#"{"kind":"Status","reason":"AlreadyExists"}"#.to_vec(),
            existing_json: set.to_string().into(),
        }
    };
    request.snapshot.as_mut().unwrap().answers = (0..1_000).map(rejection).collect();
    request
}

/// Scaled down by half during a rollout that may replace one pod at a time: the new ReplicaSet loses half of its pods,
/// and regains them one at a time, one in every two passes.
fn slow_rollout(old: usize, annotations: usize) -> Items {
    const PODS: usize = 40_000;
    let each = PODS / old;
    let total = PODS + each * old;
    let many = map(annotations, &"".into());
    let annotate = |object: &mut Value| {
        let own = object["metadata"]["annotations"].as_object_mut().unwrap();
        own.extend(many.as_object().unwrap().clone());
    };
    let mut new = objects(3, 0).swap_remove(2);
    let items = Items::of_sets(old, |set, i| {
        set_size(set, each, total);
        if old > 1 {
            set["spec"]["template"] = json!({format!("x{i}"): ""});
        }
        annotate(set);
    });
    set_size(&mut new, PODS, total);
    annotate(&mut new);
    let mut items = items.with_deployment(|deployment| {
        annotate(deployment);
        let strategy = &mut deployment["spec"]["strategy"];
        strategy["rollingUpdate"] = json!({"maxSurge": 1, "maxUnavailable": 0});
        set_replicas(deployment, total / 2, total);
    });
    items.0[1] = new.to_string();
    items
}

/// Scaled up together with a new template: old ReplicaSets would first grow with the Deployment, and then lose the pods.
fn net_changes() -> Items {
    let items = Items::of_sets(9_999, |set, i| {
        set["spec"]["template"] = json!({format!("x{i}"): ""});
        set_size(set, 1, 10_000);
    });
    items.with_deployment(|deployment| {
        deployment["spec"]["template"] = json!({"new": ""});
        set_replicas(deployment, 20_000, 10_000);
    })
}

/// Sets the number of pods of a Deployment.
fn set_replicas(deployment: &mut Value, replicas: usize, status: usize) {
    deployment["spec"]["replicas"] = replicas.into();
    for field in ["replicas", "readyReplicas", "availableReplicas"] {
        deployment["status"][field] = status.into();
    }
}

/// Sets the number of pods of a ReplicaSet, all available, and the size of the Deployment at that time.
fn set_size(set: &mut Value, replicas: usize, desired: usize) {
    set["spec"]["replicas"] = replicas.into();
    for (name, number) in [("desired-replicas", desired), ("max-replicas", desired + 1)] {
        let key = format!("deployment.kubernetes.io/{name}");
        set["metadata"]["annotations"][key] = number.to_string().into();
    }
    set["status"] = json!({
        "replicas": replicas, "readyReplicas": replicas, "availableReplicas": replicas,
        "observedGeneration": set["metadata"]["generation"],
    });
}

/// The usual objects, and one that is not selected, with this value in it.
fn with_stranger(value: &str) -> PlanRolloutRequest {
    let mut items = Items::usual();
    let stranger =
        format!(r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{}},"data":{value}}}"#);
    items.0.push(stranger);
    items.request()
}

/// A request without workloads.
pub fn restarts() -> PlanRestartsRequest {
    PlanRestartsRequest {
        now: request(3, 13).snapshot.unwrap().now,
        configurations_complete: true,
        options: Some(proto::RestartOptions {
            all_workloads: true,
            include_unchanged: true,
            ..proto::RestartOptions::default()
        }),
        ..PlanRestartsRequest::default()
    }
}

/// Workloads, each with this number of references.
fn workloads(count: usize, references: usize) -> PlanRestartsRequest {
    let source = |i: usize| json!({"configMapRef": {"name": short(i)}});
    let sources: Vec<Value> = (0..references).map(source).collect();
    let template = json!({"spec": {"containers": [{"name": "a", "envFrom": sources}]}});
    let workload = |i: usize| {
        let metadata = json!({"name": short(i), "namespace": "a", "uid": short(i)});
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata,
            "spec": {"template": template}})
    };
    PlanRestartsRequest {
        objects: (0..count).map(|i| workload(i).to_string()).collect(),
        ..restarts()
    }
}

/// The maximum number of configurations, all of which a workload reads.
fn configurations() -> PlanRestartsRequest {
    let checksums = || (0..8).map(|k| (short(k), "0123456789abcdef".to_owned()));
    let configuration = |i: usize| proto::Configuration {
        kind: 1,
        namespace: "a".to_owned(),
        name: short(i),
        key_checksums: checksums().collect(),
        ..proto::Configuration::default()
    };
    PlanRestartsRequest {
        objects: workloads(700, 60).objects,
        configurations: (0..40_000).map(configuration).collect(),
        ..restarts()
    }
}
