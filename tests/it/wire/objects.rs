//! Kubernetes JSON has the same answers as typed fields. `refused_objects.rs` tests invalid JSON.

use std::fmt::Write as _;

use prost::Message as _;
use rollplan::proto;
use rollplan::wire::{self, json};
use serde_json::{Value, json};

use super::random::Random;
use super::{Parts as _, examples, mk_request, read, request};

/// The request with these texts instead of its typed objects.
pub(super) fn with_texts(
    request: &proto::PlanRolloutRequest,
    texts: Vec<String>,
) -> proto::PlanRolloutRequest {
    let mut request = request.clone();
    let snapshot = request.snapshot();
    snapshot.deployment = None;
    snapshot.replica_sets.clear();
    snapshot.pods.clear();
    snapshot.objects_json = texts.into_iter().map(Into::into).collect();
    request
}

/// The objects of a request, in the form of an API server.
pub(super) fn objects(request: &proto::PlanRolloutRequest) -> Vec<Value> {
    fn value<M: prost::Message + prost::Name>(message: &M, (version, kind): (&str, &str)) -> Value {
        let text = json::to_kubernetes_json(message).unwrap();
        let mut value: Value = serde_json::from_str(&text).unwrap();
        print_integers(&mut value);
        value["apiVersion"] = version.into();
        value["kind"] = kind.into();
        value
    }
    let snapshot = request.snapshot.as_ref().unwrap();
    let deployment = snapshot.deployment.as_ref().unwrap();
    let mut objects = vec![value(deployment, ("apps/v1", "Deployment"))];
    let sets = snapshot.replica_sets.iter();
    objects.extend(sets.map(|set| value(set, ("apps/v1", "ReplicaSet"))));
    let pods = snapshot.pods.iter();
    objects.extend(pods.map(|pod| value(pod, ("v1", "Pod"))));
    objects
}

/// Protobuf JSON contains `1.0` in templates, unlike an API server.
fn print_integers(value: &mut Value) {
    match value {
        Value::Object(map) => map.values_mut().for_each(print_integers),
        Value::Array(items) => items.iter_mut().for_each(print_integers),
        Value::Number(number) if number.is_f64() => {
            let float = number.as_f64().unwrap();
            if float.fract() == 0.0 && float.abs() < 9e15 {
                *value = (float as i64).into();
            }
        }
        _ => {}
    }
}

pub(super) fn list(items: &[Value]) -> Value {
    json!({"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": ""}, "items": items})
}

/// Writes JSON with random key order, whitespace and escapes.
fn print(value: &Value, random: &mut Random, text: &mut String) {
    let space = ["", " ", "\n\t"][random.below(3)];
    text.push_str(space);
    match value {
        Value::Object(map) => {
            let mut entries: Vec<_> = map.iter().collect();
            random.shuffle(&mut entries);
            text.push('{');
            for (index, (key, value)) in entries.into_iter().enumerate() {
                if index > 0 {
                    text.push(',');
                }
                print(&Value::from(key.as_str()), random, text);
                text.push(':');
                print(value, random, text);
            }
            text.push('}');
        }
        Value::Array(items) => {
            text.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    text.push(',');
                }
                print(item, random, text);
            }
            text.push(']');
        }
        Value::String(string) if random.below(4) == 0 => {
            text.push('"');
            for unit in string.encode_utf16() {
                _ = write!(text, "\\u{unit:04x}");
            }
            text.push('"');
        }
        value => _ = write!(text, "{value}"),
    }
    text.push_str(space);
}

/// Checks that all calls have the same answers for both requests.
pub(super) fn check_same(
    typed: &proto::PlanRolloutRequest,
    texts: &proto::PlanRolloutRequest,
    what: &str,
) {
    for horizon in [proto::Horizon::Pass, proto::Horizon::Settled] {
        let plan = |request: &proto::PlanRolloutRequest| {
            let mut request = request.clone();
            request.options.get_or_insert_default().horizon = horizon.into();
            wire::plan_rollout_bytes(&request.encode_to_vec()).unwrap()
        };
        assert_eq!(plan(typed), plan(texts), "{what}");
    }
    let status = |request: &proto::PlanRolloutRequest| {
        let request = proto::ComputeStatusRequest {
            snapshot: request.snapshot.clone(),
            ..Default::default()
        };
        wire::compute_status(request).unwrap()
    };
    assert_eq!(status(typed), status(texts), "{what}");
    let back = |request: &proto::PlanRolloutRequest| {
        let request = proto::RollbackRequest {
            snapshot: request.snapshot.clone(),
            ..Default::default()
        };
        wire::rollback(request).map_err(|error| error.to_string())
    };
    assert_eq!(back(typed), back(texts), "{what}");
    let revisions = |request: &proto::PlanRolloutRequest| {
        let snapshot = request.snapshot.clone();
        wire::list_revisions(proto::ListRevisionsRequest { snapshot }).unwrap()
    };
    assert_eq!(revisions(typed), revisions(texts), "{what}");
}

