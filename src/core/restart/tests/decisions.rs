use std::time::Duration;

use serde_json::{Value as Json, json};

use super::super::*;
use super::world::*;

/// A Deployment "web" with our opt-in, and a ConfigMap "app" with two keys, both recorded.
fn recorded(template: Json) -> World {
    let mut world = World::new(Profile::Rollplan);
    world.set(ConfigMap, "app", &[("DB_HOST", "a"), ("OTHER", "b")]);
    world.now = 100;
    world.add("Deployment", "web", enabled(), template);
    world.settle();
    world.now = 200;
    world
}

#[test]
fn first_observation_records_and_restarts_nothing() {
    let world = recorded(env_from(&["app"]));
    assert_eq!(world.restarts("web"), 0);
    assert_eq!(world.decision("web"), Decision::None);
    assert!(
        world
            .annotation("web", "rollplan.dev/restart-state")
            .is_some()
    );
}

#[test]
fn change_waits_for_quiet_then_restarts_once() {
    let mut world = recorded(env_from(&["app"]));
    world.set(ConfigMap, "app", &[("DB_HOST", "z"), ("OTHER", "b")]);
    assert_eq!(world.decision("web"), Decision::Wait);
    assert_eq!(
        world.changes("web"),
        ["DB_HOST of ConfigMap shop/app changed"]
    );
    assert_eq!(world.reasons("web"), ["QUIET_WINDOW"]);
    assert_eq!(world.plan().requeue_after.unwrap().seconds(), 10);
    world.run(9);
    assert_eq!(world.restarts("web"), 0);
    world.run(60);
    assert_eq!(world.restarts("web"), 1);
    assert_eq!(world.decision("web"), Decision::None);
    assert_eq!(
        world.events,
        ["Restarted: DB_HOST of ConfigMap shop/app changed"]
    );
    let template = &world.workloads["web"].object["spec"]["template"];
    assert_eq!(
        template["metadata"]["annotations"]["rollplan.dev/restarted-at"],
        "2026-01-01T00:03:31Z"
    );
}

#[test]
fn related_changes_make_one_restart_and_a_cap_ends_the_wait() {
    for tells_times in [true, false] {
        let mut world = recorded(env_from(&["app", "more"]));
        world.tells_times = tells_times;
        world.set(ConfigMap, "app", &[("DB_HOST", "1")]);
        world.run(5);
        world.set(ConfigMap, "more", &[("K", "v")]);
        world.run(5);
        world.set(ConfigMap, "app", &[("DB_HOST", "2")]);
        world.run(60);
        assert_eq!(world.restarts("web"), 1, "{tells_times}");
        // Changes that never stop are cut off by the cap.
        world.run(3600);
        for value in 0..40 {
            world.set(ConfigMap, "app", &[("DB_HOST", &value.to_string())]);
            world.run(5);
        }
        assert_eq!(world.restarts("web"), 2, "{tells_times}");
    }
}

#[test]
fn waiting_writes_the_state_once_if_times_are_told() {
    let mut world = recorded(env_from(&["app"]));
    let mut writes = 0;
    for value in 0..5 {
        world.set(ConfigMap, "app", &[("DB_HOST", &value.to_string())]);
        for step in world.steps() {
            writes += 1;
            world.carry_out(&step).unwrap();
        }
        world.now += 1;
    }
    assert_eq!(writes, 1);
    let state = world
        .annotation("web", "rollplan.dev/restart-state")
        .unwrap();
    assert!(state.len() < 300, "{state}");
}

#[test]
fn only_readers_of_a_key_restart() {
    for (template, expected) in [
        (env("app", "DB_HOST"), 1),
        (env("app", "OTHER"), 0),
        (env_from(&["app"]), 1),
    ] {
        let mut world = recorded(template);
        world.set(ConfigMap, "app", &[("DB_HOST", "z"), ("OTHER", "b")]);
        world.run(60);
        assert_eq!(world.restarts("web"), expected);
    }
}

