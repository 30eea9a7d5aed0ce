//! Determines which states are equivalent: only the order of versions and generations matters, and pods of a ReplicaSet
//! that have the same state are interchangeable unless the adapter observes them individually.

use std::collections::BTreeMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use rollplan_core::snapshot::{Deployment, DeploymentStatus, ReplicaSet, Strategy};

use crate::pods::SimPod;
use crate::server::{StoredSet, version_of};
use crate::world::World;

/// The versions of the objects in a state, and a hash of their content.
struct Versions {
    contents: BTreeMap<u64, u64>,
    /// The latest generation of each ReplicaSet, by UID.
    generations: BTreeMap<String, i64>,
}

/// A hash that is the same for states that no actor can distinguish.
pub(super) fn fingerprint(world: &World) -> u64 {
    let mut versions = Versions {
        contents: BTreeMap::new(),
        generations: BTreeMap::new(),
    };
    let store = &world.store;
    let view = &world.adapter.view;
    let seen = world
        .adapter
        .running
        .as_ref()
        .map(|running| &running.seen.snapshot);

    let pending_sets = store
        .pending
        .sets
        .iter()
        .filter_map(|change| change.object.as_ref());
    let own_sets = view.own_sets.values();
    let sets = store.sets.values().chain(view.cached_sets.values());
    for stored in sets.chain(own_sets).chain(pending_sets) {
        versions.note_generation(&stored.set);
    }
    let pending_sets = store
        .pending
        .sets
        .iter()
        .filter_map(|change| change.object.as_ref());
    let own_sets = view.own_sets.values();
    let sets = store.sets.values().chain(view.cached_sets.values());
    for stored in sets.chain(own_sets).chain(pending_sets) {
        versions.add_set(&stored.set, Some(stored));
    }
    for set in seen.iter().flat_map(|seen| &seen.replica_sets) {
        versions.add_set(set, None);
    }
    let pending = store.pending.deployments.iter();
    let deployments = pending.filter_map(|change| change.object.as_ref());
    let deployments = deployments
        .chain(&store.deployment)
        .chain(&view.cached_deployment)
        .chain(&view.own_deployment);
    for deployment in deployments {
        versions.add_deployment(deployment);
    }
    if let Some(seen) = seen {
        versions.add_deployment(&seen.deployment);
    }

    let mut hasher = DefaultHasher::new();
    for content in versions.contents.values() {
        content.hash(&mut hasher);
    }
    let rank = |version: u64| versions.contents.range(..version).count();
    let of_set = |stored: &Arc<StoredSet>| rank(version_of(&stored.set.metadata));
    let of_deployment = |deployment: &Arc<Deployment>| rank(version_of(&deployment.metadata));

    store
        .deployment
        .as_ref()
        .map(of_deployment)
        .hash(&mut hasher);
    // The clock is stopped, so the times of its conditions are equal.
    format!("{:?}", world.native).hash(&mut hasher);
    for stored in store.sets.values() {
        (of_set(stored), world.lost_of(&stored.set.metadata.uid)).hash(&mut hasher);
    }
    for change in &store.pending.deployments {
        change.object.as_ref().map(of_deployment).hash(&mut hasher);
    }
    for change in &store.pending.sets {
        (&change.key, change.object.as_ref().map(of_set)).hash(&mut hasher);
    }
    view.cached_deployment
        .as_ref()
        .map(of_deployment)
        .hash(&mut hasher);
    view.own_deployment
        .as_ref()
        .map(of_deployment)
        .hash(&mut hasher);
    for (uid, stored) in &view.cached_sets {
        (uid, of_set(stored)).hash(&mut hasher);
    }
    for (uid, stored) in &view.own_sets {
        (uid, of_set(stored)).hash(&mut hasher);
    }
    hash_pods(world, &mut hasher);
    hash_adapter(world, &rank, &mut hasher);
    hasher.finish()
}

fn hash_adapter(world: &World, rank: &impl Fn(u64) -> usize, hasher: &mut impl Hasher) {
    let adapter = &world.adapter;
    (adapter.queued, &adapter.undisturbed).hash(hasher);
    let state = &adapter.state;
    (state.is_verified, state.is_reaction, state.attempts.min(2)).hash(hasher);
    for (uid, known) in &state.known {
        let version = rank(known.version.parse().unwrap_or(u64::MAX));
        (uid, known.change as u8, version).hash(hasher);
    }
    for call in &state.pending {
        (call.index, &call.id.kind, &call.id.name).hash(hasher);
    }
    for (index, outcome) in &adapter.answers {
        let (code, version) = outcome.code_and_version();
        (index, code, version.map(rank)).hash(hasher);
    }
    let Some(running) = &adapter.running else {
        return;
    };
    let seen = &running.seen.snapshot;
    (
        running.next,
        running.owner_checked,
        rank(version_of(&seen.deployment.metadata)),
    )
        .hash(hasher);
    for set in &seen.replica_sets {
        rank(version_of(&set.metadata)).hash(hasher);
    }
    for failure in &seen.failures {
        (&failure.call.name, &failure.call.kind, failure.http_code).hash(hasher);
    }
    for step in &running.plan.steps {
        step.summary().hash(hasher);
    }
}

