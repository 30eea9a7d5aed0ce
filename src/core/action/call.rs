//! The API call that carries out an action, with the preconditions that make it safe to send.
//!
//! A write of the size or the annotations of a ReplicaSet tests UID and generation, because the resourceVersion changes with
//! every update of the status. Writes of owner references and of the Deployment contain UID and resourceVersion in a merge
//! patch, which the server rejects with 409 if they are stale.

use super::json::Json;
use super::{Action, NewReplicaSet, OwnerChange, SetChange, Target};
use crate::call::{ApiCall, Verb};
use crate::revision::REVISION;
use crate::selector::{LabelSelector, Operator, Requirement};
use crate::snapshot::{Condition, DeploymentStatus, OwnerReference};
use crate::time::Time;

const JSON: &str = "application/json";
const JSON_PATCH: &str = "application/json-patch+json";
const MERGE_PATCH: &str = "application/merge-patch+json";

impl Action {
    /// The call that carries out this action.
    #[must_use]
    pub fn call(&self) -> ApiCall {
        match self {
            Self::CheckOwner { owner } => {
                patch(owner, "", MERGE_PATCH, merge_patch(owner, None, None))
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
                patch(set, "", MERGE_PATCH, merge_patch(set, Some(owners), None))
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
                ready,
            } => {
                let annotations = revision.as_deref().map(|revision| {
                    let revision = Json::Object(vec![(REVISION, revision.into())]);
                    ("annotations", revision)
                });
                let status = status_json(status, selector.as_deref(), ready.as_deref());
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
    body: Json<'_>,
) -> ApiCall {
    ApiCall {
        verb,
        api_version: target.api_version.clone(),
        kind: target.kind.clone(),
        namespace: target.namespace.clone(),
        name: target.name.clone(),
        subresource: subresource.to_owned(),
        content_type: content_type.to_owned(),
        body_json: body.into_text(),
    }
}

fn patch(target: &Target, subresource: &str, content_type: &str, body: Json<'_>) -> ApiCall {
    call(target, Verb::Patch, subresource, content_type, body)
}

/// A merge patch of metadata, and of the status if one is given, with the UID and the version of the object as
/// preconditions.
fn merge_patch<'a>(
    target: &'a Target,
    metadata: Option<(&'a str, Json<'a>)>,
    status: Option<Json<'a>>,
) -> Json<'a> {
    let version = target.resource_version.as_deref();
    let mut fields = vec![("uid", target.uid.as_str().into())];
    fields.extend(version.map(|version| ("resourceVersion", version.into())));
    fields.extend(metadata);
    let mut body = vec![("metadata", Json::Object(fields))];
    body.extend(status.map(|status| ("status", status)));
    Json::Object(body)
}

/// A JSON Patch of size, annotations and `minReadySeconds`, with the UID and the generation of the ReplicaSet as
/// preconditions.
fn set_patch<'a>(set: &'a Target, change: &'a SetChange, replicas: Option<i32>) -> Json<'a> {
    // A generation that is absent in the snapshot is absent on the server too.
    let generation = Some(set.generation).filter(|&generation| generation != 0);
    let mut operations = vec![
        operation("test", "/metadata/uid", set.uid.as_str()),
        operation("test", "/metadata/generation", generation),
    ];
    if change.first_annotations && !change.annotations.is_empty() {
        operations.push(operation("test", "/metadata/annotations", Json::Null));
        let annotations = Json::strings(&change.annotations);
        operations.push(operation("add", "/metadata/annotations", annotations));
    } else {
        for (key, value) in &change.annotations {
            let path = format!("/metadata/annotations/{}", escape_pointer(key));
            operations.push(operation("add", path, value.as_str()));
        }
    }
    if let Some(seconds) = change.min_ready_seconds {
        operations.push(operation("add", "/spec/minReadySeconds", seconds));
    }
    if let Some(replicas) = replicas {
        operations.push(operation("add", "/spec/replicas", replicas));
    }
    Json::List(operations)
}

fn operation<'a>(op: &'a str, path: impl Into<Json<'a>>, value: impl Into<Json<'a>>) -> Json<'a> {
    Json::Object(vec![
        ("op", op.into()),
        ("path", path.into()),
        ("value", value.into()),
    ])
}

