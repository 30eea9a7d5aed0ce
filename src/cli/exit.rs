//! Exit codes.

use std::process::ExitCode;

use crate::proto::{Outlook, Phase, RolloutReport};

/// The reasons of verdicts that a user's own choice causes: a pause, or update strategy OnDelete.
const CHOICES: [&str; 2] = ["PAUSED", "ON_DELETE"];

/// The exit code of a command.
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
    /// No rule judges the object.
    NotJudged = 5,
    /// rollplan itself failed: a bug, or output that could not be written (`EX_SOFTWARE` of sysexits.h, because the
    /// small codes are about rollouts and their input).
    Internal = 70,
}

// === impl Exit ===

impl Exit {
    /// The exit code for a report, by its verdict. docs/verdict.md has the table.
    pub(super) fn of(report: Option<&RolloutReport>) -> Self {
        let verdict = report.and_then(|report| report.verdict.as_ref());
        match verdict.map_or(Outlook::Unspecified, |verdict| verdict.outlook()) {
            Outlook::Complete => Self::Done,
            // A paused rollout is a user's decision, not a failure.
            Outlook::NeedsChange
                if verdict.is_some_and(|it| !CHOICES.contains(&it.reason.as_str())) =>
            {
                Self::Failed
            }
            Outlook::NeedsChange | Outlook::CompletesByItself | Outlook::Undecided => Self::Going,
            Outlook::NotJudged => Self::NotJudged,
            // Older services have no verdicts, and newer ones may have unknown outlooks.
            Outlook::Unspecified => Self::of_phase(report),
        }
    }

    fn of_phase(report: Option<&RolloutReport>) -> Self {
        match report.map_or(Phase::Unspecified, RolloutReport::phase) {
            Phase::Complete => Self::Done,
            Phase::Stalled | Phase::Refused => Self::Failed,
            Phase::NotJudged => Self::NotJudged,
            // An unknown phase may be temporary.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::Verdict;

    /// The table "Phases and exit codes" of docs/verdict.md.
    #[test]
    fn exit_codes_match_the_documented_table() {
        use Outlook::{Complete, CompletesByItself, NeedsChange, NotJudged, Undecided};
        for (phase, outlook, certain, reason, expected) in [
            (Phase::Complete, Complete, true, "", Exit::Done),
            (
                Phase::Progressing,
                Undecided,
                false,
                "STARTING",
                Exit::Going,
            ),
            (
                Phase::Progressing,
                CompletesByItself,
                false,
                "MIN_READY_SECONDS",
                Exit::Going,
            ),
            (Phase::Degraded, Undecided, false, "NOT_READY", Exit::Going),
            (
                Phase::NotJudged,
                NotJudged,
                false,
                "NOT_JUDGED",
                Exit::NotJudged,
            ),
            (
                Phase::Stalled,
                NeedsChange,
                true,
                "IMAGE_PULL",
                Exit::Failed,
            ),
            (
                Phase::Stalled,
                NeedsChange,
                false,
                "UNSCHEDULABLE",
                Exit::Failed,
            ),
            (
                Phase::Stalled,
                NeedsChange,
                true,
                "JOB_FAILED",
                Exit::Failed,
            ),
            (Phase::Stalled, Undecided, false, "STARTING", Exit::Going),
            (Phase::Paused, NeedsChange, true, "PAUSED", Exit::Going),
            (Phase::Paused, NeedsChange, true, "ON_DELETE", Exit::Going),
            (Phase::Paused, Undecided, false, "STARTING", Exit::Going),
            (Phase::Deleting, NeedsChange, true, "DELETING", Exit::Failed),
            (
                Phase::Refused,
                NeedsChange,
                true,
                "SELECTOR_EMPTY",
                Exit::Failed,
            ),
        ] {
            let report = RolloutReport {
                phase: phase.into(),
                verdict: Some(Verdict {
                    outlook: outlook.into(),
                    certain,
                    reason: reason.to_owned(),
                    ..Default::default()
                }),
                ..Default::default()
            };
            let exit = Exit::of(Some(&report));
            assert_eq!(exit, expected, "{phase:?} {outlook:?} {reason}");
        }
    }
}
