//! Verdicts during changes outside of the rollout: controllers, nodes, autoscalers, other workloads and earlier templates.
//! A rollout that recovers is never reported as failed, and only failures of the current template count.

use rollplan_core::snapshot::{Container, DeploymentStatus, Pod, Snapshot};
use rollplan_health::explain::Cause;
use rollplan_health::judge::Outlook;
use rollplan_health::report::Phase;
use rollplan_world::{at, mk_controller, mk_pod, mk_set, mk_set_status, mk_template};

use super::report::{
    completed, condition, container, half_way, old_pod, pod, ready, recreate, reported, running,
    terminated, waiting, with_conditions, with_pods,
};
use super::verdict::{
    check_decided, check_never, crash, missing_config, past_the_deadline, verdict, young,
};

/// The rollout of [`half_way`] after its completion.
fn done() -> Snapshot {
    let mut snapshot = with_pods(["a", "b", "c", "d"].map(|name| ready(name, 0)));
    snapshot.replica_sets.truncate(1);
    snapshot.replica_sets[0].replicas = 4;
    snapshot.replica_sets[0].status = mk_set_status(4, 4);
    snapshot
}

#[test]
fn controller_outage_of_five_minutes_is_never_failed() {
    let stopped = |seconds| {
        let mut snapshot = past_the_deadline(crash(seconds, 100, "Error"));
        snapshot.deployment.metadata.generation = 2;
        snapshot.deployment.spec.template = mk_template("v3").into();
        snapshot
    };
    check_never(|seconds| match seconds {
        0..300 => stopped(seconds),
        _ => done(),
    });
    let found = verdict(&stopped(299));
    assert_eq!(found.reason, "GENERATION_UNOBSERVED");
    // Only the ReplicaSet controller is stopped.
    check_never(|seconds| match seconds {
        0..300 => {
            let mut snapshot = crash(seconds, 100, "Error");
            snapshot.replica_sets[0].metadata.generation = 2;
            snapshot
        }
        _ => done(),
    });
}

#[test]
fn only_the_failure_of_the_new_replica_set_is_judged() {
    let among_others = |mut snapshot: Snapshot| {
        let old = &snapshot.replica_sets[1];
        let mut pulling = mk_pod(old, "old", "Pending");
        pulling.containers = vec![container(waiting("InvalidImageName", ""))];
        let older = mk_set(&snapshot.deployment, "v0", 0, 1);
        let mut exhausted = mk_pod(&older, "older", "Running");
        exhausted.containers = vec![Container {
            restarts: 40,
            last_state: terminated(137, "OOMKilled", ""),
            ..container(waiting("CrashLoopBackOff", ""))
        }];
        snapshot.replica_sets.push(older);
        let pods = snapshot.pods.iter().cloned();
        snapshot.pods = pods.chain([pulling, exhausted]).collect();
        snapshot
    };
    check_decided(
        |seconds| among_others(crash(seconds, 100, "Error")),
        157,
        158,
    );
    check_decided(|seconds| among_others(missing_config(seconds)), 96, 96);
    check_never(|seconds| among_others(crash(seconds, 3, "Error")));
    let found = verdict(&among_others(missing_config(200)));
    assert_eq!(found.reason, "CONTAINER_CONFIG");
    assert!(
        found.message.contains("2 of 2 new pods: a ") && found.message.contains("configmap"),
        "{}",
        found.message
    );
}

#[test]
fn restarts_before_a_rollback_do_not_count() {
    // The pods of A have been crashing for ten minutes. B was rolled out and back within the last seconds.
    let returned = |seconds: i64, created: i64| {
        let mut snapshot = crash(seconds, 100, "Error");
        snapshot.replica_sets[1].metadata.creation_timestamp = Some(at(-5));
        let pods = snapshot.pods.iter().cloned().map(|mut pod| {
            pod.containers[0].restarts += 9;
            pod.metadata.creation_timestamp = Some(at(created));
            pod.start_time = Some(at(created));
            pod
        });
        snapshot.pods = pods.collect();
        snapshot
    };
    check_never(|seconds| returned(seconds, -600));
    // With the same restarts, pods that were created after B are certain at once.
    assert!(decided_soon(&returned(80, 0)));
    assert!(!decided_soon(&returned(80, -600)));
}

fn decided_soon(snapshot: &Snapshot) -> bool {
    let mut snapshot = snapshot.clone();
    snapshot.now = at(80);
    verdict(&snapshot).is_certain
}

