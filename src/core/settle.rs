//! The look-ahead: everything that can be done before the world itself must move, as one plan.
//!
//! Passes are repeated on the predicted world until one writes nothing; then the writes are merged, at most
//! one for each object, and ordered so that every prefix keeps the bounds: an adapter may die after any step.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::action::{Action, Event, NewReplicaSet, OnFailure, SetChange, Step, Target, apply_all};
use crate::interrupt::{Interrupt, Interrupted, Never};
use crate::pass::{self, Outcome, Rules, Stop};
use crate::plan::Plan;
use crate::revision;
use crate::scaling::ScaleReason;
use crate::snapshot::{Options, ReplicaSet, Snapshot};
use crate::status;
use crate::strategy;

/// More passes than a plan needs: a rolling update takes a handful.
const PASSES_MAX: usize = 64;

/// The passes of a plan that has reversed a size, times the [`weight`] of its snapshot. After a scale-down in the middle
/// of a rollout, the new ReplicaSet regains its pods by the surge and the unavailability in each two passes, a hundred
/// times if those are 1 %. A plan that ends here is a plan all the same, but the next one may reverse a size of it.
const PASSES_TIMES_WEIGHT_MAX: usize = 1024;

/// The same for plans of up to [`PASSES_MAX`] passes: so many are cheap for some dozens of ReplicaSets.
const FEW_PASSES_TIMES_WEIGHT_MAX: usize = 4096;

/// As many passes has every plan, whatever it weighs.
const PASSES_MIN: usize = 8;

/// So many annotations take as much of a pass as a ReplicaSet does.
const ANNOTATIONS_PER_SET: usize = 64;

/// Everything that can be done before the world itself must move.
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

/// [`plan_settled`] by these rules: tests show what others would break.
pub(crate) fn look_ahead(
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
        claims(outcome) && !outcome.refused && reverses_itself(snapshot, interrupt, &run, outcome)
    })
}

/// `run` makes one pass. `claims_only` says of a pass that makes claims whether it may make nothing else.
fn look_ahead_by(
    snapshot: &Snapshot,
    interrupt: &dyn Interrupt,
    run: &dyn Fn(&Snapshot) -> Outcome,
    claims_only: &dyn Fn(&Outcome) -> bool,
) -> Plan {
    let mut outcome = run(snapshot);
    let mut world: Option<Snapshot> = None;
    let mut merged = Merged::new(snapshot);
    let mut stop = None;
    let mut settled = false;
    let mut passes = 0;
    let mut has_turned = false;
    let exhausted = loop {
        if passes >= passes_max(snapshot, has_turned) {
            break true;
        }
        passes += 1;
        if interrupt.is_interrupted() || !merged.accepts(&outcome) {
            break false;
        }
        if claims_only(&outcome) {
            // The sizes wait for the next plan, which can make the net change.
            outcome.steps.retain(is_claim);
        }
        let idle = outcome.steps.iter().all(|step| step.action.is_none());
        settled = idle && !outcome.refused;
        let last = idle || outcome.refused || ends_look_ahead(snapshot, &outcome);
        stop = outcome.stop;
        merged.refused |= outcome.refused;
        let turned = merged.turned_by(&outcome, interrupt);
        has_turned |= !turned.is_empty();
        if !idle {
            let world = world.get_or_insert_with(|| copy(snapshot, interrupt));
            let actions = outcome.steps.iter().filter_map(|step| step.action.as_ref());
            apply_all(world, &actions.collect::<Vec<_>>(), interrupt);
        }
        for step in outcome.steps {
            if interrupt.is_interrupted() {
                break;
            }
            // Of what a stale pass has to say by events alone, the pass that gets through will speak.
            if step.action.is_some() || outcome.stop != Some(Stop::Stale) {
                merged.take(step);
            }
        }
        if let Some(world) = &mut world {
            merged.leave_net_changes(world, &turned, interrupt);
        }
        if last {
            break false;
        }
        outcome = run(world.as_ref().unwrap_or(snapshot));
    };
    let world = world.as_ref().unwrap_or(snapshot);
    let steps = merged.into_steps(world, interrupt);
    let status = match steps.iter().any(writes_status) {
        true => world.deployment.status.clone(),
        // The status of a custom resource waits for the next plan when this one writes its revision.
        false => snapshot.deployment.status.clone(),
    };
    Plan {
        requeue_after: match stop {
            Some(Stop::NamespaceTerminating) => None,
            _ => status::requeue_after(&world.deployment, &status, snapshot.now),
        },
        // The second write of a custom resource's owner is still to come.
        settled: settled && status == world.deployment.status,
        exhausted,
        steps,
        status,
    }
}