#[test]
fn objects_json_has_the_answers_of_typed_fields() {
    for (name, example) in examples() {
        let typed = request(&example);
        let text = read(format!("examples/{name}.json"));
        check_same(&typed, &with_texts(&typed, vec![text]), &name);
    }
}

#[test]
fn json_formatting_and_lists_do_not_matter() {
    let mut random = Random(7);
    let mut requests: Vec<_> = examples()
        .iter()
        .map(|(name, example)| (name.clone(), request(example)))
        .collect();
    let mut half_way = mk_request();
    half_way.snapshot().answers.clear();
    requests.push(("half way".to_owned(), half_way));
    for (name, typed) in requests {
        for round in 0..8 {
            let mut items = objects(&typed);
            random.shuffle(&mut items);
            let mut lists = Vec::new();
            while !items.is_empty() {
                let some = items.split_off(items.len() - 1 - random.below(items.len()));
                lists.push(match random.below(3) {
                    0 => list(&[list(&some), json!({"kind": "List", "items": null})]),
                    _ => list(&some),
                });
            }
            let texts = lists.iter().map(|list| {
                let mut text = String::new();
                print(list, &mut random, &mut text);
                text
            });
            let texts = texts.collect();
            check_same(
                &typed,
                &with_texts(&typed, texts),
                &format!("{name} {round}"),
            );
        }
    }
}

#[test]
fn items_of_typed_lists_inherit_the_kind() {
    let typed = request(&examples()[0].1);
    let mut items = objects(&typed);
    for item in &mut items {
        item.as_object_mut().unwrap().remove("apiVersion");
        item.as_object_mut().unwrap().remove("kind");
    }
    let sets = typed.snapshot.as_ref().unwrap().replica_sets.len();
    let list = |version: &str, kind: &str, items: &[Value]| {
        json!({"items": items, "kind": kind, "apiVersion": version}).to_string()
    };
    let texts = vec![
        list("v1", "PodList", &items[1 + sets..]),
        list("apps/v1", "DeploymentList", &items[..1]),
        list("apps/v1", "ReplicaSetList", &items[1..=sets]),
    ];
    check_same(&typed, &with_texts(&typed, texts), "typed lists");
}

/// A rollout in progress, and its objects.
pub(super) fn half_way() -> (proto::PlanRolloutRequest, Vec<Value>) {
    let mut request = mk_request();
    request.snapshot().answers.clear();
    let objects = objects(&request);
    (request, objects)
}

fn plan_of(request: &proto::PlanRolloutRequest, text: String) -> proto::PlanRolloutResponse {
    wire::plan_rollout(with_texts(request, vec![text])).unwrap()
}

/// The bodies of create calls.
fn created(plan: &proto::PlanRolloutResponse) -> String {
    let calls = plan.steps.iter().filter_map(|step| step.call.as_ref());
    let creates = calls.filter(|call| call.verb() == proto::Verb::Create);
    creates.map(|call| call.body_json.as_str()).collect()
}

#[test]
fn lists_may_be_nested() {
    let (typed, items) = half_way();
    let (first, rest) = items.split_at(2);
    let mut nested = list(rest);
    for _ in 0..20 {
        nested = list(&[nested, list(&[])]);
    }
    let outer = list(&[list(first), nested]);
    check_same(
        &typed,
        &with_texts(&typed, vec![outer.to_string()]),
        "nested",
    );
}

/// In typed lists, the API server omits the kind of the items, at any depth.
#[test]
fn items_of_nested_typed_lists_inherit_the_kind() {
    let (typed, items) = half_way();
    let mut set = items[1].clone();
    set.as_object_mut().unwrap().remove("apiVersion");
    set.as_object_mut().unwrap().remove("kind");
    let sets = json!({"kind": "ReplicaSetList", "apiVersion": "apps/v1", "items": [set]});
    let mut others = items.clone();
    others.remove(1);
    others.push(sets);
    let texts = with_texts(&typed, vec![list(&others).to_string()]);
    check_same(&typed, &texts, "a typed list in a List");
}

