//! The requests of the benchmarks: examples/mid-rollout.json with templates of a typical size.

use std::fs;

use prost::Message as _;
use rollplan::proto;
use rollplan::proto::RawStruct;
use rollplan::wire::json::from_json as read_json;
use serde_json::{Value, json};

/// The example with its ReplicaSets and pods repeated under other names up to these numbers. The keys of templates are in
/// byte order, as kubectl and many clients send them.
pub(super) fn request(sets: usize, pods: usize) -> proto::PlanRolloutRequest {
    let mut request = shuffled_request(sets, pods);
    let snapshot = request.snapshot.as_mut().unwrap();
    let own = snapshot.deployment.as_mut().unwrap().spec.as_mut();
    let sets = snapshot.replica_sets.iter_mut();
    let sets = sets.filter_map(|set| set.spec.as_mut()?.template.as_mut());
    for template in sets.chain(own.unwrap().template.as_mut()) {
        *template = encoded(&decoded(template));
    }
    request
}

/// The same request with the keys in a random order that differs between templates and between runs, as Go clients send
/// them by default. The order is that of the hash maps that are used to parse the JSON.
pub(super) fn shuffled_request(sets: usize, pods: usize) -> proto::PlanRolloutRequest {
    let items = objects();
    let text = |kind: &str| {
        let items = items.iter().filter(move |item| item["kind"] == kind);
        items.map(Value::to_string).collect::<Vec<_>>()
    };
    let read_all_sets = text("ReplicaSet").into_iter();
    let mut replica_sets: Vec<proto::ReplicaSet> =
        read_all_sets.map(|set| read_json(&set).unwrap()).collect();
    for i in replica_sets.len()..sets {
        let mut set = replica_sets[0].clone();
        rename(&mut set.metadata, i);
        set.spec.as_mut().unwrap().replicas = Some(0);
        set.status = None;
        let template = distinct_template(set.spec.as_ref().unwrap().template.as_ref().unwrap(), i);
        set.spec.as_mut().unwrap().template = Some(template);
        replica_sets.push(set);
    }
    let read_all_pods = text("Pod").into_iter();
    let first_pods: Vec<proto::Pod> = read_all_pods.map(|pod| read_json(&pod).unwrap()).collect();
    let mut all_pods: Vec<proto::Pod> = first_pods.iter().take(pods).cloned().collect();
    for i in all_pods.len()..pods {
        let mut pod = first_pods[i % first_pods.len()].clone();
        rename(&mut pod.metadata, i);
        all_pods.push(pod);
    }
    let snapshot = proto::Snapshot {
        deployment: Some(read_json(&text("Deployment")[0]).unwrap()),
        replica_sets,
        pods: all_pods,
        ..snapshot()
    };
    proto::PlanRolloutRequest {
        snapshot: Some(snapshot),
        options: None,
    }
}

/// The example as Kubernetes JSON, as an API server prints it: whole objects, without white space. Its pods are repeated
/// under other names up to this number. `owner` takes the place of the UIDs of their ReplicaSets, if it is given.
#[allow(dead_code, reason = "not every benchmark uses it")]
pub(super) fn json_request(pods: usize, owner: Option<&str>) -> proto::PlanRolloutRequest {
    let mut items = objects();
    let is_pod = |item: &Value| item["kind"] == "Pod";
    let first: Vec<Value> = items.iter().filter(|item| is_pod(item)).cloned().collect();
    for i in first.len()..pods {
        let mut pod = first[i % first.len()].clone();
        let metadata = &mut pod["metadata"];
        for field in ["name", "uid"] {
            metadata[field] = format!("{}-{i}", metadata[field].as_str().unwrap()).into();
        }
        if let Some(owner) = owner {
            metadata["ownerReferences"][0]["uid"] = owner.into();
        }
        items.push(pod);
    }
    let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
    let snapshot = proto::Snapshot {
        objects_json: vec![list.to_string().into()],
        ..snapshot()
    };
    proto::PlanRolloutRequest {
        snapshot: Some(snapshot),
        options: None,
    }
}

/// The example with another image in the Deployment: a ReplicaSet is to be created.
#[allow(dead_code, reason = "not every benchmark uses it")]
pub(super) fn create_request() -> proto::PlanRolloutRequest {
    let mut request = request(3, 13);
    let deployment = request.snapshot.as_mut().unwrap().deployment.as_mut();
    let spec = deployment.unwrap().spec.as_mut().unwrap();
    let mut list = objects();
    let own = list.iter_mut().find(|item| item["kind"] == "Deployment");
    let own = own.unwrap();
    own["spec"]["template"]["spec"]["containers"][0]["image"] = "example.com/web:next".into();
    let own: proto::Deployment = read_json(&own.to_string()).unwrap();
    let template = own.spec.unwrap().template.unwrap();
    spec.template = Some(encoded(&decoded(&template)));
    request
}

/// A snapshot without objects.
fn snapshot() -> proto::Snapshot {
    proto::Snapshot {
        now: Some(prost_types::Timestamp {
            seconds: 1_795_217_250,
            nanos: 0,
        }),
        pods_complete: true,
        replica_sets_complete: true,
        ..proto::Snapshot::default()
    }
}

/// The objects of the example, with larger templates.
fn objects() -> Vec<Value> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/mid-rollout.json");
    let mut list: Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    let items = list["items"].as_array_mut().unwrap();
    items.iter_mut().for_each(fill_template);
    std::mem::take(items)
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

fn rename(metadata: &mut Option<proto::ObjectMeta>, i: usize) {
    let metadata = metadata.as_mut().unwrap();
    metadata.name = format!("{}-{i}", metadata.name);
    metadata.uid = format!("{}-{i}", metadata.uid);
}

fn distinct_template(template: &RawStruct, i: usize) -> RawStruct {
    let mut own = decoded(template);
    own.fields
        .insert(format!("unknown-{i}"), prost_types::Value::from(true));
    encoded(&own)
}

fn decoded(template: &RawStruct) -> prost_types::Struct {
    prost_types::Struct::decode(&template.encode_to_vec()[..]).unwrap()
}

fn encoded(template: &prost_types::Struct) -> RawStruct {
    RawStruct::decode(&template.encode_to_vec()[..]).unwrap()
}
