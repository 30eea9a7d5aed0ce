//! Steps of plans as messages.

use rollplan::proto;
use rollplan::wire::{self, OwnerResource};
use rollplan_core::action::{
    Action, NewReplicaSet, OnFailure, OwnerChange, SetChange, Step, Target,
};
use rollplan_core::snapshot::{DeploymentStatus, ObjectMeta, StringMap};
use rollplan_core::template::Value;

use crate::request::mk_request;

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
    let step = Step {
        action: Some(action),
        events: Vec::new(),
        on_failure,
        reason: None,
    };
    wire::print_step(step, &OwnerResource::DEPLOYMENT)
}

#[test]
fn every_action_is_printed_as_its_message() {
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
fn on_failure_is_printed_with_its_codes() {
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
fn steps_with_events_only_have_no_call() {
    let mut request = mk_request();
    request.spec()["selector"] = serde_json::json!({});
    let response = request.plan();
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
fn calls_are_printed_with_all_fields() {
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
            accept: String::new(),
        })
    );
}
