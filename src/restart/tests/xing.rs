//! The scenarios in `config_agent_test.go` of the xing controller, "the original", with assertions on the observable
//! behavior only: the original keeps its state in memory, rollplan in annotations.

use std::time::Duration;

use rollplan_restart::*;
use serde_json::{Value as Json, json};

use super::world::*;

const APPLIED: &str = "com.xing.deployment-restart.applied-config-checksums";
const BOTH: &str = r#"{"configmap/shop/a":"abc","secret/shop/b":"def"}"#;

/// A ConfigMap "a" with the checksum "abc", and a Deployment "d" that reads it and an unknown Secret "b".
struct Scenario {
    world: World,
}

impl Scenario {
    fn new() -> Self {
        let mut world = World::new(Profile::Xing);
        world.tells_times = false;
        world.configurations_complete = false;
        Self { world }
    }

    fn config(mut self, checksum: &str) -> Self {
        let stored = self
            .world
            .configurations
            .entry((ConfigMap, "a".to_owned()))
            .or_default();
        if stored.checksum.as_deref() != Some(checksum) {
            stored.observations += 1;
        }
        stored.checksum = Some(checksum.to_owned());
        self
    }

    fn workload(mut self, applied: &str) -> Self {
        let sources = json!([{"configMapRef": {"name": "a"}}, {"secretRef": {"name": "b"}}]);
        let mut annotations = json!({"com.xing.deployment-restart": "enabled"});
        if !applied.is_empty() {
            annotations[APPLIED] = json!(applied);
        }
        let template = template(json!({"envFrom": sources}), json!([]));
        self.world.add("Deployment", "d", annotations, template);
        self
    }

    fn wait(mut self) -> Self {
        self.world.run(60);
        self
    }

    /// Asserts the final applied checksums and the number of restarts.
    fn ends(self, applied: Json, restarts: usize) {
        let annotation = self.world.annotation("d", APPLIED);
        let stored: Json = annotation.map_or(Json::Null, |it| serde_json::from_str(it).unwrap());
        assert_eq!((stored, self.world.restarts("d")), (applied, restarts));
        assert_eq!(self.world.decision("d"), Decision::None);
    }
}

fn entries(a: &str, b: &str) -> Json {
    let mut entries = serde_json::Map::new();
    for (key, checksum) in [("configmap/shop/a", a), ("secret/shop/b", b)] {
        if !checksum.is_empty() {
            entries.insert(key.to_owned(), json!(checksum));
        }
    }
    Json::Object(entries)
}

#[test]
fn agent_scenarios() {
    let new = Scenario::new;
    let only_b = r#"{"secret/shop/b":"def"}"#;
    // No objects, a ConfigMap alone, and a deleted ConfigMap: nothing to do.
    assert!(new().world.plan().workloads.is_empty());
    assert!(
        new()
            .config("abc")
            .config("bcd")
            .world
            .plan()
            .workloads
            .is_empty()
    );
    // A workload alone: two unknown references.
    let alone = new().workload(BOTH);
    assert_eq!(alone.world.plan().counts.unknown, 2);
    alone.wait().ends(entries("abc", "def"), 0);
    // A, D: equal.
    new()
        .config("abc")
        .workload(BOTH)
        .wait()
        .ends(entries("abc", "def"), 0);
    // A, A, D: nothing changes.
    new()
        .config("abc")
        .config("abc")
        .workload(BOTH)
        .wait()
        .ends(entries("abc", "def"), 0);
    // A', D without A's entry.
    new()
        .config("bcd")
        .workload(only_b)
        .wait()
        .ends(entries("bcd", "def"), 0);
    // A', D.
    new()
        .config("bcd")
        .workload(BOTH)
        .wait()
        .ends(entries("bcd", "def"), 1);
    // A', D, D' with an empty annotation.
    new()
        .config("bcd")
        .workload(BOTH)
        .workload("{}")
        .wait()
        .ends(entries("bcd", ""), 0);
    // A, D, D' lacking A's entry.
    new()
        .config("abc")
        .workload(BOTH)
        .workload(only_b)
        .wait()
        .ends(entries("abc", "def"), 0);
    // A, D, A deleted.
    let mut deleted = new().config("abc").workload(BOTH).wait();
    deleted.world.delete(ConfigMap, "a");
    deleted.wait().ends(entries("abc", "def"), 0);
}

