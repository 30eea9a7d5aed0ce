//! The cache that the watches update. The Deployment controller of Kubernetes in a world with a canary overlays it with the
//! answers to its own writes until the cache has caught up; the adapter returns its answers to the planner instead.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rollplan_core::snapshot::{Deployment, Snapshot};

use super::clamped;
use crate::pods::SimPod;
use crate::script::Kind;
use crate::server::{Change, Pending, Store, StoredSet, Writer, version_of};
use crate::tally::Tally;
use crate::world::World;

/// The cache and its overlay.
#[derive(Clone, Debug, Default)]
pub(crate) struct View {
    pub(crate) cached_deployment: Option<Arc<Deployment>>,
    /// By UID, like the other maps of ReplicaSets.
    pub(crate) cached_sets: BTreeMap<String, Arc<StoredSet>>,
    pub(crate) pods: BTreeMap<u32, Arc<SimPod>>,
    /// The answers to the writes of Kubernetes' own controller. Empty in other worlds.
    pub(crate) own_deployment: Option<Arc<Deployment>>,
    pub(crate) own_sets: BTreeMap<String, Arc<StoredSet>>,
}

/// The input of a plan, and what the checks need to know about it.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) snapshot: Snapshot,
    pub(crate) sets: BTreeMap<String, SeenSet>,
    /// The pods in the cache, whether they were sent or not.
    pub(crate) pods: BTreeMap<u32, Arc<SimPod>>,
}

/// A ReplicaSet in the input of a plan.
#[derive(Clone, Debug)]
pub(crate) struct SeenSet {
    pub(crate) size: i32,
    pub(crate) available: i32,
    pub(crate) lost: u32,
    pub(crate) observed: bool,
}

// === impl View ===

impl View {
    /// Lists all objects, which includes all changes that the watches have not delivered yet.
    pub(crate) fn list(store: &mut Store) -> Self {
        store.pending = Pending::default();
        let sets = store.sets.values();
        Self {
            cached_deployment: store.deployment.clone(),
            cached_sets: sets
                .map(|stored| (stored.set.metadata.uid.clone(), Arc::clone(stored)))
                .collect(),
            pods: store.pods.clone(),
            own_deployment: None,
            own_sets: BTreeMap::new(),
        }
    }

    /// Continues the watches: they deliver what has changed since.
    pub(super) fn resume(&self, store: &mut Store) {
        store.pending = Pending::default();
        let changed = |before: Option<u64>, after: Option<u64>| before != after;
        let mut sets: BTreeMap<&String, Option<&Arc<StoredSet>>> =
            self.cached_sets.keys().map(|uid| (uid, None)).collect();
        sets.extend(
            store
                .sets
                .values()
                .map(|it| (&it.set.metadata.uid, Some(it))),
        );
        let version = |stored: &Arc<StoredSet>| version_of(&stored.set.metadata);
        let sets = sets.into_iter().filter(|(uid, after)| {
            changed(self.cached_sets.get(*uid).map(version), after.map(version))
        });
        store.pending.sets = sets
            .map(|(uid, after)| Change {
                key: uid.clone(),
                object: after.cloned(),
                writer: Writer::Other,
            })
            .collect();
        let cached = self.cached_deployment.as_ref();
        let version = |deployment: &Arc<Deployment>| version_of(&deployment.metadata);
        if changed(cached.map(version), store.deployment.as_ref().map(version)) {
            let owner = store.deployment.as_ref().or(cached);
            let key = owner.map_or_else(String::new, |it| it.metadata.uid.clone());
            store.pending.deployments.push_back(Change {
                key,
                object: store.deployment.clone(),
                writer: Writer::Other,
            });
        }
        let numbers: BTreeSet<u32> = self.pods.keys().chain(store.pods.keys()).copied().collect();
        let pods = numbers.into_iter().filter(|number| {
            let [before, after] = [&self.pods, &store.pods].map(|pods| pods.get(number));
            !matches!((before, after), (Some(before), Some(after)) if Arc::ptr_eq(before, after))
        });
        store.pending.pods = pods
            .map(|number| Change {
                key: number,
                object: store.pods.get(&number).cloned(),
                writer: Writer::Other,
            })
            .collect();
    }

    pub(crate) fn deployment(&self) -> Option<&Arc<Deployment>> {
        self.own_deployment
            .as_ref()
            .or(self.cached_deployment.as_ref())
    }

    pub(crate) fn sets(&self) -> impl Iterator<Item = &Arc<StoredSet>> {
        let cached = self.cached_sets.iter();
        let cached = cached.filter(|(uid, _)| !self.own_sets.contains_key(*uid));
        let own = self.own_sets.values();
        cached.map(|(_, stored)| stored).chain(own)
    }

