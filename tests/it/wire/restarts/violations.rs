//! Invalid objects, messages and options.

use std::collections::BTreeMap;

use rollplan::proto::{Configuration, PlanRestartsRequest};
use rollplan::wire::Error;
use serde_json::json;

use super::{NOW, config_map, decisions, deployment, objects, plan, request, restarts_of};

#[test]
fn invalid_objects_are_reported_and_others_planned() {
    let mut bad = deployment("bad", None);
    bad["spec"] = json!({"template": 7});
    let mut nameless = deployment("x", None);
    nameless["metadata"]["name"] = json!("Not A Name");
    let wrong_data = config_map("wrong", json!({"A": {"b": "hunter2"}}));
    let wrong_secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "shop"}, "data": {"k": "hunter2!"}});
    let all = [
        bad,
        nameless,
        wrong_data,
        wrong_secret,
        config_map("app", json!({"A": "1"})),
        deployment("web", None),
        deployment("web", None),
    ];
    let answer = plan(&objects(&all, json!({})));
    assert_eq!(
        decisions(&answer),
        [("web".to_owned(), "RECORD".to_owned())]
    );
    let found: Vec<_> = answer
        .violations
        .iter()
        .map(|it| (it.field.as_str(), it.reason.as_str()))
        .collect();
    let item = |rest: &str| format!("objects[0].items{rest}");
    let expected = [
        (item("[0].spec.template"), "REQUIRED"),
        (item("[1].metadata.name"), "INVALID_NAME"),
        (item("[2].data[\"A\"]"), "WRONG_TYPE"),
        (item("[3].data[\"k\"]"), "WRONG_TYPE"),
        (item("[6]"), "DUPLICATE"),
    ];
    assert_eq!(
        found,
        expected
            .iter()
            .map(|(field, reason)| (field.as_str(), *reason))
            .collect::<Vec<_>>()
    );
    assert!(!format!("{answer:?}").contains("hunter2"));
}

#[test]
fn violations_of_messages_name_their_fields() {
    let configuration = json!({"kind": 9, "namespace": "shop", "name": "app", "keyChecksums": {"A": "xyz"}, "checksum": "Q",
        "absent": true, "observations": -1});
    let answer = plan(&json!({"now": NOW, "configurations": [configuration, {}]}));
    let mut fields: Vec<_> = answer
        .violations
        .iter()
        .map(|it| it.field.as_str())
        .collect();
    fields.sort_unstable();
    assert_eq!(
        fields,
        [
            "configurations[0].absent",
            "configurations[0].checksum",
            "configurations[0].key_checksums[\"A\"]",
            "configurations[0].kind",
            "configurations[0].observations",
            "configurations[1].kind",
            "configurations[1].name",
            "configurations[1].namespace",
        ]
    );
}

#[test]
fn lengths_of_names_and_checksums_are_limited() {
    let checksum = |digits: usize| {
        let configuration = json!({"kind": 1, "namespace": "shop", "name": "app",
            "keyChecksums": {"A": "0".repeat(digits)}});
        let answer = plan(&json!({"now": NOW, "configurations": [configuration]}));
        let fields = answer.violations.into_iter().map(|it| it.field);
        fields.collect::<Vec<_>>()
    };
    assert!(checksum(16).is_empty());
    assert_eq!(checksum(15), ["configurations[0].key_checksums[\"A\"]"]);
    let kind = |resource: usize, path: usize| {
        let kind = json!({"apiVersion": "example.com/v1", "kind": "Proxy",
            "resource": "a".repeat(resource), "templatePath": "a".repeat(path)});
        rollplan::service::answer(request(&json!({"now": NOW, "options": {"kinds": [kind]}})))
    };
    assert!(kind(63, 253).is_ok());
    let error = kind(64, 254).unwrap_err().to_string();
    for field in ["resource", "template_path"] {
        assert!(
            error.contains(&format!("options.kinds[0].{field}")),
            "{error}"
        );
    }
}

#[test]
fn violations_beyond_a_thousand_are_counted() {
    let configurations = vec![json!({"kind": 9, "namespace": "shop", "name": "app"}); 1_003];
    let answer = plan(&json!({"now": NOW, "configurations": configurations}));
    assert_eq!(
        (answer.violations.len(), answer.omitted_violations),
        (1_000, 3)
    );
}

