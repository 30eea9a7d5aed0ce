//! The snapshot of a request.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt::Display;

use prost_types::Timestamp;
use rollplan_core::kind::Dependents;
use rollplan_wire as wire;
use rollplan_wire::objects::{FIELD, Found, Metadata};
use rollplan_wire::proto;
use serde_json::Value;

use super::answers::Answers;
use super::choice::{Wanted, choose, choose_manifest};
use super::complete::Complete;
use super::job_end::expiry;
use super::notes::{
    note_continued, note_doubts, note_early_time, note_late_time, note_odd_limits, note_skipped,
    refuse_manifest, several_manifests,
};
use super::object::{Object, Objects, Role, list};
use super::selection::Selection;
use super::source_map::SourceMap;
use crate::cli::error::Error;
use crate::cli::resource::Resource;
use crate::cli::target::{Target, is_name};

/// A request, with the sources of its objects.
#[derive(Debug)]
pub(in crate::cli) struct Request {
    /// The object, for example "Deployment shop/web".
    pub(in crate::cli) subject: String,
    /// The UID of the object.
    pub(in crate::cli) uid: String,
    /// The index of the object in its input.
    pub(in crate::cli) index: usize,
    /// The reason why the object is deleted once it has finished.
    pub(in crate::cli) expiry: Option<String>,
    /// Whether the answer depends on whether the kind has a status subresource: the object has no status.
    pub(in crate::cli) needs_discovery: bool,
    /// The whole object, if it is kept.
    pub(in crate::cli) object: Option<Value>,
    /// Whether a part of the files could not be read.
    pub(in crate::cli) is_partial: bool,
    /// The UIDs of all objects in the request.
    uids: BTreeSet<String>,
    /// The claims for which pods in the request wait.
    claims: BTreeSet<String>,
    pub(in crate::cli) snapshot: proto::Snapshot,
    pub(in crate::cli) source_map: SourceMap,
}

/// Creates a request about one of the objects. `note` receives notes about skipped objects and about values that are
/// probably wrong.
pub(in crate::cli) fn request(
    objects: &Objects<'_>,
    wanted: Option<&Wanted>,
    complete: Complete,
    now: Timestamp,
    answers: Answers,
    note: &mut dyn FnMut(&dyn Display),
) -> Result<Request, Error> {
    let is_skipped = |it: &&Object<'_>| it.role() == Role::Other && !it.is_storage();
    // No note is needed about the objects of a named owner of another kind.
    note_input(objects, wanted, note, |it| {
        is_skipped(it) && wanted.is_none_or(Wanted::is_deployment)
    })?;
    chosen(objects, wanted, complete, now, answers, note)
}

/// Creates a request about the revisions of one of the objects, with the names of the ConfigMaps and Secrets.
pub(in crate::cli) fn request_with_configurations(
    objects: &Objects<'_>,
    wanted: Option<&Wanted>,
    complete: Complete,
    now: Timestamp,
    note: &mut dyn FnMut(&dyn Display),
) -> Result<Request, Error> {
    note_input(objects, wanted, note, |it| {
        let is_used = it.is_storage() || it.is_configuration();
        it.role() == Role::Other && !is_used && wanted.is_none_or(Wanted::is_deployment)
    })?;
    let mut request = chosen(objects, wanted, complete, now, Answers::default(), note)?;
    request.add_configurations(objects);
    Ok(request)
}

/// Notes the objects in files that are skipped. Lists from a cluster must be complete.
fn note_input<'t>(
    objects: &Objects<'t>,
    wanted: Option<&Wanted>,
    note: &mut dyn FnMut(&dyn Display),
    is_skipped: impl Fn(&&Object<'t>) -> bool,
) -> Result<(), Error> {
    if wanted.is_some_and(Wanted::is_in_cluster) {
        return objects.check_complete();
    }
    note_continued(objects, note);
    note_skipped(objects.all.iter().filter(is_skipped), note);
    Ok(())
}

fn chosen(
    objects: &Objects<'_>,
    wanted: Option<&Wanted>,
    complete: Complete,
    now: Timestamp,
    answers: Answers,
    note: &mut dyn FnMut(&dyn Display),
) -> Result<Request, Error> {
    let is_from_cluster = wanted.is_some_and(Wanted::is_in_cluster);
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

/// Creates a request about each named object in files. No note is needed about the other objects.
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

/// Creates a request for the status of an object in files. The status depends on the time.
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

/// Creates a request about each object that has a status.
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
        return Err(Error::input(
            "",
            "the input contains no objects to report on",
        ));
    }
    let subjects = subjects.into_iter();
    let requests = subjects.map(|owner| status_about(objects, owner, complete, now, note));
    requests.collect()
}

/// The objects that can be waited for, to be read from a cluster.
pub(in crate::cli) fn targets(objects: &Objects<'_>) -> Result<Vec<Target>, Error> {
    objects.check_complete()?;
    let roots = objects.roots().into_iter();
    roots.map(|index| target_of(&objects.all[index])).collect()
}

