//! Objects that the Deployment does not select are not validated, except for their names.

use rollplan::proto;
use rollplan::wire::Reason;
use serde_json::{Value, json};

use super::{listed, value_at, violations_of};
use crate::request::{ITEMS, Request, mk_request};

/// A ReplicaSet in which everything except its name and UID is invalid.
fn spoiled(name: &str, namespace: &str, labels: Value, owner: Option<&str>) -> Value {
    let owner = owner.map(|uid| json!({"uid": uid, "controller": true}));
    let mut owners: Vec<Value> = owner.into_iter().collect();
    if !owners.is_empty() {
        owners.extend([json!({}), json!({"uid": "y", "controller": true})]);
    }
    json!({
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            "name": name, "namespace": namespace, "uid": name, "labels": labels, "ownerReferences": owners,
            "generation": -1, "creationTimestamp": "today", "annotations": [],
        },
        "spec": {"replicas": -1, "template": {"spec": {"a": 1e300, "b": 1, "c": [0.5, u64::MAX]}}},
        "status": {"replicas": "many"},
    })
}

#[test]
fn replica_sets_of_other_owners_are_not_validated() {
    let mut request = mk_request();
    let plain = request.plan();
    let app = || json!({"app": "web"});
    request.items.extend([
        // Owned by another Deployment, with labels that match or not.
        spoiled("theirs", "shop", json!({}), Some("x")),
        spoiled("theirs-too", "", app(), Some("x")),
        // In another namespace: same name, owned, matching labels.
        spoiled("new", "other", app(), Some("web-uid")),
        spoiled("far", "other", app(), None),
        // A duplicate.
        spoiled("twice", "shop", json!({}), Some("x")),
        spoiled("twice", "shop", json!({}), Some("x")),
        // An orphan that the selector does not match, and one without metadata.
        spoiled("orphan", "", json!({}), None),
        json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "spec": 7}),
    ]);
    assert_eq!(request.plan(), plain);
}

#[test]
fn only_events_about_selected_objects_are_validated() {
    let event = |uid: &str| {
        json!({
            "apiVersion": "v1", "kind": "Event", "involvedObject": {"uid": uid}, "count": -1, "series": {"count": -1},
        })
    };
    let mut request = mk_request();
    request.items.push(event("of-another"));
    request
        .items
        .push(json!({"apiVersion": "v1", "kind": "Event"}));
    assert_eq!(request.plan(), mk_request().plan());
    let mut request = mk_request();
    let first = request.items.len();
    request
        .items
        .extend(["web-uid", "new-uid", "a-uid"].map(event));
    let expected = (first..first + 3).flat_map(|index| {
        ["count", "series.count"]
            .map(|field| (format!("{ITEMS}[{index}].{field}"), Reason::Negative))
    });
    assert_eq!(
        listed(violations_of(&request)),
        expected.collect::<Vec<_>>()
    );
    for field in [
        "firstTimestamp",
        "lastTimestamp",
        "eventTime",
        "series.lastObservedTime",
    ] {
        let mut request = mk_request();
        let mut event = event("new-uid");
        (event["count"], event["series"]) = (json!(1), json!({}));
        *value_at(&mut event, field) = "today".into();
        request.items.push(event);
        assert_eq!(
            listed(violations_of(&request)),
            [(format!("{ITEMS}[{first}].{field}"), Reason::WrongType)]
        );
    }
}

#[test]
fn pods_of_other_owners_are_not_validated() {
    let mut request = mk_request();
    let plain = request.plan();
    for (namespace, owner) in [
        ("shop", None),
        ("shop", Some("x")),
        // Owned by a ReplicaSet of another Deployment, or in another namespace.
        ("shop", Some("theirs")),
        ("other", Some("new-uid")),
    ] {
        let owner = owner.map(|uid| json!({"uid": uid, "controller": true}));
        let owners: Vec<Value> = owner.into_iter().collect();
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod", "status": [],
            "metadata": {"namespace": namespace, "generation": -1, "ownerReferences": owners},
        });
        request.items.extend([pod.clone(), pod]);
    }
    let theirs = spoiled("theirs", "", json!({}), Some("x"));
    request.items.push(theirs);
    assert_eq!(request.plan(), plain);
}

/// Another owner's ReplicaSet may have the name that the new ReplicaSet would get.
#[test]
fn names_of_other_owners_collide() {
    let mut request = mk_request();
    request.items.remove(1);
    let created = |request: &Request| {
        let steps = request.plan().steps;
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
    request.items.push(spoiled(&name, "", json!({}), Some("x")));
    assert_ne!(created(&request).0, Some(name.clone()));
    assert_eq!(created(&request).1, Some(1));
    // In another namespace, the name is free.
    request.set(1)["metadata"]["namespace"] = "other".into();
    assert_eq!(created(&request), (Some(name.clone()), None));
    // The same if the API server reports the conflict.
    request.items.pop();
    let create = request
        .plan()
        .steps
        .into_iter()
        .find_map(|step| match step.action {
            Some(proto::step::Action::CreateReplicaSet(_)) => step.call,
            _ => None,
        });
    // An object of another namespace is not the one that has the name.
    for (namespace, collisions) in [("", Some(1)), ("shop", Some(1)), ("other", None)] {
        let existing = spoiled(&name, namespace, json!({}), Some("x"));
        *request.answer() = proto::StepAnswer {
            call: create.clone(),
            http_code: 409,
            body: br#"{"kind":"Status","reason":"AlreadyExists"}"#.to_vec(),
            existing_json: existing.to_string().into(),
        };
        assert_eq!(created(&request).1, collisions, "{namespace:?}");
    }
}