fn passes_max(snapshot: &Snapshot, has_turned: bool) -> usize {
    if !has_turned {
        return PASSES_MAX;
    }
    let weight = weight(snapshot);
    let few = FEW_PASSES_TIMES_WEIGHT_MAX / weight;
    (PASSES_TIMES_WEIGHT_MAX / weight).max(few.clamp(PASSES_MIN, PASSES_MAX))
}

/// How much a pass reads, in ReplicaSets with few annotations.
fn weight(snapshot: &Snapshot) -> usize {
    let sets = snapshot.replica_sets.iter().map(|set| &set.metadata);
    let objects = sets.chain([&snapshot.deployment.metadata]);
    let annotations: usize = objects.map(|metadata| metadata.annotations.len()).sum();
    (snapshot.replica_sets.len() + annotations / ANNOTATIONS_PER_SET).max(1)
}

/// A copy of the world to predict in. There may be much to copy: interrupted, it has not all ReplicaSets.
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
    }
}

fn writes_status(step: &Step) -> bool {
    matches!(step.action, Some(Action::UpdateDeploymentStatus { .. }))
}

/// Whether the world must be looked at again after this pass: what it did is known to the server only.
fn ends_look_ahead(snapshot: &Snapshot, outcome: &Outcome) -> bool {
    let awaits_old_pods = strategy::of(&snapshot.deployment).awaits_old_pods();
    outcome
        .steps
        .iter()
        .filter_map(|step| step.action.as_ref())
        .any(|action| match action {
            Action::CheckOwner { .. }
            | Action::AdoptReplicaSet { .. }
            | Action::ReleaseReplicaSet { .. } => true,
            Action::UpdateDeployment { change, .. } => is_rollback(change),
            // Whether the pods are gone is for the world to say.
            Action::ScaleReplicaSet { from, to, .. } => awaits_old_pods && to < from,
            Action::CreateReplicaSet(_)
            | Action::UpdateReplicaSet { .. }
            | Action::DeleteReplicaSet { .. }
            | Action::UpdateDeploymentStatus { .. } => false,
        })
}

fn claims(outcome: &Outcome) -> bool {
    outcome.steps.iter().any(is_claim)
}

fn is_claim(step: &Step) -> bool {
    matches!(
        step.action,
        Some(
            Action::CheckOwner { .. }
                | Action::AdoptReplicaSet { .. }
                | Action::ReleaseReplicaSet { .. }
        )
    )
}

/// Whether the plan after this pass, which ends the look-ahead, would reverse a size that the pass changes.
fn reverses_itself(
    snapshot: &Snapshot,
    interrupt: &dyn Interrupt,
    run: &dyn Fn(&Snapshot) -> Outcome,
    outcome: &Outcome,
) -> bool {
    let actions = || outcome.steps.iter().filter_map(|step| step.action.as_ref());
    let changed: BTreeMap<&str, Ordering> = actions().filter_map(size_change).collect();
    if changed.is_empty() {
        return false;
    }
    let mut world = copy(snapshot, interrupt);
    world.failures.clear();
    apply_all(&mut world, &actions().collect::<Vec<_>>(), interrupt);
    let next = look_ahead_by(&world, interrupt, run, &|_| false);
    let next = next.steps.iter().filter_map(|step| step.action.as_ref());
    next.filter_map(size_change)
        .any(|(name, after)| changed.get(name) == Some(&after.reverse()))
}

/// Which way an action moves the size of a ReplicaSet.
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

fn is_rollback(change: &crate::action::OwnerChange) -> bool {
    change.template.is_some() || !change.removed_annotations.is_empty()
}

