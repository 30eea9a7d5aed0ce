//! StatefulSets: revisions, partitions, and pods that block their own fix.

use prost_types::Timestamp;
use rollplan::proto::{self, Outlook, Phase};
use rollplan::wire;
use serde_json::{Value, json};

use super::{
    START, at, check, counters, no_image, pod, ready, report, request, running, stateful_set,
    warning,
};

#[test]
fn stateful_set_is_complete_when_all_pods_have_the_update_revision() {
    let report_of = |set: &Value| report(60, set, &[]);
    let set = stateful_set(json!({}), json!({}));
    let report = report_of(&set);
    let done = "statefulset \"web\" successfully rolled out (3 of 3 available)";
    check(&report, Phase::Complete, Outlook::Complete, true, "", done);
    let rows = [
        ("desired", 3),
        ("total", 3),
        ("updated", 3),
        ("ready", 3),
        ("available", 3),
    ];
    assert_eq!(counters(&report), rows);
    assert_eq!(report.counts, None);
    // The controller has not concluded the update yet.
    let set = stateful_set(json!({}), json!({"currentRevision": "web-old"}));
    let waits = "statefulset \"web\" is rolling out (3 of 3 updated, 3 of 3 available): the controller has not \
                 completed the update yet";
    check(
        &report_of(&set),
        Phase::Progressing,
        Outlook::Undecided,
        false,
        "NOT_AVAILABLE",
        waits,
    );
    let mut set = stateful_set(json!({}), json!({}));
    set["metadata"]["generation"] = json!(2);
    let unseen = "statefulset \"web\" is waiting: no controller has observed the latest change (generation 2, observed 1)";
    check(
        &report_of(&set),
        Phase::Progressing,
        Outlook::Undecided,
        false,
        "GENERATION_UNOBSERVED",
        unseen,
    );
}

/// After a rollback of a partial update, the update revision is the current one again.
#[test]
fn partially_rolled_back_stateful_set_is_not_complete() {
    let set = stateful_set(
        json!({}),
        json!({"updatedReplicas": 1, "currentReplicas": 1}),
    );
    let report = report(60, &set, &[]);
    assert_eq!(report.phase(), Phase::Progressing);
    let left = "2 pods are still to be updated, at most 1 at a time";
    assert_eq!(report.blockers[0].message, left);
}

