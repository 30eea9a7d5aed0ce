//! Requests of all shapes: usual ones, and the most expensive ones within the limits of Kubernetes.

use std::collections::{BTreeMap, HashMap};

use prost::Message as _;
use rollplan::proto;
use rollplan::proto::RawStruct;
use rollplan::wire::json;

use super::request::{json_request, request};

/// The size of the part that is made large. Encoded requests may have 16 MiB, so this leaves room for the rest.
const BYTES: usize = 15 << 20;
/// The size of an object, a little below the limit of Kubernetes.
const OBJECT_BYTES: usize = (3 << 20) - (4 << 10);
const ANNOTATIONS_BYTES: usize = 256 << 10;
/// The maximum number of entries in a list or map of an object.
const ENTRIES: usize = 10_000;
/// The maximum number of values in a template, less those that contain them.
const VALUES: usize = 19_990;
/// The number of templates of the maximum size.
const TEMPLATES: usize = 60;

/// A request and its name.
pub(super) struct Shape {
    pub(super) name: String,
    pub(super) bytes: Vec<u8>,
}

/// All shapes. `usual` contains those that callers send.
pub(super) fn all() -> Vec<Shape> {
    let mut shapes = Vec::new();
    for (sets, pods) in [
        (3, 13),
        (3, 100),
        (3, 1_000),
        (3, 10_000),
        (100, 13),
        (1_000, 13),
    ] {
        shapes.push(Shape {
            name: format!("usual: {sets} ReplicaSets, {pods} pods"),
            bytes: request(sets, pods).encode_to_vec(),
        });
    }
    let mut add = |name: &str, request: proto::PlanRolloutRequest| {
        let bytes = request.encode_to_vec();
        let name = name.to_owned();
        shapes.push(Shape { name, bytes });
    };
    add("JSON: 3 ReplicaSets, 13 pods", json_request(13, None));
    add("JSON: 3 ReplicaSets, 1000 pods", json_request(1_000, None));
    add("JSON: 4,000 pods", json_request(4_000, None));
    add(
        "JSON: 4,000 pods of others",
        json_request(4_000, Some("other")),
    );
    add("JSON: empty maps", json_of_empty_maps());
    add("JSON: objects with 750 fields each", json_of_many_fields());
    // Without a complete list of ReplicaSets, the answer is a report.
    let mut reported = json_request(4_000, None);
    reported.snapshot.as_mut().unwrap().replica_sets_complete = false;
    add("JSON: 4,000 pods, with a report", reported);
    add(
        "JSON: 10,000 ReplicaSets",
        json_of(small_sets(9_999, false), BYTES),
    );
    add(
        "JSON: annotations of ReplicaSets",
        json_of(annotations_of_sets(), 5 << 20),
    );
    add("JSON: labels of pods", json_of(labels_of_pods(), BYTES));
    add("JSON: labels of an orphan", json_of_orphan());
    add("20,000 empty pods", empty_pods(20_000));
    add("10,000 empty ReplicaSets", empty_sets(10_000));
    add(
        "20,000 pods, full statuses",
        request_with(full_pods(20_000)),
    );
    add("containers of pods", containers());
    add("labels of pods", labels_of_pods());
    add("annotations of ReplicaSets", annotations_of_sets());
    add("labels of ReplicaSets", labels_of_sets());
    add("owners of ReplicaSets to release", owners_of_sets());
    add("conditions of ReplicaSets", conditions_of_sets());
    add("10,000 small ReplicaSets", small_sets(9_999, false));
    add(
        "10,000 ReplicaSets, selector of 1,000 values",
        small_sets(9_999, true),
    );
    add("templates: many small values", templates(Entries::Sorted));
    add("templates: keys out of order", templates(Entries::Shuffled));
    add("templates: environment", templates(Entries::Environment));
    add("templates: deep", templates(Entries::Deep));
    add(
        "selector of 100 expressions, 20,000 pods",
        pods_and_selector(),
    );
    add("1,000 rejections with a ReplicaSet each", rejections());
    add(
        "1,000 rejections, 10,000 ReplicaSets to delete",
        rejections_of_sets(),
    );
    add(
        "10,000 ReplicaSets to delete, in no order",
        unnumbered_sets(),
    );
    add("a long key above 19,000 values", long_key());
    add("net change, one pod at a time", slow_rollout(1, 0));
    add(
        "net change, one pod at a time, annotations",
        slow_rollout(1, ENTRIES - 10),
    );
    add(
        "net change, one pod at a time, 16 ReplicaSets",
        slow_rollout(16, 0),
    );
    add(
        "net change, one pod at a time, 10,000 ReplicaSets",
        slow_rollout(9_998, 0),
    );
    add("net change of 10,000 ReplicaSets", net_changes());
    add("a million annotations", million_annotations());
    add("labels of an orphan ReplicaSet", labels_of_orphan(4 << 20));
    shapes.push(Shape {
        name: "labels of a pod of others, out of order".to_owned(),
        bytes: labels_of_other_pod(),
    });
    shapes.push(Shape {
        name: "containers of a pod of others".to_owned(),
        bytes: containers_of_other_pod(),
    });
    shapes
}

