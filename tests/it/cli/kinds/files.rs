//! Files with objects of every kind: manifests that were applied, and live objects.

use serde_json::{Value, json};

use super::{alone, certificate, daemon_set, ended_job, object, pod, running_job, stateful_set};
use crate::cli::kubectl::{Kubectl, OPTIONS};
use crate::cli::{NOW, Run, Scratch, refused, rollplan};

#[test]
fn wait_covers_all_applied_objects() {
    let manifest = "\
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db, namespace: shop}
---
apiVersion: batch/v1
kind: Job
metadata: {name: db, namespace: shop}
---
apiVersion: v1
kind: Secret
metadata: {name: db, namespace: shop}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: db, namespace: shop}
---
apiVersion: cert-manager.io/v1
kind: Certificate
metadata: {name: db, namespace: shop}
";
    let file = Scratch::new(manifest);
    // In order of namespace and kind.
    let polls = [
        alone(certificate("True")),
        alone(ended_job("Complete", "CompletionsReached")),
        alone(stateful_set(2)),
    ];
    let kubectl = Kubectl::new(&polls);
    let run = kubectl.watch(&["wait", "-f", file.path(), "-o", "name"]);
    assert_eq!((run.exit, run.err.as_str()), (0, ""), "{}", run.out);
    let mut names: Vec<&str> = run.out.lines().collect();
    names.sort_unstable();
    assert_eq!(
        names,
        [
            "certificate.cert-manager.io/db",
            "job.batch/db",
            "statefulset.apps/db"
        ]
    );
    let reads = kubectl.calls().into_iter();
    let mut reads: Vec<String> = reads.filter(|call| call.contains(" db ")).collect();
    reads.sort_unstable();
    let get = |what: &str| format!("get {what} db {OPTIONS} --namespace=shop");
    assert_eq!(
        reads,
        [
            get("certificate.v1.cert-manager.io"),
            get("jobs.batch"),
            get("statefulsets.apps")
        ]
    );
    // Other kinds than those that the goal applies to are skipped.
    let kubectl = Kubectl::new(&[alone(stateful_set(2))]);
    let run = kubectl.watch(&["wait", "-f", file.path(), "--for=available", "-o", "name"]);
    assert_eq!(
        (run.exit, run.out.as_str()),
        (0, "statefulset.apps/db\n"),
        "{}",
        run.err
    );
    let nameless = Scratch::new("apiVersion: batch/v1\nkind: Job\nmetadata: {generateName: db-}\n");
    let run = Kubectl::new(&[]).run(&["wait", "-f", nameless.path()]);
    assert_eq!(run.exit, 2);
    assert!(
        run.err.contains("the object has generateName and no name"),
        "{}",
        run.err
    );
}

/// The output of `kubectl get all -o json`, and parts of it.
#[test]
fn live_objects_of_every_kind_have_a_status() {
    let set = stateful_set(2);
    let ready = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]});
    let objects = vec![
        set.clone(),
        pod(Some(&set), "db-0", ready.clone()),
        pod(None, "debug", json!({"phase": "Failed"})),
        daemon_set(2),
        running_job(),
        object("v1", "ConfigMap", "settings", json!({}), json!({})),
        // It belongs to the DaemonSet, so it is not skipped.
        object(
            "apps/v1",
            "ControllerRevision",
            "db-1",
            json!({}),
            json!({}),
        ),
    ];
    let list = |objects: &[Value]| {
        json!({"apiVersion": "v1", "kind": "List", "items": objects}).to_string()
    };
    let args = ["status", "-f", "-", "--now", NOW];
    let run = rollplan(&args, &list(&objects));
    assert_eq!(run.exit, 3, "{}", run.err);
    assert_eq!(run.err, "note: skipped: 1 ConfigMap (v1)\n");
    let rows: Vec<Vec<&str>> = run
        .out
        .lines()
        .map(|line| line.split_whitespace().take(5).collect())
        .collect();
    assert_eq!(
        rows,
        [
            vec!["NAME", "STATE", "UPDATED", "AVAILABLE", "MESSAGE"],
            vec!["StatefulSet", "shop/db", "complete", "2/2", "2/2"],
            vec!["DaemonSet", "shop/db", "progressing", "3/3", "2/3"],
            vec!["Job", "shop/db", "progressing", "-", "-"],
        ]
    );
    // Single pods have a status if the input contains nothing else.
    let run = rollplan(&args, &list(&objects[1..3]));
    assert_eq!((run.exit, run.err.as_str()), (1, ""), "{}", run.out);
    assert!(run.out.contains("shop/db-0   complete"), "{}", run.out);
    assert!(run.out.contains("shop/debug  stalled"), "{}", run.out);
    // Manifests are not live objects.
    let manifest =
        "apiVersion: apps/v1\nkind: DaemonSet\nmetadata: {name: db, namespace: shop}\nspec: {}\n";
    let err = refused(&args, manifest);
    let hint = "this is a manifest; pass the live object: kubectl get daemonsets.apps,controllerrevisions,pods -n shop -o \
                json | rollplan status daemonsets.apps/db -f -, or let rollplan read it: rollplan status daemonsets.apps/db -n shop";
    assert!(err.contains(hint), "{err}");
}

