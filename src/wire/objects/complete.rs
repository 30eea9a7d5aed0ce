//! Infers whether a list of objects is complete. kubectl prints one List of all requested objects, which does not show
//! whether an absent object does not exist or was not requested. But Deployments and ReplicaSets report the number of
//! their pods.

use std::collections::{BTreeMap, BTreeSet};

use rollplan_core::revision::REVISION;

use super::found::Found;
use super::index::ObjectIndex;
use super::kind::has_controller_revisions;
use crate::read::objects;

objects! {
    /// The fields that show how many pods an object has.
    struct Counted {
        metadata: CountedMetadata = "metadata",
        status: Option<Counts> = "status",
    }

    struct CountedMetadata {
        generation: i64 = "generation",
        annotations: BTreeMap<String, String> = "annotations",
    }

    struct Counts {
        replicas: i64 = "replicas",
        terminating_replicas: Option<i64> = "terminatingReplicas",
        observed_generation: i64 = "observedGeneration",
        /// Of a DaemonSet.
        current_number_scheduled: i64 = "currentNumberScheduled",
        /// Of a Job.
        active: i64 = "active",
        /// Of a StatefulSet.
        current_revision: String = "currentRevision",
        /// Of a StatefulSet.
        update_revision: String = "updateRevision",
    }
}

/// The listed objects, of which those in the namespace of an owner count.
pub struct Listed<'o, 'a, T> {
    /// The owner.
    pub owner: &'o Found<'a>,
    /// All objects of the request.
    pub objects: &'o ObjectIndex<'a, T>,
}

// === impl Listed ===

impl<'o, 'a, T: AsRef<Found<'a>>> Listed<'o, 'a, T> {
    /// Whether the objects with the templates of the owner appear complete. Those of a StatefulSet or a DaemonSet do if any
    /// are listed, and those that the status names are among them.
    pub fn shows_every_revision(&self) -> bool {
        let Found {
            api_version, kind, ..
        } = self.owner;
        if !has_controller_revisions(api_version, kind) {
            return self.shows_every_replica_set();
        }
        let owner: Counted = self.owner.read_leniently();
        let status = owner.status.unwrap_or_default();
        let own = self.controlled_by(self.owner);
        let own = own.filter(|object| object.is_controller_revision());
        let names: BTreeSet<&str> = own.map(|object| &*object.metadata.name).collect();
        let mut named = [&status.current_revision, &status.update_revision].into_iter();
        !names.is_empty() && named.all(|name| name.is_empty() || names.contains(name.as_str()))
    }

    /// Whether the ReplicaSets of the Deployment appear complete: the pods that they report add up to those that the
    /// Deployment reports, and the ReplicaSet of its revision annotation is listed. ReplicaSets that it has not adopted
    /// yet do not count.
    fn shows_every_replica_set(&self) -> bool {
        let pods = |counted: &Counted| {
            let status = counted.status.as_ref();
            i128::from(status.map_or(0, |status| status.replicas))
        };
        let revision = |counted: &Counted| counted.metadata.annotations.get(REVISION).cloned();
        let owner: Counted = self.owner.read_leniently();
        let own = self.controlled_by(self.owner);
        let own = own.filter(|object| object.is_replica_set());
        let own: Vec<Counted> = own.map(Found::read_leniently).collect();
        let wanted = revision(&owner);
        own.iter().map(pods).sum::<i128>() == pods(&owner)
            && (wanted.is_none() || own.iter().any(|set| revision(set) == wanted))
    }

    /// Whether the pods appear complete: with strategy Recreate, new pods are created when no old pod is listed.
    ///
    /// A list of pods is complete, unless a ReplicaSet of the Deployment reports more pods than are listed. An empty
    /// list is complete only if all ReplicaSets of the namespace report, for their latest generation, that they have no
    /// pods, including terminating ones. Before Kubernetes 1.35, ReplicaSets do not report terminating pods.
    pub fn shows_every_pod(&self) -> bool {
        let is_near = |object: &Found<'_>| object.is_in_namespace_of(self.owner);
        let has_pods = self.objects.pods().any(|(_, pod)| is_near(pod));
        let sets = self.objects.replica_sets().map(|(_, set)| set);
        let mut sets = sets.filter(|set| is_near(set) && (!has_pods || self.is_owned(set)));
        sets.all(|set| {
            let counted: Counted = set.read_leniently();
            let Some(status) = counted.status else {
                return has_pods;
            };
            let terminating = status.terminating_replicas;
            let count = status.replicas.saturating_add(terminating.unwrap_or(0));
            let is_current =
                terminating.is_some() && status.observed_generation >= counted.metadata.generation;
            count <= self.count_pods(set) && (is_current || has_pods)
        })
    }

    /// Whether the pods of an owner other than a Deployment appear complete: it reports no more pods than are listed.
    pub fn shows_own_pods(&self) -> bool {
        let counted: Counted = self.owner.read_leniently();
        let status = counted.status.unwrap_or_default();
        let counts = [
            status.replicas,
            status.current_number_scheduled,
            status.active,
        ];
        let own = self.count_pods(self.owner);
        counts.iter().all(|count| *count <= own)
    }

    fn count_pods(&self, controller: &Found<'_>) -> i64 {
        let pods = self.controlled_by(controller);
        let count = pods.filter(|object| object.is_pod()).count();
        i64::try_from(count).unwrap_or(i64::MAX)
    }

    fn controlled_by(&self, controller: &Found<'_>) -> impl Iterator<Item = &'o Found<'a>> {
        let objects = self.objects.controlled_by(&controller.metadata.uid);
        let objects = objects.map(|(_, object)| object);
        objects.filter(|object| object.is_in_namespace_of(self.owner))
    }

    fn is_owned(&self, object: &Found<'_>) -> bool {
        object.metadata.controller_uid() == Some(&self.owner.metadata.uid)
    }
}
