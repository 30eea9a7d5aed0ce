//! Several Deployments at once: by names, by selector, in all namespaces, and from files.

use std::fs;

use serde_json::{Value, json};

use super::kubectl::{
    Answer, DOWN, Kubectl, OPTIONS, Poll, failing, forbidden, forbidden_text, poll, rollout,
};
use super::{DEPLOYMENT, NOW, REPLICA_SET, Scratch, refused};

/// A rollout of two pods in a namespace, `available` of which are available.
fn objects(namespace: &str, name: &str, available: i32) -> Vec<Value> {
    let text = Value::from(rollout(available).objects()).to_string();
    let text = text
        .replace("\"shop\"", &format!("\"{namespace}\""))
        .replace("web-79c545b47", &format!("{name}-79c545b47"))
        .replace("\"name\":\"web\"", &format!("\"name\":\"{name}\""))
        .replace("\"d1\"", &format!("\"d-{namespace}-{name}\""))
        .replace("\"r1\"", &format!("\"r-{namespace}-{name}\""));
    serde_json::from_str(&text).unwrap()
}

/// A poll that returns lists of all these objects.
pub(super) fn lists(objects: Vec<Vec<Value>>) -> Poll {
    let objects: Vec<Value> = objects.into_iter().flatten().collect();
    let deployments: Vec<_> = objects
        .iter()
        .filter(|object| object["kind"] == "Deployment")
        .collect();
    let list = json!({"apiVersion": "v1", "kind": "List", "items": deployments});
    Poll {
        deployment: Answer::Out(list.to_string()),
        ..poll(objects)
    }
}

fn one(name: &str, available: i32) -> Poll {
    poll(objects("shop", name, available))
}

const FIVE: [&str; 5] = ["a", "b", "c", "d", "e"];

fn five(available: [i32; 5]) -> Poll {
    let rollouts = FIVE.iter().zip(available);
    lists(
        rollouts
            .map(|(name, it)| objects("shop", name, it))
            .collect(),
    )
}

fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

#[test]
fn few_deployments_are_read_by_name() {
    // Both Deployments are read alternately, until the first one is complete.
    let polls = [
        one("web", 1),
        one("api", 0),
        one("web", 2),
        one("api", 0),
        one("api", 1),
        one("api", 2),
    ];
    let kubectl = Kubectl::new(&polls);
    let run = kubectl.watch(&["wait", "deployment", "web", "api", "-n", "shop"]);
    assert_eq!((run.exit, run.err.as_str()), (0, ""), "{}", run.out);
    let lines: Vec<&str> = run.out.lines().collect();
    assert_eq!(
        words(lines[0]),
        ["NAME", "STATE", "UPDATED", "AVAILABLE", "MESSAGE"]
    );
    let rows: Vec<_> = lines[1..]
        .iter()
        .map(|line| words(line)[..4].to_vec())
        .collect();
    assert_eq!(
        rows,
        [
            ["shop/web", "progressing", "2/2", "1/2"],
            ["shop/api", "progressing", "2/2", "0/2"],
            ["shop/web", "complete", "2/2", "2/2"],
            ["shop/api", "progressing", "2/2", "1/2"],
            ["shop/api", "complete", "2/2", "2/2"],
        ]
    );
    assert_eq!(kubectl.calls().len(), polls.len() * 3);
}

#[test]
fn five_deployments_are_read_by_lists() {
    let polls = [five([2, 2, 0, 1, 2]), five([2, 2, 1, 2, 2]), five([2; 5])];
    let kubectl = Kubectl::new(&polls);
    let run = kubectl.watch(&[&["wait", "-n", "shop"], &FIVE[..]].concat());
    assert_eq!((run.exit, run.err.as_str()), (0, ""), "{}", run.out);
    let complete = run.out.lines().filter(|line| line.contains("complete"));
    assert_eq!(complete.count(), 5, "{}", run.out);
    let list = |what: &str| format!("get {what} {OPTIONS} --namespace=shop");
    let calls = kubectl.calls();
    assert_eq!(calls[..3], [list("deploy"), list("rs"), list("pods")]);
    // Two remain, which are read by name.
    assert_eq!(calls[3], list("deploy c"));
}

