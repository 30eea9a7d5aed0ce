//! The adapter's view of the cluster: the cache that the watches update, overlaid with the responses to its own writes
//! until the cache has caught up.

use std::collections::BTreeMap;
use std::sync::Arc;

use rollplan_core::snapshot::{Deployment, Snapshot};

use super::{clamped, set_version};
use crate::pods::SimPod;
use crate::script::Kind;
use crate::server::{Pending, Store, StoredSet, Writer, version_of};
use crate::tally::Tally;
use crate::world::World;

/// The cache and its overlay.
#[derive(Clone, Debug, Default)]
pub(crate) struct View {
    pub(crate) cached_deployment: Option<Arc<Deployment>>,
    /// By UID, like the other maps of ReplicaSets.
    pub(crate) cached_sets: BTreeMap<String, Arc<StoredSet>>,
    pub(crate) pods: BTreeMap<u32, Arc<SimPod>>,
    pub(crate) own_deployment: Option<Arc<Deployment>>,
    /// `None` for a deleted ReplicaSet.
    pub(crate) own_sets: BTreeMap<String, Option<Arc<StoredSet>>>,
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

    pub(crate) fn forget_own_writes(&mut self) {
        self.own_deployment = None;
        self.own_sets.clear();
    }

    pub(crate) fn deployment(&self) -> Option<&Arc<Deployment>> {
        self.own_deployment
            .as_ref()
            .or(self.cached_deployment.as_ref())
    }

    pub(crate) fn sets(&self) -> impl Iterator<Item = &Arc<StoredSet>> {
        let cached = self.cached_sets.iter();
        let cached = cached.filter(|(uid, _)| !self.own_sets.contains_key(*uid));
        let own = self.own_sets.values().flatten();
        cached.map(|(_, stored)| stored).chain(own)
    }

    pub(crate) fn set(&self, uid: &str) -> Option<&Arc<StoredSet>> {
        match self.own_sets.get(uid) {
            Some(own) => own.as_ref(),
            None => self.cached_sets.get(uid),
        }
    }

    /// Overlays the response to a write.
    pub(crate) fn overlay_set(&mut self, stored: &Arc<StoredSet>) {
        let uid = &stored.set.metadata.uid;
        let known = self.cached_sets.get(uid);
        if known.is_none_or(|known| set_version(known) < set_version(stored)) {
            self.own_sets.insert(uid.clone(), Some(Arc::clone(stored)));
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
        let view = &mut self.adapter.view;
        let own = view.own_deployment.as_ref();
        let known = own.is_some_and(|own| {
            let delivered = change.object.as_ref();
            own.metadata.uid == change.key
                && delivered
                    .is_some_and(|object| version_of(&object.metadata) <= version_of(&own.metadata))
        });
        let caught_up = own.is_some_and(|own| {
            let delivered = change.object.as_ref();
            delivered.is_none_or(|object| version_of(&object.metadata) >= version_of(&own.metadata))
        });
        if caught_up {
            view.own_deployment = None;
        }
        view.cached_deployment = change.object;
        self.enqueue();
        Some(!known && change.writer == Writer::Other)
    }

    fn deliver_set(&mut self) -> Option<bool> {
        let change = self.store.pending.sets.pop_front()?;
        let view = &mut self.adapter.view;
        let own = view.own_sets.get(&change.key);
        let version = change.object.as_deref().map(set_version);
        let own_version = own.map(|own| own.as_deref().map(set_version));
        let known = match (own_version, version) {
            (Some(Some(own)), Some(version)) => version <= own,
            // The adapter deleted the object, so every change that is still delivered is older.
            (Some(None), _) => true,
            (Some(Some(_)), None) | (None, _) => false,
        };
        let caught_up = match (own_version, version) {
            (Some(Some(own)), Some(version)) => version >= own,
            (_, None) => true,
            (Some(None) | None, Some(_)) => false,
        };
        if caught_up {
            view.own_sets.remove(&change.key);
        }
        match change.object {
            Some(object) => _ = view.cached_sets.insert(change.key, object),
            None => _ = view.cached_sets.remove(&change.key),
        }
        self.enqueue();
        Some(!known && change.writer == Writer::Other)
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

    /// Enqueues the key without a delay by the rate limiter.
    fn enqueue(&mut self) {
        self.adapter.queued = true;
        self.adapter.not_before = self.now;
    }
}

// === impl Seen ===

impl Seen {
    pub(super) fn new(snapshot: Snapshot, view: &View) -> Self {
        let sets = view.sets().map(|stored| {
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
}