/// The request with another pod, given as bytes, which is not selected.
fn with_other_pod(pod: &[u8]) -> Vec<u8> {
    let mut snapshot = Vec::new();
    prost::encoding::bytes::encode(4, &pod.to_vec(), &mut snapshot);
    let mut bytes = request(3, 13).encode_to_vec();
    prost::encoding::bytes::encode(1, &snapshot, &mut bytes);
    bytes
}

/// A single map as large as a request.
fn labels_of_other_pod() -> Vec<u8> {
    let keys: Vec<_> = ordered(short_map(BYTES, false)).into_keys().collect();
    let mut metadata = Vec::new();
    for k in 0..keys.len() {
        let mut entry = Vec::new();
        prost::encoding::string::encode(1, &keys[k * 7_919 % keys.len()], &mut entry);
        prost::encoding::bytes::encode(8, &entry, &mut metadata);
    }
    let mut pod = Vec::new();
    prost::encoding::bytes::encode(3, &metadata, &mut pod);
    with_other_pod(&pod)
}

/// A single list that has just grown by doubling.
fn containers_of_other_pod() -> Vec<u8> {
    let mut pod = first_pod();
    pod.metadata.as_mut().unwrap().owner_references.clear();
    let containers = vec![proto::ContainerStatus::default(); (1 << 17) + 1];
    pod.status.as_mut().unwrap().container_statuses = containers;
    with_other_pod(&pod.encode_to_vec())
}

/// A ReplicaSet without a controller that the selector does not match.
fn labels_of_orphan(bytes: usize) -> proto::PlanRolloutRequest {
    let mut request = request(3, 13);
    let mut set = own_set();
    let metadata = set.metadata.as_mut().unwrap();
    // A possible name of the new ReplicaSet.
    metadata.name = "web-x".to_owned();
    metadata.uid = "x".to_owned();
    metadata.owner_references.clear();
    metadata.labels = ordered(short_map(bytes, false));
    request.snapshot.as_mut().unwrap().replica_sets.push(set);
    request
}

/// The maximum number of JSON objects in a request, inside an object that is not selected.
fn json_of_empty_maps() -> proto::PlanRolloutRequest {
    let mut request = json_request(13, None);
    let texts = &mut request.snapshot.as_mut().unwrap().objects_json;
    let maps = vec!["{}"; BYTES / 3].join(",");
    let text =
        format!(r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{}},"data":[{maps}]}}"#);
    texts.push(text.into());
    request
}

