//! Applies the bodies of calls to typed objects. Only the paths and fields that a plan may contain are supported. Anything
//! else is answered with 400, which the checks report as a violation.

use rollplan_core::action::NewReplicaSet;
use rollplan_core::selector::LabelSelector;
use rollplan_core::snapshot::{
    Condition, Deployment, DeploymentStatus, ObjectMeta, OwnerReference, ReplicaSet, StringMap,
};
use rollplan_core::template::{self, Template};
use rollplan_core::time::Time;
use serde_json::{Map, Value};

use super::call::{Rejection, Response, check_versions};

/// The number of a template, which the image of its container contains.
pub(super) fn template_number(template: &template::Value) -> u8 {
    let images = template::images(template);
    let image = images.first();
    let number = image.and_then(|image| image.strip_prefix('v')?.parse().ok());
    number.unwrap_or(u8::MAX)
}

fn object<'a>(value: &'a Value, what: &str) -> Response<&'a Map<String, Value>> {
    value
        .as_object()
        .ok_or_else(|| Rejection::malformed(format!("{what} is not an object")))
}

fn text<'a>(value: &'a Value, what: &str) -> Response<&'a str> {
    value
        .as_str()
        .ok_or_else(|| Rejection::malformed(format!("{what} is not a string")))
}

fn integer(value: &Value, what: &str) -> Response<i32> {
    let number = value.as_i64().and_then(|number| i32::try_from(number).ok());
    number
        .filter(|number| *number >= 0)
        .ok_or_else(|| Rejection::malformed(format!("{what} is not a valid size")))
}

fn strings(value: &Value, what: &str) -> Response<StringMap> {
    let entries = object(value, what)?.iter();
    entries
        .map(|(key, value)| Ok((key.clone(), text(value, what)?.to_owned())))
        .collect()
}

fn flag(value: Option<&Value>) -> Option<bool> {
    value.and_then(Value::as_bool)
}

fn owners(value: &Value) -> Response<Vec<OwnerReference>> {
    if value.is_null() {
        return Ok(Vec::new());
    }
    let list = value
        .as_array()
        .ok_or_else(|| Rejection::malformed("ownerReferences is not a list"))?;
    list.iter()
        .map(|owner| {
            let field = |key: &str| text(&owner[key], key).map(str::to_owned);
            Ok(OwnerReference {
                api_version: field("apiVersion")?,
                kind: field("kind")?,
                name: field("name")?,
                uid: field("uid")?,
                controller: flag(owner.get("controller")),
                block_owner_deletion: flag(owner.get("blockOwnerDeletion")),
            })
        })
        .collect()
}

/// Parses the body of a create call.
pub(super) fn new_set(body: &Value) -> Response<NewReplicaSet> {
    let (metadata, spec) = (&body["metadata"], &body["spec"]);
    if body["apiVersion"] != "apps/v1" || body["kind"] != "ReplicaSet" {
        return Err(Rejection::malformed("not an apps/v1 ReplicaSet"));
    }
    let labels = strings(&metadata["labels"], "labels")?;
    let selector = LabelSelector {
        match_labels: strings(&spec["selector"]["matchLabels"], "matchLabels")?,
        match_expressions: Vec::new(),
    };
    let template = template::Value::from(&spec["template"]);
    let template_labels = template.at(&["metadata", "labels"]);
    let selected = selector.match_labels.iter().all(|(key, value)| {
        let label = template_labels.and_then(|labels| labels.get(key)?.as_str());
        label == Some(value)
    });
    if !selected {
        let mut rejection =
            Rejection::new(422, "Invalid", "selector does not match template labels");
        rejection.causes = vec!["FieldValueInvalid".to_owned()];
        return Err(rejection);
    }
    Ok(NewReplicaSet {
        metadata: ObjectMeta {
            name: text(&metadata["name"], "name")?.to_owned(),
            namespace: text(&metadata["namespace"], "namespace")?.to_owned(),
            labels,
            annotations: strings(&metadata["annotations"], "annotations")?,
            owner_references: owners(&metadata["ownerReferences"])?,
            ..ObjectMeta::default()
        },
        replicas: integer(&spec["replicas"], "replicas")?,
        min_ready_seconds: integer(&spec["minReadySeconds"], "minReadySeconds")?,
        selector,
        template: template.into(),
        revision: 0,
    })
}

/// The operations of a JSON Patch: operation, path and value.
fn operations(body: &Value) -> Response<Vec<(&str, String, &Value)>> {
    let list = body
        .as_array()
        .ok_or_else(|| Rejection::malformed("a JSON Patch must be a list"))?;
    let operation = |operation: &'_ Value| -> Response<()> {
        let known = ["op", "path", "value"];
        match object(operation, "operation")?
            .keys()
            .find(|key| !known.contains(&key.as_str()))
        {
            Some(key) => Err(Rejection::malformed(format!("operation with {key}"))),
            None => Ok(()),
        }
    };
    list.iter()
        .map(|entry| {
            operation(entry)?;
            let path = text(&entry["path"], "path")?;
            Ok((text(&entry["op"], "op")?, path.to_owned(), &entry["value"]))
        })
        .collect()
}

