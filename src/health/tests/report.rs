//! Reports: phases, blockers and their messages.

use std::sync::Arc;

use rollplan_core::action::ApiCall;
use rollplan_core::action::{Action, Step, apply};
use rollplan_core::caps::Caps;
use rollplan_core::plan_settled;
use rollplan_core::revision::{DESIRED_REPLICAS, REVISION, ROLLBACK_TO};
use rollplan_core::selector::LabelSelector;
use rollplan_core::size::IntOrPercent;
use rollplan_core::snapshot::{
    Container, ContainerState, Deployment, DeploymentStatus, ObservedEvent, Options, Pod,
    PodCondition, Snapshot, StepFailure, Strategy,
};
use rollplan_core::time::Span;
use rollplan_core::{Plan, compute_status, plan_pass};
use rollplan_health::explain::{BLOCKED_PODS_MAX, BlockedPod, Blocker, Cause};
use rollplan_health::judge::{Outlook, VerdictOptions};
use rollplan_health::observe::observe;
use rollplan_health::report::{Phase, Report, report};
use rollplan_world::{
    at, mk_condition, mk_deployment, mk_pod, mk_pod_condition, mk_set, mk_set_status, mk_snapshot,
    mk_template, now, rolling, strings,
};

/// A rolling update of 4 pods with maxSurge 1 and maxUnavailable 1: 3 old pods, and 2 new pods that are not available.
pub(super) fn half_way() -> Snapshot {
    let mut deployment = mk_deployment(4);
    deployment.spec.strategy = rolling(1, 1);
    deployment.spec.template = mk_template("v2").into();
    deployment.metadata.annotations = strings([(REVISION, "2")]);
    deployment.status.observed_generation = 1;
    let mut new = mk_set(&deployment, "v2", 2, 2);
    new.status = mk_set_status(2, 0);
    let old = mk_set(&deployment, "v1", 1, 3);
    mk_snapshot(deployment, vec![new, old])
}

/// [`half_way`] with these pods of the new ReplicaSet.
pub(super) fn with_pods(pods: impl IntoIterator<Item = Pod>) -> Snapshot {
    let mut snapshot = half_way();
    snapshot.pods = pods.into_iter().collect();
    snapshot
}

pub(super) fn reported(snapshot: &Snapshot) -> Report {
    let status = compute_status(snapshot, Options::default());
    of_status(snapshot, &status)
}

fn of_status(snapshot: &Snapshot, status: &DeploymentStatus) -> Report {
    let observed = observe(snapshot, VerdictOptions::default());
    report(&observed, Options::default(), status, &[])
}

pub(super) fn of_plan(snapshot: &Snapshot, plan: &Plan) -> Report {
    let observed = observe(snapshot, VerdictOptions::default());
    report(&observed, Options::default(), &plan.status, &plan.steps)
}

/// A Deployment that completed ten minutes ago and has these pods now.
pub(super) fn completed(
    pods: impl IntoIterator<Item = Pod>,
    replicas: i32,
    available: i32,
) -> Report {
    let mut snapshot = with_pods(pods);
    snapshot.deployment.spec.replicas = replicas;
    snapshot.replica_sets.truncate(1);
    snapshot.replica_sets[0].replicas = replicas;
    snapshot.replica_sets[0].status = mk_set_status(replicas, available);
    let available = mk_condition("Progressing", "True", "NewReplicaSetAvailable", at(-600));
    snapshot.deployment.status.conditions = vec![available];
    reported(&snapshot)
}

fn blocker(snapshot: &Snapshot, cause: Cause) -> Blocker {
    let blockers = reported(snapshot).blockers;
    let causes: Vec<_> = blockers.iter().map(|blocker| blocker.cause).collect();
    let found = blockers.into_iter().find(|blocker| blocker.cause == cause);
    found.unwrap_or_else(|| panic!("{cause} is not among {causes:?}"))
}

fn causes(snapshot: &Snapshot) -> Vec<Cause> {
    let blockers = reported(snapshot).blockers.into_iter();
    blockers.map(|blocker| blocker.cause).collect()
}

/// A pod of the new ReplicaSet, created a minute ago.
pub(super) fn pod(name: &str, phase: &str, containers: Vec<Container>) -> Pod {
    let mut pod = mk_pod(&half_way().replica_sets[0], name, phase);
    pod.metadata.creation_timestamp = Some(at(-60));
    pod.containers = containers;
    pod
}

pub(super) fn container(state: ContainerState) -> Container {
    Container {
        name: "main".to_owned(),
        image: "web:2".to_owned(),
        state,
        ..Container::default()
    }
}

pub(super) fn waiting(reason: &str, message: &str) -> ContainerState {
    ContainerState::Waiting {
        reason: reason.to_owned(),
        message: message.to_owned(),
    }
}

pub(super) fn running(seconds: i64) -> ContainerState {
    ContainerState::Running {
        started_at: Some(at(-seconds)),
    }
}

pub(super) fn terminated(exit_code: i32, reason: &str, message: &str) -> ContainerState {
    ContainerState::Terminated {
        exit_code,
        reason: reason.to_owned(),
        message: message.to_owned(),
        finished_at: Some(at(-20)),
    }
}