/// Without permission to list pods, it is unknown which pods exist.
#[test]
fn lists_of_pods_are_complete_if_they_were_read() {
    let readable = five([0; 5]);
    let forbidden = Poll {
        pods: forbidden("pods"),
        ..five([0; 5])
    };
    for (polled, expected) in [
        (readable, "0 exist, the others have not been created yet"),
        (
            forbidden,
            "the snapshot does not contain the pods that would show why",
        ),
    ] {
        let kubectl = Kubectl::new(&[polled]);
        let run = kubectl.run(&[&["status", "-n", "shop", "-o", "json"], &FIVE[..]].concat());
        let explained = run.out.lines().filter(|line| line.contains(expected));
        assert_eq!(explained.count(), 5, "{}{}", run.out, run.err);
    }
}

#[test]
fn selectors_and_namespaces_select_existing_deployments() {
    let names: String = FIVE
        .map(|name| format!("deployment.apps/{name}\n"))
        .concat();
    let kubectl = Kubectl::new(&[five([2; 5]), five([2; 5])]);
    let run = kubectl.run(&["status", "-A", "-o", "name"]);
    assert_eq!((run.exit, run.err.as_str()), (0, ""));
    assert_eq!(run.out, names);
    let list = |kind: &str| format!("get {kind} {OPTIONS} --all-namespaces=true");
    assert_eq!(
        kubectl.calls(),
        [list("deploy"), list("deploy"), list("rs"), list("pods")]
    );
    let kubectl = Kubectl::new(&[five([2; 5]), five([2; 5])]);
    let run = kubectl.run(&["status", "-l", "app=web", "-n", "shop", "-o", "name"]);
    assert_eq!((run.exit, run.err.as_str()), (0, ""));
    assert_eq!(run.out, names);
    let list = |kind: &str| format!("get {kind} {OPTIONS} --namespace=shop");
    assert_eq!(
        kubectl.calls(),
        [
            format!("get deploy --selector=app=web {OPTIONS} --namespace=shop"),
            list("deploy"),
            list("rs"),
            list("pods")
        ]
    );
    let kubectl = Kubectl::new(&[lists(vec![])]);
    let run = kubectl.run(&["wait", "--all", "--timeout=0"]);
    assert_eq!(run.exit, 2);
    assert_eq!(
        run.err,
        "error: no Deployment found in the namespace that kubectl uses\n"
    );
    let kubectl = Kubectl::new(&[lists(vec![])]);
    assert_eq!(kubectl.run(&["wait", "--all", "--for=deleted"]).exit, 0);
}

#[test]
fn failures_take_precedence_over_errors_and_timeouts() {
    let mut stuck = five([2, 0, 2, 2, 2]);
    let Answer::Out(list) = &mut stuck.deployment else {
        unreachable!()
    };
    let mut deployments: Value = serde_json::from_str(list).unwrap();
    let items = deployments["items"].as_array_mut().unwrap();
    // One is missing, and the selector of another one selects everything.
    items.pop();
    items[0]["spec"]["selector"] = json!({});
    *list = deployments.to_string();
    let kubectl = Kubectl::new(&[stuck]);
    let args = [&["wait", "-n", "shop", "--timeout=0"], &FIVE[..]].concat();
    let run = kubectl.run(&args);
    assert_eq!(run.exit, 1, "{}", run.out);
    assert_eq!(
        run.err,
        "error: Deployment e not found in namespace shop\nnote: 1 of 5 still in progress after 0s\n"
    );
    assert!(
        run.out.contains("Deployment shop/a: refused\n"),
        "{}",
        run.out
    );
    let message = "the selector is empty and would select all pods";
    assert_eq!(run.out.matches(message).count(), 1, "{}", run.out);
    // Without the failure, the error decides. Without the error, the timeout decides.
    let mut missing = five([2, 0, 2, 2, 2]);
    let Answer::Out(list) = &mut missing.deployment else {
        unreachable!()
    };
    let mut deployments: Value = serde_json::from_str(list).unwrap();
    deployments["items"].as_array_mut().unwrap().pop();
    *list = deployments.to_string();
    assert_eq!(Kubectl::new(&[missing]).run(&args).exit, 2);
    assert_eq!(Kubectl::new(&[five([2, 0, 2, 2, 2])]).run(&args).exit, 3);
    let kubectl = Kubectl::new(&[five([2, 0, 2, 2, 2])]);
    assert_eq!(kubectl.run(&[&["status"], &FIVE[..]].concat()).exit, 3);
}

