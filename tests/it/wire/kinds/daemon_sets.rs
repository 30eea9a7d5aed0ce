//! DaemonSets: nodes, revisions and limits.

use rollplan::proto::{Outlook, Phase};
use serde_json::{Value, json};

use super::{
    check, daemon_set, listed, message_with_pods, never_ready, no_image, object, pod, ready,
    report, unready, warning,
};

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
fn daemon_set_without_nodes_is_complete() {
    let set = daemon_set(
        json!({}),
        json!({"desiredNumberScheduled": 0, "currentNumberScheduled": 0,
        "updatedNumberScheduled": 0, "numberReady": 0, "numberAvailable": 0}),
    );
    let message = "daemonset \"agent\" has no node to run on: no node matches its nodeSelector, affinity and tolerations";
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
fn daemon_set_names_bad_nodes_without_failing() {
    let set = daemon_set(
        json!({}),
        json!({"updatedNumberScheduled": 2, "numberReady": 2, "numberAvailable": 2}),
    );
    let mut theirs = revision(&set, "theirs", 11);
    theirs["metadata"]["ownerReferences"][0]["uid"] = json!("another");
    let revisions = [revision(&set, "old", 1), revision(&set, "new", 10), theirs];
    let mut objects = vec![
        pod("agent-a", &set, "new", "node-a", no_image()),
        pod("agent-b", &set, "new", "node-b", ready()),
        // A crash of an old pod does not belong to this rollout.
        pod("agent-c", &set, "old", "node-c", no_image()),
    ];
    objects.extend(revisions);
    let message = "daemonset \"agent\" is rolling out (2 of 3 nodes updated, 2 of 3 available): image web:2 of container web \
                   cannot be pulled (1 of 3 new pods: agent-a ErrImagePull for 1h): not found (node node-a)";
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
fn daemon_set_recognizes_new_pods_by_the_template_generation() {
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

#[test]
fn daemon_set_on_delete_names_its_old_pods() {
    let set = daemon_set(
        json!({"updateStrategy": {"type": "OnDelete"}}),
        json!({"updatedNumberScheduled": 1}),
    );
    let objects = [
        pod("agent-a", &set, "new", "node-a", ready()),
        pod("agent-b", &set, "old", "node-b", ready()),
        pod("agent-c", &set, "old", "node-c", ready()),
        revision(&set, "old", 1),
        revision(&set, "new", 2),
    ];
    let blocker = report(60, &set, &objects).blockers.remove(0);
    assert_eq!(
        listed(&blocker),
        [("agent-b", "Outdated"), ("agent-c", "Outdated")]
    );
    assert_eq!(blocker.remedy, "kubectl delete pod agent-b -n shop");
}

#[test]
fn refused_pods_of_a_daemon_set_count_only_while_pods_are_missing() {
    let of = |current: i64| {
        let status = json!({"currentNumberScheduled": current, "updatedNumberScheduled": 2, "numberReady": 2,
            "numberAvailable": 2});
        let refused = warning("agent-uid", "FailedCreate", "exceeded quota: q", 0, 50);
        report(60, &daemon_set(json!({}), status), &[refused])
            .blockers
            .remove(0)
            .reason
    };
    assert_eq!((&*of(2), &*of(3)), ("PODS_REFUSED", "NOT_AVAILABLE"));
}

#[test]
fn daemon_set_is_complete_only_if_all_its_pods_are_new_and_ready() {
    let phase = |spec: Value, field: &str| {
        let set = daemon_set(spec, json!({field: 2}));
        report(60, &set, &[]).phase()
    };
    for field in [
        "currentNumberScheduled",
        "updatedNumberScheduled",
        "numberReady",
        "numberAvailable",
    ] {
        assert_eq!(phase(json!({}), field), Phase::Progressing, "{field}");
        let expected = match field {
            // All pods are available: it waits for the user.
            "updatedNumberScheduled" => Phase::Paused,
            _ => Phase::Progressing,
        };
        let spec = json!({"updateStrategy": {"type": "OnDelete"}});
        assert_eq!(phase(spec, field), expected, "{field}");
    }
}

#[test]
fn daemon_set_is_degraded_only_after_its_update() {
    let phase = |updated: i64| {
        let set = daemon_set(
            json!({}),
            json!({"updatedNumberScheduled": updated, "numberReady": 2, "numberAvailable": 2}),
        );
        let objects = [
            pod("agent-a", &set, "new", "node-a", unready()),
            pod("agent-b", &set, "new", "node-b", ready()),
            revision(&set, "new", 2),
        ];
        report(60, &set, &objects).phase()
    };
    assert_eq!([phase(2), phase(3)], [Phase::Progressing, Phase::Degraded]);
}

#[test]
fn daemon_set_whose_pods_have_never_been_ready_is_stalled() {
    let set = daemon_set(
        json!({}),
        json!({"desiredNumberScheduled": 1, "currentNumberScheduled": 1, "updatedNumberScheduled": 1, "numberReady": 0,
            "numberAvailable": 0}),
    );
    let objects = [
        pod("agent-a", &set, "new", "node-a", never_ready()),
        revision(&set, "new", 2),
    ];
    assert_eq!(report(6000, &set, &objects).phase(), Phase::Stalled);
}

#[test]
fn pods_of_a_daemon_set_that_are_not_in_the_request_are_named_as_missing() {
    let message = |available: i64, has_pods: bool, is_complete: bool| {
        let set = daemon_set(
            json!({}),
            json!({"numberReady": 1, "numberAvailable": available}),
        );
        let pods = [pod("agent-a", &set, "new", "node-a", ready())];
        message_with_pods(&set, &pods[..usize::from(has_pods)], is_complete)
    };
    let unknown = "the pods on 2 nodes are not available, and the snapshot does not contain the pods that would show why";
    let late = "the pods on 2 nodes are not available yet";
    assert_eq!(message(1, false, false), unknown);
    assert_eq!(message(1, true, false), late);
    assert_eq!(message(1, false, true), late);
    // A pod that is not ready is not available, whatever the counter says.
    assert_eq!(message(3, true, false), late);
    let one = "the pods on 1 node are not available yet";
    let set = daemon_set(json!({}), json!({"numberAvailable": 2}));
    assert_eq!(report(60, &set, &[]).blockers[0].message, one);
}
