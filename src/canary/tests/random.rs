//! Random canaries with the Deployment controller of Kubernetes as an actor, which acts on late caches, and steerers that die,
//! pause, and carry out patches late.

use rollplan_canary::{ANNOTATION, Command, LABEL, Phase, Policy};
use rollplan_core::size::IntOrPercent;
use rollplan_core::time::Span;
use rollplan_simulation::pods::Fault;
use rollplan_world::random::Random;
use serde_json::json;

use crate::world::{NEW, Patch, World};

/// What happens in a run besides the canary.
#[derive(Clone, Copy, Default)]
struct Events {
    crashes: bool,
    scaling: bool,
}

/// Runs a random canary, and returns the world after it.
fn run(seed: u64, events: Events, sabotage: Option<fn(&mut Patch)>) -> World {
    let mut random = Random::new(seed);
    let replicas = 1 + small(&mut random, 12);
    let limit = |random: &mut Random, low: i32| match random.below(2) {
        0 => IntOrPercent::Int(low + small(random, 4)),
        _ => IntOrPercent::Percent(low + small(random, 50)),
    };
    let (surge, unavailable) = (limit(&mut random, 1), limit(&mut random, 0));
    let mut world = World::new(replicas, surge, unavailable, *random.pick(&[0, 0, 3]));
    let most = surge.rounded_up(replicas).min(replicas);
    let pods = 1 + small(&mut random, most);
    let policy = Policy {
        pods: IntOrPercent::Int(pods),
        bake: Span::from_seconds(i64::from(small(&mut random, 5))),
        promotes: random.below(2) == 0,
        timeout: Some(Span::from_seconds(60)),
        aborts_on_timeout: random.below(2) == 0,
        rolls_back: random.below(2) == 0,
        ..Policy::default()
    };
    let fault = *random.pick(&[
        Fault::None,
        Fault::None,
        Fault::NeverReady,
        Fault::CrashLoop,
    ]);
    world.faults.insert(NEW, fault);
    world.held_max = pods;
    world.sabotage = sabotage;
    let start = world.start(NEW);
    let mut late: Vec<String> = Vec::new();
    let mut has_started = false;
    for _ in 0..400 {
        match random.below(14) {
            0 => world.now += 1,
            1..=2 => world.sync_cache(random.below(4)),
            3..=4 => _ = world.sync_deployment(),
            5..=6 => _ = world.sync_set(random.below(3)),
            7..=9 => _ = world.advance_pod(random.below(world.pods.len().max(1))),
            // A steerer plans, and dies, or carries its patch out at once or later. There may be several.
            10 => {
                let command = match random.below(40) {
                    _ if !has_started => Some(start.clone()),
                    0 => Some(Command::Promote),
                    1 => Some(Command::Abort),
                    _ => None,
                };
                if let Ok(plan) = world.plan(&policy, command)
                    && let Some(step) = plan.step
                {
                    has_started = true;
                    is_promoted(&mut world, plan.report.phase);
                    late.push(step.call.body_json);
                }
            }
            11..=12 if !late.is_empty() => {
                let body = late.swap_remove(random.below(late.len()));
                world.patch(&body);
            }
            _ if events.crashes && random.below(4) == 0 => {
                world.crash(random.below(world.pods.len().max(1)));
            }
            _ if events.scaling && random.below(8) == 0 => {
                world.held_max = i32::MAX;
                world.scale(1 + small(&mut random, 12));
            }
            _ => {}
        }
        if !world.violations.is_empty() {
            return world;
        }
    }
    finish(&mut world, &policy, &late);
    world
}

/// The limit of the new ReplicaSet applies until its promotion. From then on, the guarantees are those of the Deployment controller
/// alone. It undoes a rollout within its limits only with current statuses, and without `minReadySeconds`: the ReplicaSet
/// controller may keep a pod that is only ready, and delete one that is available.
fn is_promoted(world: &mut World, phase: Phase) {
    if phase != Phase::Hold {
        world.held_max = i32::MAX;
    }
    let has_begun = world.has_current_statuses;
    world.checks_floor &= !(has_begun && phase == Phase::Aborting && world.min_ready > 0);
    world.has_current_statuses |= phase == Phase::Promoting;
}

