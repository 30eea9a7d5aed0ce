//! Jobs: finished once they have the condition Complete or Failed. Until then, the limits of the Job decide how often a
//! pod may fail, so crashes are never certain failures.

use std::cmp::Reverse;

use rollplan_core::snapshot::Pod;
use rollplan_core::time::{Span, Time};

use super::Condition;
use super::observed::{ObservedObject, counters, explained, phase_of};
use crate::explain::deletion;
use crate::explain::pods::Explanation;
use crate::explain::{BlockedPod, Blocker, Cause};
use crate::judge::failure::Group;
use crate::judge::verdict::{Outlook, Verdict};
use crate::report::{Counter, Phase, Report};
use crate::text::{KUBERNETES_MAX, PROGRAM_MAX, agree, because, count, one_line, word};

/// The default of `spec.backoffLimit`.
const BACKOFF_LIMIT: i32 = 6;
/// The longest time between the failure of a pod and the next pod, in seconds (MaxJobPodFailureBackOff in
/// pkg/controller/job/job_controller.go of Kubernetes).
const BACK_OFF_MAX_SECONDS: i64 = 600;

/// The fields of a Job that a report uses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Job {
    /// `spec.suspend`.
    pub is_suspended: bool,
    /// `spec.parallelism`.
    pub parallelism: i32,
    /// `spec.completions`. `None` for a Job with a work queue.
    pub completions: Option<i32>,
    /// `spec.backoffLimit`.
    pub backoff_limit: Option<i32>,
    /// `spec.backoffLimitPerIndex`.
    pub backoff_limit_per_index: Option<i32>,
    /// `spec.maxFailedIndexes`.
    pub max_failed_indexes: Option<i32>,
    /// Whether it has `spec.successPolicy`.
    pub has_success_policy: bool,
    /// Whether `spec.podReplacementPolicy` is Failed.
    pub replaces_only_failed_pods: bool,
    /// Whether the `restartPolicy` of its pods is OnFailure.
    pub restarts_containers: bool,
    /// `spec.activeDeadlineSeconds`.
    pub active_deadline_seconds: Option<i64>,
    /// `spec.ttlSecondsAfterFinished`.
    pub ttl_seconds: Option<i32>,
    /// `spec.managedBy`. Empty for the controller of Kubernetes.
    pub managed_by: String,
    /// `status.startTime`.
    pub start_time: Option<Time>,
    /// `status.active`.
    pub active: i32,
    /// `status.ready`.
    pub ready: i32,
    /// `status.terminating`.
    pub terminating: i32,
    /// `status.succeeded`.
    pub succeeded: i32,
    /// `status.failed`.
    pub failed: i32,
    /// `status.failedIndexes`.
    pub failed_indexes: String,
}

impl Job {
    /// The number of pods that must succeed. With a work queue, one is enough.
    fn wanted(&self) -> i32 {
        self.completions.unwrap_or(1)
    }

    fn backoff_limit(&self) -> i32 {
        self.backoff_limit.unwrap_or(BACKOFF_LIMIT)
    }

    /// How often pods may fail.
    fn limit(&self) -> String {
        match self.backoff_limit_per_index {
            Some(limit) => format!("backoffLimitPerIndex is {limit}"),
            None => format!("backoffLimit is {}", self.backoff_limit()),
        }
    }

    fn counters(&self) -> Vec<Counter> {
        counters([
            ("completions", self.wanted()),
            ("parallelism", self.parallelism),
            ("active", self.active),
            ("ready", self.ready),
            ("succeeded", self.succeeded),
            ("failed", self.failed),
            ("terminating", self.terminating),
        ])
    }
}

