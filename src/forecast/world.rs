//! The cluster of a simulation: the ReplicaSet controller, whose model is the crate `rollplan-simulation`, the scheduler and
//! the kubelets, between the times at which something happens.
//!
//! Times are milliseconds since the snapshot. Kubernetes stores whole seconds, and so do the pods.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use rollplan_core::snapshot::{ObjectMeta, OwnerReference, Pod, ReplicaSet, Snapshot};
use rollplan_core::time::Time;
use rollplan_simulation::pods::{PodState, StoredPod};
use rollplan_simulation::replica_set::{self, PodCounts, Sync};

use crate::change::is_own;
use crate::queue::{Event, Queue};
use crate::random::Random;
use crate::room;
use crate::times::{Model, SampleTimes, has_ended, millis_between, ready_since};

/// The time from a write of an object until a controller has observed it and has made its own writes (a watch event, and one
/// or a few calls of the API server), if the control plane has nothing else to do.
const LATENCY_MIN: i64 = 5;
/// Each sample draws how busy the control plane is: its latency is [`LATENCY_MIN`], doubled up to this many times (5 to 320
/// ms). `tests/e2e/forecast` compares this with Kubernetes.
const LATENCY_DOUBLINGS: i64 = 6;
/// How much earlier or later than others a pod that starts alike may become ready: the API server and the kubelets handle
/// one after another.
const READY_SPREAD: i64 = 200;
/// The longest time between two attempts to create pods (`DefaultControllerRateLimiter`).
const BACK_OFF_MAX: i64 = 1_000_000;

/// Limits of the cluster that a snapshot does not show.
#[derive(Clone, Copy, Debug)]
pub struct ClusterLimits {
    /// The number of pods that can be created, in addition to those of the snapshot, before the quota of the namespace is
    /// used up. A pod that is removed frees its share.
    pub pods_in_quota: Option<i32>,
    /// The number of pods that fit on the nodes, in addition to those of the snapshot. Further pods wait until others are
    /// removed.
    pub pods_on_nodes: Option<i32>,
    /// The delay of the first retry of the ReplicaSet controller after it could not create a pod, in milliseconds. It
    /// doubles after each attempt.
    pub create_back_off: i64,
}

// === impl ClusterLimits ===

impl ClusterLimits {
    /// Adds the limits that a snapshot after the changes shows to those that the caller gives. A limit is 0 if a pod cannot
    /// be created or scheduled now, and the changes do not resolve this.
    pub(crate) fn with_observed(self, snapshot: &Snapshot) -> Self {
        let in_quota = || room::exceeds_quota(snapshot).then_some(0);
        let on_nodes = || room::lacks_nodes(snapshot).then_some(0);
        Self {
            pods_in_quota: self.pods_in_quota.or_else(in_quota),
            pods_on_nodes: self.pods_on_nodes.or_else(on_nodes),
            ..self
        }
    }
}

impl Default for ClusterLimits {
    /// No limits, and the back-off of Kubernetes.
    fn default() -> Self {
        Self {
            pods_in_quota: None,
            pods_on_nodes: None,
            create_back_off: 5,
        }
    }
}

/// A pod of the world.
#[derive(Clone, Debug)]
struct WorldPod {
    stored: StoredPod,
    /// The index of its ReplicaSet.
    set: usize,
    /// The number of pods that became ready one after the other before it was created, and itself.
    wave: i32,
    /// Whether it never becomes ready.
    is_stuck: bool,
    /// Whether it counts as available.
    is_available: bool,
}

