//! Verdicts: stories that are polled, and states that are judged once. A failure that persists is certain soon after its
//! grace, and one that recovers before is never failed.

use std::sync::Arc;

use super::report::{
    completed, condition, container, crashing, half_way, pod, ready, reported, running, terminated,
    waiting, with_conditions, with_pods,
};
use super::world::{at, mk_condition, mk_set, mk_set_status};
use crate::diagnosis::failure::class::{Class, Limit, Rules};
use crate::diagnosis::failure::judgement::Judgement;
use crate::diagnosis::{Cause, diagnose};
use crate::plan::compute_status;
use crate::report::verdict::{Outlook, Verdict};
use crate::report::{Phase, Report, report};
use crate::snapshot::{Container, ContainerState, ObservedEvent, Options, Pod, Snapshot};
use crate::template::Value;
use crate::time::Time;

/// The polling interval of the stories, in seconds.
const INTERVAL: i64 = 2;
/// How long the stories are polled, unless they are decided.
const LONGEST: i64 = 1200;

fn judged(snapshot: &Snapshot, judgement: Judgement) -> Report {
    let options = Options {
        judgement,
        ..Options::default()
    };
    let status = compute_status(snapshot, options);
    report(&diagnose(snapshot, options), &status, &[])
}

pub(super) fn verdict(snapshot: &Snapshot) -> Verdict {
    reported(snapshot).verdict
}

fn with_rule(class: Class, limit: Limit) -> Judgement {
    Judgement {
        rules: Rules::default().with(class, limit),
        previous: None,
    }
}

/// Polls a story by a clock that is so many seconds ahead of the cluster's, and returns when it is decided.
#[track_caller]
fn decided_by(story: &impl Fn(i64) -> Snapshot, skew: i64, feeds_back: bool) -> Option<i64> {
    let mut judgement = Judgement::default();
    let mut promised: Option<Time> = None;
    for seconds in (0..=LONGEST).step_by(INTERVAL as usize) {
        let mut snapshot = story(seconds);
        snapshot.now = at(seconds + skew);
        let Report { verdict, phase, .. } = judged(&snapshot, judgement);
        if verdict.outlook == Outlook::NeedsChange && verdict.is_certain {
            assert_eq!(phase, Phase::Stalled);
            assert_ne!(verdict.reason, "");
            if let Some(promised) = promised.filter(|_| feeds_back) {
                let now = snapshot.now;
                assert!(
                    now <= promised.plus_seconds(INTERVAL),
                    "{now} instead of {promised}"
                );
            }
            return Some(seconds);
        }
        assert_ne!(phase, Phase::Stalled, "{verdict:?}");
        promised = verdict.decided_after;
        if feeds_back {
            let cause = Cause::from_reason(verdict.reason);
            judgement.previous = cause.zip(verdict.since);
        }
    }
    None
}

/// Checks when a story is decided, whatever the clock of the caller is.
#[track_caller]
pub(super) fn check_decided(story: impl Fn(i64) -> Snapshot, from: i64, to: i64) {
    for skew in [0, -300, 300] {
        let decided = decided_by(&story, skew, true);
        let is_expected = decided.is_some_and(|decided| (from..=to).contains(&decided));
        assert!(
            is_expected,
            "decided after {decided:?} with a skew of {skew}"
        );
    }
}

/// Checks that a story is never failed, whatever the clock of the caller is, and whether or not it feeds back.
#[track_caller]
pub(super) fn check_never(story: impl Fn(i64) -> Snapshot) {
    for skew in [0, -300, 300] {
        for feeds_back in [true, false] {
            assert_eq!(decided_by(&story, skew, feeds_back), None, "skew {skew}");
        }
    }
}

fn event(uid: &str, reason: &str, message: &str, first: i64, last: i64) -> ObservedEvent {
    ObservedEvent {
        object_uid: uid.to_owned(),
        field_path: String::new(),
        kind: "Warning".to_owned(),
        reason: reason.to_owned(),
        message: message.to_owned(),
        count: if first == last { 1 } else { 2 },
        first: Some(at(first)),
        last: Some(at(last)),
    }
}

