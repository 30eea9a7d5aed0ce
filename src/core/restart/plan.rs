//! What restarts are planned from, and what a plan is made of.

use std::collections::BTreeMap;

use crate::action::{ApiCall, Event};
use crate::snapshot::StringMap;
use crate::time::{Span, Time};

use super::compare::Change;
use super::configuration::{Configuration, ConfigurationKind};
use super::options::Options;
use super::reference::Usage;
use super::workload::Workload;

/// Everything that restarts are planned from.
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
    /// How to plan.
    pub options: Options,
}

/// What to do now.
#[derive(Clone, Debug)]
pub struct Plan {
    /// One for each workload that is selected, ordered by namespace, kind and name.
    pub workloads: Vec<WorkloadPlan>,
    /// After which time to plan again. `None` if no timer is needed.
    pub requeue_after: Option<Span>,
    /// Totals.
    pub counts: Counts,
}

/// What to do about a workload.
#[derive(Clone, Debug)]
pub struct WorkloadPlan {
    /// Its index in the input.
    pub index: usize,
    /// The decision.
    pub decision: Decision,
    /// What has changed and is not applied, or is applied by this restart.
    pub changes: Vec<Change>,
    /// What the decision depends on besides.
    pub conditions: Vec<Condition>,
    /// When the restart is due, if that depends on time alone.
    pub due: Option<Time>,
    /// What to do, in this order.
    pub steps: Vec<Step>,
    /// What it reads, on request.
    pub uses: Vec<Use>,
}

/// What to do about a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Nothing.
    None,
    /// Write down what is applied.
    Record,
    /// Wait until a time.
    Wait,
    /// Wait for something else, or for a person.
    Hold,
    /// Restart.
    Restart,
}

/// Something that a decision depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// Stable reason, for example "QUIET_WINDOW".
    pub reason: &'static str,
    /// Text for people.
    pub message: String,
    /// Until when it holds, if that is known.
    pub until: Option<Time>,
}

/// One step of a plan.
#[derive(Clone, Debug)]
pub struct Step {
    /// One line for people.
    pub summary: String,
    /// The call.
    pub call: ApiCall,
    /// Codes of answers that count as success besides 2xx.
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
    /// How it is used, without duplicates.
    pub usages: Vec<Usage>,
    /// The keys that count. Empty if all of them do.
    pub keys: Vec<String>,
}

/// Totals of a plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Workloads in the request.
    pub workloads: usize,
    /// Workloads that react to configurations.
    pub selected: usize,
    /// Configurations that they react to, each counted for each workload.
    pub references: usize,
    /// Of these, configurations that the request does not have.
    pub unknown: usize,
    /// Decisions, in the order of [`Decision`].
    pub decisions: [usize; 5],
}

impl Decision {
    /// What it is called.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Record => "record",
            Self::Wait => "wait",
            Self::Hold => "hold",
            Self::Restart => "restart",
        }
    }
}
