//! Changes of manifests that the API server refuses: some fields cannot change after an object has been created. The object then
//! stays as it is.

use std::collections::BTreeMap;

use rollplan_core::template::{TEMPLATE, Value, known_fields};
use serde_json::{Value as Json, json};

use super::restart_entries::has_same_entries;
use super::restart_objects::{
    InputObject, ObjectKey, changed_fields, id, is_native_template, template,
};

/// The fields of a pod template that can change in a Job that is suspended and has never started
/// (pkg/apis/batch/validation/validation.go, `validatePodTemplateUpdate`).
const OF_SUSPENDED_JOBS: [&str; 6] = [
    "metadata.labels",
    "metadata.annotations",
    "spec.nodeSelector",
    "spec.tolerations",
    "spec.schedulingGates",
    "spec.affinity.nodeAffinity",
];

/// Annotations with which Helm, Argo CD and Flux delete an object and create it again, and the text that they must contain.
const RECREATING: [(&str, &str); 4] = [
    ("helm.sh/hook", ""),
    ("argocd.argoproj.io/hook", ""),
    ("argocd.argoproj.io/sync-options", "Force=true"),
    ("kustomize.toolkit.fluxcd.io/force", "enabled"),
];

/// Why the API server refuses changes, by object.
#[derive(Debug, Default)]
pub(super) struct Refusals(BTreeMap<ObjectKey, String>);

// === impl Refusals ===

impl Refusals {
    /// Looks for changes that the API server refuses, and replaces the changed objects by the earlier ones.
    pub(super) fn keep_refused(earlier: &[InputObject], objects: &mut [InputObject]) -> Self {
        let earlier = earlier.iter().map(|object| (id(&object.json), object));
        let earlier: BTreeMap<ObjectKey, &InputObject> = earlier.collect();
        let mut refusals = BTreeMap::new();
        for object in objects {
            let id = id(&object.json);
            let Some(before) = earlier.get(&id) else {
                continue;
            };
            if let Some(refusal) = refusal(&before.json, &object.json) {
                object.json.clone_from(&before.json);
                object.text.clone_from(&before.text);
                refusals.insert(id, refusal);
            }
        }
        Self(refusals)
    }

    /// Why the API server refuses the change of an object. Empty if it does not.
    pub(super) fn of(&self, id: &ObjectKey) -> String {
        self.0.get(id).cloned().unwrap_or_default()
    }
}

/// Whether the tool that applies an object deletes it, and creates it again.
pub(super) fn is_recreated(object: &Json) -> bool {
    let annotations = &object["metadata"]["annotations"];
    RECREATING.iter().any(|(annotation, text)| {
        let value = annotations[*annotation].as_str();
        value.is_some_and(|value| value.contains(text))
    })
}

/// Why the API server refuses a change. `None` if it does not.
fn refusal(old: &Json, new: &Json) -> Option<String> {
    let kind = new["kind"].as_str()?;
    if is_recreated(new) {
        return None;
    }
    if matches!(kind, "ConfigMap" | "Secret") {
        let why = immutable_configuration(old, new)?;
        return Some(format!(
            "the API server refuses the change, because {why} is immutable: give the new one another name"
        ));
    }
    let fields = match immutable_fields(old, new).as_slice() {
        [] if !selects_own_pods(new) => {
            let text = "the API server refuses the change, because spec.selector does not match the labels of spec.template";
            return Some(text.to_owned());
        }
        [] => return None,
        [one] => format!("{one} is immutable"),
        [all @ .., last] => format!("{} and {last} are immutable", all.join(", ")),
    };
    Some(format!(
        "the API server refuses the change, because {fields}: delete the {kind} and create it again"
    ))
}

/// What cannot change in a configuration (pkg/apis/core/validation/validation.go, `ValidateConfigMapUpdate`,
/// `ValidateSecretUpdate`).
fn immutable_configuration(old: &Json, new: &Json) -> Option<&'static str> {
    let is_immutable = |object: &Json| object["immutable"] == true;
    let secret_type = |object: &Json| match object["type"].as_str() {
        None | Some("") => "Opaque".to_owned(),
        Some(text) => text.to_owned(),
    };
    if is_immutable(old) && (!has_same_entries(old, new) || !is_immutable(new)) {
        return Some("the object");
    }
    let is_secret = old["kind"] == "Secret";
    (is_secret && secret_type(old) != secret_type(new)).then_some("the type of a Secret")
}