/// All objects, to be read from a cluster.
pub(in crate::cli) fn listed(objects: &Objects<'_>) -> Result<Vec<Target>, Error> {
    objects.check_complete()?;
    objects.all.iter().map(target_of).collect()
}

fn target_of(object: &Object<'_>) -> Result<Target, Error> {
    let Object { found, .. } = object;
    let metadata = &found.metadata;
    if !is_name(&metadata.name) {
        let text = "metadata.name: must be a valid object name";
        return Err(Error::input(object.place(), text));
    }
    Ok(Target {
        resource: Resource::of(&found.api_version, &found.kind),
        name: metadata.name.clone().into_owned(),
        namespace: Some(metadata.namespace.clone().into_owned()).filter(|it| !it.is_empty()),
    })
}

/// The requested object of manifests, or their only Deployment: its JSON, and its name in a cluster.
pub(in crate::cli) fn manifest(
    objects: &Objects<'_>,
    wanted: Option<&Wanted>,
    note: &mut dyn FnMut(&dyn Display),
) -> Result<(String, Target), Error> {
    let (index, has_several) = choose_manifest(objects, wanted)?;
    let object = &objects.all[index];
    if has_several {
        note(&several_manifests(&object.label()));
    }
    let mut json = String::new();
    object.found.write_json(&mut json);
    Ok((json, target_of(object)?))
}

/// Creates a request about the object with this index.
fn about(
    objects: &Objects<'_>,
    owner: usize,
    is_from_cluster: bool,
    complete: Complete,
    now: Timestamp,
    answers: Answers,
    note: &mut dyn FnMut(&dyn Display),
) -> Result<Request, Error> {
    let index = owner;
    let selection = Selection::new(objects, index)?;
    let owner = selection.owner;
    if !is_from_cluster {
        refuse_manifest(owner)?;
    }
    let selected = &selection.selected;
    let listed = selection.listed();
    let is_deployment = owner.dependents() == Dependents::ReplicaSetsAndPods;
    let is_whole = objects.continued.is_none();
    let shows_every_pod = || {
        if is_deployment {
            is_whole && listed.shows_every_pod()
        } else {
            is_whole && listed.shows_own_pods()
        }
    };
    let snapshot = proto::Snapshot {
        now: Some(now),
        replica_sets_complete: complete
            .replica_sets
            .unwrap_or_else(|| is_whole && listed.shows_every_revision()),
        pods_complete: complete.pods.unwrap_or_else(shows_every_pod),
        objects: vec![list(selected.iter().copied())],
        target: Some(target(owner)),
        answers: answers.answers,
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
        uid: owner.found.metadata.uid.clone().into_owned(),
        index,
        expiry: expiry(owner),
        needs_discovery: owner.may_lack_status(),
        object: None,
        is_partial: objects.is_partial,
        uids: selection.uids.iter().map(|uid| (*uid).to_owned()).collect(),
        claims: selection.claims.clone(),
        snapshot,
        source_map: SourceMap {
            field: FIELD,
            texts: vec![selected.iter().map(|object| object.place()).collect()],
            answers: answers.places,
            manifest: None,
        },
    })
}

// === impl Request ===

impl Request {
    /// The kind of the object.
    pub(in crate::cli) fn kind(&self) -> &str {
        let target = self.snapshot.target.as_ref();
        target.map_or("", |target| &target.kind)
    }

    /// Whether an object is in the namespace of the object of the request.
    fn is_near(&self, object: &Object<'_>) -> bool {
        let target = self.snapshot.target.as_ref();
        target.is_some_and(|target| object.found.metadata.namespace == target.namespace)
    }

    /// Adds the names and keys of the ConfigMaps and Secrets of the namespace. Their values stay here.
    fn add_configurations(&mut self, objects: &Objects<'_>) {
        let near = objects.all.iter();
        let near: Vec<&Object<'_>> = near
            .filter(|object| object.is_configuration() && self.is_near(object))
            .collect();
        if near.is_empty() {
            return;
        }
        let items = near.iter().map(|object| object.without_values());
        let items: Vec<Value> = items.collect();
        let list = serde_json::json!({"kind": "List", "items": items});
        self.snapshot.objects.push(list.to_string());
        let places = near.iter().map(|object| object.place());
        self.source_map.texts.push(places.collect());
    }

    /// Adds the events about the objects of the request, and about the claims of its pods. Returns whether there are any.
    pub(in crate::cli) fn add_events(&mut self, objects: &Objects<'_>) -> bool {
        let events = objects.all.iter().filter(|object| {
            let Found {
                involved_uid,
                involved_claim,
                ..
            } = &object.found;
            let is_in = |name: &Option<Cow<'_, str>>, names: &BTreeSet<String>| {
                name.as_ref().is_some_and(|name| names.contains(&**name))
            };
            object.role() == Role::Event
                && (is_in(involved_uid, &self.uids)
                    || is_in(involved_claim, &self.claims) && self.is_near(object))
        });
        let events: Vec<_> = events.collect();
        if events.is_empty() {
            return false;
        }
        self.snapshot.objects.push(list(events.iter().copied()));
        let places = events.iter().map(|event| event.place());
        self.source_map.texts.push(places.collect());
        true
    }
}

