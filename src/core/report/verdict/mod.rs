//! Whether a rollout completes by itself or needs a change. docs/verdict.md explains the rules, which are in this order:
//!
//! 1. What no controller has observed is undecided.
//! 2. What room can resolve is undecided while room is being made: pods terminate, a node is nominated, an autoscaler answered.
//! 3. A failure of a definite class is certain past its limit. Everything else is undecided.

pub mod class;
pub(super) mod definite;
mod evidence;
pub mod judgement;

use super::pods::Finding;
use super::{Blocker, Cause, Survey};
use crate::snapshot::Pod;
use crate::status;
use crate::time::Time;

use self::class::{Class, Limit};
use self::definite::Refusal;

/// How long a pod still counts as terminating after the end of its grace period: the kubelet takes a while to report, and
/// clocks differ.
const TERMINATING_MARGIN_SECONDS: i64 = 360;

/// The verdict about a rollout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// What becomes of the rollout if nobody changes an object.
    pub outlook: Outlook,
    /// Whether the outlook is certain.
    pub is_certain: bool,
    /// The machine-readable reason. Empty if nothing is missing.
    pub reason: &'static str,
    /// A human-readable sentence.
    pub message: String,
    /// When it will be decided if nothing changes.
    pub decided_after: Option<Time>,
    /// The command or change that resolves it. Empty if only time helps.
    pub remedy: String,
    /// The time of the first snapshot that showed this failure.
    pub since: Option<Time>,
}

/// What becomes of a rollout if nobody changes an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outlook {
    /// It is complete.
    Complete,
    /// Nothing fails, and only time is missing.
    CompletesByItself,
    /// No controller, kubelet or scheduler resolves it.
    NeedsChange,
    /// It may complete or not.
    Undecided,
}

/// What is known about a failure.
enum Finality {
    /// It is certain.
    Certain,
    /// It will be certain at this time, if that is known.
    Pending(Option<Time>),
    /// It may pass.
    Open,
}

impl Verdict {
    pub(super) fn new(outlook: Outlook, is_certain: bool, blocker: Option<&Blocker>) -> Self {
        Self {
            outlook,
            is_certain,
            reason: blocker.map_or("", |blocker| blocker.cause.as_str()),
            message: blocker.map_or_else(String::new, |blocker| blocker.message.clone()),
            decided_after: None,
            remedy: blocker.map_or_else(String::new, |blocker| blocker.remedy.clone()),
            since: None,
        }
    }
}

