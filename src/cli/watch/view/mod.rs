//! Shows the progress of a watch: as lines or rows in a log, redrawn in place on a terminal, or as messages.

mod frame;
mod live;

use std::time::Duration;

use rollplan_text::{self as text, DELETED, RowWidths, one_line};
use rollplan_wire::proto::RolloutReport;

use self::live::Live;
use super::decision::{Member, Outcome};
use crate::cli::error::Error;
use crate::cli::exit::Exit;
use crate::cli::input::Node;
use crate::cli::observe::Status;
use crate::cli::options::StatusOutput;
use crate::cli::{now, output};

/// The output of a watch.
pub(super) struct View {
    output: StatusOutput,
    live: Option<Live>,
    names: Vec<String>,
    widths: RowWidths,
    /// The last printed report and line of each rollout.
    printed: Vec<Option<(RolloutReport, String)>>,
}

// === impl View ===

impl View {
    pub(super) fn new(output: StatusOutput, live: bool) -> Self {
        let is_live = live && output.is_text() && output::is_live();
        Self {
            output,
            live: is_live.then(Live::new),
            names: Vec::new(),
            widths: RowWidths::default(),
            printed: Vec::new(),
        }
    }

    /// Whether it is redrawn in place.
    pub(super) fn is_live(&self) -> bool {
        self.live.is_some()
    }

    /// Whether it shows the objects that a rollout has created.
    pub(super) fn shows_tree(&self) -> bool {
        self.live.is_some() && self.names.len() == 1
    }

    /// Sets the names of the rollouts.
    pub(super) fn begin(&mut self, names: Vec<String>) -> Result<(), Error> {
        let columns = output::terminal_size().map(|(columns, _)| columns);
        self.widths = RowWidths::new(names.iter().map(String::as_str)).within(columns);
        self.printed = vec![None; names.len()];
        self.names = names;
        if self.live.is_none() && self.output.is_text() && self.names.len() > 1 {
            let head = text::row_head(&self.widths, self.output == StatusOutput::Wide);
            output::write(head.as_bytes())?;
        }
        Ok(())
    }

    /// Shows a rollout, if more than its times have changed.
    pub(super) fn observed(&mut self, index: usize, member: &Member) -> Result<(), Error> {
        if self.output == StatusOutput::Name {
            return match (&member.outcome, &member.last) {
                (Some(Outcome::Exit(Exit::Done)), Some(status)) => {
                    output::write(output::name(&status.response).as_bytes())
                }
                _ => Ok(()),
            };
        }
        let Some(status) = &member.last else {
            return Ok(());
        };
        if member.is_deleted && self.output.is_text() {
            return self.deleted(index, status);
        }
        let report = status.response.report.clone().unwrap_or_default();
        let line = self.line(index, status, &report);
        let key = without_times(&report);
        let last = self.printed[index].as_ref();
        if self.live.is_some() || last.is_some_and(|last| is_known(last, &key, &line)) {
            return Ok(());
        }
        self.printed[index] = Some((key, line.clone()));
        match self.output.format() {
            None => output::write(line.as_bytes()),
            Some(format) => output::print_next(format, &status.response),
        }
    }

    /// Shows that an object no longer exists.
    fn deleted(&self, index: usize, status: &Status) -> Result<(), Error> {
        if self.live.is_some() {
            return Ok(());
        }
        let is_wide = self.output == StatusOutput::Wide;
        let line = match self.names.as_slice() {
            [_] => one_line(&format!("{} is {DELETED}", status.subject)) + "\n",
            names => text::deleted_row(&self.widths, &names[index], is_wide),
        };
        output::write(line.as_bytes())
    }

    fn line(&self, index: usize, status: &Status, report: &RolloutReport) -> String {
        if self.names.len() > 1 {
            let is_wide = self.output == StatusOutput::Wide;
            return text::row(&self.widths, &self.names[index], report, is_wide);
        }
        let line = match report.message.as_str() {
            "" => &status.subject,
            message => message,
        };
        one_line(line) + "\n"
    }

