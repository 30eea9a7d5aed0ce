//! Jobs and CronJobs: their conditions, their limits, and hooks.

use rollplan::proto::{Outlook, Phase};
use rollplan::wire;
use serde_json::{Value, json};

use super::{
    START, at, check, condition, container, job, no_image, object, pod, ready, report, request,
};

#[test]
fn conditions_decide_finished_jobs() {
    let done = job(
        json!({}),
        json!({"startTime": at(0), "succeeded": 1, "conditions": condition("Complete", "", "")}),
    );
    let message = "job \"migrate\" is complete (1 of 1 succeeded)";
    check(
        &report(60, &done, &[]),
        Phase::Complete,
        Outlook::Complete,
        true,
        "",
        message,
    );
    // Its time to live has passed: it keeps its result while it is being deleted.
    let mut deleted = done;
    deleted["metadata"]["deletionTimestamp"] = json!(at(70));
    deleted["spec"]["ttlSecondsAfterFinished"] = json!(0);
    check(
        &report(80, &deleted, &[]),
        Phase::Complete,
        Outlook::Complete,
        true,
        "",
        message,
    );
    // An unfinished Job that is being deleted.
    let mut deleted = job(json!({}), json!({"startTime": at(0), "active": 1}));
    deleted["metadata"]["deletionTimestamp"] = json!(at(70));
    let report = report(80, &deleted, &[]);
    check(
        &report,
        Phase::Deleting,
        Outlook::NeedsChange,
        true,
        "DELETING",
        "job \"migrate\" is being deleted",
    );
}

#[test]
fn job_with_a_decided_result_waits_for_its_pods() {
    let done = job(
        json!({}),
        json!({"startTime": at(0), "succeeded": 1, "terminating": 2,
        "conditions": condition("SuccessCriteriaMet", "CompletionsReached", "")}),
    );
    let message = "job \"migrate\" is ending (1 of 1 succeeded): it has succeeded (CompletionsReached) and is waiting for 2 \
                   pods to terminate";
    let report_done = report(60, &done, &[]);
    let message = message.replace(" (1 of 1 succeeded)", "");
    check(
        &report_done,
        Phase::Progressing,
        Outlook::CompletesByItself,
        false,
        "NOT_FINAL",
        &message,
    );
    let failed = job(
        json!({"backoffLimit": 2}),
        json!({"startTime": at(0), "failed": 3, "terminating": 1,
        "conditions": condition("FailureTarget", "BackoffLimitExceeded", "Job has reached the specified backoff limit")}),
    );
    let message = "job \"migrate\" fails: 3 pods failed, and backoffLimit 2 allows no more";
    check(
        &report(60, &failed, &[]),
        Phase::Stalled,
        Outlook::NeedsChange,
        true,
        "JOB_FAILED",
        message,
    );
}

