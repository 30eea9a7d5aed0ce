//! What comes out: plans as messages.

use prost::Message as _;
use rollplan::proto;
use rollplan::wire::{self, json};
use rollplan_core::action::{
    Action, NewReplicaSet, OnFailure, OwnerChange, SetChange, Step, Target,
};
use rollplan_core::snapshot::{DeploymentStatus, ObjectMeta, StringMap};
use rollplan_core::template::Value;

use super::random::Random;
use super::{Parts as _, example, examples, mk_request, request};

fn target(kind: &str) -> Target {
    Target {
        api_version: "apps/v1".to_owned(),
        kind: kind.to_owned(),
        namespace: "shop".to_owned(),
        name: "web".to_owned(),
        uid: "u".to_owned(),
        generation: 3,
        resource_version: Some("7".to_owned()),
    }
}

fn print(action: Action, on_failure: OnFailure) -> proto::Step {
    let call = Some(action.call());
    wire::print_step(Step {
        action: Some(action),
        call,
        events: Vec::new(),
        on_failure,
        reason: None,
    })
}

#[test]
fn every_action_has_its_message() {
    use proto::step::Action as Printed;
    let annotations: StringMap = [("a".to_owned(), "b".to_owned())].into();
    let (name, uid) = (|| "web".to_owned(), || "u".to_owned());
    let change = || SetChange {
        annotations: annotations.clone(),
        first_annotations: true,
        min_ready_seconds: Some(4),
    };
    let (owner, set) = (|| target("Deployment"), || target("ReplicaSet"));
    let status = DeploymentStatus {
        replicas: 4,
        collision_count: Some(1),
        ..DeploymentStatus::default()
    };
    let cases = [
        (
            Action::CheckOwner { owner: owner() },
            Printed::CheckOwner(proto::CheckOwner {
                uid: uid(),
                resource_version: "7".to_owned(),
            }),
        ),
        (
            Action::AdoptReplicaSet {
                set: set(),
                owner_references: Vec::new(),
            },
            Printed::AdoptReplicaSet(proto::AdoptReplicaSet {
                name: name(),
                uid: uid(),
            }),
        ),
        (
            Action::ReleaseReplicaSet {
                set: set(),
                owner_references: Vec::new(),
            },
            Printed::ReleaseReplicaSet(proto::ReleaseReplicaSet {
                name: name(),
                uid: uid(),
            }),
        ),
        (
            Action::CreateReplicaSet(Box::new(NewReplicaSet {
                metadata: ObjectMeta {
                    name: "web-1".to_owned(),
                    ..ObjectMeta::default()
                },
                replicas: 2,
                min_ready_seconds: 0,
                selector: Default::default(),
                template: Value::map().into(),
                revision: 5,
            })),
            Printed::CreateReplicaSet(proto::CreateReplicaSet {
                name: "web-1".to_owned(),
                replicas: 2,
                revision: 5,
            }),
        ),
        (
            Action::UpdateReplicaSet {
                set: set(),
                change: change(),
            },
            Printed::UpdateReplicaSet(proto::UpdateReplicaSet {
                name: name(),
                uid: uid(),
                annotations: annotations.clone(),
                min_ready_seconds: Some(4),
            }),
        ),
        (
            Action::ScaleReplicaSet {
                set: set(),
                from: 3,
                to: 5,
                change: change(),
            },
            Printed::ScaleReplicaSet(proto::ScaleReplicaSet {
                name: name(),
                uid: uid(),
                from_replicas: 3,
                to_replicas: 5,
                annotations: annotations.clone(),
            }),
        ),
        (
            Action::DeleteReplicaSet { set: set() },
            Printed::DeleteReplicaSet(proto::DeleteReplicaSet {
                name: name(),
                uid: uid(),
            }),
        ),
        (
            Action::UpdateDeployment {
                owner: owner(),
                change: OwnerChange {
                    annotations: annotations.clone(),
                    removed_annotations: vec!["c".to_owned()],
                    all_annotations: annotations.clone(),
                    template: Some(Value::map()),
                },
            },
            Printed::UpdateDeployment(proto::UpdateDeployment {
                template_changed: true,
                annotations: annotations.clone(),
                removed_annotations: vec!["c".to_owned()],
            }),
        ),
        (
            Action::UpdateDeploymentStatus {
                owner: owner(),
                status: status.clone(),
                revision: Some("3".to_owned()),
                selector: Some("app=web".to_owned()),
                ready: Some("2/3".to_owned()),
            },
            Printed::UpdateDeploymentStatus(proto::UpdateDeploymentStatus {
                status: Some(proto::DeploymentStatus {
                    replicas: 4,
                    collision_count: Some(1),
                    ..Default::default()
                }),
                revision: Some("3".to_owned()),
                selector: Some("app=web".to_owned()),
                ready: Some("2/3".to_owned()),
            }),
        ),
    ];
    for (action, printed) in cases {
        assert_eq!(print(action, OnFailure::Stop).action, Some(printed));
    }
}

#[test]
fn what_to_do_on_failure_is_told() {
    let told = |on_failure| {
        let step = print(
            Action::DeleteReplicaSet {
                set: target("ReplicaSet"),
            },
            on_failure,
        );
        (step.on_failure(), step.done_http_codes)
    };
    assert_eq!(told(OnFailure::Stop), (proto::OnFailure::Stop, vec![]));
    assert_eq!(
        told(OnFailure::Tolerate(&[404, 422])),
        (proto::OnFailure::DoneIf, vec![404, 422])
    );
    assert_eq!(
        told(OnFailure::Continue),
        (proto::OnFailure::Continue, vec![])
    );
}