#[test]
fn null_is_absent() {
    let (typed, mut items) = half_way();
    for item in &mut items {
        let object = item.as_object_mut().unwrap();
        let absent = |of: &mut Value, fields: &[&str]| {
            for field in fields {
                let of = of.as_object_mut().unwrap();
                of.entry(*field).or_insert(Value::Null);
            }
        };
        absent(
            &mut object["metadata"],
            &[
                "annotations",
                "creationTimestamp",
                "deletionTimestamp",
                "finalizers",
                "generation",
            ],
        );
        let spec = [
            "minReadySeconds",
            "paused",
            "revisionHistoryLimit",
            "nodeName",
            "strategy",
        ];
        absent(object.entry("spec").or_insert(json!({})), &spec);
        absent(
            object.entry("status").or_insert(json!({})),
            &[
                "conditions",
                "containerStatuses",
                "collisionCount",
                "terminatingReplicas",
            ],
        );
    }
    items.push(json!({"apiVersion": "v1", "kind": "PodList", "metadata": null, "items": null}));
    check_same(
        &typed,
        &with_texts(&typed, vec![list(&items).to_string()]),
        "nulls",
    );
}

#[test]
fn large_integers_are_exact() {
    const BEYOND: i64 = (1 << 53) + 1;
    let (typed, items) = half_way();
    // In a field that is a precondition of a call.
    let mut typed_beyond = typed.clone();
    let mut beyond = items.clone();
    for set in 0..2 {
        typed_beyond.set_meta(set).generation = BEYOND;
        typed_beyond.set_status(set).observed_generation = BEYOND;
        beyond[1 + set]["metadata"]["generation"] = BEYOND.into();
        beyond[1 + set]["status"]["observedGeneration"] = BEYOND.into();
    }
    let texts = with_texts(&typed_beyond, vec![list(&beyond).to_string()]);
    check_same(&typed_beyond, &texts, "generation");
    let plan = wire::plan_rollout(texts).unwrap();
    let mut calls = plan.steps.iter().filter_map(|step| step.call.as_ref());
    assert!(calls.any(|call| call.body_json.contains("9007199254740993")));
    // In a template: the next integer makes a different template.
    let plan = |of_set: i64| {
        let mut items = items.clone();
        for (item, seconds) in [(0, BEYOND), (1, of_set)] {
            items[item]["spec"]["template"]["spec"]["activeDeadlineSeconds"] = seconds.into();
        }
        plan_of(&typed, list(&items).to_string())
    };
    assert_eq!(created(&plan(BEYOND)), "");
    let created = created(&plan(BEYOND - 1));
    assert!(
        created.contains("\"activeDeadlineSeconds\":9007199254740993"),
        "{created}"
    );
}

/// API servers add defaults to the templates of ReplicaSets, and not to those of custom resources.
#[test]
fn replica_set_with_the_defaults_has_the_template_of_a_custom_resource() {
    let (mut typed, mut items) = half_way();
    items[0]["apiVersion"] = "apps.rollplan.dev/v1alpha1".into();
    items[0]["kind"] = "PlannedDeployment".into();
    typed.snapshot().target = Some(proto::Target {
        api_version: "apps.rollplan.dev/v1alpha1".to_owned(),
        kind: "PlannedDeployment".to_owned(),
        resource: "planneddeployments".to_owned(),
        ..Default::default()
    });
    let template = items[0]["spec"]["template"].clone();
    let defaults = json!({"restartPolicy": "Always", "terminationGracePeriodSeconds": 30, "dnsPolicy": "ClusterFirst",
        "securityContext": {}, "schedulerName": "default-scheduler"});
    let of_container = json!({"terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
        "imagePullPolicy": "IfNotPresent", "resources": {}});
    let created = |policy: &str| {
        let mut items = items.clone();
        let set = &mut items[1]["spec"]["template"];
        *set = template.clone();
        let labels = items[1]["metadata"]["labels"].clone();
        let set = &mut items[1]["spec"]["template"];
        set["metadata"]["labels"] = labels;
        for (field, value) in defaults.as_object().unwrap() {
            set["spec"][field] = value.clone();
        }
        for container in set["spec"]["containers"].as_array_mut().unwrap() {
            for (field, value) in of_container.as_object().unwrap() {
                container[field] = value.clone();
            }
        }
        set["spec"]["restartPolicy"] = policy.into();
        created(&plan_of(&typed, list(&items).to_string()))
    };
    assert_eq!(created("Always"), "");
    assert_ne!(created("Never"), "");
}

