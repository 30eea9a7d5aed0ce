//! Whether a rollout completes by itself or needs a change. docs/verdict.md explains the rules, which are in this order:
//!
//! 1. What no controller has observed is undecided.
//! 2. What room can resolve is undecided while room is being made: pods terminate, a node is nominated, an autoscaler answered.
//! 3. A failure of a definite class is certain past its limit. Everything else is undecided.

pub mod class;
pub(super) mod definite;
pub(crate) mod evidence;
pub(crate) mod failure;
pub mod judgement;
pub(crate) mod weighing;

use super::pods::Finding;
use super::{Blocker, Cause, Survey};
use crate::pass;
use crate::status;
use crate::time::Time;

use self::definite::Refusal;
use self::failure::{Finality, Group, is_terminating};
use self::weighing::Weighing;

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

impl Verdict {
    pub(crate) fn new(outlook: Outlook, is_certain: bool, blocker: Option<&Blocker>) -> Self {
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
        let lead = blockers
            .iter()
            .find(|blocker| blocker.cause != Cause::Paused);
        let mut weighing = Weighing::new(lead);
        for cause in [Cause::ReplicaSetRefused, Cause::PodsRefused] {
            if let Some(blocker) = find(cause)
                && let Some(verdict) = weighing.add_refusal(blocker, self.refusal(cause))
            {
                return verdict;
            }
        }
        if let Some((cause, finality, reported)) = self.weigh(findings)
            && let Some(blocker) = find(cause)
            && let Some(verdict) = weighing.add_failure(blocker, finality, reported)
        {
            return verdict;
        }
        let Weighing {
            lead,
            since,
            certain_at,
        } = weighing;
        let startup = startup_ends(findings);
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
        let decided_after = [certain_at, deadline].into_iter().flatten().min();
        Verdict {
            decided_after,
            since,
            ..Verdict::new(outlook, false, lead)
        }
    }

    /// Whether the rollout of a paused Deployment is waiting for its end. A Deployment of which all pods have the current
    /// template is scaled although it is paused.
    fn waits_for_resume(&self) -> bool {
        let deployment = &self.snapshot.deployment;
        // One with this template that nobody controls may still be adopted.
        let may_be_adopted = || {
            let mut sets = self.snapshot.replica_sets.iter();
            sets.any(|set| {
                set.metadata.controller().is_none() && pass::has_template_of(set, deployment)
            })
        };
        // The last old pods are removed in spite of a pause once all new ones are available.
        let is_sized = self.new_size >= i64::from(self.limits.replicas);
        self.old_size > 0 && !is_sized
            || self.new.is_none() && self.limits.replicas > 0 && !may_be_adopted()
    }

    /// How final the failure is that all unready new pods share.
    fn weigh(&self, findings: &[Finding<'_>]) -> Option<(Cause, Finality, Time)> {
        let new = self.new?;
        let group = Group {
            existing: new.status.replicas.into(),
            has_ready: new.status.ready_replicas > 0,
            makes_room: self.own_pods_terminate(),
        };
        self.examiner.weigh(findings, &group, None)
    }

    /// Whether pods of the Deployment are terminating within their time. One that is far past it is lost.
    pub(super) fn own_pods_terminate(&self) -> bool {
        let mut pods = self.pods.iter().chain(&self.old_pods);
        pods.any(|pod| is_terminating(pod, self.snapshot.now))
    }

    /// How final the rejection of pods or of the ReplicaSet is.
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
        self.examiner
            .refusal(uid, reason, self.own_pods_terminate())
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
}

/// When the last of the containers that may still pass their startup probe is killed otherwise. `None` unless all
/// unready pods have one.
fn startup_ends(findings: &[Finding<'_>]) -> Option<Time> {
    let mut unready = findings
        .iter()
        .filter(|finding| finding.cause != Cause::PodFailed);
    unready.try_fold(None, |latest: Option<Time>, finding| {
        let end = finding.startup_ends?;
        Some(Some(latest.map_or(end, |latest| latest.max(end))))
    })?
}
