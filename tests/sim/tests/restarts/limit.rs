//! The maximum number of restarts in progress in a simulated world: several namespaces, leaders with late caches that lead in
//! turn, answers that are lost, and calls that fail.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use fastrand::Rng;
use rollplan_core::action::Verb;
use rollplan_core::interrupt::Never;
use rollplan_restart::sync::{Answer, Call, LoopState, Next, Page, Read, Turn, Version};
use rollplan_restart::{Configuration, Decision, Input, Profile, Rollout, Workload, plan_restarts};

use super::world::{ConfigMap, World, enabled, env_from};

/// The maximum number of restarts in progress.
const MAX: usize = 2;
const WORKLOADS: usize = 9;
const NAMESPACES: usize = 3;
/// The number of workloads in a page.
const PAGE: usize = 4;
/// The number of random events in a world.
const EVENTS: usize = 250;
const SEEDS: u64 = 60;
/// The maximum number of requests for one plan.
const ROUNDS_MAX: usize = 50;

/// A deliberate mistake of the planner or of the controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flaw {
    None,
    /// The planner does not list the workloads before the first plan.
    TrustsCache,
    /// The planner forgets the versions in answers.
    ForgetsWrites,
    /// The controller includes only one namespace.
    IncludesOne,
    /// The state is kept when another controller leads.
    KeepsState,
}

/// A controller with its cache.
#[derive(Default)]
struct Leader {
    cache: BTreeMap<String, Workload>,
    state: LoopState,
    answers: Vec<(Made, Outcome)>,
    include: BTreeSet<String>,
}

/// A call of a plan.
#[derive(Clone)]
struct Made {
    uid: String,
    namespace: String,
    path: String,
    is_restart: bool,
}

/// What the controller knows of its outcome.
#[derive(Clone)]
enum Outcome {
    NotMade,
    Done(Box<Workload>),
    Rejected,
    Unknown,
}

struct Fleet {
    world: World,
    versions: BTreeMap<String, u64>,
    last_version: u64,
    leaders: [Leader; 2],
    leads: usize,
    random: Rng,
    flaw: Flaw,
    /// Whether calls fail and controllers die.
    is_faulty: bool,
    changes: usize,
    /// The largest number of restarts in progress.
    most: usize,
}

fn name_of(index: usize) -> String {
    format!("web-{index}")
}

impl Fleet {
    fn new(seed: u64, flaw: Flaw) -> Self {
        let mut world = World::new(Profile::Rollplan);
        world.options.max_concurrent = MAX;
        world.options.quiet = Duration::ZERO;
        world.options.min_interval = Duration::ZERO;
        world.set(ConfigMap, "app", &[("K", "0")]);
        world.now = 50;
        let mut fleet = Self {
            versions: BTreeMap::new(),
            last_version: 100,
            leaders: [Leader::default(), Leader::default()],
            leads: 0,
            random: Rng::with_seed(seed),
            flaw,
            is_faulty: true,
            changes: 0,
            most: 0,
            world,
        };
        for index in 0..WORKLOADS {
            let name = name_of(index);
            fleet
                .world
                .add("Deployment", &name, enabled(), env_from(&["app"]));
            let running = fleet.world.workloads.get_mut(&name).unwrap();
            running.object["metadata"]["namespace"] = format!("ns-{}", index % NAMESPACES).into();
            fleet.write(&name);
        }
        for leader in 0..2 {
            for index in 0..WORKLOADS {
                fleet.deliver(leader, &name_of(index));
            }
        }
        fleet
    }

    /// The API server stores a new version of a workload.
    fn write(&mut self, name: &str) {
        self.last_version += 1;
        self.versions.insert(name.to_owned(), self.last_version);
    }

    fn stored(&self, name: &str) -> Workload {
        Workload {
            version: self.versions[name].to_string(),
            ..self.world.workload(&self.world.workloads[name])
        }
    }

    fn deliver(&mut self, leader: usize, name: &str) {
        let stored = self.stored(name);
        self.leaders[leader].cache.insert(name.to_owned(), stored);
    }

    fn in_progress(&self) -> usize {
        let running = self.world.workloads.values();
        running
            .filter(|it| it.restarts > 0 && it.rollout != Rollout::Complete)
            .count()
    }

    fn input(&self, included: &BTreeSet<String>) -> Input {
        let mut input = self.world.input();
        let cache = self.leaders[self.leads].cache.values();
        let cached = cache.filter(|it| included.contains(&it.namespace));
        input.workloads = cached.cloned().collect();
        let configurations = std::mem::take(&mut input.configurations);
        input.configurations = included
            .iter()
            .flat_map(|namespace| {
                let configurations = configurations.iter().cloned();
                configurations.map(move |it| Configuration {
                    namespace: namespace.clone(),
                    ..it
                })
            })
            .collect();
        input
    }

