//! What is read with kubectl: once, and in polls. A script stands in for kubectl.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{DEPLOYMENT, REPLICA_SET, Run, command, path, read};

pub(super) const OPTIONS: &str = "-o json --request-timeout=30s";

const EVENTS: &str = "get events --field-selector=type=Warning ";

/// What kubectl does at one call.
#[derive(Clone)]
pub(super) enum Answer {
    /// Prints this.
    Out(String),
    /// Fails with this.
    Err(String),
    /// Runs this shell script.
    Script(String),
}

/// What kubectl does in one poll, for the Deployment, its ReplicaSets and its pods.
#[derive(Clone)]
pub(super) struct Poll {
    pub(super) deployment: Answer,
    pub(super) sets: Answer,
    pub(super) pods: Answer,
}

/// A folder for the script that stands in for kubectl.
pub(super) struct Kubectl(tempfile::TempDir);

impl Kubectl {
    pub(super) fn new(polls: &[Poll]) -> Self {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        for (index, poll) in polls.iter().enumerate() {
            for (kind, answer) in [
                ("deploy", &poll.deployment),
                ("rs", &poll.sets),
                ("pods", &poll.pods),
            ] {
                let (end, text) = match answer {
                    Answer::Out(text) => ("out", text),
                    Answer::Err(text) => ("err", text),
                    Answer::Script(text) => ("sh", text),
                };
                let name = format!("{kind}.{}.{end}", index + 1);
                fs::write(folder.path().join(name), text).unwrap();
            }
        }
        Self(folder)
    }

    pub(super) fn run(&self, args: &[&str]) -> Run {
        self.run_as(env!("CARGO_BIN_EXE_rollplan"), args)
    }

    /// Runs a command that polls until the rollout ends. Where it does not, the test is to fail, not to hang.
    pub(super) fn watch(&self, args: &[&str]) -> Run {
        self.run(&[args, &["--interval=0", "--timeout=2m"]].concat())
    }

