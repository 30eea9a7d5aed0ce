//! Pods that start while a configuration changes. Kubelets report starts late, and times have a resolution of one second.

use std::time::Duration;

use rollplan_restart::*;
use serde_json::{Value as Json, json};

use super::world::*;

const PROFILES: [Profile; 3] = [Profile::Rollplan, Profile::Xing, Profile::Reloader];

fn annotations() -> Json {
    json!({
        "rollplan.dev/restart": "enabled",
        "com.xing.deployment-restart": "enabled",
        "reloader.stakater.com/auto": "true",
    })
}

/// A ConfigMap that was created long ago, and a Deployment whose pods start at second 46 and report it at second 50.
fn starting(profile: Profile) -> World {
    let mut world = World::new(profile);
    world.options = Options::new(profile);
    world.set(ConfigMap, "app", &[("K", "old")]);
    world.now = 46;
    world.add("Deployment", "web", annotations(), env_from(&["app"]));
    rolls_out(&mut world, Some(50));
    world
}

/// The pods of a new template start now, and report it at the given time.
fn rolls_out(world: &mut World, reported: Option<i64>) {
    let now = world.now;
    let web = world.workloads.get_mut("web").unwrap();
    web.started = Some(now);
    web.reported = reported;
    web.rollout = Rollout::Progressing;
}

/// The pods have reported their start.
fn reports(world: &mut World) {
    world.now = 50;
    let web = world.workloads.get_mut("web").unwrap();
    web.rollout = Rollout::Complete;
}

fn set(world: &mut World, now: i64, value: &str) {
    world.now = now;
    world.set(ConfigMap, "app", &[("K", value)]);
    world.settle();
}

/// Whether the state of the workload contains the current configuration.
fn is_recorded(world: &World) -> bool {
    let plan = world.plan_for("web").unwrap();
    plan.decision == Decision::None && plan.conditions.is_empty()
}

#[test]
fn change_before_a_late_report_of_an_earlier_start_restarts_once() {
    for profile in PROFILES {
        // The workload is observed for the first time, or it is known and its template has changed.
        for is_known in [false, true] {
            let mut world = starting(profile);
            if is_known {
                world.workloads.get_mut("web").unwrap().started = None;
                world.settle();
                assert!(is_recorded(&world), "{profile:?}");
                rolls_out(&mut world, Some(50));
            }
            let before = world.annotation("web", "rollplan.dev/restart-state");
            let applied = before.map(|it| it.split("applied").nth(1).map(str::to_owned));
            set(&mut world, 47, "new");
            for now in [48, 49] {
                world.now = now;
                world.settle();
                assert_eq!(world.restarts("web"), 0);
                assert!(!is_recorded(&world), "{profile:?} {is_known}");
                let after = world.annotation("web", "rollplan.dev/restart-state");
                if let (Profile::Rollplan, Some(applied)) = (profile, &applied) {
                    let after = after.and_then(|it| it.split("applied").nth(1));
                    assert_eq!(after, applied.as_deref(), "the new value is recorded");
                }
            }
            reports(&mut world);
            world.run(200);
            assert_eq!(world.restarts("web"), 1, "{profile:?} {is_known}");
            assert!(is_recorded(&world), "{profile:?} {is_known}");
        }
    }
}

#[test]
fn unknown_starts_are_reported_and_planned_again() {
    let mut world = starting(Profile::Rollplan);
    world.set(ConfigMap, "app", &[("K", "new")]);
    world.now = 48;
    let plan = world.plan_for("web").unwrap();
    assert_eq!((plan.decision, plan.steps.len()), (Decision::None, 0));
    let [condition] = &plan.conditions[..] else {
        panic!("{plan:?}");
    };
    assert_eq!(
        (condition.reason, &*condition.message),
        (
            "STARTS_UNKNOWN",
            "some pods may have started without having reported it yet"
        )
    );
    assert_eq!(world.plan().requeue_after.unwrap().seconds(), 5);
    // Pods that never start are asked for less and less often.
    for (now, seconds) in [(146, 100), (100_000, 300)] {
        world.now = now;
        world.workloads.get_mut("web").unwrap().reported = Some(now + 1);
        assert_eq!(world.plan().requeue_after.unwrap().seconds(), seconds);
    }
}

