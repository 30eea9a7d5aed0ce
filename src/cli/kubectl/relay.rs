//! Relays kubectl's standard error, except for the lines that state why it failed.
//!
//! Text is relayed immediately, because a credential plugin may ask for a password or show a login URL. The error
//! messages are retained: they classify the failure, and repeated polls must not print them each time.

use std::io::Write;

/// The prefixes of the lines that state why kubectl failed.
const DIAGNOSTICS: [&[u8]; 7] = [
    b"Error from server",
    b"error: ",
    b"Unable to connect to the server",
    b"The connection to the server",
    b"The request is invalid",
    b"The Deployment \"",
    b"The deployments \"",
];

/// The prefix of kubectl's error log: severity, month and day, as in "E1122 02:31:14.203101". It contains several lines
/// per failure, and lines about any unavailable API of the cluster, relevant or not.
const LOG: &[u8] = b"E0000 ";

/// The maximum number of retained lines, and of bytes per line.
const LINES_MAX: usize = 8;
const LINE_BYTES_MAX: usize = 4096;

/// Relays standard error, in chunks of any size.
#[derive(Debug)]
pub(super) struct Relay<W> {
    out: W,
    /// A line, or the start of a line, that may have to be retained.
    line: Vec<u8>,
    /// Whether the rest of the line is relayed.
    is_passing: bool,
    diagnostics: Vec<String>,
    log: Vec<String>,
}

// === impl Relay ===

impl<W: Write> Relay<W> {
    pub(super) fn new(out: W) -> Self {
        Self {
            out,
            line: Vec::new(),
            is_passing: false,
            diagnostics: Vec::new(),
            log: Vec::new(),
        }
    }

    pub(super) fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            if self.is_passing {
                self.pass(byte);
                self.is_passing = byte != b'\n';
                continue;
            }
            if byte == b'\n' {
                self.end_line();
                continue;
            }
            if self.line.len() < LINE_BYTES_MAX {
                self.line.push(byte);
            }
            if !may_be_kept(&self.line) {
                self.pass_line();
                self.is_passing = true;
            }
        }
        // Standard error may be closed.
        let _ = self.out.flush();
    }

    /// The retained error messages, or the log if there are none. Call this at the end of the stream.
    pub(super) fn finish(mut self) -> Vec<String> {
        if !self.line.is_empty() {
            self.end_line();
        }
        if self.diagnostics.is_empty() {
            return self.log;
        }
        self.diagnostics
    }

    fn end_line(&mut self) {
        let kept = if is_diagnostic(&self.line) {
            &mut self.diagnostics
        } else if is_log(&self.line) {
            &mut self.log
        } else {
            self.pass_line();
            return self.pass(b'\n');
        };
        if kept.len() < LINES_MAX {
            let line = String::from_utf8_lossy(&self.line).trim_end().to_owned();
            kept.push(line);
        }
        self.line.clear();
    }

    fn pass_line(&mut self) {
        for byte in std::mem::take(&mut self.line) {
            self.pass(byte);
        }
    }

    fn pass(&mut self, byte: u8) {
        let _ = self.out.write_all(&[byte]);
    }
}

fn is_diagnostic(line: &[u8]) -> bool {
    DIAGNOSTICS.iter().any(|prefix| line.starts_with(prefix))
}

fn is_log(line: &[u8]) -> bool {
    line.len() >= LOG.len() && may_be_log(line)
}

/// Whether a line with this start may belong to the log.
fn may_be_log(line: &[u8]) -> bool {
    let is_like = |(byte, like): (&u8, &u8)| match like {
        b'0' => byte.is_ascii_digit(),
        like => byte == like,
    };
    line.iter().zip(LOG).all(is_like)
}

/// Whether a line with this start may have to be retained.
fn may_be_kept(line: &[u8]) -> bool {
    may_be_log(line)
        || is_diagnostic(line)
        || DIAGNOSTICS.iter().any(|prefix| prefix.starts_with(line))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn relay(parts: &[&str]) -> (String, Vec<String>) {
        let mut out = Vec::new();
        let mut relay = Relay::new(&mut out);
        for part in parts {
            relay.write(part.as_bytes());
        }
        let diagnostics = relay.finish();
        (String::from_utf8_lossy(&out).into_owned(), diagnostics)
    }

    #[test]
    fn prompts_are_relayed_immediately_and_diagnostics_are_retained() {
        let mut out = Vec::new();
        let mut relay = Relay::new(&mut out);
        relay.write(b"Password: ");
        assert_eq!(relay.out.as_slice(), b"Password: ");
        relay.write(b"\nErr");
        assert_eq!(relay.out.as_slice(), b"Password: \n");
        relay.write(b"or from server (NotFound): no web\nerror");
        relay.write(b"s were many\nerror: last");
        let kept = relay.finish();
        assert_eq!(
            kept,
            ["Error from server (NotFound): no web", "error: last"]
        );
        assert_eq!(out, b"Password: \nerrors were many\n");
    }

    #[test]
    fn log_is_the_fallback_for_diagnostics() {
        let log = "E1122 02:31:14.203101   21884 memcache.go:265] \"Unhandled Error\"";
        let both = format!("{log}\nThe connection to the server x was refused\n");
        let refused = vec!["The connection to the server x was refused".to_owned()];
        assert_eq!(relay(&[&both]), (String::new(), refused));
        assert_eq!(relay(&[log]), (String::new(), vec![log.to_owned()]));
        assert_eq!(
            relay(&["E11x2 a\nE1\n"]),
            ("E11x2 a\nE1\n".to_owned(), vec![])
        );
    }

    #[test]
    fn retained_lines_are_limited() {
        let long = format!("error: {}\n", "x".repeat(1 << 20));
        let (out, kept) = relay(&vec![long.as_str(); 20]);
        assert_eq!(out, "");
        assert_eq!(kept.len(), LINES_MAX);
        assert!(kept.iter().all(|line| line.len() == LINE_BYTES_MAX));
    }
}
