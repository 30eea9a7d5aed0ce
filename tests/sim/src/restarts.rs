//! Restarts in a simulated world: the final restarts are the same if the adapter or the service is killed after any step.

#[path = "../../../src/core/restart/tests/world.rs"]
#[allow(dead_code, reason = "the tests of the planner use the rest")]
mod world;

use std::collections::BTreeMap;
use std::time::Duration;

use rollplan_core::restart::Profile;
use serde_json::{Value as Json, json};

use self::world::{ConfigMap, Secret, World, env_from, template};

/// Polling interval of the adapter, in seconds.
const TICK: i64 = 5;
/// The duration of the story, in seconds.
const END: i64 = 2_600;

/// The step at which the adapter or the service is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Death {
    Never,
    /// After planning, before this step is executed. This includes a service that is killed before it answers.
    Before(usize),
    /// After this step is executed, and its answer is lost.
    After(usize),
}

/// The final result.
#[derive(Debug, PartialEq, Eq)]
struct Outcome {
    restarts: BTreeMap<String, usize>,
    jobs: usize,
    /// Whether all pods have started after the last change to their configuration.
    is_current: bool,
}

/// A cluster with a workload of each kind.
fn cluster(profile: Profile) -> World {
    let mut world = World::new(profile);
    world.set(ConfigMap, "app", &[("K", "0")]);
    world.set(Secret, "db", &[("K", "0")]);
    world.now = 50;
    let annotations = json!({
        "rollplan.dev/restart": "enabled",
        "com.xing.deployment-restart": "enabled",
        "reloader.stakater.com/auto": "true",
    });
    let both = json!({"envFrom": [
        {"configMapRef": {"name": "app"}}, {"secretRef": {"name": "db"}},
        {"configMapRef": {"name": "extra", "optional": true}},
    ]});
    world.add(
        "Deployment",
        "api",
        annotations.clone(),
        template(both, json!([])),
    );
    world.add(
        "StatefulSet",
        "web",
        annotations.clone(),
        env_from(&["app"]),
    );
    world.add("CronJob", "report", annotations, env_from(&["app"]));
    world
}

/// The actions of users at a given time.
fn act(world: &mut World, now: i64) {
    match now {
        // Two related changes.
        100 => world.set(ConfigMap, "app", &[("K", "1")]),
        105 => world.set(Secret, "db", &[("K", "1")]),
        400 => world.set(Secret, "db", &[("K", "2")]),
        // A change that is reverted.
        600 => world.set(ConfigMap, "app", &[("K", "9")]),
        605 => world.set(ConfigMap, "app", &[("K", "1")]),
        800 => world.set(ConfigMap, "extra", &[("K", "1")]),
        1_100 => world.delete(ConfigMap, "extra"),
        // A new template together with a change.
        1_400 => {
            world.set(ConfigMap, "app", &[("K", "2")]);
            for name in ["api", "web"] {
                let running = world.workloads.get_mut(name).unwrap();
                running.object["spec"]["template"]["spec"]["containers"][0]["image"] = json!("v2");
                running.started = Some(now + 1);
            }
        }
        _ => {}
    }
}

/// Runs the story, and counts the steps.
fn run(profile: Profile, death: Death, downtime: i64) -> (Outcome, usize) {
    let mut world = cluster(profile);
    let mut steps = 0;
    let mut down_until = 0;
    while world.now < END {
        world.now += TICK;
        let now = world.now;
        act(&mut world, now);
        'poll: while now >= down_until {
            let plan = world.steps();
            if plan.is_empty() {
                break;
            }
            for step in plan {
                steps += 1;
                let dies_after = death == Death::After(steps);
                if death == Death::Before(steps) {
                    down_until = now + downtime;
                    continue 'poll;
                }
                world.carry_out(&step).unwrap();
                if dies_after {
                    down_until = now + downtime;
                    continue 'poll;
                }
            }
        }
    }
    let changed = world.configurations.values().map(|it| it.changed_at).max();
    let restarted = ["api", "web"]
        .iter()
        .all(|name| world.workloads[*name].started >= changed);
    let restarts = world.workloads.iter();
    let outcome = Outcome {
        restarts: restarts
            .map(|(name, it)| (name.clone(), it.restarts))
            .collect(),
        jobs: world.jobs.len(),
        is_current: restarted && world.steps().is_empty(),
    };
    (outcome, steps)
}

const PROFILES: [Profile; 3] = [Profile::Rollplan, Profile::Xing, Profile::Reloader];

