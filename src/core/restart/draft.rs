//! What is decided about one workload while it is being decided.

use crate::time::Time;

use super::compare::Change;
use super::configuration::ConfigurationKind;
use super::drift::Source;
use super::plan::{Condition, Decision, Use};
use super::state::State;
use super::workload::Workload;

/// An hour in milliseconds.
pub(super) const HOUR: i64 = 3_600_000;

/// A decision, and what writes are made from.
#[derive(Debug)]
pub(super) struct Draft<'a> {
    pub(super) index: usize,
    pub(super) workload: &'a Workload,
    pub(super) decision: Decision,
    pub(super) changes: Vec<Change>,
    pub(super) conditions: Vec<Condition>,
    pub(super) due: Option<Time>,
    /// When a paused Deployment is to be resumed, and whether that is now.
    pub(super) resume_at: Option<Time>,
    pub(super) resumes: bool,
    pub(super) uses: Vec<Use>,
    /// The state as it is stored, without a restart, and with one.
    pub(super) state: State,
    pub(super) recorded: State,
    pub(super) restarted: State,
    /// What the restart is for: tracked configurations with their checksums, for Reloader's markers.
    pub(super) sources: Vec<Source<'a>>,
    /// Configurations with changes, and those that are applied as they are.
    pub(super) drifting: Vec<(ConfigurationKind, &'a str)>,
    pub(super) settled: Vec<(ConfigurationKind, &'a str)>,
    /// Since when the workload has been waiting, in milliseconds.
    pub(super) since: i64,
    /// Whether a restart of ours is under way.
    pub(super) is_restarting: bool,
}

pub(super) fn condition(reason: &'static str, message: String, until: Option<Time>) -> Condition {
    Condition {
        reason,
        message,
        until,
    }
}
