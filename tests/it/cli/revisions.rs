//! History and rollbacks.

use serde_json::{Value, json};

use super::examples::time_of;
use super::kubectl::{DOWN, Kubectl, example, forbidden_text, poll};
use super::{DEPLOYMENT, NOW, REPLICA_SET, answered, rollplan};

fn args<'a>(verb: &'a str, file: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let mut args = vec![verb, "-f", file];
    args.extend(more);
    args
}

#[test]
fn undo_without_a_target_is_a_failure() {
    for (example, more, expected) in [
        (
            "mid-rollout",
            &["--to-revision", "9"][..],
            "error: deployment \"web\" has no revision 9; it has 1, 2, 3\n",
        ),
        (
            "paused-scaled",
            &[],
            "error: deployment \"web\" is paused: resume it first, with `kubectl rollout resume deploy/web -n shop`\n",
        ),
        (
            "fresh-create",
            &[],
            "error: deployment \"web\" has no earlier revision\n",
        ),
    ] {
        let file = format!("examples/{example}.json");
        let run = rollplan(&args("undo", &file, more), "");
        assert_eq!(
            (run.exit, run.out.as_str(), run.err.as_str()),
            (1, "", expected)
        );
    }
}

#[test]
fn a_name_selects_the_deployment_in_files() {
    let file = "examples/after-undo.json";
    for verb in ["history", "undo", "plan"] {
        let now = format!("--now={}", time_of("after-undo"));
        let named = args(verb, file, &[&now, "deploy/web", "-n", "shop"]);
        let only = args(verb, file, &[&now]);
        assert_eq!(answered(&named, ""), answered(&only, ""));
    }
    for (more, expected) in [
        (
            &["web", "-n", "far"][..],
            "error: Deployment far/web not found in the input, which has:\n",
        ),
        (
            &["web", "--context", "far"],
            "error: --context cannot be used with -f: it only applies to kubectl\n",
        ),
        (
            &["web", "-d", "web"],
            "error: the argument '[NAME]...' cannot be used with '--deployment <[NAMESPACE/]NAME>'\n",
        ),
    ] {
        let run = rollplan(&args("history", file, more), "");
        assert_eq!((run.exit, run.out.as_str()), (2, ""), "{more:?}");
        assert!(run.err.starts_with(expected), "{}", run.err);
    }
}

#[test]
fn undo_to_the_same_template_succeeds() {
    let file = "examples/mid-rollout.json";
    let out = answered(&args("undo", file, &["--to-revision=3"]), "");
    assert_eq!(
        out,
        "Deployment shop/web: nothing to undo\nthe current template already is that of revision 3\n"
    );
    let json = answered(&args("undo", file, &["--to-revision=3", "-o", "json"]), "");
    let json: Value = serde_json::from_str(&json).unwrap();
    assert!(json.get("steps").is_none(), "{json}");
    let script = answered(
        &args("undo", file, &["--to-revision=3", "-o", "kubectl"]),
        "",
    );
    assert_eq!(
        script,
        "sh -eu -c '\n# Deployment shop/web: nothing to undo\n\
         # the current template already is that of revision 3\n'\n"
    );
}

#[test]
fn json_and_yaml_print_the_responses() {
    let file = "examples/after-undo.json";
    let now = time_of("after-undo");
    for (verb, field) in [("history", "revisions"), ("undo", "changes")] {
        let json = answered(&args(verb, file, &["--now", &now, "-o", "json"]), "");
        let json: Value = serde_json::from_str(&json).unwrap();
        assert!(json[field].is_array(), "{json}");
        let yaml = answered(&args(verb, file, &["--now", &now, "-o", "yaml"]), "");
        assert_eq!(super::input::from_yaml(&yaml), json);
    }
}

#[test]
fn deployment_without_history_has_an_empty_list() {
    let out = answered(&["history", "-f", "-", "--now", NOW], DEPLOYMENT);
    assert_eq!(out, "Deployment shop/web: no revisions yet\n");
}

/// Names and change causes may be long. Programs such as grep read a line for each revision.
#[test]
fn long_change_causes_are_not_wrapped_for_other_programs() {
    let cause = "because ".repeat(30);
    let name = "w".repeat(120);
    let annotations = format!(
        "{{deployment.kubernetes.io/revision: \"1\", kubernetes.io/change-cause: \"{cause}\"}}"
    );
    let set = REPLICA_SET
        .replacen(
            "  labels:",
            &format!("  annotations: {annotations}\n  labels:"),
            1,
        )
        .replace("name: web-1", &format!("name: {name}"));
    let input = format!("{DEPLOYMENT}---\n{set}");
    let out = answered(&["history", "-f", "-", "--now", NOW], &input);
    assert_eq!(out.lines().count(), 4, "{out}");
    assert_eq!(out.matches("because").count(), 30, "{out}");
    assert_eq!(
        out.matches('w').count(),
        120 + out.matches("web").count(),
        "{out}"
    );
}

