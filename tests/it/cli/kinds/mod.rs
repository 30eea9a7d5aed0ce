//! `status` and `wait` for every kind of workload, with objects from kubectl or from files.

mod files;
mod jobs;

use std::fs;

use serde_json::{Value, json};

use super::kubectl::{Answer, Kubectl, OPTIONS, Poll, forbidden, forbidden_text, poll, rollout};
use super::{NOW, refused};

/// An object in the namespace shop.
fn object(api_version: &str, kind: &str, name: &str, spec: Value, status: Value) -> Value {
    json!({
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {
            "name": name, "namespace": "shop", "uid": format!("{kind}-{name}"), "generation": 1,
            "creationTimestamp": "2026-11-20T11:00:00Z",
        },
        "spec": spec,
        "status": status,
    })
}

/// A spec with a selector and a template.
fn spec(fields: Value) -> Value {
    let mut spec = json!({
        "selector": {"matchLabels": {"app": "db"}},
        "template": {"metadata": {"labels": {"app": "db"}}, "spec": {"containers": [{"name": "db", "image": "db:1"}]}},
    });
    let fields = fields.as_object().unwrap().clone();
    spec.as_object_mut().unwrap().extend(fields);
    spec
}

fn stateful_set(available: i32) -> Value {
    let status = json!({
        "observedGeneration": 1, "replicas": 2, "readyReplicas": available, "availableReplicas": available,
        "updatedReplicas": 2, "currentReplicas": 2, "currentRevision": "db-1", "updateRevision": "db-1",
    });
    object(
        "apps/v1",
        "StatefulSet",
        "db",
        spec(json!({"replicas": 2, "updateStrategy": {"type": "RollingUpdate"}})),
        status,
    )
}

fn daemon_set(available: i32) -> Value {
    let status = json!({
        "observedGeneration": 1, "desiredNumberScheduled": 3, "currentNumberScheduled": 3, "updatedNumberScheduled": 3,
        "numberReady": available, "numberAvailable": available,
    });
    object(
        "apps/v1",
        "DaemonSet",
        "db",
        spec(json!({"updateStrategy": {"type": "RollingUpdate"}})),
        status,
    )
}

fn replica_set(available: i32) -> Value {
    let status = json!({
        "observedGeneration": 1, "replicas": 2, "fullyLabeledReplicas": 2, "readyReplicas": available,
        "availableReplicas": available,
    });
    object(
        "apps/v1",
        "ReplicaSet",
        "db",
        spec(json!({"replicas": 2})),
        status,
    )
}

fn job(status: Value) -> Value {
    let mut all = json!({"startTime": "2026-11-20T11:59:00Z"});
    all.as_object_mut()
        .unwrap()
        .extend(status.as_object().unwrap().clone());
    let spec = spec(json!({"completions": 2, "parallelism": 1, "backoffLimit": 3}));
    object("batch/v1", "Job", "db", spec, all)
}

fn running_job() -> Value {
    job(json!({"active": 1, "succeeded": 1}))
}

fn ended_job(condition: &str, reason: &str) -> Value {
    job(json!({
        "succeeded": 2, "failed": 4,
        "conditions": [{"type": condition, "status": "True", "reason": reason, "message": "it ended"}],
    }))
}

fn service(ingress: Value) -> Value {
    let spec = json!({"type": "LoadBalancer", "clusterIP": "10.0.0.1"});
    let status = json!({"loadBalancer": {"ingress": ingress}});
    object("v1", "Service", "db", spec, status)
}

fn claim(phase: &str) -> Value {
    let spec = json!({"storageClassName": "slow"});
    object(
        "v1",
        "PersistentVolumeClaim",
        "db",
        spec,
        json!({"phase": phase}),
    )
}

fn certificate(ready: &str) -> Value {
    let status = json!({"conditions": [{"type": "Ready", "status": ready, "reason": "Issuing", "message": "wait"}]});
    object(
        "cert-manager.io/v1",
        "Certificate",
        "db",
        json!({"secretName": "tls"}),
        status,
    )
}

/// A pod, with an owner if given.
fn pod(owner: Option<&Value>, name: &str, status: Value) -> Value {
    let mut pod = object(
        "v1",
        "Pod",
        name,
        json!({"containers": [{"name": "db", "image": "db:1"}]}),
        status,
    );
    if let Some(owner) = owner {
        pod["metadata"]["ownerReferences"] = json!([{
            "apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": owner["metadata"]["name"],
            "uid": owner["metadata"]["uid"], "controller": true,
        }]);
        pod["metadata"]["labels"] = json!({"app": "db", "controller-revision-hash": "db-1"});
    }
    pod
}

fn failing_pod(owner: Option<&Value>, name: &str) -> Value {
    let waiting =
        json!({"waiting": {"reason": "InvalidImageName", "message": "invalid reference format"}});
    let container = json!({"name": "db", "image": "DB", "state": waiting, "restartCount": 0});
    pod(
        owner,
        name,
        json!({"phase": "Pending", "containerStatuses": [container]}),
    )
}