    fn run_as(&self, program: &str, args: &[&str]) -> Run {
        use std::os::unix::process::CommandExt as _;
        let bin = path("tests/it/cli/bin");
        let others = std::env::var("PATH").unwrap();
        let output = command(args)
            .arg0(program)
            .env("FAKE_KUBECTL", self.0.path())
            .env("PATH", format!("{}:{others}", bin.display()))
            .output()
            .unwrap();
        Run {
            exit: output.status.code().unwrap(),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// Its arguments, a line for each call, but for those that read events.
    pub(super) fn calls(&self) -> Vec<String> {
        let calls = fs::read_to_string(self.file("calls")).unwrap_or_default();
        let calls = calls.lines().filter(|call| !call.starts_with(EVENTS));
        calls.map(str::to_owned).collect()
    }

    /// How often events were read.
    fn event_calls(&self) -> usize {
        let calls = fs::read_to_string(self.file("calls")).unwrap_or_default();
        calls
            .lines()
            .filter(|call| call.starts_with(EVENTS))
            .count()
    }

    /// Answers with these events from this poll on.
    fn add_events(&self, poll: usize, events: &[Value]) {
        let list = json!({"apiVersion": "v1", "kind": "List", "items": events});
        fs::write(self.file(&format!("events.{poll}.out")), list.to_string()).unwrap();
    }

    fn file(&self, name: &str) -> std::path::PathBuf {
        self.0.path().join(name)
    }
}

fn example(name: &str) -> Poll {
    let list: Value = serde_json::from_str(&read(&format!("examples/{name}.json"))).unwrap();
    poll(list["items"].as_array().unwrap().clone())
}

/// The objects, as kubectl prints them.
pub(super) fn poll(objects: Vec<Value>) -> Poll {
    let list = |kind: &str| {
        let items = objects.iter().filter(|object| object["kind"] == kind);
        let items: Vec<_> = items.collect();
        Answer::Out(json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string())
    };
    let deployment = objects.iter().find(|object| {
        let kind = object["kind"].as_str().unwrap();
        kind.ends_with("Deployment")
    });
    Poll {
        deployment: match deployment {
            Some(deployment) => Answer::Out(deployment.to_string()),
            None => Answer::Err(
                "Error from server (NotFound): deployments.apps \"web\" not found\n".to_owned(),
            ),
        },
        sets: list("ReplicaSet"),
        pods: list("Pod"),
    }
}

impl Poll {
    /// What it prints.
    pub(super) fn objects(&self) -> Vec<Value> {
        let answers = [&self.deployment, &self.sets, &self.pods];
        let objects = answers.into_iter().flat_map(|answer| {
            let Answer::Out(text) = answer else {
                panic!("not printed");
            };
            let value: Value = serde_json::from_str(text).unwrap();
            match value["items"].as_array() {
                Some(items) => items.clone(),
                None => vec![value],
            }
        });
        objects.collect()
    }
}

/// A poll at which no call succeeds.
fn failing(text: &str) -> Poll {
    let answer = Answer::Err(format!("{text}\n"));
    Poll {
        deployment: answer.clone(),
        sets: answer.clone(),
        pods: answer,
    }
}

fn forbidden(what: &str) -> Answer {
    Answer::Err(format!("{}\n", forbidden_text(what)))
}

fn forbidden_text(what: &str) -> String {
    format!(
        "Error from server (Forbidden): {what} is forbidden: User \"dev\" cannot list resource \"{what}\""
    )
}

const DOWN: &str = "The connection to the server 127.0.0.1:1 was refused - did you specify the right host or port?";

fn from_yaml(yaml: &str) -> Value {
    super::input::from_yaml(yaml)
}

/// A rollout of two pods of which so many are available.
pub(super) fn rollout(available: i32) -> Poll {
    let set = REPLICA_SET
        .replace("name: web-1", "name: web-79c545b47")
        .replace("pod-template-hash: \"1\"", "pod-template-hash: 79c545b47")
        .replace("image: web:0", "image: web:1")
        .replace("  replicas: 0\n  selector", "  replicas: 2\n  selector")
        .replace(
            "  replicas: 0\n  terminating",
            &format!("  replicas: 2\n  readyReplicas: {available}\n  availableReplicas: {available}\n  terminating"),
        );
    let mut deployment = from_yaml(DEPLOYMENT);
    deployment["status"] = json!({"observedGeneration": 1});
    poll(vec![deployment, from_yaml(&set)])
}

fn nothing_yet() -> Poll {
    poll(vec![from_yaml(DEPLOYMENT)])
}

/// The calls of one poll of `web`, whose selector is `app=web`.
fn calls_of(verb: &str, told: &str) -> Vec<String> {
    calls_by("app=web", verb, told)
}

fn calls_by(selector: &str, verb: &str, told: &str) -> Vec<String> {
    let mut calls = vec![format!("get deploy web {OPTIONS}{told}")];
    calls.push(match verb {
        "plan" => format!("get rs {OPTIONS}{told}"),
        _ => format!("get rs --selector={selector} {OPTIONS}{told}"),
    });
    if !["history", "undo"].contains(&verb) {
        calls.push(format!("get pods --selector={selector} {OPTIONS}{told}"));
    }
    calls
}

#[test]
fn kubectl_is_asked_for_what_is_needed() {
    let stuck = "stuck-bad-image";
    let selector = "app.kubernetes.io/name=web";
    let now = super::examples::time_of(stuck);
    let file = format!("examples/{stuck}.json");
    let expected = super::rollplan(&["status", "-f", &file, "--now", &now], "").out;
    let all = [
        "-n",
        "shop",
        "--context",
        "my context",
        "--kubeconfig=/no/such",
    ];
    let options = " --context=my context --kubeconfig=/no/such --namespace=shop";
    for (name, args, told) in [
        ("web", &[][..], ""),
        ("deploy/web", &["--namespace=shop"], " --namespace=shop"),
        ("deployment/web", &all, options),
        ("deployments.apps/web", &all, options),
    ] {
        let kubectl = Kubectl::new(&[example(stuck)]);
        let run = kubectl.run(&[&["status", name, "--now", &now], args].concat());
        assert_eq!((run.exit, run.err.as_str()), (1, ""));
        // The remedies are for the same cluster.
        let out = match told.contains("--context") {
            true => expected.replace(
                "rollplan undo ",
                "rollplan undo --context='my context' --kubeconfig=/no/such ",
            ),
            false => expected.clone(),
        };
        let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(words(&run.out), words(&out));
        assert_eq!(kubectl.calls(), calls_by(selector, "status", told));
        assert_eq!(kubectl.event_calls(), 1);
    }
    for verb in ["plan", "history", "undo"] {
        let kubectl = Kubectl::new(&[example(stuck)]);
        let run = kubectl.run(&[verb, "web", "-n", "shop", "--now", &now]);
        assert_eq!((run.exit, run.err.as_str()), (0, ""), "{verb}");
        let out = super::answered(&[verb, "-f", &file, "--now", &now], "");
        assert_eq!(run.out, out, "{verb}");
        let told = " --namespace=shop";
        assert_eq!(kubectl.calls(), calls_by(selector, verb, told));
    }
}

/// No list is without a selector, except that of the ReplicaSets for a plan.
#[test]
fn selectors_are_passed_on() {
    let mut deployment = from_yaml(DEPLOYMENT);
    deployment["spec"]["selector"] = json!({
        "matchLabels": {"app": "web", "zone": ""},
        "matchExpressions": [
            {"key": "tier", "operator": "In", "values": ["b", "a"]},
            {"key": "env", "operator": "NotIn", "values": ["test", ""]},
            {"key": "example.com/paid", "operator": "Exists"},
            {"key": "beta", "operator": "DoesNotExist"},
        ],
    });
    let kubectl = Kubectl::new(&[poll(vec![deployment])]);
    let run = kubectl.run(&["status", "web"]);
    assert_eq!((run.exit, run.err.as_str()), (3, ""));
    let selector = "app=web,!beta,env notin (,test),example.com/paid,tier in (a,b),zone=";
    assert_eq!(
        kubectl.calls()[1..],
        [
            format!("get rs --selector={selector} {OPTIONS}"),
            format!("get pods --selector={selector} {OPTIONS}")
        ]
    );
}

/// An empty selector would list everything, and kubectl cannot take any other of these.
#[test]
fn nothing_is_listed_without_a_selector() {
    let labels = |count: usize| -> serde_json::Map<String, Value> {
        let key = |n: usize| format!("{}{n}", "k".repeat(50));
        (0..count).map(|n| (key(n), json!("x"))).collect()
    };
    for (selector, exit, expected) in [
        (json!({}), 1, ""),
        (
            json!({"matchLabels": {"app": "a,b"}}),
            2,
            "error: what kubectl printed (PlannedDeployment shop/web): spec.selector.matchLabels[\"app\"]: ",
        ),
        (
            json!({"matchExpressions": [{"key": "app", "operator": "Like"}]}),
            2,
            "error: what kubectl printed (PlannedDeployment shop/web): spec.selector.matchExpressions[0].operator: ",
        ),
        (
            json!({"matchLabels": labels(2000)}),
            2,
            "error: what kubectl printed: spec.selector: ",
        ),
    ] {
        let mut owner = from_yaml(DEPLOYMENT);
        owner["apiVersion"] = json!("apps.rollplan.dev/v1alpha1");
        owner["kind"] = json!("PlannedDeployment");
        owner["spec"]["selector"] = selector;
        let kubectl = Kubectl::new(&[poll(vec![owner])]);
        let run = kubectl.run(&["status", "pdeploy/web"]);
        assert_eq!(run.exit, exit, "{}", run.err);
        assert!(run.err.starts_with(expected), "{}", run.err);
        assert_eq!(kubectl.calls().len(), 1);
    }
}

/// A ReplicaSet of somebody else in the list for a plan.
#[test]
fn what_others_have_does_not_matter() {
    let mut set = from_yaml(REPLICA_SET);
    set["metadata"]["name"] = json!("theirs");
    set["metadata"]["uid"] = json!("theirs");
    set["metadata"]["ownerReferences"][0]["uid"] = json!("d9");
    set["spec"]["template"]["spec"]["tolerations"] =
        json!([{"operator": "Exists", "tolerationSeconds": i64::MAX}]);
    let kubectl = Kubectl::new(&[poll(vec![from_yaml(DEPLOYMENT), set])]);
    let run = kubectl.run(&["plan", "web", "-o", "json"]);
    assert_eq!((run.exit, run.err.as_str()), (0, ""));
    assert_eq!(
        super::summaries(&run.out),
        ["create ReplicaSet web-79c545b47 with 2 replicas"]
    );
}

#[test]
fn commands_are_for_the_cluster_that_was_read() {
    let kubectl = Kubectl::new(&[example("after-undo")]);
    let run = kubectl.run(&["undo", "web", "--context", "it's", "-o", "kubectl"]);
    assert_eq!(run.exit, 0, "{}", run.err);
    let command = "\nkubectl patch --context=\"it'\\''s\" deployment.apps/web -n shop --type=json ";
    assert!(run.out.contains(command), "{}", run.out);
}

/// All pods are listed, so none that are not listed are waited for.
#[test]
fn pods_are_complete() {
    let mut deployment = from_yaml(DEPLOYMENT);
    deployment["spec"]["strategy"] = json!({"type": "Recreate"});
    let mut set = from_yaml(REPLICA_SET);
    set["status"]
        .as_object_mut()
        .unwrap()
        .remove("terminatingReplicas");
    let kubectl = Kubectl::new(&[poll(vec![deployment, set])]);
    let run = kubectl.run(&["plan", "web", "-o", "json"]);
    assert_eq!((run.exit, run.err.as_str()), (0, ""));
    assert_eq!(
        super::summaries(&run.out),
        ["create ReplicaSet web-79c545b47 with 2 replicas"]
    );
}

#[test]
fn a_planned_deployment() {
    let mut owner = from_yaml(DEPLOYMENT);
    owner["apiVersion"] = json!("apps.rollplan.dev/v1alpha1");
    owner["kind"] = json!("PlannedDeployment");
    let kubectl = Kubectl::new(&[poll(vec![owner])]);
    let run = kubectl.run(&["plan", "pdeploy/web", "-o", "json"]);
    assert_eq!((run.exit, run.err.as_str()), (0, ""));
    let mut calls = calls_of("plan", "");
    calls[0] = format!("get planneddeployments.apps.rollplan.dev web {OPTIONS}");
    assert_eq!(kubectl.calls(), calls);
}

#[test]
fn a_deployment_that_does_not_exist() {
    for (args, place) in [
        (&["status", "web", "-n", "shop"][..], "in namespace shop"),
        (
            &["wait", "deploy/web"],
            "in the namespace that kubectl uses",
        ),
    ] {
        let kubectl = Kubectl::new(&[poll(vec![])]);
        let run = kubectl.run(args);
        assert_eq!((run.exit, run.out.as_str()), (2, ""));
        assert_eq!(
            run.err,
            format!("error: Deployment web not found {place}\n")
        );
        assert_eq!(kubectl.calls().len(), 1);
    }
}

#[test]
fn failures_of_kubectl_are_told_apart() {
    let missing = "error: the server doesn't have a resource type \"planneddeployments\"";
    for (text, exit, meaning) in [
        (
            forbidden_text("deployments"),
            2,
            "missing permission: ".to_owned(),
        ),
        (
            missing.to_owned(),
            2,
            "the cluster does not serve this kind (is its CustomResourceDefinition installed?): "
                .to_owned(),
        ),
        (
            DOWN.to_owned(),
            4,
            "the cluster does not answer: ".to_owned(),
        ),
        (
            "error: You must be logged in to the server (Unauthorized)".to_owned(),
            4,
            "exit status: 1: ".to_owned(),
        ),
    ] {
        for verb in ["plan", "status", "history", "undo"] {
            let kubectl = Kubectl::new(&[failing(&text)]);
            let run = kubectl.run(&[verb, "web"]);
            assert_eq!((run.exit, run.out.as_str()), (exit, ""), "{verb}");
            let expected = format!("error: kubectl get deploy web {OPTIONS}: {meaning}{text}\n");
            assert_eq!(run.err, expected, "{verb}");
        }
    }
    let output = command(&["status", "web"])
        .env("KUBECTL", "/no/such/kubectl")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(4));
    let expected = format!(
        "error: /no/such/kubectl get deploy web {OPTIONS}: cannot be run: No such file or directory (os error 2)\n"
    );
    assert_eq!(String::from_utf8(output.stderr).unwrap(), expected);
    let mut poll = nothing_yet();
    poll.deployment = Answer::Out("no JSON: [".to_owned());
    let run = Kubectl::new(&[poll]).run(&["status", "web"]);
    assert_eq!(run.exit, 2);
    assert!(
        run.err.starts_with("error: what kubectl printed: line "),
        "{}",
        run.err
    );
}

#[test]
fn errors_of_kubectl_steer_no_terminal() {
    let nasty = "Warning: \u{1b}[31m\u{9b}2J\u{202e}ü\nError from server (Invalid): \u{1b}[31m\u{9b}2J\u{202e}ü";
    let run = Kubectl::new(&[failing(nasty)]).run(&["status", "web"]);
    assert_eq!(run.exit, 4, "{}", run.err);
    for begin in ["Warning: ", "Error from server (Invalid): "] {
        let escaped = format!("{begin}\\u{{1b}}[31m\\u{{9b}}2J\\u{{202e}}ü\n");
        assert!(run.err.contains(&escaped), "{}", run.err);
    }
    assert!(
        !run.err.contains(['\u{1b}', '\u{9b}', '\u{202e}']),
        "{:?}",
        run.err
    );
}

/// Pods explain a rollout, and the answer is useful without them. Nothing is without ReplicaSets.
#[test]
fn pods_may_be_forbidden() {
    let stuck = "stuck-bad-image";
    let now = super::examples::time_of(stuck);
    let mut poll = example(stuck);
    poll.pods = forbidden("pods");
    let run = Kubectl::new(&[poll.clone()]).run(&["status", "web", "--now", &now]);
    assert_eq!(run.exit, 1, "{}", run.err);
    assert!(run.err.starts_with("note: "), "{}", run.err);
    assert!(run.err.contains(&forbidden_text("pods")), "{}", run.err);
    assert_eq!(run.err.lines().count(), 1, "{}", run.err);
    assert!(!run.out.contains("cannot be pulled"), "{}", run.out);

    // It is told once, however often it is polled.
    let polls = [nothing_yet(), rollout(1), rollout(2)].map(|mut poll| {
        poll.pods = forbidden("pods");
        poll
    });
    let run = Kubectl::new(&polls).watch(&["wait", "web"]);
    assert_eq!(run.exit, 0, "{}", run.err);
    assert_eq!(run.err.lines().count(), 1, "{}", run.err);

    // Strategy Recreate cannot know then that old pods have ended.
    let mut deployment = from_yaml(DEPLOYMENT);
    deployment["spec"]["strategy"] = json!({"type": "Recreate"});
    let mut recreate = self::poll(vec![deployment, from_yaml(REPLICA_SET)]);
    recreate.pods = forbidden("pods");
    let run = Kubectl::new(&[recreate]).run(&["plan", "web", "-o", "json"]);
    assert_eq!(run.exit, 0, "{}", run.err);
    assert_eq!(super::summaries(&run.out), [""; 0]);
    assert!(run.out.contains("PODS_INCOMPLETE"), "{}", run.out);

    poll.sets = forbidden("replicasets");
    let run = Kubectl::new(&[poll]).run(&["status", "web"]);
    assert_eq!((run.exit, run.out.as_str()), (2, ""));
    assert!(
        run.err.contains("get rs") && run.err.contains("missing permission"),
        "{}",
        run.err
    );
}

/// As kubectl runs its plugins: by their names.
#[test]
fn it_is_a_plugin_of_kubectl() {
    let kubectl = Kubectl::new(&[]);
    for program in ["kubectl-rollplan", "/usr/local/bin/kubectl-rollplan"] {
        let run = kubectl.run_as(program, &["status", "--help"]);
        assert_eq!(run.exit, 0);
        assert!(
            run.out
                .contains("\nUsage: kubectl rollplan status [OPTIONS] [NAME]..."),
            "{}",
            run.out
        );
        let run = kubectl.run_as(program, &[]);
        assert_eq!(run.exit, 2);
        assert!(
            run.err.contains("Usage: kubectl rollplan <COMMAND>"),
            "{}",
            run.err
        );
    }
    let run = kubectl.run(&["status", "--help"]);
    assert!(
        run.out
            .contains("\nUsage: rollplan status [OPTIONS] [NAME]..."),
        "{}",
        run.out
    );
}

#[test]
fn waiting_ends_with_the_rollout() {
    // What has not changed is not printed twice.
    let calls = [
        nothing_yet(),
        nothing_yet(),
        rollout(0),
        rollout(1),
        rollout(1),
        rollout(2),
    ];
    let first = "0 of 2 updated";
    for args in [
        &["status", "--watch", "deploy/web"][..],
        &["wait", "web", "--for=complete"],
    ] {
        let kubectl = Kubectl::new(&calls);
        let run = kubectl.watch(&[args, &["-n", "shop"]].concat());
        assert_eq!((run.exit, run.err.as_str()), (0, ""), "{}", run.out);
        let lines: Vec<&str> = run.out.lines().collect();
        assert_eq!(lines.len(), 4, "{}", run.out);
        assert!(lines[0].contains(first), "{}", run.out);
        assert!(lines[2].contains("1 of 2 available"), "{}", run.out);
        assert!(lines[3].contains("successfully rolled out"), "{}", run.out);
        assert!(!run.out.contains('\u{1b}'), "{}", run.out);
        let told = calls_of("status", " --namespace=shop");
        assert_eq!(kubectl.calls(), vec![told; calls.len()].concat());
    }
    let kubectl = Kubectl::new(&calls);
    let run = kubectl.watch(&["wait", "web", "-o", "json"]);
    assert_eq!(run.exit, 0);
    let phases = run.out.lines().map(|line| {
        let answer: Value = serde_json::from_str(line).unwrap();
        answer["report"]["phase"].as_str().unwrap().to_owned()
    });
    let phases: Vec<String> = phases.collect();
    let going = "PHASE_PROGRESSING".to_owned();
    assert_eq!(
        phases,
        [
            going.clone(),
            going.clone(),
            going,
            "PHASE_COMPLETE".to_owned()
        ]
    );
}

#[test]
fn waiting_ends_when_it_is_in_vain() {
    let kubectl = Kubectl::new(&[nothing_yet(), example("stuck-bad-image")]);
    let run = kubectl.watch(&["wait", "web"]);
    assert_eq!(run.exit, 1);
    // It has another UID.
    assert_eq!(run.err.lines().count(), 1, "{}", run.err);
    let cause = "image registry.example/web:404 of container web cannot be pulled";
    assert!(
        run.out.lines().nth(1).unwrap().contains(cause),
        "{}",
        run.out
    );
    // The causes follow, with what would fix them.
    assert!(
        run.out.contains("remedy: check the registry"),
        "{}",
        run.out
    );

    for args in [&["status", "-w"][..], &["wait"]] {
        let kubectl = Kubectl::new(&[nothing_yet(), poll(vec![])]);
        let run = kubectl.watch(&[args, &["web"]].concat());
        assert_eq!(run.exit, 1);
        assert_eq!(
            run.err,
            "error: the Deployment was deleted while waiting: Deployment web not found in the namespace that kubectl \
             uses\n"
        );
    }
}

#[test]
fn waiting_ends_with_the_time() {
    for args in [&["wait", "web"][..], &["status", "web", "--watch"]] {
        let kubectl = Kubectl::new(&[nothing_yet()]);
        let run = kubectl.run(&[args, &["--timeout", "0"]].concat());
        assert_eq!(
            (run.exit, run.err.as_str()),
            (3, "note: still in progress after 0s\n")
        );
        assert_eq!(kubectl.calls().len(), 3);
    }
}

#[test]
fn failed_polls_are_repeated() {
    let down = || failing(DOWN);
    let mut half = rollout(1);
    half.pods = Answer::Err(format!("{DOWN}\n"));
    for args in [&["status", "--watch"][..], &["wait"]] {
        // The first may fail as well, and a part of one.
        let polls = [
            down(),
            down(),
            nothing_yet(),
            half.clone(),
            down(),
            rollout(2),
        ];
        let kubectl = Kubectl::new(&polls);
        let run = kubectl.watch(&[args, &["web"]].concat());
        assert_eq!(run.exit, 0, "{}", run.err);
        let notes: Vec<&str> = run.err.lines().collect();
        assert_eq!(notes.len(), 4, "{}", run.err);
        for note in notes {
            assert!(
                note.starts_with("note: poll failed: kubectl get "),
                "{note}"
            );
            assert!(note.ends_with(DOWN), "{note}");
        }
        // Until there are too many in a row.
        let kubectl = Kubectl::new(&[nothing_yet(), down()]);
        let run = kubectl.watch(&[args, &["web"]].concat());
        assert_eq!(run.exit, 4);
        assert_eq!(kubectl.calls().len(), 3 + 5);
        assert!(
            run.err
                .lines()
                .last()
                .unwrap()
                .starts_with("error: kubectl get deploy web ")
        );
    }
}

#[test]
fn some_failures_end_a_watch_at_once() {
    for text in [
        forbidden_text("deployments"),
        "error: the server doesn't have a resource type \"planneddeployments\"".to_owned(),
    ] {
        for before in [vec![], vec![nothing_yet()]] {
            let calls = 3 * before.len() + 1;
            let kubectl = Kubectl::new(&[before, vec![failing(&text)]].concat());
            let run = kubectl.watch(&["wait", "web"]);
            assert_eq!(run.exit, 2, "{}", run.err);
            assert_eq!(kubectl.calls().len(), calls);
        }
    }
}

/// A credential plugin that waits for somebody who is not there: kubectl waits for it, and it holds kubectl's pipes.
const HANGS: &str = "sleep 60 & echo $! >\"$FAKE_KUBECTL/plugin\"; wait";

/// The process that kubectl has started.
fn plugin(kubectl: &Kubectl) -> String {
    let pid = fs::read_to_string(kubectl.file("plugin")).unwrap();
    pid.trim().to_owned()
}

/// Waits until a process has ended. One that nobody has asked how it ended is a zombie.
fn assert_ends(pid: &str) {
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        let stat = fs::read_to_string(Path::new("/proc").join(pid).join("stat"));
        let is_running = stat.is_ok_and(|stat| !stat.contains(") Z "));
        if !is_running {
            return;
        }
        assert!(Instant::now() < deadline, "{pid} still runs");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_kubectl_that_hangs_is_ended_at_the_timeout() {
    let hanging = || {
        let mut poll = nothing_yet();
        poll.deployment = Answer::Script(HANGS.to_owned());
        poll
    };
    let mut half = nothing_yet();
    half.pods = Answer::Script(HANGS.to_owned());
    for (polls, last_note) in [
        (vec![hanging()], "note: no answer within 5s"),
        (
            vec![nothing_yet(), hanging()],
            "note: still in progress after 5s",
        ),
        (vec![half], "note: no answer within 5s"),
    ] {
        let kubectl = Kubectl::new(&polls);
        let args = ["wait", "web", "--timeout=5s", "--interval=0"];
        let run = kubectl.run(&args);
        assert_eq!(run.exit, 3, "{}", run.err);
        let lines: Vec<&str> = run.err.lines().collect();
        assert!(lines[0].contains(": no answer within "), "{}", run.err);
        assert_eq!(lines[1..], [last_note]);
        assert_ends(&plugin(&kubectl));
    }
}

/// What kubectl leaves behind may keep its pipes open, and is nobody to wait for.
#[test]
fn a_process_that_kubectl_leaves_behind_is_not_waited_for() {
    let mut poll = rollout(2);
    let Answer::Out(deployment) = poll.deployment else {
        panic!("no Deployment");
    };
    poll.deployment = Answer::Script(
        "sleep 60 & echo $! >\"$FAKE_KUBECTL/plugin\"; cat \"$FAKE_KUBECTL/deployment\"".to_owned(),
    );
    let kubectl = Kubectl::new(&[poll]);
    fs::write(kubectl.file("deployment"), deployment).unwrap();
    let run = kubectl.run(&["status", "web"]);
    assert_eq!((run.exit, run.err.as_str()), (0, ""));
    // It is still there, so that nobody has waited for its end.
    let killed = Command::new("kill").arg(plugin(&kubectl)).status().unwrap();
    assert!(killed.success());
}

#[test]
fn what_kubectl_prints_beside_errors_is_passed_on() {
    let mut poll = rollout(2);
    let Answer::Out(pods) = poll.pods else {
        panic!("no pods");
    };
    poll.pods = Answer::Script(format!(
        "printf 'Warning: \\033[31mold\\n' >&2; cat <<'EOF'\n{pods}\nEOF\n"
    ));
    let run = Kubectl::new(&[poll]).run(&["status", "web"]);
    assert_eq!(
        (run.exit, run.err.as_str()),
        (0, "Warning: \\u{1b}[31mold\n")
    );
}

#[test]
fn what_does_not_go_together() {
    let file = "examples/mid-rollout.json";
    for (args, expected) in [
        (&["status", "web", "-f", file][..], "cannot be used with"),
        (&["status", "-f", file, "--watch"], "cannot be used with"),
        (&["status", "web", "--timeout=1s"], "--watch"),
        (
            &["status", "web", "--deployment=web"],
            "cannot be used with",
        ),
        (
            &["status", "web", "--pods-complete"],
            "cannot be used without -f",
        ),
        (
            &["plan", "web", "--replica-sets-complete"],
            "cannot be used without -f",
        ),
        (
            &["status", "web", "--watch", "--now=2026-11-20T23:26:19Z"],
            "cannot be used with",
        ),
        (
            &["status", "-f", file, "-n", "shop"],
            "error: --namespace is for kubectl, and cannot be used with -f\n",
        ),
        (
            &["status", "rs/web"],
            "only Deployments (for example deploy/web) and PlannedDeployments (for example pdeploy/web) are supported",
        ),
        (
            &["wait", "web", "--for=ready"],
            "[possible values: complete, available, updated, deleted]",
        ),
        (
            &["wait", "web", "--timeout=soon"],
            "not a duration, for example 90s, 10m or 1h30m",
        ),
        (&["history"], "--filename <FILE>"),
        (&["undo", "-f", file, "--to-revision=-1"], "-1"),
        (
            &["undo", "-f", file, "--to-revision=x"],
            "invalid value 'x'",
        ),
        (
            &["history", "-f", file, "-o", "kubectl"],
            "[possible values: table, json, yaml]",
        ),
        (
            &["plan", "-f", file, "-o", "kubectl"],
            "pass --takeover if it does not",
        ),
        (
            &["plan", "-f", file, "--takeover"],
            "--takeover can only be used with -o kubectl",
        ),
    ] {
        let err = super::refused(args, "");
        assert!(err.contains(expected), "{args:?}: {err}");
    }
}

/// [`rollout`] with a pod whose container waits for this reason.
fn waiting(reason: &str, message: &str) -> Poll {
    let mut poll = rollout(0);
    let Answer::Out(sets) = &poll.sets else {
        unreachable!()
    };
    let mut sets: Value = serde_json::from_str(sets).unwrap();
    let set = &mut sets["items"][0];
    set["spec"]["replicas"] = json!(1);
    set["status"]["replicas"] = json!(1);
    let state = json!({"waiting": {"reason": reason, "message": message}});
    let pod = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "web-1-x",
            "namespace": "shop",
            "uid": "pod-uid",
            "ownerReferences": [{
                "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": set["metadata"]["name"],
                "uid": set["metadata"]["uid"], "controller": true,
            }],
        },
        "status": {
            "phase": "Pending",
            "containerStatuses": [{"name": "web", "image": "web:1", "state": state, "restartCount": 0}],
        },
    });
    poll.sets = Answer::Out(sets.to_string());
    poll.pods =
        Answer::Out(json!({"apiVersion": "v1", "kind": "List", "items": [pod]}).to_string());
    poll
}

