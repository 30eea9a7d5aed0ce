//! Reports to CI systems: files for their pages, and lines that they interpret in a log.

mod html;
pub(super) mod json;
mod junit;
mod log;
pub(super) mod markdown;

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, ValueEnum};
use rollplan_text::{self as text, DELETED, Page, one_line, printable, state};
use rollplan_wire::proto::{ComputeStatusResponse, RolloutReport};

use self::log::Log;
use super::course::Course;
use super::error::Error;
use super::exit::Exit;
use super::goal::Goal;
use super::observe::Status;
use super::options::Output;
use super::{output, stderr};

/// What to report, besides what is printed.
#[derive(Args, Clone, Debug)]
pub(super) struct ReportArgs {
    /// Write a report at the end: junit=FILE, markdown=FILE, html=FILE or json=FILE; may be repeated
    ///
    /// junit writes a test case for each rollout, which passes if the rollout is complete or meets the condition of --for.
    /// markdown is appended to the file, for example to $GITHUB_STEP_SUMMARY. html is a page that draws each Deployment as
    /// it was, beside the forecast that was made at the start. json writes the last status of each rollout that could be
    /// read, in the format of -o json, one per line.
    #[arg(long = "report", value_name = "FORMAT=FILE", value_parser = destination)]
    destinations: Vec<Destination>,
    /// Format the output for the log of a CI system
    ///
    /// github adds an annotation for each rollout that is not complete, and keeps the runner from interpreting other output
    /// as commands. gitlab puts the polls of wait and the logs of containers into collapsible sections.
    #[arg(long, value_name = "SYSTEM", value_enum)]
    ci: Option<System>,
}

/// A file, and its format.
#[derive(Clone, Debug)]
struct Destination {
    format: Format,
    file: PathBuf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Junit,
    Markdown,
    Html,
    Json,
}

/// A CI system that interprets lines of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum System {
    /// GitHub Actions
    Github,
    /// GitLab CI/CD
    Gitlab,
}

/// The results of a command, reported at its end.
#[derive(Debug)]
pub(super) struct Reporter {
    /// The command, for example "rollplan wait".
    command: &'static str,
    /// The goal of the command.
    goal: Goal,
    /// Whether an object that is not judged counts.
    requires_judged: bool,
    destinations: Vec<Destination>,
    log: Log,
    results: Vec<RolloutResult>,
}

/// The result for one rollout.
#[derive(Debug)]
pub(super) struct RolloutResult {
    /// For example "Deployment shop/web".
    pub(super) subject: String,
    pub(super) exit: Exit,
    /// The last observation, if any.
    pub(super) last: Option<ComputeStatusResponse>,
    /// The errors that ended the observation.
    pub(super) errors: Vec<String>,
    /// How long it was watched. `None` if it was observed only once.
    pub(super) elapsed: Option<Duration>,
    /// Whether the object no longer exists.
    pub(super) is_deleted: bool,
    /// Whether it is listed only: it is not judged, and does not have to be.
    pub(super) is_skipped: bool,
    /// How it went, as far as it was watched.
    pub(super) course: Course,
}

// === impl ReportArgs ===

impl ReportArgs {
    /// Whether a CI system shows the log.
    pub(super) fn is_for_ci(&self) -> bool {
        self.ci.is_some()
    }

    /// Begins the report of a command. It fails if a file cannot be written, before the command does anything else.
    /// `requires_judged` states whether an object that is not judged counts, and `is_text` whether standard output is for
    /// people, and may contain lines for the CI system.
    ///
    /// # Errors
    ///
    /// The error names the file that cannot be written.
    pub(super) fn begin(
        self,
        command: &'static str,
        goal: Goal,
        requires_judged: bool,
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
            requires_judged,
            destinations: self.destinations,
            log: Log::begin(self.ci, is_text)?,
            results: Vec::new(),
        })
    }
}

/// Parses a destination, for example "junit=rollout.xml".
fn destination(text: &str) -> Result<Destination, String> {
    let (format, file) = text.split_once('=').unwrap_or((text, ""));
    let format = match format {
        "junit" => Format::Junit,
        "markdown" => Format::Markdown,
        "html" => Format::Html,
        "json" => Format::Json,
        _ => {
            return Err(
                "unknown report; must be junit=FILE, markdown=FILE, html=FILE or json=FILE"
                    .to_owned(),
            );
        }
    };
    match file {
        "" => Err("missing file, for example junit=rollout.xml".to_owned()),
        file => Ok(Destination {
            format,
            file: PathBuf::from(file),
        }),
    }
}

// === impl Reporter ===

impl Reporter {
    /// Adds the result for a rollout.
    pub(super) fn add(&mut self, result: RolloutResult) {
        self.results.push(RolloutResult {
            is_skipped: result.exit == Exit::NotJudged && !self.requires_judged,
            ..result
        });
    }

    /// Whether an object that is not judged counts.
    pub(super) fn requires_judged(&self) -> bool {
        self.requires_judged
    }

