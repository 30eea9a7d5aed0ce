//! A summary of Kubernetes JSON, inferred before planning.

use rollplan_core::interrupt::Interrupt;

use super::FIELD;
use super::complete::Listed;
use super::found::Found;
use super::index::ObjectIndex;
use super::kind::is_deployment;
use super::scan::Objects;
use super::select::choose;
use crate::error::{Error, Violations};
use crate::proto;

/// The owner in Kubernetes JSON, and whether the lists of its objects appear complete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectsSummary {
    /// The owner. Its resource is taken from the target of the request.
    pub target: proto::Target,
    /// Whether the ReplicaSets of the Deployment, or the ControllerRevisions of another object, appear complete.
    pub replica_sets_complete: bool,
    /// Whether its pods, or those of its ReplicaSets, appear complete.
    pub pods_complete: bool,
}

/// The caller's statements on complete lists. `None` infers them from the objects.
#[derive(Clone, Debug, Default)]
pub struct Shown {
    /// Whether the list of ReplicaSets is complete.
    pub replica_sets_complete: Option<bool>,
    /// Whether the list of pods is complete.
    pub pods_complete: Option<bool>,
    /// The summary, once the objects have been read.
    pub summary: Option<ObjectsSummary>,
}

// === impl Shown ===

impl Shown {
    /// Summarizes the objects, and completes the snapshot.
    pub fn complete(
        &mut self,
        snapshot: &mut proto::Snapshot,
        objects: &ObjectIndex<'_, Found<'_>>,
        is_continued: bool,
    ) -> Result<(), Error> {
        let summary = summarize(objects, is_continued, snapshot.target.as_ref())?;
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

/// Summarizes the objects of a snapshot, for callers that cannot state whether their lists are complete.
///
/// # Errors
///
/// [`Error::InvalidArgument`] if the owner is ambiguous or an object has no readable identity, [`Error::TooLarge`],
/// [`Error::Interrupted`].
pub fn summarize_objects(
    snapshot: &proto::Snapshot,
    interrupt: &dyn Interrupt,
) -> Result<ObjectsSummary, Error> {
    let mut violations = Violations::default();
    let Objects {
        found,
        is_continued,
    } = Objects::find(FIELD, &snapshot.objects, &mut violations, interrupt)?;
    violations.into_result()?;
    let objects = ObjectIndex::new(found, interrupt)?;
    summarize(&objects, is_continued, snapshot.target.as_ref())
}

fn summarize(
    objects: &ObjectIndex<'_, Found<'_>>,
    is_continued: bool,
    target: Option<&proto::Target>,
) -> Result<ObjectsSummary, Error> {
    let owner = choose(objects, target)?;
    let listed = Listed { owner, objects };
    let shows_pods = || {
        if is_deployment(owner) {
            listed.shows_every_pod()
        } else {
            listed.shows_own_pods()
        }
    };
    Ok(ObjectsSummary {
        target: proto::Target {
            api_version: owner.api_version.clone().into_owned(),
            kind: owner.kind.clone().into_owned(),
            namespace: owner.metadata.namespace.clone().into_owned(),
            name: owner.metadata.name.clone().into_owned(),
            resource: target.map_or_else(String::new, |it| it.resource.clone()),
            status_subresource: target.and_then(|it| it.status_subresource),
        },
        replica_sets_complete: !is_continued && listed.shows_every_revision(),
        pods_complete: !is_continued && shows_pods(),
    })
}