impl Survey<'_> {
    pub(super) fn verdict(&self, blockers: &[Blocker], findings: &[Finding<'_>]) -> Verdict {
        let deployment = &self.snapshot.deployment;
        let find = |cause| blockers.iter().find(|blocker| blocker.cause == cause);
        if deployment.metadata.deletion_timestamp.is_some() {
            return Verdict {
                reason: "DELETING",
                message: "the Deployment is being deleted".to_owned(),
                ..Verdict::new(Outlook::NeedsChange, true, None)
            };
        }
        if let Some(empty) = find(Cause::SelectorEmpty) {
            return Verdict::new(Outlook::NeedsChange, true, Some(empty));
        }
        if self.is_complete() {
            return Verdict::new(Outlook::Complete, true, None);
        }
        // The stored status may be of another spec, and the counters of another size.
        let generation = find(Cause::GenerationUnobserved).filter(|_| !self.may_be_stalled());
        let unobserved = generation.or_else(|| find(Cause::ReplicaSetUnobserved));
        if let Some(unobserved) = unobserved {
            return Verdict::new(Outlook::Undecided, false, Some(unobserved));
        }
        if let Some(paused) = find(Cause::Paused)
            && self.waits_for_resume()
        {
            return Verdict::new(Outlook::NeedsChange, true, Some(paused));
        }
        // A pause that holds nothing back is not what is missing.
        let mut lead = blockers
            .iter()
            .find(|blocker| blocker.cause != Cause::Paused);
        let mut pending = None;
        for cause in [Cause::ReplicaSetRefused, Cause::PodsRefused] {
            let Some(blocker) = find(cause) else { continue };
            match self.refusal(cause) {
                Finality::Certain => {
                    return Verdict::new(Outlook::NeedsChange, true, Some(blocker));
                }
                Finality::Pending(at) => pending = pending.or(at),
                Finality::Open => {}
            }
        }
        let mut since = None;
        if let Some((finding, class)) = self.shared(findings)
            && let Some(blocker) = find(finding.cause)
        {
            let previous = self.judgement.previous;
            let reported = previous.filter(|(cause, _)| *cause == finding.cause);
            let reported = reported.map_or(self.snapshot.now, |(_, since)| since);
            match self.finality(class, findings, reported.min(self.snapshot.now)) {
                Finality::Certain => {
                    return Verdict {
                        since: Some(reported),
                        ..Verdict::new(Outlook::NeedsChange, true, Some(blocker))
                    };
                }
                Finality::Pending(at) => {
                    since = Some(reported);
                    // The caller sends this reason back.
                    lead = Some(blocker);
                    pending = pending.or(at);
                }
                Finality::Open => {}
            }
        }
        let startup = self.startup_ends(findings);
        if find(Cause::DeadlineExceeded).is_some() && startup.is_none() {
            // Kubernetes has given up waiting, and nothing leaves no doubt.
            return Verdict {
                since,
                ..Verdict::new(Outlook::NeedsChange, false, lead)
            };
        }
        let wanted = self.limits.replicas;
        let only_time = match blockers {
            // Old pods are still to be removed.
            [] => self
                .new
                .is_some_and(|new| new.status.available_replicas >= wanted),
            all => all
                .iter()
                .all(|blocker| blocker.cause == Cause::MinReadySeconds),
        };
        let outlook = match only_time && !self.snapshot.deployment.spec.paused {
            true => Outlook::CompletesByItself,
            false => Outlook::Undecided,
        };
        // A rejected ReplicaSet ends each sync before the deadline is looked at.
        let deadline = match find(Cause::ReplicaSetRefused) {
            Some(_) => None,
            None => status::progress_deadline(deployment, self.status),
        };
        // A container that may still be starting is given its time.
        let deadline = match startup {
            Some(end) => deadline.map(|deadline| deadline.max(end)),
            None => deadline,
        };
        let decided_after = [pending, deadline].into_iter().flatten().min();
        Verdict {
            decided_after,
            since,
            ..Verdict::new(outlook, false, lead)
        }
    }

    /// Whether the rollout of a paused Deployment is waiting for its end. A Deployment of which all pods have the current
    /// template is scaled although it is paused.
    fn waits_for_resume(&self) -> bool {
        let template = &self.snapshot.deployment.spec.template;
        // One with this template that nobody controls may still be adopted.
        let may_be_adopted = || {
            let mut sets = self.snapshot.replica_sets.iter();
            sets.any(|set| set.metadata.controller().is_none() && set.template.same_as(template))
        };
        // The last old pods are removed in spite of a pause once all new ones are available.
        let is_sized = self.new_size >= i64::from(self.limits.replicas);
        self.old_size > 0 && !is_sized
            || self.new.is_none() && self.limits.replicas > 0 && !may_be_adopted()
    }

    /// The class of a failure that all unready new pods share, while none of the new pods was ever ready: what one node
    /// has, or what passed with some pods, must not fail the rollout.
    fn shared<'f>(&self, findings: &'f [Finding<'f>]) -> Option<(&'f Finding<'f>, Class)> {
        let new = self.new?;
        let unready = || {
            findings
                .iter()
                .filter(|finding| finding.cause != Cause::PodFailed)
        };
        let first = unready().next()?;
        let class = first.class?;
        let name = |finding: &Finding<'_>| (finding.class, finding.pod.container.clone());
        let is_shared = unready().all(|finding| name(finding) == name(first));
        let listed = i64::try_from(unready().count()).unwrap_or(i64::MAX);
        let is_visible = listed >= i64::from(new.status.replicas);
        let was_ready = new.status.ready_replicas > 0
            || unready().any(|finding| Self::was_ready(finding.source));
        let is_waiting = class.row().resolved_by_room && self.makes_room(findings);
        (is_shared && is_visible && !was_ready && !is_waiting).then_some((first, class))
    }

    /// Whether room is being made, so that what is missing may come by itself.
    fn makes_room(&self, findings: &[Finding<'_>]) -> bool {
        self.own_pods_terminate()
            || findings.iter().any(|finding| {
                !finding.source.nominated_node_name.is_empty()
                    || self
                        .events_about(&finding.source.metadata.uid)
                        .any(|event| event.reason == "TriggeredScaleUp")
            })
    }

    /// Whether pods of the Deployment are terminating within their time. One that is far past it is lost.
    pub(super) fn own_pods_terminate(&self) -> bool {
        let now = self.snapshot.now;
        let is_terminating = |pod: &&Pod| {
            let end = pod.metadata.deletion_timestamp;
            let end = end.map(|end| end.plus_seconds(TERMINATING_MARGIN_SECONDS));
            end.is_some_and(|end| end > now)
                && !matches!(pod.phase.as_str(), "Failed" | "Succeeded")
        };
        let mut pods = self
            .pods
            .iter()
            .copied()
            .chain(self.old_pods.iter().copied());
        pods.any(|pod| is_terminating(&pod))
    }

    /// How final the rejection of pods or of the ReplicaSet is. The condition outlives its cause, and only events show that
    /// the API server has rejected the same again.
    fn refusal(&self, cause: Cause) -> Finality {
        let (uid, reason) = match (cause, self.new) {
            (Cause::PodsRefused, Some(new)) => (&new.metadata.uid, "FailedCreate"),
            (Cause::ReplicaSetRefused, _) => (
                &self.snapshot.deployment.metadata.uid,
                "ReplicaSetCreateError",
            ),
            _ => return Finality::Open,
        };
        if cause == Cause::ReplicaSetRefused && self.is_create_refused_for_good() {
            return Finality::Certain;
        }
        if self.own_pods_terminate() {
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
        let missing_grace = match definite::refusal(&latest.message) {
            Refusal::Missing => Class::Config.row().limit,
            _ => Limit::Grace(0),
        };
        let is_definite = |text: &str| definite::refusal(text) != Refusal::Doubtful;
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
        // The ReplicaSet controller waits twice as long before each attempt.
        let passed = last.since(first).seconds();
        let left = (2 * grace).max(1).saturating_sub(passed);
        Finality::Pending(Some(self.snapshot.now.plus_seconds(left)))
    }

    /// Whether the caller's own attempt to create the ReplicaSet was rejected with a definite text.
    fn is_create_refused_for_good(&self) -> bool {
        let mut failures = self.snapshot.failures.iter();
        failures.any(|failure| {
            failure.call.kind == "ReplicaSet"
                && failure.http_code < 500
                && definite::refusal(&failure.message) == Refusal::Definite
        })
    }

    /// How final a failure is that all unready pods share. `reported` is when the caller was told first.
    fn finality(&self, class: Class, findings: &[Finding<'_>], reported: Time) -> Finality {
        let unready = || {
            findings
                .iter()
                .filter(|finding| finding.cause != Cause::PodFailed)
        };
        let is_definite = unready().all(|finding| finding.is_definite);
        match self.judgement.rules.limit(class, is_definite) {
            Limit::Never => Finality::Open,
            Limit::Restarts(limit) => {
                let mut counted = unready().map(|finding| self.restarts(finding));
                match counted.any(|restarts| restarts >= limit) {
                    true => Finality::Certain,
                    false => Finality::Pending(None),
                }
            }
            Limit::Grace(0) => Finality::Certain,
            Limit::Grace(grace) => {
                let mut ends = Vec::new();
                for finding in unready() {
                    match self.grace_ends(finding, grace, reported) {
                        Some(end) if end <= self.snapshot.now => return Finality::Certain,
                        end => ends.extend(end),
                    }
                }
                Finality::Pending(ends.into_iter().min())
            }
        }
    }

    /// When the last of the containers that may still pass their startup probe is killed otherwise. `None` unless all
    /// unready pods have one.
    fn startup_ends(&self, findings: &[Finding<'_>]) -> Option<Time> {
        let mut unready = findings
            .iter()
            .filter(|finding| finding.cause != Cause::PodFailed);
        unready.try_fold(None, |latest: Option<Time>, finding| {
            let end = finding.startup_ends?;
            Some(Some(latest.map_or(end, |latest| latest.max(end))))
        })?
    }
}
