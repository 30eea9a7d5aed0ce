//! Restarts in a simulated world: the final restarts are the same if the adapter or the service is killed after any step.

#[path = "../../../../src/restart/tests/world.rs"]
#[allow(dead_code, reason = "the tests of the planner use the rest")]
mod world;

mod limit;

use std::collections::BTreeMap;
use std::time::Duration;

use rollplan_core::interrupt::Never;
use rollplan_restart::{Profile, Rollout, Started, plan_restarts};
use serde_json::{Value as Json, json};

use fastrand::Rng;

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

/// How an adapter reports pods that have not reported their start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reports {
    AsStarting,
    /// A deliberate bug: the adapter reports none.
    AsNone,
}

/// The seconds during which configurations and templates change at random, and the seconds after them.
const RANDOM: i64 = 300;
const AFTER: i64 = 60;
/// The maximum delay of a kubelet's reports, in seconds.
const DELAY_MAX: i64 = 6;
/// A kubelet may read any value of the second in which a pod starts. (In the other profiles, restarts have no quiet period,
/// so no clock skew would protect against an older cache.)
const SKEW: Duration = Duration::ZERO;

/// The number of random runs of each profile.
const SEEDS: u64 = 500;

/// A Deployment whose pods start late, and report it even later.
struct Late {
    world: World,
    random: Rng,
    /// The values of this second, in order. The first one is that of the second before.
    values: Vec<String>,
    /// The value that the pods have read.
    read: Option<String>,
    changes: usize,
}

impl Late {
    fn new(profile: Profile, seed: u64) -> Self {
        let mut world = World::new(profile);
        world.options.skew = SKEW;
        world.options.max_wait = Duration::from_secs(20);
        world.options.min_interval = Duration::ZERO;
        let annotations = json!({
            "rollplan.dev/restart": "enabled",
            "com.xing.deployment-restart": "enabled",
            "reloader.stakater.com/auto": "true",
        });
        world.set(ConfigMap, "app", &[("K", "0")]);
        world.now = 10;
        world.add("Deployment", "web", annotations, env_from(&["app"]));
        let mut late = Self {
            world,
            random: Rng::with_seed(seed),
            values: vec!["0".to_owned()],
            read: None,
            changes: 0,
        };
        late.roll_out();
        late
    }

    /// Pods of a new revision start soon.
    fn roll_out(&mut self) {
        let started = self.world.now + self.random.i64(1..=3);
        let web = self.world.workloads.get_mut("web").unwrap();
        web.started = Some(started);
        web.reported = Some(started + self.random.i64(0..=DELAY_MAX));
        web.rollout = Rollout::Progressing;
    }

    /// A user changes something.
    fn act(&mut self) {
        match self.random.u8(..24) {
            0..=2 => {
                let value = self.random.u8(..3).to_string();
                self.world.set(ConfigMap, "app", &[("K", &value)]);
                self.values.push(value);
                self.changes += 1;
            }
            3 => {
                let image = self.random.u32(..).to_string();
                let web = self.world.workloads.get_mut("web").unwrap();
                web.object["spec"]["template"]["spec"]["containers"][0]["image"] = json!(image);
                if web.started.is_some() {
                    self.roll_out();
                }
            }
            4 => match self.world.workloads["web"].started {
                Some(_) if self.random.bool() => {
                    let web = self.world.workloads.get_mut("web").unwrap();
                    (web.started, web.rollout) = (None, Rollout::Complete);
                }
                Some(_) => {}
                None => self.roll_out(),
            },
            _ => {}
        }
    }

    /// Pods that start in this second read the value of some time in it.
    fn start(&mut self) {
        let now = self.world.now;
        let web = self.world.workloads.get_mut("web").unwrap();
        if web.started == Some(now) {
            self.read = self.random.choice(&self.values).cloned();
        }
        if web.reported.is_some_and(|reported| now >= reported) {
            web.rollout = Rollout::Complete;
        }
    }

    /// The adapter plans, and carries out the plan.
    fn plan(&mut self, reports: Reports) {
        let mut input = self.world.input();
        for workload in &mut input.workloads {
            if reports == Reports::AsNone && matches!(workload.started, Started::Starting { .. }) {
                workload.started = Started::Never;
            }
        }
        let plan = plan_restarts(&input, &Never).unwrap();
        for step in plan.workloads.iter().flat_map(|it| &it.steps) {
            let before = self.world.restarts("web");
            self.world.carry_out(step).unwrap();
            if self.world.restarts("web") > before && self.world.workloads["web"].started.is_some()
            {
                self.roll_out();
            }
        }
    }

    /// Runs to the end.
    fn run(mut self, reports: Reports) -> Self {
        while self.world.now < RANDOM + AFTER {
            self.world.now += 1;
            self.values.drain(..self.values.len() - 1);
            // The order within a second is random.
            let is_first = self.random.bool();
            if is_first {
                self.start();
            }
            if self.world.now < RANDOM {
                self.act();
            }
            self.plan(reports);
            if !is_first {
                self.start();
            }
        }
        self
    }

    /// Whether the pods have read an older value than the newest one.
    fn is_lost(&self) -> bool {
        let runs = self.world.workloads["web"].started.is_some();
        runs && self.read.as_ref() != self.values.last()
    }
}

#[test]
fn no_change_is_lost_if_pods_report_their_start_late() {
    for profile in PROFILES {
        let (mut restarts, mut changes) = (0, 0);
        for seed in 0..SEEDS {
            let end = Late::new(profile, seed).run(Reports::AsStarting);
            assert!(!end.is_lost(), "{profile:?}, seed {seed}");
            assert!(end.world.steps().is_empty(), "{profile:?}, seed {seed}");
            restarts += end.world.restarts("web");
            changes += end.changes;
        }
        println!("{profile:?}: {restarts} restarts for {changes} changes");
        assert!(restarts <= changes, "{profile:?}: {restarts} for {changes}");
    }
}

/// The control of the test above: the world shows restarts that are lost.
#[test]
fn changes_are_lost_if_pods_that_start_count_as_none() {
    for profile in PROFILES {
        let lost = |seed| Late::new(profile, seed).run(Reports::AsNone).is_lost();
        let lost = (0..SEEDS).filter(|seed| lost(*seed)).count();
        println!("{profile:?}: {lost} of {SEEDS} runs lose a change");
        assert!(lost >= 5, "{profile:?}: {lost}");
    }
}