/// Large templates are read in another way, because their messages may be too large.
#[test]
fn any_value_of_a_template_makes_it_different() {
    let (typed, items) = half_way();
    for padding in [0, 500_000] {
        let plan = |values: [&str; 2]| {
            let mut items = items.clone();
            for item in &mut items[..2] {
                let template = &mut item["spec"]["template"];
                template["metadata"]["annotations"]["padding"] = "x".repeat(padding).into();
                template["spec"]["example"] = "PLACE".into();
            }
            let text = list(&items).to_string();
            let text = text.replacen("\"PLACE\"", values[0], 1);
            created(&plan_of(&typed, text.replacen("\"PLACE\"", values[1], 1)))
        };
        for [one, other] in [
            ["true", "false"],
            ["true", "null"],
            ["1", "null"],
            ["1", "-1"],
            ["1", "1.5"],
            ["1", "\"1\""],
            ["9007199254740993", "9007199254740992"],
            ["-9007199254740993", "-9007199254740992"],
            ["[1,null]", "[1]"],
            ["[true,1]", "[1,true]"],
            ["{\"a\":true}", "{\"b\":true}"],
        ] {
            assert_eq!(plan([one, one]), "", "{one} {padding}");
            assert_ne!(plan([one, other]), "", "{one} {other} {padding}");
            assert_ne!(plan([other, one]), "", "{other} {one} {padding}");
        }
    }
}

/// kubectl escapes `<`, `>` and `&`, and other programs do not.
#[test]
fn json_formatting_does_not_change_templates() {
    let (typed, mut items) = half_way();
    let command = r#""command":["sh","-c","a < b && c > d"]"#;
    let containers = [
        r#"{"name":"web","image":"web:2",COMMAND}"#,
        "{ COMMAND ,\n\t\"image\": \"web:2\", \"n\\u0061me\" : \"web\" }",
    ];
    let escaped = r#""command" : [ "sh", "-c", "a \u003c b \u0026\u0026 c \u003e d" ]"#;
    for item in &mut items[..2] {
        item["spec"]["template"]["spec"]["containers"] = json!(["PLACE"]);
    }
    let plan = |of_set: &str| {
        let text = list(&items).to_string();
        let own = containers[0].replace("COMMAND", command);
        let text = text.replacen("\"PLACE\"", &own, 1);
        plan_of(&typed, text.replacen("\"PLACE\"", of_set, 1))
    };
    let same = plan(&containers[0].replace("COMMAND", command));
    assert_eq!(created(&same), "");
    for container in containers {
        for command in [command, escaped] {
            assert_eq!(plan(&container.replace("COMMAND", command)), same);
        }
    }
    let other = plan(&containers[0].replace("COMMAND", &command.replace('<', ">")));
    assert_ne!(created(&other), "");
}

/// Callers can omit most of the bytes.
#[test]
fn pods_need_no_spec() {
    for (name, example) in examples() {
        let mut typed = request(&example);
        let mut items = objects(&typed);
        typed
            .snapshot()
            .pods
            .iter_mut()
            .for_each(|pod| pod.spec = None);
        for item in items.iter_mut().filter(|item| item["kind"] == "Pod") {
            item.as_object_mut().unwrap().remove("spec");
        }
        let texts = with_texts(&typed, vec![list(&items).to_string()]);
        check_same(&typed, &texts, &name);
    }
}

