//! What can be read.

use serde_json::{Value, json};

use crate::base64;

use super::{
    DEPLOYMENT, NOW, POD, REPLICA_SET, Scratch, answered, plan_args, planned, read, refused,
    rollplan,
};

const CREATED: [&str; 1] = ["create ReplicaSet web-79c545b47 with 2 replicas"];

/// YAML that this program's own tests wrote: the subset of it that the program prints, and what stands above.
pub(super) fn from_yaml(text: &str) -> Value {
    use saphyr::{LoadableYamlNode as _, Yaml};
    fn json(yaml: &Yaml<'_>) -> Value {
        if let Some(list) = yaml.as_sequence() {
            list.iter().map(json).collect()
        } else if let Some(map) = yaml.as_mapping() {
            let entries = map.iter();
            entries
                .map(|(key, value)| (key.as_str().expect("a text").to_owned(), json(value)))
                .collect()
        } else if let Some(text) = yaml.as_str() {
            text.into()
        } else if let Some(number) = yaml.as_integer() {
            number.into()
        } else if let Some(number) = yaml.as_floating_point() {
            number.into()
        } else if let Some(truth) = yaml.as_bool() {
            truth.into()
        } else {
            assert!(yaml.is_null(), "{yaml:?}");
            Value::Null
        }
    }
    let documents = Yaml::load_from_str(text).expect("YAML");
    json(&documents[0])
}

fn value(yaml: &str) -> Value {
    from_yaml(yaml)
}

#[test]
fn files_and_standard_input_are_the_same() {
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
fn yaml_and_json_and_lists_and_documents_are_the_same() {
    let (deployment, set, pod) = (value(DEPLOYMENT), value(REPLICA_SET), value(POD));
    let expected = answered(
        &plan_args(&[]),
        &format!("{DEPLOYMENT}---\n{REPLICA_SET}---\n{POD}"),
    );
    assert_eq!(super::summaries(&expected), CREATED);
    let list = |items: Vec<&Value>| json!({"apiVersion": "v1", "kind": "List", "items": items});
    let same = |input: String| assert_eq!(answered(&plan_args(&[]), &input), expected, "{input}");
    // One after the other, in another order, with and without separators.
    same(format!("{deployment}{set}{pod}"));
    same(format!(
        "{pod}\n---\n{set}\n---\n---\n# nothing\n---\n{DEPLOYMENT}"
    ));
    same(format!(
        "\u{feff}%YAML 1.1\n--- # first\n{DEPLOYMENT}...\n---\n{set}\n---\n{POD}...\n"
    ));
    same(format!(
        "---\r\n{}",
        format!("{DEPLOYMENT}---\n{REPLICA_SET}---\n{POD}").replace('\n', "\r\n")
    ));
    // Lists, Lists of Lists, typed lists whose items do not say what they are, arrays.
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
fn several_files_are_read_as_one() {
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
    assert_eq!(super::summaries(&answered(&args, POD)), CREATED);
}

/// As Kubernetes reads it (sigs.k8s.io/yaml), which is YAML 1.1.
#[test]
fn yaml_scalars_are_those_of_kubernetes() {
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

#[test]
fn other_kinds_are_skipped_with_a_note() {
    let service = "apiVersion: v1\nkind: Service\nmetadata: {name: a}\n";
    let map = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: b}\nitems: [1]\n";
    let old = "apiVersion: extensions/v1beta1\nkind: Deployment\nmetadata: {name: web, namespace: shop}\n";
    let input = [DEPLOYMENT, service, REPLICA_SET, map, service, old, POD].join("---\n");
    let run = rollplan(&plan_args(&[]), &input);
    assert_eq!(
        (run.exit, run.err.as_str()),
        (
            0,
            "note: skipped: 1 ConfigMap (v1), 1 Deployment (extensions/v1beta1), 2 Service (v1)\n"
        )
    );
    assert_eq!(super::summaries(&run.out), CREATED);
}

#[test]
fn objects_of_other_namespaces_do_not_matter() {
    let elsewhere = |text: &str| text.replace("namespace: shop", "namespace: other");
    // Not even if they are broken.
    let broken = elsewhere(REPLICA_SET).replace("replicas: 0", "replicas: -1");
    let input = [DEPLOYMENT, REPLICA_SET, &broken, &elsewhere(POD), POD].join("---\n");
    assert_eq!(planned(&[], &input), CREATED);
}

/// What others have is not looked at, however odd it is, and however much.
#[test]
fn objects_of_others_do_not_matter() {
    let odd = REPLICA_SET
        .replace("name: web-1", "name: theirs")
        .replace("uid: r1", "uid: r9")
        .replace("uid: d1", "uid: d9")
        .replace("  replicas: 0\n  selector", "  replicas: two\n  selector")
        .replace(
            "    spec:\n",
            "    spec:\n      tolerations: [{operator: Exists, tolerationSeconds: 9223372036854775807}]\n",
        );
    let orphan = odd
        .replace("app: web", "app: api")
        .replace("    controller: true", "");
    let pod = POD.replace("uid: p1", "x: 1") + "  startTime: [yesterday]\n";
    let pods: String = (0..20_001)
        .map(|n| {
            let metadata =
                json!({"name": format!("p{n}"), "namespace": "shop", "uid": format!("p{n}")});
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata}).to_string() + "\n"
        })
        .collect();
    let input = [DEPLOYMENT, REPLICA_SET, &odd, &orphan, &pod, &pods].join("\n---\n");
    assert_eq!(planned(&[], &input), CREATED);
}

