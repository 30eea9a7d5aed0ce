//! Jobs, including deleted ones, and CronJobs.

use std::fs;

use serde_json::{Value, json};

use super::{alone, ended_job, object, pod, read, running_job};
use crate::cli::kubectl::{Answer, DOWN, Kubectl, OPTIONS, Poll, forbidden_text, poll};
use crate::cli::{NOW, Run};

#[test]
fn log_of_a_failed_job_is_printed() {
    let failed = ended_job("Failed", "BackoffLimitExceeded");
    let ended = json!({"terminated": {"exitCode": 3, "reason": "Error", "finishedAt": "2026-11-20T11:59:00Z"}});
    let status = json!({"phase": "Failed", "containerStatuses": [{"name": "db", "image": "db:1", "state": ended}]});
    let pod = pod(Some(&failed), "db-x", status);
    let polls = [read(failed, vec![pod])];
    let kubectl = Kubectl::new(&polls);
    fs::write(kubectl.file("log"), "no database\n").unwrap();
    let run = kubectl.watch(&["wait", "job/db", "-n", "shop", "--logs"]);
    assert_eq!((run.exit, run.err.as_str()), (1, ""), "{}", run.out);
    assert!(run.out.ends_with("  | no database\n"), "{}", run.out);
    let call = kubectl.calls().pop().unwrap();
    assert!(call.starts_with("logs db-x --container=db "), "{call}");
    // Standard output contains only JSON.
    let kubectl = Kubectl::new(&polls);
    fs::write(kubectl.file("log"), "no database\n").unwrap();
    let run = kubectl.watch(&["wait", "job/db", "-n", "shop", "--logs", "-o", "json"]);
    assert_eq!((run.exit, run.err.as_str()), (1, "note: no database\n"));
    for line in run.out.lines() {
        assert!(serde_json::from_str::<Value>(line).is_ok(), "{line}");
    }
}

/// A running Job that is deleted after it has finished.
fn expiring_job() -> Value {
    let mut job = running_job();
    job["spec"]["ttlSecondsAfterFinished"] = json!(0);
    job
}

/// The output of kubectl for a Job that does not exist.
fn absent() -> Poll {
    let text = "Error from server (NotFound): jobs.batch \"db\" not found\n";
    Poll {
        deployment: Answer::Err(text.to_owned()),
        ..poll(Vec::new())
    }
}

/// An event of the Job controller.
fn event(kind: &str, reason: &str, message: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": "e", "namespace": "shop"},
        "involvedObject": {"kind": "Job", "name": "db", "uid": "Job-db"},
        "type": kind, "reason": reason, "message": message, "count": 1,
        "firstTimestamp": "2026-11-20T11:59:59Z", "lastTimestamp": "2026-11-20T11:59:59Z",
        "source": {"component": "job-controller"},
    })
}

fn wait(kubectl: &Kubectl, more: &[&str]) -> Run {
    kubectl.watch(&[&["wait", "job/db", "-n", "shop"], more].concat())
}

/// The number of calls that read events about the Job.
fn end_calls(kubectl: &Kubectl) -> usize {
    let call =
        format!("get events --field-selector=involvedObject.uid=Job-db {OPTIONS} --namespace=shop");
    let calls = kubectl.calls().into_iter();
    calls.filter(|it| *it == call).count()
}

#[test]
fn job_deleted_after_its_end_is_judged_by_its_events() {
    let complete = event("Normal", "Completed", "Job completed");
    for job in [expiring_job(), running_job()] {
        let kubectl = Kubectl::new(&[alone(job), absent()]);
        kubectl.add_events(2, std::slice::from_ref(&complete));
        let run = wait(&kubectl, &[]);
        assert_eq!((run.exit, run.err.as_str()), (0, ""), "{}", run.out);
        let last = run.out.lines().last();
        let expected = "job \"db\" completed and was then deleted";
        assert_eq!(last, Some(expected));
        assert_eq!(end_calls(&kubectl), 1);
    }
    let kubectl = Kubectl::new(&[alone(expiring_job()), absent()]);
    let message = "Job has reached the specified backoff limit";
    kubectl.add_events(2, &[event("Warning", "BackoffLimitExceeded", message)]);
    let run = wait(&kubectl, &[]);
    assert_eq!((run.exit, run.err.as_str()), (1, ""), "{}", run.out);
    let expected =
        format!("job \"db\" failed and was then deleted: BackoffLimitExceeded: {message}\n");
    assert!(run.out.contains(&expected), "{}", run.out);
    // Messages have the phase that matches the exit code.
    let kubectl = Kubectl::new(&[alone(expiring_job()), absent()]);
    kubectl.add_events(2, &[complete]);
    let run = wait(&kubectl, &["-o", "json"]);
    let last: Value = serde_json::from_str(run.out.lines().last().unwrap()).unwrap();
    assert_eq!(
        (run.exit, &last["report"]["phase"]),
        (0, &json!("PHASE_COMPLETE"))
    );
}

