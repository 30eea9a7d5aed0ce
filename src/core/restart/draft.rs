//! The unfinished decision on one workload.

use crate::time::Time;

use super::compare::Change;
use super::configuration::ConfigurationKind;
use super::drift::Source;
use super::plan::{Condition, Decision, Use};
use super::state::State;
use super::workload::Workload;

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
    /// When to resume a paused Deployment, and whether that is now.
    pub(super) resume_at: Option<Time>,
    pub(super) resumes: bool,
    pub(super) uses: Vec<Use>,
    /// The state: as stored, to be written without a restart, and to be written with one.
    pub(super) state: State,
    pub(super) recorded: State,
    pub(super) restarted: State,
    /// The changed configurations with their checksums, for Reloader's markers.
    pub(super) sources: Vec<Source<'a>>,
    /// Configurations with unapplied changes, and those without.
    pub(super) drifting: Vec<(ConfigurationKind, &'a str)>,
    pub(super) settled: Vec<(ConfigurationKind, &'a str)>,
    /// When the workload started to wait, in milliseconds.
    pub(super) since: i64,
    /// Whether a restart by rollplan is in progress.
    pub(super) is_restarting: bool,
}

pub(super) fn condition(reason: &'static str, message: String, until: Option<Time>) -> Condition {
    Condition {
        reason,
        message,
        until,
    }
}
