//! `rollplan restarts` and `rollplan uses`.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Output;

use rollplan_world::json::{config_map, list, workload};
use serde_json::{Value, json};

use super::{Scratch, answered, command, refused, rollplan};

const NOW: &str = "--now=2026-01-01T01:00:00Z";

fn objects(value: &str, state: Option<&str>) -> Value {
    let mut annotations = json!({"rollplan.dev/restart": "enabled"});
    if let Some(state) = state {
        annotations["rollplan.dev/restart-state"] = json!(state);
    }
    let reads = json!({"env": [{"name": "H", "valueFrom": {"configMapKeyRef": {"name": "app", "key": "DB_HOST"}}}]});
    list(&[
        workload("web", annotations, reads.clone()),
        workload("other", json!({"a": "b"}), reads),
        config_map("app", json!({"DB_HOST": value, "X": "y"})),
    ])
}

/// The recorded state for a value.
fn recorded(value: &str) -> String {
    let input = objects(value, None).to_string();
    let printed = answered(&["restarts", "-f", "-", NOW, "-o", "json"], &input);
    let plan: Value = serde_json::from_str(&printed).unwrap();
    let body = plan["plans"][0]["steps"][0]["call"]["bodyJson"]
        .as_str()
        .unwrap();
    let body: Value = serde_json::from_str(body).unwrap();
    body.as_array().unwrap().last().unwrap()["value"]
        .as_str()
        .unwrap()
        .to_owned()
}

#[test]
fn restarts_prints_workloads_and_reasons() {
    let state = recorded("a");
    let input = objects("b", Some(&state)).to_string();
    let printed = answered(&["restarts", "-f", "-", NOW, "--quiet=0s"], &input);
    assert_eq!(
        printed,
        "1 of 1 workloads to restart\n\n\
         NAMESPACE  WORKLOAD        DECISION  WHY\n\
         shop       Deployment/web  restart   DB_HOST of ConfigMap shop/app changed\n"
    );
    let waiting = answered(&["restarts", "-f", "-", NOW], &input);
    assert!(
        waiting.contains("QUIET_WINDOW: waiting for further changes (until 2026-01-01T01:00:10Z)"),
        "{waiting}"
    );
    assert!(
        waiting.ends_with("Plan again in 10s, even if nothing changes until then.\n"),
        "{waiting}"
    );
    let commands = answered(
        &["restarts", "-f", "-", NOW, "--quiet=0s", "-o", "kubectl"],
        &input,
    );
    assert!(
        commands.contains("kubectl patch ") && commands.contains(" -n shop --type=json"),
        "{commands}"
    );
    let same = answered(
        &["restarts", "-f", "-", NOW],
        &objects("a", Some(&state)).to_string(),
    );
    assert_eq!(same, "0 of 1 workloads to restart\n");
    for output in ["json", "yaml"] {
        let printed = answered(&["restarts", "-f", "-", NOW, "-o", output], &input);
        assert!(printed.contains("RESTART_DECISION_WAIT"), "{printed}");
    }
}

#[test]
fn uses_prints_the_users_of_a_configuration() {
    let input = objects("a", None).to_string();
    let printed = answered(&["uses", "cm/app", "-f", "-", NOW], &input);
    assert_eq!(
        printed,
        "configmap/app: used by 2 workloads\n\n\
         NAMESPACE  WORKLOAD          USED AS  KEYS     A CHANGE\n\
         shop       Deployment/other  env      DB_HOST  does not restart it\n           \
         no annotation rollplan.dev/restart: enabled\n\
         shop       Deployment/web    env      DB_HOST  restarts it\n"
    );
    let json = answered(&["uses", "cm/app", "-f", "-", NOW, "-o=json"], &input);
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(
        (&json["kind"], &json["name"]),
        (&json!("ConfigMap"), &json!("app"))
    );
    let uses = json!([{"usages": ["env"], "keys": ["DB_HOST"]}]);
    let expected = json!([
        {"kind": "Deployment", "namespace": "shop", "name": "other", "uses": uses, "restarts": false,
            "reasons": ["no annotation rollplan.dev/restart: enabled"]},
        {"kind": "Deployment", "namespace": "shop", "name": "web", "uses": uses, "restarts": true, "reasons": []},
    ]);
    assert_eq!(json["users"], expected);
    let none = answered(&["uses", "secret/app", "-f", "-", NOW], &input);
    assert_eq!(none, "secret/app: not used by any workload\n");
    for kind in ["secretproviderclass", "SecretProviderClasses"] {
        let none = answered(&["uses", &format!("{kind}/vault"), "-f", "-", NOW], &input);
        assert_eq!(
            none,
            "secretproviderclass/vault: not used by any workload\n"
        );
    }
    for wrong in ["app", "pod/app", "configmap/", "configmap/A b"] {
        refused(&["uses", wrong, "-f", "-"], "");
    }
}

