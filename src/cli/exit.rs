//! How a run ends.

use std::process::ExitCode;

use crate::proto::{Phase, RolloutReport};

/// How a run ends, as the exit code tells a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// What was asked for was done. For a rollout: it is complete.
    Done = 0,
    /// The rollout has failed or stalled, or there is no way back to a revision.
    Failed = 1,
    /// The command line or the input is wrong. The same again fails the same way.
    Usage = 2,
    /// The rollout is still going.
    Going = 3,
    /// A service or a program that is needed does not answer. Trying again may help.
    Unreachable = 4,
    /// rollplan itself failed: a bug, or output that could not be written (`EX_SOFTWARE` of sysexits.h; none
    /// of the small numbers, which say something about a rollout or its input).
    Internal = 70,
}

// === impl Exit ===

impl Exit {
    /// What a report says of its rollout.
    pub(super) fn of(report: Option<&RolloutReport>) -> Self {
        match report.map_or(Phase::Unspecified, RolloutReport::phase) {
            Phase::Complete => Self::Done,
            Phase::Stalled | Phase::Refused => Self::Failed,
            // A phase that is not known here is no end.
            Phase::Unspecified | Phase::Progressing | Phase::Paused | Phase::Deleting => {
                Self::Going
            }
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}
