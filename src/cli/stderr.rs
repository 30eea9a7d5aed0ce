//! Standard error. The command line prints only through this module, so text from a cluster is always escaped.

use std::fmt::Display;
use std::io::{self, Write};

use rollplan_text::{one_line, printable};

/// Prints the messages of an error.
pub(super) fn eprint_error(texts: &[String]) {
    for text in texts {
        // Some messages have several lines.
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

/// Writes trusted text unchanged, for example commands for a CI system.
pub(super) fn eprint_raw(text: &str) {
    write(text);
}

/// Errors are ignored: standard error may be closed.
#[allow(
    clippy::disallowed_methods,
    reason = "the one place of the command line that writes to standard error"
)]
fn write(text: &str) {
    let _ = io::stderr().write_all(text.as_bytes());
}

/// A writer for another program's output to standard error. It escapes the output and does not buffer lines.
#[derive(Debug, Default)]
pub(super) struct EscapedWriter {
    /// The first bytes of an incomplete character.
    partial: Vec<u8>,
}

// === impl EscapedWriter ===

impl EscapedWriter {
    /// The characters that are complete.
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

    #[test]
    fn invalid_bytes_are_replaced_at_once() {
        let mut relay = EscapedWriter::default();
        let parts: [&[u8]; 3] = [b"a\xff", b"\xe2\x82", b"x"];
        let arrived = parts.map(|bytes| relay.push(bytes));
        assert_eq!(arrived, ["a\u{fffd}", "", "\u{fffd}x"]);
    }
}