pub(super) fn condition(
    kind: &str,
    status: &str,
    reason: &str,
    message: &str,
    seconds: i64,
) -> PodCondition {
    PodCondition {
        message: message.to_owned(),
        ..mk_pod_condition(kind, status, reason, at(-seconds))
    }
}

pub(super) fn ready(name: &str, seconds: i64) -> Pod {
    let mut pod = pod(name, "Running", Vec::new());
    pod.conditions = vec![condition("Ready", "True", "", "", seconds)];
    pod
}

pub(super) fn with_conditions(mut pod: Pod, conditions: Vec<PodCondition>) -> Pod {
    pod.conditions = conditions;
    pod
}

/// Checks the first blocker of a rollout with one new pod.
#[track_caller]
pub(super) fn crashing(restarts: i32, state: ContainerState, last_state: ContainerState) -> Pod {
    let container = Container {
        restarts,
        last_state,
        ..container(state)
    };
    pod("a", "Running", vec![container])
}

#[test]
fn container_output_is_truncated_and_has_no_control_characters() {
    let output = format!("first\n\u{1b}[31mred\u{7}\t{}", "x".repeat(300));
    let snapshot = with_pods([crashing(
        1,
        waiting("CrashLoopBackOff", ""),
        terminated(1, "Error", &output),
    )]);
    let found = blocker(&snapshot, Cause::CrashLoop);
    let begin = "x".repeat(99 - "[31mred ".len());
    let wrote = format!("[31mred {begin}…{}", "x".repeat(100));
    assert_eq!(wrote.chars().count(), 200);
    assert_eq!(
        found.pods[0].message,
        format!("Error, exit code 1: {wrote}")
    );
    assert!(found.message.ends_with(&wrote), "{}", found.message);
}

/// `tests/stories/new-pods.md` has the messages.
#[test]
fn pods_that_wait_for_min_ready_seconds_have_a_time_left() {
    let mut snapshot = with_pods([ready("b", 10), ready("a", 40)]);
    snapshot.deployment.spec.min_ready_seconds = 60;
    let found = blocker(&snapshot, Cause::MinReadySeconds);
    assert_eq!(found.since, Some(at(-40)));
    assert_eq!(found.remaining, Some(Span::from_seconds(20)));
}

#[test]
fn missing_explanation_is_reported() {
    let text = |snapshot: &Snapshot| {
        let found = blocker(snapshot, Cause::NotAvailable);
        (found.message, found.remedy)
    };
    let mut snapshot = half_way();
    assert_eq!(
        text(&snapshot).0,
        "2 of 2 new pods are not available: 0 exist, the others have not been created yet"
    );
    snapshot.pods = Arc::new([ready("a", 10), ready("b", 10)]);
    assert_eq!(
        text(&snapshot).0,
        "2 of 2 new pods are not counted as available yet, although all pods are ready"
    );
    snapshot.pods = Arc::new([]);
    snapshot.pods_complete = false;
    snapshot.replica_sets[0].status.available_replicas = 1;
    let (message, remedy) = text(&snapshot);
    assert_eq!(
        message,
        "1 of 2 new pods is not available, and the snapshot does not contain the pods that would show why"
    );
    assert_eq!(
        remedy,
        "include the pods of the ReplicaSets in the snapshot"
    );
}

#[test]
fn blocker_lists_at_most_20_pods_with_the_longest_blocked_first() {
    let mut snapshot = half_way();
    snapshot.replica_sets[0].replicas = 50;
    let pods = (0..50).map(|number| {
        let mut pod = pod(
            &format!("p{number:02}"),
            "Pending",
            vec![container(waiting("ImagePullBackOff", ""))],
        );
        pod.metadata.creation_timestamp = Some(at(-number));
        pod
    });
    snapshot.pods = pods.collect();
    let found = blocker(&snapshot, Cause::ImagePull);
    assert_eq!(
        (found.pods.len(), found.pod_count),
        (BLOCKED_PODS_MAX, 50),
        "{found:?}"
    );
    assert_eq!(found.since, Some(at(-49)));
    assert_eq!(
        found.pods[0],
        BlockedPod {
            name: "p49".to_owned(),
            container: "main".to_owned(),
            reason: "ImagePullBackOff".to_owned(),
            since: Some(at(-49)),
            ..BlockedPod::default()
        }
    );
    assert_eq!(
        found.message,
        "image web:2 of container main cannot be pulled (50 of 50 new pods: p49 ImagePullBackOff for 49s)"
    );
}