#[test]
fn succeeded_job_is_complete_without_events() {
    let mut ending = ended_job("SuccessCriteriaMet", "CompletionsReached");
    ending["spec"]["ttlSecondsAfterFinished"] = json!(0);
    let kubectl = Kubectl::new(&[alone(ending), absent()]);
    let run = wait(&kubectl, &[]);
    assert_eq!((run.exit, run.err.as_str()), (0, ""), "{}", run.out);
}

#[test]
fn job_that_may_have_finished_is_undecided_without_events() {
    let expected = "error: deleted while waiting: Job db not found in namespace shop; its ttlSecondsAfterFinished is 0, so \
                    it may have finished, but no event shows whether it succeeded: ";
    let kubectl = Kubectl::new(&[alone(expiring_job()), absent()]);
    let junit = tempfile::NamedTempFile::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let report = format!("--report=junit={}", junit.path().display());
    let run = wait(&kubectl, &["--ci=github", &report]);
    assert_eq!(run.exit, 3, "{}", run.out);
    assert!(run.err.starts_with(expected), "{}", run.err);
    // The controller writes the event after the status, so events are polled.
    assert_eq!(end_calls(&kubectl), 4);
    assert!(
        run.out.contains("::warning title=Job shop/db%3A deleted::"),
        "{}",
        run.out
    );
    let junit = fs::read_to_string(junit.path()).unwrap();
    assert!(junit.contains("<failure type=\"DELETED\""), "{junit}");
    // A late event decides.
    let kubectl = Kubectl::new(&[alone(expiring_job()), absent()]);
    kubectl.add_events(4, &[event("Normal", "Completed", "Job completed")]);
    let run = wait(&kubectl, &[]);
    assert_eq!((run.exit, run.err.as_str()), (0, ""), "{}", run.out);
    assert_eq!(end_calls(&kubectl), 3);
    // Failed calls are repeated, too.
    let kubectl = Kubectl::new(&[alone(expiring_job()), absent()]);
    fs::write(kubectl.file("events.2.err"), DOWN).unwrap();
    kubectl.add_events(3, &[event("Normal", "Completed", "Job completed")]);
    let run = wait(&kubectl, &[]);
    assert_eq!((run.exit, run.err.lines().count()), (0, 1), "{}", run.err);
    assert!(run.err.starts_with("note: poll failed: "), "{}", run.err);
    // Without permission to read events, there is a note.
    let kubectl = Kubectl::new(&[alone(expiring_job()), absent()]);
    fs::write(kubectl.file("events.2.err"), forbidden_text("events")).unwrap();
    let run = wait(&kubectl, &[]);
    let notes: Vec<&str> = run.err.lines().collect();
    assert_eq!((run.exit, notes.len()), (3, 2), "{}", run.err);
    assert!(
        notes[0].starts_with("note: cannot read the events that would show how the Job ended: "),
        "{}",
        run.err
    );
}

#[test]
fn job_deleted_before_its_end_needs_a_change() {
    let expected = "error: deleted while waiting: Job db not found in namespace shop\n";
    let mut deleting = expiring_job();
    deleting["metadata"]["deletionTimestamp"] = json!("2026-11-20T11:59:59Z");
    // For a Job with a time to live, only if its deletion was observed before its end.
    for job in [running_job(), deleting] {
        let kubectl = Kubectl::new(&[alone(job), absent()]);
        let run = wait(&kubectl, &[]);
        assert_eq!((run.exit, run.err.as_str()), (1, expected), "{}", run.out);
        assert_eq!(end_calls(&kubectl), 4);
    }
}

#[test]
fn waiting_continues_for_others_while_a_deleted_job_is_undecided() {
    let polls = [
        alone(expiring_job()),
        alone(super::stateful_set(1)),
        absent(),
        alone(super::stateful_set(2)),
        absent(),
    ];
    let kubectl = Kubectl::new(&polls);
    let run = kubectl.watch(&["wait", "job/db", "sts/db", "-n", "shop"]);
    assert_eq!(run.exit, 3, "{}{}", run.out, run.err);
    assert_eq!(run.err.lines().count(), 1, "{}", run.err);
    assert!(
        run.err.starts_with("error: deleted while waiting: "),
        "{}",
        run.err
    );
    let last = run.out.lines().last().unwrap();
    let words: Vec<&str> = last.split_whitespace().take(3).collect();
    assert_eq!(words, ["StatefulSet", "shop/db", "complete"], "{}", run.out);
}

