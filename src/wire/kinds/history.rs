//! Reads a StatefulSet or a DaemonSet with its revisions and pods.

use rollplan_core::controller_revision::Workload;
use rollplan_core::interrupt::Interrupt;
use rollplan_core::kind;
use rollplan_core::time::Time;

use super::select_pods;
use crate::error::Error;
use crate::limits::{REPLICA_SETS_MAX, limit};
use crate::objects::{ContentReader, Found, ObjectIndex};
use crate::parse::{Parser, Path};
use crate::proto;
use crate::read::kubernetes;
use crate::surroundings;

/// Reads the target with its ControllerRevisions and pods. `None` after a violation.
pub(crate) fn read_history<'a>(
    objects: &ObjectIndex<'a, Found<'a>>,
    target: &Found<'a>,
    snapshot: &proto::Snapshot,
    now: Time,
    parser: &mut Parser<'_>,
    interrupt: &'a dyn Interrupt,
) -> Result<Option<Workload>, Error> {
    let mut contents = ContentReader::new(interrupt);
    let content = contents.content::<kubernetes::Workload<'a>>(target, &mut parser.violations)?;
    let Some(content) = content else {
        return Ok(None);
    };
    let origin = target.origin();
    let (mut workload, selector) =
        parser.workload_with_revisions(target, content, now, &Path::Object(&origin))?;
    let namespace = workload.metadata.namespace.clone();
    let owned = objects.controlled_by(&target.metadata.uid);
    // As kubectl finds them.
    let revisions: Vec<&Found<'a>> = owned
        .map(|(_, object)| object)
        .filter(|object| object.is_controller_revision() && object.is_in_namespace_of(target))
        .filter(|object| selector.matches(object.labels()))
        .collect();
    limit(
        "ControllerRevisions of the object",
        revisions.len(),
        REPLICA_SETS_MAX,
    )?;
    for revision in revisions {
        if let Some(content) = contents.content(revision, &mut parser.violations)? {
            let path = &Path::Object(&revision.origin());
            let revision = parser.controller_revision(content, &namespace, path);
            workload.revisions.push(revision);
        }
    }
    workload.revisions_complete = snapshot.replica_sets_complete;
    let kind = kind::find(&target.api_version, &target.kind);
    let pods = select_pods(objects, target, kind)?;
    let positions: Vec<usize> = pods.iter().map(|(position, _)| *position).collect();
    for (_, pod) in pods {
        if let Some(content) = contents.content(pod, &mut parser.violations)? {
            let path = &Path::Object(&pod.origin());
            workload.pods.push(parser.pod(content, &namespace, path));
        }
    }
    workload.surroundings = surroundings::read(
        objects,
        target,
        &positions,
        &workload.pods,
        &mut contents,
        parser,
        interrupt,
    )?;
    Ok(Some(workload))
}