#[test]
fn invalid_objects_are_skipped_with_a_note() {
    let mut input = objects("a", None);
    input["items"][1]["metadata"]["name"] = json!("\u{1b}[31m");
    let run = rollplan(&["restarts", "-f", "-", NOW], &input.to_string());
    assert!(
        run.err.contains("skipped: standard input, items[1] ("),
        "{}",
        run.err
    );
    assert!(!run.err.contains('\u{1b}') && !run.out.contains('\u{1b}'));
    assert!(
        run.out
            .starts_with("0 of 1 workloads to restart, 1 to record"),
        "{}",
        run.out
    );
    refused(&["restarts", "-f", "-", "-n", "shop"], "{}");
}

/// Replaces kubectl: prints the objects, and the given result for Secrets.
fn run_namespace(secrets: &str) -> (String, Output) {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let program = folder.path().join("kubectl");
    fs::write(
        folder.path().join("objects"),
        objects("a", None).to_string(),
    )
    .unwrap();
    let script = format!(
        "#!/bin/sh\nprintf '%s\\n' \"$*\" >>\"$(dirname \"$0\")/calls\"\ncase $2 in\nsecrets) {secrets} ;;\n*) cat \"$(dirname \"$0\")/objects\" ;;\nesac\n"
    );
    fs::write(&program, script).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let output = command(&["restarts", "-n", "shop", NOW])
        .env("KUBECTL", &program)
        .output()
        .unwrap();
    let calls = fs::read_to_string(folder.path().join("calls")).unwrap();
    (calls, output)
}

fn namespace(secrets: &str) -> (String, String) {
    let (calls, output) = run_namespace(secrets);
    assert!(output.status.success(), "{output:?}");
    let all = [output.stdout, output.stderr].concat();
    (calls, String::from_utf8(all).unwrap())
}

#[test]
fn namespace_is_read_with_kubectl() {
    let none = r#"echo '{"apiVersion": "v1", "kind": "List", "items": []}'"#;
    let (calls, printed) = namespace(none);
    let calls: Vec<&str> = calls.lines().collect();
    assert_eq!(calls.len(), 2);
    assert!(
        calls[0].starts_with("get deployments,statefulsets,"),
        "{calls:?}"
    );
    assert!(
        calls
            .iter()
            .all(|it| it.contains("--show-managed-fields") && it.contains("--namespace=shop"))
    );
    assert!(printed.contains("1 to record"), "{printed}");
    let forbidden = "echo 'Error from server (Forbidden): secrets is forbidden' >&2; exit 1";
    let (_, printed) = namespace(forbidden);
    assert!(
        printed.contains("the answer is computed without Secrets"),
        "{printed}"
    );
}

/// Only missing permission means that the answer is to be computed without Secrets.
#[test]
fn failed_reads_of_secrets_are_errors() {
    let down = "echo 'The connection to the server 127.0.0.1:1 was refused' >&2; exit 1";
    let (_, output) = run_namespace(down);
    assert_eq!((output.status.code(), output.stdout.len()), (Some(4), 0));
}

