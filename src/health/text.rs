//! Formats messages: numbers with their nouns, and text from other sources that must be made safe to print.

use rollplan_core::snapshot::Deployment;

/// The maximum length of a message from Kubernetes or an admission webhook, in characters.
pub(crate) const KUBERNETES_MAX: usize = 500;
/// The maximum length of a container's output, in characters.
pub(crate) const PROGRAM_MAX: usize = 200;

/// The maximum length of the name of an object, in characters.
pub(crate) const NAME_MAX: usize = 253;

/// A text, or another one if it is empty.
pub(crate) fn or<'a>(text: &'a str, otherwise: &'a str) -> &'a str {
    if text.is_empty() { otherwise } else { text }
}

/// A name as one word of a shell command.
pub(crate) fn word(name: &str) -> String {
    let name = one_line(name, NAME_MAX);
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-/".contains(c);
    if !name.is_empty() && !name.starts_with('-') && name.chars().all(is_plain) {
        return name;
    }
    format!("'{}'", name.replace('\'', "'\\''"))
}

/// The kind of a Deployment, or of the custom resource that acts as one, as an argument of kubectl.
pub(crate) fn resource(deployment: &Deployment) -> String {
    if deployment.is_native() {
        "deploy".to_owned()
    } else {
        deployment.kind.to_lowercase()
    }
}

/// "1 pod", "2 pods".
pub(crate) fn count(number: i64, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{plural}")
}

/// "1 pod is", "2 pods are".
pub(crate) fn agree(text: String, number: i64) -> String {
    format!("{text} {}", if number == 1 { "is" } else { "are" })
}

/// For example "2 of 3 available", or only "4 available" if there are more than expected.
pub(crate) fn share(number: i32, expected: i32, what: &str) -> String {
    if number > expected {
        format!("{number} {what}")
    } else {
        format!("{number} of {expected} {what}")
    }
}

/// Returns ": why", or nothing if `why` is empty.
pub(crate) fn because(why: &str) -> String {
    if why.is_empty() {
        String::new()
    } else {
        format!(": {why}")
    }
}

/// Converts a text to a single line of at most `max` characters without control characters. A longer one is shortened in the
/// middle, because the end of a message has the reason.
pub(crate) fn one_line(text: &str, max: usize) -> String {
    let mut line = String::new();
    let words = text.split(|c: char| c.is_whitespace() || c.is_control());
    for word in words.filter(|word| !word.is_empty()) {
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    let length = line.chars().count();
    if length <= max {
        return line;
    }
    let end = max / 2;
    let begin = max.saturating_sub(end + 1);
    let begins: String = line.chars().take(begin).collect();
    let ends: String = line.chars().skip(length - end).collect();
    format!("{begins}…{ends}")
}

/// The line of a container's output that names the error. The rest is dropped, because it may contain secrets.
pub(crate) fn last_line(output: &str) -> String {
    let lines: Vec<&str> = output.lines().collect();
    let line = error_line(&lines).map_or("", |index| lines[index]);
    one_line(line, PROGRAM_MAX)
}

/// The index of the line that names the error in the output of a program: the last one, or the one above the stack trace at
/// the end. `None` if all lines are blank.
#[must_use]
pub fn error_line(lines: &[&str]) -> Option<usize> {
    let is_blank = |line: &str| line.chars().all(|c| c.is_whitespace() || c.is_control());
    let last = lines.iter().rposition(|line| !is_blank(line))?;
    let above = lines[..=last]
        .iter()
        .rposition(|line| !is_blank(line) && !is_of_trace(line));
    above.or(Some(last))
}

/// Whether a line is part of a stack trace, or follows one: those of Java, JavaScript, Go, Rust, Python and Ruby.
fn is_of_trace(line: &str) -> bool {
    const BEGINNINGS: [&str; 6] = [
        "at ",
        "goroutine ",
        "created by ",
        "exit status ",
        "Node.js v",
        "note: run with `RUST_BACKTRACE",
    ];
    line.starts_with([' ', '\t'])
        || line == "}"
        || line == "stack backtrace:"
        || BEGINNINGS.iter().any(|begin| line.starts_with(begin))
        || is_go_function(line)
}

/// For example "main.(*Server).run(0xc000012345, {0x1, 0x2})".
fn is_go_function(line: &str) -> bool {
    let name = line.split_once('(').filter(|_| line.ends_with(')'));
    name.is_some_and(|(name, _)| name.contains('.') && !name.contains(' '))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_quoted_for_the_shell() {
        for (name, expected) in [
            ("web-1.a_b/c", "web-1.a_b/c"),
            ("", "''"),
            ("-f", "'-f'"),
            ("a b", "'a b'"),
            ("a'; b", "'a'\\''; b'"),
        ] {
            assert_eq!(word(name), expected);
        }
    }

    #[test]
    fn error_is_above_its_stack_trace() {
        for (output, expected) in [
            ("", ""),
            ("\n \n", ""),
            ("starting\nfatal: no database\n", "fatal: no database"),
            ("  only\n  indented\n", "indented"),
            (
                "INFO start\nException in thread \"main\" java.lang.IllegalStateException: no pool\n\tat a.B.c(B.java:7)\n\
                 Caused by: java.net.ConnectException: refused\n\tat a.B.d(B.java:9)\n\t... 12 more\n",
                "Caused by: java.net.ConnectException: refused",
            ),
            (
                "Traceback (most recent call last):\n  File \"a.py\", line 1, in <module>\n    f()\nKeyError: 'DB'\n",
                "KeyError: 'DB'",
            ),
            (
                "node:internal\n  throw err;\n  ^\n\nError: Cannot find module 'x'\n    at Module._load (node:1:2) {\n  \
                 code: 'MODULE_NOT_FOUND'\n}\n\nNode.js v22.1.0\n",
                "Error: Cannot find module 'x'",
            ),
            (
                "panic: no config\n\ngoroutine 1 [running]:\nmain.(*Server).run(0xc000)\n\t/app/main.go:5 +0x25\n\
                 main.main()\n\t/app/main.go:9\nexit status 2\n",
                "panic: no config",
            ),
            (
                "thread 'main' panicked at src/main.rs:2:5:\nno config\nnote: run with `RUST_BACKTRACE=1` environment variable\n",
                "no config",
            ),
        ] {
            assert_eq!(last_line(output), expected, "{output}");
        }
    }
}
