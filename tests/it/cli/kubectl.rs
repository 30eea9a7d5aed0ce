//! A script that replaces kubectl, and its output.

use std::fs;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::{DEPLOYMENT, REPLICA_SET, Run, command, path, read};

pub(super) const OPTIONS: &str = "-o json --request-timeout=30s";

pub(super) const EVENTS: &str = "get events --field-selector=type=";

/// The result of one call of kubectl.
#[derive(Clone)]
pub(super) enum Answer {
    /// Prints this.
    Out(String),
    /// Fails with this.
    Err(String),
    /// Runs this shell script.
    Script(String),
}

/// The results of the calls in one poll, for the Deployment, its ReplicaSets and its pods.
#[derive(Clone)]
pub(super) struct Poll {
    pub(super) deployment: Answer,
    pub(super) sets: Answer,
    pub(super) pods: Answer,
}

/// A folder with the script that replaces kubectl.
pub(super) struct Kubectl(tempfile::TempDir);

impl Kubectl {
    pub(super) fn new(polls: &[Poll]) -> Self {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        for (index, poll) in polls.iter().enumerate() {
            for (kind, answer) in [
                ("deploy", &poll.deployment),
                ("rs", &poll.sets),
                ("pods", &poll.pods),
            ] {
                let (end, text) = match answer {
                    Answer::Out(text) => ("out", text),
                    Answer::Err(text) => ("err", text),
                    Answer::Script(text) => ("sh", text),
                };
                let name = format!("{kind}.{}.{end}", index + 1);
                fs::write(folder.path().join(name), text).unwrap();
            }
        }
        Self(folder)
    }

    pub(super) fn run(&self, args: &[&str]) -> Run {
        self.run_as(env!("CARGO_BIN_EXE_rollplan"), args)
    }

    /// Runs a command that polls until the rollout ends, with a timeout so that a failing test does not hang.
    pub(super) fn watch(&self, args: &[&str]) -> Run {
        let limits = ["--interval=0", "--deleted-after=0s", "--timeout=2m"];
        self.run(&[args, &limits].concat())
    }

    /// The program, with this folder as its cluster.
    pub(super) fn command(&self, args: &[&str]) -> Command {
        let bin = path("tests/it/cli/bin");
        let others = std::env::var("PATH").unwrap();
        let mut command = command(args);
        command
            .env("FAKE_KUBECTL", self.0.path())
            .env("PATH", format!("{}:{others}", bin.display()));
        command
    }

