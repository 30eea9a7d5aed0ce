//! Objects that no rule judges, and the conditions and values that `--for` names instead.

use std::fs;

use serde_json::{Value, json};

use super::kinds::alone;
use super::kubectl::{Answer, DOWN, Kubectl, OPTIONS, Poll, forbidden_text, poll, rollout};
use super::{Run, Scratch, refused, rollplan};

/// A custom resource with a status that no rule knows, or without one.
fn thing(name: &str, status: Value) -> Value {
    let mut thing = json!({
        "apiVersion": "example.com/v1", "kind": "Thing",
        "metadata": {"name": name, "namespace": "shop", "uid": format!("thing-{name}"), "generation": 2},
        "spec": {"size": 1},
        "settings": [{"name": "first"}],
    });
    if !status.is_null() {
        thing["status"] = status;
    }
    thing
}

fn conditions(status: &str, generation: i64) -> Value {
    json!({"conditions": [{"type": "Finished", "status": status, "observedGeneration": generation}]})
}

/// A poll that returns a list of these objects.
fn list(things: &[Value]) -> Poll {
    let list = json!({"apiVersion": "v1", "kind": "List", "items": things});
    Poll {
        deployment: Answer::Out(list.to_string()),
        ..poll(vec![])
    }
}

fn things(polls: &[Value]) -> Kubectl {
    let polls: Vec<Poll> = polls.iter().cloned().map(alone).collect();
    Kubectl::new(&polls)
}

fn wait(kubectl: &Kubectl, goal: &str) -> Run {
    kubectl.watch(&["wait", "things.example.com/x", "-n", "shop", "--for", goal])
}

#[test]
fn wait_ends_when_the_condition_is_met() {
    let polls = [
        thing("x", Value::Null),
        thing("x", conditions("False", 2)),
        // The controller has not observed the latest generation.
        thing("x", conditions("True", 1)),
        thing("x", conditions("True", 2)),
    ];
    for (goal, reads) in [
        ("condition=Finished", 4),
        ("condition=finished=TRUE", 4),
        ("condition=Finished=False", 2),
        (
            "jsonpath={.status.conditions[?(@.type==\"Finished\")].status}=True",
            3,
        ),
        ("jsonpath='{.status.conditions}'", 2),
        ("jsonpath=settings[0].name=first", 1),
    ] {
        let goal = goal.replace('\'', "");
        let kubectl = things(&polls);
        let run = wait(&kubectl, &goal);
        assert_eq!((run.exit, run.err.as_str()), (0, ""), "{goal}: {}", run.out);
        let calls = kubectl.calls().into_iter();
        let calls = calls.filter(|call| call.starts_with("get things.example.com x "));
        assert_eq!(calls.count(), reads, "{goal}");
    }
}

#[test]
fn conditions_apply_to_every_kind_and_to_lists() {
    let mut available = rollout(0);
    if let Answer::Out(text) = &mut available.deployment {
        let mut deployment: Value = serde_json::from_str(text).unwrap();
        deployment["status"]["conditions"] = json!([{"type": "Available", "status": "True"}]);
        *text = deployment.to_string();
    }
    let kubectl = Kubectl::new(&[rollout(2), available]);
    let run = kubectl.watch(&["wait", "web", "--for=condition=Available", "-o", "name"]);
    assert_eq!(
        (run.exit, run.out.as_str()),
        (0, "deployment.apps/web\n"),
        "{}",
        run.err
    );
    let names = ["a", "b", "c", "d", "e"];
    let all = |status: &str| names.map(|name| thing(name, conditions(status, 2)));
    let kubectl = Kubectl::new(&[list(&all("False")), list(&all("True"))]);
    let words = names.map(|name| format!("things.example.com/{name}"));
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let args = [
        &["wait", "-n", "shop", "--for=condition=Finished"],
        &words[..],
    ]
    .concat();
    let run = kubectl.watch(&args);
    assert_eq!((run.exit, run.err.as_str()), (0, ""), "{}", run.out);
    assert_eq!(kubectl.calls().len(), 2);
}

