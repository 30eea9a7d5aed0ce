//! The output and the exit code of `status` for each kind.

use serde_json::{Value, json};

use super::{
    alone, certificate, claim, daemon_set, ended_job, failing_pod, job, pod, read,
    replication_controller, running_job, service, stateful_set,
};
use crate::cli::NOW;
use crate::cli::kubectl::{Answer, Kubectl, Poll, poll, rollout};

#[test]
fn counters_and_causes_of_other_kinds_are_printed() {
    let set = stateful_set(0);
    let pods = ["db-0", "db-1"].map(|name| failing_pod(Some(&set), name));
    let kubectl = Kubectl::new(&[read(set, pods.to_vec())]);
    let run = kubectl.run(&["status", "sts/db", "-n", "shop", "--now", NOW]);
    assert_eq!((run.exit, run.err.as_str()), (1, ""), "{}", run.out);
    for part in [
        "StatefulSet shop/db: stalled\n",
        "statefulset \"db\" is stalled (2 of 2 updated, 0 of 2 available)\n",
        "image DB of container db cannot be pulled",
        "\nDESIRED  TOTAL  UPDATED  READY  AVAILABLE",
        "\n2        2      2        0      0",
    ] {
        assert!(run.out.contains(part), "{part:?}: {}", run.out);
    }
    let run = kubectl.run(&["status", "sts/db", "-o", "wide", "--now", NOW]);
    assert!(
        run.out.contains("db-1  db: InvalidImageName"),
        "{}",
        run.out
    );
    let run = kubectl.run(&["status", "sts/db", "-o", "name", "--now", NOW]);
    assert_eq!(run.out, "statefulset.apps/db\n");
    let run = kubectl.run(&["status", "sts/db", "-o", "json", "--now", NOW]);
    let json: Value = serde_json::from_str(&run.out).unwrap();
    assert_eq!(json["report"]["phase"], "PHASE_STALLED");
    assert_eq!(json["object"]["kind"], "StatefulSet");
    assert_eq!(
        json["report"]["counters"][1],
        json!({"name": "total", "value": "2"})
    );
    let run = kubectl.run(&["status", "sts/db", "-o", "yaml", "--now", NOW]);
    assert!(run.out.contains("phase: PHASE_STALLED"), "{}", run.out);
}

/// The fake kubectl matches no labels: `reads.rs` has the selector.
#[test]
fn pods_of_a_replication_controller_show_why_it_is_not_complete() {
    let controller = replication_controller(0);
    let pods = ["db-0", "db-1"].map(|name| failing_pod(Some(&controller), name));
    let kubectl = Kubectl::new(&[read(controller, pods.to_vec())]);
    for verb in ["status", "wait"] {
        let run = match verb {
            "wait" => kubectl.watch(&[verb, "rc/db", "-n", "shop"]),
            _ => kubectl.run(&[verb, "rc/db", "-n", "shop", "--now", NOW]),
        };
        assert_eq!((run.exit, run.err.as_str()), (1, ""), "{}", run.out);
        let cause = "image DB of container db cannot be pulled";
        assert!(run.out.contains(cause), "{verb}: {}", run.out);
    }
}

#[test]
fn exit_codes_match_the_state_of_each_kind() {
    let on_delete = || {
        let mut set = stateful_set(2);
        set["spec"]["updateStrategy"]["type"] = json!("OnDelete");
        set["status"]["updatedReplicas"] = json!(0);
        set["status"]["updateRevision"] = json!("db-2");
        set
    };
    let mut suspended = job(json!({}));
    suspended["spec"]["suspend"] = json!(true);
    let mut deleting = stateful_set(2);
    deleting["metadata"]["deletionTimestamp"] = json!("2026-11-20T11:59:59Z");
    let mut unobserved = daemon_set(3);
    unobserved["metadata"]["generation"] = json!(2);
    for (object, state, exit) in [
        (stateful_set(1), "progressing", 3),
        (on_delete(), "paused", 3),
        (deleting, "deleting", 1),
        (unobserved, "progressing", 3),
        (running_job(), "progressing", 3),
        (suspended, "paused", 3),
        (ended_job("Failed", "BackoffLimitExceeded"), "stalled", 1),
        (claim("Pending"), "progressing", 3),
        (claim("Lost"), "stalled", 1),
        (service(json!([])), "progressing", 3),
        (certificate("False"), "progressing", 3),
        (
            pod(None, "db", json!({"phase": "Failed", "reason": "Evicted"})),
            "stalled",
            1,
        ),
    ] {
        let kind = object["kind"].as_str().unwrap().to_owned();
        let kubectl = Kubectl::new(&[alone(object)]);
        let run = kubectl.run(&["status", &format!("{kind}/db"), "--now", NOW]);
        assert_eq!(run.exit, exit, "{kind}: {}{}", run.out, run.err);
        let head = format!("{kind} shop/db: {state}\n");
        assert!(run.out.starts_with(&head), "{head}: {}", run.out);
    }
}

#[test]
fn rows_of_several_kinds_name_the_kind() {
    let polls = [
        rollout(2),
        alone(running_job()),
        alone(stateful_set(1)),
        alone(ended_job("Complete", "CompletionsReached")),
        alone(stateful_set(2)),
    ];
    let kubectl = Kubectl::new(&polls);
    let run = kubectl.watch(&["wait", "deploy/web", "sts/db", "job/db", "-n", "shop"]);
    assert_eq!((run.exit, run.err.as_str()), (0, ""), "{}", run.out);
    let rows: Vec<Vec<&str>> = run
        .out
        .lines()
        .skip(1)
        .map(|line| line.split_whitespace().take(5).collect())
        .collect();
    for row in [
        ["Deployment", "shop/web", "complete", "2/2", "2/2"],
        ["StatefulSet", "shop/db", "progressing", "2/2", "1/2"],
        ["StatefulSet", "shop/db", "complete", "2/2", "2/2"],
        ["Job", "shop/db", "progressing", "-", "-"],
        ["Job", "shop/db", "complete", "-", "-"],
    ] {
        assert!(rows.iter().any(|it| *it == row), "{row:?}: {}", run.out);
    }
    assert_eq!(rows.len(), 5, "{}", run.out);
    // Missing objects are named with their kind.
    let missing = "Error from server (NotFound): statefulsets.apps \"db\" not found\n";
    let absent = Poll {
        deployment: Answer::Err(missing.to_owned()),
        ..poll(vec![])
    };
    let kubectl = Kubectl::new(&[absent]);
    let run = kubectl.run(&["status", "sts/db", "-n", "shop"]);
    assert_eq!(
        (run.exit, run.err.as_str()),
        (2, "error: StatefulSet db not found in namespace shop\n")
    );
}

/// A file contains all pods if it contains as many as the status counts.
#[test]
fn files_without_pods_do_not_show_why_pods_are_not_available() {
    let unexplained = "the snapshot does not contain the pods";
    for (set, pods, is_unexplained) in [
        (stateful_set(0), 0, true),
        (daemon_set(0), 0, true),
        (stateful_set(0), 2, false),
    ] {
        let names = ["db-0", "db-1"].into_iter().take(pods);
        let pods = names.map(|name| failing_pod(Some(&set), name));
        let items: Vec<_> = [set.clone()].into_iter().chain(pods).collect();
        let list = json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string();
        let run = crate::cli::rollplan(&["status", "-f", "-", "--now", NOW], &list);
        assert_eq!(run.out.contains(unexplained), is_unexplained, "{}", run.out);
    }
}
