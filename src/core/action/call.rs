//! The API call that carries an action, with the preconditions that make it safe to send.
//!
//! A write to a ReplicaSet's size or annotations tests uid and generation: its resourceVersion moves with
//! every status update. Writes to lists of owners and to the Deployment carry uid and resourceVersion in a
//! merge patch, which the server answers with 409 when they are stale.

use super::{Action, NewReplicaSet, OwnerChange, SetChange, Target};
use crate::revision::REVISION;
use crate::selector::{LabelSelector, Operator};
use crate::snapshot::{Condition, DeploymentStatus, OwnerReference, StringMap};
use crate::template::Value;
use crate::time::Time;

const JSON: &str = "application/json";
const JSON_PATCH: &str = "application/json-patch+json";
const MERGE_PATCH: &str = "application/merge-patch+json";

/// What kind of call to make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// POST to the collection.
    Create,
    /// PATCH of the object or its subresource.
    Patch,
    /// DELETE of the object.
    Delete,
}

/// A call of the Kubernetes API, with its preconditions in the body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiCall {
    /// What kind of call.
    pub verb: Verb,
    /// Group and version of the object.
    pub api_version: String,
    /// Kind of the object.
    pub kind: String,
    /// Namespace of the object.
    pub namespace: String,
    /// Name of the object.
    pub name: String,
    /// Subresource; empty for the object itself.
    pub subresource: String,
    /// Content type of the body.
    pub content_type: String,
    /// The body as JSON text.
    pub body_json: String,
}

impl Action {
    /// The call that carries this action.
    #[must_use]
    pub fn call(&self) -> ApiCall {
        match self {
            Self::CheckOwner { owner } => {
                patch(owner, "", MERGE_PATCH, merge_patch(owner, [], None))
            }
            Self::AdoptReplicaSet {
                set,
                owner_references,
            }
            | Self::ReleaseReplicaSet {
                set,
                owner_references,
            } => {
                let owners = ("ownerReferences", owners_json(owner_references));
                patch(set, "", MERGE_PATCH, merge_patch(set, [owners], None))
            }
            Self::CreateReplicaSet(set) => create(set),
            Self::UpdateReplicaSet { set, change } => {
                patch(set, "", JSON_PATCH, set_patch(set, change, None))
            }
            Self::ScaleReplicaSet {
                set, to, change, ..
            } => patch(set, "", JSON_PATCH, set_patch(set, change, Some(*to))),
            Self::DeleteReplicaSet { set } => delete(set),
            Self::UpdateDeployment { owner, change } => update_owner(owner, change),
            Self::UpdateDeploymentStatus {
                owner,
                status,
                revision,
                selector,
            } => {
                let annotations = revision.iter().map(|revision| {
                    let revision = Value::from([(REVISION, revision.as_str())]);
                    ("annotations", revision)
                });
                let mut status = status_json(status);
                let selector = selector
                    .iter()
                    .map(|text| ("selector", text.as_str().into()));
                insert_all(&mut status, selector);
                let body = merge_patch(owner, annotations, Some(status));
                patch(owner, "status", MERGE_PATCH, body)
            }
        }
    }
}

fn call(
    target: &Target,
    verb: Verb,
    subresource: &str,
    content_type: &str,
    body: &Value,
) -> ApiCall {
    ApiCall {
        verb,
        api_version: target.api_version.clone(),
        kind: target.kind.clone(),
        namespace: target.namespace.clone(),
        name: target.name.clone(),
        subresource: subresource.to_owned(),
        content_type: content_type.to_owned(),
        body_json: body.to_json(),
    }
}

fn patch(target: &Target, subresource: &str, content_type: &str, body: Value) -> ApiCall {
    call(target, Verb::Patch, subresource, content_type, &body)
}

/// A merge patch of metadata, and of the status where there is one, that holds only for the object as the
/// snapshot has it.
fn merge_patch<'a>(
    target: &Target,
    metadata: impl IntoIterator<Item = (&'a str, Value)>,
    status: Option<Value>,
) -> Value {
    let mut fields = object([("uid", target.uid.as_str().into())]);
    if let (Some(fields), Some(version)) = (fields.as_map_mut(), &target.resource_version) {
        fields.insert("resourceVersion".to_owned(), version.as_str().into());
    }
    insert_all(&mut fields, metadata);
    let mut body = object([("metadata", fields)]);
    insert_all(&mut body, status.map(|status| ("status", status)));
    body
}

