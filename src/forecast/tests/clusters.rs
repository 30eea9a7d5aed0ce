//! Limits of the cluster.

use rollplan_core::snapshot::{Condition, PodCondition, Snapshot};
use rollplan_core::template::{Template, Value};
use rollplan_forecast::{Change, ClusterLimits, Outcome, Request};
use rollplan_world::{mk_deployment, mk_set, mk_template, rolling};

use crate::world::{
    forecast, mk_complete, mk_complete_of, mk_ready, mk_request, mk_rollout, mk_starting,
};

/// A rollout of four pods with this surge and unavailability, and quick starts.
fn mk_limited(surge: i32, unavailable: i32, limits: ClusterLimits) -> Request {
    let mut deployment = mk_deployment(4);
    deployment.spec.strategy = rolling(surge, unavailable);
    let mut request = mk_rollout(mk_complete_of(deployment, &[5; 4]));
    request.pod_times.start = vec![5_000];
    request.pod_times.termination = vec![3_000];
    request.limits = limits;
    request
}

fn quota(pods: i32) -> ClusterLimits {
    ClusterLimits {
        pods_in_quota: Some(pods),
        ..ClusterLimits::default()
    }
}

fn nodes(pods: i32) -> ClusterLimits {
    ClusterLimits {
        pods_on_nodes: Some(pods),
        ..ClusterLimits::default()
    }
}

#[test]
fn a_quota_without_room_for_the_surge_blocks_the_rollout() {
    let expected = forecast(mk_limited(1, 0, quota(0))).expected;
    assert_eq!(expected.outcomes, [(Outcome::Never, 100)]);
    assert_eq!(
        expected.reason,
        "The quota of the namespace has no room for 1 more pod."
    );
    assert_eq!(expected.available_at_end.low, 4);
    let expected = forecast(mk_limited(1, 0, quota(1))).expected;
    assert_eq!(expected.outcome, Outcome::Completes);
    assert!(expected.pods_with_terminating_max.high <= 5);
}

/// Terminating pods use the quota until they are gone, and failed attempts delay the next one.
#[test]
fn a_quota_and_its_back_off_make_a_rollout_slower() {
    let duration = |limits| {
        let expected = forecast(mk_limited(0, 1, limits)).expected;
        assert_eq!(expected.outcome, Outcome::Completes);
        expected.duration.unwrap().low
    };
    let unlimited = duration(ClusterLimits::default());
    let limited = duration(quota(0));
    // Each of the four pods waits for the end of an old one.
    assert!(limited >= unlimited + 4 * 2_900, "{limited} {unlimited}");
    let patient = duration(ClusterLimits {
        create_back_off: 60_000,
        ..quota(0)
    });
    assert!(patient > limited, "{patient} {limited}");
}

#[test]
fn pods_wait_until_nodes_have_room() {
    let expected = forecast(mk_limited(1, 0, nodes(0))).expected;
    assert_eq!(expected.outcome, Outcome::Never);
    assert_eq!(expected.reason, "The nodes have no room for 1 more pod.");
    let expected = forecast(mk_limited(0, 1, nodes(0))).expected;
    assert_eq!(expected.outcome, Outcome::Completes);
    // Start and termination follow each other for each of the four pods, which may be ready a little earlier than others.
    assert!(expected.duration.unwrap().low >= 4 * 7_800);
}

/// Of pods that are ready, Kubernetes first deletes those on the node with the most pods of the Deployment, although a
/// younger pod on another node is not available yet.
#[test]
fn pods_on_the_most_crowded_node_are_deleted_first() {
    let scaled = |nodes: [&str; 4]| {
        let mut deployment = mk_deployment(4);
        deployment.spec.min_ready_seconds = 60;
        let mut snapshot = mk_complete_of(deployment, &[5, 5, 5, 5]);
        let mut pods = snapshot.pods.to_vec();
        for (pod, node) in pods.iter_mut().zip(nodes) {
            pod.node_name = node.to_owned();
        }
        pods[3] = mk_ready(&snapshot.replica_sets[0], 3, 40, 5);
        pods[3].node_name = nodes[3].to_owned();
        snapshot.pods = pods.into();
        snapshot.replica_sets[0].status.available_replicas = 3;
        let request = mk_request(snapshot, vec![Change::Replicas(3)]);
        let available = forecast(request).expected.available_min;
        (available.low, available.high)
    };
    assert_eq!(scaled(["a", "b", "c", "d"]), (3, 3));
    assert_eq!(scaled(["a", "a", "b", "c"]), (2, 2));
}

