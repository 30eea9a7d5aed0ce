//! Facts about the objects in the input of `restarts` and `uses` that the plan does not contain: their annotations, and the
//! existing configurations.

use std::collections::{BTreeMap, BTreeSet};

use rollplan_core::interrupt::Never;
use serde_json::{Value as Json, json};

use crate::proto::{ConfigurationKind, RestartPlan};
use crate::wire::Violations;
use crate::wire::objects::{FIELD, Objects};

/// Part of the keys of Reloader's annotations.
const RELOADER: &str = "reloader.stakater.com/";
/// The maximum number of workloads in a note.
const LISTED_MAX: usize = 5;

/// Namespace, kind and name.
pub(super) type ObjectKey = (String, String, String);

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
            let namespace = text("/metadata/namespace");
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
            uses.map(|used| (plan.namespace.clone(), kind(used.kind()), used.name.clone()))
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

    /// Why a change of a configuration does not restart a workload in the profile of Reloader.
    pub(super) fn reloader_reason(
        &self,
        plan: &RestartPlan,
        of: ConfigurationKind,
        name: &str,
    ) -> String {
        let id =
            |kind: &str, name: &str| (plan.namespace.clone(), kind.to_owned(), name.to_owned());
        let none = BTreeMap::new();
        let configuration = self
            .configurations
            .get(&id(kind(of), name))
            .unwrap_or(&none);
        let workload = self
            .workloads
            .get(&id(&plan.kind, &plan.name))
            .unwrap_or(&none);
        if configuration
            .get("reloader.stakater.com/ignore")
            .is_some_and(|it| it == "true")
        {
            return "reloader.stakater.com/ignore on the configuration".to_owned();
        }
        let excludes = workload.iter().find(|(key, value)| {
            key.contains(".exclude.reloader.stakater.com/")
                && value.split(',').any(|it| it.trim() == name)
        });
        match excludes {
            Some((key, _)) => format!("excluded by {key}"),
            None if is_reloader(workload) => {
                "its annotations of Reloader do not select this configuration".to_owned()
            }
            None => "no annotation of Reloader".to_owned(),
        }
    }
}

/// The same objects without their annotations, which would decide which workloads are selected.
pub(super) fn without_annotations(texts: &[String]) -> String {
    let mut items = objects(texts);
    for object in &mut items {
        if let Some(metadata) = object["metadata"].as_object_mut() {
            metadata.remove("annotations");
        }
    }
    json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string()
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

fn is_reloader(annotations: &BTreeMap<String, String>) -> bool {
    annotations.keys().any(|key| key.contains(RELOADER))
}

fn path(namespace: &str, name: &str) -> String {
    match namespace {
        "" => name.to_owned(),
        namespace => format!("{namespace}/{name}"),
    }
}

fn kind(kind: ConfigurationKind) -> &'static str {
    match kind {
        ConfigurationKind::ConfigMap => "ConfigMap",
        ConfigurationKind::Secret => "Secret",
        ConfigurationKind::SecretProviderClass => "SecretProviderClass",
        ConfigurationKind::Unspecified => "?",
    }
}
