//! Every small world: a settled plan keeps both bounds after every step, terminates, and results in the sizes that
//! Kubernetes reaches pass by pass. If execution stops after any step, the next plan completes the work.
//!
//! The control: without the clamp on available pods, some worlds must fail.
//!
//! Worlds: 0 to 5 wanted pods before and after, surge and unavailability 0 to 2, three ReplicaSets with every
//! size and availability within the previous surge, any one or none of them new, and both strategies.
//! `ROLLPLAN_EXHAUSTIVE=full` checks all of them, a number N every Nth. The default is every 97th.

use std::collections::BTreeMap;

use rollplan_core::action::{Action, apply};
use rollplan_core::lint::{Rule, Violation, lint};
use rollplan_core::snapshot::{Options, Snapshot, Strategy};
use rollplan_core::{Plan, plan_pass, plan_settled, plan_settled_unclamped, revision, status};
use rollplan_world::{mk_deployment, mk_set, mk_snapshot, rolling};

const REPLICAS_MAX: i32 = 5;
const SURGE_MAX: i32 = 2;
const UNAVAILABLE_MAX: i32 = 2;
const STRIDE: usize = 97;
/// The number of worlds.
const WORLDS: usize = 854_064;
/// An upper bound for the plans of a small world whose pods do not change.
const PLANS_MAX: usize = 8;
/// An upper bound for the rounds in which pods of a small rollout become available.
const ROUNDS_MAX: usize = 24;

/// Size and availability of each ReplicaSet.
type Sizes = [(i32, i32); 3];

/// Every way to fill three ReplicaSets with at most `max` pods.
fn all_sizes(max: i32) -> Vec<Sizes> {
    let one =
        |max: i32| (0..=max).flat_map(|size| (0..=size).map(move |available| (size, available)));
    one(max)
        .flat_map(|first| {
            one(max - first.0).flat_map(move |second| {
                one(max - first.0 - second.0).map(move |third| [first, second, third])
            })
        })
        .collect()
}

fn mk_world(
    before: i32,
    after: i32,
    strategy: Strategy,
    sizes: Sizes,
    new: Option<usize>,
) -> Snapshot {
    let mut deployment = mk_deployment(before);
    deployment.spec.strategy = strategy;
    let mut sets = Vec::new();
    for (index, (size, available)) in sizes.into_iter().enumerate() {
        let image = if new == Some(index) {
            "v1".to_owned()
        } else {
            format!("old{index}")
        };
        let revision = i64::try_from(index).unwrap() + 1;
        let mut set = mk_set(&deployment, &image, revision, size);
        set.status.available_replicas = available;
        set.status.ready_replicas = available;
        sets.push(set);
    }
    deployment.spec.replicas = after;
    mk_snapshot(deployment, sets)
}

/// Executes a step. A ReplicaSet never has more available pods than its size.
fn do_step(world: &mut Snapshot, action: &Action) {
    apply(world, action);
    for set in &mut world.replica_sets {
        set.status.available_replicas = set.status.available_replicas.min(set.replicas);
        set.status.ready_replicas = set.status.ready_replicas.min(set.replicas);
    }
}

fn actions(plan: &Plan) -> impl Iterator<Item = &Action> {
    plan.steps.iter().filter_map(|step| step.action.as_ref())
}

fn sizes(world: &Snapshot) -> BTreeMap<String, i32> {
    let sets = world.replica_sets.iter();
    sets.filter(|set| set.replicas > 0)
        .map(|set| (set.metadata.name.clone(), set.replicas))
        .collect()
}

/// Plans and executes until a plan is empty. Lints every plan. Returns the number of writes.
fn drive(world: &mut Snapshot) -> Result<usize, String> {
    let mut writes = 0;
    for _ in 0..PLANS_MAX {
        for set in &mut world.replica_sets {
            set.available_max = i32::MAX;
        }
        let plan = plan_settled(world, Options::default());
        let own: Vec<Violation> = lint(world, Options::default(), &plan)
            .into_iter()
            .filter(|violation| !violation.inherited)
            .collect();
        if !own.is_empty() {
            return Err(format!("{own:?} in {:?}", summaries(&plan)));
        }
        if actions(&plan).next().is_none() {
            return Ok(writes);
        }
        for action in actions(&plan) {
            writes += 1;
            do_step(world, action);
        }
    }
    Err(format!("{PLANS_MAX} plans did not end"))
}

fn takes_too_much(violations: &[Violation]) -> bool {
    violations.iter().any(|violation| {
        matches!(violation.rule, Rule::MinAvailable { .. }) && !violation.inherited
    })
}

