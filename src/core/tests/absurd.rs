//! Extreme numbers: nothing overflows, and plans stay valid. Tests run with overflow checks.

use rollplan_core::action::{Action, apply};
use rollplan_core::lint::{Rule, lint};
use rollplan_core::plan_settled;
use rollplan_core::revision::{DESIRED_REPLICAS, MAX_REPLICAS, REVISION, ROLLBACK_TO};
use rollplan_core::size::IntOrPercent;
use rollplan_core::snapshot::{Options, ReplicaSet, Snapshot, Strategy};
use rollplan_core::time::Time;
use rollplan_core::{Plan, compute_status, plan_pass};
use rollplan_world::random::Random;
use rollplan_world::{
    at, mk_condition, mk_deployment, mk_pod, mk_set, mk_snapshot, mk_template, now, rolling,
    strings,
};

const MAX: i32 = i32::MAX;

/// A hundred ReplicaSets of the maximum size, the last of them new. All other numbers are at their maximum, too.
fn largest() -> Snapshot {
    let mut deployment = mk_deployment(MAX);
    deployment.spec.strategy = Strategy::RollingUpdate {
        max_surge: IntOrPercent::Percent(2_000_000_000),
        max_unavailable: IntOrPercent::Percent(2_000_000_000),
    };
    deployment.spec.min_ready_seconds = MAX;
    deployment.spec.progress_deadline_seconds = MAX - 1;
    deployment.spec.template = mk_template("v99").into();
    deployment.metadata.generation = i64::MAX;
    deployment.metadata.annotations = strings([(REVISION, "9223372036854775807")]);
    deployment.status.collision_count = Some(MAX);
    deployment.status.observed_generation = i64::MAX;
    deployment.status.replicas = MAX;
    deployment.status.updated_replicas = MAX;
    let last = Time::MAX.whole_seconds();
    deployment.status.conditions = vec![mk_condition("Progressing", "True", "Some", last)];
    let sets = (0..100).map(|number| {
        let mut set = mk_set(&deployment, &format!("v{number}"), number, MAX);
        set.metadata.generation = i64::MAX;
        set.metadata.creation_timestamp = Some(if number % 2 == 0 {
            Time::MIN
        } else {
            Time::MAX
        });
        let annotations = &mut set.metadata.annotations;
        annotations.insert(REVISION.to_owned(), (i64::MAX - 99 + number).to_string());
        set.status.terminating_replicas = Some(MAX);
        set.status.observed_generation = i64::MAX;
        set
    });
    let sets = sets.collect();
    mk_snapshot(deployment, sets)
}

fn sizes(plan: &Plan) -> Vec<(&str, i32, i32)> {
    let actions = plan.steps.iter().filter_map(|step| step.action.as_ref());
    actions
        .filter_map(|action| match action {
            Action::ScaleReplicaSet { set, from, to, .. } => Some((set.name.as_str(), *from, *to)),
            _ => None,
        })
        .collect()
}

#[test]
fn largest_world_is_planned() {
    let snapshot = largest();
    let status = compute_status(&snapshot, Options::default());
    assert_eq!(status.replicas, MAX);
    assert_eq!(status.updated_replicas, MAX);
    assert_eq!(status.available_replicas, MAX);
    assert_eq!(status.unavailable_replicas, 0);
    assert_eq!(status.terminating_replicas, Some(MAX));
    assert_eq!(status.observed_generation, i64::MAX);
    for planner in [plan_pass, plan_settled] {
        let plan = planner(&snapshot, Options::default());
        let mut world = snapshot.clone();
        for step in &plan.steps {
            apply(&mut world, step.action.as_ref().unwrap());
        }
        // The generation stays at its maximum.
        for set in &world.replica_sets {
            assert_eq!(set.metadata.generation, i64::MAX);
        }
    }
    // The minimum is 0, so every old pod may be deleted.
    let plan = plan_settled(&snapshot, Options::default());
    let scaled = sizes(&plan);
    assert_eq!(scaled.len(), 99);
    assert!(
        scaled
            .iter()
            .all(|(name, from, to)| *name != "web-v99" && *from == MAX && *to == 0)
    );
}

#[test]
fn generation_does_not_exceed_its_maximum() {
    let mut snapshot = largest();
    snapshot.replica_sets.drain(..98);
    // Unavailable and available pods are deleted by two writes to one ReplicaSet: the second tests the next generation.
    snapshot.deployment.spec.strategy = rolling(MAX, 5);
    snapshot.replica_sets[0].status.available_replicas = MAX - 3;
    snapshot.replica_sets[1].min_ready_seconds = MAX;
    let annotations = &mut snapshot.replica_sets[1].metadata.annotations;
    annotations.insert(REVISION.to_owned(), i64::MAX.to_string());
    let plan = plan_pass(&snapshot, Options::default());
    assert_eq!(
        sizes(&plan),
        [("web-v98", MAX, MAX - 3), ("web-v98", MAX - 3, 0)]
    );
    let generations = plan.steps.iter().filter_map(|step| match &step.action {
        Some(Action::ScaleReplicaSet { set, .. }) => Some(set.generation),
        _ => None,
    });
    assert_eq!(generations.collect::<Vec<_>>(), [i64::MAX, i64::MAX]);
}

