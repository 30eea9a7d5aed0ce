//! How a run ends.

use std::process::ExitCode;

use crate::proto::{Outlook, Phase, RolloutReport};

/// The reasons of verdicts about what somebody has chosen to continue by hand: a pause, and updateStrategy OnDelete.
const CHOICES: [&str; 2] = ["PAUSED", "ON_DELETE"];

/// How a run ends: its exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// Success. For a rollout: it is complete.
    Done = 0,
    /// The rollout has failed or stalled, or cannot be rolled back to the revision.
    Failed = 1,
    /// The command line or the input is invalid. A retry fails the same way.
    Usage = 2,
    /// The rollout is still in progress.
    Going = 3,
    /// A service or kubectl does not answer. A retry may help.
    Unreachable = 4,
    /// rollplan itself failed: a bug, or output that could not be written (`EX_SOFTWARE` of sysexits.h; none
    /// of the small numbers, which say something about a rollout or its input).
    Internal = 70,
}

// === impl Exit ===

impl Exit {
    /// The exit code for a report, by its verdict. docs/verdict.md has the table.
    pub(super) fn of(report: Option<&RolloutReport>) -> Self {
        let verdict = report.and_then(|report| report.verdict.as_ref());
        match verdict.map_or(Outlook::Unspecified, |verdict| verdict.outlook()) {
            Outlook::Complete => Self::Done,
            // A pause is somebody's decision, and no failure.
            Outlook::NeedsChange
                if verdict.is_some_and(|it| !CHOICES.contains(&it.reason.as_str())) =>
            {
                Self::Failed
            }
            Outlook::NeedsChange | Outlook::CompletesByItself | Outlook::Undecided => Self::Going,
            // An older service has no verdicts, and a newer one may have others.
            Outlook::Unspecified => Self::of_phase(report),
        }
    }

    fn of_phase(report: Option<&RolloutReport>) -> Self {
        match report.map_or(Phase::Unspecified, RolloutReport::phase) {
            Phase::Complete => Self::Done,
            Phase::Stalled | Phase::Refused => Self::Failed,
            // An unknown phase is not an end.
            Phase::Unspecified
            | Phase::Progressing
            | Phase::Paused
            | Phase::Deleting
            | Phase::Degraded => Self::Going,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}
