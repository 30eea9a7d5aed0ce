//! The Kubernetes objects in texts, found by the same code as in the service. At this point, only their kind and
//! metadata are read.

use std::collections::BTreeSet;
use std::fmt::Display;

use rollplan_core::interrupt::Never;
use rollplan_core::kind::{self, Dependents, Revisions, group};
use rollplan_wire as wire;
use rollplan_wire::objects::{self, Found, Metadata, ObjectIndex, is_deployment};
use serde_json::{Map, Value, json};

use super::document::{Document, flat_documents};
use super::source::{Source, Sources};
use crate::cli::error::{Diagnostic, Error, chain};
use crate::cli::resource::{Resource, is_inert};

const NO_KIND: &str = "not a Kubernetes object: missing kind";
/// The API group of kustomizations and their components, which are not sent to clusters.
const KUSTOMIZE_GROUP: &str = "kustomize.config.k8s.io/";
const KUSTOMIZATION: &str =
    "this is a kustomization: render it first, for example with kubectl kustomize";

/// The JSON documents of all sources.
#[derive(Debug)]
pub(in crate::cli) struct Texts<'s> {
    documents: Vec<Document<'s>>,
    /// Why parts of the files could not be read.
    skipped: Vec<Diagnostic>,
}

/// All objects in these texts.
#[derive(Debug, Default)]
pub(in crate::cli) struct Objects<'t> {
    pub(super) all: ObjectIndex<'t, Object<'t>>,
    /// The place of a list that is only one page of a longer list.
    pub(super) continued: Option<&'t str>,
    /// Whether a part of the files could not be read.
    pub(in crate::cli) is_partial: bool,
}

/// An object of which only the kind and metadata are read.
#[derive(Debug)]
pub(super) struct Object<'t> {
    document: &'t str,
    pub(super) found: Found<'t>,
}

/// The role of an object in a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Deployment,
    ReplicaSet,
    Pod,
    Event,
    /// Any other kind.
    Other,
}

// === impl Texts ===

impl<'s> Texts<'s> {
    /// Reads texts that must be readable.
    pub(in crate::cli) fn read(sources: &'s [Source]) -> Result<Self, Error> {
        let mut documents = Vec::new();
        for source in sources {
            documents.extend(flat_documents(source, &mut |_| {})?);
        }
        Ok(Self {
            documents,
            skipped: Vec::new(),
        })
    }

    /// Reads texts of files, and skips those that cannot be read.
    pub(in crate::cli) fn of_files(
        sources: &'s Sources,
        note: &mut dyn FnMut(&dyn Display),
    ) -> Result<Self, Error> {
        let mut documents = Vec::new();
        let mut skipped = sources.errors.clone();
        for source in &sources.list {
            if source.is_kustomization() {
                skipped.push(Diagnostic::new(&source.name, KUSTOMIZATION));
                continue;
            }
            match flat_documents(source, &mut |text| note(&text)) {
                Ok(read) => documents.extend(read),
                Err(Error::Input(diagnostics)) => skipped.extend(diagnostics),
                Err(error) => return Err(error),
            }
        }
        for directory in &sources.unsearched {
            let directory = directory.display();
            note(&format_args!(
                "{directory} is not searched: pass -R to search directories in directories"
            ));
        }
        Ok(Self { documents, skipped })
    }

    /// The JSON of each text.
    pub(in crate::cli) fn documents(&self) -> impl Iterator<Item = &str> {
        self.documents.iter().map(|document| &*document.json)
    }
}

// === impl Objects ===

impl<'t> Objects<'t> {
    /// Finds the objects in texts that must contain nothing else.
    pub(in crate::cli) fn find(texts: &'t Texts<'_>) -> Result<Self, Error> {
        let mut objects = Self::default();
        objects.add(texts)?;
        Ok(objects)
    }

    /// Adds the objects in further texts, which must contain nothing else.
    pub(in crate::cli) fn add(&mut self, texts: &'t Texts<'_>) -> Result<(), Error> {
        let mut faults = Vec::new();
        self.scan(texts, &mut faults)?;
        if faults.is_empty() {
            Ok(())
        } else {
            Err(Error::Input(faults))
        }
    }

    /// Finds the objects in texts of files. What is none is skipped with a note, unless nothing else is left.
    pub(in crate::cli) fn in_files(
        texts: &'t Texts<'_>,
        note: &mut dyn FnMut(&dyn Display),
    ) -> Result<Self, Error> {
        let mut skipped = texts.skipped.clone();
        let mut objects = Self::default();
        objects.scan(texts, &mut skipped)?;
        if objects.all.is_empty() && !skipped.is_empty() {
            return Err(Error::Input(skipped));
        }
        for skipped in &skipped {
            note(&format_args!("skipped: {skipped}"));
        }
        objects.is_partial = !skipped.is_empty();
        Ok(objects)
    }

