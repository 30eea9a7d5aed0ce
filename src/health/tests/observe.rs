//! What a snapshot shows before anything is planned, and the failures that a policy can use then.

use std::sync::Arc;

use rollplan_core::Plan;
use rollplan_core::action::Step;
use rollplan_core::interrupt::Interrupt;
use rollplan_core::plan_settled;
use rollplan_core::selector::LabelSelector;
use rollplan_core::snapshot::{ObservedEvent, Options, ReplicaSet, Snapshot};
use rollplan_health::explain::Cause;
use rollplan_health::judge::class::{Class, Limit, Rules};
use rollplan_health::judge::{Certainty, VerdictOptions};
use rollplan_health::observe::{ObservedRollout, observe, observe_until};
use rollplan_world::{at, mk_pod, rolling};

use super::report::{container, half_way, pod, ready, reported, waiting, with_pods};
use super::verdict::young;

/// A policy that holds a rollout as soon as a failure of its new pods is certain.
fn plan_with_hold(snapshot: &Snapshot, options: Options) -> Plan {
    let is_certain = observe(snapshot, VerdictOptions::default())
        .failure()
        .is_some_and(|failure| failure.certainty == Certainty::Certain);
    let mut snapshot = snapshot.clone();
    snapshot.deployment.spec.paused |= is_certain;
    plan_settled(&snapshot, options)
}

/// Two new pods with a malformed image name, while one old pod may be replaced.
fn misnamed() -> Snapshot {
    let state = waiting("InvalidImageName", "couldn't parse image name");
    let pods = ["a", "b"].map(|name| young(name, vec![container(state.clone())]));
    let mut snapshot = with_pods(pods);
    snapshot.deployment.spec.strategy = rolling(1, 2);
    snapshot
}

fn sizes(plan: &Plan) -> Vec<String> {
    let summaries = plan.steps.iter().map(Step::summary);
    summaries
        .filter(|summary| summary.starts_with("scale "))
        .collect()
}

#[test]
fn policy_holds_a_rollout_whose_failure_is_certain() {
    let failing = misnamed();
    let options = Options::default();
    let unchecked = plan_settled(&failing, options);
    assert_eq!(
        sizes(&unchecked),
        [
            "scale down ReplicaSet web-v1 from 3 to 2",
            "scale up ReplicaSet web-v2 from 2 to 3"
        ]
    );
    let held = plan_with_hold(&failing, options);
    assert_eq!(sizes(&held), [""; 0]);

    // Pods that are still starting are not a failure.
    let mut starting = failing;
    starting.pods = ["a", "b"].map(|name| young(name, Vec::new())).into();
    assert_eq!(
        plan_with_hold(&starting, options),
        plan_settled(&starting, options)
    );
}

#[test]
fn failure_is_pending_during_its_grace() {
    let missing = waiting(
        "ErrImagePull",
        "failed to resolve reference \"web:2\": not found",
    );
    let mut snapshot =
        with_pods(["a", "b"].map(|name| young(name, vec![container(missing.clone())])));
    let failure = observe(&snapshot, VerdictOptions::default())
        .failure()
        .unwrap();
    assert_eq!(
        (failure.cause, failure.class, failure.since),
        (Cause::ImagePull, Class::ImagePull, at(0))
    );
    assert_eq!(failure.certainty, Certainty::Pending(Some(at(240))));

    // The caller received the failure 130 seconds ago, and the attempt is at most 40 seconds old.
    snapshot.now = at(130);
    let options = VerdictOptions {
        previous: Some((failure.cause, failure.since)),
        ..VerdictOptions::default()
    };
    let failure = observe(&snapshot, options).failure().unwrap();
    assert_eq!(
        (failure.certainty, failure.since),
        (Certainty::Certain, at(0))
    );
}

#[test]
fn pods_and_replica_sets_have_roles() {
    let mut snapshot = half_way();
    let mut new = pod("new", "Pending", Vec::new());
    new.node_name = "node-1".to_owned();
    let old = mk_pod(&snapshot.replica_sets[1], "old", "Running");
    snapshot.pods = [new, old].into();
    let observed = observe(&snapshot, VerdictOptions::default());
    assert_eq!(observed.new_set().unwrap().metadata.name, "web-v2");
    let names = |sets: &[&ReplicaSet]| {
        let names = sets.iter().map(|set| set.metadata.name.clone());
        names.collect::<Vec<_>>()
    };
    assert_eq!(names(observed.old_sets()), ["web-v1"]);
    assert_eq!(observed.new_pods()[0].metadata.name, "new");
    assert_eq!(observed.old_pods()[0].metadata.name, "old");
    assert_eq!(observed.missing_pods(), 2);
    let causes: Vec<_> = observed.explanations().iter().map(|it| it.cause).collect();
    assert_eq!(causes, [Cause::Starting]);
}

