//! Runs a program, captures its output, and kills it at a time limit.

use std::ffi::OsStr;
use std::io::{self, IsTerminal as _, PipeReader, PipeWriter, Read, Write as _};
use std::os::fd::{AsFd, AsRawFd as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStderr, ChildStdout, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{FdFlags, fcntl_setfd, ioctl_fionbio};
use rustix::process::{Pid, Signal, kill_process_group};

use super::relay::Relay;
use crate::cli::stderr::EscapedWriter;

/// How long to wait for output before checking whether the program has exited.
const TICK: Duration = Duration::from_millis(5);

/// The number of bytes per read.
const CHUNK_BYTES: usize = 1 << 16;

/// The maximum capacity of a pipe. Once the program has exited, all its output is in the pipe, but processes that it
/// left running may print indefinitely.
const PIPE_BYTES_MAX: usize = 1 << 20;

/// The maximum output of a program, enough for a list of about 100,000 pods.
pub(super) const OUTPUT_BYTES_MAX: usize = if cfg!(test) { 4 << 20 } else { 512 << 20 };

/// The result of a program that exited.
#[derive(Debug)]
pub(super) struct Finished {
    pub(super) status: ExitStatus,
    pub(super) stdout: Vec<u8>,
    /// The lines of standard error that state why it failed.
    pub(super) diagnostics: Vec<String>,
}

/// How a program ended. In the cases other than `Finished` it was killed, with the processes that it started.
#[derive(Debug)]
pub(super) enum Ended {
    Finished(Finished),
    /// It exceeded the time limit.
    TimedOut,
    /// It printed more than [`OUTPUT_BYTES_MAX`].
    TooLarge,
}

/// A text that a program reads as a file. Other users can read its arguments, and it may read a password from standard
/// input.
#[derive(Debug)]
pub(super) struct Body {
    reader: PipeReader,
    writer: PipeWriter,
    text: Vec<u8>,
}

/// Runs a program and captures its output.
pub(super) fn run(
    program: &OsStr,
    args: &[String],
    body: Option<Body>,
    limit: Duration,
) -> io::Result<Ended> {
    let start = Instant::now();
    let mut command = Command::new(program);
    command
        .args(args)
        .stdin(Stdio::inherit())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    // With its own process group, the program is killed together with its children, such as credential plugins. But a
    // terminal stops background groups that read from it, so a plugin could not ask for a password. On a terminal,
    // Ctrl-C ends both.
    let has_group = !io::stdin().is_terminal();
    if has_group {
        command.process_group(0);
    }
    let mut child = command.spawn()?;
    let mut feed = body.map(Body::feed);
    let mut output = ChildOutput::of(&mut child)?;
    let status = loop {
        feed.iter_mut().for_each(Feed::write);
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
    output.drain();
    let ChildOutput { stdout, relay, .. } = output;
    Ok(Ended::Finished(Finished {
        status,
        stdout,
        diagnostics: relay.finish(),
    }))
}

/// Kills the program, with its process group if it has one, and reaps it.
fn kill(child: &mut Child, has_group: bool) {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    if let (true, Some(pid)) = (has_group, pid) {
        // The process may have exited already.
        let _ = kill_process_group(pid, Signal::KILL);
    }
    let _ = child.kill();
    let _ = child.wait();
}

/// The rest of a body that is written while the program runs.
struct Feed {
    /// `None` once everything is written, or nobody reads it.
    writer: Option<PipeWriter>,
    rest: Vec<u8>,
}

// === impl Body ===

impl Body {
    pub(super) fn new(text: &str) -> io::Result<Self> {
        let (reader, writer) = io::pipe()?;
        // The program inherits only the end that it reads.
        fcntl_setfd(&reader, FdFlags::empty())?;
        ioctl_fionbio(&writer, true)?;
        Ok(Self {
            reader,
            writer,
            text: text.as_bytes().to_vec(),
        })
    }

    /// The path by which the program opens it.
    pub(super) fn path(&self) -> String {
        format!("/dev/fd/{}", self.reader.as_raw_fd())
    }

    /// Closes the end of the program, so that writing fails once the program has exited.
    fn feed(self) -> Feed {
        Feed {
            writer: Some(self.writer),
            rest: self.text,
        }
    }
}

// === impl Feed ===

impl Feed {
    /// Writes as much as the pipe takes.
    fn write(&mut self) {
        let Some(writer) = &mut self.writer else {
            return;
        };
        match writer.write(&self.rest) {
            Ok(count) => drop(self.rest.drain(..count)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return,
            Err(_) => self.rest.clear(),
        }
        if self.rest.is_empty() {
            self.writer = None;
        }
    }
}

/// The output of a program. Reads do not wait for the end of a stream, because a process that the program left running
/// may keep it open, nor for another thread, because it may be delayed on a busy machine. Once the program has exited,
/// all its output has been captured.
struct ChildOutput {
    /// `None` after the end of the stream.
    out: Option<ChildStdout>,
    err: Option<ChildStderr>,
    stdout: Vec<u8>,
    relay: Relay<EscapedWriter>,
    buffer: Vec<u8>,
}

// === impl ChildOutput ===

impl ChildOutput {
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

    /// Reads available output, waiting up to `limit` for it. Returns the number of bytes.
    fn take(&mut self, limit: Duration) -> usize {
        self.wait(limit);
        let printed = read(&mut self.out, &mut self.buffer);
        self.stdout.extend_from_slice(&self.buffer[..printed]);
        let told = read(&mut self.err, &mut self.buffer);
        if told > 0 {
            self.relay.write(&self.buffer[..told]);
        }
        printed + told
    }

    /// Reads the output that a program has left in its pipes.
    fn drain(&mut self) {
        let mut total = 0;
        while total < 2 * PIPE_BYTES_MAX {
            match self.take(Duration::ZERO) {
                0 => break,
                count => total += count,
            }
        }
    }

    /// Waits up to `limit` for output.
    fn wait(&self, limit: Duration) {
        let fds = [
            self.out.as_ref().map(AsFd::as_fd),
            self.err.as_ref().map(AsFd::as_fd),
        ];
        let poll_fd = |fd| PollFd::from_borrowed_fd(fd, PollFlags::IN);
        let mut fds: Vec<_> = fds.into_iter().flatten().map(poll_fd).collect();
        let limit = Timespec::try_from(limit).ok();
        // An early return, for example because of a signal, is harmless.
        let _ = poll(&mut fds, limit.as_ref());
    }
}

/// Reads available bytes. A stream ends at its first error, too.
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
        match run("sh".as_ref(), &args, None, limit).unwrap() {
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
        let missing = run("/no/such/program".as_ref(), &[], None, LONG).unwrap_err();
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn child_processes_do_not_delay_the_result() {
        // It keeps both streams open, or prints until they are closed. (Slowly, because the shell may take a while to
        // exit.)
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
    fn program_with_too_much_output_is_stopped() {
        let args = ["-c", "yes"].map(str::to_owned);
        let ended = run("sh".as_ref(), &args, None, LONG).unwrap();
        assert!(matches!(ended, Ended::TooLarge));
    }

    #[test]
    fn body_is_read_as_a_file() {
        // More than a pipe takes.
        let text = "0123456789".repeat(100_000);
        let read = |script: &str| {
            let body = Body::new(&text).unwrap();
            let args = ["-c".to_owned(), script.replace("FILE", &body.path())];
            match run("sh".as_ref(), &args, Some(body), LONG).unwrap() {
                Ended::Finished(finished) => finished.stdout,
                other => panic!("{other:?}"),
            }
        };
        assert!(read("cat FILE") == text.as_bytes());
        assert_eq!(read("head -c 3 FILE"), b"012");
        assert_eq!(read("true"), b"");
    }

    #[test]
    fn hanging_program_is_killed() {
        let short = Duration::from_millis(50);
        assert!(sh("sleep 60", short).is_none());
        assert!(sh("exec >&- 2>&-; sleep 60", short).is_none());
        assert!(sh("trap '' TERM INT; sleep 60 & wait", short).is_none());
    }

    /// The output of a script that has exited.
    fn drained(script: &str, chunk: usize) -> (Vec<u8>, Vec<String>) {
        let mut child = Command::new("sh")
            .args(["-c", script])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut output = ChildOutput::of(&mut child).unwrap();
        child.wait().unwrap();
        output.buffer = vec![0; chunk];
        output.drain();
        (output.stdout, output.relay.finish())
    }

    #[test]
    fn output_left_in_the_pipes_is_read() {
        let (stdout, diagnostics) = drained("head -c 60000 /dev/zero", 1000);
        assert_eq!((stdout.len(), diagnostics.len()), (60_000, 0));
        let (stdout, diagnostics) = drained("echo 'error: no' >&2", 4);
        assert_eq!(
            (stdout.len(), diagnostics),
            (0, vec!["error: no".to_owned()])
        );
        // A process that was left running prints indefinitely.
        let (stdout, _) = drained("yes &", CHUNK_BYTES);
        assert!(stdout.len() <= 2 * PIPE_BYTES_MAX + CHUNK_BYTES);
    }
}
