//! Containers that the kubelet kills because a probe fails.

use std::sync::Arc;

use super::{event, verdict, young};
use crate::report::{
    condition, container, crashing, reported, running, terminated, waiting, with_pods,
};
use rollplan_core::snapshot::{ContainerState, Snapshot};
use rollplan_core::template::Value;
use rollplan_health::diagnosis::Cause;
use rollplan_world::{at, mk_set_status};

const FAILURE: &str = "dial tcp 10.0.0.7:5432: connect: connection refused";

/// A container that has restarted `restarts` times, and an event about its failing probe.
fn ended(probe: &str, restarts: i32, end: ContainerState) -> Snapshot {
    let action = Value::from([("tcpSocket", Value::from([("port", 5432)]))]);
    let field = format!("{}Probe", probe.to_lowercase());
    let main = Value::from([
        ("name", Value::from("main")),
        ("image", Value::from("v2")),
        (field.as_str(), action),
    ]);
    let spec = Value::from([("containers", Value::from(vec![main]))]);
    let labels = Value::from([("labels", Value::from([("app", "web")]))]);
    let template = Value::from([("metadata", labels), ("spec", spec)]);
    let mut pod = crashing(restarts, waiting("CrashLoopBackOff", ""), end);
    pod.containers[0].started = Some(probe != "Startup");
    let mut snapshot = with_pods([pod]);
    snapshot.replica_sets[0].status = mk_set_status(1, 0);
    snapshot.deployment.spec.template = template.clone().into();
    snapshot.replica_sets[0].template = template.into();
    let text = format!("{probe} probe failed: {FAILURE}");
    snapshot.events = Arc::new([event("a-uid", "Unhealthy", &text, -50, -20)]);
    snapshot
}

#[test]
fn kills_by_a_startup_probe_are_recognized() {
    let ended =
        |restarts, code| verdict(&ended("Startup", restarts, terminated(code, "Error", "")));
    let killed = |restarts| ended(restarts, 137);
    // Exit code 2 does not prove that the kubelet killed the container: the program may also have crashed.
    let found = ended(3, 2);
    assert!(!found.is_certain);
    assert_eq!(
        found.message,
        "container main keeps crashing (3 restarts; 1 of 2 new pods: a CrashLoopBackOff for 20s): Error, exit code 2: after its \
         startup probe TCP :5432 failed: dial tcp 10.0.0.7:5432: connect: connection refused"
    );
    let found = killed(3);
    assert!(found.is_certain);
    assert_eq!(
        found.message,
        "container main keeps being killed by its startup probe (3 restarts; 1 of 2 new pods: a CrashLoopBackOff for \
         20s): Error, exit code 137: killed because its startup probe TCP :5432 fails: dial tcp 10.0.0.7:5432: connect: \
         connection refused"
    );
    assert_eq!(
        found.remedy,
        "correct the port of its startup probe, or check why nothing listens on it: kubectl logs a -n default -c main"
    );
    assert!(!killed(2).is_certain);
}

#[test]
fn kills_by_a_liveness_probe_are_not_crashes() {
    let ended = |restarts, code, reason: &str| {
        verdict(&ended("Liveness", restarts, terminated(code, reason, "")))
    };
    // Killed, terminated by SIGTERM, and exited after SIGTERM.
    for (code, reason) in [(137, "Error"), (143, "Error"), (0, "Completed")] {
        let found = ended(3, code, reason);
        assert_eq!((found.reason, found.is_certain), ("CRASH_LOOP", false));
        let how = format!(
            "{reason}, exit code {code}: killed because its liveness probe TCP :5432 fails: {FAILURE}"
        );
        assert!(found.message.ends_with(&how), "{}", found.message);
    }
    // The container ran out of memory, so the probe is not the cause.
    let found = ended(3, 137, "OOMKilled");
    assert!(
        found.message.contains("keeps running out of memory") && !found.message.contains("probe"),
        "{}",
        found.message
    );
}

/// A container that has been running for so long, with a readiness probe that begins after 30 s and may fail
/// twice.
fn unready(seconds: i64) -> Snapshot {
    let get = Value::from([("path", Value::from("/ok")), ("port", Value::from(8080))]);
    let probe = Value::from([
        ("httpGet", get),
        ("initialDelaySeconds", Value::from(30)),
        ("periodSeconds", Value::from(10)),
        ("failureThreshold", Value::from(2)),
    ]);
    let main = Value::from([("name", Value::from("main")), ("readinessProbe", probe)]);
    let spec = Value::from([("containers", Value::from(vec![main]))]);
    let labels = Value::from([("labels", Value::from([("app", "web")]))]);
    let template = Value::from([("metadata", labels), ("spec", spec)]);
    let mut snapshot = with_pods([young("a", vec![container(running(0))])]);
    snapshot.now = at(seconds);
    snapshot.deployment.spec.template = template.clone().into();
    snapshot.replica_sets[0].template = template.into();
    snapshot
}

