//! Merges the writes of several passes into at most one for each object.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use crate::action::{Action, Event, NewReplicaSet, OnFailure, SetChange, Step, Target, apply_all};
use crate::interrupt::Interrupt;
use crate::pass::Outcome;
use crate::scaling::ScaleReason;
use crate::snapshot::{ReplicaSet, Snapshot};

/// The writes of all passes so far, one for each object.
pub(super) struct Merged<'a> {
    pub(super) before: &'a Snapshot,
    /// The ReplicaSets of `before` in the namespace of the Deployment, by name.
    pub(super) sets_before: BTreeMap<&'a str, &'a ReplicaSet>,
    /// Steps that only record events.
    pub(super) events: Vec<Step>,
    pub(super) claims: Vec<Step>,
    /// The names of the ReplicaSets that are adopted.
    adopted: BTreeSet<String>,
    /// The writes of ReplicaSets that existed before, by name.
    pub(super) sets: BTreeMap<String, SetWrite>,
    pub(super) created: Option<Box<NewReplicaSet>>,
    /// The write of the Deployment.
    pub(super) owner: Option<Step>,
    /// Whether the next plan must write the Deployment again: a plan writes each object once, and a custom resource has
    /// separate writes for status and revision.
    pub(super) owner_needs_more: bool,
    /// Whether a call was rejected when the last plan was carried out.
    pub(super) refused: bool,
}

/// The write of a ReplicaSet.
#[derive(Default)]
pub(super) struct SetWrite {
    change: SetChange,
    replicas: Option<i32>,
    deleted: bool,
    /// What to do if the last change of the size fails.
    on_failure: OnFailure,
    /// Why the last pass that scaled it up did so.
    reason_up: Option<ScaleReason>,
    /// Why the last pass that scaled it down did so.
    reason_down: Option<ScaleReason>,
}

// === impl Merged ===

