//! The revisions of a Deployment, as `kubectl rollout history` lists them, with more details.

use crate::interrupt::{Interrupt, Interrupted, Never};
use crate::pass;
use crate::revision;
use crate::snapshot::{ReplicaSet, Snapshot};
use crate::time::Time;

pub(crate) const CHANGE_CAUSE: &str = "kubernetes.io/change-cause";

/// A revision of a Deployment, a StatefulSet or a DaemonSet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Revision {
    /// The number. 0 if the ReplicaSet does not have one.
    pub revision: i64,
    /// The name of the ReplicaSet of a Deployment.
    pub replica_set: String,
    /// The name of the ControllerRevision of a StatefulSet or a DaemonSet.
    pub controller_revision: String,
    /// The annotation `kubernetes.io/change-cause`.
    pub change_cause: String,
    /// The images of the containers, in the order of the template.
    pub images: Vec<String>,
    /// When the ReplicaSet was created.
    pub creation_timestamp: Option<Time>,
    /// The number of desired pods of the ReplicaSet, or of existing pods of the ControllerRevision.
    pub replicas: i32,
    /// The number of ready pods.
    pub ready_replicas: i32,
    /// The number of available pods.
    pub available_replicas: i32,
    /// Whether it has the current template.
    pub current: bool,
    /// Whether the history clean-up would delete it now or after the next revision.
    pub cleaned_up_next: bool,
    /// The earlier numbers of the ReplicaSet, the oldest first.
    pub earlier_revisions: Vec<i64>,
}

/// The revisions of a Deployment, the oldest first. If the list of ReplicaSets may be incomplete, revisions may be missing,
/// and fewer are expected to be cleaned up.
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
    // A stable sort: among equal numbers, the oldest comes first.
    old.sort_by_key(|(number, _)| *number);
    let limit = snapshot.deployment.spec.revision_history_limit;
    let alive = |set: &ReplicaSet| set.metadata.deletion_timestamp.is_none();
    // The next revision turns the current one into an old one.
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
    // The current template may be an older one that was just restored, and that does not have its new number yet.
    revisions.sort_by_key(|revision| revision.revision);
    revisions
}

fn describe(set: &ReplicaSet, current: bool, cleaned_up_next: bool) -> Revision {
    let annotations = &set.metadata.annotations;
    Revision {
        revision: revision::revision_of(annotations).unwrap_or(0),
        replica_set: set.metadata.name.clone(),
        controller_revision: String::new(),
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
