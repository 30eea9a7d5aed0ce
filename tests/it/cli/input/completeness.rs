//! Inputs that may lack pods or ReplicaSets.

use super::CREATED;
use crate::cli::{
    DEPLOYMENT, NOW, POD, REPLICA_SET, Run, Scratch, plan_args, planned, read, rollplan, summaries,
};

/// Under Recreate, nothing is created before the input shows that no old pod exists.
#[test]
fn recreate_waits_if_the_input_may_lack_pods() {
    const NOTE: &str = "note: some pods may be missing from the input, and strategy Recreate waits until no old pods are left: \
                        pass the output of kubectl get deploy,rs,pods, or --pods-complete if none are missing\n";
    let recreate = DEPLOYMENT.replace(
        "  replicas: 2",
        "  replicas: 2\n  strategy: {type: Recreate}",
    );
    let check = |set: &str, pod: &str, args: &[&str], expected: &[&str], note: &str| {
        let run = rollplan(&plan_args(args), &[&recreate, set, pod].join("\n---\n"));
        assert_eq!(
            (run.exit, run.err.as_str()),
            (0, note),
            "{set}{pod}{args:?}"
        );
        assert_eq!(summaries(&run.out), expected, "{set}{pod}{args:?}");
    };
    // The ReplicaSet reports that it has no pods.
    check(REPLICA_SET, "", &[], &CREATED, "");
    // The status does not exclude that pods exist or are terminating.
    let silent = REPLICA_SET.replace("  terminatingReplicas: 0\n", "");
    let leaving = REPLICA_SET.replace("terminatingReplicas: 0", "terminatingReplicas: 1");
    let stale = REPLICA_SET.replace("  generation: 1", "  generation: 2");
    for set in [&silent, &leaving, &stale] {
        check(set, "", &[], &[], NOTE);
        check(set, "", &["--pods-complete=false"], &[], "");
    }
    check(REPLICA_SET, "", &["--pods-complete=false"], &[], "");
    // An option declares the list of pods complete, or incomplete.
    for set in [&silent, &leaving] {
        check(set, "", &["--pods-complete"], &CREATED, "");
        check(set, "", &["--pods-complete=true"], &CREATED, "");
        check(set, POD, &["--pods-complete=false"], &[], "");
        let far = POD.replace("namespace: shop", "namespace: far");
        check(set, &far, &[], &[], NOTE);
    }
    check(&silent, POD, &[], &CREATED, "");
    // The list has pods, but not the one that the ReplicaSet counts. Pods of other owners do not matter.
    check(&leaving, POD, &[], &[], NOTE);
    check(
        &leaving.replace("uid: d1", "uid: d9"),
        POD,
        &[],
        &CREATED,
        "",
    );
    // The pod is in the list: the plan waits for it, unless it has terminated.
    let left = POD.replace(
        "  uid: p1\n",
        "  uid: p1\n  ownerReferences:\n  - {apiVersion: apps/v1, kind: ReplicaSet, name: web-1, uid: r1, controller: true}\n",
    );
    check(&leaving, &left, &[], &[], "");
    check(
        &leaving,
        &left.replace("Running", "Failed"),
        &[],
        &CREATED,
        "",
    );
}

/// A list of ReplicaSets is complete if the numbers of pods add up, and it contains that of the current revision.
#[test]
fn inputs_that_may_lack_replica_sets_have_no_plan() {
    const NOTE: &str = "note: some ReplicaSets may be missing from the input, so nothing can be planned or counted: pass the \
                        output of kubectl get deploy,rs,pods, or --replica-sets-complete if none are missing\n";
    let check = |deployment: &str, set: &str, args: &[&str], expected: &[&str], note: &str| {
        let run = rollplan(&plan_args(args), &[deployment, set].join("\n---\n"));
        let exit = if expected.is_empty() { 2 } else { 0 };
        assert_eq!(
            (run.exit, run.err.as_str()),
            (exit, note),
            "{deployment}{set}{args:?}"
        );
        assert_eq!(summaries(&run.out), expected, "{deployment}{set}{args:?}");
        assert_eq!(
            run.out.contains("REPLICA_SETS_INCOMPLETE"),
            expected.is_empty()
        );
    };
    check(DEPLOYMENT, "", &[], &CREATED, "");
    check(DEPLOYMENT, REPLICA_SET, &[], &CREATED, "");
    // The Deployment reports pods that no ReplicaSet reports.
    let running = DEPLOYMENT.to_owned() + "status: {replicas: 2}\n";
    check(&running, "", &[], &[], NOTE);
    check(&running, REPLICA_SET, &[], &[], NOTE);
    let reports = REPLICA_SET.replace("  replicas: 0\n  term", "  replicas: 2\n  term");
    assert_ne!(reports, REPLICA_SET);
    let far = reports.replace("namespace: shop", "namespace: far");
    check(&running, &far, &[], &[], NOTE);
    // The ReplicaSet of its revision is missing.
    let annotated = DEPLOYMENT.replace(
        "  uid: d1\n",
        "  uid: d1\n  annotations: {deployment.kubernetes.io/revision: \"7\"}\n",
    );
    assert_ne!(annotated, DEPLOYMENT);
    check(&annotated, REPLICA_SET, &[], &[], NOTE);
    // An option overrides this.
    check(&annotated, "", &["--replica-sets-complete"], &CREATED, "");
    check(
        &running,
        "",
        &["--replica-sets-complete=true"],
        &CREATED,
        "",
    );
    check(DEPLOYMENT, "", &["--replica-sets-complete=false"], &[], "");
    // The status is that of the Deployment itself, and undo is refused.
    let args = ["-f", "-", "--now", NOW];
    let status = rollplan(&[&["status"][..], &args].concat(), &running);
    assert_eq!((status.exit, status.err.as_str()), (3, NOTE));
    let undo = rollplan(&[&["undo"][..], &args].concat(), &running);
    assert_eq!(undo.exit, 2, "{undo:?}");
    assert!(undo.err.contains("may be incomplete"), "{undo:?}");
    let plan = rollplan(&[&["plan"][..], &args].concat(), &running);
    assert!(
        plan.out.starts_with("Deployment shop/web: no plan\n"),
        "{plan:?}"
    );
}