fn summaries(plan: &Plan) -> Vec<String> {
    plan.steps.iter().map(|step| step.summary()).collect()
}

/// Runs the passes of Kubernetes, with statuses that follow the sizes. If a pass reverses the change of an earlier one,
/// only the net change is made, as in a settled plan. Returns the numbers of writes and of reversals.
fn drive_upstream(world: &mut Snapshot) -> Result<(usize, usize), String> {
    let (mut writes, mut turns) = (0, 0);
    let start: BTreeMap<String, (i32, i32)> = world
        .replica_sets
        .iter()
        .map(|set| {
            let available = set.status.available_replicas.min(set.replicas);
            (set.metadata.name.clone(), (set.replicas, available))
        })
        .collect();
    for _ in 0..50 {
        for set in &mut world.replica_sets {
            set.status.available_replicas = set.status.available_replicas.min(set.replicas);
        }
        let pass = plan_pass(world, Options::default());
        let actions: Vec<&Action> = actions(&pass).collect();
        if actions.is_empty() {
            return Ok((writes, turns));
        }
        writes += actions.len();
        let sizes_before = sizes(world);
        for action in actions {
            do_step(world, action);
        }
        for set in &mut world.replica_sets {
            let name = &set.metadata.name;
            let &(first, available) = start.get(name).unwrap_or(&(0, 0));
            let before = sizes_before.get(name).copied().unwrap_or(0);
            let so_far = before.cmp(&first);
            if so_far.is_ne() && so_far == before.cmp(&set.replicas) {
                set.status.available_replicas = available.min(set.replicas);
                turns += 1;
            }
        }
    }
    Err("50 passes did not end".to_owned())
}

/// Whether an active ReplicaSet was sized for another number of replicas. Kubernetes never resolves this at rest.
fn looks_scaled(world: &Snapshot) -> bool {
    let wanted = world.deployment.spec.replicas;
    world.replica_sets.iter().any(|set| {
        let desired = revision::desired_replicas(&set.metadata.annotations);
        set.replicas > 0 && desired != Some(wanted)
    })
}

/// Lets every pod start, become available or terminate, and plans until the rollout is complete.
fn finish(world: &mut Snapshot) -> Result<(), String> {
    for _ in 0..ROUNDS_MAX {
        drive(world)?;
        for set in &mut world.replica_sets {
            set.status.replicas = set.replicas;
            set.status.ready_replicas = set.replicas;
            set.status.available_replicas = set.replicas;
            set.status.observed_generation = set.metadata.generation;
        }
        let status = &world.deployment.status;
        let complete = status::condition(status, status::PROGRESSING)
            .is_some_and(|condition| condition.reason == status::NEW_SET_AVAILABLE);
        if complete && status.updated_replicas == world.deployment.spec.replicas {
            return match sizes(world).into_values().collect::<Vec<_>>() {
                sizes if sizes == [world.deployment.spec.replicas] => Ok(()),
                sizes if sizes.is_empty() && world.deployment.spec.replicas == 0 => Ok(()),
                sizes => Err(format!("complete at {sizes:?}")),
            };
        }
    }
    Err(format!("not complete after {ROUNDS_MAX} rounds"))
}

#[derive(Default)]
struct Count {
    worlds: usize,
    merged_writes: usize,
    upstream_writes: usize,
    cut_short: usize,
    wedged: usize,
    /// Worlds in which Kubernetes reverses the change of a size.
    turned: usize,
    /// Worlds whose first plan deletes too many pods without the clamp.
    unclamped: usize,
    /// Those of them with a scaling event.
    unclamped_scaling: usize,
}

impl Count {
    fn add(&mut self, other: &Self) {
        let Self {
            worlds,
            merged_writes,
            upstream_writes,
            cut_short,
            wedged,
            turned,
            unclamped,
            unclamped_scaling,
        } = other;
        self.worlds += worlds;
        self.merged_writes += merged_writes;
        self.upstream_writes += upstream_writes;
        self.cut_short += cut_short;
        self.wedged += wedged;
        self.turned += turned;
        self.unclamped += unclamped;
        self.unclamped_scaling += unclamped_scaling;
    }
}