/// The commands make the calls of the plan. `bash tests/run shells` tests other shells and arbitrary bodies.
#[test]
fn printed_commands_make_the_planned_calls() {
    let file = "examples/mid-rollout.json";
    let now = time_of("mid-rollout");
    let json = answered(&args("undo", file, &["--now", &now, "-o", "json"]), "");
    let json: Value = serde_json::from_str(&json).unwrap();
    let body = json["steps"][0]["call"]["bodyJson"].as_str().unwrap();
    let body: Value = serde_json::from_str(body).unwrap();
    let script = answered(&args("undo", file, &["--now", &now, "-o", "kubectl"]), "");
    let folder = tempfile::tempdir().unwrap();
    let bin = super::path("tests/shells/bin");
    let others = std::env::var("PATH").unwrap();
    let status = std::process::Command::new("sh")
        .args(["-c", &script])
        .env("FAKE_KUBECTL", folder.path())
        .env("PATH", format!("{}:{others}", bin.display()))
        .status()
        .unwrap();
    assert!(status.success(), "{status}");
    let told = std::fs::read_to_string(folder.path().join("args.1")).unwrap();
    assert_eq!(
        told.lines().collect::<Vec<_>>(),
        [
            "patch",
            "deployment.apps/web",
            "-n",
            "shop",
            "--type=json",
            "--patch-file=/dev/fd/3"
        ]
    );
    let sent = std::fs::read_to_string(folder.path().join("body.1")).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&sent).unwrap(), body);
    assert!(!folder.path().join("args.2").exists());
}

/// The table hides the values, but the commands must contain them.
#[test]
fn environment_values_in_commands_have_a_warning() {
    let env = "        image: web:1\n        env: [{name: TOKEN, value: secret}]\n";
    let set = REPLICA_SET
        .replacen(
            "  labels:",
            "  annotations: {deployment.kubernetes.io/revision: \"1\"}\n  labels:",
            1,
        )
        .replace("        image: web:0\n", env);
    let current = set
        .replace("web-1", "web-2")
        .replace("uid: r1", "uid: r2")
        .replace("revision: \"1\"", "revision: \"2\"")
        .replace("pod-template-hash: \"1\"", "pod-template-hash: \"2\"")
        .replace(env, "        image: web:1\n");
    let input = format!("{DEPLOYMENT}---\n{set}---\n{current}");
    let table = answered(&["undo", "-f", "-", "--now", NOW], &input);
    assert!(!table.contains("secret"), "{table}");
    let run = rollplan(&["undo", "-f", "-", "--now", NOW, "-o", "kubectl"], &input);
    assert_eq!(run.exit, 0, "{}", run.err);
    assert!(run.out.contains("\"secret\""), "{}", run.out);
    assert_eq!(
        run.err,
        "warning: the commands contain the values of environment variables, which the table hides: do \
         not show them to anyone who must not know these values\n"
    );
}

#[test]
fn revision_is_printed_with_its_template() {
    let file = "examples/mid-rollout.json";
    let out = answered(&args("history", file, &["--revision", "2"]), "");
    assert!(
        out.starts_with("Deployment shop/web: 1 revision\n"),
        "{out}"
    );
    assert!(out.contains("\nPod template\n  metadata:\n"), "{out}");
    assert!(
        out.contains("- image: \"registry.example/web:1.1\""),
        "{out}"
    );
    assert!(!out.contains("pod-template-hash"), "{out}");
    let json = answered(&args("history", file, &["--revision=2", "-o=json"]), "");
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["revisions"].as_array().unwrap().len(), 1);
    assert_eq!(json["revisions"][0]["revision"], "2");
    let run = rollplan(&args("history", file, &["--revision", "9"]), "");
    let expected = "error: Deployment shop/web has no revision 9; it has 1, 2, 3\n";
    assert_eq!((run.exit, run.err.as_str()), (2, expected));
}

#[test]
fn two_revisions_are_compared() {
    let file = "examples/mid-rollout.json";
    let compare = |from: &str, to: &str| {
        answered(
            &args("history", file, &["--revision", from, "--compare-to", to]),
            "",
        )
    };
    let out = compare("1", "2");
    assert!(
        out.starts_with("Deployment shop/web: from revision 1 to 2\n"),
        "{out}"
    );
    assert!(out.contains("  spec.containers[name=web].image\n"), "{out}");
    let lines: Vec<&str> = out.lines().map(str::trim).collect();
    let back = compare("2", "1");
    for line in lines {
        if let Some(value) = line.strip_prefix("from") {
            assert!(back.contains(&format!("to  {value}")), "{line}: {back}");
        }
    }
    assert_eq!(
        compare("3", "3"),
        "Deployment shop/web: from revision 3 to 3: no change\n"
    );
    let more = ["--revision=1", "--compare-to=3", "-o=json"];
    let json: Value = serde_json::from_str(&answered(&args("history", file, &more), "")).unwrap();
    assert_eq!(
        (&json["fromRevision"], &json["toRevision"]),
        (&"1".into(), &"3".into())
    );
    assert!(json.get("steps").is_none(), "{json}");
    let run = rollplan(&args("history", file, &["--compare-to", "1"]), "");
    assert_eq!(run.exit, 2, "{}", run.err);
}