#[test]
fn running_job_is_open_ended_and_a_failed_one_final() {
    let running = |active: i32| job(json!({}), json!({"startTime": at(0), "active": active}));
    let verdict = |job: &Value| report(60, job, &[]).verdict.unwrap();
    let found = verdict(&running(1));
    assert!(found.open_ended && !found.r#final, "{found:?}");
    assert!(found.event_selectors.is_empty(), "{found:?}");
    // Only events report why no pod exists.
    let found = verdict(&running(0));
    assert!(!found.open_ended, "{found:?}");
    assert_eq!(found.event_selectors, ["type=Warning"]);
    let failed = job(
        json!({}),
        json!({"startTime": at(0), "conditions": condition("Failed", "DeadlineExceeded", "")}),
    );
    let found = verdict(&failed);
    assert!(found.r#final && found.reported, "{found:?}");
    let suspended = verdict(&job(json!({"suspend": true}), json!({})));
    assert!(suspended.awaits_user && !suspended.r#final, "{suspended:?}");
}

#[test]
fn failed_job_names_the_rule_or_the_container() {
    let failed = job(
        json!({"backoffLimit": 0}),
        json!({"startTime": at(0), "failed": 1,
        "conditions": condition("Failed", "BackoffLimitExceeded", "Job has reached the specified backoff limit")}),
    );
    let ended = json!({"phase": "Failed", "containerStatuses": container(json!({"terminated":
        {"exitCode": 3, "reason": "Error", "message": "no such table\n", "finishedAt": at(40)}}))});
    let pods = [pod("migrate-x", &failed, "", "n", ended)];
    let report_failed = report(60, &failed, &pods);
    let message = "job \"migrate\" has failed: 1 pod failed, and backoffLimit 0 allows no more; last failure: pod migrate-x, \
                   container web: Error, exit code 3: no such table";
    check(
        &report_failed,
        Phase::Stalled,
        Outlook::NeedsChange,
        true,
        "JOB_FAILED",
        message,
    );
    let remedy = "read its log: kubectl logs migrate-x -n shop -c web";
    assert_eq!(report_failed.verdict.unwrap().remedy, remedy);
    let by_policy = "Container web for pod shop/migrate-x failed with exit code 3 matching FailJob rule at index 0";
    let failed = job(
        json!({}),
        json!({"startTime": at(0), "conditions": condition("Failed", "PodFailurePolicy", by_policy)}),
    );
    let message = format!("job \"migrate\" has failed: its podFailurePolicy ends it: {by_policy}");
    check(
        &report(60, &failed, &[]),
        Phase::Stalled,
        Outlook::NeedsChange,
        true,
        "JOB_FAILED",
        &message,
    );
}

#[test]
fn suspended_job_needs_a_change_unless_it_is_queued() {
    let mut suspended = job(
        json!({"suspend": true}),
        json!({"conditions": condition("Suspended", "JobSuspended", "")}),
    );
    let report_suspended = report(60, &suspended, &[]);
    let message = "job \"migrate\" is suspended: spec.suspend is true, so it creates no pods";
    check(
        &report_suspended,
        Phase::Paused,
        Outlook::NeedsChange,
        true,
        "PAUSED",
        message,
    );
    let remedy = "kubectl patch job/migrate -n shop -p '{\"spec\":{\"suspend\":false}}'";
    assert_eq!(report_suspended.verdict.unwrap().remedy, remedy);
    let owned_by = |kind: &str| {
        let mut owned = suspended.clone();
        let owner = json!([{"apiVersion": "x/v1", "kind": kind, "name": "train", "uid": "u", "controller": true}]);
        owned["metadata"]["ownerReferences"] = owner;
        report(60, &owned, &[]).verdict.unwrap()
    };
    assert_eq!(owned_by("CronJob").outlook(), Outlook::NeedsChange);
    let by_owner = owned_by("JobSet");
    assert_eq!(
        (by_owner.outlook(), &*by_owner.remedy),
        (Outlook::Undecided, "")
    );
    assert!(
        by_owner
            .message
            .ends_with("; its owner JobSet train resumes it")
    );
    suspended["metadata"]["labels"] = json!({"kueue.x-k8s.io/queue-name": "batch"});
    let verdict = report(60, &suspended, &[]).verdict.unwrap();
    assert_eq!(
        (verdict.outlook(), verdict.certain),
        (Outlook::Undecided, false)
    );
}

#[test]
fn running_job_fails_for_missing_images_but_not_for_crashes() {
    let running = job(
        json!({"activeDeadlineSeconds": 600}),
        json!({"startTime": at(0), "active": 1, "ready": 1}),
    );
    let report_running = report(60, &running, &[]);
    let message =
        "job \"migrate\" is running (0 of 1 succeeded, 1 active): 1 pod is running, started 1m ago";
    check(
        &report_running,
        Phase::Progressing,
        Outlook::Undecided,
        false,
        "RUNNING",
        message,
    );
    assert_eq!(
        report_running
            .verdict
            .unwrap()
            .decided_after
            .unwrap()
            .seconds,
        START + 600
    );
    let crashing = json!({"phase": "Running", "containerStatuses": [{"name": "web", "restartCount": 9,
        "state": {"waiting": {"reason": "CrashLoopBackOff"}},
        "lastState": {"terminated": {"exitCode": 1, "reason": "Error", "finishedAt": at(3000)}}}]});
    let active = job(json!({}), json!({"startTime": at(0), "active": 1}));
    let verdict = report(
        6000,
        &active,
        &[pod("migrate-x", &active, "", "n", crashing)],
    )
    .verdict
    .unwrap();
    assert_eq!(
        (verdict.outlook(), &*verdict.reason),
        (Outlook::Undecided, "CRASH_LOOP")
    );
    let report_stuck = report(
        6000,
        &active,
        &[pod("migrate-x", &active, "", "n", no_image())],
    );
    assert_eq!(report_stuck.phase(), Phase::Stalled);
    assert_eq!(report_stuck.verdict.unwrap().reason, "IMAGE_PULL");
}

/// A Job that Helm runs before the Deployment of the same chart. Its pods have the labels that the Deployment selects.
#[test]
fn hook_job_is_independent_of_the_deployment() {
    let deployment = object(
        "apps/v1",
        "Deployment",
        "web",
        json!({"replicas": 1, "selector": {"matchLabels": {"app": "web"}},
               "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "web"}]}}}),
        json!({"observedGeneration": 1, "replicas": 1, "updatedReplicas": 1, "readyReplicas": 1, "availableReplicas": 1}),
    );
    let mut set = object(
        "apps/v1",
        "ReplicaSet",
        "web-1",
        json!({"replicas": 1, "selector": {"matchLabels": {"app": "web", "pod-template-hash": "1"}},
               "template": {"metadata": {"labels": {"app": "web", "pod-template-hash": "1"}},
                            "spec": {"containers": [{"name": "web"}]}}}),
        json!({"observedGeneration": 1, "replicas": 1, "readyReplicas": 1, "availableReplicas": 1}),
    );
    set["metadata"]["labels"] = json!({"app": "web", "pod-template-hash": "1"});
    set["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "web-uid", "controller": true,
    }]);
    let hook = |status: Value| {
        let template =
            json!({"metadata": {"labels": {"app": "web"}}, "spec": {"restartPolicy": "Never"}});
        let mut job = job(json!({"backoffLimit": 0, "template": template}), status);
        job["metadata"]["annotations"] = json!({
            "helm.sh/hook": "pre-install,pre-upgrade", "helm.sh/hook-weight": "-5",
            "helm.sh/hook-delete-policy": "before-hook-creation",
        });
        job
    };
    let of = |job: &Value, status: Value| {
        let mut pod = pod("migrate-x", job, "", "n", status);
        pod["metadata"]["labels"] =
            json!({"app": "web", "batch.kubernetes.io/job-name": "migrate"});
        pod
    };
    let failed = json!({"phase": "Failed", "containerStatuses": container(json!({"terminated":
        {"exitCode": 3, "reason": "Error", "finishedAt": at(40)}}))});
    let conditions = |kind, reason| condition(kind, reason, "");
    for (status, pod_status, phase, outlook, reason) in [
        (
            json!({"startTime": at(0), "active": 1}),
            no_image(),
            Phase::Stalled,
            Outlook::NeedsChange,
            "IMAGE_PULL",
        ),
        (
            json!({"startTime": at(0), "active": 1, "ready": 1}),
            ready(),
            Phase::Progressing,
            Outlook::Undecided,
            "RUNNING",
        ),
        (
            json!({"startTime": at(0), "failed": 1, "conditions": conditions("Failed", "BackoffLimitExceeded")}),
            failed,
            Phase::Stalled,
            Outlook::NeedsChange,
            "JOB_FAILED",
        ),
        (
            json!({"startTime": at(0), "succeeded": 1, "conditions": conditions("Complete", "CompletionsReached")}),
            json!({"phase": "Succeeded"}),
            Phase::Complete,
            Outlook::Complete,
            "",
        ),
    ] {
        let job = hook(status);
        let pod = of(&job, pod_status);
        let found = report(6000, &job, &[deployment.clone(), set.clone(), pod.clone()]);
        let verdict = found.verdict.unwrap();
        assert_eq!(
            (found.phase, verdict.outlook(), &*verdict.reason),
            (phase.into(), outlook, reason)
        );
        // The Deployment is complete, regardless of the Job.
        let mut ask = request(6000, &deployment, &[set.clone(), job, pod]);
        ask.snapshot.as_mut().unwrap().replica_sets_complete = true;
        let answer = wire::compute_status(ask).unwrap();
        assert_eq!(answer.report.unwrap().phase(), Phase::Complete, "{reason}");
        assert_eq!(answer.status.unwrap().replicas, 1);
    }
}

#[test]
fn cron_job_is_complete_and_reports_its_last_run() {
    let of = |spec, status| {
        report(
            3600,
            &object("batch/v1", "CronJob", "backup", spec, status),
            &[],
        )
    };
    let status = json!({"lastScheduleTime": at(0), "lastSuccessfulTime": at(60)});
    let message = "cronjob \"backup\" is scheduled (last scheduled 1h ago, last success 59m ago)";
    check(
        &of(json!({}), status.clone()),
        Phase::Complete,
        Outlook::Complete,
        true,
        "",
        message,
    );
    let message = "cronjob \"backup\" is suspended and schedules no Jobs (last scheduled 1h ago, last success 59m ago)";
    check(
        &of(json!({"suspend": true}), status),
        Phase::Complete,
        Outlook::Complete,
        true,
        "",
        message,
    );
}

#[test]
fn job_may_name_the_controller_of_kubernetes() {
    let of = |spec: Value| report(60, &job(spec, json!({})), &[]);
    let unnamed = of(json!({"suspend": true}));
    let kubernetes = "kubernetes.io/job-controller";
    assert_eq!(
        of(json!({"suspend": true, "managedBy": kubernetes})),
        unnamed
    );
    assert_ne!(
        of(json!({"suspend": true, "managedBy": "example.com/queue"})),
        unnamed
    );
}

#[test]
fn job_without_pods_is_waiting_for_its_first() {
    let new = job(json!({}), json!({"startTime": at(0)}));
    check(
        &report(60, &new, &[]),
        Phase::Progressing,
        Outlook::Undecided,
        false,
        "RUNNING",
        "job \"migrate\" is running (0 of 1 succeeded, 0 active): no pod exists yet, started 1m ago",
    );
}

/// Pods of a Job need not be ready, and their containers may have ended successfully.
#[test]
fn unready_pods_of_a_job_are_running() {
    let active = job(json!({}), json!({"startTime": at(0), "active": 1}));
    let unready = pod("migrate-x", &active, "", "n", super::running());
    let found = report(60, &active, &[unready]);
    assert_eq!(found.verdict.unwrap().reason, "RUNNING");
}

#[test]
fn failed_job_explains_each_reason() {
    for (spec, reason, message, expected) in [
        (
            json!({"activeDeadlineSeconds": 600}),
            "DeadlineExceeded",
            "Job was active longer than specified deadline",
            "it ran longer than activeDeadlineSeconds (10m)",
        ),
        (
            json!({}),
            "DeadlineExceeded",
            "Job was active longer than specified deadline",
            "it ran too long: Job was active longer than specified deadline",
        ),
        (json!({}), "", "no reason", "it has failed: no reason"),
        (
            json!({"completionMode": "Indexed"}),
            "MaxFailedIndexesExceeded",
            "too many",
            "MaxFailedIndexesExceeded: too many",
        ),
        (
            json!({"backoffLimit": 1, "template": {"spec": {"restartPolicy": "OnFailure"}}}),
            "BackoffLimitExceeded",
            "Job has reached the specified backoff limit",
            "its containers failed as often as backoffLimit 1 allows",
        ),
        (
            json!({"backoffLimit": 2, "template": {"spec": {"restartPolicy": "Never"}}}),
            "BackoffLimitExceeded",
            "Job has reached the specified backoff limit",
            "its pods failed more often than backoffLimit 2 allows",
        ),
    ] {
        let failed = job(
            spec,
            json!({"startTime": at(0), "conditions": condition("Failed", reason, message)}),
        );
        let found = report(60, &failed, &[]).message;
        assert_eq!(found, format!("job \"migrate\" has failed: {expected}"));
    }
}

#[test]
fn failed_job_names_the_pod_that_failed_last() {
    let failed = job(
        json!({"backoffLimit": 2}),
        json!({"startTime": at(0), "failed": 3, "conditions": condition("Failed", "BackoffLimitExceeded", "")}),
    );
    let ended = |name: &str, seconds: i64| {
        let state =
            json!({"terminated": {"exitCode": 3, "reason": "Error", "finishedAt": at(seconds)}});
        let mut status = json!({"phase": "Failed", "containerStatuses": container(state)});
        // A container that has succeeded is not the cause.
        let done =
            json!({"name": "done", "state": {"terminated": {"exitCode": 0, "finishedAt": at(50)}}});
        let statuses = status["containerStatuses"].as_array_mut();
        statuses.unwrap().insert(0, done);
        pod(name, &failed, "", "n", status)
    };
    let pods = [
        ended("migrate-a", 20),
        ended("migrate-b", 40),
        ended("migrate-c", 30),
    ];
    let blocker = report(60, &failed, &pods).blockers.remove(0);
    let names: Vec<_> = blocker.pods.iter().map(|pod| &*pod.name).collect();
    assert_eq!(names, ["migrate-b", "migrate-c", "migrate-a"]);
    assert_eq!(blocker.pods[0].container, "web");
}

#[test]
fn refused_pods_of_a_job_are_reported_until_one_has_succeeded() {
    let of = |succeeded: i64| {
        let status = json!({"startTime": at(0), "active": 0, "succeeded": succeeded});
        let running = job(json!({"completions": 3, "parallelism": 1}), status);
        let refused = super::warning("migrate-uid", "FailedCreate", "exceeded quota: q", 0, 50);
        report(60, &running, &[refused]).blockers.remove(0).reason
    };
    assert_eq!((&*of(0), &*of(1)), ("PODS_REFUSED", "RUNNING"));
}

#[test]
fn refused_pods_of_a_job_are_reported_only_while_pods_are_missing() {
    let of = |active: i64, parallelism: i64| {
        let status = json!({"startTime": at(0), "active": active});
        let running = job(
            json!({"completions": 2, "parallelism": parallelism}),
            status,
        );
        let refused = super::warning("migrate-uid", "FailedCreate", "exceeded quota: q", 0, 50);
        report(60, &running, &[refused]).blockers.remove(0).reason
    };
    assert_eq!((&*of(1, 2), &*of(1, 1)), ("PODS_REFUSED", "RUNNING"));
}

/// What other pods have overcome may be a problem of a node.
#[test]
fn job_does_not_fail_while_a_pod_is_ready_or_has_succeeded() {
    let of = |now: i64, ready: i64, succeeded: i64| {
        let status =
            json!({"startTime": at(0), "active": 1, "ready": ready, "succeeded": succeeded});
        let active = job(json!({"completions": 2}), status);
        report(
            now,
            &active,
            &[pod("migrate-x", &active, "", "n", no_image())],
        )
    };
    let stalled = of(6000, 0, 0);
    assert_eq!(stalled.phase(), Phase::Stalled);
    assert!(
        stalled
            .message
            .starts_with("job \"migrate\" is stalled (0 of 2 succeeded, 1 active)"),
        "{}",
        stalled.message
    );
    assert_eq!(of(6000, 1, 0).phase(), Phase::Progressing);
    assert_eq!(of(6000, 0, 1).phase(), Phase::Progressing);
    // It was first reported now.
    let pending = of(20, 0, 0).verdict.unwrap();
    assert_eq!(pending.since.unwrap().seconds, START + 20);
    assert!(pending.decided_after.is_some());
}

#[test]
fn running_job_counts_its_failed_pods() {
    let status = json!({"startTime": at(0), "active": 1, "failed": 2, "ready": 1});
    let found = report(60, &job(json!({}), status), &[]);
    assert_eq!(
        found.blockers[0].message,
        "1 pod is running, started 1m ago; 2 pods failed, backoffLimit is 6"
    );
    let names: Vec<&str> = found.counters.iter().map(|it| &*it.name).collect();
    assert!(
        names.contains(&"active") && names.contains(&"failed"),
        "{names:?}"
    );
}