#[test]
fn options_select_workloads_and_uses() {
    let printed = |more: &[&str], input: &Value| {
        let args = [&["restarts", "-f", "-", NOW], more].concat();
        answered(&args, &input.to_string())
    };
    let first = |more: &[&str], input: &Value| {
        let printed = printed(more, input);
        printed.lines().next().unwrap().to_owned()
    };
    let input = objects("a", None);
    let one = "0 of 1 workloads to restart, 1 to record";
    assert_eq!(first(&[], &input), one);
    assert_eq!(
        first(&["--all-workloads"], &input),
        "0 of 2 workloads to restart, 2 to record"
    );
    // The annotation is that of rollplan.
    for profile in ["--profile=xing", "--profile=reloader"] {
        assert_eq!(first(&[profile], &input), "0 of 0 workloads to restart");
        let printed = answered(&["restarts", "-f", "-", NOW, profile], &input.to_string());
        assert!(
            printed
                .contains("\nThe input has 2 workloads, and no annotation selects one of them.\n"),
            "{printed}"
        );
    }
    // The kubelet updates volumes of running pods.
    let mut volume = input.clone();
    volume["items"][0]["spec"]["template"]["spec"] = json!({
        "containers": [{"name": "app", "volumeMounts": [{"name": "c", "mountPath": "/c"}]}],
        "volumes": [{"name": "c", "configMap": {"name": "app"}}],
    });
    assert_eq!(first(&["--restart-on=all"], &volume), one);
    assert_ne!(first(&["--restart-on=env"], &volume), one);
    // A configuration that is not in the input is unknown, unless all are in the input.
    let mut missing = input;
    missing["items"].as_array_mut().unwrap().pop();
    let unknown = printed(&["-o=json"], &missing);
    assert_ne!(
        printed(&["-o=json", "--configurations-complete"], &missing),
        unknown
    );
}

#[test]
fn invalid_objects_beyond_the_limit_are_counted() {
    let map = |index: usize| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("A {index}"), "namespace": "shop"}});
    let items: Vec<Value> = (0..1_002).map(map).collect();
    let input = json!({"apiVersion": "v1", "kind": "List", "items": items});
    let run = rollplan(&["restarts", "-f", "-", NOW], &input.to_string());
    assert_eq!((run.exit, run.err.lines().count()), (2, 1_001));
    assert!(run.err.ends_with("\nnote: and 2 more\n"), "{}", run.err);
}

#[test]
fn manifests_need_no_uid_and_no_namespace() {
    let mut input = objects("a", None);
    for object in input["items"].as_array_mut().unwrap() {
        let metadata = object["metadata"].as_object_mut().unwrap();
        metadata.remove("uid");
        metadata.remove("namespace");
    }
    let printed = answered(&["uses", "cm/app", "-f", "-", NOW], &input.to_string());
    assert!(
        printed.starts_with("configmap/app: used by 2 workloads\n"),
        "{printed}"
    );
    let printed = answered(&["restarts", "-f", "-", NOW], &input.to_string());
    assert!(
        printed.starts_with("0 of 1 workloads to restart, 1 to record\n"),
        "{printed}"
    );
    // Nothing can be written to it.
    let printed = answered(
        &["restarts", "-f", "-", NOW, "-o", "json"],
        &input.to_string(),
    );
    assert!(!printed.contains("bodyJson"), "{printed}");
}

#[test]
fn skipped_objects_make_the_answer_incomplete() {
    let mut input = objects("a", None);
    for index in [0, 1] {
        input["items"][index]["metadata"]["name"] = json!(format!("A {index}"));
    }
    let run = rollplan(&["uses", "cm/app", "-f", "-", NOW], &input.to_string());
    assert_eq!(
        (run.exit, &*run.out),
        (
            2,
            "configmap/app: no use was found\n\
             Incomplete: 2 problems in the input, whose objects were skipped, and may use it\n"
        )
    );
    let run = rollplan(&["restarts", "-f", "-", NOW], &input.to_string());
    assert_eq!(run.exit, 2);
    assert!(run.out.contains("\nIncomplete: 2 problems"), "{}", run.out);
}

