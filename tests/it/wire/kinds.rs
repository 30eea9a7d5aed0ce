//! Objects of other kinds than Deployments, as `objects_json` has them: one state after the other, with the report of each.

use prost_types::Timestamp;
use rollplan::proto::{self, Outlook, Phase};
use rollplan::wire::{self, Error};
use serde_json::{Value, json};

/// All times are so many seconds after this one.
const START: i64 = 1_800_000_000;

fn at(seconds: i64) -> String {
    Timestamp {
        seconds: START + seconds,
        nanos: 0,
    }
    .to_string()
}

fn request(now: i64, target: &Value, others: &[Value]) -> proto::ComputeStatusRequest {
    let text = |object: &Value| object["metadata"]["name"].as_str().unwrap_or("").to_owned();
    let of = |name: &str| target[name].as_str().unwrap_or("").to_owned();
    let all: Vec<&Value> = others.iter().chain([target]).collect();
    let list = json!({"apiVersion": "v1", "kind": "List", "items": all});
    proto::ComputeStatusRequest {
        snapshot: Some(proto::Snapshot {
            now: Some(Timestamp {
                seconds: START + now,
                nanos: 0,
            }),
            objects_json: vec![list.to_string().into()],
            target: Some(proto::Target {
                api_version: of("apiVersion"),
                kind: of("kind"),
                name: text(target),
                ..Default::default()
            }),
            pods_complete: true,
            ..Default::default()
        }),
        ..Default::default()
    }
}

fn report(now: i64, target: &Value, others: &[Value]) -> proto::RolloutReport {
    let request = request(now, target, others);
    let response = wire::compute_status(request).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(response.status, None);
    let object = response.object.unwrap();
    assert_eq!(target["kind"], *object.kind);
    response.report.unwrap()
}

/// The phase, the outlook, whether it is certain, and the reason.
#[track_caller]
fn check(
    report: &proto::RolloutReport,
    phase: Phase,
    outlook: Outlook,
    certain: bool,
    reason: &str,
    message: &str,
) {
    let verdict = report.verdict.as_ref().unwrap();
    assert_eq!(report.phase(), phase, "{report:#?}");
    assert_eq!(verdict.outlook(), outlook, "{report:#?}");
    assert_eq!(verdict.certain, certain, "{report:#?}");
    assert_eq!(verdict.reason, reason, "{report:#?}");
    assert_eq!(report.message, message);
}

fn counters(report: &proto::RolloutReport) -> Vec<(&str, i64)> {
    let counters = report.counters.iter();
    counters.map(|it| (it.name.as_str(), it.value)).collect()
}

/// An object with the fields that the API server sets.
fn object(api_version: &str, kind: &str, name: &str, spec: Value, status: Value) -> Value {
    json!({
        "apiVersion": api_version, "kind": kind,
        "metadata": {"name": name, "namespace": "shop", "uid": format!("{name}-uid"), "generation": 1,
                     "creationTimestamp": at(0)},
        "spec": spec, "status": status,
    })
}

/// A pod that was created and scheduled at 0.
fn pod(name: &str, owner: &Value, revision: &str, node: &str, status: Value) -> Value {
    let mut pod = object(
        "v1",
        "Pod",
        name,
        json!({"nodeName": node}),
        json!({
            "phase": "Pending", "startTime": at(0),
            "conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": at(0)}],
        }),
    );
    pod["metadata"]["labels"] = json!({"controller-revision-hash": revision});
    pod["metadata"]["ownerReferences"] = json!([{
        "apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"], "controller": true,
    }]);
    for (key, value) in status.as_object().unwrap() {
        pod["status"][key] = value.clone();
    }
    pod
}

fn container(state: Value) -> Value {
    json!([{"name": "web", "image": "web:2", "ready": false, "restartCount": 0, "state": state}])
}

fn ready() -> Value {
    json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": at(5)}],
           "containerStatuses": [{"name": "web", "image": "web:2", "ready": true, "restartCount": 0,
                                  "state": {"running": {"startedAt": at(3)}}}]})
}

fn no_image() -> Value {
    let text = "Back-off pulling image \"web:2\": ErrImagePull: failed to resolve reference \"web:2\": not found";
    json!({"containerStatuses": container(json!({"waiting": {"reason": "ImagePullBackOff", "message": text}}))})
}

fn running() -> Value {
    json!({"phase": "Running",
           "conditions": [{"type": "Ready", "status": "False", "lastTransitionTime": at(0)}],
           "containerStatuses": container(json!({"running": {"startedAt": at(3)}}))})
}