#[test]
fn renamed_key_with_the_same_data_counts_for_its_readers() {
    let renamed = [("DB_HOST2", "a"), ("OTHER", "b")];
    let mut world = recorded(env_from(&["app"]));
    world.set(ConfigMap, "app", &renamed);
    assert_eq!(
        world.changes("web"),
        [
            "DB_HOST2 of ConfigMap shop/app was added",
            "DB_HOST of ConfigMap shop/app was removed"
        ]
    );
    world.run(60);
    assert_eq!(world.restarts("web"), 1);
    let mut world = recorded(env("app", "OTHER"));
    world.set(ConfigMap, "app", &renamed);
    world.run(60);
    assert_eq!(world.restarts("web"), 0);
}

#[test]
fn a_template_that_reads_another_key_is_recorded_without_a_restart() {
    let mut world = recorded(env("app", "DB_HOST"));
    let template = env("app", "OTHER");
    let web = world.workloads.get_mut("web").unwrap();
    web.object["spec"]["template"] = template;
    world.tells_times = false;
    world.run(60);
    assert_eq!(world.restarts("web"), 0);
    // What it no longer reads is of no interest.
    world.set(ConfigMap, "app", &[("DB_HOST", "z"), ("OTHER", "b")]);
    world.run(60);
    assert_eq!(world.restarts("web"), 0);
    world.set(ConfigMap, "app", &[("DB_HOST", "z"), ("OTHER", "y")]);
    world.run(60);
    assert_eq!(world.restarts("web"), 1);
}

#[test]
fn policy_env_leaves_volumes_alone() {
    let mount = |extra: Json| {
        let mut mount = json!({"name": "v", "mountPath": "/v"});
        mount
            .as_object_mut()
            .unwrap()
            .extend(extra.as_object().unwrap().clone());
        let volumes = json!([{"name": "v", "configMap": {"name": "app"}}]);
        template(json!({"volumeMounts": [mount]}), volumes)
    };
    for (template, of_env, of_all) in [
        (env_from(&["app"]), 1, 1),
        (mount(json!({})), 0, 1),
        (mount(json!({"subPath": "DB_HOST"})), 1, 1),
        (mount(json!({"subPath": "OTHER"})), 0, 0),
    ] {
        for (policy, expected) in [("env", of_env), ("all", of_all)] {
            let mut world = recorded(template.clone());
            let metadata = &mut world.workloads.get_mut("web").unwrap().object["metadata"];
            metadata["annotations"]["rollplan.dev/restart-on"] = json!(policy);
            world.settle();
            world.set(ConfigMap, "app", &[("DB_HOST", "z"), ("OTHER", "b")]);
            world.run(60);
            assert_eq!(world.restarts("web"), expected, "{policy} {template}");
        }
    }
}

#[test]
fn optional_configuration_that_appears_or_disappears_counts() {
    let optional = template(
        json!({"envFrom": [{"configMapRef": {"name": "extra", "optional": true}}]}),
        json!([]),
    );
    let mut world = recorded(optional);
    world.set(ConfigMap, "extra", &[("A", "1")]);
    assert_eq!(world.changes("web"), ["ConfigMap shop/extra was created"]);
    world.run(100);
    assert_eq!(world.restarts("web"), 1);
    world.delete(ConfigMap, "extra");
    assert_eq!(world.changes("web"), ["ConfigMap shop/extra was deleted"]);
    world.run(100);
    assert_eq!(world.restarts("web"), 2);
}

#[test]
fn required_configuration_that_appears_needs_no_restart() {
    let mut world = World::new(Profile::Rollplan);
    world.add("Deployment", "web", enabled(), env_from(&["app"]));
    world.workloads.get_mut("web").unwrap().started = None;
    world.settle();
    assert_eq!(world.reasons("web"), ["REQUIRED_MISSING"]);
    world.now = 50;
    world.set(ConfigMap, "app", &[("A", "1")]);
    world.settle();
    world.workloads.get_mut("web").unwrap().started = Some(60);
    world.run(100);
    assert_eq!(world.restarts("web"), 0);
    assert_eq!(world.decision("web"), Decision::None);
}