/// The parts of a pod that matter.
fn pod_state(pod: &SimPod) -> impl Hash + Ord {
    (
        pod.set_uid.to_string(),
        (pod.stored.state, pod.is_crashed, pod.is_evicted),
        pod.stored.node,
        pod.stored.deleting.is_some(),
        pod.stored.restarts,
    )
}

fn hash_pods(world: &World, hasher: &mut impl Hasher) {
    let store = &world.store;
    let recreate = store
        .deployment
        .iter()
        .chain(&world.adapter.view.cached_deployment)
        .any(|deployment| deployment.spec.strategy == Strategy::Recreate);
    if !recreate {
        let mut pods: Vec<_> = store.pods.values().map(|pod| pod_state(pod)).collect();
        pods.sort();
        return pods.hash(hasher);
    }
    // Gaps in the numbers do not matter.
    let view = &world.adapter.view;
    let seen = world
        .adapter
        .running
        .as_ref()
        .map(|running| &running.seen.pods);
    let numbers = store.pods.keys().chain(view.pods.keys());
    let numbers = numbers.chain(store.pending.pods.iter().map(|change| &change.key));
    let mut numbers: Vec<u32> = numbers
        .chain(seen.iter().flat_map(|pods| pods.keys()))
        .copied()
        .collect();
    numbers.sort_unstable();
    numbers.dedup();
    for number in &numbers {
        store
            .pods
            .get(number)
            .map(|pod| pod_state(pod))
            .hash(hasher);
        view.pods.get(number).map(|pod| pod_state(pod)).hash(hasher);
        let seen = seen.and_then(|pods| pods.get(number));
        seen.map(|pod| pod_state(pod)).hash(hasher);
    }
    for change in &store.pending.pods {
        let at = numbers.binary_search(&change.key).ok();
        (at, change.object.as_ref().map(|pod| pod_state(pod))).hash(hasher);
    }
}

// === impl Versions ===

impl Versions {
    fn note_generation(&mut self, set: &ReplicaSet) {
        let metadata = &set.metadata;
        let latest = self.generations.entry(metadata.uid.clone()).or_default();
        *latest = (*latest).max(metadata.generation);
    }

    fn add_set(&mut self, set: &ReplicaSet, stored: Option<&StoredSet>) {
        let metadata = &set.metadata;
        let version = version_of(metadata);
        if self.contents.contains_key(&version) {
            return;
        }
        let latest = self.generations.get(&metadata.uid).copied().unwrap_or(0);
        let mut hasher = DefaultHasher::new();
        (
            &metadata.name,
            &metadata.uid,
            &metadata.annotations,
            &metadata.labels,
        )
            .hash(&mut hasher);
        metadata.owner_references.len().hash(&mut hasher);
        let status = &set.status;
        (
            set.replicas,
            latest - metadata.generation,
            set.min_ready_seconds,
        )
            .hash(&mut hasher);
        let observed = match status.observed_generation {
            0 => None,
            observed => Some(latest - observed),
        };
        (
            observed,
            status.replicas,
            status.ready_replicas,
            status.available_replicas,
        )
            .hash(&mut hasher);
        (status.terminating_replicas, status.conditions.len()).hash(&mut hasher);
        stored
            .map(|stored| (stored.lost, stored.changed_by))
            .hash(&mut hasher);
        self.contents.insert(version, hasher.finish());
    }

    fn add_deployment(&mut self, deployment: &Deployment) {
        let metadata = &deployment.metadata;
        let version = version_of(metadata);
        if self.contents.contains_key(&version) {
            return;
        }
        let mut hasher = DefaultHasher::new();
        let spec = &deployment.spec;
        (&metadata.uid, metadata.generation, &metadata.annotations).hash(&mut hasher);
        metadata.deletion_timestamp.is_some().hash(&mut hasher);
        (
            spec.replicas,
            spec.paused,
            spec.min_ready_seconds,
            spec.revision_history_limit,
        )
            .hash(&mut hasher);
        format!("{:?} {:?}", spec.strategy, spec.template.canonical_sha256()).hash(&mut hasher);
        hash_status(&deployment.status, &mut hasher);
        self.contents.insert(version, hasher.finish());
    }
}

fn hash_status(status: &DeploymentStatus, hasher: &mut impl Hasher) {
    (
        status.observed_generation,
        status.replicas,
        status.updated_replicas,
    )
        .hash(hasher);
    (
        status.ready_replicas,
        status.available_replicas,
        status.unavailable_replicas,
    )
        .hash(hasher);
    (status.terminating_replicas, status.collision_count).hash(hasher);
    for condition in &status.conditions {
        (
            &condition.kind,
            &condition.status,
            &condition.reason,
            &condition.message,
        )
            .hash(hasher);
    }
}