#[test]
fn unmet_condition_is_reported_at_the_timeout() {
    let file = Scratch::new("");
    let report = format!("--report=markdown={}", file.path());
    let kubectl = things(&[thing("x", conditions("False", 2))]);
    let run = kubectl.run(&[
        "wait",
        "things.example.com/x",
        "--for=condition=Finished",
        "--timeout=0",
        &report,
    ]);
    let expected = "note: still in progress after 0s\n\
                    note: Thing shop/x: condition=Finished is not met: its condition Finished is False\n";
    assert_eq!((run.exit, run.err.as_str()), (3, expected), "{}", run.out);
    let summary = fs::read_to_string(file.path()).unwrap();
    let heading = "### rollplan wait: 0 of 1 condition=Finished\n";
    assert!(summary.starts_with(heading), "{summary}");
}

#[test]
fn goals_that_cannot_be_met_are_refused() {
    for (goal, expected) in [
        (
            "done",
            "--for=done: must be complete, available, updated, deleted, condition=TYPE[=STATUS] or jsonpath=",
        ),
        (
            "condition=",
            "must be condition=TYPE or condition=TYPE=STATUS",
        ),
        ("jsonpath={..name}=x", ".. is not supported"),
        ("jsonpath={.a}=", "missing value after the path"),
    ] {
        let err = refused(&["wait", "web", &format!("--for={goal}")], "");
        assert!(err.contains(expected), "{goal}: {err}");
    }
    let kubectl = things(&[thing("x", conditions("True", 2))]);
    let run = wait(&kubectl, "jsonpath={.status.conditions}=True");
    assert_eq!(run.exit, 2, "{}", run.out);
    let expected =
        "error: --for=jsonpath={.status.conditions}=True: the path leads to a list or an object";
    assert!(run.err.starts_with(expected), "{}", run.err);
}

#[test]
fn cluster_is_asked_once_whether_a_kind_has_a_status() {
    let call = "get --raw /apis/example.com/v1 --request-timeout=30s --namespace=shop";
    let count = |kubectl: &Kubectl| {
        let calls = kubectl.calls().into_iter();
        calls.filter(|it| it == call).count()
    };
    let resources = |names: &[&str]| {
        let resources = names
            .iter()
            .map(|name| json!({"name": name, "kind": "Thing"}));
        let resources: Vec<Value> = resources.collect();
        json!({"kind": "APIResourceList", "resources": resources}).to_string()
    };
    let bare = || thing("x", Value::Null);
    let status = |kubectl: &Kubectl| kubectl.run(&["status", "things.example.com/x", "-n", "shop"]);
    // Such a kind has nothing to wait for.
    let kubectl = things(&[bare()]);
    fs::write(kubectl.file("raw.1.out"), resources(&["things"])).unwrap();
    let run = status(&kubectl);
    assert_eq!((run.exit, run.err.as_str()), (0, ""), "{}", run.out);
    assert_eq!(count(&kubectl), 1);
    // One with a status waits for its controller.
    let kubectl = things(&[bare(), bare(), bare(), thing("x", conditions("True", 2))]);
    fs::write(
        kubectl.file("raw.1.out"),
        resources(&["things", "things/status"]),
    )
    .unwrap();
    let run = wait(&kubectl, "condition=Finished");
    assert_eq!((run.exit, run.err.as_str()), (0, ""), "{}", run.out);
    assert_eq!(count(&kubectl), 1);
    // Nothing is asked about an object with a status, or of a known kind.
    let kubectl = things(&[thing("x", conditions("True", 2))]);
    status(&kubectl);
    assert_eq!(
        kubectl.calls(),
        [format!(
            "get things.example.com x {OPTIONS} --namespace=shop"
        )]
    );
    let map =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", "uid": "m"}});
    let kubectl = things(&[map]);
    assert_eq!(kubectl.run(&["status", "cm/x"]).exit, 0);
    assert_eq!(kubectl.calls().len(), 1);
}

#[test]
fn cluster_that_does_not_tell_leaves_it_unknown() {
    let bare = || thing("x", Value::Null);
    let kubectl = things(&[bare(), bare(), thing("x", conditions("True", 2))]);
    fs::write(kubectl.file("raw.1.err"), forbidden_text("things")).unwrap();
    let run = wait(&kubectl, "condition=Finished");
    assert_eq!((run.exit, run.err.lines().count()), (0, 1), "{}", run.err);
    let note = "note: it is not known whether a Thing has a status: kubectl get --raw /apis/example.com/v1 ";
    assert!(run.err.starts_with(note), "{}", run.err);
    // After a temporary failure, the next poll asks again.
    let kubectl = things(&[bare(), bare(), thing("x", conditions("True", 2))]);
    fs::write(kubectl.file("raw.1.err"), DOWN).unwrap();
    let run = wait(&kubectl, "condition=Finished");
    assert_eq!((run.exit, run.err.as_str()), (0, ""), "{}", run.out);
    let calls = kubectl.calls().into_iter();
    assert_eq!(
        calls.filter(|call| call.starts_with("get --raw ")).count(),
        2
    );
}