fn check(world: &Snapshot, count: &mut Count) -> Result<(), String> {
    count.worlds += 1;
    let plan = plan_settled(world, Options::default());
    count.cut_short += usize::from(!plan.settled);

    // The control: without the clamp, the linter must report violations.
    let unclamped = plan_settled_unclamped(world, Options::default());
    if takes_too_much(&lint(world, Options::default(), &unclamped)) {
        if looks_scaled(world) {
            count.unclamped_scaling += 1;
        } else {
            count.unclamped += 1;
        }
    }

    let mut settled = world.clone();
    count.merged_writes += drive(&mut settled)?;

    let mut upstream = world.clone();
    let (writes, turns) = drive_upstream(&mut upstream)?;
    count.upstream_writes += writes;
    count.turned += usize::from(turns > 0);
    if looks_scaled(&upstream) {
        count.wedged += 1;
    } else if sizes(&settled) != sizes(&upstream) {
        let (ours, theirs) = (sizes(&settled), sizes(&upstream));
        return Err(format!("ends at {ours:?}, Kubernetes at {theirs:?}"));
    }
    finish(&mut settled)?;

    let all: Vec<&Action> = actions(&plan).collect();
    for done in 1..all.len() {
        let mut died = world.clone();
        for action in &all[..done] {
            do_step(&mut died, action);
        }
        finish(&mut died).map_err(|error| format!("after a death at step {done}: {error}"))?;
    }
    Ok(())
}

/// Checks every `stride`th world, divided among the workers.
fn check_share(stride: usize, worker: usize, workers: usize) -> (usize, Count, Vec<String>) {
    let (mut count, mut failures) = (Count::default(), Vec::new());
    let mut index = 0;
    for before in 0..=REPLICAS_MAX {
        for surge in 0..=SURGE_MAX {
            for sizes in all_sizes(before + surge) {
                for (after, unavailable, new, recreate) in variants() {
                    index += 1;
                    if index % stride != 0 || index / stride % workers != worker {
                        continue;
                    }
                    let strategy = if recreate {
                        Strategy::Recreate
                    } else {
                        rolling(surge, unavailable)
                    };
                    let world = mk_world(before, after, strategy, sizes, new);
                    if let Err(error) = check(&world, &mut count) {
                        failures.push(format!(
                            "{before} to {after}, surge {surge}, unavailable {unavailable}, recreate \
                             {recreate}, sets {sizes:?}, new {new:?}: {error}"
                        ));
                    }
                }
            }
        }
    }
    (index, count, failures)
}

#[test]
fn settled_plans_keep_the_bounds_in_every_small_world() {
    let stride = match std::env::var("ROLLPLAN_EXHAUSTIVE").as_deref() {
        Ok("full") => 1,
        Ok(number) => number
            .parse()
            .expect("ROLLPLAN_EXHAUSTIVE: full or a number"),
        Err(_) => STRIDE,
    };
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    let shares: Vec<_> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..workers)
            .map(|worker| scope.spawn(move || check_share(stride, worker, workers)))
            .collect();
        workers
            .into_iter()
            .map(|worker| worker.join().unwrap())
            .collect()
    });
    let mut total = Count::default();
    let mut failures = Vec::new();
    for (index, count, failed) in shares {
        assert_eq!(index, WORLDS);
        total.add(&count);
        failures.extend(failed);
    }
    println!(
        "{} of {WORLDS} worlds, {} failed\n\
         writes until the world must move: {}, pass by pass {}\n\
         {} first plans end early; Kubernetes is stuck in {} worlds, and turns a size back in {}\n\
         without the clamp {} plans would take too much, and {} after a scaling event",
        total.worlds,
        failures.len(),
        total.merged_writes,
        total.upstream_writes,
        total.cut_short,
        total.wedged,
        total.turned,
        total.unclamped,
        total.unclamped_scaling,
    );
    assert_eq!(total.worlds, WORLDS / stride);
    assert!(total.unclamped_scaling > 0 || stride > STRIDE);
    assert!(total.turned > 0 || stride > STRIDE);
    failures.truncate(15);
    assert!(failures.is_empty(), "{failures:#?}");
}

/// Scaled from three replicas to two, one of the two available pods is deleted. If the rolling update still counted it,
/// it would delete the other one too.
#[test]
fn without_the_clamp_the_last_available_pod_is_deleted() {
    let sets = [(0, 0), (1, 0), (2, 2)];
    let world = mk_world(3, 2, rolling(0, 1), sets, Some(0));
    let takes_too_much = |plan| takes_too_much(&lint(&world, Options::default(), &plan));
    assert!(!takes_too_much(plan_settled(&world, Options::default())));
    assert!(takes_too_much(plan_settled_unclamped(
        &world,
        Options::default()
    )));
}

fn variants() -> impl Iterator<Item = (i32, i32, Option<usize>, bool)> {
    (0..=REPLICAS_MAX).flat_map(|after| {
        (0..=UNAVAILABLE_MAX).flat_map(move |unavailable| {
            [None, Some(0), Some(1), Some(2)]
                .into_iter()
                .flat_map(move |new| {
                    [false, true].map(|recreate| (after, unavailable, new, recreate))
                })
        })
    })
}
