//! Looking ReplicaSets up: the new one, by its template, and the old ones; revision and annotations of the new
//! one are brought up to date on the way, as Kubernetes does.

use std::borrow::Cow;
use std::rc::Rc;

use super::{Found, Pass, SyncResult, WorkingCopy, conditions, quote};
use crate::action::OnFailure;
use crate::revision::{self, REVISION, TEMPLATE_DIGEST};
use crate::snapshot::{Deployment, ReplicaSet};

impl Pass<'_> {
    /// `getAllReplicaSetsAndSyncRevision` and the first half of `getNewReplicaSet`: looks the ReplicaSets up,
    /// and brings annotations and revision of the new one and of the Deployment up to date.
    pub(super) fn find_and_sync_revision(&mut self, create_if_missing: bool) -> SyncResult<Found> {
        let Found { new, old } = self.look_up_all();
        let unless_interrupted = old.iter().take_while(|_| self.checkpoint().is_ok());
        let highest = revision::max_revision(unless_interrupted.map(|set| self.annotations(set)));
        self.checkpoint()?;
        let new_revision = revision::next_revision(highest);
        let new = match new {
            Some(set) => Some(self.sync_new_set(set, new_revision)?),
            None if create_if_missing => Some(self.create_new_set(&old, new_revision)?),
            None => None,
        };
        Ok(Found { new, old })
    }

    pub(super) fn look_up_all(&self) -> Found {
        let all = || (0..self.sets.len()).map(|index| self.look_up(index));
        Found {
            new: all().find(|set| Some(set.index) == self.current),
            old: all()
                .filter(|set| Some(set.index) != self.current)
                .collect(),
        }
    }

    /// `FindNewReplicaSet`: of several with the current template, the oldest.
    pub(crate) fn find_current(&mut self) -> SyncResult<()> {
        for index in 0..self.sets.len() {
            self.checkpoint()?;
            if self.has_current_template(&self.sets[index].cached) {
                self.current = Some(index);
                break;
            }
        }
        Ok(())
    }

    pub(super) fn has_current_template(&self, set: &ReplicaSet) -> bool {
        has_template_of(set, self.owner.deployment)
    }

    pub(super) fn sync_new_set(
        &mut self,
        mut set: WorkingCopy,
        new_revision: i64,
    ) -> SyncResult<WorkingCopy> {
        let deployment = self.owner.deployment;
        let mut annotations = Cow::Borrowed(self.annotations(&set));
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
        let revision = self.annotations(&set).get(REVISION).cloned();
        let mut needs_update = self.set_revision(revision.unwrap_or_default());
        if self.has_deadline() && self.progressing().is_none() {
            let name = &self.sets[set.index].cached.metadata.name;
            let message = format!("Found new replica set {}", quote(name));
            self.set_progressing("True", conditions::FOUND_NEW_SET, message);
            needs_update = true;
        }
        if needs_update {
            self.write_status()?;
        }
        Ok(set)
    }

    /// `SetDeploymentRevision`, in memory.
    pub(super) fn set_revision(&mut self, revision: String) -> bool {
        // Go reads an absent annotation as "".
        let changed = self.owner.revision.as_deref().unwrap_or_default() != revision;
        if changed {
            self.owner.revision = Some(Cow::Owned(revision));
        }
        changed
    }
}

/// Whether a ReplicaSet has the template of a Deployment. The stored template of a custom resource lacks the defaults that the
/// ReplicaSet's has. The note of what was written decides as well: a server may change a template in other ways.
pub(crate) fn has_template_of(set: &ReplicaSet, deployment: &Deployment) -> bool {
    let template = &deployment.spec.template;
    let is_noted = |digest: &String| digest == template.canonical_sha256();
    let note = || set.metadata.annotations.get(TEMPLATE_DIGEST);
    set.template.same_as(template)
        || !deployment.is_native()
            && (note().is_some_and(is_noted) || set.template.is_stored_form_of(template))
}