    /// Adds objects. What is none is a fault.
    fn scan(&mut self, texts: &'t Texts<'_>, faults: &mut Vec<Diagnostic>) -> Result<(), Error> {
        for Document { place, json } in &texts.documents {
            let mut violations = wire::Violations::default();
            let objects = objects::Objects::find_in("", json, &mut violations, &Never);
            let objects = objects.map_err(|error| Error::input(place, chain(&error)))?;
            if objects.is_continued {
                self.continued = Some(place);
            }
            let violations = violations.listed.into_iter();
            faults.extend(violations.map(|violation| Diagnostic {
                place: place.clone(),
                field: violation.field.trim_start_matches('.').to_owned(),
                text: violation.description,
            }));
            for found in objects.found {
                let object = Object {
                    document: place,
                    found,
                };
                match object.fault() {
                    Some(fault) => faults.push(fault),
                    None => self.all.add(object),
                }
            }
        }
        Ok(())
    }

    /// Refuses one page of a longer list, for readers that would not notice the missing objects.
    pub(super) fn check_complete(&self) -> Result<(), Error> {
        match self.continued {
            None => Ok(()),
            Some(place) => {
                let text = "incomplete list: metadata.continue is set, so objects are missing";
                Err(Error::input(place, text))
            }
        }
    }

    /// The place and JSON of each object.
    pub(in crate::cli) fn texts(&self) -> impl Iterator<Item = (String, String)> {
        self.all.iter().map(|object| {
            let mut json = String::new();
            object.found.write_json(&mut json);
            (object.place(), json)
        })
    }

    /// The object with this index, with all its fields.
    pub(in crate::cli) fn whole(&self, index: usize) -> Option<Value> {
        serde_json::from_str(self.all[index].found.text()).ok()
    }

    /// The dependents of objects of this kind in a cluster.
    pub(in crate::cli) fn dependents(&self) -> Dependents {
        let mut all = self.all.iter().map(Object::dependents);
        all.find(|it| *it != Dependents::None)
            .unwrap_or(Dependents::None)
    }

    /// The indices of the objects to report on if no object is named: those without a controller in the input. Pods and
    /// ReplicaSets are reported on only if the input has no other objects.
    pub(super) fn subjects(&self) -> Vec<usize> {
        let subjects = self.roots();
        let (parts, others): (Vec<usize>, Vec<usize>) = subjects
            .into_iter()
            .partition(|&index| matches!(self.all[index].role(), Role::Pod | Role::ReplicaSet));
        if others.is_empty() { parts } else { others }
    }

    /// The indices of the objects that can be waited for and have no controller in the input.
    pub(super) fn roots(&self) -> Vec<usize> {
        let controlled: BTreeSet<usize> = self
            .all
            .iter()
            .filter(|owner| !owner.found.metadata.uid.is_empty())
            .flat_map(|owner| self.all.controlled_by(&owner.found.metadata.uid))
            .map(|(index, _)| index)
            .collect();
        let all = self.all.iter().enumerate();
        all.filter(|(index, object)| !controlled.contains(index) && !object.is_inert())
            .map(|(index, _)| index)
            .collect()
    }

    /// The indices of an object and of all objects that it controls, directly or indirectly.
    pub(super) fn with_controlled(&self, owner: usize) -> BTreeSet<usize> {
        let mut indices = BTreeSet::from([owner]);
        let mut queue = vec![owner];
        while let Some(next) = queue.pop() {
            let uid = &self.all[next].found.metadata.uid;
            for (index, object) in self.all.controlled_by(uid) {
                if object.is_in_namespace_of(&self.all[owner].found) && indices.insert(index) {
                    queue.push(index);
                }
            }
        }
        indices
    }
}

// === impl Object ===

impl<'t> AsRef<Found<'t>> for Object<'t> {
    fn as_ref(&self) -> &Found<'t> {
        &self.found
    }
}

impl<'t> Object<'t> {
    /// Why kubectl does not accept it.
    fn fault(&self) -> Option<Diagnostic> {
        let Found {
            api_version,
            kind,
            metadata,
            ..
        } = &self.found;
        if api_version.starts_with(KUSTOMIZE_GROUP) {
            return Some(Diagnostic::new(self.position(), KUSTOMIZATION));
        }
        let identity = [api_version, kind, &metadata.name, &metadata.namespace];
        if identity.iter().all(|it| !it.is_empty()) {
            return None;
        }
        let object: Value = serde_json::from_str(self.found.text()).unwrap_or_default();
        for path in ["apiVersion", "kind", "metadata.name", "metadata.namespace"] {
            let pointer = format!("/{}", path.replace('.', "/"));
            let value = object.pointer(&pointer).unwrap_or(&Value::Null);
            let what = match value {
                Value::Number(_) => "a number",
                Value::Bool(_) => "a boolean",
                Value::Array(_) => "a list",
                Value::Object(_) => "a map",
                Value::Null | Value::String(_) => continue,
            };
            return Some(Diagnostic {
                place: self.position(),
                field: path.to_owned(),
                text: format!("{value} is {what}, and must be a string: put it in quotes"),
            });
        }
        if kind.is_empty() {
            return Some(Diagnostic::new(self.position(), NO_KIND));
        }
        (metadata.name.is_empty() && !object["metadata"]["generateName"].is_null()).then(|| {
            let text = "the object has generateName and no name: kubectl apply refuses it, and kubectl create gives it a new \
                        name each time";
            Diagnostic::new(self.position(), text)
        })
    }