/// The pods of a ReplicaSet.
#[derive(Clone, Debug)]
pub(crate) struct SetPods {
    uid: Arc<str>,
    pub(crate) name: Arc<str>,
    /// Whether it belongs to the Deployment, or will after its adoption. Nothing is known about the pods of others.
    is_own: bool,
    /// Its index in the snapshot, unless it is deleted.
    index: Option<usize>,
    /// The numbers of its active pods.
    active: Vec<u32>,
    ready: usize,
    pub(crate) available: i32,
    /// The pods that were ready and did not count as available at the last sync, and since when they are ready, in ascending
    /// order. Some may have been deleted.
    ready_since: VecDeque<(i64, u32)>,
    /// `minReadySeconds` when they were counted.
    min_ready: i32,
    terminating: usize,
    /// When its next sync is due.
    due: Option<i64>,
    /// The time until the next attempt to create pods, if the last one failed, and its time.
    back_off: Option<(i64, i64)>,
}

/// The cluster.
#[derive(Clone, Debug)]
pub(crate) struct World {
    pub(crate) snapshot: Snapshot,
    pub(crate) sets: Vec<SetPods>,
    pods: Vec<Option<WorldPod>>,
    pub(crate) queue: Queue,
    /// The time of the snapshot.
    start: Time,
    pub(crate) now: i64,
    /// The time from a write of an object until a controller has observed it and has made its own writes.
    latency: i64,
    /// When the next sync of the Deployment is due.
    pub(crate) deployment_due: Option<i64>,
    pods_in_quota: Option<i64>,
    pods_on_nodes: Option<i64>,
    create_back_off: i64,
    /// The pods that wait for a node.
    unscheduled: VecDeque<u32>,
    /// The number of active pods on each node that is known, which is at least one.
    pods_by_node: Vec<usize>,
    /// When each of these nodes has the images of new pods. `None` if no pod waits for them there yet.
    images_at: Vec<Option<i64>>,
    /// Whether ReplicaSets report their terminating pods.
    reports_terminating: bool,
    /// The highest wave of a pod that is ready.
    wave: i32,
    pub(crate) waves: i32,
    pub(crate) totals: Totals,
}

/// The numbers of pods at one time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    pub(crate) pods: i32,
    pub(crate) available: i32,
    pub(crate) terminating: i32,
}

/// The random part of a world.
#[derive(Debug)]
pub(crate) struct Chance {
    pub(crate) random: Random,
    pub(crate) times: SampleTimes,
    /// Whether pods of the new ReplicaSet become ready.
    pub(crate) new_pods_start: bool,
}

// === impl Chance ===

impl Chance {
    /// When a pod becomes ready that takes this time to start: a little earlier or later than others that start alike.
    fn ready_after(&mut self, start: i64) -> i64 {
        (start + self.random.below(2 * READY_SPREAD) - READY_SPREAD).max(1)
    }
}

// === impl SetPods ===

impl SetPods {
    pub(crate) fn pods(&self) -> i32 {
        i32::try_from(self.active.len()).unwrap_or(i32::MAX)
    }

    pub(crate) fn is_new(&self, snapshot: &Snapshot) -> bool {
        let set = self
            .index
            .and_then(|index| snapshot.replica_sets.get(index));
        let template = &snapshot.deployment.spec.template;
        set.is_some_and(|set| set.template.same_as(template))
    }
}

// === impl World ===

