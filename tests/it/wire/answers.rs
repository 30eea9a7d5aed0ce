//! Answers for options and incomplete snapshots: horizon, report, timer and status.

use rollplan::proto;
use rollplan::wire;
use serde_json::json;

use super::{example, examples};
use crate::request::mk_request;

#[test]
fn default_horizon_is_settled() {
    let answer = |horizon: proto::Horizon| {
        let mut request = mk_request();
        request.options.horizon = horizon.into();
        request.plan()
    };
    let settled = answer(proto::Horizon::Settled);
    assert_eq!(answer(proto::Horizon::Unspecified), settled);
    assert_ne!(answer(proto::Horizon::Pass), settled);
    let without_options = proto::PlanRolloutRequest {
        options: None,
        ..mk_request().message()
    };
    assert_eq!(rollplan::service::answer(without_options).unwrap(), settled);
}

#[test]
fn requeue_after_is_the_progress_deadline() {
    // The deadline of 600 s starts with the progress in this snapshot, and one second is added.
    let span = prost_types::Duration {
        seconds: 601,
        nanos: 0,
    };
    assert_eq!(example("mid-rollout").plan().requeue_after, Some(span));
    assert_eq!(example("after-undo").plan().requeue_after, None);
}

#[test]
fn reports_are_returned_on_request() {
    for (name, mut request) in examples() {
        let without = request.plan();
        assert_eq!(without.report, None, "{name}");
        request.options.report = true;
        let with = request.plan();
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
    let terminating = |option| {
        let mut request = example("recreate-waiting");
        request.options.terminating_replicas = option;
        request.plan().status.unwrap().terminating_replicas
    };
    assert_eq!(terminating(None), Some(3));
    assert_eq!(terminating(Some(true)), Some(3));
    assert_eq!(terminating(Some(false)), None);
}

/// Without a complete list of ReplicaSets, every call except the list of revisions only returns the reason.
#[test]
fn incomplete_replica_sets_have_neither_plan_nor_status() {
    for (name, mut request) in examples() {
        request.snapshot.replica_sets_complete = false;
        loop {
            let sets = request.all("ReplicaSet").count();
            let response = request.plan();
            let report = response.report.unwrap();
            assert_eq!(response.steps, []);
            assert_eq!((response.status, response.requeue_after), (None, None));
            assert_eq!((report.counts, &*report.revision), (None, ""));
            let reasons: Vec<_> = report.blockers.iter().map(|it| &*it.reason).collect();
            assert_eq!(reasons, ["REPLICA_SETS_INCOMPLETE"], "{name}");
            let status = request.compute_status();
            assert_eq!(status.status, None);
            assert_eq!(status.report.unwrap().phase, report.phase);
            let error = rollplan::service::answer(request.rollback_request()).unwrap_err();
            assert!(
                error
                    .to_string()
                    .contains("the list of ReplicaSets may be incomplete"),
                "{error}"
            );
            let list = rollplan::service::answer(request.revisions_request());
            assert!(list.unwrap().revisions.len() <= sets);
            let mut items = request.items.iter();
            let Some(last) = items.rposition(|it| it["kind"] == "ReplicaSet") else {
                break;
            };
            request.items.remove(last);
        }
    }
}

#[test]
fn status_names_its_object() {
    let mut request = mk_request();
    for complete in [true, false] {
        request.snapshot.replica_sets_complete = complete;
        let object = request.compute_status().object.unwrap();
        assert_eq!(object.api_version, "apps/v1");
        assert_eq!(object.kind, "Deployment");
        assert_eq!((&*object.namespace, &*object.name), ("shop", "web"));
        assert_eq!(object.uid, "web-uid");
    }
}

#[test]
fn fail_on_rules_are_validated() {
    let violations = |rules: Vec<proto::FailureRule>, previous: Option<proto::Verdict>| {
        let request = proto::ComputeStatusRequest {
            previous_verdict: previous,
            fail_on: rules,
            ..mk_request().status_request()
        };
        match rollplan::service::answer(request) {
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
    let mut stuck = example("stuck-bad-image");
    // Of these, the grace must be the first to end.
    stuck.spec()["progressDeadlineSeconds"] = json!(1_000_000);
    stuck.deployment()["status"]["conditions"] = json!([]);
    let decided_after = |seconds, nanos| {
        let grace = prost_types::Duration { seconds, nanos };
        let rule = proto::FailureRule {
            failure: "image-pull".to_owned(),
            limit: Some(proto::failure_rule::Limit::Grace(grace)),
        };
        let status = rollplan::service::answer(proto::ComputeStatusRequest {
            fail_on: vec![rule],
            ..stuck.status_request()
        });
        let verdict = status.unwrap().report.unwrap().verdict.unwrap();
        verdict.decided_after.unwrap().seconds
    };
    let whole = decided_after(100_000, 0);
    assert_eq!(decided_after(99_999, 1), whole);
    assert_eq!(decided_after(99_999, 0), whole - 1);
}