/// Objects with more fields than the scan records.
fn json_of_many_fields() -> proto::PlanRolloutRequest {
    let mut request = json_request(13, None);
    let fields: Vec<_> = (0..750).map(|i| format!("\"{i}\":0")).collect();
    let fields = fields.join(",");
    let object = format!(
        r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{{fields}}},"spec":{{{fields}}},"status":{{{fields}}}}}"#
    );
    let objects = vec![&*object; (14 << 20) / object.len()].join(",");
    let text = format!(r#"{{"apiVersion":"v1","kind":"List","items":[{objects}]}}"#);
    let texts = &mut request.snapshot.as_mut().unwrap().objects_json;
    texts.push(text.into());
    request
}

/// The objects of a request as Kubernetes JSON, as many as fit.
fn json_of(mut request: proto::PlanRolloutRequest, bytes_max: usize) -> proto::PlanRolloutRequest {
    let snapshot = request.snapshot.as_mut().unwrap();
    let deployment = snapshot.deployment.take().unwrap();
    let mut texts = vec![json_object(&deployment, "apps/v1", "Deployment")];
    let sets = std::mem::take(&mut snapshot.replica_sets);
    texts.extend(
        sets.iter()
            .map(|set| json_object(set, "apps/v1", "ReplicaSet")),
    );
    let pods = std::mem::take(&mut snapshot.pods);
    texts.extend(pods.iter().map(|pod| json_object(pod, "v1", "Pod")));
    let mut bytes = 0;
    texts.retain(|text| {
        bytes += text.len() + 1;
        bytes <= bytes_max
    });
    let list = format!(
        r#"{{"kind":"List","apiVersion":"v1","items":[{}]}}"#,
        texts.join(",")
    );
    snapshot.objects_json = vec![list.into()];
    request
}

fn json_object<M: prost::Message + prost::Name>(
    message: &M,
    api_version: &str,
    kind: &str,
) -> String {
    let text = json::to_kubernetes_json(message).unwrap();
    let mut value: serde_json::Value = serde_json::from_str(&text).unwrap();
    value["apiVersion"] = api_version.into();
    value["kind"] = kind.into();
    value.to_string()
}

fn json_of_orphan() -> proto::PlanRolloutRequest {
    json_of(labels_of_orphan(BYTES / 2), BYTES)
}

fn request_with(pods: Vec<proto::Pod>) -> proto::PlanRolloutRequest {
    let mut request = request(3, 13);
    let snapshot = request.snapshot.as_mut().unwrap();
    snapshot.pods = pods;
    request
}

fn empty_pods(count: usize) -> proto::PlanRolloutRequest {
    request_with(vec![proto::Pod::default(); count])
}

fn empty_sets(count: usize) -> proto::PlanRolloutRequest {
    let mut request = request(3, 13);
    let snapshot = request.snapshot.as_mut().unwrap();
    snapshot.replica_sets = vec![proto::ReplicaSet::default(); count];
    request
}

fn first_pod() -> proto::Pod {
    request(3, 13).snapshot.unwrap().pods.swap_remove(0)
}

fn own_set() -> proto::ReplicaSet {
    request(3, 13).snapshot.unwrap().replica_sets.swap_remove(0)
}

fn name_pod(pod: &mut proto::Pod, i: usize) {
    let metadata = pod.metadata.as_mut().unwrap();
    metadata.name = format!("p{i}");
    metadata.uid = format!("u{i}");
}

fn name_set(set: &mut proto::ReplicaSet, i: usize) {
    let metadata = set.metadata.as_mut().unwrap();
    metadata.name = format!("s{i}");
    metadata.uid = format!("v{i}");
}

/// Truncates a list to the size of a request.
fn fit<M: prost::Message>(mut all: Vec<M>) -> Vec<M> {
    let mut bytes = 0;
    let fitting = all.iter().take_while(|one| {
        bytes += one.encoded_len() + 5;
        bytes <= BYTES
    });
    let count = fitting.count();
    all.truncate(count);
    all
}