#[test]
fn waiting_ends_as_soon_as_a_failure_is_certain() {
    let wrong = || {
        waiting(
            "InvalidImageName",
            "couldn't parse image name: invalid reference format",
        )
    };
    let kubectl = Kubectl::new(&[nothing_yet(), wrong()]);
    let run = kubectl.run(&["wait", "web", "--interval=0"]);
    assert_eq!((run.exit, run.err.as_str()), (1, ""), "{}", run.out);
    let cause = "image web:1 of container web cannot be pulled (1 of 1 new pod: web-1-x InvalidImageName): invalid \
                 reference format";
    assert_eq!(run.out.matches(cause).count(), 1, "{}", run.out);
    assert!(
        run.out
            .contains("    remedy: correct the name of the image\n"),
        "{}",
        run.out
    );
    // Not if the user wants to wait for the deadline.
    let kubectl = Kubectl::new(&[wrong(), rollout(2)]);
    let run = kubectl.watch(&["wait", "web", "--fail-fast=off"]);
    assert_eq!((run.exit, run.err.as_str()), (0, ""), "{}", run.out);
    // Nor for a failure that may pass, unless the user says so.
    let may_pass = || waiting("ErrImagePull", "dial tcp: connection refused");
    let kubectl = Kubectl::new(&[may_pass(), rollout(2)]);
    assert_eq!(kubectl.watch(&["wait", "web"]).exit, 0);
    let kubectl = Kubectl::new(&[may_pass(), rollout(2)]);
    assert_eq!(
        kubectl
            .watch(&["wait", "web", "--fail-on", "crash-loop=3,image-pull=0s"])
            .exit,
        1
    );
    for (wrong, text) in [
        (
            "image-pull=soon",
            "not a duration, for example image-pull=30s",
        ),
        (
            "crash-loop=30s",
            "not a number of restarts, for example crash-loop=3",
        ),
        (
            "other=3",
            "not a class of failures; one of image-name, image-pull, ",
        ),
        ("image-pull=1s,image-pull=2s", "failOn[1].failure"),
    ] {
        let run = Kubectl::new(&[may_pass()]).run(&["wait", "web", "--fail-on", wrong]);
        assert_eq!(run.exit, 2, "{wrong}");
        assert!(run.err.contains(text), "{}", run.err);
    }
}

