//! Pipes the output of `-o kubectl` into bash, dash, zsh and fish, and pastes it into them in a terminal. A script replaces
//! kubectl and records its calls. `bash tests/run shells` runs these tests.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that fails may panic"
)]

mod snapshots;
mod terminal;

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use self::snapshots::{Rollout, environment, example, large, long, nasty, newest_is_stuck};
use self::terminal::{Paste, Terminal};

/// Shells, and the commands that start them without the user's configuration.
const SHELLS: [(&str, &str); 4] = [
    ("bash", "bash --norc --noprofile -i"),
    ("dash", "dash -i"),
    ("zsh", "zsh -f -i"),
    ("fish", "fish --no-config -i"),
];

/// The largest command that is pasted into fish.
const FISH_BYTES_MAX: usize = 32 << 10;

/// Commands, and the calls that they must make.
struct Commands {
    text: String,
    /// Standard error of rollplan.
    warnings: String,
    bodies: Vec<Value>,
}

impl Commands {
    fn of(rollout: &Rollout) -> Self {
        let print = |output: &[&str]| {
            let args = [
                rollout.verb,
                "-f",
                "-",
                "--replica-sets-complete",
                "--now",
                &rollout.now,
            ];
            let run = run(
                Path::new(env!("CARGO_BIN_EXE_rollplan")),
                &[&args, output].concat(),
                &rollout.input,
            );
            assert_eq!(run.exit, Some(0), "{}", run.err);
            run
        };
        let answer: Value = serde_json::from_str(&print(&["-o", "json"]).out).unwrap();
        let steps = answer["steps"].as_array().cloned().unwrap_or_default();
        let bodies = steps
            .iter()
            .filter_map(|step| step["call"]["bodyJson"].as_str())
            .map(|body| serde_json::from_str(body).unwrap())
            .collect();
        let run = match rollout.verb {
            "plan" => print(&["-o", "kubectl", "--takeover"]),
            _ => print(&["-o", "kubectl"]),
        };
        Self {
            text: run.out,
            warnings: run.err,
            bodies,
        }
    }
}

struct Run {
    exit: Option<i32>,
    out: String,
    err: String,
}

fn run(program: &Path, args: &[&str], input: &str) -> Run {
    run_in(Command::new(program).args(args), input)
}

