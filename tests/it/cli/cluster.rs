//! Commands that read a cluster once. A script replaces kubectl.

use serde_json::{Value, json};

use super::kubectl::{
    Answer, DOWN, Kubectl, OPTIONS, calls_by, calls_of, example, failing, forbidden,
    forbidden_text, from_yaml, nothing_yet, poll, rollout,
};
use super::{DEPLOYMENT, REPLICA_SET, command};

#[test]
fn only_required_objects_are_read() {
    let stuck = "stuck-bad-image";
    let selector = "app.kubernetes.io/name=web";
    let now = super::examples::time_of(stuck);
    let file = format!("examples/{stuck}.json");
    let expected = super::rollplan(&["status", "-f", &file, "--now", &now], "").out;
    let all = [
        "-n",
        "shop",
        "--context",
        "my context",
        "--kubeconfig=/no/such",
    ];
    let options = " --context=my context --kubeconfig=/no/such --namespace=shop";
    for (name, args, told) in [
        ("web", &[][..], ""),
        ("deploy/web", &["--namespace=shop"], " --namespace=shop"),
        ("deployment/web", &all, options),
        ("deployments.apps/web", &all, options),
    ] {
        let kubectl = Kubectl::new(&[example(stuck)]);
        let run = kubectl.run(&[&["status", name, "--now", &now], args].concat());
        assert_eq!((run.exit, run.err.as_str()), (1, ""));
        // The remedies have the options of the same cluster.
        let out = if told.contains("--context") {
            ["rollplan undo ", "kubectl "]
                .iter()
                .fold(expected.clone(), |expected, command| {
                    let options = "--context='my context' --kubeconfig=/no/such ";
                    expected.replace(command, &format!("{command}{options}"))
                })
        } else {
            expected.clone()
        };
        let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(words(&run.out), words(&out));
        assert_eq!(kubectl.calls(), calls_by(selector, "status", told));
        assert_eq!(kubectl.event_calls(), 1);
    }
    for verb in ["plan", "history", "undo"] {
        let kubectl = Kubectl::new(&[example(stuck)]);
        let run = kubectl.run(&[verb, "web", "-n", "shop", "--now", &now]);
        assert_eq!((run.exit, run.err.as_str()), (0, ""), "{verb}");
        let out = super::answered(&[verb, "-f", &file, "--now", &now], "");
        assert_eq!(run.out, out, "{verb}");
        let told = " --namespace=shop";
        assert_eq!(kubectl.calls(), calls_by(selector, verb, told));
    }
}

/// Every list has a selector, except for that of the ReplicaSets for a plan.
#[test]
fn selectors_are_passed_on() {
    let mut deployment = from_yaml(DEPLOYMENT);
    deployment["spec"]["selector"] = json!({
        "matchLabels": {"app": "web", "zone": ""},
        "matchExpressions": [
            {"key": "tier", "operator": "In", "values": ["b", "a"]},
            {"key": "env", "operator": "NotIn", "values": ["test", ""]},
            {"key": "example.com/paid", "operator": "Exists"},
            {"key": "beta", "operator": "DoesNotExist"},
        ],
    });
    let kubectl = Kubectl::new(&[poll(vec![deployment])]);
    let run = kubectl.run(&["status", "web"]);
    assert_eq!((run.exit, run.err.as_str()), (3, ""));
    let selector = "app=web,!beta,env notin (,test),example.com/paid,tier in (a,b),zone=";
    assert_eq!(
        kubectl.calls()[1..],
        [
            format!("get rs --selector={selector} {OPTIONS}"),
            format!("get pods --selector={selector} {OPTIONS}")
        ]
    );
}

/// An empty selector would list everything, and kubectl cannot use the other ones.
#[test]
fn unusable_selectors_prevent_lists() {
    let labels = |count: usize| -> serde_json::Map<String, Value> {
        let key = |n: usize| format!("{}{n}", "k".repeat(50));
        (0..count).map(|n| (key(n), json!("x"))).collect()
    };
    for (selector, exit, expected) in [
        (json!({}), 1, ""),
        (
            json!({"matchLabels": {"app": "a,b"}}),
            2,
            "error: what kubectl printed (PlannedDeployment shop/web): spec.selector.matchLabels[\"app\"]: ",
        ),
        (
            json!({"matchExpressions": [{"key": "app", "operator": "Like"}]}),
            2,
            "error: what kubectl printed (PlannedDeployment shop/web): spec.selector.matchExpressions[0].operator: ",
        ),
        (
            json!({"matchLabels": labels(2000)}),
            2,
            "error: what kubectl printed: spec.selector: ",
        ),
    ] {
        let mut owner = from_yaml(DEPLOYMENT);
        owner["apiVersion"] = json!("apps.rollplan.dev/v1alpha1");
        owner["kind"] = json!("PlannedDeployment");
        owner["spec"]["selector"] = selector;
        let kubectl = Kubectl::new(&[poll(vec![owner])]);
        let run = kubectl.run(&["status", "pdeploy/web"]);
        assert_eq!(run.exit, exit, "{}", run.err);
        assert!(run.err.starts_with(expected), "{}", run.err);
        assert_eq!(kubectl.calls().len(), 1);
    }
}

