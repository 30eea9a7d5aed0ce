//! Facts about the objects in the input of `restarts` and `uses` that the plan does not contain: their annotations, and the
//! existing configurations.

use std::collections::{BTreeMap, BTreeSet};

use rollplan_core::interrupt::Never;
use rollplan_core::kind;
use rollplan_core::template::{TEMPLATE, Value, known_fields, template_changes, type_faults};
use rollplan_wire::objects::current_version;
use rollplan_wire::proto::{ConfigurationKind, RestartPlan, WorkloadKind};
use serde_json::{Value as Json, json};

use crate::cli::input::Objects;

/// Part of the keys of Reloader's annotations.
const RELOADER: &str = "reloader.stakater.com/";
/// The maximum number of workloads in a note.
const LISTED_MAX: usize = 5;

/// Namespace, kind and name.
pub(super) type ObjectKey = (String, String, String);

/// Namespace, kind and name of an object.
pub(super) fn id(object: &Json) -> ObjectKey {
    let text = |pointer| {
        let text = object.pointer(pointer).and_then(Json::as_str);
        text.unwrap_or_default()
    };
    (
        namespace_of(text("/metadata/namespace")).to_owned(),
        text("/kind").to_owned(),
        text("/metadata/name").to_owned(),
    )
}

/// Namespace, kind and name of the workload of a plan.
pub(super) fn plan_id(plan: &RestartPlan) -> ObjectKey {
    (
        namespace_of(&plan.namespace).to_owned(),
        plan.kind.clone(),
        plan.name.clone(),
    )
}

/// The namespace of an object. Manifests may omit it.
pub(super) fn namespace_of(namespace: &str) -> &str {
    match namespace {
        "" => DEFAULT_NAMESPACE,
        namespace => namespace,
    }
}

/// An object in the input.
#[derive(Clone, Debug)]
pub(super) struct InputObject {
    /// For example `web.yaml, document 2 (ConfigMap shop/web)`.
    pub(super) place: String,
    /// Its JSON, as it was read, or with another namespace.
    pub(super) text: String,
    pub(super) json: Json,
}

/// Facts about the objects in the input.
#[derive(Debug, Default)]
pub(super) struct RestartObjects {
    /// Annotations of the workloads, and of their templates.
    workloads: BTreeMap<ObjectKey, BTreeMap<String, String>>,
    /// Annotations of the configurations.
    configurations: BTreeMap<ObjectKey, BTreeMap<String, String>>,
}

// === impl InputObject ===

impl InputObject {
    /// All objects, with the API versions in which they are planned.
    pub(super) fn all(objects: &Objects<'_>) -> Vec<Self> {
        let all = objects.texts().map(|(place, text)| {
            let mut json: Json = serde_json::from_str(&text).unwrap_or_default();
            if let (Some(given), Some(kind)) = (json["apiVersion"].as_str(), json["kind"].as_str())
            {
                json["apiVersion"] = json!(current_version(given.into(), kind));
            }
            Self { place, text, json }
        });
        all.collect()
    }

    /// Puts an object without a namespace into the given one, or into `default`. Returns whether it is in the given one.
    pub(super) fn set_namespace(&mut self, namespace: Option<&str>) -> bool {
        if self.json["kind"] == "Namespace" {
            return true;
        }
        let own = self.json["metadata"]["namespace"].as_str();
        if let Some(own) = own.filter(|own| !own.is_empty()) {
            return namespace.is_none_or(|namespace| namespace == own);
        }
        if let Some(metadata) = self.json["metadata"].as_object_mut() {
            let namespace = namespace.unwrap_or(DEFAULT_NAMESPACE);
            metadata.insert("namespace".to_owned(), json!(namespace));
            self.text = self.json.to_string();
        }
        true
    }
}

// === impl RestartObjects ===

impl RestartObjects {
    /// Reads objects. Invalid ones are part of the plan's violations.
    pub(super) fn read(objects: &[InputObject]) -> Self {
        let mut found = Self::default();
        for object in objects {
            found.add(&object.json);
        }
        found
    }

