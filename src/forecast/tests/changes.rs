//! What changes do.

use rollplan_core::snapshot::Snapshot;
use rollplan_core::template::{Template, Value};
use rollplan_forecast::{Answer, Change, Effect, ForecastError, Outcome, REPLICAS_MAX};
use rollplan_world::{mk_set, mk_template, settle, store_defaults};

use crate::world::{forecast, mk_complete, mk_request, try_forecast, with_image};

fn effect(snapshot: &Snapshot, changes: Vec<Change>) -> Effect {
    forecast(mk_request(snapshot.clone(), changes)).effect
}

/// A complete rollout of v1 whose previous revision is v0.
fn mk_with_history() -> Snapshot {
    let mut snapshot = mk_complete(&[5, 6, 7, 8]);
    let old = mk_set(&snapshot.deployment, "v0", 0, 0);
    snapshot.replica_sets.insert(0, old);
    for (set, revision) in snapshot.replica_sets.iter_mut().zip(["6", "7"]) {
        let key = rollplan_core::revision::REVISION.to_owned();
        set.metadata.annotations.insert(key, revision.to_owned());
    }
    store_defaults(&mut snapshot);
    settle(&mut snapshot);
    snapshot
}

#[test]
fn each_change_has_its_effect() {
    let snapshot = mk_with_history();
    let replicas = |count| Change::Replicas(count);
    let image = |image| with_image(&snapshot, image);
    for (changes, expected) in [
        (vec![], Effect::NoChange),
        (vec![replicas(4)], Effect::NoChange),
        (vec![replicas(9), replicas(4)], Effect::NoChange),
        (vec![image("v1")], Effect::NoChange),
        (vec![replicas(9)], Effect::ScaleOnly),
        (vec![Change::Paused(true), replicas(9)], Effect::ScaleOnly),
        (vec![image("v2")], Effect::StartsRollout),
        (vec![image("v2"), replicas(9)], Effect::StartsRollout),
        (vec![image("v2"), image("v1")], Effect::NoChange),
        (vec![image("v0")], Effect::ReturnsToRevision(6)),
        (vec![Change::Undo(0)], Effect::ReturnsToRevision(6)),
        (vec![Change::Undo(6)], Effect::ReturnsToRevision(6)),
        (vec![Change::Undo(7)], Effect::NoChange),
        (vec![Change::Paused(true), image("v2")], Effect::HeldByPause),
        (vec![image("v2"), Change::Paused(true)], Effect::HeldByPause),
        (
            vec![Change::Paused(true), Change::Paused(false)],
            Effect::NoChange,
        ),
    ] {
        // A whole Deployment replaces the pause as well.
        let is_resumed = matches!(changes[..], [Change::Paused(true), Change::Deployment(_)]);
        let expected = if is_resumed {
            Effect::StartsRollout
        } else {
            expected
        };
        assert_eq!(effect(&snapshot, changes.clone()), expected, "{changes:?}");
    }
}

#[test]
fn a_template_that_a_pause_holds_is_rolled_out_when_resumed() {
    let mut snapshot = mk_with_history();
    snapshot.deployment.spec.paused = true;
    snapshot.deployment.metadata.generation += 1;
    snapshot.deployment.spec.template = Template::from(mk_template("v2"));
    let held = forecast(mk_request(snapshot.clone(), vec![]));
    assert_eq!(held.effect, Effect::HeldByPause);
    assert_eq!(held.expected.outcome, Outcome::Never);
    assert_eq!(held.expected.reason, "The Deployment is paused.");
    let resumed = forecast(mk_request(snapshot, vec![Change::Paused(false)]));
    assert_eq!(resumed.effect, Effect::StartsRollout);
    assert_eq!(paths(&resumed), ["spec.containers[name=main].image"]);
    assert_eq!(resumed.expected.outcome, Outcome::Completes);
}

fn paths(answer: &Answer) -> Vec<&str> {
    let changes = answer.template_changes.iter();
    changes.map(|change| change.path.as_str()).collect()
}

#[test]
fn template_changes_hide_values_of_environment_variables() {
    let snapshot = mk_complete(&[5]);
    let mut template = mk_template("v2");
    let spec = template.as_map_mut().unwrap().get_mut("spec").unwrap();
    let containers = spec.as_map_mut().unwrap().get_mut("containers").unwrap();
    let Value::List(containers) = containers else {
        unreachable!()
    };
    let variable = Value::from([("name", "PASSWORD"), ("value", "secret")]);
    let container = containers[0].as_map_mut().unwrap();
    container.insert("env".to_owned(), Value::from(vec![variable]));
    let mut deployment = snapshot.deployment.clone();
    deployment.spec.template = Template::from(template);
    let change = Change::Deployment(Box::new(deployment));
    let answer = forecast(mk_request(snapshot, vec![change]));
    assert_eq!(
        paths(&answer),
        [
            "spec.containers[name=main].env",
            "spec.containers[name=main].image"
        ]
    );
    assert!(!format!("{answer:?}").contains("secret"));
}

/// A manifest has neither the defaults of Kubernetes nor the revision.
#[test]
fn defaults_are_not_changes() {
    let snapshot = mk_complete(&[5, 6]);
    let manifest = with_image(&snapshot, "v1");
    assert_eq!(effect(&snapshot, vec![manifest]), Effect::NoChange);
    let answer = forecast(mk_request(
        snapshot.clone(),
        vec![with_image(&snapshot, "v2")],
    ));
    assert_eq!(paths(&answer), ["spec.containers[name=main].image"]);
}

#[test]
fn scaling_replaces_no_pod() {
    let snapshot = mk_complete(&[5, 6, 7, 8]);
    let up = forecast(mk_request(snapshot.clone(), vec![Change::Replicas(9)]));
    assert_eq!(up.limits.replicas, 9);
    assert_eq!(up.expected.pods_max.high, 9);
    assert_eq!(up.expected.available_min.low, 4);
    assert_eq!(up.expected.waves.median, 1);
    let down = forecast(mk_request(snapshot, vec![Change::Replicas(1)]));
    assert_eq!(down.expected.waves.high, 0);
    assert_eq!(down.never_ready.outcome, Outcome::Completes);
}

#[test]
fn some_requests_have_no_forecast() {
    let snapshot = mk_complete(&[5, 6]);
    let mut incomplete = snapshot.clone();
    incomplete.pods_complete = false;
    let error = try_forecast(mk_request(incomplete, vec![])).unwrap_err();
    assert!(matches!(error, ForecastError::PodsIncomplete { .. }));
    let mut incomplete = snapshot.clone();
    incomplete.replica_sets_complete = false;
    let error = try_forecast(mk_request(incomplete, vec![])).unwrap_err();
    assert!(matches!(error, ForecastError::ReplicaSetsIncomplete { .. }));
    let undo = mk_request(snapshot.clone(), vec![Change::Undo(9)]);
    let error = try_forecast(undo).unwrap_err();
    assert!(matches!(error, ForecastError::Rollback(_)));
    let many = vec![Change::Replicas(REPLICAS_MAX + 1)];
    let error = try_forecast(mk_request(snapshot, many)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "5001 desired pods exceed the limit of 5000"
    );
}
