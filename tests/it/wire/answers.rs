//! Answers for options and incomplete snapshots: horizon, report, timer and status.

use rollplan::proto;
use rollplan::wire;

use super::{Parts as _, example, examples, mk_request, request};

#[test]
fn default_horizon_is_settled() {
    let answer = |horizon: Option<proto::Horizon>| {
        let mut request = mk_request();
        request.options = horizon.map(|horizon| proto::PlanOptions {
            horizon: horizon.into(),
            ..Default::default()
        });
        wire::plan_rollout(request).unwrap()
    };
    let settled = answer(Some(proto::Horizon::Settled));
    assert_eq!(answer(None), settled);
    assert_eq!(answer(Some(proto::Horizon::Unspecified)), settled);
    assert_ne!(answer(Some(proto::Horizon::Pass)), settled);
}

#[test]
fn requeue_after_is_the_progress_deadline() {
    // The deadline of 600 s starts with the progress in this snapshot, and one second is added.
    let list = example("mid-rollout");
    let response = wire::plan_rollout(request(&list)).unwrap();
    let span = prost_types::Duration {
        seconds: 601,
        nanos: 0,
    };
    assert_eq!(response.requeue_after, Some(span));
    let list = example("after-undo");
    assert_eq!(
        wire::plan_rollout(request(&list)).unwrap().requeue_after,
        None
    );
}

#[test]
fn reports_are_returned_on_request() {
    for (name, example) in examples() {
        let mut request = request(&example);
        let without = wire::plan_rollout(request.clone()).unwrap();
        assert_eq!(without.report, None, "{name}");
        request.options.get_or_insert_default().report = true;
        let with = wire::plan_rollout(request).unwrap();
        let report = with.report.clone().unwrap();
        assert!(!report.message.is_empty(), "{name}");
        let without = proto::PlanRolloutResponse {
            report: Some(report),
            ..without
        };
        assert_eq!(with, without, "{name}");
    }
}

#[test]
fn terminating_replicas_are_optional() {
    let list = example("recreate-waiting");
    let terminating = |option| {
        let mut request = request(&list);
        request.options.get_or_insert_default().terminating_replicas = option;
        wire::plan_rollout(request)
            .unwrap()
            .status
            .unwrap()
            .terminating_replicas
    };
    assert_eq!(terminating(None), Some(3));
    assert_eq!(terminating(Some(true)), Some(3));
    assert_eq!(terminating(Some(false)), None);
}

/// Without a complete list of ReplicaSets, every call except the list of revisions only returns the reason.
#[test]
fn incomplete_replica_sets_have_neither_plan_nor_status() {
    for (name, example) in examples() {
        let mut request = request(&example);
        let sets = request.snapshot().replica_sets.len();
        for left in 0..=sets {
            request.snapshot().replica_sets_complete = false;
            request.snapshot().replica_sets.truncate(sets - left);
            let response = wire::plan_rollout(request.clone()).unwrap();
            let report = response.report.unwrap();
            assert_eq!(response.steps, []);
            assert_eq!((response.status, response.requeue_after), (None, None));
            assert_eq!((report.counts, &*report.revision), (None, ""));
            let reasons: Vec<_> = report.blockers.iter().map(|it| &*it.reason).collect();
            assert_eq!(reasons, ["REPLICA_SETS_INCOMPLETE"], "{name}");
            let snapshot = request.snapshot.clone();
            let status = wire::compute_status(proto::ComputeStatusRequest {
                snapshot: snapshot.clone(),
                ..Default::default()
            });
            let status = status.unwrap();
            assert_eq!(status.status, None);
            assert_eq!(status.report.unwrap().phase, report.phase);
            let back = wire::rollback(proto::RollbackRequest {
                snapshot: snapshot.clone(),
                ..Default::default()
            });
            let error = back.unwrap_err().to_string();
            assert!(
                error.contains("the list of ReplicaSets may be incomplete"),
                "{error}"
            );
            let list = wire::list_revisions(proto::ListRevisionsRequest { snapshot });
            assert!(list.unwrap().revisions.len() <= sets - left);
        }
    }
}

