//! What Kubernetes JSON shows before a plan is made of it.

use rollplan_core::interrupt::Interrupt;

use super::complete::Listed;
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
    let mut reader = Reader::new(interrupt);
    let Some(owner) = reader.choose(&found, target.as_ref()) else {
        return Err(Error::InvalidArgument(reader.violations));
    };
    let all = |api_version, kind| {
        let objects = near(&found, owner, api_version, kind);
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
            resource: target
                .as_ref()
                .map_or_else(String::new, |it| it.resource.clone()),
        },
        replica_sets_complete: !is_continued && listed.shows_every_replica_set(),
        pods_complete: !is_continued && listed.shows_every_pod(),
    })
}
