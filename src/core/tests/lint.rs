//! The linter reports the violations of modified plans.

use rollplan_core::action::Action;
use rollplan_core::lint::{Rule, lint};
use rollplan_core::revision::{REVISION, ROLLBACK_TO};
use rollplan_core::snapshot::{Options, Snapshot, StepFailure, Strategy};
use rollplan_core::{Plan, plan_pass, plan_settled};
use rollplan_world::{mk_deployment, mk_set, mk_snapshot, mk_template, rolling, strings};

/// 4 replicas, maxSurge 1 and maxUnavailable 1, with 3 old pods and 2 new ones, all available.
fn half_way() -> Snapshot {
    let mut deployment = mk_deployment(4);
    deployment.spec.strategy = rolling(1, 1);
    deployment.spec.template = mk_template("v2").into();
    deployment.metadata.annotations = strings([(REVISION, "2")]);
    let sets = vec![
        mk_set(&deployment, "v1", 1, 3),
        mk_set(&deployment, "v2", 2, 2),
    ];
    mk_snapshot(deployment, sets)
}

fn plan(world: &Snapshot) -> Plan {
    plan_settled(world, Options::default())
}

/// The violations, each with the number of steps before it.
fn found(world: &Snapshot, plan: &Plan) -> Vec<(usize, Rule)> {
    let violations = lint(world, Options::default(), plan);
    let own = violations.into_iter().filter(|found| !found.inherited);
    own.map(|found| (found.after_steps, found.rule)).collect()
}

fn resize(plan: &mut Plan, index: usize, size: i32) {
    match plan.steps[index].action.as_mut() {
        Some(Action::ScaleReplicaSet { to, .. }) => *to = size,
        Some(Action::CreateReplicaSet(set)) => set.replicas = size,
        other => panic!("{other:?}"),
    }
}

/// Violations of the bounds only: a modified plan is also incomplete.
fn bounds(world: &Snapshot, plan: &Plan) -> Vec<(usize, Rule)> {
    let mut found = found(world, plan);
    found.retain(|(_, rule)| !matches!(rule, Rule::Settled { .. }));
    found
}

/// A single sync of Kubernetes does this: it scales an old ReplicaSet up, and the next sync scales it to zero.
#[test]
fn size_that_the_next_plan_reverses_is_reported() {
    let mut world = half_way();
    world.deployment.spec.strategy = Strategy::Recreate;
    world.deployment.spec.replicas = 17;
    world.replica_sets.truncate(1);
    let pass = plan_pass(&world, Options::default());
    let reversed = Rule::Reversed {
        name: "web-v1".to_owned(),
        sizes: [3, 17, 0],
    };
    assert!(found(&world, &pass).contains(&(pass.steps.len(), reversed)));
    assert_eq!(found(&world, &plan(&world)), []);
}

#[test]
fn valid_plans_have_no_violations() {
    let world = half_way();
    assert_eq!(plan(&world).steps.len(), 3, "down, up, status");
    assert_eq!(found(&world, &plan(&world)), []);
    // Pods of other owners do not count, nor those of an orphan that is being deleted.
    let mut crowded = half_way();
    let others = [("other", Some("other-uid")), ("going", None)];
    for (image, owner) in others {
        let mut set = mk_set(&crowded.deployment, image, 1, 100);
        match owner {
            Some(uid) => set.metadata.owner_references[0].uid = uid.to_owned(),
            None => {
                set.metadata.owner_references.clear();
                set.metadata.deletion_timestamp = Some(crowded.now);
            }
        }
        crowded.replica_sets.push(set);
    }
    assert_eq!(found(&crowded, &plan(&crowded)), []);
}

#[test]
fn exceeding_the_surge_is_reported() {
    let world = half_way();
    let mut ups_first = plan(&world);
    ups_first.steps.swap(0, 1);
    let too_many = Rule::MaxTotal { total: 7, max: 5 };
    assert_eq!(bounds(&world, &ups_first), [(1, too_many.clone())]);
    // Pods of a ReplicaSet that will be adopted or is being deleted count.
    let mut orphaned = world.clone();
    orphaned.replica_sets[0].metadata.owner_references.clear();
    assert_eq!(bounds(&orphaned, &ups_first), [(1, too_many.clone())]);
    let mut going = world.clone();
    going.replica_sets[0].metadata.deletion_timestamp = Some(world.now);
    assert_eq!(bounds(&going, &ups_first), [(1, too_many)]);

    let mut without_new = half_way();
    without_new.replica_sets.truncate(1);
    let mut creates = plan(&without_new);
    let index = creates
        .steps
        .iter()
        .position(|step| matches!(step.action, Some(Action::CreateReplicaSet(_))));
    resize(&mut creates, index.unwrap(), 3);
    let too_many = Rule::MaxTotal { total: 6, max: 5 };
    assert_eq!(
        bounds(&without_new, &creates),
        [(index.unwrap() + 1, too_many)]
    );

    // Exception, as upstream: a rollback that an annotation requests.
    let mut asked = world.clone();
    let annotations = &mut asked.deployment.metadata.annotations;
    annotations.insert(ROLLBACK_TO.to_owned(), "1".to_owned());
    assert_eq!(bounds(&asked, &ups_first), []);
}

