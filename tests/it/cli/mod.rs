//! The command line: runs the built program, and checks its output and exit code.

mod answers;
mod canary;
mod cluster;
pub(crate) mod examples;
mod forecast;
mod input;
mod judged;
mod kinds;
mod kubectl;
mod readme;
mod recreated;
mod reference;
mod refusals;
mod reports;
mod restarts;
mod revisions;
mod service;
mod several;
mod terminal;
mod waiting;

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::Value;

/// The result of a run.
#[derive(Debug, PartialEq, Eq)]
struct Run {
    exit: i32,
    out: String,
    err: String,
}

/// Runs the program in the directory of the repository, to which paths in its output are relative.
fn rollplan(args: &[&str], input: &str) -> Run {
    let mut child = command(args).spawn().expect("rollplan starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    let input = input.to_owned();
    let writer = std::thread::spawn(move || {
        // The program may exit before it has read all of its input.
        let _ = stdin.write_all(input.as_bytes());
    });
    let output = child.wait_with_output().expect("rollplan ends");
    writer.join().expect("the input is written");
    Run {
        exit: output.status.code().expect("no signal ends it"),
        out: String::from_utf8(output.stdout).expect("UTF-8"),
        err: String::from_utf8(output.stderr).expect("UTF-8"),
    }
}

fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rollplan"));
    command
        .args(args)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .env_remove("ROLLPLAN_SERVER")
        .env_remove("KUBECTL")
        .env("COLUMNS", "100")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// Runs the program, which must succeed, and returns its output.
fn answered(args: &[&str], input: &str) -> String {
    let run = rollplan(args, input);
    assert_eq!((run.exit, run.err.as_str()), (0, ""), "{args:?}");
    run.out
}

/// Runs the program, which must refuse the input without output, and returns its error.
fn refused(args: &[&str], input: &str) -> String {
    let run = rollplan(args, input);
    assert_eq!(
        (run.exit, run.out.as_str()),
        (2, ""),
        "{args:?}: {}",
        run.err
    );
    run.err
}

fn path(relative: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(relative)
}

fn read(relative: &str) -> String {
    let path = path(relative);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// A string in quotes, as JSON or YAML. YAML excludes more characters than JSON.
fn quoted(text: &str) -> String {
    let mut quoted = String::new();
    for c in Value::from(text).to_string().chars() {
        match c {
            '\u{7f}'..='\u{9f}' => write!(quoted, "\\u{:04x}", u32::from(c)).unwrap(),
            c => quoted.push(c),
        }
    }
    quoted
}

/// Checks that a component of GitLab, which is one file, has a copy of the script of the same name.
fn check_component(name: &str) {
    let script = read(&format!("examples/pipelines/{name}.sh"));
    let script: String = script
        .lines()
        .map(|line| match line {
            "" => "\n".to_owned(),
            line => format!("      {line}\n"),
        })
        .collect();
    let component = read(&format!("packaging/gitlab/templates/{name}.yml"));
    assert!(component.contains(&format!("<<'SCRIPT'\n{script}      SCRIPT\n")));
}

/// A temporary file.
struct Scratch(PathBuf);

impl Scratch {
    fn new(text: &str) -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("cli-{}-{count}", std::process::id());
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::write(&path, text).expect("a file");
        Self(path)
    }

    fn path(&self) -> &str {
        self.0.to_str().expect("UTF-8")
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

const NOW: &str = "2026-11-20T12:00:00Z";

/// A new Deployment, as YAML.
const DEPLOYMENT: &str = "\
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
  namespace: shop
  uid: d1
  resourceVersion: \"10\"
  generation: 1
spec:
  replicas: 2
  selector:
    matchLabels: {app: web}
  template:
    metadata:
      labels: {app: web}
    spec:
      containers:
      - name: app
        image: web:1
";

/// A ReplicaSet of the Deployment with another template, as YAML.
const REPLICA_SET: &str = "\
apiVersion: apps/v1
kind: ReplicaSet
metadata:
  name: web-1
  namespace: shop
  uid: r1
  resourceVersion: \"11\"
  generation: 1
  labels: {app: web, pod-template-hash: \"1\"}
  ownerReferences:
  - {apiVersion: apps/v1, kind: Deployment, name: web, uid: d1, controller: true, blockOwnerDeletion: true}
spec:
  replicas: 0
  selector:
    matchLabels: {app: web, pod-template-hash: \"1\"}
  template:
    metadata:
      labels: {app: web, pod-template-hash: \"1\"}
    spec:
      containers:
      - name: app
        image: web:0
status:
  observedGeneration: 1
  replicas: 0
  terminatingReplicas: 0
";

/// A pod without an owner, as YAML.
const POD: &str = "\
apiVersion: v1
kind: Pod
metadata:
  name: other
  namespace: shop
  uid: p1
status:
  phase: Running
";

/// A pod of the ReplicaSet, as YAML.
fn owned_pod(name: &str) -> String {
    let owner = "{apiVersion: apps/v1, kind: ReplicaSet, name: web-1, uid: r1, controller: true}";
    POD.replace(
        "  uid: p1\n",
        &format!("  uid: {name}\n  ownerReferences:\n  - {owner}\n"),
    )
    .replace("name: other", &format!("name: {name}"))
}

/// 30 pods of the ReplicaSet without UIDs.
fn pods_without_uid() -> String {
    let pods = (0..30).map(|n| {
        let name = format!("p{n}");
        owned_pod(&name).replace(&format!("uid: {name}\n"), "x: 1\n")
    });
    pods.collect::<Vec<_>>().join("---\n")
}

/// The summaries of the steps that are planned for an input, except for status writes.
fn planned(more: &[&str], input: &str) -> Vec<String> {
    summaries(&answered(&plan_args(more), input))
}

fn plan_args<'a>(more: &[&'a str]) -> Vec<&'a str> {
    let mut args = vec!["plan", "-f", "-", "--now", NOW, "-o", "json"];
    args.extend(more);
    args
}

fn summaries(answer: &str) -> Vec<String> {
    let answer: serde_json::Value = serde_json::from_str(answer).expect("JSON");
    let steps = answer["steps"].as_array().cloned().unwrap_or_default();
    let steps = steps
        .iter()
        .filter(|step| step.get("updateDeploymentStatus").is_none());
    let summary =
        |step: &serde_json::Value| step["summary"].as_str().expect("a summary").to_owned();
    steps.map(summary).collect()
}
