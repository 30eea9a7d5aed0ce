//! Objects that no longer exist. Such an object may be created again, for example by `kubectl replace --force`, or by a
//! pipeline that deletes it first. A Job may have finished before it was deleted: its events report the result.

use std::time::Duration;

use rollplan_health::explain::Cause;
use rollplan_health::kinds::JobEnd;
use rollplan_wire::proto::{self, Outlook, Phase, RolloutReport};

use super::decision::{Absence, Member, Outcome};
use crate::cli::error::Error;
use crate::cli::exit::Exit;
use crate::cli::goal::Goal;

/// The minimum number of consecutive polls that do not find an object before it counts as deleted, however far apart they
/// are: the controller of a Job writes the event about its end after the status.
const POLLS_MIN: usize = 4;

impl Member {
    /// The UID of a Job whose result may be in events once it no longer exists.
    pub(super) fn job_uid(&self) -> Option<&str> {
        let last = self.last.as_ref().filter(|_| self.goal == Goal::Complete)?;
        let object = last.response.object.as_ref()?;
        let is_job = object.kind == "Job" && object.api_version.starts_with("batch/");
        (is_job && !last.uid.is_empty()).then_some(&*last.uid)
    }

    /// Whether the object may be created again if it does not exist: it was observed before.
    pub(super) fn may_return(&self) -> bool {
        self.last.is_some() && self.goal != Goal::Deleted
    }

    /// Handles a poll that did not find an object that was observed before. `end` is the result of a finished Job, if an
    /// event reports it. Returns whether the user is to be told that the object is missing.
    pub(super) fn take_absence(
        &mut self,
        text: String,
        end: Option<JobEnd>,
        elapsed: Duration,
    ) -> bool {
        self.failures.reset();
        let is_job = self.job_uid().is_some();
        let Some(last) = &mut self.last else {
            return false;
        };
        let report = last.response.report.get_or_insert_default();
        let end = end.or_else(|| (is_job && has_succeeded(report)).then_some(JobEnd::Complete));
        let name = last.response.object.as_ref().map_or("", |it| &it.name);
        if let Some(end) = end {
            self.outcome = Some(Outcome::Exit(match end {
                JobEnd::Complete => Exit::Done,
                JobEnd::Failed(_) => Exit::Failed,
            }));
            *report = ended(name, report, end);
            return false;
        }
        let former = self.absence.as_ref();
        let (polls, since) = former.map_or((0, elapsed), |it| (it.polls, it.since));
        let polls = polls + 1;
        self.absence = Some(Absence { text, polls, since });
        if polls >= POLLS_MIN && elapsed.saturating_sub(since) >= self.deleted_after {
            self.end_absence();
        }
        // Most objects are created again at once.
        polls == POLLS_MIN && self.outcome.is_none()
    }

    /// Ends the watch if the last polls did not find the object.
    pub(super) fn end_absence(&mut self) {
        let Some(Absence { text, .. }) = self.absence.take() else {
            return;
        };
        self.is_deleted = true;
        // A user deleted it before it finished.
        let is_interrupted = self.report().map(RolloutReport::phase) == Some(Phase::Deleting);
        let expiry = self.last.as_ref().and_then(|last| last.expiry.clone());
        self.outcome = Some(Outcome::Error(match expiry.filter(|_| !is_interrupted) {
            Some(expiry) => Error::Vanished(format!(
                "{text}; {expiry}, so it may have finished, but no event shows whether it succeeded: keep finished Jobs for \
                 longer than the polling interval"
            )),
            None => Error::Gone(text),
        }));
    }
}

/// Whether the Job was last observed with all required successes, waiting for its last pods to terminate.
fn has_succeeded(report: &RolloutReport) -> bool {
    // How long the pods of other Jobs run is unknown.
    let verdict = report.verdict.as_ref();
    verdict.is_some_and(|verdict| verdict.outlook() == Outlook::CompletesByItself)
}