/// The limit of an argument of kubectl, with some room for its name.
#[test]
fn selectors_up_to_the_limit_are_passed_on() {
    for (bytes, is_passed_on) in [(100_000, true), (100_001, false)] {
        // 100 bytes each with their comma, and the last one fills up.
        let mut labels: serde_json::Map<String, Value> = (0..1000)
            .map(|n| (format!("{}{n:04}", "k".repeat(46)), json!("x".repeat(48))))
            .collect();
        let last = labels.values_mut().next_back().unwrap();
        *last = json!("x".repeat(48 + bytes - 99_999));
        let mut deployment = from_yaml(DEPLOYMENT);
        deployment["spec"]["selector"] = json!({"matchLabels": labels});
        let kubectl = Kubectl::new(&[poll(vec![deployment])]);
        let run = kubectl.run(&["status", "web"]);
        let calls = kubectl.calls();
        if is_passed_on {
            assert_eq!((run.exit, run.err.as_str()), (3, ""));
            assert_eq!(calls.len(), 3);
            let expected = " --selector=".len() + bytes + " ".len();
            assert_eq!(calls[2].len(), "get pods".len() + expected + OPTIONS.len());
        } else {
            let expected = format!(
                "error: what kubectl printed: spec.selector: {bytes} bytes exceed the limit of 100000 for a \
                 kubectl selector\n"
            );
            assert_eq!((run.exit, run.err), (2, expected));
            assert_eq!(calls.len(), 1);
        }
    }
}

/// The list for a plan contains a ReplicaSet of another owner.
#[test]
fn invalid_objects_of_other_owners_are_ignored() {
    let mut set = from_yaml(REPLICA_SET);
    set["metadata"]["name"] = json!("theirs");
    set["metadata"]["uid"] = json!("theirs");
    set["metadata"]["ownerReferences"][0]["uid"] = json!("d9");
    set["spec"]["template"]["spec"]["tolerations"] =
        json!([{"operator": "Exists", "tolerationSeconds": i64::MAX}]);
    let kubectl = Kubectl::new(&[poll(vec![from_yaml(DEPLOYMENT), set])]);
    let run = kubectl.run(&["plan", "web", "-o", "json"]);
    assert_eq!((run.exit, run.err.as_str()), (0, ""));
    assert_eq!(
        super::summaries(&run.out),
        ["create ReplicaSet web-79c545b47 with 2 replicas"]
    );
}

#[test]
fn printed_commands_have_the_options_of_the_cluster() {
    let kubectl = Kubectl::new(&[example("after-undo")]);
    let run = kubectl.run(&["undo", "web", "--context", "it's", "-o", "kubectl"]);
    assert_eq!(run.exit, 0, "{}", run.err);
    let command = "\nkubectl patch --context=\"it'\\''s\" deployment.apps/web -n shop --type=json ";
    assert!(run.out.contains(command), "{}", run.out);
}

/// All pods are listed, so the plan does not wait for others.
#[test]
fn pods_read_from_the_cluster_are_complete() {
    let mut deployment = from_yaml(DEPLOYMENT);
    deployment["spec"]["strategy"] = json!({"type": "Recreate"});
    let mut set = from_yaml(REPLICA_SET);
    set["status"]
        .as_object_mut()
        .unwrap()
        .remove("terminatingReplicas");
    let kubectl = Kubectl::new(&[poll(vec![deployment, set])]);
    let run = kubectl.run(&["plan", "web", "-o", "json"]);
    assert_eq!((run.exit, run.err.as_str()), (0, ""));
    assert_eq!(
        super::summaries(&run.out),
        ["create ReplicaSet web-79c545b47 with 2 replicas"]
    );
}

