//! Objects that the Deployment does not select are not validated, except for their names.

use prost_types::value::Kind;
use rollplan::proto;
use rollplan::wire::{self, Reason};

use super::{Parts as _, YEAR_10000, at, fields_of, mk_request, owner, template};

/// Makes everything in a ReplicaSet invalid, except that it has metadata.
fn spoil(request: &mut proto::PlanRolloutRequest, set: usize) {
    let time = at(YEAR_10000, 0);
    request.set(set).kind = "StatefulSet".to_owned();
    let metadata = request.set_meta(set);
    metadata.resource_version.clear();
    metadata.generation = -1;
    metadata.creation_timestamp = time;
    metadata
        .owner_references
        .extend([proto::OwnerReference::default(), controller("y")]);
    let spec = request.set_spec(set);
    spec.replicas = Some(-1);
    // Valid in Kubernetes, but not representable as a double.
    spec.template = template("tolerationSeconds", Kind::NumberValue(i64::MAX as f64));
    request.set_status(set).replicas = -1;
}

fn controller(uid: &str) -> proto::OwnerReference {
    owner(uid, true)
}

#[test]
fn replica_sets_of_other_owners_are_not_validated() {
    let mut request = mk_request();
    let plain = wire::plan_rollout(request.clone()).unwrap();
    let own = request.set(0).clone();
    let mut add = |name: &str, namespace: &str, labels: &[(&str, &str)], owner: Option<&str>| {
        request.snapshot().replica_sets.push(own.clone());
        let index = request.snapshot().replica_sets.len() - 1;
        let labels = labels.iter();
        let labels = labels.map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        *request.set_meta(index) = proto::ObjectMeta {
            name: name.to_owned(),
            namespace: namespace.to_owned(),
            uid: name.to_owned(),
            labels: labels.collect(),
            owner_references: owner.map(controller).into_iter().collect(),
            ..Default::default()
        };
        if owner.is_none() {
            request.set_meta(index).owner_references.clear();
        }
        index
    };
    let others = [
        // Owned by another Deployment, with labels that match or not.
        add("theirs", "shop", &[], Some("x")),
        add("theirs-too", "", &[("app", "web")], Some("x")),
        // In another namespace: same name, owned, matching labels.
        add("new", "other", &[("app", "web")], Some("d")),
        add("far", "other", &[("app", "web")], None),
        // A duplicate.
        add("twice", "shop", &[], Some("x")),
        add("twice", "shop", &[], Some("x")),
    ];
    for index in others {
        spoil(&mut request, index);
    }
    // An orphan that the selector does not match.
    let orphan = request.snapshot().replica_sets.len();
    request.snapshot().replica_sets.push(own);
    *request.set_meta(orphan) = proto::ObjectMeta {
        name: "orphan".to_owned(),
        uid: "orphan".to_owned(),
        ..Default::default()
    };
    spoil(&mut request, orphan);
    request.set_meta(orphan).owner_references.clear();
    assert_eq!(wire::plan_rollout(request.clone()).unwrap(), plain);
    // Without metadata, the owner is unknown.
    request.set(orphan).metadata = None;
    let error = wire::plan_rollout(request).unwrap_err();
    assert_eq!(
        error.to_string(),
        "snapshot.replica_sets[8].metadata: is required"
    );
}

#[test]
fn only_events_about_selected_objects_are_validated() {
    let event = |uid: &str| proto::ObservedEvent {
        kind: "Pod".to_owned(),
        involved_object: Some(proto::ObjectReference {
            uid: uid.to_owned(),
            ..Default::default()
        }),
        count: -1,
        last_timestamp: at(YEAR_10000, 0),
        series: Some(proto::EventSeries {
            count: -1,
            last_observed_time: at(0, -1),
        }),
        ..Default::default()
    };
    let mut request = mk_request();
    request.snapshot().events = vec![event("of-another"), proto::ObservedEvent::default()];
    let expected = wire::plan_rollout(mk_request()).unwrap();
    assert_eq!(wire::plan_rollout(request).unwrap(), expected);
    let metadata = |r: &mut proto::PlanRolloutRequest| {
        let deployment = r.snapshot().deployment.clone().unwrap().metadata;
        let set = r.snapshot().replica_sets[0].metadata.clone();
        let pod = r.snapshot().pods[0].metadata.clone();
        [deployment, set, pod].map(|metadata| metadata.unwrap().uid)
    };
    let fields = fields_of(|r| {
        let events = metadata(r).map(|uid| event(&uid));
        r.snapshot().events = events.into();
    });
    let expected = (0..3).flat_map(|index| {
        [
            ("kind", Reason::WrongKind),
            ("last_timestamp", Reason::OutOfRange),
            ("series.last_observed_time", Reason::OutOfRange),
            ("count", Reason::Negative),
            ("series.count", Reason::Negative),
        ]
        .map(|(field, reason)| (format!("snapshot.events[{index}].{field}"), reason))
    });
    assert_eq!(fields, expected.collect::<Vec<_>>());
}