#[test]
fn configuration_that_is_created_again_restarts_only_with_other_data() {
    for (data, expected) in [("a", 0), ("z", 1)] {
        let mut world = recorded(env_from(&["app"]));
        world.delete(ConfigMap, "app");
        world.run(60);
        assert_eq!(world.reasons("web"), ["REQUIRED_MISSING"]);
        world.set(ConfigMap, "app", &[("DB_HOST", data), ("OTHER", "b")]);
        world.run(100);
        assert_eq!(world.restarts("web"), expected);
    }
}

#[test]
fn no_restart_into_a_missing_configuration() {
    let mut world = recorded(env_from(&["app", "more"]));
    world.set(ConfigMap, "more", &[("A", "1")]);
    world.run(60);
    world.delete(ConfigMap, "more");
    world.set(ConfigMap, "app", &[("DB_HOST", "z")]);
    world.run(60);
    assert_eq!(world.decision("web"), Decision::Hold);
    assert!(world.reasons("web").contains(&"RESTART_WOULD_FAIL"));
    let before = world.restarts("web");
    world.set(ConfigMap, "more", &[("A", "1")]);
    world.run(200);
    assert_eq!(world.restarts("web"), before + 1);
}

#[test]
fn unknown_configurations_are_left_alone() {
    let mut world = recorded(env_from(&["app"]));
    world.configurations_complete = false;
    world.delete(ConfigMap, "app");
    assert_eq!(world.decision("web"), Decision::None);
    assert_eq!(world.plan().counts.unknown, 1);
}

#[test]
fn a_change_before_the_pods_started_is_folded_into_the_rollout() {
    let mut world = recorded(env_from(&["app"]));
    world.set(ConfigMap, "app", &[("DB_HOST", "z")]);
    world.now += 20;
    // A new template, whose pods start after the change.
    let web = world.workloads.get_mut("web").unwrap();
    web.rollout = Rollout::Progressing;
    web.started = None;
    world.settle();
    assert_eq!(world.decision("web"), Decision::None);
    let web = world.workloads.get_mut("web").unwrap();
    web.started = Some(world.now + 1);
    web.rollout = Rollout::Complete;
    world.run(100);
    assert_eq!(world.restarts("web"), 0);
}

#[test]
fn a_change_during_a_rollout_is_held_until_it_ends_or_is_stuck() {
    for end in [Rollout::Complete, Rollout::Stalled] {
        let mut world = recorded(env_from(&["app"]));
        world.workloads.get_mut("web").unwrap().rollout = Rollout::Progressing;
        world.set(ConfigMap, "app", &[("DB_HOST", "z")]);
        world.run(600);
        assert_eq!(world.decision("web"), Decision::Hold);
        assert_eq!(world.reasons("web"), ["ROLLOUT_IN_PROGRESS"]);
        world.workloads.get_mut("web").unwrap().rollout = end;
        world.run(1);
        assert_eq!(world.restarts("web"), 1, "{end:?}");
    }
}

#[test]
fn pods_of_an_undone_restart_are_restarted_and_the_fight_ends() {
    let mut world = recorded(env_from(&["app"]));
    world.set(ConfigMap, "app", &[("DB_HOST", "z")]);
    world.run(60);
    for undone in 1..=4 {
        // Somebody restores the template of before, whose pods had not been replaced.
        world.strip("web");
        let web = world.workloads.get_mut("web").unwrap();
        web.started = Some(100);
        let restarts = web.restarts;
        world.run(300);
        let again = usize::from(undone <= 2);
        assert_eq!(world.restarts("web"), restarts + again, "{undone}");
    }
    assert!(world.reasons("web").contains(&"UNDONE_REPEATEDLY"));
}

#[test]
fn stripped_marker_is_reported_and_not_fought() {
    let mut world = recorded(env_from(&["app"]));
    world.set(ConfigMap, "app", &[("DB_HOST", "z")]);
    world.run(60);
    world.strip("web");
    world.workloads.get_mut("web").unwrap().started = Some(world.now + 1);
    world.run(3000);
    assert_eq!(world.restarts("web"), 1);
    assert_eq!(world.reasons("web"), ["MARKER_STRIPPED"]);
}

