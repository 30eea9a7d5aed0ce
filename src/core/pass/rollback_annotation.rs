//! The rollback that an annotation asks for: what API versions that are gone left behind.
//!
//! Kubernetes source: `pkg/controller/deployment/rollback.go`.

use super::{Pass, Stop, SyncResult, WorkingCopy, quote};
use crate::action::{Action, Event, OnFailure, OwnerChange, Target};
use crate::revision::{self, POD_TEMPLATE_HASH, ROLLBACK_TO};
use crate::snapshot::{Deployment, StringMap};
use crate::template::Value;

const NOT_FOUND: &str = "DeploymentRollbackRevisionNotFound";
const UNCHANGED: &str = "DeploymentRollbackTemplateUnchanged";
const DONE: &str = "DeploymentRollback";

/// `getRollbackTo`: the revision that the annotation names, 0 meaning the one before. A text that is not a
/// number counts as no request.
pub(super) fn requested(deployment: &Deployment) -> Option<i64> {
    deployment
        .metadata
        .annotations
        .get(ROLLBACK_TO)?
        .parse()
        .ok()
}

impl Pass<'_> {
    /// `rollback`. Whatever comes of it, the request is removed.
    pub(super) fn roll_back(&mut self, requested: i64) -> SyncResult<()> {
        let found = self.find_and_sync_revision(true)?;
        let all: Vec<WorkingCopy> = found.all().cloned().collect();
        let mut wanted = requested;
        if wanted == 0 {
            wanted = revision::last_revision(all.iter().map(|set| self.annotations(set)));
            if wanted == 0 {
                let message = "Unable to find last revision.".to_owned();
                self.record(Event::warning(NOT_FOUND, message));
                return self.write_owner(self.without_request(None));
            }
        }
        let target = all
            .iter()
            .find(|set| revision::revision_of(self.annotations(set)) == Some(wanted));
        let Some(target) = target else {
            let message = "Unable to find the revision to rollback to.".to_owned();
            self.record(Event::warning(NOT_FOUND, message));
            return self.write_owner(self.without_request(None));
        };
        let name = quote(&self.owner.deployment.metadata.name);
        if self.has_current_template(self.cached(target)) {
            let message = format!(
                "The rollback revision contains the same template as current deployment {name}"
            );
            self.record(Event::warning(UNCHANGED, message));
            return self.write_owner(self.without_request(None));
        }
        self.write_owner(self.without_request(Some(target)))?;
        let message = format!("Rolled back deployment {name} to revision {wanted}");
        self.attach(Event::normal(DONE, message));
        Ok(())
    }

    /// The change that removes the request, and takes template and annotations from a ReplicaSet if one is
    /// given (`SetFromReplicaSetTemplate`).
    fn without_request(&self, target: Option<&WorkingCopy>) -> OwnerChange {
        let before = &self.owner.deployment.metadata.annotations;
        let (mut after, template) = match target {
            Some(target) => (
                restored(before, self.annotations(target)),
                Some(without_hash(self.cached(target).template.value())),
            ),
            None => (before.clone(), None),
        };
        after.remove(ROLLBACK_TO);
        OwnerChange::between(before, after, template)
    }

    /// `updateDeploymentAndClearRollbackTo`.
    fn write_owner(&mut self, change: OwnerChange) -> SyncResult<()> {
        if self.owner.written {
            return Err(Stop::Stale);
        }
        let action = Action::UpdateDeployment {
            owner: Target::owner(self.owner.deployment),
            change,
        };
        self.act(action, OnFailure::Stop)
            .map_err(|_| Stop::Refused)?;
        self.owner.written = true;
        Ok(())
    }
}

/// `SetDeploymentAnnotationsTo`: the annotations of a Deployment that goes back to a ReplicaSet's template. What
/// stays with each object stays; the rest comes with the template.
pub(crate) fn restored(deployment: &StringMap, set: &StringMap) -> StringMap {
    let stays = deployment.iter();
    let stays = stays.filter(|(key, _)| revision::is_skipped(key));
    let comes = set.iter().filter(|(key, _)| !revision::is_skipped(key));
    stays
        .chain(comes)
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}

/// The template of a ReplicaSet without the label that tells it from others.
pub(crate) fn without_hash(template: &Value) -> Value {
    let mut template = template.clone();
    let labels = template
        .as_map_mut()
        .and_then(|template| template.get_mut("metadata"))
        .and_then(Value::as_map_mut)
        .and_then(|metadata| metadata.get_mut("labels"))
        .and_then(Value::as_map_mut);
    if let Some(labels) = labels {
        labels.remove(POD_TEMPLATE_HASH);
    }
    template
}
