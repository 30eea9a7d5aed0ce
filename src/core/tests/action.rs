//! Actions: their exact calls, their summaries, and their effect on a snapshot.

use rollplan_core::action::{
    Action, ApiCall, Event, EventType, NewReplicaSet, OnFailure, OwnerChange, SetChange, Step,
    Target, Verb, apply,
};
use rollplan_core::revision::REVISION;
use rollplan_core::selector::{LabelSelector, Operator, Requirement};
use rollplan_core::snapshot::{
    DeploymentStatus, ObjectMeta, OwnerReference, ReplicaSet, ReplicaSetStatus, Snapshot,
};
use rollplan_core::time::Time;
use rollplan_world::{
    at, mk_condition, mk_deployment, mk_owner, mk_set, mk_snapshot, mk_template, now, strings,
};

const JSON_PATCH: &str = "application/json-patch+json";
const MERGE_PATCH: &str = "application/merge-patch+json";

fn set_target() -> Target {
    Target {
        api_version: "apps/v1".to_owned(),
        kind: "ReplicaSet".to_owned(),
        namespace: "default".to_owned(),
        name: "web-v1".to_owned(),
        uid: "web-v1-uid".to_owned(),
        generation: 4,
        resource_version: Some("10".to_owned()),
    }
}

fn owner_target() -> Target {
    Target {
        api_version: "apps/v1".to_owned(),
        kind: "Deployment".to_owned(),
        namespace: "default".to_owned(),
        name: "web".to_owned(),
        uid: "web-uid".to_owned(),
        generation: 7,
        resource_version: Some("100".to_owned()),
    }
}

/// The patch call for the target of an action.
fn patch(target: &Target, subresource: &str, content_type: &str, body_json: &str) -> ApiCall {
    ApiCall {
        verb: Verb::Patch,
        api_version: target.api_version.clone(),
        kind: target.kind.clone(),
        namespace: target.namespace.clone(),
        name: target.name.clone(),
        subresource: subresource.to_owned(),
        content_type: content_type.to_owned(),
        body_json: body_json.to_owned(),
    }
}

#[track_caller]
fn check(action: &Action, summary: &str, call: &ApiCall) {
    assert_eq!(action.call(), *call);
    let step = Step {
        action: Some(action.clone()),
        events: Vec::new(),
        on_failure: OnFailure::Stop,
        reason: None,
    };
    assert_eq!(step.summary(), summary);
}

#[test]
fn owner_check_is_a_patch_without_changes() {
    let owner = owner_target();
    check(
        &Action::CheckOwner {
            owner: owner.clone(),
        },
        "check that Deployment web is unchanged",
        &patch(
            &owner,
            "",
            MERGE_PATCH,
            r#"{"metadata":{"resourceVersion":"100","uid":"web-uid"}}"#,
        ),
    );
}

#[test]
fn claims_send_all_owner_references() {
    let set = set_target();
    let plain = OwnerReference {
        api_version: "v1".to_owned(),
        kind: "ConfigMap".to_owned(),
        name: "friend".to_owned(),
        uid: "friend-uid".to_owned(),
        controller: None,
        block_owner_deletion: Some(false),
    };
    check(
        &Action::AdoptReplicaSet {
            set: set.clone(),
            owner_references: vec![plain.clone(), mk_owner(&mk_deployment(1))],
        },
        "adopt ReplicaSet web-v1",
        &patch(
            &set,
            "",
            MERGE_PATCH,
            concat!(
                r#"{"metadata":{"ownerReferences":["#,
                r#"{"apiVersion":"v1","blockOwnerDeletion":false,"kind":"ConfigMap","name":"friend","uid":"friend-uid"},"#,
                r#"{"apiVersion":"apps/v1","blockOwnerDeletion":true,"controller":true,"kind":"Deployment","name":"web","uid":"web-uid"}"#,
                r#"],"resourceVersion":"10","uid":"web-v1-uid"}}"#,
            ),
        ),
    );
    check(
        &Action::ReleaseReplicaSet {
            set: set.clone(),
            owner_references: vec![],
        },
        "release ReplicaSet web-v1",
        &patch(
            &set,
            "",
            MERGE_PATCH,
            r#"{"metadata":{"ownerReferences":null,"resourceVersion":"10","uid":"web-v1-uid"}}"#,
        ),
    );
    check(
        &Action::ReleaseReplicaSet {
            set: set.clone(),
            owner_references: vec![plain],
        },
        "release ReplicaSet web-v1",
        &patch(
            &set,
            "",
            MERGE_PATCH,
            concat!(
                r#"{"metadata":{"ownerReferences":[{"apiVersion":"v1","blockOwnerDeletion":false,"kind":"ConfigMap","#,
                r#""name":"friend","uid":"friend-uid"}],"resourceVersion":"10","uid":"web-v1-uid"}}"#,
            ),
        ),
    );
}

