//! Kubernetes JSON: the same answers as from fields, and what is refused.

use std::fmt::Write as _;

use prost::Message as _;
use rollplan::proto;
use rollplan::wire::{self, Error, Reason, json};
use serde_json::{Value, json};

use super::random::Random;
use super::{Parts as _, examples, mk_request, read, request};

/// The same request, with these texts instead of its objects.
fn with_texts(
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

/// The objects of a request, as an API server lists them.
fn objects(request: &proto::PlanRolloutRequest) -> Vec<Value> {
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

/// Protobuf's JSON has `1.0` in templates, and no API server does.
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

fn list(items: &[Value]) -> Value {
    json!({"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": ""}, "items": items})
}

/// JSON with its keys in another order, more white space and more escapes.
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

/// Every answer to both requests is the same.
fn check_same(typed: &proto::PlanRolloutRequest, texts: &proto::PlanRolloutRequest, what: &str) {
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
fn what_kubectl_prints_has_the_answers_of_its_fields() {
    for (name, example) in examples() {
        let typed = request(&example);
        let text = read(format!("examples/{name}.json"));
        check_same(&typed, &with_texts(&typed, vec![text]), &name);
    }
}

#[test]
fn order_white_space_escapes_and_lists_do_not_matter() {
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
fn items_of_a_typed_list_take_their_kind_from_it() {
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

fn refused(texts: Vec<String>, target: Option<proto::Target>) -> (String, Reason, String) {
    let mut request = with_texts(&mk_request(), texts);
    request.snapshot().answers.clear();
    request.snapshot().target = target;
    match wire::plan_rollout(request) {
        Err(Error::InvalidArgument(mut violations)) => {
            assert_eq!(
                (violations.listed.len(), violations.omitted),
                (1, 0),
                "{violations}"
            );
            let violation = violations.listed.remove(0);
            (violation.field, violation.reason, violation.description)
        }
        other => panic!("{other:?}"),
    }
}

fn half_way() -> Vec<Value> {
    objects(&mk_request())
}

fn check(text: impl Into<String>, field: &str, reason: Reason, description: &str) {
    let (found, why, text) = refused(vec![text.into()], None);
    assert_eq!((found.as_str(), why), (field, reason), "{text}");
    assert!(text.contains(description), "{text}");
}

#[test]
fn what_is_not_an_object_is_refused_by_name() {
    let whole = "snapshot.objects_json[0]";
    check("", whole, Reason::MalformedJson, "byte 0: EOF");
    check(
        "{\n \"a\": x}",
        whole,
        Reason::MalformedJson,
        "byte 8: expected value",
    );
    check(
        "{\"kind\":\"List\"} {}",
        whole,
        Reason::MalformedJson,
        "more than one JSON document",
    );
    check("[]", whole, Reason::WrongType, "must be an object");
    check("3", whole, Reason::WrongType, "must be an object");
    check(
        r#"{"kind":"Table","apiVersion":"meta.k8s.io/v1"}"#,
        whole,
        Reason::WrongKind,
        "Table",
    );
    check(
        r#"{"kind":"Status","apiVersion":"v1"}"#,
        whole,
        Reason::WrongKind,
        "Status",
    );
    check(
        r#"{"type":"ADDED","object":{"kind":"Pod"}}"#,
        whole,
        Reason::WrongKind,
        "watch event",
    );
    check(
        r#"{"kind":"List","items":[{"metadata":{}}]}"#,
        "snapshot.objects_json[0].items[0].kind",
        Reason::Required,
        "is required",
    );
    check(
        r#"{"kind":"List","items":{}}"#,
        "snapshot.objects_json[0].items",
        Reason::WrongType,
        "must be a list",
    );
    // What nobody reads is skipped without recursion.
    let bomb = "[".repeat(100_000);
    check(
        format!(r#"{{"kind":"List","items":[{bomb}"#),
        whole,
        Reason::MalformedJson,
        "EOF",
    );
    let nested = r#"{"kind":"List","items":["#.repeat(100_000);
    check(nested, whole, Reason::TooDeep, "too many levels");
    let mut request = with_texts(&mk_request(), Vec::new());
    request.snapshot().objects_json = vec![b"{\"kind\": \"\xff\"}".to_vec().into()];
    let error = wire::plan_rollout(request).unwrap_err().to_string();
    assert!(error.contains("byte 10: is not UTF-8"), "{error}");
}

#[test]
fn values_are_exact_or_refused_with_their_path() {
    let with = |pointer: &str, text: &str| {
        let mut items = half_way();
        *items[1].pointer_mut(pointer).unwrap() = "PLACE".into();
        list(&items).to_string().replace("\"PLACE\"", text)
    };
    let replicas = "snapshot.objects_json[0].items[1].spec.replicas";
    let object = "(ReplicaSet shop/new)";
    for text in ["1.0", "1e3", "\"3\"", "true", "[]"] {
        check(
            with("/spec/replicas", text),
            replicas,
            Reason::WrongType,
            object,
        );
    }
    for text in ["9223372036854775808", "2147483648", "-9223372036854775809"] {
        let (field, reason, _) = refused(vec![with("/spec/replicas", text)], None);
        assert_eq!(field, replicas);
        assert!(
            [Reason::OutOfRange, Reason::WrongType].contains(&reason),
            "{text}"
        );
    }
    check(
        with("/spec/replicas", "-1"),
        replicas,
        Reason::Negative,
        object,
    );
    check(
        with("/metadata/labels", r#"{"app":"web","app":"web"}"#),
        "snapshot.objects_json[0].items[1].metadata.labels.app",
        Reason::DuplicateKey,
        "occurs twice",
    );
    check(
        with("/spec/template", r#"{"spec":{"a":1,"a":1}}"#),
        "snapshot.objects_json[0].items[1].spec.template.spec.a",
        Reason::DuplicateKey,
        object,
    );
    let deep = format!("{}{}", "[".repeat(120), "]".repeat(120));
    let (_, reason, _) = refused(
        vec![with("/spec/template", &format!(r#"{{"a":{deep}}}"#))],
        None,
    );
    assert_eq!(reason, Reason::TooDeep);
    let deeper = format!("{}{}", "[".repeat(5_000), "]".repeat(5_000));
    let (_, reason, _) = refused(
        vec![with("/spec/template", &format!(r#"{{"a":{deeper}}}"#))],
        None,
    );
    assert_eq!(reason, Reason::TooDeep);
    // Beyond what a double carries: another template than its neighbour.
    let plan = |of_set: i64| {
        let mut items = half_way();
        for (item, seconds) in [(0, (1_i64 << 53) + 1), (1, of_set)] {
            items[item]["spec"]["template"]["spec"]["activeDeadlineSeconds"] = seconds.into();
        }
        let mut request = with_texts(&mk_request(), vec![list(&items).to_string()]);
        request.snapshot().answers.clear();
        wire::plan_rollout(request).unwrap()
    };
    let creates = |plan: &proto::PlanRolloutResponse| {
        let bodies = plan.steps.iter().filter_map(|step| step.call.as_ref());
        let bodies = bodies.filter(|call| call.verb() == proto::Verb::Create);
        bodies
            .map(|call| call.body_json.clone())
            .collect::<String>()
    };
    assert_eq!(creates(&plan((1 << 53) + 1)), "");
    let created = creates(&plan(1 << 53));
    assert!(
        created.contains("\"activeDeadlineSeconds\":9007199254740993"),
        "{created}"
    );
}

#[test]
fn the_target_is_required_where_several_may_be_meant() {
    let mut items = half_way();
    let mut other = items[0].clone();
    other["metadata"]["name"] = "api".into();
    other["metadata"]["uid"] = "d9".into();
    items.push(other);
    let both = vec![list(&items).to_string()];
    let (field, reason, text) = refused(both.clone(), None);
    assert_eq!(
        (field.as_str(), reason),
        ("snapshot.target", Reason::Required)
    );
    assert!(
        text.ends_with("are Deployment shop/web, Deployment shop/api"),
        "{text}"
    );
    let target = |name: &str| {
        Some(proto::Target {
            name: name.to_owned(),
            ..Default::default()
        })
    };
    let (field, reason, text) = refused(both.clone(), target("db"));
    assert_eq!(
        (field.as_str(), reason),
        ("snapshot.target", Reason::NotFound)
    );
    assert!(text.contains("Deployment shop/api"), "{text}");
    let mut typed = mk_request();
    typed.snapshot().answers.clear();
    let mut texts = with_texts(&typed, both);
    texts.snapshot().target = target("web");
    check_same(&typed, &texts, "one of two");
    // The same one twice, with both places.
    let mut items = half_way();
    items.push(items[0].clone());
    let (field, reason, text) = refused(vec![list(&items).to_string()], None);
    assert_eq!(reason, Reason::Duplicate);
    assert!(
        field.starts_with("snapshot.objects_json[0].items["),
        "{field}"
    );
    assert!(
        text.contains("snapshot.objects_json[0].items[0] has \"d\" too"),
        "{text}"
    );
    let mut items = half_way();
    items.push(items[1].clone());
    let mut request = with_texts(&mk_request(), vec![list(&items).to_string()]);
    request.snapshot().answers.clear();
    let error = wire::plan_rollout(request).unwrap_err().to_string();
    assert!(
        error.contains("snapshot.objects_json[0].items[1] has"),
        "{error}"
    );
    // Another kind of owner is one for who names it.
    let mut items = half_way();
    items[0]["apiVersion"] = "apps.rollplan.dev/v1alpha1".into();
    items[0]["kind"] = "PlannedDeployment".into();
    let text = list(&items).to_string();
    let (field, reason, _) = refused(vec![text.clone()], None);
    assert_eq!(
        (field.as_str(), reason),
        ("snapshot.objects_json", Reason::NotFound)
    );
    let mut request = with_texts(&mk_request(), vec![text]);
    request.snapshot().answers.clear();
    request.snapshot().target = Some(proto::Target {
        api_version: "apps.rollplan.dev/v1alpha1".to_owned(),
        kind: "PlannedDeployment".to_owned(),
        resource: "planneddeployments".to_owned(),
        ..Default::default()
    });
    wire::plan_rollout(request).unwrap();
    check(
        "{\"kind\":\"List\",\"items\":[]}",
        "snapshot.objects_json",
        Reason::NotFound,
        "no apps/v1 Deployment",
    );
}

/// Twenty thousand of them, and each as odd as can be.
#[test]
fn strangers_refuse_nothing() {
    let mut typed = mk_request();
    typed.snapshot().answers.clear();
    let mut items = objects(&typed);
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
    let text = list(&items).to_string();
    check_same(&typed, &with_texts(&typed, vec![text]), "strangers");
}

/// What would take too much memory is refused, whatever is selected of it.
#[test]
fn what_takes_too_much_memory_is_refused() {
    let mut items = half_way();
    items.truncate(3);
    let mut request = with_texts(&mk_request(), Vec::new());
    request.snapshot().answers.clear();
    let status = format!("[{}]", vec!["{}"; 9_000].join(","));
    let uid = items[1]["metadata"]["uid"].clone();
    let pods: Vec<String> = (0..500)
        .map(|index| {
            format!(
                r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"p{index}","namespace":"shop","uid":"u{index}","ownerReferences":[{{"uid":{uid},"controller":true}}]}},"status":{{"containerStatuses":{status}}}}}"#
            )
        })
        .collect();
    request.snapshot().objects_json = vec![
        list(&items).to_string().into(),
        format!(r#"{{"kind":"List","items":[{}]}}"#, pods.join(",")).into(),
    ];
    match wire::plan_rollout(request) {
        Err(Error::TooLarge { unit, .. }) => assert_eq!(unit, "bytes in memory"),
        other => panic!("{:?}", other.map(|plan| plan.steps.len())),
    }
    let mut request = with_texts(&mk_request(), Vec::new());
    let empty = vec![r#"{"kind":"x"}"#; 200_001].join(",");
    request.snapshot().objects_json =
        vec![format!(r#"{{"kind":"List","items":[{empty}]}}"#).into()];
    match wire::plan_rollout(request) {
        Err(Error::TooLarge { what, .. }) => assert_eq!(what, "snapshot.objects_json"),
        other => panic!("{:?}", other.map(|plan| plan.steps.len())),
    }
}
