//! The unfinished decision on one workload.

use rollplan_core::reference::ConfigurationKind;
use rollplan_core::time::Time;

use super::compare::Change;
use super::drift::ChangedConfiguration;
use super::plan::{CALL_FAILED, Calls, Condition, Decision, Effect, Use, WRITE_UNOBSERVED};
use super::state::State;
use super::workload::{Started, Workload};

/// An hour in milliseconds.
pub(super) const HOUR: i64 = 3_600_000;

/// A decision, with the data for its writes.
#[derive(Debug)]
pub(super) struct Draft<'a> {
    pub(super) index: usize,
    pub(super) workload: &'a Workload,
    pub(super) decision: Decision,
    pub(super) changes: Vec<Change>,
    pub(super) conditions: Vec<Condition>,
    pub(super) due: Option<Time>,
    /// When to resume a paused Deployment, and whether to resume it now.
    pub(super) resume_at: Option<Time>,
    pub(super) resumes: bool,
    /// Whether a restart is certainly needed, whether this is unclear for some configuration, and when to plan again for
    /// that reason.
    pub(super) is_certain: bool,
    pub(super) is_unclear: bool,
    pub(super) retry_at: Option<Time>,
    pub(super) uses: Vec<Use>,
    /// The state: as stored, to be written without a restart, and to be written with one.
    pub(super) state: State,
    pub(super) recorded: State,
    pub(super) restarted: State,
    /// The changed configurations with their checksums, for Reloader's markers.
    pub(super) sources: Vec<ChangedConfiguration<'a>>,
    /// Configurations with unapplied changes, and those without.
    pub(super) drifting: Vec<(ConfigurationKind, &'a str)>,
    pub(super) settled: Vec<(ConfigurationKind, &'a str)>,
    /// When the workload started to wait, in milliseconds.
    pub(super) since: i64,
    /// Whether a restart by rollplan is in progress.
    pub(super) is_restarting: bool,
    /// Whether the plan has no steps, because of an earlier call.
    pub(super) is_withheld: bool,
}

// === impl Draft ===

impl Draft<'_> {
    /// Withholds the steps while the last write is not observed yet, or until a call that failed may be repeated.
    pub(super) fn withhold(&mut self, calls: &Calls) {
        let uid = &self.workload.uid;
        if let Some(is_restart) = calls.unobserved.get(uid) {
            self.is_withheld = true;
            self.is_restarting |= is_restart;
            self.decision = Decision::None;
            (self.due, self.resume_at, self.retry_at) = (None, None, None);
            let message = "the last write to the workload has not been observed yet";
            self.conditions = vec![Condition::new(Effect::Informs, WRITE_UNOBSERVED, message)];
        } else if let Some(retry_at) = calls.retry_at.get(uid)
            && self.decision != Decision::None
        {
            self.is_withheld = true;
            self.retry_at = Some(*retry_at);
            if self.decision == Decision::Restart {
                self.decision = Decision::Wait;
                self.due = Some(*retry_at);
            }
            let mut condition =
                Condition::new(Effect::Waits, CALL_FAILED, "the last call has failed");
            condition.until = Some(*retry_at);
            self.conditions.push(condition);
        }
    }

    pub(super) fn starts_unknown(&self) -> String {
        let message = match self.workload.started {
            Started::Never => {
                "pods that start now may still read an older version of a configuration"
            }
            _ => "some pods may have started without having reported it yet",
        };
        message.to_owned()
    }
}
