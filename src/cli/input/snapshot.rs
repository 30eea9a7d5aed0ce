//! The snapshot that a request is about.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;

use prost::{Message, Name};
use prost_types::Timestamp;
use rollplan_core::selector::LabelSelector;
use serde_json::Value;

use super::answers::Answers;
use super::fault::json_text;
use super::object::{Object, Role, objects};
use super::selection::Selection;
use super::source::Source;
use super::source_map::SourceMap;
use crate::cli::error::{Diagnostic, Error};
use crate::proto;
use crate::wire;

/// A request, and where it comes from.
#[derive(Debug)]
pub(in crate::cli) struct Request {
    /// The Deployment, for example "Deployment shop/web".
    pub(in crate::cli) subject: String,
    pub(in crate::cli) snapshot: proto::Snapshot,
    pub(in crate::cli) source_map: SourceMap,
}

/// Which lists are complete, as far as somebody has stated it. Otherwise the input shows it.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::cli) struct Complete {
    pub(in crate::cli) replica_sets: Option<bool>,
    pub(in crate::cli) pods: Option<bool>,
}

/// Which Deployment is asked for.
#[derive(Debug)]
pub(in crate::cli) struct Wanted {
    namespace: Option<String>,
    name: String,
    /// Looked for in a namespace of a cluster, and not in files.
    in_cluster: bool,
}

/// Makes a request out of texts. `note` is told what is skipped and what looks wrong.
pub(in crate::cli) fn request(
    sources: &[Source],
    wanted: Option<&Wanted>,
    complete: Complete,
    now: Timestamp,
    answers: Answers,
    note: &mut dyn FnMut(&dyn Display),
) -> Result<Request, Error> {
    let objects = objects(sources)?;
    note_others(&objects, note);
    let chosen = choose(&objects, wanted)?;
    let deployment: proto::Deployment = message(&chosen.value, &chosen.place())?;
    let selector = selector_of(&deployment);
    let selection = Selection::new(&objects, chosen, selector.as_ref());
    let mut replica_sets: Vec<proto::ReplicaSet> = messages(&selection.replica_sets)?;
    let mut set_places = places(&selection.replica_sets);
    for (object, set) in selection.names_taken(chosen) {
        replica_sets.push(set);
        set_places.push(object.place());
    }
    let snapshot = proto::Snapshot {
        now: Some(now),
        replica_sets_complete: complete
            .replica_sets
            .unwrap_or_else(|| selection.shows_every_set(chosen)),
        pods_complete: complete.pods.unwrap_or_else(|| selection.shows_every_pod()),
        pods: messages(&selection.pods)?,
        deployment: Some(deployment),
        objects_json: Vec::new(),
        target: None,
        replica_sets,
        answers: answers.answers,
        events: events(&objects, &selection, chosen)?,
    };
    if wanted.is_none_or(|wanted| !wanted.in_cluster) {
        note_doubts(&snapshot, complete, note);
    }
    Ok(Request {
        subject: chosen.label(),
        snapshot,
        source_map: SourceMap {
            deployment: chosen.place(),
            replica_sets: set_places,
            pods: places(&selection.pods),
            answers: answers.places,
        },
    })
}

/// The events of a text.
pub(in crate::cli) fn events_of(source: Source) -> Result<Vec<proto::ObservedEvent>, Error> {
    let objects = objects(&[source])?;
    let events = objects.iter().filter(|object| object.role() == Role::Event);
    messages(&events.collect::<Vec<_>>())
}

/// The events about the objects that are selected.
fn events(
    objects: &[Object],
    selection: &Selection<'_>,
    deployment: &Object,
) -> Result<Vec<proto::ObservedEvent>, Error> {
    let uid = |object: &Object, pointer: &str| {
        let uid = object.value.pointer(pointer).and_then(Value::as_str);
        uid.unwrap_or_default().to_owned()
    };
    let selected = selection.replica_sets.iter().chain(&selection.pods);
    let selected = selected.copied().chain([deployment]);
    let about: BTreeSet<String> = selected
        .map(|object| uid(object, "/metadata/uid"))
        .collect();
    let events = objects.iter().filter(|object| {
        object.role() == Role::Event && about.contains(&uid(object, "/involvedObject/uid"))
    });
    messages(&events.collect::<Vec<_>>())
}

/// The selector of a Deployment, in the text form that kubectl takes. `None` if it selects nothing: an empty one, or one
/// that the planner is going to refuse.
pub(in crate::cli) fn selector(source: &Source, wanted: &Wanted) -> Result<Option<String>, Error> {
    let objects = objects(std::slice::from_ref(source))?;
    let chosen = choose(&objects, Some(wanted))?;
    let deployment: proto::Deployment = message(&chosen.value, &chosen.place())?;
    let selector = selector_of(&deployment).filter(|selector| !selector.is_empty());
    Ok(selector.map(|selector| selector.to_string()))
}

/// The selector, unless it is absent or invalid: then the planner refuses the Deployment.
fn selector_of(deployment: &proto::Deployment) -> Option<LabelSelector> {
    let selector = deployment.spec.as_ref()?.selector.clone()?;
    wire::parse_selector(selector).ok()
}

fn places(objects: &[&Object]) -> Vec<String> {
    objects.iter().map(|object| object.place()).collect()
}

/// Reads a message from a value of the input.
pub(super) fn message<M: Message + Name + Default>(value: &Value, place: &str) -> Result<M, Error> {
    wire::json::from_json(&value.to_string()).map_err(|error| match error {
        wire::Error::InvalidJson { path, source, .. } => Error::Input(vec![Diagnostic {
            place: place.to_owned(),
            field: if path == "." { String::new() } else { path },
            text: match json_text(&source).as_str() {
                // The words of std are about the type, not the field.
                "invalid digit found in string" => "must be a whole number".to_owned(),
                "out of range integral type conversion attempted" => "is out of range".to_owned(),
                text => text.to_owned(),
            },
        }]),
        error => Error::Bug(crate::cli::error::chain(&error)),
    })
}

