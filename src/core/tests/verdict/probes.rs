//! Containers that the kubelet kills because a probe fails.

use std::sync::Arc;

use super::{event, verdict};
use crate::snapshot::{ContainerState, Snapshot};
use crate::template::Value;
use crate::tests::report::{crashing, terminated, waiting, with_pods};
use crate::tests::world::mk_set_status;

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
        "read its log: kubectl logs a -n default -c main"
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