#[test]
fn objects_of_applied_files_are_read_from_the_cluster() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let manifest = |name: &str| {
        format!(
            "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: {name}}}\n---\napiVersion: v1\nkind: ConfigMap\n\
             metadata: {{name: {name}}}\n"
        )
    };
    fs::write(folder.path().join("web.yaml"), manifest("web")).unwrap();
    let api = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "api", "namespace": "shop"}});
    fs::write(folder.path().join("api.json"), api.to_string()).unwrap();
    fs::write(folder.path().join("README"), "not read").unwrap();
    let path = folder.path().to_str().unwrap();
    let kubectl = Kubectl::new(&[one("api", 2), one("web", 2)]);
    let run = kubectl.watch(&["wait", "-f", path, "-n", "shop", "-o", "name"]);
    assert_eq!((run.exit, run.err.as_str()), (0, ""));
    assert_eq!(run.out, "deployment.apps/api\ndeployment.apps/web\n");
    let run = Kubectl::new(&[]).run(&["wait", "-f", path, "-n", "far"]);
    assert_eq!(run.exit, 2);
    assert_eq!(
        run.err,
        "error: Deployment api is in namespace shop, but --namespace is far\n"
    );
    let inert = Scratch::new("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\n");
    let run = Kubectl::new(&[]).run(&["wait", "-f", inert.path()]);
    assert_eq!(
        (run.exit, run.err.as_str()),
        (2, "error: the input contains no objects to wait for\n")
    );
}

#[test]
fn all_deployments_of_files_have_a_status() {
    let api = |text: &str| {
        text.replace("name: web", "name: api")
            .replace("uid: d1", "uid: d2")
            .replace("uid: r1", "uid: r2")
    };
    let input = [DEPLOYMENT, REPLICA_SET, &api(DEPLOYMENT), &api(REPLICA_SET)].join("---\n");
    let args = ["status", "-f", "-", "--now", NOW];
    let run = super::rollplan(&args, &input);
    assert_eq!((run.exit, run.err.as_str()), (3, ""));
    let rows: Vec<_> = run
        .out
        .lines()
        .map(|line| words(line)[..2].to_vec())
        .collect();
    assert_eq!(
        rows,
        [
            ["NAME", "STATE"],
            ["shop/web", "progressing"],
            ["shop/api", "progressing"]
        ]
    );
    let run = super::rollplan(&[&args[..], &["-o", "wide"]].concat(), &input);
    assert!(
        run.out.contains("  READY      PODS       REVISION  "),
        "{}",
        run.out
    );
    let run = super::rollplan(&[&args[..], &["-o", "json"]].concat(), &input);
    let names = run.out.lines().map(|line| {
        let response: Value = serde_json::from_str(line).unwrap();
        response["object"]["name"].as_str().unwrap().to_owned()
    });
    assert_eq!(names.collect::<Vec<_>>(), ["web", "api"]);
    for (more, documents) in [(&[][..], 2), (&["-d", "api"], 0)] {
        let run = super::rollplan(&[&args[..], &["-o", "yaml"], more].concat(), &input);
        assert_eq!(run.out.matches("---\n").count(), documents, "{}", run.out);
    }
    let one = super::rollplan(&[&args[..], &["-d", "api"]].concat(), &input);
    assert!(one.out.starts_with("Deployment shop/api"), "{}", one.out);
    // Other commands require a single one.
    assert!(refused(&["plan", "-f", "-"], &input).contains("choose one with --deployment"));
}

