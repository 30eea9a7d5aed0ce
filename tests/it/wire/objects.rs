//! The form of Kubernetes JSON does not matter, and neither do objects that are not selected. `refused_objects.rs` tests
//! invalid JSON.

use prost::Message as _;
use rollplan::proto;
use rollplan_world::json::{controlled, object};
use rollplan_world::random::Random;
use serde_json::{Value, json};

use super::random::print;
use super::{examples, read};
use crate::request::{Request, call, half_way, list};

/// Checks that all calls have the same answers for a request with other texts.
fn check_texts(request: &Request, texts: Vec<String>, what: &str) {
    check_same(&request.message(), &request.with_texts(texts), what);
}

pub(super) fn check_same(
    expected: &proto::PlanRolloutRequest,
    other: &proto::PlanRolloutRequest,
    what: &str,
) {
    for horizon in [proto::Horizon::Pass, proto::Horizon::Settled] {
        let plan = |request: &proto::PlanRolloutRequest| {
            let mut request = request.clone();
            request.options.get_or_insert_default().horizon = horizon.into();
            call("PlanRollout", &request.encode_to_vec()).unwrap()
        };
        assert_eq!(plan(expected), plan(other), "{what}");
    }
    let status = |request: &proto::PlanRolloutRequest| {
        let request = proto::ComputeStatusRequest {
            snapshot: request.snapshot.clone(),
            ..Default::default()
        };
        rollplan::service::answer(request).unwrap()
    };
    assert_eq!(status(expected), status(other), "{what}");
    let back = |request: &proto::PlanRolloutRequest| {
        let request = proto::RollbackRequest {
            snapshot: request.snapshot.clone(),
            ..Default::default()
        };
        rollplan::service::answer(request).map_err(|error| error.to_string())
    };
    assert_eq!(back(expected), back(other), "{what}");
    let revisions = |request: &proto::PlanRolloutRequest| {
        let snapshot = request.snapshot.clone();
        rollplan::service::answer(proto::ListRevisionsRequest { snapshot }).unwrap()
    };
    assert_eq!(revisions(expected), revisions(other), "{what}");
}

#[test]
fn json_formatting_and_lists_do_not_matter() {
    let mut random = Random::new(7);
    let mut requests = examples();
    for (name, request) in &requests {
        check_texts(request, vec![read(format!("examples/{name}.json"))], name);
    }
    requests.push(("half way".to_owned(), half_way()));
    for (name, request) in requests {
        for round in 0..8 {
            let mut items = request.items.clone();
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
            check_texts(&request, texts.collect(), &format!("{name} {round}"));
        }
    }
}

#[test]
fn items_of_typed_lists_inherit_the_kind() {
    let (_, mut request) = examples().swap_remove(0);
    let whole = request.message();
    let typed = |request: &mut Request, version: &str, kind: &str| {
        let items: Vec<_> = request.all(kind).map(|it| it.take()).collect();
        let mut list =
            json!({"items": items, "kind": format!("{kind}List"), "apiVersion": version});
        for item in list["items"].as_array_mut().unwrap() {
            item.as_object_mut().unwrap().remove("apiVersion");
            item.as_object_mut().unwrap().remove("kind");
        }
        list.to_string()
    };
    let texts = vec![
        typed(&mut request, "v1", "Pod"),
        typed(&mut request, "apps/v1", "Deployment"),
        typed(&mut request, "apps/v1", "ReplicaSet"),
    ];
    check_same(&whole, &request.with_texts(texts), "typed lists");
}

fn plan_of(request: &Request, text: String) -> proto::PlanRolloutResponse {
    rollplan::service::answer(request.with_texts(vec![text])).unwrap()
}

/// The bodies of create calls.
fn created(plan: &proto::PlanRolloutResponse) -> String {
    let calls = plan.steps.iter().filter_map(|step| step.call.as_ref());
    let creates = calls.filter(|call| call.verb() == proto::Verb::Create);
    creates.map(|call| call.body_json.as_str()).collect()
}

