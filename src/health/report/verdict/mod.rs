//! Whether a rollout completes by itself or needs a change. docs/verdict.md explains the rules, which are in this order:
//!
//! 1. What no controller has observed is undecided, and so is a rollout that an annotation rolls back.
//! 2. What room can resolve is undecided while room is being made: pods terminate, a node is nominated, an autoscaler answered.
//! 3. A failure of a definite class is certain past its limit. Everything else is undecided.

mod rollout;
pub(crate) mod weighing;

use crate::diagnosis::Blocker;
use rollplan_core::time::Time;

/// The verdict about a rollout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// What becomes of the rollout if nobody changes an object.
    pub outlook: Outlook,
    /// Whether the outlook is certain.
    pub is_certain: bool,
    /// The machine-readable reason. Empty if nothing is missing.
    pub reason: &'static str,
    /// A human-readable sentence.
    pub message: String,
    /// When it will be decided if nothing changes.
    pub decided_after: Option<Time>,
    /// The command or change that resolves it. Empty if only time helps.
    pub remedy: String,
    /// The time of the first snapshot that showed this failure.
    pub since: Option<Time>,
}

/// What becomes of a rollout if nobody changes an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outlook {
    /// It is complete.
    Complete,
    /// Nothing fails, and only time is missing.
    CompletesByItself,
    /// No controller, kubelet or scheduler resolves it.
    NeedsChange,
    /// It may complete or not.
    Undecided,
    /// No rule judges it.
    NotJudged,
}

impl Verdict {
    pub(crate) fn new(outlook: Outlook, is_certain: bool, blocker: Option<&Blocker>) -> Self {
        Self {
            outlook,
            is_certain,
            reason: blocker.map_or("", |blocker| blocker.cause.as_str()),
            message: blocker.map_or_else(String::new, |blocker| blocker.message.clone()),
            decided_after: None,
            remedy: blocker.map_or_else(String::new, |blocker| blocker.remedy.clone()),
            since: None,
        }
    }
}
