//! The selection of objects from the input.

use serde_json::{Value, json};

use super::CREATED;
use crate::cli::{
    DEPLOYMENT, POD, REPLICA_SET, answered, plan_args, planned, refused, rollplan, summaries,
};

#[test]
fn other_kinds_are_skipped_with_a_note() {
    let service = "apiVersion: v1\nkind: Service\nmetadata: {name: a}\n";
    let map = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: b}\nitems: [1]\n";
    let other =
        "apiVersion: example.com/v1\nkind: Deployment\nmetadata: {name: web, namespace: shop}\n";
    let input = [DEPLOYMENT, service, REPLICA_SET, map, service, other, POD].join("---\n");
    let run = rollplan(&plan_args(&[]), &input);
    assert_eq!(
        (run.exit, run.err.as_str()),
        (
            0,
            "note: skipped: 1 ConfigMap (v1), 1 Deployment (example.com/v1), 2 Service (v1)\n"
        )
    );
    assert_eq!(summaries(&run.out), CREATED);
}

#[test]
fn objects_of_other_namespaces_are_ignored() {
    let elsewhere = |text: &str| text.replace("namespace: shop", "namespace: other");
    // Even if they are invalid.
    let broken = elsewhere(REPLICA_SET).replace("replicas: 0", "replicas: -1");
    let input = [DEPLOYMENT, REPLICA_SET, &broken, &elsewhere(POD), POD].join("---\n");
    assert_eq!(planned(&[], &input), CREATED);
}

/// Objects of other owners may be invalid, and their number is not limited.
#[test]
fn objects_of_other_owners_are_ignored() {
    let odd = REPLICA_SET
        .replace("name: web-1", "name: theirs")
        .replace("uid: r1", "uid: r9")
        .replace("uid: d1", "uid: d9")
        .replace("  replicas: 0\n  selector", "  replicas: two\n  selector")
        .replace(
            "    spec:\n",
            "    spec:\n      tolerations: [{operator: Exists, tolerationSeconds: 9223372036854775807}]\n",
        );
    let orphan = odd
        .replace("app: web", "app: api")
        .replace("    controller: true", "");
    let pod = POD.replace("uid: p1", "x: 1") + "  startTime: [yesterday]\n";
    let pods: String = (0..20_001)
        .map(|n| {
            let metadata =
                json!({"name": format!("p{n}"), "namespace": "shop", "uid": format!("p{n}")});
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata}).to_string() + "\n---\n"
        })
        .collect();
    let input = [DEPLOYMENT, REPLICA_SET, &odd, &orphan, &pod, &pods].join("\n---\n");
    assert_eq!(planned(&[], &input), CREATED);
}

/// A ReplicaSet of another owner has the name that the new ReplicaSet would get.
#[test]
fn names_of_other_owners_are_not_reused() {
    let theirs = REPLICA_SET
        .replace("name: web-1", "name: web-79c545b47")
        .replace("uid: r1", "uid: r9")
        .replace("uid: d1", "uid: d9")
        .replace("  replicas: 0\n  selector", "  replicas: two\n  selector");
    let input = [DEPLOYMENT, REPLICA_SET, &theirs].join("---\n");
    let steps = planned(&[], &input);
    assert_ne!(steps, CREATED);
    assert!(steps[0].starts_with("create ReplicaSet web-"), "{steps:?}");
}