fn new_set() -> NewReplicaSet {
    NewReplicaSet {
        metadata: ObjectMeta {
            name: "web-abc".to_owned(),
            namespace: "default".to_owned(),
            labels: strings([("app", "web"), ("pod-template-hash", "abc")]),
            annotations: strings([(REVISION, "3"), ("text", "a \"b\"\n\\ é")]),
            owner_references: vec![mk_owner(&mk_deployment(1))],
            ..ObjectMeta::default()
        },
        replicas: 3,
        min_ready_seconds: 5,
        selector: LabelSelector {
            match_labels: strings([("app", "web"), ("pod-template-hash", "abc")]),
            match_expressions: vec![],
        },
        template: mk_template("v1").into(),
        revision: 3,
    }
}

#[test]
fn create_sends_the_whole_replica_set() {
    let call = ApiCall {
        verb: Verb::Create,
        api_version: "apps/v1".to_owned(),
        kind: "ReplicaSet".to_owned(),
        namespace: "default".to_owned(),
        name: "web-abc".to_owned(),
        subresource: String::new(),
        content_type: "application/json".to_owned(),
        body_json: concat!(
            r#"{"apiVersion":"apps/v1","kind":"ReplicaSet","metadata":{"#,
            r#""annotations":{"deployment.kubernetes.io/revision":"3","text":"a \"b\"\n\\ é"},"#,
            r#""labels":{"app":"web","pod-template-hash":"abc"},"name":"web-abc","namespace":"default","#,
            r#""ownerReferences":[{"apiVersion":"apps/v1","blockOwnerDeletion":true,"controller":true,"#,
            r#""kind":"Deployment","name":"web","uid":"web-uid"}]},"#,
            r#""spec":{"minReadySeconds":5,"replicas":3,"#,
            r#""selector":{"matchLabels":{"app":"web","pod-template-hash":"abc"}},"#,
            r#""template":{"metadata":{"labels":{"app":"web"}},"#,
            r#""spec":{"containers":[{"image":"v1","name":"main"}]}}}}"#,
        )
        .to_owned(),
    };
    let action = Action::CreateReplicaSet(Box::new(new_set()));
    check(&action, "create ReplicaSet web-abc with 3 replicas", &call);

    let requirement = |key: &str, operator| Requirement {
        key: key.to_owned(),
        operator,
    };
    let mut set = new_set();
    set.selector.match_expressions = vec![
        requirement("a", Operator::In(vec!["x".to_owned(), "y".to_owned()])),
        requirement("b", Operator::NotIn(vec!["z".to_owned()])),
        requirement("c", Operator::Exists),
        requirement("d", Operator::DoesNotExist),
    ];
    let body = Action::CreateReplicaSet(Box::new(set)).call().body_json;
    let selector = concat!(
        r#""selector":{"matchExpressions":[{"key":"a","operator":"In","values":["x","y"]},"#,
        r#"{"key":"b","operator":"NotIn","values":["z"]},{"key":"c","operator":"Exists"},"#,
        r#"{"key":"d","operator":"DoesNotExist"}],"matchLabels":{"app":"web","pod-template-hash":"abc"}}"#,
    );
    assert!(body.contains(selector), "{body}");
}

