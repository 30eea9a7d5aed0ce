//! The look-ahead: all writes that can be made before the cluster itself must change, as one plan.
//!
//! Passes are repeated on the predicted world, which is the snapshot after their writes, until a pass writes nothing. The
//! writes are then merged into at most one for each object ([`merge`]) and ordered such that every prefix keeps the bounds
//! ([`order`]), because an adapter may stop after any step.

mod budget;
mod merge;
mod order;

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::action::{Action, Step, apply_all};
use crate::interrupt::{Interrupt, Interrupted, Never};
use crate::pass::{self, Outcome, Rules, Stop, overlap};
use crate::plan::Plan;
use crate::snapshot::{DeploymentStatus, Options, Snapshot};
use crate::status;
use crate::strategy;

use self::budget::passes_max;
use self::merge::Merged;

/// Plans all writes that can be made before the cluster itself must change.
#[must_use]
pub fn plan_settled(snapshot: &Snapshot, options: Options) -> Plan {
    look_ahead(snapshot, options, Rules::LookAhead, &Never)
}

/// [`plan_settled`], unless it is interrupted.
///
/// # Errors
///
/// [`Interrupted`].
pub fn plan_settled_until(
    snapshot: &Snapshot,
    options: Options,
    interrupt: &dyn Interrupt,
) -> Result<Plan, Interrupted> {
    let plan = look_ahead(snapshot, options, Rules::LookAhead, interrupt);
    interrupt.check().map(|()| plan)
}

/// A plan of exact passes only, which may delete more available pods than allowed. Tests use it as a negative control, and
/// must detect that.
#[doc(hidden)]
#[must_use]
pub fn plan_settled_unclamped(snapshot: &Snapshot, options: Options) -> Plan {
    look_ahead(snapshot, options, Rules::Exact, &Never)
}

/// [`plan_settled`] with these rules.
fn look_ahead(
    snapshot: &Snapshot,
    options: Options,
    rules: Rules,
    interrupt: &dyn Interrupt,
) -> Plan {
    if !snapshot.replica_sets_complete {
        return Plan::without_all_sets(snapshot);
    }
    let run = |world: &Snapshot| pass::run_until(world, options, rules, interrupt);
    look_ahead_by(snapshot, interrupt, &run, &|outcome| {
        outcome.actions().any(Action::is_claim)
            && !outcome.refused
            && reverses_itself(snapshot, interrupt, &run, outcome)
    })
}

/// Repeats passes. `run` makes a pass. `claims_only` returns whether only the claims of a pass may be part of the plan.
fn look_ahead_by(
    snapshot: &Snapshot,
    interrupt: &dyn Interrupt,
    run: &dyn Fn(&Snapshot) -> Outcome,
    claims_only: &dyn Fn(&Outcome) -> bool,
) -> Plan {
    let mut ahead = LookAhead::new(snapshot, interrupt);
    let mut outcome = run(snapshot);
    let mut passes = 0;
    let exhausted = loop {
        if passes >= passes_max(snapshot, ahead.has_reversed) {
            break true;
        }
        passes += 1;
        if interrupt.is_interrupted() || !ahead.merged.accepts(&outcome) {
            break false;
        }
        if claims_only(&outcome) {
            // The next plan changes the sizes, because it can make the net change.
            outcome
                .steps
                .retain(|step| step.action.as_ref().is_some_and(Action::is_claim));
        }
        if ahead.add(outcome) {
            break false;
        }
        outcome = run(ahead.world());
    };
    ahead.into_plan(exhausted)
}

/// The state of a look-ahead between two passes.
struct LookAhead<'a> {
    snapshot: &'a Snapshot,
    interrupt: &'a dyn Interrupt,
    /// The predicted world. `None` as long as it equals the snapshot.
    world: Option<Snapshot>,
    merged: Merged<'a>,
    /// Why the last pass ended early, if it did.
    stop: Option<Stop>,
    /// Whether the last pass wrote nothing.
    settled: bool,
    /// Whether a pass has reversed a size that an earlier one had changed.
    has_reversed: bool,
}

// === impl LookAhead ===

impl<'a> LookAhead<'a> {
    fn new(snapshot: &'a Snapshot, interrupt: &'a dyn Interrupt) -> Self {
        Self {
            snapshot,
            interrupt,
            world: None,
            merged: Merged::new(snapshot),
            stop: None,
            settled: false,
            has_reversed: false,
        }
    }

    fn world(&self) -> &Snapshot {
        self.world.as_ref().unwrap_or(self.snapshot)
    }

