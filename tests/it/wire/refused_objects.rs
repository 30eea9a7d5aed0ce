//! Invalid Kubernetes JSON: the violations name the field and the position in the text.

use rollplan::proto;
use rollplan::wire::{Error, Reason};
use serde_json::{Value, json};

use super::objects::check_same;
use crate::request::{ITEMS, half_way, list};

/// The only violation: its field, reason and description.
fn refused(texts: Vec<String>, target: Option<proto::Target>) -> (String, Reason, String) {
    let mut request = half_way();
    request.snapshot.target = target;
    let mut violations = violations(request.with_texts(texts));
    assert_eq!(violations.len(), 1, "{violations:?}");
    violations.remove(0)
}

fn violations(request: proto::PlanRolloutRequest) -> Vec<(String, Reason, String)> {
    match rollplan::service::answer(request) {
        Err(Error::InvalidArgument(violations)) => {
            assert_eq!(violations.omitted, 0);
            let listed = violations.listed.into_iter();
            listed
                .map(|it| (it.field, it.reason, it.description))
                .collect()
        }
        other => panic!("{other:?}"),
    }
}

fn check(text: impl Into<String>, field: &str, reason: Reason, description: &str) {
    let (found, why, text) = refused(vec![text.into()], None);
    assert_eq!((found.as_str(), why), (field, reason), "{text}");
    assert!(text.contains(description), "{text}");
}

/// The objects, with a text instead of a value in the first ReplicaSet.
fn with(pointer: &str, text: &str) -> String {
    let mut request = half_way();
    *request.set(0).pointer_mut(pointer).unwrap() = "PLACE".into();
    request.text().replace("\"PLACE\"", text)
}

fn target(name: &str) -> Option<proto::Target> {
    Some(proto::Target {
        name: name.to_owned(),
        ..Default::default()
    })
}

/// The path of the only text.
const WHOLE: &str = "snapshot.objects[0]";

/// The path of an item, and a field in it.
fn item(index: usize, field: &str) -> String {
    format!("{ITEMS}[{index}]{field}")
}

