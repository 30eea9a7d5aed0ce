//! Jobs: times of reports, hooks, and other controllers. `tests/stories/jobs.md` has their states.

use rollplan::proto::{Outlook, Phase};
use serde_json::{Value, json};

use super::{START, at, condition, container, job, no_image, object, pod, ready, report, request};

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
        let answer = rollplan::service::answer(ask).unwrap();
        assert_eq!(answer.report.unwrap().phase(), Phase::Complete, "{reason}");
        assert_eq!(answer.status.unwrap().replicas, 1);
    }
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
fn running_job_is_decided_at_its_deadline() {
    let running = job(
        json!({"activeDeadlineSeconds": 600}),
        json!({"startTime": at(0), "active": 1, "ready": 1}),
    );
    let verdict = report(60, &running, &[]).verdict.unwrap();
    assert_eq!(verdict.decided_after.unwrap().seconds, START + 600);
}

/// The failure was first reported now.
#[test]
fn failure_of_a_running_job_has_the_time_of_its_first_report() {
    let active = job(json!({}), json!({"startTime": at(0), "active": 1}));
    let pods = [pod("migrate-x", &active, "", "n", no_image())];
    let pending = report(20, &active, &pods).verdict.unwrap();
    assert_eq!(pending.since.unwrap().seconds, START + 20);
    assert!(pending.decided_after.is_some());
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
