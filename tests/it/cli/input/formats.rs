//! Files and standard input, YAML and JSON, lists and documents.

use rollplan_world::yaml;
use serde_json::{Value, json};

use super::CREATED;
use crate::cli::{
    DEPLOYMENT, NOW, POD, REPLICA_SET, Scratch, answered, plan_args, read, refused, summaries,
};

/// Parses YAML that the tests or the program wrote.
pub(in crate::cli) fn from_yaml(text: &str) -> Value {
    yaml::to_json(text).expect("YAML")
}

fn value(yaml: &str) -> Value {
    from_yaml(yaml)
}

#[test]
fn files_and_standard_input_have_the_same_answer() {
    let file = "examples/mid-rollout.json";
    let args = |file| {
        [
            "plan",
            "-f",
            file,
            "--now",
            "2026-11-20T23:26:19Z",
            "-o",
            "json",
        ]
    };
    assert_eq!(answered(&args("-"), &read(file)), answered(&args(file), ""));
}

#[test]
fn yaml_json_lists_and_documents_have_the_same_answer() {
    let (deployment, set, pod) = (value(DEPLOYMENT), value(REPLICA_SET), value(POD));
    let expected = answered(
        &plan_args(&[]),
        &format!("{DEPLOYMENT}---\n{REPLICA_SET}---\n{POD}"),
    );
    assert_eq!(summaries(&expected), CREATED);
    let list = |items: Vec<&Value>| json!({"apiVersion": "v1", "kind": "List", "items": items});
    let same = |input: String| assert_eq!(answered(&plan_args(&[]), &input), expected, "{input}");
    // Concatenated, in another order, with and without separators.
    same(format!("{deployment}{set}{pod}"));
    same(format!(
        "{pod}\n---\n{set}\n---\n---\n# nothing\n---\n{DEPLOYMENT}"
    ));
    same(format!(
        "\u{feff}--- # first\n{DEPLOYMENT}...\n---\n{set}\n---\n{POD}...\n"
    ));
    same(format!(
        "---\r\n{}",
        format!("{DEPLOYMENT}---\n{REPLICA_SET}---\n{POD}").replace('\n', "\r\n")
    ));
    // Lists, nested Lists, typed lists whose items lack a kind, and arrays.
    same(list(vec![&deployment, &set, &pod]).to_string());
    same(
        list(vec![
            &list(vec![&pod, &list(vec![])]),
            &list(vec![&list(vec![&set]), &deployment]),
        ])
        .to_string(),
    );
    same(json!([deployment, [set, pod]]).to_string());
    let mut bare = set.clone();
    for field in ["apiVersion", "kind"] {
        bare.as_object_mut().unwrap().remove(field);
    }
    let typed = json!({"apiVersion": "apps/v1", "kind": "ReplicaSetList", "items": [bare]});
    same(format!("{typed}{}", list(vec![&deployment, &pod])));
    let empty = json!({"apiVersion": "v1", "kind": "PodList", "items": null});
    same(format!("{empty}{deployment}{set}{pod}"));
}

#[test]
fn several_files_form_one_input() {
    let (deployment, rest) = (Scratch::new(DEPLOYMENT), Scratch::new(REPLICA_SET));
    let args = [
        "plan",
        "-f",
        deployment.path(),
        "-f",
        "-",
        "--filename",
        rest.path(),
        "--now",
        NOW,
        "-o",
        "json",
    ];
    assert_eq!(summaries(&answered(&args, POD)), CREATED);
}

/// Kubernetes reads YAML 1.1 (sigs.k8s.io/yaml).
#[test]
fn yaml_scalars_are_read_like_kubernetes() {
    let spec = |extra: &str| {
        let input = DEPLOYMENT.replace(
            "      containers:",
            &format!("      extra: {extra}\n      containers:"),
        );
        let answer = answered(&plan_args(&[]), &input);
        let answer: Value = serde_json::from_str(&answer).unwrap();
        let body = answer["steps"][0]["call"]["bodyJson"].as_str().unwrap();
        let body: Value = serde_json::from_str(body).unwrap();
        body["spec"]["template"]["spec"]["extra"].clone()
    };
    let long = "x".repeat(100);
    for (yaml, expected) in [
        (
            "[on, Yes, y, true, TRUE]",
            json!([true, true, true, true, true]),
        ),
        (
            "[off, No, n, false, 'no', \"on\", yEs]",
            json!([false, false, false, false, "no", "on", "yEs"]),
        ),
        (
            "[0644, 0o644, 0x1F, 0b11, 1_000, +5, -5, -0x10]",
            json!([420, 420, 31, 3, 1000, 5, -5, -16]),
        ),
        (
            "[08, 1.5, 1e3, .5, 5., -1.5e-1]",
            json!([8, 1.5, 1000, 0.5, 5, -0.15]),
        ),
        (
            "[1.2.3, 1:30, 0x, 1e, ., -., 12a, --5, 1Gi]",
            json!(["1.2.3", "1:30", "0x", "1e", ".", "-.", "12a", "--5", "1Gi"]),
        ),
        (
            "[2026-11-20, 2026-11-20T12:00:00Z]",
            json!(["2026-11-20", "2026-11-20T12:00:00Z"]),
        ),
        ("[!!str 5, ! 5, !!int 5]", json!(["5", "5", 5])),
        (
            "{a: &a {b: [1]}, c: *a, 80: x}",
            json!({"a": {"b": [1]}, "c": {"b": [1]}, "80": "x"}),
        ),
        (long.as_str(), json!(long)),
        ("|-\n        a: b\n        # c", json!("a: b\n# c")),
        ("9007199254740991", json!(9007199254740991_i64)),
    ] {
        assert_eq!(spec(yaml), expected, "{yaml}");
    }
}

/// A failed kubectl, a proxy, a missing `-o json`.
#[test]
fn texts_without_objects_are_named_with_their_file() {
    for (text, expected) in [
        ("", "is empty: kubectl prints nothing if it fails"),
        (
            "<html><title>502 Bad Gateway</title>",
            "is HTML, for example the error page of a proxy: 502 Bad Gateway",
        ),
        (
            "NAME   READY   AGE\nweb    3/3     5d\n",
            "is a table of kubectl: use kubectl get -o json",
        ),
        (
            "error: You must be logged in\n",
            "is a message of kubectl: error: You must be logged in",
        ),
        (
            "apiVersion: v1\nkind: Status\nmessage: forbidden\n",
            "is a Status, which is the response to a failed call or a deletion: forbidden",
        ),
    ] {
        let file = Scratch::new(text);
        for verb in ["status", "plan", "history", "undo", "restarts", "wait"] {
            let error = refused(&[verb, "-f", file.path()], "");
            assert_eq!(
                error,
                format!("error: {}: {expected}\n", file.path()),
                "{verb}"
            );
            let error = refused(&[verb, "-f", "-"], text);
            assert_eq!(
                error,
                format!("error: standard input: {expected}\n"),
                "{verb}"
            );
        }
    }
}
