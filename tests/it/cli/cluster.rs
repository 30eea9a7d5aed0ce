//! What is read by kubectl: one look, and looking again and again. A script stands in for kubectl.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};

use super::{DEPLOYMENT, REPLICA_SET, Run, command, path, read};

const GET: &str = "get deploy,rs,pods -o json --request-timeout=30s";

/// What kubectl does, one call after the other: prints this, or fails with it.
type Call = Result<String, &'static str>;

/// A folder for the script that stands in for kubectl. Goes with the test.
struct Kubectl(PathBuf);

impl Kubectl {
    fn new(calls: &[Call]) -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("kubectl-{}-{count}", std::process::id());
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        fs::create_dir_all(&folder).unwrap();
        for (index, call) in calls.iter().enumerate() {
            let (name, text) = match call {
                Ok(out) => ("out", out.as_str()),
                Err(err) => ("err", *err),
            };
            fs::write(folder.join(format!("{name}.{}", index + 1)), text).unwrap();
        }
        Self(folder)
    }

    fn run(&self, args: &[&str]) -> Run {
        self.run_as(env!("CARGO_BIN_EXE_rollplan"), args)
    }

    fn run_as(&self, program: &str, args: &[&str]) -> Run {
        use std::os::unix::process::CommandExt as _;
        let bin = path("tests/it/cli/bin");
        let others = std::env::var("PATH").unwrap();
        let output = command(args)
            .arg0(program)
            .env("FAKE_KUBECTL", &self.0)
            .env("PATH", format!("{}:{others}", bin.display()))
            .output()
            .unwrap();
        Run {
            exit: output.status.code().unwrap(),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// What it was told, a line for each call.
    fn calls(&self) -> Vec<String> {
        let calls = fs::read_to_string(self.0.join("calls")).unwrap_or_default();
        calls.lines().map(str::to_owned).collect()
    }
}

impl Drop for Kubectl {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn example(name: &str) -> Call {
    Ok(read(&format!("examples/{name}.json")))
}

/// As kubectl prints it.
fn list(items: Vec<Value>) -> Call {
    Ok(json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string())
}

/// A rollout of two pods of which so many are available.
fn rollout(available: i32) -> Call {
    let set = REPLICA_SET
        .replace("name: web-1", "name: web-79c545b47")
        .replace("pod-template-hash: \"1\"", "pod-template-hash: 79c545b47")
        .replace("image: web:0", "image: web:1")
        .replace("  replicas: 0\n  selector", "  replicas: 2\n  selector")
        .replace(
            "  replicas: 0\n  terminating",
            &format!("  replicas: 2\n  readyReplicas: {available}\n  availableReplicas: {available}\n  terminating"),
        );
    let value = |yaml: &str| super::input::from_yaml(yaml);
    list(vec![value(DEPLOYMENT), value(&set)])
}

fn nothing_yet() -> Call {
    list(vec![super::input::from_yaml(DEPLOYMENT)])
}

#[test]
fn kubectl_is_asked_for_what_is_needed() {
    let stuck = "stuck-bad-image";
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
        assert_eq!(run.out, expected);
        assert_eq!(kubectl.calls(), [format!("{GET}{told}")]);
    }
    for verb in ["plan", "history", "undo"] {
        let kubectl = Kubectl::new(&[example(stuck)]);
        let run = kubectl.run(&[verb, "web", "-n", "shop", "--now", &now]);
        assert_eq!((run.exit, run.err.as_str()), (0, ""), "{verb}");
        let out = super::answered(&[verb, "-f", &file, "--now", &now], "");
        assert_eq!(run.out, out, "{verb}");
    }
}

#[test]
fn commands_are_for_the_cluster_that_was_read() {
    let kubectl = Kubectl::new(&[example("after-undo")]);
    let run = kubectl.run(&["undo", "web", "--context", "it's", "-o", "kubectl"]);
    assert_eq!(run.exit, 0, "{}", run.err);
    let command =
        "\nkubectl patch --context='it'\\''s' deployment.apps/web -n shop --type=json -p '[";
    assert!(run.out.contains(command), "{}", run.out);
}

/// All pods are listed, so none that are not listed are waited for.
#[test]
fn pods_are_complete() {
    let mut deployment = super::input::from_yaml(DEPLOYMENT);
    deployment["spec"]["strategy"] = json!({"type": "Recreate"});
    let mut set = super::input::from_yaml(REPLICA_SET);
    set["status"]
        .as_object_mut()
        .unwrap()
        .remove("terminatingReplicas");
    let kubectl = Kubectl::new(&[list(vec![deployment, set])]);
    let run = kubectl.run(&["plan", "web", "-o", "json"]);
    assert_eq!((run.exit, run.err.as_str()), (0, ""));
    assert_eq!(
        super::summaries(&run.out),
        ["create ReplicaSet web-79c545b47 with 2 replicas"]
    );
}

#[test]
fn a_planned_deployment() {
    let mut owner = super::input::from_yaml(DEPLOYMENT);
    owner["apiVersion"] = json!("apps.rollplan.dev/v1alpha1");
    owner["kind"] = json!("PlannedDeployment");
    let kubectl = Kubectl::new(&[list(vec![owner])]);
    let run = kubectl.run(&["plan", "pdeploy/web", "-o", "json"]);
    assert_eq!((run.exit, run.err.as_str()), (0, ""));
    let get = GET.replace("deploy", "planneddeployments.apps.rollplan.dev");
    assert_eq!(kubectl.calls(), [get]);
}

#[test]
fn a_deployment_that_is_not_there() {
    let kubectl = Kubectl::new(&[example("mid-rollout")]);
    let run = kubectl.run(&["status", "other", "-n", "shop"]);
    assert_eq!((run.exit, run.out.as_str()), (2, ""));
    assert_eq!(
        run.err,
        "error: there is no Deployment other in namespace shop\n"
    );
    let run = kubectl.run(&["wait", "deploy/other"]);
    assert_eq!((run.exit, run.out.as_str()), (2, ""));
    let expected = "error: there is no Deployment other in the namespace that kubectl uses\n";
    assert_eq!(run.err, expected);
}

#[test]
fn kubectl_that_fails() {
    let denied = "Error from server (Forbidden): pods is forbidden\n";
    for verb in ["plan", "status", "history", "undo", "wait"] {
        let kubectl = Kubectl::new(&[Err(denied)]);
        let run = kubectl.run(&[verb, "web"]);
        assert_eq!((run.exit, run.out.as_str()), (4, ""), "{verb}");
        let expected = format!("{denied}error: kubectl {GET}: exit status: 1\n");
        assert_eq!(run.err, expected, "{verb}");
    }
    let output = command(&["status", "web"])
        .env("KUBECTL", "/no/such/kubectl")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(4));
    let expected = format!(
        "error: /no/such/kubectl {GET}: cannot be run: No such file or directory (os error 2)\n"
    );
    assert_eq!(String::from_utf8(output.stderr).unwrap(), expected);
    let kubectl = Kubectl::new(&[Ok("no JSON: [".to_owned())]);
    let run = kubectl.run(&["status", "web"]);
    assert_eq!(run.exit, 2);
    assert!(
        run.err.starts_with("error: what kubectl printed: line "),
        "{}",
        run.err
    );
}

