//! A program that is run for what it prints, and killed if it takes too long.

use std::ffi::OsStr;
use std::io::{self, IsTerminal as _, Read};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use super::relay::Relay;
use crate::cli::stderr::EscapedWriter;

/// How often to ask whether the program has ended while it prints nothing.
const TICK: Duration = Duration::from_millis(5);

/// How long to read on once the program has ended. All that it printed is there then; but a process that it left behind
/// may keep the pipes open indefinitely.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);

/// Bytes that a program may print: a list of about 100,000 pods.
pub(super) const OUTPUT_BYTES_MAX: usize = if cfg!(test) { 4 << 20 } else { 512 << 20 };

/// What a program that has ended returned.
#[derive(Debug)]
pub(super) struct Finished {
    pub(super) status: ExitStatus,
    pub(super) stdout: Vec<u8>,
    /// Lines that tell why it failed.
    pub(super) diagnostics: Vec<String>,
}

/// What comes from one of its streams.
enum Event {
    Stdout(Vec<u8>),
    Stderr(Vec<u8>),
}

/// How a program has ended, or been made to end: it is killed then, with the processes that it has started.
#[derive(Debug)]
pub(super) enum Ended {
    Finished(Finished),
    /// It did not end within the limit.
    TimedOut,
    /// It printed more than [`OUTPUT_BYTES_MAX`].
    TooLarge,
}

/// Reads what a program prints until it ends.
pub(super) fn run(program: &OsStr, args: &[String], limit: Duration) -> io::Result<Ended> {
    let start = Instant::now();
    let mut command = Command::new(program);
    command
        .args(args)
        .stdin(Stdio::inherit())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    // A group of its own is killed as a whole, credential plugins included. But in one, nobody could answer a plugin that
    // asks for a password: a terminal stops background groups that read from it. Ctrl-C ends both there.
    let has_group = !io::stdin().is_terminal();
    if has_group {
        command.process_group(0);
    }
    let mut child = command.spawn()?;
    let mut output = Output::of(&mut child);
    let status = loop {
        output.take(TICK);
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if start.elapsed() >= limit {
            kill(&mut child, has_group);
            return Ok(Ended::TimedOut);
        }
        if output.stdout.len() > OUTPUT_BYTES_MAX {
            kill(&mut child, has_group);
            return Ok(Ended::TooLarge);
        }
    };
    let end = Instant::now();
    while !output.is_read && end.elapsed() < DRAIN_TIMEOUT {
        output.take(TICK);
    }
    let Output { stdout, relay, .. } = output;
    Ok(Ended::Finished(Finished {
        status,
        stdout,
        diagnostics: relay.finish(),
    }))
}

/// Kills the program, with its group if it has one, and waits for its end.
fn kill(child: &mut Child, has_group: bool) {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    if let (true, Some(pid)) = (has_group, pid) {
        // What has ended meanwhile cannot be killed.
        let _ = kill_process_group(pid, Signal::KILL);
    }
    let _ = child.kill();
    let _ = child.wait();
}

/// What a program prints, read by a thread for each stream: one that is held open must not keep us waiting.
struct Output {
    events: Receiver<Event>,
    stdout: Vec<u8>,
    relay: Relay<EscapedWriter>,
    /// Whether both streams have ended.
    is_read: bool,
}

// === impl Output ===

impl Output {
    fn of(child: &mut Child) -> Self {
        let (sender, events) = mpsc::channel();
        if let Some(stdout) = child.stdout.take() {
            let sender = sender.clone();
            thread::spawn(move || forward(stdout, &sender, Event::Stdout));
        }
        if let Some(stderr) = child.stderr.take() {
            thread::spawn(move || forward(stderr, &sender, Event::Stderr));
        }
        Self {
            events,
            stdout: Vec::new(),
            relay: Relay::new(EscapedWriter::default()),
            is_read: false,
        }
    }

    /// Takes what has been read, or waits a moment for it.
    fn take(&mut self, moment: Duration) {
        match self.events.recv_timeout(moment) {
            Ok(Event::Stdout(bytes)) => self.stdout.extend_from_slice(&bytes),
            Ok(Event::Stderr(bytes)) => self.relay.write(&bytes),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                self.is_read = true;
                thread::sleep(moment);
            }
        }
    }
}

/// Reads a stream to its end. One that fails has ended, too.
fn forward(mut stream: impl Read, events: &Sender<Event>, event: fn(Vec<u8>) -> Event) {
    let mut buffer = vec![0; 1 << 16];
    loop {
        let bytes = match stream.read(&mut buffer) {
            Ok(count @ 1..) => buffer[..count].to_vec(),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Ok(_) | Err(_) => return,
        };
        if events.send(event(bytes)).is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sh(script: &str, limit: Duration) -> Option<Finished> {
        let args = ["-c", script].map(str::to_owned);
        match run("sh".as_ref(), &args, limit).unwrap() {
            Ended::Finished(finished) => Some(finished),
            Ended::TimedOut => None,
            Ended::TooLarge => panic!("too large"),
        }
    }

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn output_and_status_are_returned() {
        let script = "yes | head -c 1000000; echo 'error: no' >&2; exit 3";
        let finished = sh(script, LONG).unwrap();
        assert_eq!(finished.status.code(), Some(3));
        assert_eq!(finished.stdout.len(), 1_000_000);
        assert_eq!(finished.diagnostics, ["error: no"]);
        let missing = run("/no/such/program".as_ref(), &[], LONG).unwrap_err();
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn a_program_that_prints_too_much_is_stopped() {
        let args = ["-c", "yes"].map(str::to_owned);
        let ended = run("sh".as_ref(), &args, LONG).unwrap();
        assert!(matches!(ended, Ended::TooLarge));
    }

    #[test]
    fn a_program_that_hangs_is_killed() {
        let short = Duration::from_millis(50);
        assert!(sh("sleep 60", short).is_none());
        assert!(sh("exec >&- 2>&-; sleep 60", short).is_none());
        assert!(sh("trap '' TERM INT; sleep 60 & wait", short).is_none());
    }
}
