//! Objects of kinds other than Deployment, with their pods and events.

mod field;
mod generic;
mod history;
mod views;

use std::collections::HashSet;

use rollplan_core::interrupt::Interrupt;
use rollplan_core::kind::group;
use rollplan_core::snapshot::{ObjectMeta, OwnerReference, StringMap, Surroundings};
use rollplan_core::template::Value;
use rollplan_core::time::Time;
use rollplan_health::kinds::{Observed, REVISION_LABEL, View, table};

pub(super) use self::history::read_history;

use self::field::{Faults, Field};
use self::views::{Known, conditions, template};
use super::error::{Error, Reason};
use super::limits::{EVENTS_MAX, PODS_MAX, limit};
use super::objects::{ContentReader, Found, ObjectIndex};
use super::parse::{Parser, Path};
use super::read::{kubernetes, objects};
use super::surroundings;
use crate::proto;

/// The UID of a single pod without one, as in a manifest.
const UNKNOWN: &str = "unknown";
/// Labels and annotations that reports read.
const LABELS: [&str; 2] = ["kueue.x-k8s.io/queue-name", REVISION_LABEL];
const ANNOTATIONS: [&str; 2] = [
    "deprecated.daemonset.template.generation",
    table::WORKLOAD_GENERATION,
];

objects! {
    /// An object of any kind.
    struct AnyObject {
        metadata: Value = "metadata",
        spec: Value = "spec",
        status: Value = "status",
    }

    /// apps/v1 ControllerRevision.
    struct ControllerRevision {
        revision: Option<i64> = "revision",
    }
}

/// Reads the target, its pods, and the events about them. Violations are recorded by the parser.
pub(super) fn read<'a>(
    objects: &ObjectIndex<'a, Found<'a>>,
    target: &Found<'a>,
    snapshot: &proto::Snapshot,
    now: Time,
    parser: &mut Parser<'_>,
    interrupt: &'a dyn Interrupt,
) -> Result<Observed, Error> {
    let mut contents = ContentReader::new(interrupt);
    let known = Known::of(&target.api_version, &target.kind);
    let origin = target.origin();
    let Some(object) = contents.content::<AnyObject>(target, &mut parser.violations)? else {
        let violations = std::mem::take(&mut parser.violations);
        return Err(Error::InvalidArgument(violations));
    };
    let faults = Faults::new(origin.clone(), known.is_none());
    let (spec, status) = (
        faults.field("spec", &object.spec),
        faults.field("status", &object.status),
    );
    let pods = select_pods(objects, target, known)?;
    let none = || faults.field("spec", &Value::Null);
    let (pod_metadata, pod_spec) = match known {
        Some(Known::Pod) => (faults.field("metadata", &object.metadata), spec.clone()),
        Some(known) if known.controls_pods() => {
            let template = spec.get("template");
            (template.get("metadata"), template.get("spec"))
        }
        _ => (none(), none()),
    };
    let view = match known {
        Some(known) => known.view(&spec, &status, newest_revision(objects, target, known)),
        None => {
            let rule = table::rule(group(&target.api_version), &target.kind);
            let wanted = snapshot.target.as_ref();
            let has_subresource = wanted.and_then(|wanted| wanted.status_subresource);
            let namespace = &target.metadata.namespace;
            let fields = generic::fields(rule, namespace, &spec, &status, has_subresource);
            View::Other(fields)
        }
    };
    let mut observed = Observed {
        now,
        api_version: target.api_version.clone().into_owned(),
        kind: target.kind.clone().into_owned(),
        metadata: object_meta(target, &object.metadata, &faults),
        observed_generation: match known {
            Some(_) => status.get("observedGeneration").integer(),
            // Some controllers write a string.
            None => status.get("observedGeneration").number(),
        },
        conditions: conditions(&status),
        view,
        template: template(&pod_metadata, &pod_spec),
        min_ready_seconds: if known.is_some_and(Known::controls_pods) {
            spec.get("minReadySeconds").count().unwrap_or_default()
        } else {
            0
        },
        pods: Vec::new(),
        pods_complete: snapshot.pods_complete,
        events: Vec::new(),
        surroundings: Surroundings::default(),
    };
    drop((spec, status, pod_metadata, pod_spec));
    parser.violations.extend(faults.into_violations());
    if target.metadata.name.is_empty() {
        let path = Path::Object(&origin);
        let path = path.field("metadata");
        parser.violation(&path.field("name"), Reason::Required, "is required");
    }
    let positions: Vec<usize> = pods.iter().map(|(position, _)| *position).collect();
    let mut about: HashSet<&str> = pods.iter().map(|(_, pod)| &*pod.metadata.uid).collect();
    about.insert(&target.metadata.uid);
    // An event without a UID is not about a known object.
    about.remove("");
    for (_, pod) in pods {
        let violations = &mut parser.violations;
        let Some(mut read) = contents.content::<kubernetes::Pod>(pod, violations)? else {
            continue;
        };
        // A UID is needed only to find the pods of an owner.
        if let Some(metadata) = &mut read.metadata
            && known == Some(Known::Pod)
            && metadata.uid.is_empty()
        {
            UNKNOWN.clone_into(&mut metadata.uid);
        }
        let namespace = &observed.metadata.namespace;
        let path = &Path::Object(&pod.origin());
        observed.pods.push(parser.pod(read, namespace, path));
    }
    observed.surroundings = surroundings::read(
        objects,
        target,
        &positions,
        &observed.pods,
        &mut contents,
        parser,
        interrupt,
    )?;
    let events = objects.at(&objects.events_about(&about, target));
    limit("events about the object", events.len(), EVENTS_MAX)?;
    for event in events {
        if let Some(read) = contents.content(event, &mut parser.violations)? {
            let event = parser.event(read, &Path::Object(&event.origin()));
            observed.events.push(event);
        }
    }
    Ok(observed)
}