    /// Adds a pass to the plan. Returns whether it is the last one.
    fn add(&mut self, outcome: Outcome) -> bool {
        let (snapshot, interrupt) = (self.snapshot, self.interrupt);
        let is_idle = outcome.actions().next().is_none();
        let is_last = is_idle || outcome.refused || ends_look_ahead(snapshot, &outcome);
        self.settled = is_idle && !outcome.refused;
        self.stop = outcome.stop;
        self.merged.refused |= outcome.refused;
        let reversed = self.merged.reversed_by(&outcome, interrupt);
        self.has_reversed |= !reversed.is_empty();
        if !is_idle {
            let world = self.world.get_or_insert_with(|| copy(snapshot, interrupt));
            apply_all(world, &outcome.actions().collect::<Vec<_>>(), interrupt);
        }
        for step in outcome.steps {
            if interrupt.is_interrupted() {
                break;
            }
            // The events of a stale pass are those of the pass that succeeds.
            if step.action.is_some() || outcome.stop != Some(Stop::Stale) {
                self.merged.add(step);
            }
        }
        if let Some(world) = &mut self.world {
            self.merged.leave_net_changes(world, &reversed, interrupt);
        }
        is_last
    }

    fn into_plan(self, exhausted: bool) -> Plan {
        let snapshot = self.snapshot;
        let world = self.world.as_ref().unwrap_or(snapshot);
        let settled = self.settled && !self.merged.owner_needs_more;
        let steps = self.merged.into_steps(self.interrupt);
        // The plan may leave the status of the world to the next one.
        let status = steps.iter().find_map(written_status);
        let status = status.unwrap_or(&snapshot.deployment.status).clone();
        Plan {
            requeue_after: match self.stop {
                Some(Stop::NamespaceTerminating) => None,
                Some(Stop::Overlap) => Some(overlap::retry_after()),
                _ => status::requeue_after(&world.deployment, &status, snapshot.now),
            },
            settled,
            exhausted,
            steps,
            status,
        }
    }
}

/// A copy of the snapshot for predictions. If copying is interrupted, which may happen because it takes long, ReplicaSets
/// are missing.
fn copy(snapshot: &Snapshot, interrupt: &dyn Interrupt) -> Snapshot {
    let Snapshot {
        now,
        deployment,
        replica_sets,
        replica_sets_complete,
        pods,
        pods_complete,
        failures,
        events,
        surroundings,
    } = snapshot;
    let replica_sets = replica_sets.iter();
    Snapshot {
        now: *now,
        deployment: deployment.clone(),
        replica_sets: replica_sets
            .take_while(|_| !interrupt.is_interrupted())
            .cloned()
            .collect(),
        replica_sets_complete: *replica_sets_complete,
        pods: Arc::clone(pods),
        pods_complete: *pods_complete,
        failures: failures.clone(),
        events: Arc::clone(events),
        surroundings: Arc::clone(surroundings),
    }
}

fn written_status(step: &Step) -> Option<&DeploymentStatus> {
    match &step.action {
        Some(Action::UpdateDeploymentStatus { status, .. }) => Some(status),
        _ => None,
    }
}

/// Whether the cluster must be observed again after this pass, because only the server knows the result.
fn ends_look_ahead(snapshot: &Snapshot, outcome: &Outcome) -> bool {
    let awaits_old_pods = strategy::of(&snapshot.deployment).awaits_old_pods();
    outcome.actions().any(|action| match action {
        Action::UpdateDeployment { change, .. } => change.is_rollback(),
        // Only the cluster shows when the pods have terminated.
        Action::ScaleReplicaSet { from, to, .. } => awaits_old_pods && to < from,
        action => action.is_claim(),
    })
}

/// Whether the next plan would scale a ReplicaSet back that this pass scales. Then only the claims of the pass are planned.
fn reverses_itself(
    snapshot: &Snapshot,
    interrupt: &dyn Interrupt,
    run: &dyn Fn(&Snapshot) -> Outcome,
    outcome: &Outcome,
) -> bool {
    let changed: BTreeMap<&str, Ordering> = outcome.actions().filter_map(size_change).collect();
    if changed.is_empty() {
        return false;
    }
    let mut world = copy(snapshot, interrupt);
    world.failures.clear();
    let actions: Vec<&Action> = outcome.actions().collect();
    apply_all(&mut world, &actions, interrupt);
    let next = look_ahead_by(&world, interrupt, run, &|_| false);
    let next = next.steps.iter().filter_map(|step| step.action.as_ref());
    next.filter_map(size_change)
        .any(|(name, after)| changed.get(name) == Some(&after.reverse()))
}

/// The name of the ReplicaSet whose size an action changes, and the direction of the change.
fn size_change(action: &Action) -> Option<(&str, Ordering)> {
    match action {
        Action::ScaleReplicaSet { set, from, to, .. } => Some((&set.name, to.cmp(from))),
        Action::CreateReplicaSet(set) => Some((&set.metadata.name, set.replicas.cmp(&0))),
        Action::CheckOwner { .. }
        | Action::AdoptReplicaSet { .. }
        | Action::ReleaseReplicaSet { .. }
        | Action::UpdateReplicaSet { .. }
        | Action::DeleteReplicaSet { .. }
        | Action::UpdateDeployment { .. }
        | Action::UpdateDeploymentStatus { .. } => None,
    }
}