/// A new pod that was created and scheduled at 0.
pub(super) fn young(name: &str, containers: Vec<Container>) -> Pod {
    let mut pod = with_conditions(
        pod(name, "Pending", containers),
        vec![condition("PodScheduled", "True", "", "", 0)],
    );
    pod.metadata.creation_timestamp = Some(at(0));
    pod.start_time = Some(at(0));
    pod
}

/// The two new pods with the same container.
fn both(state: &ContainerState) -> Snapshot {
    with_pods(["a", "b"].map(|name| young(name, vec![container(state.clone())])))
}

/// The attempts of a kubelet up to now.
fn attempts(seconds: i64) -> impl Iterator<Item = i64> {
    [0, 10, 30, 70, 150, 310, 610, 910]
        .into_iter()
        .filter(move |at| *at <= seconds)
}

const NOT_FOUND: &str = "Back-off pulling image \"web:2\": ErrImagePull: failed to resolve reference \"web:2\": not found";

/// An image that cannot be pulled, with the events of the kubelet.
fn pulling(seconds: i64, text: &str) -> Snapshot {
    let mut snapshot = both(&waiting("ImagePullBackOff", text));
    let last = attempts(seconds).last().unwrap();
    let events = ["a-uid", "b-uid"].into_iter().flat_map(|uid| {
        let message = format!("Failed to pull image \"web:2\": {text}");
        let failed = event(uid, "Failed", &message, 0, last);
        let back_off = event(uid, "Failed", "Error: ImagePullBackOff", 1, seconds.max(1));
        [failed, back_off]
    });
    snapshot.events = events.collect();
    snapshot
}

fn without_events(mut snapshot: Snapshot) -> Snapshot {
    snapshot.events = Arc::new([]);
    snapshot
}

#[test]
fn missing_image_is_certain_after_its_grace() {
    check_decided(|seconds| pulling(seconds, NOT_FOUND), 90, 92);
    check_decided(
        |seconds| without_events(pulling(seconds, NOT_FOUND)),
        90,
        92,
    );
    let never_pull = || {
        both(&waiting(
            "ErrImageNeverPull",
            "Container image is not present",
        ))
    };
    check_decided(|_| never_pull(), 90, 92);
    // Somebody who asks only once is protected from different clocks.
    let silent = |seconds| without_events(pulling(seconds, NOT_FOUND));
    assert_eq!(decided_by(&silent, 0, false), Some(390));
    assert_eq!(decided_by(&silent, 300, false), Some(90));
    assert_eq!(decided_by(&silent, -300, false), Some(690));
}

#[test]
fn malformed_image_name_is_certain_at_once() {
    let story = |_| {
        both(&waiting(
            "InvalidImageName",
            "couldn't parse image name \"A\": invalid reference format",
        ))
    };
    check_decided(story, 0, 0);
    let found = verdict(&story(0));
    assert_eq!(found.reason, "IMAGE_PULL");
    assert_eq!(found.remedy, "correct the name of the image");
    assert_eq!(found.decided_after, None);
}

#[test]
fn registry_that_answers_later_is_never_failed() {
    for text in [
        "dial tcp 10.0.0.1:443: connect: connection refused",
        "unexpected status from HEAD request: 503 Service Unavailable",
        "something that is not known",
    ] {
        check_never(|seconds| pulling(seconds, text));
        check_never(|seconds| without_events(pulling(seconds, text)));
    }
    // The image is pushed 5 s before the grace ends, and its program is slow.
    check_never(|seconds| match seconds {
        0..85 => pulling(seconds, NOT_FOUND),
        _ => Snapshot {
            events: pulling(84, NOT_FOUND).events,
            ..both(&running(-85))
        },
    });
}