#[test]
fn uses_in_the_profile_of_reloader_lists_workloads_that_do_not_restart() {
    let mut input = objects("a", Some("{}"));
    let annotations = |input: &mut Value, index: usize, annotations: Value| {
        input["items"][index]["metadata"]["annotations"] = annotations;
    };
    annotations(&mut input, 0, json!({"reloader.stakater.com/auto": "true"}));
    let args = ["uses", "cm/app", "-f", "-", NOW, "--profile", "reloader"];
    for (other, reason) in [
        (json!({"a": "b"}), "no annotation of Reloader"),
        (
            json!({"reloader.stakater.com/auto": "true", "configmaps.exclude.reloader.stakater.com/reload": "app"}),
            "excluded by configmaps.exclude.reloader.stakater.com/reload",
        ),
        (
            json!({"configmap.reloader.stakater.com/reload": "another"}),
            "its annotations of Reloader do not select this configuration",
        ),
    ] {
        annotations(&mut input, 1, other);
        let printed = answered(&args, &input.to_string());
        assert!(printed.contains("used by 2 workloads"), "{printed}");
        assert!(printed.contains("does not restart it"), "{printed}");
        assert!(printed.contains(reason), "{printed}");
    }
    // The annotations are noticed in the profile that does not use them.
    let run = rollplan(&["uses", "cm/app", "-f", "-", NOW], &input.to_string());
    assert!(
        run.err.contains(
            "these workloads have annotations of Reloader: Deployment shop/other, Deployment shop/web; to use them, pass \
             --profile reloader"
        ),
        "{}",
        run.err
    );
    input["items"][2]["metadata"]["annotations"] = json!({"reloader.stakater.com/ignore": "true"});
    let printed = answered(&args, &input.to_string());
    assert!(
        printed.contains("reloader.stakater.com/ignore on the configuration"),
        "{printed}"
    );
}

#[test]
fn unknown_configurations_are_named() {
    let mut input = objects("a", None);
    input["items"].as_array_mut().unwrap().pop();
    let printed = answered(&["restarts", "-f", "-", NOW], &input.to_string());
    assert!(
        printed.starts_with(
            "0 of 1 workloads to restart, 1 reference to an unknown configuration\nNot in the input: ConfigMap shop/app\n"
        ),
        "{printed}"
    );
}

/// Manifests with this value, a workload that reads one key, one that reads all, and one without an annotation.
fn manifests(value: &str, other: &str) -> String {
    let workload = |name: &str, annotation: &str, reads: Value| {
        json!({"apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": name, "annotations": {(annotation): "enabled"}},
            "spec": {"template": {"spec": {"containers": [reads]}}}})
    };
    let key = json!({"name": "app", "env": [{"name": "H", "valueFrom": {"configMapKeyRef": {"name": "app", "key": "HOST"}}}]});
    let all = json!({"name": "app", "envFrom": [{"configMapRef": {"name": "app"}}]});
    let items = [
        workload("one", "rollplan.dev/restart", key),
        workload("all", "rollplan.dev/restart", all.clone()),
        workload("none", "example.com/other", all),
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "app"}, "data": {"HOST": value, "PORT": other}}),
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "db"}, "stringData": {"password": "hunter2"}}),
    ];
    json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string()
}