/// Each item lists its first violations.
#[test]
fn violations_that_items_do_not_list_are_counted() {
    let annotations: BTreeMap<String, &str> = (0..50)
        .map(|index| (format!("not valid {index}"), ""))
        .collect();
    let configuration = |name: &str| json!({"kind": 1, "namespace": "shop", "name": name, "annotations": annotations});
    let configurations = [configuration("a"), configuration("b")];
    let answer = plan(&json!({"now": NOW, "configurations": configurations}));
    let listed = i32::try_from(answer.violations.len()).unwrap();
    assert!(listed < 100, "{listed}");
    assert_eq!(listed + answer.omitted_violations, 100);
}

#[test]
fn numbers_of_items_are_limited() {
    let too_many = |request: PlanRestartsRequest| match rollplan::service::answer(request) {
        Err(Error::TooLarge {
            what, count, max, ..
        }) => (what, count, max),
        Err(other) => panic!("{other:?}"),
        Ok(answer) => panic!("{:?}", answer.counts),
    };
    let now = request(&json!({"now": NOW}));
    let workloads = (0..20_001).map(|index| deployment(&format!("web-{index}"), None));
    let workloads = objects(&workloads.collect::<Vec<_>>(), json!({}));
    assert_eq!(too_many(request(&workloads)), ("workloads", 20_001, 20_000));
    let configurations = (0..40_001).map(|index| Configuration {
        kind: 1,
        namespace: "shop".to_owned(),
        name: format!("app-{index}"),
        ..Configuration::default()
    });
    let configurations = PlanRestartsRequest {
        configurations: configurations.collect(),
        ..now
    };
    assert_eq!(too_many(configurations), ("configurations", 40_001, 40_000));
    let maps = (0..40_001).map(|index| config_map(&format!("app-{index}"), json!({})));
    let maps = objects(&maps.collect::<Vec<_>>(), json!({}));
    assert_eq!(too_many(request(&maps)), ("configurations", 40_001, 40_000));
}

#[test]
fn invalid_options_and_json_are_errors() {
    let options =
        json!({"quiet": "-1s", "maxConcurrent": -1, "profile": 77, "kinds": [{"kind": "?"}]});
    let error = rollplan::service::answer(request(&json!({"options": options}))).unwrap_err();
    let Error::InvalidArgument(violations) = error else {
        panic!("{error:?}");
    };
    let mut fields: Vec<_> = violations.listed.into_iter().map(|it| it.field).collect();
    fields.sort_unstable();
    assert_eq!(
        fields,
        [
            "now",
            "options.kinds[0].api_version",
            "options.kinds[0].kind",
            "options.max_concurrent",
            "options.profile",
            "options.quiet"
        ]
    );
    let broken = restarts_of(NOW, &["{".to_owned()]);
    let error = rollplan::service::answer(request(&broken)).unwrap_err();
    let error = error.to_string();
    assert!(error.starts_with("objects[0]: byte"), "{error}");
}

#[test]
fn absurd_objects_do_not_panic() {
    let odd = [
        json!(null),
        json!(7),
        json!("x"),
        json!([]),
        json!([null, 7]),
        json!({}),
        json!({"a": {"b": []}}),
    ];
    let bases = [
        deployment("web", None),
        config_map("app", json!({"A": "1"})),
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "shop", "uid": "1"}, "status": {}}),
        json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "p", "namespace": "shop"}, "spec": {}, "status": {}}),
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}),
        json!({"apiVersion": "secrets-store.csi.x-k8s.io/v1", "kind": "SecretProviderClassPodStatus", "metadata": {}, "status": {}}),
    ];
    for base in &bases {
        for field in [
            "metadata",
            "spec",
            "status",
            "data",
            "binaryData",
            "immutable",
        ] {
            for value in &odd {
                for profile in 1..=3 {
                    let mut object = base.clone();
                    object[field] = value.clone();
                    let options = json!({"profile": profile, "allWorkloads": true});
                    _ = plan(&objects(
                        &[object, deployment("other", Some("{\"applied\":[]}"))],
                        options,
                    ));
                }
            }
        }
    }
}
