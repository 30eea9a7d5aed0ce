//! The Deployment of a pass: as the controller holds it in memory, and as the server has it.

use std::borrow::Cow;

use super::{publish, quote};
use crate::action::{Action, OwnerChange, Target};
use crate::revision::REVISION;
use crate::snapshot::{Condition, Deployment, DeploymentStatus};
use crate::status;
use crate::time::Time;

/// The Deployment.
pub(super) struct Owner<'a> {
    pub(super) deployment: &'a Deployment,
    /// The revision annotation in memory.
    revision: Option<Cow<'a, str>>,
    /// The status in memory.
    pub(super) status: Cow<'a, DeploymentStatus>,
    pub(super) stored_status: Cow<'a, DeploymentStatus>,
    /// Whether the pass has written it. The copy in the memory of the controller is stale from then on.
    pub(super) is_written: bool,
}

// === impl Owner ===

impl<'a> Owner<'a> {
    pub(super) fn new(deployment: &'a Deployment) -> Self {
        let revision = deployment.metadata.annotations.get(REVISION);
        Self {
            deployment,
            revision: revision.map(|revision| Cow::Borrowed(revision.as_str())),
            status: Cow::Borrowed(&deployment.status),
            stored_status: Cow::Borrowed(&deployment.status),
            is_written: false,
        }
    }

    pub(super) fn has_deadline(&self) -> bool {
        status::has_progress_deadline(self.deployment)
    }

    pub(super) fn progressing(&self) -> Option<&Condition> {
        status::condition(&self.status, status::PROGRESSING)
    }

    /// Whether the status has no condition for the rollout of this ReplicaSet with this revision.
    ///
    /// The server writes status and revision of a Deployment at once, and those of a custom resource with two calls, of
    /// which either may fail. Kubernetes never times out a rollout that was complete, so a custom resource that keeps the
    /// condition of an earlier rollout would never report that a later one is stuck. Its conditions before the revision is
    /// written are therefore those of an earlier rollout, except for the first one of this rollout.
    fn misses_rollout(&self, set: &str, revision: &str) -> bool {
        if !self.has_deadline() {
            return false;
        }
        let Some(progressing) = self.progressing() else {
            return true;
        };
        let Deployment { metadata, spec, .. } = self.deployment;
        if self.deployment.is_native() || spec.paused || metadata.deletion_timestamp.is_some() {
            return false;
        }
        let named = progressing.message.split('"').nth(1);
        let is_first = named == Some(set) && is_first(progressing);
        let is_earlier = named.is_some_and(|named| named != set)
            || progressing.reason == publish::CREATE_FAILED
            || self.stored_revision() != revision;
        is_earlier && !is_first
    }

    /// Sets the condition of the rollout of this ReplicaSet, if the status has none for it. Returns whether it did.
    pub(super) fn find_rollout(&mut self, set: &str, revision: &str, now: Time) -> bool {
        if !self.misses_rollout(set, revision) {
            return false;
        }
        let message = format!("Found new replica set {}", quote(set));
        let reason = publish::FOUND_NEW_SET;
        let condition = status::new_condition(status::PROGRESSING, "True", reason, message, now);
        status::replace_condition(self.status.to_mut(), condition);
        true
    }

    /// Whether the condition in memory is the first one of a rollout, and the server does not have it.
    fn begins_rollout(&self) -> bool {
        let stored = status::condition(&self.stored_status, status::PROGRESSING);
        self.progressing()
            .is_some_and(|progressing| is_first(progressing) && stored != Some(progressing))
    }

    /// Go reads an absent annotation as "".
    fn stored_revision(&self) -> &str {
        let annotations = &self.deployment.metadata.annotations;
        annotations.get(REVISION).map_or("", String::as_str)
    }

    pub(super) fn set_progressing(
        &mut self,
        value: &str,
        reason: &str,
        message: String,
        now: Time,
    ) {
        let condition = status::new_condition(status::PROGRESSING, value, reason, message, now);
        status::set_condition(self.status.to_mut(), condition);
    }

    /// `SetDeploymentRevision`, in memory. Returns whether it changes the revision.
    pub(super) fn set_revision(&mut self, revision: String) -> bool {
        // Go reads an absent annotation as "".
        let changed = self.revision.as_deref().unwrap_or_default() != revision;
        if changed {
            self.revision = Some(Cow::Owned(revision));
        }
        changed
    }

    /// The action that writes status and revision as they are in memory. `None` if the server has them. The API server
    /// drops metadata from a write of the status of a custom resource, so its revision has a write of its own. The first
    /// condition of a rollout is written before the revision, and any other status after it.
    pub(super) fn difference(&self) -> Option<Action> {
        let deployment = self.deployment;
        let stored = deployment.metadata.annotations.get(REVISION);
        let revision = self.revision.as_deref();
        let revision = revision.filter(|revision| stored.is_none_or(|stored| stored != revision));
        if revision.is_none() && self.status == self.stored_status {
            return None;
        }
        let owner = Target::owner(deployment);
        let is_native = deployment.is_native();
        let (revision, alone) = if is_native || self.begins_rollout() {
            (revision.filter(|_| is_native), None)
        } else {
            (None, revision)
        };
        if let Some(revision) = alone {
            let before = &deployment.metadata.annotations;
            let mut after = before.clone();
            after.insert(REVISION.to_owned(), revision.to_owned());
            let change = OwnerChange::between(before, after, None);
            return Some(Action::UpdateDeployment { owner, change });
        }
        Some(Action::UpdateDeploymentStatus {
            owner,
            status: self.status.clone().into_owned(),
            revision: revision.map(str::to_owned),
            selector: (!is_native).then(|| deployment.spec.selector.to_string()),
            ready: (!is_native).then(|| {
                let (ready, wanted) = (self.status.ready_replicas, deployment.spec.replicas);
                format!("{ready}/{wanted}")
            }),
        })
    }
}

/// Whether a condition is the first one of a rollout.
fn is_first(progressing: &Condition) -> bool {
    let reason = progressing.reason.as_str();
    [publish::NEW_SET_CREATED, publish::FOUND_NEW_SET].contains(&reason)
}