/// Pods as written by Kubernetes, with all six conditions and four waiting containers.
fn full_pods(count: usize) -> Vec<proto::Pod> {
    let mut pod = first_pod();
    let status = pod.status.as_mut().unwrap();
    let container = status.container_statuses[0].clone();
    status.container_statuses = vec![container; 2];
    let pods = (0..count).map(|i| {
        let mut pod = pod.clone();
        name_pod(&mut pod, i);
        pod
    });
    fit(pods.collect())
}

/// Pods whose container statuses are empty.
fn containers() -> proto::PlanRolloutRequest {
    let mut pod = first_pod();
    let statuses = vec![proto::ContainerStatus::default(); 100];
    pod.status.as_mut().unwrap().container_statuses = statuses;
    pod.metadata.as_mut().unwrap().annotations.clear();
    let pods = (0..20_000).map(|i| {
        let mut pod = pod.clone();
        name_pod(&mut pod, i);
        pod
    });
    let mut pods = fit(pods.collect::<Vec<_>>());
    // The number that fits in the memory limit.
    pods.truncate(2_000);
    request_with(pods)
}

/// Different short keys of this total encoded size.
fn short_map(bytes: usize, text_only: bool) -> HashMap<String, String> {
    let digits = b"0123456789abcdefghijklmnopqrstuvwxyz";
    let mut map = HashMap::new();
    let mut taken = 0;
    for mut i in 0.. {
        let mut key = String::new();
        loop {
            key.push(char::from(digits[i % 36]));
            i /= 36;
            if i == 0 {
                break;
            }
        }
        // The tags and lengths of the entry, the key and the value.
        taken += key.len() + if text_only { 0 } else { 6 };
        if taken > bytes {
            break;
        }
        map.insert(key, String::new());
    }
    map
}

fn ordered(map: HashMap<String, String>) -> BTreeMap<String, String> {
    map.into_iter().collect()
}

fn labels_of_pods() -> proto::PlanRolloutRequest {
    let mut pod = first_pod();
    let labels: BTreeMap<_, _> = ordered(short_map(OBJECT_BYTES, false))
        .into_iter()
        .take(ENTRIES)
        .collect();
    pod.metadata.as_mut().unwrap().labels = labels.into_iter().collect();
    let pods = (0..200).map(|i| {
        let mut pod = pod.clone();
        name_pod(&mut pod, i);
        pod
    });
    request_with(fit(pods.collect::<Vec<_>>()))
}

fn with_sets(
    mut change: impl FnMut(&mut proto::ReplicaSet, usize),
    count: usize,
) -> proto::PlanRolloutRequest {
    let mut request = request(3, 13);
    let snapshot = request.snapshot.as_mut().unwrap();
    let mut bytes = 0;
    snapshot.replica_sets.truncate(1);
    for i in 0..count {
        let mut set = snapshot.replica_sets[0].clone();
        name_set(&mut set, i);
        set.spec.as_mut().unwrap().replicas = Some(0);
        set.status = None;
        change(&mut set, i);
        bytes += set.encoded_len() + 5;
        if bytes > BYTES {
            break;
        }
        snapshot.replica_sets.push(set);
    }
    request
}

fn annotations_of_sets() -> proto::PlanRolloutRequest {
    let annotations: HashMap<_, _> = short_map(ANNOTATIONS_BYTES, true)
        .into_iter()
        .take(ENTRIES - 10)
        .collect();
    with_sets(
        |set, _| {
            let own = &mut set.metadata.as_mut().unwrap().annotations;
            own.extend(annotations.clone());
        },
        10_000,
    )
}

fn labels_of_sets() -> proto::PlanRolloutRequest {
    let labels: HashMap<_, _> = short_map(OBJECT_BYTES, false)
        .into_iter()
        .take(ENTRIES - 10)
        .collect();
    with_sets(
        |set, _| {
            let own = &mut set.metadata.as_mut().unwrap().labels;
            own.extend(labels.clone());
        },
        10_000,
    )
}