#[test]
fn largest_world_is_scaled() {
    let mut snapshot = largest();
    for set in &mut snapshot.replica_sets {
        let annotations = &mut set.metadata.annotations;
        annotations.insert(DESIRED_REPLICAS.to_owned(), "1".to_owned());
        annotations.insert(MAX_REPLICAS.to_owned(), "1".to_owned());
        set.status.available_replicas = 0;
    }
    let plan = plan_pass(&snapshot, Options::default());
    // The share of every ReplicaSet exceeds the limit. The first one compensates for the excess.
    let [(name, from, to)] = sizes(&plan)[..] else {
        panic!("{:?}", sizes(&plan));
    };
    assert_eq!((name, from, to), ("web-v0", MAX, 0));
    // Scaled to zero.
    snapshot.deployment.spec.replicas = 0;
    let plan = plan_pass(&snapshot, Options::default());
    let scaled = sizes(&plan);
    assert_eq!(scaled.len(), 100);
    assert!(scaled.iter().all(|(_, from, to)| (*from, *to) == (MAX, 0)));
}

#[test]
fn collision_count_and_revision_do_not_exceed_their_maximum() {
    let mut snapshot = largest();
    snapshot.deployment.spec.template = mk_template("none").into();
    let create = |snapshot: &Snapshot| {
        let plan = plan_pass(snapshot, Options::default());
        plan.steps.into_iter().find_map(|step| match step.action {
            Some(Action::CreateReplicaSet(set)) => Some(set),
            _ => None,
        })
    };
    let created = create(&snapshot).unwrap();
    assert_eq!((created.replicas, created.revision), (0, i64::MAX));
    assert_eq!(created.metadata.annotations[MAX_REPLICAS], "2147483647");
    // Its name is taken, and the collision count stays at its maximum.
    let deployment = snapshot.deployment.clone();
    let mut taken = mk_set(&deployment, "other", 1, 1);
    taken.metadata.name = created.metadata.name;
    snapshot.replica_sets.push(taken);
    assert!(create(&snapshot).is_none());
    let plan = plan_pass(&snapshot, Options::default());
    assert_eq!(plan.status.collision_count, Some(MAX));
    assert_eq!(plan_settled(&snapshot, Options::default()).steps, []);
}

/// The years 1 and 9999, with conditions from both.
#[test]
fn earliest_and_latest_times_are_planned() {
    let wait = |now: Time, updated: Time, deadline: i32| {
        let mut deployment = mk_deployment(1);
        deployment.metadata.annotations = strings([(REVISION, "1")]);
        deployment.spec.progress_deadline_seconds = deadline;
        deployment.status.conditions = vec![mk_condition("Progressing", "True", "Some", updated)];
        let mut set = mk_set(&deployment, "v1", 1, 1);
        set.status.available_replicas = 0;
        set.status.ready_replicas = 0;
        deployment.status.replicas = 1;
        deployment.status.updated_replicas = 1;
        let mut snapshot = mk_snapshot(deployment, vec![set]);
        snapshot.now = now;
        let settled = plan_settled(&snapshot, Options::default());
        let pass = plan_pass(&snapshot, Options::default());
        assert_eq!(settled.status, pass.status);
        assert_eq!(settled.requeue_after, pass.requeue_after);
        settled.requeue_after.map(|span| span.seconds())
    };
    const YEARS: i64 = 253_402_300_799 + 62_135_596_800;
    let (first, last) = (Time::MIN, Time::MAX.whole_seconds());
    for (now, updated, deadline, want) in [
        (first, first, 600, Some(601)),
        (first, last, 600, Some(YEARS + 1)),
        (last, last, 600, Some(1)),
        (last, last, MAX - 1, Some(1)),
        (last, first, MAX - 1, None),
        (first, first, MAX - 1, Some(2_147_483_647)),
        (first, last, MAX, None),
    ] {
        assert_eq!(
            wait(now, updated, deadline),
            want,
            "{now} {updated} {deadline}"
        );
    }
}

