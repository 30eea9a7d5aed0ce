//! What a run reports to a CI system: files for its pages, and lines that it finds in a log.

mod junit;
mod log;
mod markdown;

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, ValueEnum};

use self::log::Log;
use super::error::Error;
use super::exit::Exit;
use super::observe::Status;
use super::options::{Goal, Output};
use super::{output, stderr};
use crate::proto::{ComputeStatusResponse, RolloutReport};
use crate::text::{self, DELETED, Page, one_line, printable, state};

/// What to report, besides what is printed.
#[derive(Args, Clone, Debug)]
pub(super) struct ReportArgs {
    /// A report to write at the end: junit=FILE, markdown=FILE or json=FILE; may be repeated
    ///
    /// JUnit XML has a test case for each rollout, which passes if it is complete, or what --for names is reached. Markdown is appended to the file,
    /// for example to the one that GITHUB_STEP_SUMMARY names. JSON is what -o json prints at last, a line for each rollout that
    /// could be read.
    #[arg(long = "report", value_name = "FORMAT=FILE", value_parser = destination)]
    destinations: Vec<Destination>,
    /// The CI system that shows the log
    ///
    /// With github, each rollout that is not complete becomes an annotation, and nothing else in the output is taken for a
    /// command of the runner. With gitlab, the polls of wait and the logs of containers are sections.
    #[arg(long, value_name = "SYSTEM", value_enum)]
    ci: Option<System>,
}

/// A file, and what it is to contain.
#[derive(Clone, Debug)]
struct Destination {
    format: Format,
    file: PathBuf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Junit,
    Markdown,
    Json,
}

/// A CI system whose log understands more than plain lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum System {
    /// GitHub Actions
    Github,
    /// GitLab CI/CD
    Gitlab,
}

/// The results of a run, which are reported when it ends.
#[derive(Debug)]
pub(super) struct Reporter {
    /// The command, for example "rollplan wait".
    command: &'static str,
    /// What it waits for.
    goal: Goal,
    destinations: Vec<Destination>,
    log: Log,
    results: Vec<RolloutResult>,
}

/// How it ended for one rollout.
#[derive(Debug)]
pub(super) struct RolloutResult {
    /// For example "Deployment shop/web".
    pub(super) subject: String,
    pub(super) exit: Exit,
    /// What was observed last, if anything was.
    pub(super) last: Option<ComputeStatusResponse>,
    /// Why nothing more was observed.
    pub(super) errors: Vec<String>,
    /// How long it was watched. `None` if it was observed once.
    pub(super) elapsed: Option<Duration>,
    /// Whether it no longer exists.
    pub(super) is_deleted: bool,
}

// === impl ReportArgs ===

impl ReportArgs {
    /// Whether the log is that of a CI system.
    pub(super) fn is_for_ci(&self) -> bool {
        self.ci.is_some()
    }

    /// Begins the report of a run. A file that cannot be written fails it before anything else is done. `is_text` says whether
    /// standard output is for people, and may have lines for the CI system.
    ///
    /// # Errors
    ///
    /// Names the file that cannot be written.
    pub(super) fn begin(
        self,
        command: &'static str,
        goal: Goal,
        is_text: bool,
    ) -> Result<Reporter, Error> {
        for Destination { file, .. } in &self.destinations {
            append(file).map_err(|error| {
                Error::Usage(format!(
                    "--report: cannot write to {}: {error}",
                    file.display()
                ))
            })?;
        }
        Ok(Reporter {
            command,
            goal,
            destinations: self.destinations,
            log: Log::begin(self.ci, is_text)?,
            results: Vec::new(),
        })
    }
}

/// Reads a destination, for example "junit=rollout.xml".
fn destination(text: &str) -> Result<Destination, String> {
    let (format, file) = text.split_once('=').unwrap_or((text, ""));
    let format = match format {
        "junit" => Format::Junit,
        "markdown" => Format::Markdown,
        "json" => Format::Json,
        _ => return Err("not a report; one of junit=FILE, markdown=FILE and json=FILE".to_owned()),
    };
    match file {
        "" => Err("missing the file, for example junit=rollout.xml".to_owned()),
        file => Ok(Destination {
            format,
            file: PathBuf::from(file),
        }),
    }
}

