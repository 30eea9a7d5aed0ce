//! Notes on the input: skipped objects, objects that may be missing, and values that are probably wrong.

use std::collections::BTreeMap;
use std::fmt::Display;

use prost_types::Timestamp;
use rollplan_core::kind::Dependents;
use rollplan_core::status::NEW_SET_AVAILABLE;
use rollplan_wire::proto;
use serde_json::Value;

use super::complete::Complete;
use super::object::{Object, Objects};
use crate::cli::error::Error;
use crate::cli::program;
use crate::cli::resource::Resource;

/// The tolerated difference between the clocks of the cluster and the caller.
const CLOCKS_DIFFER_SECONDS: i64 = 300;

/// Refuses a manifest: it lacks everything that the cluster adds to the live object.
pub(super) fn refuse_manifest(owner: &Object<'_>) -> Result<(), Error> {
    let metadata = owner.value("metadata");
    let is_manifest = ["uid", "resourceVersion", "creationTimestamp"]
        .iter()
        .all(|field| metadata.get(field).is_none_or(Value::is_null))
        && owner.value("status").is_null()
        && !owner.value("spec").is_null();
    if !is_manifest {
        return Ok(());
    }
    let namespace = match &*owner.found.metadata.namespace {
        "" => String::new(),
        namespace => format!(" -n {namespace}"),
    };
    let name = &owner.found.metadata.name;
    let resource = Resource::of(&owner.found.api_version, &owner.found.kind);
    let argument = resource.argument();
    let others = match owner.dependents() {
        Dependents::ReplicaSetsAndPods => ",rs,pods",
        Dependents::RevisionsAndPods => ",controllerrevisions,pods",
        Dependents::JobsAndPods => ",jobs,pods",
        Dependents::Pods => ",pods",
        Dependents::None => "",
    };
    let word = if resource == Resource::deployments() {
        name.to_string()
    } else {
        format!("{argument}/{name}")
    };
    let text = format!(
        "this is a manifest; pass the live object: kubectl get {argument}{others}{namespace} -o json | {program} status {word} -f -, or \
         let rollplan read it: {program} status {word}{namespace}",
        program = program::command()
    );
    Err(Error::input(owner.place(), text))
}

/// Of several manifests of one object, kubectl applies all, so the last one counts.
pub(in crate::cli) fn several_manifests(object: &str) -> String {
    format!("several manifests of {object}: the last one counts, as for kubectl apply")
}

/// Notes a list that is only one page of a longer list.
pub(super) fn note_continued(objects: &Objects<'_>, note: &mut dyn FnMut(&dyn Display)) {
    if let Some(place) = objects.continued {
        note(&format_args!(
            "{place}: metadata.continue is set: objects are missing from the list"
        ));
    }
}

/// Notes the skipped objects, by kind.
pub(super) fn note_skipped<'o, 't: 'o>(
    skipped: impl Iterator<Item = &'o Object<'t>>,
    note: &mut dyn FnMut(&dyn Display),
) {
    let mut others: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for object in skipped {
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

/// Notes incomplete input that leads to no plan, or to one that waits indefinitely.
pub(super) fn note_doubts(
    owner: &Object<'_>,
    snapshot: &proto::Snapshot,
    complete: Complete,
    note: &mut dyn FnMut(&dyn Display),
) {
    if complete.replica_sets.is_none() && !snapshot.replica_sets_complete {
        note(
            &"some ReplicaSets may be missing from the input, so nothing can be planned or counted: pass the output of \
              kubectl get deploy,rs,pods, or --replica-sets-complete if none are missing",
        );
        return;
    }
    let spec = owner.value("spec");
    let recreate = spec.pointer("/strategy/type").and_then(Value::as_str) == Some("Recreate");
    if recreate && complete.pods.is_none() && !snapshot.pods_complete {
        note(
            &"some pods may be missing from the input, and strategy Recreate waits until no old pods are left: pass the \
              output of kubectl get deploy,rs,pods, or --pods-complete if none are missing",
        );
    }
}

/// Notes a time of the decision before the last change of the object, which makes every change look recent.
pub(super) fn note_early_time(
    owner: &Object<'_>,
    now: Timestamp,
    note: &mut dyn FnMut(&dyn Display),
) {
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
        let now = in_seconds(now);
        note(&format_args!(
            "{}: the time of the decision, {now}, is before its last change, {last}: pass --now with the time of the snapshot",
            owner.label()
        ));
    }
}

/// Notes a time of the decision long after the objects were read, which makes every change look old. This is detected
/// only while a rollout is in progress: its controller would have reported that the deadline has passed.
pub(super) fn note_late_time(
    owner: &Object<'_>,
    now: Timestamp,
    note: &mut dyn FnMut(&dyn Display),
) {
    let (spec, status) = (owner.value("spec"), owner.value("status"));
    let conditions = status.get("conditions").and_then(Value::as_array);
    let mut conditions = conditions.into_iter().flatten();
    let progressing = conditions.find(|condition| condition["type"] == "Progressing");
    let is_in_progress = |condition: &&Value| {
        condition["status"] == "True" && condition["reason"] != NEW_SET_AVAILABLE
    };
    let is_paused = spec.get("paused") == Some(&Value::Bool(true));
    let Some(progressing) = progressing.filter(is_in_progress).filter(|_| !is_paused) else {
        return;
    };
    let last = progressing["lastUpdateTime"].as_str();
    let last = last.and_then(|time| time.parse::<Timestamp>().ok());
    let seconds = spec.get("progressDeadlineSeconds").and_then(Value::as_i64);
    let Some((last, seconds)) = last.zip(seconds) else {
        return;
    };
    let latest = last.seconds.saturating_add(seconds.max(0));
    if now.seconds > latest.saturating_add(CLOCKS_DIFFER_SECONDS) {
        let now = in_seconds(now);
        note(&format_args!(
            "{}: the time of the decision, {now}, is long after its last progress, {last}, and it does not report that its \
             deadline has passed: pass --now with the time of the snapshot",
            owner.label()
        ));
    }
}

/// A time in whole seconds, as Kubernetes prints times. That of the clock has nanoseconds.
fn in_seconds(time: Timestamp) -> Timestamp {
    Timestamp { nanos: 0, ..time }
}

/// Notes limits that no rollout can satisfy.
pub(super) fn note_odd_limits(owner: &Object<'_>, note: &mut dyn FnMut(&dyn Display)) {
    let spec = owner.value("spec");
    let number = |field: &str| spec.get(field).and_then(Value::as_i64);
    if let Some(deadline) = number("progressDeadlineSeconds")
        && let Some(ready) = number("minReadySeconds").filter(|ready| *ready >= deadline)
    {
        note(&format_args!(
            "{}: progressDeadlineSeconds {deadline} is not greater than minReadySeconds {ready}, so every rollout \
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
            "{}: maxSurge and maxUnavailable are both 0, so no pod could be replaced: the controller uses 1 for \
             maxUnavailable",
            owner.label()
        ));
    }
}
