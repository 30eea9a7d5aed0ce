//! How a caller wants rollouts to be judged.

use rollplan_core::time::Time;

use super::class::Rules;
use crate::explain::Cause;

/// How a caller wants rollouts to be judged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VerdictOptions {
    /// When failures are certain.
    pub rules: Rules,
    /// The failure in the previous answer, and the time at which it was first reported, by the clock of the caller.
    pub previous: Option<(Cause, Time)>,
}