#[test]
fn expected_deletion_is_reported_as_a_state() {
    let kubectl = Kubectl::new(&[alone(running_job()), absent()]);
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let file = folder.path().join("summary.md");
    let report = format!("--report=markdown={}", file.display());
    let run = wait(&kubectl, &["--for=deleted", &report]);
    assert_eq!((run.exit, run.err.as_str()), (0, ""));
    assert!(run.out.ends_with("Job shop/db is deleted\n"), "{}", run.out);
    assert_eq!(end_calls(&kubectl), 0);
    let summary = fs::read_to_string(file).unwrap();
    assert!(
        summary.starts_with("### rollplan wait: 1 of 1 deleted\n")
            && summary.contains("\n| Job shop/db | deleted | "),
        "{summary}"
    );
}

/// A CronJob with a finished Job, a running one and others.
fn cron_job() -> (Value, Vec<Value>) {
    let spec = json!({"schedule": "@daily", "jobTemplate": {"spec": {"template": {"spec": {}}}}});
    let cron = object("batch/v1", "CronJob", "db", spec, json!({"active": [{}]}));
    let of = |name: &str, mut job: Value| {
        job["metadata"]["name"] = json!(name);
        job["metadata"]["uid"] = json!(name);
        job["metadata"]["ownerReferences"] = json!([{
            "apiVersion": "batch/v1", "kind": "CronJob", "name": "db", "uid": "CronJob-db", "controller": true,
        }]);
        job
    };
    let jobs = vec![
        of("db-1", ended_job("Failed", "BackoffLimitExceeded")),
        of("db-2", running_job()),
        running_job(),
    ];
    (cron, jobs)
}

#[test]
fn jobs_of_a_cron_job_are_shown_with_their_pods() {
    let (cron, jobs) = cron_job();
    let pod = pod(Some(&jobs[1]), "db-2-x", json!({"phase": "Running"}));
    let shown = |out: &str| {
        let tree = out.lines().skip_while(|line| !line.contains("Job db-"));
        let tree: Vec<String> = tree.map(str::to_owned).collect();
        assert_eq!(tree.len(), 3, "{out}");
        assert!(
            tree[0].contains("Job db-1  Failed, BackoffLimitExceeded  "),
            "{out}"
        );
        assert!(tree[1].contains("Job db-2  Running, 1 active  "), "{out}");
        assert!(tree[2].contains("db-2-x  Running, not ready  "), "{out}");
    };
    let kubectl = Kubectl::new(&[read(cron.clone(), vec![pod.clone()])]);
    let list = json!({"apiVersion": "v1", "kind": "List", "items": jobs});
    fs::write(kubectl.file("jobs.batch.1.out"), list.to_string()).unwrap();
    let run = kubectl.run(&["status", "cj/db", "-o", "wide", "--now", NOW]);
    assert_eq!((run.exit, run.err.as_str()), (0, ""), "{}", run.out);
    shown(&run.out);
    assert_eq!(
        kubectl.calls(),
        [
            format!("get cronjobs.batch db {OPTIONS}"),
            format!("get jobs.batch {OPTIONS}"),
            format!("get pods --selector=batch.kubernetes.io/job-name {OPTIONS}"),
        ]
    );
    // Other outputs do not need the Jobs.
    let kubectl = Kubectl::new(&[alone(cron.clone())]);
    assert_eq!(kubectl.run(&["status", "cj/db", "--now", NOW]).exit, 0);
    assert_eq!(kubectl.calls().len(), 1);
    // The same from a file.
    let all = [vec![cron.clone()], jobs, vec![pod]].concat();
    let list = json!({"apiVersion": "v1", "kind": "List", "items": all}).to_string();
    let args = ["status", "cj/db", "-f", "-", "-o", "wide", "--now", NOW];
    let run = crate::cli::rollplan(&args, &list);
    assert_eq!((run.exit, run.err.as_str()), (0, ""), "{}", run.out);
    shown(&run.out);
    // Without permission to list Jobs, none are shown.
    let kubectl = Kubectl::new(&[alone(cron)]);
    fs::write(
        kubectl.file("jobs.batch.1.err"),
        forbidden_text("jobs.batch"),
    )
    .unwrap();
    let run = kubectl.run(&["status", "cj/db", "-o", "wide", "--now", NOW]);
    assert_eq!(run.exit, 0);
    assert!(
        run.err.contains("the answer is computed without Jobs"),
        "{}",
        run.err
    );
}

#[test]
fn jobs_of_a_cron_job_have_no_status_of_their_own() {
    let (cron, jobs) = cron_job();
    let all = [vec![cron], jobs].concat();
    let list = json!({"apiVersion": "v1", "kind": "List", "items": all}).to_string();
    let args = ["status", "-f", "-", "-o", "name", "--now", NOW];
    let run = crate::cli::rollplan(&args, &list);
    assert_eq!(run.out, "cronjob.batch/db\njob.batch/db\n", "{}", run.err);
}