/// A key as one token of a JSON Pointer (RFC 6901).
fn escape_pointer(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

fn create(set: &NewReplicaSet) -> ApiCall {
    let metadata = Json::Object(vec![
        ("name", set.metadata.name.as_str().into()),
        ("namespace", set.metadata.namespace.as_str().into()),
        ("labels", Json::strings(&set.metadata.labels)),
        ("annotations", Json::strings(&set.metadata.annotations)),
        (
            "ownerReferences",
            owners_json(&set.metadata.owner_references),
        ),
    ]);
    let spec = Json::Object(vec![
        ("replicas", set.replicas.into()),
        ("minReadySeconds", set.min_ready_seconds.into()),
        ("selector", selector_json(&set.selector)),
        ("template", Json::Template(&set.template)),
    ]);
    let target = Target {
        api_version: "apps/v1".to_owned(),
        kind: "ReplicaSet".to_owned(),
        namespace: set.metadata.namespace.clone(),
        name: set.metadata.name.clone(),
        ..Target::default()
    };
    let body = Json::Object(vec![
        ("apiVersion", target.api_version.as_str().into()),
        ("kind", target.kind.as_str().into()),
        ("metadata", metadata),
        ("spec", spec),
    ]);
    call(&target, Verb::Create, "", JSON, body)
}

fn delete(set: &Target) -> ApiCall {
    let version = set.resource_version.as_deref();
    let mut preconditions = vec![("uid", set.uid.as_str().into())];
    preconditions.extend(version.map(|version| ("resourceVersion", version.into())));
    let options = Json::Object(vec![
        ("apiVersion", "v1".into()),
        ("kind", "DeleteOptions".into()),
        ("preconditions", Json::Object(preconditions)),
        ("propagationPolicy", "Background".into()),
    ]);
    call(set, Verb::Delete, "", JSON, options)
}

fn update_owner(owner: &Target, change: &OwnerChange) -> ApiCall {
    let Some(template) = &change.template else {
        let added = change.annotations.iter();
        let added = added.map(|(key, value)| (key.as_str(), value.as_str().into()));
        let removed = change.removed_annotations.iter();
        let removed = removed.map(|key| (key.as_str(), Json::Null));
        let annotations = Json::Object(added.chain(removed).collect());
        let body = merge_patch(owner, Some(("annotations", annotations)), None);
        return patch(owner, "", MERGE_PATCH, body);
    };
    // As `kubectl rollout undo` does: a merge patch would keep the keys that only the newer template has.
    let mut operations = vec![operation("test", "/metadata/uid", owner.uid.as_str())];
    if let Some(version) = owner.resource_version.as_deref() {
        operations.push(operation("test", "/metadata/resourceVersion", version));
    }
    let annotations = Json::strings(&change.all_annotations);
    operations.push(operation("add", "/metadata/annotations", annotations));
    let template = Json::Value(template);
    operations.push(operation("replace", "/spec/template", template));
    patch(owner, "", JSON_PATCH, Json::List(operations))
}

// Values in the format of the Kubernetes API.

fn owners_json(owners: &[OwnerReference]) -> Json<'_> {
    if owners.is_empty() {
        return Json::Null;
    }
    Json::List(owners.iter().map(owner_json).collect())
}

fn owner_json(owner: &OwnerReference) -> Json<'_> {
    let OwnerReference {
        api_version,
        kind,
        name,
        uid,
        controller,
        block_owner_deletion,
    } = owner;
    let mut json = vec![
        ("apiVersion", api_version.as_str().into()),
        ("kind", kind.as_str().into()),
        ("name", name.as_str().into()),
        ("uid", uid.as_str().into()),
    ];
    json.extend(controller.map(|flag| ("controller", flag.into())));
    json.extend(block_owner_deletion.map(|flag| ("blockOwnerDeletion", flag.into())));
    Json::Object(json)
}

fn selector_json(selector: &LabelSelector) -> Json<'_> {
    let mut json = vec![("matchLabels", Json::strings(&selector.match_labels))];
    if !selector.match_expressions.is_empty() {
        let expressions = selector.match_expressions.iter().map(expression_json);
        json.push(("matchExpressions", Json::List(expressions.collect())));
    }
    Json::Object(json)
}

fn expression_json(requirement: &Requirement) -> Json<'_> {
    let (operator, values) = match &requirement.operator {
        Operator::In(values) => ("In", Some(values)),
        Operator::NotIn(values) => ("NotIn", Some(values)),
        Operator::Exists => ("Exists", None),
        Operator::DoesNotExist => ("DoesNotExist", None),
    };
    let mut json = vec![
        ("key", requirement.key.as_str().into()),
        ("operator", operator.into()),
    ];
    json.extend(values.map(|values| {
        let values = values.iter().map(|value| value.as_str().into());
        ("values", Json::List(values.collect()))
    }));
    Json::Object(json)
}

/// All fields of the status, with `null` for those that are absent: a merge patch keeps the fields that it does not contain.
fn status_json<'a>(
    status: &'a DeploymentStatus,
    selector: Option<&'a str>,
    ready: Option<&'a str>,
) -> Json<'a> {
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
    let conditions = conditions.iter().map(condition_json);
    let mut json = vec![
        ("observedGeneration", (*observed_generation).into()),
        ("replicas", (*replicas).into()),
        ("updatedReplicas", (*updated_replicas).into()),
        ("readyReplicas", (*ready_replicas).into()),
        ("availableReplicas", (*available_replicas).into()),
        ("unavailableReplicas", (*unavailable_replicas).into()),
        ("terminatingReplicas", (*terminating_replicas).into()),
        ("collisionCount", (*collision_count).into()),
        ("conditions", Json::List(conditions.collect())),
    ];
    json.extend(selector.map(|text| ("selector", text.into())));
    json.extend(ready.map(|text| ("ready", text.into())));
    Json::Object(json)
}

fn condition_json(condition: &Condition) -> Json<'_> {
    let Condition {
        kind,
        status,
        reason,
        message,
        last_update_time,
        last_transition_time,
    } = condition;
    let time = |time: &Option<Time>| time.map(|time| time.whole_seconds().to_string());
    Json::Object(vec![
        ("type", kind.as_str().into()),
        ("status", status.as_str().into()),
        ("reason", reason.as_str().into()),
        ("message", message.as_str().into()),
        ("lastUpdateTime", time(last_update_time).into()),
        ("lastTransitionTime", time(last_transition_time).into()),
    ])
}
