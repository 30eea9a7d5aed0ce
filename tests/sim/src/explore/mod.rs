//! Tries every order of events in small worlds. The template of a Deployment at rest is changed. Then the changes of pods,
//! the watches, the ReplicaSet controller, the plans and calls of the adapter, its crash, and one action of a user occur
//! in every possible order. The clock does not advance, and the rate limiter is disabled.

mod state;
mod worlds;

pub use worlds::{large_worlds, small_worlds};

use std::hash::{Hash, Hasher};

use stateright::{Checker, Model, Property};

use crate::flaw::Flaw;
use crate::pods::SimPod;
use crate::script::{Event, Kind, Setup};
use crate::world::World;

/// A small world, and the events that may occur in it.
#[derive(Clone, Copy, Debug)]
pub struct Small {
    /// The initial state.
    pub setup: Setup,
    /// A deliberate bug.
    pub flaw: Flaw,
    /// The actions of which the user takes one.
    pub acts: &'static [Event],
    /// The number of times the adapter may crash.
    pub deaths: u8,
    /// The number of pods that may crash.
    pub crashes: u8,
    /// Convergence is checked for one in this many states.
    pub converge_stride: u64,
}

/// The result of exploring a small world.
#[derive(Clone, Debug)]
pub struct Explored {
    /// The number of different states.
    pub states: usize,
    /// The maximum number of steps to a state.
    pub depth: usize,
    /// A violated property, and the events that lead to the violation.
    pub broken: Option<(String, Vec<Event>)>,
    /// The properties that should be reached but were not.
    pub unreached: Vec<&'static str>,
}

/// A world, and the events that may still occur in it.
#[derive(Clone, Debug)]
struct Node {
    world: World,
    print: u64,
    deaths: u8,
    crashes: u8,
    acts: u8,
}

/// The states of a small world.
struct Space(Small);

const HOLDS: &str = "all checks pass";
const CONVERGES: &str = "without further events, the world converges";
const COMPLETES: &str = "a rollout completes after the adapter crashed";

/// Tries every order of events in a small world.
#[must_use]
pub fn explore(small: Small) -> Explored {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let checker = Space(small).checker().threads(cores).spawn_bfs().join();
    let discoveries = checker.discoveries();
    let broken = [HOLDS, CONVERGES].into_iter().find_map(|name| {
        let path = discoveries.get(name)?;
        let message = path.last_state().world.violation.as_ref();
        let message = message.map_or_else(|| name.to_owned(), ToString::to_string);
        Some((message, path.clone().into_actions()))
    });
    let reached = small.deaths == 0 || discoveries.contains_key(COMPLETES);
    Explored {
        states: checker.unique_state_count(),
        depth: checker.max_depth(),
        broken,
        unreached: if reached { vec![] } else { vec![COMPLETES] },
    }
}

// === impl Node ===

impl Node {
    fn new(world: World, small: &Small) -> Self {
        Self {
            print: state::fingerprint(&world),
            world,
            deaths: small.deaths,
            crashes: small.crashes,
            acts: 1,
        }
    }
}

impl Hash for Node {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        (self.print, self.deaths, self.crashes, self.acts).hash(hasher);
    }
}

impl PartialEq for Node {
    fn eq(&self, other: &Self) -> bool {
        (self.print, self.deaths, self.crashes, self.acts)
            == (other.print, other.deaths, other.crashes, other.acts)
    }
}

// === impl Small ===

impl Small {
    /// Removes everything that depends on time: the clock does not advance, so a backoff would last forever.
    fn settle(&self, world: &mut World) {
        world.adapter.queued |= world.adapter.state.attempts > 0;
        world.adapter.timer = None;
        if !self.watches_pods() {
            while world.deliver(Kind::Pods) {}
        }
    }

    /// Whether the watch for pods matters. Rolling updates do not depend on pods.
    fn watches_pods(&self) -> bool {
        self.setup.strategy == rollplan_core::snapshot::Strategy::Recreate
    }
}

impl Model for Space {
    type State = Node;
    type Action = Event;

    fn init_states(&self) -> Vec<Node> {
        let mut world = World::new(self.0.setup, self.0.flaw);
        world.brisk = true;
        world.step(Event::Calm);
        world.step(Event::Template(1));
        self.0.settle(&mut world);
        vec![Node::new(world, &self.0)]
    }

    fn actions(&self, node: &Node, actions: &mut Vec<Event>) {
        let world = &node.world;
        if world.violation.is_some() {
            return;
        }
        let count = |number: usize| u8::try_from(number).unwrap_or(u8::MAX);
        let pending = &world.store.pending;
        for (kind, empty) in [
            (Kind::Deployments, pending.deployments.is_empty()),
            (Kind::Sets, pending.sets.is_empty()),
            (Kind::Pods, pending.pods.is_empty()),
        ] {
            if !empty {
                actions.push(Event::Watch(kind, 1));
            }
        }
        if world.adapter.running.is_some() || world.adapter.queued {
            actions.push(Event::Adapter);
        }
        actions.extend((0..count(world.store.sets.len())).map(Event::Sync));
        let moving = |pod: &&std::sync::Arc<SimPod>| {
            pod.advance(world.fault(pod.template), world.now).is_some()
        };
        let moving = world.store.pods.values().filter(moving).count();
        actions.extend((0..count(moving)).map(Event::Pod));
        if node.crashes > 0 {
            let ready = world
                .store
                .pods
                .values()
                .filter(|pod| pod.stored.is_ready());
            actions.extend((0..count(ready.count())).map(Event::Crash));
        }
        if node.deaths > 0 {
            actions.push(Event::Die);
        }
        if node.acts > 0 {
            actions.extend(self.0.acts);
        }
    }

    fn next_state(&self, last: &Node, event: Event) -> Option<Node> {
        let mut next = last.clone();
        let world = &mut next.world;
        let version = world.store.version;
        world.step(event);
        match event {
            Event::Sync(_) if world.store.version == version => return None,
            Event::Die => next.deaths -= 1,
            Event::Crash(_) => next.crashes -= 1,
            Event::Watch(..) | Event::Adapter | Event::Sync(_) | Event::Pod(_) => {}
            _ => next.acts -= 1,
        }
        self.0.settle(world);
        next.print = state::fingerprint(world);
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(HOLDS, |_, node: &Node| node.world.violation.is_none()),
            Property::always(CONVERGES, |small: &Self, node: &Node| {
                if node.world.violation.is_some()
                    || !node.print.is_multiple_of(small.0.converge_stride)
                {
                    return true;
                }
                let mut world = node.world.clone();
                world.end();
                world.violation.is_none()
            }),
            Property::sometimes(COMPLETES, |small: &Self, node: &Node| {
                let status = node
                    .world
                    .store
                    .deployment
                    .as_ref()
                    .map(|deployment| &deployment.status);
                node.deaths < small.0.deaths
                    && status.is_some_and(|status| {
                        status.observed_generation > 1
                            && status.updated_replicas == small.0.setup.replicas
                            && status.available_replicas == small.0.setup.replicas
                            && status.replicas == small.0.setup.replicas
                    })
            }),
        ]
    }
}