/// For example after `kubectl delete rs --all`. In a file, it would be unknown whether ReplicaSets are missing.
#[test]
fn replica_sets_read_from_the_cluster_are_complete() {
    let mut deployment = from_yaml(DEPLOYMENT);
    deployment["status"] = json!({"replicas": 2});
    let kubectl = Kubectl::new(&[poll(vec![deployment])]);
    let run = kubectl.run(&["plan", "web", "-o", "json"]);
    assert_eq!((run.exit, run.err.as_str()), (0, ""));
    assert_eq!(
        super::summaries(&run.out),
        ["create ReplicaSet web-79c545b47 with 2 replicas"]
    );
}

#[test]
fn planned_deployments_are_read_by_their_own_resource() {
    let mut owner = from_yaml(DEPLOYMENT);
    owner["apiVersion"] = json!("apps.rollplan.dev/v1alpha1");
    owner["kind"] = json!("PlannedDeployment");
    let kubectl = Kubectl::new(&[poll(vec![owner])]);
    let run = kubectl.run(&["plan", "pdeploy/web", "-o", "json"]);
    assert_eq!((run.exit, run.err.as_str()), (0, ""));
    let mut calls = calls_of("plan", "");
    calls[0] = format!("get planneddeployments.apps.rollplan.dev web {OPTIONS}");
    assert_eq!(kubectl.calls(), calls);
}

#[test]
fn missing_deployment_is_an_error() {
    for (args, place) in [
        (&["status", "web", "-n", "shop"][..], "in namespace shop"),
        (
            &["wait", "deploy/web"],
            "in the namespace that kubectl uses",
        ),
    ] {
        let kubectl = Kubectl::new(&[poll(vec![])]);
        let run = kubectl.run(args);
        assert_eq!((run.exit, run.out.as_str()), (2, ""));
        assert_eq!(
            run.err,
            format!("error: Deployment web not found {place}\n")
        );
        assert_eq!(kubectl.calls().len(), 1);
    }
}

#[test]
fn failures_of_kubectl_have_distinct_errors() {
    let missing = "error: the server doesn't have a resource type \"planneddeployments\"";
    for (text, exit, meaning) in [
        (
            forbidden_text("deployments"),
            2,
            "missing permission: ".to_owned(),
        ),
        (
            missing.to_owned(),
            2,
            "the cluster does not serve this kind (is its CustomResourceDefinition installed?): "
                .to_owned(),
        ),
        (
            DOWN.to_owned(),
            4,
            "the cluster does not answer: ".to_owned(),
        ),
        (
            "error: You must be logged in to the server (Unauthorized)".to_owned(),
            4,
            "exit status: 1: ".to_owned(),
        ),
    ] {
        for verb in ["plan", "status", "history", "undo"] {
            let kubectl = Kubectl::new(&[failing(&text)]);
            let run = kubectl.run(&[verb, "web"]);
            assert_eq!((run.exit, run.out.as_str()), (exit, ""), "{verb}");
            let expected = format!("error: kubectl get deploy web {OPTIONS}: {meaning}{text}\n");
            assert_eq!(run.err, expected, "{verb}");
        }
    }
    let output = command(&["status", "web"])
        .env("KUBECTL", "/no/such/kubectl")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(4));
    let expected = format!(
        "error: /no/such/kubectl get deploy web {OPTIONS}: cannot be run: No such file or directory (os error 2)\n"
    );
    assert_eq!(String::from_utf8(output.stderr).unwrap(), expected);
    let mut poll = nothing_yet();
    poll.deployment = Answer::Out("no JSON: [".to_owned());
    let run = Kubectl::new(&[poll]).run(&["status", "web"]);
    assert_eq!(run.exit, 2);
    assert!(
        run.err.starts_with("error: what kubectl printed: line "),
        "{}",
        run.err
    );
}

#[test]
fn errors_of_kubectl_are_escaped() {
    let nasty = "Warning: \u{1b}[31m\u{9b}2J\u{202e}ü\nError from server (Invalid): \u{1b}[31m\u{9b}2J\u{202e}ü";
    let run = Kubectl::new(&[failing(nasty)]).run(&["status", "web"]);
    assert_eq!(run.exit, 4, "{}", run.err);
    for begin in ["Warning: ", "Error from server (Invalid): "] {
        let escaped = format!("{begin}\\u{{1b}}[31m\\u{{9b}}2J\\u{{202e}}ü\n");
        assert!(run.err.contains(&escaped), "{}", run.err);
    }
    assert!(
        !run.err.contains(['\u{1b}', '\u{9b}', '\u{202e}']),
        "{:?}",
        run.err
    );
}

