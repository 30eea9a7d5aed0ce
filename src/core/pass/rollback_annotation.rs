//! The rollback that an annotation requests. API versions that no longer exist introduced this annotation.
//!
//! Kubernetes source: `pkg/controller/deployment/rollback.go`.

use super::sets::WorkingCopy;
use super::{Pass, SyncResult, has_template_of, quote};
use crate::action::{Action, Event, OwnerChange, Target};
use crate::revision::{self, POD_TEMPLATE_HASH, ROLLBACK_TO};
use crate::snapshot::{Deployment, StringMap};
use crate::template::Value;

const NOT_FOUND: &str = "DeploymentRollbackRevisionNotFound";
const UNCHANGED: &str = "DeploymentRollbackTemplateUnchanged";
const DONE: &str = "DeploymentRollback";

/// `getRollbackTo`: the revision that the annotation names, or 0 for the previous one. A text that is not a number is not a
/// request.
#[must_use]
pub fn requested(deployment: &Deployment) -> Option<i64> {
    deployment
        .metadata
        .annotations
        .get(ROLLBACK_TO)?
        .parse()
        .ok()
}

impl Pass<'_> {
    /// `rollback`. The request is removed, whatever the result is.
    pub(super) fn roll_back(&mut self, requested: i64) -> SyncResult<()> {
        let found = self.find_and_sync_revision(true)?;
        let all: Vec<WorkingCopy> = found.all().cloned().collect();
        let mut wanted = requested;
        if wanted == 0 {
            wanted = revision::last_revision(all.iter().map(|set| self.sets.annotations(set)));
            if wanted == 0 {
                let message = "Unable to find last revision.".to_owned();
                self.writes.record(Event::warning(NOT_FOUND, message));
                return self.update_owner(self.without_request(None));
            }
        }
        let target = all
            .iter()
            .find(|set| revision::revision_of(self.sets.annotations(set)) == Some(wanted));
        let Some(target) = target else {
            let message = "Unable to find the revision to rollback to.".to_owned();
            self.writes.record(Event::warning(NOT_FOUND, message));
            return self.update_owner(self.without_request(None));
        };
        let name = quote(&self.owner.deployment.metadata.name);
        if has_template_of(self.sets.cached(target), self.owner.deployment) {
            let message = format!(
                "The rollback revision contains the same template as current deployment {name}"
            );
            self.writes.record(Event::warning(UNCHANGED, message));
            return self.update_owner(self.without_request(None));
        }
        self.update_owner(self.without_request(Some(target)))?;
        let message = format!("Rolled back deployment {name} to revision {wanted}");
        self.writes.attach(Event::normal(DONE, message));
        Ok(())
    }

    /// The change that removes the request, and restores template and annotations from a ReplicaSet if one is given
    /// (`SetFromReplicaSetTemplate`).
    fn without_request(&self, target: Option<&WorkingCopy>) -> OwnerChange {
        let before = &self.owner.deployment.metadata.annotations;
        let (mut after, template) = match target {
            Some(target) => (
                restored(before, self.sets.annotations(target)),
                Some(without_hash(self.sets.cached(target).template.value())),
            ),
            None => (before.clone(), None),
        };
        after.remove(ROLLBACK_TO);
        OwnerChange::between(before, after, template)
    }

    /// `updateDeploymentAndClearRollbackTo`.
    fn update_owner(&mut self, change: OwnerChange) -> SyncResult<()> {
        let owner = Target::owner(self.owner.deployment);
        self.write_owner(Action::UpdateDeployment { owner, change })
    }
}

/// `SetDeploymentAnnotationsTo`: the annotations of a Deployment that is rolled back to the template of a ReplicaSet. Those
/// that belong to each object are kept, and the others are restored with the template.
pub(crate) fn restored(deployment: &StringMap, set: &StringMap) -> StringMap {
    let kept = deployment.iter();
    let kept = kept.filter(|(key, _)| revision::is_skipped(key));
    let restored = set.iter().filter(|(key, _)| !revision::is_skipped(key));
    kept.chain(restored)
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}

/// The template of a ReplicaSet without the label `pod-template-hash`.
#[must_use]
pub fn without_hash(template: &Value) -> Value {
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