impl World {
    /// The world at the time of a snapshot. Nothing is due yet.
    pub(crate) fn new(
        snapshot: Snapshot,
        limits: ClusterLimits,
        model: &Model,
        failing: &BTreeSet<String>,
    ) -> Self {
        let sets = &snapshot.replica_sets;
        let reports_terminating = sets.is_empty()
            || sets.iter().any(|set| {
                let status = &set.status;
                status.terminating_replicas.is_some() || status.observed_generation == 0
            });
        let ClusterLimits {
            pods_in_quota,
            pods_on_nodes,
            create_back_off,
        } = limits;
        let mut images_at: Vec<Option<i64>> = model
            .nodes()
            .map(|is_missing| (!is_missing).then_some(0))
            .collect();
        if images_at.is_empty() {
            images_at.push(Some(0));
        }
        let mut world = Self {
            sets: Vec::new(),
            pods: Vec::new(),
            queue: Queue::default(),
            start: snapshot.now,
            now: 0,
            latency: LATENCY_MIN,
            deployment_due: None,
            pods_in_quota: pods_in_quota.map(i64::from),
            pods_on_nodes: pods_on_nodes.map(i64::from),
            create_back_off,
            unscheduled: VecDeque::new(),
            pods_by_node: vec![0; images_at.len()],
            images_at,
            reports_terminating,
            wave: 0,
            waves: 0,
            totals: Totals::default(),
            snapshot,
        };
        let observed = std::mem::replace(&mut world.snapshot.pods, Arc::from([]));
        world.find_new_sets();
        let own = world.sets.iter().enumerate().filter(|(_, set)| set.is_own);
        let by_uid: BTreeMap<Arc<str>, usize> = own
            .map(|(index, set)| (Arc::clone(&set.uid), index))
            .collect();
        for pod in observed.iter().filter(|pod| !has_ended(pod)) {
            let owner = pod.metadata.controller();
            if let Some(set) = owner.and_then(|owner| by_uid.get(owner.uid.as_str())) {
                let is_waiting =
                    world.pods_on_nodes.is_none() && room::is_unschedulable(&world.snapshot, pod);
                let fails = is_waiting || failing.contains(&pod.metadata.uid);
                world.observe(pod, *set, model, fails);
            }
        }
        for set in 0..world.sets.len() {
            world.count_again(set);
            world.count_available(set);
        }
        world
    }

    /// Adds a pod of the snapshot.
    fn observe(&mut self, pod: &Pod, set: usize, model: &Model, fails: bool) {
        let deleting = pod.metadata.deletion_timestamp;
        let ready_since = ready_since(pod).filter(|_| deleting.is_none());
        let created = pod.metadata.creation_timestamp.unwrap_or(self.start);
        let is_scheduled = !pod.node_name.is_empty() || self.pods_on_nodes.is_none();
        let state = match (ready_since, is_scheduled) {
            (Some(_), _) => PodState::Ready,
            (None, true) => PodState::Running,
            (None, false) => PodState::Pending,
        };
        let number = u32::try_from(self.pods.len()).unwrap_or(u32::MAX);
        let age = millis_between(created, self.start);
        let node = model.position_of_node(&pod.node_name).unwrap_or(0);
        let node = u32::try_from(node).ok();
        let node = node.filter(|_| is_scheduled || ready_since.is_some());
        self.pods.push(Some(WorldPod {
            stored: StoredPod {
                number,
                uid: digits(&pod.metadata.uid),
                state,
                node,
                created: created.seconds(),
                ready_since: ready_since.map(Time::seconds),
                restarts: 0,
                deleting: deleting.map(Time::seconds),
            },
            set,
            wave: 0,
            is_stuck: ready_since.is_none() && (fails || age > model.stuck_after),
            is_available: false,
        }));
        let members = &mut self.sets[set];
        if deleting.is_some() {
            members.terminating += 1;
            self.totals.terminating += 1;
            return;
        }
        members.active.push(number);
        members.ready += usize::from(state == PodState::Ready);
        self.totals.pods += 1;
        if let Some(node) = node {
            self.pods_by_node[node as usize] += 1;
        }
        if state == PodState::Pending {
            self.unscheduled.push_back(number);
        }
    }