/// The pods that the target controls, or the target itself, with their positions.
fn select_pods<'f, 'a>(
    objects: &'f ObjectIndex<'a, Found<'a>>,
    target: &'f Found<'a>,
    known: Option<Known>,
) -> Result<Vec<(usize, &'f Found<'a>)>, Error> {
    let uid = &*target.metadata.uid;
    let pods: Vec<(usize, &'f Found<'a>)> = match known {
        Some(Known::Pod) => {
            let mut all = objects.iter();
            let position = all.position(|object| std::ptr::eq(object, target));
            position
                .map(|position| (position, target))
                .into_iter()
                .collect()
        }
        Some(known) if known.controls_pods() && !uid.is_empty() => {
            let own = objects.controlled_by(uid);
            own.filter(|(_, object)| object.is_pod() && object.is_in_namespace_of(target))
                .collect()
        }
        _ => Vec::new(),
    };
    limit("pods of the object", pods.len(), PODS_MAX)?;
    Ok(pods)
}

/// The hash of the newest ControllerRevision of a DaemonSet.
fn newest_revision<'a>(
    objects: &ObjectIndex<'a, Found<'a>>,
    target: &Found<'a>,
    known: Known,
) -> Option<String> {
    if known != Known::DaemonSet || target.metadata.uid.is_empty() {
        return None;
    }
    let owned = objects.controlled_by(&target.metadata.uid);
    let revisions = owned.filter(|(_, object)| object.is_controller_revision());
    let newest = revisions
        .filter_map(|(_, object)| {
            let ControllerRevision { revision } = object.read_leniently();
            Some((revision?, object))
        })
        .max_by_key(|(revision, _)| *revision)?;
    newest.1.labels().get(REVISION_LABEL).cloned()
}

fn object_meta(target: &Found<'_>, metadata: &Value, faults: &Faults) -> ObjectMeta {
    let field = faults.field("metadata", metadata);
    let chosen = |map: Field<'_, '_>, keys: &[&str]| -> StringMap {
        let entries = keys.iter().map(|key| (key, map.get(key)));
        let present = entries.filter(|(_, value)| value.is_present());
        present
            .map(|(key, value)| ((*key).to_owned(), value.text()))
            .collect()
    };
    ObjectMeta {
        name: target.metadata.name.clone().into_owned(),
        namespace: target.metadata.namespace.clone().into_owned(),
        uid: target.metadata.uid.clone().into_owned(),
        generation: field.get("generation").integer().unwrap_or_default(),
        creation_timestamp: field.get("creationTimestamp").time(),
        deletion_timestamp: field.get("deletionTimestamp").time(),
        labels: chosen(field.get("labels"), &LABELS),
        annotations: chosen(field.get("annotations"), &ANNOTATIONS),
        finalizers: field
            .get("finalizers")
            .list()
            .iter()
            .map(Field::text)
            .collect(),
        owner_references: owners(&field),
        ..ObjectMeta::default()
    }
}

/// The owners of an object that manage it.
fn owners(metadata: &Field<'_, '_>) -> Vec<OwnerReference> {
    let owners = metadata.get("ownerReferences").list();
    let owners = owners.iter().map(|owner| OwnerReference {
        api_version: owner.get("apiVersion").text(),
        kind: owner.get("kind").text(),
        name: owner.get("name").text(),
        uid: owner.get("uid").text(),
        controller: Some(owner.get("controller").is_true()),
        block_owner_deletion: None,
    });
    owners.collect()
}
