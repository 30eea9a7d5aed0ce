//! Jobs: finished once they have the condition Complete or Failed. Until then, the limits of the Job decide how often a
//! pod may fail, so crashes are never certain failures.

use super::Condition;
use super::scene::{Scene, counters, explained, phase_of};
use crate::diagnosis::failure::Group;
use crate::diagnosis::pods::Finding;
use crate::diagnosis::text::{KUBERNETES_MAX, agree, because, count, last_line, one_line, word};
use crate::diagnosis::{BlockedPod, Blocker, Cause, Log};
use crate::report::verdict::{Outlook, Verdict};
use crate::report::{Counter, Phase, Report};
use rollplan_core::snapshot::{ContainerState, Pod};
use rollplan_core::time::{Span, Time};

/// The label of Jobs that Kueue admits and resumes.
const QUEUE_LABEL: &str = "kueue.x-k8s.io/queue-name";

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
}

impl Job {
    /// The number of pods that must succeed. With a work queue, one is enough.
    fn wanted(&self) -> i32 {
        self.completions.unwrap_or(1)
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

pub(super) fn report(job: &Job, scene: &Scene<'_>) -> Report {
    let rows = job.counters();
    if scene.true_condition("Complete").is_some() {
        let what = format!(
            "is complete ({} of {} succeeded)",
            job.succeeded,
            job.wanted()
        );
        return scene.complete(&what, rows);
    }
    if let Some(condition) = scene.true_condition("Failed") {
        return scene.failed("has failed", failure(job, condition, scene), rows);
    }
    // The Job will fail: the controller waits for the last pods to terminate.
    if let Some(condition) = scene.true_condition("FailureTarget") {
        return scene.failed("fails", failure(job, condition, scene), rows);
    }
    if let Some(condition) = scene.true_condition("SuccessCriteriaMet") {
        let number = i64::from(job.terminating.max(job.active));
        let message = format!(
            "it has succeeded{} and is waiting for {} to terminate",
            explained(condition),
            count(number, "pod")
        );
        let blocker = Blocker::new(Cause::NotFinal, message, "");
        let verdict = Verdict::new(Outlook::CompletesByItself, false, Some(&blocker));
        return scene.report(
            Phase::Progressing,
            "is ending",
            vec![blocker],
            verdict,
            rows,
        );
    }
    if job.is_suspended {
        return suspended(job, scene);
    }
    if job.start_time.is_none() {
        let by = match job.managed_by.as_str() {
            "" => "the Job controller".to_owned(),
            other => one_line(other, KUBERNETES_MAX),
        };
        let message = format!("{by} has not started it yet");
        let blocker = Blocker::new(Cause::GenerationUnobserved, message, "");
        return scene.open(Phase::Progressing, "is waiting", blocker);
    }
    running(job, scene)
}

fn suspended(job: &Job, scene: &Scene<'_>) -> Report {
    let is_queued =
        !job.managed_by.is_empty() || scene.observed.metadata.labels.contains_key(QUEUE_LABEL);
    let since = scene
        .true_condition("Suspended")
        .and_then(|condition| condition.last_transition_time);
    let mut message = "spec.suspend is true, so it creates no pods".to_owned();
    let mut remedy = format!(
        "kubectl patch {}{} -p '{{\"spec\":{{\"suspend\":false}}}}'",
        scene.resource(),
        scene.in_namespace()
    );
    if is_queued {
        message.push_str("; the controller of its queue resumes it");
        remedy.clear();
    }
    let mut blocker = Blocker::new(Cause::Paused, message, remedy);
    blocker.since = since;
    let verdict = match is_queued {
        true => Verdict::new(Outlook::Undecided, false, Some(&blocker)),
        false => Verdict::new(Outlook::NeedsChange, true, Some(&blocker)),
    };
    scene.report(
        Phase::Paused,
        "is suspended",
        vec![blocker],
        verdict,
        job.counters(),
    )
}

fn running(job: &Job, scene: &Scene<'_>) -> Report {
    let pods = scene.observed.pods.iter();
    let active = pods.filter(|pod| !matches!(pod.phase.as_str(), "Failed" | "Succeeded"));
    let mut findings = scene.examiner.examine_all(active);
    findings.retain(|finding| !is_running_well(finding));
    for finding in &mut findings {
        // The limits of the Job decide how often a pod may fail.
        if finding.class.is_some_and(|class| class.counts_restarts()) {
            finding.class = None;
        }
    }
    let mut blockers = scene
        .examiner
        .blockers(&findings, i64::from(job.active.max(1)));
    let is_missing =
        job.active == 0 || i64::from(job.active) < i64::from(job.parallelism.min(job.wanted()));
    if is_missing && job.succeeded == 0 {
        blockers.extend(scene.pods_refused());
    }
    if blockers.is_empty() {
        blockers.push(still_running(job, scene));
    }
    blockers.sort_by_key(|blocker| blocker.cause);
    let group = Group {
        existing: job.active.into(),
        has_ready: job.ready > 0 || job.succeeded > 0,
        makes_room: scene.pods_terminate(),
    };
    let mut verdict = scene.judge(&blockers, &findings, &group);
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
    let mut report = scene.report(phase, what, blockers, verdict, job.counters());
    report.deadline = deadline;
    report
}

/// Whether a pod is as it should be: pods of Jobs need not be ready, and containers may have exited successfully.
fn is_running_well(finding: &Finding<'_>) -> bool {
    let is_done = finding.container.is_some_and(|container| {
        matches!(
            container.state,
            ContainerState::Terminated { exit_code: 0, .. }
        )
    });
    is_done || matches!(finding.cause, Cause::NotReady | Cause::MinReadySeconds)
}

fn still_running(job: &Job, scene: &Scene<'_>) -> Blocker {
    let active = i64::from(job.active);
    let mut message = match job.active {
        0 => "no pod exists yet".to_owned(),
        _ => format!("{} running", agree(count(active, "pod"), active)),
    };
    if let Some(start) = job.start_time {
        message = format!("{message}, started {} ago", scene.now().since(start));
    }
    if job.failed > 0 {
        let limit = job.backoff_limit.unwrap_or(6);
        let failed = count(job.failed.into(), "pod");
        message = format!("{message}; {failed} failed, backoffLimit is {limit}");
    }
    let mut blocker = Blocker::new(Cause::Running, message, "");
    blocker.since = job.start_time;
    blocker
}

/// The cause of a failed Job: its condition, and the pod that failed last.
fn failure(job: &Job, condition: &Condition, scene: &Scene<'_>) -> Blocker {
    let why = because(&one_line(&condition.message, KUBERNETES_MAX));
    let reason = one_line(&condition.reason, KUBERNETES_MAX);
    let failed = count(job.failed.into(), "pod");
    let text = match condition.reason.as_str() {
        "BackoffLimitExceeded" => format!(
            "{failed} failed, and backoffLimit {} allows no more",
            job.backoff_limit.unwrap_or(6)
        ),
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
    let mut pods: Vec<&Pod> = scene
        .observed
        .pods
        .iter()
        .filter(|pod| failed_container(pod).is_some())
        .collect();
    pods.sort_by_key(|pod| (std::cmp::Reverse(finished(pod)), &pod.metadata.name));
    let listed: Vec<BlockedPod> = pods
        .iter()
        .filter_map(|pod| failed_container(pod))
        .collect();
    let example = listed.first().map_or_else(String::new, |pod| {
        format!(
            "; pod {}, container {} {}",
            pod.name, pod.container, pod.message
        )
    });
    let remedy = match listed.first() {
        Some(pod) => format!(
            "read its log: kubectl logs {}{} -c {}",
            word(&pod.name),
            scene.in_namespace(),
            word(&pod.container)
        ),
        None => format!("kubectl logs {}{}", scene.resource(), scene.in_namespace()),
    };
    let mut blocker =
        Blocker::new(Cause::JobFailed, format!("{text}{example}"), remedy).with_pods(listed);
    blocker.since = condition.last_transition_time;
    blocker
}

/// The first container of a pod that exited with an error.
fn failed_container(pod: &Pod) -> Option<BlockedPod> {
    pod.containers.iter().find_map(|container| {
        let ends = [&container.state, &container.last_state];
        ends.into_iter().find_map(|end| match end {
            ContainerState::Terminated {
                exit_code,
                reason,
                message,
                finished_at,
            } if *exit_code != 0 => Some(BlockedPod {
                name: pod.metadata.name.clone(),
                container: container.name.clone(),
                reason: reason.clone(),
                message: format!("exit code {exit_code}{}", because(&last_line(message))),
                restarts: container.restarts,
                since: *finished_at,
                log: Log::of(container),
            }),
            _ => None,
        })
    })
}

fn finished(pod: &Pod) -> Option<Time> {
    failed_container(pod).and_then(|failed| failed.since)
}
