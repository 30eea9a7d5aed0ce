//! The input of the restart planner, and its plan.

use std::collections::BTreeMap;

use rollplan_core::action::{ApiCall, Event};
use rollplan_core::reference::{ConfigurationKind, Usage};
use rollplan_core::snapshot::StringMap;
use rollplan_core::time::{Span, Time};

use super::compare::Change;
use super::configuration::Configuration;
use super::options::Options;
use super::workload::Workload;

/// The input of the restart planner.
#[derive(Clone, Debug)]
pub struct Input {
    /// The current time.
    pub now: Time,
    /// The workloads.
    pub workloads: Vec<Workload>,
    /// The configurations.
    pub configurations: Vec<Configuration>,
    /// Annotations of namespaces.
    pub namespaces: BTreeMap<String, StringMap>,
    /// Whether a configuration that is not in the list does not exist.
    pub configurations_complete: bool,
    /// The options.
    pub options: Options,
    /// What the workloads do not show of earlier calls.
    pub calls: Calls,
}

/// What workloads do not show of earlier calls of the same controller.
#[derive(Clone, Debug, Default)]
pub struct Calls {
    /// The workloads whose last write is not observed yet, by UID, and whether it may have restarted them.
    pub unobserved: BTreeMap<String, bool>,
    /// When calls about workloads may be repeated, by UID.
    pub retry_at: BTreeMap<String, Time>,
    /// The number of restarts of workloads that are not in the input.
    pub elsewhere: usize,
}

/// A plan for all workloads.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// The plans for the selected workloads, ordered by namespace, kind and name.
    pub workloads: Vec<WorkloadPlan>,
    /// The time after which to plan again. `None` if no timer is needed.
    pub requeue_after: Option<Span>,
    /// Totals.
    pub counts: RestartCounts,
}

/// The plan for a workload.
#[derive(Clone, Debug)]
pub struct WorkloadPlan {
    /// Its index in the input.
    pub index: usize,
    /// The decision.
    pub decision: Decision,
    /// The changes that are not applied yet, or that this restart applies.
    pub changes: Vec<Change>,
    /// Conditions that affect the decision.
    pub conditions: Vec<Condition>,
    /// When the restart is due, if it depends on time only.
    pub due: Option<Time>,
    /// The steps, in order.
    pub steps: Vec<RestartStep>,
    /// Whether a restart is in progress, or begins with the steps.
    pub is_restarting: bool,
    /// The configurations that it uses, on request.
    pub uses: Vec<Use>,
}

/// The decision on a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Do nothing.
    None,
    /// Record the applied configuration.
    Record,
    /// Wait until a time.
    Wait,
    /// Wait for another condition, or for a user.
    Hold,
    /// Restart.
    Restart,
}

/// What a condition means for the decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Nothing.
    Informs,
    /// No restart is needed: pods have started with the change, or will.
    NotNeeded,
    /// The restart waits for a time.
    Waits,
    /// The restart waits for another condition, or for a user.
    Holds,
    /// New pods could not start.
    PreventsStart,
}

/// The reason of a condition: nothing is recorded, because pods may have started with another configuration.
pub(super) const STARTS_UNKNOWN: &str = "STARTS_UNKNOWN";
/// The reason of a restart that waits for a rollout.
pub(super) const ROLLOUT_IN_PROGRESS: &str = "ROLLOUT_IN_PROGRESS";
/// The reason of a plan without steps, because the last write is not observed yet.
pub(super) const WRITE_UNOBSERVED: &str = "WRITE_UNOBSERVED";
/// The reason of a plan without steps, because the last call has failed.
pub(super) const CALL_FAILED: &str = "CALL_FAILED";
/// The reason of a restart that waits for others.
pub(super) const MAX_CONCURRENT: &str = "MAX_CONCURRENT";

/// A condition that affects a decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// A stable reason, for example "QUIET_WINDOW".
    pub reason: &'static str,
    /// What it means for the decision.
    pub effect: Effect,
    /// A message for humans.
    pub message: String,
    /// The end of the condition, if known.
    pub until: Option<Time>,
    /// Whether an earlier plan has reported it.
    pub is_known: bool,
}

/// One step of a plan.
#[derive(Clone, Debug)]
pub struct RestartStep {
    /// A summary for humans, in one line.
    pub summary: String,
    /// The call.
    pub call: ApiCall,
    /// HTTP status codes that count as success in addition to 2xx.
    pub done_codes: &'static [u16],
    /// The event to record after the call.
    pub event: Option<Event>,
}

/// A configuration that a workload reacts to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Use {
    /// Its kind.
    pub kind: ConfigurationKind,
    /// Its name.
    pub name: String,
    /// The ways in which it is used, without duplicates.
    pub usages: Vec<Usage>,
    /// The keys that are used. Empty for all keys.
    pub keys: Vec<String>,
}

/// Totals of a plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RestartCounts {
    /// Workloads in the request.
    pub workloads: usize,
    /// Workloads that react to configurations.
    pub selected: usize,
    /// Configurations that they react to, counted once per workload.
    pub references: usize,
    /// Those of them that the request does not contain.
    pub unknown: usize,
    /// The number of each decision, in the order of [`Decision`].
    pub decisions: [usize; 5],
}

// === impl Condition ===

impl Condition {
    /// A condition without a known end.
    pub(super) fn new(effect: Effect, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            reason,
            effect,
            message: message.into(),
            until: None,
            is_known: false,
        }
    }

    /// Whether it is reported when it begins. Others end by themselves.
    #[must_use]
    pub fn is_reported(&self) -> bool {
        self.until.is_none()
            && self.effect != Effect::NotNeeded
            && ![
                ROLLOUT_IN_PROGRESS,
                STARTS_UNKNOWN,
                MAX_CONCURRENT,
                WRITE_UNOBSERVED,
            ]
            .contains(&self.reason)
    }
}