#[test]
fn pods_of_other_owners_are_not_validated() {
    let mut request = mk_request();
    let plain = wire::plan_rollout(request.clone()).unwrap();
    let own = request.snapshot().pods[0].clone();
    for (namespace, owner) in [
        ("shop", None),
        ("shop", Some("x")),
        // Owned by a ReplicaSet of another Deployment, or in another namespace.
        ("shop", Some("theirs")),
        ("other", Some("new")),
    ] {
        let mut pod = own.clone();
        pod.kind = "Node".to_owned();
        pod.metadata = Some(proto::ObjectMeta {
            namespace: namespace.to_owned(),
            generation: -1,
            owner_references: owner.map(controller).into_iter().collect(),
            ..Default::default()
        });
        request.snapshot().pods.extend([pod.clone(), pod]);
    }
    let mut theirs = request.set(0).clone();
    theirs.metadata = Some(proto::ObjectMeta {
        name: "theirs".to_owned(),
        uid: "theirs".to_owned(),
        owner_references: vec![controller("x")],
        ..Default::default()
    });
    request.snapshot().replica_sets.push(theirs);
    assert_eq!(wire::plan_rollout(request).unwrap(), plain);
}

/// Another owner's ReplicaSet may have the name that the new ReplicaSet would get.
#[test]
fn names_of_other_owners_collide() {
    let mut request = mk_request();
    request.snapshot().replica_sets.remove(0);
    let created = |request: &proto::PlanRolloutRequest| {
        let steps = wire::plan_rollout(request.clone()).unwrap().steps;
        let created = steps.iter().find_map(|step| match &step.action {
            Some(proto::step::Action::CreateReplicaSet(set)) => Some(set.name.clone()),
            _ => None,
        });
        let status = steps.iter().find_map(|step| match &step.action {
            Some(proto::step::Action::UpdateDeploymentStatus(update)) => update.status.clone(),
            _ => None,
        });
        (created, status.and_then(|status| status.collision_count))
    };
    let (name, collisions) = created(&request);
    let name = name.unwrap();
    assert_eq!(collisions, None);
    let mut theirs = request.set(0).clone();
    theirs.metadata = Some(proto::ObjectMeta {
        name: name.clone(),
        uid: "theirs".to_owned(),
        owner_references: vec![controller("x")],
        ..Default::default()
    });
    request.snapshot().replica_sets.push(theirs.clone());
    spoil(&mut request, 1);
    assert_ne!(created(&request).0, Some(name.clone()));
    assert_eq!(created(&request).1, Some(1));
    // In another namespace, the name is free.
    request.set_meta(1).namespace = "other".to_owned();
    assert_eq!(created(&request), (Some(name.clone()), None));
    // The same if the API server reports the conflict.
    request.snapshot().replica_sets.truncate(1);
    let steps = wire::plan_rollout(request.clone()).unwrap().steps;
    let create = steps.into_iter().find_map(|step| match step.action {
        Some(proto::step::Action::CreateReplicaSet(_)) => step.call,
        _ => None,
    });
    let spec = theirs.spec.as_mut().unwrap();
    spec.template = template("tolerationSeconds", Kind::NumberValue(i64::MAX as f64));
    // An object of another namespace is not the one that has the name.
    for (namespace, collisions) in [("", Some(1)), ("shop", Some(1)), ("other", None)] {
        theirs.metadata.as_mut().unwrap().namespace = namespace.to_owned();
        let existing = wire::json::to_kubernetes_json(&theirs).unwrap();
        *request.answer() = proto::StepAnswer {
            call: create.clone(),
            http_code: 409,
            body: br#"{"kind":"Status","reason":"AlreadyExists"}"#.to_vec(),
            existing_json: existing.into(),
        };
        assert_eq!(created(&request).1, collisions, "{namespace:?}");
    }
}
