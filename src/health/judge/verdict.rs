//! Whether a rollout completes by itself or needs a change. docs/reference/verdict.md explains the rules. In this order:
//!
//! 1. A change that no controller has observed is undecided, and so is a rollback that an annotation requests.
//! 2. A failure that free capacity can resolve is undecided while capacity is becoming free: pods are terminating, a node is
//!    nominated, or an autoscaler has reacted.
//! 3. A failure with a limit is certain once it exceeds the limit of its class. Everything else is undecided.

use rollplan_core::time::Time;

use crate::explain::{Blocker, Cause};

/// The verdict about a rollout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The outlook if no object is changed.
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
    /// Whether a program that waits can stop: the object is complete, or has failed.
    pub is_final: bool,
    /// Whether Kubernetes regards it as failed, too.
    pub is_reported: bool,
    /// Whether it waits for a decision of a user.
    pub awaits_user: bool,
    /// Whether it may stay as it is for any time, although nothing is wrong.
    pub is_open_ended: bool,
    /// The field selectors of the events that may explain the state or make the verdict certain.
    pub event_selectors: Vec<&'static str>,
}

/// The outlook of a rollout if no object is changed.
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
    /// A verdict from the status of the object, which therefore reports a failure.
    pub(crate) fn new(outlook: Outlook, is_certain: bool, blocker: Option<&Blocker>) -> Self {
        let needs_change = outlook == Outlook::NeedsChange;
        let is_choice = blocker
            .is_some_and(|it| matches!(it.cause, Cause::Paused | Cause::Capped | Cause::OnDelete));
        let has_failed = needs_change && !is_choice;
        Self {
            outlook,
            is_certain,
            reason: blocker.map_or("", |blocker| blocker.cause.as_str()),
            message: blocker.map_or_else(String::new, |blocker| blocker.message.clone()),
            decided_after: None,
            remedy: blocker.map_or_else(String::new, |blocker| blocker.remedy.clone()),
            since: None,
            is_final: has_failed || outlook == Outlook::Complete,
            is_reported: has_failed,
            awaits_user: needs_change && is_choice,
            is_open_ended: false,
            event_selectors: Vec::new(),
        }
    }

    /// The verdict about an object that is being deleted. It ends when the object no longer exists.
    pub(crate) fn deleting(kind: &str, blocker: Option<&Blocker>) -> Self {
        Self {
            reason: "DELETING",
            message: format!("the {kind} is being deleted"),
            is_final: false,
            is_reported: false,
            ..Self::new(Outlook::NeedsChange, true, blocker)
        }
    }
}
