//! Log lines that CI systems interpret.
//!
//! GitHub's runner executes workflow commands from any output, so they are disabled while text from a cluster is
//! printed.
//! (docs.github.com, "Workflow commands for GitHub Actions"; docs.gitlab.com, "Expand and collapse job log sections".)

use std::hash::{BuildHasher as _, RandomState};

use rollplan_text::one_line;

use super::{RolloutResult, System};
use crate::cli::error::Error;
use crate::cli::exit::Exit;
use crate::cli::{now, output, stderr};

/// The log of a command.
#[derive(Debug)]
pub(super) struct Log {
    system: Option<System>,
    /// Whether standard output may contain lines for the CI system. Otherwise they are written to standard error.
    is_text: bool,
    /// The token that enables the commands of GitHub's runner again. It is not known to other programs.
    token: String,
    /// The name of the open section.
    section: Option<String>,
}

// === impl Log ===

impl Log {
    pub(super) fn begin(system: Option<System>, is_text: bool) -> Result<Self, Error> {
        let log = Self {
            system,
            is_text,
            token: format!("rollplan-{:016x}", RandomState::new().hash_one(())),
            section: None,
        };
        if log.system == Some(System::Github) {
            log.write(&format!("::stop-commands::{}\n", log.token))?;
        }
        Ok(log)
    }

    pub(super) fn section(
        &mut self,
        name: &str,
        title: &str,
        is_folded: bool,
    ) -> Result<(), Error> {
        self.end_section()?;
        if self.system == Some(System::Gitlab) {
            self.write(&section_start(name, title, is_folded, now::read().seconds))?;
            self.section = Some(name.to_owned());
        }
        Ok(())
    }

    pub(super) fn end_section(&mut self) -> Result<(), Error> {
        match self.section.take() {
            Some(name) => self.write(&section_end(&name, now::read().seconds)),
            None => Ok(()),
        }
    }

    /// Writes an annotation for each rollout that is not complete.
    pub(super) fn end(&mut self, results: &[RolloutResult]) -> Result<(), Error> {
        self.end_section()?;
        if self.system == Some(System::Github) {
            let annotations = results
                .iter()
                .filter(|result| !result.is_done())
                .map(annotation);
            let annotations: String = annotations.collect();
            self.write(&format!("::{}::\n{annotations}", self.token))?;
        }
        Ok(())
    }

    fn write(&self, text: &str) -> Result<(), Error> {
        if self.is_text {
            output::write(text.as_bytes())
        } else {
            stderr::eprint_raw(text);
            Ok(())
        }
    }
}

/// A rollout in progress may still complete, so its annotation is a warning.
fn annotation(result: &RolloutResult) -> String {
    let level = match result.exit {
        _ if result.is_skipped => "notice",
        Exit::Going => "warning",
        _ => "error",
    };
    let title = format!("{}: {}", one_line(&result.subject), result.state());
    let text = result.details();
    format!(
        "::{level} title={}::{}\n",
        property(&title),
        data(text.trim_end())
    )
}

/// Escapes the message of a workflow command.
fn data(text: &str) -> String {
    text.replace('%', "%25")
        .replace('\r', "%0D")
        .replace('\n', "%0A")
}

/// Escapes a property of a workflow command.
fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}

fn section_start(name: &str, title: &str, is_folded: bool, seconds: i64) -> String {
    let folded = if is_folded { "[collapsed=true]" } else { "" };
    let title = one_line(title);
    format!("\u{1b}[0Ksection_start:{seconds}:{name}{folded}\r\u{1b}[0K{title}\n")
}

fn section_end(name: &str, seconds: i64) -> String {
    format!("\u{1b}[0Ksection_end:{seconds}:{name}\r\u{1b}[0K\n")
}

#[cfg(test)]
mod tests {
    use super::super::tests::results;
    use super::*;

    #[test]
    fn annotation_is_a_single_command() {
        let annotations: Vec<String> = results().iter().map(annotation).collect();
        assert_eq!(
            annotations[0],
            "::error title=Deployment shop/web%3A stalled::1 of 2 pods are updated%0A  - image \"x|y\" <b>: 100%25%0A    ::error::]]> `a` ##[error]\\u{1b}[31m\u{fffe}\
             %0A    remedy: rollplan undo deploy/web -n shop\n"
        );
        assert!(annotations[2].starts_with("::warning title=Deployment shop/db%3A progressing::"));
        assert!(annotations[4].starts_with("::notice title=Thing shop/x%3A not judged::"));
        assert!(annotations[5].starts_with("::error title=Thing shop/y%3A not judged::"));
        assert!(
            annotations.iter().all(|it| it.lines().count() == 1),
            "{annotations:?}"
        );
    }

    #[test]
    fn sections_have_the_format_of_gitlab() {
        assert_eq!(
            section_start("rollplan_log", "log of\u{1b}x", true, 7),
            "\u{1b}[0Ksection_start:7:rollplan_log[collapsed=true]\r\u{1b}[0Klog of\\u{1b}x\n"
        );
        assert_eq!(
            section_end("rollplan_log", 8),
            "\u{1b}[0Ksection_end:8:rollplan_log\r\u{1b}[0K\n"
        );
    }

    #[test]
    fn tokens_differ() {
        let token = || Log::begin(None, true).unwrap().token;
        assert_ne!(token(), token());
    }
}
