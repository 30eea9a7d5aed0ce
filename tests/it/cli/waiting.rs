//! `rollplan wait`, with a script that replaces kubectl.

use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use rollplan_world::json::{controlled, list, object};
use rustix::process::Signal;
use serde_json::{Value, json};

use super::Scratch;
use super::kubectl::{
    Answer, DOWN, Kubectl, Poll, calls_of, example, failing, forbidden_text, nothing_yet, poll,
    rollout,
};

/// A credential plugin that hangs: kubectl waits for it, and it keeps kubectl's pipes open.
const HANGS: &str = "sleep 60 & echo $! >\"$FAKE_KUBECTL/plugin\"; wait";

#[test]
fn wait_ends_when_the_rollout_completes() {
    // An unchanged state is printed once.
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
fn wait_ends_when_the_rollout_fails() {
    let kubectl = Kubectl::new(&[nothing_yet(), example("stuck-bad-image")]);
    let run = kubectl.watch(&["wait", "web"]);
    assert_eq!(run.exit, 1);
    // The Deployment has another UID.
    assert_eq!(run.err.lines().count(), 1, "{}", run.err);
    let cause = "image registry.example/web:404 of container web cannot be pulled";
    assert!(
        run.out.lines().nth(1).unwrap().contains(cause),
        "{}",
        run.out
    );
    // The causes follow, with remedies. Only the causes of several rollouts have headings.
    assert!(!run.out.contains("Deployment shop/web"), "{}", run.out);
    assert!(
        run.out.contains("remedy: read the events of the pod"),
        "{}",
        run.out
    );

    for args in [&["status", "-w"][..], &["wait"]] {
        let kubectl = Kubectl::new(&[nothing_yet(), poll(vec![])]);
        let run = kubectl.watch(&[args, &["web"]].concat());
        assert_eq!(run.exit, 1);
        assert_eq!(
            run.err,
            "error: deleted while waiting: Deployment web not found in the namespace that kubectl \
             uses\n"
        );
    }
}

#[test]
fn wait_ends_at_the_timeout() {
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
fn polling_interval_is_respected() {
    let kubectl = Kubectl::new(&[nothing_yet()]);
    let run = kubectl.run(&["wait", "web", "--interval=1m", "--timeout=500ms"]);
    assert_eq!(run.exit, 3, "{}", run.err);
    // One poll. On a slow machine, the timeout may end it.
    assert!(kubectl.calls().len() <= 3, "{:?}", kubectl.calls());
}

/// With lists, the events are read once for all objects.
#[test]
fn events_explain_failures_of_listed_deployments() {
    let text = Value::from(waiting("ContainerCreating", "").objects()).to_string();
    let copy = |name: &str| -> Vec<Value> {
        let text = text
            .replace("\"name\":\"web\"", &format!("\"name\":\"{name}\""))
            .replace("web-79c545b47", &format!("{name}-79c545b47"))
            .replace("web-1-x", &format!("{name}-x"));
        let text = ["d1", "r1"].iter().fold(text, |text, uid| {
            text.replace(&format!("\"{uid}\""), &format!("\"{uid}-{name}\""))
        });
        serde_json::from_str(&text).unwrap()
    };
    let names = ["a", "b", "c", "d", "e"];
    let objects: Vec<Value> = names.iter().flat_map(|name| copy(name)).collect();
    let of_kind = |kind: &str| {
        let items = objects.iter().filter(|object| object["kind"] == kind);
        let items: Vec<_> = items.collect();
        Answer::Out(json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string())
    };
    let kubectl = Kubectl::new(&[Poll {
        deployment: of_kind("Deployment"),
        sets: of_kind("ReplicaSet"),
        pods: of_kind("Pod"),
    }]);
    let event = json!({
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": "x", "namespace": "shop"},
        "involvedObject": {"kind": "Pod", "name": "c-x", "uid": "c-x-uid"}, "reason": "FailedMount",
        "message": "MountVolume.SetUp failed for volume \"tls\" : secret \"web-tls\" not found", "type": "Warning",
        "count": 9, "firstTimestamp": "2026-11-20T23:00:00Z", "lastTimestamp": "2026-11-20T23:02:08Z",
        "source": {"component": "kubelet"},
    });
    kubectl.add_events(1, &[event]);
    let run = kubectl.run(&[&["status", "-n", "shop"], &names[..]].concat());
    assert_eq!((run.exit, run.err.as_str()), (1, ""), "{}", run.out);
    let cause = "secret \"web-tls\" not found";
    assert!(run.out.contains("Deployment shop/c: "), "{}", run.out);
    assert!(run.out.contains(cause), "{}", run.out);
    assert_eq!((kubectl.calls().len(), kubectl.event_calls()), (3, 1));
}

#[test]
fn failed_polls_are_repeated() {
    let down = || failing(DOWN);
    let mut half = rollout(1);
    half.pods = Answer::Err(format!("{DOWN}\n"));
    for args in [&["status", "--watch"][..], &["wait"]] {
        // The first poll may fail as well, wholly or in part.
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
        // Too many consecutive failures end the wait.
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
fn permanent_errors_end_the_wait_at_once() {
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

/// The PID of the process that kubectl started.
fn plugin(kubectl: &Kubectl) -> String {
    let pid = fs::read_to_string(kubectl.file("plugin")).unwrap();
    pid.trim().to_owned()
}

/// Waits until a process has exited. A process that has not been reaped is a zombie.
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
fn hanging_kubectl_is_killed_at_the_timeout() {
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

/// A process that kubectl leaves behind may keep its pipes open, but wait does not wait for it.
#[test]
fn processes_left_by_kubectl_are_ignored() {
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
    // It is still running, so wait has not waited for it.
    let killed = Command::new("kill").arg(plugin(&kubectl)).status().unwrap();
    assert!(killed.success());
}

/// [`rollout`] with a pod whose container is waiting with this reason.
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
    let mut pod = controlled(object("v1", "Pod", "web-1-x"), set);
    pod["status"] = json!({
        "phase": "Pending",
        "containerStatuses": [{"name": "web", "image": "web:1", "state": state, "restartCount": 0}],
    });
    poll.sets = Answer::Out(sets.to_string());
    poll.pods = Answer::Out(list(&[pod]).to_string());
    poll
}

#[test]
fn wait_ends_when_a_failure_is_certain() {
    let wrong = || {
        waiting(
            "InvalidImageName",
            "couldn't parse image name \"web:1\": invalid reference format",
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
    // An option waits for the deadline instead.
    let kubectl = Kubectl::new(&[wrong(), rollout(2)]);
    let run = kubectl.watch(&["wait", "web", "--fail-fast=off"]);
    assert_eq!((run.exit, run.err.as_str()), (0, ""), "{}", run.out);
    // Failures that may resolve themselves do not end the wait, unless a rule says so.
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
            "unknown class of failures; must be one of image-name, image-pull, ",
        ),
        ("image-pull=1s,image-pull=2s", "failOn[1].failure"),
    ] {
        let run = Kubectl::new(&[may_pass()]).run(&["wait", "web", "--fail-on", wrong]);
        assert_eq!(run.exit, 2, "{wrong}");
        assert!(run.err.contains(text), "{}", run.err);
    }
}

#[test]
fn events_are_optional_and_make_verdicts_certain() {
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
    kubectl.add_events(1, &[event("web-1-x-uid")]);
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
    // Events about other objects may be invalid.
    let mut other = event("of-another");
    other["count"] = json!("many");
    kubectl.add_events(1, &[other]);
    let run = kubectl.run(&["status", "web"]);
    assert_eq!((run.exit, run.err.as_str()), (3, ""));
    // Files may contain events, too.
    let objects =
        [&missing().deployment, &missing().sets, &missing().pods].map(|answer| match answer {
            Answer::Out(text) => text.clone(),
            Answer::Err(_) | Answer::Script(_) => unreachable!(),
        });
    let events = event("web-1-x-uid").to_string();
    let input = [&objects[..], &[events]].concat().join("\n---\n");
    let run = super::rollplan(&["status", "-f", "-", "--replica-sets-complete"], &input);
    assert_eq!((run.exit, run.err.as_str()), (1, ""), "{}", run.out);
    // Without permission, there is one note, and the verdict is less certain.
    let kubectl = Kubectl::new(&[missing(), missing(), rollout(2)]);
    fs::write(kubectl.file("events.1.err"), forbidden_text("events")).unwrap();
    let run = kubectl.watch(&["wait", "web"]);
    assert_eq!(run.exit, 0, "{}", run.err);
    assert_eq!(
        run.err
            .matches("the verdict is computed without events")
            .count(),
        1,
        "{}",
        run.err
    );
    assert_eq!(kubectl.event_calls(), 1);
    // After a temporary failure, events are listed again.
    let kubectl = Kubectl::new(&[missing(), missing(), rollout(2)]);
    fs::write(kubectl.file("events.1.err"), DOWN).unwrap();
    let run = kubectl.watch(&["wait", "web"]);
    assert_eq!((run.exit, run.err.as_str()), (0, ""));
    assert_eq!(kubectl.event_calls(), 2);
}

#[test]
fn wait_supports_goals_other_than_complete() {
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
fn recreated_deployment_is_detected_by_its_uid() {
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
        "connecting\nfatal:\t\u{1b}[31mno database\n\tat main\n",
    )
    .unwrap();
    let run = kubectl.run(&["wait", "web", "-n", "shop", "--timeout=0", "--logs"]);
    assert_ne!(run.exit, 0);
    let end = "  | connecting\n  | fatal:  \\u{1b}[31mno database\n  |         at main\n";
    assert!(run.out.ends_with(end), "{}", run.out);
    let calls = kubectl.calls();
    let call = calls.last().unwrap();
    assert!(
        call.starts_with("logs web-")
            && call.ends_with(" --tail=100 --request-timeout=30s --namespace=shop"),
        "{call}"
    );
}

#[test]
fn container_without_a_log_is_named() {
    let kubectl = Kubectl::new(&[example("stuck-bad-image")]);
    let run = kubectl.run(&["wait", "web", "-n", "shop", "--timeout=0", "--logs"]);
    assert!(
        run.err.contains(" has no log that may show the problem\n"),
        "{}",
        run.err
    );
    let calls = kubectl.calls();
    assert!(!calls.iter().any(|it| it.starts_with("logs ")), "{calls:?}");
}

/// A CI system ends a job that takes too long with a signal.
#[test]
fn interrupted_wait_prints_the_causes_and_writes_the_reports() {
    for (args, signal) in [
        (&["wait", "web"][..], Signal::INT),
        (&["status", "--watch", "deploy/web"], Signal::TERM),
    ] {
        let kubectl = Kubectl::new(&[waiting("ErrImagePull", "toomanyrequests: wait")]);
        let file = Scratch::new("");
        let junit = format!("--report=junit={}", file.path());
        let args = [args, &["--interval=5ms", &junit]].concat();
        let output = kubectl.interrupted(&args, signal);
        let [out, err] = [output.stdout, output.stderr].map(|it| String::from_utf8(it).unwrap());
        // A shell does not continue its script then.
        assert_eq!(output.status.signal(), Some(signal.as_raw()), "{err}");
        assert!(out.contains("\n    remedy: "), "{out}");
        assert_eq!(err, "note: interrupted: still in progress\n");
        let written = fs::read_to_string(file.path()).unwrap();
        assert!(
            written.contains("<failure type=\"IMAGE_PULL\""),
            "{written}"
        );
    }
}