/// Together with events in the typed field.
#[test]
fn events_in_objects_json_are_events_of_the_snapshot() {
    const DENIED: &str = "Error creating: admission webhook \"policy\" denied the request: no";
    let event = |name: &str, about: &str| {
        json!({
            "apiVersion": "v1", "kind": "Event", "metadata": {"name": name, "namespace": "shop", "uid": name},
            "involvedObject": {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": about, "uid": about},
            "type": "Warning", "reason": "FailedCreate", "message": DENIED, "count": 9,
            "firstTimestamp": "2026-01-01T23:50:00Z", "lastTimestamp": "2026-01-01T23:59:00Z",
        })
    };
    // The API server rejects the pods, and repeated events make it certain.
    let (mut typed, _) = half_way();
    typed.status().observed_generation = 2;
    let status = typed.set_status(0);
    status.replicas = 0;
    status.conditions = vec![proto::ReplicaSetCondition {
        r#type: "ReplicaFailure".to_owned(),
        status: "True".to_owned(),
        reason: "FailedCreate".to_owned(),
        message: DENIED.to_owned(),
        last_transition_time: Some(prost_types::Timestamp {
            seconds: 1_767_311_400,
            nanos: 0,
        }),
    }];
    typed.snapshot().pods.clear();
    let is_certain = |request: &proto::PlanRolloutRequest| {
        let request = proto::ComputeStatusRequest {
            snapshot: request.snapshot.clone(),
            ..Default::default()
        };
        let report = wire::compute_status(request).unwrap().report.unwrap();
        report.verdict.unwrap().certain
    };
    let mut items = objects(&typed);
    let mut texts = typed.clone();
    assert!(!is_certain(&typed));
    let events = [event("one", "new"), event("two", "stranger")];
    let from_json = |event: &Value| json::from_json(&event.to_string()).unwrap();
    typed.snapshot().events = events.iter().map(from_json).collect();
    assert!(is_certain(&typed));
    // In the field of a request with texts.
    texts.snapshot().events = typed.snapshot().events.clone();
    let in_field = with_texts(&texts, vec![list(&items).to_string()]);
    check_same(&typed, &in_field, "in their field");
    // Among the texts.
    texts.snapshot().events.clear();
    items.extend(events);
    let in_texts = with_texts(&texts, vec![list(&items).to_string()]);
    assert!(is_certain(&in_texts));
    check_same(&typed, &in_texts, "in texts");
}

/// 20,000 invalid objects that are not selected.
#[test]
fn invalid_unselected_objects_are_ignored() {
    let (typed, mut items) = half_way();
    for index in 0..20_000 {
        let owners = json!([{"uid": "x", "controller": true}]);
        items.push(match index % 5 {
            0 => json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": index}, "spec": 3}),
            1 => json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "shop",
                "name": format!("p{index}"), "ownerReferences": owners}, "status": [1.5, {"a": null}]}),
            2 => json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"namespace": "shop",
                "name": format!("other-{index}"), "labels": 7, "ownerReferences": owners}, "spec": {"replicas": 1e3}}),
            3 => json!({"apiVersion": "v1", "kind": "ConfigMap", "items": 5, "metadata": null}),
            _ => json!({"apiVersion": "v1", "kind": "Pod", "metadata": []}),
        });
    }
    // An object with duplicate keys, which the maps of the test cannot represent.
    let twice = r#"{"apiVersion":"v1","kind":"Pod","metadata":{},"spec":1,"spec":2,"x":3,"x":4}"#;
    items.push("TWICE".into());
    let text = list(&items).to_string().replace("\"TWICE\"", twice);
    check_same(&typed, &with_texts(&typed, vec![text]), "strangers");
}

/// Whatever the selector matches: it may match objects without labels.
#[test]
fn replica_sets_that_are_not_selected_are_not_adopted() {
    let (mut typed, _) = half_way();
    let absent = proto::LabelSelectorRequirement {
        key: "tier".to_owned(),
        operator: "DoesNotExist".to_owned(),
        values: Vec::new(),
    };
    typed.spec().selector = Some(proto::LabelSelector {
        match_expressions: vec![absent],
        ..Default::default()
    });
    // The new ReplicaSet might get a name that starts with that of the Deployment.
    for name in ["theirs", "web-theirs", "web-orphan"] {
        let mut other = typed.snapshot().replica_sets[0].clone();
        let metadata = other.metadata.as_mut().unwrap();
        metadata.uid = name.to_owned();
        metadata.name = name.to_owned();
        if name == "web-orphan" {
            metadata.owner_references.clear();
            metadata.labels = [("tier".to_owned(), "back".to_owned())].into();
        } else {
            metadata.owner_references[0].uid = "another Deployment".to_owned();
        }
        typed.snapshot().replica_sets.push(other);
    }
    let texts = with_texts(&typed, vec![list(&objects(&typed)).to_string()]);
    for request in [&typed, &texts] {
        let plan = wire::plan_rollout(request.clone()).unwrap();
        let calls = plan.steps.iter().filter_map(|step| step.call.as_ref());
        let names: Vec<_> = calls.map(|call| call.name.as_str()).collect();
        assert_eq!(names, ["new", "web"], "{plan:?}");
    }
    check_same(&typed, &texts, "not adopted");
}