    /// Redraws a live view.
    pub(super) fn draw(&mut self, members: &[Member], elapsed: Duration) -> Result<(), Error> {
        let Some(live) = &mut self.live else {
            return Ok(());
        };
        let frame = frame::Frame {
            names: &self.names,
            members,
            elapsed,
            now: now::read(),
            is_final: false,
        };
        live.draw(&frame).map_err(Error::Output)
    }

    /// Clears the view for a line on standard error.
    pub(super) fn pause(&mut self) -> Result<(), Error> {
        match &mut self.live {
            Some(live) => live.clear().map_err(Error::Output),
            None => Ok(()),
        }
    }

    /// Shows the last frame, without the text that is printed below it in full.
    pub(super) fn end(&mut self, members: &[Member]) -> Result<(), Error> {
        let Some(live) = &mut self.live else {
            return Ok(());
        };
        let frame = frame::Frame {
            names: &self.names,
            members,
            elapsed: live.elapsed(),
            now: now::read(),
            is_final: true,
        };
        live.draw(&frame).map_err(Error::Output)
    }
}

/// The objects that a rollout has created, one per line, with their age at the given time.
pub(in crate::cli) fn tree_text(tree: &[Node], now: i64) -> String {
    let outline = frame::Outline {
        glyphs: &frame::Glyphs::of_locale(),
        now,
        columns: None,
        groups: false,
    };
    let lines = outline.lines(tree);
    let lines = lines.iter().map(|line| {
        let parts = line.iter().map(|(part, _)| part.as_str());
        parts.collect::<String>() + "\n"
    });
    lines.collect()
}

/// Whether a report has only other times or texts than the last one, or the same line.
fn is_known(last: &(RolloutReport, String), report: &RolloutReport, line: &str) -> bool {
    let (last_report, last_line) = last;
    last_report == report || last_line == line
}

/// A report without the times and texts that change at every poll.
fn without_times(report: &RolloutReport) -> RolloutReport {
    let mut report = report.clone();
    report.message.clear();
    if let Some(verdict) = &mut report.verdict {
        verdict.message.clear();
        verdict.decided_after = None;
        verdict.since = None;
    }
    report.reasons.clear();
    report.deadline = None;
    for blocker in &mut report.blockers {
        blocker.message.clear();
        blocker.since = None;
        blocker.remaining = None;
        for pod in &mut blocker.pods {
            pod.message.clear();
            pod.since = None;
        }
    }
    report
}

#[cfg(test)]
mod tests {
    use rollplan_wire::proto::{Blocker, Counts, Verdict};

    use super::*;

    #[test]
    fn tree_of_a_single_rollout_is_shown_on_a_terminal() {
        for (live, names, expected) in [
            (Some(Live::new()), &["web"][..], true),
            (Some(Live::new()), &["web", "api"], false),
            (None, &["web"], false),
        ] {
            let mut view = View::new(StatusOutput::Table, false);
            view.live = live;
            view.begin(names.iter().map(ToString::to_string).collect())
                .unwrap();
            assert_eq!(view.shows_tree(), expected, "{names:?}");
        }
    }

    #[test]
    fn changed_times_and_texts_are_ignored() {
        let report = |message: &str, seconds: i64, ready: i32| {
            let time = Some(prost_types::Timestamp { seconds, nanos: 0 });
            RolloutReport {
                message: message.to_owned(),
                deadline: time,
                counts: Some(Counts {
                    ready,
                    ..Default::default()
                }),
                verdict: Some(Verdict {
                    message: message.to_owned(),
                    decided_after: time,
                    ..Default::default()
                }),
                blockers: vec![Blocker {
                    message: message.to_owned(),
                    since: time,
                    ..Default::default()
                }],
                ..Default::default()
            }
        };
        let key = |message, seconds, ready| without_times(&report(message, seconds, ready));
        assert_eq!(key("for 1s", 1, 0), key("for 3s", 3, 0));
        assert_ne!(key("for 1s", 1, 0), key("for 1s", 1, 1));
        let last = (key("for 1s", 1, 0), "for 1s".to_owned());
        for (ready, line, expected) in [
            (0, "for 1s", true),
            (0, "for 3s", true),
            (1, "for 1s", true),
            (1, "for 3s", false),
        ] {
            let report = key(line, 3, ready);
            assert_eq!(is_known(&last, &report, line), expected, "{ready} {line}");
        }
    }
}
