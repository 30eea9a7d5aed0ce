//! Reads Kubernetes JSON: finds the objects of a snapshot, selects those of its Deployment, and converts them to the
//! messages that a client with generated types would have sent. Objects that are not selected are not parsed. Pod
//! templates remain text, and only the fields of pods that a plan needs are read.

mod complete;
mod found;
mod key;
pub(super) mod kinds;
mod lean_pod;
mod message;
mod name_only;
mod scan;
mod select;
mod summary;
mod time;
mod transcode;

use std::borrow::Cow;

use bytes::Bytes;
use rollplan_core::interrupt::Interrupt;
use rollplan_core::snapshot::Pod;

pub(crate) use self::complete::Listed;
pub(crate) use self::found::{Found, Metadata};
pub(crate) use self::kinds::is_deployment;
pub(super) use self::message::{check_keys, read_replica_set, read_template};
use self::scan::{current_version, scan_with_lean_pods};
pub(crate) use self::scan::{scan, scan_field};
use self::select::matches;
pub(crate) use self::summary::Shown;
pub use self::summary::{ObjectsSummary, summarize_objects};
pub(super) use self::transcode::Fault;
use super::error::{Error, Reason, Violations};
use super::origin::Origin;
use super::parse::name::is_dns_label;
use crate::proto;

/// The maximum number of objects in the texts of a request, including those that are not selected.
pub const OBJECTS_MAX: usize = 200_000;

/// The sources of the objects of a snapshot, in the same order.
#[derive(Debug)]
pub(super) struct Origins {
    pub(super) deployment: Origin,
    pub(super) replica_sets: Vec<Origin>,
    pub(super) pods: Vec<Origin>,
    pub(super) events: Vec<Origin>,
}

/// The subject of a status.
#[derive(Debug)]
pub(super) enum Subject {
    /// A Deployment, whose objects have been added to the snapshot. It has origins if the objects come from texts.
    Deployment(Option<Origins>),
    /// An object of another kind.
    Workload(Box<kinds::Workload>),
}

/// Reads the subject of a status. The texts are scanned once, because only the spec of a custom resource shows whether
/// it is planned as a Deployment.
pub(super) fn read_subject(
    snapshot: &mut proto::Snapshot,
    shown: Option<&mut Shown>,
    interrupt: &dyn Interrupt,
) -> Result<Subject, Error> {
    if let Some(target) = &mut snapshot.target {
        let api_version = Cow::Borrowed(&*target.api_version);
        target.api_version = current_version(api_version, &target.kind).into_owned();
    }
    if !kinds::may_be_target(snapshot) {
        return read(snapshot, None, shown, interrupt).map(Subject::Deployment);
    }
    let mut violations = Violations::default();
    check_target(snapshot, &mut violations);
    check_exclusive(snapshot, &mut violations);
    let texts = std::mem::take(&mut snapshot.objects_json);
    let (found, is_continued) = scan_all(&texts, false, violations, interrupt)?;
    if let Some(shown) = shown {
        shown.complete(snapshot, &found, is_continued, interrupt)?;
    }
    let mut reader = Reader::new(interrupt);
    let Some(target) = reader.choose(&found, snapshot.target.as_ref()) else {
        return Err(Error::InvalidArgument(reader.violations));
    };
    if is_deployment(&target.0) {
        let origins = reader.deployment(&found, snapshot, None)?;
        return Ok(Subject::Deployment(Some(origins)));
    }
    let workload = kinds::read(reader, &found, target, snapshot)?;
    Ok(Subject::Workload(Box::new(workload)))
}

/// Adds the objects in the JSON texts of a snapshot to its fields. Returns `None` if it has no texts. Pods are added
/// to `lean_pods` instead, if it is given and all of them are usual.
pub(super) fn read(
    snapshot: &mut proto::Snapshot,
    lean_pods: Option<&mut Vec<Pod>>,
    shown: Option<&mut Shown>,
    interrupt: &dyn Interrupt,
) -> Result<Option<Origins>, Error> {
    let mut violations = Violations::default();
    check_target(snapshot, &mut violations);
    if snapshot.objects_json.is_empty() {
        return match violations.is_empty() {
            true => Ok(None),
            false => Err(Error::InvalidArgument(violations)),
        };
    }
    check_exclusive(snapshot, &mut violations);
    check_kind(snapshot, &mut violations);
    let texts = std::mem::take(&mut snapshot.objects_json);
    let are_lean = lean_pods.is_some();
    let (found, is_continued) = scan_all(&texts, are_lean, violations, interrupt)?;
    if let Some(shown) = shown {
        shown.complete(snapshot, &found, is_continued, interrupt)?;
    }
    let origins = Reader::new(interrupt).deployment(&found, snapshot, lean_pods)?;
    Ok(Some(origins))
}