/// The answer is useful without pods, although they explain a rollout. ReplicaSets are required.
#[test]
fn forbidden_pods_are_noted() {
    let stuck = "stuck-bad-image";
    let now = super::examples::time_of(stuck);
    let mut poll = example(stuck);
    poll.pods = forbidden("pods");
    let run = Kubectl::new(&[poll.clone()]).run(&["status", "web", "--now", &now]);
    assert_eq!(run.exit, 1, "{}", run.err);
    assert!(run.err.starts_with("note: "), "{}", run.err);
    assert!(run.err.contains(&forbidden_text("pods")), "{}", run.err);
    assert_eq!(run.err.lines().count(), 1, "{}", run.err);
    assert!(!run.out.contains("cannot be pulled"), "{}", run.out);

    // The note is printed once, not at every poll.
    let polls = [nothing_yet(), rollout(1), rollout(2)].map(|mut poll| {
        poll.pods = forbidden("pods");
        poll
    });
    let run = Kubectl::new(&polls).watch(&["wait", "web"]);
    assert_eq!(run.exit, 0, "{}", run.err);
    assert_eq!(run.err.lines().count(), 1, "{}", run.err);

    // With strategy Recreate, it is then unknown whether old pods have terminated.
    let mut deployment = from_yaml(DEPLOYMENT);
    deployment["spec"]["strategy"] = json!({"type": "Recreate"});
    let mut recreate = self::poll(vec![deployment, from_yaml(REPLICA_SET)]);
    recreate.pods = forbidden("pods");
    let run = Kubectl::new(&[recreate]).run(&["plan", "web", "-o", "json"]);
    assert_eq!(run.exit, 0, "{}", run.err);
    assert_eq!(super::summaries(&run.out), [""; 0]);
    assert!(run.out.contains("PODS_INCOMPLETE"), "{}", run.out);

    poll.sets = forbidden("replicasets");
    let run = Kubectl::new(&[poll]).run(&["status", "web"]);
    assert_eq!((run.exit, run.out.as_str()), (2, ""));
    assert!(
        run.err.contains("get rs") && run.err.contains("missing permission"),
        "{}",
        run.err
    );
}

/// kubectl runs plugins by their file names.
#[test]
fn program_runs_as_a_kubectl_plugin() {
    let kubectl = Kubectl::new(&[]);
    for program in ["kubectl-rollplan", "/usr/local/bin/kubectl-rollplan"] {
        let run = kubectl.run_as(program, &["status", "--help"]);
        assert_eq!(run.exit, 0);
        assert!(
            run.out
                .contains("\nUsage: kubectl rollplan status [OPTIONS] [NAME]..."),
            "{}",
            run.out
        );
        let run = kubectl.run_as(program, &[]);
        assert_eq!(run.exit, 2);
        assert!(
            run.err.contains("Usage: kubectl rollplan <COMMAND>"),
            "{}",
            run.err
        );
    }
    let run = kubectl.run(&["status", "--help"]);
    assert!(
        run.out
            .contains("\nUsage: rollplan status [OPTIONS] [NAME]..."),
        "{}",
        run.out
    );
}

#[test]
fn warnings_of_kubectl_are_forwarded() {
    let mut poll = rollout(2);
    let Answer::Out(pods) = poll.pods else {
        panic!("no pods");
    };
    poll.pods = Answer::Script(format!(
        "printf 'Warning: \\033[31mold\\n' >&2; cat <<'EOF'\n{pods}\nEOF\n"
    ));
    let run = Kubectl::new(&[poll]).run(&["status", "web"]);
    assert_eq!(
        (run.exit, run.err.as_str()),
        (0, "Warning: \\u{1b}[31mold\n")
    );
}

#[test]
fn conflicting_arguments_are_refused() {
    let file = "examples/mid-rollout.json";
    for (args, expected) in [
        (
            &["wait", "web", "-f", file][..],
            "names cannot be combined with --filename",
        ),
        (&["status", "-f", file, "--watch"], "cannot be used with"),
        (&["status", "web", "--timeout=1s"], "--watch"),
        (
            &["status", "web", "--deployment=web"],
            "cannot be used with",
        ),
        (
            &["status", "web", "--pods-complete"],
            "cannot be used without -f",
        ),
        (
            &["plan", "web", "--replica-sets-complete"],
            "cannot be used without -f",
        ),
        (
            &["status", "web", "--watch", "--now=2026-11-20T23:26:19Z"],
            "cannot be used with",
        ),
        (
            &["status", "-f", file, "-n", "shop"],
            "error: --namespace cannot be used with -f: it only applies to kubectl; --deployment <NAMESPACE>/<NAME> selects from files\n",
        ),
        (
            &["plan", "rs/web"],
            "supports only Deployments (for example deploy/web) and PlannedDeployments (for example pdeploy/web)",
        ),
        (
            &["wait", "web", "--for=ready"],
            "--for=ready: must be complete, available, updated, deleted, condition=TYPE[=STATUS] or jsonpath=",
        ),
        (
            &["wait", "web", "--timeout=soon"],
            "not a duration, for example 90s, 10m or 1h30m",
        ),
        (&["history"], "--filename <FILE>"),
        (&["undo", "-f", file, "--to-revision=-1"], "-1"),
        (
            &["undo", "-f", file, "--to-revision=x"],
            "invalid value 'x'",
        ),
        (
            &["history", "-f", file, "-o", "kubectl"],
            "[possible values: table, json, yaml]",
        ),
        (
            &["plan", "-f", file, "-o", "kubectl"],
            "if it does not, pass --takeover",
        ),
        (
            &["plan", "-f", file, "--takeover"],
            "--takeover can only be used with -o kubectl",
        ),
    ] {
        let err = super::refused(args, "");
        assert!(err.contains(expected), "{args:?}: {err}");
    }
}