#[test]
fn story_has_the_expected_restarts() {
    for (profile, api, web, jobs) in [
        // The two related changes, the Secret, and the creation and deletion of "extra".
        (Profile::Rollplan, 4, 1, 0),
        // The original ignores deleted ConfigMaps.
        (Profile::Xing, 3, 1, 0),
        // Without a quiet period, each change causes a restart. Creation and deletion do not.
        (Profile::Reloader, 5, 3, 4),
    ] {
        let (outcome, steps) = run(profile, Death::Never, 0);
        let restarts = (outcome.restarts["api"], outcome.restarts["web"]);
        assert!(outcome.is_current && steps > 0, "{profile:?} {outcome:?}");
        assert_eq!(
            (restarts, outcome.jobs),
            ((api, web), jobs),
            "{profile:?} {outcome:?}"
        );
    }
}

#[test]
fn crash_after_any_step_changes_no_restart() {
    for profile in PROFILES {
        let (uninterrupted, steps) = run(profile, Death::Never, 0);
        for step in 1..=steps {
            for death in [Death::Before(step), Death::After(step)] {
                // Restarted at once, or replaced at the next poll.
                for downtime in [0, TICK] {
                    let (outcome, _) = run(profile, death, downtime);
                    let story = format!("{profile:?} {death:?}, down for {downtime} s");
                    // Without a quiet period, a downtime may hide a change and its reversal.
                    if profile == Profile::Reloader && downtime > 0 {
                        assert!(outcome.is_current, "{story}: {outcome:?}");
                        continue;
                    }
                    assert_eq!(outcome, uninterrupted, "{story}");
                }
            }
        }
    }
}

#[test]
fn long_downtime_adds_no_restart() {
    for profile in PROFILES {
        let (uninterrupted, steps) = run(profile, Death::Never, 0);
        for step in 1..=steps {
            for downtime in [60, 600, 1_100] {
                let (outcome, _) = run(profile, Death::After(step), downtime);
                let story = format!("{profile:?}, step {step}, down for {downtime} s: {outcome:?}");
                assert!(outcome.is_current, "{story}");
                for (name, restarts) in &outcome.restarts {
                    assert!(*restarts <= uninterrupted.restarts[name], "{name} {story}");
                }
                assert!(outcome.jobs <= uninterrupted.jobs, "{story}");
            }
        }
    }
}

#[test]
fn two_adapters_restart_like_one() {
    for profile in PROFILES {
        let (uninterrupted, _) = run(profile, Death::Never, 0);
        let mut world = cluster(profile);
        while world.now < END {
            world.now += TICK;
            let now = world.now;
            act(&mut world, now);
            // Both plan from the same observation, and for each workload, one of them succeeds.
            loop {
                let (one, other) = (world.steps(), world.steps());
                if one.is_empty() {
                    break;
                }
                for step in one.iter().chain(&other) {
                    _ = world.carry_out(step);
                }
            }
        }
        let restarts: BTreeMap<String, usize> = world
            .workloads
            .iter()
            .map(|(name, it)| (name.clone(), it.restarts))
            .collect();
        assert_eq!(restarts, uninterrupted.restarts, "{profile:?}");
        assert_eq!(world.jobs.len(), uninterrupted.jobs, "{profile:?}");
    }
}

#[test]
fn concurrency_is_bounded_by_the_number_of_adapters() {
    const MAX: usize = 2;
    for adapters in 1..=3_usize {
        let mut world = World::new(Profile::Rollplan);
        world.options.max_concurrent = MAX;
        world.options.quiet = Duration::ZERO;
        world.set(ConfigMap, "app", &[("K", "0")]);
        world.now = 50;
        let enabled: Json = json!({"rollplan.dev/restart": "enabled"});
        for index in 0..20 {
            world.add(
                "Deployment",
                &format!("web-{index}"),
                enabled.clone(),
                env_from(&["app"]),
            );
        }
        world.settle();
        world.now = 100;
        world.set(ConfigMap, "app", &[("K", "1")]);
        world.now = 200;
        // All plan before any of them writes.
        let plans: Vec<_> = (0..adapters).map(|_| world.steps()).collect();
        for step in plans.iter().flatten() {
            _ = world.carry_out(step);
        }
        let restarted = world
            .workloads
            .values()
            .filter(|it| it.restarts > 0)
            .count();
        assert!(
            (1..=MAX * adapters).contains(&restarted),
            "{adapters}: {restarted}"
        );
    }
}