#[test]
fn events_make_a_verdict_certain_and_their_absence_does_not_fail_it() {
    let missing = || waiting("ContainerCreating", "");
    let text = "MountVolume.SetUp failed for volume \"tls\" : secret \"web-tls\" not found";
    let event = |uid: &str| {
        json!({
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": "x", "namespace": "shop"},
            "involvedObject": {"kind": "Pod", "name": "web-1-x", "uid": uid},
            "reason": "FailedMount",
            "message": text,
            "type": "Warning",
            "count": 9,
            "firstTimestamp": "2026-11-20T23:00:00Z",
            "lastTimestamp": "2026-11-20T23:02:08Z",
            "eventTime": null,
            "source": {"component": "kubelet"},
        })
    };
    let kubectl = Kubectl::new(&[missing()]);
    kubectl.add_events(1, &[event("pod-uid")]);
    let run = kubectl.run(&["status", "web"]);
    assert_eq!((run.exit, run.err.as_str()), (1, ""), "{}", run.out);
    assert!(
        run.out.contains("secret \"web-tls\" not found"),
        "{}",
        run.out
    );
    assert!(
        run.out
            .contains("remedy: create the missing secret web-tls in namespace shop"),
        "{}",
        run.out
    );
    let kubectl = Kubectl::new(&[missing()]);
    kubectl.add_events(1, &[event("of-another")]);
    assert_eq!(kubectl.run(&["status", "web"]).exit, 3);
    // Files may have events too.
    let objects =
        [&missing().deployment, &missing().sets, &missing().pods].map(|answer| match answer {
            Answer::Out(text) => text.clone(),
            Answer::Err(_) | Answer::Script(_) => unreachable!(),
        });
    let events = event("pod-uid").to_string();
    let input = [&objects[..], &[events]].concat().join("\n---\n");
    let run = super::rollplan(&["status", "-f", "-", "--replica-sets-complete"], &input);
    assert_eq!((run.exit, run.err.as_str()), (1, ""), "{}", run.out);
    // Without the permission there is a note, once, and the verdict is less certain.
    let kubectl = Kubectl::new(&[missing(), missing(), rollout(2)]);
    fs::write(kubectl.file("events.1.err"), forbidden_text("events")).unwrap();
    let run = kubectl.watch(&["wait", "web"]);
    assert_eq!(run.exit, 0, "{}", run.err);
    assert_eq!(
        run.err.matches("the verdict does without events").count(),
        1,
        "{}",
        run.err
    );
    assert_eq!(kubectl.event_calls(), 1);
    // An API server that does not list them now is asked again.
    let kubectl = Kubectl::new(&[missing(), missing(), rollout(2)]);
    fs::write(kubectl.file("events.1.err"), DOWN).unwrap();
    let run = kubectl.watch(&["wait", "web"]);
    assert_eq!((run.exit, run.err.as_str()), (0, ""));
    assert_eq!(kubectl.event_calls(), 2);
}

