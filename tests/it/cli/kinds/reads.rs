//! The calls of kubectl for each kind, and missing permissions.

use std::fs;

use serde_json::{Value, json};

use super::{
    alone, certificate, claim, daemon_set, ended_job, object, pod, replica_set,
    replication_controller, running_job, service, spec, stateful_set,
};
use crate::cli::NOW;
use crate::cli::kubectl::{Answer, Kubectl, OPTIONS, Poll, forbidden, forbidden_text, poll};

#[test]
fn each_kind_is_read_with_its_related_objects() {
    let lists: [(&[&str], Value, &str, &[&str]); 10] = [
        (&["sts/db"], stateful_set(2), "statefulsets.apps", &["pods"]),
        (
            &["statefulset", "db"],
            stateful_set(2),
            "statefulsets.apps",
            &["pods"],
        ),
        (
            &["ds/db"],
            daemon_set(3),
            "daemonsets.apps",
            &["controllerrevisions.apps", "pods"],
        ),
        (
            &["replicaset/db"],
            replica_set(2),
            "replicasets.apps",
            &["pods"],
        ),
        (
            &["rc/db"],
            replication_controller(2),
            "replicationcontrollers",
            &["pods"],
        ),
        (
            &["job", "db"],
            ended_job("Complete", "CompletionsReached"),
            "jobs.batch",
            &["pods"],
        ),
        (
            &["svc/db"],
            service(json!([{"ip": "192.0.2.1"}])),
            "services",
            &[],
        ),
        (
            &["pvc", "db"],
            claim("Bound"),
            "persistentvolumeclaims",
            &[],
        ),
        (
            &["po/db"],
            pod(None, "db", json!({"phase": "Succeeded"})),
            "pods",
            &[],
        ),
        (
            &["certificates.cert-manager.io/db"],
            certificate("True"),
            "certificates.cert-manager.io",
            &[],
        ),
    ];
    for (words, object, resource, others) in lists {
        let kubectl = Kubectl::new(&[alone(object.clone())]);
        let args = [&["status"], words, &["-n", "shop", "--now", NOW]].concat();
        let run = kubectl.run(&args);
        assert_eq!(
            (run.exit, run.err.as_str()),
            (0, ""),
            "{words:?}: {}",
            run.out
        );
        let kind = object["kind"].as_str().unwrap();
        assert!(
            run.out.starts_with(&format!("{kind} shop/db: complete\n")),
            "{}",
            run.out
        );
        let mut calls = vec![format!("get {resource} db {OPTIONS} --namespace=shop")];
        let list = |list: &&str| format!("get {list} --selector=app=db {OPTIONS} --namespace=shop");
        calls.extend(others.iter().map(list));
        assert_eq!(kubectl.calls(), calls, "{words:?}");
        // Unneeded events are not read.
        assert_eq!(kubectl.event_calls(), 0, "{words:?}");
    }
}