/// The message of the last rejection remains until the ReplicaSet controller tries again, up to a quarter of an hour later.
#[test]
fn quota_that_may_have_room_again_waits_for_the_next_attempt() {
    let mut snapshot = half_way();
    let mut failure = mk_condition("ReplicaFailure", "True", "FailedCreate", at(-300));
    failure.message = "pods \"web-v2-x\" is forbidden: exceeded quota: q, requested: pods=1, used: pods=4, limited: pods=4"
        .to_owned();
    snapshot.replica_sets[0].status = mk_set_status(1, 0);
    snapshot.replica_sets[0].status.conditions = vec![failure];
    let of = |snapshot: &Snapshot| {
        let found = blocker(snapshot, Cause::PodsRefused);
        (found.message, found.remedy)
    };
    let pods = |number: usize| {
        let names = ["a", "b", "c", "d"].into_iter().take(number);
        names.map(|name| mk_pod(&half_way().replica_sets[1], name, "Running"))
    };
    let raise = "raise the quota, or free some of it: kubectl describe quota -n default";
    snapshot.pods = pods(3).collect();
    let (message, remedy) = of(&snapshot);
    assert!(
        message.ends_with(
            "limited: pods=4; that was 5m ago, and 3 pods exist now: the quota may have room, and the ReplicaSet controller \
             tries again after a delay that doubles with each rejection, up to 16m40s"
        ),
        "{message}"
    );
    assert_eq!(remedy, format!("wait for the next attempt, or {raise}"));
    let check_full = |snapshot: &Snapshot| {
        let (message, remedy) = of(snapshot);
        assert!(message.ends_with("limited: pods=4"), "{message}");
        assert_eq!(remedy, raise);
    };
    // The pods of the Deployment alone use all of it.
    let full = Snapshot {
        pods: pods(4).collect(),
        ..snapshot.clone()
    };
    check_full(&full);
    // It has just been rejected again, and the snapshot may lack pods.
    let mut rejected = snapshot.clone();
    let event = ObservedEvent {
        object_uid: rejected.replica_sets[0].metadata.uid.clone(),
        field_path: String::new(),
        kind: "Warning".to_owned(),
        reason: "FailedCreate".to_owned(),
        message: "Error creating: exceeded quota".to_owned(),
        count: 9,
        first: Some(at(-300)),
        last: Some(at(-10)),
    };
    rejected.events = Arc::new([event]);
    check_full(&rejected);
    snapshot.pods_complete = false;
    check_full(&snapshot);
}

/// A Deployment whose new ReplicaSet was rejected.
fn refused_create(reason: &str, message: &str) -> Snapshot {
    let mut snapshot = half_way();
    snapshot.replica_sets.remove(0);
    let plan = plan_pass(&snapshot, Options::default());
    let is_create = |action: &Option<Action>| matches!(action, Some(Action::CreateReplicaSet(_)));
    let create = plan.steps.into_iter().find(|step| is_create(&step.action));
    let call = create.unwrap().call().unwrap();
    snapshot.failures = vec![rejected(call, reason, message)];
    snapshot
}

/// A call of the last plan that was rejected with 403.
pub(super) fn rejected(call: ApiCall, reason: &str, message: &str) -> StepFailure {
    StepFailure {
        call: call.id(),
        http_code: 403,
        reason: reason.to_owned(),
        message: message.to_owned(),
        causes: Vec::new(),
        existing: None,
    }
}

#[test]
fn rejected_replica_set_is_explained() {
    let text = |snapshot: &Snapshot| blocker(snapshot, Cause::ReplicaSetRefused).message;
    let snapshot = refused_create("Forbidden", "exceeded quota: sets,\nrequested: 1");
    assert_eq!(
        text(&snapshot),
        "the API server rejects the new ReplicaSet: exceeded quota: sets, requested: 1"
    );
    // Another ReplicaSet may be removed.
    assert_eq!(reported(&snapshot).phase, Phase::Progressing);
    let denied = "admission webhook \"x\" denied the request: no";
    assert_eq!(
        reported(&refused_create("Forbidden", denied)).phase,
        Phase::Stalled
    );
    assert_eq!(
        text(&refused_create("Forbidden", "")),
        "the API server rejects the new ReplicaSet: Forbidden"
    );
    assert_eq!(
        text(&refused_create("", "")),
        "the API server rejects the new ReplicaSet"
    );
    // The caller that reports it is the controller that has not published the generation.
    let mut unobserved = refused_create("Forbidden", denied);
    unobserved.deployment.metadata.generation = 2;
    let found = reported(&unobserved);
    assert_eq!(found.phase, Phase::Stalled);
    assert_eq!(found.blockers[0].cause, Cause::ReplicaSetRefused);
    assert_eq!(
        found.blockers.last().unwrap().cause,
        Cause::GenerationUnobserved
    );
    // A template that has changed since then may be accepted.
    unobserved.deployment.spec.template = mk_template("v3").into();
    let found = reported(&unobserved);
    assert_eq!(found.phase, Phase::Progressing);
    assert_eq!(found.blockers[0].cause, Cause::GenerationUnobserved);
    unobserved.deployment.metadata.generation = 1;
    assert!(!causes(&unobserved).contains(&Cause::ReplicaSetRefused));
    // The ReplicaSet has been created since then.
    let mut created = refused_create("Forbidden", denied);
    created.replica_sets = half_way().replica_sets;
    assert!(!causes(&created).contains(&Cause::ReplicaSetRefused));
    // The planner handles a name that is already taken.
    let taken = refused_create("AlreadyExists", "exists");
    assert!(!causes(&taken).contains(&Cause::ReplicaSetRefused));

    // An earlier rejection is kept in the status.
    let mut snapshot = refused_create("AlreadyExists", "");
    snapshot.failures.clear();
    let mut kept = mk_condition("Progressing", "False", "ReplicaSetCreateError", at(-30));
    kept.message = "admission denied it".to_owned();
    let status = DeploymentStatus {
        conditions: vec![kept],
        ..compute_status(&snapshot, Options::default())
    };
    let report = of_status(&snapshot, &status);
    assert_eq!(
        report.blockers[0].message,
        "the API server rejects the new ReplicaSet: admission denied it"
    );
    assert_eq!(report.blockers[0].since, Some(at(-30)));
}