/// The writes of all passes so far, one for each object.
struct Merged<'a> {
    before: &'a Snapshot,
    /// The ReplicaSets of `before` in the Deployment's namespace, by name.
    sets_before: BTreeMap<&'a str, &'a ReplicaSet>,
    events: Vec<Step>,
    claims: Vec<Step>,
    /// Names of those among the claims that were nobody's.
    adopted: BTreeSet<String>,
    /// What happens to ReplicaSets that were there before, by name.
    sets: BTreeMap<String, SetWrite>,
    created: Option<Box<NewReplicaSet>>,
    owner: Option<Step>,
    refused: bool,
}

#[derive(Default)]
struct SetWrite {
    change: SetChange,
    replicas: Option<i32>,
    deleted: bool,
    /// Whether a failed write of this ReplicaSet may be passed over.
    on_failure: OnFailure,
    /// Why it was last scaled up.
    reason_up: Option<ScaleReason>,
    /// Why it was last scaled down.
    reason_down: Option<ScaleReason>,
}

// === impl Merged ===

impl<'a> Merged<'a> {
    fn new(before: &'a Snapshot) -> Self {
        let namespace = &before.deployment.metadata.namespace;
        let sets = before.replica_sets.iter();
        let sets = sets.filter(|set| set.metadata.namespace == *namespace);
        Self {
            before,
            sets_before: sets.map(|set| (set.metadata.name.as_str(), set)).collect(),
            adopted: BTreeSet::new(),
            events: Vec::new(),
            claims: Vec::new(),
            sets: BTreeMap::new(),
            created: None,
            owner: None,
            refused: false,
        }
    }

    /// Whether a pass fits into the plan: it does not roll back after another write of the owner. The revision of a
    /// custom resource takes the place of its status, which the next plan publishes.
    fn accepts(&self, outcome: &Outcome) -> bool {
        let actions = outcome.steps.iter().filter_map(|step| step.action.as_ref());
        actions.into_iter().all(|action| match action {
            Action::UpdateDeployment { change, .. } => {
                let owner = self.owner.as_ref();
                owner.is_none_or(|step| !is_rollback(change) && writes_status(step))
            }
            Action::CheckOwner { .. }
            | Action::AdoptReplicaSet { .. }
            | Action::ReleaseReplicaSet { .. }
            | Action::CreateReplicaSet(_)
            | Action::UpdateReplicaSet { .. }
            | Action::ScaleReplicaSet { .. }
            | Action::DeleteReplicaSet { .. }
            | Action::UpdateDeploymentStatus { .. } => true,
        })
    }

    /// The ReplicaSets whose sizes a pass turns: it takes back what the plan has done so far, or some of it.
    fn turned_by(&self, outcome: &Outcome, interrupt: &dyn Interrupt) -> BTreeSet<String> {
        let actions = outcome.steps.iter().filter_map(|step| step.action.as_ref());
        actions
            .take_while(|_| !interrupt.is_interrupted())
            .filter_map(|action| match action {
                Action::ScaleReplicaSet { set, from, to, .. } => {
                    let so_far = self.direction(&set.name);
                    let turns = so_far != Ordering::Equal && so_far != to.cmp(from);
                    turns.then(|| set.name.clone())
                }
                _ => None,
            })
            .collect()
    }

    /// Leaves ReplicaSets in the predicted world as their one write will leave them. Where one has gone down and
    /// up again, fewer pods are taken away than on the way there: what is counted on from here must be what the
    /// next plan will find, or that would turn the size again.
    fn leave_net_changes(
        &self,
        world: &mut Snapshot,
        turned: &BTreeSet<String>,
        interrupt: &dyn Interrupt,
    ) {
        if turned.is_empty() {
            return;
        }
        // All of them at once: there may be thousands.
        let namespace = &self.before.deployment.metadata.namespace;
        let mut actions = Vec::new();
        for set in &mut world.replica_sets {
            if interrupt.is_interrupted() {
                return;
            }
            let name = set.metadata.name.as_str();
            if set.metadata.namespace != *namespace || !turned.contains(name) {
                continue;
            }
            if let (Some(&before), Some(write)) = (self.sets_before.get(name), self.sets.get(name))
            {
                actions.extend(set_step(before, write).and_then(|step| step.action));
                set.clone_from(before);
            }
        }
        apply_all(world, &actions.iter().collect::<Vec<_>>(), interrupt);
    }

