//! The reports of the example snapshots: the actual cause of each stuck rollout is the first blocker.

use std::fs;
use std::path::Path;

use rollplan::proto::{self, Phase};
use rollplan::wire;
use rollplan_core::lint::lint;
use rollplan_core::plan_settled;
use rollplan_core::snapshot::Options;

use crate::request::Request;

fn read(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The snapshot that kubectl printed, at the time that examples/README.md lists.
fn request(example: &str) -> Request {
    let readme = read("examples/README.md");
    let mut rows = readme.lines();
    let row = rows.find(|row| row.starts_with(&format!("| [{example}.json]")));
    let now = row.unwrap().rsplit('`').nth(1).unwrap();
    Request::of_list(now, &read(&format!("examples/{example}.json")))
}

fn status(example: &str) -> proto::RolloutReport {
    request(example).compute_status().report.unwrap()
}

fn plan(example: &str) -> proto::PlanRolloutResponse {
    let mut request = request(example);
    request.options.report = true;
    request.plan()
}

/// Checks the message and the first blocker, which are the same for the status and for the plan.
#[track_caller]
fn check(example: &str, phase: Phase, message: &str, cause: &str, why: &str) -> proto::Blocker {
    let (status, plan) = (status(example), plan(example).report.unwrap());
    for report in [&status, &plan] {
        assert_eq!(report.phase(), phase, "{example}");
        assert_eq!(report.message, message, "{example}");
        let first = &report.blockers[0];
        assert_eq!(
            (first.reason.as_str(), first.message.as_str()),
            (cause, why),
            "{example}"
        );
    }
    assert_eq!(status.blockers[0], plan.blockers[0]);
    status.blockers[0].clone()
}

fn names(blocker: &proto::Blocker) -> Vec<&str> {
    let pods = blocker.pods.iter();
    pods.map(|pod| pod.name.as_str()).collect()
}

#[test]
fn image_pull_error_is_the_first_blocker() {
    let why = "image registry.example/web:404 of container web cannot be pulled (2 of 2 new pods: \
               web-5c65c699f-42z9v ImagePullBackOff for 21s): only its events show why";
    let blocker = check(
        "stuck-bad-image",
        Phase::Stalled,
        &format!("deployment \"web\" is stalled (2 of 4 updated, 3 of 4 available, 3 old): {why}"),
        "IMAGE_PULL",
        why,
    );
    assert_eq!(
        names(&blocker),
        ["web-5c65c699f-42z9v", "web-5c65c699f-brtv7"]
    );
    assert_eq!(
        blocker.pods[0].message,
        "Back-off pulling image \"registry.example/web:404\""
    );
}

#[test]
fn crash_loop_is_the_first_blocker() {
    let why = "container web keeps crashing (2 restarts; 2 of 2 new pods: web-757c798d4-68fqp \
               CrashLoopBackOff for 6s): Error, exit code 1: fatal: no database at db.shop:5432: connection refused";
    let blocker = check(
        "stuck-crash-loop",
        Phase::Stalled,
        &format!("deployment \"web\" is stalled (2 of 4 updated, 3 of 4 available, 3 old): {why}"),
        "CRASH_LOOP",
        why,
    );
    assert_eq!(
        names(&blocker),
        ["web-757c798d4-68fqp", "web-757c798d4-8k29r"]
    );
    let pod = &blocker.pods[1];
    assert_eq!((pod.container.as_str(), pod.restarts), ("web", 2));
    assert_eq!(
        blocker.remedy,
        "read its log: kubectl logs web-757c798d4-68fqp -n shop -c web"
    );
}

#[test]
fn unschedulable_pods_are_the_first_blocker() {
    let why = "no node can run the new pods (2 of 2 new pods: web-964747cc7-474xs Unschedulable for 6s): 0/1 nodes are \
               available: 1 Insufficient cpu.";
    let blocker = check(
        "stuck-unschedulable",
        Phase::Progressing,
        &format!(
            "deployment \"web\" is rolling out (2 of 4 updated, 3 of 4 available, 3 old): {why}"
        ),
        "UNSCHEDULABLE",
        why,
    );
    assert_eq!(blocker.pod_count, 2);
}

#[test]
fn exceeded_quota_is_the_first_blocker() {
    let why = "the API server rejects the pods (FailedCreate): pods \"web-757c798d4-mprlz\" is forbidden: exceeded quota: pods, \
               requested: pods=1, used: pods=4, limited: pods=3";
    let blocker = check(
        "stuck-quota",
        // Other pods may terminate and release quota.
        Phase::Progressing,
        &format!(
            "deployment \"web\" is rolling out (0 of 4 updated, 3 of 4 available, 3 old): {why}"
        ),
        "PODS_REFUSED",
        why,
    );
    assert!(blocker.since.is_some());
}

#[test]
fn failing_readiness_probe_is_the_first_blocker() {
    let why = "container web is running but not ready (2 of 2 new pods: web-757c798d4-7hdsm Running for 21s): \
               readiness probe GET :8080/readyz has not passed yet";
    let blocker = check(
        "stuck-readiness",
        Phase::Stalled,
        &format!("deployment \"web\" is stalled (2 of 4 updated, 3 of 4 available, 3 old): {why}"),
        "NOT_READY",
        why,
    );
    assert_eq!(
        names(&blocker),
        ["web-757c798d4-7hdsm", "web-757c798d4-nvcr9"]
    );
    let causes: Vec<_> = status("stuck-readiness")
        .blockers
        .into_iter()
        .map(|blocker| blocker.reason)
        .collect();
    assert_eq!(causes, ["NOT_READY", "DEADLINE_EXCEEDED"]);
}

#[test]
fn pause_is_the_first_blocker() {
    check(
        "paused-midway",
        Phase::Paused,
        "deployment \"web\" has been paused for 6s (7 of 10 updated, 13 available, 6 old)",
        "PAUSED",
        "the rollout has been paused for 6s",
    );
    // The status has not been published for the new size yet.
    let unobserved = status("paused-scaled");
    assert_eq!(unobserved.phase(), Phase::Paused);
    assert_eq!(unobserved.blockers[0].reason, "GENERATION_UNOBSERVED");
    assert_eq!(
        unobserved.message,
        "deployment \"web\" has been paused for 5s (7 of 20 updated, 8 of 20 available, 6 old)"
    );
    let published = plan("paused-scaled").report.unwrap();
    assert_eq!(published.blockers[0].reason, "PAUSED");
    assert!(plan("paused-midway").steps.is_empty());
}

#[test]
fn terminating_old_pods_are_the_first_blocker() {
    let rolling = "deployment \"web\" is rolling out (0 of 3 updated, 0 of 3 available, 0 old, 3 terminating)";
    let why = "Recreate is waiting for 3 old pods to terminate: web-799859bb98-c8gqq Terminating, \
               15s past its grace period";
    let blocker = check(
        "recreate-old-pods-terminating",
        Phase::Progressing,
        &format!("{rolling}: {why}"),
        "OLD_PODS_RUNNING",
        why,
    );
    assert_eq!(
        names(&blocker),
        [
            "web-799859bb98-c8gqq",
            "web-799859bb98-ffz66",
            "web-799859bb98-kj8s5"
        ]
    );
    assert_eq!((blocker.pod_count, blocker.remaining), (3, None));
    let why = "Recreate is waiting for 3 old pods to terminate: web-5dc4f4f9bb-2nzwl Terminating, \
               25s of its grace period left";
    let blocker = check(
        "recreate-waiting",
        Phase::Progressing,
        &format!("{rolling}: {why}"),
        "OLD_PODS_RUNNING",
        why,
    );
    assert_eq!(blocker.remaining.map(|left| left.seconds), Some(25));
}

#[test]
fn min_ready_seconds_are_the_first_blocker() {
    let why = "2 of 2 new pods are ready, but not yet for minReadySeconds (2m): web-757c798d4-f94vv Ready for 5s, \
               1m55s left";
    let blocker = check(
        "min-ready-seconds",
        Phase::Progressing,
        &format!(
            "deployment \"web\" is rolling out (2 of 4 updated, 3 of 4 available, 3 old): {why}"
        ),
        "MIN_READY_SECONDS",
        why,
    );
    assert_eq!(blocker.remaining.map(|left| left.seconds), Some(115));
    assert_eq!(blocker.remedy, "");
}

/// `kubectl rollout status` reports how many pods are updated, how many old pods remain, how many are available, and
/// whether a change has not been observed.
#[test]
fn ordinary_states_report_at_least_what_kubectl_reports() {
    let unobserved = status("fresh-create");
    assert_eq!(unobserved.phase(), Phase::Progressing);
    assert_eq!(unobserved.blockers[0].reason, "GENERATION_UNOBSERVED");
    assert_eq!(
        unobserved.message,
        "deployment \"web\" is rolling out (0 of 3 updated, 0 of 3 available, 0 old): no controller has observed the \
         latest change yet: generation 1, observed 0"
    );
    // The plan publishes the generation.
    assert_eq!(plan("fresh-create").report.unwrap().blockers, []);
    let why = "3 of 5 new pods are starting: web-67fc9594b8-rjl9v ContainerCreating for 5s";
    check(
        "mid-rollout",
        Phase::Progressing,
        &format!(
            "deployment \"web\" is rolling out (5 of 10 updated, 10 of 10 available, 8 old): {why}"
        ),
        "STARTING",
        why,
    );
    let why = "3 of 5 new pods are starting: web-67fc9594b8-nkdc2 ContainerCreating for 6s";
    check(
        "rollover",
        Phase::Progressing,
        &format!(
            "deployment \"web\" is rolling out (5 of 10 updated, 10 of 10 available, 8 old): {why}"
        ),
        "STARTING",
        why,
    );
    // Complete once a controller has observed the change, as this plan does.
    let published = plan("history-cleanup").report.unwrap();
    for (example, report, message) in [
        (
            "after-undo",
            status("after-undo"),
            "deployment \"web\" successfully rolled out (4 of 4 available)",
        ),
        (
            "history-cleanup",
            published,
            "deployment \"web\" successfully rolled out (3 of 3 available)",
        ),
    ] {
        assert_eq!(report.phase(), Phase::Complete, "{example}");
        assert_eq!(report.message, message, "{example}");
        assert_eq!(report.blockers, [], "{example}");
    }
    let unobserved = status("history-cleanup");
    assert_eq!(unobserved.phase(), Phase::Progressing);
    assert_eq!(unobserved.blockers[0].reason, "GENERATION_UNOBSERVED");
    assert_eq!(status("after-undo").revision, "4");
}

/// Scaled from 3 to 1 with maxSurge 1 and maxUnavailable 0, with ReplicaSets of 1, 1 and 2 pods. Kubernetes' proportional
/// scaling deletes both pods of the new ReplicaSet, the largest, and later syncs start one again. A settled plan makes only
/// the net change and keeps that pod.
#[test]
fn scaling_down_leaves_one_available_pod_at_every_prefix() {
    use proto::step::Action;
    let message = request("scale-down-clamped").message();
    let parsed = wire::parse_snapshot(message.snapshot).unwrap();
    let settled = plan_settled(&parsed, Options::default());
    // Until the plan is executed, four pods exceed the new maximum of two.
    let mut violations = lint(&parsed, Options::default(), &settled);
    violations.retain(|violation| !violation.inherited);
    assert_eq!(violations, []);

    let scales: Vec<_> = plan("scale-down-clamped")
        .steps
        .into_iter()
        .filter_map(|step| match step.action {
            Some(Action::ScaleReplicaSet(scale)) => {
                Some((scale.name, scale.from_replicas, scale.to_replicas))
            }
            Some(Action::CreateReplicaSet(_)) => panic!("nothing is to be created"),
            _ => None,
        })
        .collect();
    assert_eq!(
        scales,
        [
            ("web-78767d77cc".to_owned(), 1, 0),
            ("web-757c798d4".to_owned(), 1, 0),
            ("web-7b4966cdf5".to_owned(), 2, 1)
        ]
    );
    let all: i32 = parsed
        .replica_sets
        .iter()
        .map(|set| set.status.available_replicas.min(set.replicas))
        .sum();
    let left: Vec<i32> = scales
        .iter()
        .scan(all, |left, (_, from, to)| {
            *left -= from - to;
            Some(*left)
        })
        .collect();
    assert_eq!((all, left), (4, vec![3, 2, 1]));
}
