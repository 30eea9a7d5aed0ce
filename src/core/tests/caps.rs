//! Caps: a strategy of the caller. Every plan is linted, which checks the caps and the limits of the Deployment.

use rollplan_core::action::{Action, apply};
use rollplan_core::caps::{Caps, NEW_MAX, OLD_MIN};
use rollplan_core::lint::lint;
use rollplan_core::revision::{DESIRED_REPLICAS, MAX_REPLICAS, REVISION};
use rollplan_core::snapshot::{Condition, Options, ReplicaSet, Snapshot, Strategy};
use rollplan_core::status::{CAPPED, PROGRESSING, SET_UPDATED, TIMED_OUT, condition};
use rollplan_core::{Plan, compute_status, plan_pass, plan_settled};
use rollplan_world::{
    at, mk_condition, mk_deployment, mk_set, mk_snapshot, mk_template, rolling, strings,
};

/// An upper bound for the plans of a small rollout whose pods follow every step.
const PLANS_MAX: usize = 60;

fn capped(new_max: i32, old_min: i32) -> Options {
    Options {
        caps: Caps { new_max, old_min },
        ..Options::default()
    }
}

/// A Deployment with an old ReplicaSet and a new one, all of whose pods are available.
fn mk_rollout(replicas: i32, strategy: Strategy, old: i32, new: i32) -> Snapshot {
    let mut deployment = mk_deployment(replicas);
    deployment.spec.strategy = strategy;
    deployment.spec.template = mk_template("new").into();
    deployment.metadata.annotations = strings([(REVISION, "2")]);
    let sets = vec![
        mk_set(&deployment, "old", 1, old),
        mk_set(&deployment, "new", 2, new),
    ];
    mk_snapshot(deployment, sets)
}

fn sizes(world: &Snapshot) -> Vec<i32> {
    world.replica_sets.iter().map(|set| set.replicas).collect()
}

#[track_caller]
fn linted(world: &Snapshot, options: Options) -> Plan {
    let plan = plan_settled(world, options);
    let own = lint(world, options, &plan).into_iter();
    let own: Vec<_> = own.filter(|found| !found.inherited).collect();
    assert_eq!(
        own,
        [],
        "{:?} {:?} {:?}",
        sizes(world),
        options.caps,
        plan.steps
    );
    plan
}

fn carry_out(world: &mut Snapshot, plan: &Plan) -> bool {
    let mut changes = false;
    for action in plan.steps.iter().filter_map(|step| step.action.as_ref()) {
        changes |= matches!(
            action,
            Action::ScaleReplicaSet { .. } | Action::CreateReplicaSet(_)
        );
        apply(world, action);
    }
    for set in &mut world.replica_sets {
        set.available_max = ReplicaSet::UNTOUCHED;
    }
    changes
}

/// All pods start and terminate.
fn follow(world: &mut Snapshot) {
    for set in &mut world.replica_sets {
        set.status.replicas = set.replicas;
        set.status.ready_replicas = set.replicas;
        set.status.available_replicas = set.replicas;
        set.status.observed_generation = set.metadata.generation;
    }
}

/// Plans until no size changes. Returns the final sizes, in the order of age.
#[track_caller]
fn roll(world: &mut Snapshot, options: Options) -> Vec<i32> {
    for _ in 0..PLANS_MAX {
        let plan = linted(world, options);
        if !carry_out(world, &plan) {
            return sizes(world);
        }
        follow(world);
    }
    panic!(
        "{PLANS_MAX} plans did not end: {:?} {:?}",
        sizes(world),
        options.caps
    );
}

fn progressing(world: &Snapshot, options: Options) -> Condition {
    let status = compute_status(world, options);
    condition(&status, PROGRESSING).unwrap().clone()
}