    /// Overlays the response to a write.
    pub(crate) fn overlay_set(&mut self, stored: &Arc<StoredSet>) {
        let uid = &stored.set.metadata.uid;
        let known = self.cached_sets.get(uid);
        if known
            .is_none_or(|known| version_of(&known.set.metadata) < version_of(&stored.set.metadata))
        {
            self.own_sets.insert(uid.clone(), Arc::clone(stored));
        }
    }

    pub(crate) fn overlay_deployment(&mut self, deployment: &Arc<Deployment>) {
        let version = version_of(&deployment.metadata);
        let known = self.cached_deployment.as_ref();
        if known.is_none_or(|known| version_of(&known.metadata) < version) {
            self.own_deployment = Some(Arc::clone(deployment));
        }
    }
}

impl World {
    /// Delivers the next change of a watch. Returns whether there was one.
    pub(crate) fn deliver(&mut self, kind: Kind) -> bool {
        let disturbs = match kind {
            Kind::Deployments => self.deliver_deployment(),
            Kind::Sets => self.deliver_set(),
            Kind::Pods => self.deliver_pod(),
        };
        let Some(disturbs) = disturbs else {
            return false;
        };
        self.tallies.count(Tally::Watched);
        if disturbs {
            self.adapter.disturb();
        }
        true
    }

    /// Delivers a change, and returns whether it is new and was not made by the adapter.
    fn deliver_deployment(&mut self) -> Option<bool> {
        let change = self.store.pending.deployments.pop_front()?;
        let version = change.object.as_ref().map(|it| version_of(&it.metadata));
        let is_known = self.is_known(&change.key, version);
        let view = &mut self.adapter.view;
        if let Some(own) = &view.own_deployment {
            let own = version_of(&own.metadata);
            if version.is_none_or(|version| version >= own) {
                view.own_deployment = None;
            }
        }
        view.cached_deployment = change.object;
        self.enqueue();
        Some(!is_known && change.writer == Writer::Other)
    }

    fn deliver_set(&mut self) -> Option<bool> {
        let change = self.store.pending.sets.pop_front()?;
        let version = change
            .object
            .as_ref()
            .map(|it| version_of(&it.set.metadata));
        let is_known = self.is_known(&change.key, version);
        let view = &mut self.adapter.view;
        if let Some(own) = view.own_sets.get(&change.key) {
            let own = version_of(&own.set.metadata);
            if version.is_none_or(|version| version >= own) {
                view.own_sets.remove(&change.key);
            }
        }
        match change.object {
            Some(object) => _ = view.cached_sets.insert(change.key, object),
            None => _ = view.cached_sets.remove(&change.key),
        }
        self.enqueue();
        Some(!is_known && change.writer == Writer::Other)
    }

    /// Whether a plan or an answer contained the version of an object, or a newer one.
    fn is_known(&self, uid: &str, version: Option<u64>) -> bool {
        let newest = self.adapter.newest.get(uid).copied().unwrap_or(0);
        newest == u64::MAX || version.is_some_and(|version| version <= newest)
    }

    /// A pod that has terminated enqueues its owner, because Recreate may be waiting for it.
    fn deliver_pod(&mut self) -> Option<bool> {
        let change = self.store.pending.pods.pop_front()?;
        let view = &mut self.adapter.view;
        let ended = match &change.object {
            Some(pod) => pod.is_evicted,
            None => true,
        };
        match change.object {
            Some(pod) => _ = view.pods.insert(change.key, pod),
            None => _ = view.pods.remove(&change.key),
        }
        if ended {
            self.enqueue();
        }
        Some(true)
    }

    fn enqueue(&mut self) {
        self.adapter.queued = true;
    }
}

// === impl Seen ===

impl Seen {
    pub(super) fn new<'s>(
        snapshot: Snapshot,
        sets: impl Iterator<Item = &'s Arc<StoredSet>>,
        view: &View,
    ) -> Self {
        let sets = sets.map(|stored| {
            let set = &stored.set;
            let seen = SeenSet {
                size: set.replicas,
                available: clamped(set),
                lost: stored.lost,
                observed: set.status.observed_generation >= set.metadata.generation,
            };
            (set.metadata.uid.clone(), seen)
        });
        Self {
            sets: sets.collect(),
            pods: view.pods.clone(),
            snapshot,
        }
    }

    /// The versions of the objects, by UID.
    pub(super) fn versions(&self) -> impl Iterator<Item = (String, u64)> {
        let Snapshot {
            deployment,
            replica_sets,
            ..
        } = &self.snapshot;
        let sets = replica_sets.iter().map(|set| &set.metadata);
        let all = std::iter::once(&deployment.metadata).chain(sets);
        all.map(|metadata| (metadata.uid.clone(), version_of(metadata)))
    }
}