#[test]
fn status_names_its_object() {
    let mut snapshot = mk_request().snapshot;
    for complete in [true, false] {
        let snapshot = snapshot.as_mut().unwrap();
        snapshot.replica_sets_complete = complete;
        let metadata = snapshot.deployment.clone().unwrap().metadata.unwrap();
        let status = wire::compute_status(proto::ComputeStatusRequest {
            snapshot: Some(snapshot.clone()),
            ..Default::default()
        });
        let expected = proto::ObjectReference {
            // The defaults of the API are filled in.
            api_version: "apps/v1".to_owned(),
            kind: "Deployment".to_owned(),
            namespace: metadata.namespace,
            name: metadata.name,
            uid: metadata.uid,
            field_path: String::new(),
        };
        assert_eq!(status.unwrap().object, Some(expected));
    }
}

#[test]
fn fail_on_rules_are_validated() {
    let violations = |rules: Vec<proto::FailureRule>, previous: Option<proto::Verdict>| {
        let request = proto::ComputeStatusRequest {
            snapshot: mk_request().snapshot,
            options: None,
            previous_verdict: previous,
            fail_on: rules,
        };
        match wire::compute_status(request) {
            Ok(_) => Vec::new(),
            Err(wire::Error::InvalidArgument(violations)) => {
                let listed = violations.listed.into_iter();
                listed.map(|one| (one.field, one.reason)).collect()
            }
            Err(other) => panic!("{other:?}"),
        }
    };
    let rule = |failure: &str, limit| proto::FailureRule {
        failure: failure.to_owned(),
        limit,
    };
    let grace = |seconds| {
        let grace = prost_types::Duration { seconds, nanos: 0 };
        Some(proto::failure_rule::Limit::Grace(grace))
    };
    let just_below = Some(proto::failure_rule::Limit::Grace(prost_types::Duration {
        seconds: 0,
        nanos: -1,
    }));
    let restarts = |restarts| Some(proto::failure_rule::Limit::Restarts(restarts));
    let fine = vec![
        rule("image-pull", grace(30)),
        rule("crash-loop", restarts(3)),
    ];
    assert_eq!(violations(fine, Some(proto::Verdict::default())), []);
    let wrong = vec![
        rule("other", grace(1)),
        rule("image-pull", grace(-1)),
        rule("config", restarts(1)),
        rule("crash-loop", restarts(-1)),
        rule("crash-loop", grace(1)),
        rule("refused", None),
        rule("refused", just_below),
    ];
    let previous = proto::Verdict {
        since: Some(prost_types::Timestamp {
            seconds: 0,
            nanos: -1,
        }),
        ..Default::default()
    };
    let expected = [
        ("previous_verdict.since", wire::Reason::OutOfRange),
        ("fail_on[0].failure", wire::Reason::UnknownEnumValue),
        ("fail_on[1].grace", wire::Reason::Negative),
        ("fail_on[2].grace", wire::Reason::Required),
        ("fail_on[3].restarts", wire::Reason::Negative),
        ("fail_on[4].failure", wire::Reason::Duplicate),
        ("fail_on[4].restarts", wire::Reason::Required),
        ("fail_on[5].grace", wire::Reason::Required),
        ("fail_on[6].grace", wire::Reason::Negative),
    ];
    let expected = expected.map(|(field, reason)| (field.to_owned(), reason));
    assert_eq!(violations(wrong, Some(previous)), expected);
}

/// Otherwise, a report would be certain before the time that the caller gives.
#[test]
fn parts_of_a_second_of_a_grace_are_rounded_up() {
    let mut stuck = request(&example("stuck-bad-image"));
    // Of these, the grace must be the first to end.
    stuck.spec().progress_deadline_seconds = Some(1_000_000);
    stuck.status().conditions.clear();
    let decided_after = |seconds, nanos| {
        let grace = prost_types::Duration { seconds, nanos };
        let rule = proto::FailureRule {
            failure: "image-pull".to_owned(),
            limit: Some(proto::failure_rule::Limit::Grace(grace)),
        };
        let status = wire::compute_status(proto::ComputeStatusRequest {
            snapshot: stuck.snapshot.clone(),
            fail_on: vec![rule],
            ..Default::default()
        });
        let verdict = status.unwrap().report.unwrap().verdict.unwrap();
        verdict.decided_after.unwrap().seconds
    };
    let whole = decided_after(100_000, 0);
    assert_eq!(decided_after(99_999, 1), whole);
    assert_eq!(decided_after(99_999, 0), whole - 1);
}
