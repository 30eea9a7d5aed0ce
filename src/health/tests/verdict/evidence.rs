//! Which pods count as evidence of a failure, and how many of them must share it.

use rollplan_core::snapshot::{Container, Pod, Snapshot};
use rollplan_health::explain::Cause;
use rollplan_health::report::Phase;
use rollplan_world::{at, mk_pod, mk_set, mk_set_status};

use super::crashes::crashed;
use super::{verdict, young};
use crate::report::{
    condition, container, crashing, pod, ready, reported, running, terminated, waiting,
    with_conditions, with_pods,
};

#[test]
fn failure_is_certain_only_if_all_unready_new_pods_share_it() {
    assert!(verdict(&crashed()).is_certain);
    let change = |change: &dyn Fn(&mut Snapshot, &mut Vec<Pod>)| {
        let mut snapshot = crashed();
        let mut pods = snapshot.pods.to_vec();
        change(&mut snapshot, &mut pods);
        snapshot.pods = pods.into();
        let found = reported(&snapshot);
        assert!(!found.verdict.is_certain, "{:?}", found.verdict);
        assert_eq!(found.phase, Phase::Progressing);
    };
    // One of ten is on a node with a bad disk, and the others are ready.
    change(&|snapshot, pods| {
        pods.truncate(1);
        pods.extend((0..9).map(|number| ready(&format!("ok-{number}"), 100)));
        snapshot.deployment.spec.replicas = 10;
        snapshot.replica_sets[0].replicas = 10;
        snapshot.replica_sets[0].status = mk_set_status(10, 9);
    });
    // Another one is still starting.
    change(&|_, pods| pods[0] = young("a", vec![container(waiting("ContainerCreating", ""))]));
    // The snapshot does not contain all pods.
    change(&|_, pods| pods.truncate(1));
    // It was ready before, so a dependency may have failed.
    change(&|_, pods| {
        pods[0].conditions = vec![condition("Ready", "False", "ContainersNotReady", "", -300)];
    });
    // Pods of the Deployment are terminating, and may hold resources that it needs.
    change(&|snapshot, pods| {
        let mut old = mk_pod(&snapshot.replica_sets[1], "old", "Running");
        old.metadata.deletion_timestamp = Some(at(405));
        pods.push(old);
    });
    // After a rollback to a ReplicaSet that still had pods, their restarts are old.
    change(&|snapshot, _| snapshot.replica_sets[1].metadata.creation_timestamp = Some(at(10)));
    // It is running again.
    change(&|_, pods| pods[0].containers[0].state = running(-399));
}

#[test]
fn restarts_of_ready_pods_never_count() {
    let restarted = |name: &str, seconds: i64| {
        let up = Container {
            ready: true,
            restarts: 40,
            last_state: terminated(1, "Error", ""),
            ..container(running(seconds))
        };
        let conditions = vec![condition("Ready", "True", "", "", seconds)];
        with_conditions(pod(name, "Running", vec![up]), conditions)
    };
    // Ready for minReadySeconds, and for less.
    for min_ready_seconds in [0, 600] {
        let mut snapshot = with_pods([restarted("a", 100), restarted("b", 50)]);
        snapshot.deployment.spec.min_ready_seconds = min_ready_seconds;
        let found = reported(&snapshot);
        assert!(!found.verdict.is_certain, "{:?}", found.verdict);
        let causes = found.blockers.iter().map(|blocker| blocker.cause);
        assert!(
            !causes.clone().any(|cause| cause == Cause::CrashLoop),
            "{:?}",
            causes.collect::<Vec<_>>()
        );
    }
    // Nor do crashes of a pod count while another one is ready.
    let mut snapshot = crashed();
    let pods = snapshot.pods.iter().take(1).cloned();
    snapshot.pods = pods.chain([restarted("b", 100)]).collect();
    snapshot.replica_sets[0].status = mk_set_status(2, 1);
    assert!(!verdict(&snapshot).is_certain);
}

#[test]
fn failed_evicted_and_old_pods_never_count() {
    let mut snapshot = crashed();
    let mut evicted = pod("gone", "Failed", Vec::new());
    evicted.reason = "Evicted".to_owned();
    let ready_pods = [ready("a", 100), ready("b", 50)];
    let with = |snapshot: &Snapshot, pods: &[Pod]| {
        let mut snapshot = snapshot.clone();
        snapshot.pods = snapshot.pods.iter().chain(pods).cloned().collect();
        snapshot
    };
    assert!(verdict(&with(&snapshot, std::slice::from_ref(&evicted))).is_certain);
    let only_evicted = with_pods([evicted]);
    assert!(!verdict(&only_evicted).is_certain);
    // Three ReplicaSets: the old ones fail in different ways, and the new one works.
    let old = &snapshot.replica_sets[1];
    let mut failing = mk_pod(old, "old", "Running");
    failing.containers = crashing(
        9,
        waiting("CrashLoopBackOff", ""),
        terminated(1, "Error", ""),
    )
    .containers;
    let older = mk_set(&snapshot.deployment, "v0", 0, 1);
    let mut pulling = mk_pod(&older, "older", "Pending");
    pulling.containers = vec![container(waiting("InvalidImageName", ""))];
    snapshot.replica_sets.push(older);
    snapshot.pods = ready_pods.into_iter().chain([failing, pulling]).collect();
    snapshot.replica_sets[0].status = mk_set_status(2, 1);
    assert!(!verdict(&snapshot).is_certain);
}

/// An event names the container that it is about, if it is about one.
#[test]
fn events_about_another_container_prove_nothing() {
    let with_field = |field_path: &str| {
        let mut snapshot = super::missing_config(200);
        let mut events = snapshot.events.to_vec();
        for event in &mut events {
            event.field_path = field_path.to_owned();
        }
        snapshot.events = events.into();
        verdict(&snapshot).is_certain
    };
    assert!(with_field("spec.containers{main}"));
    assert!(!with_field("spec.containers{sidecar}"));
}

/// Without events, another container may have delayed the attempts, unless it is an init container that has succeeded.
#[test]
fn ended_containers_may_delay_attempts() {
    let silent = |init: bool, exit_code: i32| {
        let mut snapshot = super::missing_config(500);
        snapshot.events = [].into();
        let mut pods = snapshot.pods.to_vec();
        for pod in &mut pods {
            pod.containers.push(Container {
                name: "other".to_owned(),
                init,
                ..container(terminated(exit_code, "", ""))
            });
        }
        snapshot.pods = pods.into();
        snapshot.now = at(500);
        verdict(&snapshot).is_certain
    };
    assert!(silent(true, 0));
    assert!(!silent(true, 1));
    assert!(!silent(false, 0));
}