/// `wait` without time for a controller to write a status.
fn without_time(kubectl: &Kubectl, args: &[&str]) -> (Run, String) {
    let file = Scratch::new("");
    let report = format!("--report=junit={}", file.path());
    let more = ["wait", "-n", "shop", "--unjudged-after=0s", &report];
    let run = kubectl.watch(&[&more, args].concat());
    (run, fs::read_to_string(file.path()).unwrap())
}

fn odd(name: &str) -> Value {
    thing(name, json!({"mood": "good"}))
}

#[test]
fn named_object_that_is_not_judged_exits_with_5() {
    let (run, junit) = without_time(&things(&[odd("x")]), &["things.example.com/x"]);
    assert_eq!(run.exit, 5, "{}{}", run.out, run.err);
    // The remedy is a command that can be pasted.
    let command = run
        .out
        .lines()
        .find(|line| line.contains("rollplan wait thing"));
    let command = command.unwrap_or_else(|| panic!("{}", run.out));
    assert!(
        command.ends_with("/x -n shop --for condition=Ready"),
        "{}",
        run.out
    );
    assert!(junit.contains("<failure type=\"NOT_JUDGED\""), "{junit}");
    let run = things(&[odd("x")]).run(&["status", "things.example.com/x", "-n", "shop"]);
    assert_eq!(run.exit, 5, "{}{}", run.out, run.err);
    assert!(
        run.out.starts_with("Thing shop/x: not judged\n"),
        "{}",
        run.out
    );
    // A status that a rule knows may follow.
    let ready = json!({"conditions": [{"type": "Ready", "status": "True"}]});
    let kubectl = things(&[thing("x", Value::Null), odd("x"), thing("x", ready)]);
    let run = kubectl.watch(&["wait", "things.example.com/x", "-n", "shop"]);
    assert_eq!((run.exit, run.err.as_str()), (0, ""), "{}", run.out);
    // Before the time is over, the timeout decides.
    let run = things(&[odd("x")]).run(&["wait", "things.example.com/x", "--timeout=0"]);
    assert_eq!(run.exit, 3, "{}{}", run.out, run.err);
}

#[test]
fn found_object_that_is_not_judged_is_skipped_unless_it_is_required() {
    let manifest = Scratch::new(&format!("{}\n---\n{}\n", odd("x"), odd("y")));
    let ready = thing(
        "y",
        json!({"conditions": [{"type": "Ready", "status": "True"}]}),
    );
    let polls = || things(&[odd("x"), ready.clone()]);
    let note = "note: 1 of 2 not judged; --require-judged exits with 5 then\n";
    let (run, junit) = without_time(&polls(), &["-f", manifest.path()]);
    assert_eq!((run.exit, run.err.as_str()), (0, note), "{}", run.out);
    assert!(run.out.contains("  not judged "), "{}", run.out);
    assert!(
        junit.contains("skipped=\"1\"") && junit.contains("<skipped message="),
        "{junit}"
    );
    let (run, junit) = without_time(&polls(), &["-f", manifest.path(), "--require-judged"]);
    assert_eq!((run.exit, run.err.as_str()), (5, ""), "{}", run.out);
    assert!(junit.contains("<failure type=\"NOT_JUDGED\""), "{junit}");
    // Lists and files for status.
    let both = || {
        Kubectl::new(&[
            list(&[odd("x"), ready.clone()]),
            alone(odd("x")),
            alone(ready.clone()),
        ])
    };
    let args = ["status", "--all", "things.example.com", "-n", "shop"];
    let run = both().run(&args);
    assert_eq!((run.exit, run.err.as_str()), (0, note), "{}", run.out);
    let run = both().run(&[&args[..], &["--require-judged"]].concat());
    assert_eq!(run.exit, 5, "{}", run.err);
    let input = format!("{}\n{ready}", odd("x"));
    let run = rollplan(&["status", "-f", "-"], &input);
    assert_eq!((run.exit, run.err.as_str()), (0, note), "{}", run.out);
    let run = rollplan(&["status", "things.example.com/x", "-f", "-"], &input);
    assert_eq!(run.exit, 5, "{}", run.out);
}
