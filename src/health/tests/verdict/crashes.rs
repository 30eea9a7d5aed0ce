//! Crashing containers, judged by their restarts during the rollout.

use rollplan_core::snapshot::{Container, ContainerState, Snapshot};
use rollplan_health::judge::class::{Class, Limit};
use rollplan_world::at;

use super::{check_decided, check_never, judged, verdict, with_rule, young};
use crate::report::{container, running, waiting, with_pods};

/// A container that crashes after a second, `crashes` times, with the backoff of the kubelet.
pub(crate) fn crash(seconds: i64, crashes: usize, reason: &str) -> Snapshot {
    let starts = [0, 2, 13, 34, 75, 156, 317, 618, 919];
    let started = starts.iter().rposition(|start| *start <= seconds).unwrap();
    let ended = |number: usize| ContainerState::Terminated {
        exit_code: 1,
        reason: reason.to_owned(),
        message: match reason {
            "StartError" => "exec: \"/app\": stat /app: no such file or directory".to_owned(),
            _ => String::new(),
        },
        finished_at: Some(at(starts[number] + 1)),
    };
    let last_state = started
        .checked_sub(1)
        .map_or(ContainerState::Unknown, ended);
    let is_running = seconds < starts[started] + 1;
    let (state, last_state) = if started >= crashes || is_running {
        (running(-starts[started]), last_state)
    } else if started == 0 {
        (ended(0), ContainerState::Unknown)
    } else {
        (waiting("CrashLoopBackOff", "back-off"), ended(started))
    };
    let started = started.min(crashes);
    with_pods(["a", "b"].map(|name| {
        let container = Container {
            restarts: started.try_into().unwrap(),
            last_state: last_state.clone(),
            ..container(state.clone())
        };
        young(name, vec![container])
    }))
}

/// [`half_way`], with pods that have been crash-looping for a long time.
pub(super) fn crashed() -> Snapshot {
    let mut snapshot = crash(400, 100, "Error");
    snapshot.now = at(400);
    snapshot
}

#[test]
fn crash_loop_is_certain_after_five_restarts() {
    check_decided(|seconds| crash(seconds, 100, "Error"), 157, 158);
    check_decided(|seconds| crash(seconds, 100, "StartError"), 35, 36);
    // With a backoff of one second, restarts are too frequent for a certain verdict.
    let mut fast = crash(400, 100, "Error");
    let pods = fast.pods.iter().cloned().map(|mut pod| {
        pod.start_time = Some(at(270));
        pod
    });
    fast.pods = pods.collect();
    assert!(!verdict(&fast).is_certain);
}

#[test]
fn crashes_until_a_dependency_is_ready_are_never_failed() {
    for crashes in [1, 3, 4] {
        check_never(|seconds| crash(seconds, crashes, "Error"));
    }
    // With a rule of its own, a caller can fail it earlier.
    let options = with_rule(Class::CrashLoop, Limit::Restarts(2));
    assert!(judged(&crash(20, 3, "Error"), options).verdict.is_certain);
    assert!(!judged(&crash(3, 3, "Error"), options).verdict.is_certain);
}