pub(super) fn missing_config(seconds: i64) -> Snapshot {
    let text = "configmap \"web\" not found";
    let mut snapshot = both(&waiting("CreateContainerConfigError", text));
    let message = format!("Error: {text}");
    let events = ["a-uid", "b-uid"].map(|uid| event(uid, "Failed", &message, 0, seconds / 12 * 12));
    snapshot.events = events.into();
    snapshot
}

fn missing_volume(seconds: i64) -> Snapshot {
    let text = "MountVolume.SetUp failed for volume \"tls\" : secret \"web-tls\" not found";
    let mut snapshot = both(&waiting("ContainerCreating", ""));
    let mut last = [0, 1, 2, 4, 8, 16, 32, 64, 128, 250].into_iter();
    let last = last.rfind(|at| *at <= seconds).unwrap();
    snapshot.events = ["a-uid", "b-uid"]
        .map(|uid| event(uid, "FailedMount", text, 0, last))
        .into();
    snapshot
}

#[test]
fn missing_configuration_is_certain_after_its_grace() {
    check_decided(missing_config, 90, 92);
    check_decided(|seconds| without_events(missing_config(seconds)), 90, 92);
    let found = verdict(&missing_config(200));
    assert_eq!(found.reason, "CONTAINER_CONFIG");
    assert_eq!(
        found.remedy,
        "create the missing configmap web in namespace default, or correct the reference to it"
    );
    // Only events show why a volume cannot be mounted, and they stay when it can.
    check_decided(missing_volume, 128, 130);
    check_never(|seconds| without_events(missing_volume(seconds)));
    let found = verdict(&missing_volume(200));
    assert_eq!(found.reason, "CONTAINER_CONFIG");
    assert!(
        found.message.contains("secret \"web-tls\" not found"),
        "{}",
        found.message
    );
}

#[test]
fn configuration_that_is_created_a_minute_later_is_never_failed() {
    for make in [missing_config, missing_volume] {
        check_never(|seconds| match seconds {
            0..78 => make(seconds),
            // The events stay, and pulling the image takes long.
            _ => Snapshot {
                events: make(59).events,
                ..both(&waiting("ContainerCreating", ""))
            },
        });
    }
    check_never(|_| {
        both(&waiting(
            "CreateContainerError",
            "context deadline exceeded",
        ))
    });
}

/// A container that runs for a second each time, with the backoff of a kubelet, until it has been restarted so often.
pub(super) fn crash(seconds: i64, crashes: usize, reason: &str) -> Snapshot {
    let starts = [0, 2, 13, 34, 75, 156, 317, 618, 919];
    let started = starts.iter().rposition(|start| *start <= seconds).unwrap();
    let ended = |number: usize| ContainerState::Terminated {
        exit_code: 1,
        reason: reason.to_owned(),
        message: String::new(),
        finished_at: Some(at(starts[number] + 1)),
    };
    let last_state = started
        .checked_sub(1)
        .map_or(ContainerState::Unknown, ended);
    let is_running = seconds < starts[started] + 1;
    let (state, last_state) = if started >= crashes || is_running {
        (running(-starts[started]), last_state)
    } else if started == 0 {
        (ended(0), ContainerState::Unknown)
    } else {
        (waiting("CrashLoopBackOff", "back-off"), ended(started))
    };
    let started = started.min(crashes);
    with_pods(["a", "b"].map(|name| {
        let container = Container {
            restarts: started.try_into().unwrap(),
            last_state: last_state.clone(),
            ..container(state.clone())
        };
        young(name, vec![container])
    }))
}

#[test]
fn crash_loop_is_certain_after_five_restarts() {
    check_decided(|seconds| crash(seconds, 100, "Error"), 157, 158);
    check_decided(|seconds| crash(seconds, 100, "StartError"), 35, 36);
    // With a backoff of a second, restarts come too fast to tell.
    let mut fast = crash(400, 100, "Error");
    let pods = fast.pods.iter().cloned().map(|mut pod| {
        pod.start_time = Some(at(270));
        pod
    });
    fast.pods = pods.collect();
    assert!(!verdict(&fast).is_certain);
}

