//! A custom resource must not select the pods of a running Deployment: both would run all pods. Kubernetes has no such rule,
//! because its own Deployments only overlap by mistake. A custom resource is often made from the manifest of a Deployment.

use super::{Pass, Stop, SyncResult, quote};
use crate::action::Event;
use crate::snapshot::{OwnerReference, ReplicaSet, Snapshot};
use crate::time::Span;

/// The reason of the condition, and of the event.
const SELECTOR_OVERLAP: &str = "SelectorOverlap";

/// The time after which to plan again. Nothing notifies a caller of changes to objects of other owners.
pub(crate) fn retry_after() -> Span {
    Span::from_seconds(10)
}

/// A ReplicaSet of a Deployment whose pods the custom resource selects, and this Deployment.
///
/// Only a custom resource without ReplicaSets of its own is refused, because a later Deployment must not stop the rollouts
/// of a custom resource that is already running. If a custom resource takes over the ReplicaSets of a deleted Deployment,
/// they have no owner.
#[must_use]
pub fn rival(snapshot: &Snapshot) -> Option<(&ReplicaSet, &OwnerReference)> {
    let owner = &snapshot.deployment;
    let has_own = || {
        let mut controllers = snapshot.replica_sets.iter();
        controllers.any(|set| {
            let controller = set.metadata.controller();
            controller.is_some_and(|it| it.uid == owner.metadata.uid)
        })
    };
    let deleting = owner.metadata.deletion_timestamp.is_some();
    if owner.is_native() || deleting || has_own() {
        return None;
    }
    others(snapshot).find(|(set, deployment)| {
        let is_native = deployment.api_version == "apps/v1" && deployment.kind == "Deployment";
        is_native && set.replicas > 0
    })
}

/// The ReplicaSets of other controllers that the selector matches, and these controllers. Those of an earlier object with
/// the same name do not count, because they are being deleted.
pub fn others(snapshot: &Snapshot) -> impl Iterator<Item = (&ReplicaSet, &OwnerReference)> {
    let owner = &snapshot.deployment;
    let sets = snapshot.replica_sets.iter();
    let controlled = sets.filter_map(|set| Some((set, set.metadata.controller()?)));
    controlled.filter(|(set, controller)| {
        let is_other = controller.uid != owner.metadata.uid
            && (&controller.kind, &controller.name) != (&owner.kind, &owner.metadata.name);
        is_other && owner.spec.selector.matches(&set.metadata.labels)
    })
}

/// The message for users.
#[must_use]
pub fn message((set, deployment): (&ReplicaSet, &OwnerReference)) -> String {
    format!(
        "the selector matches ReplicaSet {} of Deployment {}, so its pods would run twice",
        quote(&set.metadata.name),
        quote(&deployment.name)
    )
}

impl Pass<'_> {
    /// Reports the overlap, and does nothing else.
    pub(super) fn refuse_overlap(
        &mut self,
        rival: (&ReplicaSet, &OwnerReference),
    ) -> SyncResult<()> {
        let generation = self.owner.deployment.metadata.generation;
        let progressing = self.owner.progressing();
        if progressing.is_none_or(|it| it.reason != SELECTOR_OVERLAP) {
            let message = message(rival);
            self.writes
                .record(Event::warning(SELECTOR_OVERLAP, message.clone()));
            self.set_progressing("False", SELECTOR_OVERLAP, message);
        }
        if self.owner.status.observed_generation < generation {
            self.owner.status.to_mut().observed_generation = generation;
        }
        self.write_status()?;
        Err(Stop::Overlap)
    }
}