    /// Makes the first syncs and the changes of observed pods due.
    pub(crate) fn begin(&mut self, model: &Model, chance: &mut Chance) {
        // How busy the control plane is, the snapshot does not show.
        self.latency = LATENCY_MIN << chance.random.below(LATENCY_DOUBLINGS + 1);
        self.make_deployment_due(self.after_sync());
        for set in 0..self.sets.len() {
            self.make_due(set, self.after_sync());
        }
        for number in 0..self.pods.len() {
            let Some(pod) = &self.pods[number] else {
                continue;
            };
            let stored = &pod.stored;
            let number = stored.number;
            let time = |seconds| Time::new(seconds, 0).unwrap_or(self.start);
            if let Some(last) = stored.deleting {
                // The server adds the grace period to the time of the deletion.
                let grace = model.grace / 1000;
                let age = millis_between(time(last - grace), self.start);
                let rest = chance.times.rest_of_termination(age, &mut chance.random);
                self.queue.add(rest, Event::Terminated(number));
            } else if stored.state == PodState::Running && self.starts(pod, chance) {
                let age = millis_between(time(stored.created), self.start);
                let (set, node) = (pod.set, stored.node);
                let rest = self.rest_of_start(set, node, age, chance);
                let ready = chance.ready_after(rest);
                self.queue.add(ready, Event::Ready(number));
            }
        }
        self.schedule(chance);
    }

    /// The time that a pod of this age still takes to start. If its node has to pull the images of new pods, it is the one
    /// that waits for them.
    fn rest_of_start(
        &mut self,
        set: usize,
        node: Option<u32>,
        age: i64,
        chance: &mut Chance,
    ) -> i64 {
        let Chance { random, times, .. } = chance;
        let is_new = self.sets[set].is_new(&self.snapshot);
        let images_at = node.and_then(|node| self.images_at.get_mut(node as usize));
        match images_at {
            Some(images_at @ None) if is_new => {
                let rest = times.rest_of_first_start(age, random);
                *images_at = Some((rest - times.start(random)).max(0));
                rest
            }
            _ => times.rest_of_start(age, random),
        }
    }

    /// The time that a pod takes to start that is scheduled now. If its node has to pull the images of new pods, the first
    /// one takes longer, and the others wait until it has pulled them.
    fn start(&mut self, set: usize, node: usize, chance: &mut Chance) -> i64 {
        let Chance { random, times, .. } = chance;
        let start = times.start(random);
        if !self.sets[set].is_new(&self.snapshot) {
            return start;
        }
        let first = || self.now + (times.first_start(random) - start).max(0);
        let images_at = *self.images_at[node].get_or_insert_with(first);
        start + (images_at - self.now).max(0)
    }

    /// The node on which the scheduler places the next pod: one with the fewest pods. A real scheduler has more reasons.
    fn choose_node(&self, random: &mut Random) -> usize {
        let fewest = self.pods_by_node.iter().min();
        let nodes = self.pods_by_node.iter().enumerate();
        let best = nodes.filter(|(_, pods)| Some(*pods) == fewest);
        let best: Vec<usize> = best.map(|(node, _)| node).collect();
        best[random.index(best.len())]
    }

    fn starts(&self, pod: &WorldPod, chance: &Chance) -> bool {
        !pod.is_stuck && (chance.new_pods_start || !self.sets[pod.set].is_new(&self.snapshot))
    }

    /// The current time.
    pub(crate) fn time(&self) -> Time {
        let nanos = i64::from(self.start.nanos()) + self.now % 1000 * 1_000_000;
        let seconds = self.now / 1000 + nanos / 1_000_000_000;
        let nanos = u32::try_from(nanos % 1_000_000_000).unwrap_or(0);
        let time = self.start.plus_seconds(seconds).seconds();
        Time::new(time, nanos).unwrap_or(Time::MAX)
    }

    fn seconds(&self) -> i64 {
        self.time().seconds()
    }

    /// When a controller that observes a write of now has made its own writes.
    pub(crate) fn after_sync(&self) -> i64 {
        self.now + self.latency
    }

    /// Makes a sync of the Deployment due at this time, unless an earlier one is.
    pub(crate) fn make_deployment_due(&mut self, time: i64) {
        if self.deployment_due.is_none_or(|due| due > time) {
            self.deployment_due = Some(time);
            self.queue.add(time, Event::Deployment);
        }
    }

