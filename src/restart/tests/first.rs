//! What a first observation and a change of template and configuration at once do.

use rollplan_restart::*;
use serde_json::json;

use super::world::*;

const PROFILES: [Profile; 3] = [Profile::Rollplan, Profile::Xing, Profile::Reloader];

/// A workload that opted in in each profile, and whose pods are created at a time and start later.
fn world(profile: Profile, created: i64, started: i64) -> World {
    let mut world = World::new(profile);
    world.options = Options::new(profile);
    world.now = created;
    let annotations = json!({
        "rollplan.dev/restart": "enabled",
        "com.xing.deployment-restart": "enabled",
        "reloader.stakater.com/auto": "true",
    });
    world.add("Deployment", "web", annotations, env_from(&["app"]));
    let web = world.workloads.get_mut("web").unwrap();
    (web.created, web.started) = (Some(created), Some(started));
    world
}

fn set(world: &mut World, at: i64, value: &str) {
    world.now = at;
    world.set(ConfigMap, "app", &[("K", value)]);
}

fn stored(world: &mut World) -> &mut Stored {
    let id = (ConfigMap, "app".to_owned());
    world.configurations.get_mut(&id).unwrap()
}

#[test]
fn configuration_without_another_version_is_recorded() {
    for profile in PROFILES {
        // The pods may be created before the configuration without which they cannot start.
        for (created, configuration, started) in [(100, 100, 100), (100, 100, 103), (99, 104, 107)]
        {
            let mut world = world(profile, created, started);
            set(&mut world, configuration, "a");
            world.now = 108;
            let plan = world.plan_for("web").unwrap();
            assert_eq!(
                (plan.decision, plan.conditions.len()),
                (Decision::Record, 0)
            );
            world.run(200);
            assert_eq!(world.restarts("web"), 0, "{profile:?} {configuration}");
            // From now on, the checksum decides.
            let now = world.now;
            set(&mut world, now, "b");
            world.run(200);
            assert_eq!(world.restarts("web"), 1, "{profile:?} {configuration}");
        }
    }
}

#[test]
fn configuration_without_another_version_is_recorded_before_starts_are_reported() {
    for (created, expected) in [(100, Decision::Record), (99, Decision::None)] {
        let mut world = world(Profile::Rollplan, created, 101);
        set(&mut world, 100, "a");
        world.now = 102;
        let web = world.workloads.get_mut("web").unwrap();
        (web.started, web.reported) = (Some(created), Some(1_000));
        assert_eq!(world.decision("web"), expected, "{created}");
    }
}

#[test]
fn containers_that_started_before_the_creation_restart() {
    for (profile, expected) in [
        (Profile::Rollplan, 1),
        (Profile::Xing, 1),
        (Profile::Reloader, 0),
    ] {
        for is_changed in [false, true] {
            let mut world = world(profile, 98, 99);
            set(&mut world, 100, "a");
            if is_changed {
                stored(&mut world).changed_at = 500;
                stored(&mut world).is_change_uncertain = true;
            }
            world.now = 600;
            world.run(200);
            assert_eq!(world.restarts("web"), expected, "{profile:?}");
            if expected > 0 {
                assert_eq!(world.events, ["Restarted: ConfigMap shop/app was created"]);
            }
        }
    }
}

#[test]
fn change_after_the_start_restarts_only_if_the_data_has_certainly_changed() {
    for profile in PROFILES {
        for (started, is_uncertain, expected) in [
            (50, false, 1),
            (50, true, 0),
            (99, false, 1),
            (100, false, 0),
            (105, false, 0),
            (120, true, 0),
        ] {
            let mut world = world(profile, 40, started);
            set(&mut world, 10, "a");
            set(&mut world, 100, "b");
            stored(&mut world).is_change_uncertain = is_uncertain;
            world.now = 130;
            let is_unproven = expected == 0 && started < 111;
            let reasons = world.reasons("web");
            assert_eq!(
                reasons.contains(&"CHANGE_UNPROVEN"),
                is_unproven,
                "{started} {is_uncertain}"
            );
            world.run(200);
            assert_eq!(
                world.restarts("web"),
                expected,
                "{profile:?} {started} {is_uncertain}"
            );
            assert_eq!(world.decision("web"), Decision::None);
        }
    }
}

