//! The server as a separate process, with its own memory, limits and signals.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use super::PATIENCE;

/// A running server. It is killed at the end of the test.
pub(super) struct Process {
    child: Child,
    pub(super) address: SocketAddr,
    pub(super) http: SocketAddr,
    /// The lines on standard error after the one that reports the address.
    pub(super) said: mpsc::Receiver<String>,
}

/// `rollplan serve` without environment variables.
pub(super) fn command() -> Command {
    clean(Command::new(env!("CARGO_BIN_EXE_rollplan")))
}

fn clean(mut command: Command) -> Command {
    command.arg("serve").stdin(Stdio::null());
    for (name, _) in std::env::vars() {
        if name.starts_with("ROLLPLAN_") || name.starts_with("OTEL_") {
            command.env_remove(name);
        }
    }
    command
}

/// The exit code and standard error of a server that cannot start. A server that starts is killed.
pub(super) fn refused(mut command: Command) -> (Option<i32>, String) {
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let stderr = child.stderr.take().unwrap();
    let mut said = String::new();
    for line in BufReader::new(stderr).lines() {
        said += &line.unwrap();
        said.push('\n');
        if said.contains("listening on") {
            child.kill().unwrap();
        }
    }
    (child.wait().unwrap().code(), said)
}

/// Whether the log is read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Log {
    Read,
    /// After the server has started, the log is neither read nor closed.
    Unread,
}

impl Process {
    /// Starts the server and waits until it listens.
    pub(super) fn start(args: &[&str]) -> Self {
        Self::start_with(args, Log::Read)
    }

    pub(super) fn start_with(args: &[&str], log: Log) -> Self {
        Self::spawn(command(), args, log)
    }

    /// Like [`start`](Self::start), after shell commands that set limits.
    pub(super) fn start_after(script: &str, args: &[&str]) -> Self {
        let mut command = Command::new("sh");
        let script = format!("{script}; exec \"$0\" \"$@\"");
        command.args(["-c", &script, env!("CARGO_BIN_EXE_rollplan")]);
        Self::spawn(clean(command), args, Log::Read)
    }

    pub(super) fn spawn(mut command: Command, args: &[&str], log: Log) -> Self {
        command.args(["--http-listen", "127.0.0.1:0"]);
        // A machine that runs tests may be busier than a server.
        let defaults = [
            ("--listen", "127.0.0.1:0"),
            ("--deadline-max", "5m"),
            ("--queue-time-max", "5m"),
        ];
        for (flag, value) in defaults {
            if !args.contains(&flag) {
                command.args([flag, value]);
            }
        }
        command.args(args);
        command.stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let (sender, said) = mpsc::channel();
        // The log is read to its end, so the server is never blocked.
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                let is_listening = line.contains("listening on");
                let _ = sender.send(line);
                if log == Log::Unread && is_listening {
                    loop {
                        std::thread::park();
                    }
                }
            }
        });
        let (mut address, mut http) = (None, None);
        while address.is_none() {
            let line = said
                .recv_timeout(PATIENCE)
                .expect("it logs where it is listening");
            let line: serde_json::Value = serde_json::from_str(&line).unwrap();
            let message = line["message"].as_str().unwrap().to_owned();
            let after = |words| message.strip_prefix(words).map(|it| it.parse().unwrap());
            address = address.or(after("listening on "));
            http = http.or(after("metrics and probes on "));
        }
        Self {
            child,
            address: address.unwrap(),
            http: http.unwrap(),
            said,
        }
    }

    /// Sends a signal, for example TERM.
    pub(super) fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        let killed = Command::new("kill").args(["-s", name, &pid]).status();
        assert!(killed.unwrap().success());
    }

    pub(super) fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// Waits until the process has exited.
    pub(super) fn ended(&mut self) -> ExitStatus {
        let start = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(start.elapsed() < PATIENCE, "it is still running");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Its resident memory in MiB.
    pub(super) fn resident_mib(&self) -> u64 {
        let path = format!("/proc/{}/status", self.child.id());
        let status = std::fs::read_to_string(path).unwrap();
        let line = status.lines().find_map(|it| it.strip_prefix("VmRSS:"));
        let kib: u64 = line
            .unwrap()
            .trim()
            .trim_end_matches(" kB")
            .parse()
            .unwrap();
        kib / 1024
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