/// A cluster in which an earlier revision uses a ConfigMap and a Secret.
fn kubectl_with_references(optional: bool) -> Kubectl {
    let mut objects = example("after-undo").objects();
    let source = |kind: &str, more: Value| {
        let mut source = more;
        source["optional"] = optional.into();
        json!({"name": kind.to_uppercase(), "valueFrom": {format!("{kind}KeyRef"): source}})
    };
    let env = json!([
        source("configMap", json!({"name": "settings", "key": "LEVEL"})),
        source("secret", json!({"name": "token", "key": "value"})),
    ]);
    for object in &mut objects {
        if object["kind"] != "Pod" {
            object["spec"]["template"]["spec"]["containers"][0]["env"] = env.clone();
        }
    }
    Kubectl::new(&[poll(objects)])
}

/// Values are not read, and nothing else is.
#[test]
fn undo_looks_up_what_the_revision_requires() {
    let kubectl = kubectl_with_references(false);
    std::fs::write(
        kubectl.file("secrets.token.out"),
        "data other\ndata values\n",
    )
    .unwrap();
    let run = kubectl.run(&["undo", "web", "-n", "shop"]);
    assert_eq!((run.exit, run.err.as_str()), (0, ""));
    for note in [
        "ConfigMap settings does not exist: pods with this template cannot start without it",
        "Secret token does not have the key value: pods with this template cannot start without it",
    ] {
        assert!(unwrapped(&run.out).contains(note), "{}", run.out);
    }
    assert!(!run.out.contains("ConfigMap settings keeps"), "{}", run.out);
    let calls = kubectl.calls();
    let template = "{{range $key, $_ := .data}}data {{$key}}{{\"\\n\"}}{{end}}\
                    {{range $key, $_ := .binaryData}}binaryData {{$key}}{{\"\\n\"}}{{end}}";
    let looked_up = ["configmaps settings", "secrets token"].map(|object| {
        format!("get {object} -o go-template={template} --request-timeout=30s --namespace=shop")
    });
    assert_eq!(calls[2..], looked_up);
}

#[test]
fn undo_of_a_cluster_with_all_configurations_has_no_note() {
    let kubectl = kubectl_with_references(false);
    for (file, keys) in [
        ("configmaps.settings.out", "data LEVEL\nbinaryData logo\n"),
        ("secrets.token.out", "data value\n"),
    ] {
        std::fs::write(kubectl.file(file), keys).unwrap();
    }
    let run = kubectl.run(&["undo", "web"]);
    assert_eq!((run.exit, run.err.as_str()), (0, ""));
    assert!(!run.out.contains("cannot start without"), "{}", run.out);
    assert!(
        run.out
            .contains("ConfigMap settings keeps its current content"),
        "{}",
        run.out
    );
    // Variables do not read binaryData.
    std::fs::write(
        kubectl.file("configmaps.settings.out"),
        "binaryData LEVEL\n",
    )
    .unwrap();
    let run = kubectl.run(&["undo", "web"]);
    let note = "ConfigMap settings does not have the key LEVEL";
    assert!(run.out.contains(note), "{}", run.out);
}

#[test]
fn undo_without_permission_to_read_secrets_names_them() {
    let kubectl = kubectl_with_references(false);
    let text = forbidden_text("secrets");
    std::fs::write(kubectl.file("secrets.token.err"), &text).unwrap();
    std::fs::write(kubectl.file("configmaps.settings.out"), "data LEVEL\n").unwrap();
    let run = kubectl.run(&["undo", "web"]);
    assert_eq!(run.exit, 0, "{}", run.err);
    let note = "note: it is not known whether these exist, which the pods need: Secret token: kubectl get secrets token ";
    assert!(
        run.err.starts_with(note) && run.err.contains(&text),
        "{}",
        run.err
    );
    assert!(!run.out.contains("cannot start without"), "{}", run.out);
    // An outage is an error, as for other reads.
    std::fs::write(kubectl.file("secrets.token.err"), DOWN).unwrap();
    let run = kubectl.run(&["undo", "web"]);
    assert_eq!((run.exit, run.out.as_str()), (4, ""));
}

#[test]
fn undo_looks_up_nothing_that_is_optional_or_not_restored() {
    let kubectl = kubectl_with_references(true);
    let run = kubectl.run(&["undo", "web"]);
    assert_eq!((run.exit, run.err.as_str()), (0, ""));
    assert_eq!(kubectl.calls().len(), 2, "{:?}", kubectl.calls());
    let kubectl = kubectl_with_references(false);
    let run = kubectl.run(&["undo", "web", "--to-revision=4"]);
    assert!(run.out.contains("nothing to undo"), "{}", run.out);
    assert_eq!(kubectl.calls().len(), 2, "{:?}", kubectl.calls());
}

/// A text whose lines are not broken.
fn unwrapped(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
