//! Decides when the watch of one rollout ends, and with which result.

use std::time::Duration;

use rollplan_text::{DELETED, Numbers, Style, state, state_style};
use rollplan_wire::proto;

use super::{Failures, Time};
use crate::cli::course::{Course, Purposes};
use crate::cli::error::Error;
use crate::cli::exit::Exit;
use crate::cli::goal::{Finding, Goal};
use crate::cli::now;
use crate::cli::observe::{Status, StatusOptions};
use crate::cli::options::{JudgementArgs, Switch};
use crate::cli::planner::Planner;
use crate::cli::report::RolloutResult;

/// How long a rollout without a deadline may make no progress.
pub(super) const STALLED_AFTER: Duration = Duration::from_secs(600);

/// The state whose changes are progress: the numbers of pods, and the new ReplicaSet.
type Progress = (Option<proto::Counts>, Vec<proto::Counter>, String);

/// A watched rollout.
#[derive(Debug)]
pub(super) struct Member {
    /// For example "Deployment shop/web". Before the first observation, the name from the command line.
    pub(super) subject: String,
    pub(super) options: StatusOptions,
    /// The last observation.
    pub(super) last: Option<Status>,
    pub(super) outcome: Option<Outcome>,
    /// The time of the last poll, since the start.
    pub(super) elapsed: Duration,
    /// Whether the object no longer exists.
    pub(super) is_deleted: bool,
    /// Set if the last polls did not find the object, and it may be created again.
    pub(super) absence: Option<Absence>,
    pub(super) goal: Goal,
    fail_fast: Switch,
    /// How long it may be not judged.
    unjudged_after: Duration,
    /// How long it may be missing before it counts as deleted.
    pub(super) deleted_after: Duration,
    /// The time of the first of the last polls that did not judge it.
    unjudged_since: Option<Duration>,
    /// Whether the wait has a timeout.
    has_timeout: bool,
    /// The actual value, if it differs from the one to wait for.
    pub(super) unmet: Option<String>,
    pub(super) failures: Failures,
    /// The last progress, and its time.
    progress: Option<(Progress, Duration)>,
    pub(super) course: Course,
}

/// The state of an object that was observed before and does not exist now.
#[derive(Debug)]
pub(super) struct Absence {
    /// The error message.
    pub(super) text: String,
    /// The number of consecutive polls that did not find it.
    pub(super) polls: usize,
    /// The time of the first of them.
    pub(super) since: Duration,
}

/// The result of the watch of a rollout.
#[derive(Debug)]
pub(super) enum Outcome {
    Exit(Exit),
    /// No progress for ten minutes, and no deadline.
    Stalled,
    Error(Error),
}

/// How urgently a rollout needs attention, the most urgent first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Urgency {
    /// It will not complete.
    Failed,
    /// An object must be changed, or may have to be.
    NeedsChange,
    /// Time may be enough.
    Pending,
    Done,
}

/// A change that the user is notified of.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum News {
    /// Another object has the same name. Contains the old and the new UID.
    Recreated(String, String),
    None,
}

// === impl Member ===

impl Member {
    pub(super) fn new(
        name: &str,
        goal: Goal,
        judgement: &JudgementArgs,
        has_timeout: bool,
    ) -> Self {
        let JudgementArgs {
            fail_fast,
            fail_on,
            // It concerns all objects together.
            require_judged: _,
            unjudged_after,
            deleted_after,
        } = judgement;
        Self {
            subject: name.to_owned(),
            options: StatusOptions {
                fail_on: fail_on.clone(),
                previous: None,
            },
            last: None,
            outcome: None,
            elapsed: Duration::ZERO,
            is_deleted: false,
            absence: None,
            goal,
            fail_fast: *fail_fast,
            unjudged_after: *unjudged_after,
            deleted_after: *deleted_after,
            unjudged_since: None,
            has_timeout,
            unmet: None,
            failures: Failures::default(),
            progress: None,
            course: Course::default(),
        }
    }