// === impl Reporter ===

impl Reporter {
    /// Adds how it ended for a rollout.
    pub(super) fn add(&mut self, result: RolloutResult) {
        self.results.push(result);
    }

    /// Begins a part of the log that a reader may fold; a part that has begun ends.
    pub(super) fn section(
        &mut self,
        name: &str,
        title: &str,
        is_folded: bool,
    ) -> Result<(), Error> {
        self.log.section(name, title, is_folded)
    }

    /// Ends the part of the log that has begun, if any.
    pub(super) fn end_section(&mut self) -> Result<(), Error> {
        self.log.end_section()
    }

    /// Reports the results, and that of the run itself if it failed for another reason.
    ///
    /// # Errors
    ///
    /// That of the run; otherwise names the file that could not be written.
    pub(super) fn end(mut self, result: Result<Exit, Error>) -> Result<Exit, Error> {
        if let Err(error) = &result {
            self.add_error(error);
        }
        match (result, self.report()) {
            (Ok(Exit::Done), Err(error)) => Err(error),
            (result, Err(error)) => {
                stderr::eprint_error(&error);
                result
            }
            (result, Ok(())) => result,
        }
    }

    /// Adds an error, unless a rollout has it: a run that failed is never reported as one without failures.
    pub(super) fn add_error(&mut self, error: &Error) {
        let errors = error.texts();
        if self.results.iter().all(|result| result.errors != errors) {
            self.results.push(RolloutResult {
                subject: self.command.to_owned(),
                exit: error.exit(),
                last: None,
                errors,
                elapsed: None,
                is_deleted: false,
            });
        }
    }

    fn report(&mut self) -> Result<(), Error> {
        self.log.end(&self.results)?;
        for Destination { format, file } in &self.destinations {
            let (command, results) = (self.command, self.results.as_slice());
            let written = match format {
                Format::Junit => {
                    junit::document(command, results).and_then(|document| fs::write(file, document))
                }
                Format::Markdown => append(file).and_then(|mut file| {
                    file.write_all(markdown::document(command, self.goal, results).as_bytes())
                }),
                Format::Json => fs::write(file, lines(results)?),
            };
            written.map_err(|source| Error::Report {
                file: file.display().to_string(),
                source,
            })?;
        }
        Ok(())
    }
}

/// The last response about each rollout.
fn lines(results: &[RolloutResult]) -> Result<String, Error> {
    let responses = results.iter().filter_map(|result| result.last.as_ref());
    responses
        .map(|response| output::text(Output::Json, response, |_| {}))
        .collect()
}

fn append(file: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).open(file)
}

// === impl RolloutResult ===

impl RolloutResult {
    /// Of a rollout that was observed once.
    pub(super) fn observed(status: Status) -> Self {
        Self {
            subject: status.subject,
            exit: Exit::of(status.response.report.as_ref()),
            last: Some(status.response),
            errors: Vec::new(),
            elapsed: None,
            is_deleted: false,
        }
    }

    fn report(&self) -> Option<&RolloutReport> {
        self.last.as_ref()?.report.as_ref()
    }

    fn is_done(&self) -> bool {
        self.exit == Exit::Done
    }