    /// Makes a sync of a ReplicaSet due at this time, unless an earlier one is.
    fn make_due(&mut self, set: usize, time: i64) {
        let SetPods { due, is_own, .. } = &mut self.sets[set];
        if *is_own && due.is_none_or(|due| due > time) {
            *due = Some(time);
            self.queue.add(time, Event::ReplicaSet(set));
        }
    }

    /// Whether a sync of the ReplicaSet is due now.
    pub(crate) fn is_due(&self, set: usize) -> bool {
        self.sets[set].due == Some(self.now)
    }

    /// Observes the writes of the Deployment controller: all ReplicaSets have a sync.
    pub(crate) fn observe_writes(&mut self) {
        self.find_new_sets();
        for set in &mut self.snapshot.replica_sets {
            // This limits what one plan may count on. The next one observes the pods.
            set.available_max = ReplicaSet::UNTOUCHED;
        }
        for set in 0..self.sets.len() {
            if self.is_behind(set) {
                self.make_due(set, self.after_sync());
            }
        }
    }

    /// Whether the ReplicaSet controller has not observed the latest size yet.
    fn is_behind(&self, set: usize) -> bool {
        let SetPods { index, is_own, .. } = self.sets[set];
        let stored = index.and_then(|index| self.snapshot.replica_sets.get(index));
        let is_behind =
            |stored: &ReplicaSet| stored.status.observed_generation != stored.metadata.generation;
        is_own && stored.is_some_and(is_behind)
    }

    /// Whether sizes were written that some ReplicaSets do not have yet. For an instant, there may be too many pods, because
    /// each ReplicaSet has a sync of its own.
    pub(crate) fn is_between_writes(&self) -> bool {
        (0..self.sets.len()).any(|set| self.is_behind(set))
    }

    /// Updates the indices of the ReplicaSets after writes, and adds those that were created.
    fn find_new_sets(&mut self) {
        let Self { snapshot, sets, .. } = self;
        for set in &mut *sets {
            let still = |set: &SetPods, index: usize| {
                let stored = snapshot.replica_sets.get(index);
                stored.is_some_and(|stored| *stored.metadata.uid == *set.uid)
            };
            if set.index.is_some_and(|index| still(set, index)) {
                continue;
            }
            let mut stored = snapshot.replica_sets.iter();
            set.index = stored.position(|stored| *stored.metadata.uid == *set.uid);
        }
        let known = sets.iter().filter(|set| set.index.is_some()).count();
        for (index, stored) in snapshot.replica_sets.iter().enumerate().skip(known) {
            sets.push(SetPods {
                uid: stored.metadata.uid.as_str().into(),
                name: stored.metadata.name.as_str().into(),
                is_own: is_own(snapshot, stored),
                index: Some(index),
                active: Vec::new(),
                ready: 0,
                available: 0,
                ready_since: VecDeque::new(),
                min_ready: stored.min_ready_seconds,
                terminating: 0,
                due: None,
                back_off: None,
            });
        }
    }

