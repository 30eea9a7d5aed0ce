//! Verdicts without failed pods: phases, generations, and rollouts that only need time.

use rollplan_core::action::Step;
use rollplan_core::plan_settled;
use rollplan_core::revision::{DESIRED_REPLICAS, MAX_REPLICAS};
use rollplan_core::snapshot::{Options, Strategy};
use rollplan_health::explain::Cause;
use rollplan_health::judge::Outlook;
use rollplan_health::report::Phase;
use rollplan_world::{at, mk_condition, mk_set_status, strings};

use super::crashes::crashed;
use super::verdict;
use crate::report::{half_way, of_plan, ready, rejected, reported, with_pods};

#[test]
fn unobserved_changes_take_precedence_and_are_never_failed() {
    let mut snapshot = crashed();
    snapshot.deployment.metadata.generation = 2;
    let timed_out = mk_condition("Progressing", "False", "ProgressDeadlineExceeded", at(-5));
    snapshot.deployment.status.conditions = vec![timed_out];
    let found = reported(&snapshot);
    assert_eq!(found.blockers[0].cause, Cause::GenerationUnobserved);
    assert_eq!(found.verdict.reason, "GENERATION_UNOBSERVED");
    assert_eq!(found.verdict.outlook, Outlook::Undecided);
    let mut snapshot = crashed();
    snapshot.replica_sets[0].metadata.generation = 2;
    let found = reported(&snapshot);
    assert_eq!(found.blockers[0].cause, Cause::ReplicaSetUnobserved);
    assert_eq!(found.verdict.outlook, Outlook::Undecided);
    assert_eq!(found.phase, Phase::Progressing);
    // Unobserved counters do not complete a rollout either.
    let mut snapshot = with_pods(["a", "b", "c", "d"].map(|name| ready(name, 0)));
    snapshot.replica_sets.truncate(1);
    snapshot.replica_sets[0].replicas = 4;
    snapshot.replica_sets[0].status = mk_set_status(4, 4);
    assert_eq!(reported(&snapshot).phase, Phase::Complete);
    snapshot.replica_sets[0].metadata.generation = 2;
    let found = reported(&snapshot);
    assert_eq!(found.phase, Phase::Progressing);
    assert_eq!(found.verdict.reason, "REPLICA_SET_UNOBSERVED");
    assert_eq!(found.verdict.outlook, Outlook::Undecided);
}

/// The call may be of a plan for an earlier generation.
#[test]
fn unobserved_change_stays_undecided_after_a_rejected_call() {
    let mut snapshot = crashed();
    let plan = plan_settled(&snapshot, Options::default());
    let call = plan.steps.into_iter().find_map(|step| step.call()).unwrap();
    snapshot.failures = vec![rejected(call, "Forbidden", "")];
    assert!(verdict(&snapshot).is_certain);
    snapshot.deployment.metadata.generation = 2;
    let found = reported(&snapshot);
    assert_eq!(found.phase, Phase::Progressing);
    assert_eq!(found.verdict.reason, "GENERATION_UNOBSERVED");
    assert_eq!(found.verdict.outlook, Outlook::Undecided);
}

#[test]
fn paused_deleting_and_refused_rollouts_need_a_change() {
    let mut snapshot = half_way();
    snapshot.deployment.spec.paused = true;
    let found = verdict(&snapshot);
    assert_eq!(
        (found.outlook, found.is_certain, found.reason),
        (Outlook::NeedsChange, true, "PAUSED")
    );
    assert_eq!(
        found.remedy,
        "resume it: kubectl rollout resume deploy/web -n default"
    );
    // All pods have the current template already: it is only scaled.
    snapshot.replica_sets.truncate(1);
    for replicas in [4, 2] {
        snapshot.replica_sets[0].replicas = replicas;
        assert_eq!(verdict(&snapshot).outlook, Outlook::Undecided);
    }
    // A pause does not block a Deployment with 0 replicas, and perhaps not one whose pods may still be adopted.
    let mut without_pods = snapshot.clone();
    without_pods.deployment.spec.replicas = 0;
    without_pods.replica_sets.clear();
    assert_ne!(verdict(&without_pods).reason, "PAUSED");
    snapshot.replica_sets[0].metadata.owner_references.clear();
    snapshot.replica_sets[0].metadata.labels.clear();
    assert!(!verdict(&snapshot).is_certain);
    snapshot.replica_sets.clear();
    assert!(verdict(&snapshot).is_certain);
    let mut snapshot = half_way();
    snapshot.deployment.metadata.deletion_timestamp = Some(at(0));
    let found = verdict(&snapshot);
    assert_eq!(
        (found.outlook, found.is_certain, found.reason),
        (Outlook::NeedsChange, true, "DELETING")
    );
    let mut snapshot = half_way();
    snapshot.deployment.spec.selector = Default::default();
    let found = verdict(&snapshot);
    assert_eq!(
        (found.outlook, found.is_certain),
        (Outlook::NeedsChange, true)
    );
}

/// If the new ReplicaSet gets all desired pods, the old ones are removed in spite of the pause.
#[test]
fn pause_is_not_certain_until_proportional_scaling_is_done() {
    let mut snapshot = half_way();
    snapshot.deployment.spec.paused = true;
    snapshot.replica_sets[0].replicas = 3;
    snapshot.replica_sets[1].replicas = 1;
    assert_eq!(verdict(&snapshot).outlook, Outlook::Undecided);
    assert_eq!(reported(&snapshot).phase, Phase::Paused);
    // A new ReplicaSet without pods gets none, and neither does any under Recreate.
    let mut empty = snapshot.clone();
    empty.replica_sets[0].replicas = 0;
    assert!(verdict(&empty).is_certain);
    let mut recreated = snapshot.clone();
    recreated.deployment.spec.strategy = Strategy::Recreate;
    assert!(verdict(&recreated).is_certain);
    // All pods that may exist do.
    snapshot.replica_sets[1].replicas = 2;
    assert!(verdict(&snapshot).is_certain);
    // The new ReplicaSet keeps its only pod if a plan ends after the first of its two scale-downs.
    snapshot.deployment.spec.replicas = 1;
    snapshot.replica_sets[0].replicas = 1;
    snapshot.replica_sets[1].replicas = 4;
    for set in &mut snapshot.replica_sets {
        let annotations = [(DESIRED_REPLICAS, "4"), (MAX_REPLICAS, "5")];
        set.metadata.annotations.extend(strings(annotations));
    }
    let plan = plan_settled(&snapshot, Options::default());
    let mut summaries = plan.steps.iter().map(Step::summary);
    assert!(summaries.any(|it| it == "scale down ReplicaSet web-v2 from 1 to 0"));
    let found = of_plan(&snapshot, &plan);
    assert_eq!(found.verdict.outlook, Outlook::Undecided);
}

/// A plan publishes the generation before its scale-down has an effect.
#[test]
fn failing_pods_that_are_not_desired_need_no_change() {
    let mut snapshot = crashed();
    snapshot.deployment.spec.replicas = 0;
    assert_eq!(verdict(&snapshot).outlook, Outlook::Undecided);
    snapshot.deployment.metadata.generation = 2;
    let plan = plan_settled(&snapshot, Options::default());
    let found = of_plan(&snapshot, &plan);
    assert_eq!(found.phase, Phase::Progressing);
    assert_eq!(found.verdict.outlook, Outlook::Undecided);
}