fn unescaped(token: &str) -> String {
    token.replace("~1", "/").replace("~0", "~")
}

fn test(holds: bool, path: &str) -> Response<()> {
    if holds {
        Ok(())
    } else {
        Err(Rejection::patch_failed(path))
    }
}

fn annotations_json(annotations: &StringMap) -> Value {
    if annotations.is_empty() {
        Value::Null
    } else {
        Value::Object(
            annotations
                .iter()
                .map(|(key, value)| (key.clone(), Value::from(value.as_str())))
                .collect(),
        )
    }
}

/// The tests that a plan may contain for any object.
fn test_metadata(metadata: &ObjectMeta, path: &str, value: &Value) -> Response<()> {
    match path {
        "/metadata/uid" => test(*value == metadata.uid.as_str(), path),
        "/metadata/generation" => test(*value == metadata.generation, path),
        "/metadata/resourceVersion" => test(*value == metadata.resource_version.as_str(), path),
        "/metadata/annotations" => test(*value == annotations_json(&metadata.annotations), path),
        _ => Err(Rejection::malformed(format!("test of {path}"))),
    }
}

/// Applies a JSON Patch to the size, annotations and minReadySeconds of a ReplicaSet.
pub(super) fn json_patch_set(set: &mut ReplicaSet, body: &Value) -> Response<()> {
    for (op, path, value) in operations(body)? {
        match (op, path.as_str()) {
            ("test", path) => test_metadata(&set.metadata, path, value)?,
            ("add", "/metadata/annotations") => {
                set.metadata.annotations = strings(value, "annotations")?;
            }
            ("add", "/spec/minReadySeconds") => {
                set.min_ready_seconds = integer(value, "minReadySeconds")?;
            }
            ("add", "/spec/replicas") => set.replicas = integer(value, "replicas")?,
            ("add", path) if path.starts_with("/metadata/annotations/") => {
                // An entry can be added only to an existing map.
                test(!set.metadata.annotations.is_empty(), path)?;
                let key = unescaped(&path["/metadata/annotations/".len()..]);
                let value = text(value, "annotation")?.to_owned();
                set.metadata.annotations.insert(key, value);
            }
            (op, path) => return Err(Rejection::malformed(format!("{op} {path}"))),
        }
    }
    Ok(())
}

/// Applies a JSON Patch to the template and annotations of the owner.
pub(super) fn json_patch_owner(owner: &mut Deployment, body: &Value) -> Response<()> {
    for (op, path, value) in operations(body)? {
        match (op, path.as_str()) {
            ("test", path) => test_metadata(&owner.metadata, path, value)?,
            ("add", "/metadata/annotations") => {
                owner.metadata.annotations = strings(value, "annotations")?;
            }
            ("replace", "/spec/template") => {
                owner.spec.template = Template::from(template::Value::from(value));
            }
            (op, path) => return Err(Rejection::malformed(format!("{op} {path}"))),
        }
    }
    Ok(())
}

/// Checks the preconditions of a merge patch, and returns the metadata that it changes.
fn merge_metadata<'a>(
    metadata: &ObjectMeta,
    body: &'a Value,
) -> Response<Vec<(&'a str, &'a Value)>> {
    let fields = object(&body["metadata"], "metadata")?;
    let field = |key: &str| fields.get(key).and_then(Value::as_str);
    check_versions(metadata, field("uid"), field("resourceVersion"))?;
    Ok(fields
        .iter()
        .map(|(key, value)| (key.as_str(), value))
        .filter(|(key, _)| !matches!(*key, "uid" | "resourceVersion"))
        .collect())
}

fn check_fields(body: &Value, known: &[&str]) -> Response<()> {
    let unknown = object(body, "body")?
        .keys()
        .find(|key| !known.contains(&key.as_str()));
    match unknown {
        Some(key) => Err(Rejection::malformed(format!("merge of {key}"))),
        None => Ok(()),
    }
}

/// Applies a merge patch to the owner references of a ReplicaSet.
pub(super) fn merge_patch_set(set: &mut ReplicaSet, body: &Value) -> Response<()> {
    check_fields(body, &["metadata"])?;
    for (key, value) in merge_metadata(&set.metadata, body)? {
        match key {
            "ownerReferences" => set.metadata.owner_references = owners(value)?,
            other => return Err(Rejection::malformed(format!("merge of metadata.{other}"))),
        }
    }
    Ok(())
}

