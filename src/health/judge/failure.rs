//! Whether it is certain that a failure persists: one that all unready pods with the same template share, or the rejection
//! of pods.

use rollplan_core::time::Time;

use super::class::{Class, Limit};
use crate::explain::Cause;
use crate::explain::pods::Explanation;
use crate::messages::{Persistence, refusal};
use crate::observe::context::PodContext;
use crate::observe::pod::was_ready;

/// A failure that all unready pods share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The kind of the cause.
    pub cause: Cause,
    /// The class, which decides when the failure is certain.
    pub class: Class,
    /// Whether it is certain that the failure persists.
    pub certainty: Certainty,
    /// When the failure was first reported to the caller: the time of this snapshot, unless
    /// [`VerdictOptions::previous`](super::VerdictOptions::previous) is about the same cause.
    pub since: Time,
}

/// Whether it is certain that a failure persists until an object is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Certainty {
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

impl PodContext<'_> {
    /// The failure that all unready pods share. `told` is the cause under which it was reported to the caller, if that is
    /// not its own cause.
    pub(crate) fn shared_failure(
        &self,
        explanations: &[Explanation<'_>],
        group: &Group,
        told: Option<Cause>,
    ) -> Option<Failure> {
        let (explanation, class) = self.shared(explanations, group)?;
        let previous = self.options.previous;
        let reported = previous.filter(|(cause, _)| *cause == told.unwrap_or(explanation.cause));
        let since = reported.map_or(self.now, |(_, since)| since.min(self.now));
        Some(Failure {
            cause: explanation.cause,
            class,
            certainty: self.certainty(class, explanations, since),
            since,
        })
    }

    /// The class of a failure that all unready pods share. `None` if one of the pods is or was ready: a problem of a single
    /// node, or one that some pods have overcome, must not fail the rollout.
    fn shared<'f>(
        &self,
        explanations: &'f [Explanation<'f>],
        group: &Group,
    ) -> Option<(&'f Explanation<'f>, Class)> {
        let unready = || unready(explanations);
        let first = unready().next()?;
        let class = first.class?;
        let name = |explanation: &Explanation<'_>| {
            (explanation.class, explanation.blocked.container.clone())
        };
        let is_shared = unready().all(|explanation| name(explanation) == name(first));
        let listed = i64::try_from(unready().count()).unwrap_or(i64::MAX);
        let is_visible = listed >= group.existing;
        let was_ready = group.has_ready || unready().any(|explanation| was_ready(explanation.pod));
        let is_waiting =
            class.row().resolved_by_room && (group.makes_room || self.awaits_node(explanations));
        (is_shared && is_visible && !was_ready && !is_waiting).then_some((first, class))
    }

    /// Whether the scheduler or an autoscaler is freeing or adding capacity for a pod.
    fn awaits_node(&self, explanations: &[Explanation<'_>]) -> bool {
        explanations.iter().any(|explanation| {
            !explanation.pod.nominated_node_name.is_empty() || self.is_adding_node(explanation.pod)
        })
    }

    /// Whether the rejection of pods is final. The condition remains after its cause is resolved, so only events show that
    /// the API server has rejected the pods again.
    pub(crate) fn refusal(&self, uid: &str, reason: &str, makes_room: bool) -> Certainty {
        if makes_room {
            return Certainty::Open;
        }
        let rules = &self.options.rules;
        let is_any = rules.changes(Class::Refused);
        let events: Vec<_> = self
            .events_about(uid)
            .filter(|event| event.reason == reason)
            .collect();
        let Some(latest) = events.iter().max_by_key(|event| event.last) else {
            return Certainty::Open;
        };
        let missing_grace = match refusal::TABLE.look_up(&latest.message).persistence() {
            Persistence::Missing => Class::Config.row().limit,
            _ => Limit::Grace(0),
        };
        let is_definite = |text: &str| refusal::TABLE.look_up(text).is_definite();
        let limit = rules.limit(Class::Refused, is_definite(&latest.message));
        let grace = match (limit, missing_grace) {
            (Limit::Grace(grace), _) if is_any => grace,
            (Limit::Grace(grace), Limit::Grace(missing)) => grace.max(missing),
            _ => return Certainty::Open,
        };
        let same = events
            .iter()
            .filter(|event| is_any || is_definite(&event.message));
        let first = same.filter_map(|event| event.first).min();
        let (Some(first), Some(last)) = (first, latest.last) else {
            return Certainty::Open;
        };
        if last >= first.plus_seconds(grace) && last > first {
            return Certainty::Certain;
        }
        // The ReplicaSet controller doubles its delay before each attempt.
        let passed = last.since(first).seconds();
        let left = (2 * grace).max(1).saturating_sub(passed);
        Certainty::Pending(Some(self.now.plus_seconds(left)))
    }

    /// Whether a failure that all unready pods share is final. `reported` is when it was first reported to the caller.
    fn certainty(
        &self,
        class: Class,
        explanations: &[Explanation<'_>],
        reported: Time,
    ) -> Certainty {
        let unready = || unready(explanations);
        let is_definite = unready().all(|explanation| explanation.is_definite);
        match self.options.rules.limit(class, is_definite) {
            Limit::Never => Certainty::Open,
            Limit::Restarts(limit) => {
                let mut counted = unready().map(|explanation| self.restarts(explanation));
                if counted.any(|restarts| restarts >= limit) {
                    Certainty::Certain
                } else {
                    Certainty::Pending(None)
                }
            }
            Limit::Grace(0) => Certainty::Certain,
            Limit::Grace(grace) => {
                let mut ends = Vec::new();
                for explanation in unready() {
                    match self.grace_ends(explanation, grace, reported) {
                        Some(end) if end <= self.now => return Certainty::Certain,
                        end => ends.extend(end),
                    }
                }
                Certainty::Pending(ends.into_iter().min())
            }
        }
    }
}

fn unready<'f>(explanations: &'f [Explanation<'f>]) -> impl Iterator<Item = &'f Explanation<'f>> {
    let unready = explanations.iter();
    unready.filter(|explanation| explanation.cause != Cause::PodFailed)
}
