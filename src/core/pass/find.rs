//! Looking up the new ReplicaSet and the old ones, which updates revision and annotations of the new one, as in Kubernetes.

use std::borrow::Cow;
use std::rc::Rc;

use super::sets::{Found, WorkingCopy};
use super::{Pass, SyncResult};
use crate::action::OnFailure;
use crate::revision::{self, REVISION, TEMPLATE_DIGEST};
use crate::snapshot::{Deployment, ReplicaSet};

impl Pass<'_> {
    /// `getAllReplicaSetsAndSyncRevision` and the first half of `getNewReplicaSet`: looks up the ReplicaSets, and updates
    /// annotations and revision of the new one and of the Deployment.
    pub(super) fn find_and_sync_revision(&mut self, create_if_missing: bool) -> SyncResult<Found> {
        let Found { new, old } = self.sets.look_up_all();
        let unless_interrupted = old.iter().take_while(|_| self.checkpoint().is_ok());
        let annotations = unless_interrupted.map(|set| self.sets.annotations(set));
        let highest = revision::max_revision(annotations);
        self.checkpoint()?;
        let new_revision = revision::next_revision(highest);
        let new = match new {
            Some(set) => Some(self.sync_new_set(set, new_revision)?),
            None if create_if_missing => Some(self.create_new_set(&old, new_revision)?),
            None => None,
        };
        Ok(Found { new, old })
    }

    fn sync_new_set(&mut self, mut set: WorkingCopy, new_revision: i64) -> SyncResult<WorkingCopy> {
        let deployment = self.owner.deployment;
        let mut annotations = Cow::Borrowed(self.sets.annotations(&set));
        let changed = revision::sync_annotations(
            &deployment.metadata.annotations,
            &mut annotations,
            new_revision,
        );
        if let Cow::Owned(annotations) = annotations {
            set.annotations = Some(Rc::new(annotations));
        }
        if changed || set.min_ready_seconds != deployment.spec.min_ready_seconds {
            set.min_ready_seconds = deployment.spec.min_ready_seconds;
            return self.write_set(set, OnFailure::Stop);
        }
        let revision = self.sets.annotations(&set).get(REVISION).cloned();
        let name = &self.sets.cached(&set).metadata.name;
        let revision = revision.unwrap_or_default();
        let is_found = self.owner.find_rollout(name, &revision, self.snapshot.now);
        let needs_update = self.owner.set_revision(revision) || is_found;
        if needs_update {
            self.write_status()?;
        }
        Ok(set)
    }
}

/// Whether a ReplicaSet has the template of a Deployment. The template of a custom resource is stored without the defaults
/// that the template of a ReplicaSet has. The digest of the template that was written counts as well, because a server may
/// change a template in other ways.
#[must_use]
pub fn has_template_of(set: &ReplicaSet, deployment: &Deployment) -> bool {
    let template = &deployment.spec.template;
    let is_noted = |digest: &String| digest == template.canonical_sha256();
    let note = || set.metadata.annotations.get(TEMPLATE_DIGEST);
    set.template.same_as(template)
        || !deployment.is_native()
            && (note().is_some_and(is_noted) || set.template.is_stored_form_of(template))
}
