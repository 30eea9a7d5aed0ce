//! Whether a failure is final: a failure that all unready pods with the same template share, or the rejection of pods.

pub mod class;
pub(crate) mod evidence;
pub mod judgement;
mod retries;

use super::Cause;
use super::examiner::Examiner;
use super::pods::Finding;
use crate::messages::{Certainty, refusal};
use rollplan_core::snapshot::Pod;
use rollplan_core::time::Time;

use self::class::{Class, Limit};
use self::evidence::was_ready;

/// How long a pod still counts as terminating after the end of its grace period: the kubelet takes a while to report, and
/// clocks differ.
const TERMINATING_MARGIN_SECONDS: i64 = 360;

/// A failure that all unready pods share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The kind of the cause.
    pub cause: Cause,
    /// The class, which decides when the failure is certain.
    pub class: Class,
    /// Whether it is certain that the failure persists.
    pub finality: Finality,
    /// When the failure was first reported to the caller: the time of this snapshot, unless
    /// [`Judgement::previous`](judgement::Judgement::previous) is about the same cause.
    pub since: Time,
}

/// Whether it is certain that a failure persists until an object is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finality {
    /// It is certain.
    Certain,
    /// It will be certain at this time, if that is known.
    Pending(Option<Time>),
    /// It may pass.
    Open,
}

/// The pods with the same template, as their owner counts them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Group {
    /// The number of existing pods.
    pub(crate) existing: i64,
    /// Whether a pod is ready, or has ended successfully.
    pub(crate) has_ready: bool,
    /// Whether capacity is becoming free, because pods of the same object are terminating.
    pub(crate) makes_room: bool,
}

impl Examiner<'_> {
    /// The failure that all unready pods share. `told` is the cause under which it was reported to the caller, if that is
    /// not its own cause.
    pub(crate) fn shared_failure(
        &self,
        findings: &[Finding<'_>],
        group: &Group,
        told: Option<Cause>,
    ) -> Option<Failure> {
        let (finding, class) = self.shared(findings, group)?;
        let previous = self.judgement.previous;
        let reported = previous.filter(|(cause, _)| *cause == told.unwrap_or(finding.cause));
        let since = reported.map_or(self.now, |(_, since)| since.min(self.now));
        Some(Failure {
            cause: finding.cause,
            class,
            finality: self.finality(class, findings, since),
            since,
        })
    }

    /// The class of a failure that all unready pods share. `None` if one of the pods is or was ready: a problem of a single
    /// node, or one that some pods have overcome, must not fail the rollout.
    fn shared<'f>(
        &self,
        findings: &'f [Finding<'f>],
        group: &Group,
    ) -> Option<(&'f Finding<'f>, Class)> {
        let unready = || unready(findings);
        let first = unready().next()?;
        let class = first.class?;
        let name = |finding: &Finding<'_>| (finding.class, finding.pod.container.clone());
        let is_shared = unready().all(|finding| name(finding) == name(first));
        let listed = i64::try_from(unready().count()).unwrap_or(i64::MAX);
        let is_visible = listed >= group.existing;
        let was_ready = group.has_ready || unready().any(|finding| was_ready(finding.source));
        let is_waiting =
            class.row().resolved_by_room && (group.makes_room || self.awaits_node(findings));
        (is_shared && is_visible && !was_ready && !is_waiting).then_some((first, class))
    }

    /// Whether the scheduler or an autoscaler is freeing or adding capacity for a pod.
    fn awaits_node(&self, findings: &[Finding<'_>]) -> bool {
        findings.iter().any(|finding| {
            !finding.source.nominated_node_name.is_empty() || self.is_adding_node(finding.source)
        })
    }

    /// Whether the rejection of pods is final. The condition remains after its cause is resolved, so only events show that
    /// the API server has rejected the pods again.
    pub(crate) fn refusal(&self, uid: &str, reason: &str, makes_room: bool) -> Finality {
        if makes_room {
            return Finality::Open;
        }
        let rules = &self.judgement.rules;
        let is_any = rules.changes(Class::Refused);
        let events: Vec<_> = self
            .events_about(uid)
            .filter(|event| event.reason == reason)
            .collect();
        let Some(latest) = events.iter().max_by_key(|event| event.last) else {
            return Finality::Open;
        };
        let missing_grace = match refusal::TABLE.look_up(&latest.message).certainty() {
            Certainty::Missing => Class::Config.row().limit,
            _ => Limit::Grace(0),
        };
        let is_definite = |text: &str| refusal::TABLE.look_up(text).is_definite();
        let limit = rules.limit(Class::Refused, is_definite(&latest.message));
        let grace = match (limit, missing_grace) {
            (Limit::Grace(grace), _) if is_any => grace,
            (Limit::Grace(grace), Limit::Grace(missing)) => grace.max(missing),
            _ => return Finality::Open,
        };
        let same = events
            .iter()
            .filter(|event| is_any || is_definite(&event.message));
        let first = same.filter_map(|event| event.first).min();
        let (Some(first), Some(last)) = (first, latest.last) else {
            return Finality::Open;
        };
        if last >= first.plus_seconds(grace) && last > first {
            return Finality::Certain;
        }
        // The ReplicaSet controller doubles its delay before each attempt.
        let passed = last.since(first).seconds();
        let left = (2 * grace).max(1).saturating_sub(passed);
        Finality::Pending(Some(self.now.plus_seconds(left)))
    }

    /// Whether a failure that all unready pods share is final. `reported` is when it was first reported to the caller.
    fn finality(&self, class: Class, findings: &[Finding<'_>], reported: Time) -> Finality {
        let unready = || unready(findings);
        let is_definite = unready().all(|finding| finding.is_definite);
        match self.judgement.rules.limit(class, is_definite) {
            Limit::Never => Finality::Open,
            Limit::Restarts(limit) => {
                let mut counted = unready().map(|finding| self.restarts(finding));
                if counted.any(|restarts| restarts >= limit) {
                    Finality::Certain
                } else {
                    Finality::Pending(None)
                }
            }
            Limit::Grace(0) => Finality::Certain,
            Limit::Grace(grace) => {
                let mut ends = Vec::new();
                for finding in unready() {
                    match self.grace_ends(finding, grace, reported) {
                        Some(end) if end <= self.now => return Finality::Certain,
                        end => ends.extend(end),
                    }
                }
                Finality::Pending(ends.into_iter().min())
            }
        }
    }
}

fn unready<'f>(findings: &'f [Finding<'f>]) -> impl Iterator<Item = &'f Finding<'f>> {
    let unready = findings.iter();
    unready.filter(|finding| finding.cause != Cause::PodFailed)
}

/// Whether a pod is terminating within its grace period and a margin. One that exceeds both is lost.
pub(crate) fn is_terminating(pod: &Pod, now: Time) -> bool {
    let end = pod.metadata.deletion_timestamp;
    let end = end.map(|end| end.plus_seconds(TERMINATING_MARGIN_SECONDS));
    end.is_some_and(|end| end > now) && !matches!(pod.phase.as_str(), "Failed" | "Succeeded")
}