/// The report on a Job that finished and was deleted. Its counters are unknown.
fn ended(name: &str, last: &RolloutReport, end: JobEnd) -> RolloutReport {
    let verdict = |outlook: Outlook, reason: &str, message: String| proto::Verdict {
        outlook: outlook.into(),
        certain: true,
        reason: reason.to_owned(),
        message,
        r#final: true,
        reported: outlook == Outlook::NeedsChange,
        ..Default::default()
    };
    match end {
        JobEnd::Complete => RolloutReport {
            phase: Phase::Complete.into(),
            message: format!("job \"{name}\" completed and was then deleted"),
            verdict: Some(verdict(Outlook::Complete, "", String::new())),
            ..Default::default()
        },
        JobEnd::Failed(cause) => {
            let reason = Cause::JobFailed.as_str();
            let failure = proto::Blocker {
                reason: reason.to_owned(),
                message: cause.clone(),
                ..Default::default()
            };
            // The earlier blockers explain the failure, except for those that only needed time.
            let others = last.blockers.iter().filter(|it| !it.remedy.is_empty());
            RolloutReport {
                phase: Phase::Stalled.into(),
                message: format!("job \"{name}\" failed and was then deleted: {cause}"),
                blockers: [failure].into_iter().chain(others.cloned()).collect(),
                verdict: Some(verdict(Outlook::NeedsChange, reason, cause)),
                ..Default::default()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rollplan_wire::proto::{Blocker, ObjectReference, Verdict};

    use super::*;
    use crate::cli::observe::Status;
    use crate::cli::options::JudgementArgs;

    fn observed(api_version: &str, kind: &str, uid: &str, goal: Goal) -> Member {
        let judgement = JudgementArgs {
            fail_fast: Default::default(),
            fail_on: Vec::new(),
            require_judged: false,
            unjudged_after: Duration::ZERO,
            deleted_after: Duration::from_secs(60),
        };
        let blocker = |cause: Cause, remedy: &str| Blocker {
            reason: cause.as_str().to_owned(),
            remedy: remedy.to_owned(),
            ..Default::default()
        };
        let report = RolloutReport {
            phase: Phase::Progressing.into(),
            blockers: vec![
                blocker(Cause::Running, ""),
                blocker(Cause::CrashLoop, "read its log"),
            ],
            ..Default::default()
        };
        let object = ObjectReference {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
            name: "db".to_owned(),
            ..Default::default()
        };
        let status = Status {
            subject: format!("{kind} db"),
            uid: uid.to_owned(),
            expiry: None,
            response: proto::ComputeStatusResponse {
                report: Some(report),
                object: Some(object),
                ..Default::default()
            },
            tree: Vec::new(),
            now: 0,
            object: None,
        };
        let mut member = Member::new("db", goal, &judgement, false);
        member.take(status, Duration::ZERO);
        member
    }

    #[test]
    fn only_jobs_of_kubernetes_are_judged_by_their_events() {
        let complete = || Goal::Complete;
        for (api_version, kind, uid, goal, expected) in [
            ("batch/v1", "Job", "u", complete(), Some("u")),
            ("batch/v1", "Job", "", complete(), None),
            ("batch/v1", "Job", "u", Goal::Deleted, None),
            ("batch/v1", "CronJob", "u", complete(), None),
            ("batch.example.com/v1", "Job", "u", complete(), None),
        ] {
            let member = observed(api_version, kind, uid, goal);
            assert_eq!(member.job_uid(), expected, "{api_version} {kind} {uid}");
        }
    }

    /// `kubectl replace --force` creates objects only after all of the file are deleted, and a claim exists until its pods
    /// have terminated.
    #[test]
    fn object_counts_as_deleted_after_a_minimum_time_and_number_of_polls() {
        let millis = Duration::from_millis;
        for (interval, polls) in [
            (millis(200), 301),
            (millis(2_000), 31),
            (millis(15_000), 5),
            (millis(20_000), 4),
            (millis(60_000), 4),
        ] {
            let mut member = observed("apps/v1", "Deployment", "u", Goal::Complete);
            // The time counts from the first poll that does not find the object.
            let mut time = millis(90_000);
            let mut notes = Vec::new();
            let needed = (1..1_000).find(|poll| {
                if member.take_absence("not found".to_owned(), None, time) {
                    notes.push(*poll);
                }
                time += interval;
                member.outcome.is_some()
            });
            assert_eq!(needed, Some(polls), "{interval:?}");
            assert_eq!(member.result(), Exit::Failed);
            let expected = if polls > POLLS_MIN {
                vec![POLLS_MIN]
            } else {
                vec![]
            };
            assert_eq!(notes, expected, "{interval:?}");
        }
    }

    #[test]
    fn deleted_job_has_the_report_of_its_end() {
        let verdict = |outlook: Outlook, reason: &str, message: &str| {
            Some(Verdict {
                outlook: outlook.into(),
                certain: true,
                reason: reason.to_owned(),
                message: message.to_owned(),
                r#final: true,
                reported: outlook == Outlook::NeedsChange,
                ..Default::default()
            })
        };
        let blocker = |cause: Cause, message: &str, remedy: &str| Blocker {
            reason: cause.as_str().to_owned(),
            message: message.to_owned(),
            remedy: remedy.to_owned(),
            ..Default::default()
        };
        let completed = RolloutReport {
            phase: Phase::Complete.into(),
            message: "job \"db\" completed and was then deleted".to_owned(),
            verdict: verdict(Outlook::Complete, "", ""),
            ..Default::default()
        };
        let failed = RolloutReport {
            phase: Phase::Stalled.into(),
            message: "job \"db\" failed and was then deleted: why".to_owned(),
            blockers: vec![
                blocker(Cause::JobFailed, "why", ""),
                blocker(Cause::CrashLoop, "", "read its log"),
            ],
            verdict: verdict(Outlook::NeedsChange, Cause::JobFailed.as_str(), "why"),
            ..Default::default()
        };
        for (end, exit, expected) in [
            (JobEnd::Complete, Exit::Done, completed),
            (JobEnd::Failed("why".to_owned()), Exit::Failed, failed),
        ] {
            let mut member = observed("batch/v1", "Job", "u", Goal::Complete);
            member.take_absence("not found".to_owned(), Some(end), Duration::ZERO);
            assert_eq!(member.result(), exit);
            assert_eq!(member.report(), Some(&expected));
        }
    }
}
