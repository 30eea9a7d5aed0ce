//! Checks each successful write against the actual state.

use std::sync::Arc;

use rollplan_core::action::{Action, ApiCall};
use rollplan_core::snapshot::{Deployment, ReplicaSet, Snapshot};
use rollplan_world::at;

use super::is_ours;
use crate::adapter::Running;
use crate::server::{Rejection, StoredSet, Writer, Written};
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
        let created = match (action, written) {
            (Action::CreateReplicaSet(_), Written::Set(after)) => Some(&after.set.metadata.uid),
            _ => None,
        };
        self.begin_native(action, created.map(String::as_str));
        match (action, before, written) {
            (Action::CreateReplicaSet(_), _, Written::Set(after)) => {
                self.check_scale_up(running, after, 0);
            }
            (Action::ScaleReplicaSet { from, to, .. }, _, Written::Set(after)) if to > from => {
                self.check_scale_up(running, after, *from);
            }
            (Action::ScaleReplicaSet { from, .. }, _, Written::Set(after)) => {
                self.check_scale_down(running, after, *from);
            }
            _ => {}
        }
    }

    /// No ReplicaSet of another owner is changed, and none is adopted before the Deployment has been checked.
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
                    self.violate(
                        "adoption",
                        format!("{name} is adopted without an owner check"),
                    );
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
                    // The preconditions of the write are UID and generation, which do not depend on the owner.
                    self.tallies.count(Tally::ExemptDisowned);
                } else if !owned {
                    self.violate(
                        "owned",
                        format!("{name} is changed, but its owner is {owner:?}"),
                    );
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
            self.violate("lost-update", format!("{name} had size {size}, not {from}"));
        }
    }

    /// The call had the effect that `apply` predicts for its action.
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
        let mut predicted = Snapshot {
            now: at(self.now),
            deployment: owner_before.clone(),
            replica_sets: before
                .map(|stored| stored.set.clone())
                .into_iter()
                .collect(),
            pods: Arc::new([]),
            replica_sets_complete: true,
            pods_complete: false,
            failures: Vec::new(),
            events: Arc::new([]),
            surroundings: Arc::default(),
        };
        self.flaw.apply(&mut predicted, action);
        self.tallies.count(Tally::CheckApply);
        let same = match written {
            Written::Deployment(after) => same_owner(&predicted.deployment, after),
            Written::Set(after) => predicted
                .replica_sets
                .iter()
                .any(|set| same_set(set, &after.set)),
            Written::Deleted => predicted.replica_sets.is_empty(),
        };
        if !same {
            self.violate(
                "apply",
                format!("{action:?}: predicted {predicted:?}, actual {written:?}"),
            );
        }
    }

    pub(crate) fn check_rejection(&mut self, call: &ApiCall, rejection: &Rejection) {
        if rejection.code == 400 || rejection.code == 422 && !rejection.causes.is_empty() {
            let body = &call.body_json;
            self.violate("malformed", format!("{} in {body}", rejection.message));
        }
    }

    /// A rollback restores the template of the target ReplicaSet.
    pub(crate) fn check_undo(&mut self, name: &str, response: Result<Written, Rejection>) {
        let Ok(Written::Deployment(after)) = response else {
            return self.violate("undo", format!("{response:?}"));
        };
        self.tallies.count(Tally::CheckUndo);
        let target = self.store.sets.get(name);
        if !target.is_some_and(|target| target.set.template.same_as(&after.spec.template)) {
            self.violate("undo", format!("the template is not that of {name}"));
        }
    }
}

fn same_owner(predicted: &Deployment, actual: &Deployment) -> bool {
    predicted.metadata.annotations == actual.metadata.annotations
        && predicted.metadata.generation == actual.metadata.generation
        && predicted.status == actual.status
        && predicted.spec.template.value() == actual.spec.template.value()
}

fn same_set(predicted: &ReplicaSet, actual: &ReplicaSet) -> bool {
    let (a, b) = (&predicted.metadata, &actual.metadata);
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
        && predicted.replicas == actual.replicas
        && predicted.min_ready_seconds == actual.min_ready_seconds
        && predicted.status == actual.status
        && predicted.template.same_as(&actual.template)
}