/// An object of any kind with the spec of a Deployment has ReplicaSets.
#[test]
fn replica_sets_of_custom_deployments_are_read() {
    let of = |spec: Value| {
        let mut rollout = object("example.com/v1", "Rollout", "db", spec, json!({}));
        rollout["metadata"]["resourceVersion"] = json!("1");
        let kubectl = Kubectl::new(&[alone(rollout)]);
        let run = kubectl.run(&["status", "rollouts.example.com/db", "--now", NOW]);
        assert_eq!(run.err, "", "{}", run.out);
        let calls = kubectl.calls();
        let kinds = calls.iter().map(|call| call.split(' ').nth(1).unwrap());
        kinds.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(
        of(spec(json!({"replicas": 2}))),
        ["rollouts.example.com", "rs", "pods"]
    );
    let canary = spec(json!({"replicas": 2, "strategy": {"canary": {}}}));
    // Without a status, it depends on the kind whether there will be one.
    assert_eq!(of(canary), ["rollouts.example.com", "--raw"]);
}

#[test]
fn several_kinds_are_listed_in_one_call() {
    let set = |n: usize| {
        let mut set = stateful_set(2);
        set["metadata"]["name"] = json!(format!("db{n}"));
        set["metadata"]["uid"] = json!(format!("uid{n}"));
        set
    };
    let sets: Vec<Value> = (0..5).map(set).collect();
    let list = json!({"apiVersion": "v1", "kind": "List", "items": sets});
    let kubectl = Kubectl::new(&[Poll {
        deployment: Answer::Out(list.to_string()),
        ..poll(vec![])
    }]);
    let run = kubectl.run(&[
        "status",
        "sts",
        "-l",
        "tier=data",
        "-n",
        "shop",
        "-o",
        "name",
    ]);
    assert_eq!((run.exit, run.err.as_str()), (0, ""), "{}", run.out);
    assert_eq!(run.out.lines().count(), 5, "{}", run.out);
    let get = |what: &str| format!("get {what}{OPTIONS} --namespace=shop");
    assert_eq!(
        kubectl.calls(),
        [
            get("statefulsets.apps --selector=tier=data "),
            get("statefulsets.apps "),
            get("pods ")
        ]
    );
    for (args, resource) in [
        (
            &["--all", "certificates.cert-manager.io"][..],
            "certificates.cert-manager.io",
        ),
        (&["--all", "cj,ds"], "cronjobs.batch"),
    ] {
        let none = json!({"apiVersion": "v1", "kind": "List", "items": []});
        let kubectl = Kubectl::new(&[alone(none)]);
        let run = kubectl.run(&[&["wait", "--timeout=0"], args].concat());
        assert_eq!(run.exit, 2, "{}", run.err);
        assert!(run.err.starts_with("error: no "), "{}", run.err);
        assert_eq!(kubectl.calls()[0], format!("get {resource} {OPTIONS}"));
    }
}

#[test]
fn causes_known_from_events_only_are_reported() {
    let event = |kind: &str, reason: &str, message: &str| {
        json!({
            "apiVersion": "v1", "kind": "Event", "metadata": {"name": "x", "namespace": "shop"},
            "involvedObject": {"kind": kind, "name": "db", "uid": format!("{kind}-db")},
            "reason": reason, "message": message, "type": "Warning", "count": 9,
            "firstTimestamp": "2026-11-20T11:50:00Z", "lastTimestamp": "2026-11-20T11:59:50Z",
            "source": {"component": "controller"},
        })
    };
    let denied = "admission webhook \"policy.example.com\" denied the request: no";
    let mut set = stateful_set(0);
    set["status"]["replicas"] = json!(0);
    for (object, event, exit, part, filter) in [
        (
            set,
            event("StatefulSet", "FailedCreate", denied),
            1,
            "denied the request",
            "type=Warning",
        ),
        (
            claim("Pending"),
            event("PersistentVolumeClaim", "WaitForFirstConsumer", "waiting"),
            0,
            "its StorageClass binds it when the first pod",
            "involvedObject.kind=PersistentVolumeClaim",
        ),
        (
            service(json!([])),
            event("Service", "SyncLoadBalancerFailed", "quota exceeded"),
            3,
            "its load balancer cannot be provisioned: quota exceeded",
            "type=Warning",
        ),
    ] {
        let kind = object["kind"].as_str().unwrap().to_owned();
        let kubectl = Kubectl::new(&[alone(object)]);
        kubectl.add_events(1, &[event]);
        let run = kubectl.run(&["status", &format!("{kind}/db"), "--now", NOW]);
        assert_eq!(run.exit, exit, "{kind}: {}", run.out);
        assert!(run.out.contains(part), "{kind}: {}", run.out);
        let calls = fs::read_to_string(kubectl.file("calls")).unwrap();
        assert!(
            calls.contains(&format!("get events --field-selector={filter} ")),
            "{calls}"
        );
    }
    // A Job without problems needs no events.
    let kubectl = Kubectl::new(&[alone(running_job())]);
    assert_eq!(kubectl.run(&["status", "job/db", "--now", NOW]).exit, 3);
    assert_eq!(kubectl.event_calls(), 0);
}

#[test]
fn forbidden_objects_are_skipped_with_a_note() {
    let polls = Poll {
        pods: forbidden("pods"),
        ..alone(daemon_set(2))
    };
    let kubectl = Kubectl::new(&[polls]);
    fs::write(
        kubectl.file("controllerrevisions.apps.1.err"),
        forbidden_text("controllerrevisions"),
    )
    .unwrap();
    let run = kubectl.run(&["status", "ds/db", "--now", NOW]);
    assert_eq!(run.exit, 3, "{}", run.out);
    let notes: Vec<&str> = run.err.lines().collect();
    assert_eq!(notes.len(), 2, "{}", run.err);
    assert!(
        notes[0].contains("computed without ControllerRevisions"),
        "{}",
        run.err
    );
    assert!(notes[1].contains("computed without pods"), "{}", run.err);
}
