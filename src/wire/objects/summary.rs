//! What Kubernetes JSON shows before a plan is made of it.

use rollplan_core::interrupt::Interrupt;

use super::complete::Listed;
use super::found::{Found, Metadata};
use super::select::near;
use super::{Reader, scan_all};
use crate::proto;
use crate::wire::error::{Error, Violations};

/// What Kubernetes JSON shows before a plan is made of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectsSummary {
    /// The Deployment. Its resource is that of the request's target.
    pub target: proto::Target,
    /// Whether no ReplicaSet of the Deployment seems to be missing.
    pub replica_sets_complete: bool,
    /// Whether no pod of these seems to be missing.
    pub pods_complete: bool,
}

/// What a caller states about its objects, and leaves to them to show otherwise.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shown {
    pub(crate) replica_sets_complete: Option<bool>,
    pub(crate) pods_complete: Option<bool>,
    /// What the objects show, once they have been read.
    pub(crate) summary: Option<ObjectsSummary>,
}

// === impl Shown ===

impl Shown {
    /// Notes what the objects show, and completes the snapshot.
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
    /// The Deployment, for example "Deployment shop/web".
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

/// What the JSON texts of a snapshot show. For callers who do not know what they were given, and so cannot promise that it is
/// complete.
///
/// # Errors
///
/// As [`compute_status`](crate::wire::compute_status), if it is not clear which Deployment is meant.
pub fn summarize_objects(
    snapshot: &proto::Snapshot,
    interrupt: &dyn Interrupt,
) -> Result<ObjectsSummary, Error> {
    let proto::Snapshot {
        objects_json,
        target,
        ..
    } = snapshot;
    let (found, is_continued) = scan_all(objects_json, Violations::default(), interrupt)?;
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
        let objects = near(found, owner, api_version, kind);
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
    Ok(ObjectsSummary {
        target: proto::Target {
            api_version: object.api_version.clone().into_owned(),
            kind: object.kind.clone().into_owned(),
            namespace: metadata.namespace.clone().into_owned(),
            name: metadata.name.clone().into_owned(),
            resource: target.map_or_else(String::new, |it| it.resource.clone()),
        },
        replica_sets_complete: !is_continued && listed.shows_every_replica_set(),
        pods_complete: !is_continued && listed.shows_every_pod(),
    })
}