#[test]
fn service_that_crashes_until_its_database_answers_is_never_failed() {
    for crashes in [1, 3, 4] {
        check_never(|seconds| crash(seconds, crashes, "Error"));
    }
    // It is the caller's choice to fail it.
    let judgement = with_rule(Class::CrashLoop, Limit::Restarts(2));
    assert!(judged(&crash(20, 3, "Error"), judgement).verdict.is_certain);
    assert!(!judged(&crash(3, 3, "Error"), judgement).verdict.is_certain);
}

/// The ReplicaSet controller's attempts to create pods, twice as far apart each time.
fn refused(seconds: i64, texts: &[&str]) -> Snapshot {
    let mut snapshot = half_way();
    snapshot.replica_sets[0].status = mk_set_status(0, 0);
    let mut failure = mk_condition("ReplicaFailure", "True", "FailedCreate", at(0));
    failure.message = (*texts.last().unwrap()).to_owned();
    snapshot.replica_sets[0].status.conditions = vec![failure];
    let attempts = [0, 1, 2, 5, 10, 20, 41, 82, 164, 328, 656, 1000];
    let attempts = attempts.into_iter().filter(|at| *at <= seconds);
    let events = attempts.enumerate().map(|(number, at)| {
        let text = texts[number.min(texts.len() - 1)];
        event("web-v2-uid", "FailedCreate", text, at, at)
    });
    snapshot.events = events.collect();
    snapshot
}

#[test]
fn definite_refusal_is_certain_once_it_is_repeated() {
    let denied = "Error creating: admission webhook \"policy\" denied the request: no";
    check_decided(|seconds| refused(seconds, &[denied]), 41, 42);
    let large = "Error creating: pods \"web-x\" is forbidden: exceeded quota: q, requested: limits.cpu=3, used: limits.cpu=0, limited: limits.cpu=2";
    check_decided(|seconds| refused(seconds, &[large]), 41, 42);
    let account = "Error creating: error looking up service account default/web: serviceaccount \"web\" not found";
    check_decided(|seconds| refused(seconds, &[account]), 164, 164);
    // The condition alone outlives its cause.
    check_never(|seconds| without_events(refused(seconds, &[denied])));
    check_never(|_| refused(0, &[denied]));
}

#[test]
fn refusals_that_pass_are_never_failed() {
    let quota = "Error creating: pods \"web-x\" is forbidden: exceeded quota: q, requested: pods=1, used: pods=4, limited: pods=4";
    let timeout = "Error creating: Internal error occurred: failed calling webhook \"policy\": context deadline exceeded";
    let modified = "Error creating: Operation cannot be fulfilled on resourcequotas \"q\": the object has been modified";
    let denied = "Error creating: admission webhook \"policy\" denied the request: no";
    for texts in [
        &[quota][..],
        &[timeout],
        &[modified],
        &["Error creating: something new"],
        // What is said last counts.
        &[denied, denied, timeout],
    ] {
        check_never(|seconds| refused(seconds, texts));
    }
    // Nothing is decided while own pods are terminating.
    check_never(|seconds| {
        let mut snapshot = refused(seconds, &[denied]);
        let mut old = super::world::mk_pod(&snapshot.replica_sets[1], "old", "Running");
        old.metadata.deletion_timestamp = Some(at(seconds + 30));
        snapshot.pods = Arc::new([old]);
        snapshot
    });
}

fn unschedulable() -> Snapshot {
    let text = "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, preemption: 0/1 nodes are available";
    with_pods(["a", "b"].map(|name| {
        let scheduled = condition("PodScheduled", "False", "Unschedulable", text, 600);
        with_conditions(pod(name, "Pending", Vec::new()), vec![scheduled])
    }))
}

