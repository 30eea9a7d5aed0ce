//! The snapshot that a request is about.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;

use prost_types::Timestamp;
use serde_json::Value;

use super::answers::Answers;
use super::object::{Object, Objects, Role, list};
use super::selection::Selection;
use super::source_map::SourceMap;
use crate::cli::error::Error;
use crate::cli::target::{Target, resource_of};
use crate::proto;
use crate::wire;
use crate::wire::objects::Metadata;

/// How much the clocks of the cluster and of the caller may differ.
const CLOCKS_DIFFER_SECONDS: i64 = 300;

/// A request, and where it comes from.
#[derive(Debug)]
pub(in crate::cli) struct Request {
    /// The Deployment, for example "Deployment shop/web".
    pub(in crate::cli) subject: String,
    /// UID of the Deployment.
    pub(in crate::cli) uid: String,
    /// UIDs of all objects in it.
    uids: BTreeSet<String>,
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

/// Makes a request about one of the objects. `note` is told what is skipped and what looks wrong.
pub(in crate::cli) fn request(
    objects: &Objects<'_>,
    wanted: Option<&Wanted>,
    complete: Complete,
    now: Timestamp,
    answers: Answers,
    note: &mut dyn FnMut(&dyn Display),
) -> Result<Request, Error> {
    let is_from_cluster = wanted.is_some_and(|wanted| wanted.in_cluster);
    if !is_from_cluster {
        note_others(objects, note);
    }
    let owner = choose(objects, wanted)?;
    about(
        objects,
        owner,
        is_from_cluster,
        complete,
        now,
        answers,
        note,
    )
}

/// Makes a request about each Deployment among the objects.
pub(in crate::cli) fn requests(
    objects: &Objects<'_>,
    complete: Complete,
    now: Timestamp,
    note: &mut dyn FnMut(&dyn Display),
) -> Result<Vec<Request>, Error> {
    note_others(objects, note);
    let deployments = deployments(objects);
    if deployments.is_empty() {
        return Err(Error::input("", "no Deployment in the input"));
    }
    let requests = deployments.into_iter().map(|owner| {
        about(
            objects,
            owner,
            false,
            complete,
            now,
            Answers::default(),
            note,
        )
    });
    requests.collect()
}

/// The Deployments among the objects, to be looked up in a cluster.
pub(in crate::cli) fn targets(objects: &Objects<'_>) -> Vec<Target> {
    let deployments = deployments(objects).into_iter();
    let targets = deployments.filter_map(|index| {
        let Object {
            found, metadata, ..
        } = &objects.all[index];
        Some(Target {
            resource: resource_of(&found.api_version, &found.kind)?,
            name: metadata.name.clone().into_owned(),
            namespace: Some(metadata.namespace.clone().into_owned()).filter(|it| !it.is_empty()),
        })
    });
    targets.collect()
}

/// Makes a request about the object with this index.
fn about(
    objects: &Objects<'_>,
    owner: usize,
    is_from_cluster: bool,
    complete: Complete,
    now: Timestamp,
    answers: Answers,
    note: &mut dyn FnMut(&dyn Display),
) -> Result<Request, Error> {
    let selection = Selection::new(objects, owner);
    let owner = selection.owner;
    if !is_from_cluster {
        refuse_manifest(owner)?;
    }
    let selected: Vec<&Object<'_>> = selection.selected().collect();
    let listed = selection.listed();
    let snapshot = proto::Snapshot {
        now: Some(now),
        replica_sets_complete: complete
            .replica_sets
            .unwrap_or_else(|| listed.shows_every_replica_set()),
        pods_complete: complete.pods.unwrap_or_else(|| listed.shows_every_pod()),
        objects_json: vec![list(selected.iter().copied())],
        target: Some(target(owner)),
        answers: answers.answers,
        ..proto::Snapshot::default()
    };
    if !is_from_cluster {
        note_doubts(owner, &snapshot, complete, note);
        note_early_time(owner, now, note);
    }
    note_odd_limits(owner, note);
    Ok(Request {
        subject: owner.label(),
        uid: owner.metadata.uid.clone().into_owned(),
        uids: selection.uids().into_iter().map(str::to_owned).collect(),
        snapshot,
        source_map: SourceMap {
            texts: vec![selected.iter().map(|object| object.place()).collect()],
            answers: answers.places,
        },
    })
}

// === impl Request ===

impl Request {
    /// Adds the events about the objects that are in it. Returns whether there are any.
    pub(in crate::cli) fn add_events(&mut self, objects: &Objects<'_>) -> bool {
        let events = objects.all.iter().filter(|object| {
            let uid = object.found.involved_uid();
            object.role() == Role::Event && uid.is_some_and(|uid| self.uids.contains(&*uid))
        });
        let events: Vec<_> = events.collect();
        if events.is_empty() {
            return false;
        }
        self.snapshot
            .objects_json
            .push(list(events.iter().copied()));
        let places = events.iter().map(|event| event.place());
        self.source_map.texts.push(places.collect());
        true
    }
}

/// What names an object among others.
fn target(object: &Object<'_>) -> proto::Target {
    let Metadata {
        namespace, name, ..
    } = &object.metadata;
    proto::Target {
        api_version: object.found.api_version.clone().into_owned(),
        kind: object.found.kind.clone().into_owned(),
        namespace: namespace.clone().into_owned(),
        name: name.clone().into_owned(),
        resource: String::new(),
    }
}

/// The selector of an object, in the text form that kubectl takes. `None` if it selects nothing: an empty one, or one that
/// the planner is going to refuse.
pub(in crate::cli) fn selector(
    objects: &Objects<'_>,
    wanted: &Wanted,
) -> Result<Option<String>, Error> {
    let owner = &objects.all[choose(objects, Some(wanted))?];
    let selector = owner.value("spec").get("selector").map(Value::to_string);
    let selector = selector.and_then(|json| wire::json::from_json(&json).ok());
    let selector = selector.and_then(|selector| wire::parse_selector(selector).ok());
    let selector = selector.filter(|selector| !selector.is_empty());
    Ok(selector.map(|selector| selector.to_string()))
}

/// A manifest describes what is wanted, and has nothing of what the cluster made of it.
fn refuse_manifest(owner: &Object<'_>) -> Result<(), Error> {
    let metadata = owner.value("metadata");
    let is_manifest = ["uid", "resourceVersion", "creationTimestamp"]
        .iter()
        .all(|field| metadata.get(field).is_none_or(Value::is_null))
        && owner.found.field("status").is_none()
        && owner.found.field("spec").is_some();
    if !is_manifest {
        return Ok(());
    }
    let namespace = match &*owner.metadata.namespace {
        "" => String::new(),
        namespace => format!(" -n {namespace}"),
    };
    let name = &owner.metadata.name;
    let text = format!(
        "this is a manifest; pass the live object: kubectl get deploy,rs,pods{namespace} -o json | rollplan status -f - \
         --deployment {name}, or let rollplan read it: rollplan status {name}{namespace}"
    );
    Err(Error::input(owner.place(), text))
}

fn note_others(objects: &Objects<'_>, note: &mut dyn FnMut(&dyn Display)) {
    let mut others: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for object in objects.all.iter().filter(|it| it.role() == Role::Other) {
        let kind = (&*object.found.kind, &*object.found.api_version);
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
fn note_doubts(
    owner: &Object<'_>,
    snapshot: &proto::Snapshot,
    complete: Complete,
    note: &mut dyn FnMut(&dyn Display),
) {
    if complete.replica_sets.is_none() && !snapshot.replica_sets_complete {
        note(
            &"the input may lack ReplicaSets, so that nothing can be planned or counted: get deploy,rs,pods with \
              kubectl, or pass --replica-sets-complete if these are all",
        );
        return;
    }
    let spec = owner.value("spec");
    let recreate = spec.pointer("/strategy/type").and_then(Value::as_str) == Some("Recreate");
    if recreate && complete.pods.is_none() && !snapshot.pods_complete {
        note(
            &"the input may lack pods, so that strategy Recreate cannot tell whether old ones are left, and \
              waits: get deploy,rs,pods with kubectl, or pass --pods-complete if these are all",
        );
    }
}

/// A time of the decision that is before what has happened makes everything look new.
fn note_early_time(owner: &Object<'_>, now: Timestamp, note: &mut dyn FnMut(&dyn Display)) {
    let (metadata, status) = (owner.value("metadata"), owner.value("status"));
    let conditions = status.get("conditions").and_then(Value::as_array);
    let times = conditions
        .into_iter()
        .flatten()
        .filter_map(|condition| condition.get("lastUpdateTime"))
        .chain(metadata.get("creationTimestamp"));
    let times = times.filter_map(|time| time.as_str()?.parse::<Timestamp>().ok());
    let last = times.max_by_key(|time| time.seconds);
    if let Some(last) = last.filter(|last| last.seconds > now.seconds + CLOCKS_DIFFER_SECONDS) {
        note(&format_args!(
            "{}: the time of the decision, {now}, is before its last change, {last}: pass --now with the time of the snapshot",
            owner.label()
        ));
    }
}

/// Limits that no rollout can keep.
fn note_odd_limits(owner: &Object<'_>, note: &mut dyn FnMut(&dyn Display)) {
    let spec = owner.value("spec");
    let number = |field: &str| spec.get(field).and_then(Value::as_i64);
    if let Some(deadline) = number("progressDeadlineSeconds")
        && let Some(ready) = number("minReadySeconds").filter(|ready| *ready >= deadline)
    {
        note(&format_args!(
            "{}: progressDeadlineSeconds {deadline} is not more than minReadySeconds {ready}, so that every rollout \
             exceeds its deadline",
            owner.label()
        ));
    }
    let limit = |field: &str| {
        let limit = spec.pointer(&format!("/strategy/rollingUpdate/{field}"));
        limit.is_some_and(|it| *it == 0 || *it == "0%")
    };
    if limit("maxSurge") && limit("maxUnavailable") {
        note(&format_args!(
            "{}: maxSurge and maxUnavailable are both 0, and no pod could be replaced: the controller takes maxUnavailable \
             as 1",
            owner.label()
        ));
    }
}

/// The index of the Deployment that is asked for, or of the only one.
fn choose(objects: &Objects<'_>, wanted: Option<&Wanted>) -> Result<usize, Error> {
    let deployments = deployments(objects);
    let matching = deployments.iter().copied();
    let matching: Vec<usize> = matching
        .filter(|&index| wanted.is_none_or(|wanted| wanted.matches(&objects.all[index])))
        .collect();
    let list = |indices: &[usize]| {
        let lines = indices
            .iter()
            .map(|&index| format!("\n  {}", objects.all[index].place()));
        lines.collect::<String>()
    };
    match (matching.as_slice(), wanted) {
        (&[one], _) => Ok(one),
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

fn deployments(objects: &Objects<'_>) -> Vec<usize> {
    let all = objects.all.iter().enumerate();
    all.filter(|(_, object)| object.role() == Role::Deployment)
        .map(|(index, _)| index)
        .collect()
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

    fn matches(&self, object: &Object<'_>) -> bool {
        let Self {
            namespace,
            name,
            in_cluster: _,
        } = self;
        object.metadata.name == *name
            && namespace
                .as_ref()
                .is_none_or(|wanted| object.metadata.namespace == *wanted)
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