#[test]
fn goals_other_than_complete_are_waited_for() {
    let kubectl = Kubectl::new(&[nothing_yet(), rollout(0)]);
    let run = kubectl.watch(&["wait", "web", "--for=updated"]);
    assert_eq!((run.exit, run.err.as_str()), (0, ""), "{}", run.out);
    assert_eq!(kubectl.calls().len(), 6);
    let kubectl = Kubectl::new(&[nothing_yet(), rollout(1), rollout(2)]);
    let run = kubectl.watch(&["wait", "web", "--for=available"]);
    assert_eq!((run.exit, run.err.as_str()), (0, ""), "{}", run.out);
    assert_eq!(kubectl.calls().len(), 9);
    for polls in [vec![rollout(2), poll(vec![])], vec![poll(vec![])]] {
        let kubectl = Kubectl::new(&polls);
        let run = kubectl.watch(&["wait", "web", "--for=deleted"]);
        assert_eq!((run.exit, run.err.as_str()), (0, ""), "{}", run.out);
    }
}

#[test]
fn deployment_that_is_created_again_is_told_by_its_uid() {
    let mut again = nothing_yet();
    if let Answer::Out(text) = &mut again.deployment {
        let mut deployment: Value = serde_json::from_str(text).unwrap();
        deployment["metadata"]["uid"] = json!("another");
        *text = deployment.to_string();
    }
    let kubectl = Kubectl::new(&[nothing_yet(), again.clone(), rollout(2)]);
    let run = kubectl.watch(&["wait", "web"]);
    assert_eq!(run.exit, 0, "{}", run.err);
    let note =
        "note: Deployment shop/web was deleted and created again while waiting: its UID was ";
    assert!(run.err.starts_with(note), "{}", run.err);
    assert!(run.err.contains(", and is another now\n"), "{}", run.err);
    let kubectl = Kubectl::new(&[nothing_yet(), again]);
    assert_eq!(kubectl.watch(&["wait", "web", "--for=deleted"]).exit, 0);
}

#[test]
fn log_of_the_failing_container_is_printed() {
    let kubectl = Kubectl::new(&[example("stuck-crash-loop")]);
    fs::write(
        kubectl.file("log"),
        "connecting\nfatal: \u{1b}[31mno database\n",
    )
    .unwrap();
    let run = kubectl.run(&["wait", "web", "-n", "shop", "--timeout=0", "--logs"]);
    assert_ne!(run.exit, 0);
    let end = "  | connecting\n  | fatal: \\u{1b}[31mno database\n";
    assert!(run.out.ends_with(end), "{}", run.out);
    let calls = kubectl.calls();
    let call = calls.last().unwrap();
    assert!(
        call.starts_with("logs web-")
            && call.ends_with(" --tail=20 --request-timeout=30s --namespace=shop"),
        "{call}"
    );
}
