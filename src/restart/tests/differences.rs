//! Bugs of the xing controller that rollplan avoids (docs/guides/restarts.md, "Migrate from another controller"). Each
//! test states the behavior of the xing controller, "the original".

use rollplan_restart::*;
use serde_json::json;

use super::world::*;

fn xing() -> World {
    World::new(Profile::Xing)
}

fn add(world: &mut World) {
    let annotations = json!({"com.xing.deployment-restart": "enabled"});
    world.add("Deployment", "d", annotations, env_from(&["a"]));
}

/// Runs a story twice: with known times of changes and starts, and without.
fn with_and_without_times(story: impl Fn(bool)) {
    story(true);
    story(false);
}

#[test]
fn b1_update_right_after_creation_restarts() {
    // The original records the new checksum as applied, and never restarts.
    with_and_without_times(|tells_times| {
        let mut world = xing();
        world.tells_times = tells_times;
        world.set(ConfigMap, "a", &[("K", "1")]);
        world.now = 10;
        add(&mut world);
        world.run(1);
        world.set(ConfigMap, "a", &[("K", "2")]);
        world.run(60);
        assert_eq!(world.restarts("d"), 1);
    });
}

#[test]
fn b2_killed_within_the_grace_period_restarts() {
    // The next instance of the original records the checksum, and never restarts. Here, the first call comes late.
    let mut world = xing();
    world.set(ConfigMap, "a", &[("K", "1")]);
    world.now = 10;
    add(&mut world);
    world.now = 20;
    world.set(ConfigMap, "a", &[("K", "2")]);
    world.now = 100;
    world.run(60);
    assert_eq!(world.restarts("d"), 1);
}

#[test]
fn b3_changes_before_the_workload_existed_do_not_restart() {
    // The original restarts, because it has observed two versions.
    let mut world = xing();
    for value in ["1", "2"] {
        world.set(ConfigMap, "a", &[("K", value)]);
        world.now += 1;
    }
    let stored = world.configurations.get_mut(&(ConfigMap, "a".to_owned()));
    stored.unwrap().observations = 2;
    world.now = 3;
    add(&mut world);
    world.run(60);
    assert_eq!(world.restarts("d"), 0);
    // Without times, the number of observations decides as in the original.
    world.workloads.clear();
    world.tells_times = false;
    add(&mut world);
    world.run(60);
    assert_eq!(world.restarts("d"), 1);
}

#[test]
fn b3_flap_on_a_recorded_configuration_does_not_restart() {
    let mut world = xing();
    world.set(ConfigMap, "a", &[("K", "x")]);
    world.now = 10;
    add(&mut world);
    world.run(10);
    world.set(ConfigMap, "a", &[("K", "y")]);
    world.run(1);
    world.set(ConfigMap, "a", &[("K", "x")]);
    world.run(60);
    assert_eq!(world.restarts("d"), 0);
}

#[test]
fn b4_recreated_configuration_stays_linked() {
    // The original never restarts for it again.
    with_and_without_times(|tells_times| {
        let mut world = xing();
        world.tells_times = tells_times;
        world.set(ConfigMap, "a", &[("K", "1")]);
        world.now = 10;
        add(&mut world);
        world.run(10);
        world.delete(ConfigMap, "a");
        world.run(10);
        world.set(ConfigMap, "a", &[("K", "2")]);
        world.run(60);
        assert_eq!(world.restarts("d"), 1);
    });
}

#[test]
fn b5_optional_configuration_created_late_restarts_running_pods() {
    // The original records it, and running pods continue without it.
    let mut world = xing();
    let source = json!({"configMapRef": {"name": "a", "optional": true}});
    let template = template(json!({"envFrom": [source]}), json!([]));
    let annotations = json!({"com.xing.deployment-restart": "enabled"});
    world.add("Deployment", "d", annotations, template);
    world.run(10);
    world.set(ConfigMap, "a", &[("K", "1")]);
    world.run(60);
    assert_eq!(world.restarts("d"), 1);
}

#[test]
fn b7_null_annotation_counts_as_empty() {
    // The original crashes.
    let mut world = xing();
    world.set(ConfigMap, "a", &[("K", "1")]);
    world.now = 10;
    add(&mut world);
    let metadata = &mut world.workloads.get_mut("d").unwrap().object["metadata"];
    metadata["annotations"]["com.xing.deployment-restart.applied-config-checksums"] = json!("null");
    assert_eq!(world.reasons("d"), ["STATE_UNREADABLE"]);
    world.run(60);
    assert_eq!(world.restarts("d"), 0);
    assert_eq!(world.decision("d"), Decision::None);
}

#[test]
fn b9_opting_in_again_after_the_pods_were_replaced_does_not_restart() {
    // The original restarts, because of the stale annotation.
    let mut world = xing();
    world.set(ConfigMap, "a", &[("K", "1")]);
    world.now = 10;
    add(&mut world);
    world.run(10);
    let enabled = |world: &mut World, value: &str| {
        let metadata = &mut world.workloads.get_mut("d").unwrap().object["metadata"];
        metadata["annotations"]["com.xing.deployment-restart"] = json!(value);
    };
    enabled(&mut world, "disabled");
    world.set(ConfigMap, "a", &[("K", "2")]);
    world.run(100);
    world.workloads.get_mut("d").unwrap().started = Some(world.now);
    enabled(&mut world, "enabled");
    world.run(60);
    assert_eq!(world.restarts("d"), 0);
}

#[test]
fn b10_undo_that_restores_annotations_does_not_restart_new_pods() {
    // The original restarts again: the undo restores old checksums with the annotations of the old ReplicaSet.
    let mut world = xing();
    world.set(ConfigMap, "a", &[("K", "1")]);
    world.now = 10;
    add(&mut world);
    world.run(10);
    let before = world.workloads["d"].object.clone();
    world.set(ConfigMap, "a", &[("K", "2")]);
    world.run(60);
    assert_eq!(world.restarts("d"), 1);
    let web = world.workloads.get_mut("d").unwrap();
    web.object = before;
    web.started = Some(world.now);
    world.run(60);
    assert_eq!(world.restarts("d"), 1);
}

#[test]
fn b11_new_template_and_change_cause_one_rollout() {
    // The original restarts after the rollout.
    let mut world = xing();
    world.set(ConfigMap, "a", &[("K", "1")]);
    world.now = 10;
    add(&mut world);
    world.run(10);
    world.set(ConfigMap, "a", &[("K", "2")]);
    let web = world.workloads.get_mut("d").unwrap();
    web.object["spec"]["template"]["spec"]["containers"][0]["image"] = json!("v2");
    web.started = Some(world.now + 1);
    world.run(60);
    assert_eq!(world.restarts("d"), 0);
}

#[test]
fn b13_checksums_may_be_keyed() {
    let data = std::collections::BTreeMap::from([("K".to_owned(), "MQ==".to_owned())]);
    let data = Data {
        data: Some(&data),
        binary_data: None,
    };
    let of = |hasher: Hasher| hasher.content(Secret, Profile::Xing, data).unwrap();
    assert_ne!(of(Hasher::default()), of(Hasher::new(b"key")));
}

#[test]
fn b14_restarts_within_a_second_have_different_markers() {
    // The original writes the same value twice, so the second write starts no rollout.
    let mut world = xing();
    world.options.quiet = std::time::Duration::ZERO;
    world.tells_times = false;
    world.set(ConfigMap, "a", &[("K", "1")]);
    add(&mut world);
    world.settle();
    for value in ["2", "3"] {
        world.set(ConfigMap, "a", &[("K", value)]);
        world.settle();
    }
    assert_eq!(world.restarts("d"), 2);
}
