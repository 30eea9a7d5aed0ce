//! How a caller wants rollouts to be judged.

use super::class::Rules;
use crate::diagnosis::cause::Cause;
use rollplan_core::time::Time;

/// How a caller wants rollouts to be judged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Judgement {
    /// When failures are certain.
    pub rules: Rules,
    /// The failure that the previous answer reported, and when it was reported first, by the clock of the caller.
    pub previous: Option<(Cause, Time)>,
}