/// Applies a merge patch to the annotations and the status of the owner. The status subresource of a custom resource
/// ignores metadata.
pub(super) fn merge_patch_owner(
    owner: &mut Deployment,
    body: &Value,
    subresource: &str,
) -> Response<()> {
    check_fields(body, &["metadata", "status"])?;
    let keeps_metadata = subresource.is_empty() || owner.is_native();
    for (key, value) in merge_metadata(&owner.metadata, body)? {
        match key {
            "annotations" if keeps_metadata => {
                for (key, value) in object(value, "annotations")? {
                    match value {
                        Value::Null => _ = owner.metadata.annotations.remove(key),
                        value => {
                            let value = text(value, "annotation")?.to_owned();
                            owner.metadata.annotations.insert(key.clone(), value);
                        }
                    }
                }
            }
            "annotations" => {}
            other => return Err(Rejection::malformed(format!("merge of metadata.{other}"))),
        }
    }
    match (subresource, body.get("status")) {
        ("status", Some(status)) => {
            check_selector(owner, status)?;
            check_ready(owner, status)?;
            merge_status(&mut owner.status, status)
        }
        ("status", None) | ("", None) => Ok(()),
        _ => Err(Rejection::malformed("status outside the subresource")),
    }
}

/// Checks `status.selector`: the scale subresource of a custom resource needs it, and an apps/v1 Deployment does not have
/// it.
fn check_selector(owner: &Deployment, status: &Value) -> Response<()> {
    let expected = (!owner.is_native()).then(|| owner.spec.selector.to_string());
    let written = status.get("selector").and_then(Value::as_str);
    if written == expected.as_deref() {
        Ok(())
    } else {
        Err(Rejection::malformed(format!("status.selector {written:?}")))
    }
}

/// Checks `status.ready`, which kubectl prints for a custom resource.
fn check_ready(owner: &Deployment, status: &Value) -> Response<()> {
    let ready = || format!("{}/{}", status["readyReplicas"], owner.spec.replicas);
    let expected = (!owner.is_native()).then(ready);
    let written = status.get("ready").and_then(Value::as_str);
    if written == expected.as_deref() {
        Ok(())
    } else {
        Err(Rejection::malformed(format!("status.ready {written:?}")))
    }
}

fn merge_status(status: &mut DeploymentStatus, body: &Value) -> Response<()> {
    for (key, value) in object(body, "status")? {
        let number = || integer(value, key);
        let nullable = || match value {
            Value::Null => Ok(None),
            _ => number().map(Some),
        };
        match key.as_str() {
            "observedGeneration" => {
                status.observed_generation = value
                    .as_i64()
                    .ok_or_else(|| Rejection::malformed("observedGeneration"))?;
            }
            "replicas" => status.replicas = number()?,
            "updatedReplicas" => status.updated_replicas = number()?,
            "readyReplicas" => status.ready_replicas = number()?,
            "availableReplicas" => status.available_replicas = number()?,
            "unavailableReplicas" => status.unavailable_replicas = number()?,
            "terminatingReplicas" => status.terminating_replicas = nullable()?,
            "collisionCount" => status.collision_count = nullable()?,
            "conditions" => {
                let list = value
                    .as_array()
                    .ok_or_else(|| Rejection::malformed("conditions is not a list"))?;
                status.conditions = list.iter().map(condition).collect::<Response<_>>()?;
            }
            "selector" | "ready" => {}
            other => return Err(Rejection::malformed(format!("status.{other}"))),
        }
    }
    Ok(())
}

fn condition(value: &Value) -> Response<Condition> {
    let field = |key: &str| text(&value[key], key).map(str::to_owned);
    Ok(Condition {
        kind: field("type")?,
        status: field("status")?,
        reason: field("reason")?,
        message: field("message")?,
        last_update_time: time(&value["lastUpdateTime"])?,
        last_transition_time: time(&value["lastTransitionTime"])?,
    })
}

fn time(value: &Value) -> Response<Option<Time>> {
    if value.is_null() {
        return Ok(None);
    }
    let parsed = humantime::parse_rfc3339(text(value, "time")?)
        .map_err(|error| Rejection::malformed(error.to_string()))?;
    let since = parsed.duration_since(std::time::UNIX_EPOCH);
    let seconds = since
        .ok()
        .and_then(|span| i64::try_from(span.as_secs()).ok());
    Ok(seconds.and_then(|seconds| Time::new(seconds, 0)))
}

/// Checks the preconditions of a delete call.
pub(super) fn delete_preconditions(set: &ReplicaSet, body: &Value) -> Response<()> {
    if body["propagationPolicy"] != "Background" {
        return Err(Rejection::malformed("propagationPolicy"));
    }
    let preconditions = object(&body["preconditions"], "preconditions")?;
    for (key, value) in preconditions {
        let holds = match key.as_str() {
            "uid" => *value == set.metadata.uid.as_str(),
            "resourceVersion" => *value == set.metadata.resource_version.as_str(),
            other => return Err(Rejection::malformed(format!("precondition on {other}"))),
        };
        if !holds {
            return Err(Rejection::conflict());
        }
    }
    Ok(())
}