#[test]
fn stateful_set_is_complete_at_its_partition() {
    let spec =
        json!({"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}});
    let status = json!({"updatedReplicas": 1, "currentRevision": "web-old"});
    let done = "statefulset \"web\" successfully rolled out to its partition (1 of 3 updated, ordinals below 2 stay)";
    let set = stateful_set(spec.clone(), status);
    check(
        &report(60, &set, &[]),
        Phase::Complete,
        Outlook::Complete,
        true,
        "",
        done,
    );
    let status = json!({"updatedReplicas": 0, "currentRevision": "web-old"});
    let set = stateful_set(spec, status);
    let goes_on = "statefulset \"web\" is rolling out (0 of 1 updated, 3 of 3 available): 1 pod is still to be updated, at \
                   most 1 at a time";
    check(
        &report(60, &set, &[]),
        Phase::Progressing,
        Outlook::Undecided,
        false,
        "NOT_AVAILABLE",
        goes_on,
    );
}

#[test]
fn stateful_set_on_delete_needs_deleted_pods() {
    let spec = json!({"updateStrategy": {"type": "OnDelete"}});
    let set = stateful_set(
        spec,
        json!({"updatedReplicas": 1, "currentRevision": "web-old"}),
    );
    let pods = [
        pod("web-0", &set, "web-old", "n", ready()),
        pod("web-1", &set, "web-old", "n", ready()),
        pod("web-2", &set, "web-new", "n", ready()),
    ];
    let report = report(60, &set, &pods);
    let waits = "statefulset \"web\" is waiting: 2 pods have an older revision, and updateStrategy OnDelete replaces a pod \
                 only when it is deleted";
    check(
        &report,
        Phase::Paused,
        Outlook::NeedsChange,
        true,
        "ON_DELETE",
        waits,
    );
    assert_eq!(
        report.verdict.unwrap().remedy,
        "kubectl delete pod web-1 -n shop"
    );
}

/// kubernetes/kubernetes#67250: the fix of a broken pod does not replace it.
#[test]
fn broken_old_pod_that_blocks_its_own_fix_is_reported() {
    let set = stateful_set(
        json!({}),
        json!({"readyReplicas": 2, "availableReplicas": 2, "updatedReplicas": 0,
        "currentRevision": "web-old", "updateRevision": "web-new"}),
    );
    let pods = [
        pod("web-0", &set, "web-old", "n", ready()),
        pod("web-1", &set, "web-old", "n", ready()),
        pod("web-2", &set, "web-broken", "n", no_image()),
    ];
    let message = "statefulset \"web\" is stalled (0 of 3 updated, 2 of 3 available): pod web-2 of an older revision is not \
                   ready (ErrImagePull) and blocks the update that would replace it";
    let late = report(600, &set, &pods);
    check(
        &late,
        Phase::Stalled,
        Outlook::NeedsChange,
        true,
        "OLD_POD_BLOCKS",
        message,
    );
    let verdict = late.verdict.unwrap();
    assert_eq!(verdict.remedy, "kubectl delete pod web-2 -n shop");
    // Within the grace period of the failure, it is undecided. With the previous verdict, it is decided in time.
    let mut ask = request(20, &set, &pods);
    let early = wire::compute_status(ask.clone()).unwrap().report.unwrap();
    let verdict = early.verdict.unwrap();
    assert_eq!(
        (verdict.outlook(), verdict.certain),
        (Outlook::Undecided, false)
    );
    assert_eq!(verdict.decided_after.unwrap().seconds, START + 20 + 240);
    ask.previous_verdict = Some(proto::Verdict { ..verdict });
    let snapshot = ask.snapshot.as_mut().unwrap();
    snapshot.now = Some(Timestamp {
        seconds: START + 150,
        nanos: 0,
    });
    let decided = wire::compute_status(ask)
        .unwrap()
        .report
        .unwrap()
        .verdict
        .unwrap();
    assert!(decided.certain, "{decided:?}");
    // A pod that is not ready for another reason may become ready.
    let pods = [
        pods[0].clone(),
        pods[1].clone(),
        pod("web-2", &set, "web-broken", "n", running()),
    ];
    let verdict = report(6000, &set, &pods).verdict.unwrap();
    assert_eq!(
        (verdict.outlook(), &*verdict.reason),
        (Outlook::Undecided, "OLD_POD_BLOCKS")
    );
    // With Parallel, the controller replaces it as long as maxUnavailable allows.
    let spec = json!({"podManagementPolicy": "Parallel", "updateStrategy": {"rollingUpdate": {"maxUnavailable": 2}}});
    let mut parallel = set.clone();
    for (key, value) in spec.as_object().unwrap() {
        parallel["spec"][key] = value.clone();
    }
    let verdict = report(6000, &parallel, &pods).verdict.unwrap();
    assert_eq!(
        (verdict.outlook(), &*verdict.reason),
        (Outlook::Undecided, "NOT_AVAILABLE")
    );
}

#[test]
fn broken_new_pod_of_a_stateful_set_is_certain_after_its_grace() {
    let set = stateful_set(
        json!({}),
        json!({"readyReplicas": 2, "availableReplicas": 2, "updatedReplicas": 1,
        "currentRevision": "web-old"}),
    );
    let pods = [
        pod("web-0", &set, "web-old", "n", ready()),
        pod("web-1", &set, "web-old", "n", ready()),
        pod("web-2", &set, "web-new", "n", no_image()),
    ];
    let report = report(600, &set, &pods);
    let message = "statefulset \"web\" is stalled (1 of 3 updated, 2 of 3 available): image web:2 of container web cannot be \
                   pulled (1 of 3 new pods: web-2 ErrImagePull for 10m): not found";
    check(
        &report,
        Phase::Stalled,
        Outlook::NeedsChange,
        true,
        "IMAGE_PULL",
        message,
    );
    let remedy = report.verdict.unwrap().remedy;
    assert!(
        remedy.ends_with("after a change of the template also: kubectl delete pod web-2 -n shop"),
        "{remedy}"
    );
}

#[test]
fn stateful_set_with_a_lost_node_is_degraded_and_waits_for_its_pod() {
    let mut set = stateful_set(
        json!({}),
        json!({"readyReplicas": 2, "availableReplicas": 2}),
    );
    let lost = json!({"phase": "Running",
        "conditions": [{"type": "Ready", "status": "False", "lastTransitionTime": at(900)}],
        "containerStatuses": [{"name": "web", "ready": true, "state": {"running": {"startedAt": at(3)}}}]});
    let mut pods = [pod("web-0", &set, "web-new", "real-0", lost)];
    let message = "statefulset \"web\" is degraded (3 of 3 updated, 2 of 3 available): the containers are ready, but the \
                   pod is not (1 of 3 new pods: web-0 ContainersReady for 1m40s): node real-0 may have stopped reporting";
    check(
        &report(1000, &set, &pods),
        Phase::Degraded,
        Outlook::Undecided,
        false,
        "NOT_READY",
        message,
    );
    // The pod was evicted, but it still exists, so it is not replaced.
    pods[0]["metadata"]["deletionTimestamp"] = json!(at(1200));
    set["status"]["currentRevision"] = json!("web-new");
    let message = "statefulset \"web\" is rolling out (3 of 3 updated, 2 of 3 available): 1 pod is terminating: web-0, 5m \
                   past its grace period";
    check(
        &report(1500, &set, &pods),
        Phase::Progressing,
        Outlook::Undecided,
        false,
        "OLD_PODS_RUNNING",
        message,
    );
}

#[test]
fn refused_pods_of_a_stateful_set_are_certain_after_repeated_events() {
    let set = stateful_set(
        json!({}),
        json!({"replicas": 0, "readyReplicas": 0, "availableReplicas": 0, "updatedReplicas": 0}),
    );
    let text = "create Pod web-0 in StatefulSet web failed error: pods \"web-0\" is forbidden: violates PodSecurity \
                \"restricted:latest\": allowPrivilegeEscalation != false";
    let once = warning("web-uid", "FailedCreate", text, 10, 10);
    let verdict = report(300, &set, &[once]).verdict.unwrap();
    assert_eq!((verdict.certain, &*verdict.reason), (false, "PODS_REFUSED"));
    let again = warning("web-uid", "FailedCreate", text, 10, 60);
    let verdict = report(300, &set, &[again]).verdict.unwrap();
    assert_eq!((verdict.certain, &*verdict.reason), (true, "PODS_REFUSED"));
}

/// Without `minReadySeconds`, pods that are ready are available, whatever older controllers report.
#[test]
fn available_pods_are_those_that_have_been_ready_for_long_enough() {
    for (seconds, available) in [
        (json!(null), 3),
        (json!(0), 3),
        (json!(1), 2),
        (json!(30), 2),
    ] {
        let spec = json!({"minReadySeconds": seconds});
        let set = stateful_set(spec, json!({"availableReplicas": 2}));
        let report = report(60, &set, &[]);
        let complete = available == 3;
        assert!(
            counters(&report).contains(&("available", available)),
            "{seconds}"
        );
        assert_eq!(report.phase() == Phase::Complete, complete, "{seconds}");
    }
}

/// As for Deployments.
#[test]
fn probes_of_the_template_explain_why_pods_are_not_ready() {
    let probe = json!({"httpGet": {"path": "/ok", "port": 8080}});
    let containers = json!([{"name": "web", "readinessProbe": probe}]);
    let template = json!({"template": {"spec": {"containers": containers}}});
    let set = stateful_set(
        template,
        json!({"readyReplicas": 2, "availableReplicas": 2}),
    );
    let pod = pod("web-0", &set, "web-new", "n", running());
    let message = report(60, &set, &[pod]).message;
    let expected = "readiness probe GET :8080/ok has not passed yet";
    assert!(message.contains(expected), "{message}");
}