/// Owned ReplicaSets that do not match the selector: each release writes all remaining owners.
fn owners_of_sets() -> proto::PlanRolloutRequest {
    with_sets(
        |set, _| {
            let metadata = set.metadata.as_mut().unwrap();
            metadata.labels.clear();
            let owner = proto::OwnerReference {
                api_version: "v1".to_owned(),
                kind: "A".to_owned(),
                name: "a".to_owned(),
                uid: "a".to_owned(),
                ..proto::OwnerReference::default()
            };
            metadata.owner_references.extend(vec![owner; ENTRIES - 10]);
        },
        10_000,
    )
}

fn conditions_of_sets() -> proto::PlanRolloutRequest {
    with_sets(
        |set, _| {
            let conditions = vec![proto::ReplicaSetCondition::default(); 3_000];
            set.status = Some(proto::ReplicaSetStatus {
                conditions,
                ..proto::ReplicaSetStatus::default()
            });
        },
        100,
    )
}

fn small_sets(count: usize, with_selector: bool) -> proto::PlanRolloutRequest {
    let mut request = with_sets(
        |set, i| {
            let spec = set.spec.as_mut().unwrap();
            spec.selector = None;
            spec.template = Some(of_text(&[(format!("x{i}"), String::new())]));
        },
        count,
    );
    if with_selector {
        add_selector(&mut request);
    }
    request
}

fn add_selector(request: &mut proto::PlanRolloutRequest) {
    let deployment = request.snapshot.as_mut().unwrap().deployment.as_mut();
    let selector = deployment.unwrap().spec.as_mut().unwrap().selector.as_mut();
    let values = (0..10).map(|i| format!("{:063}", i)).collect();
    let requirement = proto::LabelSelectorRequirement {
        key: "app.kubernetes.io/name".to_owned(),
        operator: "NotIn".to_owned(),
        values,
    };
    selector.unwrap().match_expressions = vec![requirement; 100];
    let snapshot = request.snapshot.as_mut().unwrap();
    for metadata in snapshot
        .replica_sets
        .iter_mut()
        .filter_map(|it| it.metadata.as_mut())
        .chain(
            snapshot
                .pods
                .iter_mut()
                .filter_map(|it| it.metadata.as_mut()),
        )
    {
        let value = format!("{:063}", 11);
        metadata
            .labels
            .insert("app.kubernetes.io/name".to_owned(), value);
    }
}

fn pods_and_selector() -> proto::PlanRolloutRequest {
    let mut pod = first_pod();
    pod.status = None;
    let pods = (0..20_000).map(|i| {
        let mut pod = pod.clone();
        name_pod(&mut pod, i);
        pod
    });
    let mut request = request_with(fit(pods.collect::<Vec<_>>()));
    add_selector(&mut request);
    request
}

enum Entries {
    Sorted,
    Shuffled,
    Environment,
    Deep,
}

fn of_text(entries: &[(String, String)]) -> RawStruct {
    let fields = entries.iter().map(|(key, value)| {
        let kind = prost_types::value::Kind::StringValue(value.clone());
        (key.clone(), prost_types::Value { kind: Some(kind) })
    });
    raw(prost_types::Struct {
        fields: fields.collect(),
    })
}

fn raw(value: prost_types::Struct) -> RawStruct {
    RawStruct::decode(&value.encode_to_vec()[..]).unwrap()
}

