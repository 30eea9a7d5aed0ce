//! The API calls that a plan may contain. They are executed from the bytes of their bodies, with the same responses as a
//! v1.37 API server. A call that no plan should contain is answered with 400.

use std::sync::Arc;

use rollplan_core::action::{ApiCall, Verb};
use rollplan_core::snapshot::{Deployment, ReplicaSet, ReplicaSetStatus};
use rollplan_core::time::Time;
use serde_json::Value;

use super::patch;
use super::store::{Store, StoredSet, Writer, version_of};

/// An error response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rejection {
    pub(crate) code: i32,
    pub(crate) reason: &'static str,
    pub(crate) message: String,
    pub(crate) causes: Vec<String>,
}

/// The result of a successful call.
#[derive(Clone, Debug)]
pub(crate) enum Written {
    Deployment(Arc<Deployment>),
    Set(Arc<StoredSet>),
    Deleted,
}

pub(crate) type Response<T> = Result<T, Rejection>;

// === impl Rejection ===

impl Rejection {
    pub(crate) fn new(code: i32, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            reason,
            message: message.into(),
            causes: Vec::new(),
        }
    }

    pub(super) fn malformed(what: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", what)
    }

    pub(super) fn conflict() -> Self {
        Self::new(409, "Conflict", "the object has been modified")
    }

    /// The response to a JSON Patch that cannot be applied, for example because a test fails.
    pub(super) fn patch_failed(path: &str) -> Self {
        Self::new(
            422,
            "Invalid",
            format!("the patch does not apply at {path}"),
        )
    }

    fn not_found(name: &str) -> Self {
        Self::new(404, "NotFound", format!("{name} not found"))
    }

    /// Whether the adapter should read the objects again instead of reporting a failure.
    pub(crate) fn is_stale(&self) -> bool {
        self.reason != "AlreadyExists"
            && (self.code == 409 || self.code == 422 && self.causes.is_empty())
    }
}

// === impl Store ===

impl Store {
    /// Executes a call of the adapter or of a user.
    pub(crate) fn call(&mut self, call: &ApiCall, now: Time, writer: Writer) -> Response<Written> {
        let body: Value = serde_json::from_str(&call.body_json)
            .map_err(|error| Rejection::malformed(error.to_string()))?;
        match (call.kind.as_str(), call.verb, call.content_type.as_str()) {
            ("ReplicaSet", Verb::Create, "application/json") => self.create_set(&body, now, writer),
            ("ReplicaSet", Verb::Patch, content_type) => {
                let stored = self.set(&call.name)?;
                let mut changed = StoredSet::clone(&stored);
                match content_type {
                    "application/json-patch+json" => {
                        patch::json_patch_set(&mut changed.set, &body)?;
                    }
                    "application/merge-patch+json" => {
                        patch::merge_patch_set(&mut changed.set, &body)?;
                    }
                    other => return Err(Rejection::malformed(other)),
                }
                self.update_set(&stored, changed, writer)
            }
            ("ReplicaSet", Verb::Delete, "application/json") => {
                let stored = self.set(&call.name)?;
                patch::delete_preconditions(&stored.set, &body)?;
                self.remove_set(&call.name, writer);
                Ok(Written::Deleted)
            }
            ("Deployment" | "PlannedDeployment", Verb::Patch, content_type) => {
                let stored = self.owner(call)?;
                let mut changed = Deployment::clone(&stored);
                match (content_type, call.subresource.as_str()) {
                    ("application/json-patch+json", "") => {
                        patch::json_patch_owner(&mut changed, &body)?;
                    }
                    ("application/merge-patch+json", subresource @ ("" | "status")) => {
                        patch::merge_patch_owner(&mut changed, &body, subresource)?;
                    }
                    other => return Err(Rejection::malformed(format!("{other:?}"))),
                }
                Ok(Written::Deployment(
                    self.update_owner(&stored, changed, writer),
                ))
            }
            other => Err(Rejection::malformed(format!("{other:?}"))),
        }
    }

    fn set(&self, name: &str) -> Response<Arc<StoredSet>> {
        let stored = self.sets.get(name);
        stored.cloned().ok_or_else(|| Rejection::not_found(name))
    }

    fn owner(&self, call: &ApiCall) -> Response<Arc<Deployment>> {
        let stored = self.deployment.as_ref().filter(|deployment| {
            deployment.metadata.name == call.name
                && deployment.api_version == call.api_version
                && deployment.kind == call.kind
        });
        stored
            .cloned()
            .ok_or_else(|| Rejection::not_found(&call.name))
    }

    fn create_set(&mut self, body: &Value, now: Time, writer: Writer) -> Response<Written> {
        let created = patch::new_set(body)?;
        let name = created.metadata.name.clone();
        if self.sets.contains_key(&name) {
            let message = format!("replicasets.apps \"{name}\" already exists");
            return Err(Rejection::new(409, "AlreadyExists", message));
        }
        let template = patch::template_number(created.template.value());
        let mut metadata = created.metadata;
        metadata.uid = self.new_uid("rs");
        metadata.generation = 1;
        metadata.creation_timestamp = Some(now.whole_seconds());
        let set = ReplicaSet {
            metadata,
            replicas: created.replicas,
            min_ready_seconds: created.min_ready_seconds,
            template: created.template,
            status: ReplicaSetStatus::default(),
            available_max: ReplicaSet::UNTOUCHED,
        };
        let stored = StoredSet {
            set,
            template,
            lost: 0,
            changed_by: writer,
        };
        Ok(Written::Set(self.put_set(stored, writer)))
    }

    /// Stores a changed ReplicaSet. A change of the spec increments the generation. A patch without changes is not
    /// written.
    pub(crate) fn update_set(
        &mut self,
        before: &Arc<StoredSet>,
        mut after: StoredSet,
        writer: Writer,
    ) -> Response<Written> {
        let (old, new) = (&before.set, &mut after.set);
        let resized = old.replicas != new.replicas;
        let moved = old.metadata.owner_references != new.metadata.owner_references
            || old.metadata.labels != new.metadata.labels;
        let spec_changed = resized || old.min_ready_seconds != new.min_ready_seconds;
        if !spec_changed && !moved && old.metadata.annotations == new.metadata.annotations {
            return Ok(Written::Set(Arc::clone(before)));
        }
        new.metadata.generation += i64::from(spec_changed);
        if resized || moved {
            after.changed_by = writer;
        }
        Ok(Written::Set(self.put_set(after, writer)))
    }

    fn update_owner(
        &mut self,
        before: &Arc<Deployment>,
        mut after: Deployment,
        writer: Writer,
    ) -> Arc<Deployment> {
        let new_template = before.spec.template.value() != after.spec.template.value();
        if !new_template
            && before.metadata.annotations == after.metadata.annotations
            && before.status == after.status
        {
            return Arc::clone(before);
        }
        after.metadata.generation += i64::from(new_template);
        self.put_deployment(after, writer)
    }
}

/// Checks metadata preconditions in the order of the API server: first the resourceVersion, then the UID.
pub(super) fn check_versions(
    metadata: &rollplan_core::snapshot::ObjectMeta,
    uid: Option<&str>,
    version: Option<&str>,
) -> Response<()> {
    if version.is_some_and(|version| version != version_of(metadata).to_string()) {
        return Err(Rejection::conflict());
    }
    if uid.is_some_and(|uid| uid != metadata.uid) {
        let mut rejection = Rejection::new(422, "Invalid", "metadata.uid: field is immutable");
        rejection.causes = vec!["FieldValueInvalid".to_owned()];
        return Err(rejection);
    }
    Ok(())
}
