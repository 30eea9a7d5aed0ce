//! Exit codes.

use std::process::ExitCode;

use rollplan_wire::proto::{Outlook, Phase, RolloutReport};

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
    /// The exit code if a part of the input could not be read: a failed rollout takes precedence.
    pub(super) fn of_input(self, is_partial: bool) -> Self {
        match self {
            Self::Done | Self::Going | Self::NotJudged if is_partial => Self::Usage,
            exit => exit,
        }
    }

    /// The exit code for a report, by its verdict. docs/reference/verdict.md has the table.
    pub(super) fn of(report: Option<&RolloutReport>) -> Self {
        let verdict = report.and_then(|report| report.verdict.as_ref());
        match verdict.map_or(Outlook::Unspecified, |verdict| verdict.outlook()) {
            Outlook::Complete => Self::Done,
            Outlook::NotJudged => Self::NotJudged,
            // A rollout that waits for a decision of a user has not failed.
            Outlook::NeedsChange if verdict.is_some_and(|verdict| !verdict.awaits_user) => {
                Self::Failed
            }
            Outlook::NeedsChange | Outlook::CompletesByItself | Outlook::Undecided => Self::Going,
            // Newer services may have unknown outlooks.
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
    use rollplan_wire::proto::Verdict;

    use super::*;

    /// The table "Phases and exit codes" of docs/reference/verdict.md.
    #[test]
    fn exit_codes_match_the_documented_table() {
        use Outlook::{Complete, CompletesByItself, NeedsChange, NotJudged, Undecided};
        for (phase, outlook, awaits_user, expected) in [
            (Phase::Complete, Complete, false, Exit::Done),
            (Phase::Progressing, Undecided, false, Exit::Going),
            (Phase::Progressing, CompletesByItself, false, Exit::Going),
            // A canary is held.
            (Phase::Progressing, Undecided, true, Exit::Going),
            (Phase::Degraded, Undecided, false, Exit::Going),
            (Phase::NotJudged, NotJudged, false, Exit::NotJudged),
            (Phase::Stalled, NeedsChange, false, Exit::Failed),
            (Phase::Stalled, Undecided, false, Exit::Going),
            (Phase::Paused, NeedsChange, true, Exit::Going),
            // The pods of a paused rollout fail.
            (Phase::Paused, NeedsChange, false, Exit::Failed),
            (Phase::Paused, Undecided, false, Exit::Going),
            (Phase::Deleting, NeedsChange, false, Exit::Failed),
            (Phase::Refused, NeedsChange, false, Exit::Failed),
        ] {
            let report = RolloutReport {
                phase: phase.into(),
                verdict: Some(Verdict {
                    outlook: outlook.into(),
                    awaits_user,
                    ..Default::default()
                }),
                ..Default::default()
            };
            let exit = Exit::of(Some(&report));
            assert_eq!(exit, expected, "{phase:?} {outlook:?} {awaits_user}");
        }
    }
}