/// The ReplicaSet of a complete rollout was deleted, and its replacement is rejected. The published status still describes
/// the complete rollout, because the rejected create ends the sync.
#[test]
fn rollout_with_a_rejected_replica_set_is_not_complete() {
    let denied = "admission webhook \"x\" denied the request: no";
    let mut snapshot = refused_create("Forbidden", denied);
    snapshot.deployment.status = DeploymentStatus {
        observed_generation: 1,
        replicas: 4,
        updated_replicas: 4,
        ready_replicas: 4,
        available_replicas: 4,
        ..Default::default()
    };
    let status = snapshot.deployment.status.clone();
    let report = of_status(&snapshot, &status);
    assert_eq!(report.phase, Phase::Stalled);
    assert_eq!(report.blockers[0].cause, Cause::ReplicaSetRefused);
}

/// A Deployment with strategy Recreate whose old ReplicaSet has size 0.
pub(super) fn recreate(pods: impl FnOnce(&Snapshot) -> Vec<Pod>) -> Snapshot {
    let mut snapshot = half_way();
    snapshot.deployment.spec.strategy = Strategy::Recreate;
    snapshot.replica_sets.remove(0);
    snapshot.replica_sets[0].replicas = 0;
    snapshot.replica_sets[0].status = mk_set_status(0, 0);
    snapshot.pods = pods(&snapshot).into();
    snapshot
}

pub(super) fn old_pod(snapshot: &Snapshot, name: &str, phase: &str, due: Option<i64>) -> Pod {
    let mut pod = mk_pod(&snapshot.replica_sets[0], name, phase);
    pod.metadata.deletion_timestamp = due.map(at);
    pod
}

#[test]
fn recreate_waits_for_old_pods() {
    let going = recreate(|world| {
        vec![
            old_pod(world, "a", "Running", Some(25)),
            old_pod(world, "b", "Running", Some(20)),
            old_pod(world, "c", "Failed", Some(-500)),
        ]
    });
    let found = blocker(&going, Cause::OldPodsRunning);
    assert_eq!(
        found.message,
        "Recreate is waiting for 2 old pods to terminate: b Terminating, 20s of its grace period left"
    );
    assert_eq!(found.remaining, Some(Span::from_seconds(25)));
    assert_eq!((found.since, found.pod_count), (None, 2));
    assert_eq!(found.remedy, "");
    let held = found.pods.iter();
    let held: Vec<_> = held
        .map(|pod| (pod.name.as_str(), pod.reason.as_str()))
        .collect();
    assert_eq!(held, [("b", "Terminating"), ("a", "Terminating")]);
    let due = recreate(|world| vec![old_pod(world, "a", "Running", Some(0))]);
    assert_eq!(blocker(&due, Cause::OldPodsRunning).remaining, None);
    // A Deployment with 0 replicas waits too.
    let mut none = going.clone();
    none.deployment.spec.replicas = 0;
    none.replica_sets[0].status = mk_set_status(1, 0);
    assert!(causes(&none).contains(&Cause::OldPodsRunning));

    let late = recreate(|world| {
        vec![
            old_pod(world, "a", "Running", None),
            old_pod(world, "b", "Running", Some(-70)),
        ]
    });
    let found = blocker(&late, Cause::OldPodsRunning);
    assert_eq!(
        found.message,
        "Recreate is waiting for 2 old pods to terminate: b Terminating, 1m10s past its grace period"
    );
    assert_eq!((found.since, found.remaining), (Some(at(-70)), None));
    assert_eq!(
        found.remedy,
        "check what delays it: kubectl describe pod b -n default"
    );

    // The ReplicaSet counts a pod that is not listed.
    let mut counted = recreate(|_| Vec::new());
    counted.replica_sets[0].status.replicas = 1;
    let found = blocker(&counted, Cause::OldPodsRunning);
    assert_eq!(
        found.message,
        "Recreate is waiting for 1 old pod to terminate"
    );
    assert_eq!((found.pods.len(), found.pod_count), (0, 1));

    let mut unseen = recreate(|_| Vec::new());
    unseen.replica_sets[0].metadata.generation = 2;
    assert_eq!(
        blocker(&unseen, Cause::OldPodsRunning).message,
        "Recreate is waiting: the ReplicaSet controller has not observed the latest size of old ReplicaSet web-v1 yet"
    );

    let mut unlisted = recreate(|_| Vec::new());
    unlisted.pods_complete = false;
    let found = blocker(&unlisted, Cause::PodsIncomplete);
    assert_eq!(
        found.message,
        "Recreate is waiting: the list of pods is incomplete, so old pods may still be running"
    );
    assert_eq!(
        found.remedy,
        "send all pods of the old ReplicaSets, and set podsComplete"
    );
}