fn run_in(command: &mut Command, input: &str) -> Run {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_owned();
    let writer = std::thread::spawn(move || stdin.write_all(input.as_bytes()));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    Run {
        exit: output.status.code(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

/// A folder in which a shell runs, and in which the replacement of kubectl records its calls.
struct Sandbox(TempDir);

impl Sandbox {
    /// kubectl fails with these errors. Each is paired with the number of its call, starting with 1.
    fn new(errors: &[(usize, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for (call, error) in errors {
            fs::write(folder.path().join(format!("err.{call}")), error).unwrap();
        }
        Self(folder)
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn env(&self) -> [(&'static str, String); 5] {
        let bin = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/shells/bin");
        let others = std::env::var("PATH").unwrap();
        let folder = self.path().to_str().unwrap().to_owned();
        [
            ("PATH", format!("{}:{others}", bin.display())),
            ("FAKE_KUBECTL", folder.clone()),
            ("HOME", folder),
            ("LC_ALL", "C.UTF-8".to_owned()),
            ("TERM", "xterm".to_owned()),
        ]
    }

    fn pipe(&self, shell: &str, text: &str) -> Run {
        let mut command = Command::new(shell);
        command.current_dir(self.path()).envs(self.env());
        if shell == "fish" {
            command.arg("--no-config");
        }
        run_in(&mut command, text)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    /// The bodies of the calls. In a JSON Patch, which kubectl reads as YAML, an escaped character may have eight digits.
    fn bodies(&self) -> Vec<Value> {
        let body = |call: usize| fs::read_to_string(self.file(&format!("body.{call}"))).ok();
        let bodies = (1..).map_while(body);
        bodies
            .map(|body| serde_json::from_str(&body.replace("\\U0001f980", "🦀")).unwrap())
            .collect()
    }

    /// Checks that the shell did not run any quoted text.
    fn assert_clean(&self, shell: &str) {
        assert!(!self.file("pwned").exists(), "{shell} ran quoted text");
    }

    /// Checks that every call was made, with a standard input from which kubectl could read an answer of the user.
    fn assert_carried_out(&self, shell: &str, commands: &Commands, stdin: &str) {
        self.assert_clean(shell);
        assert!(
            self.bodies() == commands.bodies,
            "{shell}: {:?}",
            self.bodies()
        );
        for call in 1..=commands.bodies.len() {
            let found = fs::read_to_string(self.file(&format!("stdin.{call}"))).unwrap();
            assert_eq!(found.trim(), stdin, "{shell}, call {call}");
        }
    }
}

/// Pipes and pastes commands into every shell, and calls `check` with each result. Its last argument is whether the commands
/// were pasted.
fn in_every_shell(
    commands: &Commands,
    errors: &[(usize, &str)],
    pastes: &[Paste],
    check: impl Fn(&Sandbox, &str, bool),
) {
    for (shell, start) in SHELLS {
        let sandbox = Sandbox::new(errors);
        sandbox.pipe(shell, &commands.text);
        check(&sandbox, &format!("{shell}, piped"), false);
        // fish takes minutes to display any command of this size.
        let is_too_slow = shell == "fish" && commands.text.len() > FISH_BYTES_MAX;
        for paste in pastes.iter().filter(|_| !is_too_slow) {
            let sandbox = Sandbox::new(errors);
            let mut terminal = Terminal::start(start, sandbox.path(), &sandbox.env());
            terminal.paste(&commands.text, *paste);
            terminal.wait_until_done();
            check(
                &sandbox,
                &format!("{shell}, {paste:?}:\n{}", terminal.screen()),
                true,
            );
        }
    }
}

fn carried_out(rollout: &Rollout, pastes: &[Paste]) {
    let commands = Commands::of(rollout);
    assert!(!commands.bodies.is_empty());
    in_every_shell(&commands, &[], pastes, |sandbox, shell, is_pasted| {
        let stdin = if is_pasted { "terminal" } else { "other" };
        sandbox.assert_carried_out(shell, &commands, stdin);
    });
}

const BOTH: [Paste; 2] = [Paste::Bracketed, Paste::Typed];

#[test]
fn quoted_text_is_never_run() {
    carried_out(&nasty("undo"), &BOTH);
    carried_out(&nasty("plan"), &BOTH);
}

#[test]
fn nothing_to_do_does_nothing() {
    let commands = Commands::of(&example("after-undo", "plan"));
    in_every_shell(&commands, &[], &BOTH, |sandbox, shell, _| {
        sandbox.assert_carried_out(shell, &commands, "");
    });
}

/// A terminal without line editing accepts at most 4,095 bytes per line.
#[test]
fn long_texts_arrive() {
    carried_out(&long(), &BOTH);
}

/// The bodies exceed the size of an argument on Linux.
#[test]
fn large_bodies_arrive() {
    let rollout = large();
    let commands = Commands::of(&rollout);
    assert!(
        commands
            .bodies
            .iter()
            .any(|body| body.to_string().len() > 128 << 10)
    );
    carried_out(&rollout, &[Paste::Bracketed]);
}

#[test]
fn nothing_follows_a_failure() {
    let commands = Commands::of(&example("mid-rollout", "plan"));
    assert_eq!(commands.bodies.len(), 3);
    let error = "Error from server (Forbidden): replicasets.apps is forbidden\n";
    in_every_shell(&commands, &[(1, error)], &BOTH, |sandbox, shell, _| {
        assert_eq!(sandbox.bodies(), commands.bodies[..1], "{shell}");
    });
    let run = Sandbox::new(&[(2, error)]).pipe("sh", &commands.text);
    assert_eq!((run.exit, run.err.as_str()), (Some(1), error));
    assert_eq!(run.out, "call 1 is done\n");
}

#[test]
fn only_the_tolerated_answer_is_passed_over() {
    // Three deletes that tolerate NotFound, and a status write.
    let commands = Commands::of(&example("history-cleanup", "plan"));
    assert_eq!(commands.bodies.len(), 4);
    let not_found =
        "Warning: text before\nError from server (NotFound): replicasets.apps \"web\" not found\n";
    let forbidden = "Error from server (Forbidden): denied: Error from server (NotFound)\n";
    in_every_shell(
        &commands,
        &[(1, not_found), (2, not_found)],
        &[Paste::Bracketed],
        |sandbox, shell, _| {
            assert_eq!(sandbox.bodies(), commands.bodies, "{shell}");
        },
    );
    in_every_shell(
        &commands,
        &[(1, not_found), (2, forbidden)],
        &[Paste::Bracketed],
        |sandbox, shell, _| {
            assert_eq!(sandbox.bodies(), commands.bodies[..2], "{shell}");
        },
    );
    for (shell, _) in SHELLS {
        let sandbox = Sandbox::new(&[(1, not_found), (3, forbidden)]);
        let run = sandbox.pipe(shell, &commands.text);
        assert_eq!(run.exit, Some(1), "{shell}");
        assert_eq!(run.err, format!("{not_found}{forbidden}"), "{shell}");
        assert_eq!(run.out, "call 2 is done\n", "{shell}");
    }
}

#[test]
fn a_step_that_may_fail_ends_nothing() {
    let commands = Commands::of(&example("scale-down-clamped", "plan"));
    let error = "Error from server (InternalError): etcd\n";
    in_every_shell(
        &commands,
        &[(2, error)],
        &[Paste::Bracketed],
        |sandbox, shell, _| {
            assert_eq!(sandbox.bodies(), commands.bodies, "{shell}");
        },
    );
    let run = Sandbox::new(&[(2, error)]).pipe("sh", &commands.text);
    assert_eq!(run.exit, Some(0));
    assert_eq!(
        run.err,
        format!("{error}step 2 failed; the steps after it are still carried out\n")
    );
}

/// Users may copy a single line.
#[test]
fn no_line_runs_quoted_text_by_itself() {
    let commands = Commands::of(&nasty("undo"));
    for line in commands.text.lines().filter(|line| line.starts_with('#')) {
        for (shell, _) in SHELLS {
            let sandbox = Sandbox::new(&[]);
            sandbox.pipe(shell, &format!("{line}\n"));
            sandbox.assert_clean(shell);
        }
        // An interactive zsh does not treat a number sign as the start of a comment.
        let sandbox = Sandbox::new(&[]);
        let mut zsh = Command::new("zsh");
        zsh.args(["-f", "-i"])
            .current_dir(sandbox.path())
            .envs(sandbox.env());
        run_in(&mut zsh, &format!("{line}\n"));
        sandbox.assert_clean("zsh");
    }
}

#[test]
fn environment_values_are_warned_of() {
    assert!(
        Commands::of(&environment())
            .warnings
            .starts_with("warning: ")
    );
    assert_eq!(Commands::of(&newest_is_stuck()).warnings, "");
}