#[test]
fn rollout_stops_at_the_caps() {
    for (strategy, caps, want) in [
        (rolling(2, 0), (3, 7), [7, 3]),
        // The limits of the Deployment keep more old pods than the cap.
        (rolling(2, 0), (3, 0), [7, 3]),
        (rolling(2, 2), (3, 0), [5, 3]),
        // They leave less room for new pods than the cap.
        (rolling(2, 0), (i32::MAX, 7), [7, 5]),
        (rolling(2, 0), (10, i32::MAX), [10, 2]),
        (rolling(2, 0), (0, 10), [10, 0]),
        (rolling(10, 0), (10, 10), [10, 10]),
        (rolling(2, 0), (i32::MAX, 0), [0, 10]),
    ] {
        let mut world = mk_rollout(10, strategy, 10, 0);
        let got = roll(&mut world, capped(caps.0, caps.1));
        assert_eq!(got, want, "{strategy:?} {caps:?}");
    }
}

#[test]
fn caps_below_the_present_sizes_scale_nothing_down() {
    let mut world = mk_rollout(10, rolling(2, 0), 7, 3);
    assert_eq!(roll(&mut world, capped(1, 9)), [7, 3]);
    assert_eq!(roll(&mut world, capped(0, i32::MAX)), [7, 3]);
}

#[test]
fn caps_keep_no_pods_that_exceed_the_surge() {
    // The surge was 100%, and a user has lowered it while all pods existed twice.
    let mut world = mk_rollout(10, rolling(2, 0), 10, 10);
    assert_eq!(roll(&mut world, capped(10, 10)), [2, 10]);
}

/// Unavailable old pods are removed first, and only as far as the cap allows.
#[test]
fn caps_keep_unavailable_old_pods() {
    for (old_min, want) in [(0, 8), (9, 9), (10, 10)] {
        let mut world = mk_rollout(10, rolling(0, 2), 10, 0);
        world.replica_sets[0].status.available_replicas = 7;
        let plan = linted(&world, capped(i32::MAX, old_min));
        carry_out(&mut world, &plan);
        assert_eq!(world.replica_sets[0].replicas, want, "{old_min}");
    }
}

/// Recreate removes old pods only in order to start new ones.
#[test]
fn recreate_starts_only_if_its_caps_let_it_replace_pods() {
    for (caps, want) in [
        ((0, 0), [4, 0]),
        ((4, 1), [4, 0]),
        ((2, 0), [0, 2]),
        ((i32::MAX, 0), [0, 4]),
    ] {
        let mut world = mk_rollout(4, Strategy::Recreate, 4, 0);
        world.pods_complete = true;
        let options = capped(caps.0, caps.1);
        assert_eq!(roll(&mut world, options), want, "{caps:?}");
        let is_capped = progressing(&world, options).reason == CAPPED;
        assert_eq!(is_capped, want != [0, 4], "{caps:?}");
    }
    // The new ReplicaSet is created with the size that its cap allows.
    let mut world = mk_rollout(4, Strategy::Recreate, 0, 0);
    world.replica_sets.truncate(1);
    world.pods_complete = true;
    assert_eq!(roll(&mut world, capped(3, 0)), [0, 3]);
}

#[test]
fn pass_keeps_the_caps() {
    let options = capped(3, 9);
    let mut world = mk_rollout(10, rolling(2, 0), 10, 0);
    for want in [[10, 2], [9, 2], [9, 3], [9, 3]] {
        let plan = plan_pass(&world, options);
        carry_out(&mut world, &plan);
        follow(&mut world);
        assert_eq!(sizes(&world), want);
    }
    assert_eq!(progressing(&world, options).reason, CAPPED);
}

/// In a rollover, the caps are about the newest ReplicaSet, and about all others together.
#[test]
fn caps_change_in_a_rollover() {
    let mut world = mk_rollout(10, rolling(2, 0), 10, 0);
    assert_eq!(roll(&mut world, capped(3, 7)), [7, 3]);
    world.deployment.spec.template = mk_template("newer").into();
    world.deployment.metadata.generation += 1;
    assert_eq!(roll(&mut world, capped(2, 8)), [5, 3, 2]);
    assert_eq!(roll(&mut world, capped(6, 4)), [1, 3, 6]);
    assert_eq!(roll(&mut world, Options::default()), [0, 0, 10]);
}

