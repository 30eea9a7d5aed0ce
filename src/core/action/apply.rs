//! The effect of an action on a snapshot. A look-ahead applies its own writes with it, and tests compare results.

use std::collections::{BTreeMap, BTreeSet};

use super::{Action, OwnerChange, SetChange, Target};
use crate::interrupt::{Interrupt, Never};
use crate::revision::REVISION;
use crate::snapshot::{ReplicaSet, Snapshot};
use crate::template::Template;

/// Changes the snapshot as the API server changes its objects when the action is carried out. What other controllers do
/// about it, such as creating and counting pods, is not applied. An action on an object that the snapshot does not contain
/// has no effect.
pub fn apply(snapshot: &mut Snapshot, action: &Action) {
    apply_all(snapshot, &[action], &Never);
}

/// [`apply`] of each action in order. ReplicaSets are looked up once for all actions, because there may be thousands of
/// both. If it is interrupted, some actions are not applied.
pub(crate) fn apply_all(snapshot: &mut Snapshot, actions: &[&Action], interrupt: &dyn Interrupt) {
    let written = actions.iter().filter_map(|action| target(action));
    let written: BTreeSet<&str> = written.map(|set| set.uid.as_str()).collect();
    let sets = snapshot.replica_sets.iter().enumerate();
    let by_uid: BTreeMap<&str, usize> = sets
        .take_while(|_| !interrupt.is_interrupted())
        .map(|(index, set)| (set.metadata.uid.as_str(), index))
        .filter(|(uid, _)| written.contains(uid))
        .collect();
    let index_of = |action: &&Action| by_uid.get(target(action)?.uid.as_str()).copied();
    let indices: Vec<Option<usize>> = actions.iter().map(index_of).collect();
    let mut deleted = BTreeSet::new();
    for (action, index) in actions.iter().zip(indices) {
        if interrupt.is_interrupted() {
            return;
        }
        // An earlier action may have created the ReplicaSet.
        let index = index.or_else(|| {
            let uid = &target(action)?.uid;
            let mut sets = snapshot.replica_sets.iter();
            sets.position(|set| set.metadata.uid == *uid)
        });
        let index = index.filter(|index| !deleted.contains(index));
        if let (Action::DeleteReplicaSet { .. }, Some(index)) = (action, index) {
            deleted.insert(index);
        } else {
            apply_to(snapshot, action, index);
        }
    }
    let mut index = 0..;
    let mut stays = || index.next().is_some_and(|index| !deleted.contains(&index));
    snapshot.replica_sets.retain(|_| stays());
}

/// The existing ReplicaSet that an action writes.
fn target(action: &Action) -> Option<&Target> {
    match action {
        Action::AdoptReplicaSet { set, .. }
        | Action::ReleaseReplicaSet { set, .. }
        | Action::UpdateReplicaSet { set, .. }
        | Action::ScaleReplicaSet { set, .. }
        | Action::DeleteReplicaSet { set } => Some(set),
        Action::CheckOwner { .. }
        | Action::CreateReplicaSet(_)
        | Action::UpdateDeployment { .. }
        | Action::UpdateDeploymentStatus { .. } => None,
    }
}

/// Applies an action other than a deletion, all of which the caller applies together.
fn apply_to(snapshot: &mut Snapshot, action: &Action, index: Option<usize>) {
    let set = index.and_then(|index| snapshot.replica_sets.get_mut(index));
    match (action, set) {
        (
            Action::AdoptReplicaSet {
                owner_references, ..
            }
            | Action::ReleaseReplicaSet {
                owner_references, ..
            },
            Some(set),
        ) => set.metadata.owner_references.clone_from(owner_references),
        (Action::UpdateReplicaSet { change, .. }, Some(set)) => {
            change_set(set, change, set.replicas);
        }
        (Action::ScaleReplicaSet { to, change, .. }, Some(set)) => change_set(set, change, *to),
        (Action::CreateReplicaSet(set), _) => {
            let created = set.as_created(snapshot.now);
            snapshot.replica_sets.push(created);
        }
        (Action::UpdateDeployment { change, .. }, _) => change_owner(snapshot, change),
        (
            Action::UpdateDeploymentStatus {
                status, revision, ..
            },
            _,
        ) => {
            snapshot.deployment.status.clone_from(status);
            if let Some(revision) = revision {
                let annotations = &mut snapshot.deployment.metadata.annotations;
                annotations.insert(REVISION.to_owned(), revision.clone());
            }
        }
        (
            Action::AdoptReplicaSet { .. }
            | Action::ReleaseReplicaSet { .. }
            | Action::UpdateReplicaSet { .. }
            | Action::ScaleReplicaSet { .. },
            None,
        )
        | (Action::CheckOwner { .. } | Action::DeleteReplicaSet { .. }, _) => {}
    }
}

/// The server increments the generation when the spec changes, but not for annotations. Pods that a smaller size removed
/// are not available again when the size grows.
fn change_set(set: &mut ReplicaSet, change: &SetChange, replicas: i32) {
    let seconds = change.min_ready_seconds.unwrap_or(set.min_ready_seconds);
    if set.replicas != replicas || set.min_ready_seconds != seconds {
        set.metadata.generation = set.metadata.generation.saturating_add(1);
    }
    set.available_max = set.available_max.min(set.replicas).min(replicas);
    set.replicas = replicas;
    set.min_ready_seconds = seconds;
    let annotations = &mut set.metadata.annotations;
    annotations.extend(change.annotations.clone());
}

fn change_owner(snapshot: &mut Snapshot, change: &OwnerChange) {
    let deployment = &mut snapshot.deployment;
    deployment
        .metadata
        .annotations
        .clone_from(&change.all_annotations);
    if let Some(template) = &change.template {
        deployment.spec.template = Template::from(template.clone());
        deployment.metadata.generation = deployment.metadata.generation.saturating_add(1);
    }
}
