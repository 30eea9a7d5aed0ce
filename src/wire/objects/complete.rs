//! Whether a list of objects looks complete. kubectl prints one List of everything that it was asked for, and nothing in it
//! tells objects that do not exist from objects that were not asked for. But a Deployment counts its pods, and so do its
//! ReplicaSets.

use std::collections::BTreeMap;

use rollplan_core::revision::REVISION;

use super::found::{Found, Metadata};

/// An object, with what tells whose it is.
pub(crate) type Object<'o, 'a> = (&'o Found<'a>, &'o Metadata<'a>);

/// What a list has of a Deployment and of its namespace.
pub(crate) struct Listed<'o, 'a> {
    pub(crate) owner: Object<'o, 'a>,
    /// All ReplicaSets of the namespace.
    pub(crate) replica_sets: Vec<Object<'o, 'a>>,
    /// All pods of the namespace.
    pub(crate) pods: Vec<Object<'o, 'a>>,
}

// === impl Listed ===

impl Listed<'_, '_> {
    /// Whether no ReplicaSet of the Deployment seems to be missing: the pods that those report which it controls add up to
    /// those that it reports, and the one of its annotated revision is there. It does not count what it has yet to adopt.
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

    /// Whether no pod seems to be missing: with strategy Recreate, new pods start once no old one is listed.
    ///
    /// A list of pods is complete, unless a ReplicaSet of the Deployment counts more than are listed. An empty one is
    /// complete only if every ReplicaSet of the namespace reports, for its latest size, that it has no pod, not even a
    /// terminating one; before Kubernetes 1.35 these are not counted.
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

    /// Whether no pod seems to be missing of an owner of another kind than a Deployment: it counts no more than are listed.
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