#[test]
fn stop_does_not_wait_for_the_grace_period() {
    // D without A's entry, A, A', immediate stop: two observations prove a change.
    let only_b = r#"{"secret/shop/b":"def"}"#;
    let mut scenario = Scenario::new().workload(only_b).config("abc").config("bcd");
    scenario.world.options.quiet = Duration::ZERO;
    scenario.world.settle();
    scenario.ends(entries("bcd", "def"), 1);
}

#[test]
fn grace_period_starts_with_the_first_change() {
    let mut scenario = Scenario::new().config("0").workload("").wait();
    let mut restarted = Vec::new();
    for second in 1..=10 {
        scenario = scenario.config(&second.to_string());
        scenario.world.run(1);
        restarted.push(scenario.world.restarts("d"));
    }
    assert_eq!(restarted, [0, 0, 0, 0, 1, 1, 1, 1, 1, 2]);
    scenario.world.run(60);
    assert_eq!(scenario.world.restarts("d"), 2);
}

#[test]
fn failed_patch_is_repeated() {
    let mut scenario = Scenario::new().config("bcd").workload(BOTH);
    scenario.world.settle();
    scenario.world.now += 10;
    // Although the call fails, the next plan still contains it.
    assert_eq!(scenario.world.steps().len(), 1);
    scenario.wait().ends(entries("bcd", "def"), 1);
}

#[test]
fn only_deployments_and_stateful_sets_that_opted_in_are_selected() {
    for (kind, annotation, selected) in [
        ("Deployment", "enabled", 1),
        ("StatefulSet", "enabled", 1),
        ("DaemonSet", "enabled", 0),
        ("Deployment", "true", 0),
        ("Deployment", "", 0),
    ] {
        let mut world = World::new(Profile::Xing);
        let annotations = json!({"com.xing.deployment-restart": annotation});
        world.add(kind, "d", annotations, env_from(&["a"]));
        assert_eq!(
            world.plan().counts.selected,
            selected,
            "{kind} {annotation}"
        );
    }
}

#[test]
fn tracked_references_match_the_original() {
    let container = json!({
        "envFrom": [{"configMapRef": {"name": "a"}}, {"secretRef": {"name": "b"}}],
        "env": [{"name": "X", "valueFrom": {"secretKeyRef": {"name": "no", "key": "k"}}}],
        "volumeMounts": [{"name": "p", "mountPath": "/p"}, {"name": "s", "mountPath": "/s"}],
    });
    let volumes = json!([
        {"name": "v", "configMap": {"name": "unmounted"}},
        {"name": "s", "secret": {"secretName": "no"}},
        {"name": "p", "projected": {"sources": [{"configMap": {"name": "no"}}]}},
    ]);
    let mut template = template(container, volumes);
    template["spec"]["initContainers"] =
        json!([{"name": "i", "envFrom": [{"configMapRef": {"name": "no"}}]}]);
    let mut world = World::new(Profile::Xing);
    world.options.uses = true;
    world.add(
        "Deployment",
        "d",
        json!({"com.xing.deployment-restart": "enabled"}),
        template,
    );
    let uses = world.plan_for("d").unwrap().uses;
    let names: Vec<_> = uses
        .iter()
        .map(|it| format!("{}/{}", it.kind.key(), it.name))
        .collect();
    assert_eq!(names, ["configmap/a", "configmap/unmounted", "secret/b"]);
}

#[test]
fn annotations_of_the_patch_match_the_original() {
    let mut scenario = Scenario::new().config("bcd").workload(BOTH);
    scenario.world.run(60);
    let template = &scenario.world.workloads["d"].object["spec"]["template"];
    let annotations = template["metadata"]["annotations"].as_object().unwrap();
    let keys: Vec<_> = annotations.keys().collect();
    assert_eq!(keys, ["com.xing.deployment-restart.timestamp"]);
}