    /// Which way the plan has moved a size so far.
    fn direction(&self, name: &str) -> Ordering {
        let replicas = self.sets.get(name).and_then(|write| write.replicas);
        match (replicas, self.sets_before.get(name)) {
            (Some(after), Some(set)) => after.cmp(&set.replicas),
            _ => Ordering::Equal,
        }
    }

    fn take(&mut self, step: Step) {
        let (action, events, on_failure, reason) = match step {
            Step {
                action: Some(action),
                events,
                on_failure,
                reason,
                ..
            } => (action, events, on_failure, reason),
            // A later pass that comes to the same refusal says the same again.
            step if self.events.contains(&step) => return,
            step => return self.events.push(step),
        };
        match action {
            Action::AdoptReplicaSet { ref set, .. } => {
                self.adopted.insert(set.name.clone());
                self.claims.push(with_action(action, events, on_failure));
            }
            Action::CheckOwner { .. } | Action::ReleaseReplicaSet { .. } => {
                self.claims.push(with_action(action, events, on_failure));
            }
            Action::CreateReplicaSet(set) => self.created = Some(set),
            Action::UpdateReplicaSet { set, change } => {
                self.take_change(set.name, change, None, on_failure);
            }
            Action::ScaleReplicaSet {
                set,
                from,
                to,
                change,
            } => {
                self.take_reason(&set.name, to > from, reason);
                self.take_change(set.name, change, Some(to), on_failure);
            }
            // One write an object: what was just adopted is deleted by the next plan.
            Action::DeleteReplicaSet { set } if self.adopted.contains(&set.name) => {}
            Action::DeleteReplicaSet { set } => {
                self.sets.entry(set.name).or_default().deleted = true;
            }
            Action::UpdateDeployment { .. } => {
                self.owner = Some(with_action(action, events, on_failure));
            }
            Action::UpdateDeploymentStatus { .. } => self.take_status(action, events),
        }
    }

    /// One write takes a size the whole way: what counts is why it was last changed in the direction of that write.
    fn take_reason(&mut self, name: &str, is_up: bool, reason: Option<ScaleReason>) {
        let is_created = |set: &NewReplicaSet| set.metadata.name == name;
        if self.created.as_deref().is_some_and(is_created) {
            return;
        }
        let write = self.sets.entry(name.to_owned()).or_default();
        match is_up {
            true => write.reason_up = reason,
            false => write.reason_down = reason,
        }
    }

    fn take_change(
        &mut self,
        name: String,
        change: SetChange,
        replicas: Option<i32>,
        on_failure: OnFailure,
    ) {
        if let Some(created) = &mut self.created
            && created.metadata.name == name
        {
            created.metadata.annotations.extend(change.annotations);
            created.replicas = replicas.unwrap_or(created.replicas);
            created.min_ready_seconds = change
                .min_ready_seconds
                .unwrap_or(created.min_ready_seconds);
            return;
        }
        let write = self.sets.entry(name).or_default();
        write.change.annotations.extend(change.annotations);
        write.change.min_ready_seconds =
            change.min_ready_seconds.or(write.change.min_ready_seconds);
        if replicas.is_some() {
            write.replicas = replicas;
            write.on_failure = on_failure;
        }
    }

    /// The last status counts; a revision that an earlier pass carries up goes along with it.
    fn take_status(&mut self, mut action: Action, events: Vec<Event>) {
        let earlier = match self.owner.as_mut().and_then(|step| step.action.as_mut()) {
            // One owner write a plan: the status of a custom resource waits for the next one.
            Some(Action::UpdateDeployment { .. }) => return,
            Some(Action::UpdateDeploymentStatus { revision, .. }) => revision.take(),
            Some(_) | None => None,
        };
        if let Action::UpdateDeploymentStatus { revision, .. } = &mut action {
            *revision = revision.take().or(earlier);
        }
        self.owner = Some(with_action(action, events, OnFailure::Stop));
    }

