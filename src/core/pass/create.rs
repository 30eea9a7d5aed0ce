//! Creating the new ReplicaSet: its name, labels, owner and first size, and what becomes of a refusal.

use std::borrow::Cow;

use super::{Managed, Pass, Stop, SyncResult, WorkingCopy, conditions, quote};
use crate::action::{Action, Event, NewReplicaSet, OnFailure, Target};
use crate::revision::{self, POD_TEMPLATE_HASH, TEMPLATE_DIGEST};
use crate::snapshot::{ObjectMeta, ReplicaSet, ReplicaSetStatus, StepFailure, StringMap};

/// The longest name of an object (Kubernetes: DNS1123SubdomainMaxLength).
const NAME_BYTES_MAX: usize = 253;

impl Pass<'_> {
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
            return self.use_or_avoid(existing, new_revision);
        }
        let created = as_created(&set, self.snapshot.now);
        let size = set.replicas;
        if let Err(failure) = self.act(Action::CreateReplicaSet(Box::new(set)), OnFailure::Stop) {
            return self.create_refused(&name, failure, new_revision);
        }
        if let Some(event) = Event::scaled(&name, 0, size) {
            self.attach(event);
        }
        let copy = self.add_set(Managed::current(self.sets.len(), Cow::Owned(created)));
        let mut needs_update = self.set_revision(new_revision.to_string());
        if self.has_deadline() {
            let message = format!("Created new replica set {}", quote(&name));
            self.set_progressing("True", conditions::NEW_SET_CREATED, message);
            needs_update = true;
        }
        if needs_update {
            self.write_status()?;
        }
        Ok(copy)
    }

    /// Asks between the parts of the work whether to go on: the template may be large.
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
            replicas: self.strategy.initial_size(self.limits, self.total(old)),
            min_ready_seconds: deployment.spec.min_ready_seconds,
            selector,
            template: deployment.spec.template.labelled(&hash),
            revision: new_revision,
        })
    }

    /// The ReplicaSet of the snapshot that has this name: the create would be refused.
    fn taken(&self, name: &str) -> Option<Managed<'static>> {
        let namespace = &self.owner.deployment.metadata.namespace;
        let set = self
            .snapshot
            .replica_sets
            .iter()
            .find(|set| set.metadata.name == name && set.metadata.namespace == *namespace)?;
        let managed = Managed::current(self.sets.len(), Cow::Owned(set.clone()));
        // One that was ours and matched would have been found by its template. If it was ours and did not
        // match, this pass has released it, and the cache does not know yet.
        Some(if self.is_ours(set) {
            managed.written()
        } else {
            managed
        })
    }

    fn is_ours(&self, set: &ReplicaSet) -> bool {
        let controller = set.metadata.controller();
        controller.is_some_and(|owner| owner.uid == self.owner.deployment.metadata.uid)
    }

    /// The name is taken: by our own new ReplicaSet after all, or else by another one, and then the next
    /// pass tries another name.
    fn use_or_avoid(
        &mut self,
        existing: Managed<'static>,
        new_revision: i64,
    ) -> SyncResult<WorkingCopy> {
        if self.is_ours(&existing.cached) && self.has_current_template(&existing.cached) {
            let copy = self.add_set(existing);
            if self.set_revision(new_revision.to_string()) {
                self.write_status()?;
            }
            return Ok(copy);
        }
        let collisions = self.owner.status.collision_count.unwrap_or(0);
        self.owner.status.to_mut().collision_count = Some(collisions.saturating_add(1));
        self.write_status()?;
        Err(Stop::NameTaken)
    }

    fn create_refused(
        &mut self,
        name: &str,
        failure: &StepFailure,
        new_revision: i64,
    ) -> SyncResult<WorkingCopy> {
        if failure.reason == "AlreadyExists" {
            // Without the object there is nothing to decide by.
            let existing = failure.existing.clone().ok_or(Stop::NameTaken)?;
            let existing = Managed::current(self.sets.len(), Cow::Owned(existing));
            return self.use_or_avoid(existing, new_revision);
        }
        if failure
            .causes
            .iter()
            .any(|cause| cause == "NamespaceTerminating")
        {
            return Err(Stop::NamespaceTerminating);
        }
        self.report_create_error(name, &failure.message)?;
        Err(Stop::Refused)
    }

    fn report_create_error(&mut self, name: &str, error: &str) -> SyncResult<()> {
        let message = format!("Failed to create new replica set {}: {error}", quote(name));
        self.record(Event::warning(conditions::CREATE_FAILED, message.clone()));
        if self.has_deadline() {
            self.set_progressing("False", conditions::CREATE_FAILED, message);
            self.write_status()?;
        }
        Ok(())
    }

    /// Takes a ReplicaSet into the list, as the cache has it.
    fn add_set(&mut self, set: Managed<'static>) -> WorkingCopy {
        let index = self.sets.len();
        self.sets.push(set);
        self.current = Some(index);
        self.look_up(index)
    }
}

/// The ReplicaSet as the server has it right after its creation.
pub(crate) fn as_created(set: &NewReplicaSet, now: crate::time::Time) -> ReplicaSet {
    let mut metadata = set.metadata.clone();
    metadata.generation = 1;
    metadata.creation_timestamp = Some(now.whole_seconds());
    // The server chooses uid and resourceVersion; nothing written in this plan needs them.
    metadata.uid = format!("uid of {}", metadata.name);
    ReplicaSet {
        metadata,
        replicas: set.replicas,
        min_ready_seconds: set.min_ready_seconds,
        template: set.template.clone(),
        status: ReplicaSetStatus::default(),
        available_max: ReplicaSet::UNTOUCHED,
    }
}

/// `generateReplicaSetName`: the owner's name is cut where the whole would be too long.
fn set_name(owner: &str, hash: &str) -> String {
    let max = NAME_BYTES_MAX.saturating_sub(1 + hash.len());
    let owner = &owner[..owner.floor_char_boundary(max)];
    format!("{owner}-{hash}")
}