pub(super) fn report(job: &Job, object: &ObservedObject<'_>) -> Report {
    let rows = job.counters();
    if object.true_condition("Complete").is_some() {
        let what = format!(
            "is complete ({} of {} succeeded)",
            job.succeeded,
            job.wanted()
        );
        return object.complete(&what, rows);
    }
    if let Some(condition) = object.true_condition("Failed") {
        return object.failed("has failed", failure(job, condition, object), rows);
    }
    // The Job will fail: the controller waits for the last pods to terminate.
    if let Some(condition) = object.true_condition("FailureTarget") {
        return object.failed("fails", failure(job, condition, object), rows);
    }
    if let Some(condition) = object.true_condition("SuccessCriteriaMet") {
        let number = i64::from(job.terminating.max(job.active));
        let (progress, remedy) = overdue(object);
        let message = format!(
            "it has succeeded{} and is waiting for {} to terminate{progress}",
            explained(condition),
            count(number, "pod")
        );
        let blocker = Blocker::new(Cause::NotFinal, message, remedy);
        // A pod on a lost node may never terminate.
        let outlook = if blocker.remedy.is_empty() {
            Outlook::CompletesByItself
        } else {
            Outlook::Undecided
        };
        let verdict = Verdict::new(outlook, false, Some(&blocker));
        return object.report(
            Phase::Progressing,
            "is ending",
            vec![blocker],
            verdict,
            rows,
        );
    }
    if job.is_suspended {
        return suspended(job, object);
    }
    if job.start_time.is_none() {
        let by = match job.managed_by.as_str() {
            "" => "the Job controller".to_owned(),
            other => one_line(other, KUBERNETES_MAX),
        };
        let message = format!("{by} has not started it yet");
        let blocker = Blocker::new(Cause::GenerationUnobserved, message, "");
        return object.open(Phase::Progressing, "is waiting", blocker);
    }
    running(job, object)
}

fn suspended(job: &Job, object: &ObservedObject<'_>) -> Report {
    let resumed_by = match job.managed_by.as_str() {
        "" => object.resumed_by(),
        by => Some(format!("{} resumes it", one_line(by, KUBERNETES_MAX))),
    };
    let since = object
        .true_condition("Suspended")
        .and_then(|condition| condition.last_transition_time);
    let message = "spec.suspend is true, so it creates no pods";
    let (message, remedy) = match &resumed_by {
        Some(by) => (format!("{message}; {by}"), String::new()),
        None => {
            let patch = format!(
                "kubectl patch {}{} -p '{{\"spec\":{{\"suspend\":false}}}}'",
                object.resource(),
                object.in_namespace()
            );
            (message.to_owned(), patch)
        }
    };
    let mut blocker = Blocker::new(Cause::Paused, message, remedy);
    blocker.since = since;
    let verdict = match resumed_by {
        Some(_) => Verdict::new(Outlook::Undecided, false, Some(&blocker)),
        None => Verdict::new(Outlook::NeedsChange, true, Some(&blocker)),
    };
    object.report(
        Phase::Paused,
        "is suspended",
        vec![blocker],
        verdict,
        job.counters(),
    )
}

fn running(job: &Job, object: &ObservedObject<'_>) -> Report {
    let pods = object.snapshot.pods.iter().filter(|pod| !has_ended(pod));
    let mut explanations = object.context.explain_all(pods);
    explanations.retain(|explanation| !is_running_well(explanation));
    for explanation in &mut explanations {
        // The limits of the Job decide how often a pod may fail.
        if explanation
            .class
            .is_some_and(|class| class.counts_restarts())
        {
            explanation.class = None;
        }
    }
    let mut blockers = object
        .context
        .blockers(&explanations, i64::from(job.active.max(1)));
    let is_missing =
        job.active == 0 || i64::from(job.active) < i64::from(job.parallelism.min(job.wanted()));
    if is_missing && job.succeeded == 0 {
        blockers.extend(object.pods_refused());
    }
    let mut failures = failures(object);
    failures.retain(|explanation| explanation.cause == Cause::PodFailed);
    blockers.extend(failed_indexes(job, &failures, object));
    if blockers.is_empty() {
        blockers.push(awaits_pod(job, &failures, object));
    }
    blockers.sort_by_key(|blocker| blocker.cause);
    let group = Group {
        existing: job.active.into(),
        has_ready: job.ready > 0 || job.succeeded > 0,
        makes_room: object.pods_terminate(),
    };
    let mut verdict = object.judge(&blockers, &explanations, &group);
    if verdict.outlook == Outlook::CompletesByItself {
        // How long the pods of a Job run is unknown.
        verdict.outlook = Outlook::Undecided;
    }
    let deadline = job.start_time.zip(job.active_deadline_seconds);
    let deadline = deadline.map(|(start, seconds)| start.plus_seconds(seconds.max(0)));
    if !verdict.is_certain {
        verdict.decided_after = [verdict.decided_after, deadline]
            .into_iter()
            .flatten()
            .min();
    }
    let phase = phase_of(&verdict, Phase::Progressing);
    let state = match phase {
        Phase::Stalled => "is stalled",
        _ => "is running",
    };
    let failed = match job.failed {
        0 => String::new(),
        number => format!(", {number} failed"),
    };
    let what = format!(
        "{state} ({} of {} succeeded, {} active{failed})",
        job.succeeded,
        job.wanted(),
        job.active
    );
    let mut report = object.report(phase, what, blockers, verdict, job.counters());
    report.deadline = deadline;
    report
}