    /// Handles an observation at the given time since the start.
    pub(super) fn take(&mut self, status: Status, elapsed: Duration) -> News {
        self.failures.reset();
        self.absence = None;
        let report = status.response.report.clone().unwrap_or_default();
        let last = self.last.as_ref();
        let former = last.map(|last| last.uid.clone()).unwrap_or_default();
        let is_another = !former.is_empty() && former != status.uid;
        let replica_set = last.and_then(|last| last.response.report.as_ref());
        // Failures of one ReplicaSet are not evidence about another.
        let is_same =
            !is_another && replica_set.is_none_or(|it| it.replica_set == report.replica_set);
        self.options.previous = report.verdict.clone().filter(|_| is_same);
        if is_another {
            self.progress = None;
            self.course = Course::default();
            self.unjudged_since = None;
        }
        let news = if is_another {
            News::Recreated(former, status.uid.clone())
        } else {
            News::None
        };
        self.subject.clone_from(&status.subject);
        let refusal = self.refusal(&status, &report);
        self.course
            .observe(&report, &status.tree, now::read(), elapsed);
        self.last = Some(status);
        self.is_deleted = is_another && self.goal == Goal::Deleted;
        self.outcome = if self.is_deleted {
            Some(Outcome::Exit(Exit::Done))
        } else {
            self.exit(&report, elapsed).map(Outcome::Exit)
        };
        if let Some(refusal) = refusal {
            self.outcome = Some(Outcome::Error(Error::Usage(refusal)));
        }
        if self.is_stalled(&report, elapsed) && self.outcome.is_none() {
            self.outcome = Some(Outcome::Stalled);
        }
        news
    }

    /// Forecasts the rest of the rollout from what was just observed.
    pub(super) fn forecast(
        &mut self,
        planner: &Planner,
        snapshot: Option<proto::Snapshot>,
        purposes: Purposes,
    ) {
        let last = self.last.as_ref();
        let report = last.and_then(|last| last.response.report.as_ref());
        if let (Some(snapshot), Some(report)) = (snapshot, report) {
            let elapsed = self.elapsed;
            self.course
                .forecast(planner, snapshot, report, elapsed, purposes);
        }
    }

    /// Handles a failed poll. Returns the error if the poll is to be repeated.
    pub(super) fn take_error(&mut self, error: Error, time: Time<'_>) -> Option<Error> {
        if matches!(error, Error::Absent(_)) && self.goal == Goal::Deleted {
            self.is_deleted = true;
            self.outcome = Some(Outcome::Exit(Exit::Done));
            return None;
        }
        match self.failures.take(error, time, Duration::ZERO) {
            Ok(error) => Some(error),
            Err(error) => {
                self.outcome = Some(Outcome::Error(error));
                None
            }
        }
    }

    /// The exit code, also for an undecided rollout.
    pub(super) fn result(&self) -> Exit {
        match &self.outcome {
            Some(Outcome::Exit(exit)) => *exit,
            Some(Outcome::Error(error)) => error.exit(),
            Some(Outcome::Stalled) | None => Exit::Going,
        }
    }

    /// The result for reports to CI systems.
    pub(super) fn rollout_result(&self) -> RolloutResult {
        RolloutResult {
            subject: self.subject.clone(),
            exit: self.result(),
            last: self.last.as_ref().map(|last| last.response.clone()),
            errors: match &self.outcome {
                Some(Outcome::Error(error)) => error.texts(),
                _ => Vec::new(),
            },
            elapsed: Some(self.elapsed),
            is_deleted: self.is_deleted,
            is_skipped: false,
            course: self.course.clone(),
        }
    }

    /// The last report, if the object exists and has not reached the goal.
    pub(super) fn unfinished(&self) -> Option<&proto::RolloutReport> {
        self.report()
            .filter(|_| !self.is_done() && !self.is_deleted)
    }

    /// Its state in one word, with the style of that word.
    pub(super) fn state(&self) -> (&'static str, Style) {
        match self.report().map(proto::RolloutReport::phase) {
            _ if self.is_deleted => (DELETED, Style::Plain),
            phase => {
                let phase = phase.unwrap_or_default();
                (state(phase), state_style(phase))
            }
        }
    }

    pub(super) fn urgency(&self) -> Urgency {
        let Some(report) = self.report().filter(|_| !self.is_deleted) else {
            return if self.is_done() {
                Urgency::Done
            } else {
                Urgency::Pending
            };
        };
        let verdict = report.verdict.clone().unwrap_or_default();
        let has_remedy = |it: &proto::Blocker| !it.remedy.is_empty();
        match self.result() {
            Exit::Done => Urgency::Done,
            Exit::Failed | Exit::Usage => Urgency::Failed,
            _ if self.state().1 == Style::Bad => Urgency::Failed,
            _ if verdict.outlook() == proto::Outlook::NeedsChange => Urgency::NeedsChange,
            _ if report.blockers.first().is_some_and(has_remedy) => Urgency::NeedsChange,
            _ => Urgency::Pending,
        }
    }