#[test]
fn readiness_probe_fails_only_once_it_certainly_has() {
    let of = |snapshot: &Snapshot| {
        let found = reported(snapshot).blockers.swap_remove(0);
        assert_eq!(found.cause, Cause::NotReady);
        let (_, detail) = found.message.split_once("): ").unwrap();
        (detail.to_owned(), found.remedy)
    };
    let waiting = (
        "readiness probe GET :8080/ok has not passed yet".to_owned(),
        String::new(),
    );
    // It has 50 s, and the clock of the caller may be five minutes fast.
    for seconds in [0, 29, 50, 349] {
        assert_eq!(of(&unready(seconds)), waiting, "{seconds}");
    }
    let fails = |why: &str, remedy: &str| {
        let detail = format!("readiness probe GET :8080/ok fails{why}");
        (detail, remedy.to_owned())
    };
    let log = "kubectl logs a -n default -c main";
    let check = format!("check why its readiness probe fails: {log}");
    assert_eq!(of(&unready(350)), fails("", &check));
    let with_event = |at: i64, text: &str| {
        let mut snapshot = unready(60);
        snapshot.events = Arc::new([event("a-uid", "Unhealthy", text, at, at)]);
        snapshot
    };
    let text = "Readiness probe failed: HTTP probe failed with statuscode: 404";
    assert_eq!(
        of(&with_event(31, text)),
        fails(
            ": HTTP probe failed with statuscode: 404",
            "correct the path or the port of its readiness probe"
        )
    );
    // An event about an earlier run of the container.
    assert_eq!(of(&with_event(-1, text)), waiting);
    // It was ready before.
    let mut snapshot = unready(60);
    let mut pods = snapshot.pods.to_vec();
    pods[0]
        .conditions
        .push(condition("Ready", "False", "", "", -50));
    snapshot.pods = pods.into();
    assert_eq!(of(&snapshot), fails("", &check));
}

#[test]
fn probes_over_https_are_described_with_their_scheme() {
    let mut snapshot = unready(0);
    let mut template = Value::clone(snapshot.deployment.spec.template.value());
    let containers = template.as_map_mut().unwrap().get_mut("spec").unwrap();
    let containers = containers.as_map_mut().unwrap().get_mut("containers");
    let Some(Value::List(containers)) = containers else {
        panic!("no containers");
    };
    let probe = containers[0]
        .as_map_mut()
        .unwrap()
        .get_mut("readinessProbe");
    let get = probe.unwrap().as_map_mut().unwrap().get_mut("httpGet");
    let get = get.unwrap().as_map_mut().unwrap();
    get.insert("scheme".to_owned(), Value::from("HTTPS"));
    snapshot.deployment.spec.template = template.clone().into();
    snapshot.replica_sets[0].template = template.into();
    let message = reported(&snapshot).blockers.remove(0).message;
    let expected = "readiness probe GET https://:8080/ok has not passed yet";
    assert!(message.ends_with(expected), "{message}");
}

/// The kubelet has not restarted it yet.
#[test]
fn container_that_was_just_killed_is_explained() {
    let mut snapshot = ended("Liveness", 3, ContainerState::Unknown);
    let mut pods = snapshot.pods.to_vec();
    pods[0].containers[0].state = terminated(137, "Error", "");
    snapshot.pods = pods.into();
    let message = verdict(&snapshot).message;
    let how = format!("killed because its liveness probe TCP :5432 fails: {FAILURE}");
    assert!(message.ends_with(&how), "{message}");
}

#[test]
fn failure_of_another_probe_does_not_explain_a_kill() {
    let mut snapshot = ended("Liveness", 3, terminated(137, "Error", ""));
    let other = event(
        "a-uid",
        "Unhealthy",
        "Readiness probe failed: EOF",
        -50,
        -10,
    );
    // And one of another container.
    let mut sidecar = event("a-uid", "Unhealthy", "Liveness probe failed: EOF", -50, -5);
    sidecar.field_path = "spec.containers{log}".to_owned();
    let others = [other, sidecar];
    snapshot.events = snapshot.events.iter().cloned().chain(others).collect();
    let message = verdict(&snapshot).message;
    assert!(message.ends_with(FAILURE), "{message}");
}

/// Exit codes of signals prove that it was killed; with others, it must have failed shortly before the end.
#[test]
fn containers_that_end_after_a_failed_liveness_probe_are_explained() {
    let message = |code, failed: i64| {
        let mut snapshot = ended("Liveness", 3, terminated(code, "Error", ""));
        let text = format!("Liveness probe failed: {FAILURE}");
        snapshot.events = Arc::new([event("a-uid", "Unhealthy", &text, failed, failed)]);
        verdict(&snapshot).message
    };
    let killed = format!("killed because its liveness probe TCP :5432 fails: {FAILURE}");
    let failed = format!("after its liveness probe TCP :5432 failed: {FAILURE}");
    for (code, at, expected) in [
        (137, -20, &killed),
        (137, -5000, &killed),
        (2, -20, &failed),
    ] {
        let message = message(code, at);
        assert!(
            message.ends_with(expected.as_str()),
            "{code} {at}: {message}"
        );
    }
    assert!(!message(2, -5000).contains("probe"));
}