#[test]
fn watch_events_tables_and_statuses_are_refused_by_name() {
    for (text, description) in [
        (
            r#"{"kind":"Table","apiVersion":"meta.k8s.io/v1","rows":[]}"#,
            "is a Table",
        ),
        (
            r#"{"kind":"Status","apiVersion":"v1","code":404}"#,
            "is a Status",
        ),
        (
            r#"{"type":"ADDED","object":{"kind":"Pod"}}"#,
            "is a watch event",
        ),
        (
            r#"{"kind":"WatchEvent","apiVersion":"v1","type":"ADDED"}"#,
            "is a watch event",
        ),
    ] {
        check(text, WHOLE, Reason::WrongKind, description);
        let in_list = format!(r#"{{"kind":"List","items":[{text}]}}"#);
        check(in_list, &item(0, ""), Reason::WrongKind, description);
    }
}

#[test]
fn several_documents_in_one_entry_are_refused() {
    for text in [
        r#"{"kind":"List","items":[]} {}"#,
        "{\"kind\":\"List\"}\n{\"kind\":\"List\"}\n",
        r#"{"kind":"List"},"#,
    ] {
        let description = "more than one JSON document";
        check(text, WHOLE, Reason::MalformedJson, description);
    }
}

#[test]
fn values_that_are_not_objects_are_refused() {
    for text in ["[]", "3", "null", "true", "\"x\"", "1.5"] {
        check(text, WHOLE, Reason::WrongType, "must be an object");
    }
    let text = r#"{"kind":"List","items":[{"metadata":{}}]}"#;
    check(text, &item(0, ".kind"), Reason::Required, "is required");
    for value in ["{}", "7", "-7", "1.5", "true", "false", "\"x\""] {
        let text = format!(r#"{{"kind":"List","items":{value}}}"#);
        check(text, ITEMS, Reason::WrongType, "must be a list");
    }
    for value in ["[]", "null", "7", "-7", "1.5", "true", "\"x\""] {
        let text = format!(r#"{{"kind":"List","items":[{value}]}}"#);
        check(text, &item(0, ""), Reason::WrongType, "must be an object");
    }
}

/// As in Kubernetes, an item that is `null` has its zero value.
#[test]
fn items_that_are_null_count() {
    let mut request = half_way();
    request.spec()["selector"] =
        json!({"matchExpressions": [null, {"key": "a", "operator": "Odd"}]});
    let found = violations(request.message());
    let second = item(0, ".spec.selector.matchExpressions[1].operator");
    assert!(found.iter().any(|it| it.0 == second), "{found:?}");
}

#[test]
fn syntax_errors_state_the_byte() {
    for (text, description) in [
        ("", "byte 0: ends within a value"),
        ("{\n \"a\": x}", "byte 8: expected a value"),
        ("{\"ü\": x}", "byte 7: expected a value"),
        ("NAME  READY", "byte 0: expected a value"),
        (r#"{"kind":"List","items":[}"#, "byte 24: "),
    ] {
        check(text, WHOLE, Reason::MalformedJson, description);
    }
    // The position in the second entry is relative to its start.
    let texts = vec!["{\"kind\":\"List\"}".to_owned(), "{\"".to_owned()];
    let (field, reason, text) = refused(texts, None);
    assert_eq!(field, "snapshot.objects[1]");
    assert_eq!(reason, Reason::MalformedJson);
    assert!(text.starts_with("byte 2: ends"), "{text}");
}

/// Unused values are skipped without recursion.
#[test]
fn deeply_nested_values_are_skipped_or_refused() {
    let bomb = "[".repeat(100_000);
    let text = format!(r#"{{"kind":"List","items":[{bomb}"#);
    check(text, WHOLE, Reason::TooDeep, "too many levels");
    let nested = r#"{"kind":"List","items":["#.repeat(100_000);
    check(nested, WHOLE, Reason::TooDeep, "too many levels");
    for levels in [120, 5_000] {
        let deep = format!(r#"{{"a":{}{}}}"#, "[".repeat(levels), "]".repeat(levels));
        let (_, reason, _) = refused(vec![with("/spec/template", &deep)], None);
        assert_eq!(reason, Reason::TooDeep);
    }
}

#[test]
fn fractions_and_exponents_are_not_integers() {
    let replicas = &item(1, ".spec.replicas");
    for text in ["1.0", "1e3", "-0.0", "1E0", "\"3\"", "true", "[]"] {
        let text = with("/spec/replicas", text);
        check(text, replicas, Reason::WrongType, "(ReplicaSet shop/new)");
    }
}

#[test]
fn times_that_do_not_exist_are_refused() {
    let at = |time: &str| {
        let mut request = half_way();
        request.pod(0)["metadata"]["creationTimestamp"] = time.into();
        rollplan::service::answer(request.message())
    };
    assert!(at("2026-01-01T23:59:59Z").is_ok());
    for time in [
        "2026-01-01T23:60:00Z",
        "2026-01-01T24:00:00Z",
        "2026-13-01T00:00:00Z",
        "2026-04-31T00:00:00Z",
    ] {
        match at(time) {
            Err(Error::InvalidArgument(found)) => {
                let field = item(3, ".metadata.creationTimestamp");
                assert_eq!(found.listed[0].field, field, "{time}");
            }
            other => panic!("{time}: {other:?}"),
        }
    }
}

#[test]
fn integers_out_of_range_are_refused() {
    let replicas = item(1, ".spec.replicas");
    for text in [
        "2147483648",
        "9223372036854775808",
        "-9223372036854775809",
        "18446744073709551616",
    ] {
        let (field, reason, _) = refused(vec![with("/spec/replicas", text)], None);
        assert_eq!(field, replicas);
        assert!(
            [Reason::OutOfRange, Reason::WrongType].contains(&reason),
            "{text}"
        );
    }
    let text = with("/spec/replicas", "-1");
    check(text, &replicas, Reason::Negative, "(ReplicaSet shop/new)");
    let text = with("/metadata/generation", "9223372036854775808");
    let (field, _, _) = refused(vec![text], None);
    assert_eq!(field, item(1, ".metadata.generation"));
}

/// At any depth that is read.
#[test]
fn duplicate_keys_are_refused() {
    for (pointer, text, path) in [
        (
            "/metadata/labels",
            r#"{"controller-revision-hash":"a","controller-revision-hash":"a"}"#,
            ".metadata.labels[\"controller-revision-hash\"]",
        ),
        (
            "/metadata",
            r#"{"name":"new","uid":"new-uid","namespace":"shop","ownerReferences":[{"uid":"web-uid","controller":true}],"name":"x"}"#,
            ".metadata.name",
        ),
        // Keys that are not identifiers are quoted.
        (
            "/spec/template",
            r#"{"a_1":"web","a_1":"web"}"#,
            ".spec.template.a_1",
        ),
        (
            "/spec/template",
            r#"{"example.com/app":"web","example.com/app":"web"}"#,
            r#".spec.template["example.com/app"]"#,
        ),
        (
            "/spec/template",
            r#"{"1a":"web","1a":"web"}"#,
            r#".spec.template["1a"]"#,
        ),
        ("/spec", r#"{"replicas":1,"replicas":1}"#, ".spec.replicas"),
        (
            "/spec/template",
            r#"{"spec":{"a":1,"a":1}}"#,
            ".spec.template.spec.a",
        ),
        // Escaped keys are the same keys.
        (
            "/spec/template",
            r#"{"spec":{"a":1,"\u0061":1}}"#,
            ".spec.template.spec.a",
        ),
        // Top-level keys, even if the field is not read.
        ("/spec", r#"{},"spec":{}"#, ".spec"),
        ("/spec", r#"{},"x":1,"x":2"#, ".x"),
    ] {
        let text = with(pointer, text);
        check(text, &item(1, path), Reason::DuplicateKey, "occurs twice");
    }
}

#[test]
fn duplicate_keys_of_pods_are_refused() {
    for (pointer, text, path) in [
        (
            "/metadata/labels",
            r#"{"controller-revision-hash":"a","controller-revision-hash":"a"}"#,
            ".metadata.labels[\"controller-revision-hash\"]",
        ),
        (
            "/metadata",
            r#"{"name":"a","uid":"a","namespace":"shop","ownerReferences":[{"uid":"x","controller":true,"uid":"new-uid"}]}"#,
            ".metadata.ownerReferences[0].uid",
        ),
        (
            "/status",
            r#"{"phase":"Running","phase":"Running"}"#,
            ".status.phase",
        ),
        (
            "/status",
            r#"{"conditions":[{"type":"Ready"},{"type":"Ready","type":"Ready"}]}"#,
            ".status.conditions[1].type",
        ),
    ] {
        let mut request = half_way();
        request.pod(0)["metadata"]["labels"] = json!({});
        *request.pod(0).pointer_mut(pointer).unwrap() = "PLACE".into();
        let text = request.text().replace("\"PLACE\"", text);
        check(text, &item(3, path), Reason::DuplicateKey, "occurs twice");
    }
}

/// Even in an unselected object, because its identity would be ambiguous. Other duplicate keys in it are ignored.
#[test]
fn identity_of_an_object_must_be_unique() {
    let stranger = |text: &str| {
        let mut request = half_way();
        request.items.push("PLACE".into());
        request.text().replace("\"PLACE\"", text)
    };
    for (text, key) in [
        (
            r#"{"apiVersion":"v1","kind":"ConfigMap","kind":"Pod","metadata":{}}"#,
            "kind",
        ),
        (
            r#"{"apiVersion":"v1","kind":"Pod","metadata":{},"metadata":{"name":"a"}}"#,
            "metadata",
        ),
        (
            r#"{"apiVersion":"apps/v1","apiVersion":"v1","kind":"ReplicaSet"}"#,
            "apiVersion",
        ),
        (r#"{"kind":"List","items":[],"items":[]}"#, "items"),
        (r#"{"kind":"List","items":[],"x":[],"x":[]}"#, "x"),
    ] {
        let field = item(5, &format!("[{key:?}]"));
        check(stranger(text), &field, Reason::DuplicateKey, "occurs twice");
    }
}

#[test]
fn duplicate_uids_are_refused_with_both_positions() {
    let request = half_way();
    let last = request.items.len();
    for index in 0..last {
        let mut request = request.clone();
        let mut again = request.items[index].clone();
        let (kind, uid) = (again["kind"].clone(), again["metadata"]["uid"].clone());
        if kind != "Deployment" {
            again["metadata"]["name"] = "another-name".into();
        }
        request.items.push(again);
        let (field, reason, text) = refused(vec![request.text()], None);
        assert_eq!(field, item(last, ".metadata.uid"));
        assert_eq!(reason, Reason::Duplicate);
        let both = format!("{} has {uid} as well", item(index, ""));
        assert!(text.starts_with(&both), "{text}");
        let object = format!("({} shop/", kind.as_str().unwrap());
        assert!(text.contains(&object), "{text}");
    }
    // In another entry.
    let twice = vec![request.text(), list(&request.items[1..2]).to_string()];
    let found = violations(request.with_texts(twice));
    // The UID and the name.
    assert_eq!(found.len(), 2, "{found:?}");
    for (field, reason, text) in found {
        let second = "snapshot.objects[1].items[0].metadata.";
        assert!(field.starts_with(second), "{field}");
        assert_eq!(reason, Reason::Duplicate);
        assert!(text.starts_with(&item(1, " has")), "{text}");
    }
}

/// Whatever its name, an object with the UID of a selected one could be mistaken for it.
#[test]
fn uids_of_unselected_replica_sets_are_compared_with_selected_ones() {
    for name in ["theirs", "web-theirs"] {
        let mut request = half_way();
        let mut theirs = request.set(1).clone();
        theirs["metadata"]["name"] = name.into();
        theirs["metadata"]["ownerReferences"][0]["uid"] = "another Deployment".into();
        request.items.push(theirs);
        let (field, reason, text) = refused(vec![request.text()], None);
        assert_eq!(field, item(5, ".metadata.uid"));
        assert_eq!(reason, Reason::Duplicate);
        assert!(
            text.ends_with(&format!("(ReplicaSet shop/{name})")),
            "{text}"
        );
    }
}

#[test]
fn violations_in_lists_name_the_item() {
    let owners = r#"{"name":"new","uid":"new-uid","namespace":"shop","ownerReferences":[{"uid":"web-uid","controller":true},{"uid":1}]}"#;
    let field = item(1, ".metadata.ownerReferences[1].uid");
    let text = with("/metadata", owners);
    check(text, &field, Reason::WrongType, "(ReplicaSet shop/new)");
    let containers = r#"{"spec":{"containers":[{},{"a":1},{"a":1,"a":1}]}}"#;
    let field = item(1, ".spec.template.spec.containers[2].a");
    let text = with("/spec/template", containers);
    check(text, &field, Reason::DuplicateKey, "occurs twice");
}

#[test]
fn violations_name_their_field_and_object() {
    let mut request = half_way();
    let strangers = (0..11).map(|index| {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("c{index}"), "namespace": "shop"}})
    });
    request.items.splice(0..0, strangers);
    // Errors during reading and during validation.
    for replicas in [json!("many"), json!(-1)] {
        let mut request = request.clone();
        request.set(0)["spec"]["replicas"] = replicas;
        let (field, _, text) = refused(vec![request.text()], None);
        assert_eq!(field, item(12, ".spec.replicas"));
        assert!(text.ends_with("(ReplicaSet shop/new)"), "{text}");
    }
    request.items[11]["spec"]["replicas"] = json!(-1);
    let nested = list(&[list(&request.items)]).to_string();
    let (field, _, text) = refused(vec![nested], None);
    assert_eq!(field, item(0, ".items[11].spec.replicas"));
    assert!(text.ends_with("(Deployment shop/web)"), "{text}");
}

#[test]
fn target_must_select_one_of_two_deployments() {
    let mut request = half_way();
    let alone = request.message();
    let mut other = request.items[0].clone();
    other["metadata"]["name"] = "api".into();
    other["metadata"]["uid"] = "d9".into();
    request.items.push(other);
    for (wanted, reason) in [(None, Reason::Required), (target("db"), Reason::NotFound)] {
        let (field, why, text) = refused(vec![request.text()], wanted);
        assert_eq!((field.as_str(), why), ("snapshot.target", reason));
        assert!(
            text.ends_with("; candidates: Deployment shop/web, Deployment shop/api"),
            "{text}"
        );
    }
    request.snapshot.target = target("web");
    check_same(&alone, &request.message(), "one of two");
}

#[test]
fn first_ten_of_many_deployments_are_listed() {
    for (count, end) in [
        (10, "Deployment shop/a9"),
        (11, "Deployment shop/a9 and 1 more"),
        (13, "Deployment shop/a9 and 3 more"),
    ] {
        let deployments = (0..count).map(|index| {
            let mut deployment = half_way().items.swap_remove(0);
            deployment["metadata"]["name"] = format!("a{index}").into();
            deployment["metadata"]["uid"] = format!("d{index}").into();
            deployment
        });
        let all: Vec<Value> = deployments.collect();
        let (_, reason, text) = refused(vec![list(&all).to_string()], None);
        assert_eq!(reason, Reason::Required);
        assert!(text.ends_with(end), "{text}");
    }
}

#[test]
fn other_owners_are_listed_without_a_deployment() {
    let none = "{\"kind\":\"List\",\"items\":[]}";
    let field = "snapshot.objects";
    check(none, field, Reason::NotFound, "has no apps/v1 Deployment");
    let (found, reason, text) = refused(vec![none.to_owned()], target("web"));
    assert_eq!(
        (found.as_str(), reason),
        ("snapshot.target", Reason::NotFound)
    );
    assert!(text.ends_with("; candidates: none"), "{text}");
    // An owner of another kind must be named by the target.
    let mut request = half_way();
    request.set_kind("apps.rollplan.dev/v1alpha1", "PlannedDeployment");
    let description = "; candidates: PlannedDeployment shop/web";
    check(request.text(), field, Reason::NotFound, description);
    request.plan();
}

/// Requests that would need too much memory are refused, regardless of the selected objects.
#[test]
fn objects_with_a_large_decoded_size_are_refused() {
    let mut request = half_way();
    request.remove_all("Pod");
    let status = format!("[{}]", vec!["{}"; 9_000].join(","));
    let uid = request.set(0)["metadata"]["uid"].clone();
    let pods: Vec<String> = (0..500)
        .map(|index| {
            format!(
                r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"p{index}","namespace":"shop","uid":"u{index}","ownerReferences":[{{"uid":{uid},"controller":true}}]}},"status":{{"containerStatuses":{status}}}}}"#
            )
        })
        .collect();
    let pods = format!(r#"{{"kind":"List","items":[{}]}}"#, pods.join(","));
    match rollplan::service::answer(request.with_texts(vec![request.text(), pods])) {
        Err(Error::TooLarge { unit, .. }) => assert_eq!(unit, "bytes in memory"),
        other => panic!("{:?}", other.map(|plan| plan.steps.len())),
    }
    let empty = vec![r#"{"kind":"x"}"#; 200_001].join(",");
    let empty = format!(r#"{{"kind":"List","items":[{empty}]}}"#);
    match rollplan::service::answer(request.with_texts(vec![empty])) {
        Err(Error::TooLarge {
            what, count, max, ..
        }) => {
            assert_eq!(what, "snapshot.objects");
            assert_eq!((count, max), (200_001, 200_000));
        }
        other => panic!("{:?}", other.map(|plan| plan.steps.len())),
    }
}