#[test]
fn replica_set_may_have_the_name_of_its_deployment() {
    let mut poll = rollout(2);
    let Answer::Out(sets) = &mut poll.sets else {
        panic!("no ReplicaSets");
    };
    *sets = sets.replace("web-79c545b47", "web");
    let run = Kubectl::new(&[poll]).run(&["status", "web"]);
    assert_eq!((run.exit, run.err.as_str()), (0, ""), "{}", run.out);
}

#[test]
fn objects_without_a_namespace_are_named_without_one() {
    let absent = || Answer::Err("Error from server (NotFound): not found\n".to_owned());
    let kubectl = || {
        Kubectl::new(&[super::kubectl::Poll {
            deployment: absent(),
            ..poll(vec![])
        }])
    };
    let expected = "error: CustomResourceDefinition a.b not found\n";
    let run = kubectl().run(&["status", "crd/a.b", "-n", "shop"]);
    assert_eq!((run.exit, run.err.as_str()), (2, expected));
    let run = kubectl().run(&["wait", "crd/a.b", "crd/b.b", "-n", "shop", "--ci=github"]);
    assert_eq!(run.exit, 2, "{}", run.err);
    for title in ["title=a.b%3A unknown:", "title=b.b%3A unknown:"] {
        assert!(run.out.contains(title), "{}", run.out);
    }
}

#[test]
fn remedies_of_the_plugin_name_the_plugin() {
    let kubectl = Kubectl::new(&[example("stuck-bad-image")]);
    let args = ["status", "web", "-n", "shop", "--context", "c"];
    let run = kubectl.run_as("/usr/bin/kubectl-rollplan", &args);
    let undo = "kubectl rollplan undo --context=c deploy/web -n shop";
    assert!(run.out.contains(undo), "{}", run.out);
    let file = [
        "status",
        "-f",
        "examples/stuck-bad-image.json",
        "--now",
        super::NOW,
    ];
    let run = kubectl.run_as("kubectl-rollplan", &file);
    assert!(
        run.out
            .contains("roll back: kubectl rollplan undo deploy/web"),
        "{}",
        run.out
    );
    let run = kubectl.run_as("rollplan", &file);
    assert!(
        run.out.contains("roll back: rollplan undo deploy/web"),
        "{}",
        run.out
    );
}

/// kubectl runs `kubectl_complete-rollplan` with the words, and reads the format of cobra.
#[test]
fn names_are_completed_through_kubectl() {
    let kubectl = Kubectl::new(&[]);
    let names = "deployment.apps/web\ndeployment.apps/api\n";
    std::fs::write(kubectl.file("deploy.1.out"), names).unwrap();
    let complete = |words: &[&str]| kubectl.run_as("/bin/kubectl_complete-rollplan", words).out;
    assert_eq!(complete(&["undo", "w"]), "web\n:4\n");
    assert_eq!(
        complete(&["status", "-n", "shop", "deploy/"]),
        "deploy/web\ndeploy/api\n:4\n"
    );
    assert_eq!(complete(&["wait", "st"]), "sts/\n:6\n");
    assert_eq!(
        complete(&["hist"]),
        "history\tPrint the revisions of a Deployment\n:4\n"
    );
    assert_eq!(complete(&["wait", "-f", ""]), ":0\n");
    let calls = kubectl.calls();
    let last = "get deploy -o name --request-timeout=5s";
    assert!(calls.iter().any(|call| call == last), "{calls:?}");
    let shop = "get deploy -o name --request-timeout=5s --namespace=shop";
    assert!(calls.iter().any(|call| call == shop), "{calls:?}");
}
