//! Infers whether a list of objects is complete. kubectl prints one List of all requested objects, which does not show
//! whether an absent object does not exist or was not requested. But Deployments and ReplicaSets report the number of
//! their pods.

use std::collections::BTreeMap;

use rollplan_core::revision::REVISION;

use super::found::{Found, Metadata};

/// An object and its metadata.
pub(crate) type Object<'o, 'a> = (&'o Found<'a>, &'o Metadata<'a>);

/// The listed objects in the namespace of an owner.
pub(crate) struct Listed<'o, 'a> {
    pub(crate) owner: Object<'o, 'a>,
    /// All ReplicaSets of the namespace.
    pub(crate) replica_sets: Vec<Object<'o, 'a>>,
    /// All pods of the namespace.
    pub(crate) pods: Vec<Object<'o, 'a>>,
}

// === impl Listed ===

impl Listed<'_, '_> {
    /// Whether the ReplicaSets of the Deployment appear complete: the pods that they report add up to those that the
    /// Deployment reports, and the ReplicaSet of its revision annotation is listed. ReplicaSets that it has not adopted
    /// yet do not count.
    pub(crate) fn shows_every_replica_set(&self) -> bool {
        let pods = |(object, _): Object<'_, '_>| {
            let status = object.members("status").unwrap_or_default();
            i128::from(status.integer("replicas").unwrap_or(0))
        };
        let own = || {
            let sets = self.replica_sets.iter().copied();
            sets.filter(|set| self.is_owned(set))
        };
        let (owner, _) = self.owner;
        let revision = owner.annotation(REVISION);
        own().map(pods).sum::<i128>() == pods(self.owner)
            && (revision.is_none() || own().any(|(set, _)| set.annotation(REVISION) == revision))
    }

    /// Whether the pods appear complete: with strategy Recreate, new pods are created when no old pod is listed.
    ///
    /// A list of pods is complete, unless a ReplicaSet of the Deployment reports more pods than are listed. An empty
    /// list is complete only if all ReplicaSets of the namespace report, for their latest generation, that they have no
    /// pods, including terminating ones. Before Kubernetes 1.35, ReplicaSets do not report terminating pods.
    pub(crate) fn shows_every_pod(&self) -> bool {
        let has_pods = !self.pods.is_empty();
        let mut listed: BTreeMap<&str, i64> = BTreeMap::new();
        for (_, pod) in &self.pods {
            if let Some(uid) = &pod.controller {
                *listed.entry(uid).or_default() += 1;
            }
        }
        self.replica_sets.iter().all(|set| {
            let (object, metadata) = set;
            let Some(status) = object.members("status") else {
                return has_pods;
            };
            if has_pods && !self.is_owned(set) {
                return true;
            }
            let terminating = status.integer("terminatingReplicas");
            let counted = status.integer("replicas").unwrap_or(0);
            let counted = counted.saturating_add(terminating.unwrap_or(0));
            let generation = object.members("metadata");
            let generation = generation.and_then(|it| it.integer("generation"));
            let observed = status.integer("observedGeneration").unwrap_or(0);
            let is_current = terminating.is_some() && observed >= generation.unwrap_or(0);
            let listed = listed.get(&*metadata.uid).copied().unwrap_or(0);
            counted <= listed && (is_current || has_pods)
        })
    }

    /// Whether the pods of an owner other than a Deployment appear complete: it reports no more pods than are listed.
    pub(crate) fn shows_own_pods(&self) -> bool {
        let (owner, _) = self.owner;
        let status = owner.members("status").unwrap_or_default();
        let counts = ["replicas", "currentNumberScheduled", "active"];
        let counts = counts.iter().filter_map(|field| status.integer(field));
        let own = self.pods.iter().filter(|pod| self.is_owned(pod)).count();
        counts
            .max()
            .is_none_or(|count| usize::try_from(count).is_ok_and(|count| count <= own))
    }

    fn is_owned(&self, (_, metadata): &Object<'_, '_>) -> bool {
        let (_, owner) = self.owner;
        metadata.controller.as_ref() == Some(&owner.uid)
    }
}