#[test]
fn recreate_in_the_middle_of_a_rolling_update_waits() {
    // The strategy was changed in the middle of a rolling update.
    let mut snapshot = half_way();
    snapshot.deployment.spec.strategy = Strategy::Recreate;
    let found = blocker(&snapshot, Cause::OldPodsRunning);
    assert_eq!(
        found.message,
        "Recreate is waiting for 3 old pods to terminate"
    );
    snapshot.replica_sets[0].replicas = 4;
    assert!(!causes(&snapshot).contains(&Cause::OldPodsRunning));
    // The new ReplicaSet is not scaled down before they have terminated either.
    snapshot.replica_sets[0].replicas = 5;
    assert!(causes(&snapshot).contains(&Cause::OldPodsRunning));
}

#[test]
fn stale_annotation_of_an_observed_generation_blocks() {
    let mut snapshot = half_way();
    snapshot.replica_sets[0].replicas = 4;
    let annotations = &mut snapshot.replica_sets[0].metadata.annotations;
    annotations.insert(DESIRED_REPLICAS.to_owned(), "7".to_owned());
    assert_eq!(
        blocker(&snapshot, Cause::StaleAnnotation).message,
        "the annotation desired-replicas of ReplicaSet web-v2 is stale: the Deployment controller of Kubernetes \
         would treat it as a scaling event indefinitely"
    );
    // A ReplicaSet with a different size is scaled, which updates its annotation, but not under Recreate.
    let mut other = snapshot.clone();
    other.replica_sets[0].replicas = 3;
    assert!(!causes(&other).contains(&Cause::StaleAnnotation));
    other.deployment.spec.strategy = Strategy::Recreate;
    assert!(causes(&other).contains(&Cause::StaleAnnotation));
    let annotations = &mut other.replica_sets[0].metadata.annotations;
    annotations.insert(DESIRED_REPLICAS.to_owned(), "4".to_owned());
    assert!(!causes(&other).contains(&Cause::StaleAnnotation));

    // A paused Deployment neither waits for it nor refreshes it.
    other = snapshot.clone();
    other.deployment.spec.paused = true;
    assert!(!causes(&other).contains(&Cause::StaleAnnotation));

    // The annotation of a Deployment that was just scaled is not stale yet.
    snapshot.deployment.metadata.generation = 2;
    assert!(!causes(&snapshot).contains(&Cause::StaleAnnotation));
    assert_eq!(
        blocker(&snapshot, Cause::GenerationUnobserved).message,
        "no controller has observed the latest change yet: generation 2, observed 1"
    );
}

#[test]
fn each_phase_has_its_message() {
    let complete = || {
        let mut snapshot = half_way();
        snapshot.replica_sets.remove(1);
        snapshot.replica_sets[0].replicas = 4;
        snapshot.replica_sets[0].status = mk_set_status(4, 4);
        snapshot
    };
    let sentence = |snapshot: &Snapshot| {
        let report = reported(snapshot);
        (report.phase, report.message, report.blockers.len())
    };
    assert_eq!(
        sentence(&complete()),
        (
            Phase::Complete,
            "deployment \"web\" successfully rolled out (4 of 4 available)".to_owned(),
            0
        )
    );
    let mut paused = complete();
    paused.deployment.spec.paused = true;
    assert_eq!(sentence(&paused).0, Phase::Complete);

    let mut deleting = half_way();
    deleting.deployment.metadata.deletion_timestamp = Some(now());
    assert_eq!(
        sentence(&deleting),
        (
            Phase::Deleting,
            "deployment \"web\" is being deleted".to_owned(),
            0
        )
    );

    let mut refused = half_way();
    refused.deployment.spec.selector = LabelSelector {
        match_labels: strings([]),
        match_expressions: Vec::new(),
    };
    let report = reported(&refused);
    assert_eq!(report.phase, Phase::Refused);
    assert_eq!(
        report.message,
        "deployment \"web\" cannot be rolled out: the selector is empty and would select all pods"
    );
    assert_eq!(causes(&refused), [Cause::SelectorEmpty]);

    assert_eq!(
        sentence(&half_way()).1,
        "deployment \"web\" is rolling out (2 of 4 updated, 3 of 4 available, 3 old): 2 of 2 new pods are not \
         available: 0 exist, the others have not been created yet"
    );
}

/// The ReplicaSet is complete, and the Deployment was changed just now.
fn complete_but_unobserved() -> Snapshot {
    let mut snapshot = half_way();
    snapshot.replica_sets.remove(1);
    snapshot.replica_sets[0].replicas = 4;
    snapshot.replica_sets[0].status = mk_set_status(4, 4);
    snapshot.deployment.metadata.generation = 2;
    snapshot.deployment.status.observed_generation = 1;
    snapshot
}