/// Templates of the maximum size of an object, which differ only at their end.
fn templates(entries: Entries) -> proto::PlanRolloutRequest {
    use prost_types::value::Kind;

    let value = |kind| prost_types::Value { kind: Some(kind) };
    let template = |i: usize| -> RawStruct {
        match entries {
            Entries::Sorted | Entries::Shuffled => {
                let mut keys: Vec<_> = ordered(short_map(OBJECT_BYTES - (64 << 10), false))
                    .into_keys()
                    .collect();
                // An entry takes four bytes more than that of a map of strings.
                keys.truncate(VALUES);
                if matches!(entries, Entries::Shuffled) {
                    // With a prime stride, keys that are adjacent in order are not adjacent in the map.
                    let count = keys.len();
                    keys = (0..count)
                        .map(|k| keys[k * 7_919 % count].clone())
                        .collect();
                }
                let mut bytes = Vec::new();
                keys.push(format!("~{i}"));
                for key in keys {
                    let entry = one_entry(&key, &[8, 0]);
                    prost::encoding::bytes::encode(1, &entry, &mut bytes);
                }
                // Inside a map of annotations, which is compared entry by entry.
                let annotations = one_entry_of("annotations", bytes);
                let metadata = one_entry_of("metadata", annotations);
                RawStruct::decode(&metadata[..]).unwrap()
            }
            Entries::Environment => {
                let variable = |k: usize| {
                    let fields = [("name", format!("A{k}")), ("value", "a".to_owned())];
                    let fields = fields
                        .into_iter()
                        .map(|(key, text)| (key.to_owned(), value(Kind::StringValue(text))));
                    value(Kind::StructValue(prost_types::Struct {
                        fields: fields.collect(),
                    }))
                };
                let mut variables: Vec<_> = (0..VALUES / 3 - 10).map(variable).collect();
                variables.push(variable(1_000_000 + i));
                let values = prost_types::ListValue { values: variables };
                let env = ("env".to_owned(), value(Kind::ListValue(values)));
                let container = value(Kind::StructValue(prost_types::Struct {
                    fields: [env].into(),
                }));
                let containers = prost_types::ListValue {
                    values: vec![container],
                };
                let containers = ("containers".to_owned(), value(Kind::ListValue(containers)));
                let spec = value(Kind::StructValue(prost_types::Struct {
                    fields: [containers].into(),
                }));
                raw(prost_types::Struct {
                    fields: [("spec".to_owned(), spec)].into(),
                })
            }
            Entries::Deep => {
                let mut inner = value(Kind::NumberValue(i as f64));
                for _ in 0..30 {
                    inner = value(Kind::ListValue(prost_types::ListValue {
                        values: vec![inner],
                    }));
                }
                let list = prost_types::ListValue {
                    values: vec![inner; VALUES / 31],
                };
                raw(prost_types::Struct {
                    fields: [("unknown".to_owned(), value(Kind::ListValue(list)))].into(),
                })
            }
        }
    };
    let mut request = with_sets(
        |set, i| set.spec.as_mut().unwrap().template = Some(template(i + 1)),
        TEMPLATES,
    );
    let deployment = request.snapshot.as_mut().unwrap().deployment.as_mut();
    deployment.unwrap().spec.as_mut().unwrap().template = Some(template(0));
    request
}

/// An entry of a Struct with an encoded value.
fn one_entry(key: &str, value: &[u8]) -> Vec<u8> {
    let mut entry = Vec::new();
    prost::encoding::string::encode(1, &key.to_owned(), &mut entry);
    prost::encoding::bytes::encode(2, &value.to_vec(), &mut entry);
    entry
}

/// A Struct with one entry, which is a Struct with the given encoding.
fn one_entry_of(key: &str, inner: Vec<u8>) -> Vec<u8> {
    let mut value = Vec::new();
    prost::encoding::bytes::encode(5, &inner, &mut value);
    let mut all = Vec::new();
    prost::encoding::bytes::encode(1, &one_entry(key, &value), &mut all);
    all
}

fn rejections() -> proto::PlanRolloutRequest {
    let mut request = request(3, 13);
    let set = own_set();
    let snapshot = request.snapshot.as_mut().unwrap();
    let rejection = |i: usize| {
        let mut existing = set.clone();
        name_set(&mut existing, i);
        proto::StepAnswer {
            call: Some(proto::ApiCall {
                verb: proto::Verb::Create.into(),
                kind: "ReplicaSet".to_owned(),
                name: format!("s{i}"),
                body_json: "x".repeat(8 << 10),
                ..proto::ApiCall::default()
            }),
            http_code: 409,
            body: br#"{"kind":"Status","reason":"AlreadyExists"}"#.to_vec(),
            existing_json: json::to_kubernetes_json(&existing).unwrap().into_bytes(),
        }
    };
    snapshot.answers = fit((0..1_000).map(rejection).collect());
    request
}

