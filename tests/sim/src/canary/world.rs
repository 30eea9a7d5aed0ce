//! The state of a world with a canary, and the effects of events on it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rollplan_canary::{CallerVerdict, Fields, HELD_MIN_READY};
use rollplan_core::size::{IntOrPercent, Limits};
use rollplan_core::snapshot::{Deployment, Snapshot};
use rollplan_core::template::{Template, with_defaults};
use rollplan_world::at;
use serde_json::Value;

use super::steerer::Planned;
use super::{CanaryFlaw, Event, NEW, STABLE, Setup, strategy};
use crate::adapter::View;
use crate::check::Violation;
use crate::flaw::Flaw;
use crate::run::Outcome;
use crate::script::{self, Kind};
use crate::server::{StoredSet, Writer};
use crate::tally::Tally;
use crate::user::differs;
use crate::world::World;

/// The maximum number of turns until the controllers come to rest.
const TURNS_MAX: usize = 200;

/// The part of a rollout in which a size was decreased.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// The Deployment has no canary.
    Native,
    Hold,
    /// The abort of a hold.
    Abort,
    Promotion,
    /// The abort of a promotion.
    Undoing,
}

/// What the user wanted from a generation of the Deployment on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    pub(super) generation: i64,
    pub(super) replicas: i32,
    pub(super) user: Fields,
}

/// What the Deployment controller knew when it changed a size.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    pub(super) part: Part,
    /// The generation of the Deployment that its controller had in its cache.
    pub(super) generation: i64,
    /// The versions of the ReplicaSets in this cache, by UID.
    pub(super) versions: BTreeMap<String, u64>,
    /// Whether the Deployment has been scaled since the ReplicaSets were.
    pub(super) is_scaled: bool,
    /// Whether another client has replaced the template of a canary that still has pods.
    pub(super) has_third: bool,
}

/// A decrease of a ReplicaSet.
#[derive(Clone, Debug)]
pub(super) struct Decrease {
    pub(super) seen: Seen,
    /// Whether it is the stable ReplicaSet.
    pub(super) is_stable: bool,
    /// Whether its pods count as unavailable, because it has `minReadySeconds` of a hold.
    pub(super) is_held: bool,
    /// How many unavailable pods the ReplicaSets of other canaries had, which the Deployment controller could have removed
    /// instead.
    pub(super) spared: i64,
}

/// What a status of a ReplicaSet takes into account.
#[derive(Clone, Debug)]
pub(super) struct Reported {
    /// How many of its available pods have failed.
    pub(super) failures: u32,
    /// The numbers of all pods that are available to the user.
    pub(super) available: BTreeSet<u32>,
}

/// A world with a canary.
pub(super) struct CanaryWorld {
    /// The API server and all controllers but that of Deployments. The view of the adapter is the cache of that one.
    pub(super) world: World,
    pub(super) setup: Setup,
    pub(super) flaw: CanaryFlaw,
    /// The patches that steerers have planned.
    pub(super) patches: Vec<Planned>,
    pub(super) verdicts: Vec<CallerVerdict>,
    /// Whether a canary was started.
    pub(super) has_started: bool,
    /// The fields that the user wants.
    pub(super) user: Fields,
    pub(super) wanted: Vec<Wanted>,
    pub(super) part: Part,
    /// Since when the Deployment has its template, or the canary its step.
    pub(super) step_since: i64,
    /// Whether the last write has begun a step.
    pub(super) is_raised: bool,
    /// The digest of the template at the last patch, and since when the Deployment had it, or the canary its step, then.
    pub(super) patched_since: Option<(String, i64)>,
    /// The number of the step in the state that the last patch has written.
    pub(super) patched_step: i32,
    /// The last decrease of each ReplicaSet since its controller synced it, by UID.
    pub(super) decreases: BTreeMap<String, Decrease>,
    /// How many available pods of each ReplicaSet have failed, by UID.
    pub(super) failures: BTreeMap<String, u32>,
    /// What the status of each ReplicaSet takes into account: by UID, and by the version with this status.
    pub(super) reported: BTreeMap<String, BTreeMap<u64, Reported>>,
    /// Whether the Deployment was scaled, or its limits were changed, after a canary had started. Or the Deployment
    /// controller has scaled it at a hold or in its abort, because it is paused.
    pub(super) was_scaled: bool,
    /// The numbers of the pods that were available when the last patch was planned.
    pub(super) planned_available: BTreeSet<u32>,
    /// That the sizes exceed the ceiling in the middle of proportional scaling.
    pub(super) exceeds: Option<String>,
    /// Whether pods were lost with their ReplicaSet.
    pub(super) lost_set: bool,
    /// Whether the state was removed, and then a copy with its ReplicaSet.
    pub(super) lost_copy: bool,
    /// The limits of the hold, from the patch that wrote them to the one that restores those of the user.
    pub(super) held: Option<(IntOrPercent, IntOrPercent)>,
}

