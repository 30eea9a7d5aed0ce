//! The number of writes of whole rollouts, settled and pass by pass, with pods that follow every step.
//! `cargo test -p rollplan-core rollout -- --nocapture` prints the numbers.

use std::cell::Cell;

use rollplan_core::action::{Action, apply};
use rollplan_core::interrupt::Interrupt;
use rollplan_core::lint::lint;
use rollplan_core::snapshot::{Options, Snapshot};
use rollplan_core::template::Template;
use rollplan_core::{Plan, plan_pass, plan_settled, plan_settled_until, status};
use rollplan_world::{at, mk_deployment, mk_set, mk_snapshot, mk_template, rolling};

/// An upper bound for the decisions of a rollout.
const DECISIONS_MAX: usize = 500;

type Planner = fn(&Snapshot, Options) -> Plan;

/// How pods become available.
#[derive(Clone, Copy, Debug)]
enum Readiness {
    OneAtATime,
    AllAtOnce,
}

/// Writes of a rollout.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Writes {
    sets: usize,
    status: usize,
}

impl Writes {
    fn total(self) -> usize {
        self.sets + self.status
    }

    fn count(&mut self, action: &Action) {
        match action {
            Action::UpdateDeployment { .. } | Action::UpdateDeploymentStatus { .. } => {
                self.status += 1;
            }
            _ => self.sets += 1,
        }
    }
}

/// A complete Deployment whose image has just changed.
fn mk_update(replicas: i32) -> Snapshot {
    let mut deployment = mk_deployment(replicas);
    let set = mk_set(&deployment, "v1", 1, replicas);
    deployment.spec.template = Template::from(mk_template("v2"));
    deployment.metadata.generation = 2;
    let mut world = mk_snapshot(deployment, vec![set]);
    // The status after the previous rollout.
    let status = rollplan_core::compute_status(&world, Options::default());
    world.deployment.status = status;
    world.deployment.status.updated_replicas = replicas;
    world
}

/// Acts as the ReplicaSet controller: starts pods, and deletes unavailable pods first.
fn follow(world: &mut Snapshot) {
    for set in &mut world.replica_sets {
        let status = &mut set.status;
        status.replicas = set.replicas;
        status.available_replicas = status.available_replicas.min(set.replicas);
        status.ready_replicas = status.available_replicas;
        status.terminating_replicas = Some(0);
        status.observed_generation = set.metadata.generation;
        set.available_max = rollplan_core::snapshot::ReplicaSet::UNTOUCHED;
    }
}

fn become_available(world: &mut Snapshot, readiness: Readiness) {
    for set in &mut world.replica_sets {
        let missing = set.replicas - set.status.available_replicas;
        if missing > 0 {
            let more = match readiness {
                Readiness::OneAtATime => 1,
                Readiness::AllAtOnce => missing,
            };
            set.status.available_replicas += more;
            set.status.ready_replicas = set.status.available_replicas;
            return;
        }
    }
}

fn is_complete(world: &Snapshot) -> bool {
    let status = &world.deployment.status;
    let progressing = status::condition(status, status::PROGRESSING);
    progressing.is_some_and(|condition| condition.reason == status::NEW_SET_AVAILABLE)
        && status.updated_replicas == world.deployment.spec.replicas
        && status.replicas == world.deployment.spec.replicas
        && world
            .replica_sets
            .iter()
            .any(|set| set.metadata.name != "web-v1")
}

fn roll_out(mut world: Snapshot, planner: Planner, readiness: Readiness, settled: bool) -> Writes {
    let mut writes = Writes::default();
    for second in 0..DECISIONS_MAX {
        world.now = at(i64::try_from(second).unwrap());
        let plan = planner(&world, Options::default());
        if settled {
            assert_eq!(lint(&world, Options::default(), &plan), vec![]);
        }
        let actions: Vec<&Action> = plan
            .steps
            .iter()
            .filter_map(|step| step.action.as_ref())
            .collect();
        if actions.is_empty() {
            if is_complete(&world) {
                return writes;
            }
            become_available(&mut world, readiness);
        }
        for action in actions {
            writes.count(action);
            apply(&mut world, action);
        }
        follow(&mut world);
    }
    panic!(
        "not complete after {DECISIONS_MAX} decisions: {:?}",
        world.deployment.status
    );
}

#[test]
fn settled_plans_need_fewer_writes() {
    println!(
        "replicas  pods ready     pass by pass (sets + status)  settled (sets + status)  saved"
    );
    for replicas in [4, 10] {
        for readiness in [Readiness::OneAtATime, Readiness::AllAtOnce] {
            let passes = roll_out(mk_update(replicas), plan_pass, readiness, false);
            let settled = roll_out(mk_update(replicas), plan_settled, readiness, true);
            println!(
                "{replicas:>8}  {:<12}  {:>4} ({:>2} + {:>2}){:>20} ({:>2} + {:>2}){:>11} %",
                format!("{readiness:?}"),
                passes.total(),
                passes.sets,
                passes.status,
                settled.total(),
                settled.sets,
                settled.status,
                100 - 100 * settled.total() / passes.total(),
            );
            assert!(settled.sets <= passes.sets, "{settled:?} {passes:?}");
            assert!(settled.total() < passes.total(), "{settled:?} {passes:?}");
        }
    }
}

/// Counts the checks for an interrupt.
#[derive(Default)]
struct Count(Cell<usize>);

impl Interrupt for Count {
    fn is_interrupted(&self) -> bool {
        self.0.set(self.0.get() + 1);
        false
    }
}

/// Scaled down by half during a rollout that replaces one pod at a time, the new ReplicaSet regains its pods in a thousand
/// passes. Each pass compares as many annotations as Kubernetes allows.
#[test]
fn number_of_passes_is_limited_by_their_cost() {
    let checks = |annotations: usize| {
        let mut deployment = mk_deployment(20_000);
        deployment.spec.strategy = rolling(1, 0);
        let mut sets: Vec<_> = [("v0", 1), ("v1", 2)]
            .map(|(image, revision)| mk_set(&deployment, image, revision, 10_000))
            .into();
        deployment.spec.replicas = 10_000;
        let sets_metadata = sets.iter_mut().map(|set| &mut set.metadata);
        for metadata in sets_metadata.chain([&mut deployment.metadata]) {
            let many = (0..annotations).map(|i| (format!("a{i}"), String::new()));
            metadata.annotations.extend(many);
        }
        let count = Count::default();
        let world = mk_snapshot(deployment, sets);
        let plan = plan_settled_until(&world, Options::default(), &count).unwrap();
        assert!(plan.exhausted);
        let found = lint(&world, Options::default(), &plan).into_iter();
        let own = found.filter(|violation| !violation.inherited);
        assert_eq!(own.collect::<Vec<_>>(), vec![]);
        count.0.get()
    };
    let (few, many) = (checks(0), checks(9_000));
    assert!(few > 5_000, "{few}");
    assert!(many < few / 20, "{many} of {few}");
}
