//! The name and contents of a new ReplicaSet.

use rollplan_core::action::{Action, Event, EventType, NewReplicaSet, OnFailure};
use rollplan_core::plan_pass;
use rollplan_core::revision::{DESIRED_REPLICAS, MAX_REPLICAS, REVISION, TEMPLATE_DIGEST};
use rollplan_core::selector::{LabelSelector, Operator, Requirement};
use rollplan_core::snapshot::{Deployment, ObjectMeta, Options, ReplicaSet};
use rollplan_core::template::{Value, sha256_of_canonical, template_hash};
use rollplan_world::{
    mk_deployment, mk_owner, mk_set, mk_snapshot, mk_template, set_label, strings,
};

fn created(deployment: Deployment, sets: Vec<ReplicaSet>) -> NewReplicaSet {
    let plan = plan_pass(&mk_snapshot(deployment, sets), Options::default());
    let mut created = plan.steps.into_iter().filter_map(|step| match step.action {
        Some(Action::CreateReplicaSet(set)) => Some(*set),
        _ => None,
    });
    created.next().unwrap()
}

#[test]
fn created_replica_set_is_complete() {
    let mut deployment = mk_deployment(3);
    let mut template = mk_template("v1");
    set_label(&mut template, "tier", "front");
    deployment.spec.template = template.clone().into();
    deployment.spec.min_ready_seconds = 9;
    deployment.spec.selector.match_expressions = vec![Requirement {
        key: "tier".to_owned(),
        operator: Operator::Exists,
    }];
    deployment.metadata.annotations = strings([("team", "a"), (REVISION, "7")]);
    let hash = template_hash(&template, None);
    let mut hashed = template.clone();
    set_label(&mut hashed, "pod-template-hash", &hash);
    let labels = [
        ("app", "web"),
        ("tier", "front"),
        ("pod-template-hash", &hash),
    ];
    let mut old = mk_set(&deployment, "v0", 4, 0);
    old.metadata.labels = strings([("app", "web"), ("tier", "x")]);
    let want = NewReplicaSet {
        metadata: ObjectMeta {
            name: format!("web-{hash}"),
            namespace: "default".to_owned(),
            labels: strings(labels),
            annotations: strings([
                ("team", "a"),
                (REVISION, "5"),
                (DESIRED_REPLICAS, "3"),
                (MAX_REPLICAS, "4"),
            ]),
            owner_references: vec![mk_owner(&deployment)],
            ..ObjectMeta::default()
        },
        replicas: 3,
        min_ready_seconds: 9,
        selector: LabelSelector {
            match_labels: strings([("app", "web"), ("pod-template-hash", &hash)]),
            match_expressions: deployment.spec.selector.match_expressions.clone(),
        },
        template: hashed.into(),
        revision: 5,
    };
    assert_eq!(created(deployment, vec![old]), want);
}

#[test]
fn replica_set_of_a_custom_owner_has_the_template_digest() {
    let mut deployment = mk_deployment(1);
    deployment.api_version = "apps.rollplan.dev/v1".to_owned();
    deployment.kind = "PlannedDeployment".to_owned();
    let digest = sha256_of_canonical(deployment.spec.template.value());
    let set = created(deployment.clone(), vec![]);
    assert_eq!(set.metadata.annotations[TEMPLATE_DIGEST], digest);
    assert_eq!(set.metadata.owner_references, [mk_owner(&deployment)]);
    // A different group or a different kind makes the owner a custom one.
    for (api_version, kind, custom) in [
        ("apps/v1", "Deployment", false),
        ("apps/v2", "Deployment", true),
        ("apps/v1", "Other", true),
    ] {
        deployment.api_version = api_version.to_owned();
        deployment.kind = kind.to_owned();
        let annotations = created(deployment.clone(), vec![]).metadata.annotations;
        assert_eq!(annotations.contains_key(TEMPLATE_DIGEST), custom);
    }
}

/// `TestGenerateReplicaSetName` of Kubernetes. The whole name has at most 253 bytes.
#[test]
fn long_names_are_truncated() {
    let hash = template_hash(&mk_template("v1"), None);
    let longest = 253 - 1 - hash.len();
    for (length, kept) in [
        (1, 1),
        (longest, longest),
        (longest + 1, longest),
        (253, longest),
    ] {
        let mut deployment = mk_deployment(1);
        deployment.metadata.name = "a".repeat(length);
        let name = created(deployment, vec![]).metadata.name;
        assert_eq!(name, format!("{}-{hash}", "a".repeat(kept)));
    }
    // A name with multi-byte characters is truncated between characters.
    let mut deployment = mk_deployment(1);
    deployment.metadata.name = "é".repeat(150);
    let name = created(deployment, vec![]).metadata.name;
    assert_eq!(name, format!("{}-{hash}", "é".repeat(longest / 2)));
}

/// Missing labels are created; a value that is not a string is not a label.
#[test]
fn hash_label_is_added_to_templates_without_labels() {
    let spec = Value::from([("containers", Value::from(vec![]))]);
    for template in [
        Value::from([("spec", spec.clone())]),
        Value::from([("metadata", Value::Null), ("spec", spec.clone())]),
        Value::from([("metadata", Value::map()), ("spec", spec.clone())]),
        Value::from([
            ("metadata", Value::from([("labels", Value::Null)])),
            ("spec", spec),
        ]),
    ] {
        let mut deployment = mk_deployment(1);
        deployment.spec.selector = LabelSelector {
            match_labels: strings([]),
            match_expressions: vec![Requirement {
                key: "pod-template-hash".to_owned(),
                operator: Operator::Exists,
            }],
        };
        let hash = template_hash(&template, None);
        deployment.spec.template = template.into();
        let set = created(deployment, vec![]);
        let labels = strings([("pod-template-hash", &hash)]);
        assert_eq!(set.metadata.labels, labels);
        assert_eq!(
            set.template.value().at(&["metadata", "labels"]),
            Some(&Value::from([("pod-template-hash", hash.as_str())]))
        );
    }
}

#[test]
fn create_step_has_its_event() {
    let snapshot = mk_snapshot(mk_deployment(2), vec![]);
    let plan = plan_pass(&snapshot, Options::default());
    let step = &plan.steps[0];
    let Some(Action::CreateReplicaSet(set)) = &step.action else {
        panic!("{}", step.summary());
    };
    let name = &set.metadata.name;
    assert_eq!(
        step.events,
        [Event {
            kind: EventType::Normal,
            reason: "ScalingReplicaSet",
            message: format!("Scaled up replica set {name} from 0 to 2"),
        }]
    );
    assert_eq!(step.on_failure, OnFailure::Stop);
}