/// Not even they may have the name that the new ReplicaSet would get.
#[test]
fn names_of_others_are_taken() {
    let theirs = REPLICA_SET
        .replace("name: web-1", "name: web-79c545b47")
        .replace("uid: r1", "uid: r9")
        .replace("uid: d1", "uid: d9")
        .replace("  replicas: 0\n  selector", "  replicas: two\n  selector");
    let input = [DEPLOYMENT, REPLICA_SET, &theirs].join("---\n");
    let steps = planned(&[], &input);
    assert_ne!(steps, CREATED);
    assert!(steps[0].starts_with("create ReplicaSet web-"), "{steps:?}");
}

#[test]
fn one_of_several_deployments_is_chosen() {
    let web = DEPLOYMENT.to_owned();
    let far = DEPLOYMENT
        .replace("namespace: shop", "namespace: far")
        .replace("uid: d1", "uid: d2");
    let api = DEPLOYMENT
        .replace("name: web", "name: api")
        .replace("uid: d1", "uid: d3");
    let input = [web.as_str(), &far, &api].join("---\n");
    let planned_for = |name: &str| {
        let answer = answered(&plan_args(&["--deployment", name]), &input);
        let answer: Value = serde_json::from_str(&answer).unwrap();
        let call = &answer["steps"][0]["call"];
        format!(
            "{}/{}",
            call["namespace"].as_str().unwrap(),
            call["name"].as_str().unwrap()
        )
    };
    assert_eq!(planned_for("shop/web"), "shop/web-79c545b47");
    assert_eq!(planned_for("far/web"), "far/web-79c545b47");
    assert!(planned_for("api").starts_with("shop/api-"));

    let list = "\n  standard input, document 1 (Deployment shop/web)\n  standard input, document 2 (Deployment far/web)";
    let all = format!("{list}\n  standard input, document 3 (Deployment shop/api)\n");
    assert_eq!(
        refused(&plan_args(&[]), &input),
        format!("error: several Deployments in the input; choose one with --deployment:{all}")
    );
    assert_eq!(
        refused(&plan_args(&["-d", "web"]), &input),
        format!("error: several Deployments web in the input:{list}\n")
    );
    assert_eq!(
        refused(&plan_args(&["-d", "shop/db"]), &input),
        format!("error: Deployment shop/db not found in the input, which has:{all}")
    );
    assert_eq!(
        refused(&plan_args(&[]), POD),
        "error: no Deployment in the input\n"
    );
    assert_eq!(
        refused(&plan_args(&[]), ""),
        "error: no Deployment in the input\n"
    );
    for wrong in ["", "/web", "shop/", "a/b/c"] {
        assert_eq!(
            refused(&plan_args(&["-d", wrong]), &input),
            format!("error: --deployment {wrong}: must be [NAMESPACE/]NAME\n")
        );
    }
}

#[test]
fn a_planned_deployment_is_a_deployment() {
    let input = DEPLOYMENT
        .replace(
            "apiVersion: apps/v1",
            "apiVersion: apps.rollplan.dev/v1alpha1",
        )
        .replace("kind: Deployment", "kind: PlannedDeployment");
    let answer = answered(&plan_args(&[]), &input);
    let answer: Value = serde_json::from_str(&answer).unwrap();
    let body = answer["steps"][0]["call"]["bodyJson"].as_str().unwrap();
    let body: Value = serde_json::from_str(body).unwrap();
    let owner = &body["metadata"]["ownerReferences"][0];
    assert_eq!(
        (&owner["apiVersion"], &owner["kind"]),
        (
            &json!("apps.rollplan.dev/v1alpha1"),
            &json!("PlannedDeployment")
        )
    );
}