#[test]
fn unschedulable_pods_and_readiness_probes_are_certain_only_if_the_caller_says_so() {
    check_never(|_| unschedulable());
    check_never(|_| both(&running(0)));
    let message = reported(&unschedulable()).blockers.remove(0).message;
    assert!(
        message.ends_with(": 0/1 nodes are available: 1 Insufficient cpu."),
        "{message}"
    );
    let judgement = with_rule(Class::Unschedulable, Limit::Grace(120));
    assert!(judged(&unschedulable(), judgement).verdict.is_certain);
    // A nominated node, an autoscaler that answered, and own pods that terminate may resolve it.
    let mut nominated = unschedulable();
    let mut pods = nominated.pods.to_vec();
    pods[1].nominated_node_name = "node-1".to_owned();
    nominated.pods = pods.into();
    assert!(!judged(&nominated, judgement).verdict.is_certain);
    let mut scaled = unschedulable();
    scaled.events = Arc::new([event(
        "a-uid",
        "TriggeredScaleUp",
        "pod triggered scale-up",
        -10,
        -10,
    )]);
    assert!(!judged(&scaled, judgement).verdict.is_certain);
    let mut terminating = unschedulable();
    let mut old = super::world::mk_pod(&terminating.replica_sets[1], "old", "Running");
    old.metadata.deletion_timestamp = Some(at(20));
    terminating.pods = terminating.pods.iter().cloned().chain([old]).collect();
    assert!(!judged(&terminating, judgement).verdict.is_certain);
    let not_ready = with_rule(Class::NotReady, Limit::Grace(60));
    let mut polled = both(&running(0));
    polled.now = at(600);
    assert!(judged(&polled, not_ready).verdict.is_certain);
}

/// [`half_way`], crash-looping for long.
fn crashed() -> Snapshot {
    let mut snapshot = crash(400, 100, "Error");
    snapshot.now = at(400);
    snapshot
}

#[test]
fn failure_is_certain_only_if_all_unready_new_pods_share_it() {
    assert!(verdict(&crashed()).is_certain);
    let change = |change: &dyn Fn(&mut Snapshot, &mut Vec<Pod>)| {
        let mut snapshot = crashed();
        let mut pods = snapshot.pods.to_vec();
        change(&mut snapshot, &mut pods);
        snapshot.pods = pods.into();
        let found = reported(&snapshot);
        assert!(!found.verdict.is_certain, "{:?}", found.verdict);
        assert_eq!(found.phase, Phase::Progressing);
    };
    // One of ten is on a node with a bad disk, and the others are ready.
    change(&|snapshot, pods| {
        pods.truncate(1);
        pods.extend((0..9).map(|number| ready(&format!("ok-{number}"), 100)));
        snapshot.deployment.spec.replicas = 10;
        snapshot.replica_sets[0].replicas = 10;
        snapshot.replica_sets[0].status = mk_set_status(10, 9);
    });
    // Another one is still starting.
    change(&|_, pods| pods[0] = young("a", vec![container(waiting("ContainerCreating", ""))]));
    // The snapshot does not contain all pods.
    change(&|_, pods| pods.truncate(1));
    // It has been ready before: the dependency that it needs has failed.
    change(&|_, pods| {
        pods[0].conditions = vec![condition("Ready", "False", "ContainersNotReady", "", -300)];
    });
    // Own pods are terminating, and may hold what it needs.
    change(&|snapshot, pods| {
        let mut old = super::world::mk_pod(&snapshot.replica_sets[1], "old", "Running");
        old.metadata.deletion_timestamp = Some(at(405));
        pods.push(old);
    });
    // After a rollback to a ReplicaSet that still had pods, their restarts are old.
    change(&|snapshot, _| snapshot.replica_sets[1].metadata.creation_timestamp = Some(at(10)));
    // It is running again.
    change(&|_, pods| pods[0].containers[0].state = running(-399));
}

