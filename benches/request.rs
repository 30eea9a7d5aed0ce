//! The requests of the benchmarks: examples/mid-rollout.json with templates of a typical size, without white space.

use std::fs;

use rollplan::proto;
use serde_json::{Value, json};

/// The usual numbers of ReplicaSets and pods: those of the example; more pods, up to those that fit in 16 MiB; more ReplicaSets,
/// most of which are cleaned up.
pub const SIZES: [(usize, usize); 6] = [
    (3, 13),
    (3, 100),
    (3, 1_000),
    (3, 5_000),
    (100, 13),
    (1_000, 13),
];

/// A request with the objects of [`objects`].
pub fn request(sets: usize, pods: usize) -> proto::PlanRolloutRequest {
    request_of(&objects(sets, pods))
}

/// The example with another image in the Deployment: a ReplicaSet is to be created.
pub fn create_request() -> proto::PlanRolloutRequest {
    let mut items = objects(3, 13);
    let own = items.iter_mut().find(|item| item["kind"] == "Deployment");
    own.unwrap()["spec"]["template"]["spec"]["containers"][0]["image"] =
        "example.com/web:next".into();
    request_of(&items)
}

/// The text of such a request.
pub fn text(sets: usize, pods: usize) -> String {
    list(&objects(sets, pods))
}

/// A request with these objects as a List.
pub fn request_of(items: &[Value]) -> proto::PlanRolloutRequest {
    request_of_text(list(items))
}

fn list(items: &[Value]) -> String {
    json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string()
}

/// A request with this text.
pub fn request_of_text(text: String) -> proto::PlanRolloutRequest {
    let snapshot = proto::Snapshot {
        now: Some(prost_types::Timestamp {
            seconds: 1_795_217_250,
            nanos: 0,
        }),
        objects: vec![text],
        pods_complete: true,
        replica_sets_complete: true,
        ..proto::Snapshot::default()
    };
    proto::PlanRolloutRequest {
        snapshot: Some(snapshot),
        ..proto::PlanRolloutRequest::default()
    }
}

/// The objects of the example with larger templates, and more ReplicaSets and pods up to these numbers. Each further
/// ReplicaSet has no pods and a template of its own, and each further pod has its own name, UID, node, addresses and times.
pub fn objects(sets: usize, pods: usize) -> Vec<Value> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/mid-rollout.json");
    let mut list: Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    let mut items = std::mem::take(list["items"].as_array_mut().unwrap());
    items.iter_mut().for_each(fill_template);
    let of = |kind: &str| -> Vec<Value> {
        let items = items.iter().filter(|item| item["kind"] == kind);
        items.cloned().collect()
    };
    let (first_sets, first_pods) = (of("ReplicaSet"), of("Pod"));
    for i in first_sets.len()..sets {
        let mut set = first_sets[0].clone();
        rename(&mut set, i);
        set["spec"]["replicas"] = 0.into();
        set["spec"]["template"][format!("unknown-{i}")] = true.into();
        set["status"] = json!({});
        items.push(set);
    }
    for i in first_pods.len()..pods {
        let mut pod = first_pods[i % first_pods.len()].clone();
        rename(&mut pod, i);
        change_pod(&mut pod, i);
        items.push(pod);
    }
    items
}

fn rename(object: &mut Value, i: usize) {
    let metadata = &mut object["metadata"];
    metadata["name"] = format!("{}-{i:05}", metadata["name"].as_str().unwrap()).into();
    metadata["uid"] = format!("00000000-0000-4000-8000-{i:012x}").into();
    metadata["resourceVersion"] = (100_000 + i).to_string().into();
}

/// Gives a pod its own node, addresses, containers and times.
fn change_pod(pod: &mut Value, i: usize) {
    pod["spec"]["nodeName"] = format!("node-{}", i % 250).into();
    let status = &mut pod["status"];
    let (host, address) = (
        i % 250,
        format!("10.{}.{}.{}", i >> 16, i >> 8 & 255, i & 255),
    );
    status["hostIP"] = format!("192.168.1.{host}").into();
    status["hostIPs"] = json!([{"ip": format!("192.168.1.{host}")}]);
    status["podIPs"] = json!([{"ip": address}]);
    status["podIP"] = address.into();
    let containers = status["containerStatuses"].as_array_mut();
    for container in containers.into_iter().flatten() {
        container["containerID"] = format!("containerd://{:064x}", i * 7_919).into();
    }
    // Within the hour before the time of the request.
    let time = format!("2026-11-20T22:{:02}:{:02}Z", i / 60 % 60, i % 60);
    change_strings(pod, &mut |name, text| {
        if ["Timestamp", "Time", "startedAt"]
            .iter()
            .any(|end| name.ends_with(end))
        {
            time.clone_into(text);
        } else if text.starts_with("kube-api-access-") {
            *text = format!("kube-api-access-{i:05}");
        }
    });
}

/// Calls a function with the names and texts of all strings in objects.
fn change_strings(value: &mut Value, change: &mut impl FnMut(&str, &mut String)) {
    match value {
        Value::Array(items) => items
            .iter_mut()
            .for_each(|item| change_strings(item, change)),
        Value::Object(fields) => {
            for (name, value) in fields {
                match value {
                    Value::String(text) => change(name, text),
                    value => change_strings(value, change),
                }
            }
        }
        _ => {}
    }
}

/// Extends the small template of the example to a typical size of about 5 KB: a sidecar, environment variables, volumes.
fn fill_template(object: &mut Value) {
    let Some(spec) = object.pointer_mut("/spec/template/spec") else {
        return;
    };
    let names = (0..24).map(|i| format!("SETTING_{i}"));
    let env = names.map(|name| json!({"name": name, "value": format!("value of {name}")}));
    let env: Value = env.collect();
    let mounts = (0..6)
        .map(|i| json!({"name": format!("volume-{i}"), "mountPath": format!("/etc/web/{i}")}));
    let mounts: Value = mounts.collect();
    let volumes = (0..6).map(|i| json!({"name": format!("volume-{i}"), "configMap": {"name": format!("web-{i}"), "defaultMode": 420}}));
    spec["volumes"] = volumes.collect();
    let mut sidecar = spec["containers"][0].clone();
    sidecar["name"] = "sidecar".into();
    spec["containers"].as_array_mut().unwrap().push(sidecar);
    for container in spec["containers"].as_array_mut().unwrap() {
        container["env"] = env.clone();
        container["volumeMounts"] = mounts.clone();
    }
}