/// Under Recreate nothing is created before the input shows that no old pod is left.
#[test]
fn an_input_without_pods_proves_nothing_unless_all_sets_say_so() {
    const NOTE: &str = "note: the input may lack pods, so that strategy Recreate cannot tell whether old ones are \
                        left, and waits: get deploy,rs,pods with kubectl, or pass --pods-complete if these are all\n";
    let recreate = DEPLOYMENT.replace(
        "  replicas: 2",
        "  replicas: 2\n  strategy: {type: Recreate}",
    );
    let check = |set: &str, pod: &str, args: &[&str], expected: &[&str], note: &str| {
        let run = rollplan(&plan_args(args), &[&recreate, set, pod].join("\n---\n"));
        assert_eq!(
            (run.exit, run.err.as_str()),
            (0, note),
            "{set}{pod}{args:?}"
        );
        assert_eq!(super::summaries(&run.out), expected, "{set}{pod}{args:?}");
    };
    // The sets say that they have none.
    check(REPLICA_SET, "", &[], &CREATED, "");
    // Nobody has said that there are none, or that they are gone.
    let silent = REPLICA_SET.replace("  terminatingReplicas: 0\n", "");
    let leaving = REPLICA_SET.replace("terminatingReplicas: 0", "terminatingReplicas: 1");
    let stale = REPLICA_SET.replace("  generation: 1", "  generation: 2");
    for set in [&silent, &leaving, &stale] {
        check(set, "", &[], &[], NOTE);
        check(set, "", &["--pods-complete=false"], &[], "");
    }
    check(REPLICA_SET, "", &["--pods-complete=false"], &[], "");
    // Pods were asked for, or so it is said.
    for set in [&silent, &leaving] {
        check(set, "", &["--pods-complete"], &CREATED, "");
        check(set, "", &["--pods-complete=true"], &CREATED, "");
        check(set, POD, &["--pods-complete=false"], &[], "");
        let far = POD.replace("namespace: shop", "namespace: far");
        check(set, &far, &[], &[], NOTE);
    }
    check(&silent, POD, &[], &CREATED, "");
    // The list has pods, but not the one that the ReplicaSet counts. Other pods do not matter.
    check(&leaving, POD, &[], &[], NOTE);
    check(
        &leaving.replace("uid: d1", "uid: d9"),
        POD,
        &[],
        &CREATED,
        "",
    );
    // It is there, and so it is waited for; or it has come to its end.
    let left = POD.replace(
        "  uid: p1\n",
        "  uid: p1\n  ownerReferences:\n  - {apiVersion: apps/v1, kind: ReplicaSet, name: web-1, uid: r1, controller: true}\n",
    );
    check(&leaving, &left, &[], &[], "");
    check(
        &leaving,
        &left.replace("Running", "Failed"),
        &[],
        &CREATED,
        "",
    );
}

/// A list of ReplicaSets is complete if the pods that they report add up, and that of the revision is there.
#[test]
fn nothing_is_planned_from_an_input_that_may_lack_replica_sets() {
    const NOTE: &str = "note: the input may lack ReplicaSets, so that nothing can be planned or counted: get deploy,rs,pods \
                        with kubectl, or pass --replica-sets-complete if these are all\n";
    let check = |deployment: &str, set: &str, args: &[&str], expected: &[&str], note: &str| {
        let run = rollplan(&plan_args(args), &[deployment, set].join("\n---\n"));
        let exit = if expected.is_empty() { 2 } else { 0 };
        assert_eq!(
            (run.exit, run.err.as_str()),
            (exit, note),
            "{deployment}{set}{args:?}"
        );
        assert_eq!(
            super::summaries(&run.out),
            expected,
            "{deployment}{set}{args:?}"
        );
        assert_eq!(
            run.out.contains("REPLICA_SETS_INCOMPLETE"),
            expected.is_empty()
        );
    };
    check(DEPLOYMENT, "", &[], &CREATED, "");
    check(DEPLOYMENT, REPLICA_SET, &[], &CREATED, "");
    // The Deployment reports pods that no ReplicaSet reports.
    let running = DEPLOYMENT.to_owned() + "status: {replicas: 2}\n";
    check(&running, "", &[], &[], NOTE);
    check(&running, REPLICA_SET, &[], &[], NOTE);
    let reports = REPLICA_SET.replace("  replicas: 0\n  term", "  replicas: 2\n  term");
    assert_ne!(reports, REPLICA_SET);
    let far = reports.replace("namespace: shop", "namespace: far");
    check(&running, &far, &[], &[], NOTE);
    // The ReplicaSet of its revision is missing.
    let annotated = DEPLOYMENT.replace(
        "  uid: d1\n",
        "  uid: d1\n  annotations: {deployment.kubernetes.io/revision: \"7\"}\n",
    );
    assert_ne!(annotated, DEPLOYMENT);
    check(&annotated, REPLICA_SET, &[], &[], NOTE);
    // Whoever knows better can say so.
    check(&annotated, "", &["--replica-sets-complete"], &CREATED, "");
    check(
        &running,
        "",
        &["--replica-sets-complete=true"],
        &CREATED,
        "",
    );
    check(DEPLOYMENT, "", &["--replica-sets-complete=false"], &[], "");
    // The status is that which the Deployment shows, and an undo is refused.
    let args = ["-f", "-", "--now", NOW];
    let status = rollplan(&[&["status"][..], &args].concat(), &running);
    assert_eq!((status.exit, status.err.as_str()), (3, NOTE));
    let undo = rollplan(&[&["undo"][..], &args].concat(), &running);
    assert_eq!(undo.exit, 2, "{undo:?}");
    assert!(undo.err.contains("may be incomplete"), "{undo:?}");
    let plan = rollplan(&[&["plan"][..], &args].concat(), &running);
    assert!(
        plan.out.starts_with("Deployment shop/web: no plan\n"),
        "{plan:?}"
    );
}

