//! Objects of kinds other than Deployment, with their pods and events.

mod field;
mod generic;
mod views;

use std::collections::HashSet;
use std::rc::Rc;

use rollplan_core::kinds::{Observed, REVISION_LABEL, View, table};
use rollplan_core::snapshot::{ObjectMeta, StringMap};
use rollplan_core::time::Time;

use self::field::{Faults, Field};
use self::views::{Known, conditions, template};
use super::found::{Found, Metadata};
use super::message::check_keys;
use super::select::{events_about, in_namespace_of};
use super::transcode::Fault;
use super::{Object, Origin, Reader};
use crate::proto;
use crate::wire::error::{Error, Reason, Violations};
use crate::wire::estimate::OBJECT_BYTES_MAX;
use crate::wire::limits::{PODS_MAX, limit};

/// The UID of a single pod without one, as in a manifest.
const UNKNOWN: &str = "unknown";
/// Labels and annotations that reports read.
const LABELS: [&str; 2] = ["kueue.x-k8s.io/queue-name", REVISION_LABEL];
const ANNOTATIONS: [&str; 2] = [
    "deprecated.daemonset.template.generation",
    table::WORKLOAD_GENERATION,
];
/// Labels of pods that reports read.
pub(in crate::wire) const POD_LABELS: [&str; 2] = [REVISION_LABEL, "pod-template-generation"];

/// An object of another kind with its pods and events. These are not validated yet.
#[derive(Debug)]
pub(in crate::wire) struct Workload {
    pub(in crate::wire) observed: Observed,
    pub(in crate::wire) pods: Vec<proto::Pod>,
    pub(in crate::wire) pod_origins: Vec<Origin>,
    pub(in crate::wire) events: Vec<proto::ObservedEvent>,
    pub(in crate::wire) event_origins: Vec<Origin>,
}

/// The group of an apiVersion. Empty for "v1".
pub(super) fn group(api_version: &str) -> &str {
    api_version.rsplit_once('/').map_or("", |(group, _)| group)
}

/// Whether a group belongs to Kubernetes itself. Of its kinds, only Deployment has the spec of a Deployment.
pub(super) fn is_of_kubernetes(api_version: &str) -> bool {
    let group = group(api_version);
    !group.contains('.') || group.ends_with(".k8s.io")
}

/// Whether the kind of the target may be other than Deployment.
pub(super) fn may_be_target(snapshot: &proto::Snapshot) -> bool {
    let target = snapshot.target.as_ref();
    !snapshot.objects_json.is_empty()
        && target.is_some_and(|target| {
            let kind = (target.api_version.as_str(), target.kind.as_str());
            !kind.0.is_empty() && !kind.1.is_empty() && kind != ("apps/v1", "Deployment")
        })
}

/// Reads the target, its pods, and the events about them.
pub(super) fn read(
    mut reader: Reader<'_>,
    found: &[(Found<'_>, Metadata<'_>)],
    target: Object<'_, '_>,
    snapshot: &proto::Snapshot,
) -> Result<Workload, Error> {
    let (object, metadata) = target;
    check(object, metadata)?;
    let known = Known::of(&object.api_version, &object.kind);
    let faults = Faults::new(known.is_none());
    let (spec, status) = (
        faults.field("spec", object.field("spec")),
        faults.field("status", object.field("status")),
    );
    let pods = select_pods(found, target, known)?;
    let pod_spec = match known {
        Some(Known::Pod) => spec.clone(),
        Some(known) if known.controls_pods() => spec.get("template").get("spec"),
        _ => faults.field("spec", None),
    };
    let view = match known {
        Some(known) => known.view(&spec, &status, newest_revision(found, target, known)),
        None => {
            let rule = table::rule(group(&object.api_version), &object.kind);
            let target = snapshot.target.as_ref();
            let has_subresource = target.and_then(|target| target.status_subresource);
            View::Other(generic::fields(rule, &spec, &status, has_subresource))
        }
    };
    let observed = Observed {
        now: Time::MIN,
        api_version: object.api_version.clone().into_owned(),
        kind: object.kind.clone().into_owned(),
        metadata: object_meta(object, metadata, &faults),
        observed_generation: match known {
            Some(_) => status.get("observedGeneration").integer(),
            // Some controllers write a string.
            None => status.get("observedGeneration").number(),
        },
        conditions: conditions(&status),
        view,
        template: template(&pod_spec),
        min_ready_seconds: match known.is_some_and(Known::controls_pods) {
            true => spec.get("minReadySeconds").count().unwrap_or_default(),
            false => 0,
        },
        pods: Vec::new(),
        pods_complete: snapshot.pods_complete,
        events: Vec::new(),
    };
    drop((spec, status, pod_spec));
    let origin = object.origin(metadata);
    for fault in faults.into_list() {
        let description = format!("{} ({})", fault.description, origin.object);
        let field = format!("{origin}{}", fault.path);
        reader.violations.add(field, fault.reason, description);
    }
    if metadata.name.is_empty() {
        let description = format!("is required ({})", origin.object);
        let field = format!("{origin}.metadata.name");
        reader.violations.add(field, Reason::Required, description);
    }
    let mut workload = Workload {
        observed,
        pods: Vec::new(),
        pod_origins: Vec::new(),
        events: Vec::new(),
        event_origins: Vec::new(),
    };
    reader.messages(&pods, &mut workload.pods, &mut workload.pod_origins)?;
    if known == Some(Known::Pod) {
        // A UID is needed only to find the pods of an owner.
        for metadata in workload
            .pods
            .iter_mut()
            .filter_map(|pod| pod.metadata.as_mut())
        {
            if metadata.uid.is_empty() {
                UNKNOWN.clone_into(&mut metadata.uid);
            }
        }
    }
    // Events in their own field precede events in the texts.
    let mut about: HashSet<&str> = pods.iter().map(|pod| &*pod.1.uid).collect();
    about.insert(&metadata.uid);
    let list: Rc<str> = Rc::from("snapshot.events");
    for (index, event) in snapshot.events.iter().enumerate() {
        let uid = event.involved_object.as_ref().map_or("", |it| &it.uid);
        if !uid.is_empty() && about.contains(uid) {
            workload.events.push(event.clone());
            workload.event_origins.push(Origin {
                list: Rc::clone(&list),
                index,
                object: "Event".to_owned(),
                template: None,
            });
        }
    }
    let events = events_about(found, target, &pods);
    reader.messages(&events, &mut workload.events, &mut workload.event_origins)?;
    match reader.violations.is_empty() {
        true => Ok(workload),
        false => Err(Error::InvalidArgument(reader.violations)),
    }
}

