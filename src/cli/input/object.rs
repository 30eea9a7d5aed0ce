//! The Kubernetes objects in texts, found by the same code as in the service. At this point, only their kind and
//! metadata are read.

use std::collections::BTreeSet;

use rollplan_core::interrupt::Never;
use serde_json::{Map, Value, json};

use super::document::{Document, flat_documents};
use super::source::Source;
use crate::cli::error::{Diagnostic, Error, chain};
use crate::cli::resource::{Resource, is_inert};
use crate::wire;
use crate::wire::objects::{self, Found, ObjectIndex, is_deployment};

/// The API group of PlannedDeployments.
const PLANNED_GROUP: &str = "apps.rollplan.dev/";

/// The prefix of paths in errors of the reader.
pub(super) const TEXTS: &str = objects::FIELD;

/// The JSON documents of all sources.
#[derive(Debug)]
pub(in crate::cli) struct Texts<'s>(Vec<Document<'s>>);

/// All objects in these texts.
#[derive(Debug)]
pub(in crate::cli) struct Objects<'t> {
    pub(super) all: ObjectIndex<'t, Object<'t>>,
    /// The place of a list that is only one page of a longer list.
    pub(super) continued: Option<&'t str>,
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

/// The objects that are read together with an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cli) enum Dependents {
    ReplicaSetsAndPods,
    /// ControllerRevisions show which pods have the current template.
    RevisionsAndPods,
    /// No status depends on them. They are only displayed.
    JobsAndPods,
    Pods,
    None,
}

// === impl Texts ===

impl<'s> Texts<'s> {
    pub(in crate::cli) fn read(sources: &'s [Source]) -> Result<Self, Error> {
        let mut texts = Vec::new();
        for source in sources {
            texts.extend(flat_documents(source)?);
        }
        Ok(Self(texts))
    }

    /// The place and JSON of each text.
    pub(in crate::cli) fn documents(&self) -> impl Iterator<Item = (&str, &str)> {
        let documents = self.0.iter();
        documents.map(|document| (document.place.as_str(), &*document.json))
    }
}

// === impl Objects ===

impl<'t> Objects<'t> {
    pub(in crate::cli) fn find(texts: &'t Texts<'_>) -> Result<Self, Error> {
        let mut all = Vec::new();
        let mut diagnostics = Vec::new();
        let mut continued = None;
        for Document { place, json } in &texts.0 {
            let mut violations = wire::Violations::default();
            let texts = std::slice::from_ref(json);
            let objects = objects::Objects::find(TEXTS, texts, &mut violations, &Never);
            let objects = objects.map_err(|error| Error::input(place, chain(&error)))?;
            if objects.is_continued {
                continued = Some(place.as_str());
            }
            diagnostics.extend(violations.listed.into_iter().map(|violation| {
                let (place, field) = split(place, &violation.field);
                Diagnostic {
                    place,
                    field,
                    text: violation.description,
                }
            }));
            all.extend(objects.found.into_iter().map(|found| Object {
                document: place,
                found,
            }));
        }
        for object in &all {
            if object.found.kind.is_empty() {
                let text = "not a Kubernetes object: missing kind";
                diagnostics.push(Diagnostic {
                    place: object.position(),
                    field: String::new(),
                    text: text.to_owned(),
                });
            }
        }
        if !diagnostics.is_empty() {
            return Err(Error::Input(diagnostics));
        }
        let all = ObjectIndex::new(all, &Never);
        let all = all.map_err(|error| Error::input("", chain(&error)))?;
        Ok(Self { all, continued })
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
        match others.is_empty() {
            true => parts,
            false => others,
        }
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
    pub(super) fn role(&self) -> Role {
        match (&*self.found.api_version, &*self.found.kind) {
            ("apps/v1", "Deployment") => Role::Deployment,
            (version, "PlannedDeployment") if version.starts_with(PLANNED_GROUP) => {
                Role::Deployment
            }
            ("apps/v1", "ReplicaSet") => Role::ReplicaSet,
            ("v1", "Pod") => Role::Pod,
            ("v1", "Event") => Role::Event,
            _ => Role::Other,
        }
    }

    /// Its dependents in a cluster.
    pub(super) fn dependents(&self) -> Dependents {
        let Found {
            api_version, kind, ..
        } = &self.found;
        match (&**api_version, &**kind) {
            _ if self.role() == Role::Deployment || is_deployment(&self.found) => {
                Dependents::ReplicaSetsAndPods
            }
            ("apps/v1", "DaemonSet") => Dependents::RevisionsAndPods,
            ("batch/v1", "CronJob") => Dependents::JobsAndPods,
            ("apps/v1", "StatefulSet" | "ReplicaSet")
            | ("batch/v1", "Job")
            | ("v1", "ReplicationController") => Dependents::Pods,
            _ => Dependents::None,
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
        let origin = self.found.origin().to_string();
        split(self.document, &origin).0
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

/// Splits a path of the reader, for example `snapshot.objects[0].items[2].spec.replicas`, into the place of the
/// object and the field: `web.json, items[2]` and `spec.replicas`.
fn split(document: &str, field: &str) -> (String, String) {
    let path = field.strip_prefix(TEXTS).unwrap_or(field);
    let path = path.split_once(']').map_or("", |(_, path)| path);
    let (mut rest, mut end) = (path, 0);
    while let Some(item) = rest.strip_prefix(".items[") {
        let Some((_, after)) = item.split_once(']') else {
            break;
        };
        rest = after;
        end = path.len() - rest.len();
    }
    let items = path[..end].trim_start_matches('.');
    let separator = match items {
        "" => "",
        // An item of an array, for example `web.json, [3].items[2]`.
        _ if document.ends_with(']') => ".",
        _ => ", ",
    };
    (
        format!("{document}{separator}{items}"),
        rest.trim_start_matches('.').to_owned(),
    )
}