#[test]
fn changes_of_manifests_restart_those_who_read_them() {
    let old = Scratch::new(&manifests("a", "1"));
    let since = |new: &str, more: &[&str]| {
        let args = [&["restarts", "-f", "-", NOW, "--since", old.path()], more].concat();
        answered(&args, new)
    };
    assert_eq!(
        since(&manifests("a", "2"), &[]),
        "2 workloads: 1 restarted because of its configuration, 1 not restarted\n\n\
         Deployment default/all: restarted because of its configuration\n  - PORT of ConfigMap default/app changed\n\
         Deployment default/none: not restarted\n  - no annotation rollplan.dev/restart: enabled\n\n\
         ConfigMap default/app: changed\n  keys: PORT\n  read by: Deployment default/all, Deployment default/none\n"
    );
    let printed = since(&manifests("b", "1"), &["-o", "markdown"]);
    assert_eq!(
        printed,
        "### rollplan restarts: 3 workloads: 2 restarted because of their configurations, 1 not restarted\n\n\
         | Workload | This change | Why |\n| --- | --- | --- |\n\
         | Deployment default/all | restarted because of its configuration | HOST of ConfigMap default/app changed |\n\
         | Deployment default/none | not restarted | no annotation rollplan.dev/restart: enabled |\n\
         | Deployment default/one | restarted because of its configuration | HOST of ConfigMap default/app changed |\n\n\
         | Configuration | Keys | Read by |\n| --- | --- | --- |\n\
         | ConfigMap default/app: changed | HOST | Deployment default/all, Deployment default/none, Deployment default/one |\n"
    );
    assert_eq!(
        since(&manifests("a", "1"), &[]),
        "no pod template, ConfigMap or Secret has changed\n"
    );
    let same = since(&manifests("a", "1"), &["-o=markdown"]);
    assert_eq!(
        same,
        "### rollplan restarts: no pod template, ConfigMap or Secret has changed\n\n"
    );
    // Keys are printed, and values are not.
    let printed = since(&manifests("a", "1").replace("hunter2", "hunter3"), &[]);
    assert_eq!(
        printed,
        "no workload uses what has changed\n\nSecret default/db: changed\n  keys: password\n  read by: no workload\n"
    );
    let json: Value = serde_json::from_str(&since(&manifests("b", "1"), &["-o=json"])).unwrap();
    let of = |kind: &str, name: &str| json!({"kind": kind, "namespace": "default", "name": name});
    let with = |mut object: Value, fields: Value| {
        let fields = fields.as_object().unwrap().clone();
        object.as_object_mut().unwrap().extend(fields);
        object
    };
    let workload = |name: &str, result: &str, reason: &str| {
        let fields = json!({"result": result, "reasons": [reason], "missing": []});
        with(of("Deployment", name), fields)
    };
    let changed = "HOST of ConfigMap default/app changed";
    let users = ["all", "none", "one"].map(|name| of("Deployment", name));
    let fields = json!({"change": "CHANGED", "keys": ["HOST"], "users": users});
    let expected = json!({
        "workloads": [
            workload("all", "RESTARTED", changed),
            workload("none", "NOT_RESTARTED", "no annotation rollplan.dev/restart: enabled"),
            workload("one", "RESTARTED", changed),
        ],
        "configurations": [with(of("ConfigMap", "app"), fields)],
        "notes": [],
    });
    assert_eq!(json, expected);
    let yaml = since(&manifests("b", "1"), &["-o=yaml"]);
    assert!(yaml.contains("result: NOT_RESTARTED\n"), "{yaml}");
    // Workloads of other namespaces with the same names are not restarted.
    let of = |namespace: &str, value: &str| -> Value {
        let mut list: Value = serde_json::from_str(&manifests(value, "1")).unwrap();
        for object in list["items"].as_array_mut().unwrap() {
            object["metadata"]["namespace"] = namespace.into();
        }
        list["items"].take()
    };
    let both = |value: &str| {
        let items =
            [of("shop", value), of("other", "a")].map(|items| items.as_array().unwrap().clone());
        json!({"apiVersion": "v1", "kind": "List", "items": items.concat()}).to_string()
    };
    let before = Scratch::new(&both("a"));
    let args = [
        "restarts",
        "-f",
        "-",
        NOW,
        "-o=json",
        "--since",
        before.path(),
    ];
    let json: Value = serde_json::from_str(&answered(&args, &both("b"))).unwrap();
    let namespaces = json["workloads"].as_array().unwrap().iter();
    let namespaces = namespaces.map(|it| it["namespace"].as_str().unwrap());
    assert_eq!(namespaces.collect::<Vec<_>>(), ["shop"; 3], "{json}");
    // A workload may name a configuration in an annotation only.
    let named = |value: &str| {
        let mut list: Value = serde_json::from_str(&manifests(value, "1")).unwrap();
        let annotations = &mut list["items"][2]["metadata"]["annotations"];
        *annotations = json!({"configmap.reloader.stakater.com/reload": "app"});
        list["items"][2]["spec"]["template"]["spec"]["containers"] = json!([{"name": "app"}]);
        list.to_string()
    };
    let before = Scratch::new(&named("a"));
    let args = ["restarts", "-f", "-", NOW, "--profile=reloader"];
    let args = [&args[..], &["--since", before.path()]].concat();
    let printed = answered(&args, &named("b"));
    assert!(
        printed.contains("Deployment default/none: restarted because of its configuration\n"),
        "{printed}"
    );
    // Before the first manifest, there was an empty directory.
    let empty = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let args = [
        "restarts",
        "-f",
        "-",
        NOW,
        "--since",
        empty.path().to_str().unwrap(),
    ];
    let added = answered(&args, &manifests("a", "1"));
    assert!(
        added.starts_with("3 workloads: 3 new\n")
            && added.contains("ConfigMap default/app: added\n  keys: HOST, PORT\n"),
        "{added}"
    );
    for wrong in [&["-o", "kubectl"][..], &["--quiet=1s"]] {
        refused(
            &[&["restarts", "-f", "-", "--since", old.path()], wrong].concat(),
            &manifests("b", "1"),
        );
    }
    refused(
        &["restarts", "-f", "-", NOW, "-o", "markdown"],
        &manifests("a", "1"),
    );
}