    fn add(&mut self, object: &Json) {
        let text = |pointer| {
            object
                .pointer(pointer)
                .and_then(Json::as_str)
                .unwrap_or_default()
        };
        let id = |kind: &str, name| {
            let namespace = namespace_of(text("/metadata/namespace"));
            (namespace.to_owned(), kind.to_owned(), text(name).to_owned())
        };
        let mut annotations = strings(&object["metadata"]["annotations"]);
        match text("/kind") {
            kind @ ("ConfigMap" | "Secret") => {
                self.configurations
                    .insert(id(kind, "/metadata/name"), annotations);
            }
            // The SecretProviderClass itself does not show its content.
            "SecretProviderClassPodStatus" => {
                let id = id("SecretProviderClass", "/status/secretProviderClassName");
                self.configurations.insert(id, annotations);
            }
            kind => {
                let template = at(object, restarted_template(kind).unwrap_or("spec.template"));
                let template = template.map(|it| strings(&it["metadata"]["annotations"]));
                annotations.extend(template.unwrap_or_default());
                self.workloads
                    .insert(id(kind, "/metadata/name"), annotations);
            }
        }
    }

    /// The objects with annotations of Reloader, for notes: workloads that its profile restarts, and others. `None` if there
    /// are none.
    pub(super) fn of_reloader(&self) -> [Option<String>; 2] {
        [true, false].map(|is_covered| {
            let all = self.workloads.iter().filter(|((_, kind, _), annotations)| {
                is_reloader(annotations) && restarted_template(kind).is_some() == is_covered
            });
            let all: Vec<String> = all
                .map(|((namespace, kind, name), _)| format!("{kind} {}", path(namespace, name)))
                .collect();
            let listed = all.get(..LISTED_MAX).unwrap_or(&all).join(", ");
            match all.len().saturating_sub(LISTED_MAX) {
                0 if all.is_empty() => None,
                0 => Some(listed),
                more => Some(format!("{listed} and {more} more")),
            }
        })
    }

    /// The configurations that workloads react to, and that are not in the input.
    pub(super) fn unknown(&self, plans: &[RestartPlan]) -> Vec<String> {
        let uses = plans.iter().flat_map(|plan| {
            let uses = plan.uses.iter();
            let namespace = namespace_of(&plan.namespace);
            uses.map(|used| (namespace.to_owned(), kind(used.kind()), used.name.clone()))
        });
        let unknown = uses.filter(|(namespace, kind, name)| {
            let id = (namespace.clone(), (*kind).to_owned(), name.clone());
            !self.configurations.contains_key(&id)
        });
        let unknown: BTreeSet<_> = unknown
            .map(|(namespace, kind, name)| format!("{kind} {}", path(&namespace, &name)))
            .collect();
        unknown.into_iter().collect()
    }

    /// The annotations of a configuration.
    pub(super) fn annotations(
        &self,
        namespace: &str,
        of: ConfigurationKind,
        name: &str,
    ) -> BTreeMap<String, String> {
        let namespace = namespace_of(namespace).to_owned();
        let id = (namespace, kind(of).to_owned(), name.to_owned());
        self.configurations.get(&id).cloned().unwrap_or_default()
    }

    /// The annotations of a workload, and of its template.
    pub(super) fn workload(&self, id: &ObjectKey) -> BTreeMap<String, String> {
        self.workloads.get(id).cloned().unwrap_or_default()
    }
}

/// The same objects without their annotations, which would decide which workloads are selected.
pub(super) fn without_annotations(mut objects: Vec<Json>) -> Vec<Json> {
    for object in &mut objects {
        if let Some(metadata) = object["metadata"].as_object_mut() {
            metadata.remove("annotations");
        }
    }
    objects
}

/// The namespace of objects without one.
pub(super) const DEFAULT_NAMESPACE: &str = "default";

/// Kinds with a pod template that no profile restarts: API version, kind, and path of the template.
const OTHER_KINDS: [(&str, &str, &str); 8] = [
    ("v1", "Pod", "spec.template"),
    ("v1", "ReplicationController", "spec.template"),
    ("apps/v1", "ReplicaSet", "spec.template"),
    ("apps.kruise.io/v1alpha1", "CloneSet", "spec.template"),
    ("apps.openshift.io/v1", "DeploymentConfig", "spec.template"),
    ("argoproj.io/v1alpha1", "Rollout", "spec.template"),
    ("batch/v1beta1", "CronJob", "spec.jobTemplate.spec.template"),
    ("serving.knative.dev/v1", "Service", "spec.template"),
];