/// Two namespaces with a StatefulSet db each, and other objects.
fn live_objects() -> String {
    let far = || {
        let mut set = stateful_set(0);
        set["metadata"]["namespace"] = json!("far");
        set["metadata"]["uid"] = json!("far-db");
        set
    };
    let mut issuer = certificate("False");
    issuer["kind"] = json!("Issuer");
    issuer["metadata"]["uid"] = json!("issuer");
    let objects = [
        stateful_set(2),
        far(),
        daemon_set(2),
        running_job(),
        certificate("True"),
        issuer,
    ];
    json!({"apiVersion": "v1", "kind": "List", "items": objects}).to_string()
}

fn status(words: &[&str]) -> Run {
    let args = [&["status", "-f", "-", "--now", NOW], words].concat();
    rollplan(&args, &live_objects())
}

#[test]
fn objects_in_files_are_selected_like_those_in_a_cluster() {
    for (words, exit, head) in [
        (&["ds/db"][..], 3, "DaemonSet shop/db: progressing\n"),
        (&["daemonset", "db"], 3, "DaemonSet shop/db: progressing\n"),
        (&["job/db"], 3, "Job shop/db: progressing\n"),
        (&["certificate/db"], 0, "Certificate shop/db: complete\n"),
        (
            &["issuers.cert-manager.io/db"],
            3,
            "Issuer shop/db: progressing\n",
        ),
        (
            &["sts/db", "-n", "shop"],
            0,
            "StatefulSet shop/db: complete\n",
        ),
        (
            &["sts/db", "--namespace=far"],
            3,
            "StatefulSet far/db: progressing\n",
        ),
    ] {
        let run = status(words);
        assert_eq!((run.exit, run.err.as_str()), (exit, ""), "{words:?}");
        assert!(run.out.starts_with(head), "{words:?}: {}", run.out);
    }
    let run = status(&["ds/db", "job/db"]);
    assert_eq!((run.exit, run.err.as_str()), (3, ""));
    assert_eq!(run.out.lines().count(), 3, "{}", run.out);
}

#[test]
fn names_missing_from_files_are_errors() {
    for (words, expected) in [
        (
            &["sts/db"][..],
            "error: several StatefulSets db in the input:\n  standard input, items[0] (StatefulSet shop/db)",
        ),
        (
            &["ds/web"],
            "error: DaemonSet web not found in the input, which has:\n  standard input, items[2] (DaemonSet shop/db)\n",
        ),
        (&["web"], "error: the input contains no Deployment, only "),
        (&["cj/web"], "error: the input contains no CronJob, only "),
        (
            &["db", "--context=far"],
            "error: --context cannot be used with -f: it only applies to kubectl\n",
        ),
    ] {
        let run = status(words);
        assert_eq!((run.exit, run.out.as_str()), (2, ""), "{words:?}");
        assert!(run.err.starts_with(expected), "{words:?}: {}", run.err);
    }
    // wait reads the objects that a file names, so names cannot be combined with files.
    let err = refused(&["wait", "sts/db", "-f", "-"], "");
    assert!(
        err.contains("names cannot be combined with --filename"),
        "{err}"
    );
    let err = refused(&["status", "-n", "shop", "-f", "-"], "");
    assert!(err.contains("--namespace cannot be used with -f"), "{err}");
}