/// Finds all objects in all texts. Also returns whether a list is only one page of a longer list. With `are_lean`, usual
/// pods are read as far as a plan without a report needs.
fn scan_all<'a>(
    texts: &'a [Bytes],
    are_lean: bool,
    mut violations: Violations,
    interrupt: &dyn Interrupt,
) -> Result<(Vec<(Found<'a>, Metadata<'a>)>, bool), Error> {
    let mut found = Vec::new();
    let mut is_continued = false;
    for (index, text) in texts.iter().enumerate() {
        interrupt.check()?;
        is_continued |= match are_lean {
            true => scan_with_lean_pods(index, text, &mut found, &mut violations)?,
            false => scan(index, text, &mut found, &mut violations)?,
        };
    }
    if !violations.is_empty() {
        return Err(Error::InvalidArgument(violations));
    }
    let found = found.into_iter().map(|object| {
        let metadata = object.metadata();
        (object, metadata)
    });
    Ok((found.collect(), is_continued))
}

/// Checks that objects are given either in their fields or in texts.
fn check_exclusive(snapshot: &proto::Snapshot, violations: &mut Violations) {
    for (field, is_given) in [
        ("snapshot.deployment", snapshot.deployment.is_some()),
        ("snapshot.replica_sets", !snapshot.replica_sets.is_empty()),
        ("snapshot.pods", !snapshot.pods.is_empty()),
    ] {
        if is_given {
            let description = "may not be set together with objects_json";
            violations.add(field, Reason::Exclusive, description);
        }
    }
}

/// Checks the kind of the target: among the kinds of Kubernetes, only Deployments can be planned.
fn check_kind(snapshot: &proto::Snapshot, violations: &mut Violations) {
    let Some(target) = &snapshot.target else {
        return;
    };
    let (api_version, kind) = (target.api_version.as_str(), target.kind.as_str());
    let is_given = !api_version.is_empty() && !kind.is_empty();
    if is_given
        && kinds::is_of_kubernetes(api_version)
        && (api_version, kind) != ("apps/v1", "Deployment")
    {
        let description = format!(
            "is {kind:?} of {api_version}: only apps/v1 Deployments and custom resources with the same spec can be \
             planned, rolled back and listed; ComputeStatus reports on every kind"
        );
        violations.add("snapshot.target.kind", Reason::WrongKind, description);
    }
}

/// Validates the target, and compares it with a Deployment in its field.
fn check_target(snapshot: &proto::Snapshot, violations: &mut Violations) {
    let Some(target) = &snapshot.target else {
        return;
    };
    if !target.resource.is_empty() && !is_dns_label(&target.resource) {
        let description = "must be the plural name of a resource, for example \"deployments\"";
        violations.add("snapshot.target.resource", Reason::InvalidName, description);
    }
    let Some(deployment) = snapshot
        .deployment
        .as_ref()
        .filter(|_| snapshot.objects_json.is_empty())
    else {
        return;
    };
    let metadata = deployment.metadata.as_ref();
    let name = metadata.map_or("", |metadata| &metadata.name);
    let namespace = metadata.map_or("", |metadata| &metadata.namespace);
    let or = |given: &str, default: &str| match given {
        "" => default.to_owned(),
        given => given.to_owned(),
    };
    let api_version = or(&deployment.api_version, "apps/v1");
    let kind = or(&deployment.kind, "Deployment");
    if !matches(target, &api_version, &kind, namespace, name) {
        let description = format!(
            "is not the Deployment of the snapshot: {kind} {namespace}/{name} ({api_version})"
        );
        violations.add("snapshot.target", Reason::NotFound, description);
    }
}

struct Reader<'i> {
    violations: Violations,
    /// The memory of the messages, in bytes.
    memory: usize,
    interrupt: &'i dyn Interrupt,
}

// === impl Reader ===

impl<'i> Reader<'i> {
    fn new(interrupt: &'i dyn Interrupt) -> Self {
        Self {
            violations: Violations::default(),
            memory: 0,
            interrupt,
        }
    }

    /// Adds the Deployment and its dependents to the snapshot.
    fn deployment(
        mut self,
        found: &[(Found<'_>, Metadata<'_>)],
        snapshot: &mut proto::Snapshot,
        lean_pods: Option<&mut Vec<Pod>>,
    ) -> Result<Origins, Error> {
        let origins = self.select(found, snapshot, lean_pods)?;
        match (origins, self.violations.is_empty()) {
            (Some(origins), true) => Ok(origins),
            _ => Err(Error::InvalidArgument(self.violations)),
        }
    }
}

/// An object and its metadata.
type Object<'f, 'a> = &'f (Found<'a>, Metadata<'a>);