#[test]
fn caps_of_options_and_annotations_both_hold() {
    let annotate = |world: &mut Snapshot, key: &str, value: &str| {
        let annotations = &mut world.deployment.metadata.annotations;
        annotations.insert(key.to_owned(), value.to_owned());
    };
    let mut world = mk_rollout(10, rolling(2, 0), 10, 0);
    annotate(&mut world, NEW_MAX, "3");
    annotate(&mut world, OLD_MIN, "7");
    assert_eq!(roll(&mut world, Options::default()), [7, 3]);
    // They are not copied to the ReplicaSet.
    let copied = |set: &ReplicaSet| {
        let annotations = &set.metadata.annotations;
        annotations.contains_key(NEW_MAX) || annotations.contains_key(OLD_MIN)
    };
    assert!(!world.replica_sets.iter().any(copied));
    assert_eq!(roll(&mut world, capped(5, 0)), [7, 3]);
    annotate(&mut world, NEW_MAX, "9");
    annotate(&mut world, OLD_MIN, "1");
    assert_eq!(roll(&mut world, capped(5, 0)), [5, 5]);
    assert_eq!(roll(&mut world, capped(10, 4)), [4, 8]);
    // The reader of requests rejects such a value. Without it, the value stops the rollout.
    annotate(&mut world, NEW_MAX, "half");
    assert_eq!(roll(&mut world, Options::default()), [2, 8]);
}

#[test]
fn caps_are_reported_like_a_pause() {
    let mut world = mk_rollout(10, rolling(2, 0), 7, 3);
    let long_ago = mk_condition(PROGRESSING, "True", SET_UPDATED, at(-7_200));
    world.deployment.status.conditions = vec![long_ago];
    world.deployment.status.replicas = 10;
    world.deployment.status.updated_replicas = 3;
    world.deployment.status.ready_replicas = 10;
    world.deployment.status.available_replicas = 10;
    let plan = linted(&world, capped(3, 7));
    let found = condition(&plan.status, PROGRESSING).unwrap();
    assert_eq!((&*found.status, &*found.reason), ("Unknown", CAPPED));
    let message =
        "ReplicaSet \"web-new\" is held by its caps: at most 3 new pods and at least 7 old pods.";
    assert_eq!(found.message, message);
    assert_eq!(plan.requeue_after, None);
    carry_out(&mut world, &plan);
    // Nothing more is written, until the caps change.
    world.now = at(3_600);
    assert!(linted(&world, capped(3, 7)).steps.is_empty());
    let message = "ReplicaSet \"web-new\" is held by its caps: at most 2 new pods.";
    assert_eq!(progressing(&world, capped(2, 0)).message, message);
    // The deadline starts again.
    let plan = linted(&world, capped(5, 5));
    let found = condition(&plan.status, PROGRESSING).unwrap();
    assert_eq!(found.reason, SET_UPDATED);
    assert_eq!(found.last_update_time, Some(world.now));
    assert_eq!(plan.requeue_after.map(|span| span.seconds()), Some(601));
}

/// A rollout whose new pods are not available is not held by its caps: its deadline counts.
#[test]
fn deadline_counts_while_new_pods_are_not_available() {
    let mut world = mk_rollout(10, rolling(2, 0), 7, 3);
    world.replica_sets[1].status.available_replicas = 2;
    world.deployment.status.updated_replicas = 3;
    world.deployment.status.replicas = 10;
    world.deployment.status.ready_replicas = 10;
    world.deployment.status.available_replicas = 9;
    let since = mk_condition(PROGRESSING, "True", SET_UPDATED, at(-700));
    world.deployment.status.conditions = vec![since];
    assert_eq!(progressing(&world, capped(3, 7)).reason, TIMED_OUT);
    // Once they are, the caps are what holds it.
    let status = compute_status(&world, capped(3, 7));
    world.deployment.status = status;
    follow(&mut world);
    assert_eq!(progressing(&world, capped(3, 7)).reason, CAPPED);
}

