use std::time::Duration;

use rollplan_restart::*;
use serde_json::{Value as Json, json};

use super::world::*;

/// A Deployment "web" that opted in, and a ConfigMap "app" with two keys, both recorded.
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
fn first_observation_is_recorded_without_a_restart() {
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
fn change_restarts_once_after_the_quiet_period() {
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
fn related_changes_cause_one_restart_within_the_maximum_wait() {
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
        // Constant changes postpone a restart by the maximum wait only.
        world.run(3600);
        for value in 0..40 {
            world.set(ConfigMap, "app", &[("DB_HOST", &value.to_string())]);
            world.run(5);
        }
        assert_eq!(world.restarts("web"), 2, "{tells_times}");
    }
}

#[test]
fn pending_state_is_written_once_if_times_are_known() {
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
fn plan_is_ordered_by_kind_and_name() {
    let mut world = World::new(Profile::Rollplan);
    world.set(ConfigMap, "app", &[("DB_HOST", "a")]);
    for (kind, name) in [
        ("Deployment", "a"),
        ("Deployment", "c"),
        ("DaemonSet", "b"),
        ("DaemonSet", "d"),
    ] {
        world.add(kind, name, enabled(), env_from(&["app"]));
    }
    let input = world.input();
    let plans = world.plan().workloads.into_iter();
    let names = plans.map(|it| input.workloads[it.index].name.clone());
    assert_eq!(names.collect::<Vec<_>>(), ["b", "d", "a", "c"]);
}

#[test]
fn removing_an_optional_key_restarts_its_readers() {
    let source = json!({"configMapKeyRef": {"name": "app", "key": "DB_HOST", "optional": true}});
    let env = json!({"env": [{"name": "X", "valueFrom": source}]});
    let mut world = recorded(template(env, json!([])));
    world.set(ConfigMap, "app", &[("OTHER", "b")]);
    let removed = "DB_HOST of ConfigMap shop/app was removed";
    assert_eq!(world.changes("web"), [removed]);
    world.run(60);
    assert_eq!(world.restarts("web"), 1);
}

#[test]
fn renaming_a_key_restarts_its_readers() {
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
fn reading_another_key_is_recorded_without_a_restart() {
    let mut world = recorded(env("app", "DB_HOST"));
    let template = env("app", "OTHER");
    let web = world.workloads.get_mut("web").unwrap();
    web.object["spec"]["template"] = template;
    world.tells_times = false;
    world.run(60);
    assert_eq!(world.restarts("web"), 0);
    // Keys that it no longer reads are irrelevant.
    world.set(ConfigMap, "app", &[("DB_HOST", "z"), ("OTHER", "b")]);
    world.run(60);
    assert_eq!(world.restarts("web"), 0);
    world.set(ConfigMap, "app", &[("DB_HOST", "z"), ("OTHER", "y")]);
    world.run(60);
    assert_eq!(world.restarts("web"), 1);
}

#[test]
fn policy_env_ignores_volumes() {
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
fn creating_or_deleting_an_optional_configuration_restarts() {
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
fn creating_a_required_configuration_needs_no_restart() {
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
fn recreated_configuration_restarts_only_with_different_data() {
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
fn missing_required_configuration_holds_restarts() {
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
fn unknown_configurations_are_ignored() {
    let mut world = recorded(env_from(&["app"]));
    world.configurations_complete = false;
    world.delete(ConfigMap, "app");
    assert_eq!(world.decision("web"), Decision::None);
    assert_eq!(world.plan().counts.unknown, 1);
}

#[test]
fn change_before_the_pods_started_needs_no_restart() {
    let mut world = recorded(env_from(&["app"]));
    world.set(ConfigMap, "app", &[("DB_HOST", "z")]);
    world.now += 20;
    // A new template rolls out, and its pods start after the change.
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
fn change_during_a_rollout_waits_until_it_completes_or_stalls() {
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
fn undone_restarts_are_repeated_a_limited_number_of_times() {
    let mut world = recorded(env_from(&["app"]));
    world.set(ConfigMap, "app", &[("DB_HOST", "z")]);
    world.run(60);
    for undone in 1..=4 {
        // A user restores the previous template before its pods are replaced.
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
fn removed_marker_is_reported_without_a_restart() {
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
fn workload_without_running_pods_is_not_restarted() {
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
    // The wait has a maximum.
    world.annotate(ConfigMap, "app", CHANGE_SET, "3");
    world.set(ConfigMap, "app", &[("DB_HOST", "y")]);
    world.run(130);
    assert_eq!(world.restarts("web"), before + 2);
}

#[test]
fn annotations_override_options_and_invalid_ones_are_reported() {
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
fn ignored_configuration_restarts_nothing() {
    for (ignore, expected) in [("true", 0), ("false", 1)] {
        let mut world = recorded(env_from(&["app"]));
        world.annotate(ConfigMap, "app", "rollplan.dev/restart-ignore", ignore);
        world.set(ConfigMap, "app", &[("DB_HOST", "z")]);
        world.run(60);
        assert_eq!(world.restarts("web"), expected, "{ignore}");
    }
}

#[test]
fn annotations_add_and_ignore_configurations() {
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
fn kinds_that_cannot_be_restarted_are_held() {
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
fn paused_rollouts_and_unreadable_states_are_not_restarted() {
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
fn only_one_of_two_concurrent_restarts_succeeds() {
    let mut world = recorded(env_from(&["app"]));
    world.set(ConfigMap, "app", &[("DB_HOST", "z")]);
    world.now += 60;
    let (one, other) = (world.steps(), world.steps());
    assert_eq!(one.len(), 1);
    world.carry_out(&one[0]).unwrap();
    world.carry_out(&other[0]).unwrap_err();
    assert_eq!(world.restarts("web"), 1);
    // Without a test of resourceVersion, other changes to the workload do not make the patch fail.
    assert!(!one[0].call.body_json.contains("resourceVersion"));
}

#[test]
fn large_states_omit_keys_and_still_compare() {
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
