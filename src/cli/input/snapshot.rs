//! The snapshot that a request is about.

use std::collections::BTreeSet;
use std::fmt::Display;

use prost_types::Timestamp;
use serde_json::Value;

use super::answers::Answers;
use super::choice::{Wanted, choose};
use super::complete::Complete;
use super::job_end::expiry;
use super::notes::{
    note_continued, note_doubts, note_early_time, note_late_time, note_odd_limits, note_skipped,
    refuse_manifest,
};
use super::object::{Dependents, Object, Objects, Role, list};
use super::selection::Selection;
use super::source_map::SourceMap;
use crate::cli::error::Error;
use crate::cli::resource::Resource;
use crate::cli::target::{Target, is_name};
use crate::proto;
use crate::wire;
use crate::wire::objects::Metadata;

/// A request, and where it comes from.
#[derive(Debug)]
pub(in crate::cli) struct Request {
    /// The object, for example "Deployment shop/web".
    pub(in crate::cli) subject: String,
    /// UID of the object.
    pub(in crate::cli) uid: String,
    /// Why somebody deletes the object once it has finished.
    pub(in crate::cli) expiry: Option<String>,
    /// UIDs of all objects in it.
    uids: BTreeSet<String>,
    pub(in crate::cli) snapshot: proto::Snapshot,
    pub(in crate::cli) source_map: SourceMap,
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
    let is_from_cluster = wanted.is_some_and(Wanted::is_in_cluster);
    if is_from_cluster {
        objects.check_whole()?;
    } else {
        note_continued(objects, note);
        note_skipped(
            objects.all.iter().filter(|it| it.role() == Role::Other),
            note,
        );
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

/// Makes a request about each of these objects in files. Nothing is skipped: somebody has named them.
pub(in crate::cli) fn named(
    objects: &Objects<'_>,
    wanted: &[Wanted],
    complete: Complete,
    now: Timestamp,
    note: &mut dyn FnMut(&dyn Display),
) -> Result<Vec<Request>, Error> {
    note_continued(objects, note);
    let requests = wanted.iter().map(|wanted| {
        let owner = choose(objects, Some(wanted))?;
        status_about(objects, owner, complete, now, note)
    });
    requests.collect()
}

/// Makes a request about an object in files. What becomes of it depends on the time.
fn status_about(
    objects: &Objects<'_>,
    owner: usize,
    complete: Complete,
    now: Timestamp,
    note: &mut dyn FnMut(&dyn Display),
) -> Result<Request, Error> {
    let answers = Answers::default();
    let request = about(objects, owner, false, complete, now, answers, note)?;
    note_late_time(&objects.all[owner], now, note);
    Ok(request)
}

/// Makes a request about each object that a status can be asked for.
pub(in crate::cli) fn requests(
    objects: &Objects<'_>,
    complete: Complete,
    now: Timestamp,
    note: &mut dyn FnMut(&dyn Display),
) -> Result<Vec<Request>, Error> {
    note_continued(objects, note);
    let skipped = objects.all.iter();
    note_skipped(
        skipped.filter(|it| it.role() == Role::Other && it.is_inert() && !it.is_revision()),
        note,
    );
    let subjects = objects.subjects();
    if subjects.is_empty() {
        return Err(Error::input("", "the input has nothing to report on"));
    }
    let subjects = subjects.into_iter();
    let requests = subjects.map(|owner| status_about(objects, owner, complete, now, note));
    requests.collect()
}

/// The objects that somebody may wait for, to be looked up in a cluster.
pub(in crate::cli) fn targets(objects: &Objects<'_>) -> Result<Vec<Target>, Error> {
    objects.check_whole()?;
    let roots = objects.roots().into_iter();
    roots.map(|index| target_of(&objects.all[index])).collect()
}

/// All objects, to be looked up in a cluster.
pub(in crate::cli) fn listed(objects: &Objects<'_>) -> Result<Vec<Target>, Error> {
    objects.check_whole()?;
    objects.all.iter().map(target_of).collect()
}

fn target_of(object: &Object<'_>) -> Result<Target, Error> {
    let Object {
        found, metadata, ..
    } = object;
    if !is_name(&metadata.name) {
        let text =
            "metadata.name: must be a name by which the object can be looked up in a cluster";
        return Err(Error::input(object.place(), text));
    }
    Ok(Target {
        resource: Resource::of(&found.api_version, &found.kind),
        name: metadata.name.clone().into_owned(),
        namespace: Some(metadata.namespace.clone().into_owned()).filter(|it| !it.is_empty()),
    })
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
    let is_deployment = owner.dependents() == Dependents::ReplicaSetsAndPods;
    let is_whole = objects.continued.is_none();
    let shows_every_pod = || match is_deployment {
        true => is_whole && listed.shows_every_pod(),
        false => is_whole && listed.shows_own_pods(),
    };
    let snapshot = proto::Snapshot {
        now: Some(now),
        replica_sets_complete: complete
            .replica_sets
            .unwrap_or_else(|| is_whole && listed.shows_every_replica_set()),
        pods_complete: complete.pods.unwrap_or_else(shows_every_pod),
        objects_json: vec![list(selected.iter().copied())],
        target: Some(target(owner)),
        answers: answers.answers,
        ..proto::Snapshot::default()
    };
    if !is_from_cluster {
        if is_deployment {
            note_doubts(owner, &snapshot, complete, note);
        }
        note_early_time(owner, now, note);
    }
    if is_deployment {
        note_odd_limits(owner, note);
    }
    Ok(Request {
        subject: owner.label(),
        uid: owner.metadata.uid.clone().into_owned(),
        expiry: expiry(owner),
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
    /// Kind of the object.
    pub(in crate::cli) fn kind(&self) -> &str {
        let target = self.snapshot.target.as_ref();
        target.map_or("", |target| &target.kind)
    }

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

/// What is to be read of a cluster besides an object.
#[derive(Debug)]
pub(in crate::cli) struct Related {
    pub(in crate::cli) dependents: Dependents,
    /// The selector of the object, in the text form that kubectl takes. `None` if it selects nothing: an empty one, or one
    /// that the planner is going to refuse.
    pub(in crate::cli) selector: Option<String>,
}

/// What is to be read of a cluster besides one of the objects.
pub(in crate::cli) fn related(objects: &Objects<'_>, wanted: &Wanted) -> Result<Related, Error> {
    let owner = &objects.all[choose(objects, Some(wanted))?];
    let selector = owner.value("spec").get("selector").map(Value::to_string);
    let selector = selector.and_then(|json| wire::json::from_json(&json).ok());
    let selector = selector.and_then(|selector| wire::parse_selector(selector).ok());
    let selector = selector.filter(|selector| !selector.is_empty());
    Ok(Related {
        dependents: owner.dependents(),
        selector: selector.map(|selector| selector.to_string()),
    })
}