/// ReplicaSets of a paused Deployment without a history limit above zero, which examines them from newest to oldest.
fn deletable_sets() -> proto::PlanRolloutRequest {
    let mut request = small_sets(9_999, false);
    let snapshot = request.snapshot.as_mut().unwrap();
    let deployment = snapshot.deployment.as_mut().unwrap();
    let spec = deployment.spec.as_mut().unwrap();
    spec.paused = true;
    spec.revision_history_limit = Some(0);
    for set in &mut snapshot.replica_sets {
        set.status = Some(proto::ReplicaSetStatus {
            observed_generation: set.metadata.as_ref().unwrap().generation,
            ..proto::ReplicaSetStatus::default()
        });
    }
    request
}

/// Rejections that are compared with each call of the plan, but are of other calls.
fn rejections_of_sets() -> proto::PlanRolloutRequest {
    let mut request = deletable_sets();
    let snapshot = request.snapshot.as_mut().unwrap();
    let rejection = |i: usize| proto::StepAnswer {
        call: Some(proto::ApiCall {
            verb: proto::Verb::Patch.into(),
            api_version: "apps/v1".to_owned(),
            kind: "ReplicaSet".to_owned(),
            namespace: "shop".to_owned(),
            name: format!("s{i}"),
            ..proto::ApiCall::default()
        }),
        http_code: 409,
        body: br#"{"kind":"Status","reason":"AlreadyExists"}"#.to_vec(),
        ..proto::StepAnswer::default()
    };
    snapshot.answers = (0..1_000).map(rejection).collect();
    request
}

/// ReplicaSets to clean up whose revisions give no order.
fn unnumbered_sets() -> proto::PlanRolloutRequest {
    let mut request = deletable_sets();
    let snapshot = request.snapshot.as_mut().unwrap();
    for (i, set) in snapshot.replica_sets.iter_mut().enumerate() {
        let metadata = set.metadata.as_mut().unwrap();
        let number = match i % 2 {
            0 => "x".to_owned(),
            _ => (i * 7_919 % 10_000).to_string(),
        };
        metadata.annotations.insert(REVISION.to_owned(), number);
    }
    request
}

/// Templates that differ below a key of the maximum length.
fn long_key() -> proto::PlanRolloutRequest {
    let key = "k".repeat(1 << 20);
    let template = |prefix: char| -> RawStruct {
        let mut bytes = Vec::new();
        for k in 0..VALUES - 10 {
            let entry = one_entry(&format!("{prefix}{k:05}"), &[8, 0]);
            prost::encoding::bytes::encode(1, &entry, &mut bytes);
        }
        RawStruct::decode(&one_entry_of(&key, bytes)[..]).unwrap()
    };
    let mut request = with_sets(
        |set, _| set.spec.as_mut().unwrap().template = Some(template('a')),
        1,
    );
    let deployment = request.snapshot.as_mut().unwrap().deployment.as_mut();
    deployment.unwrap().spec.as_mut().unwrap().template = Some(template('b'));
    request
}

const REVISION: &str = "deployment.kubernetes.io/revision";

/// Sets the number of pods of a Deployment that may replace one pod at a time.
fn set_replicas(request: &mut proto::PlanRolloutRequest, replicas: i32, status: i32) {
    let snapshot = request.snapshot.as_mut().unwrap();
    snapshot.pods.clear();
    let deployment = snapshot.deployment.as_mut().unwrap();
    let spec = deployment.spec.as_mut().unwrap();
    spec.replicas = Some(replicas);
    let status_of = deployment.status.as_mut().unwrap();
    status_of.replicas = status;
    status_of.ready_replicas = status;
    status_of.available_replicas = status;
}