    /// The state in a word, whatever was waited for.
    fn state(&self) -> &'static str {
        match self.report() {
            _ if self.is_deleted => DELETED,
            Some(report) => state(report.phase()),
            None => "unknown",
        }
    }

    /// Why it has not ended well, on one line.
    fn headline(&self) -> String {
        let report = self.report();
        let cause = report.and_then(|report| report.blockers.first());
        let text = match (self.errors.first(), cause, report) {
            (Some(error), ..) => error,
            (None, Some(cause), _) => &cause.message,
            (None, None, Some(report)) => &report.message,
            (None, None, None) => "no answer",
        };
        one_line(text)
    }

    /// Why it has not ended well, and what to do.
    fn details(&self) -> String {
        let errors = self.errors.iter().map(|error| printable(error) + "\n");
        let mut page = Page::new(false);
        if let Some(report) = self.report() {
            text::summary(&mut page, report);
        }
        errors.collect::<String>() + &page.into_text()
    }

    /// The reason of the verdict, or what else it is called.
    fn reason(&self) -> String {
        let verdict = self.report().and_then(|report| report.verdict.as_ref());
        match verdict.map(|verdict| verdict.reason.as_str()) {
            Some(reason) if !reason.is_empty() && !self.is_deleted => reason.to_owned(),
            _ => self.state().to_uppercase(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::{Blocker, Counts, Phase, Verdict};

    /// A rollout that failed with a text that tries to be something else everywhere, one that is complete, one that was not
    /// decided and one that could not be read.
    pub(super) fn results() -> Vec<RolloutResult> {
        let report = |phase: Phase, updated| RolloutReport {
            phase: phase.into(),
            counts: Some(Counts {
                desired: 2,
                updated,
                available: 2,
                ..Default::default()
            }),
            message: "1 of 2 pods are updated".to_owned(),
            ..Default::default()
        };
        let result =
            |subject: &str, exit, report: Option<RolloutReport>, errors: &[&str]| RolloutResult {
                subject: subject.to_owned(),
                exit,
                last: report.map(|report| ComputeStatusResponse {
                    report: Some(report),
                    ..Default::default()
                }),
                errors: errors.iter().map(|&error| error.to_owned()).collect(),
                elapsed: Some(Duration::from_millis(12_340)),
                is_deleted: false,
            };
        let failed = RolloutReport {
            blockers: vec![Blocker {
                reason: "IMAGE_PULL".to_owned(),
                message: "image \"x|y\" <b>: 100%\n::error::]]> `a` ##[error]\u{1b}[31m\u{fffe}"
                    .to_owned(),
                remedy: "rollplan undo deploy/web -n shop".to_owned(),
                ..Default::default()
            }],
            verdict: Some(Verdict {
                reason: "IMAGE_PULL".to_owned(),
                ..Default::default()
            }),
            ..report(Phase::Stalled, 1)
        };
        vec![
            result("Deployment shop/web", Exit::Failed, Some(failed), &[]),
            result(
                "Deployment shop/api",
                Exit::Done,
                Some(report(Phase::Complete, 2)),
                &[],
            ),
            result(
                "Deployment shop/db",
                Exit::Going,
                Some(report(Phase::Progressing, 1)),
                &[],
            ),
            result(
                "shop/gone",
                Exit::Usage,
                None,
                &["deployments.apps \"gone\" not found"],
            ),
        ]
    }

    #[test]
    fn destinations_name_a_format_and_a_file() {
        let read = |text: &str| destination(text).map(|it| (it.format, it.file));
        assert_eq!(
            read("junit=a=b.xml"),
            Ok((Format::Junit, PathBuf::from("a=b.xml")))
        );
        assert_eq!(
            read("markdown=s.md"),
            Ok((Format::Markdown, PathBuf::from("s.md")))
        );
        for wrong in ["", "junit", "junit=", "html=x", "=x"] {
            assert!(destination(wrong).is_err(), "{wrong}");
        }
    }
    #[test]
    fn states_are_those_that_were_observed() {
        let mut results = results();
        let states = |results: &[RolloutResult]| {
            let states = results.iter().map(RolloutResult::state);
            states.collect::<Vec<_>>()
        };
        let observed = ["stalled", "complete", "progressing", "unknown"];
        assert_eq!(states(&results), observed);
        // Whatever the exit code: available is not complete.
        results[2].exit = Exit::Done;
        assert_eq!(states(&results), observed);
        results.iter_mut().for_each(|it| it.is_deleted = true);
        assert_eq!(states(&results), ["deleted"; 4]);
        assert_eq!(results[0].reason(), "DELETED");
    }
}
