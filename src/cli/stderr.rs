//! Standard error: whatever the command line prints there goes through here, so that no text from a cluster reaches
//! the terminal as it is.

use std::fmt::Display;
use std::io::{self, Write};

use super::error::Error;
use crate::text::{one_line, printable};

/// Why a run fails: each thing that is wrong.
pub(super) fn eprint_error(error: &Error) {
    for text in error.texts() {
        // Some go on in lines of their own.
        write(&printable(&format!("error: {text}\n")));
    }
}

pub(super) fn eprint_warning(text: impl Display) {
    eprint_line(format_args!("warning: {text}"));
}

pub(super) fn eprint_note(text: impl Display) {
    eprint_line(format_args!("note: {text}"));
}

pub(super) fn eprint_line(text: impl Display) {
    write(&(one_line(&text.to_string()) + "\n"));
}

/// Writes text of our own as it is, for example what a CI system finds in a log.
pub(super) fn eprint_raw(text: &str) {
    write(text);
}

/// If standard error is closed, nobody reads it.
#[allow(
    clippy::disallowed_methods,
    reason = "the one place of the command line that writes to standard error"
)]
fn write(text: &str) {
    let _ = io::stderr().write_all(text.as_bytes());
}

/// Standard error for what another program prints there: it appears as it comes, and escaped.
#[derive(Debug, Default)]
pub(super) struct EscapedWriter {
    /// The first part of a character whose other part has not come yet.
    partial: Vec<u8>,
}

// === impl EscapedWriter ===

impl EscapedWriter {
    /// The characters that are complete now.
    fn push(&mut self, bytes: &[u8]) -> String {
        self.partial.extend(bytes);
        let mut text = String::new();
        let mut partial = Vec::new();
        let mut chunks = self.partial.utf8_chunks().peekable();
        while let Some(chunk) = chunks.next() {
            text.push_str(chunk.valid());
            let invalid = chunk.invalid();
            let may_continue = chunks.peek().is_none()
                && std::str::from_utf8(invalid).is_err_and(|error| error.error_len().is_none());
            if may_continue {
                partial = invalid.to_vec();
            } else if !invalid.is_empty() {
                text.push(char::REPLACEMENT_CHARACTER);
            }
        }
        self.partial = partial;
        text
    }
}

impl Write for EscapedWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let text = self.push(bytes);
        write(&printable(&text));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_arrive_in_parts() {
        let mut relay = EscapedWriter::default();
        let parts: [&[u8]; 3] = [b"a\xc3", b"\xbcb\xff\xf0\x9f", b"\xa6\x80c"];
        let arrived = parts.map(|bytes| relay.push(bytes));
        assert_eq!(arrived, ["a", "üb\u{fffd}", "🦀c"]);
    }
}