#[test]
fn wide_output_has_the_pods() {
    let file = "examples/stuck-crash-loop.json";
    let now = super::examples::time_of("stuck-crash-loop");
    let run = super::rollplan(&["status", "-f", file, "--now", &now, "-o", "wide"], "");
    assert!(run.out.contains("ReplicaSet web-"), "{}", run.out);
    assert!(run.out.contains("CrashLoopBackOff"), "{}", run.out);
    // The lines of the tree are those that the locale supports.
    for (all, lang, branch) in [
        ("C", "C.UTF-8", "`- ReplicaSet "),
        ("en_US.UTF-8", "C", "└─ ReplicaSet "),
        ("", "en_US.utf8", "└─ ReplicaSet "),
        ("", "", "`- ReplicaSet "),
    ] {
        let output = super::command(&["status", "-f", file, "--now", &now, "-o", "wide"])
            .env("LC_ALL", all)
            .env_remove("LC_CTYPE")
            .env("LANG", lang)
            .output()
            .unwrap();
        let out = String::from_utf8(output.stdout).unwrap();
        assert!(out.contains(branch), "{all} {lang}: {out}");
    }
}

#[test]
fn unusual_limits_and_times_have_notes() {
    let odd = DEPLOYMENT.replace(
        "  replicas: 2\n",
        "  replicas: 2\n  minReadySeconds: 30\n  progressDeadlineSeconds: 20\n  strategy:\n    rollingUpdate: {maxSurge: 0, \
         maxUnavailable: 0%}\n",
    );
    let late = odd.replace(
        "  uid: d1\n",
        "  uid: d1\n  creationTimestamp: \"2026-11-20T12:05:01Z\"\n",
    );
    assert_ne!(odd, late);
    let run = super::rollplan(&["status", "-f", "-", "--now", NOW], &late);
    let notes: Vec<&str> = run.err.lines().collect();
    for (note, expected) in notes.iter().zip([
        "is before its last change, 2026-11-20T12:05:01Z: pass --now",
        "progressDeadlineSeconds 20 is not greater than minReadySeconds 30",
        "maxSurge and maxUnavailable are both 0",
    ]) {
        assert!(note.contains(expected), "{}", run.err);
    }
    assert_eq!(notes.len(), 3, "{}", run.err);
    // The clocks may differ a little, and one of the limits may be 0.
    let usual = DEPLOYMENT
        .replace(
            "  replicas: 2\n",
            "  replicas: 2\n  strategy:\n    rollingUpdate: {maxSurge: 0, maxUnavailable: 1}\n",
        )
        .replace(
            "  uid: d1\n",
            "  uid: d1\n  creationTimestamp: \"2026-11-20T12:05:00Z\"\n",
        );
    let run = super::rollplan(&["status", "-f", "-", "--now", NOW], &usual);
    assert_eq!((run.exit, run.err.as_str()), (3, ""));
    // Long after a rollout that has not passed its deadline.
    let going_since = |condition: &str, last: &str| {
        let status = format!(
            "  progressDeadlineSeconds: 600\nstatus:\n  observedGeneration: 1\n  conditions:\n  - {{type: Progressing, \
             {condition}, lastUpdateTime: \"2026-11-20T{last}Z\"}}\n"
        );
        let input = DEPLOYMENT.to_owned() + &status;
        super::rollplan(&["status", "-f", "-", "--now", NOW], &input).err
    };
    let going = |condition: &str| going_since(condition, "11:44:59");
    let note = "is long after its last progress, 2026-11-20T11:44:59Z";
    let err = going("status: \"True\", reason: ReplicaSetUpdated");
    assert!(err.contains(note) && err.contains("pass --now"), "{err}");
    let err = going_since("status: \"True\", reason: ReplicaSetUpdated", "11:45:00");
    assert!(!err.contains("is long after its last progress"), "{err}");
    for condition in [
        "status: \"True\", reason: NewReplicaSetAvailable",
        "status: \"False\", reason: ProgressDeadlineExceeded",
    ] {
        assert!(!going(condition).contains(note), "{condition}");
    }
    // The note is printed once, not at every poll.
    let mut odd_poll = rollout(1);
    if let Answer::Out(text) = &mut odd_poll.deployment {
        let mut deployment: Value = serde_json::from_str(text).unwrap();
        deployment["spec"]["minReadySeconds"] = json!(700);
        deployment["spec"]["progressDeadlineSeconds"] = json!(600);
        *text = deployment.to_string();
    }
    let kubectl = Kubectl::new(&[odd_poll.clone(), odd_poll, rollout(2)]);
    let run = kubectl.watch(&["wait", "web"]);
    assert_eq!((run.exit, run.err.lines().count()), (0, 1), "{}", run.err);
}