    /// Whether a report draws the rollouts.
    pub(super) fn draws(&self) -> bool {
        self.destinations.iter().any(|it| it.format == Format::Html)
    }

    /// Notes how many objects were listed only.
    pub(super) fn note_skipped(&self) {
        let skipped = self.results.iter().filter(|it| it.is_skipped).count();
        if skipped > 0 {
            let all = self.results.len();
            stderr::eprint_note(format_args!(
                "{skipped} of {all} not judged; --require-judged exits with 5 then"
            ));
        }
    }

    /// Begins a section of the log that readers can fold. The previous section ends.
    pub(super) fn section(
        &mut self,
        name: &str,
        title: &str,
        is_folded: bool,
    ) -> Result<(), Error> {
        self.log.section(name, title, is_folded)
    }

    /// Ends the current section of the log, if any.
    pub(super) fn end_section(&mut self) -> Result<(), Error> {
        self.log.end_section()
    }

    /// Writes the reports. An error of the command itself is reported, too.
    ///
    /// # Errors
    ///
    /// The error of the command; otherwise the error about a file that could not be written.
    pub(super) fn end(mut self, result: Result<Exit, Error>) -> Result<Exit, Error> {
        if let Err(error) = &result {
            self.add_error(error);
        }
        match (result, self.report()) {
            (Ok(Exit::Done), Err(error)) => Err(error),
            (result, Err(error)) => {
                stderr::eprint_error(&error.texts());
                result
            }
            (result, Ok(())) => result,
        }
    }

    /// Adds an error, unless a rollout already has it: a failed command never reports only successes.
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
                is_skipped: false,
                course: Course::default(),
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
                    file.write_all(markdown::document(command, &self.goal, results).as_bytes())
                }),
                Format::Html => fs::write(file, html::document(command, &self.goal, results)),
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

/// The last response for each rollout.
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
    /// The result for a rollout that was observed once.
    pub(super) fn observed(status: Status) -> Self {
        Self {
            subject: status.subject,
            exit: Exit::of(status.response.report.as_ref()),
            last: Some(status.response),
            errors: Vec::new(),
            elapsed: None,
            is_deleted: false,
            is_skipped: false,
            course: Course::default(),
        }
    }

    fn report(&self) -> Option<&RolloutReport> {
        self.last.as_ref()?.report.as_ref()
    }

    fn is_done(&self) -> bool {
        self.exit == Exit::Done
    }

    /// The state in one word, independent of the goal.
    fn state(&self) -> &'static str {
        match self.report() {
            _ if self.is_deleted => DELETED,
            Some(report) => state(report.phase()),
            None => "unknown",
        }
    }

    /// Why it did not succeed, on one line.
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

    /// Why it did not succeed, and how to fix it.
    fn details(&self) -> String {
        let errors = self.errors.iter().map(|error| printable(error) + "\n");
        let mut page = Page::unwrapped();
        if let Some(report) = self.report() {
            text::summary(&mut page, report);
        }
        errors.collect::<String>() + &page.into_text()
    }

    /// The reason of the verdict, or else a word for the result.
    fn reason(&self) -> String {
        let verdict = self.report().and_then(|report| report.verdict.as_ref());
        match verdict.map(|verdict| verdict.reason.as_str()) {
            Some(reason) if !reason.is_empty() && !self.is_deleted => reason.to_owned(),
            _ => self.state().to_uppercase().replace(' ', "_"),
        }
    }
}

#[cfg(test)]
mod tests {
    use rollplan_wire::proto::{Blocker, Counts, Phase, Verdict};

    use super::*;

    /// A rollout that failed with text that is special in every format, a complete one, an undecided one, and one that
    /// could not be read.
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
                is_skipped: false,
                course: Course::default(),
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
        let unjudged = RolloutReport {
            blockers: vec![Blocker {
                message: "no rule".to_owned(),
                ..Default::default()
            }],
            counts: None,
            ..report(Phase::NotJudged, 0)
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
            RolloutResult {
                is_skipped: true,
                ..result("Thing shop/x", Exit::NotJudged, Some(unjudged.clone()), &[])
            },
            result("Thing shop/y", Exit::NotJudged, Some(unjudged), &[]),
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
        for wrong in ["", "junit", "junit=", "pdf=x", "=x"] {
            assert!(destination(wrong).is_err(), "{wrong}");
        }
    }
    #[test]
    fn state_is_that_of_the_last_observation() {
        let mut results = results();
        let states = |results: &[RolloutResult]| {
            let states = results.iter().map(RolloutResult::state);
            states.collect::<Vec<_>>()
        };
        let observed = [
            "stalled",
            "complete",
            "progressing",
            "unknown",
            "not judged",
            "not judged",
        ];
        assert_eq!(states(&results), observed);
        // Available is not complete, even with exit code 0.
        results[2].exit = Exit::Done;
        assert_eq!(states(&results), observed);
        results.iter_mut().for_each(|it| it.is_deleted = true);
        assert_eq!(states(&results), ["deleted"; 6]);
        assert_eq!(results[0].reason(), "DELETED");
    }
}
