use std::time::Duration;

use rollplan_restart::*;
use serde_json::json;

use super::world::*;

/// Deployments that read the same ConfigMap, recorded.
fn many(count: usize) -> World {
    let mut world = World::new(Profile::Rollplan);
    world.set(ConfigMap, "app", &[("A", "1")]);
    world.now = 100;
    for index in 0..count {
        world.add(
            "Deployment",
            &format!("web-{index:02}"),
            enabled(),
            env_from(&["app"]),
        );
    }
    world.settle();
    world.now = 200;
    world
}

fn restarting(world: &World) -> usize {
    let plans = world.plan().workloads;
    plans
        .iter()
        .filter(|it| it.decision == Decision::Restart)
        .count()
}

#[test]
fn restarts_of_a_workload_are_rate_limited_with_backoff() {
    let mut world = many(1);
    world.options.quiet = Duration::ZERO;
    for value in 0..3500 / 5 {
        world.set(ConfigMap, "app", &[("A", &value.to_string())]);
        world.run(5);
    }
    // 30 s, 1 min, 2 min, 4 min, …
    assert_eq!(world.restarts("web-00"), 7);
    assert!(world.reasons("web-00").contains(&"MIN_INTERVAL"));
    // The last value is applied.
    world.run(7200);
    assert_eq!(world.decision("web-00"), Decision::None);
}

#[test]
fn concurrent_restarts_are_limited() {
    let mut world = many(10);
    world.options.max_concurrent = 3;
    world.set(ConfigMap, "app", &[("A", "2")]);
    world.now += 60;
    assert_eq!(restarting(&world), 3);
    // Restarts in progress count.
    for step in world.steps().into_iter().take(2) {
        world.carry_out(&step).unwrap();
    }
    for name in ["web-00", "web-01"] {
        world.workloads.get_mut(name).unwrap().rollout = Rollout::Progressing;
    }
    assert_eq!(restarting(&world), 1);
    assert!(world.reasons("web-05").contains(&"MAX_CONCURRENT"));
    for name in ["web-00", "web-01"] {
        world.workloads.get_mut(name).unwrap().rollout = Rollout::Complete;
    }
    world.settle();
    let total: usize = (0..10)
        .map(|it| world.restarts(&format!("web-{it:02}")))
        .sum();
    assert_eq!(total, 10);
}

#[test]
fn concurrent_adapters_exceed_the_limit_at_most_by_their_number() {
    // Each adapter plans from the same observation, without the writes of the others.
    let mut world = many(20);
    world.options.max_concurrent = 2;
    world.set(ConfigMap, "app", &[("A", "2")]);
    world.now += 60;
    let plans: Vec<_> = (0..3).map(|_| world.steps()).collect();
    let mut won = 0;
    for step in plans.iter().flatten() {
        won += usize::from(world.carry_out(step).is_ok());
    }
    assert!((2..=6).contains(&won), "{won}");
    let total: usize = (0..20)
        .map(|it| world.restarts(&format!("web-{it:02}")))
        .sum();
    assert_eq!(total, won);
}

#[test]
fn stalled_workload_holds_others_until_the_configuration_changes() {
    let mut world = many(3);
    world.options.max_concurrent = 1;
    world.set(ConfigMap, "app", &[("A", "bad")]);
    world.now += 60;
    let steps = world.steps();
    world.carry_out(&steps[0]).unwrap();
    world.workloads.get_mut("web-00").unwrap().rollout = Rollout::Stalled;
    world.options.max_concurrent = 0;
    world.now += 60;
    assert_eq!(restarting(&world), 0);
    assert!(world.reasons("web-01").contains(&"BREAKER"));
    world.options.breaker = false;
    assert_eq!(restarting(&world), 2);
    world.options.breaker = true;
    world.set(ConfigMap, "app", &[("A", "good")]);
    world.now += 60;
    assert_eq!(restarting(&world), 3);
}

#[test]
fn disruption_budgets_hold_restarts_for_a_limited_time() {
    let mut world = many(1);
    world
        .workloads
        .get_mut("web-00")
        .unwrap()
        .disruptions_allowed = Some(0);
    world.set(ConfigMap, "app", &[("A", "2")]);
    world.now += 11;
    assert_eq!(world.decision("web-00"), Decision::Restart);
    world.options.disruption_budget_wait = Some(Duration::from_secs(300));
    assert_eq!(world.reasons("web-00"), ["DISRUPTION_BUDGET"]);
    world.run(200);
    assert_eq!(world.restarts("web-00"), 0);
    world.run(150);
    assert_eq!(world.restarts("web-00"), 1);
}

#[test]
fn frozen_and_held_namespaces_have_no_restarts() {
    let mut world = many(1);
    world.set(ConfigMap, "app", &[("A", "2")]);
    world.now += 60;
    world.options.frozen_namespaces = vec!["shop".to_owned()];
    assert_eq!(world.reasons("web-00"), ["FROZEN"]);
    world.options.frozen_namespaces.clear();
    world
        .namespace
        .insert("rollplan.dev/restart-frozen".to_owned(), "true".to_owned());
    assert_eq!(world.reasons("web-00"), ["FROZEN"]);
    world.namespace.clear();
    let until = time(world.now + 300).to_string();
    world
        .namespace
        .insert("rollplan.dev/restart-hold-until".to_owned(), until.clone());
    assert_eq!(world.reasons("web-00"), ["HELD_UNTIL"]);
    world.namespace.clear();
    let metadata = &mut world.workloads.get_mut("web-00").unwrap().object["metadata"];
    metadata["annotations"]["rollplan.dev/restart-hold-until"] = json!(until);
    world.run(290);
    assert_eq!(world.restarts("web-00"), 0);
    world.run(20);
    assert_eq!(world.restarts("web-00"), 1);
    // A hold is bounded.
    let metadata = &mut world.workloads.get_mut("web-00").unwrap().object["metadata"];
    metadata["annotations"]["rollplan.dev/restart-hold-until"] = json!("9999-01-01T00:00:00Z");
    world.set(ConfigMap, "app", &[("A", "3")]);
    world.run(86_000);
    assert_eq!(world.restarts("web-00"), 1);
    world.run(1_000);
    assert_eq!(world.restarts("web-00"), 2);
}