/// As kubectl runs its plugins: by their names.
#[test]
fn it_is_a_plugin_of_kubectl() {
    let kubectl = Kubectl::new(&[]);
    for program in ["kubectl-rollplan", "/usr/local/bin/kubectl-rollplan"] {
        let run = kubectl.run_as(program, &["status", "--help"]);
        assert_eq!(run.exit, 0);
        assert!(
            run.out
                .contains("\nUsage: kubectl rollplan status [OPTIONS] <NAME|"),
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
            .contains("\nUsage: rollplan status [OPTIONS] <NAME|"),
        "{}",
        run.out
    );
}

#[test]
fn waiting_ends_with_the_rollout() {
    // What has not changed is not told twice.
    let calls = [
        nothing_yet(),
        nothing_yet(),
        rollout(0),
        rollout(1),
        rollout(1),
        rollout(2),
    ];
    let first = "0 of 2 updated";
    for args in [
        &["status", "--watch", "deploy/web"][..],
        &["wait", "web", "--for=complete", "--timeout=10m"],
    ] {
        let kubectl = Kubectl::new(&calls);
        let run = kubectl.run(&[args, &["-n", "shop", "--interval", "0"]].concat());
        assert_eq!((run.exit, run.err.as_str()), (0, ""), "{}", run.out);
        let lines: Vec<&str> = run.out.lines().collect();
        assert_eq!(lines.len(), 4, "{}", run.out);
        assert!(lines[0].contains(first), "{}", run.out);
        assert!(lines[2].contains("1 of 2 available"), "{}", run.out);
        assert!(lines[3].contains("successfully rolled out"), "{}", run.out);
        assert!(!run.out.contains('\u{1b}'), "{}", run.out);
        let told = format!("{GET} --namespace=shop");
        assert_eq!(kubectl.calls(), vec![told; calls.len()]);
    }
    let kubectl = Kubectl::new(&calls);
    let run = kubectl.run(&["wait", "web", "--interval=0", "-o", "json"]);
    assert_eq!(run.exit, 0);
    let phases = run.out.lines().map(|line| {
        let answer: Value = serde_json::from_str(line).unwrap();
        answer["report"]["phase"].as_str().unwrap().to_owned()
    });
    let phases: Vec<String> = phases.collect();
    let going = "PHASE_PROGRESSING".to_owned();
    assert_eq!(
        phases,
        [
            going.clone(),
            going.clone(),
            going,
            "PHASE_COMPLETE".to_owned()
        ]
    );
}

#[test]
fn waiting_ends_when_it_is_in_vain() {
    let kubectl = Kubectl::new(&[nothing_yet(), example("stuck-bad-image")]);
    let run = kubectl.run(&["wait", "web", "--interval=0"]);
    assert_eq!((run.exit, run.err.as_str()), (1, ""));
    let cause = "image registry.example/web:404 of container web cannot be pulled";
    assert!(
        run.out.lines().nth(1).unwrap().contains(cause),
        "{}",
        run.out
    );
    // The causes follow, with what would mend them.
    assert!(run.out.contains("remedy: correct the image"), "{}", run.out);

    let kubectl = Kubectl::new(&[nothing_yet(), list(vec![])]);
    let run = kubectl.run(&["status", "-w", "web", "--interval=0"]);
    assert_eq!(run.exit, 1);
    assert!(
        run.err.starts_with("error: it was deleted meanwhile: "),
        "{}",
        run.err
    );
}

#[test]
fn waiting_ends_with_the_time() {
    for args in [&["wait", "web"][..], &["status", "web", "--watch"]] {
        let kubectl = Kubectl::new(&[nothing_yet()]);
        let run = kubectl.run(&[args, &["--timeout", "0"]].concat());
        assert_eq!(
            (run.exit, run.err.as_str()),
            (3, "note: still going after 0s\n")
        );
        assert_eq!(kubectl.calls().len(), 1);
    }
}

#[test]
fn short_failures_do_not_end_a_watch() {
    let down = Err("The connection to the server was refused\n");
    let kubectl = Kubectl::new(&[nothing_yet(), down.clone(), down.clone(), rollout(2)]);
    let run = kubectl.run(&["wait", "web", "--interval=0"]);
    assert_eq!(run.exit, 0, "{}", run.err);
    let kubectl = Kubectl::new(&[nothing_yet(), down]);
    let run = kubectl.run(&["wait", "web", "--interval=0"]);
    assert_eq!(run.exit, 4);
    assert_eq!(kubectl.calls().len(), 4);
}

#[test]
fn what_does_not_go_together() {
    let file = "examples/mid-rollout.json";
    for (args, expected) in [
        (&["status", "web", "-f", file][..], "cannot be used with"),
        (&["status", "-f", file, "--watch"], "cannot be used with"),
        (&["status", "web", "--timeout=1s"], "--watch"),
        (
            &["status", "web", "--deployment=web"],
            "cannot be used with",
        ),
        (&["status", "web", "--pods-complete"], "cannot be used with"),
        (
            &["status", "web", "--watch", "--now=2026-11-20T23:26:19Z"],
            "cannot be used with",
        ),
        (
            &["status", "-f", file, "-n", "shop"],
            "error: --namespace is for kubectl, and goes with a name instead of -f\n",
        ),
        (
            &["status", "rs/web"],
            "only Deployments are looked at, as deploy/web, and PlannedDeployments, as pdeploy/web",
        ),
        (&["wait", "-f", file], "unexpected argument '-f'"),
        (
            &["wait", "web", "--for=ready"],
            "[possible values: complete]",
        ),
        (
            &["wait", "web", "--timeout=soon"],
            "not a time, as 90s, 10m or 1h30m",
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
            "Say --takeover if it does not act on this Deployment",
        ),
        (
            &["plan", "-f", file, "--takeover"],
            "--takeover goes with -o kubectl",
        ),
    ] {
        let err = super::refused(args, "");
        assert!(err.contains(expected), "{args:?}: {err}");
    }
}