/// A workload of this kind that reads a ConfigMap, and the ConfigMap.
fn pair(kind: &str, spec: &Value, image: &str, value: &str) -> String {
    let api_version = match kind {
        "CronJob" | "Job" => "batch/v1",
        _ => "apps/v1",
    };
    let template = json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [
        {"name": "app", "image": image, "envFrom": [{"configMapRef": {"name": "app"}}]}]}});
    let mut spec = spec.clone();
    match kind {
        "CronJob" => spec["jobTemplate"]["spec"]["template"] = template,
        _ => spec["template"] = template,
    }
    let items = [
        json!({"apiVersion": api_version, "kind": kind, "spec": spec,
            "metadata": {"name": "web", "namespace": "shop", "annotations": {"rollplan.dev/restart": "enabled"}}}),
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "app", "namespace": "shop"},
            "data": {"HOST": value}}),
    ];
    json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string()
}

#[test]
fn results_of_changes_depend_on_how_pods_are_replaced() {
    let on_delete = json!({"updateStrategy": {"type": "OnDelete"}});
    let partition = |partition| json!({"replicas": 3, "updateStrategy": {"rollingUpdate": {"partition": partition}}});
    let replaced = "replaced by its own template\n  - spec.containers[name=app].image\n";
    let kept = "not restarted\n  - spec.containers[name=app].image\n";
    let restarted =
        "restarted because of its configuration\n  - HOST of ConfigMap shop/app changed\n";
    for (kind, spec, by_template, by_configuration) in [
        ("Deployment", json!({}), replaced.to_owned(), restarted.to_owned()),
        ("DaemonSet", json!({}), replaced.to_owned(), restarted.to_owned()),
        (
            "Deployment",
            json!({"paused": true}),
            format!("{kept}  - the rollout is paused: the pods are replaced when it is resumed\n"),
            "not restarted\n  - the rollout is paused\n".to_owned(),
        ),
        (
            "Deployment",
            json!({"replicas": 0}),
            format!("{kept}  - there are no pods to replace\n"),
            "not restarted\n  - there are no pods to restart: new ones start with the change\n".to_owned(),
        ),
        (
            "StatefulSet",
            on_delete.clone(),
            format!("{kept}  - the update strategy is OnDelete: delete the pods to replace them\n"),
            "not restarted\n  - the update strategy is OnDelete: delete the pods to restart them\n".to_owned(),
        ),
        (
            "DaemonSet",
            on_delete,
            format!("{kept}  - the update strategy is OnDelete: delete the pods to replace them\n"),
            "not restarted\n  - the update strategy is OnDelete: delete the pods to restart them\n".to_owned(),
        ),
        (
            "StatefulSet",
            partition(2),
            format!("{replaced}  - only the last 1 of 3 pods (partition 2)\n"),
            restarted.to_owned(),
        ),
        (
            "StatefulSet",
            partition(3),
            format!("{kept}  - the partition of the update strategy includes all pods\n"),
            "not restarted\n  - there are no pods to restart: new ones start with the change\n".to_owned(),
        ),
        (
            "CronJob",
            json!({}),
            format!("{kept}  - the next Job starts with the new template\n"),
            "not restarted\n  - the next Job starts with it\n".to_owned(),
        ),
        (
            "Job",
            json!({}),
            "not restarted\n  - the API server refuses the change, because spec.template is immutable: delete the Job and create it \
             again\n"
                .to_owned(),
            "not restarted\n  - the template of a Job cannot be changed: create the Job again to run it with the new configuration\n"
                .to_owned(),
        ),
    ] {
        let old = Scratch::new(&pair(kind, &spec, "web:1", "a"));
        let since = |image: &str, value: &str| {
            let new = pair(kind, &spec, image, value);
            let printed = answered(&["restarts", "-f", "-", NOW, "--since", old.path()], &new);
            printed.replace("\n    ", " ") // wrapped lines
        };
        let result = format!("\n\n{kind} shop/web: {by_template}");
        // If both change, the new pods also have the new configuration.
        for value in ["a", "b"] {
            let printed = since("web:2", value);
            assert!(printed.contains(&result), "{kind} {spec}: {printed}");
        }
        let printed = since("web:1", "b");
        let result = format!("\n\n{kind} shop/web: {by_configuration}\n");
        assert!(printed.contains(&result), "{kind} {spec}: {printed}");
        let same = since("web:1", "a");
        assert_eq!(same, "no pod template, ConfigMap or Secret has changed\n");
    }
}