#[test]
fn deleting_too_many_pods_is_reported() {
    let world = half_way();
    let mut spoilt = plan(&world);
    resize(&mut spoilt, 0, 0);
    let too_few = Rule::MinAvailable {
        available: 2,
        min: 3,
    };
    assert_eq!(bounds(&world, &spoilt), [(1, too_few)]);
    // Paused Deployments and the strategy Recreate have no minimum.
    let mut paused = world.clone();
    paused.deployment.spec.paused = true;
    assert_eq!(bounds(&paused, &spoilt), []);
    let mut recreate = world.clone();
    recreate.deployment.spec.strategy = Strategy::Recreate;
    assert!(
        bounds(&recreate, &spoilt)
            .iter()
            .all(|(_, rule)| !matches!(rule, Rule::MinAvailable { .. }))
    );
    // A ReplicaSet without pods that was sized for another number of replicas is not a scaling event: the bounds apply.
    let mut idle = world;
    let mut stale = mk_set(&mk_deployment(9), "v0", 1, 0);
    stale.metadata.owner_references = idle.replica_sets[0].metadata.owner_references.clone();
    idle.replica_sets.push(stale);
    assert_eq!(bounds(&idle, &spoilt).len(), 1);
}

#[test]
fn second_write_to_a_replica_set_is_reported() {
    let world = half_way();
    let mut spoilt = plan(&world);
    spoilt.steps.insert(1, spoilt.steps[0].clone());
    let twice = Rule::OneWrite {
        name: "web-v1".to_owned(),
    };
    assert_eq!(found(&world, &spoilt), [(2, twice)]);
}

#[test]
fn incomplete_settled_plans_are_reported() {
    let world = half_way();
    let mut spoilt = plan(&world);
    spoilt.steps.remove(1);
    let [(2, Rule::Settled { steps })] = &found(&world, &spoilt)[..] else {
        panic!("{:?}", found(&world, &spoilt));
    };
    assert_eq!(steps[0], "scale up ReplicaSet web-v2 from 2 to 4");
    // A plan that is not settled may be incomplete.
    spoilt.settled = false;
    assert_eq!(found(&world, &spoilt), []);
}

/// A ReplicaSet cannot be adopted during a scaling event, so every pass tries again.
#[test]
fn repeated_refusal_ends_the_search_for_remaining_steps() {
    let mut world = half_way();
    world.deployment.spec.replicas = 6;
    let mut orphan = mk_set(&world.deployment, "v0", 1, 1);
    orphan.metadata.owner_references.clear();
    world.replica_sets.push(orphan);
    let adopts = plan(&world).steps.into_iter().find_map(|step| {
        let adopts = matches!(step.action, Some(Action::AdoptReplicaSet { .. }));
        step.call().filter(|_| adopts)
    });
    world.failures.push(StepFailure {
        call: adopts.unwrap().id(),
        http_code: 422,
        reason: "Invalid".to_owned(),
        message: String::new(),
        causes: Vec::new(),
        existing: None,
    });
    assert_eq!(found(&world, &plan(&world)), []);
    // A ReplicaSet that was not found has no pods to count.
    world.failures[0].http_code = 404;
    world.replica_sets[2].replicas = 100;
    let without = plan(&world);
    assert_eq!(found(&world, &without), []);
    // Other answers do not mean that it does not exist.
    for (kind, name, http_code) in [
        ("ReplicaSet", "web-v1", 404),
        ("Deployment", "web-v0", 404),
        ("ReplicaSet", "web-v0", 409),
    ] {
        let failure = &mut world.failures[0];
        (failure.call.kind, failure.call.name) = (kind.into(), name.into());
        failure.http_code = http_code;
        assert_ne!(found(&world, &without), [], "{kind} {name} {http_code}");
    }
}

/// A ReplicaSet that is created with pods counts like one that is scaled from zero.
#[test]
fn size_of_a_created_replica_set_that_the_next_plan_reverses_is_reported() {
    let mut world = half_way();
    world.replica_sets.truncate(1);
    let mut creates = plan(&world);
    let mut steps = creates.steps.iter();
    let index = steps.position(|step| matches!(step.action, Some(Action::CreateReplicaSet(_))));
    let index = index.unwrap();
    resize(&mut creates, index, 9);
    creates.steps.truncate(index + 1);
    creates.settled = false;
    let found = found(&world, &creates);
    let is_reversed = |sizes: &[i32; 3]| sizes[0] == 0 && sizes[1] == 9 && sizes[2] < 9;
    assert!(
        found
            .iter()
            .any(|(_, rule)| matches!(rule, Rule::Reversed { sizes, .. } if is_reversed(sizes))),
        "{found:?}"
    );
}