    pub(super) fn role(&self) -> Role {
        let found = &self.found;
        match kind::find(&found.api_version, &found.kind) {
            Some(kind) if kind.revisions == Revisions::ReplicaSets => Role::Deployment,
            _ if found.is_replica_set() => Role::ReplicaSet,
            _ if found.is_pod() => Role::Pod,
            _ if found.is_event() => Role::Event,
            _ => Role::Other,
        }
    }

    /// Its dependents in a cluster.
    pub(super) fn dependents(&self) -> Dependents {
        let found = &self.found;
        match kind::find(&found.api_version, &found.kind) {
            Some(kind) => kind.dependents,
            None if is_deployment(found) => Dependents::ReplicaSetsAndPods,
            None => Dependents::None,
        }
    }

    /// The selector of its pods. That of a ReplicationController is a map of labels.
    pub(super) fn selector(&self) -> Option<Value> {
        let selector = self.value("spec").get("selector")?.clone();
        match &*self.found.kind {
            "ReplicationController" => Some(json!({"matchLabels": selector})),
            _ => Some(selector),
        }
    }

    /// Whether it is a revision of a workload.
    pub(super) fn is_revision(&self) -> bool {
        self.found.kind == "ControllerRevision"
    }

    /// Whether it may show why a pod waits for a volume.
    pub(super) fn is_storage(&self) -> bool {
        let kind = (&*self.found.api_version, &*self.found.kind);
        matches!(kind, ("v1", "PersistentVolume" | "PersistentVolumeClaim"))
    }

    /// Whether it contains configuration of pods.
    pub(super) fn is_configuration(&self) -> bool {
        let kind = (&*self.found.api_version, &*self.found.kind);
        matches!(kind, ("v1", "ConfigMap" | "Secret"))
    }

    /// Whether it has no status, and rollplan does not know whether its kind can have one.
    pub(super) fn may_lack_status(&self) -> bool {
        let Found {
            api_version, kind, ..
        } = &self.found;
        let status = self.value("status");
        let is_empty = |status: &Map<String, Value>| status.is_empty();
        status.as_object().is_none_or(is_empty)
            && !self.is_inert()
            && self.dependents() == Dependents::None
            && !Resource::of(api_version, kind).is_known()
    }

    /// Whether its kind has no state to wait for.
    pub(super) fn is_inert(&self) -> bool {
        is_inert(&self.found.api_version, &self.found.kind)
    }

    /// The value of a top-level field.
    pub(super) fn value(&self, field: &str) -> Value {
        let object: Value = serde_json::from_str(self.found.text()).unwrap_or_default();
        object.get(field).cloned().unwrap_or_default()
    }

    /// A ConfigMap or a Secret without its values.
    pub(super) fn without_values(&self) -> Value {
        let Metadata {
            name, namespace, ..
        } = &self.found.metadata;
        let metadata = json!({"name": name, "namespace": namespace});
        let mut object = json!({"apiVersion": "v1", "kind": self.found.kind, "metadata": metadata});
        for field in ["data", "binaryData", "stringData"] {
            if let Value::Object(entries) = self.value(field) {
                let keys = entries.into_iter().map(|(key, _)| (key, Value::from("")));
                object[field] = keys.collect::<Map<_, _>>().into();
            }
        }
        object
    }

    /// Whether it is the same object as another one, in any version of its API.
    pub(super) fn is_same_as(&self, other: &Self) -> bool {
        self.found.kind == other.found.kind
            && group(&self.found.api_version) == group(&other.found.api_version)
            && self.key() == other.key()
    }

    /// Namespace and name, for example "shop/web".
    pub(super) fn key(&self) -> String {
        match &*self.found.metadata.namespace {
            "" => self.found.metadata.name.clone().into_owned(),
            namespace => format!("{namespace}/{}", self.found.metadata.name),
        }
    }

    /// For example "Deployment shop/web".
    pub(super) fn label(&self) -> String {
        format!("{} {}", self.found.kind, self.key())
    }

    /// For example `web.json, items[3]`.
    fn position(&self) -> String {
        let (document, path) = (self.document, self.found.path());
        let separator = match &*path {
            "" => "",
            // An item of an array, for example `web.json, [3].items[2]`.
            _ if document.ends_with(']') => ".",
            _ => ", ",
        };
        format!("{document}{separator}{}", path.trim_start_matches('.'))
    }

    /// For example `web.json, items[3] (Deployment shop/web)`.
    pub(super) fn place(&self) -> String {
        format!("{} ({})", self.position(), self.label().trim_end())
    }
}

/// A JSON list of objects, each unchanged.
pub(super) fn list<'o, 't: 'o>(objects: impl Iterator<Item = &'o Object<'t>>) -> String {
    let mut json = String::from("{\"kind\":\"List\",\"items\":[");
    for (index, object) in objects.enumerate() {
        if index > 0 {
            json.push(',');
        }
        object.found.write_json(&mut json);
    }
    json.push_str("]}");
    json
}
