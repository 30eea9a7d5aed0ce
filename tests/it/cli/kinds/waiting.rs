//! `wait` for each kind, and its goals.

use serde_json::json;

use super::{
    alone, certificate, claim, daemon_set, ended_job, replica_set, running_job, stateful_set,
};
use crate::cli::kubectl::{Kubectl, poll};
use crate::cli::refused;

#[test]
fn wait_ends_with_the_state_of_each_kind() {
    let failed = || alone(ended_job("Failed", "BackoffLimitExceeded"));
    for (args, polls, exit) in [
        (
            &["sts/db"][..],
            vec![alone(stateful_set(0)), alone(stateful_set(2))],
            0,
        ),
        (
            &["job/db"],
            vec![
                alone(running_job()),
                alone(ended_job("Complete", "CompletionsReached")),
            ],
            0,
        ),
        (&["job/db"], vec![alone(running_job()), failed()], 1),
        // This state is final, so there is nothing to wait for.
        (
            &["job/db", "--fail-fast=off"],
            vec![alone(running_job()), failed()],
            1,
        ),
        (
            &["daemonset", "db", "--for=available"],
            vec![alone(daemon_set(2)), alone(daemon_set(3))],
            0,
        ),
        (
            &["sts/db", "--for=updated"],
            vec![alone(stateful_set(0))],
            0,
        ),
        (
            &["rs/db", "--for=available"],
            vec![alone(replica_set(2))],
            0,
        ),
        (
            &["certificate/db"],
            vec![alone(certificate("Unknown")), alone(certificate("True"))],
            0,
        ),
        (
            &["pvc/db", "--for=deleted"],
            vec![alone(claim("Bound")), poll(vec![])],
            0,
        ),
    ] {
        let kubectl = Kubectl::new(&polls);
        let run = kubectl.watch(&[&["wait"], args].concat());
        assert_eq!(run.exit, exit, "{args:?}: {}{}", run.out, run.err);
        assert_eq!(run.err, "", "{args:?}");
    }
    // An object in progress ends the wait at its timeout.
    let kubectl = Kubectl::new(&[alone(stateful_set(1))]);
    let run = kubectl.run(&["wait", "sts/db", "--timeout=0"]);
    assert_eq!(
        (run.exit, run.err.as_str()),
        (3, "note: still in progress after 0s\n")
    );
}

#[test]
fn stateful_set_updates_complete_at_the_partition() {
    let mut set = stateful_set(2);
    set["spec"]["updateStrategy"]["rollingUpdate"] = json!({"partition": 1});
    set["status"]["updateRevision"] = json!("db-2");
    set["status"]["updatedReplicas"] = json!(1);
    set["status"]["currentReplicas"] = json!(1);
    set["status"]["availableReplicas"] = json!(1);
    set["status"]["readyReplicas"] = json!(1);
    let kubectl = Kubectl::new(&[alone(set)]);
    let run = kubectl.watch(&["wait", "sts/db", "--for=updated"]);
    assert_eq!((run.exit, run.err.as_str()), (0, ""), "{}", run.out);
    let run = kubectl.run(&["status", "sts/db"]);
    assert!(run.out.contains("  PARTITION\n"), "{}", run.out);
}

#[test]
fn goals_without_meaning_for_a_kind_are_refused() {
    for (args, expected) in [
        (
            &["wait", "job/db", "--for=available"][..],
            "error: --for=available is for Deployments, StatefulSets, DaemonSets and ReplicaSets: a Job has no number of \
             available pods",
        ),
        (
            &["wait", "web", "rs/db", "--for=updated"],
            "error: --for=updated is for Deployments, StatefulSets and DaemonSets: a ReplicaSet has no number of updated pods",
        ),
        (
            &["wait", "--all", "po,sts", "--for=available"],
            "a Pod has no number of available pods",
        ),
    ] {
        let err = refused(args, "");
        assert!(err.contains(expected), "{args:?}: {err}");
    }
    // The kind of some names is only known after the object is read.
    let kubectl = Kubectl::new(&[alone(certificate("True"))]);
    let run = kubectl.watch(&["wait", "cert/db", "--for=available"]);
    assert_eq!(run.exit, 2, "{}", run.out);
    assert!(
        run.err.contains("a Certificate has no number"),
        "{}",
        run.err
    );
}