#[test]
fn replica_set_patch_tests_the_generation() {
    let set = set_target();
    let tests = concat!(
        r#"[{"op":"test","path":"/metadata/uid","value":"web-v1-uid"},"#,
        r#"{"op":"test","path":"/metadata/generation","value":4}"#,
    );
    let annotations = strings([("a/b~c", "1"), ("plain", "2")]);
    for (change, summary, operations) in [
        (
            SetChange {
                annotations: annotations.clone(),
                first_annotations: false,
                min_ready_seconds: None,
            },
            "update annotations of ReplicaSet web-v1",
            concat!(
                r#",{"op":"add","path":"/metadata/annotations/a~1b~0c","value":"1"}"#,
                r#",{"op":"add","path":"/metadata/annotations/plain","value":"2"}]"#,
            ),
        ),
        (
            SetChange {
                annotations: annotations.clone(),
                first_annotations: true,
                min_ready_seconds: Some(7),
            },
            "update annotations and minReadySeconds (7) of ReplicaSet web-v1",
            concat!(
                r#",{"op":"test","path":"/metadata/annotations","value":null}"#,
                r#",{"op":"add","path":"/metadata/annotations","value":{"a/b~c":"1","plain":"2"}}"#,
                r#",{"op":"add","path":"/spec/minReadySeconds","value":7}]"#,
            ),
        ),
        (
            SetChange {
                first_annotations: true,
                min_ready_seconds: Some(0),
                ..SetChange::default()
            },
            "update minReadySeconds (0) of ReplicaSet web-v1",
            r#",{"op":"add","path":"/spec/minReadySeconds","value":0}]"#,
        ),
        (
            SetChange::default(),
            "update nothing of ReplicaSet web-v1",
            "]",
        ),
    ] {
        check(
            &Action::UpdateReplicaSet {
                set: set.clone(),
                change,
            },
            summary,
            &patch(&set, "", JSON_PATCH, &format!("{tests}{operations}")),
        );
    }
    for (from, to, summary) in [
        (1, 3, "scale up ReplicaSet web-v1 from 1 to 3"),
        (3, 0, "scale down ReplicaSet web-v1 from 3 to 0"),
    ] {
        let size = format!(r#",{{"op":"add","path":"/spec/replicas","value":{to}}}]"#);
        check(
            &Action::ScaleReplicaSet {
                set: set.clone(),
                from,
                to,
                change: SetChange::default(),
            },
            summary,
            &patch(&set, "", JSON_PATCH, &format!("{tests}{size}")),
        );
    }
    // All changes in one patch, in order.
    let action = Action::ScaleReplicaSet {
        set,
        from: 1,
        to: 2,
        change: SetChange {
            annotations: strings([("plain", "2")]),
            first_annotations: false,
            min_ready_seconds: Some(7),
        },
    };
    let rest = concat!(
        r#",{"op":"add","path":"/metadata/annotations/plain","value":"2"}"#,
        r#",{"op":"add","path":"/spec/minReadySeconds","value":7}"#,
        r#",{"op":"add","path":"/spec/replicas","value":2}]"#,
    );
    assert_eq!(action.call().body_json, format!("{tests}{rest}"));
}

/// The server omits a generation of 0, so a test for 0 would fail.
#[test]
fn absent_generation_is_tested_for_null() {
    let mut set = set_target();
    set.generation = 0;
    let change = SetChange::default();
    let call = Action::UpdateReplicaSet { set, change }.call();
    assert_eq!(
        call.body_json,
        concat!(
            r#"[{"op":"test","path":"/metadata/uid","value":"web-v1-uid"},"#,
            r#"{"op":"test","path":"/metadata/generation","value":null}]"#,
        )
    );
}

#[test]
fn delete_has_preconditions() {
    let mut set = set_target();
    let mut call = patch(
        &set,
        "",
        "application/json",
        concat!(
            r#"{"apiVersion":"v1","kind":"DeleteOptions","#,
            r#""preconditions":{"resourceVersion":"10","uid":"web-v1-uid"},"#,
            r#""propagationPolicy":"Background"}"#,
        ),
    );
    call.verb = Verb::Delete;
    let action = Action::DeleteReplicaSet { set: set.clone() };
    check(&action, "delete ReplicaSet web-v1", &call);
    // After an earlier write of the plan, the resource version is unknown.
    set.resource_version = None;
    assert_eq!(
        Action::DeleteReplicaSet { set }.call().body_json,
        concat!(
            r#"{"apiVersion":"v1","kind":"DeleteOptions","preconditions":{"uid":"web-v1-uid"},"#,
            r#""propagationPolicy":"Background"}"#,
        )
    );
}

#[test]
fn owner_patch_has_preconditions() {
    let owner = owner_target();
    let change = OwnerChange {
        annotations: strings([("a/b", "1")]),
        removed_annotations: vec!["gone".to_owned()],
        all_annotations: strings([("a/b", "1"), ("kept", "2")]),
        template: None,
    };
    check(
        &Action::UpdateDeployment {
            owner: owner.clone(),
            change: change.clone(),
        },
        "update annotations of Deployment web",
        &patch(
            &owner,
            "",
            MERGE_PATCH,
            r#"{"metadata":{"annotations":{"a/b":"1","gone":null},"resourceVersion":"100","uid":"web-uid"}}"#,
        ),
    );
    let change = OwnerChange {
        template: Some(mk_template("v1")),
        ..change
    };
    let body = |version: &str| {
        [
            r#"[{"op":"test","path":"/metadata/uid","value":"web-uid"},"#,
            version,
            r#"{"op":"add","path":"/metadata/annotations","value":{"a/b":"1","kept":"2"}},"#,
            r#"{"op":"replace","path":"/spec/template","value":{"metadata":{"labels":{"app":"web"}},"#,
            r#""spec":{"containers":[{"image":"v1","name":"main"}]}}}]"#,
        ]
        .concat()
    };
    check(
        &Action::UpdateDeployment {
            owner: owner.clone(),
            change: change.clone(),
        },
        "update template and annotations of Deployment web",
        &patch(
            &owner,
            "",
            JSON_PATCH,
            &body(r#"{"op":"test","path":"/metadata/resourceVersion","value":"100"},"#),
        ),
    );
    let owner = Target {
        resource_version: None,
        ..owner
    };
    let call = Action::UpdateDeployment { owner, change }.call();
    assert_eq!(call.body_json, body(""));
}

#[test]
fn status_patch_contains_zeros_and_nulls_absent_fields() {
    let owner = owner_target();
    check(
        &Action::UpdateDeploymentStatus {
            owner: owner.clone(),
            status: DeploymentStatus::default(),
            revision: None,
            selector: None,
            ready: None,
        },
        "update status of Deployment web",
        &patch(
            &owner,
            "status",
            MERGE_PATCH,
            concat!(
                r#"{"metadata":{"resourceVersion":"100","uid":"web-uid"},"status":{"availableReplicas":0,"#,
                r#""collisionCount":null,"conditions":[],"observedGeneration":0,"readyReplicas":0,"replicas":0,"#,
                r#""terminatingReplicas":null,"unavailableReplicas":0,"updatedReplicas":0}}"#,
            ),
        ),
    );
    let mut never = mk_condition("Available", "False", "Why", at(0));
    never.last_update_time = None;
    never.last_transition_time = Time::new(at(-60).seconds(), 999_999_999);
    check(
        &Action::UpdateDeploymentStatus {
            owner: owner.clone(),
            status: full_status(vec![never]),
            revision: Some("12".to_owned()),
            selector: None,
            ready: None,
        },
        "update status of Deployment web",
        &patch(
            &owner,
            "status",
            MERGE_PATCH,
            concat!(
                r#"{"metadata":{"annotations":{"deployment.kubernetes.io/revision":"12"},"#,
                r#""resourceVersion":"100","uid":"web-uid"},"#,
                r#""status":{"availableReplicas":5,"collisionCount":8,"#,
                r#""conditions":[{"lastTransitionTime":"2026-01-15T11:59:00Z","lastUpdateTime":null,"#,
                r#""message":"Why since 2026-01-15T12:00:00Z","reason":"Why","status":"False","type":"Available"}],"#,
                r#""observedGeneration":1,"readyReplicas":4,"replicas":2,"terminatingReplicas":7,"#,
                r#""unavailableReplicas":6,"updatedReplicas":3}}"#,
            ),
        ),
    );
}

fn full_status(conditions: Vec<rollplan_core::snapshot::Condition>) -> DeploymentStatus {
    DeploymentStatus {
        observed_generation: 1,
        replicas: 2,
        updated_replicas: 3,
        ready_replicas: 4,
        available_replicas: 5,
        unavailable_replicas: 6,
        terminating_replicas: Some(7),
        collision_count: Some(8),
        conditions,
    }
}

#[test]
fn custom_owner_is_patched_by_its_own_kind() {
    let owner = Target {
        api_version: "apps.rollplan.dev/v1".to_owned(),
        kind: "PlannedDeployment".to_owned(),
        ..owner_target()
    };
    let call = Action::CheckOwner {
        owner: owner.clone(),
    }
    .call();
    assert_eq!(
        (call.api_version.as_str(), call.kind.as_str()),
        ("apps.rollplan.dev/v1", "PlannedDeployment")
    );
    let status = DeploymentStatus::default();
    let call = Action::UpdateDeploymentStatus {
        owner,
        status,
        revision: None,
        selector: Some("app=web".to_owned()),
        ready: Some("2/3".to_owned()),
    }
    .call();
    assert!(call.body_json.contains(r#""ready":"2/3""#));
    assert!(call.body_json.contains(r#""selector":"app=web""#));
    assert_eq!(
        (
            call.api_version.as_str(),
            call.kind.as_str(),
            call.subresource.as_str()
        ),
        ("apps.rollplan.dev/v1", "PlannedDeployment", "status")
    );
}

#[test]
fn event_steps_summarize_their_events() {
    let event = |reason| Event {
        kind: EventType::Warning,
        reason,
        message: "text".to_owned(),
    };
    let mut step = Step {
        action: None,
        events: vec![event("Some")],
        on_failure: OnFailure::Stop,
        reason: None,
    };
    assert_eq!(step.summary(), "record event Some");
    step.events.push(event("Other"));
    assert_eq!(step.summary(), "record 2 events");
    assert_eq!(EventType::Warning.as_str(), "Warning");
    assert_eq!(EventType::Normal.as_str(), "Normal");
}

#[test]
fn steps_tolerate_their_listed_codes() {
    assert_eq!(OnFailure::default(), OnFailure::Stop);
    for (on_failure, not_found, forbidden) in [
        (OnFailure::Stop, false, false),
        (OnFailure::Tolerate(&[404, 422]), true, false),
        (OnFailure::Continue, true, true),
    ] {
        assert_eq!(on_failure.tolerates(404), not_found, "{on_failure:?}");
        assert_eq!(on_failure.tolerates(403), forbidden, "{on_failure:?}");
    }
}

// Effects of actions.

/// A snapshot with two ReplicaSets, after an action on the second one or on the owner.
fn applied(action: &Action) -> Snapshot {
    let mut world = world();
    apply(&mut world, action);
    world
}

fn world() -> Snapshot {
    let deployment = mk_deployment(2);
    let sets = vec![
        mk_set(&deployment, "v0", 1, 1),
        mk_set(&deployment, "v1", 2, 3),
    ];
    mk_snapshot(deployment, sets)
}

/// Everything in a snapshot except its templates, as a string to compare.
fn facts(world: &Snapshot) -> String {
    let mut copy = world.clone();
    copy.deployment.spec.template = mk_template("v1").into();
    for set in &mut copy.replica_sets {
        set.template = mk_template("v1").into();
    }
    format!("{copy:#?}")
}

#[track_caller]
fn check_apply(action: &Action, change: impl Fn(&mut Snapshot)) {
    let mut want = world();
    change(&mut want);
    assert_eq!(facts(&applied(action)), facts(&want));
}

#[test]
fn owner_check_changes_nothing() {
    check_apply(
        &Action::CheckOwner {
            owner: owner_target(),
        },
        |_| {},
    );
}

#[test]
fn claims_change_owner_references() {
    let owner_references = vec![OwnerReference::default()];
    check_apply(
        &Action::AdoptReplicaSet {
            set: set_target(),
            owner_references: owner_references.clone(),
        },
        |world| {
            let owners = &mut world.replica_sets[1].metadata.owner_references;
            owners.clone_from(&owner_references);
        },
    );
    check_apply(
        &Action::ReleaseReplicaSet {
            set: set_target(),
            owner_references: vec![],
        },
        |world| world.replica_sets[1].metadata.owner_references.clear(),
    );
}

#[test]
fn created_replica_set_is_unobserved() {
    let action = Action::CreateReplicaSet(Box::new(new_set()));
    let mut world = world();
    world.now = Time::new(now().seconds(), 5).unwrap();
    apply(&mut world, &action);
    let created = world.replica_sets.pop().unwrap();
    let NewReplicaSet { metadata, .. } = new_set();
    assert_eq!(
        created.metadata,
        ObjectMeta {
            uid: "uid of web-abc".to_owned(),
            generation: 1,
            creation_timestamp: Some(now()),
            ..metadata
        }
    );
    assert_eq!(created.replicas, 3);
    assert_eq!(created.min_ready_seconds, 5);
    assert_eq!(*created.template.value(), mk_template("v1"));
    assert_eq!(created.status, ReplicaSetStatus::default());
    assert_eq!(created.available_max, ReplicaSet::UNTOUCHED);
    assert_eq!(world.replica_sets.len(), 2);
}

#[test]
fn spec_changes_increment_the_generation() {
    let change = SetChange {
        annotations: strings([("a", "b"), (REVISION, "9")]),
        first_annotations: false,
        min_ready_seconds: None,
    };
    let annotated = |world: &mut Snapshot| {
        let set = &mut world.replica_sets[1];
        set.metadata.annotations.extend(change.annotations.clone());
        set.available_max = set.replicas;
    };
    let update = |change: &SetChange| Action::UpdateReplicaSet {
        set: set_target(),
        change: change.clone(),
    };
    check_apply(&update(&change), annotated);
    let seconds = |seconds| SetChange {
        min_ready_seconds: Some(seconds),
        ..change.clone()
    };
    // It already has these.
    check_apply(&update(&seconds(0)), annotated);
    check_apply(&update(&seconds(5)), |world| {
        annotated(world);
        world.replica_sets[1].min_ready_seconds = 5;
        world.replica_sets[1].metadata.generation = 2;
    });
    let scale = |to| Action::ScaleReplicaSet {
        set: set_target(),
        from: 3,
        to,
        change: SetChange::default(),
    };
    check_apply(&scale(3), |world| world.replica_sets[1].available_max = 3);
    check_apply(&scale(1), |world| {
        world.replica_sets[1].replicas = 1;
        world.replica_sets[1].available_max = 1;
        world.replica_sets[1].metadata.generation = 2;
    });
}

/// Deleted pods are not available again after the size grows.
#[test]
fn available_pods_are_limited_by_the_smallest_size() {
    let mut world = world();
    for to in [2, 7, 4] {
        let change = SetChange::default();
        apply(
            &mut world,
            &Action::ScaleReplicaSet {
                set: set_target(),
                from: 3,
                to,
                change,
            },
        );
    }
    let set = &world.replica_sets[1];
    assert_eq!(
        (set.replicas, set.available_max, set.metadata.generation),
        (4, 2, 4)
    );
}

#[test]
fn delete_removes_the_replica_set() {
    check_apply(&Action::DeleteReplicaSet { set: set_target() }, |world| {
        world.replica_sets.pop();
    });
}

#[test]
fn actions_on_missing_replica_sets_change_nothing() {
    let set = Target {
        uid: "another".to_owned(),
        ..set_target()
    };
    let change = SetChange {
        annotations: strings([("a", "b")]),
        ..SetChange::default()
    };
    for action in [
        Action::AdoptReplicaSet {
            set: set.clone(),
            owner_references: vec![],
        },
        Action::UpdateReplicaSet {
            set: set.clone(),
            change: change.clone(),
        },
        Action::ScaleReplicaSet {
            set: set.clone(),
            from: 3,
            to: 9,
            change,
        },
        Action::DeleteReplicaSet { set },
    ] {
        check_apply(&action, |_| {});
    }
}

#[test]
fn template_change_increments_the_generation_of_the_owner() {
    let change = OwnerChange {
        annotations: strings([("a", "1")]),
        removed_annotations: vec![],
        all_annotations: strings([("a", "1"), ("b", "2")]),
        template: None,
    };
    let action = |change: &OwnerChange| Action::UpdateDeployment {
        owner: owner_target(),
        change: change.clone(),
    };
    let annotated = |world: &mut Snapshot| {
        world.deployment.metadata.annotations = strings([("a", "1"), ("b", "2")]);
    };
    check_apply(&action(&change), annotated);
    let change = OwnerChange {
        template: Some(mk_template("v9")),
        ..change
    };
    check_apply(&action(&change), |world| {
        annotated(world);
        world.deployment.metadata.generation = 2;
    });
    let template = applied(&action(&change)).deployment.spec.template;
    assert_eq!(*template.value(), mk_template("v9"));
}

#[test]
fn status_is_published_with_its_revision() {
    let status = full_status(vec![]);
    let action = |revision: Option<&str>| Action::UpdateDeploymentStatus {
        owner: owner_target(),
        status: status.clone(),
        revision: revision.map(str::to_owned),
        selector: None,
        ready: None,
    };
    check_apply(&action(None), |world| {
        world.deployment.status = status.clone();
    });
    check_apply(&action(Some("4")), |world| {
        world.deployment.status = status.clone();
        world.deployment.metadata.annotations = strings([(REVISION, "4")]);
    });
}
