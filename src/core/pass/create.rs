//! Creating the new ReplicaSet: its name, labels, owner and initial size, and the reaction to a rejection by the server.

use std::borrow::Cow;

use super::sets::{WorkingCopy, total};
use super::{Pass, Stop, SyncResult, has_template_of, publish, quote};
use crate::action::{Action, Event, NewReplicaSet, OnFailure, Target};
use crate::revision::{self, POD_TEMPLATE_HASH, TEMPLATE_DIGEST};
use crate::snapshot::{
    Deployment, ObjectMeta, ReplicaSet, StepFailure, StringMap, is_of_terminating_namespace,
};

/// The maximum length of the name of an object (Kubernetes: DNS1123SubdomainMaxLength).
const NAME_BYTES_MAX: usize = 253;

impl<'a> Pass<'a> {
    /// The second half of `getNewReplicaSet`.
    pub(super) fn create_new_set(
        &mut self,
        old: &[WorkingCopy],
        new_revision: i64,
    ) -> SyncResult<WorkingCopy> {
        let set = self.new_set(old, new_revision)?;
        self.checkpoint()?;
        let name = set.metadata.name.clone();
        if !self
            .owner
            .deployment
            .spec
            .selector
            .matches(&set.metadata.labels)
        {
            let message = "the selector does not match the labels of the template together with \
                           pod-template-hash";
            self.report_create_error(&name, message)?;
            return Err(Stop::Unselectable);
        }
        if let Some(existing) = self.taken(&name) {
            // If the Deployment controls it, its labels do not match the selector (otherwise, it would have been found by
            // its template), so this pass has released it, and the cached copy is stale.
            let is_written = self.owner.deployment.controls(existing);
            return self.use_or_avoid(existing, is_written, new_revision);
        }
        let created = set.as_created(self.snapshot.now);
        let size = set.replicas;
        let create = Action::CreateReplicaSet(Box::new(set));
        if let Err(failure) = self.writes.act(create, OnFailure::Stop) {
            return self.create_refused(&name, failure, new_revision);
        }
        if let Some(event) = Event::scaled(&name, 0, size) {
            self.writes.attach(event);
        }
        let copy = self.sets.add_new(Cow::Owned(created), false);
        let mut needs_update = self.owner.set_revision(new_revision.to_string());
        if self.owner.has_deadline() {
            let message = format!("Created new replica set {}", quote(&name));
            self.set_progressing("True", publish::NEW_SET_CREATED, message);
            needs_update = true;
        }
        if needs_update {
            self.write_status()?;
        }
        Ok(copy)
    }

    /// Checks for an interruption between the parts of the work, because the template may be large.
    fn new_set(&self, old: &[WorkingCopy], new_revision: i64) -> SyncResult<NewReplicaSet> {
        let deployment = self.owner.deployment;
        let collisions = self.owner.status.collision_count;
        let prepared = deployment.spec.template.prepared();
        self.checkpoint()?;
        let hash = prepared.hash(collisions);
        let labels = prepared.labels(&hash);
        let mut selector = deployment.spec.selector.clone();
        selector
            .match_labels
            .insert(POD_TEMPLATE_HASH.to_owned(), hash.clone());
        let mut annotations = Cow::Owned(StringMap::new());
        revision::sync_annotations(
            &deployment.metadata.annotations,
            &mut annotations,
            new_revision,
        );
        revision::set_replicas_annotations(
            &mut annotations,
            self.limits.replicas,
            self.limits.max_total(),
        );
        if !deployment.is_native() {
            let digest = deployment.spec.template.canonical_sha256();
            let annotations = annotations.to_mut();
            annotations.insert(TEMPLATE_DIGEST.to_owned(), digest.to_owned());
        }
        Ok(NewReplicaSet {
            metadata: ObjectMeta {
                name: set_name(&deployment.metadata.name, &hash),
                namespace: deployment.metadata.namespace.clone(),
                labels,
                annotations: annotations.into_owned(),
                owner_references: vec![Target::owner(deployment).controller_reference()],
                ..ObjectMeta::default()
            },
            replicas: self
                .caps
                .new_size(0, self.strategy.initial_size(self.limits, total(old))),
            min_ready_seconds: deployment.spec.min_ready_seconds,
            selector,
            template: deployment.spec.template.labelled(&hash),
            revision: new_revision,
        })
    }

    /// The ReplicaSet of the snapshot that has this name, so that the server would reject the creation.
    fn taken(&self, name: &str) -> Option<&'a ReplicaSet> {
        let namespace = &self.owner.deployment.metadata.namespace;
        let mut sets = self.snapshot.replica_sets.iter();
        sets.find(|set| set.metadata.name == name && set.metadata.namespace == *namespace)
    }

    /// Uses the ReplicaSet that has the name if it is the new one after all. Otherwise, the next pass tries another name.
    fn use_or_avoid(
        &mut self,
        existing: &'a ReplicaSet,
        is_written: bool,
        new_revision: i64,
    ) -> SyncResult<WorkingCopy> {
        if self.owner.deployment.controls(existing)
            && has_template_of(existing, self.owner.deployment)
        {
            let copy = self.sets.add_new(Cow::Borrowed(existing), is_written);
            if self.owner.set_revision(new_revision.to_string()) {
                self.write_status()?;
            }
            return Ok(copy);
        }
        let collisions = self.owner.status.collision_count.unwrap_or(0);
        self.owner.status.to_mut().collision_count = Some(collisions.saturating_add(1));
        self.write_status()?;
        Err(Stop::NameTaken)
    }

    /// Reacts to a creation that the server rejected when the last plan was carried out.
    fn create_refused(
        &mut self,
        name: &str,
        failure: &'a StepFailure,
        new_revision: i64,
    ) -> SyncResult<WorkingCopy> {
        if failure.reason == "AlreadyExists" {
            // Nothing can be decided without the object.
            let existing = failure.existing.as_ref().ok_or(Stop::NameTaken)?;
            return self.use_or_avoid(existing, false, new_revision);
        }
        if is_of_terminating_namespace(&failure.causes) {
            return Err(Stop::NamespaceTerminating);
        }
        self.report_create_error(name, &failure.message)?;
        Err(Stop::Refused)
    }

    fn report_create_error(&mut self, name: &str, error: &str) -> SyncResult<()> {
        let message = format!("Failed to create new replica set {}: {error}", quote(name));
        let event = Event::warning(publish::CREATE_FAILED, message.clone());
        self.writes.record(event);
        if self.owner.has_deadline() {
            self.set_progressing("False", publish::CREATE_FAILED, message);
            self.write_status()?;
        }
        Ok(())
    }
}

/// The name of the ReplicaSet that a pass creates for the current template.
#[must_use]
pub fn new_set_name(deployment: &Deployment) -> String {
    let prepared = deployment.spec.template.prepared();
    let hash = prepared.hash(deployment.status.collision_count);
    set_name(&deployment.metadata.name, &hash)
}

/// `generateReplicaSetName`: the name of the owner is cut if the result would be too long.
fn set_name(owner: &str, hash: &str) -> String {
    let max = NAME_BYTES_MAX.saturating_sub(1 + hash.len());
    let owner = &owner[..owner.floor_char_boundary(max)];
    format!("{owner}-{hash}")
}
