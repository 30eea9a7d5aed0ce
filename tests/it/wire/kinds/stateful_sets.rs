//! StatefulSets: revisions, partitions, and pods that block their own fix.

use prost_types::Timestamp;
use rollplan::proto::{self, Outlook, Phase};
use rollplan::wire;
use serde_json::{Value, json};

use super::{
    START, at, check, counters, listed, message_with_pods, no_image, pod, ready, report, request,
    running, stateful_set, unready, warning,
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
        listed(&report.blockers[0]),
        [("web-1", "Outdated"), ("web-0", "Outdated")]
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
    assert_eq!(verdict.since.unwrap().seconds, START + 600);
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
                   past its grace period (node real-0)";
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

/// With one revision, `currentReplicas` counts the pods that have it, too.
#[test]
fn current_replicas_count_at_a_partition_only_without_a_revision() {
    let set = |revision: &str| {
        stateful_set(
            json!({"updateStrategy": {"rollingUpdate": {"partition": 1}}}),
            json!({"currentReplicas": 3, "updatedReplicas": 0, "currentRevision": revision, "updateRevision": revision}),
        )
    };
    let phases = ["", "web-new"].map(|revision| report(60, &set(revision), &[]).phase());
    assert_eq!(phases, [Phase::Progressing, Phase::Complete]);
}

#[test]
fn refused_pods_count_only_while_pods_are_missing() {
    let of = |replicas: i64| {
        let set = stateful_set(
            json!({}),
            json!({"replicas": replicas, "readyReplicas": 2, "availableReplicas": 2}),
        );
        let refused = warning("web-uid", "FailedCreate", "exceeded quota: q", 0, 50);
        report(60, &set, &[refused]).blockers.remove(0).reason
    };
    assert_eq!(of(2), "PODS_REFUSED");
    assert_eq!(of(3), "NOT_AVAILABLE");
}

/// The partition counts from the first ordinal.
#[test]
fn broken_old_pod_below_the_partition_keeps_its_revision() {
    let set = stateful_set(
        json!({"ordinals": {"start": 5}, "updateStrategy": {"rollingUpdate": {"partition": 1}}}),
        json!({"readyReplicas": 2, "availableReplicas": 2, "updatedReplicas": 0, "currentRevision": "web-old"}),
    );
    let blocker = |broken: &str| {
        let pods = ["web-5", "web-6", "web-7"].map(|name| {
            let status = if name == broken { no_image() } else { ready() };
            pod(name, &set, "web-old", "n", status)
        });
        report(600, &set, &pods).blockers.remove(0)
    };
    let held = blocker("web-5");
    assert_eq!(held.reason, "OLD_POD_BLOCKS");
    assert_eq!(
        held.message,
        "pod web-5 is not ready (ErrImagePull) and blocks the update; it keeps its revision because its ordinal is below the \
         partition"
    );
    assert_eq!(
        held.remedy,
        "lower the partition, or fix the older revision"
    );
    assert_eq!(blocker("web-6").remedy, "kubectl delete pod web-6 -n shop");
}

#[test]
fn pod_whose_grace_period_ends_now_is_past_it() {
    let set = stateful_set(
        json!({}),
        json!({"readyReplicas": 2, "availableReplicas": 2}),
    );
    let of = |seconds: i64| {
        let mut pod = pod("web-2", &set, "web-new", "n", ready());
        pod["metadata"]["deletionTimestamp"] = json!(at(seconds));
        report(60, &set, &[pod]).blockers.remove(0)
    };
    let ended = of(60);
    assert_eq!(ended.reason, "OLD_PODS_RUNNING");
    assert_eq!(
        ended.message,
        "1 pod is terminating: web-2, 0s past its grace period (node n)"
    );
    assert_eq!(ended.remaining, None);
    assert_eq!(ended.pods[0].since.as_ref().unwrap().seconds, START + 60);
    assert_eq!(
        (&*ended.pods[0].name, &*ended.pods[0].reason),
        ("web-2", "Terminating")
    );
    assert_eq!(of(61).pods[0].since, None);
    assert_eq!(of(61).remaining.unwrap().seconds, 1);
    let lost =
        "check what delays it, a container that does not stop or its node: kubectl describe node n";
    assert_eq!((&*ended.remedy, &*of(61).remedy), (lost, ""));
    assert_eq!(
        of(61).message,
        "1 pod is terminating: web-2, 1s of its grace period left (node n)"
    );
}

#[test]
fn pods_that_are_still_to_be_removed_are_counted() {
    let set = stateful_set(
        json!({}),
        json!({"replicas": 4, "readyReplicas": 4, "availableReplicas": 4}),
    );
    assert_eq!(
        report(60, &set, &[]).blockers[0].message,
        "1 pod is still to be removed"
    );
}

#[test]
fn pods_that_are_not_in_the_request_are_named_as_missing() {
    let message = |status: Value, has_pods: bool, is_complete: bool| {
        let set = stateful_set(json!({}), status);
        let pods = [pod("web-0", &set, "web-new", "n", ready())];
        message_with_pods(&set, &pods[..usize::from(has_pods)], is_complete)
    };
    let missing = || json!({"readyReplicas": 2, "availableReplicas": 2});
    let unknown =
        "1 pod is not available, and the snapshot does not contain the pods that would show why";
    assert_eq!(message(missing(), false, false), unknown);
    assert_eq!(
        message(missing(), true, false),
        "1 pod is not available yet"
    );
    assert_eq!(
        message(missing(), false, true),
        "1 pod is not available yet"
    );
    let outdated = json!({"updatedReplicas": 2, "currentRevision": "web-old"});
    let left = "1 pod is still to be updated, at most 1 at a time";
    assert_eq!(message(outdated, false, false), left);
}

#[test]
fn refusals_may_end_while_pods_terminate() {
    let set = stateful_set(
        json!({}),
        json!({"replicas": 2, "readyReplicas": 2, "availableReplicas": 2}),
    );
    let refused = warning(
        "web-uid",
        "FailedCreate",
        "admission webhook \"x\" denied the request: no",
        0,
        50,
    );
    let mut going = pod("web-2", &set, "web-new", "n", ready());
    going["metadata"]["deletionTimestamp"] = json!(at(70));
    let of = |objects: &[Value]| {
        let report = report(60, &set, objects);
        let blocker = report
            .blockers
            .iter()
            .find(|it| it.reason == "PODS_REFUSED");
        (
            blocker.unwrap().remedy.is_empty(),
            report.verdict.unwrap().certain,
        )
    };
    assert_eq!(of(std::slice::from_ref(&refused)), (false, true));
    assert_eq!(of(&[refused, going]), (true, false));
}

#[test]
fn partition_is_named_only_between_revisions() {
    let message = |current: &str| {
        let set = stateful_set(
            json!({"updateStrategy": {"rollingUpdate": {"partition": 1}}}),
            json!({"currentRevision": current, "updatedReplicas": 2}),
        );
        let report = report(60, &set, &[]);
        assert!(counters(&report).contains(&("partition", 1)));
        report.message
    };
    assert_eq!(
        message("web-old"),
        "statefulset \"web\" successfully rolled out to its partition (2 of 3 updated, ordinals below 1 stay)"
    );
    assert_eq!(
        message("web-new"),
        "statefulset \"web\" successfully rolled out (3 of 3 available)"
    );
}

#[test]
fn broken_old_pod_blocks_only_if_the_controller_waits_for_it() {
    let reasons = |spec: Value| {
        let set = stateful_set(
            spec,
            json!({"readyReplicas": 2, "availableReplicas": 2, "updatedReplicas": 0, "currentRevision": "web-old"}),
        );
        let pods = [
            pod("web-0", &set, "web-old", "n", ready()),
            pod("web-1", &set, "web-old", "n", ready()),
            pod("web-2", &set, "web-old", "n", no_image()),
        ];
        let blockers = report(600, &set, &pods).blockers;
        blockers.iter().any(|it| it.reason == "OLD_POD_BLOCKS")
    };
    assert!(reasons(json!({})));
    assert!(reasons(json!({"podManagementPolicy": "Parallel"})));
    assert!(!reasons(json!({"updateStrategy": {"type": "OnDelete"}})));
}

#[test]
fn stateful_set_on_delete_is_complete_when_all_pods_are_new() {
    let set = stateful_set(
        json!({"updateStrategy": {"type": "OnDelete"}}),
        json!({"currentRevision": "web-old"}),
    );
    check(
        &report(60, &set, &[]),
        Phase::Complete,
        Outlook::Complete,
        true,
        "",
        "statefulset \"web\" successfully rolled out (3 of 3 available)",
    );
}

#[test]
fn stateful_set_is_degraded_only_after_its_update() {
    let phase = |replicas: i64, updated: i64, current: &str| {
        let set = stateful_set(
            json!({}),
            json!({"replicas": replicas, "updatedReplicas": updated, "currentRevision": current, "readyReplicas": 2,
                "availableReplicas": 2}),
        );
        report(60, &set, &[pod("web-2", &set, "web-new", "n", unready())]).phase()
    };
    assert_eq!(phase(3, 3, "web-new"), Phase::Degraded);
    assert_eq!(phase(3, 2, "web-old"), Phase::Progressing);
    assert_eq!(phase(2, 3, "web-new"), Phase::Progressing);
}

/// Only an ordered set waits for a broken pod before it replaces it.
#[test]
fn broken_new_pod_is_deleted_after_a_change_only_in_ordered_sets() {
    let remedy = |spec: Value| {
        let set = stateful_set(
            spec,
            json!({"readyReplicas": 2, "availableReplicas": 2, "updatedReplicas": 1, "currentRevision": "web-old"}),
        );
        let pod = pod("web-2", &set, "web-new", "n", no_image());
        report(600, &set, &[pod]).blockers.remove(0).remedy
    };
    let note = "after a change of the template also: kubectl delete pod web-2 -n shop";
    assert!(remedy(json!({})).ends_with(note));
    assert!(!remedy(json!({"podManagementPolicy": "Parallel"})).contains("delete"));
    assert!(!remedy(json!({"updateStrategy": {"type": "OnDelete"}})).contains("delete"));
}

#[test]
fn pods_that_only_need_min_ready_seconds_complete_by_themselves() {
    let set = stateful_set(
        json!({"minReadySeconds": 60}),
        json!({"availableReplicas": 2}),
    );
    let pods = [pod("web-2", &set, "web-new", "n", ready())];
    let verdict = report(20, &set, &pods).verdict.unwrap();
    assert_eq!(
        (verdict.outlook(), &*verdict.reason),
        (Outlook::CompletesByItself, "MIN_READY_SECONDS")
    );
}