/// Kinds from which controllers create ConfigMaps, Secrets or workloads: API group, and kind.
const SOURCES: [(&str, &str); 18] = [
    ("argoproj.io", "Application"),
    ("argoproj.io", "ApplicationSet"),
    ("bitnami.com", "SealedSecret"),
    ("cert-manager.io", "Certificate"),
    ("external-secrets.io", "ClusterExternalSecret"),
    ("external-secrets.io", "ExternalSecret"),
    ("helm.cattle.io", "HelmChart"),
    ("helm.toolkit.fluxcd.io", "HelmRelease"),
    ("isindir.github.com", "SopsSecret"),
    ("kustomize.toolkit.fluxcd.io", "Kustomization"),
    ("onepassword.com", "OnePasswordItem"),
    ("secrets-store.csi.x-k8s.io", "SecretProviderClass"),
    ("secrets.doppler.com", "DopplerSecret"),
    ("secrets.hashicorp.com", "VaultDynamicSecret"),
    ("secrets.hashicorp.com", "VaultPKISecret"),
    ("secrets.hashicorp.com", "VaultStaticSecret"),
    ("secrets.infisical.com", "InfisicalSecret"),
    ("trust.cert-manager.io", "Bundle"),
];

/// Kinds of workloads that `uses` names, besides those that are restarted.
pub(super) fn other_kinds() -> Vec<WorkloadKind> {
    let kinds = OTHER_KINDS.map(|(api_version, kind, path)| WorkloadKind {
        api_version: api_version.to_owned(),
        kind: kind.to_owned(),
        resource: String::new(),
        template_path: path.to_owned(),
    });
    kinds.to_vec()
}

/// Whether no profile restarts workloads of this kind. Only an old version of a CronJob is of such a kind.
pub(super) fn is_other_kind(kind: &str) -> bool {
    kind != "CronJob" && OTHER_KINDS.iter().any(|(_, other, _)| *other == kind)
}

/// The objects with those of `other_kinds` that have no controller. A pod becomes the template of a workload. An object without
/// a template, such as a Rollout that refers to a Deployment, uses nothing.
pub(super) fn as_workloads(objects: &[InputObject]) -> Vec<Json> {
    let objects = objects.iter().filter_map(|object| {
        let mut object = object.json.clone();
        if other_template(&object).is_some() && pod_template(&object).is_none() {
            return None;
        }
        let is_part = is_of(&object, "v1", "Pod") || is_of(&object, "apps/v1", "ReplicaSet");
        if !is_part {
            return Some(object);
        }
        let owners = object.pointer("/metadata/ownerReferences");
        let mut owners = owners.and_then(Json::as_array).into_iter().flatten();
        if owners.any(|owner| owner["controller"] == true) {
            return None;
        }
        if is_of(&object, "v1", "Pod") {
            object["spec"] = json!({"template": {"spec": object["spec"].take()}});
        }
        Some(object)
    });
    objects.collect()
}

/// The pod template of a workload. `None` if the object is of no known kind of workload.
pub(super) fn pod_template(object: &Json) -> Option<Json> {
    if is_of(object, "v1", "Pod") {
        // Its labels can be changed without replacing it.
        return Some(json!({"spec": object["spec"]}));
    }
    let (api_version, kind) = (object["apiVersion"].as_str()?, object["kind"].as_str()?);
    let path = kind::restarted_template(api_version, kind).or_else(|| other_template(object));
    at(object, path?).cloned()
}

/// The pod template of a workload, without fields that the API server ignores.
pub(super) fn template(object: &Json) -> Option<Value> {
    let template = Value::from(&pod_template(object)?);
    Some(if is_native_template(object) {
        known_fields(&TEMPLATE, template)
    } else {
        template
    })
}

/// The paths of the fields that differ between two templates, as the planner compares them.
pub(super) fn changed_fields([before, after]: [Value; 2]) -> Vec<String> {
    let changes = template_changes(&before.into(), &after.into(), &Never);
    changes.into_iter().map(|it| it.path).collect()
}

/// The path of the pod template in an object of [`OTHER_KINDS`]. `None` for others.
fn other_template(object: &Json) -> Option<&'static str> {
    let mut kinds = OTHER_KINDS.iter();
    kinds.find_map(|(api_version, kind, path)| is_of(object, api_version, kind).then_some(*path))
}

/// The path of the pod template in workloads of this kind, if profiles restart them.
fn restarted_template(kind: &str) -> Option<&'static str> {
    kind::named(kind)?.restarted_template
}

/// The value at a path, for example "spec.template".
fn at<'o>(object: &'o Json, path: &str) -> Option<&'o Json> {
    object.pointer(&format!("/{}", path.replace('.', "/")))
}

fn is_of(object: &Json, api_version: &str, kind: &str) -> bool {
    object["apiVersion"] == api_version && object["kind"] == kind
}

/// The API group of an object. Empty for the core group.
fn group(object: &Json) -> &str {
    kind::group(object["apiVersion"].as_str().unwrap_or_default())
}