#[test]
fn arguments_of_kubectl_work_or_have_a_hint() {
    let kubectl = Kubectl::new(&[rollout(2)]);
    for args in [
        &["status", "deployment", "web"][..],
        &["status", "Deployments.apps", "web"],
        &["history", "deploy", "web"],
    ] {
        assert_eq!(kubectl.run(args).exit, 0, "{args:?}");
    }
    for (args, expected) in [
        (
            &["wait", "web", "--timeout", "-5s"][..],
            "may not be negative",
        ),
        (&["wait", "web", "--interval=-5s"], "may not be negative"),
        (
            &["wait", "web", "-l", "app=web"],
            "names cannot be combined with --selector",
        ),
        (&["wait", "-l", ""], "pass --all for all objects"),
        (&["wait", "-A", "-n", "shop"], "cannot be used together"),
        (&["wait"], "no objects selected: pass names, "),
        (
            &["plan", "web", "api"],
            "this command supports one Deployment at a time",
        ),
        (
            &["history", "rs/web-1"],
            "ReplicaSet web-1: this command supports only Deployments ",
        ),
        (
            &["undo", "web", "api"],
            "this command supports one object at a time",
        ),
        (
            &["status", "web", "r,s/x"],
            "r,s/x: not the name of an object, for example web",
        ),
    ] {
        let err = refused(args, "");
        assert!(err.contains(expected), "{args:?}: {err}");
    }
    let help = super::answered(&["help"], "");
    assert!(help.contains("\nCommands:\n"), "{help}");
    assert_eq!(
        super::answered(&["help", "wait"], ""),
        super::answered(&["wait", "--help"], "")
    );
    // The state has its name in the contract.
    let json = kubectl.run(&["status", "web", "-o", "json"]);
    let json: Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!(json["report"]["phase"], "PHASE_COMPLETE");
    assert_eq!(json["object"]["name"], "web");
    assert_eq!(json["object"]["namespace"], "shop");
}

#[test]
fn missing_deployments_do_not_hide_others() {
    let found = || one("web", 2);
    let missing = || poll(vec![]);
    let error = |name: &str| format!("error: Deployment {name} not found in namespace shop\n");
    for (polls, out, err, counts) in [
        (
            [found(), missing()],
            "deployment.apps/web\n",
            error("api"),
            r#"tests="2" failures="0" errors="1""#,
        ),
        (
            [missing(), missing()],
            "",
            error("web") + &error("api"),
            r#"tests="2" failures="0" errors="2""#,
        ),
    ] {
        let kubectl = Kubectl::new(&polls);
        let junit = tempfile::NamedTempFile::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let report = format!("--report=junit={}", junit.path().display());
        let args = ["status", "web", "api", "-n", "shop", "-o=name", &report];
        let run = kubectl.run(&args);
        assert_eq!((run.exit, run.out.as_str(), run.err), (2, out, err));
        let junit = fs::read_to_string(junit.path()).unwrap();
        assert!(junit.contains(counts), "{junit}");
    }
}

