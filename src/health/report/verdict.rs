//! The verdict about the rollout of a Deployment.

use rollplan_core::pass::{self, rollback_annotation};
use rollplan_core::status;

use super::predicted::PredictedRollout;
use super::steps;
use crate::explain::{Blocker, Cause};
use crate::judge::events::{self, Subject};
use crate::judge::pending::PendingVerdict;
use crate::judge::verdict::{Outlook, Verdict};

impl PredictedRollout<'_> {
    pub(super) fn verdict(&self, blockers: &[Blocker]) -> Verdict {
        let mut verdict = self
            .without_failures(blockers)
            .unwrap_or_else(|| self.by_failures(blockers));
        let has_failed = verdict.is_final && verdict.outlook == Outlook::NeedsChange;
        verdict.is_reported |= has_failed && find(blockers, Cause::DeadlineExceeded).is_some();
        verdict.event_selectors = events::selectors(
            blockers,
            Subject {
                now: self.observed.snapshot.now,
                has_conditions_about_pods: true,
                has_pods: true,
            },
        );
        verdict
    }

    /// The verdict if it does not depend on pods.
    pub(super) fn without_failures(&self, blockers: &[Blocker]) -> Option<Verdict> {
        let find = |cause| find(blockers, cause);
        if self.deployment.metadata.deletion_timestamp.is_some() {
            return Some(Verdict::deleting("Deployment", find(Cause::Deleting)));
        }
        let selector = find(Cause::SelectorEmpty).or_else(|| find(Cause::SelectorOverlap));
        if let Some(selector) = selector {
            return Some(Verdict::new(Outlook::NeedsChange, true, Some(selector)));
        }
        if self.is_complete() {
            return Some(Verdict::new(Outlook::Complete, true, None));
        }
        // The stored status may be about an earlier spec, and the counters about an earlier size.
        let generation = find(Cause::GenerationUnobserved).filter(|_| !self.may_be_stalled());
        let unobserved = generation.or_else(|| find(Cause::ReplicaSetUnobserved));
        if let Some(unobserved) = unobserved {
            return Some(Verdict::new(Outlook::Undecided, false, Some(unobserved)));
        }
        let paused = find(Cause::Paused).filter(|_| self.waits_for_resume());
        if let Some(paused) = paused {
            return Some(Verdict::new(Outlook::NeedsChange, true, Some(paused)));
        }
        if let Some(capped) = find(Cause::Capped) {
            // Not certain: a write that was planned with other caps may still be made.
            return Some(Verdict::new(Outlook::NeedsChange, false, Some(capped)));
        }
        // The controller changes the template next, unless it cannot create the ReplicaSet of the current one.
        let is_rolling_back = self.rolls_back() && find(Cause::ReplicaSetRefused).is_none();
        is_rolling_back.then(|| Verdict::new(Outlook::Undecided, false, blockers.first()))
    }

    /// Whether an annotation requests a rollback, which a pause delays.
    fn rolls_back(&self) -> bool {
        !self.deployment.spec.paused && rollback_annotation::requested(self.deployment).is_some()
    }

    /// The verdict based on rejections by the API server and on the reasons why new pods are not available.
    fn by_failures(&self, blockers: &[Blocker]) -> Verdict {
        let observed = self.observed;
        let find = |cause| find(blockers, cause);
        // A pause that delays nothing is not the cause.
        let lead = blockers
            .iter()
            .find(|blocker| blocker.cause != Cause::Paused);
        let mut pending = PendingVerdict::new(lead);
        let refusals = [
            (Cause::ReplicaSetRefused, observed.refusal_of_replica_set()),
            (Cause::PodsRefused, observed.refusal_of_pods()),
        ];
        for (cause, certainty) in refusals {
            if let Some(blocker) = find(cause)
                && let Some(verdict) = pending.add_refusal(blocker, certainty)
            {
                return verdict;
            }
        }
        if let Some(failure) = observed.failure()
            && let Some(blocker) = find(failure.cause)
            && let Some(verdict) = pending.add_failure(blocker, &failure)
        {
            return verdict;
        }
        self.undecided(blockers, pending)
    }

    /// The verdict if no failure is certain.
    fn undecided(&self, blockers: &[Blocker], pending: PendingVerdict<'_>) -> Verdict {
        let PendingVerdict {
            lead,
            since,
            certain_at,
        } = pending;
        let available_by = self.observed.available_by();
        if find(blockers, Cause::DeadlineExceeded).is_some() && available_by.is_none() {
            // The deadline of Kubernetes has passed, and no failure is certain.
            return Verdict {
                since,
                ..Verdict::new(Outlook::NeedsChange, false, lead)
            };
        }
        let wanted = self.limits.replicas;
        let only_time = match blockers {
            // Only old pods remain to be removed.
            [] => self
                .observed
                .new_set()
                .is_some_and(|new| new.status.available_replicas >= wanted),
            all => all
                .iter()
                .all(|blocker| blocker.cause == Cause::MinReadySeconds),
        };
        let outlook = if only_time && !self.deployment.spec.paused {
            Outlook::CompletesByItself
        } else {
            Outlook::Undecided
        };
        // A rejected ReplicaSet ends each sync before the deadline is checked.
        let deadline = match find(blockers, Cause::ReplicaSetRefused) {
            Some(_) => None,
            None => status::progress_deadline(self.deployment, self.status),
        };
        // Pods that may still become available without a change get their time.
        let deadline = match available_by {
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

    /// Whether the rollout of a paused Deployment waits for the end of the pause. It does not if all pods have the current
    /// template: such a Deployment is scaled in spite of the pause.
    fn waits_for_resume(&self) -> bool {
        // A ReplicaSet with this template but without a controller may still be adopted.
        let may_be_adopted = || {
            let mut sets = self.observed.snapshot.replica_sets.iter();
            sets.any(|set| {
                set.metadata.controller().is_none() && pass::has_template_of(set, self.deployment)
            })
        };
        // Uses the stored sizes, because the plan may not be carried out completely.
        let (new_size, old_size) = steps::sizes(self.observed, &[]);
        // Proportional scaling ignores a pause, and adds no pods to an empty ReplicaSet.
        let is_scaled = new_size == 0
            || !self.strategy.scales_proportionally()
            || new_size + old_size == self.limits.scaled_total();
        // The last old pods are removed in spite of a pause once all new ones are available.
        let is_sized = new_size >= i64::from(self.limits.replicas);
        old_size > 0 && !is_sized && is_scaled
            || self.observed.new_set().is_none() && self.limits.replicas > 0 && !may_be_adopted()
    }
}

fn find(blockers: &[Blocker], cause: Cause) -> Option<&Blocker> {
    blockers.iter().find(|blocker| blocker.cause == cause)
}