/// The planner avoids a name that is taken, and does not create what the API server would reject.
#[test]
fn names_of_other_owners_are_taken_in_texts_too() {
    let (mut typed, _) = half_way();
    typed.snapshot().replica_sets.remove(0);
    typed.snapshot().pods.clear();
    let plan = wire::plan_rollout(typed.clone()).unwrap();
    let create = plan.steps.iter().find_map(|step| step.call.as_ref());
    let name = create.unwrap().name.clone();
    assert!(name.starts_with("web-"), "{name}");
    let mut theirs = typed.snapshot().replica_sets[0].clone();
    theirs.metadata.as_mut().unwrap().uid = "theirs".to_owned();
    theirs.metadata.as_mut().unwrap().name.clone_from(&name);
    let owners = &mut theirs.metadata.as_mut().unwrap().owner_references;
    owners[0].uid = "another Deployment".to_owned();
    typed.snapshot().replica_sets.push(theirs);
    let texts = with_texts(&typed, vec![list(&objects(&typed)).to_string()]);
    for request in [&typed, &texts] {
        let plan = wire::plan_rollout(request.clone()).unwrap();
        assert!(!created(&plan).contains(&name));
        assert_eq!(plan.status.unwrap().collision_count, Some(1));
    }
    check_same(&typed, &texts, "name");
}

/// A target may state only what distinguishes the Deployment from others.
#[test]
fn empty_fields_of_the_target_match_any_value() {
    let (typed, mut items) = half_way();
    for (api_version, kind) in [("apps/v1", "StatefulSet"), ("example.com/v1", "Deployment")] {
        let mut other = items[0].clone();
        other["apiVersion"] = api_version.into();
        other["kind"] = kind.into();
        other["metadata"]["uid"] = kind.into();
        items.push(other);
    }
    for (api_version, kind, name) in [
        ("", "", ""),
        ("", "", "web"),
        ("apps/v1", "", "web"),
        ("", "Deployment", "web"),
        ("apps/v1", "Deployment", ""),
    ] {
        let mut texts = with_texts(&typed, vec![list(&items).to_string()]);
        texts.snapshot().target = Some(proto::Target {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
            name: name.to_owned(),
            ..Default::default()
        });
        check_same(&typed, &texts, &format!("{api_version} {kind} {name}"));
    }
}

/// ReplicaSets of another Deployment are not selected, but their labels are read.
#[test]
fn replica_set_of_another_deployment_that_the_selector_matches_is_reported() {
    let (request, mut all) = half_way();
    let own = all.iter().find(|object| object["kind"] == "ReplicaSet");
    let mut other = own.unwrap().clone();
    other["metadata"]["name"] = "api-1".into();
    other["metadata"]["uid"] = "api-1-uid".into();
    let owner = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "api", "uid": "api-uid", "controller": true});
    other["metadata"]["ownerReferences"] = json!([owner]);
    let overlap = |objects: &[Value]| {
        let request = with_texts(&request, objects.iter().map(Value::to_string).collect());
        let ask = proto::ComputeStatusRequest {
            snapshot: request.snapshot,
            ..Default::default()
        };
        let report = wire::compute_status(ask).unwrap().report.unwrap();
        let last = report.blockers.into_iter().next_back();
        last.filter(|last| last.reason == "SELECTOR_OVERLAP")
    };
    assert_eq!(overlap(&all), None);
    all.push(other.clone());
    let expected = "the selector also matches the pods of Deployment api (ReplicaSet api-1)";
    assert_eq!(overlap(&all).unwrap().message, expected);
    let last = all.len() - 1;
    all[last]["metadata"]["labels"] = json!({"app": "api"});
    assert_eq!(overlap(&all), None);
    // The same in typed fields.
    let mut typed = request.clone();
    let set: proto::ReplicaSet = json::from_json(&other.to_string()).unwrap();
    typed.snapshot().replica_sets.push(set);
    let ask = proto::ComputeStatusRequest {
        snapshot: typed.snapshot,
        ..Default::default()
    };
    let report = wire::compute_status(ask).unwrap().report.unwrap();
    assert_eq!(report.blockers.last().unwrap().message, expected);
}
