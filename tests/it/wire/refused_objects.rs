//! Invalid Kubernetes JSON: the violations name the field and the position in the text.

use rollplan::proto;
use rollplan::wire::{self, Error, Reason};
use serde_json::{Value, json};

use super::Parts as _;
use super::objects::{check_same, half_way, list, with_texts};

/// The only violation: its field, reason and description.
fn refused(texts: Vec<String>, target: Option<proto::Target>) -> (String, Reason, String) {
    let mut request = with_texts(&half_way().0, texts);
    request.snapshot().target = target;
    let mut violations = violations(request);
    assert_eq!(violations.len(), 1, "{violations:?}");
    violations.remove(0)
}

fn violations(request: proto::PlanRolloutRequest) -> Vec<(String, Reason, String)> {
    match wire::plan_rollout(request) {
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
    let mut items = half_way().1;
    *items[1].pointer_mut(pointer).unwrap() = "PLACE".into();
    list(&items).to_string().replace("\"PLACE\"", text)
}

fn target(name: &str) -> Option<proto::Target> {
    Some(proto::Target {
        name: name.to_owned(),
        ..Default::default()
    })
}

const WHOLE: &str = "snapshot.objects_json[0]";
const FIRST_SET: &str = "snapshot.objects_json[0].items[1]";

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
        let item = "snapshot.objects_json[0].items[0]";
        check(in_list, item, Reason::WrongKind, description);
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
    let kind = "snapshot.objects_json[0].items[0].kind";
    let text = r#"{"kind":"List","items":[{"metadata":{}}]}"#;
    check(text, kind, Reason::Required, "is required");
    let items = "snapshot.objects_json[0].items";
    for value in ["{}", "7", "-7", "1.5", "true", "false", "\"x\""] {
        let text = format!(r#"{{"kind":"List","items":{value}}}"#);
        check(text, items, Reason::WrongType, "must be a list");
    }
    let item = "snapshot.objects_json[0].items[0]";
    for value in ["[]", "null", "7", "-7", "1.5", "true", "\"x\""] {
        let text = format!(r#"{{"kind":"List","items":[{value}]}}"#);
        check(text, item, Reason::WrongType, "must be an object");
    }
}

/// As in Kubernetes, an item that is `null` has its zero value.
#[test]
fn items_that_are_null_count() {
    let mut items = half_way().1;
    items[0]["spec"]["selector"] =
        json!({"matchExpressions": [null, {"key": "a", "operator": "Odd"}]});
    let found = violations(with_texts(&half_way().0, vec![list(&items).to_string()]));
    let fields: Vec<_> = found.iter().map(|it| it.0.as_str()).collect();
    let second = format!("{WHOLE}.items[0].spec.selector.matchExpressions[1].operator");
    assert!(fields.contains(&second.as_str()), "{fields:?}");
}

#[test]
fn syntax_errors_state_the_byte() {
    for (text, description) in [
        ("", "byte 0: EOF"),
        ("{\n \"a\": x}", "byte 8: expected value"),
        ("{\"ü\": x}", "byte 7: expected value"),
        ("NAME  READY", "byte 0: expected value"),
        (r#"{"kind":"List","items":[}"#, "byte 24: "),
    ] {
        check(text, WHOLE, Reason::MalformedJson, description);
    }
    // The position in the second entry is relative to its start.
    let (field, reason, text) = refused(
        vec!["{\"kind\":\"List\"}".to_owned(), "{\"".to_owned()],
        None,
    );
    assert_eq!(
        (field.as_str(), reason),
        ("snapshot.objects_json[1]", Reason::MalformedJson)
    );
    assert!(text.starts_with("byte 2: EOF"), "{text}");
}

#[test]
fn bytes_that_are_not_utf8_are_refused() {
    let mut request = with_texts(&half_way().0, Vec::new());
    request.snapshot().objects_json = vec![b"{\"kind\": \"\xff\"}".to_vec().into()];
    let expected = (
        WHOLE.to_owned(),
        Reason::InvalidUtf8,
        "byte 10: is not UTF-8".to_owned(),
    );
    assert_eq!(violations(request), [expected]);
}

/// Unused values are skipped without recursion.
#[test]
fn deeply_nested_values_are_skipped_or_refused() {
    let bomb = "[".repeat(100_000);
    let text = format!(r#"{{"kind":"List","items":[{bomb}"#);
    check(text, WHOLE, Reason::MalformedJson, "EOF");
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
    let replicas = &format!("{FIRST_SET}.spec.replicas");
    for text in ["1.0", "1e3", "-0.0", "1E0", "\"3\"", "true", "[]"] {
        let text = with("/spec/replicas", text);
        check(text, replicas, Reason::WrongType, "(ReplicaSet shop/new)");
    }
}

#[test]
fn times_that_do_not_exist_are_refused() {
    let at = |time: &str| {
        let mut items = half_way().1;
        let pod = items.iter().position(|it| it["kind"] == "Pod").unwrap();
        items[pod]["metadata"]["creationTimestamp"] = time.into();
        let request = with_texts(&half_way().0, vec![list(&items).to_string()]);
        let field = format!("{WHOLE}.items[{pod}].metadata.creationTimestamp");
        (wire::plan_rollout(request), field)
    };
    assert!(at("2026-01-01T23:59:59Z").0.is_ok());
    for time in [
        "2026-01-01T23:60:00Z",
        "2026-01-01T24:00:00Z",
        "2026-13-01T00:00:00Z",
        "2026-04-31T00:00:00Z",
    ] {
        match at(time) {
            (Err(Error::InvalidArgument(found)), field) => {
                assert_eq!(found.listed[0].field, field, "{time}");
            }
            other => panic!("{time}: {other:?}"),
        }
    }
}

#[test]
fn integers_out_of_range_are_refused() {
    let replicas = format!("{FIRST_SET}.spec.replicas");
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
    let generation = format!("{FIRST_SET}.metadata.generation");
    let (field, _, _) = refused(
        vec![with("/metadata/generation", "9223372036854775808")],
        None,
    );
    assert_eq!(field, generation);
}

/// At any depth that is read.
#[test]
fn duplicate_keys_are_refused() {
    for (pointer, text, path) in [
        (
            "/metadata/labels",
            r#"{"app":"web","app":"web"}"#,
            ".metadata.labels.app",
        ),
        (
            "/metadata",
            r#"{"name":"new","uid":"new","namespace":"shop","ownerReferences":[{"uid":"d","controller":true}],"name":"x"}"#,
            ".metadata.name",
        ),
        // Keys that are not identifiers are quoted.
        (
            "/metadata/labels",
            r#"{"a_1":"web","a_1":"web"}"#,
            ".metadata.labels.a_1",
        ),
        (
            "/metadata/labels",
            r#"{"example.com/app":"web","example.com/app":"web"}"#,
            r#".metadata.labels["example.com/app"]"#,
        ),
        (
            "/metadata/labels",
            r#"{"1a":"web","1a":"web"}"#,
            r#".metadata.labels["1a"]"#,
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
        ("/spec", r#"{},"spec":{}"#, "[\"spec\"]"),
        ("/spec", r#"{},"x":1,"x":2"#, "[\"x\"]"),
    ] {
        let field = format!("{FIRST_SET}{path}");
        let text = with(pointer, text);
        check(text, &field, Reason::DuplicateKey, "occurs twice");
    }
}

/// Pods are read in another way, because a plan needs little of them.
#[test]
fn duplicate_keys_of_pods_are_refused() {
    for (pointer, text, path) in [
        (
            "/metadata/labels",
            r#"{"app":"web","app":"web"}"#,
            ".metadata.labels.app",
        ),
        (
            "/metadata",
            r#"{"name":"a","uid":"a","namespace":"shop","ownerReferences":[{"uid":"new","controller":true,"uid":"x"}]}"#,
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
        let mut items = half_way().1;
        items[3]["metadata"]["labels"] = json!({});
        *items[3].pointer_mut(pointer).unwrap() = "PLACE".into();
        let text = list(&items).to_string().replace("\"PLACE\"", text);
        let field = format!("{WHOLE}.items[3]{path}");
        check(text, &field, Reason::DuplicateKey, "occurs twice");
    }
}

/// Even in an unselected object, because its identity would be ambiguous. Other duplicate keys in it are ignored.
#[test]
fn identity_of_an_object_must_be_unique() {
    let stranger = |text: &str| {
        let mut items = half_way().1;
        items.push("PLACE".into());
        list(&items).to_string().replace("\"PLACE\"", text)
    };
    let item = format!("{WHOLE}.items[{}]", half_way().1.len());
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
        let field = format!("{item}[{key:?}]");
        check(stranger(text), &field, Reason::DuplicateKey, "occurs twice");
    }
}

#[test]
fn duplicate_uids_are_refused_with_both_positions() {
    let items = half_way().1;
    for index in 0..items.len() {
        let mut items = items.clone();
        let (kind, uid) = (
            items[index]["kind"].clone(),
            items[index]["metadata"]["uid"].clone(),
        );
        let mut again = items[index].clone();
        if kind != "Deployment" {
            again["metadata"]["name"] = "another-name".into();
        }
        let last = items.len();
        items.push(again);
        let (field, reason, text) = refused(vec![list(&items).to_string()], None);
        assert_eq!(
            (field, reason),
            (
                format!("{WHOLE}.items[{last}].metadata.uid"),
                Reason::Duplicate
            )
        );
        let both = format!("{WHOLE}.items[{index}] has {uid} as well");
        assert!(text.starts_with(&both), "{text}");
        assert!(
            text.contains(&format!("({} shop/", kind.as_str().unwrap())),
            "{text}"
        );
    }
    // In another entry.
    let twice = vec![list(&items).to_string(), list(&items[1..2]).to_string()];
    let found = violations(with_texts(&half_way().0, twice));
    // The UID and the name.
    assert_eq!(found.len(), 2, "{found:?}");
    for (field, reason, text) in found {
        assert!(
            field.starts_with("snapshot.objects_json[1].items[0].metadata."),
            "{field}"
        );
        assert_eq!(reason, Reason::Duplicate);
        assert!(
            text.starts_with("snapshot.objects_json[0].items[1] has"),
            "{text}"
        );
    }
}

/// Whatever its name, an object with the UID of a selected one could be mistaken for it.
#[test]
fn uids_of_unselected_replica_sets_are_compared_with_selected_ones() {
    for name in ["theirs", "web-theirs"] {
        let (_, mut items) = half_way();
        let mut theirs = items[2].clone();
        theirs["metadata"]["name"] = name.into();
        theirs["metadata"]["ownerReferences"][0]["uid"] = "another Deployment".into();
        items.push(theirs);
        let (field, reason, text) = refused(vec![list(&items).to_string()], None);
        assert_eq!(field, format!("{WHOLE}.items[5].metadata.uid"));
        assert_eq!(reason, Reason::Duplicate);
        assert!(
            text.ends_with(&format!("(ReplicaSet shop/{name})")),
            "{text}"
        );
    }
}

#[test]
fn violations_in_lists_name_the_item() {
    let owners = r#"{"name":"new","uid":"new","namespace":"shop","ownerReferences":[{"uid":"d","controller":true},{"uid":1}]}"#;
    let field = format!("{FIRST_SET}.metadata.ownerReferences[1].uid");
    let text = with("/metadata", owners);
    check(text, &field, Reason::WrongType, "(ReplicaSet shop/new)");
    let containers = r#"{"spec":{"containers":[{},{"a":1},{"a":1,"a":1}]}}"#;
    let field = format!("{FIRST_SET}.spec.template.spec.containers[2].a");
    let text = with("/spec/template", containers);
    check(text, &field, Reason::DuplicateKey, "occurs twice");
}

#[test]
fn violations_name_their_field_and_object() {
    let objects = half_way().1;
    let strangers = (0..11).map(|index| {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("c{index}"), "namespace": "shop"}})
    });
    let mut items: Vec<Value> = strangers.collect();
    items.extend(objects);
    assert_eq!(items[12]["kind"], "ReplicaSet");
    // Errors during reading and during validation.
    for replicas in [json!("many"), json!(-1)] {
        let mut items = items.clone();
        items[12]["spec"]["replicas"] = replicas;
        let (field, _, text) = refused(vec![list(&items).to_string()], None);
        assert_eq!(field, "snapshot.objects_json[0].items[12].spec.replicas");
        assert!(text.ends_with("(ReplicaSet shop/new)"), "{text}");
    }
    let mut items = items.clone();
    items[11]["spec"]["replicas"] = json!(-1);
    let (field, _, text) = refused(vec![list(&[list(&items)]).to_string()], None);
    assert_eq!(
        field,
        "snapshot.objects_json[0].items[0].items[11].spec.replicas"
    );
    assert!(text.ends_with("(Deployment shop/web)"), "{text}");
}

#[test]
fn target_must_select_one_of_two_deployments() {
    let (typed, mut items) = half_way();
    let mut other = items[0].clone();
    other["metadata"]["name"] = "api".into();
    other["metadata"]["uid"] = "d9".into();
    items.push(other);
    let both = vec![list(&items).to_string()];
    for (wanted, reason) in [(None, Reason::Required), (target("db"), Reason::NotFound)] {
        let (field, why, text) = refused(both.clone(), wanted);
        assert_eq!((field.as_str(), why), ("snapshot.target", reason));
        assert!(
            text.ends_with("; candidates: Deployment shop/web, Deployment shop/api"),
            "{text}"
        );
    }
    let mut texts = with_texts(&typed, both);
    texts.snapshot().target = target("web");
    check_same(&typed, &texts, "one of two");
}

#[test]
fn first_ten_of_many_deployments_are_listed() {
    let (_, items) = half_way();
    for (count, end) in [
        (10, "Deployment shop/a9"),
        (11, "Deployment shop/a9 and 1 more"),
        (13, "Deployment shop/a9 and 3 more"),
    ] {
        let deployments = (0..count).map(|index| {
            let mut deployment = items[0].clone();
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
    let field = "snapshot.objects_json";
    check(none, field, Reason::NotFound, "has no apps/v1 Deployment");
    let (field, reason, text) = refused(vec![none.to_owned()], target("web"));
    assert_eq!(
        (field.as_str(), reason),
        ("snapshot.target", Reason::NotFound)
    );
    assert!(text.ends_with("; candidates: none"), "{text}");
    // An owner of another kind must be named by the target.
    let (typed, mut items) = half_way();
    items[0]["apiVersion"] = "apps.rollplan.dev/v1alpha1".into();
    items[0]["kind"] = "PlannedDeployment".into();
    let planned = list(&items).to_string();
    let field = "snapshot.objects_json";
    let description = "; candidates: PlannedDeployment shop/web";
    check(planned.clone(), field, Reason::NotFound, description);
    let mut request = with_texts(&typed, vec![planned]);
    request.snapshot().target = Some(proto::Target {
        api_version: "apps.rollplan.dev/v1alpha1".to_owned(),
        kind: "PlannedDeployment".to_owned(),
        resource: "planneddeployments".to_owned(),
        ..Default::default()
    });
    wire::plan_rollout(request).unwrap();
}

/// Answers and events can be combined with both.
#[test]
fn typed_fields_and_objects_json_are_exclusive() {
    let (typed, items) = half_way();
    let texts = || with_texts(&typed, vec![list(&items).to_string()]);
    let mut both = texts();
    both.snapshot = typed.snapshot.clone();
    both.snapshot().objects_json = texts().snapshot().objects_json.clone();
    let found = violations(both);
    let fields: Vec<_> = found.iter().map(|it| (it.0.as_str(), it.1)).collect();
    let expected = ["deployment", "replica_sets", "pods"].map(|field| format!("snapshot.{field}"));
    let expected: Vec<_> = expected
        .iter()
        .map(|it| (it.as_str(), Reason::Exclusive))
        .collect();
    assert_eq!(fields, expected);
    let mut beside = texts();
    beside.snapshot().answers = super::mk_request().snapshot().answers.clone();
    beside.snapshot().events = vec![proto::ObservedEvent::default()];
    wire::plan_rollout(beside).unwrap();
}

/// Requests that would need too much memory are refused, regardless of the selected objects.
#[test]
fn objects_with_a_large_decoded_size_are_refused() {
    let (typed, mut items) = half_way();
    items.truncate(3);
    let mut request = with_texts(&typed, Vec::new());
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
    let mut request = with_texts(&typed, Vec::new());
    let empty = vec![r#"{"kind":"x"}"#; 200_001].join(",");
    request.snapshot().objects_json =
        vec![format!(r#"{{"kind":"List","items":[{empty}]}}"#).into()];
    match wire::plan_rollout(request) {
        Err(Error::TooLarge {
            what, count, max, ..
        }) => assert_eq!(
            (what, count, max),
            ("snapshot.objects_json", 200_001, 200_000)
        ),
        other => panic!("{:?}", other.map(|plan| plan.steps.len())),
    }
}