// === impl CanaryWorld ===

impl CanaryWorld {
    /// A Deployment whose rollout is complete.
    pub(super) fn new(setup: Setup, flaw: CanaryFlaw, traced: bool) -> Self {
        let mut world = World::new(
            script::Setup {
                replicas: setup.replicas,
                strategy: strategy(setup.surge, setup.unavailable),
                min_ready_seconds: setup.min_ready,
                ..script::Setup::default()
            },
            Flaw::None,
        );
        // As the API server stores them.
        let templates = world.templates.iter();
        let templates = templates.map(|it| Template::from(with_defaults(it.value().clone())));
        world.templates = templates.collect();
        if let Some(deployment) = world.store.deployment.clone() {
            let mut deployment = Deployment::clone(&deployment);
            deployment.spec.template = world.templates[usize::from(STABLE)].clone();
            world.store.put_deployment(deployment, Writer::Other);
        }
        world.adapter.view = View::list(&mut world.store);
        world.faults[usize::from(NEW)] = setup.fault;
        world.traced = traced;
        let user = Fields {
            max_surge: setup.surge,
            max_unavailable: setup.unavailable,
            min_ready_seconds: setup.min_ready,
            progress_deadline_seconds: script::Setup::default().deadline_seconds,
        };
        let mut this = Self {
            world,
            setup,
            flaw,
            patches: Vec::new(),
            verdicts: Vec::new(),
            has_started: false,
            user,
            wanted: vec![Wanted {
                generation: 0,
                replicas: setup.replicas,
                user,
            }],
            part: Part::Native,
            step_since: 0,
            is_raised: false,
            patched_since: None,
            patched_step: 1,
            decreases: BTreeMap::new(),
            failures: BTreeMap::new(),
            reported: BTreeMap::new(),
            was_scaled: false,
            planned_available: BTreeSet::new(),
            exceeds: None,
            lost_set: false,
            lost_copy: false,
            held: None,
        };
        this.settle();
        this
    }

    pub(super) fn violation(&self) -> Option<&Violation> {
        self.world.violation.as_ref()
    }

    pub(super) fn violate(&mut self, check: &'static str, message: String) {
        self.world.violate(check, message);
    }

    pub(super) fn count(&mut self, tally: Tally) {
        self.world.tallies.count(tally);
    }

    pub(super) fn into_outcome(self) -> Outcome {
        Outcome {
            tallies: self.world.tallies,
            violation: self.world.violation,
        }
    }

    pub(super) fn deployment(&self) -> Arc<Deployment> {
        // No event deletes it.
        self.world
            .store
            .deployment
            .clone()
            .unwrap_or_else(|| unreachable!())
    }

    pub(super) fn template(&self, number: u8) -> Template {
        self.world.templates[usize::from(number)].clone()
    }

    pub(super) fn is_held(&self) -> bool {
        self.deployment().spec.min_ready_seconds == HELD_MIN_READY
    }

    /// Everything as the API server returns it now.
    pub(super) fn snapshot(&self) -> Snapshot {
        let store = &self.world.store;
        let pods = store.pods.values();
        let pods = pods.map(|pod| pod.reported(self.world.fault(pod.template)));
        Snapshot {
            now: at(self.world.now),
            deployment: Deployment::clone(&self.deployment()),
            replica_sets: store.sets.values().map(|it| it.set.clone()).collect(),
            pods: pods.collect(),
            replica_sets_complete: true,
            pods_complete: true,
            failures: Vec::new(),
            events: Arc::new([]),
            surroundings: Arc::default(),
        }
    }