/// A JSON Patch of size, annotations and `minReadySeconds` that holds only for this ReplicaSet at this
/// generation.
fn set_patch(set: &Target, change: &SetChange, replicas: Option<i32>) -> Value {
    // A generation that the snapshot does not have is absent on the server too.
    let generation = match set.generation {
        0 => Value::Null,
        generation => generation.into(),
    };
    let mut operations = vec![
        operation("test", "/metadata/uid", set.uid.as_str().into()),
        operation("test", "/metadata/generation", generation),
    ];
    if change.first_annotations && !change.annotations.is_empty() {
        operations.push(operation("test", "/metadata/annotations", Value::Null));
        let annotations = strings(&change.annotations);
        operations.push(operation("add", "/metadata/annotations", annotations));
    } else {
        for (key, value) in &change.annotations {
            let path = format!("/metadata/annotations/{}", escape_pointer(key));
            operations.push(operation("add", &path, value.as_str().into()));
        }
    }
    if let Some(seconds) = change.min_ready_seconds {
        operations.push(operation("add", "/spec/minReadySeconds", seconds.into()));
    }
    if let Some(replicas) = replicas {
        operations.push(operation("add", "/spec/replicas", replicas.into()));
    }
    Value::List(operations)
}

fn operation(op: &str, path: &str, value: Value) -> Value {
    object([("op", op.into()), ("path", path.into()), ("value", value)])
}

/// A key as one token of a JSON Pointer (RFC 6901).
fn escape_pointer(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

fn create(set: &NewReplicaSet) -> ApiCall {
    let metadata = object([
        ("name", set.metadata.name.as_str().into()),
        ("namespace", set.metadata.namespace.as_str().into()),
        ("labels", strings(&set.metadata.labels)),
        ("annotations", strings(&set.metadata.annotations)),
        (
            "ownerReferences",
            owners_json(&set.metadata.owner_references),
        ),
    ]);
    let spec = object([
        ("replicas", set.replicas.into()),
        ("minReadySeconds", set.min_ready_seconds.into()),
        ("selector", selector_json(&set.selector)),
        ("template", set.template.clone()),
    ]);
    let target = Target {
        api_version: "apps/v1".to_owned(),
        kind: "ReplicaSet".to_owned(),
        namespace: set.metadata.namespace.clone(),
        name: set.metadata.name.clone(),
        ..Target::default()
    };
    let body = object([
        ("apiVersion", target.api_version.as_str().into()),
        ("kind", target.kind.as_str().into()),
        ("metadata", metadata),
        ("spec", spec),
    ]);
    call(&target, Verb::Create, "", JSON, &body)
}

fn delete(set: &Target) -> ApiCall {
    let mut preconditions = object([("uid", set.uid.as_str().into())]);
    let version = set.resource_version.as_deref();
    insert_all(
        &mut preconditions,
        version.map(|version| ("resourceVersion", version.into())),
    );
    let options = object([
        ("apiVersion", "v1".into()),
        ("kind", "DeleteOptions".into()),
        ("preconditions", preconditions),
        ("propagationPolicy", "Background".into()),
    ]);
    call(set, Verb::Delete, "", JSON, &options)
}

fn update_owner(owner: &Target, change: &OwnerChange) -> ApiCall {
    let Some(template) = &change.template else {
        let mut annotations = strings(&change.annotations);
        let removed = change.removed_annotations.iter();
        insert_all(
            &mut annotations,
            removed.map(|key| (key.as_str(), Value::Null)),
        );
        let body = merge_patch(owner, [("annotations", annotations)], None);
        return patch(owner, "", MERGE_PATCH, body);
    };
    // As `kubectl rollout undo`: a merge patch would leave keys of the newer template behind.
    let mut operations = vec![operation(
        "test",
        "/metadata/uid",
        owner.uid.as_str().into(),
    )];
    if let Some(version) = &owner.resource_version {
        let version = version.as_str().into();
        operations.push(operation("test", "/metadata/resourceVersion", version));
    }
    let annotations = strings(&change.all_annotations);
    operations.push(operation("add", "/metadata/annotations", annotations));
    operations.push(operation("replace", "/spec/template", template.clone()));
    patch(owner, "", JSON_PATCH, Value::List(operations))
}

// Values as the Kubernetes API has them.

fn object<const N: usize>(entries: [(&str, Value); N]) -> Value {
    Value::from(entries)
}

fn insert_all<'a>(object: &mut Value, entries: impl IntoIterator<Item = (&'a str, Value)>) {
    if let Some(object) = object.as_map_mut() {
        for (key, value) in entries {
            object.insert(key.to_owned(), value);
        }
    }
}