#[test]
fn plan_that_publishes_the_generation_reports_it_as_observed() {
    let snapshot = complete_but_unobserved();
    let plan = plan_settled(&snapshot, Options::default());
    let observed = observe(&snapshot, VerdictOptions::default());
    let of_plan = |steps: &[Step]| report(&observed, Options::default(), &plan.status, steps);
    assert_eq!(of_plan(&plan.steps).phase, Phase::Complete);
    let (last, others) = plan.steps.split_last().unwrap();
    assert!(matches!(
        last.action,
        Some(Action::UpdateDeploymentStatus { .. })
    ));
    assert_eq!(of_plan(others).phase, Phase::Progressing);
}

#[test]
fn causes_are_ordered_before_their_consequences() {
    let image = pod(
        "image",
        "Pending",
        vec![container(waiting("ErrImagePull", ""))],
    );
    let config = pod(
        "config",
        "Pending",
        vec![container(waiting("CreateContainerConfigError", "x"))],
    );
    let crash = crashing(1, waiting("CrashLoopBackOff", ""), ContainerState::Unknown);
    let failed = pod("failed", "Failed", Vec::new());
    let nowhere = with_conditions(
        pod("nowhere", "Pending", Vec::new()),
        vec![condition("PodScheduled", "False", "", "", 5)],
    );
    let unready = pod("unready", "Running", vec![container(running(9))]);
    let starting = with_conditions(
        pod("starting", "Pending", Vec::new()),
        vec![condition("PodScheduled", "True", "", "", 5)],
    );
    let pods = [
        ready("ready", 1),
        starting,
        unready,
        nowhere,
        failed,
        crash,
        config,
        image,
    ];
    let mut snapshot = with_pods(pods);
    snapshot.deployment.spec.min_ready_seconds = 60;
    snapshot.deployment.metadata.generation = 2;
    let refused = mk_condition("ReplicaFailure", "True", "FailedCreate", at(-30));
    snapshot.replica_sets[0].status.conditions = vec![refused];
    let late = mk_condition("Progressing", "False", "ProgressDeadlineExceeded", at(-30));
    let mut status = compute_status(&snapshot, Options::default());
    status
        .conditions
        .retain(|condition| condition.kind != "Progressing");
    status.conditions.push(late);
    let found = of_status(&snapshot, &status);
    let causes: Vec<_> = found.blockers.iter().map(|blocker| blocker.cause).collect();
    assert_eq!(
        causes,
        [
            Cause::GenerationUnobserved,
            Cause::ImagePull,
            Cause::ContainerConfig,
            Cause::CrashLoop,
            Cause::Unschedulable,
            Cause::PodsRefused,
            Cause::NotReady,
            Cause::PodFailed,
            Cause::Starting,
            Cause::MinReadySeconds,
            Cause::DeadlineExceeded
        ]
    );
}

#[test]
fn counts_show_their_arithmetic() {
    use IntOrPercent::{Int, Percent};
    let rolling = |max_surge, max_unavailable| Strategy::RollingUpdate {
        max_surge,
        max_unavailable,
    };
    let cases = [
        (
            10,
            rolling(Percent(25), Percent(25)),
            (13, "10 + 25% rounded up = 13"),
            (8, "10 − 25% rounded down = 8"),
        ),
        (
            4,
            rolling(Int(1), Int(0)),
            (5, "4 + 1 = 5"),
            (4, "4 − 0 = 4"),
        ),
        (
            4,
            rolling(Int(0), Int(1)),
            (4, "4 + 0 = 4"),
            (3, "4 − 1 = 3"),
        ),
        (
            4,
            rolling(Int(0), Int(0)),
            (4, "4 + 0 = 4"),
            (3, "4 − 1 (both limits resolve to 0) = 3"),
        ),
        (
            4,
            rolling(Percent(0), Percent(10)),
            (4, "4 + 0% rounded up = 4"),
            (3, "4 − 1 (both limits resolve to 0) = 3"),
        ),
        (
            3,
            rolling(Int(1), Int(5)),
            (4, "3 + 1 = 4"),
            (0, "3 − 3 (maxUnavailable allows 5) = 0"),
        ),
        (
            0,
            rolling(Int(0), Int(0)),
            (0, "0 + 0 = 0"),
            (0, "0 − 0 = 0"),
        ),
        (
            3,
            Strategy::Recreate,
            (3, "3, Recreate does not use maxSurge"),
            (
                0,
                "0, Recreate deletes all old pods before it creates new ones",
            ),
        ),
    ];
    for (replicas, strategy, max, min) in cases {
        let mut deployment: Deployment = mk_deployment(replicas);
        deployment.spec.strategy = strategy;
        let counts = reported(&mk_snapshot(deployment, Vec::new()))
            .counts
            .unwrap();
        let have = (
            (counts.max_total, counts.max_total_arithmetic.as_str()),
            (
                counts.min_available,
                counts.min_available_arithmetic.as_str(),
            ),
        );
        assert_eq!(have, (max, min), "{strategy:?}");
    }
    let counts = reported(&half_way()).counts.unwrap();
    assert_eq!((counts.desired, counts.total, counts.updated), (4, 5, 2));
    assert_eq!((counts.ready, counts.available), (3, 3));
    assert_eq!((counts.unavailable, counts.terminating), (2, Some(0)));
}

