//! A summary of Kubernetes JSON, inferred before planning.

use rollplan_core::interrupt::Interrupt;

use super::complete::Listed;
use super::found::{Found, Metadata};
use super::select::in_namespace_of;
use super::{Reader, is_deployment, scan_all};
use crate::proto;
use crate::wire::error::{Error, Violations};

/// The owner in Kubernetes JSON, and whether its lists appear complete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectsSummary {
    /// The owner. Its resource is taken from the target of the request.
    pub target: proto::Target,
    /// Whether the ReplicaSets of the Deployment appear complete.
    pub replica_sets_complete: bool,
    /// Whether its pods, or those of its ReplicaSets, appear complete.
    pub pods_complete: bool,
}

/// The caller's statements on complete lists. `None` infers them from the objects.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shown {
    pub(crate) replica_sets_complete: Option<bool>,
    pub(crate) pods_complete: Option<bool>,
    /// The summary, once the objects have been read.
    pub(crate) summary: Option<ObjectsSummary>,
}

// === impl Shown ===

impl Shown {
    /// Summarizes the objects, and completes the snapshot.
    pub(super) fn complete(
        &mut self,
        snapshot: &mut proto::Snapshot,
        found: &[(Found<'_>, Metadata<'_>)],
        is_continued: bool,
        interrupt: &dyn Interrupt,
    ) -> Result<(), Error> {
        let summary = summarize(found, is_continued, snapshot.target.as_ref(), interrupt)?;
        let ObjectsSummary {
            target,
            replica_sets_complete,
            pods_complete,
        } = &summary;
        snapshot.replica_sets_complete =
            self.replica_sets_complete.unwrap_or(*replica_sets_complete);
        snapshot.pods_complete = self.pods_complete.unwrap_or(*pods_complete);
        snapshot.target = Some(target.clone());
        self.summary = Some(summary);
        Ok(())
    }
}

// === impl ObjectsSummary ===

impl ObjectsSummary {
    /// The owner, for example "Deployment shop/web".
    #[must_use]
    pub fn subject(&self) -> String {
        let proto::Target {
            kind,
            namespace,
            name,
            ..
        } = &self.target;
        match &**namespace {
            "" => format!("{kind} {name}"),
            namespace => format!("{kind} {namespace}/{name}"),
        }
    }
}

/// Summarizes the objects in the JSON texts of a snapshot, for callers that cannot state whether their lists are
/// complete.
///
/// # Errors
///
/// See [`compute_status`](crate::wire::compute_status), if the Deployment is ambiguous.
pub fn summarize_objects(
    snapshot: &proto::Snapshot,
    interrupt: &dyn Interrupt,
) -> Result<ObjectsSummary, Error> {
    let proto::Snapshot {
        objects_json,
        target,
        ..
    } = snapshot;
    let (found, is_continued) = scan_all(objects_json, false, Violations::default(), interrupt)?;
    summarize(&found, is_continued, target.as_ref(), interrupt)
}

fn summarize(
    found: &[(Found<'_>, Metadata<'_>)],
    is_continued: bool,
    target: Option<&proto::Target>,
    interrupt: &dyn Interrupt,
) -> Result<ObjectsSummary, Error> {
    let mut reader = Reader::new(interrupt);
    let Some(owner) = reader.choose(found, target) else {
        return Err(Error::InvalidArgument(reader.violations));
    };
    let all = |api_version, kind| {
        let objects = in_namespace_of(found, owner, api_version, kind);
        objects
            .map(|(object, metadata)| (object, metadata))
            .collect()
    };
    let (object, metadata) = owner;
    let listed = Listed {
        owner: (object, metadata),
        replica_sets: all("apps/v1", "ReplicaSet"),
        pods: all("v1", "Pod"),
    };
    let shows_pods = || match is_deployment(object) {
        true => listed.shows_every_pod(),
        false => listed.shows_own_pods(),
    };
    Ok(ObjectsSummary {
        target: proto::Target {
            api_version: object.api_version.clone().into_owned(),
            kind: object.kind.clone().into_owned(),
            namespace: metadata.namespace.clone().into_owned(),
            name: metadata.name.clone().into_owned(),
            resource: target.map_or_else(String::new, |it| it.resource.clone()),
            status_subresource: target.and_then(|it| it.status_subresource),
        },
        replica_sets_complete: !is_continued && listed.shows_every_replica_set(),
        pods_complete: !is_continued && shows_pods(),
    })
}