fn strings(map: &StringMap) -> Value {
    Value::Map(
        map.iter()
            .map(|(key, value)| (key.clone(), value.as_str().into()))
            .collect(),
    )
}

fn owners_json(owners: &[OwnerReference]) -> Value {
    if owners.is_empty() {
        return Value::Null;
    }
    Value::List(owners.iter().map(owner_json).collect())
}

fn owner_json(owner: &OwnerReference) -> Value {
    let OwnerReference {
        api_version,
        kind,
        name,
        uid,
        controller,
        block_owner_deletion,
    } = owner;
    let mut json = object([
        ("apiVersion", api_version.as_str().into()),
        ("kind", kind.as_str().into()),
        ("name", name.as_str().into()),
        ("uid", uid.as_str().into()),
    ]);
    insert_all(
        &mut json,
        controller.map(|flag| ("controller", flag.into())),
    );
    insert_all(
        &mut json,
        block_owner_deletion.map(|flag| ("blockOwnerDeletion", flag.into())),
    );
    json
}

fn selector_json(selector: &LabelSelector) -> Value {
    let mut json = object([("matchLabels", strings(&selector.match_labels))]);
    if !selector.match_expressions.is_empty() {
        let expressions = selector
            .match_expressions
            .iter()
            .map(|requirement| {
                let (operator, values) = match &requirement.operator {
                    Operator::In(values) => ("In", Some(values)),
                    Operator::NotIn(values) => ("NotIn", Some(values)),
                    Operator::Exists => ("Exists", None),
                    Operator::DoesNotExist => ("DoesNotExist", None),
                };
                let mut json = object([
                    ("key", requirement.key.as_str().into()),
                    ("operator", operator.into()),
                ]);
                let values = values.map(|values| values.iter().map(|value| value.as_str().into()));
                insert_all(
                    &mut json,
                    values.map(|values| ("values", Value::List(values.collect()))),
                );
                json
            })
            .collect();
        insert_all(&mut json, [("matchExpressions", Value::List(expressions))]);
    }
    json
}

/// The whole status: zeros by name and `null` for what is gone, since a merge patch keeps what it does not
/// name.
fn status_json(status: &DeploymentStatus) -> Value {
    let DeploymentStatus {
        observed_generation,
        replicas,
        updated_replicas,
        ready_replicas,
        available_replicas,
        unavailable_replicas,
        terminating_replicas,
        collision_count,
        conditions,
    } = status;
    object([
        ("observedGeneration", (*observed_generation).into()),
        ("replicas", (*replicas).into()),
        ("updatedReplicas", (*updated_replicas).into()),
        ("readyReplicas", (*ready_replicas).into()),
        ("availableReplicas", (*available_replicas).into()),
        ("unavailableReplicas", (*unavailable_replicas).into()),
        ("terminatingReplicas", or_null(*terminating_replicas)),
        ("collisionCount", or_null(*collision_count)),
        (
            "conditions",
            Value::List(conditions.iter().map(condition_json).collect()),
        ),
    ])
}

fn condition_json(condition: &Condition) -> Value {
    let Condition {
        kind,
        status,
        reason,
        message,
        last_update_time,
        last_transition_time,
    } = condition;
    let time = |time: &Option<Time>| or_null(time.map(|time| time.whole_seconds().to_string()));
    object([
        ("type", kind.as_str().into()),
        ("status", status.as_str().into()),
        ("reason", reason.as_str().into()),
        ("message", message.as_str().into()),
        ("lastUpdateTime", time(last_update_time)),
        ("lastTransitionTime", time(last_transition_time)),
    ])
}

fn or_null<T: Into<Value>>(value: Option<T>) -> Value {
    value.map_or(Value::Null, Into::into)
}
