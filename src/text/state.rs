//! The states of rollouts, in a word each.

use super::page::Style;
use crate::proto::Phase;

/// The state of a rollout, by the same word everywhere: that of the contract without its prefix.
pub(crate) fn state(phase: Phase) -> &'static str {
    match phase {
        Phase::Unspecified => "unknown",
        Phase::Progressing => "progressing",
        Phase::Complete => "complete",
        Phase::Paused => "paused",
        Phase::Stalled => "stalled",
        Phase::Deleting => "deleting",
        Phase::Refused => "refused",
        Phase::Degraded => "degraded",
    }
}

pub(crate) fn state_style(phase: Phase) -> Style {
    match phase {
        Phase::Complete => Style::Good,
        Phase::Stalled | Phase::Refused | Phase::Deleting => Style::Bad,
        Phase::Paused | Phase::Degraded => Style::Warn,
        Phase::Unspecified | Phase::Progressing => Style::Plain,
    }
}