    /// `syncReplicaSet`.
    pub(crate) fn sync_set(&mut self, set: usize, chance: &mut Chance) {
        self.sets[set].due = None;
        self.count_available(set);
        let members = &self.sets[set];
        let Some(stored) = members
            .index
            .map(|index| &self.snapshot.replica_sets[index])
        else {
            return;
        };
        let (to_create, to_delete) = match replica_set::sync(stored, members.active.len()) {
            Sync::Nothing => (0, Vec::new()),
            Sync::Create(count) => (count, Vec::new()),
            Sync::Delete(count) => (0, self.pods_to_delete(set, count, chance)),
        };
        let can_create = match self.pods_in_quota {
            Some(left) => to_create.min(usize::try_from(left).unwrap_or(0)),
            None => to_create,
        };
        let failure = (can_create < to_create).then(|| {
            let message = "pods are forbidden: exceeded quota".to_owned();
            (message, self.time())
        });
        let counts = PodCounts {
            active: members.active.len(),
            ready: members.ready,
            available: usize::try_from(members.available).unwrap_or(0),
            terminating: members.terminating,
        };
        let mut status = replica_set::status(stored, counts, failure);
        status.terminating_replicas = status
            .terminating_replicas
            .filter(|_| self.reports_terminating);
        let is_written = status != stored.status;
        if let Some(index) = self.sets[set].index.filter(|_| is_written) {
            self.snapshot.replica_sets[index].status = status;
            self.make_deployment_due(self.after_sync());
        }
        for _ in 0..can_create {
            self.create_pod(set, chance);
        }
        for number in &to_delete {
            self.delete_pod(*number, chance);
        }
        if !to_delete.is_empty() {
            let Self { sets, pods, .. } = self;
            let is_active = |number: &u32| {
                let pod = pods[*number as usize].as_ref();
                pod.is_some_and(|pod| pod.stored.deleting.is_none())
            };
            sets[set].active.retain(is_active);
        }
        if can_create > 0 || !to_delete.is_empty() {
            self.make_due(set, self.after_sync());
        }
        self.back_off(set, can_create < to_create);
    }

    /// The pods that the ReplicaSet controller deletes.
    fn pods_to_delete(&self, set: usize, count: usize, chance: &mut Chance) -> Vec<u32> {
        let active = self.sets[set].active.iter();
        let stored = |number: &u32| Some(&self.pods[*number as usize].as_ref()?.stored);
        let mut pods: Vec<&StoredPod> = active.filter_map(stored).collect();
        // The order in a cache of Kubernetes is that of a map.
        chance.random.shuffle(&mut pods);
        let time = self.time();
        let millis = time.seconds().saturating_mul(1000);
        let millis = millis.saturating_add(i64::from(time.nanos() / 1_000_000));
        let (deleted, _) = replica_set::choose(pods, count, &self.pods_by_node, millis);
        deleted.iter().map(|pod| pod.number).collect()
    }

    /// Delays the next attempt to create pods after a failed one. An attempt that would also fail is not made due: `retry`
    /// does that when the quota has room again.
    fn back_off(&mut self, set: usize, failed: bool) {
        if !failed {
            self.sets[set].back_off = None;
            return;
        }
        let last = self.sets[set].back_off.map_or(0, |(delay, _)| delay);
        let delay = (last * 2).clamp(self.create_back_off, BACK_OFF_MAX.max(self.create_back_off));
        self.sets[set].back_off = Some((delay, self.now));
    }

    /// Makes the next attempts to create pods due when the quota has room again.
    fn retry(&mut self) {
        for set in 0..self.sets.len() {
            let Some((mut delay, mut last)) = self.sets[set].back_off else {
                continue;
            };
            // The attempts since then have failed.
            while last + delay < self.now && delay < BACK_OFF_MAX {
                last += delay;
                delay = (delay * 2).min(BACK_OFF_MAX);
            }
            let missed = (self.now - last).max(0) / delay.max(1);
            let next = last + delay.max(1) * missed;
            let next = if next < self.now {
                next + delay.max(1)
            } else {
                next
            };
            self.sets[set].back_off = Some((delay, next));
            self.make_due(set, next);
        }
    }

    fn create_pod(&mut self, set: usize, chance: &mut Chance) {
        let number = u32::try_from(self.pods.len()).unwrap_or(u32::MAX);
        let seconds = self.seconds();
        let wave = self.wave + 1;
        self.waves = self.waves.max(wave);
        self.pods.push(Some(WorldPod {
            stored: StoredPod::created(number, chance.random.next(), seconds),
            set,
            wave,
            is_stuck: false,
            is_available: false,
        }));
        self.sets[set].active.push(number);
        self.totals.pods += 1;
        self.pods_in_quota = self.pods_in_quota.map(|left| left - 1);
        self.unscheduled.push_back(number);
        self.schedule(chance);
    }

