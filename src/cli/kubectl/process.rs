//! A program that is run for what it prints, and killed if it takes too long.

use std::ffi::OsStr;
use std::io::{self, IsTerminal as _, Read};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStderr, ChildStdout, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::ioctl_fionbio;
use rustix::process::{Pid, Signal, kill_process_group};

use super::relay::Relay;
use crate::cli::stderr::EscapedWriter;

/// How often to ask whether the program has ended while it prints nothing.
const TICK: Duration = Duration::from_millis(5);

/// How much to read at once.
const CHUNK_BYTES: usize = 1 << 16;

/// How much a pipe holds at most. All that a program printed is there once it has ended; but a process that it left behind
/// may print on indefinitely.
const PIPE_BYTES_MAX: usize = 1 << 20;

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
    let mut output = Output::of(&mut child)?;
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
    let mut rest = 0;
    while rest < 2 * PIPE_BYTES_MAX {
        match output.take(Duration::ZERO) {
            0 => break,
            count => rest += count,
        }
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

/// What a program prints. Reading never waits for the end of a stream, which a process that it left behind may hold open, nor
/// for a thread, which may get no turn on a busy machine: what was printed before the end is complete at the end.
struct Output {
    /// `None` once it has ended.
    out: Option<ChildStdout>,
    err: Option<ChildStderr>,
    stdout: Vec<u8>,
    relay: Relay<EscapedWriter>,
    buffer: Vec<u8>,
}

// === impl Output ===

impl Output {
    fn of(child: &mut Child) -> io::Result<Self> {
        let (out, err) = (child.stdout.take(), child.stderr.take());
        let fds = [out.as_ref().map(AsFd::as_fd), err.as_ref().map(AsFd::as_fd)];
        for fd in fds.into_iter().flatten() {
            ioctl_fionbio(fd, true)?;
        }
        Ok(Self {
            out,
            err,
            stdout: Vec::new(),
            relay: Relay::new(EscapedWriter::default()),
            buffer: vec![0; CHUNK_BYTES],
        })
    }

    /// Takes what can be read, or waits a moment for it. Returns the number of bytes.
    fn take(&mut self, moment: Duration) -> usize {
        self.wait(moment);
        let printed = read(&mut self.out, &mut self.buffer);
        self.stdout.extend_from_slice(&self.buffer[..printed]);
        let told = read(&mut self.err, &mut self.buffer);
        if told > 0 {
            self.relay.write(&self.buffer[..told]);
        }
        printed + told
    }

    /// Waits a moment for something to read.
    fn wait(&self, moment: Duration) {
        let fds = [
            self.out.as_ref().map(AsFd::as_fd),
            self.err.as_ref().map(AsFd::as_fd),
        ];
        let poll_fd = |fd| PollFd::from_borrowed_fd(fd, PollFlags::IN);
        let mut fds: Vec<_> = fds.into_iter().flatten().map(poll_fd).collect();
        let moment = Timespec::try_from(moment).ok();
        // A signal ends it early, which does no harm.
        let _ = poll(&mut fds, moment.as_ref());
    }
}

/// Reads what is there. A stream that fails has ended, too.
fn read(stream: &mut Option<impl Read>, buffer: &mut [u8]) -> usize {
    loop {
        let Some(open) = stream else { return 0 };
        match open.read(buffer) {
            Ok(count @ 1..) => return count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return 0,
            Ok(_) | Err(_) => *stream = None,
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
    fn what_is_left_behind_holds_nothing_up() {
        // It keeps both streams open, or prints on until they are closed. (Slowly: the shell may take a while to end.)
        let echo = "while echo y; do sleep 0.01; done";
        for left in ["sleep 5", echo, &format!("{{ {echo}; }} >&2")] {
            let script = format!("head -c 60000 /dev/zero; {left} &");
            let finished = sh(&script, LONG).unwrap();
            assert_eq!(finished.status.code(), Some(0));
            assert!(finished.stdout.len() >= 60_000);
            assert!(finished.stdout[..60_000].iter().all(|byte| *byte == 0));
        }
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
