//! Facts about the objects in the input of `restarts` and `uses` that the plan does not contain: their annotations, and the
//! existing configurations.

use std::collections::{BTreeMap, BTreeSet};

use rollplan_core::interrupt::Never;
use serde_json::Value as Json;

use crate::proto::{ConfigurationKind, RestartPlan};
use crate::wire::Violations;
use crate::wire::objects::{FIELD, Objects};

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
        "" => "default",
        namespace => namespace,
    }
}

/// The objects in the input.
#[derive(Debug, Default)]
pub(super) struct RestartObjects {
    /// Annotations of the workloads, and of their templates.
    workloads: BTreeMap<ObjectKey, BTreeMap<String, String>>,
    /// Annotations of the configurations.
    configurations: BTreeMap<ObjectKey, BTreeMap<String, String>>,
}

// === impl RestartObjects ===

impl RestartObjects {
    /// Reads valid Kubernetes JSON. Invalid objects are part of the plan's violations.
    pub(super) fn read(texts: &[String]) -> Self {
        let mut found = Self::default();
        for object in objects(texts) {
            found.add(&object);
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
                let path = match kind {
                    "CronJob" => "/spec/jobTemplate/spec/template/metadata/annotations",
                    _ => "/spec/template/metadata/annotations",
                };
                let template = object.pointer(path).map(strings).unwrap_or_default();
                annotations.extend(template);
                self.workloads
                    .insert(id(kind, "/metadata/name"), annotations);
            }
        }
    }

    /// The workloads with annotations of Reloader, for a note. `None` if there are none.
    pub(super) fn of_reloader(&self) -> Option<String> {
        let all = self
            .workloads
            .iter()
            .filter(|(_, annotations)| is_reloader(annotations));
        let all: Vec<String> = all
            .map(|((namespace, kind, name), _)| format!("{kind} {}", path(namespace, name)))
            .collect();
        let listed = all.get(..LISTED_MAX).unwrap_or(&all).join(", ");
        match all.len().saturating_sub(LISTED_MAX) {
            0 if all.is_empty() => None,
            0 => Some(listed),
            more => Some(format!("{listed} and {more} more")),
        }
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

/// The objects in valid Kubernetes JSON, with all their fields.
pub(super) fn objects(texts: &[String]) -> Vec<Json> {
    let objects = Objects::find(FIELD, texts, &mut Violations::default(), &Never);
    let objects = objects.unwrap_or_default().found;
    let objects = objects.iter().filter_map(|object| {
        let mut json = String::new();
        object.write_json(&mut json);
        serde_json::from_str(&json).ok()
    });
    objects.collect()
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
