//! The snapshot that a request is about.

use std::collections::BTreeMap;
use std::fmt::Display;

use prost::{Message, Name};
use prost_types::Timestamp;
use serde_json::Value;

use super::document::json_fault;
use super::failures::Failures;
use super::object::{Object, Role, objects};
use super::places::Places;
use super::source::Source;
use crate::cli::error::{Complaint, Error};
use crate::proto;
use crate::wire;

/// What a request is about.
#[derive(Debug)]
pub(in crate::cli) struct Request {
    /// The Deployment, as "Deployment shop/web".
    pub(in crate::cli) subject: String,
    pub(in crate::cli) snapshot: proto::Snapshot,
    pub(in crate::cli) places: Places,
}

/// Which Deployment is asked for.
#[derive(Debug)]
pub(in crate::cli) struct Wanted {
    namespace: Option<String>,
    name: String,
    /// Looked for in a namespace of a cluster, and not in files.
    in_cluster: bool,
}

/// Makes a request out of texts. `note` is told what is left out and what looks wrong.
pub(in crate::cli) fn request(
    sources: &[Source],
    wanted: Option<&Wanted>,
    pods_complete: Option<bool>,
    now: Timestamp,
    failures: Failures,
    note: &mut dyn FnMut(&dyn Display),
) -> Result<Request, Error> {
    let objects = objects(sources)?;
    note_others(&objects, note);
    let deployment = choose(&objects, wanted)?;
    let beside = |role| {
        // Absent is the Deployment's.
        let near = |object: &&Object| {
            object.namespace == deployment.namespace || object.namespace.is_empty()
        };
        let all = objects.iter().filter(move |object| object.role() == role);
        all.filter(near).collect::<Vec<_>>()
    };
    let (sets, pods) = (beside(Role::ReplicaSet), beside(Role::Pod));
    let label = deployment.label();
    let deployment_place = deployment.place();
    let deployment: proto::Deployment = message(&deployment.value, &deployment_place)?;
    let replica_sets: Vec<proto::ReplicaSet> = messages(&sets)?;
    let mut snapshot = proto::Snapshot {
        now: Some(now),
        pods_complete: false,
        pods: messages(&pods)?,
        deployment: Some(deployment),
        replica_sets,
        failures: failures.failures,
    };
    snapshot.pods_complete = pods_complete.unwrap_or_else(|| shows_every_pod(&snapshot));
    note_doubts(&snapshot, pods_complete.is_some(), note);
    let places = |objects: &[&Object]| objects.iter().map(|object| object.place()).collect();
    Ok(Request {
        subject: label,
        snapshot,
        places: Places {
            deployment: deployment_place,
            replica_sets: places(&sets),
            pods: places(&pods),
            failures: failures.places,
        },
    })
}