    /// Applies an event.
    pub(super) fn step(&mut self, event: Event) {
        self.world.trace(|| format!("{event:?}"));
        match event {
            Event::Watch(kind, count) => {
                for _ in 0..count {
                    self.world.deliver(kind);
                }
            }
            Event::Native => _ = self.sync_native(),
            Event::Sync(choice) => {
                if let Some(stored) = self.world.chosen_set(choice) {
                    self.sync_set(&stored);
                }
            }
            Event::Pod(choice) => self.world.step(script::Event::Pod(choice)),
            Event::Crash(choice) => self.fail(script::Event::Crash(choice)),
            Event::DeletePod(choice) => self.fail(script::Event::DeletePod(choice)),
            Event::Time(seconds) => self.world.wait(seconds.into()),
            Event::Plan(command) => self.plan(command),
            Event::Patch(choice) => self.patch(choice, true),
            Event::PatchUnanswered(choice) => self.patch(choice, false),
            Event::Die(choice) => self.die(choice),
            Event::Judge(judgement) => self.judge(judgement),
            Event::Scale(replicas) => self.scale(replicas.into()),
            Event::Interfere(interference) => self.interfere(interference),
        }
    }

    /// Writes the Deployment. A change of its spec or annotations increments the generation.
    pub(super) fn put(&mut self, mut after: Deployment) {
        let before = self.deployment();
        let is_changed = differs(&before.spec, &after.spec)
            || before.metadata.annotations != after.metadata.annotations;
        if !before.spec.template.same_as(&after.spec.template) {
            self.step_since = self.world.now;
        }
        self.is_raised = false;
        after.metadata.generation += i64::from(is_changed);
        self.part = part_of(&after, self.part);
        self.wanted.push(Wanted {
            generation: after.metadata.generation,
            replicas: after.spec.replicas,
            user: self.user,
        });
        self.world.store.put_deployment(after, Writer::Other);
    }

    pub(super) fn edit(&mut self, change: impl FnOnce(&mut Deployment)) {
        let mut after = Deployment::clone(&self.deployment());
        change(&mut after);
        self.put(after);
    }

    pub(super) fn scale(&mut self, replicas: i32) {
        self.count(Tally::Scaled);
        self.was_scaled |= self.has_started;
        self.edit(|it| it.spec.replicas = replicas);
    }

    /// The numbers of the pods that are available to the user.
    pub(super) fn available(&self) -> BTreeSet<u32> {
        let (seconds, now) = (self.user.min_ready_seconds, self.world.now);
        let pods = self.world.store.pods.values();
        let pods = pods.filter(|pod| pod.stored.is_available(seconds, now));
        pods.map(|pod| pod.stored.number).collect()
    }

    /// Lets a pod fail. The Deployment controller cannot know that before a status of the ReplicaSet reports it.
    fn fail(&mut self, event: script::Event) {
        let before: BTreeMap<u32, String> = {
            let pods = self.world.store.pods.values();
            pods.map(|pod| (pod.stored.number, pod.set_uid.to_string()))
                .collect()
        };
        let available = self.available();
        self.world.step(event);
        let after = self.available();
        for number in available.difference(&after) {
            let set = before.get(number).cloned().unwrap_or_default();
            *self.failures.entry(set).or_default() += 1;
        }
    }

    /// What the Deployment controller knew of the pods of a ReplicaSet.
    fn reported(&self, uid: &str, seen: &Seen) -> Option<&Reported> {
        let version = seen.versions.get(uid)?;
        let mut known = self.reported.get(uid)?.range(..=version);
        known.next_back().map(|it| it.1)
    }

    /// How many available pods have failed that the Deployment controller did not know of.
    pub(super) fn unknown_failures(&self, seen: &Seen) -> i64 {
        let failures = self.failures.iter().map(|(uid, count)| {
            let known = self.reported(uid, seen).map_or(0, |it| it.failures);
            i64::from(count - known)
        });
        failures.sum()
    }

    /// How many of these pods of a ReplicaSet had not been available when the Deployment controller decreased its size.
    pub(super) fn recovered(&self, uid: &str, pods: &BTreeSet<u32>, seen: &Seen) -> usize {
        let known = self.reported(uid, seen);
        let is_known = |pod: &&u32| known.is_some_and(|it| it.available.contains(pod));
        pods.iter().filter(|it| !is_known(it)).count()
    }

