//! What a plan costs, from the bytes of a request to the bytes of its answer, and in parts.
//!
//!     cargo bench --bench plan
//!
//! The rollout is examples/mid-rollout.json with larger templates: 10 replicas, three ReplicaSets and 13 pods. It
//! also grows: more pods, and more ReplicaSets with a template each.

#![allow(clippy::unwrap_used, reason = "a benchmark that cannot start says so")]

use std::fs;

use divan::Bencher;
use divan::counter::BytesCount;
use prost::Message as _;
use rollplan::proto;
use rollplan::wire::json::from_json as read_json;
use rollplan::wire::{self, RawStruct};
use rollplan_core::snapshot::{Options, Snapshot};
use rollplan_core::template::digest;
use serde_json::{Value, json};

fn main() {
    divan::main();
}

/// The saved rollout with its sets and pods repeated, under other names, up to these numbers.
fn request(sets: usize, pods: usize) -> proto::PlanRolloutRequest {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/mid-rollout.json");
    let mut list: Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    let items = list["items"].as_array_mut().unwrap();
    items.iter_mut().for_each(fill_template);
    let items = &*items;
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
        let template =
            template_of_its_own(set.spec.as_ref().unwrap().template.as_ref().unwrap(), i);
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
    proto::PlanRolloutRequest {
        snapshot: Some(proto::Snapshot {
            now: Some(prost_types::Timestamp {
                seconds: 1_795_217_250,
                nanos: 0,
            }),
            deployment: Some(read_json(&text("Deployment")[0]).unwrap()),
            replica_sets,
            pods: all_pods,
            pods_complete: true,
            failures: Vec::new(),
        }),
        options: None,
    }
}

/// Makes the saved rollout's small template one of usual size: a sidecar, environment, volumes. About 5 KB.
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

fn template_of_its_own(template: &RawStruct, i: usize) -> RawStruct {
    let mut fields = prost_types::Struct::decode(&template.encode_to_vec()[..]).unwrap();
    fields
        .fields
        .insert(format!("unknown-{i}"), prost_types::Value::from(true));
    RawStruct::decode(&fields.encode_to_vec()[..]).unwrap()
}

fn snapshot(sets: usize, pods: usize) -> Snapshot {
    wire::parse_snapshot(request(sets, pods).snapshot).unwrap()
}

/// Sets and pods: the rollout as it was saved; with more pods; with more sets.
const SIZES: [(usize, usize); 5] = [(3, 13), (3, 100), (3, 1_000), (3, 10_000), (100, 13)];

/// The message, templates left in their bytes.
#[divan::bench(args = SIZES)]
fn decode(bencher: Bencher<'_, '_>, (sets, pods): (usize, usize)) {
    let bytes = request(sets, pods).encode_to_vec();
    bencher
        .counter(BytesCount::of_slice(&bytes))
        .bench(|| proto::PlanRolloutRequest::decode(&bytes[..]));
}

/// What decoding the templates too, as protobuf's own types, would add.
#[divan::bench(args = SIZES)]
fn decode_templates_eagerly(bencher: Bencher<'_, '_>, (sets, pods): (usize, usize)) {
    let snapshot = request(sets, pods).snapshot.unwrap();
    let spec = snapshot.deployment.unwrap().spec.unwrap();
    let sets = snapshot.replica_sets.into_iter();
    let sets = sets.filter_map(|set| set.spec?.template);
    let templates: Vec<Vec<u8>> = sets
        .chain(spec.template)
        .map(|raw| raw.encode_to_vec())
        .collect();
    bencher
        .counter(BytesCount::new(
            templates.iter().map(Vec::len).sum::<usize>(),
        ))
        .bench(|| -> Vec<_> {
            let templates = templates.iter();
            templates
                .map(|bytes| prost_types::Struct::decode(&bytes[..]))
                .collect()
        });
}

/// From the message to what the planner reads: checks, and the digests of all templates.
#[divan::bench(args = SIZES)]
fn parse(bencher: Bencher<'_, '_>, (sets, pods): (usize, usize)) {
    let request = request(sets, pods);
    bencher
        .with_inputs(|| request.snapshot.clone())
        .bench_values(wire::parse_snapshot);
}

/// The digests of all templates, were they decoded already: the part of parsing that no decoder saves.
#[divan::bench(args = SIZES)]
fn digests(bencher: Bencher<'_, '_>, (sets, pods): (usize, usize)) {
    let snapshot = snapshot(sets, pods);
    let sets = snapshot.replica_sets.iter().map(|set| &set.template);
    let templates = sets.chain([&snapshot.deployment.spec.template]);
    let values: Vec<_> = templates.map(|template| template.value()).collect();
    bencher.bench(|| {
        values
            .iter()
            .map(|value| digest(*value))
            .collect::<Vec<_>>()
    });
}

/// The planner alone. Templates are decoded where it looks into them.
#[divan::bench(args = SIZES)]
fn plan_settled(bencher: Bencher<'_, '_>, (sets, pods): (usize, usize)) {
    bencher
        .with_inputs(|| snapshot(sets, pods))
        .bench_refs(|snapshot| rollplan_core::plan_settled(snapshot, Options::default()));
}

/// One pass of the planner alone.
#[divan::bench(args = SIZES)]
fn plan_pass(bencher: Bencher<'_, '_>, (sets, pods): (usize, usize)) {
    bencher
        .with_inputs(|| snapshot(sets, pods))
        .bench_refs(|snapshot| rollplan_core::plan_pass(snapshot, Options::default()));
}

/// All of it.
#[divan::bench(args = SIZES)]
fn bytes_to_bytes(bencher: Bencher<'_, '_>, (sets, pods): (usize, usize)) {
    let bytes = request(sets, pods).encode_to_vec();
    bencher
        .counter(BytesCount::of_slice(&bytes))
        .bench(|| wire::plan_rollout_bytes(&bytes));
}

/// The same request as kubectl's JSON, as the command reads it.
#[divan::bench(args = SIZES)]
fn from_json(bencher: Bencher<'_, '_>, (sets, pods): (usize, usize)) {
    let text = wire::json::to_json(&request(sets, pods)).unwrap();
    bencher
        .counter(BytesCount::of_str(&text))
        .bench(|| read_json::<proto::PlanRolloutRequest>(&text));
}
