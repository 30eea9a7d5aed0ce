//! Unschedulable pods and pods that are not ready: certain only with a rule of the caller.

use std::sync::Arc;

use rollplan_core::snapshot::Snapshot;
use rollplan_health::judge::class::{Class, Limit};
use rollplan_world::{at, mk_pod};

use super::{both, check_never, event, judged, with_rule};
use crate::report::{condition, pod, reported, running, with_conditions, with_pods};

pub(super) fn unschedulable() -> Snapshot {
    let text = "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, preemption: 0/1 nodes are available";
    with_pods(["a", "b"].map(|name| {
        let scheduled = condition("PodScheduled", "False", "Unschedulable", text, 600);
        with_conditions(pod(name, "Pending", Vec::new()), vec![scheduled])
    }))
}

#[test]
fn unschedulable_and_unready_pods_are_certain_only_with_a_rule() {
    check_never(|_| unschedulable());
    check_never(|_| both(&running(0)));
    let message = reported(&unschedulable()).blockers.remove(0).message;
    assert!(
        message.ends_with(": 0/1 nodes are available: 1 Insufficient cpu."),
        "{message}"
    );
    let options = with_rule(Class::Unschedulable, Limit::Grace(120));
    assert!(judged(&unschedulable(), options).verdict.is_certain);
    // A nominated node, an autoscaler that reacted, and terminating pods of the Deployment may resolve it.
    let mut nominated = unschedulable();
    let mut pods = nominated.pods.to_vec();
    pods[1].nominated_node_name = "node-1".to_owned();
    nominated.pods = pods.into();
    assert!(!judged(&nominated, options).verdict.is_certain);
    let mut scaled = unschedulable();
    scaled.events = Arc::new([event(
        "a-uid",
        "TriggeredScaleUp",
        "pod triggered scale-up",
        -10,
        -10,
    )]);
    assert!(!judged(&scaled, options).verdict.is_certain);
    let mut terminating = unschedulable();
    let mut old = mk_pod(&terminating.replica_sets[1], "old", "Running");
    old.metadata.deletion_timestamp = Some(at(20));
    terminating.pods = terminating.pods.iter().cloned().chain([old]).collect();
    assert!(!judged(&terminating, options).verdict.is_certain);
    let not_ready = with_rule(Class::NotReady, Limit::Grace(60));
    let mut polled = both(&running(0));
    polled.now = at(600);
    assert!(judged(&polled, not_ready).verdict.is_certain);
}

/// Events prove attempts after the grace, by a clock that is not the caller's.
#[test]
fn attempts_of_the_scheduler_and_of_probes_are_evidence() {
    let is_certain = |snapshot: &Snapshot, class, event_reason: &str| {
        let mut snapshot = snapshot.clone();
        snapshot.now = at(1);
        snapshot.events = ["a-uid", "b-uid"]
            .map(|uid| event(uid, event_reason, "", 0, 120))
            .into();
        let options = with_rule(class, Limit::Grace(100));
        judged(&snapshot, options).verdict.is_certain
    };
    let mut pending = unschedulable();
    let mut pods = pending.pods.to_vec();
    for pod in &mut pods {
        pod.conditions[0].last_transition_time = Some(at(0));
    }
    pending.pods = pods.into();
    assert!(is_certain(
        &pending,
        Class::Unschedulable,
        "FailedScheduling"
    ));
    assert!(!is_certain(&pending, Class::Unschedulable, "Unhealthy"));
    let unready = both(&running(0));
    assert!(is_certain(&unready, Class::NotReady, "Unhealthy"));
    assert!(!is_certain(&unready, Class::NotReady, "FailedScheduling"));
}