#[test]
fn nothing_runs_so_nothing_restarts() {
    let mut world = recorded(env_from(&["app"]));
    world.workloads.get_mut("web").unwrap().started = None;
    world.set(ConfigMap, "app", &[("DB_HOST", "z")]);
    world.run(60);
    world.workloads.get_mut("web").unwrap().started = Some(world.now);
    world.run(60);
    assert_eq!(world.restarts("web"), 0);
}

#[test]
fn change_sets_wait_for_each_other() {
    let mut world = recorded(env_from(&["app", "more"]));
    world.set(ConfigMap, "more", &[("A", "1")]);
    world.annotate(ConfigMap, "app", CHANGE_SET, "1");
    world.annotate(ConfigMap, "more", CHANGE_SET, "1");
    world.run(100);
    let before = world.restarts("web");
    world.set(ConfigMap, "app", &[("DB_HOST", "z")]);
    world.annotate(ConfigMap, "app", CHANGE_SET, "2");
    world.run(60);
    assert_eq!(world.reasons("web"), ["CHANGE_SET"]);
    assert_eq!(world.restarts("web"), before);
    world.set(ConfigMap, "more", &[("A", "2")]);
    world.annotate(ConfigMap, "more", CHANGE_SET, "2");
    world.run(30);
    assert_eq!(world.restarts("web"), before + 1);
    // At most for so long.
    world.annotate(ConfigMap, "app", CHANGE_SET, "3");
    world.set(ConfigMap, "app", &[("DB_HOST", "y")]);
    world.run(130);
    assert_eq!(world.restarts("web"), before + 2);
}

#[test]
fn annotations_replace_options_and_invalid_ones_are_reported() {
    let mut world = recorded(env_from(&["app"]));
    let metadata = &mut world.workloads.get_mut("web").unwrap().object["metadata"];
    metadata["annotations"]["rollplan.dev/restart-quiet"] = json!("1m");
    world.set(ConfigMap, "app", &[("DB_HOST", "z")]);
    world.run(59);
    assert_eq!(world.restarts("web"), 0);
    world.run(10);
    assert_eq!(world.restarts("web"), 1);
    let metadata = &mut world.workloads.get_mut("web").unwrap().object["metadata"];
    metadata["annotations"]["rollplan.dev/restart-on"] = json!("sometimes");
    metadata["annotations"]["rollplan.dev/restart-also"] = json!("configmap/x,pod/y");
    assert_eq!(
        world.reasons("web"),
        ["INVALID_ANNOTATION", "INVALID_ANNOTATION"]
    );
}

#[test]
fn configurations_are_named_and_ignored_by_annotations() {
    let template = template(json!({}), json!([]));
    let mut world = recorded(template);
    let metadata = &mut world.workloads.get_mut("web").unwrap().object["metadata"];
    metadata["annotations"]["rollplan.dev/restart-also"] = json!("configmap/app, secret/db");
    world.run(60);
    world.set(ConfigMap, "app", &[("DB_HOST", "z")]);
    world.run(60);
    assert_eq!(world.restarts("web"), 1);
    let metadata = &mut world.workloads.get_mut("web").unwrap().object["metadata"];
    metadata["annotations"]["rollplan.dev/restart-ignore"] = json!("configmap/app");
    world.set(ConfigMap, "app", &[("DB_HOST", "y")]);
    world.run(60);
    assert_eq!(world.restarts("web"), 1);
}

#[test]
fn workloads_opt_in_or_out() {
    for (annotations, all, expected) in [
        (json!({}), false, 0),
        (json!({}), true, 1),
        (enabled(), false, 1),
        (json!({"rollplan.dev/restart": "disabled"}), true, 0),
        (json!({"rollplan.dev/restart": "maybe"}), true, 0),
    ] {
        let mut world = World::new(Profile::Rollplan);
        world.options.all_workloads = all;
        world.set(ConfigMap, "app", &[("A", "1")]);
        world.now = 100;
        world.add("Deployment", "web", annotations.clone(), env_from(&["app"]));
        world.settle();
        world.now = 200;
        world.set(ConfigMap, "app", &[("A", "2")]);
        world.run(60);
        assert_eq!(world.restarts("web"), expected, "{annotations} {all}");
    }
}

