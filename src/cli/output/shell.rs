//! Quotes text for shells: the command means the same in bash, dash, zsh and fish, whether it is typed, pasted or
//! piped.
//!
//! The command is `sh -eu -c '…'`. The script is a quoted word for the user's shell, which therefore expands nothing
//! and ignores comments, here-documents and `&&` in it. `sh` runs the script with the same standard input.

use crate::cli::error::Error;

/// The longest line. A terminal without line editing, as in dash, truncates lines over 4,095 bytes on Linux and 1,023
/// bytes on macOS.
const LINE_BYTES_MAX: usize = 900;

/// The longest argument. The limit of Linux is 128 KiB.
const ARGUMENT_BYTES_MAX: usize = 96 << 10;

/// A command that runs a script with `sh` and stops at the first failure.
pub(super) fn command(script: &str) -> String {
    let pieces: Vec<String> = pieces(script).into_iter().map(quoted).collect();
    match pieces.as_slice() {
        [script] => format!("sh -eu -c {script}\n"),
        pieces => {
            let pieces = pieces.join(" \\\n");
            format!("sh -eu -c 'IFS=; eval \"$*\"' sh {pieces}\n")
        }
    }
}

/// Splits a script so that arguments and lines are within their limits.
fn pieces(script: &str) -> Vec<&str> {
    let mut pieces = Vec::new();
    let (mut start, mut line) = (0, 0);
    for (index, c) in script.char_indices() {
        let end = index + c.len_utf8();
        if end - line > LINE_BYTES_MAX || end - start > ARGUMENT_BYTES_MAX {
            pieces.push(&script[start..index]);
            (start, line) = (index, index);
        }
        if c == '\n' {
            line = end;
        }
    }
    pieces.push(&script[start..]);
    pieces
}

/// Quotes one word for bash, dash, zsh and fish. Only fish interprets `\\` and `\'` in single quotes.
fn quoted(text: &str) -> String {
    let mut word = String::with_capacity(text.len() + 2);
    word.push('\'');
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\'' => word.push_str("'\\''"),
            // Old versions of bash expand history references in quotes that span lines.
            '!' => word.push_str("'\\!'"),
            '\\' if matches!(chars.peek(), None | Some('\\' | '\'' | '!')) => {
                word.push_str("'\\\\'");
            }
            c => word.push(c),
        }
    }
    word.push('\'');
    word
}

/// Quotes one word of a command to paste into any of these shells.
pub(in crate::cli) fn pasted_word(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:@".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        text.to_owned()
    } else {
        quoted(text)
    }
}

/// Quotes one word of a script for `sh`.
pub(super) fn word(text: &str) -> Result<String, Error> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:@=+,%".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        return Ok(text.to_owned());
    }
    if text.contains(char::is_control) {
        let text = format!("-o kubectl cannot print {text:?}: it has control characters");
        return Err(Error::Usage(text));
    }
    let mut word = String::from("\"");
    for c in text.chars() {
        if matches!(c, '$' | '`' | '"' | '\\') {
            word.push('\\');
        }
        word.push(c);
    }
    word.push('"');
    Ok(word)
}

/// Text for a comment. It is harmless even if a user pastes only the comment into a shell without comments, such as an
/// interactive zsh.
pub(super) fn comment(text: &str) -> String {
    let mut comment = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' => comment.push(' '),
            '(' => comment.push('['),
            ')' => comment.push(']'),
            c if c.is_ascii_alphanumeric() || " .,:/@_-+=%\"[]".contains(c) => comment.push(c),
            c => comment.extend(c.escape_unicode()),
        }
    }
    comment
}

#[cfg(test)]
#[allow(clippy::expect_used, reason = "a test that fails may panic")]
mod tests {
    use std::io::Write as _;
    use std::process::{Command, Stdio};

    use super::*;

