//! Objects of kinds other than Deployment, with their pods and events.

mod generic;
mod history;
mod views;

use std::collections::HashSet;

use rollplan_core::interrupt::Interrupt;
use rollplan_core::kind::{self, Dependents, Kind};
use rollplan_core::snapshot::{ObjectMeta, Surroundings};
use rollplan_core::time::Time;
use rollplan_health::kinds::{ObjectSnapshot, REVISION_LABEL, View};

pub(super) use self::history::read_history;

use super::error::{Error, Reason};
use super::limits::{EVENTS_MAX, PODS_MAX, limit};
use super::objects::{ContentReader, Found, ObjectIndex};
use super::parse::{Parser, Path};
use super::read::{kubernetes, objects};
use super::surroundings;
use crate::proto;

/// The UID of a single pod without one, as in a manifest.
const UNKNOWN: &str = "unknown";

objects! {
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
) -> Result<ObjectSnapshot, Error> {
    let mut contents = ContentReader::new(interrupt);
    let kind = kind::find(&target.api_version, &target.kind);
    let base = ObjectSnapshot {
        now,
        api_version: target.api_version.clone().into_owned(),
        kind: target.kind.clone().into_owned(),
        metadata: ObjectMeta {
            name: target.metadata.name.clone().into_owned(),
            namespace: target.metadata.namespace.clone().into_owned(),
            uid: target.metadata.uid.clone().into_owned(),
            ..ObjectMeta::default()
        },
        observed_generation: None,
        conditions: Vec::new(),
        view: View::Stateless,
        template: None,
        min_ready_seconds: 0,
        pods: Vec::new(),
        pods_complete: snapshot.pods_complete,
        events: Vec::new(),
        surroundings: Surroundings::default(),
    };
    let wanted = snapshot.target.as_ref();
    let has_status = wanted.and_then(|wanted| wanted.status_subresource);
    let read = read_target(
        objects,
        target,
        kind,
        base,
        has_status,
        &mut contents,
        parser,
    )?;
    let Some(mut observed) = read else {
        let violations = std::mem::take(&mut parser.violations);
        return Err(Error::InvalidArgument(violations));
    };
    let pods = select_pods(objects, target, kind)?;
    if target.metadata.name.is_empty() {
        let origin = target.origin();
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
            && target.is_pod()
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

/// Reads the fields of the target. `None` after a violation.
fn read_target<'a>(
    objects: &ObjectIndex<'a, Found<'a>>,
    target: &Found<'a>,
    kind: Option<&Kind>,
    base: ObjectSnapshot,
    has_status_subresource: Option<bool>,
    contents: &mut ContentReader<'a>,
    parser: &mut Parser<'_>,
) -> Result<Option<ObjectSnapshot>, Error> {
    let origin = target.origin();
    let path = &Path::Object(&origin);
    let violations = &mut parser.violations;
    Ok(match kind.map_or("", |kind| kind.name) {
        "StatefulSet" | "DaemonSet" => contents.content(target, violations)?.map(|it| {
            let revision = newest_revision(objects, target);
            views::workload(it, base, revision, parser, path)
        }),
        "ReplicaSet" | "ReplicationController" => contents
            .content(target, violations)?
            .map(|it| views::replica_set(it, base, parser, path)),
        "Job" => contents
            .content(target, violations)?
            .map(|it| views::job(it, base, parser, path)),
        "Pod" => contents
            .content(target, violations)?
            .map(|it| ObjectSnapshot {
                // It has the fields of a template.
                template: Some(parser.template(kubernetes::TemplateJson(target.text()), path)),
                ..views::small(it, base)
            }),
        "CronJob"
        | "PersistentVolumeClaim"
        | "Service"
        | "CustomResourceDefinition"
        | "ConfigMap"
        | "Secret" => contents
            .content(target, violations)?
            .map(|it| views::small(it, base)),
        _ => contents
            .content(target, violations)?
            .map(|it| generic::object(it, base, has_status_subresource)),
    })
}

/// The pods that the target controls, or the target itself, with their positions.
fn select_pods<'f, 'a>(
    objects: &'f ObjectIndex<'a, Found<'a>>,
    target: &'f Found<'a>,
    kind: Option<&Kind>,
) -> Result<Vec<(usize, &'f Found<'a>)>, Error> {
    let uid = &*target.metadata.uid;
    let dependents = kind.map_or(Dependents::None, |kind| kind.dependents);
    let pods: Vec<(usize, &'f Found<'a>)> = match dependents {
        _ if target.is_pod() => {
            let mut all = objects.iter();
            let position = all.position(|object| std::ptr::eq(object, target));
            position
                .map(|position| (position, target))
                .into_iter()
                .collect()
        }
        Dependents::Pods | Dependents::RevisionsAndPods if !uid.is_empty() => {
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
fn newest_revision<'a>(objects: &ObjectIndex<'a, Found<'a>>, target: &Found<'a>) -> Option<String> {
    if target.metadata.uid.is_empty() {
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