#[test]
fn failed_and_evicted_pods_and_those_of_old_templates_never_count() {
    let mut snapshot = crashed();
    let mut evicted = pod("gone", "Failed", Vec::new());
    evicted.reason = "Evicted".to_owned();
    let ready_pods = [ready("a", 100), ready("b", 50)];
    let with = |snapshot: &Snapshot, pods: &[Pod]| {
        let mut snapshot = snapshot.clone();
        snapshot.pods = snapshot.pods.iter().chain(pods).cloned().collect();
        snapshot
    };
    assert!(verdict(&with(&snapshot, std::slice::from_ref(&evicted))).is_certain);
    let only_evicted = with_pods([evicted]);
    assert!(!verdict(&only_evicted).is_certain);
    // Three ReplicaSets: the old ones fail differently, and the new one is fine.
    let old = &snapshot.replica_sets[1];
    let mut failing = super::world::mk_pod(old, "old", "Running");
    failing.containers = crashing(
        9,
        waiting("CrashLoopBackOff", ""),
        terminated(1, "Error", ""),
    )
    .containers;
    let older = mk_set(&snapshot.deployment, "v0", 0, 1);
    let mut pulling = super::world::mk_pod(&older, "older", "Pending");
    pulling.containers = vec![container(waiting("InvalidImageName", ""))];
    snapshot.replica_sets.push(older);
    snapshot.pods = ready_pods.into_iter().chain([failing, pulling]).collect();
    snapshot.replica_sets[0].status = mk_set_status(2, 1);
    assert!(!verdict(&snapshot).is_certain);
}