/// The output of kubectl for an object with these pods.
fn read(object: Value, pods: Vec<Value>) -> Poll {
    Poll {
        deployment: Answer::Out(object.to_string()),
        ..poll(pods)
    }
}

fn alone(object: Value) -> Poll {
    read(object, Vec::new())
}

#[test]
fn each_kind_is_read_with_its_related_objects() {
    let lists: [(&[&str], Value, &str, &[&str]); 9] = [
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

#[test]
fn counters_and_causes_of_other_kinds_are_printed() {
    let set = stateful_set(0);
    let pods = ["db-0", "db-1"].map(|name| failing_pod(Some(&set), name));
    let kubectl = Kubectl::new(&[read(set, pods.to_vec())]);
    let run = kubectl.run(&["status", "sts/db", "-n", "shop", "--now", NOW]);
    assert_eq!((run.exit, run.err.as_str()), (1, ""), "{}", run.out);
    for part in [
        "StatefulSet shop/db: stalled\n",
        "statefulset \"db\" is stalled (2 of 2 updated, 0 of 2 available)\n",
        "image DB of container db cannot be pulled",
        "\nDESIRED  TOTAL  UPDATED  READY  AVAILABLE",
        "\n2        2      2        0      0",
    ] {
        assert!(run.out.contains(part), "{part:?}: {}", run.out);
    }
    let run = kubectl.run(&["status", "sts/db", "-o", "wide", "--now", NOW]);
    assert!(
        run.out.contains("db-1  db: InvalidImageName"),
        "{}",
        run.out
    );
    let run = kubectl.run(&["status", "sts/db", "-o", "name", "--now", NOW]);
    assert_eq!(run.out, "statefulset.apps/db\n");
    let run = kubectl.run(&["status", "sts/db", "-o", "json", "--now", NOW]);
    let json: Value = serde_json::from_str(&run.out).unwrap();
    assert_eq!(json["report"]["phase"], "PHASE_STALLED");
    assert_eq!(json["object"]["kind"], "StatefulSet");
    assert_eq!(
        json["report"]["counters"][1],
        json!({"name": "total", "value": "2"})
    );
    let run = kubectl.run(&["status", "sts/db", "-o", "yaml", "--now", NOW]);
    assert!(run.out.contains("phase: PHASE_STALLED"), "{}", run.out);
}

#[test]
fn exit_codes_match_the_state_of_each_kind() {
    let on_delete = || {
        let mut set = stateful_set(2);
        set["spec"]["updateStrategy"]["type"] = json!("OnDelete");
        set["status"]["updatedReplicas"] = json!(0);
        set["status"]["updateRevision"] = json!("db-2");
        set
    };
    let mut suspended = job(json!({}));
    suspended["spec"]["suspend"] = json!(true);
    let mut deleting = stateful_set(2);
    deleting["metadata"]["deletionTimestamp"] = json!("2026-11-20T11:59:59Z");
    let mut unobserved = daemon_set(3);
    unobserved["metadata"]["generation"] = json!(2);
    for (object, state, exit) in [
        (stateful_set(1), "progressing", 3),
        (on_delete(), "paused", 3),
        (deleting, "deleting", 1),
        (unobserved, "progressing", 3),
        (running_job(), "progressing", 3),
        (suspended, "paused", 3),
        (ended_job("Failed", "BackoffLimitExceeded"), "stalled", 1),
        (claim("Pending"), "progressing", 3),
        (claim("Lost"), "stalled", 1),
        (service(json!([])), "progressing", 3),
        (certificate("False"), "progressing", 3),
        (
            pod(None, "db", json!({"phase": "Failed", "reason": "Evicted"})),
            "stalled",
            1,
        ),
    ] {
        let kind = object["kind"].as_str().unwrap().to_owned();
        let kubectl = Kubectl::new(&[alone(object)]);
        let run = kubectl.run(&["status", &format!("{kind}/db"), "--now", NOW]);
        assert_eq!(run.exit, exit, "{kind}: {}{}", run.out, run.err);
        let head = format!("{kind} shop/db: {state}\n");
        assert!(run.out.starts_with(&head), "{head}: {}", run.out);
    }
}

#[test]
fn wait_ends_with_the_state_of_each_kind() {
    let failed = || alone(ended_job("Failed", "BackoffLimitExceeded"));
    for (args, polls, exit) in [
        (
            &["sts/db"][..],
            vec![alone(stateful_set(0)), alone(stateful_set(2))],
            0,
        ),
        (
            &["job/db"],
            vec![
                alone(running_job()),
                alone(ended_job("Complete", "CompletionsReached")),
            ],
            0,
        ),
        (&["job/db"], vec![alone(running_job()), failed()], 1),
        // This state is final, so there is nothing to wait for.
        (
            &["job/db", "--fail-fast=off"],
            vec![alone(running_job()), failed()],
            1,
        ),
        (
            &["daemonset", "db", "--for=available"],
            vec![alone(daemon_set(2)), alone(daemon_set(3))],
            0,
        ),
        (
            &["sts/db", "--for=updated"],
            vec![alone(stateful_set(0))],
            0,
        ),
        (
            &["rs/db", "--for=available"],
            vec![alone(replica_set(2))],
            0,
        ),
        (
            &["certificate/db"],
            vec![alone(certificate("Unknown")), alone(certificate("True"))],
            0,
        ),
        (
            &["pvc/db", "--for=deleted"],
            vec![alone(claim("Bound")), poll(vec![])],
            0,
        ),
    ] {
        let kubectl = Kubectl::new(&polls);
        let run = kubectl.watch(&[&["wait"], args].concat());
        assert_eq!(run.exit, exit, "{args:?}: {}{}", run.out, run.err);
        assert_eq!(run.err, "", "{args:?}");
    }
    // An object in progress ends the wait at its timeout.
    let kubectl = Kubectl::new(&[alone(stateful_set(1))]);
    let run = kubectl.run(&["wait", "sts/db", "--timeout=0"]);
    assert_eq!(
        (run.exit, run.err.as_str()),
        (3, "note: still in progress after 0s\n")
    );
}

#[test]
fn stateful_set_updates_complete_at_the_partition() {
    let mut set = stateful_set(2);
    set["spec"]["updateStrategy"]["rollingUpdate"] = json!({"partition": 1});
    set["status"]["updateRevision"] = json!("db-2");
    set["status"]["updatedReplicas"] = json!(1);
    set["status"]["currentReplicas"] = json!(1);
    set["status"]["availableReplicas"] = json!(1);
    set["status"]["readyReplicas"] = json!(1);
    let kubectl = Kubectl::new(&[alone(set)]);
    let run = kubectl.watch(&["wait", "sts/db", "--for=updated"]);
    assert_eq!((run.exit, run.err.as_str()), (0, ""), "{}", run.out);
    let run = kubectl.run(&["status", "sts/db"]);
    assert!(run.out.contains("  PARTITION\n"), "{}", run.out);
}

#[test]
fn goals_without_meaning_for_a_kind_are_refused() {
    for (args, expected) in [
        (
            &["wait", "job/db", "--for=available"][..],
            "error: --for=available is for Deployments, StatefulSets, DaemonSets and ReplicaSets: a Job has no number of \
             available pods",
        ),
        (
            &["wait", "web", "rs/db", "--for=updated"],
            "error: --for=updated is for Deployments, StatefulSets and DaemonSets: a ReplicaSet has no number of updated pods",
        ),
        (
            &["wait", "--all", "po,sts", "--for=available"],
            "a Pod has no number of available pods",
        ),
    ] {
        let err = refused(args, "");
        assert!(err.contains(expected), "{args:?}: {err}");
    }
    // The kind of some names is only known after the object is read.
    let kubectl = Kubectl::new(&[alone(certificate("True"))]);
    let run = kubectl.watch(&["wait", "cert/db", "--for=available"]);
    assert_eq!(run.exit, 2, "{}", run.out);
    assert!(
        run.err.contains("a Certificate has no number"),
        "{}",
        run.err
    );
}

#[test]
fn rows_of_several_kinds_name_the_kind() {
    let polls = [
        rollout(2),
        alone(running_job()),
        alone(stateful_set(1)),
        alone(ended_job("Complete", "CompletionsReached")),
        alone(stateful_set(2)),
    ];
    let kubectl = Kubectl::new(&polls);
    let run = kubectl.watch(&["wait", "deploy/web", "sts/db", "job/db", "-n", "shop"]);
    assert_eq!((run.exit, run.err.as_str()), (0, ""), "{}", run.out);
    let rows: Vec<Vec<&str>> = run
        .out
        .lines()
        .skip(1)
        .map(|line| line.split_whitespace().take(5).collect())
        .collect();
    for row in [
        ["Deployment", "shop/web", "complete", "2/2", "2/2"],
        ["StatefulSet", "shop/db", "progressing", "2/2", "1/2"],
        ["StatefulSet", "shop/db", "complete", "2/2", "2/2"],
        ["Job", "shop/db", "progressing", "-", "-"],
        ["Job", "shop/db", "complete", "-", "-"],
    ] {
        assert!(rows.iter().any(|it| *it == row), "{row:?}: {}", run.out);
    }
    assert_eq!(rows.len(), 5, "{}", run.out);
    // Missing objects are named with their kind.
    let missing = "Error from server (NotFound): statefulsets.apps \"db\" not found\n";
    let absent = Poll {
        deployment: Answer::Err(missing.to_owned()),
        ..poll(vec![])
    };
    let kubectl = Kubectl::new(&[absent]);
    let run = kubectl.run(&["status", "sts/db", "-n", "shop"]);
    assert_eq!(
        (run.exit, run.err.as_str()),
        (2, "error: StatefulSet db not found in namespace shop\n")
    );
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
            3,
            "its StorageClass binds it when the first pod uses it",
            "involvedObject.kind=PersistentVolumeClaim",
        ),
        (
            service(json!([])),
            event("Service", "SyncLoadBalancerFailed", "quota exceeded"),
            3,
            "its load balancer fails: quota exceeded",
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
        notes[0].contains("does without ControllerRevisions"),
        "{}",
        run.err
    );
    assert!(notes[1].contains("does without pods"), "{}", run.err);
}