    /// The scheduler: assigns waiting pods to nodes, as far as these have room. Their containers start.
    fn schedule(&mut self, chance: &mut Chance) {
        while self.pods_on_nodes.is_none_or(|left| left > 0) {
            let Some(number) = self.unscheduled.pop_front() else {
                return;
            };
            let node = self.choose_node(&mut chance.random);
            let Some(pod) = &mut self.pods[number as usize] else {
                continue;
            };
            pod.stored.schedule(u32::try_from(node).unwrap_or(u32::MAX));
            self.pods_by_node[node] += 1;
            self.pods_on_nodes = self.pods_on_nodes.map(|left| left - 1);
            let pod = self.pods[number as usize].as_ref();
            if let Some(pod) = pod.filter(|pod| self.starts(pod, chance)) {
                let start = self.start(pod.set, node, chance);
                let ready = self.now + chance.ready_after(start);
                self.queue.add(ready, Event::Ready(number));
            }
        }
    }

    /// The caller removes the pod from those that are active.
    fn delete_pod(&mut self, number: u32, chance: &mut Chance) {
        let seconds = self.seconds();
        let Some(pod) = &mut self.pods[number as usize] else {
            return;
        };
        let members = &mut self.sets[pod.set];
        members.ready -= usize::from(pod.stored.is_ready());
        members.terminating += 1;
        self.totals.pods -= 1;
        self.totals.terminating += 1;
        if std::mem::take(&mut pod.is_available) {
            members.available -= 1;
            self.totals.available -= 1;
        }
        let rest = match pod.stored.node {
            Some(node) => {
                self.pods_by_node[node as usize] -= 1;
                chance.times.termination(&mut chance.random)
            }
            // A pod without a node is removed immediately.
            None => {
                self.unscheduled.retain(|waiting| *waiting != number);
                0
            }
        };
        pod.stored.deleting = Some(seconds);
        self.queue.add(self.now + rest, Event::Terminated(number));
    }

    /// The kubelet reports that the pod is ready.
    pub(crate) fn become_ready(&mut self, number: u32) {
        let seconds = self.seconds();
        let Some(pod) = &mut self.pods[number as usize] else {
            return;
        };
        if pod.stored.deleting.is_some() {
            return;
        }
        pod.stored.become_ready(seconds);
        self.wave = self.wave.max(pod.wave);
        let set = pod.set;
        self.sets[set].ready += 1;
        self.sets[set].ready_since.push_back((seconds, number));
        self.count_available(set);
        self.make_due(set, self.after_sync());
    }

    /// The kubelet reports that the pod has terminated.
    pub(crate) fn remove(&mut self, number: u32, chance: &mut Chance) {
        let Some(pod) = self.pods[number as usize].take() else {
            return;
        };
        self.sets[pod.set].terminating -= 1;
        self.totals.terminating -= 1;
        self.make_due(pod.set, self.after_sync());
        if self.pods_in_quota.is_some() {
            self.pods_in_quota = self.pods_in_quota.map(|left| left + 1);
            self.retry();
        }
        if pod.stored.node.is_some() {
            self.pods_on_nodes = self.pods_on_nodes.map(|left| left + 1);
            self.schedule(chance);
        }
        if self.totals.pods + self.totals.terminating == 0 {
            // Under Recreate, the Deployment controller waits for this.
            self.make_deployment_due(self.after_sync());
        }
    }

    /// Counts the pods that have become available since the last time, and makes a sync due at the time at which the next
    /// one does. Counting all pods of the ReplicaSet each time would take quadratic time.
    fn count_available(&mut self, set: usize) {
        let stored = self.sets[set].index;
        let stored = stored.map(|index| self.snapshot.replica_sets[index].min_ready_seconds);
        let min_ready = stored.unwrap_or(0);
        if min_ready != self.sets[set].min_ready {
            self.sets[set].min_ready = min_ready;
            self.count_again(set);
        }
        let seconds = self.seconds();
        while let Some(&(since, number)) = self.sets[set].ready_since.front() {
            let pod = self.pods[number as usize].as_mut();
            if let Some(pod) = pod.filter(|pod| pod.stored.is_ready()) {
                if !pod.stored.is_available(min_ready, seconds) {
                    self.make_due_at(set, since + i64::from(min_ready));
                    return;
                }
                pod.is_available = true;
                self.sets[set].available += 1;
                self.totals.available += 1;
            }
            self.sets[set].ready_since.pop_front();
        }
    }