/// A page of a continued list may lack any object, even if the numbers add up.
#[test]
fn lists_with_a_continue_token_are_incomplete() {
    const CONTINUED: &str = "note: standard input, document 1: metadata.continue is set: objects are missing from the list\n";
    let page = "apiVersion: apps/v1\nkind: ReplicaSetList\nmetadata: {continue: next}\nitems: []\n";
    let input = [page, DEPLOYMENT, REPLICA_SET].join("\n---\n");
    let run = rollplan(&plan_args(&[]), &input);
    assert_eq!(run.exit, 2, "{run:?}");
    assert!(run.err.starts_with(CONTINUED), "{run:?}");
    assert!(
        run.err.contains("note: some ReplicaSets may be missing"),
        "{run:?}"
    );
    assert!(run.out.contains("REPLICA_SETS_INCOMPLETE"), "{run:?}");
    // An option overrides this.
    let run = rollplan(&plan_args(&["--replica-sets-complete"]), &input);
    assert_eq!((run.exit, run.err.as_str()), (0, CONTINUED));
    assert_eq!(summaries(&run.out), CREATED);
    // The last page has an empty token.
    let last = input.replace("continue: next", "continue: \"\"");
    assert_eq!(planned(&[], &last), CREATED);
    // wait reads the listed objects from the cluster, so an incomplete list is refused.
    let run = rollplan(&["wait", "-f", "-"], &input);
    assert_eq!(run.exit, 2, "{run:?}");
    assert!(
        run.err
            .contains("incomplete list: metadata.continue is set"),
        "{run:?}"
    );
}

/// `status` of these objects, with its JUnit report.
fn status(input: &str) -> (Run, String) {
    let junit = Scratch::new("");
    let report = format!("--report=junit={}", junit.path());
    let run = rollplan(&["status", "-f", "-", "--now", NOW, &report], input);
    let junit = std::fs::read_to_string(junit.path()).unwrap();
    (run, junit)
}

/// A Deployment whose status has these numbers of updated and available pods.
fn observed(updated: i32, available: i32) -> String {
    let status = format!(
        "status:\n  observedGeneration: 1\n  replicas: 2\n  updatedReplicas: {updated}\n  readyReplicas: {available}\n  \
         availableReplicas: {available}\n"
    );
    DEPLOYMENT.to_owned() + &status
}

/// As for `kubectl rollout status`, the status of the Deployment is enough.
#[test]
fn complete_deployment_without_its_replica_sets_has_one_answer() {
    let (run, junit) = status(&observed(2, 2));
    assert_eq!(run.exit, 0, "{}", run.out);
    let expected = "Deployment shop/web: complete\n\
                    deployment \"web\" successfully rolled out (2 of 2 available)\n";
    assert!(run.out.starts_with(expected), "{}", run.out);
    assert!(junit.contains("failures=\"0\""), "{junit}");
}

#[test]
fn remedy_for_missing_replica_sets_has_the_command_and_the_option() {
    let (run, junit) = status(&observed(1, 2));
    assert_eq!(run.exit, 3, "{}", run.out);
    for text in [
        "Deployment shop/web: progressing\n",
        "kubectl get deploy,rs,pods -n shop -o json",
        "--replica-sets-complete",
    ] {
        assert!(run.out.contains(text), "{text}: {}", run.out);
    }
    assert!(junit.contains("failures=\"1\""), "{junit}");
}

/// The output of clusters before Kubernetes 1.16.
#[test]
fn older_versions_of_workloads_are_read_as_the_current_one() {
    let status = |input: &str| {
        let args = ["status", "-f", "-", "--now", "2026-11-20T23:26:19Z"];
        rollplan(&args, input)
    };
    for example in ["mid-rollout", "stuck-bad-image"] {
        let current = read(&format!("examples/{example}.json"));
        let expected = status(&current);
        assert_ne!(expected.exit, 0, "{}", expected.out);
        for version in ["extensions/v1beta1", "apps/v1beta1", "apps/v1beta2"] {
            let older = current.replace("\"apps/v1\"", &format!("\"{version}\""));
            assert_eq!(status(&older), expected, "{example} {version}");
        }
    }
    let alone = observed(1, 2).replace("apps/v1", "extensions/v1beta1");
    let (run, _) = self::status(&alone);
    assert_eq!(run.exit, 3, "{}", run.out);
    // The kind may be in the list only.
    let list = serde_json::json!({
        "apiVersion": "extensions/v1beta1", "kind": "DeploymentList",
        "items": [without_kind(&observed(1, 2))],
    });
    assert_eq!(self::status(&list.to_string()).0, run);
}

fn without_kind(yaml: &str) -> serde_json::Value {
    let mut object = super::from_yaml(yaml);
    let fields = object.as_object_mut().unwrap();
    fields.retain(|name, _| !["apiVersion", "kind"].contains(&name.as_str()));
    object
}