/// A page of a list that goes on may lack anything, whatever adds up.
#[test]
fn a_list_with_a_continue_token_is_not_complete() {
    const CONTINUED: &str = "note: standard input, document 1: metadata.continue is set: objects are missing from the list\n";
    let page = "apiVersion: apps/v1\nkind: ReplicaSetList\nmetadata: {continue: next}\nitems: []\n";
    let input = [page, DEPLOYMENT, REPLICA_SET].join("\n---\n");
    let run = rollplan(&plan_args(&[]), &input);
    assert_eq!(run.exit, 2, "{run:?}");
    assert!(run.err.starts_with(CONTINUED), "{run:?}");
    assert!(
        run.err.contains("note: the input may lack ReplicaSets"),
        "{run:?}"
    );
    assert!(run.out.contains("REPLICA_SETS_INCOMPLETE"), "{run:?}");
    // Who has the rest elsewhere may say so.
    let run = rollplan(&plan_args(&["--replica-sets-complete"]), &input);
    assert_eq!((run.exit, run.err.as_str()), (0, CONTINUED));
    assert_eq!(super::summaries(&run.out), CREATED);
    // The last page has an empty token.
    let last = input.replace("continue: next", "continue: \"\"");
    assert_eq!(planned(&[], &last), CREATED);
    // What was applied is looked up: nothing would notice what is missing.
    let run = rollplan(&["wait", "-f", "-"], &input);
    assert_eq!(run.exit, 2, "{run:?}");
    assert!(
        run.err
            .contains("incomplete list: metadata.continue is set"),
        "{run:?}"
    );
}

#[test]
fn answers_are_taken_into_account() {
    let answer: Value = serde_json::from_str(&answered(&plan_args(&[]), DEPLOYMENT)).unwrap();
    let call = &answer["steps"][0]["call"];
    let body = json!({"kind": "Status", "reason": "Forbidden", "message": "exceeded quota: pods"});
    let answers = json!([{"call": call, "httpCode": 403, "body": base64(&body)}]);
    let file = Scratch::new(&answers.to_string());
    let answer = answered(&plan_args(&["--answers", file.path()]), DEPLOYMENT);
    let answer: Value = serde_json::from_str(&answer).unwrap();
    let conditions = answer["status"]["conditions"].as_array().unwrap();
    assert!(
        conditions
            .iter()
            .any(|condition| condition["reason"] == "ReplicaSetCreateError"),
        "{conditions:?}"
    );
    let none = Scratch::new("[]");
    assert_eq!(planned(&["--answers", none.path()], DEPLOYMENT), CREATED);
}

#[test]
fn the_clock_is_read_when_no_time_is_given() {
    let year = |args: &[&str]| {
        let answer: Value = serde_json::from_str(&answered(args, DEPLOYMENT)).unwrap();
        let time = answer["status"]["conditions"][0]["lastUpdateTime"]
            .as_str()
            .unwrap();
        time[..4].parse::<u32>().unwrap()
    };
    assert!(year(&["plan", "-f", "-", "-o", "json"]) >= 2025);
    assert_eq!(
        year(&[
            "plan",
            "-f",
            "-",
            "-o",
            "json",
            "--now",
            "1999-01-01T00:00:00+01:00"
        ]),
        1998
    );
}