#[test]
fn report_of_a_plan_describes_the_planned_sizes() {
    let mut snapshot = half_way();
    snapshot.replica_sets.remove(0);
    let plan = plan_pass(&snapshot, Options::default());
    let report = of_plan(&snapshot, &plan);
    assert_eq!(report.revision, "2");
    assert!(
        report.replica_set.starts_with("web-"),
        "{}",
        report.replica_set
    );
    assert_eq!(report.reasons[0].reason, "NEW_TEMPLATE");
    // An old template is used again: the plan gives its ReplicaSet a new revision.
    let mut back = half_way();
    back.deployment.spec.template = mk_template("v1").into();
    let plan = plan_settled(&back, Options::default());
    let told = of_plan(&back, &plan);
    assert_eq!(
        (told.revision.as_str(), told.replica_set.as_str()),
        ("3", "web-v1")
    );
    // The revision and the name of an existing ReplicaSet.
    let there = reported(&half_way());
    assert_eq!(
        (there.revision.as_str(), there.replica_set.as_str()),
        ("2", "web-v2")
    );
}

#[test]
fn every_write_has_a_reason() {
    let planned = |world: &Snapshot| {
        let plan = plan_settled(world, Options::default());
        let reasons = of_plan(world, &plan).reasons.into_iter();
        reasons.map(|reason| reason.reason).collect::<Vec<_>>()
    };
    // The third old pod makes room for the fourth new one.
    let mut going_on = half_way();
    going_on.replica_sets[0].status = mk_set_status(2, 2);
    going_on.deployment.spec.strategy = rolling(0, 1);
    assert_eq!(planned(&going_on), ["SCALE_DOWN", "SCALE_UP", "STATUS"]);
    let mut growing = half_way();
    growing.replica_sets[1] = mk_set(&growing.deployment, "v1", 1, 2);
    assert_eq!(planned(&growing), ["SCALE_UP", "STATUS"]);

    // A pass that writes the status ends before the rollback.
    let mut asked = half_way();
    for step in plan_settled(&asked, Options::default()).steps {
        apply(&mut asked, &step.action.unwrap());
    }
    let annotations = &mut asked.deployment.metadata.annotations;
    annotations.insert(ROLLBACK_TO.to_owned(), "1".to_owned());
    assert_eq!(planned(&asked), ["ROLLBACK"]);
    // The revision does not exist, so the plan only removes the annotation.
    let annotations = &mut asked.deployment.metadata.annotations;
    annotations.insert(ROLLBACK_TO.to_owned(), "7".to_owned());
    assert_eq!(planned(&asked), ["OWNER_ANNOTATIONS"]);
}

/// The reported reason of a step is the cause that determined the size.
#[test]
fn scaling_reason_is_the_deciding_cause() {
    let planned = |world: &Snapshot| {
        let plan = plan_settled(world, Options::default());
        let reasons = of_plan(world, &plan).reasons.into_iter();
        let reasons = reasons.map(|reason| reason.reason);
        reasons
            .filter(|reason| *reason != "STATUS")
            .collect::<Vec<_>>()
    };
    // The old ReplicaSet and the new one keep their shares.
    let mut scaled = half_way();
    scaled.deployment.spec.replicas = 8;
    scaled.deployment.spec.paused = true;
    assert_eq!(planned(&scaled), ["PROPORTIONAL_SCALING"; 2]);

    let mut complete = half_way();
    let mut new = mk_set(&complete.deployment, "v2", 2, 4);
    new.status = mk_set_status(4, 4);
    let old = mk_set(&complete.deployment, "v1", 1, 0);
    complete.replica_sets = vec![new, old];
    for replicas in [2, 6] {
        complete.deployment.spec.replicas = replicas;
        assert_eq!(planned(&complete), ["REPLICAS_CHANGED"], "{replicas}");
    }

    // While paused, old pods remain although the new ReplicaSet is complete.
    let mut saturated = complete.clone();
    saturated.deployment.spec.replicas = 4;
    saturated.deployment.spec.paused = true;
    saturated.replica_sets[1].replicas = 1;
    assert_eq!(planned(&saturated), ["SATURATED"]);

    // One of three old pods is not available, and no available pod may be deleted.
    let mut unhealthy = half_way();
    unhealthy.replica_sets[1].status = mk_set_status(3, 2);
    unhealthy.replica_sets[0].status = mk_set_status(2, 1);
    assert_eq!(planned(&unhealthy), ["UNHEALTHY_PODS", "SCALE_UP"]);

    let mut recreate = half_way();
    recreate.deployment.spec.strategy = Strategy::Recreate;
    assert_eq!(planned(&recreate), ["RECREATE"]);
    recreate.replica_sets[1] = mk_set(&recreate.deployment, "v1", 1, 0);
    recreate.replica_sets[1].status = mk_set_status(0, 0);
    recreate.pods_complete = true;
    assert_eq!(planned(&recreate), ["NO_OLD_PODS"]);
}

#[test]
fn cause_has_a_stable_name() {
    assert_eq!(Cause::ImagePull.to_string(), "IMAGE_PULL");
    assert_eq!(Cause::HeldBySurge.as_str(), "HELD_BY_SURGE");
}