/// Random combinations of extreme values are planned, and the order of the input does not matter.
#[test]
fn random_extremes_are_planned() {
    type Planner = fn(&Snapshot, Options) -> Plan;
    const PLANNERS: [(Planner, bool); 2] = [(plan_pass, false), (plan_settled, true)];
    let mut random = Random::from_env();
    for _ in 0..2_000 {
        let snapshot = extreme(&mut random);
        for (planner, settled) in PLANNERS {
            let plan = planner(&snapshot, Options::default());
            let mut world = snapshot.clone();
            for action in plan.steps.iter().filter_map(|step| step.action.as_ref()) {
                apply(&mut world, action);
            }
            assert!(
                world.replica_sets.iter().all(|set| set.replicas >= 0),
                "{random}"
            );
            assert!(plan.status.unavailable_replicas >= 0, "{random}");
            let never = plan.requeue_after.is_some_and(|span| span.seconds() < 1);
            assert!(!never, "{random}");
            if !settled {
                continue;
            }
            for violation in lint(&snapshot, Options::default(), &plan) {
                // If max-replicas is less than the current size, a ReplicaSet may grow while the total shrinks, as
                // upstream.
                let growing = matches!(violation.rule, Rule::MaxTotal { .. });
                assert!(violation.inherited || growing, "{random} {violation:?}");
            }
        }
        for planner in [plan_pass, plan_settled] {
            let plan = planner(&snapshot, Options::default());
            let mut other = snapshot.clone();
            random.shuffle(&mut other.replica_sets);
            let mut pods = other.pods.to_vec();
            random.shuffle(&mut pods);
            other.pods = pods.into();
            assert_eq!(planner(&other, Options::default()), plan, "{random}");
        }
    }
}

fn extreme(random: &mut Random) -> Snapshot {
    const COUNTS: [i32; 7] = [0, 1, 2, 3, 1_000_000, MAX - 1, MAX];
    const GENERATIONS: [i64; 4] = [0, 1, i64::MAX - 1, i64::MAX];
    const TEXTS: [&str; 9] = [
        "0",
        "1",
        "3",
        "-1",
        "x",
        "",
        "2147483647",
        "9223372036854775807",
        "9223372036854775808",
    ];
    let times = [Time::MIN, at(-60), now(), at(60), Time::MAX];
    let limit = |random: &mut Random| match random.below(2) {
        0 => IntOrPercent::Int(*random.pick(&COUNTS)),
        _ => IntOrPercent::Percent(*random.pick(&COUNTS)),
    };
    let mut deployment = mk_deployment(*random.pick(&COUNTS));
    deployment.spec.strategy = match random.below(4) {
        0 => Strategy::Recreate,
        _ => Strategy::RollingUpdate {
            max_surge: limit(random),
            max_unavailable: limit(random),
        },
    };
    deployment.spec.paused = random.below(6) == 0;
    deployment.spec.revision_history_limit = *random.pick(&COUNTS);
    deployment.spec.progress_deadline_seconds = *random.pick(&COUNTS[1..]);
    deployment.metadata.generation = *random.pick(&GENERATIONS);
    deployment.metadata.deletion_timestamp = (random.below(12) == 0).then_some(now());
    if random.below(12) == 0 {
        let annotations = &mut deployment.metadata.annotations;
        annotations.insert(ROLLBACK_TO.to_owned(), (*random.pick(&TEXTS)).to_owned());
    }
    let status = &mut deployment.status;
    status.observed_generation = *random.pick(&GENERATIONS);
    status.replicas = *random.pick(&COUNTS);
    status.updated_replicas = *random.pick(&COUNTS);
    status.available_replicas = *random.pick(&COUNTS);
    status.collision_count = (random.below(2) == 0).then(|| *random.pick(&COUNTS));
    for reason in ["Some", "NewReplicaSetAvailable", "DeploymentPaused"] {
        if random.below(4) == 0 {
            let since = *random.pick(&times);
            status.conditions = vec![mk_condition("Progressing", "True", reason, since)];
        }
    }
    let mut sets: Vec<ReplicaSet> = Vec::new();
    let mut pods = Vec::new();
    for number in 0..random.below(5) {
        let image = *random.pick(&["v1", "v2", "v3"]);
        let mut set = mk_set(&deployment, image, 1, *random.pick(&COUNTS));
        set.metadata.name = format!("web-{number}");
        set.metadata.uid = format!("uid-{number}");
        set.metadata.generation = *random.pick(&GENERATIONS);
        set.metadata.creation_timestamp = Some(*random.pick(&times));
        for key in [REVISION, DESIRED_REPLICAS, MAX_REPLICAS] {
            if random.below(2) == 0 {
                let text = *random.pick(&TEXTS);
                let annotations = &mut set.metadata.annotations;
                annotations.insert(key.to_owned(), text.to_owned());
            }
        }
        set.status.replicas = *random.pick(&COUNTS);
        set.status.ready_replicas = *random.pick(&COUNTS);
        set.status.available_replicas = *random.pick(&COUNTS);
        set.status.terminating_replicas = (random.below(3) > 0).then(|| *random.pick(&COUNTS));
        set.status.observed_generation = *random.pick(&GENERATIONS);
        match random.below(8) {
            0 => set.metadata.owner_references.clear(),
            1 => set.metadata.labels.clear(),
            _ => {}
        }
        for pod in 0..random.below(3) {
            let phase = *random.pick(&["Running", "Failed", ""]);
            pods.push(mk_pod(&set, &format!("pod-{number}-{pod}"), phase));
        }
        sets.push(set);
    }
    let mut snapshot = mk_snapshot(deployment, sets);
    snapshot.now = *random.pick(&times);
    snapshot.pods = pods.into();
    snapshot.pods_complete = random.below(4) > 0;
    snapshot
}