#[test]
fn a_step_of_events_only_has_no_call() {
    let mut request = mk_request();
    let deployment = request
        .snapshot
        .as_mut()
        .unwrap()
        .deployment
        .as_mut()
        .unwrap();
    deployment.spec.as_mut().unwrap().selector = Some(Default::default());
    let response = wire::plan_rollout(request).unwrap();
    let step = &response.steps[0];
    assert_eq!((&step.call, &step.action), (&None, &None));
    assert_eq!(
        (
            step.events[0].r#type.as_str(),
            step.events[0].reason.as_str()
        ),
        ("Warning", "SelectingAll")
    );
}

#[test]
fn a_call_is_printed_whole() {
    let step = print(
        Action::CheckOwner {
            owner: target("Deployment"),
        },
        OnFailure::Stop,
    );
    assert_eq!(step.summary, "check that Deployment web is unchanged");
    assert_eq!(
        step.call,
        Some(proto::ApiCall {
            verb: proto::Verb::Patch.into(),
            api_version: "apps/v1".to_owned(),
            kind: "Deployment".to_owned(),
            namespace: "shop".to_owned(),
            name: "web".to_owned(),
            subresource: String::new(),
            content_type: "application/merge-patch+json".to_owned(),
            body_json: r#"{"metadata":{"resourceVersion":"7","uid":"u"}}"#.to_owned(),
            path: "/apis/apps/v1/namespaces/shop/deployments/web".to_owned(),
            query: "fieldManager=rollplan".to_owned(),
        })
    );
}

#[test]
fn the_time_to_ask_again_is_that_of_the_deadline() {
    // The deadline of 600 s counts from the progress that this plan sees, and a second is added.
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
fn bytes_and_messages_are_answered_alike_and_the_same_every_time() {
    for (name, example) in examples() {
        for horizon in [proto::Horizon::Pass, proto::Horizon::Settled] {
            let mut request = request(&example);
            request.options.get_or_insert_default().horizon = horizon.into();
            let bytes = request.encode_to_vec();
            let answer = wire::plan_rollout_bytes(&bytes).unwrap();
            assert_eq!(wire::plan_rollout_bytes(&bytes).unwrap(), answer, "{name}");
            let response = wire::plan_rollout(request).unwrap();
            assert_eq!(response.encode_to_vec(), answer, "{name}");
            let json = json::to_json(&response).unwrap();
            assert_eq!(
                json::from_json::<proto::PlanRolloutResponse>(&json).unwrap(),
                response,
                "{name}"
            );
        }
    }
}

#[test]
fn the_default_horizon_is_settled() {
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
fn a_status_is_computed_without_a_plan() {
    for (name, example) in examples() {
        let request = request(&example);
        let request = proto::ComputeStatusRequest {
            snapshot: request.snapshot,
            ..proto::ComputeStatusRequest::default()
        };
        let bytes = wire::compute_status_bytes(&request.encode_to_vec()).unwrap();
        let response = wire::compute_status(request).unwrap();
        assert_eq!(bytes, response.encode_to_vec(), "{name}");
        assert!(response.status.is_some());
    }
}

#[test]
fn whether_the_server_keeps_terminating_replicas_is_an_option() {
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

/// Without a complete list of ReplicaSets, every call but the list of revisions has no answer but the reason.
#[test]
fn incomplete_sets_get_no_steps_no_status_and_no_timer() {
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
fn a_status_names_its_object() {
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
            // What the API has by default is said, too.
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
fn rules_of_a_verdict_are_validated() {
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
    ];
    let expected = expected.map(|(field, reason)| (field.to_owned(), reason));
    assert_eq!(violations(wrong, Some(previous)), expected);
}

/// Bytes are decoded no further than their plan needs. Whatever they are, the answer is that to the whole message.
#[test]
fn bytes_are_answered_as_the_message_that_they_are() {
    let mut random = Random(11);
    let mut requests: Vec<proto::PlanRolloutRequest> = examples()
        .iter()
        .map(|(_, example)| request(example))
        .collect();
    requests.push(mk_request());
    let mut answered = 0;
    for round in 0..3_000 {
        let mut request = requests[random.below(requests.len())].clone();
        let snapshot = request.snapshot.as_mut().unwrap();
        snapshot.replica_sets_complete = random.below(8) > 0;
        let mut bytes = request.encode_to_vec();
        // In half of the rounds, in the pods, which come last.
        let broken = random.below(2) * (bytes.len() - bytes.len() / 4);
        let mut part = bytes.split_off(broken);
        if random.below(4) > 0 {
            random.break_bytes(&mut part, |_, bytes, at| bytes.truncate(at + 1));
        }
        bytes.append(&mut part);
        if random.below(8) == 0 {
            let options = proto::PlanRolloutRequest {
                snapshot: None,
                options: Some(proto::PlanOptions {
                    report: true,
                    ..Default::default()
                }),
            };
            bytes.extend(options.encode_to_vec());
        }
        let whole = proto::PlanRolloutRequest::decode(&bytes[..]);
        let given = wire::plan_rollout_bytes(&bytes);
        match (given, whole) {
            (Err(wire::Error::Undecodable { source, .. }), Err(error)) => {
                assert_eq!(source, error, "{round}");
            }
            (Err(_), Err(_)) => {}
            (given, Ok(message)) => {
                answered += usize::from(given.is_ok());
                let expected = wire::plan_rollout(message).map(|it| it.encode_to_vec());
                let shown = |it: Result<Vec<u8>, wire::Error>| it.map_err(|it| it.to_string());
                assert_eq!(shown(given), shown(expected), "{round}");
            }
            (Ok(_), Err(error)) => panic!("{round}: {error}"),
        }
    }
    assert!(answered > 500, "{answered}");
}