/// Identifies an object in a request.
fn target(object: &Object<'_>) -> proto::Target {
    let Metadata {
        namespace, name, ..
    } = &object.found.metadata;
    proto::Target {
        api_version: object.found.api_version.clone().into_owned(),
        kind: object.found.kind.clone().into_owned(),
        namespace: namespace.clone().into_owned(),
        name: name.clone().into_owned(),
        resource: String::new(),
        status_subresource: None,
    }
}

/// The further objects to read from a cluster.
#[derive(Debug)]
pub(in crate::cli) struct Related {
    pub(in crate::cli) dependents: Dependents,
    /// The selector of the object in the text form of kubectl. `None` if it is empty, or invalid: the planner refuses
    /// it then.
    pub(in crate::cli) selector: Option<String>,
}

/// The further objects to read for one of the objects.
pub(in crate::cli) fn related(objects: &Objects<'_>, wanted: &Wanted) -> Result<Related, Error> {
    let owner = &objects.all[choose(objects, Some(wanted))?];
    let selector = owner.selector().map(|selector| selector.to_string());
    let selector = selector.and_then(|json| wire::parse_selector(&json));
    let selector = selector.filter(|selector| !selector.is_empty());
    Ok(Related {
        dependents: owner.dependents(),
        selector: selector.map(|selector| selector.to_string()),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::cli::input::object::Texts;
    use crate::cli::input::source::Source;

    fn source(items: &[Value]) -> Vec<Source> {
        let text = json!({"kind": "List", "items": items}).to_string();
        vec![Source::new("x", text.into_bytes()).unwrap()]
    }

    fn object(api_version: &str, kind: &str, name: &str) -> Value {
        let metadata = json!({"name": name, "namespace": "shop", "uid": name});
        json!({"apiVersion": api_version, "kind": kind, "metadata": metadata})
    }

    fn pod(name: &str, owner: &str) -> Value {
        let mut pod = object("v1", "Pod", name);
        pod["metadata"]["ownerReferences"] = json!([{"uid": owner, "controller": true}]);
        pod
    }

    /// An event about the object with this UID.
    fn event(name: &str, uid: &str) -> Value {
        let mut event = object("v1", "Event", name);
        event["involvedObject"] = json!({"uid": uid});
        event
    }

    /// A request about the only object of a kind.
    fn request_about(kind: &str, sources: &[Source]) -> Request {
        let texts = Texts::read(sources).unwrap();
        let objects = Objects::find(&texts).unwrap();
        let mut all = objects.all.iter();
        let owner = all.position(|object| object.found.kind == kind).unwrap();
        let (complete, now) = (Complete::default(), Timestamp::default());
        let answers = Answers::default();
        about(&objects, owner, false, complete, now, answers, &mut |_| {}).unwrap()
    }

    /// The names of the objects in each text of a request.
    fn names(request: &Request) -> Vec<Vec<String>> {
        let texts = request.snapshot.objects.iter();
        let names = texts.map(|text| {
            let list: Value = serde_json::from_str(text).unwrap();
            let items = list["items"].as_array().unwrap().iter();
            items
                .map(|item| item["metadata"]["name"].as_str().unwrap().to_owned())
                .collect()
        });
        names.collect()
    }

    /// A namespace may have thousands of other objects, and the size of a request is limited.
    #[test]
    fn requests_contain_only_objects_that_may_matter() {
        let sources = source(&[
            object("apps/v1", "Deployment", "web"),
            object("apps/v1", "StatefulSet", "db"),
            object("apps/v1", "ReplicaSet", "orphan"),
            pod("db-0", "db"),
            pod("debug", "nobody"),
            event("about-orphan", "orphan"),
            event("about-db-0", "db-0"),
            event("about-debug", "debug"),
        ]);
        // Only Deployments adopt ReplicaSets.
        let request = request_about("Deployment", &sources);
        assert_eq!(names(&request), [["web", "orphan", "about-orphan"]]);
        let request = request_about("StatefulSet", &sources);
        assert_eq!(names(&request), [["db", "db-0", "about-db-0"]]);
    }

    /// If there are any, the status is computed again.
    #[test]
    fn only_events_about_objects_of_the_request_are_added() {
        let own = source(&[object("apps/v1", "StatefulSet", "db"), pod("db-0", "db")]);
        let mut request = request_about("StatefulSet", &own);
        let mut add = |items: &[Value]| {
            let read = source(items);
            let texts = Texts::read(&read).unwrap();
            let is_added = request.add_events(&Objects::find(&texts).unwrap());
            (is_added, names(&request))
        };
        let others = [event("other", "debug"), pod("db-0", "db")];
        let own = vec!["db".to_owned(), "db-0".to_owned()];
        assert_eq!(add(&others), (false, vec![own.clone()]));
        let [other, pod] = others;
        let added = vec!["about-db-0".to_owned()];
        let events = [other, event("about-db-0", "db-0"), pod];
        assert_eq!(add(&events), (true, vec![own, added]));
    }
}