#[test]
fn repeated_names_are_read_once() {
    let kubectl = Kubectl::new(&[one("web", 2)]);
    let run = kubectl.run(&["status", "web", "deploy/web", "-o", "name"]);
    assert_eq!((run.exit, run.out.as_str()), (0, "deployment.apps/web\n"));
    assert_eq!(kubectl.calls().len(), 3);
    let manifest = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\n";
    let twice = Scratch::new(&[manifest, manifest].join("---\n"));
    let kubectl = Kubectl::new(&[one("web", 2)]);
    let run = kubectl.watch(&["wait", "-f", twice.path(), "-o", "name"]);
    assert_eq!((run.exit, run.out.as_str()), (0, "deployment.apps/web\n"));
}

#[test]
fn wide_rows_of_a_watch_have_all_columns() {
    let columns = |more: &[&str]| {
        let polls = [one("web", 2), one("api", 2), poll(vec![]), poll(vec![])];
        let kubectl = Kubectl::new(&polls);
        let args = ["wait", "web", "api", "-n", "shop", "--for=deleted"];
        let run = kubectl.watch(&[&args[..], more].concat());
        assert_eq!((run.exit, run.err.as_str()), (0, ""));
        let lines: Vec<&str> = run.out.lines().collect();
        let (head, seen) = (words(lines[0]), words(lines[1]));
        let deleted = words(lines.last().unwrap());
        assert_eq!(seen[..4], ["shop/web", "complete", "2/2", "2/2"]);
        assert_eq!(deleted[..2], ["shop/api", "deleted"]);
        (head.len(), seen.len(), deleted.len())
    };
    assert_eq!(columns(&[]), (5, 4, 4));
    assert_eq!(columns(&["-o", "wide"]), (8, 7, 7));
}

#[test]
fn failed_lists_are_repeated() {
    let kubectl = Kubectl::new(&[failing(DOWN), five([2; 5])]);
    let run = kubectl.watch(&[&["wait", "-n", "shop"], &FIVE[..]].concat());
    assert_eq!(run.exit, 0, "{}", run.err);
    assert_eq!(run.err.lines().count(), 1, "{}", run.err);
    let note = "note: poll failed: kubectl get deploy -o json ";
    assert!(run.err.starts_with(note), "{}", run.err);
    assert_eq!(kubectl.calls().len(), 1 + 3);
}

#[test]
fn failure_takes_precedence_over_a_later_error_of_a_list() {
    let names = ["a", "b", "c", "d", "e", "f"];
    let mut rollouts: Vec<_> = names.map(|name| objects("shop", name, 0)).to_vec();
    rollouts[0][0]["spec"]["selector"] = json!({});
    let error = "error: the server doesn't have a resource type \"deploy\"";
    let kubectl = Kubectl::new(&[lists(rollouts), failing(error)]);
    let run = kubectl.watch(&[&["wait", "-n", "shop"], &names[..]].concat());
    assert_eq!(run.exit, 1, "{}{}", run.out, run.err);
    assert_eq!(run.err.lines().count(), 1, "{}", run.err);
    assert!(run.err.ends_with(&format!("{error}\n")), "{}", run.err);
}

/// Some users may read objects by name only.
#[test]
fn deployments_are_read_by_name_if_lists_are_forbidden() {
    let forbidden = forbidden_text("deployments");
    let script = format!(
        "case \"$3\" in\n-*) printf '%s\\n' '{}' >&2; exit 1 ;;\n*) cat \"$FAKE_KUBECTL/$3\" ;;\nesac\n",
        forbidden.replace('\'', "")
    );
    let kubectl = Kubectl::new(&[Poll {
        deployment: Answer::Script(script),
        ..five([2; 5])
    }]);
    for name in FIVE {
        let deployment = objects("shop", name, 2)[0].to_string();
        fs::write(kubectl.file(name), deployment).unwrap();
    }
    let args = [&["status", "-n", "shop", "-o", "name"], &FIVE[..]].concat();
    let run = kubectl.run(&args);
    assert_eq!((run.exit, run.err.as_str()), (0, ""));
    assert_eq!(run.out.lines().count(), 5, "{}", run.out);
    assert_eq!(kubectl.calls().len(), 1 + 5 * 3);
}