/// The fields of a workload that cannot change, and that differ (pkg/apis/apps/validation/validation.go,
/// `ValidateDeploymentUpdate`, `ValidateStatefulSetUpdate` and others; pkg/apis/batch/validation/validation.go,
/// `ValidateJobSpecUpdate`).
fn immutable_fields(old: &Json, new: &Json) -> Vec<&'static str> {
    let differs = |field: &str, default: Json| {
        let of = |object: &Json| match without_empty(&object["spec"][field]) {
            Json::Null => default.clone(),
            value => value,
        };
        of(old) != of(new)
    };
    let mut fields = Vec::new();
    if !is_native_template(new) {
        return fields;
    }
    let kind = new["kind"].as_str().unwrap_or_default();
    // Earlier API versions derive it from the labels of the template.
    let has_both = [old, new]
        .iter()
        .all(|it| !it["spec"]["selector"].is_null());
    if has_selector(new) && has_both && differs("selector", Json::Null) {
        fields.push("spec.selector");
    }
    match kind {
        "StatefulSet" => {
            let claims = [old, new].map(claims_as_volumes);
            if !changed_fields(claims).is_empty() {
                fields.push("spec.volumeClaimTemplates");
            }
            if differs("serviceName", Json::Null) {
                fields.push("spec.serviceName");
            }
            if differs("podManagementPolicy", json!("OrderedReady")) {
                fields.push("spec.podManagementPolicy");
            }
        }
        "Job" => {
            let is_indexed = new["spec"]["completionMode"] == "Indexed";
            if !is_indexed && completions(old) != completions(new) {
                fields.push("spec.completions");
            }
            if differs("completionMode", json!("NonIndexed")) {
                fields.push("spec.completionMode");
            }
            if differs("backoffLimitPerIndex", Json::Null) {
                fields.push("spec.backoffLimitPerIndex");
            }
            if differs("managedBy", Json::Null) {
                fields.push("spec.managedBy");
            }
            if !can_change_template(old, new) {
                fields.push("spec.template");
            }
        }
        _ => {}
    }
    fields
}

/// Whether the selector of an object belongs to its user.
fn has_selector(object: &Json) -> bool {
    let kinds = ["Deployment", "DaemonSet", "ReplicaSet", "StatefulSet"];
    is_native_template(object) && kinds.iter().any(|kind| object["kind"] == *kind)
}

/// Whether the labels of the pod template have the values of the selector, if the object must have one
/// (pkg/apis/apps/validation/validation.go, `ValidatePodTemplateSpecForReplicaSet` and others).
fn selects_own_pods(object: &Json) -> bool {
    let labels = &object["spec"]["template"]["metadata"]["labels"];
    let wanted = object["spec"]["selector"]["matchLabels"].as_object();
    let mut wanted = wanted.into_iter().flatten();
    !has_selector(object) || wanted.all(|(label, value)| labels[label] == *value)
}

/// How many pods of a Job must complete. A Job without this number and without parallelism runs one pod
/// (pkg/apis/batch/v1/defaults.go).
fn completions(job: &Json) -> Json {
    match (&job["spec"]["completions"], &job["spec"]["parallelism"]) {
        (Json::Null, Json::Null) => json!(1),
        (completions, _) => completions.clone(),
    }
}

/// Whether the API server accepts the template of a changed Job, if the Job has never started.
fn can_change_template(old: &Json, new: &Json) -> bool {
    let [Some(before), Some(after)] = [old, new].map(template) else {
        return true;
    };
    let is_suspended = old["spec"]["suspend"] == true;
    let changed = changed_fields([before, after]);
    let of_scheduling = |path: &String| {
        let mut fields = OF_SUSPENDED_JOBS.into_iter();
        fields.any(|field| path.starts_with(field))
    };
    let of_resources = |path: &String| path.contains("ontainers[") && path.contains("].resources");
    changed.is_empty()
        || is_suspended && (changed.iter().all(of_scheduling) || changed.iter().all(of_resources))
}

/// The claim templates of a StatefulSet as ephemeral volumes of a pod template, which have the same fields and defaults.
fn claims_as_volumes(object: &Json) -> Value {
    let claims = object["spec"]["volumeClaimTemplates"].as_array();
    let volumes = claims.into_iter().flatten().map(|claim| {
        let metadata = &claim["metadata"];
        let template = json!({
            "metadata": {"labels": metadata["labels"], "annotations": metadata["annotations"]},
            "spec": claim["spec"],
        });
        json!({"name": metadata["name"], "ephemeral": {"volumeClaimTemplate": template}})
    });
    let volumes: Vec<Json> = volumes.collect();
    let template = Value::from(&json!({"spec": {"volumes": volumes}}));
    known_fields(&TEMPLATE, template)
}

/// A value without empty parts, which the API server does not distinguish from absent ones.
fn without_empty(value: &Json) -> Json {
    match value {
        Json::Object(fields) => {
            let fields = fields
                .iter()
                .map(|(key, value)| (key.clone(), without_empty(value)));
            let fields: serde_json::Map<_, _> = fields.filter(|(_, it)| !it.is_null()).collect();
            if fields.is_empty() {
                Json::Null
            } else {
                Json::Object(fields)
            }
        }
        Json::Array(items) if items.is_empty() => Json::Null,
        Json::String(text) if text.is_empty() => Json::Null,
        other => other.clone(),
    }
}