/// With an incomplete list of ReplicaSets, nothing is planned and the report contains only the phase that the Deployment
/// itself shows.
#[test]
fn incomplete_replica_sets_have_a_phase_only() {
    let check = |world: &Snapshot, phase: Phase| {
        for left_out in 0..=world.replica_sets.len() {
            let mut world = world.clone();
            world.replica_sets_complete = false;
            world.replica_sets.truncate(left_out);
            for planner in [plan_pass, plan_settled] {
                let plan = planner(&world, Options::default());
                assert_eq!(plan.steps, []);
                assert_eq!(plan.requeue_after, None);
                assert!(!plan.settled);
                let report = of_plan(&world, &plan);
                let causes: Vec<_> = report.blockers.iter().map(|it| it.cause).collect();
                assert_eq!(
                    (report.phase, causes),
                    (phase, vec![Cause::ReplicaSetsIncomplete])
                );
                assert_eq!((report.counts, report.deadline), (None, None));
                // The verdict and the message give the same answer as the phase.
                let (outlook, message) = match phase {
                    Phase::Complete => (Outlook::Complete, " successfully rolled out ("),
                    Phase::Deleting => (Outlook::NeedsChange, " is being deleted"),
                    _ => (
                        Outlook::Undecided,
                        ": the list of ReplicaSets may be incomplete",
                    ),
                };
                assert_eq!(report.verdict.outlook, outlook);
                assert!(report.message.contains(message), "{}", report.message);
                assert_eq!(
                    (&*report.revision, &*report.replica_set, report.reasons),
                    ("", "", Vec::new())
                );
            }
        }
    };
    let world = half_way();
    check(&world, Phase::Progressing);
    let with = |change: fn(&mut Snapshot)| {
        let mut world = world.clone();
        change(&mut world);
        world
    };
    let paused = with(|world| world.deployment.spec.paused = true);
    check(&paused, Phase::Paused);
    let deleting = with(|world| world.deployment.metadata.deletion_timestamp = Some(world.now));
    check(&deleting, Phase::Deleting);
    let complete = with(|world| {
        let wanted = world.deployment.spec.replicas;
        let status = &mut world.deployment.status;
        status.observed_generation = world.deployment.metadata.generation;
        (status.replicas, status.updated_replicas) = (wanted, wanted);
        (status.available_replicas, status.ready_replicas) = (wanted, wanted);
    });
    check(&complete, Phase::Complete);
}

#[test]
fn paused_deployment_without_replicas_does_not_wait() {
    let mut snapshot = half_way();
    snapshot.deployment.spec.paused = true;
    snapshot.deployment.spec.replicas = 0;
    snapshot.replica_sets.clear();
    assert_ne!(reported(&snapshot).verdict.reason, "PAUSED");
    snapshot.deployment.spec.replicas = 1;
    assert_eq!(reported(&snapshot).verdict.reason, "PAUSED");
}

/// Only a ReplicaSet with the template may be adopted.
#[test]
fn paused_deployment_waits_in_spite_of_orphans_with_another_template() {
    let mut snapshot = half_way();
    snapshot.deployment.spec.paused = true;
    snapshot.replica_sets.remove(0);
    snapshot.replica_sets[0].metadata.owner_references.clear();
    snapshot.replica_sets[0].replicas = 0;
    assert_eq!(reported(&snapshot).verdict.reason, "PAUSED");
    snapshot.replica_sets[0].template = snapshot.deployment.spec.template.clone();
    assert_ne!(reported(&snapshot).verdict.reason, "PAUSED");
}

/// Caps are reported like a pause, with their numbers, and only if nothing else is the cause.
#[test]
fn caps_that_stop_a_rollout_are_reported() {
    let options = Options {
        caps: Caps {
            new_max: 2,
            old_min: 3,
        },
        ..Options::default()
    };
    let reported = |snapshot: &Snapshot| {
        let status = compute_status(snapshot, options);
        let observed = observe(snapshot, VerdictOptions::default());
        report(&observed, options, &status, &[])
    };
    let mut snapshot = half_way();
    let starting = reported(&snapshot);
    assert_eq!(starting.phase, Phase::Progressing);
    let is_capped = |blocker: &Blocker| blocker.cause == Cause::Capped;
    assert!(!starting.blockers.iter().any(is_capped));
    snapshot.replica_sets[0].status = mk_set_status(2, 2);
    for deadline in [600, i32::MAX] {
        snapshot.deployment.spec.progress_deadline_seconds = deadline;
        let capped = reported(&snapshot);
        assert_eq!(capped.phase, Phase::Paused);
        assert_eq!(
            capped.message,
            "deployment \"web\" is stopped by caps (2 of 4 updated, 5 available, 3 old): the caps allow at most 2 new \
             pods and at least 3 old pods"
        );
        assert_eq!(capped.blockers.len(), 1);
        assert_eq!(capped.deadline, None);
        let verdict = &capped.verdict;
        assert_eq!(verdict.outlook, Outlook::NeedsChange);
        assert!(verdict.awaits_user && !verdict.is_final && !verdict.is_certain);
    }
    // A pause is the cause that a user sees first.
    snapshot.deployment.spec.paused = true;
    let paused = reported(&snapshot);
    assert_eq!(paused.blockers[0].cause, Cause::Paused);
}