#[test]
fn unproven_change_is_named() {
    let mut world = world(Profile::Rollplan, 40, 50);
    set(&mut world, 10, "a");
    set(&mut world, 100, "b");
    stored(&mut world).is_change_uncertain = true;
    let plan = world.plan_for("web").unwrap();
    let [condition] = &plan.conditions[..] else {
        panic!("{plan:?}");
    };
    assert_eq!(
        condition.message,
        "nothing was recorded, and the times do not show whether ConfigMap shop/app changed after the pods were started: \
         recorded as it is now"
    );
}

/// The pods of the new template start with the new configuration, and so late that kubelets report it much later.
#[test]
fn template_and_configuration_at_once_are_one_rollout() {
    for profile in PROFILES {
        for (created, pods, expected) in [
            // Another second.
            (101, None, 0),
            // The versions decide in the same second.
            (100, Some(8), 0),
            (100, Some(6), 1),
            (100, None, 1),
            (99, None, 1),
        ] {
            let mut world = world(profile, 40, 50);
            set(&mut world, 10, "a");
            world.run(20);
            set(&mut world, 100, "b");
            stored(&mut world).version = Some(7);
            let web = world.workloads.get_mut("web").unwrap();
            web.object["spec"]["template"]["spec"]["containers"][0]["image"] = json!("new");
            (web.created, web.started, web.reported) = (Some(created), Some(created), Some(105));
            web.unscheduled = pods;
            web.rollout = Rollout::Progressing;
            world.run(5);
            world.workloads.get_mut("web").unwrap().rollout = Rollout::Complete;
            world.run(200);
            assert_eq!(
                world.restarts("web"),
                expected,
                "{profile:?} {created} {pods:?}"
            );
            assert_eq!(world.decision("web"), Decision::None);
        }
    }
}

#[test]
fn applied_change_is_not_a_first_observation() {
    let mut world = world(Profile::Rollplan, 40, 50);
    set(&mut world, 10, "a");
    world.run(20);
    set(&mut world, 100, "b");
    let web = world.workloads.get_mut("web").unwrap();
    (web.created, web.started) = (Some(102), Some(103));
    let plan = world.plan_for("web").unwrap();
    assert_eq!(plan.decision, Decision::Record);
    assert_eq!(
        plan.conditions[0].message,
        "the pods were started after the change of ConfigMap shop/app"
    );
}

/// The API server records no time for the removal of a key.
#[test]
fn removed_key_restarts_pods_that_are_younger_than_the_recorded_time() {
    for (version, expected) in [(None, 1), (Some(6), 1), (Some(8), 0)] {
        let mut world = world(Profile::Rollplan, 40, 50);
        world.now = 10;
        world.set(ConfigMap, "app", &[("K", "a"), ("L", "b")]);
        world.run(90);
        world.set(ConfigMap, "app", &[("K", "a")]);
        stored(&mut world).changed_at = 10;
        stored(&mut world).version = Some(7);
        world.workloads.get_mut("web").unwrap().unscheduled = version;
        world.run(200);
        assert_eq!(world.restarts("web"), expected, "{version:?}");
    }
}

/// A label is changed in the second in which the pods of a recorded workload start.
#[test]
fn change_of_a_label_while_pods_start_restarts_nothing() {
    for (is_uncertain, expected) in [(true, 0), (false, 1)] {
        let mut world = world(Profile::Rollplan, 40, 50);
        set(&mut world, 10, "a");
        world.run(50);
        let web = world.workloads.get_mut("web").unwrap();
        (web.created, web.started) = (Some(100), Some(100));
        stored(&mut world).changed_at = 100;
        stored(&mut world).is_change_uncertain = is_uncertain;
        world.now = 101;
        world.run(200);
        assert_eq!(world.restarts("web"), expected, "{is_uncertain}");
    }
}