#[test]
fn unobserved_changes_come_first_and_are_never_failures() {
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
    // Nothing is missing of a Deployment without pods, nor of one whose pods may still be adopted.
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

pub(super) fn past_the_deadline(mut snapshot: Snapshot) -> Snapshot {
    let timed_out = mk_condition("Progressing", "False", "ProgressDeadlineExceeded", at(-5));
    // The published counters have not changed since: the rollout has made no progress.
    snapshot.deployment.status.replicas = 5;
    snapshot.deployment.status.updated_replicas = 2;
    snapshot.deployment.status.ready_replicas = 3;
    snapshot.deployment.status.available_replicas = 3;
    snapshot.deployment.status.conditions = vec![timed_out];
    snapshot
}

#[test]
fn passed_deadline_needs_a_change_unless_a_container_may_still_be_starting() {
    let found = reported(&past_the_deadline(unschedulable()));
    assert_eq!(found.phase, Phase::Stalled);
    assert_eq!(
        (found.verdict.outlook, found.verdict.is_certain),
        (Outlook::NeedsChange, false)
    );
    assert_eq!(found.verdict.reason, "UNSCHEDULABLE");
    // A startup probe of 30 minutes.
    let mut slow = past_the_deadline(both(&running(700)));
    let probe = Value::from([
        (
            "httpGet",
            Value::from([("path", Value::from("/up")), ("port", Value::from("http"))]),
        ),
        ("failureThreshold", Value::from(180)),
    ]);
    let port = Value::from([
        ("name", Value::from("http")),
        ("containerPort", Value::from(8080)),
    ]);
    let main = Value::from([
        ("name", Value::from("main")),
        ("image", Value::from("v2")),
        ("ports", Value::from(vec![port])),
        ("startupProbe", probe),
    ]);
    let spec = Value::from([("containers", Value::from(vec![main]))]);
    let labels = Value::from([("labels", Value::from([("app", "web")]))]);
    let template = Value::from([("metadata", labels), ("spec", spec)]);
    slow.deployment.spec.template = template.clone().into();
    slow.replica_sets[0].template = template.into();
    let started = |snapshot: &mut Snapshot, started: Option<bool>, restarts: i32| {
        let pods = snapshot.pods.iter().cloned().map(|mut pod| {
            pod.containers[0].started = started;
            pod.containers[0].restarts = restarts;
            pod
        });
        snapshot.pods = pods.collect();
    };
    started(&mut slow, Some(false), 0);
    let found = reported(&slow);
    assert_eq!(found.phase, Phase::Stalled);
    assert_eq!(found.verdict.outlook, Outlook::Undecided);
    assert!(
        found
            .verdict
            .message
            .ends_with("startup probe GET :8080/up has not passed yet, 18m20s left"),
        "{}",
        found.verdict.message
    );
    // It was killed once, or has passed the probe.
    for (passed, restarts) in [(Some(false), 1), (Some(true), 0), (None, 0)] {
        started(&mut slow, passed, restarts);
        assert_eq!(verdict(&slow).outlook, Outlook::NeedsChange);
    }
}

#[test]
fn completes_by_itself_if_only_time_is_missing() {
    let mut snapshot = with_pods([ready("b", 10), ready("a", 40)]);
    snapshot.deployment.spec.min_ready_seconds = 60;
    let found = verdict(&snapshot);
    assert_eq!(
        (found.outlook, found.is_certain),
        (Outlook::CompletesByItself, false)
    );
    assert!(
        found.message.ends_with("a Ready for 40s, 20s left"),
        "{}",
        found.message
    );
}

#[test]
fn completes_by_itself_while_only_old_pods_are_left() {
    let mut snapshot = half_way();
    snapshot.replica_sets[0].replicas = 4;
    snapshot.replica_sets[0].status = mk_set_status(4, 4);
    snapshot.replica_sets[1].replicas = 0;
    let found = verdict(&snapshot);
    assert_eq!(
        (found.outlook, found.reason),
        (Outlook::CompletesByItself, "")
    );
    // Nobody knows what becomes of pods that do not exist yet.
    let mut snapshot = half_way();
    snapshot.replica_sets[0].replicas = 0;
    snapshot.replica_sets[0].status = mk_set_status(0, 0);
    assert_eq!(verdict(&snapshot).outlook, Outlook::Undecided);
}

#[test]
fn degraded_is_a_deployment_whose_pods_were_ready_before() {
    let lost = |seconds: i64| {
        let up = Container {
            ready: true,
            ..container(running(900))
        };
        let mut pod = with_conditions(
            pod("lost", "Running", vec![up]),
            vec![condition("Ready", "False", "", "", seconds)],
        );
        pod.metadata.creation_timestamp = Some(at(-900));
        pod.node_name = "real-0".to_owned();
        pod
    };
    let found = completed([ready("a", 800), lost(157)], 2, 1);
    assert_eq!(found.phase, Phase::Degraded);
    assert_eq!(found.verdict.outlook, Outlook::Undecided);
    assert!(
        found.message.starts_with("deployment \"web\" is degraded")
            && found
                .verdict
                .message
                .ends_with("node real-0 may have stopped reporting"),
        "{found:?}"
    );
    // A pod that was added is not degraded, but scaling.
    let starting = young("new", vec![container(waiting("ContainerCreating", ""))]);
    let found = completed([ready("a", 800), starting], 2, 1);
    assert_eq!(found.phase, Phase::Progressing);
}

#[test]
fn zero_replicas_and_one_without_surge_are_judged() {
    let mut snapshot = half_way();
    snapshot.deployment.spec.replicas = 0;
    snapshot.replica_sets.truncate(1);
    snapshot.replica_sets[0].replicas = 0;
    snapshot.replica_sets[0].status = mk_set_status(0, 0);
    assert_eq!(verdict(&snapshot).outlook, Outlook::Complete);
    let mut snapshot = crashed();
    snapshot.deployment.spec.replicas = 1;
    snapshot.deployment.spec.strategy = super::world::rolling(0, 1);
    snapshot.replica_sets.truncate(1);
    snapshot.replica_sets[0].replicas = 1;
    snapshot.replica_sets[0].status = mk_set_status(1, 0);
    snapshot.pods = snapshot.pods.iter().take(1).cloned().collect();
    assert!(verdict(&snapshot).is_certain);
}

#[test]
fn kills_by_a_startup_probe_are_told_apart() {
    let probe = Value::from([("tcpSocket", Value::from([("port", 5432)]))]);
    let main = Value::from([
        ("name", Value::from("main")),
        ("image", Value::from("v2")),
        ("startupProbe", probe),
    ]);
    let spec = Value::from([("containers", Value::from(vec![main]))]);
    let labels = Value::from([("labels", Value::from([("app", "web")]))]);
    let template = Value::from([("metadata", labels), ("spec", spec)]);
    let ended = |restarts: i32, code: i32| {
        let mut pod = crashing(
            restarts,
            waiting("CrashLoopBackOff", ""),
            terminated(code, "Error", ""),
        );
        pod.containers[0].started = Some(false);
        let mut snapshot = with_pods([pod]);
        snapshot.replica_sets[0].status = mk_set_status(1, 0);
        snapshot.deployment.spec.template = template.clone().into();
        snapshot.replica_sets[0].template = template.clone().into();
        let text = "Startup probe failed: dial tcp 10.0.0.7:5432: connect: connection refused";
        snapshot.events = Arc::new([event("a-uid", "Unhealthy", text, -50, -20)]);
        verdict(&snapshot)
    };
    let killed = |restarts| ended(restarts, 137);
    // A program that does not handle SIGTERM ends with a code of its own: it may also have crashed.
    let found = ended(3, 2);
    assert!(!found.is_certain);
    assert_eq!(
        found.message,
        "container main keeps crashing (3 restarts; 1 of 2 new pods: a CrashLoopBackOff for 20s): Error, exit code 2: after its \
         startup probe TCP :5432 failed: dial tcp 10.0.0.7:5432: connect: connection refused"
    );
    let found = killed(3);
    assert!(found.is_certain);
    assert_eq!(
        found.message,
        "container main keeps being killed by its startup probe (3 restarts; 1 of 2 new pods: a CrashLoopBackOff for \
         20s): Error, exit code 137: killed because its startup probe TCP :5432 fails: dial tcp 10.0.0.7:5432: connect: \
         connection refused"
    );
    assert_eq!(
        found.remedy,
        "read its log: kubectl logs a -n default -c main"
    );
    assert!(!killed(2).is_certain);
}

#[test]
fn pod_with_the_most_restarts_is_named() {
    let crashing = |name: &str, restarts: i32| {
        let crashing = crashing(
            restarts,
            waiting("CrashLoopBackOff", ""),
            terminated(1, "Error", ""),
        );
        let mut pod = pod(name, "Running", crashing.containers);
        pod.start_time = Some(at(-300));
        pod
    };
    let found = verdict(&with_pods([crashing("a", 4), crashing("b", 5)]));
    assert!(found.is_certain);
    assert!(
        found
            .message
            .starts_with("container main keeps crashing (5 restarts; 2 of 2 new pods: b "),
        "{}",
        found.message
    );
}

#[test]
fn crashing_sidecar_of_ready_containers_is_not_a_lost_node() {
    let mut crashing = crashing(
        5,
        waiting("CrashLoopBackOff", ""),
        terminated(1, "Error", ""),
    );
    crashing.containers[0].init = true;
    let web = Container {
        ready: true,
        ..container(running(200))
    };
    crashing.containers.push(web);
    let mut pod = with_conditions(
        crashing,
        vec![condition("Ready", "False", "ContainersNotReady", "", 300)],
    );
    pod.start_time = Some(at(-300));
    let mut snapshot = with_pods([pod]);
    snapshot.replica_sets[0].status = mk_set_status(1, 0);
    let found = verdict(&snapshot);
    assert!(
        found
            .message
            .starts_with("init container main keeps crashing (5 restarts;"),
        "{}",
        found.message
    );
    assert!(found.is_certain, "{}", found.message);
}