    pub(super) fn run_as(&self, program: &str, args: &[&str]) -> Run {
        use std::os::unix::process::CommandExt as _;
        let output = self.command(args).arg0(program).output().unwrap();
        Run {
            exit: output.status.code().unwrap(),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// Runs a command until it has made 20 calls, sends it a signal, and returns its output.
    pub(super) fn interrupted(&self, args: &[&str], signal: Signal) -> Output {
        let calls = self.calls().len();
        let child = self.command(args).spawn().unwrap();
        let start = Instant::now();
        while self.calls().len() < calls + 20 {
            assert!(start.elapsed() < Duration::from_secs(120), "it polls");
            std::thread::sleep(Duration::from_millis(5));
        }
        kill_process(Pid::from_child(&child), signal).unwrap();
        child.wait_with_output().unwrap()
    }

    /// The arguments of each call, except for calls that read events.
    pub(super) fn calls(&self) -> Vec<String> {
        let calls = fs::read_to_string(self.file("calls")).unwrap_or_default();
        let calls = calls.lines().filter(|call| !call.starts_with(EVENTS));
        calls.map(str::to_owned).collect()
    }

    /// The number of calls that read warnings.
    pub(super) fn event_calls(&self) -> usize {
        let calls = fs::read_to_string(self.file("calls")).unwrap_or_default();
        let warnings = format!("{EVENTS}Warning ");
        calls
            .lines()
            .filter(|call| call.starts_with(&warnings))
            .count()
    }

    /// Returns these events from this poll on.
    pub(super) fn add_events(&self, poll: usize, events: &[Value]) {
        let list = json!({"apiVersion": "v1", "kind": "List", "items": events});
        fs::write(self.file(&format!("events.{poll}.out")), list.to_string()).unwrap();
    }

    pub(super) fn file(&self, name: &str) -> std::path::PathBuf {
        self.0.path().join(name)
    }
}

pub(super) fn example(name: &str) -> Poll {
    let list: Value = serde_json::from_str(&read(&format!("examples/{name}.json"))).unwrap();
    poll(list["items"].as_array().unwrap().clone())
}

/// A poll that returns these objects.
pub(super) fn poll(objects: Vec<Value>) -> Poll {
    let list = |kind: &str| {
        let items = objects.iter().filter(|object| object["kind"] == kind);
        let items: Vec<_> = items.collect();
        Answer::Out(json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string())
    };
    let deployment = objects.iter().find(|object| {
        let kind = object["kind"].as_str().unwrap();
        kind.ends_with("Deployment")
    });
    Poll {
        deployment: match deployment {
            Some(deployment) => Answer::Out(deployment.to_string()),
            None => Answer::Err(
                "Error from server (NotFound): deployments.apps \"web\" not found\n".to_owned(),
            ),
        },
        sets: list("ReplicaSet"),
        pods: list("Pod"),
    }
}

impl Poll {
    /// The objects that kubectl prints.
    pub(super) fn objects(&self) -> Vec<Value> {
        let answers = [&self.deployment, &self.sets, &self.pods];
        let objects = answers.into_iter().flat_map(|answer| {
            let Answer::Out(text) = answer else {
                panic!("not printed");
            };
            let value: Value = serde_json::from_str(text).unwrap();
            match value["items"].as_array() {
                Some(items) => items.clone(),
                None => vec![value],
            }
        });
        objects.collect()
    }
}

/// A poll in which all calls fail.
pub(super) fn failing(text: &str) -> Poll {
    let answer = Answer::Err(format!("{text}\n"));
    Poll {
        deployment: answer.clone(),
        sets: answer.clone(),
        pods: answer,
    }
}

pub(super) fn forbidden(what: &str) -> Answer {
    Answer::Err(format!("{}\n", forbidden_text(what)))
}

pub(super) fn forbidden_text(what: &str) -> String {
    format!(
        "Error from server (Forbidden): {what} is forbidden: User \"dev\" cannot list resource \"{what}\""
    )
}

pub(super) const DOWN: &str = "The connection to the server 127.0.0.1:1 was refused - did you specify the right host or port?";

pub(super) fn from_yaml(yaml: &str) -> Value {
    super::input::from_yaml(yaml)
}

/// A rollout of two pods, `available` of which are available.
pub(super) fn rollout(available: i32) -> Poll {
    let set = REPLICA_SET
        .replace("name: web-1", "name: web-79c545b47")
        .replace("pod-template-hash: \"1\"", "pod-template-hash: 79c545b47")
        .replace("image: web:0", "image: web:1")
        .replace("  replicas: 0\n  selector", "  replicas: 2\n  selector")
        .replace(
            "  replicas: 0\n  terminating",
            &format!("  replicas: 2\n  readyReplicas: {available}\n  availableReplicas: {available}\n  terminating"),
        );
    let mut deployment = from_yaml(DEPLOYMENT);
    deployment["status"] = json!({"observedGeneration": 1});
    poll(vec![deployment, from_yaml(&set)])
}

pub(super) fn nothing_yet() -> Poll {
    poll(vec![from_yaml(DEPLOYMENT)])
}

/// The calls of one poll of `web`, whose selector is `app=web`.
pub(super) fn calls_of(verb: &str, told: &str) -> Vec<String> {
    calls_by("app=web", verb, told)
}

pub(super) fn calls_by(selector: &str, verb: &str, told: &str) -> Vec<String> {
    let mut calls = vec![format!("get deploy web {OPTIONS}{told}")];
    calls.push(match verb {
        "plan" => format!("get rs {OPTIONS}{told}"),
        _ => format!("get rs --selector={selector} {OPTIONS}{told}"),
    });
    if !["history", "undo"].contains(&verb) {
        calls.push(format!("get pods --selector={selector} {OPTIONS}{told}"));
    }
    calls
}