impl<'a> Merged<'a> {
    pub(super) fn new(before: &'a Snapshot) -> Self {
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
            owner_needs_more: false,
            refused: false,
        }
    }

    /// Whether a pass can be part of the plan: it does not roll back after another write of the Deployment.
    pub(super) fn accepts(&self, outcome: &Outcome) -> bool {
        outcome.actions().all(|action| match action {
            Action::UpdateDeployment { change, .. } => {
                self.owner.is_none() || !change.is_rollback()
            }
            _ => true,
        })
    }

    /// The ReplicaSets whose size a pass changes in the opposite direction of the plan so far.
    pub(super) fn reversed_by(
        &self,
        outcome: &Outcome,
        interrupt: &dyn Interrupt,
    ) -> BTreeSet<String> {
        let actions = outcome.actions();
        actions
            .take_while(|_| !interrupt.is_interrupted())
            .filter_map(|action| match action {
                Action::ScaleReplicaSet { set, from, to, .. } => {
                    let so_far = self.direction(&set.name);
                    let reverses = so_far != Ordering::Equal && so_far != to.cmp(from);
                    reverses.then(|| set.name.clone())
                }
                _ => None,
            })
            .collect()
    }

    /// Sets ReplicaSets of the predicted world to the state that their single write leaves. If a size went down and up
    /// again, the net change removes fewer pods than the passes did. The passes that follow must count the pods that the
    /// next plan will observe, because that plan would otherwise reverse the size again.
    pub(super) fn leave_net_changes(
        &self,
        world: &mut Snapshot,
        reversed: &BTreeSet<String>,
        interrupt: &dyn Interrupt,
    ) {
        if reversed.is_empty() {
            return;
        }
        // Applied together, because there may be thousands.
        let namespace = &self.before.deployment.metadata.namespace;
        let mut actions = Vec::new();
        for set in &mut world.replica_sets {
            if interrupt.is_interrupted() {
                return;
            }
            let name = set.metadata.name.as_str();
            if set.metadata.namespace != *namespace || !reversed.contains(name) {
                continue;
            }
            if let (Some(&before), Some(write)) = (self.sets_before.get(name), self.sets.get(name))
            {
                actions.extend(write.step(before).and_then(|step| step.action));
                set.clone_from(before);
            }
        }
        apply_all(world, &actions.iter().collect::<Vec<_>>(), interrupt);
    }

    /// The direction in which the plan has changed a size so far.
    fn direction(&self, name: &str) -> Ordering {
        let replicas = self.sets.get(name).and_then(|write| write.replicas);
        match (replicas, self.sets_before.get(name)) {
            (Some(after), Some(set)) => after.cmp(&set.replicas),
            _ => Ordering::Equal,
        }
    }

    /// Adds a step of a pass.
    pub(super) fn add(&mut self, step: Step) {
        let Step {
            action: Some(action),
            events,
            on_failure,
            reason,
            ..
        } = step
        else {
            return self.add_events(step);
        };
        match action {
            Action::AdoptReplicaSet { ref set, .. } => {
                self.adopted.insert(set.name.clone());
                self.claims
                    .push(Step::of(action, on_failure).with_events(events));
            }
            Action::CheckOwner { .. } | Action::ReleaseReplicaSet { .. } => {
                self.claims
                    .push(Step::of(action, on_failure).with_events(events));
            }
            Action::CreateReplicaSet(set) => self.created = Some(set),
            Action::UpdateReplicaSet { set, change } => {
                self.add_change(set.name, change, None, on_failure);
            }
            Action::ScaleReplicaSet {
                set,
                from,
                to,
                change,
            } => {
                self.add_reason(&set.name, to > from, reason);
                self.add_change(set.name, change, Some(to), on_failure);
            }
            // One write for each object: the next plan deletes what this one adopts.
            Action::DeleteReplicaSet { set } if self.adopted.contains(&set.name) => {}
            Action::DeleteReplicaSet { set } => {
                self.sets.entry(set.name).or_default().deleted = true;
            }
            Action::UpdateDeployment { .. } | Action::UpdateDeploymentStatus { .. } => {
                self.add_owner(Step::of(action, on_failure).with_events(events));
            }
        }
    }

    /// Adds a step that only records events, unless an earlier pass recorded the same events because of the same rejection.
    fn add_events(&mut self, step: Step) {
        if !self.events.contains(&step) {
            self.events.push(step);
        }
    }

    /// Adds the reason for a change of size. The merged write has the reason of the last change in its direction.
    fn add_reason(&mut self, name: &str, is_up: bool, reason: Option<ScaleReason>) {
        let is_created = |set: &NewReplicaSet| set.metadata.name == name;
        if self.created.as_deref().is_some_and(is_created) {
            return;
        }
        let write = self.sets.entry(name.to_owned()).or_default();
        if is_up {
            write.reason_up = reason;
        } else {
            write.reason_down = reason;
        }
    }

    /// Adds a change of a ReplicaSet, to its creation if the plan creates it.
    fn add_change(
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

    /// Adds a write of the Deployment. A status replaces an earlier one, and keeps the revision that it writes.
    fn add_owner(&mut self, mut step: Step) {
        let before = self.owner.as_mut().and_then(|step| step.action.as_mut());
        match (before, &mut step.action) {
            (None, _) => self.owner = Some(step),
            (
                Some(Action::UpdateDeploymentStatus {
                    revision: earlier, ..
                }),
                Some(Action::UpdateDeploymentStatus { revision, .. }),
            ) if !self.owner_needs_more => {
                *revision = revision.take().or(earlier.take());
                self.owner = Some(step);
            }
            // Status and revision of a custom resource.
            (Some(_), _) => self.owner_needs_more = true,
        }
    }
}

// === impl SetWrite ===

impl SetWrite {
    /// The step that makes the write. `None` if it would change nothing.
    pub(super) fn step(&self, before: &ReplicaSet) -> Option<Step> {
        let set = Target::set(before);
        if self.deleted {
            let action = Action::DeleteReplicaSet { set };
            return Some(Step::of(action, OnFailure::Tolerate(&[404])));
        }
        let change = self.change_of(before);
        let (from, to) = (before.replicas, self.replicas.unwrap_or(before.replicas));
        if from == to {
            let changes = !change.annotations.is_empty() || change.min_ready_seconds.is_some();
            let action = Action::UpdateReplicaSet { set, change };
            return changes.then(|| Step::of(action, OnFailure::Stop));
        }
        let action = Action::ScaleReplicaSet {
            set,
            from,
            to,
            change,
        };
        // Only a scale-down may fail without ending the plan.
        let (on_failure, reason) = if to < from {
            (self.on_failure, self.reason_down)
        } else {
            (OnFailure::Stop, self.reason_up)
        };
        let events = Event::scaled(&before.metadata.name, from, to);
        Some(Step {
            reason,
            ..Step::of(action, on_failure).with_events(events)
        })
    }

    /// The part of the change that the ReplicaSet does not have yet.
    fn change_of(&self, before: &ReplicaSet) -> SetChange {
        let annotations = &before.metadata.annotations;
        let mut change = self.change.clone();
        change
            .annotations
            .retain(|key, value| annotations.get(key) != Some(value));
        change.first_annotations = annotations.is_empty();
        change.min_ready_seconds = change
            .min_ready_seconds
            .filter(|&seconds| seconds != before.min_ready_seconds);
        change
    }
}