    /// How many unavailable pods the ReplicaSets of canaries have, except for this one.
    pub(super) fn unavailable_of_other_canaries(&self, uid: &str) -> i64 {
        let available = self.available();
        let sets = self.world.store.sets.values();
        let others = sets.filter(|it| it.template != STABLE && it.set.metadata.uid != *uid);
        let missing = others.map(|it| {
            let pods = self.world.store.pods_of(&it.set.metadata.uid);
            let serving = pods.filter(|pod| available.contains(&pod.stored.number));
            i64::from(it.set.replicas) - i64::try_from(serving.count()).unwrap_or(i64::MAX)
        });
        missing.map(|it| it.max(0)).sum()
    }

    /// The numbers of the ready pods of a ReplicaSet, available or not.
    pub(super) fn ready(&self, uid: &str) -> BTreeSet<u32> {
        let pods = self.world.store.pods_of(uid);
        let ready = pods.filter(|pod| pod.stored.is_ready());
        ready.map(|pod| pod.stored.number).collect()
    }

    /// The highest ceiling and the lowest floor of the user since a generation.
    pub(super) fn extremes(&self, since: i64) -> (i64, i64) {
        let first = self.wanted.iter().rposition(|it| it.generation <= since);
        let wanted = &self.wanted[first.unwrap_or(0)..];
        let limits = || {
            wanted.iter().map(|it| {
                let user = it.user;
                Limits::rolling(it.replicas, user.max_surge, user.max_unavailable)
            })
        };
        // A policy may allow more than the user's limits.
        let total = |it: Limits| {
            if self.setup.allows_all {
                it.max_total().max(2 * it.replicas)
            } else {
                it.max_total()
            }
        };
        let ceiling = limits().map(|it| i64::from(total(it))).max();
        let floor = limits().map(|it| i64::from(it.min_available())).min();
        (ceiling.unwrap_or(0), floor.unwrap_or(0))
    }

    /// All controllers act until nothing changes, while time passes.
    pub(super) fn settle(&mut self) {
        for seconds in [1, 1, 5, 60] {
            self.world.wait(seconds);
            // A container that keeps crashing restarts only a few times in this time.
            for _ in 0..12 {
                if !self.take_turns() || self.violation().is_some() {
                    break;
                }
            }
        }
    }

    /// Lets the pods take one step, and then the controllers act until nothing changes. Returns whether anything has
    /// changed.
    fn take_turns(&mut self) -> bool {
        let version_before = self.world.store.version;
        let pods: Vec<_> = self.world.store.pods.values().cloned().collect();
        for pod in &pods {
            self.world.advance_pod(pod);
        }
        for _ in 0..TURNS_MAX {
            let version = self.world.store.version;
            let sets: Vec<Arc<StoredSet>> = self.world.store.sets.values().cloned().collect();
            for stored in &sets {
                self.sync_set(stored);
            }
            for kind in [Kind::Deployments, Kind::Sets, Kind::Pods] {
                while self.world.deliver(kind) {}
            }
            self.sync_native();
            self.world.collect();
            if self.world.store.version == version {
                return version != version_before;
            }
        }
        let message = "the controllers do not come to rest".to_owned();
        self.violate("canary-endless", message);
        false
    }
}

/// The state in the annotation of a Deployment.
fn state_of(deployment: &Deployment) -> Option<Value> {
    let annotations = &deployment.metadata.annotations;
    serde_json::from_str(annotations.get(rollplan_canary::ANNOTATION)?).ok()
}

/// The number of the step in the state of a Deployment.
pub(super) fn step_of(deployment: &Deployment) -> i32 {
    let state = state_of(deployment);
    let step = state.as_ref().and_then(|it| it["step"].as_i64());
    step.and_then(|it| i32::try_from(it).ok()).unwrap_or(1)
}

/// The part in which a Deployment is, after another one.
fn part_of(deployment: &Deployment, before: Part) -> Part {
    let state = state_of(deployment);
    let phase = state.as_ref().and_then(|it| it["phase"].as_str());
    let is_held = deployment.spec.min_ready_seconds == HELD_MIN_READY;
    let stable = state.as_ref().and_then(|it| it["stable"].as_str());
    let is_stable = stable == Some(deployment.spec.template.canonical_sha256());
    match (phase, before) {
        (Some("promoting"), _) if !is_held => Part::Promotion,
        // Another client has changed the template, so this rollout is its own.
        (Some("aborting"), _) if !is_stable => Part::Native,
        (Some("aborting"), Part::Hold | Part::Abort) => Part::Abort,
        (Some("aborting"), _) => Part::Undoing,
        _ if is_held => Part::Hold,
        _ => Part::Native,
    }
}