/// Sets the number of pods of a ReplicaSet, all available, and the size of the Deployment at that time.
fn set_size(set: &mut proto::ReplicaSet, replicas: i32, desired: i32) {
    set.spec.as_mut().unwrap().replicas = Some(replicas);
    let metadata = set.metadata.as_mut().unwrap();
    let annotations = [("desired-replicas", desired), ("max-replicas", desired + 1)];
    for (name, number) in annotations {
        let key = format!("deployment.kubernetes.io/{name}");
        metadata.annotations.insert(key, number.to_string());
    }
    set.status = Some(proto::ReplicaSetStatus {
        replicas,
        ready_replicas: replicas,
        available_replicas: replicas,
        observed_generation: metadata.generation,
        ..proto::ReplicaSetStatus::default()
    });
}

/// Scaled down by half during a rollout that may replace one pod at a time: the new ReplicaSet loses half of its pods,
/// and regains them one at a time, one in every two passes.
fn slow_rollout(old: usize, annotations: usize) -> proto::PlanRolloutRequest {
    const PODS: i32 = 40_000;
    let each = PODS / i32::try_from(old).unwrap();
    let total = PODS + each * i32::try_from(old).unwrap();
    let mut request = request(3, 13);
    let snapshot = request.snapshot.as_mut().unwrap();
    let spec = snapshot.deployment.as_mut().unwrap().spec.as_mut().unwrap();
    let rolling = spec.strategy.as_mut().unwrap().rolling_update.as_mut();
    let rolling = rolling.unwrap();
    rolling.max_surge = Some(prost_types::Value::from(1.0));
    rolling.max_unavailable = Some(prost_types::Value::from(0.0));
    let mut new = snapshot.replica_sets[1].clone();
    let first = snapshot.replica_sets[0].clone();
    let many: Vec<_> = (0..annotations)
        .map(|i| (format!("a{i}"), String::new()))
        .collect();
    let mut sets: Vec<_> = (0..old)
        .map(|i| {
            let mut set = first.clone();
            name_set(&mut set, i);
            set_size(&mut set, each, total);
            if old > 1 {
                let template = of_text(&[(format!("x{i}"), String::new())]);
                set.spec.as_mut().unwrap().template = Some(template);
            }
            set
        })
        .collect();
    set_size(&mut new, PODS, total);
    sets.push(new);
    for set in &mut sets {
        let own = &mut set.metadata.as_mut().unwrap().annotations;
        own.extend(many.iter().cloned());
    }
    snapshot.replica_sets = sets;
    let deployment = snapshot.deployment.as_mut().unwrap();
    let own = &mut deployment.metadata.as_mut().unwrap().annotations;
    own.extend(many);
    set_replicas(&mut request, total / 2, total);
    request
}

/// Scaled up together with a new template: old ReplicaSets would first grow with the Deployment, and then lose the
/// pods.
fn net_changes() -> proto::PlanRolloutRequest {
    let mut request = small_sets(9_999, false);
    let snapshot = request.snapshot.as_mut().unwrap();
    for set in &mut snapshot.replica_sets {
        set_size(set, 1, 10_000);
    }
    let deployment = snapshot.deployment.as_mut().unwrap();
    let template = of_text(&[("new".to_owned(), String::new())]);
    deployment.spec.as_mut().unwrap().template = Some(template);
    set_replicas(&mut request, 20_000, 10_000);
    request
}

/// The annotations of a single object, which exceed the limit of Kubernetes.
fn million_annotations() -> proto::PlanRolloutRequest {
    let mut request = request(3, 13);
    let deployment = request.snapshot.as_mut().unwrap().deployment.as_mut();
    let metadata = deployment.unwrap().metadata.as_mut().unwrap();
    let annotations = (0..1_000_000).map(|i| (format!("a{i}"), String::new()));
    metadata.annotations.extend(annotations);
    request
}