    /// Makes the next count include all pods.
    fn count_again(&mut self, set: usize) {
        let Self { sets, pods, .. } = self;
        let members = &mut sets[set];
        let mut ready = Vec::new();
        for number in &members.active {
            if let Some(pod) = &mut pods[*number as usize] {
                pod.is_available = false;
                ready.extend(pod.stored.ready_since.map(|since| (since, *number)));
            }
        }
        ready.sort_unstable();
        self.totals.available -= std::mem::take(&mut members.available);
        members.ready_since = ready.into();
    }

    /// Makes a sync of the ReplicaSet due at this second, unless an earlier one is.
    fn make_due_at(&mut self, set: usize, second: i64) {
        let missing = (second - self.time().seconds()) * 1000;
        let fraction = i64::from(self.time().nanos() / 1_000_000);
        self.make_due(set, (self.now + missing - fraction).max(self.now + 1));
    }

    /// The pods as far as plans depend on them: one of each ReplicaSet that has any.
    pub(crate) fn list_pods(&mut self) {
        let pods = self
            .sets
            .iter()
            .filter(|set| set.terminating + set.active.len() > 0);
        let namespace = &self.snapshot.deployment.metadata.namespace;
        let pods: Arc<[Pod]> = pods
            .map(|set| Pod {
                metadata: ObjectMeta {
                    namespace: namespace.clone(),
                    owner_references: vec![OwnerReference {
                        api_version: "apps/v1".to_owned(),
                        kind: "ReplicaSet".to_owned(),
                        name: set.name.to_string(),
                        uid: set.uid.to_string(),
                        controller: Some(true),
                        block_owner_deletion: Some(true),
                    }],
                    ..ObjectMeta::default()
                },
                phase: "Running".to_owned(),
                ..Pod::default()
            })
            .collect();
        self.snapshot.pods = pods;
    }

    /// The number of pods so far, including those that are removed.
    pub(crate) fn pods_made(&self) -> usize {
        self.pods.len()
    }

    /// The number of pods that could not be created within the quota.
    pub(crate) fn pods_refused(&self) -> usize {
        let behind = self.sets.iter().filter(|set| set.back_off.is_some());
        let missing = behind.filter_map(|set| {
            let stored = self.snapshot.replica_sets.get(set.index?)?;
            usize::try_from(stored.replicas - set.pods()).ok()
        });
        missing.sum()
    }

    /// The number of pods that wait for a node.
    pub(crate) fn pods_unscheduled(&self) -> usize {
        self.unscheduled.len()
    }

    /// The number of observed pods that are not expected to become ready.
    pub(crate) fn pods_stuck(&self) -> usize {
        let pods = self.pods.iter().flatten();
        pods.filter(|pod| pod.is_stuck && pod.stored.deleting.is_none() && !pod.stored.is_ready())
            .count()
    }

    /// The number of pods that are not ready.
    pub(crate) fn pods_not_ready(&self) -> usize {
        let active = self.pods.iter().flatten().map(|pod| &pod.stored);
        active
            .filter(|pod| pod.deleting.is_none() && !pod.is_ready())
            .count()
    }
}

/// The first 16 digits of a UID as a number.
fn digits(uid: &str) -> u64 {
    let digits = uid.chars().filter_map(|digit| digit.to_digit(16));
    let digits = digits.chain(std::iter::repeat(0)).take(16);
    digits.fold(0, |number, digit| number << 4 | u64::from(digit))
}