#[test]
fn changing_replicas_repeatedly_is_never_failed() {
    let text = "0/1 nodes are available: 1 Insufficient cpu.";
    let pods = |seconds: i64| {
        let replicas = match seconds {
            0..30 => 3,
            30..90 => 10,
            _ => 2,
        };
        let pods = (0..10).filter_map(move |number| {
            let name = format!("pod-{number}");
            let mut pod = match number {
                0..2 if seconds >= 100 => ready(&name, -100),
                0..3 => young(&name, vec![container(waiting("ContainerCreating", ""))]),
                _ => with_conditions(
                    pod(&name, "Pending", Vec::new()),
                    vec![condition(
                        "PodScheduled",
                        "False",
                        "Unschedulable",
                        text,
                        -30,
                    )],
                ),
            };
            let is_going = number >= replicas && (90..120).contains(&seconds);
            pod.metadata.deletion_timestamp = is_going.then(|| at(120));
            (number < replicas || is_going).then_some(pod)
        });
        (replicas, pods.collect::<Vec<_>>())
    };
    let scaled = |seconds: i64| {
        let (replicas, pods) = pods(seconds);
        let mut snapshot = with_pods(pods);
        snapshot.deployment.spec.replicas = replicas;
        snapshot.replica_sets.truncate(1);
        snapshot.replica_sets[0].replicas = replicas;
        let available = if seconds >= 100 { 2 } else { 0 };
        snapshot.replica_sets[0].status = mk_set_status(replicas, available);
        // Until the next pass, the annotations have the previous size.
        snapshot
    };
    check_never(scaled);
    let mut last = scaled(130);
    last.now = at(130);
    assert_eq!(reported(&last).phase, Phase::Complete);
}

#[test]
fn node_outage_of_two_minutes_is_never_failed() {
    let lost = |name: &str| {
        let up = Container {
            ready: true,
            ..container(running(0))
        };
        let mut pod = young(name, vec![up]);
        pod.conditions = vec![condition("Ready", "False", "NodeStatusUnknown", "", -60)];
        pod.node_name = "real-0".to_owned();
        pod
    };
    // The kubelet restarts the containers, with an unknown exit state.
    let restarted = |name: &str| {
        let again = Container {
            restarts: 1,
            last_state: terminated(255, "Unknown", ""),
            ..container(running(-180))
        };
        Pod {
            containers: vec![again],
            ..lost(name)
        }
    };
    check_never(|seconds| match seconds {
        0..60 => with_pods(["a", "b"].map(|name| ready(name, 0))),
        60..180 => with_pods(["a", "b"].map(lost)),
        180..200 => with_pods(["a", "b"].map(restarted)),
        _ => done(),
    });
    // After the rollout, the Deployment is degraded.
    let found = completed([ready("a", 800), lost("b")], 2, 1);
    assert_eq!(found.phase, Phase::Degraded);
    assert_eq!(found.verdict.outlook, Outlook::Undecided);
}

#[test]
fn recreate_with_a_pod_on_a_lost_node_waits_and_names_it() {
    let stuck = || {
        recreate(|world| {
            let mut old = old_pod(world, "old", "Running", Some(30));
            old.node_name = "real-0".to_owned();
            vec![old]
        })
    };
    check_never(|_| stuck());
    let mut late = past_the_deadline(stuck());
    late.deployment.status = DeploymentStatus {
        observed_generation: 1,
        conditions: late.deployment.status.conditions,
        ..DeploymentStatus::default()
    };
    late.now = at(700);
    let found = reported(&late);
    assert_eq!(found.phase, Phase::Stalled);
    assert_eq!(
        (found.verdict.outlook, found.verdict.is_certain),
        (Outlook::NeedsChange, false)
    );
    assert_eq!(found.blockers[0].cause, Cause::OldPodsRunning);
    assert_eq!(
        found.verdict.message,
        "Recreate is waiting for 1 old pod to terminate: old Terminating, 11m10s past its grace period"
    );
}

#[test]
fn pods_of_a_hook_job_do_not_count() {
    // The pods of the Job have the labels that the Deployment selects.
    let hook = |name: &str, phase: &str, containers: Vec<Container>| {
        let mut pod = pod(name, phase, containers);
        pod.metadata.owner_references = vec![mk_controller("batch/v1", "Job", "web-migrate")];
        pod
    };
    let beside = |mut snapshot: Snapshot| {
        let hooks = [
            hook("failed", "Failed", Vec::new()),
            hook(
                "wrong",
                "Pending",
                vec![container(waiting("InvalidImageName", ""))],
            ),
        ];
        let pods = snapshot.pods.iter().cloned();
        snapshot.pods = pods.chain(hooks).collect();
        snapshot
    };
    check_never(|_| beside(half_way()));
    check_never(|seconds| beside(crash(seconds, 3, "Error")));
    // They do not hide a failure either.
    check_decided(|seconds| beside(crash(seconds, 100, "Error")), 157, 158);
    assert_eq!(reported(&beside(done())).phase, Phase::Complete);
}
