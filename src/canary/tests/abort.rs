//! An abort never removes an available pod that is needed, whatever the ReplicaSet controller chooses.

use rollplan_canary::{HELD_MIN_READY, Phase, Policy};
use rollplan_core::size::IntOrPercent;
use rollplan_simulation::pods::PodState;
use rollplan_world::random::Random;

use crate::world::{NEW, World, abort};

/// A hold with pods in random states.
fn hold(random: &mut Random) -> World {
    let replicas = 1 + i32::try_from(random.below(5)).unwrap();
    let surge = 1 + i32::try_from(random.below(usize::try_from(replicas).unwrap())).unwrap();
    let unavailable = i32::try_from(random.below(3)).unwrap();
    let min_ready = *random.pick(&[0, 5]);
    let mut world = World::new(
        replicas,
        IntOrPercent::Int(surge),
        IntOrPercent::Int(unavailable),
        min_ready,
    );
    let policy = Policy {
        steps: vec![IntOrPercent::Int(surge).into()],
        ..Policy::default()
    };
    let start = world.start(NEW);
    world.steer(&policy, Some(start));
    world.settle();
    let now = world.now;
    for pod in &mut world.pods {
        pod.stored.node = Some(u32::try_from(random.below(2)).unwrap());
        match random.below(3) {
            0 => {}
            1 => pod.stored.ready_since = Some(now),
            _ => {
                pod.stored.state = PodState::Running;
                pod.stored.ready_since = None;
            }
        }
    }
    world
}

/// Aborts, and returns whether a deletion has taken available pods below the floor, or below what there was.
fn abort_violates(mut world: World, body: &str) -> bool {
    let floor = world.limits().min_available().min(world.available());
    assert!(world.patch(body));
    world.settle_controllers();
    world.available() < floor
}

#[test]
fn abort_keeps_available_pods_that_are_needed() {
    let mut random = Random::new(7);
    let (mut waits, mut aborts, mut unsafe_aborts) = (0, 0, 0);
    for round in 0..1500 {
        let world = hold(&mut random);
        let plan = world.plan(&Policy::default(), Some(abort())).unwrap();
        match &plan.step {
            Some(step) => {
                aborts += 1;
                assert_eq!(plan.report.phase, Phase::Aborting);
                assert!(
                    !abort_violates(world, &step.call.body_json),
                    "round {round}"
                );
            }
            None => {
                waits += 1;
                assert_eq!(plan.report.phase, Phase::Hold);
                assert!(plan.requeue_after.is_some());
                // The control: the same abort without the wait.
                let mut blind = world.clone();
                for set in &mut blind.stored.replica_sets {
                    if set.min_ready_seconds == HELD_MIN_READY {
                        set.min_ready_seconds = 5;
                    }
                }
                let plan = blind.plan(&Policy::default(), Some(abort())).unwrap();
                let body = plan.step.unwrap().call.body_json;
                unsafe_aborts += i32::from(abort_violates(world, &body));
            }
        }
    }
    assert!(waits > 20 && aborts > 500, "{waits} {aborts}");
    assert!(unsafe_aborts > 0, "no abort needed to wait");
}

#[test]
fn abort_waits_until_ready_pods_are_available() {
    let mut world = World::new(4, IntOrPercent::Int(3), IntOrPercent::Int(0), 5);
    let policy = Policy {
        steps: vec![IntOrPercent::Int(3).into()],
        ..Policy::default()
    };
    let start = world.start(NEW);
    world.steer(&policy, Some(start));
    world.settle();
    let now = world.now;
    world.crash(0);
    let newest = world.pods.len() - 1;
    world.pods[newest].stored.ready_since = Some(now);
    let plan = world.plan(&policy, Some(abort())).unwrap();
    assert_eq!((plan.step, plan.report.phase), (None, Phase::Hold));
    let reasons: Vec<&str> = plan
        .report
        .reasons
        .iter()
        .map(|it| it.kind.as_str())
        .collect();
    assert_eq!(reasons, ["WAITS_FOR_STABLE_PODS"]);
    assert_eq!(plan.requeue_after.map(|it| it.seconds()), Some(5));
    world.now += 5;
    let plan = world.plan(&policy, Some(abort())).unwrap();
    assert_eq!(plan.report.phase, Phase::Aborting);
}
