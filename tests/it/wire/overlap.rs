//! A custom resource whose selector matches the pods of a Deployment is refused.

use rollplan::proto;
use serde_json::{Value, json};

use crate::request::half_way;

/// The objects of a Deployment in the middle of a rollout, and a custom resource with its selector.
fn beside_a_deployment() -> Vec<Value> {
    let mut request = half_way();
    request.remove_all("Pod");
    let mut items = request.items;
    let mut planned = items[0].clone();
    planned["apiVersion"] = "apps.rollplan.dev/v1alpha1".into();
    planned["kind"] = "PlannedDeployment".into();
    planned["metadata"]["uid"] = "planned".into();
    planned["status"] = json!({});
    items.push(planned);
    items
}

/// The owner in the metadata of each ReplicaSet, or none.
fn give_to(items: &mut [Value], owner: Option<(&str, &str, &str)>) {
    for set in items.iter_mut().filter(|item| item["kind"] == "ReplicaSet") {
        set["metadata"]["ownerReferences"] = match owner {
            Some((version, kind, uid)) => {
                json!([{"apiVersion": version, "kind": kind, "name": "web", "uid": uid,
                "controller": true, "blockOwnerDeletion": true}])
            }
            None => json!([]),
        };
    }
}

fn plan(items: &[Value]) -> proto::PlanRolloutResponse {
    let mut request = half_way();
    request.items = items.to_vec();
    request.snapshot.target = Some(proto::Target {
        api_version: "apps.rollplan.dev/v1alpha1".to_owned(),
        kind: "PlannedDeployment".to_owned(),
        resource: "planneddeployments".to_owned(),
        ..Default::default()
    });
    request.options.report = true;
    request.plan()
}

/// The kinds that a plan writes.
fn written(plan: &proto::PlanRolloutResponse) -> Vec<&str> {
    let calls = plan.steps.iter().filter_map(|step| step.call.as_ref());
    calls.map(|call| call.kind.as_str()).collect()
}

#[test]
fn custom_resource_that_selects_pods_of_a_deployment_is_refused() {
    let mut items = beside_a_deployment();
    let refused = plan(&items);
    assert_eq!(written(&refused), ["PlannedDeployment"]);
    let status = refused.status.as_ref().unwrap();
    let [condition] = &status.conditions[..] else {
        panic!("{:?}", status.conditions)
    };
    assert_eq!(
        (&*condition.r#type, &*condition.status, &*condition.reason),
        ("Progressing", "False", "SelectorOverlap")
    );
    assert!(
        condition
            .message
            .contains("of Deployment \"web\", so its pods would run twice")
    );
    let mut events = refused.steps.iter().flat_map(|step| &step.events);
    assert_eq!(events.next().unwrap().reason, "SelectorOverlap");
    let report = refused.report.as_ref().unwrap();
    assert_eq!(report.phase(), proto::Phase::Refused);
    assert_eq!(report.blockers[0].reason, "SELECTOR_OVERLAP");
    assert_eq!(report.verdict.as_ref().unwrap().reason, "SELECTOR_OVERLAP");
    assert_eq!(refused.requeue_after.as_ref().unwrap().seconds, 10);
    // It is reported once, and checked again.
    let mut calls = refused.steps.iter().filter_map(|step| step.call.as_ref());
    let call = calls.next().unwrap();
    let written: Value = serde_json::from_str(&call.body_json).unwrap();
    items.last_mut().unwrap()["status"] = written["status"].clone();
    let again = plan(&items);
    assert!(again.steps.is_empty(), "{:?}", again.steps);
    assert_eq!(again.requeue_after.as_ref().unwrap().seconds, 10);
}

#[test]
fn custom_resource_adopts_what_a_deleted_deployment_leaves() {
    let mut items = beside_a_deployment();
    give_to(&mut items, None);
    let adopted = plan(&items);
    assert!(
        adopted
            .steps
            .iter()
            .any(|step| matches!(step.action, Some(proto::step::Action::AdoptReplicaSet(_))))
    );
    // Of two ReplicaSets, one is still the Deployment's.
    items[1]["metadata"]["ownerReferences"] =
        half_way().set(0)["metadata"]["ownerReferences"].clone();
    assert_eq!(written(&plan(&items)), ["PlannedDeployment"]);
}

#[test]
fn custom_resource_is_not_refused_for_other_reasons() {
    // A Deployment without pods, other owners, and a Deployment that was created later.
    let mut empty = beside_a_deployment();
    for set in empty.iter_mut().filter(|item| item["kind"] == "ReplicaSet") {
        set["spec"]["replicas"] = 0.into();
    }
    let mut others = beside_a_deployment();
    give_to(
        &mut others,
        Some(("argoproj.io/v1alpha1", "Rollout", "other")),
    );
    let mut later = beside_a_deployment();
    give_to(
        &mut later[2..3],
        Some(("apps.rollplan.dev/v1alpha1", "PlannedDeployment", "planned")),
    );
    for items in [empty, others, later] {
        assert!(written(&plan(&items)).contains(&"ReplicaSet"));
    }
}

/// A ReplicaSet that runs pods of a Deployment is found, whatever its name is and whichever others are matched.
#[test]
fn overlap_is_found_among_other_replica_sets() {
    let rollout = Some(("argoproj.io/v1alpha1", "Rollout", "other"));
    let set = Some(("apps/v1", "StatefulSet", "other"));
    let deployment = Some(("example.com/v1", "Deployment", "other"));
    for (other, app) in [
        (rollout, "web"),
        (set, "web"),
        (deployment, "web"),
        (None, "web"),
        (None, "other"),
    ] {
        let mut items = beside_a_deployment();
        let mut names = ["a", "b"].into_iter();
        for set in items.iter_mut().filter(|item| item["kind"] == "ReplicaSet") {
            set["metadata"]["name"] = names.next().unwrap().into();
            set["spec"]["replicas"] = 1.into();
        }
        match other {
            Some(_) => give_to(&mut items[1..2], other),
            None if app == "web" => items[1]["spec"]["replicas"] = 0.into(),
            // The selector does not match it.
            None => items[1]["metadata"]["labels"]["app"] = app.into(),
        }
        let plan = plan(&items);
        assert_eq!(written(&plan), ["PlannedDeployment"], "{other:?} {app}");
        assert_eq!(plan.requeue_after.unwrap().seconds, 10, "{other:?} {app}");
    }
}

#[test]
fn single_pass_is_repeated_while_selectors_overlap() {
    let mut request = half_way();
    request.items = beside_a_deployment();
    request.snapshot.target = Some(proto::Target {
        api_version: "apps.rollplan.dev/v1alpha1".to_owned(),
        kind: "PlannedDeployment".to_owned(),
        resource: "planneddeployments".to_owned(),
        ..Default::default()
    });
    request.options.set_horizon(proto::Horizon::Pass);
    let plan = request.plan();
    assert_eq!(written(&plan), ["PlannedDeployment"]);
    assert_eq!(plan.requeue_after.unwrap().seconds, 10);
}

/// Only Deployments of Kubernetes run the same pods again.
#[test]
fn custom_resource_is_not_refused_for_deployments_of_other_groups() {
    for owner in [
        ("example.com/v1", "Deployment", "other"),
        ("apps/v1", "StatefulSet", "other"),
    ] {
        let mut items = beside_a_deployment();
        give_to(&mut items, Some(owner));
        assert!(written(&plan(&items)).contains(&"ReplicaSet"), "{owner:?}");
    }
}
