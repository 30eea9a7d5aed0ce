//! What must hold of each write that succeeded, against the world as it is.

use std::sync::Arc;

use rollplan_core::action::{Action, ApiCall};
use rollplan_core::snapshot::{Deployment, ReplicaSet, Snapshot};

use super::is_ours;
use crate::adapter::Running;
use crate::clock;
use crate::server::{Refusal, StoredSet, Writer, Written};
use crate::tally::Tally;
use crate::world::World;

impl World {
    pub(crate) fn check_write(
        &mut self,
        action: &Action,
        before: Option<&StoredSet>,
        owner_before: Option<&Deployment>,
        written: &Written,
        running: &Running,
    ) {
        self.check_ownership(action, before, running);
        self.check_lost_update(action, before);
        self.check_apply(action, before, owner_before, written);
        match (action, before, written) {
            (Action::CreateReplicaSet(_), _, Written::Set(after)) => {
                self.check_growth(running, after, 0);
            }
            (Action::ScaleReplicaSet { from, to, .. }, _, Written::Set(after)) if to > from => {
                self.check_growth(running, after, *from);
            }
            (Action::ScaleReplicaSet { from, .. }, _, Written::Set(after)) => {
                self.check_shrinking(running, after, *from);
            }
            _ => {}
        }
    }

    /// No ReplicaSet of another owner is touched, and none is adopted for a Deployment that was not asked for.
    fn check_ownership(&mut self, action: &Action, before: Option<&StoredSet>, running: &Running) {
        let deployment = &running.seen.snapshot.deployment;
        let Some(before) = before else {
            return;
        };
        let set = &before.set;
        let name = &set.metadata.name;
        let owner = set.metadata.controller();
        let owned = owner.is_some_and(|owner| owner.uid == deployment.metadata.uid);
        match action {
            Action::CheckOwner { .. }
            | Action::UpdateDeployment { .. }
            | Action::UpdateDeploymentStatus { .. } => {}
            Action::AdoptReplicaSet { .. } => {
                self.tallies.count(Tally::CheckAdoption);
                if !running.owner_checked {
                    self.violate("adoption", format!("{name} without a check of the owner"));
                }
                if !is_ours(deployment, set) {
                    self.violate("owned", format!("{name} is adopted from {owner:?}"));
                }
            }
            _ => {
                self.tallies.count(Tally::CheckOwned);
                let seen = &running.seen.snapshot.replica_sets;
                let was_ours = seen
                    .iter()
                    .any(|seen| seen.metadata.uid == set.metadata.uid && is_ours(deployment, seen));
                if !owned && was_ours && before.changed_by == Writer::Other {
                    // The write tests uid and generation, and an owner is neither.
                    self.tallies.count(Tally::ExemptDisowned);
                } else if !owned {
                    self.violate("owned", format!("{name} of {owner:?} is written"));
                }
            }
        }
    }

    fn check_lost_update(&mut self, action: &Action, before: Option<&StoredSet>) {
        let (Action::ScaleReplicaSet { set, from, .. }, Some(before)) = (action, before) else {
            return;
        };
        self.tallies.count(Tally::CheckNoLostUpdate);
        let (name, size) = (&set.name, before.set.replicas);
        if size != *from || before.set.metadata.uid != set.uid {
            self.violate("lost-update", format!("{name} had {size} pods, not {from}"));
        }
    }

    /// What the bytes of the call did is what the action says of itself.
    fn check_apply(
        &mut self,
        action: &Action,
        before: Option<&StoredSet>,
        owner_before: Option<&Deployment>,
        written: &Written,
    ) {
        let Some(owner_before) = owner_before.or(self.store.deployment.as_deref()) else {
            return;
        };
        let mut told = Snapshot {
            now: clock::at(self.now),
            deployment: owner_before.clone(),
            replica_sets: before
                .map(|stored| stored.set.clone())
                .into_iter()
                .collect(),
            pods: Arc::new([]),
            pods_complete: false,
            failures: Vec::new(),
        };
        self.flaw.apply(&mut told, action);
        self.tallies.count(Tally::CheckApply);
        let same = match written {
            Written::Deployment(after) => same_owner(&told.deployment, after),
            Written::Set(after) => told
                .replica_sets
                .iter()
                .any(|set| same_set(set, &after.set)),
            Written::Gone => told.replica_sets.is_empty(),
        };
        if !same {
            self.violate(
                "apply",
                format!("{action:?} told {told:?}, did {written:?}"),
            );
        }
    }

    pub(crate) fn check_refusal(&mut self, call: &ApiCall, refusal: &Refusal) {
        if refusal.code == 400 || refusal.code == 422 && !refusal.causes.is_empty() {
            let body = &call.body_json;
            self.violate("malformed", format!("{} in {body}", refusal.message));
        }
    }

    /// After an undo the Deployment has the template of the ReplicaSet that it goes back to.
    pub(crate) fn check_undo(&mut self, name: &str, answer: Result<Written, Refusal>) {
        let Ok(Written::Deployment(after)) = answer else {
            return self.violate("undo", format!("{answer:?}"));
        };
        self.tallies.count(Tally::CheckUndo);
        let target = self.store.sets.get(name);
        if !target.is_some_and(|target| target.set.template.same_as(&after.spec.template)) {
            self.violate("undo", format!("not the template of {name}"));
        }
    }
}

fn same_owner(told: &Deployment, did: &Deployment) -> bool {
    told.metadata.annotations == did.metadata.annotations
        && told.metadata.generation == did.metadata.generation
        && told.status == did.status
        && told.spec.template.value() == did.spec.template.value()
}

fn same_set(told: &ReplicaSet, did: &ReplicaSet) -> bool {
    let (a, b) = (&told.metadata, &did.metadata);
    (
        &a.name,
        &a.labels,
        &a.annotations,
        &a.owner_references,
        a.generation,
    ) == (
        &b.name,
        &b.labels,
        &b.annotations,
        &b.owner_references,
        b.generation,
    ) && a.creation_timestamp == b.creation_timestamp
        && told.replicas == did.replicas
        && told.min_ready_seconds == did.min_ready_seconds
        && told.status == did.status
        && told.template.same_as(&did.template)
}