#[test]
fn lists_may_be_nested() {
    let request = half_way();
    let (first, rest) = request.items.split_at(2);
    let mut nested = list(rest);
    for _ in 0..20 {
        nested = list(&[nested, list(&[])]);
    }
    let outer = list(&[list(first), nested]);
    check_texts(&request, vec![outer.to_string()], "nested");
}

/// In typed lists, the API server omits the kind of the items, at any depth.
#[test]
fn items_of_nested_typed_lists_inherit_the_kind() {
    let request = half_way();
    let mut items = request.items.clone();
    let mut set = items.remove(1);
    set.as_object_mut().unwrap().remove("apiVersion");
    set.as_object_mut().unwrap().remove("kind");
    items.push(json!({"kind": "ReplicaSetList", "apiVersion": "apps/v1", "items": [set]}));
    check_texts(
        &request,
        vec![list(&items).to_string()],
        "a typed list in a List",
    );
}

#[test]
fn null_is_absent() {
    let request = half_way();
    let mut items = request.items.clone();
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
    check_texts(&request, vec![list(&items).to_string()], "nulls");
}

#[test]
fn large_integers_are_exact() {
    const BEYOND: i64 = (1 << 53) + 1;
    // In a field that is a precondition of a call.
    let mut request = half_way();
    for set in request.all("ReplicaSet") {
        set["metadata"]["generation"] = BEYOND.into();
        set["status"]["observedGeneration"] = BEYOND.into();
    }
    let plan = request.plan();
    let mut calls = plan.steps.iter().filter_map(|step| step.call.as_ref());
    assert!(calls.any(|call| call.body_json.contains("9007199254740993")));
    // In a template: the next integer makes a different template.
    let plan = |of_set: i64| {
        let mut request = half_way();
        for (item, seconds) in [(0, BEYOND), (1, of_set)] {
            request.items[item]["spec"]["template"]["spec"]["activeDeadlineSeconds"] =
                seconds.into();
        }
        request.plan()
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
    let mut request = half_way();
    request.set_kind("apps.rollplan.dev/v1alpha1", "PlannedDeployment");
    let template = request.spec()["template"].clone();
    let defaults = json!({"restartPolicy": "Always", "terminationGracePeriodSeconds": 30, "dnsPolicy": "ClusterFirst",
        "securityContext": {}, "schedulerName": "default-scheduler"});
    let of_container = json!({"terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
        "imagePullPolicy": "IfNotPresent", "resources": {}});
    let created = |policy: &str| {
        let mut request = request.clone();
        let labels = request.set(0)["metadata"]["labels"].clone();
        let set = &mut request.set(0)["spec"]["template"];
        *set = template.clone();
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
        created(&request.plan())
    };
    assert_eq!(created("Always"), "");
    assert_ne!(created("Never"), "");
}

#[test]
fn any_value_of_a_template_makes_it_different() {
    for padding in [0, 500_000] {
        let plan = |values: [&str; 2]| {
            let mut request = half_way();
            for item in &mut request.items[..2] {
                let template = &mut item["spec"]["template"];
                template["metadata"]["annotations"]["padding"] = "x".repeat(padding).into();
                template["spec"]["example"] = "PLACE".into();
            }
            let text = request.text().replacen("\"PLACE\"", values[0], 1);
            created(&plan_of(&request, text.replacen("\"PLACE\"", values[1], 1)))
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
    let mut request = half_way();
    let command = r#""command":["sh","-c","a < b && c > d"]"#;
    let containers = [
        r#"{"name":"web","image":"web:2",COMMAND}"#,
        "{ COMMAND ,\n\t\"image\": \"web:2\", \"n\\u0061me\" : \"web\" }",
    ];
    let escaped = r#""command" : [ "sh", "-c", "a \u003c b \u0026\u0026 c \u003e d" ]"#;
    for item in &mut request.items[..2] {
        item["spec"]["template"]["spec"]["containers"] = json!(["PLACE"]);
    }
    let plan = |of_set: &str| {
        let own = containers[0].replace("COMMAND", command);
        let text = request.text().replacen("\"PLACE\"", &own, 1);
        plan_of(&request, text.replacen("\"PLACE\"", of_set, 1))
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
fn plans_need_no_spec_of_pods() {
    for (name, mut request) in examples() {
        let plan = request.plan();
        for pod in request.all("Pod") {
            pod.as_object_mut().unwrap().remove("spec");
        }
        assert_eq!(request.plan(), plan, "{name}");
    }
}

#[test]
fn events_among_the_objects_are_events_of_the_snapshot() {
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
    let mut request = half_way();
    request.deployment()["status"]["observedGeneration"] = 2.into();
    let status = &mut request.set(0)["status"];
    status["replicas"] = 0.into();
    status["conditions"] = json!([{
        "type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": DENIED,
        "lastTransitionTime": "2026-01-01T23:50:00Z",
    }]);
    request.remove_all("Pod");
    let is_certain = |request: &Request| {
        let report = request.compute_status().report.unwrap();
        report.verdict.unwrap().certain
    };
    assert!(!is_certain(&request));
    request.items.push(event("two", "stranger"));
    assert!(!is_certain(&request));
    request.items.push(event("one", "new-uid"));
    assert!(is_certain(&request));
}

/// 20,000 invalid objects that are not selected.
#[test]
fn invalid_unselected_objects_are_ignored() {
    let request = half_way();
    let mut items = request.items.clone();
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
    check_texts(&request, vec![text], "strangers");
}

/// Whatever the selector matches: it may match objects without labels.
#[test]
fn replica_sets_that_are_not_selected_are_not_adopted() {
    let mut request = half_way();
    request.spec()["selector"] =
        json!({"matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]});
    // The new ReplicaSet might get a name that starts with that of the Deployment.
    for name in ["theirs", "web-theirs", "web-orphan"] {
        let mut other = request.set(0).clone();
        let metadata = &mut other["metadata"];
        metadata["uid"] = name.into();
        metadata["name"] = name.into();
        if name == "web-orphan" {
            metadata["ownerReferences"] = json!([]);
            metadata["labels"] = json!({"tier": "back"});
        } else {
            metadata["ownerReferences"][0]["uid"] = "another Deployment".into();
        }
        request.items.push(other);
    }
    let plan = request.plan();
    let calls = plan.steps.iter().filter_map(|step| step.call.as_ref());
    let names: Vec<_> = calls.map(|call| call.name.as_str()).collect();
    assert_eq!(names, ["new", "web"], "{plan:?}");
}

/// A target may state only what distinguishes the Deployment from others.
#[test]
fn empty_fields_of_the_target_match_any_value() {
    let mut request = half_way();
    let alone = request.message();
    for (api_version, kind) in [("apps/v1", "StatefulSet"), ("example.com/v1", "Deployment")] {
        let mut other = request.items[0].clone();
        other["apiVersion"] = api_version.into();
        other["kind"] = kind.into();
        other["metadata"]["uid"] = kind.into();
        request.items.push(other);
    }
    for (api_version, kind, name) in [
        ("", "", ""),
        ("", "", "web"),
        ("apps/v1", "", "web"),
        ("", "Deployment", "web"),
        ("apps/v1", "Deployment", ""),
    ] {
        request.snapshot.target = Some(proto::Target {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
            name: name.to_owned(),
            ..Default::default()
        });
        check_same(
            &alone,
            &request.message(),
            &format!("{api_version} {kind} {name}"),
        );
    }
}

/// ReplicaSets of another Deployment are not selected, but their labels are read.
#[test]
fn replica_set_of_another_deployment_that_the_selector_matches_is_reported() {
    let mut request = half_way();
    let mut other = controlled(
        request.set(0).clone(),
        &object("apps/v1", "Deployment", "api"),
    );
    other["metadata"]["name"] = "api-1".into();
    other["metadata"]["uid"] = "api-1-uid".into();
    let overlap = |request: &Request| {
        let report = request.compute_status().report.unwrap();
        let last = report.blockers.into_iter().next_back();
        last.filter(|last| last.reason == "SELECTOR_OVERLAP")
    };
    assert_eq!(overlap(&request), None);
    request.items.push(other);
    let expected = "the selector also matches the pods of Deployment api (ReplicaSet api-1)";
    assert_eq!(overlap(&request).unwrap().message, expected);
    request.set(2)["metadata"]["labels"] = json!({"app": "api"});
    assert_eq!(overlap(&request), None);
}
