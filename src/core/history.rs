//! The revisions of a Deployment, as `kubectl rollout history` lists them, and a little more.

use crate::interrupt::{Interrupt, Interrupted, Never};
use crate::pass;
use crate::revision;
use crate::snapshot::{ReplicaSet, Snapshot};
use crate::time::Time;

const CHANGE_CAUSE: &str = "kubernetes.io/change-cause";

/// One revision of a Deployment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Revision {
    /// Its number, 0 when the ReplicaSet has none that is a number.
    pub revision: i64,
    /// Name of its ReplicaSet.
    pub replica_set: String,
    /// Why it was made, as a user has noted.
    pub change_cause: String,
    /// Images of its containers, in the order of the template.
    pub images: Vec<String>,
    /// When its ReplicaSet was created.
    pub creation_timestamp: Option<Time>,
    /// Wanted pods of its ReplicaSet.
    pub replicas: i32,
    /// Ready pods of its ReplicaSet.
    pub ready_replicas: i32,
    /// Available pods of its ReplicaSet.
    pub available_replicas: i32,
    /// Whether it has the current template.
    pub current: bool,
    /// Whether history clean-up would delete it now, or when the next revision comes.
    pub cleaned_up_next: bool,
    /// Numbers that it had before, oldest first.
    pub earlier_revisions: Vec<i64>,
}

/// The revisions there are, oldest first. Without all ReplicaSets, those of the ones that are there; fewer are then found
/// to be deleted next.
#[must_use]
pub fn list_revisions(snapshot: &Snapshot) -> Vec<Revision> {
    list(snapshot, &Never)
}

/// [`list_revisions`], unless it is interrupted.
///
/// # Errors
///
/// [`Interrupted`].
pub fn list_revisions_until(
    snapshot: &Snapshot,
    interrupt: &dyn Interrupt,
) -> Result<Vec<Revision>, Interrupted> {
    let revisions = list(snapshot, interrupt);
    interrupt.check().map(|()| revisions)
}

fn list(snapshot: &Snapshot, interrupt: &dyn Interrupt) -> Vec<Revision> {
    let (new, old) = pass::roles(snapshot, interrupt);
    let numbered = old.into_iter().take_while(|_| !interrupt.is_interrupted());
    let mut old: Vec<(Option<i64>, &ReplicaSet)> = numbered
        .map(|set| (revision::revision_of(&set.metadata.annotations), set))
        .collect();
    // They come by age.
    old.sort_by_key(|(number, _)| *number);
    let limit = snapshot.deployment.spec.revision_history_limit;
    let alive = |set: &ReplicaSet| set.metadata.deletion_timestamp.is_none();
    // The current revision will be an old one then.
    let kept = old.iter().filter(|(_, set)| alive(set)).count() + usize::from(new.is_some());
    let mut surplus = match limit {
        i32::MAX => 0,
        limit => kept.saturating_sub(usize::try_from(limit).unwrap_or(0)),
    };
    let mut revisions = Vec::new();
    for (_, set) in old {
        if interrupt.is_interrupted() {
            break;
        }
        let counted = alive(set) && surplus > 0;
        surplus -= usize::from(counted);
        let idle = set.replicas == 0 && set.status.replicas == 0;
        revisions.push(describe(set, false, counted && idle));
    }
    revisions.extend(new.map(|set| describe(set, true, false)));
    // The current template may be an older one that came back a moment ago, its number not raised yet.
    revisions.sort_by_key(|revision| revision.revision);
    revisions
}

fn describe(set: &ReplicaSet, current: bool, cleaned_up_next: bool) -> Revision {
    let annotations = &set.metadata.annotations;
    Revision {
        revision: revision::revision_of(annotations).unwrap_or(0),
        replica_set: set.metadata.name.clone(),
        change_cause: annotations.get(CHANGE_CAUSE).cloned().unwrap_or_default(),
        images: set.template.images(),
        creation_timestamp: set.metadata.creation_timestamp,
        replicas: set.replicas,
        ready_replicas: set.status.ready_replicas,
        available_replicas: set.status.available_replicas,
        current,
        cleaned_up_next,
        earlier_revisions: revision::earlier_revisions(annotations).collect(),
    }
}
