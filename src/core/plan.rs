//! Plans: the writes to make now, and the status after them.

use crate::action::Step;
use crate::interrupt::{Interrupt, Interrupted, Never};
use crate::pass::{self, Rules, Stop, overlap};
use crate::snapshot::{DeploymentStatus, Options, Snapshot};
use crate::status;
use crate::time::Span;

/// The writes to make now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The steps in order.
    pub steps: Vec<Step>,
    /// The status of the Deployment after the steps. If the list of ReplicaSets may be incomplete, the stored status.
    pub status: DeploymentStatus,
    /// The time after which to plan again even if nothing changes.
    pub requeue_after: Option<Span>,
    /// Whether planning again after the steps would write nothing, until the cluster changes.
    pub settled: bool,
    /// Whether the look-ahead ended at its limit of passes. The next plan may then reverse a size of this one.
    pub exhausted: bool,
}

impl Plan {
    /// The plan for a list of ReplicaSets that may be incomplete, which is empty. If an old ReplicaSet is missing, the new
    /// one would exceed the surge, its revision would be wrong, and the status would count too few pods.
    pub(crate) fn without_all_sets(snapshot: &Snapshot) -> Self {
        Self {
            steps: Vec::new(),
            status: snapshot.deployment.status.clone(),
            requeue_after: None,
            settled: false,
            exhausted: false,
        }
    }
}

/// Plans exactly what one sync of the Deployment controller does: the same writes in the same order, up to its first error.
#[must_use]
pub fn plan_pass(snapshot: &Snapshot, options: Options) -> Plan {
    pass(snapshot, options, &Never)
}

/// [`plan_pass`], unless it is interrupted.
///
/// # Errors
///
/// [`Interrupted`].
pub fn plan_pass_until(
    snapshot: &Snapshot,
    options: Options,
    interrupt: &dyn Interrupt,
) -> Result<Plan, Interrupted> {
    let plan = pass(snapshot, options, interrupt);
    interrupt.check().map(|()| plan)
}

fn pass(snapshot: &Snapshot, options: Options, interrupt: &dyn Interrupt) -> Plan {
    if !snapshot.replica_sets_complete {
        return Plan::without_all_sets(snapshot);
    }
    let (outcome, status) = pass::run_to_status(snapshot, options, Rules::Exact, interrupt);
    let requeue_after = match outcome.stop {
        // Nothing can be created in this namespace again.
        Some(Stop::NamespaceTerminating) => None,
        Some(Stop::Overlap) => Some(overlap::retry_after()),
        _ => status::requeue_after(&snapshot.deployment, &status, snapshot.now),
    };
    Plan {
        settled: outcome.steps.is_empty() && outcome.stop.is_none(),
        exhausted: false,
        steps: outcome.steps,
        status: status.into_owned(),
        requeue_after,
    }
}

/// The status that the controller would publish for this snapshot if it made no other write. If the list of ReplicaSets may
/// be incomplete, the stored status.
#[must_use]
pub fn compute_status(snapshot: &Snapshot, options: Options) -> DeploymentStatus {
    observe(snapshot, options, &Never)
}

/// [`compute_status`], unless it is interrupted.
///
/// # Errors
///
/// [`Interrupted`].
pub fn compute_status_until(
    snapshot: &Snapshot,
    options: Options,
    interrupt: &dyn Interrupt,
) -> Result<DeploymentStatus, Interrupted> {
    let status = observe(snapshot, options, interrupt);
    interrupt.check().map(|()| status)
}

fn observe(snapshot: &Snapshot, options: Options, interrupt: &dyn Interrupt) -> DeploymentStatus {
    if !snapshot.replica_sets_complete {
        return snapshot.deployment.status.clone();
    }
    pass::observe(snapshot, options, interrupt)
}