/// Defaults, and different notations of the same value.
#[test]
fn equal_templates_are_not_a_change() {
    let old = pair("Deployment", &json!({}), "web:1", "a");
    let mut new: Value = serde_json::from_str(&old).unwrap();
    let spec = &mut new["items"][0]["spec"]["template"]["spec"];
    spec["restartPolicy"] = json!("Always");
    spec["securityContext"] = json!({});
    spec["containers"][0]["resources"] = json!({});
    spec["containers"][0]["terminationMessagePath"] = json!("/dev/termination-log");
    let old = Scratch::new(&old);
    let args = ["restarts", "-f", "-", NOW, "--since", old.path()];
    let same = "no pod template, ConfigMap or Secret has changed\n";
    assert_eq!(answered(&args, &new.to_string()), same);
    new["items"][0]["spec"]["template"]["spec"]["restartPolicy"] = json!("Never");
    let printed = answered(&args, &new.to_string());
    assert!(
        printed.starts_with("1 workload: 1 replaced by its own template\n"),
        "{printed}"
    );
}

#[test]
fn missing_configurations_and_new_workloads_are_named() {
    let both = pair("Deployment", &json!({}), "web:1", "a");
    let without = |index: usize| {
        let mut list: Value = serde_json::from_str(&both).unwrap();
        list["items"].as_array_mut().unwrap().remove(index);
        list.to_string()
    };
    let since = |old: &str, new: &str| {
        let old = Scratch::new(old);
        answered(&["restarts", "-f", "-", NOW, "--since", old.path()], new)
    };
    let printed = since(&both, &without(1));
    assert!(
        printed.starts_with(
            "1 workload: 1 not restarted; new pods of 1 workload could not start\n\nDeployment shop/web: not restarted\n  - ConfigMap \
             shop/app does not exist, and pods cannot start without it\n\nConfigMap shop/app: removed\n  keys: HOST\n  read by: Deployment shop/web\n"
        ),
        "{printed}"
    );
    let old = Scratch::new(&both);
    let args = ["restarts", "-f", "-", NOW, "--since", old.path(), "-o=json"];
    let json: Value = serde_json::from_str(&answered(&args, &without(1))).unwrap();
    let missing = &json["workloads"][0]["missing"];
    let expected = json!(["ConfigMap shop/app does not exist, and pods cannot start without it"]);
    assert_eq!(*missing, expected, "{json}");
    for (old, new, result) in [
        (without(0), both.clone(), "new"),
        (both.clone(), without(0), "removed"),
    ] {
        let printed = since(&old, &new);
        let expected = format!("1 workload: 1 {result}\n\nDeployment shop/web: {result}\n");
        assert_eq!(printed, expected);
    }
}