#[test]
fn pods_that_start_now_may_still_read_the_old_configuration() {
    let mut world = starting(Profile::Rollplan);
    let web = world.workloads.get_mut("web").unwrap();
    (web.started, web.reported) = (None, None);
    set(&mut world, 47, "new");
    let plan = world.plan_for("web").unwrap();
    let messages = plan.conditions.iter().map(|it| &*it.message);
    assert_eq!(
        messages.collect::<Vec<_>>(),
        ["pods that start now may still read an older version of a configuration"]
    );
}

#[test]
fn change_of_a_known_configuration_is_held_until_the_starts_are_known() {
    let mut world = starting(Profile::Rollplan);
    world.workloads.get_mut("web").unwrap().reported = None;
    world.run(30);
    world.workloads.get_mut("web").unwrap().rollout = Rollout::Complete;
    world.settle();
    let now = world.now;
    rolls_out(&mut world, Some(now + 1_000));
    set(&mut world, now + 1, "new");
    world.run(500);
    assert_eq!(world.decision("web"), Decision::Hold);
    assert_eq!(
        world.reasons("web"),
        ["ROLLOUT_IN_PROGRESS", "STARTS_UNKNOWN"]
    );
    // A stalled rollout does not show when its pods started.
    world.workloads.get_mut("web").unwrap().rollout = Rollout::Stalled;
    assert_eq!(world.reasons("web"), ["STARTS_UNKNOWN"]);
    assert_eq!(world.restarts("web"), 0);
}

#[test]
fn pods_created_after_the_change_have_started_with_it() {
    let mut world = starting(Profile::Rollplan);
    world.set(ConfigMap, "app", &[("K", "new")]);
    // The change may have been at the end of its second.
    for (later, is_fresh) in [(0, false), (1, true)] {
        let mut world = world.clone();
        world.now += later;
        let now = world.now;
        rolls_out(&mut world, Some(now + 100));
        world.settle();
        assert_eq!(is_recorded(&world), is_fresh, "{later}");
    }
}

#[test]
fn oldest_reported_start_decides_before_all_are_reported() {
    let mut world = starting(Profile::Rollplan);
    world.set(ConfigMap, "app", &[("K", "new")]);
    world.now = 200;
    let started = |reported: i64, since: i64| Started::Starting {
        reported: Some(time(reported)),
        since: time(since),
    };
    for (reported, since, expected) in [
        // One has certainly started before the change: the others do not matter.
        (40, 45, Decision::Restart),
        (40, 100, Decision::Restart),
        (60, 45, Decision::None),
        (60, 100, Decision::Record),
    ] {
        let mut input = world.input();
        input.options.quiet = Duration::ZERO;
        input.workloads[0].started = started(reported, since);
        input.workloads[0].rollout = Rollout::Stalled;
        let plan = plan_restarts(&input, &rollplan_core::interrupt::Never).unwrap();
        assert_eq!(plan.workloads[0].decision, expected, "{reported} {since}");
    }
}

/// The request may be older than the first pod of a workload that is being scaled up.
#[test]
fn change_of_a_workload_without_pods_is_recorded_after_the_skew() {
    for is_known in [false, true] {
        let mut world = starting(Profile::Rollplan);
        world.workloads.get_mut("web").unwrap().started = None;
        world.workloads.get_mut("web").unwrap().rollout = Rollout::Complete;
        if is_known {
            world.settle();
        }
        set(&mut world, 47, "new");
        assert_eq!(world.reasons("web")[0], "STARTS_UNKNOWN");
        // Until 11 s after the second of the change.
        assert_eq!(world.plan().requeue_after.unwrap().seconds(), 11);
        world.run(10);
        assert!(!is_recorded(&world), "{is_known}");
        world.run(2);
        assert!(is_recorded(&world), "{is_known}");
        assert_eq!(world.plan().requeue_after, None);
        assert_eq!(world.restarts("web"), 0, "{is_known}");
    }
}

