//! Orders the merged writes such that every prefix of the plan keeps the bounds.

use super::merge::Merged;
use crate::action::{Action, Event, OnFailure, Step};
use crate::interrupt::Interrupt;
use crate::revision;
use crate::snapshot::{ReplicaSet, Snapshot};

/// The writes of ReplicaSets that existed before, by kind.
#[derive(Default)]
struct SetSteps<'a> {
    updates: Vec<(&'a ReplicaSet, Step)>,
    downs: Vec<(&'a ReplicaSet, Step)>,
    ups: Vec<(&'a ReplicaSet, Step)>,
    deletes: Vec<(&'a ReplicaSet, Step)>,
}

impl<'a> Merged<'a> {
    /// The steps in this order: events, checks, claims, annotations, scale-downs, the creation, scale-ups, deletions, and
    /// the write of the Deployment.
    ///
    /// No scale-down depends on a scale-up of the plan, so they come first. Annotations come before both, because one that
    /// is not updated in time may stay stale indefinitely. After a rejection the status comes right after the checks, so
    /// that no other rejection can hide it.
    pub(super) fn into_steps(self, interrupt: &dyn Interrupt) -> Vec<Step> {
        let mut sets = self.set_steps(interrupt);
        if self.created.is_some() || !sets.ups.is_empty() {
            // The creation and the scale-ups exceed the limits unless all scale-downs succeed.
            for (_, step) in &mut sets.downs {
                step.on_failure = OnFailure::Stop;
            }
        }
        let created = self.created.map(|set| {
            // One event for the net change of all passes.
            let events = Event::scaled(&set.metadata.name, 0, set.replicas);
            Step::of(Action::CreateReplicaSet(set), OnFailure::Stop).with_events(events)
        });
        let owner = self.owner;
        let owner = owner.filter(|step| changes_owner(self.before, step));
        let (owner_first, owner_last) = if self.refused {
            (owner, None)
        } else {
            (None, owner)
        };
        let is_check = |step: &Step| matches!(step.action, Some(Action::CheckOwner { .. }));
        let (checks, claims): (Vec<Step>, Vec<Step>) = self.claims.into_iter().partition(is_check);
        self.events
            .into_iter()
            .chain(checks)
            .chain(owner_first)
            .chain(claims)
            .chain(by_age(sets.updates))
            .chain(by_age(sets.downs))
            .chain(created)
            .chain(by_age(sets.ups))
            .chain(by_age(sets.deletes))
            .chain(owner_last)
            .take_while(|_| !interrupt.is_interrupted())
            .collect()
    }

    fn set_steps(&self, interrupt: &dyn Interrupt) -> SetSteps<'a> {
        let mut steps = SetSteps::default();
        for (name, write) in &self.sets {
            if interrupt.is_interrupted() {
                break;
            }
            let Some(&before) = self.sets_before.get(name.as_str()) else {
                continue;
            };
            let Some(step) = write.step(before) else {
                continue;
            };
            let kind = match &step.action {
                Some(Action::DeleteReplicaSet { .. }) => &mut steps.deletes,
                Some(Action::ScaleReplicaSet { from, to, .. }) if to < from => &mut steps.downs,
                Some(Action::ScaleReplicaSet { .. }) => &mut steps.ups,
                _ => &mut steps.updates,
            };
            kind.push((before, step));
        }
        steps
    }
}

fn by_age<'a>(mut steps: Vec<(&'a ReplicaSet, Step)>) -> impl Iterator<Item = Step> + use<'a> {
    steps.sort_by(|(a, _), (b, _)| revision::by_age(a, b));
    steps.into_iter().map(|(_, step)| step)
}

/// Whether the merged write of the Deployment still changes it.
fn changes_owner(before: &Snapshot, step: &Step) -> bool {
    match &step.action {
        Some(Action::UpdateDeploymentStatus {
            status, revision, ..
        }) => revision.is_some() || before.deployment.status != *status,
        _ => true,
    }
}