/// A steerer ends the canary, and all controllers come to rest.
fn finish(world: &mut World, policy: &Policy, late: &[String]) {
    for round in 0..12 {
        let plan = world.plan(policy, None).unwrap();
        let command = match plan.report.phase {
            Phase::Hold | Phase::Promoting if round > 3 => Some(Command::Abort),
            _ => None,
        };
        let plan = world.plan(policy, command).unwrap();
        is_promoted(world, plan.report.phase);
        if let Some(step) = plan.step {
            world.patch(&step.call.body_json);
        }
        world.settle();
    }
    // Patches that were planned before change nothing.
    for body in late {
        assert!(!world.patch(body), "a late patch was carried out: {body}");
    }
}

fn small(random: &mut Random, end: i32) -> i32 {
    i32::try_from(random.below(usize::try_from(end).unwrap())).unwrap()
}

fn check(seeds: std::ops::Range<u64>, events: Events) {
    let (mut promoted, mut aborted) = (0, 0);
    for seed in seeds {
        let world = run(seed, events, None);
        assert_eq!(world.violations, [""; 0], "seed {seed}");
        assert!(
            world.has_user_fields(),
            "seed {seed}: {:?}",
            world.stored.deployment.spec
        );
        let metadata = &world.stored.deployment.metadata;
        assert!(!metadata.labels.contains_key(LABEL), "seed {seed}");
        match world.image() == NEW {
            true => {
                promoted += 1;
                assert!(
                    !metadata.annotations.contains_key(ANNOTATION),
                    "seed {seed}"
                );
            }
            false => aborted += 1,
        }
    }
    assert!(
        promoted > 10 && aborted > 10,
        "{promoted} promoted, {aborted} aborted"
    );
}

#[test]
fn random_canaries_keep_the_limits() {
    check(0..250, Events::default());
}

#[test]
fn random_canaries_keep_the_limits_with_crashes() {
    check(
        1000..1150,
        Events {
            crashes: true,
            scaling: false,
        },
    );
}

#[test]
fn random_canaries_keep_the_limits_with_scaling() {
    check(
        2000..2150,
        Events {
            crashes: false,
            scaling: true,
        },
    );
}

/// Whether a violation is found if all patches are changed in this way.
fn is_caught(sabotage: fn(&mut Patch)) -> bool {
    (0..250).any(|seed| {
        !run(seed, Events::default(), Some(sabotage))
            .violations
            .is_empty()
    })
}

#[test]
fn control_without_a_canary_goes_below_the_floor_with_late_statuses() {
    let is_violated = |seed| {
        let mut random = Random::new(seed);
        let mut world = World::new(8, IntOrPercent::Int(2), IntOrPercent::Int(2), 0);
        world.apply_image(NEW);
        for _ in 0..600 {
            match random.below(12) {
                0..=2 => world.sync_cache(random.below(3)),
                3..=5 => _ = world.sync_deployment(),
                6..=7 => _ = world.sync_set(random.below(2)),
                8..=10 => _ = world.advance_pod(random.below(world.pods.len())),
                _ if random.below(20) == 0 => world.apply_image("v1"),
                _ => {}
            }
        }
        !world.violations.is_empty()
    };
    assert!((0..300).any(is_violated));
}

fn replace(patch: &mut Patch, path: &str, value: &serde_json::Value) {
    for operation in patch
        .iter_mut()
        .filter(|it| it["op"] == "add" && it["path"] == path)
    {
        operation["value"] = value.clone();
    }
}

#[test]
fn control_without_held_pods_is_caught() {
    // New pods count as available, and the controller goes on.
    assert!(is_caught(|patch| replace(
        patch,
        "/spec/minReadySeconds",
        &json!(0)
    )));
}

#[test]
fn control_with_a_looser_surge_is_caught() {
    assert!(is_caught(|patch| {
        replace(
            patch,
            "/spec/strategy/rollingUpdate/maxSurge",
            &json!("100%"),
        );
    }));
}

#[test]
fn control_with_unavailable_pods_is_caught() {
    assert!(is_caught(|patch| {
        replace(
            patch,
            "/spec/strategy/rollingUpdate/maxUnavailable",
            &json!("100%"),
        );
    }));
}