/// What the new ReplicaSet may not have goes to the old one.
#[test]
fn scaling_keeps_the_new_replica_set_at_its_cap() {
    let mut world = mk_rollout(10, rolling(2, 0), 7, 3);
    world.deployment.spec.replicas = 20;
    world.deployment.metadata.generation += 1;
    let mut passed = world.clone();
    let plan = plan_pass(&passed, capped(3, 7));
    carry_out(&mut passed, &plan);
    assert_eq!(sizes(&passed), [19, 3]);
    assert_eq!(roll(&mut world, capped(3, 7)), [17, 3]);
    // The caps do not keep pods of a Deployment that is scaled down.
    world.deployment.spec.replicas = 5;
    let scaled = roll(&mut world, capped(3, 17));
    assert_eq!(scaled.iter().sum::<i32>(), 7);
    world.deployment.spec.replicas = 0;
    assert_eq!(roll(&mut world, capped(0, 17)), [0, 0]);
}

/// A scaling event ends, although the caps leave the size as it is.
#[test]
fn scaling_event_of_a_capped_replica_set_ends() {
    for plan in [plan_pass, plan_settled] {
        let mut world = mk_rollout(10, rolling(2, 10), 0, 3);
        world.deployment.spec.replicas = 12;
        let options = capped(3, 0);
        let writes = plan(&world, options);
        carry_out(&mut world, &writes);
        assert_eq!(sizes(&world), [0, 3]);
        let annotations = &world.replica_sets[1].metadata.annotations;
        assert_eq!(annotations[DESIRED_REPLICAS], "12");
        assert_eq!(annotations[MAX_REPLICAS], "14");
    }
    // A rollout that was complete is scaled as usual.
    let mut world = mk_rollout(10, rolling(2, 0), 0, 10);
    world.deployment.spec.replicas = 20;
    assert_eq!(roll(&mut world, capped(3, 0)), [0, 20]);
}

/// The new ReplicaSet has all desired pods, and a ReplicaSet was last scaled for another number.
#[test]
fn caps_keep_old_pods_of_a_saturated_rollout() {
    for (old_min, want) in [(0, 0), (4, 4), (9, 5)] {
        let mut world = mk_rollout(5, rolling(5, 0), 5, 5);
        let annotations = &mut world.replica_sets[0].metadata.annotations;
        annotations.insert(DESIRED_REPLICAS.to_owned(), "4".to_owned());
        let plan = plan_pass(&world, capped(5, old_min));
        carry_out(&mut world, &plan);
        assert_eq!(sizes(&world), [want, 5], "{old_min}");
        if want > 0 {
            let annotations = &world.replica_sets[0].metadata.annotations;
            assert_eq!(annotations[DESIRED_REPLICAS], "5");
        }
    }
}

/// Whatever caps follow each other, every plan keeps them and the limits, the plans end, and without caps the rollout is
/// completed.
#[test]
fn any_two_caps_in_a_small_world_end() {
    let mut worlds = 0;
    let caps = [(0, 0), (1, 3), (2, 1), (3, 0), (i32::MAX, 2), (2, i32::MAX)];
    for (surge, unavailable) in [(1, 0), (0, 1), (2, 1), (4, 0)] {
        for old in 0..=4 {
            for new in 0..=4 - old {
                for replicas in [4, 3, 6] {
                    for first in caps {
                        for second in caps {
                            worlds += 1;
                            let strategy = rolling(surge, unavailable);
                            let mut world = mk_rollout(4, strategy, old, new);
                            world.deployment.spec.replicas = replicas;
                            roll(&mut world, capped(first.0, first.1));
                            roll(&mut world, capped(second.0, second.1));
                            let end = roll(&mut world, Options::default());
                            assert_eq!(end, [0, replicas]);
                        }
                    }
                }
            }
        }
    }
    assert_eq!(worlds, 4 * 15 * 3 * 36);
}
