//! What an action does to the world. Planners use it to look past their own writes, tests to compare results.

use super::{Action, OwnerChange, SetChange, Target};
use crate::pass;
use crate::revision::REVISION;
use crate::snapshot::{ReplicaSet, Snapshot};
use crate::template::Template;

/// Does to the snapshot what the action does to the world, as far as the API server answers for it. Pods
/// start, end and are counted by others. An action on an object that the snapshot does not have does nothing.
pub fn apply(snapshot: &mut Snapshot, action: &Action) {
    match action {
        Action::CheckOwner { .. } => {}
        Action::AdoptReplicaSet {
            set,
            owner_references,
        }
        | Action::ReleaseReplicaSet {
            set,
            owner_references,
        } => {
            if let Some(set) = find(snapshot, set) {
                set.metadata.owner_references.clone_from(owner_references);
            }
        }
        Action::CreateReplicaSet(set) => {
            let created = pass::as_created(set, snapshot.now);
            snapshot.replica_sets.push(created);
        }
        Action::UpdateReplicaSet { set, change } => {
            if let Some(set) = find(snapshot, set) {
                change_set(set, change, set.replicas);
            }
        }
        Action::ScaleReplicaSet {
            set, to, change, ..
        } => {
            if let Some(set) = find(snapshot, set) {
                change_set(set, change, *to);
            }
        }
        Action::DeleteReplicaSet { set } => {
            snapshot
                .replica_sets
                .retain(|other| other.metadata.uid != set.uid);
        }
        Action::UpdateDeployment { change, .. } => change_owner(snapshot, change),
        Action::UpdateDeploymentStatus {
            status, revision, ..
        } => {
            snapshot.deployment.status.clone_from(status);
            if let Some(revision) = revision {
                let annotations = &mut snapshot.deployment.metadata.annotations;
                annotations.insert(REVISION.to_owned(), revision.clone());
            }
        }
    }
}

fn find<'a>(snapshot: &'a mut Snapshot, target: &Target) -> Option<&'a mut ReplicaSet> {
    let mut sets = snapshot.replica_sets.iter_mut();
    sets.find(|set| set.metadata.uid == target.uid)
}

/// The server counts a generation for every change of the spec, not for annotations. Pods that were once
/// ordered away do not come back as available ones when the size grows again.
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
