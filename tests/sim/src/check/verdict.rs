//! Checks verdicts: a rollout that certainly needs a change, by its current state or by its next plan, never completes
//! without one, and a verdict about a stuck rollout is decided by the time that it promises.

use rollplan_core::compute_status;
use rollplan_core::snapshot::{Options, Snapshot};
use rollplan_health::explain::Cause;
use rollplan_health::judge::class::{Class, Limit, Rules};
use rollplan_health::judge::{Outlook, Verdict, VerdictOptions};
use rollplan_health::observe::observe;
use rollplan_health::report::report;
use rollplan_world::at;

use crate::flaw::Flaw;
use crate::script::Kind;
use crate::tally::Tally;
use crate::world::World;

/// The polling interval, in seconds.
const INTERVAL: i64 = 10;
/// Longer than all deadlines and graces, in seconds.
const LONGEST: i64 = 1800;

fn judge(snapshot: &Snapshot, options: VerdictOptions) -> Verdict {
    let status = compute_status(snapshot, Options::default());
    report(
        &observe(snapshot, options),
        Options::default(),
        &status,
        &[],
    )
    .verdict
}

impl World {
    /// Rules by which the faults of a template, which never change in this world, are certain at once.
    fn hasty_rules(&self) -> Rules {
        let rules = Rules::default()
            .with(Class::ImagePull, Limit::Grace(0))
            .with(Class::Config, Limit::Grace(0));
        match self.flaw {
            Flaw::JudgesUnready => rules.with(Class::NotReady, Limit::Grace(0)),
            _ => rules,
        }
    }

    /// The verdict about the next plan.
    fn judge_plan(&self, snapshot: &Snapshot, options: VerdictOptions) -> Verdict {
        let plan = self.flaw.plan(snapshot, Options::default());
        report(
            &observe(snapshot, options),
            Options::default(),
            &plan.status,
            &plan.steps,
        )
        .verdict
    }

    /// A rollout that certainly needs a change does not complete without one, whatever the actors do.
    pub(crate) fn check_certain(&mut self) {
        let mut future = self.clone();
        for kind in [Kind::Deployments, Kind::Sets, Kind::Pods] {
            while future.deliver(kind) {}
        }
        let Some(snapshot) = future.snapshot(true) else {
            return;
        };
        let seen = &snapshot.deployment.metadata;
        let is_current = future.store.deployment.as_ref().is_some_and(|deployment| {
            let metadata = &deployment.metadata;
            (&metadata.uid, metadata.generation) == (&seen.uid, seen.generation)
        });
        if !is_current || seen.deletion_timestamp.is_some() {
            return;
        }
        let options = VerdictOptions {
            rules: self.hasty_rules(),
            previous: None,
        };
        // The adapter makes no plan while it carries one out.
        let is_planning = self.adapter.running.is_none();
        let of_plan = is_planning.then(|| self.judge_plan(&snapshot, options));
        let certain = [judge(&snapshot, options)]
            .into_iter()
            .chain(of_plan)
            .find(|verdict| verdict.outlook == Outlook::NeedsChange && verdict.is_certain);
        let Some(verdict) = certain else {
            return;
        };
        self.tallies.count(Tally::CheckCertain);
        future.calm();
        let Some(deployment) = future.store.deployment.clone() else {
            return;
        };
        let truth = future.truth(&deployment);
        let wanted = deployment.spec.replicas;
        let counts = [truth.replicas, truth.updated, truth.available];
        if future.violation.is_none() && counts == [wanted; 3] {
            let Verdict {
                reason, message, ..
            } = verdict;
            self.violate(
                "verdict",
                format!("completed, but was certain to be stuck: {reason}: {message}"),
            );
        }
    }

    /// A stuck rollout is decided by the time that its verdict promises, if the caller polls.
    pub(super) fn check_decided(&mut self, snapshot: &Snapshot) {
        let mut options = VerdictOptions::default();
        let mut promised = None;
        for seconds in (0..LONGEST).step_by(INTERVAL.unsigned_abs() as usize) {
            let mut later = snapshot.clone();
            later.now = at(self.now + seconds);
            let verdict = judge(&later, options);
            match verdict.outlook {
                Outlook::NeedsChange => return self.tallies.count(Tally::CheckDecided),
                Outlook::Undecided => {}
                Outlook::Complete | Outlook::CompletesByItself | Outlook::NotJudged => {
                    return self.violate("verdict", format!("stuck, but judged {verdict:?}"));
                }
            }
            promised = promised.or(verdict.decided_after);
            if promised.is_some_and(|promised| later.now > promised.plus_seconds(INTERVAL)) {
                return self.violate("verdict", format!("not decided as promised: {verdict:?}"));
            }
            if self.flaw != Flaw::ForgetsVerdict {
                options.previous = Cause::from_reason(verdict.reason).zip(verdict.since);
            }
        }
    }
}