    /// A random event.
    fn act(&mut self) {
        let name = name_of(self.random.usize(..WORKLOADS));
        match self.random.u8(..12) {
            0 if self.changes < 40 => {
                self.changes += 1;
                let value = self.changes.to_string();
                self.world.set(ConfigMap, "app", &[("K", &value)]);
            }
            1..=3 => {
                let leader = self.random.usize(..2);
                self.deliver(leader, &name);
            }
            4..=5 => {
                let running = self.world.workloads.get_mut(&name).unwrap();
                if running.rollout != Rollout::Complete {
                    running.rollout = Rollout::Complete;
                    self.write(&name);
                }
            }
            6 if self.is_faulty && self.random.u8(..4) == 0 => self.hand_over(),
            7 => self.world.now += self.random.i64(1..5),
            _ => {
                let namespace = format!("ns-{}", self.random.usize(..NAMESPACES));
                self.sync(&namespace);
            }
        }
    }

    /// The other controller leads, or a new process in the place of this one.
    fn hand_over(&mut self) {
        self.leads = 1 - self.leads;
        if self.flaw != Flaw::KeepsState {
            let leader = &mut self.leaders[self.leads];
            leader.state = LoopState::default();
        }
        self.leaders[self.leads].answers.clear();
        self.leaders[self.leads].include.clear();
    }

    /// The loop of a controller about a namespace.
    fn sync(&mut self, namespace: &str) {
        let mut reads = Vec::new();
        for _ in 0..ROUNDS_MAX {
            let leader = &mut self.leaders[self.leads];
            let mut included = leader.include.clone();
            included.insert(namespace.to_owned());
            if self.flaw == Flaw::IncludesOne {
                included.retain(|it| it == namespace);
            }
            let state = std::mem::take(&mut leader.state);
            let answers = std::mem::take(&mut leader.answers);
            let mut input = self.input(&included);
            let mut turn = Turn::begin(state, included, &input);
            for (made, outcome) in &answers {
                let Made {
                    uid,
                    namespace,
                    path,
                    is_restart,
                } = made;
                let call = Call {
                    uid,
                    namespace,
                    path,
                    is_restart: *is_restart,
                };
                turn.record_call(call, outcome.answer());
            }
            for read in std::mem::take(&mut reads) {
                self.read(&mut turn, read);
            }
            turn.end_calls();
            if self.flaw == Flaw::TrustsCache {
                turn.state.is_verified = true;
            }
            if self.flaw == Flaw::ForgetsWrites {
                turn.state.written.clear();
            }
            let next = turn.observe(&mut input, 1);
            let plan = (next == Next::Plan
                || self.flaw == Flaw::IncludesOne && next == Next::Include)
                .then(|| {
                    let mut plan = plan_restarts(&input, &Never).unwrap();
                    turn.conclude(&mut plan, &input);
                    plan
                });
            let leader = &mut self.leaders[self.leads];
            leader.include = turn.namespaces();
            leader.state = turn.state;
            match (plan, next) {
                (Some(plan), _) => {
                    for plan in plan.workloads {
                        let workload = input.workloads[plan.index].clone();
                        let is_restart = plan.decision == Decision::Restart;
                        for step in plan.steps {
                            self.carry_out(&workload, &step, is_restart);
                        }
                    }
                    return;
                }
                (None, Next::Read(wanted)) => {
                    reads = wanted;
                    if self.is_faulty && self.random.u8(..20) == 0 {
                        // The answer is lost.
                        reads.clear();
                    }
                }
                (None, Next::Wait(_)) => return,
                (None, Next::Include | Next::Plan) => {}
            }
        }
        panic!("asked again and again");
    }

    fn read(&mut self, turn: &mut Turn, read: Read) {
        if self.is_faulty && self.random.u8(..20) == 0 {
            return turn.record_unreadable();
        }
        let version = |workload: &Workload| (workload.clone(), path(workload));
        match read {
            Read::Page(Page { continues, .. }) => {
                let first: usize = continues.parse().unwrap_or(0);
                let end = (first + PAGE).min(WORKLOADS);
                let listed: Vec<_> = (first..end)
                    .map(|index| version(&self.stored(&name_of(index))))
                    .collect();
                let continues = if end < WORKLOADS {
                    end.to_string()
                } else {
                    String::new()
                };
                let listed = listed.iter().map(|(it, path)| (seen(it), path.clone()));
                turn.record_page(listed, &continues);
            }
            Read::Object { uid, .. } => {
                let names = (0..WORKLOADS).map(name_of);
                let mut stored = names.map(|name| self.stored(&name));
                match stored.find(|it| it.uid == uid) {
                    Some(stored) => turn.record_object(&uid, seen(&stored)),
                    None => turn.record_absent(&uid),
                }
            }
        }
    }