    /// Pipes a command to a shell.
    fn run(command: &str) -> String {
        let mut shell = Command::new("sh")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("sh");
        let mut stdin = shell.stdin.take().expect("a pipe");
        let input = command.to_owned();
        let writer = std::thread::spawn(move || stdin.write_all(input.as_bytes()));
        let output = shell.wait_with_output().expect("sh ends");
        writer.join().expect("no panic").expect("sh reads");
        let errors = String::from_utf8(output.stderr).expect("UTF-8");
        assert_eq!(errors, "", "{command}");
        String::from_utf8(output.stdout).expect("UTF-8")
    }

    #[test]
    fn words_reach_the_script_unchanged() {
        for text in [
            "",
            "plain",
            "it's",
            "a b",
            "$HOME `id` $(id)",
            "\\",
            "\\\\",
            "\\'",
            "'\\",
            "\"",
            "!!",
            "\\!",
            "* ? ~ [a] {a,b} # ; & | < >",
            "ü",
        ] {
            let script = format!("\nprintf %s {}\n", word(text).expect("a word"));
            assert_eq!(run(&command(&script)), text);
        }
    }

    #[test]
    fn control_characters_are_refused() {
        for text in ["a\nb", "\t", "\u{1b}[31m", "\u{9b}"] {
            let error = word(text).expect_err("no word").to_string();
            assert!(!error.contains(char::is_control), "{error}");
        }
    }

    #[test]
    fn long_scripts_are_split_into_lines_and_arguments() {
        let long = "x".repeat(ARGUMENT_BYTES_MAX * 3);
        let script = format!("\nprintf %s it\nprintf \"%s\" {long}\n");
        let command = command(&script);
        assert_eq!(run(&command), format!("it{long}"));
        let longest = command.lines().map(str::len).max();
        assert!(longest < Some(LINE_BYTES_MAX + 100), "{longest:?}");
        assert!(
            pieces(&script)
                .iter()
                .all(|piece| piece.len() <= ARGUMENT_BYTES_MAX)
        );
        // Many short lines exceed the limit of an argument, too.
        let short = "x\n".repeat(ARGUMENT_BYTES_MAX);
        assert_eq!(pieces(&short).concat(), short);
        assert_eq!(pieces(&short).len(), 2);
    }

    #[test]
    fn comments_are_harmless_in_every_shell() {
        let text = comment("image \"a:1\" (b) 'c' x$(touch pwned) `id`; a\u{1b}\n&|<>\\!^{*?~ü");
        assert_eq!(
            text,
            "image \"a:1\" [b] \\u{27}c\\u{27} x\\u{24}[touch pwned] \\u{60}id\\u{60}\\u{3b} a\\u{1b} \
             \\u{26}\\u{7c}\\u{3c}\\u{3e}\\u{5c}\\u{21}\\u{5e}\\u{7b}\\u{2a}\\u{3f}\\u{7e}\\u{fc}"
        );
    }

    #[test]
    fn lines_are_split_only_beyond_their_limit() {
        let full = "x".repeat(LINE_BYTES_MAX);
        assert_eq!(pieces(&full), [full.as_str()]);
        // The line break is part of the line.
        assert_eq!(pieces(&format!("{}\n{full}", &full[1..])).len(), 1);
        assert_eq!(pieces(&format!("{full}\n")), [full.as_str(), "\n"]);
        assert_eq!(pieces(&format!("{full}y")), [full.as_str(), "y"]);
        // Characters of two bytes do not end at the limit.
        let wide = format!("x{}", "ü".repeat(LINE_BYTES_MAX));
        let lengths: Vec<usize> = pieces(&wide).into_iter().map(str::len).collect();
        assert_eq!(lengths, [LINE_BYTES_MAX - 1, LINE_BYTES_MAX, 2]);
    }

    #[test]
    fn backslashes_that_fish_interprets_are_escaped() {
        for (text, word) in [
            ("a\\b", r"'a\b'"),
            ("\\", r"''\\''"),
            ("\\\\", r"''\\''\\''"),
            ("\\'", r"''\\''\'''"),
            ("\\!", r"''\\''\!''"),
        ] {
            assert_eq!(quoted(text), word, "{text}");
        }
    }
}
