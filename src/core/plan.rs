//! Plans: what is to be done now, and what comes of it.

use crate::action::Step;
use crate::interrupt::{Interrupt, Interrupted, Never};
use crate::pass::{self, Rules, Stop};
use crate::snapshot::{DeploymentStatus, Options, Snapshot};
use crate::status;
use crate::time::Span;

/// What is to be done now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The writes, in order.
    pub steps: Vec<Step>,
    /// The status of the Deployment once they are done. Without all ReplicaSets, that which is stored.
    pub status: DeploymentStatus,
    /// When to ask again even if nothing changes.
    pub requeue_after: Option<Span>,
    /// Whether nothing more is left to do before the world moves: planning again once the steps are done
    /// writes nothing.
    pub settled: bool,
    /// Whether the look-ahead ended at its limit of passes. The next plan may then reverse a size of this one.
    pub exhausted: bool,
}

impl Plan {
    /// The plan for a list of ReplicaSets that may be incomplete: nothing. With an old one missing, the new one would grow
    /// past the surge, its revision would be wrong, and the status would count too low.
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

/// Exactly what one sync of the Deployment controller does: the same writes in the same order, up to its
/// first error.
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
        // Nothing will ever be created in this namespace again.
        Some(Stop::NamespaceTerminating) => None,
        _ => status::requeue_after(&snapshot.deployment, &status, snapshot.now),
    };
    Plan {
        settled: outcome.steps.is_empty() && outcome.stop.is_none(),
        exhausted: false,
        steps: outcome.steps.into_iter().map(Step::with_call).collect(),
        status: status.into_owned(),
        requeue_after,
    }
}

/// The status that the controller would publish for this snapshot if it wrote nothing else. Without all ReplicaSets, that
/// which is stored.
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