    fn carry_out(
        &mut self,
        workload: &Workload,
        step: &rollplan_restart::RestartStep,
        is_restart: bool,
    ) {
        assert_eq!(step.call.verb, Verb::Patch);
        let made = Made {
            uid: workload.uid.clone(),
            namespace: workload.namespace.clone(),
            path: path(workload),
            is_restart,
        };
        let fault = if self.is_faulty {
            self.random.u8(..24)
        } else {
            u8::MAX
        };
        let is_applied = fault > 2 && {
            let is_applied = self.world.carry_out(step).is_ok();
            if is_applied {
                self.write(&workload.name);
                if is_restart {
                    let running = self.world.workloads.get_mut(&workload.name).unwrap();
                    running.rollout = Rollout::Progressing;
                    self.most = self.most.max(self.in_progress());
                }
            }
            is_applied
        };
        let outcome = match (fault, is_applied) {
            (0, _) => Outcome::NotMade,
            (1, _) | (_, false) => Outcome::Rejected,
            (2..=5, _) => Outcome::Unknown,
            (_, true) => Outcome::Done(Box::new(self.stored(&workload.name))),
        };
        self.leaders[self.leads].answers.push((made, outcome));
    }

    /// Removes all faults, and runs until nothing changes anymore.
    fn settle(&mut self) {
        self.is_faulty = false;
        for _ in 0..60 {
            self.world.now += 40;
            for index in 0..WORKLOADS {
                let name = name_of(index);
                let running = self.world.workloads.get_mut(&name).unwrap();
                if running.rollout != Rollout::Complete {
                    running.rollout = Rollout::Complete;
                    self.write(&name);
                }
                self.deliver(self.leads, &name);
            }
            for namespace in 0..NAMESPACES {
                self.sync(&format!("ns-{namespace}"));
            }
        }
    }
}

impl Outcome {
    fn answer(&self) -> Answer<'_> {
        match self {
            Self::NotMade => Answer::NotMade,
            Self::Done(stored) => Answer::Done(Some(seen(stored))),
            Self::Rejected => Answer::Rejected { is_final: false },
            Self::Unknown => Answer::Unknown,
        }
    }
}

fn seen(workload: &Workload) -> Version<'_> {
    Version {
        uid: &workload.uid,
        version: &workload.version,
        namespace: &workload.namespace,
        annotations: &workload.annotations,
    }
}

fn path(workload: &Workload) -> String {
    format!("/{}/{}", workload.namespace, workload.name)
}

fn run(seed: u64, flaw: Flaw) -> Fleet {
    let mut fleet = Fleet::new(seed, flaw);
    for _ in 0..EVENTS {
        fleet.act();
    }
    fleet
}

#[test]
fn maximum_holds_whoever_leads_and_whatever_fails() {
    let mut tight: u64 = 0;
    for seed in 0..SEEDS {
        let mut fleet = run(seed, Flaw::None);
        fleet.settle();
        assert!(fleet.most <= MAX, "seed {seed}: {}", fleet.most);
        tight += u64::from(fleet.most == MAX);
        let state = &fleet.leaders[fleet.leads].state;
        assert!(
            state.restarting.is_empty() && state.written.is_empty() && state.failed.is_empty(),
            "seed {seed}: {state:?}"
        );
        for (name, running) in &fleet.world.workloads {
            assert!(running.restarts > 0, "seed {seed}: {name}");
        }
        let all = (0..NAMESPACES).map(|index| format!("ns-{index}"));
        let plan = plan_restarts(&fleet.input(&all.collect()), &Never).unwrap();
        let mut plans = plan.workloads.iter();
        assert!(plans.all(|it| it.steps.is_empty()), "seed {seed}: {plan:?}");
    }
    assert!(tight > 30, "{tight} of {SEEDS}");
}

#[test]
fn mistakes_exceed_the_maximum() {
    for flaw in [
        Flaw::TrustsCache,
        Flaw::ForgetsWrites,
        Flaw::IncludesOne,
        Flaw::KeepsState,
    ] {
        let exceeding = (0..SEEDS).filter(|seed| run(*seed, flaw).most > MAX);
        let exceeding = exceeding.count();
        println!("{flaw:?}: {exceeding} of {SEEDS}");
        assert!(exceeding >= 2, "{flaw:?}: {exceeding}");
    }
}