#[test]
fn uses_are_printed_as_markdown() {
    let printed = answered(
        &["uses", "cm/app", "-f", "-", NOW, "-o=markdown"],
        &manifests("a", "1"),
    );
    assert_eq!(
        printed,
        "### configmap/app: used by 3 workloads\n\n| Workload | A change | Why |\n| --- | --- | --- |\n\
         | Deployment all | restarts it |  |\n\
         | Deployment none | does not restart it | no annotation rollplan.dev/restart: enabled |\n\
         | Deployment one | restarts it |  |\n"
    );
}

/// Runs the steps of the GitHub Action for pull requests, in a repository with one commit and a change.
#[test]
fn pull_requests_list_the_restarts() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let git = |args: &[&str]| {
        let mut git = std::process::Command::new("git");
        let names = ["-c", "user.name=test", "-c", "user.email=test@example.com"];
        let git = git.args(names).args(args).current_dir(folder.path());
        assert!(git.output().unwrap().status.success(), "{args:?}");
    };
    git(&["init", "-q"]);
    fs::create_dir(folder.path().join("manifests")).unwrap();
    let file = folder.path().join("manifests/app.json");
    fs::write(&file, manifests("a", "1")).unwrap();
    git(&["add", "-A"]);
    git(&["commit", "-q", "-m", "first"]);
    fs::write(&file, manifests("b", "1")).unwrap();
    let action = super::path("packaging/github/restarts");
    let text = fs::read_to_string(action.join("action.yml")).unwrap();
    let action_yml = super::input::from_yaml(&text);
    let program = std::path::Path::new(env!("CARGO_BIN_EXE_rollplan"));
    let others = std::env::var("PATH").unwrap();
    let summary = folder.path().join("summary.md");
    let mut printed = String::new();
    for step in action_yml["runs"]["steps"].as_array().unwrap() {
        let output = std::process::Command::new("bash")
            .args(["-eo", "pipefail", "-c", step["run"].as_str().unwrap()])
            .current_dir(folder.path())
            .env(
                "PATH",
                format!("{}:{others}", program.parent().unwrap().display()),
            )
            .env("GITHUB_ACTION_PATH", &action)
            .env("GITHUB_STEP_SUMMARY", &summary)
            .envs([
                ("MANIFESTS", "manifests"),
                ("BASE", "HEAD"),
                ("PROFILE", "rollplan"),
            ])
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        printed += &String::from_utf8(output.stdout).unwrap();
    }
    let heading = "### rollplan restarts: 3 workloads: 2 restarted because of their configurations, 1 not restarted\n";
    assert!(printed.starts_with(heading), "{printed}");
    assert_eq!(fs::read_to_string(summary).unwrap(), printed);
    // A commit without the directory.
    fs::create_dir(folder.path().join("new")).unwrap();
    fs::write(folder.path().join("new/app.json"), manifests("a", "1")).unwrap();
    let output = std::process::Command::new("bash")
        .arg(super::path("examples/pipelines/restarts.sh"))
        .args(["new", "HEAD"])
        .current_dir(folder.path())
        .env(
            "PATH",
            format!("{}:{others}", program.parent().unwrap().display()),
        )
        .output()
        .unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(
        printed.contains("| ConfigMap default/app: added | HOST, PORT | Deployment default/all, "),
        "{printed}"
    );
}