/// Of pods that became ready at about the same time, Kubernetes deletes the one with the lowest UID, although another one is
/// not available yet.
#[test]
fn pods_that_became_ready_at_about_the_same_time_are_deleted_by_uid() {
    let scaled = |uids: [&str; 2], ready: [i64; 2]| {
        let mut deployment = mk_deployment(2);
        deployment.spec.min_ready_seconds = 60;
        let mut snapshot = mk_complete_of(deployment, &[5, 5]);
        let mut pods = snapshot.pods.to_vec();
        for (index, pod) in pods.iter_mut().enumerate() {
            *pod = mk_ready(&snapshot.replica_sets[0], index, ready[index] + 5, 5);
            pod.metadata.uid = format!("{}000000-0000-4000-8000-000000000000", uids[index]);
        }
        snapshot.pods = pods.into();
        snapshot.replica_sets[0].status.available_replicas = 1;
        let request = mk_request(snapshot, vec![Change::Replicas(1)]);
        let available = forecast(request).expected.available_min;
        (available.low, available.high)
    };
    assert_eq!(scaled(["3a", "b2"], [65, 40]), (0, 0));
    assert_eq!(scaled(["b2", "3a"], [65, 40]), (1, 1));
    assert_eq!(scaled(["b1", "b2"], [65, 40]), (0, 0));
    // 2³⁵ ns are 34.4 s, so 33 s and 65 s are of different magnitude.
    assert_eq!(scaled(["3a", "b2"], [65, 33]), (1, 1));
}

#[test]
fn limits_that_the_snapshot_shows_count() {
    let mut snapshot: Snapshot = mk_complete(&[5; 4]);
    snapshot.replica_sets[0].status.conditions = vec![Condition {
        kind: "ReplicaFailure".to_owned(),
        status: "True".to_owned(),
        reason: "FailedCreate".to_owned(),
        message: "pods \"web-1\" is forbidden: exceeded quota: pods".to_owned(),
        ..Condition::default()
    }];
    let scaled = |limits| {
        let mut request = mk_request(snapshot.clone(), vec![Change::Replicas(5)]);
        request.limits = limits;
        forecast(request)
    };
    let answer = scaled(ClusterLimits::default());
    // The condition remains after the quota was raised, until the controller tries again.
    assert_eq!(answer.expected.outcome, Outcome::Undecided);
    assert!(
        answer.expected.reason.contains("quota"),
        "{}",
        answer.expected.reason
    );
    assert!(answer.assumptions.iter().any(|it| it.contains("quota")));
    assert_eq!(scaled(quota(1)).expected.outcome, Outcome::Completes);
    assert_eq!(scaled(quota(0)).expected.outcome, Outcome::Never);
}

/// A rollout whose new pod no node can run, and the template with this selector of nodes and this request.
fn mk_unschedulable(edit: impl Fn(&mut std::collections::BTreeMap<String, Value>)) -> Outcome {
    let template = |image: &str, zone: &str, cpu: &str| {
        let mut template = mk_template(image);
        let spec = template.as_map_mut().unwrap().get_mut("spec").unwrap();
        let spec = spec.as_map_mut().unwrap();
        spec.insert(
            "nodeSelector".to_owned(),
            Value::from([("zone", Value::from(zone))]),
        );
        let requests = Value::from([("requests", Value::from([("cpu", Value::from(cpu))]))]);
        let container = Value::from([
            ("name", Value::from("main")),
            ("image", Value::from(image)),
            ("resources", requests),
        ]);
        spec.insert("containers".to_owned(), Value::from(vec![container]));
        template
    };
    let mut snapshot = mk_complete(&[5; 4]);
    let mut set = mk_set(&snapshot.deployment, "new", 2, 1);
    set.template = Template::from(template("v2", "nowhere", "64"));
    snapshot.deployment.spec.template = set.template.clone();
    let mut pod = mk_starting(&set, 90, 60);
    pod.node_name.clear();
    pod.conditions = vec![PodCondition {
        kind: "PodScheduled".to_owned(),
        status: "False".to_owned(),
        reason: "Unschedulable".to_owned(),
        ..PodCondition::default()
    }];
    snapshot.replica_sets.push(set);
    snapshot.pods = snapshot.pods.iter().cloned().chain([pod]).collect();
    let mut changed = template("v2", "nowhere", "64");
    let spec = changed.as_map_mut().unwrap().get_mut("spec").unwrap();
    edit(spec.as_map_mut().unwrap());
    let mut deployment = snapshot.deployment.clone();
    deployment.spec.template = Template::from(changed);
    deployment.spec.strategy = rolling(1, 0);
    let change = Change::Deployment(Box::new(deployment));
    forecast(mk_request(snapshot, vec![change]))
        .expected
        .outcome
}

#[test]
fn a_change_that_repairs_scheduling_needs_no_room() {
    assert_eq!(mk_unschedulable(|_| {}), Outcome::Never);
    let grace = |spec: &mut std::collections::BTreeMap<String, Value>| {
        spec.insert("terminationGracePeriodSeconds".to_owned(), Value::from(5));
    };
    assert_eq!(mk_unschedulable(grace), Outcome::Never);
    assert_eq!(
        mk_unschedulable(|spec| _ = spec.remove("nodeSelector")),
        Outcome::Completes
    );
    let request = |cpu: &'static str| {
        move |spec: &mut std::collections::BTreeMap<String, Value>| {
            let requests = Value::from([("requests", Value::from([("cpu", Value::from(cpu))]))]);
            let container = Value::from([
                ("name", Value::from("main")),
                ("image", Value::from("v2")),
                ("resources", requests),
            ]);
            spec.insert("containers".to_owned(), Value::from(vec![container]));
        }
    };
    assert_eq!(mk_unschedulable(request("100m")), Outcome::Completes);
    assert_eq!(mk_unschedulable(request("65")), Outcome::Never);
}