#[test]
fn one_of_several_deployments_is_chosen_by_name() {
    let web = DEPLOYMENT.to_owned();
    let far = DEPLOYMENT
        .replace("namespace: shop", "namespace: far")
        .replace("uid: d1", "uid: d2");
    let api = DEPLOYMENT
        .replace("name: web", "name: api")
        .replace("uid: d1", "uid: d3");
    let input = [web.as_str(), &far, &api].join("---\n");
    let planned_for = |name: &str| {
        let answer = answered(&plan_args(&["--deployment", name]), &input);
        let answer: Value = serde_json::from_str(&answer).unwrap();
        let call = &answer["steps"][0]["call"];
        format!(
            "{}/{}",
            call["namespace"].as_str().unwrap(),
            call["name"].as_str().unwrap()
        )
    };
    assert_eq!(planned_for("shop/web"), "shop/web-79c545b47");
    assert_eq!(planned_for("far/web"), "far/web-79c545b47");
    assert!(planned_for("api").starts_with("shop/api-"));

    let list = "\n  standard input, document 1 (Deployment shop/web)\n  standard input, document 2 (Deployment far/web)";
    let all = format!("{list}\n  standard input, document 3 (Deployment shop/api)\n");
    assert_eq!(
        refused(&plan_args(&[]), &input),
        format!("error: several Deployments in the input; choose one with --deployment:{all}")
    );
    assert_eq!(
        refused(&plan_args(&["-d", "web"]), &input),
        format!("error: several Deployments web in the input:{list}\n")
    );
    assert_eq!(
        refused(&plan_args(&["-d", "shop/db"]), &input),
        format!("error: Deployment shop/db not found in the input, which has:{all}")
    );
    assert_eq!(
        refused(&plan_args(&[]), POD),
        "error: the input contains no Deployment, only Pod (1)\n"
    );
    assert_eq!(
        refused(&plan_args(&[]), "# nothing\n"),
        "error: the input contains no Deployment\n"
    );
    for wrong in ["", "/web", "shop/", "a/b/c"] {
        assert_eq!(
            refused(&plan_args(&["-d", wrong]), &input),
            format!("error: --deployment {wrong}: must be [NAMESPACE/]NAME\n")
        );
    }
}

#[test]
fn planned_deployments_are_planned_like_deployments() {
    let input = DEPLOYMENT
        .replace(
            "apiVersion: apps/v1",
            "apiVersion: apps.rollplan.dev/v1alpha1",
        )
        .replace("kind: Deployment", "kind: PlannedDeployment");
    let answer = answered(&plan_args(&[]), &input);
    let answer: Value = serde_json::from_str(&answer).unwrap();
    let body = answer["steps"][0]["call"]["bodyJson"].as_str().unwrap();
    let body: Value = serde_json::from_str(body).unwrap();
    let owner = &body["metadata"]["ownerReferences"][0];
    assert_eq!(
        (&owner["apiVersion"], &owner["kind"]),
        (
            &json!("apps.rollplan.dev/v1alpha1"),
            &json!("PlannedDeployment")
        )
    );
}

#[test]
fn deployments_are_told_from_other_objects_with_their_name() {
    let named = |api_version: &str, kind: &str, uid: &str| {
        DEPLOYMENT
            .replace("apps/v1", api_version)
            .replace("kind: Deployment", &format!("kind: {kind}"))
            .replace("uid: d1", &format!("uid: {uid}"))
    };
    let planned_one = named("apps.rollplan.dev/v1alpha1", "PlannedDeployment", "p");
    let set = named("apps/v1", "StatefulSet", "s");
    let steps = |input: &str| {
        let run = rollplan(&plan_args(&["-d", "web"]), input);
        assert_eq!(run.exit, 0, "{}", run.err);
        summaries(&run.out)
    };
    let steps = steps(&[set.as_str(), &planned_one].join("---\n"));
    assert_eq!(steps[0], CREATED[0]);
    let args = ["status", "sts/web", "-f", "-", "--now", super::super::NOW];
    let run = rollplan(&args, &[DEPLOYMENT, &set].join("---\n"));
    assert_eq!(run.exit, 3, "{}", run.err);
    assert!(run.out.starts_with("StatefulSet shop/web"), "{}", run.out);
    // The kind has the same name in another API group.
    let other = named("example.com/v1", "PlannedDeployment", "p");
    let err = refused(&plan_args(&[]), &other);
    let skipped = "note: skipped: 1 PlannedDeployment (example.com/v1)\n";
    assert_eq!(
        err,
        format!("{skipped}error: the input contains no Deployment, only PlannedDeployment (1)\n")
    );
}