/// Whether a custom resource is planned as a Deployment: it has a selector and a pod template, no strategy other than
/// those of Deployments, and no row in the table of kinds.
pub(crate) fn is_deployment(object: &Found<'_>) -> bool {
    if is_of_kubernetes(&object.api_version) {
        return (&*object.api_version, &*object.kind) == ("apps/v1", "Deployment");
    }
    if table::row(group(&object.api_version), &object.kind).is_some() {
        return false;
    }
    let faults = Faults::new(true);
    let spec = faults.field("spec", object.field("spec"));
    let strategy = spec.get("strategy").keys();
    let is_strategy = |key: &String| matches!(key.as_str(), "type" | "rollingUpdate");
    let selector = spec.get("selector");
    // An empty selector selects nothing, which the planner reports.
    let is_selector = |key: &String| matches!(key.as_str(), "matchLabels" | "matchExpressions");
    selector.is_present()
        && selector.keys().iter().all(is_selector)
        && spec
            .get("template")
            .get("spec")
            .get("containers")
            .is_present()
        && strategy.iter().all(is_strategy)
        && !spec.get("updateStrategy").is_present()
        && !spec.get("workloadRef").is_present()
}

/// Validates an object independent of its fields. The API server stores no larger objects.
fn check(object: &Found<'_>, metadata: &Metadata<'_>) -> Result<(), Error> {
    let bytes: usize = object.fields().map(|field| field.text.len()).sum();
    let checked = match bytes > OBJECT_BYTES_MAX {
        true => Err(Fault {
            path: String::new(),
            reason: Reason::ObjectTooLarge,
            description: format!(
                "{bytes} bytes exceed the limit of {OBJECT_BYTES_MAX} for an object"
            ),
        }),
        false => check_keys(object),
    };
    checked.map_err(|fault| {
        let origin = object.origin(metadata);
        let field = format!("{origin}{}", fault.path);
        let description = format!("{} ({})", fault.description, origin.object);
        let mut violations = Violations::default();
        violations.add(field, fault.reason, description);
        Error::InvalidArgument(violations)
    })
}

/// The pods that the target controls, or the target itself.
fn select_pods<'f, 'a>(
    found: &'f [(Found<'a>, Metadata<'a>)],
    target: Object<'f, 'a>,
    known: Option<Known>,
) -> Result<Vec<Object<'f, 'a>>, Error> {
    let uid = &*target.1.uid;
    let pods: Vec<Object<'f, 'a>> = match known {
        Some(Known::Pod) => vec![target],
        Some(known) if known.controls_pods() && !uid.is_empty() => {
            in_namespace_of(found, target, "v1", "Pod")
                .filter(|(_, pod)| pod.controller.as_deref() == Some(uid))
                .collect()
        }
        _ => Vec::new(),
    };
    limit("snapshot.pods", pods.len(), PODS_MAX)?;
    Ok(pods)
}

/// The hash of the newest ControllerRevision of a DaemonSet.
fn newest_revision(
    found: &[(Found<'_>, Metadata<'_>)],
    target: Object<'_, '_>,
    known: Known,
) -> Option<String> {
    if known != Known::DaemonSet || target.1.uid.is_empty() {
        return None;
    }
    let owned = found.iter().filter(|(object, metadata)| {
        object.kind == "ControllerRevision"
            && metadata.controller.as_deref() == Some(&*target.1.uid)
    });
    let newest = owned
        .filter_map(|(object, _)| Some((object.field("revision")?.parse::<i64>().ok()?, object)))
        .max_by_key(|(revision, _)| *revision)?;
    newest.1.labels().remove(REVISION_LABEL)
}

fn object_meta(object: &Found<'_>, metadata: &Metadata<'_>, faults: &Faults) -> ObjectMeta {
    let field = faults.field("metadata", object.field("metadata"));
    let chosen = |map: Field<'_, '_>, keys: &[&str]| -> StringMap {
        let entries = keys.iter().map(|key| (key, map.get(key)));
        let present = entries.filter(|(_, value)| value.is_present());
        present
            .map(|(key, value)| ((*key).to_owned(), value.text()))
            .collect()
    };
    ObjectMeta {
        name: metadata.name.clone().into_owned(),
        namespace: metadata.namespace.clone().into_owned(),
        uid: metadata.uid.clone().into_owned(),
        generation: field.get("generation").integer().unwrap_or_default(),
        creation_timestamp: field.get("creationTimestamp").time(),
        deletion_timestamp: field.get("deletionTimestamp").time(),
        labels: chosen(field.get("labels"), &LABELS),
        annotations: chosen(field.get("annotations"), &ANNOTATIONS),
        ..ObjectMeta::default()
    }
}