/// The objects that may create or use configurations and that are not examined, for a note. `None` if there are none.
pub(super) fn unexamined<'o>(objects: impl Iterator<Item = &'o InputObject>) -> Option<String> {
    let mut found: BTreeMap<(String, String), BTreeSet<ObjectKey>> = BTreeMap::new();
    for InputObject { json: object, .. } in objects {
        let text = |field: &str| object[field].as_str().unwrap_or_default().to_owned();
        let (api_version, kind) = (text("apiVersion"), text("kind"));
        let is_source = SOURCES.contains(&(group(object), kind.as_str()));
        let is_examined = pod_template(object).is_some();
        if is_source || !is_examined && has_containers(object) {
            let of_kind = found.entry((kind, api_version)).or_default();
            of_kind.insert(id(object));
        }
    }
    let list = found.iter();
    let list = list.map(|((kind, version), all)| format!("{} {kind} ({version})", all.len()));
    (!found.is_empty()).then(|| list.collect::<Vec<_>>().join(", "))
}

/// Whether an object contains a list of containers, at any place: that of a pod, or of what becomes one.
fn has_containers(value: &Json) -> bool {
    match value {
        Json::Object(fields) => fields.iter().any(|(key, field)| {
            let has_names = |it: &Vec<Json>| it.iter().any(|it| it["name"].is_string());
            key == "containers" && field.as_array().is_some_and(has_names) || has_containers(field)
        }),
        Json::Array(items) => items.iter().any(has_containers),
        _ => false,
    }
}

/// Removes objects that have a later manifest: kubectl applies all of them, so the last one counts. Returns their kinds and
/// names.
pub(super) fn remove_replaced(objects: &mut Vec<InputObject>) -> BTreeSet<String> {
    let mut seen = BTreeSet::new();
    let mut replaced = BTreeSet::new();
    objects.reverse();
    objects.retain(|InputObject { json: object, .. }| {
        let metadata = &object["metadata"];
        let is_last = seen.insert((group(object).to_owned(), id(object)));
        if is_last || metadata["name"].is_null() {
            return true;
        }
        let text = |value: &Json| value.as_str().unwrap_or_default().to_owned();
        let path = path(&text(&metadata["namespace"]), &text(&metadata["name"]));
        replaced.insert(format!("{} {path}", text(&object["kind"])));
        false
    });
    objects.reverse();
    replaced
}

/// The fields of pod templates that Kubernetes does not know, as a note (kubectl: `--validate`, which is strict by default).
pub(super) fn unknown_fields(objects: &[InputObject]) -> Option<String> {
    let mut unknown = Vec::new();
    for InputObject { json: object, .. } in objects {
        let template = pod_template(object).filter(|_| is_native_template(object));
        let template = template.map_or(Value::Null, |template| Value::from(&template));
        let (_, kind, name) = id(object);
        let faults = type_faults(&TEMPLATE, &template).into_iter();
        let paths = faults.filter(|fault| fault.is_unknown);
        let paths = paths.map(|fault| fault.path.trim_start_matches('.').to_owned());
        unknown.extend(paths.map(|path| format!("{kind} {name}: {path}")));
    }
    let listed = unknown.get(..LISTED_MAX).unwrap_or(&unknown).join("; ");
    let more = match unknown.len().saturating_sub(LISTED_MAX) {
        0 if unknown.is_empty() => return None,
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    Some(format!(
        "unknown fields, which kubectl apply refuses, and which the API server ignores without its validation: {listed}{more}"
    ))
}

/// Whether the fields of the pod template of an object are those of Kubernetes, and no custom ones.
pub(super) fn is_native_template(object: &Json) -> bool {
    matches!(group(object), "" | "apps" | "batch")
}

fn strings(json: &Json) -> BTreeMap<String, String> {
    let entries = json.as_object().into_iter().flatten();
    let entries =
        entries.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())));
    entries.collect()
}

/// Whether there is an annotation of Reloader.
pub(super) fn is_reloader(annotations: &BTreeMap<String, String>) -> bool {
    annotations.keys().any(|key| key.contains(RELOADER))
}

fn path(namespace: &str, name: &str) -> String {
    match namespace {
        "" => name.to_owned(),
        namespace => format!("{namespace}/{name}"),
    }
}

/// The name of a kind in Kubernetes.
pub(super) fn kind(kind: ConfigurationKind) -> &'static str {
    match kind {
        ConfigurationKind::ConfigMap => "ConfigMap",
        ConfigurationKind::Secret => "Secret",
        ConfigurationKind::SecretProviderClass => "SecretProviderClass",
        ConfigurationKind::Unspecified => "?",
    }
}