/// All of them, or everything that is wrong with them.
fn messages<M: Message + Name + Default>(objects: &[&Object]) -> Result<Vec<M>, Error> {
    let mut messages = Vec::with_capacity(objects.len());
    let mut diagnostics = Vec::new();
    for object in objects {
        match message(&object.value, &object.place()) {
            Ok(message) => messages.push(message),
            Err(Error::Input(more)) => diagnostics.extend(more),
            Err(error) => return Err(error),
        }
    }
    if diagnostics.is_empty() {
        Ok(messages)
    } else {
        Err(Error::Input(diagnostics))
    }
}

fn note_others(objects: &[Object], note: &mut dyn FnMut(&dyn Display)) {
    let mut others: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for object in objects.iter().filter(|object| object.role() == Role::Other) {
        let kind = (object.kind.as_str(), object.api_version.as_str());
        *others.entry(kind).or_default() += 1;
    }
    if others.is_empty() {
        return;
    }
    let list: Vec<String> = others
        .iter()
        .map(|((kind, version), count)| format!("{count} {kind} ({version})"))
        .collect();
    note(&format_args!("skipped: {}", list.join(", ")));
}

/// Input that lacks something leads to no plan, or to one that waits indefinitely.
fn note_doubts(snapshot: &proto::Snapshot, complete: Complete, note: &mut dyn FnMut(&dyn Display)) {
    let deployment = snapshot.deployment.as_ref();
    if complete.replica_sets.is_none() && !snapshot.replica_sets_complete {
        note(
            &"the input may lack ReplicaSets, so that nothing can be planned or counted: get deploy,rs,pods with \
              kubectl, or pass --replica-sets-complete if these are all",
        );
        return;
    }
    let strategy = deployment
        .and_then(|deployment| deployment.spec.as_ref())
        .and_then(|spec| spec.strategy.as_ref());
    let recreate = strategy.is_some_and(|strategy| strategy.r#type == "Recreate");
    if recreate && complete.pods.is_none() && !snapshot.pods_complete {
        note(
            &"the input may lack pods, so that strategy Recreate cannot tell whether old ones are left, and \
              waits: get deploy,rs,pods with kubectl, or pass --pods-complete if these are all",
        );
    }
}

/// The Deployment that is asked for, or the only one.
fn choose<'a>(objects: &'a [Object], wanted: Option<&Wanted>) -> Result<&'a Object, Error> {
    let deployments = objects
        .iter()
        .filter(|object| object.role() == Role::Deployment);
    let deployments: Vec<&Object> = deployments.collect();
    let matching = deployments.iter().copied();
    let matching = matching.filter(|object| wanted.is_none_or(|wanted| wanted.matches(object)));
    let matching: Vec<&Object> = matching.collect();
    let list = |objects: &[&Object]| {
        let lines = objects
            .iter()
            .map(|object| format!("\n  {}", object.place()));
        lines.collect::<String>()
    };
    match (matching.as_slice(), wanted) {
        ([one], _) => Ok(one),
        ([], Some(wanted)) if wanted.in_cluster => Err(Error::Absent(absent(
            &wanted.name,
            wanted.namespace.as_deref(),
        ))),
        ([], _) if deployments.is_empty() => Err(Error::input("", "no Deployment in the input")),
        ([], Some(wanted)) => {
            let list = list(&deployments);
            Err(Error::input(
                "",
                format!("Deployment {wanted} not found in the input, which has:{list}"),
            ))
        }
        (several, None) => {
            let list = list(several);
            let text =
                format!("several Deployments in the input; choose one with --deployment:{list}");
            Err(Error::input("", text))
        }
        (several, Some(wanted)) => {
            let list = list(several);
            let text = format!("several Deployments {wanted} in the input:{list}");
            Err(Error::input("", text))
        }
    }
}

/// What to report of a Deployment that does not exist.
pub(in crate::cli) fn absent(name: &str, namespace: Option<&str>) -> String {
    match namespace {
        Some(namespace) => format!("Deployment {name} not found in namespace {namespace}"),
        None => format!("Deployment {name} not found in the namespace that kubectl uses"),
    }
}

// === impl Wanted ===

impl Wanted {
    /// Reads "[NAMESPACE/]NAME".
    pub(in crate::cli) fn parse(text: &str) -> Result<Self, Error> {
        let (namespace, name) = match text.split_once('/') {
            Some((namespace, name)) => (Some(namespace.to_owned()), name),
            None => (None, text),
        };
        if name.is_empty() || name.contains('/') || namespace.as_deref() == Some("") {
            let text = format!("--deployment {text}: must be [NAMESPACE/]NAME");
            return Err(Error::Usage(text));
        }
        Ok(Self {
            namespace,
            name: name.to_owned(),
            in_cluster: false,
        })
    }

    /// One of a cluster, in a namespace or in that which kubectl uses.
    pub(in crate::cli) fn in_cluster(name: &str, namespace: Option<&str>) -> Self {
        Self {
            namespace: namespace.map(str::to_owned),
            name: name.to_owned(),
            in_cluster: true,
        }
    }

    fn matches(&self, object: &Object) -> bool {
        let Self {
            namespace,
            name,
            in_cluster: _,
        } = self;
        object.name == *name
            && namespace
                .as_ref()
                .is_none_or(|wanted| object.namespace == *wanted)
    }
}

impl Display for Wanted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{namespace}/{}", self.name),
            None => f.write_str(&self.name),
        }
    }
}