/// Reads a message from a value of the input.
pub(super) fn message<M: Message + Name + Default>(value: &Value, place: &str) -> Result<M, Error> {
    wire::json::from_json(&value.to_string()).map_err(|error| match error {
        wire::Error::InvalidJson { path, source, .. } => Error::Input(vec![Complaint {
            place: place.to_owned(),
            field: if path == "." { String::new() } else { path },
            // Its line and column are those of a text that nobody has seen.
            text: match json_fault(&source).as_str() {
                // What std says of numbers that do not fit does not say much.
                "invalid digit found in string" => "is no whole number".to_owned(),
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
    let mut complaints = Vec::new();
    for object in objects {
        match message(&object.value, &object.place()) {
            Ok(message) => messages.push(message),
            Err(Error::Input(more)) => complaints.extend(more),
            Err(error) => return Err(error),
        }
    }
    if complaints.is_empty() {
        Ok(messages)
    } else {
        Err(Error::Input(complaints))
    }
}

/// Whether the input looks as if no pod were missing: with strategy Recreate, new pods start once no old one is
/// listed. kubectl prints one List of all that it was asked for, in which nothing tells pods that do not exist
/// from pods that nobody asked for. But ReplicaSets count their pods.
///
/// A list of pods stands, unless a ReplicaSet of the Deployment counts more than are listed. An empty one only
/// stands if every ReplicaSet around says, and of its latest size, that it has no pod, not even a terminating
/// one; before Kubernetes 1.35 they do not count these.
fn shows_every_pod(snapshot: &proto::Snapshot) -> bool {
    let mut listed: BTreeMap<&str, i64> = BTreeMap::new();
    for uid in snapshot
        .pods
        .iter()
        .filter_map(|pod| controller(pod.metadata.as_ref()))
    {
        *listed.entry(uid).or_default() += 1;
    }
    let owner = snapshot
        .deployment
        .as_ref()
        .and_then(|deployment| deployment.metadata.as_ref());
    let owner = owner.map(|metadata| metadata.uid.as_str());
    let none_listed = snapshot.pods.is_empty();
    let fits = |set: &proto::ReplicaSet| {
        let (Some(metadata), Some(status)) = (&set.metadata, &set.status) else {
            return !none_listed;
        };
        if !none_listed && controller(Some(metadata)) != owner {
            return true;
        }
        let terminating = status.terminating_replicas;
        let counted = i64::from(status.replicas) + i64::from(terminating.unwrap_or(0));
        let current = terminating.is_some() && status.observed_generation >= metadata.generation;
        let listed = listed.get(metadata.uid.as_str()).copied().unwrap_or(0);
        counted <= listed && (current || !none_listed)
    };
    snapshot.replica_sets.iter().all(fits)
}

/// Uid of the owner that manages an object.
fn controller(metadata: Option<&proto::ObjectMeta>) -> Option<&str> {
    let mut owners = metadata?.owner_references.iter();
    owners
        .find(|owner| owner.controller())
        .map(|owner| owner.uid.as_str())
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
    note(&format_args!("left out: {}", list.join(", ")));
}

/// Input that may be only part of what there is leads to a plan that waits for ever, or worse, that creates
/// what exists.
fn note_doubts(snapshot: &proto::Snapshot, pods_stated: bool, note: &mut dyn FnMut(&dyn Display)) {
    let deployment = snapshot.deployment.as_ref();
    let status = deployment.and_then(|deployment| deployment.status.as_ref());
    if snapshot.replica_sets.is_empty() && status.is_some_and(|status| status.replicas > 0) {
        note(
            &"the Deployment has pods, but the input has no ReplicaSet: ask kubectl for deploy,rs,pods, or the \
              plan will create what is there already",
        );
    }
    let strategy = deployment
        .and_then(|deployment| deployment.spec.as_ref())
        .and_then(|spec| spec.strategy.as_ref());
    let recreate = strategy.is_some_and(|strategy| strategy.r#type == "Recreate");
    if recreate && !pods_stated && !snapshot.pods_complete {
        note(
            &"the input may lack pods, so that strategy Recreate cannot tell whether old ones are left, and \
              waits: ask kubectl for deploy,rs,pods; if that was all, say --pods-complete",
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
        ([], Some(wanted)) if wanted.in_cluster => {
            let place = match &wanted.namespace {
                Some(namespace) => format!("namespace {namespace}"),
                None => "the namespace that kubectl uses".to_owned(),
            };
            let name = &wanted.name;
            Err(Error::Absent(format!(
                "there is no Deployment {name} in {place}"
            )))
        }
        ([], _) if deployments.is_empty() => {
            Err(Error::input("", "there is no Deployment in the input"))
        }
        ([], Some(wanted)) => {
            let list = list(&deployments);
            Err(Error::input(
                "",
                format!("there is no Deployment {wanted} in the input, but:{list}"),
            ))
        }
        (several, None) => {
            let list = list(several);
            let text = format!(
                "there are several Deployments in the input; choose one with --deployment:{list}"
            );
            Err(Error::input("", text))
        }
        (several, Some(wanted)) => {
            let list = list(several);
            let text = format!("there are several Deployments {wanted} in the input:{list}");
            Err(Error::input("", text))
        }
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
            let text = format!("--deployment {text}: give [NAMESPACE/]NAME");
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