    /// Checks, events by themselves, claims, annotations, scale-downs, creates and scale-ups, deletes, owner.
    /// No scale-down depends on a scale-up of the plan, so that each may come first; annotations come before,
    /// for one that is refreshed late can stay stale forever. After a refusal the status comes right after the checks, so
    /// that no other refusal can hide it.
    fn into_steps(self, world: &Snapshot, interrupt: &dyn Interrupt) -> Vec<Step> {
        let (mut updates, mut downs, mut ups, mut deletes) = (vec![], vec![], vec![], vec![]);
        for (name, write) in &self.sets {
            if interrupt.is_interrupted() {
                break;
            }
            let Some(&before) = self.sets_before.get(name.as_str()) else {
                continue;
            };
            let Some(step) = set_step(before, write) else {
                continue;
            };
            match &step.action {
                Some(Action::DeleteReplicaSet { .. }) => deletes.push((before, step)),
                Some(Action::ScaleReplicaSet { from, to, .. }) if to < from => {
                    downs.push((before, step));
                }
                Some(Action::ScaleReplicaSet { .. }) => ups.push((before, step)),
                _ => updates.push((before, step)),
            }
        }
        if self.created.is_some() || !ups.is_empty() {
            // Growth counts on the room that these make: none of it without them.
            for (_, step) in &mut downs {
                step.on_failure = OnFailure::Stop;
            }
        }
        let created = self.created.map(|set| {
            // One event for the whole way, however many passes it took.
            let events = Event::scaled(&set.metadata.name, 0, set.replicas);
            let action = Action::CreateReplicaSet(set);
            with_action(action, events.into_iter().collect(), OnFailure::Stop)
        });
        let owner = self
            .owner
            .filter(|step| changes_owner(self.before, world, step));
        let (owner_first, owner_last) = match self.refused {
            true => (owner, None),
            false => (None, owner),
        };
        let (checks, claims): (Vec<Step>, Vec<Step>) = self
            .claims
            .into_iter()
            .partition(|step| matches!(step.action, Some(Action::CheckOwner { .. })));
        self.events
            .into_iter()
            .chain(checks)
            .chain(owner_first)
            .chain(claims)
            .chain(by_age(updates))
            .chain(by_age(downs))
            .chain(created)
            .chain(by_age(ups))
            .chain(by_age(deletes))
            .chain(owner_last)
            .take_while(|_| !interrupt.is_interrupted())
            .map(Step::with_call)
            .collect()
    }
}

fn by_age<'a>(mut steps: Vec<(&'a ReplicaSet, Step)>) -> impl Iterator<Item = Step> + use<'a> {
    steps.sort_by(|(a, _), (b, _)| revision::by_age(a, b));
    steps.into_iter().map(|(_, step)| step)
}

/// Whether the merged status is still another one than before the plan.
fn changes_owner(before: &Snapshot, world: &Snapshot, step: &Step) -> bool {
    match &step.action {
        Some(Action::UpdateDeploymentStatus { revision, .. }) => {
            revision.is_some() || before.deployment.status != world.deployment.status
        }
        _ => true,
    }
}

fn set_step(before: &ReplicaSet, write: &SetWrite) -> Option<Step> {
    let set = Target::set(before);
    if write.deleted {
        let action = Action::DeleteReplicaSet { set };
        return Some(with_action(action, vec![], OnFailure::Tolerate(&[404])));
    }
    let mut change = write.change.clone();
    let annotations = &before.metadata.annotations;
    change
        .annotations
        .retain(|key, value| annotations.get(key) != Some(value));
    change.first_annotations = annotations.is_empty();
    change.min_ready_seconds = change
        .min_ready_seconds
        .filter(|&seconds| seconds != before.min_ready_seconds);
    let (from, to) = (before.replicas, write.replicas.unwrap_or(before.replicas));
    if from != to {
        let events = Event::scaled(&before.metadata.name, from, to);
        let action = Action::ScaleReplicaSet {
            set,
            from,
            to,
            change,
        };
        // Only what takes pods away may fail without ending the plan.
        let on_failure = match to < from {
            true => write.on_failure,
            false => OnFailure::Stop,
        };
        let reason = match to < from {
            true => write.reason_down,
            false => write.reason_up,
        };
        return Some(Step {
            reason,
            ..with_action(action, events.into_iter().collect(), on_failure)
        });
    }
    let changes = !change.annotations.is_empty() || change.min_ready_seconds.is_some();
    changes.then(|| {
        let action = Action::UpdateReplicaSet { set, change };
        with_action(action, vec![], OnFailure::Stop)
    })
}

fn with_action(action: Action, events: Vec<Event>, on_failure: OnFailure) -> Step {
    Step {
        call: None,
        action: Some(action),
        events,
        on_failure,
        reason: None,
    }
}