#[test]
fn value_that_is_restored_in_the_second_of_the_first_starts_restarts_once() {
    for profile in PROFILES {
        for is_observed in [true, false] {
            // The pods start in the second in which the value is "new".
            let mut world = starting(profile);
            world.settle();
            world.set(ConfigMap, "app", &[("K", "new")]);
            if is_observed {
                world.settle();
            }
            world.set(ConfigMap, "app", &[("K", "old")]);
            world.settle();
            reports(&mut world);
            world.run(200);
            assert_eq!(world.restarts("web"), 1, "{profile:?} {is_observed}");
            assert!(is_recorded(&world), "{profile:?} {is_observed}");
        }
    }
}

/// The value is restored to the recorded one, so that it does not differ.
#[test]
fn recorded_value_that_is_restored_while_pods_start_restarts_once() {
    for profile in PROFILES {
        for (restored, is_observed) in [(46, true), (46, false), (48, true)] {
            let mut world = starting(profile);
            world.workloads.get_mut("web").unwrap().started = None;
            world.settle();
            assert!(is_recorded(&world));
            rolls_out(&mut world, Some(50));
            world.set(ConfigMap, "app", &[("K", "new")]);
            if is_observed {
                world.settle();
            }
            set(&mut world, restored, "old");
            reports(&mut world);
            world.run(200);
            let case = format!("{profile:?} {restored} {is_observed}");
            assert_eq!(world.restarts("web"), 1, "{case}");
            assert!(is_recorded(&world), "{case}");
        }
    }
}

#[test]
fn restored_value_restarts_no_pods_that_started_long_before() {
    for profile in [Profile::Rollplan, Profile::Xing] {
        let mut world = starting(profile);
        world.workloads.get_mut("web").unwrap().reported = None;
        world.workloads.get_mut("web").unwrap().rollout = Rollout::Complete;
        world.run(100);
        let now = world.now;
        set(&mut world, now, "new");
        set(&mut world, now + 2, "old");
        world.run(200);
        assert_eq!(world.restarts("web"), 0, "{profile:?}");
        assert!(is_recorded(&world), "{profile:?}");
    }
}

/// A rollout that reads another key has started with some value of that key.
#[test]
fn newly_read_keys_are_not_recorded_while_pods_start() {
    let mut world = World::new(Profile::Rollplan);
    world.set(ConfigMap, "app", &[("A", "1"), ("B", "1")]);
    world.now = 20;
    world.add("Deployment", "web", annotations(), env("app", "A"));
    world.settle();
    assert!(is_recorded(&world));
    world.now = 46;
    let web = world.workloads.get_mut("web").unwrap();
    web.object["spec"]["template"] = env("app", "B");
    rolls_out(&mut world, Some(50));
    world.now = 47;
    world.set(ConfigMap, "app", &[("A", "1"), ("B", "2")]);
    world.settle();
    assert_eq!(world.reasons("web"), ["STARTS_UNKNOWN"]);
    reports(&mut world);
    world.run(100);
    assert_eq!(world.restarts("web"), 1);
}

/// The pods of the template start within the skew, but were created after the change.
#[test]
fn template_changed_shortly_after_a_configuration_is_one_rollout() {
    for skew in [10, 0] {
        let mut world = starting(Profile::Rollplan);
        world.options.skew = Duration::from_secs(skew);
        world.workloads.get_mut("web").unwrap().reported = None;
        world.workloads.get_mut("web").unwrap().rollout = Rollout::Complete;
        world.run(100);
        let now = world.now;
        set(&mut world, now, "new");
        world.now += 2;
        rolls_out(&mut world, Some(now + 5));
        world.run(3);
        world.workloads.get_mut("web").unwrap().rollout = Rollout::Complete;
        world.run(100);
        assert_eq!(world.restarts("web"), 0, "{skew}");
        assert!(is_recorded(&world), "{skew}");
    }
}