fn warning(uid: &str, reason: &str, message: &str, first: i64, last: i64) -> Value {
    json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": "e", "namespace": "shop", "uid": "e"},
           "involvedObject": {"uid": uid}, "type": "Warning", "reason": reason, "message": message, "count": 5,
           "firstTimestamp": at(first), "lastTimestamp": at(last)})
}

// === StatefulSets ===

fn stateful_set(spec: Value, status: Value) -> Value {
    let mut all = json!({"replicas": 3, "template": {"spec": {"containers": [{"name": "web"}]}}});
    for (key, value) in spec.as_object().unwrap() {
        all[key] = value.clone();
    }
    let mut counts = json!({"observedGeneration": 1, "replicas": 3, "readyReplicas": 3, "availableReplicas": 3,
        "updatedReplicas": 3, "currentRevision": "web-new", "updateRevision": "web-new"});
    for (key, value) in status.as_object().unwrap() {
        counts[key] = value.clone();
    }
    object("apps/v1", "StatefulSet", "web", all, counts)
}

#[test]
fn stateful_set_is_complete_once_all_pods_have_the_update_revision() {
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
    // The controller has yet to conclude.
    let set = stateful_set(json!({}), json!({"currentRevision": "web-old"}));
    let waits = "statefulset \"web\" is rolling out (3 of 3 updated, 3 of 3 available): the controller has yet to \
                 conclude the update";
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

/// After a rollback in the middle of an update, the update revision is the current one again.
#[test]
fn stateful_set_that_is_rolled_back_halfway_is_not_complete() {
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
fn stateful_set_ends_at_its_partition() {
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
fn stateful_set_on_delete_waits_for_somebody_who_deletes() {
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
fn broken_old_pod_blocks_its_own_fix_and_is_named() {
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
                   ready (ImagePullBackOff) and blocks the update that would replace it";
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
    // Within the grace of its failure it is undecided, and the verdict that is sent back decides it in time.
    let mut ask = request(20, &set, &pods);
    let early = wire::compute_status(ask.clone()).unwrap().report.unwrap();
    let verdict = early.verdict.unwrap();
    assert_eq!(
        (verdict.outlook(), verdict.certain),
        (Outlook::Undecided, false)
    );
    assert_eq!(verdict.decided_after.unwrap().seconds, START + 20 + 90);
    ask.previous_verdict = Some(proto::Verdict { ..verdict });
    let snapshot = ask.snapshot.as_mut().unwrap();
    snapshot.now = Some(Timestamp {
        seconds: START + 110,
        nanos: 0,
    });
    let decided = wire::compute_status(ask)
        .unwrap()
        .report
        .unwrap()
        .verdict
        .unwrap();
    assert!(decided.certain, "{decided:?}");
    // One that is not ready for another reason may become so.
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
    // In parallel, the controller replaces it while maxUnavailable allows that.
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
                   pulled (1 of 3 new pods: web-2 ImagePullBackOff for 10m0s): not found";
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
    // Evicted, and not gone: it is not replaced.
    pods[0]["metadata"]["deletionTimestamp"] = json!(at(1200));
    set["status"]["currentRevision"] = json!("web-new");
    let message = "statefulset \"web\" is rolling out (3 of 3 updated, 2 of 3 available): 1 pod is terminating: web-0, 5m0s \
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
fn refused_pods_of_a_stateful_set_are_certain_by_repeated_events() {
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

// === DaemonSets ===

fn daemon_set(spec: Value, status: Value) -> Value {
    let mut counts = json!({"observedGeneration": 1, "desiredNumberScheduled": 3, "currentNumberScheduled": 3,
        "updatedNumberScheduled": 3, "numberReady": 3, "numberAvailable": 3, "numberMisscheduled": 0});
    for (key, value) in status.as_object().unwrap() {
        counts[key] = value.clone();
    }
    object("apps/v1", "DaemonSet", "agent", spec, counts)
}

fn revision(owner: &Value, name: &str, number: i64) -> Value {
    let mut object = object(
        "apps/v1",
        "ControllerRevision",
        name,
        Value::Null,
        Value::Null,
    );
    object["revision"] = json!(number);
    object["metadata"]["labels"] = json!({"controller-revision-hash": name});
    object["metadata"]["ownerReferences"] = json!([{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent",
        "uid": owner["metadata"]["uid"], "controller": true}]);
    object
}

#[test]
fn daemon_set_without_nodes_is_complete_and_says_so() {
    let set = daemon_set(
        json!({}),
        json!({"desiredNumberScheduled": 0, "currentNumberScheduled": 0,
        "updatedNumberScheduled": 0, "numberReady": 0, "numberAvailable": 0}),
    );
    let message = "daemonset \"agent\" has no node to run on: its nodeSelector and tolerations fit none, or there is none";
    check(
        &report(60, &set, &[]),
        Phase::Complete,
        Outlook::Complete,
        true,
        "",
        message,
    );
    let set = object(
        "apps/v1",
        "DaemonSet",
        "agent",
        json!({}),
        json!({"observedGeneration": 1}),
    );
    let message = "daemonset \"agent\" is waiting: no controller has counted its nodes yet";
    check(
        &report(60, &set, &[]),
        Phase::Progressing,
        Outlook::Undecided,
        false,
        "GENERATION_UNOBSERVED",
        message,
    );
}

#[test]
fn daemon_set_names_nodes_by_reason_and_one_bad_node_does_not_fail_it() {
    let set = daemon_set(
        json!({}),
        json!({"updatedNumberScheduled": 2, "numberReady": 2, "numberAvailable": 2}),
    );
    let revisions = [revision(&set, "old", 1), revision(&set, "new", 10)];
    let mut objects = vec![
        pod("agent-a", &set, "new", "node-a", no_image()),
        pod("agent-b", &set, "new", "node-b", ready()),
        // A crash of the old template is not of this rollout.
        pod("agent-c", &set, "old", "node-c", no_image()),
    ];
    objects.extend(revisions);
    let message = "daemonset \"agent\" is rolling out (2 of 3 nodes updated, 2 of 3 available): image web:2 of container web \
                   cannot be pulled (1 of 3 new pods: agent-a ImagePullBackOff for 1h0m): not found (node node-a)";
    check(
        &report(3600, &set, &objects),
        Phase::Progressing,
        Outlook::Undecided,
        false,
        "IMAGE_PULL",
        message,
    );
    objects[1] = pod("agent-b", &set, "new", "node-b", no_image());
    let verdict = report(3600, &set, &objects).verdict.unwrap();
    assert_eq!(
        (verdict.certain, verdict.outlook()),
        (true, Outlook::NeedsChange)
    );
    assert!(
        verdict.message.ends_with("(nodes node-a, node-b)"),
        "{}",
        verdict.message
    );
}

#[test]
fn daemon_set_tells_new_pods_by_the_number_of_the_template_too() {
    let mut set = daemon_set(
        json!({}),
        json!({"updatedNumberScheduled": 1, "numberReady": 2, "numberAvailable": 2}),
    );
    set["metadata"]["annotations"] = json!({"deprecated.daemonset.template.generation": "2"});
    let of = |name: &str, number: &str, status| {
        let mut pod = pod(name, &set, "unknown", name, status);
        pod["metadata"]["labels"] = json!({"pod-template-generation": number});
        pod
    };
    let pods = [
        of("agent-a", "2", no_image()),
        of("agent-b", "1", ready()),
        of("agent-c", "1", ready()),
    ];
    let report = report(3600, &set, &pods);
    assert_eq!(report.blockers[0].pod_count, 1);
    assert_eq!(report.phase(), Phase::Stalled);
}

#[test]
fn daemon_set_explains_its_limits() {
    let counts = json!({"updatedNumberScheduled": 1, "numberReady": 2, "numberAvailable": 2});
    for (limits, expected) in [
        (
            json!({}),
            "2 nodes are still to be updated: at most 1 node is unavailable at a time, 1 now",
        ),
        (
            json!({"maxUnavailable": "50%"}),
            "2 nodes are still to be updated: at most 2 nodes are unavailable at a time",
        ),
        (
            json!({"maxSurge": 1, "maxUnavailable": 0}),
            "2 nodes are still to be updated: at most 1 node with an additional pod at a time",
        ),
    ] {
        let set = daemon_set(
            json!({"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": limits}}),
            counts.clone(),
        );
        assert_eq!(report(60, &set, &[]).blockers[0].message, expected);
    }
    let set = daemon_set(
        json!({"updateStrategy": {"type": "OnDelete"}}),
        json!({"updatedNumberScheduled": 1}),
    );
    let message = "daemonset \"agent\" is waiting: 2 pods have an older revision, and updateStrategy OnDelete replaces a \
                   pod only when it is deleted";
    check(
        &report(60, &set, &[]),
        Phase::Paused,
        Outlook::NeedsChange,
        true,
        "ON_DELETE",
        message,
    );
}

// === Jobs ===

fn job(spec: Value, status: Value) -> Value {
    object("batch/v1", "Job", "migrate", spec, status)
}

fn condition(kind: &str, reason: &str, message: &str) -> Value {
    json!([{"type": kind, "status": "True", "reason": reason, "message": message, "lastTransitionTime": at(50)}])
}

#[test]
fn job_is_final_by_its_conditions() {
    let done = job(
        json!({}),
        json!({"startTime": at(0), "succeeded": 1, "conditions": condition("Complete", "", "")}),
    );
    let message = "job \"migrate\" is complete (1 of 1 succeeded)";
    check(
        &report(60, &done, &[]),
        Phase::Complete,
        Outlook::Complete,
        true,
        "",
        message,
    );
    // Its time to live has passed: the result stands while it is being deleted.
    let mut deleted = done;
    deleted["metadata"]["deletionTimestamp"] = json!(at(70));
    deleted["spec"]["ttlSecondsAfterFinished"] = json!(0);
    check(
        &report(80, &deleted, &[]),
        Phase::Complete,
        Outlook::Complete,
        true,
        "",
        message,
    );
    // One that has not finished is deleted by somebody.
    let mut deleted = job(json!({}), json!({"startTime": at(0), "active": 1}));
    deleted["metadata"]["deletionTimestamp"] = json!(at(70));
    let report = report(80, &deleted, &[]);
    check(
        &report,
        Phase::Deleting,
        Outlook::NeedsChange,
        true,
        "DELETING",
        "job \"migrate\" is being deleted",
    );
}

#[test]
fn job_that_is_not_yet_final_is_ending() {
    let done = job(
        json!({}),
        json!({"startTime": at(0), "succeeded": 1, "terminating": 2,
        "conditions": condition("SuccessCriteriaMet", "CompletionsReached", "")}),
    );
    let message = "job \"migrate\" is ending (1 of 1 succeeded): it has succeeded (CompletionsReached), and waits for 2 \
                   pods to end";
    let report_done = report(60, &done, &[]);
    let message = message.replace(" (1 of 1 succeeded)", "");
    check(
        &report_done,
        Phase::Progressing,
        Outlook::CompletesByItself,
        false,
        "NOT_FINAL",
        &message,
    );
    let failed = job(
        json!({"backoffLimit": 2}),
        json!({"startTime": at(0), "failed": 3, "terminating": 1,
        "conditions": condition("FailureTarget", "BackoffLimitExceeded", "Job has reached the specified backoff limit")}),
    );
    let message = "job \"migrate\" fails: 3 pods failed, and backoffLimit 2 allows no more";
    check(
        &report(60, &failed, &[]),
        Phase::Stalled,
        Outlook::NeedsChange,
        true,
        "JOB_FAILED",
        message,
    );
}

#[test]
fn failed_job_names_the_rule_or_the_container() {
    let failed = job(
        json!({"backoffLimit": 0}),
        json!({"startTime": at(0), "failed": 1,
        "conditions": condition("Failed", "BackoffLimitExceeded", "Job has reached the specified backoff limit")}),
    );
    let ended = json!({"phase": "Failed", "containerStatuses": container(json!({"terminated":
        {"exitCode": 3, "reason": "Error", "message": "no such table\n", "finishedAt": at(40)}}))});
    let pods = [pod("migrate-x", &failed, "", "n", ended)];
    let report_failed = report(60, &failed, &pods);
    let message = "job \"migrate\" has failed: 1 pod failed, and backoffLimit 0 allows no more; pod migrate-x, container web \
                   exit code 3: no such table";
    check(
        &report_failed,
        Phase::Stalled,
        Outlook::NeedsChange,
        true,
        "JOB_FAILED",
        message,
    );
    let remedy = "read its log: kubectl logs migrate-x -n shop -c web";
    assert_eq!(report_failed.verdict.unwrap().remedy, remedy);
    let by_policy = "Container web for pod shop/migrate-x failed with exit code 3 matching FailJob rule at index 0";
    let failed = job(
        json!({}),
        json!({"startTime": at(0), "conditions": condition("Failed", "PodFailurePolicy", by_policy)}),
    );
    let message = format!("job \"migrate\" has failed: its podFailurePolicy ends it: {by_policy}");
    check(
        &report(60, &failed, &[]),
        Phase::Stalled,
        Outlook::NeedsChange,
        true,
        "JOB_FAILED",
        &message,
    );
}

#[test]
fn suspended_job_waits_for_somebody_unless_it_is_queued() {
    let mut suspended = job(
        json!({"suspend": true}),
        json!({"conditions": condition("Suspended", "JobSuspended", "")}),
    );
    let report_suspended = report(60, &suspended, &[]);
    let message = "job \"migrate\" is suspended: spec.suspend is true, so it creates no pods";
    check(
        &report_suspended,
        Phase::Paused,
        Outlook::NeedsChange,
        true,
        "PAUSED",
        message,
    );
    let remedy = "kubectl patch job/migrate -n shop -p '{\"spec\":{\"suspend\":false}}'";
    assert_eq!(report_suspended.verdict.unwrap().remedy, remedy);
    suspended["metadata"]["labels"] = json!({"kueue.x-k8s.io/queue-name": "batch"});
    let verdict = report(60, &suspended, &[]).verdict.unwrap();
    assert_eq!(
        (verdict.outlook(), verdict.certain),
        (Outlook::Undecided, false)
    );
}

#[test]
fn running_job_is_undecided_however_often_it_crashes_but_not_without_its_image() {
    let running = job(
        json!({"activeDeadlineSeconds": 600}),
        json!({"startTime": at(0), "active": 1, "ready": 1}),
    );
    let report_running = report(60, &running, &[]);
    let message = "job \"migrate\" is running (0 of 1 succeeded, 1 active): 1 pod is running, started 1m0s ago";
    check(
        &report_running,
        Phase::Progressing,
        Outlook::Undecided,
        false,
        "RUNNING",
        message,
    );
    assert_eq!(
        report_running
            .verdict
            .unwrap()
            .decided_after
            .unwrap()
            .seconds,
        START + 600
    );
    let crashing = json!({"phase": "Running", "containerStatuses": [{"name": "web", "restartCount": 9,
        "state": {"waiting": {"reason": "CrashLoopBackOff"}},
        "lastState": {"terminated": {"exitCode": 1, "reason": "Error", "finishedAt": at(3000)}}}]});
    let active = job(json!({}), json!({"startTime": at(0), "active": 1}));
    let verdict = report(
        6000,
        &active,
        &[pod("migrate-x", &active, "", "n", crashing)],
    )
    .verdict
    .unwrap();
    assert_eq!(
        (verdict.outlook(), &*verdict.reason),
        (Outlook::Undecided, "CRASH_LOOP")
    );
    let report_stuck = report(
        6000,
        &active,
        &[pod("migrate-x", &active, "", "n", no_image())],
    );
    assert_eq!(report_stuck.phase(), Phase::Stalled);
    assert_eq!(report_stuck.verdict.unwrap().reason, "IMAGE_PULL");
}

#[test]
fn cron_job_is_complete_and_says_when_it_ran() {
    let of = |spec, status| {
        report(
            3600,
            &object("batch/v1", "CronJob", "backup", spec, status),
            &[],
        )
    };
    let status = json!({"lastScheduleTime": at(0), "lastSuccessfulTime": at(60)});
    let message =
        "cronjob \"backup\" is scheduled (last scheduled 1h0m ago, last success 59m0s ago)";
    check(
        &of(json!({}), status.clone()),
        Phase::Complete,
        Outlook::Complete,
        true,
        "",
        message,
    );
    let message = "cronjob \"backup\" is suspended and schedules no Jobs (last scheduled 1h0m ago, last success 59m0s ago)";
    check(
        &of(json!({"suspend": true}), status),
        Phase::Complete,
        Outlook::Complete,
        true,
        "",
        message,
    );
}

// === Others ===

#[test]
fn replica_set_counts_and_names_what_is_refused() {
    let set = object(
        "apps/v1",
        "ReplicaSet",
        "web",
        json!({"replicas": 2}),
        json!({"observedGeneration": 1, "replicas": 2,
        "fullyLabeledReplicas": 2, "readyReplicas": 2, "availableReplicas": 2}),
    );
    let message = "replicaset \"web\" is complete (2 of 2 available)";
    check(
        &report(60, &set, &[]),
        Phase::Complete,
        Outlook::Complete,
        true,
        "",
        message,
    );
    let set = object(
        "apps/v1",
        "ReplicaSet",
        "web",
        json!({"replicas": 2}),
        json!({"observedGeneration": 1,
        "conditions": condition("ReplicaFailure", "FailedCreate", "exceeded quota: q")}),
    );
    let message = "replicaset \"web\" is not complete (0 of 2 available): the API server rejects the pods (FailedCreate): \
                   exceeded quota: q";
    check(
        &report(60, &set, &[]),
        Phase::Progressing,
        Outlook::Undecided,
        false,
        "PODS_REFUSED",
        message,
    );
}

#[test]
fn pod_by_itself() {
    let of = |now, spec: Value, status| {
        let owner = object("v1", "Other", "o", Value::Null, Value::Null);
        let mut pod = pod("web", &owner, "", "n", status);
        pod["metadata"]["ownerReferences"] = json!([]);
        for (key, value) in spec.as_object().unwrap() {
            pod["spec"][key] = value.clone();
        }
        report(now, &pod, &[])
    };
    check(
        &of(60, json!({}), ready()),
        Phase::Complete,
        Outlook::Complete,
        true,
        "",
        "pod \"web\" is ready",
    );
    let succeeded = json!({"phase": "Succeeded"});
    check(
        &of(60, json!({}), succeeded),
        Phase::Complete,
        Outlook::Complete,
        true,
        "",
        "pod \"web\" has succeeded",
    );
    let failed = json!({"phase": "Failed", "reason": "Evicted", "message": "The node was low on resource: memory."});
    let message = "pod \"web\" has failed: Evicted: The node was low on resource: memory.";
    check(
        &of(60, json!({}), failed),
        Phase::Stalled,
        Outlook::NeedsChange,
        true,
        "POD_FAILED",
        message,
    );
    let report = of(600, json!({}), no_image());
    assert_eq!(
        (report.phase(), &*report.blockers[0].reason),
        (Phase::Stalled, "IMAGE_PULL")
    );
    // Its own template has its probes.
    let probe = json!({"containers": [{"name": "web", "readinessProbe": {"httpGet": {"path": "/ok", "port": 8080}}}]});
    let report = of(60, probe, running());
    assert!(
        report
            .message
            .contains("readiness probe GET :8080/ok fails"),
        "{}",
        report.message
    );
    let cut = json!({"phase": "Running", "containerStatuses": container(json!({"terminated": {"exitCode": 0}}))});
    let message =
        "pod \"web\" is not ready: its containers have ended or are running, and it is not ready";
    let never = of(60, json!({"restartPolicy": "Never"}), cut);
    check(
        &never,
        Phase::Progressing,
        Outlook::Undecided,
        false,
        "NOT_READY",
        message,
    );
}

#[test]
fn claims_and_services() {
    let claim = |phase: &str| {
        object(
            "v1",
            "PersistentVolumeClaim",
            "data",
            json!({}),
            json!({"phase": phase}),
        )
    };
    let report_of = |object: &Value, events: &[Value]| report(60, object, events);
    let bound = report_of(&claim("Bound"), &[]);
    check(
        &bound,
        Phase::Complete,
        Outlook::Complete,
        true,
        "",
        "persistentvolumeclaim \"data\" is bound",
    );
    let lost = report_of(&claim("Lost"), &[]);
    let message = "persistentvolumeclaim \"data\" is lost: its PersistentVolume no longer exists";
    check(
        &lost,
        Phase::Stalled,
        Outlook::NeedsChange,
        true,
        "NOT_BOUND",
        message,
    );
    let event = warning(
        "data-uid",
        "ProvisioningFailed",
        "storageclass.storage.k8s.io \"fast\" not found",
        0,
        50,
    );
    let message = "persistentvolumeclaim \"data\" is not bound: ProvisioningFailed: storageclass.storage.k8s.io \"fast\" not \
                   found";
    let failed = report_of(&claim("Pending"), &[event]);
    check(
        &failed,
        Phase::Progressing,
        Outlook::Undecided,
        false,
        "NOT_BOUND",
        message,
    );
    let service = |kind: &str, ingress| {
        let spec = json!({"type": kind, "clusterIP": "10.0.0.1"});
        object(
            "v1",
            "Service",
            "web",
            spec,
            json!({"loadBalancer": {"ingress": ingress}}),
        )
    };
    let ready = report_of(&service("ClusterIP", json!([])), &[]);
    check(
        &ready,
        Phase::Complete,
        Outlook::Complete,
        true,
        "",
        "service \"web\" is ready",
    );
    let waiting = report_of(&service("LoadBalancer", json!([])), &[]);
    let message = "service \"web\" is not ready: its load balancer has no address yet";
    check(
        &waiting,
        Phase::Progressing,
        Outlook::Undecided,
        false,
        "NO_ADDRESS",
        message,
    );
    let ready = report_of(
        &service("LoadBalancer", json!([{"hostname": "lb.example"}])),
        &[],
    );
    let message = "service \"web\" has a load balancer at lb.example";
    check(
        &ready,
        Phase::Complete,
        Outlook::Complete,
        true,
        "",
        message,
    );
}

#[test]
fn unknown_kinds_are_decided_by_generic_conditions_and_said_to_be() {
    let of = |status| {
        report(
            60,
            &object("example.com/v1", "Database", "main", json!({}), status),
            &[],
        )
    };
    for (status, phase, certain, reason) in [
        (json!({}), Phase::Complete, false, ""),
        (json!({"observedGeneration": 1}), Phase::Complete, true, ""),
        (
            json!({"observedGeneration": 0}),
            Phase::Progressing,
            false,
            "GENERATION_UNOBSERVED",
        ),
        (
            json!({"conditions": [{"type": "Ready", "status": "True"}]}),
            Phase::Complete,
            true,
            "",
        ),
        (
            json!({"conditions": [{"type": "Ready", "status": "False"}]}),
            Phase::Progressing,
            false,
            "CONDITION_FALSE",
        ),
        (
            json!({"conditions": [{"type": "Reconciling", "status": "True"}]}),
            Phase::Progressing,
            false,
            "RECONCILING",
        ),
        (
            json!({"conditions": [{"type": "Stalled", "status": "True"}]}),
            Phase::Stalled,
            false,
            "STALLED",
        ),
        // What a stranger has there instead is not read.
        (
            json!({"conditions": {"Ready": "yes"}, "observedGeneration": "1"}),
            Phase::Complete,
            false,
            "",
        ),
        (json!([1, 2]), Phase::Complete, false, ""),
    ] {
        let report = of(status.clone());
        let verdict = report.verdict.clone().unwrap();
        assert!(report.generic, "{status}");
        let found = (report.phase(), verdict.certain, &*verdict.reason);
        assert_eq!(found, (phase, certain, reason), "{status}");
    }
    let known = report(60, &stateful_set(json!({}), json!({})), &[]);
    assert!(!known.generic);
}

// === Requests ===

fn violations(request: proto::ComputeStatusRequest) -> Vec<(String, String)> {
    match wire::compute_status(request) {
        Ok(response) => panic!("{response:?}"),
        Err(Error::InvalidArgument(all)) => {
            let listed = all.listed.into_iter();
            listed
                .map(|it| (it.field, it.reason.as_str().to_owned()))
                .collect()
        }
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn violations_of_other_kinds_name_the_place() {
    for (pointer, value, field, reason) in [
        ("/spec", json!(1), "spec", "WRONG_TYPE"),
        ("/spec/replicas", json!("3"), "spec.replicas", "WRONG_TYPE"),
        ("/spec/replicas", json!(-1), "spec.replicas", "NEGATIVE"),
        (
            "/spec/replicas",
            json!(1_i64 << 40),
            "spec.replicas",
            "OUT_OF_RANGE",
        ),
        (
            "/status/conditions",
            json!({}),
            "status.conditions",
            "WRONG_TYPE",
        ),
        (
            "/metadata/deletionTimestamp",
            json!("today"),
            "metadata.deletionTimestamp",
            "WRONG_TYPE",
        ),
        ("/metadata/name", json!(""), "metadata.name", "REQUIRED"),
    ] {
        let mut set = stateful_set(json!({}), json!({}));
        let (parent, key) = pointer.rsplit_once('/').unwrap();
        set.pointer_mut(parent).unwrap()[key] = value;
        let expected = (
            format!("snapshot.objects_json[0].items[0].{field}"),
            reason.to_owned(),
        );
        assert!(
            violations(request(0, &set, &[])).contains(&expected),
            "{field}"
        );
    }
    let mut without_time = request(0, &stateful_set(json!({}), json!({})), &[]);
    without_time.snapshot.as_mut().unwrap().now = None;
    assert_eq!(
        violations(without_time),
        [("snapshot.now".to_owned(), "REQUIRED".to_owned())]
    );
    // What nobody needs may be odd.
    let mut set = stateful_set(json!({}), json!({}));
    set["spec"]["serviceName"] = json!({"odd": []});
    set["status"]["collisionCount"] = json!("many");
    let mut stranger = pod("x", &set, "", "n", json!({"phase": 7}));
    stranger["metadata"]["ownerReferences"] = json!([]);
    assert_eq!(report(0, &set, &[stranger]).phase(), Phase::Complete);
}

#[test]
fn only_deployments_are_planned_for() {
    let snapshot = request(0, &stateful_set(json!({}), json!({})), &[]).snapshot;
    let plan = wire::plan_rollout(proto::PlanRolloutRequest {
        snapshot: snapshot.clone(),
        ..Default::default()
    });
    let rollback = wire::rollback(proto::RollbackRequest {
        snapshot: snapshot.clone(),
        ..Default::default()
    });
    let list = wire::list_revisions(proto::ListRevisionsRequest { snapshot });
    for error in [plan.unwrap_err(), rollback.unwrap_err(), list.unwrap_err()] {
        let Error::InvalidArgument(all) = error else {
            panic!("{error}");
        };
        let first = &all.listed[0];
        assert_eq!(
            (&*first.field, first.reason.as_str()),
            ("snapshot.target.kind", "WRONG_KIND")
        );
        assert!(
            first
                .description
                .contains("ComputeStatus reports on every kind"),
            "{first:?}"
        );
    }
}

/// Every number and text of every kind replaced by an absurd one: an answer or a violation, and never a panic.
#[test]
fn absurd_values_never_panic() {
    let set = stateful_set(
        json!({"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 1, "maxUnavailable": "50%"}},
               "ordinals": {"start": 5}, "minReadySeconds": 10}),
        json!({"updatedReplicas": 1, "currentRevision": "web-old", "readyReplicas": 1, "availableReplicas": 1}),
    );
    let daemon = daemon_set(
        json!({"updateStrategy": {"rollingUpdate": {"maxSurge": "10%", "maxUnavailable": 2}}}),
        json!({"updatedNumberScheduled": 1, "numberAvailable": 1}),
    );
    let targets = [
        set.clone(),
        daemon,
        job(
            json!({"completions": 3, "parallelism": 2, "backoffLimit": 1, "activeDeadlineSeconds": 60}),
            json!({"startTime": at(0), "active": 1, "failed": 1, "succeeded": 1, "terminating": 1}),
        ),
        object(
            "apps/v1",
            "ReplicaSet",
            "web",
            json!({"replicas": 3}),
            json!({"observedGeneration": 1, "replicas": 2}),
        ),
        object(
            "batch/v1",
            "CronJob",
            "c",
            json!({"suspend": true}),
            json!({"lastScheduleTime": at(0), "active": []}),
        ),
        object(
            "v1",
            "Service",
            "s",
            json!({"type": "LoadBalancer", "clusterIP": "10.0.0.1"}),
            json!({"loadBalancer": {"ingress": [{"ip": "10.0.0.1"}]}}),
        ),
        object(
            "example.com/v1",
            "Database",
            "d",
            json!({}),
            json!({"conditions": [{"type": "Ready", "status": "False"}]}),
        ),
    ];
    let absurd = [
        json!(i64::MIN),
        json!(i64::MAX),
        json!(i32::MAX),
        json!(-1),
        json!(0),
        json!(1e300),
        json!(0.5),
        json!(""),
        json!("\u{0}\u{1b}[31m\u{202e}"),
        json!("9999-12-31T23:59:59Z"),
        json!("0001-01-01T00:00:00Z"),
        json!("200%"),
        json!("2147483647%"),
        json!(null),
        json!(true),
        json!([]),
        json!({}),
        json!([[]]),
        json!([null]),
    ];
    let mut tried = 0;
    for target in &targets {
        let others = [
            pod("web-5", target, "web-old", "n", no_image()),
            pod("web-6", target, "web-new", "n", ready()),
            pod("web-99999999999999999999", target, "web-new", "", running()),
            warning("web-uid", "FailedCreate", "no", 0, 9),
        ];
        for pointer in leaves(target, String::new()) {
            if pointer.starts_with("/apiVersion")
                || pointer.starts_with("/kind")
                || pointer == "/metadata/name"
            {
                continue;
            }
            for value in &absurd {
                let mut odd = target.clone();
                *odd.pointer_mut(&pointer).unwrap() = value.clone();
                for now in [-1 << 34, 0, 1000, 1 << 37] {
                    _ = wire::compute_status(request(now, &odd, &others));
                    tried += 1;
                }
            }
        }
    }
    assert!(tried > 5000, "{tried}");
}

fn leaves(value: &Value, path: String) -> Vec<String> {
    let mut all = vec![path.clone()];
    match value {
        Value::Object(entries) => {
            for (key, inner) in entries {
                let key = key.replace('~', "~0").replace('/', "~1");
                all.extend(leaves(inner, format!("{path}/{key}")));
            }
        }
        Value::Array(items) => {
            for (index, inner) in items.iter().enumerate() {
                all.extend(leaves(inner, format!("{path}/{index}")));
            }
        }
        _ => {}
    }
    all.retain(|path| !path.is_empty());
    all
}