fn has_ended(pod: &Pod) -> bool {
    matches!(pod.phase.as_str(), "Failed" | "Succeeded")
}

/// Whether a pod is as it should be: the containers of a Job need not be ready.
fn is_running_well(explanation: &Explanation<'_>) -> bool {
    match explanation.cause {
        Cause::NotReady => explanation.container.is_some(),
        cause => cause == Cause::MinReadySeconds,
    }
}

/// The pods that have failed or keep crashing, the last one first.
fn failures<'a>(object: &ObservedObject<'a>) -> Vec<Explanation<'a>> {
    let pods = object.snapshot.pods.iter();
    let pods = pods.filter(|pod| pod.phase != "Succeeded");
    let explanations = pods.filter_map(|pod| object.context.explain(pod));
    let mut failures: Vec<_> = explanations
        .filter(|explanation| matches!(explanation.cause, Cause::PodFailed | Cause::CrashLoop))
        .collect();
    failures.sort_by(|a, b| {
        let key = |it: &Explanation<'_>| (Reverse(it.blocked.since), it.blocked.name.clone());
        key(a).cmp(&key(b))
    });
    failures
}

/// The last failure in a message, for example "; last failure: pod web-x, container web: Error, exit code 3".
fn last_failure(failures: &[Explanation<'_>]) -> String {
    let Some(last) = failures.first() else {
        return String::new();
    };
    let BlockedPod {
        name,
        container,
        reason,
        message,
        ..
    } = &last.blocked;
    if container.is_empty() {
        format!("; last failure: pod {name}: {reason}{}", because(message))
    } else {
        format!("; last failure: pod {name}, container {container}: {message}")
    }
}

fn with_failures(
    cause: Cause,
    message: &str,
    failures: &[Explanation<'_>],
    object: &ObservedObject<'_>,
) -> Blocker {
    let remedy = failures.first().map(|last| object.context.remedy(last));
    let message = format!("{message}{}", last_failure(failures));
    let pods = failures
        .iter()
        .map(|explanation| explanation.blocked.clone());
    Blocker::new(cause, message, remedy.unwrap_or_default()).with_pods(pods.collect())
}

/// The blocker if indexes have failed. The Job fails when the others have ended (syncJob in
/// pkg/controller/job/job_controller.go of Kubernetes).
fn failed_indexes(
    job: &Job,
    failures: &[Explanation<'_>],
    object: &ObservedObject<'_>,
) -> Option<Blocker> {
    let indexes = one_line(&job.failed_indexes, PROGRAM_MAX);
    if indexes.is_empty() {
        return None;
    }
    let failed = if indexes.contains([',', '-']) {
        format!("indexes {indexes} have failed")
    } else {
        format!("index {indexes} has failed")
    };
    let early = job.max_failed_indexes.map_or_else(String::new, |limit| {
        format!(", at the latest when more than {limit} have failed")
    });
    let unless = if job.has_success_policy {
        ", unless its successPolicy is met first"
    } else {
        ""
    };
    let limit = job.limit();
    let message = format!(
        "{failed} ({limit}); the other indexes continue, and then the Job fails{early}{unless}"
    );
    Some(with_failures(Cause::Running, &message, failures, object))
}

/// The blocker if nothing is wrong with the pods that exist.
fn awaits_pod(job: &Job, failures: &[Explanation<'_>], object: &ObservedObject<'_>) -> Blocker {
    let active = i64::from(job.active);
    let failed = i64::from(job.failed).max(i64::try_from(failures.len()).unwrap_or(i64::MAX));
    let failed_text = format!("{} failed, {}", count(failed, "pod"), job.limit());
    let (progress, remedy) = overdue(object);
    let started = job.start_time.map_or_else(String::new, |start| {
        format!(", started {} ago", object.now().since(start))
    });
    let terminating = object.snapshot.pods.iter();
    let terminating = terminating
        .filter(|pod| pod.metadata.deletion_timestamp.is_some() && !has_ended(pod))
        .count();
    let terminating =
        i64::from(job.terminating).max(i64::try_from(terminating).unwrap_or(i64::MAX));
    let is_held = job.replaces_only_failed_pods && terminating > 0;
    let mut blocker = match (active, failed) {
        _ if is_held && (active == 0 || !remedy.is_empty()) => {
            let message = format!(
                "{} must terminate before the Job controller creates another one (podReplacementPolicy Failed){progress}",
                count(terminating, "pod")
            );
            Blocker::new(Cause::Running, message, remedy)
        }
        (0, _) if job.succeeded >= job.wanted() => {
            let message =
                "its pods have succeeded, and the Job controller has not completed it yet";
            Blocker::new(Cause::Running, message.to_owned(), "")
        }
        (0, 0) => {
            let message = format!("no pod exists yet{started}");
            Blocker::new(Cause::Running, message, "")
        }
        (0, _) => {
            let back_off = Span::from_seconds(BACK_OFF_MAX_SECONDS);
            let message = format!(
                "{failed_text}; the Job controller creates the next pod after a back-off of at most {back_off}"
            );
            with_failures(Cause::Running, &message, failures, object)
        }
        (_, 0) => {
            let message = format!("{} running{started}", agree(count(active, "pod"), active));
            Blocker::new(Cause::Running, message, "")
        }
        _ => {
            let are = agree(count(active, "pod"), active);
            let message = format!("{are} running{started}; {failed_text}");
            with_failures(Cause::Running, &message, failures, object)
        }
    };
    blocker.since = job.start_time;
    blocker
}

/// The pod that should have terminated first, in a message, and a remedy. Empty if there is none.
fn overdue(object: &ObservedObject<'_>) -> (String, String) {
    let now = object.now();
    let due = |pod: &&Pod| pod.metadata.deletion_timestamp.filter(|due| *due <= now);
    let pods = object.snapshot.pods.iter().filter(|pod| !has_ended(pod));
    let Some(pod) = pods.filter(|pod| due(pod).is_some()).min_by_key(due) else {
        return Default::default();
    };
    let node = word(&pod.node_name);
    (
        format!(
            ": {} {}",
            pod.metadata.name,
            deletion::pod_progress(pod, now)
        ),
        format!(
            "check what delays it: a container that does not stop, or its node: kubectl describe node {node}"
        ),
    )
}

/// The cause of a failed Job: its condition, and the pod that failed last.
fn failure(job: &Job, condition: &Condition, object: &ObservedObject<'_>) -> Blocker {
    let why = because(&one_line(&condition.message, KUBERNETES_MAX));
    let reason = one_line(&condition.reason, KUBERNETES_MAX);
    let limit = job.backoff_limit();
    let text = match condition.reason.as_str() {
        "BackoffLimitExceeded" if job.failed > limit => format!(
            "{} failed, and backoffLimit {limit} allows no more",
            count(job.failed.into(), "pod")
        ),
        // The restarts of running pods count as well (pastBackoffLimitOnFailure in pkg/controller/job/job_controller.go).
        "BackoffLimitExceeded" if job.restarts_containers => {
            format!("its containers failed as often as backoffLimit {limit} allows")
        }
        "BackoffLimitExceeded" => {
            format!("its pods failed more often than backoffLimit {limit} allows")
        }
        "DeadlineExceeded" => match job.active_deadline_seconds {
            Some(seconds) => {
                let span = Span::from_seconds(seconds);
                format!("it ran longer than activeDeadlineSeconds ({span})")
            }
            None => format!("it ran too long{why}"),
        },
        "PodFailurePolicy" => format!("its podFailurePolicy ends it{why}"),
        "" => format!("it has failed{why}"),
        _ => format!("{reason}{why}"),
    };
    let indexes = match job.failed_indexes.as_str() {
        "" => String::new(),
        indexes => format!(" (failed indexes: {})", one_line(indexes, PROGRAM_MAX)),
    };
    let text = format!("{text}{indexes}");
    let failures = failures(object);
    let mut blocker = with_failures(Cause::JobFailed, &text, &failures, object);
    if failures.is_empty() {
        // The pods that a deadline ends may never have started.
        let pods = object.snapshot.pods.iter().filter(|pod| !has_ended(pod));
        let mut explanations: Vec<_> = pods.filter_map(|pod| object.context.explain(pod)).collect();
        explanations.retain(|explanation| !is_running_well(explanation));
        let size = i64::try_from(explanations.len()).unwrap_or(i64::MAX);
        match object
            .context
            .blockers(&explanations, size)
            .into_iter()
            .next()
        {
            Some(cause) => {
                blocker.message = format!("{}; {}", blocker.message, cause.message);
                blocker.remedy = cause.remedy;
            }
            None => {
                let job = object.resource();
                blocker.remedy = format!("kubectl logs {job}{}", object.in_namespace());
            }
        }
    }
    blocker.since = condition.last_transition_time;
    blocker
}
