//! Pods that the API server rejects, by the events about it.

use std::sync::Arc;

use rollplan_core::snapshot::Snapshot;
use rollplan_world::{at, mk_condition, mk_pod, mk_set_status};

use super::{check_decided, check_never, event, without_events};
use crate::report::half_way;

/// Attempts of the ReplicaSet controller to create pods, with exponential backoff.
fn refused(seconds: i64, texts: &[&str]) -> Snapshot {
    let mut snapshot = half_way();
    snapshot.replica_sets[0].status = mk_set_status(0, 0);
    let mut failure = mk_condition("ReplicaFailure", "True", "FailedCreate", at(0));
    failure.message = (*texts.last().unwrap()).to_owned();
    snapshot.replica_sets[0].status.conditions = vec![failure];
    let attempts = [0, 1, 2, 5, 10, 20, 41, 82, 164, 328, 656, 1000];
    let attempts = attempts.into_iter().filter(|at| *at <= seconds);
    let events = attempts.enumerate().map(|(number, at)| {
        let text = texts[number.min(texts.len() - 1)];
        event("web-v2-uid", "FailedCreate", text, at, at)
    });
    snapshot.events = events.collect();
    snapshot
}

#[test]
fn definite_refusal_is_certain_after_a_repetition() {
    let denied = "Error creating: admission webhook \"policy\" denied the request: no";
    check_decided(|seconds| refused(seconds, &[denied]), 41, 42);
    let large = "Error creating: pods \"web-x\" is forbidden: exceeded quota: q, requested: limits.cpu=3, used: limits.cpu=0, limited: limits.cpu=2";
    check_decided(|seconds| refused(seconds, &[large]), 41, 42);
    let account = "Error creating: error looking up service account default/web: serviceaccount \"web\" not found";
    check_decided(|seconds| refused(seconds, &[account]), 164, 164);
    // The condition alone is not enough: it remains after its cause is resolved.
    check_never(|seconds| without_events(refused(seconds, &[denied])));
    check_never(|_| refused(0, &[denied]));
}

#[test]
fn temporary_refusals_are_never_failed() {
    let quota = "Error creating: pods \"web-x\" is forbidden: exceeded quota: q, requested: pods=1, used: pods=4, limited: pods=4";
    let timeout = "Error creating: Internal error occurred: failed calling webhook \"policy\": context deadline exceeded";
    let modified = "Error creating: Operation cannot be fulfilled on resourcequotas \"q\": the object has been modified";
    let denied = "Error creating: admission webhook \"policy\" denied the request: no";
    for texts in [
        &[quota][..],
        &[timeout],
        &[modified],
        &["Error creating: something new"],
        // The last message counts.
        &[denied, denied, timeout],
    ] {
        check_never(|seconds| refused(seconds, texts));
    }
    // It recovers within the grace period, and its condition and events remain.
    check_never(|seconds| refused(seconds.min(36), &[denied]));
    // The rejected pods are no longer desired, and the ReplicaSet is to be scaled down.
    check_never(|seconds| {
        let mut snapshot = refused(seconds, &[denied]);
        snapshot.deployment.spec.replicas = 1;
        snapshot.replica_sets[0].status.replicas = 1;
        snapshot
    });
    // Terminating pods of the Deployment may release quota, so nothing is decided.
    check_never(|seconds| {
        let mut snapshot = refused(seconds, &[denied]);
        let mut old = mk_pod(&snapshot.replica_sets[1], "old", "Running");
        old.metadata.deletion_timestamp = Some(at(seconds + 30));
        snapshot.pods = Arc::new([old]);
        snapshot
    });
}