#[test]
fn kinds_that_cannot_be_restarted_say_so() {
    for (kind, decision, reason) in [
        ("Deployment", Decision::None, None),
        ("Rollout", Decision::None, None),
        ("CronJob", Decision::None, None),
        ("Job", Decision::Hold, Some("JOB")),
        ("StatefulSet", Decision::Hold, Some("ON_DELETE")),
    ] {
        let mut world = World::new(Profile::Rollplan);
        world.set(ConfigMap, "app", &[("A", "1")]);
        world.now = 100;
        world.add(kind, "it", enabled(), env_from(&["app"]));
        if kind == "StatefulSet" {
            let spec = &mut world.workloads.get_mut("it").unwrap().object["spec"];
            spec["updateStrategy"] = json!({"type": "OnDelete"});
        }
        world.settle();
        world.now = 200;
        world.set(ConfigMap, "app", &[("A", "2")]);
        world.run(60);
        assert_eq!(world.decision("it"), decision, "{kind}");
        assert_eq!(world.reasons("it").first().copied(), reason, "{kind}");
        assert!(world.jobs.is_empty());
        let restarts = usize::from(matches!(kind, "Deployment" | "Rollout"));
        assert_eq!(world.restarts("it"), restarts, "{kind}");
    }
}

#[test]
fn paused_rollouts_and_unreadable_states_do_not_harm() {
    let mut world = recorded(env_from(&["app"]));
    world.workloads.get_mut("web").unwrap().object["spec"]["paused"] = json!(true);
    world.set(ConfigMap, "app", &[("DB_HOST", "z")]);
    world.run(60);
    assert_eq!(world.reasons("web"), ["PAUSED"]);
    for text in [
        "null",
        "{",
        "[]",
        "{\"applied\":7,\"restarts\":{},\"pending\":[]}",
        "7",
    ] {
        let mut world = recorded(env_from(&["app"]));
        let metadata = &mut world.workloads.get_mut("web").unwrap().object["metadata"];
        metadata["annotations"]["rollplan.dev/restart-state"] = json!(text);
        world.run(60);
        assert_eq!(world.restarts("web"), 0, "{text}");
        assert_eq!(world.decision("web"), Decision::None, "{text}");
    }
}

#[test]
fn losing_a_race_changes_nothing() {
    let mut world = recorded(env_from(&["app"]));
    world.set(ConfigMap, "app", &[("DB_HOST", "z")]);
    world.now += 60;
    let (one, other) = (world.steps(), world.steps());
    assert_eq!(one.len(), 1);
    world.carry_out(&one[0]).unwrap();
    world.carry_out(&other[0]).unwrap_err();
    assert_eq!(world.restarts("web"), 1);
    // Nor does a change of anything else prevent it: no test of resourceVersion.
    assert!(!one[0].call.body_json.contains("resourceVersion"));
}

#[test]
fn large_states_leave_keys_out_and_still_compare() {
    let keys: Vec<String> = (0..1000).map(|index| format!("key-{index:04}")).collect();
    let data: Vec<(&str, &str)> = keys.iter().map(|key| (key.as_str(), "v")).collect();
    let names: Vec<String> = (0..60).map(|index| format!("map-{index}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut world = World::new(Profile::Rollplan);
    for name in &names {
        world.set(ConfigMap, name, &data[..30]);
    }
    world.set(ConfigMap, "huge", &data);
    world.now = 100;
    let all = [&names[..], &["huge"]].concat();
    world.add("Deployment", "web", enabled(), env_from(&all));
    world.settle();
    let state = world
        .annotation("web", "rollplan.dev/restart-state")
        .unwrap();
    assert!(state.len() < 8 << 10, "{}", state.len());
    assert_eq!(world.decision("web"), Decision::None);
    world.now = 200;
    world.set(ConfigMap, "huge", &data[1..]);
    assert_eq!(world.changes("web"), ["ConfigMap shop/huge changed"]);
    world.options.quiet = Duration::ZERO;
    world.run(60);
    assert_eq!(world.restarts("web"), 1);
}