/// A report adds only blockers that depend on the plan: the limits of the rollout, its conditions and a pause.
#[test]
fn blockers_of_the_snapshot_need_no_plan() {
    let causes = |observed: &ObservedRollout<'_>| {
        let blockers = observed.blockers().into_iter();
        blockers.map(|blocker| blocker.cause).collect::<Vec<_>>()
    };
    let check = |snapshot: &Snapshot, expected: &[Cause]| {
        assert_eq!(
            causes(&observe(snapshot, VerdictOptions::default())),
            expected
        );
    };
    check(&misnamed(), &[Cause::ImagePull]);
    check(&half_way(), &[]);

    let mut unobserved = misnamed();
    unobserved.replica_sets[1].metadata.generation = 7;
    check(
        &unobserved,
        &[Cause::ReplicaSetUnobserved, Cause::ImagePull],
    );

    let mut paused = misnamed();
    paused.deployment.spec.paused = true;
    check(&paused, &[Cause::ImagePull]);
    let reported: Vec<_> = reported(&paused)
        .blockers
        .iter()
        .map(|it| it.cause)
        .collect();
    assert_eq!(reported, [Cause::Paused, Cause::ImagePull]);

    let mut selecting_all = misnamed();
    selecting_all.deployment.spec.selector = LabelSelector::default();
    check(&selecting_all, &[Cause::SelectorEmpty]);

    let mut incomplete = misnamed();
    incomplete.replica_sets_complete = false;
    check(&incomplete, &[Cause::ReplicaSetsIncomplete]);
    let observed = observe(&incomplete, VerdictOptions::default());
    assert!(observed.new_set().is_none() && observed.explanations().is_empty());
    assert_eq!(observed.failure(), None);
}

/// If another pod is ready, the failure may be that of a node.
#[test]
fn failure_of_some_new_pods_is_not_a_shared_failure() {
    let state = waiting("InvalidImageName", "couldn't parse image name");
    let mut snapshot = with_pods([young("a", vec![container(state)]), ready("b", 0)]);
    snapshot.replica_sets[0].status.ready_replicas = 1;
    snapshot.replica_sets[0].status.available_replicas = 1;
    let observed = observe(&snapshot, VerdictOptions::default());
    assert_eq!(observed.explanations().len(), 1);
    assert_eq!(observed.failure(), None);
}

#[test]
fn rejection_of_pods_is_certain_after_a_repetition() {
    let mut snapshot = half_way();
    assert_eq!(
        observe(&snapshot, VerdictOptions::default()).refusal_of_pods(),
        Certainty::Open
    );
    snapshot.events = Arc::new([ObservedEvent {
        object_uid: snapshot.replica_sets[0].metadata.uid.clone(),
        kind: "Warning".to_owned(),
        reason: "FailedCreate".to_owned(),
        message: "admission webhook \"x\" denied the request: no".to_owned(),
        count: 3,
        first: Some(at(-60)),
        last: Some(at(-10)),
        ..ObservedEvent::default()
    }]);
    let observed = observe(&snapshot, VerdictOptions::default());
    assert_eq!(observed.refusal_of_pods(), Certainty::Certain);
    assert_eq!(observed.refusal_of_replica_set(), Certainty::Open);
}

#[test]
fn interrupted_observation_is_an_error() {
    struct Interrupted;
    impl Interrupt for Interrupted {
        fn is_interrupted(&self) -> bool {
            true
        }
    }
    let snapshot = half_way();
    assert!(observe_until(&snapshot, VerdictOptions::default(), &Interrupted).is_err());
}

/// A single rejection proves nothing, even with a rule without a grace.
#[test]
fn single_rejection_of_pods_is_not_certain() {
    let mut snapshot = half_way();
    let mut rejected = |first: i64| {
        snapshot.events = Arc::new([ObservedEvent {
            object_uid: snapshot.replica_sets[0].metadata.uid.clone(),
            kind: "Warning".to_owned(),
            reason: "FailedCreate".to_owned(),
            message: "admission webhook \"x\" denied the request: no".to_owned(),
            first: Some(at(first)),
            last: Some(at(-10)),
            ..ObservedEvent::default()
        }]);
        let options = VerdictOptions {
            rules: Rules::default().with(Class::Refused, Limit::Grace(0)),
            previous: None,
        };
        observe(&snapshot, options).refusal_of_pods()
    };
    assert!(matches!(rejected(-10), Certainty::Pending(Some(_))));
    assert_eq!(rejected(-11), Certainty::Certain);
}

/// A rule of the caller also applies to rejections because something is missing.
#[test]
fn rule_for_rejections_applies_to_missing_objects() {
    let mut snapshot = half_way();
    snapshot.events = Arc::new([ObservedEvent {
        object_uid: snapshot.replica_sets[0].metadata.uid.clone(),
        kind: "Warning".to_owned(),
        reason: "FailedCreate".to_owned(),
        message: "error looking up service account shop/x: serviceaccount \"x\" not found"
            .to_owned(),
        first: Some(at(-60)),
        last: Some(at(-20)),
        ..ObservedEvent::default()
    }]);
    let refusal = |rules: Rules| {
        let options = VerdictOptions {
            rules,
            previous: None,
        };
        observe(&snapshot, options).refusal_of_pods()
    };
    assert_ne!(refusal(Rules::default()), Certainty::Certain);
    // The controller has waited for 40 s, and waits for at most twice the grace.
    let rules = Rules::default().with(Class::Refused, Limit::Grace(50));
    assert_eq!(refusal(rules), Certainty::Pending(Some(at(60))));
    let rules = Rules::default().with(Class::Refused, Limit::Grace(30));
    assert_eq!(refusal(rules), Certainty::Certain);
}
