//! Checks each plan.

use rollplan_core::action::{Action, Step};
use rollplan_core::lint::{Rule, lint};
use rollplan_core::snapshot::{Options, Snapshot};
use rollplan_core::time::Span;
use rollplan_core::{Plan, plan_pass, plan_settled};

use crate::flaw::Flaw;
use crate::tally::Tally;
use crate::world::World;

pub(super) fn summaries(plan: &Plan) -> Vec<String> {
    plan.steps.iter().map(Step::summary).collect()
}

impl World {
    pub(crate) fn check_plan(&mut self, snapshot: &Snapshot, plan: &Plan) {
        if let Some(span) = plan.requeue_after {
            self.tallies.count(Tally::CheckTimer);
            if span == Span::default() {
                self.violate("timer", "the timer is zero".to_owned());
            }
        }
        self.check_partial(snapshot);
        self.check_undisturbed(plan);
        if !snapshot.failures.is_empty() || self.flaw == Flaw::NoClamp {
            // Without clamping, the linter would fail first, but the check of the writes must find that bug.
            return;
        }
        self.tallies.count(Tally::CheckLinted);
        for found in lint(snapshot, Options::default(), plan) {
            let released = plan
                .steps
                .iter()
                .any(|step| matches!(step.action, Some(Action::ReleaseReplicaSet { .. })));
            if found.inherited {
                self.tallies.count(Tally::ExemptInherited);
            } else if released && matches!(found.rule, Rule::MinAvailable { .. }) {
                // As in Kubernetes, a released ReplicaSet may count as the new one in the same sync.
                self.tallies.count(Tally::ExemptTakenAway);
            } else {
                let steps = summaries(plan);
                self.violate("lint", format!("{found:?} in {steps:?}"));
            }
        }
    }

    /// If a ReplicaSet is missing, and the list is not marked as complete, the same snapshot gives no steps.
    fn check_partial(&mut self, snapshot: &Snapshot) {
        let mut partial = snapshot.clone();
        partial.replica_sets_complete = false;
        while !partial.replica_sets.is_empty() {
            // Over many plans, each ReplicaSet is omitted first in some of them.
            let next = usize::try_from(self.now).unwrap_or(0) % partial.replica_sets.len();
            partial.replica_sets.remove(next);
            self.tallies.count(Tally::CheckPartial);
            for plan in [plan_settled, plan_pass].map(|plan| plan(&partial, Options::default())) {
                if !plan.steps.is_empty() || plan.requeue_after.is_some() {
                    let steps = summaries(&plan);
                    self.violate("partial", format!("without all ReplicaSets: {steps:?}"));
                }
            }
        }
    }

    /// Checks plans for which nothing but the adapter's own writes has changed: after a complete settled plan there is
    /// nothing to do, and after any other plan no size is changed back.
    fn check_undisturbed(&mut self, plan: &Plan) {
        let Some(before) = self.adapter.undisturbed.take() else {
            return;
        };
        if before.settled && before.complete {
            self.tallies.count(Tally::CheckSettled);
            let idle = plan.steps.iter().all(|step| step.action.is_none());
            if !idle && !before.consistent {
                self.tallies.count(Tally::ExemptInconsistent);
            } else if !idle {
                let steps = summaries(plan);
                self.violate("settled", format!("writes after a settled plan: {steps:?}"));
            }
            return;
        }
        self.tallies.count(Tally::CheckNotUndone);
        for action in plan.steps.iter().filter_map(|step| step.action.as_ref()) {
            let Action::ScaleReplicaSet { set, from, to, .. } = action else {
                continue;
            };
            let direction = if to > from { 1 } else { -1 };
            let reversed = before.directions.get(&set.name);
            if reversed.is_none_or(|earlier| *earlier == direction) {
                continue;
            }
            if !before.consistent {
                self.tallies.count(Tally::ExemptInconsistent);
            } else if before.reacted {
                // As in Kubernetes, an old ReplicaSet is scaled while the new one cannot be created.
                self.tallies.count(Tally::ExemptRejected);
            } else {
                let name = &set.name;
                self.violate(
                    "undone",
                    format!("{name} is scaled back from {from} to {to}"),
                );
            }
        }
    }
}