    pub(super) fn is_done(&self) -> bool {
        self.result() == Exit::Done
    }

    pub(super) fn report(&self) -> Option<&proto::RolloutReport> {
        self.last.as_ref()?.response.report.as_ref()
    }

    /// The exit code if the rollout has reached the goal or failed.
    fn exit(&mut self, report: &proto::RolloutReport, elapsed: Duration) -> Option<Exit> {
        let numbers = Numbers::of(report);
        let is_complete = Exit::of(Some(report)) == Exit::Done;
        let has = |number: Option<i64>, wanted: Option<i64>| match number.zip(wanted) {
            Some((number, wanted)) => report.observed && number >= wanted,
            None => is_complete,
        };
        let is_reached = match &self.goal {
            Goal::Complete => is_complete,
            Goal::Available => has(numbers.available, numbers.desired),
            Goal::Updated => has(numbers.updated, numbers.to_update),
            Goal::Deleted => return None,
            // Only the value decides, because a user may wait for a failure.
            Goal::Field(_) => return self.unmet.is_none().then_some(Exit::Done),
        };
        if is_reached {
            return Some(Exit::Done);
        }
        if Exit::of(Some(report)) == Exit::NotJudged {
            let since = *self.unjudged_since.get_or_insert(elapsed);
            let is_over = elapsed.saturating_sub(since) >= self.unjudged_after;
            return is_over.then_some(Exit::NotJudged);
        }
        self.unjudged_since = None;
        let verdict = report.verdict.clone().unwrap_or_default();
        let has_failed = verdict.r#final && Exit::of(Some(report)) == Exit::Failed;
        let ends = has_failed && (self.fail_fast == Switch::On || verdict.reported);
        ends.then_some(Exit::Failed)
    }

    /// The error if the object can never reach the goal. For kinds that rollplan does not know, this is known only after the
    /// first read.
    fn refusal(&mut self, status: &Status, report: &proto::RolloutReport) -> Option<String> {
        match &self.goal {
            Goal::Available | Goal::Updated => {
                let lacks_numbers = report.generic;
                lacks_numbers.then(|| self.goal.refusal(&status.kind()))
            }
            Goal::Field(field) => {
                let object = status.object.as_ref();
                match object.map_or(Finding::Unmet(String::new()), |it| field.test(it)) {
                    Finding::Met => self.unmet = None,
                    Finding::Unmet(text) => self.unmet = Some(text),
                    Finding::Invalid(text) => return Some(format!("--for={field}: {text}")),
                }
                None
            }
            Goal::Complete | Goal::Deleted => None,
        }
    }

    /// Whether the rollout has made no progress for ten minutes and has no deadline.
    fn is_stalled(&mut self, report: &proto::RolloutReport, elapsed: Duration) -> bool {
        let progress = (
            report.counts.clone(),
            report.counters.clone(),
            report.replica_set.clone(),
        );
        let since = match &self.progress {
            Some((last, since)) if *last == progress => *since,
            _ => {
                self.progress = Some((progress, elapsed));
                elapsed
            }
        };
        let verdict = report.verdict.as_ref();
        let has_end = report.deadline.is_some()
            || verdict.is_some_and(|it| it.open_ended || it.decided_after.is_some());
        // Nothing shows how far a value has come, so a timeout is the only limit.
        let has_end = has_end
            || self.unjudged_since.is_some()
            || matches!(self.goal, Goal::Field(_)) && self.has_timeout;
        self.goal != Goal::Deleted && !has_end && elapsed.saturating_sub(since) >= STALLED_AFTER
    }
}

/// The most important of several exit codes: a failed rollout precedes an error, an error precedes a rollout in progress,
/// and that precedes one that is not judged, if it counts.
pub(in crate::cli) fn worst(exits: &[Exit], requires_judged: bool) -> Exit {
    let rank = |exit: &Exit| match exit {
        Exit::Failed => 6,
        Exit::Internal => 5,
        Exit::Usage => 4,
        Exit::Unreachable => 3,
        Exit::Going => 2,
        Exit::NotJudged => 1,
        Exit::Done => 0,
    };
    let exits = exits.iter().copied();
    let counted = exits.filter(|exit| requires_judged || *exit != Exit::NotJudged);
    counted.max_by_key(rank).unwrap_or(Exit::Done)
}

#[cfg(test)]
mod tests;
