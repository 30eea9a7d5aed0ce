//! The input of a report: what the snapshot shows, and the numbers after the plan.

use std::collections::BTreeSet;
use std::slice;

use rollplan_core::action::Step;
use rollplan_core::pass;
use rollplan_core::size::Limits;
use rollplan_core::snapshot::{Condition, Deployment, DeploymentStatus, Options, ReplicaSet};
use rollplan_core::status;
use rollplan_core::strategy::{self, Arithmetic, RolloutStrategy, SetView, View};

use super::{Phase, Report, RolloutCounts, steps};
use crate::explain::{Blocker, Cause, deletion};
use crate::judge::verdict::{Outlook, Verdict};
use crate::observe::ObservedRollout;
use crate::observe::pod::{condition, was_ready};
use crate::text::{NAME_MAX, one_line, share};

/// A rollout as it will be once the plan is carried out.
pub(super) struct PredictedRollout<'a> {
    pub(super) observed: &'a ObservedRollout<'a>,
    pub(super) deployment: &'a Deployment,
    pub(super) strategy: Box<dyn RolloutStrategy>,
    pub(super) limits: Limits,
    /// How the limits result from the spec.
    pub(super) arithmetic: Arithmetic,
    pub(super) status: &'a DeploymentStatus,
    /// The size of the new ReplicaSet.
    pub(super) new_size: i64,
    /// The sizes of the old ReplicaSets, added up.
    pub(super) old_size: i64,
    /// Which caps stop the rollout, if they do.
    pub(super) held_by_caps: Option<String>,
    /// Whether no controller has observed the latest generation, and no step of the plan publishes it as observed.
    pub(super) awaits_observation: bool,
}

impl<'a> PredictedRollout<'a> {
    pub(super) fn new(
        observed: &'a ObservedRollout<'a>,
        options: Options,
        status: &'a DeploymentStatus,
        steps: &[Step],
    ) -> Self {
        let snapshot = observed.snapshot;
        let deployment = &snapshot.deployment;
        let strategy = strategy::of(deployment);
        let limits = strategy.limits(deployment.spec.replicas);
        let (new_size, old_size) = steps::sizes(observed, steps);
        Self {
            observed,
            deployment,
            arithmetic: strategy.explain(limits),
            held_by_caps: held_by_caps(observed, options, &*strategy, limits, steps),
            strategy,
            limits,
            status: if snapshot.replica_sets_complete {
                status
            } else {
                // Only the stored status is known.
                &deployment.status
            },
            new_size,
            old_size,
            awaits_observation: is_unobserved(deployment)
                && !steps::publish_observation(steps, deployment),
        }
    }

    pub(super) fn report(&self, steps: &[Step]) -> Report {
        if let Some(blocker) = self.observed.replica_sets_incomplete() {
            return self.without_all_sets(blocker);
        }
        let mut blockers = self.blockers();
        let verdict = self.verdict(&blockers);
        let phase = self.phase(&verdict);
        let new = self.observed.new_set();
        let name = new.map(|set| &set.metadata.name);
        let name = name.or_else(|| steps::created(steps).map(|set| &set.metadata.name));
        let message = self.message(phase, &blockers);
        // Added last, because it is only a warning: it has no effect on the phase, the verdict and the message.
        if phase != Phase::Deleting {
            blockers.extend(self.observed.selector_overlap());
        }
        Report {
            phase,
            message,
            verdict,
            counts: Some(self.counts()),
            counters: Vec::new(),
            is_generic: false,
            is_observed: !self.awaits_observation,
            reasons: steps::reasons(steps),
            revision: steps::revision(steps, new),
            replica_set: name.cloned().unwrap_or_default(),
            deadline: status::progress_deadline(self.deployment, self.status),
            blockers,
        }
    }

    /// The report if the list of ReplicaSets may be incomplete. Nothing can be counted, so it has only the phase that the
    /// Deployment alone shows.
    fn without_all_sets(&self, blocker: Blocker) -> Report {
        let now = self.observed.snapshot.now;
        let deletion = deletion::finalizers(&self.deployment.metadata, now);
        let is_deletion = deletion.is_some();
        let blocker = deletion.unwrap_or(blocker);
        let verdict = self.without_failures(slice::from_ref(&blocker));
        let verdict =
            verdict.unwrap_or_else(|| Verdict::new(Outlook::Undecided, false, Some(&blocker)));
        let phase = self.phase(&verdict);
        let name = pass::quote(&self.deployment.metadata.name);
        Report {
            phase,
            message: match verdict.outlook {
                Outlook::Undecided => format!("deployment {name}: {}", blocker.message),
                _ if is_deletion => self.message(phase, slice::from_ref(&blocker)),
                _ => self.message(phase, &[]),
            },
            verdict,
            counts: None,
            counters: Vec::new(),
            is_generic: false,
            is_observed: !self.awaits_observation,
            reasons: Vec::new(),
            blockers: vec![blocker],
            revision: String::new(),
            replica_set: String::new(),
            deadline: None,
        }
    }

    fn phase(&self, verdict: &Verdict) -> Phase {
        let deployment = self.deployment;
        let is_complete_for_an_earlier_generation =
            self.awaits_observation && status::is_complete(deployment, self.status);
        let is_certain = verdict.outlook == Outlook::NeedsChange && verdict.is_certain;
        if deployment.metadata.deletion_timestamp.is_some() {
            Phase::Deleting
        } else if self.observed.is_refused() {
            Phase::Refused
        } else if self.is_complete() {
            Phase::Complete
        } else if is_complete_for_an_earlier_generation {
            Phase::Progressing
        } else if deployment.spec.paused || verdict.reason == Cause::Capped.as_str() {
            Phase::Paused
        } else if self.may_be_stalled() && (is_certain || self.timed_out().is_some()) {
            Phase::Stalled
        } else if self.is_degraded() {
            Phase::Degraded
        } else {
            Phase::Progressing
        }
    }

    /// Whether the rollout is complete. A controller must have observed the latest generation, because the ReplicaSets may
    /// be complete for an earlier spec. The same applies to the counters of the ReplicaSets. The creation of the new
    /// ReplicaSet must not be rejected, because that ends the sync before the counters are updated: the published ones may
    /// be those of an earlier rollout that completed.
    pub(super) fn is_complete(&self) -> bool {
        status::is_complete(self.deployment, self.status)
            && !self.awaits_observation
            && self.observed.replica_set_unobserved().is_none()
            && self.replica_set_refused().is_none()
    }

    /// Whether the rollout may count as stalled. If no controller has observed the latest change, the problem may be that of
    /// an earlier generation. An exception is a rejected call of the caller to create the new ReplicaSet, because no
    /// generation is published before that call succeeds.
    pub(super) fn may_be_stalled(&self) -> bool {
        !self.awaits_observation || self.observed.refused_create().is_some()
    }

    /// The condition that reports that the progress deadline has passed.
    pub(super) fn timed_out(&self) -> Option<&Condition> {
        status::condition(self.status, status::PROGRESSING)
            .filter(|condition| condition.reason == status::TIMED_OUT)
    }

    /// Whether the rollout completed earlier, and a pod that was ready then is not ready now. Pods that were added since
    /// then are scaling, and not degraded.
    fn is_degraded(&self) -> bool {
        let progressing = status::condition(self.status, status::PROGRESSING);
        let completed = progressing
            .filter(|condition| condition.reason == status::NEW_SET_AVAILABLE)
            .map(|condition| condition.last_update_time);
        let Some(completed) = completed.filter(|_| !self.awaits_observation) else {
            return false;
        };
        let wanted = self.limits.replicas;
        let is_updated = self.status.updated_replicas == wanted && self.status.replicas == wanted;
        let mut alive = self.observed.new_pods().iter();
        is_updated
            && alive.any(|pod| {
                let is_ready = condition(pod, "Ready").is_some_and(|it| it.status == "True");
                let created = pod.metadata.creation_timestamp;
                let is_older = created
                    .zip(completed)
                    .is_some_and(|(created, at)| created < at);
                let is_alive = pod.metadata.deletion_timestamp.is_none()
                    && !matches!(pod.phase.as_str(), "Failed" | "Succeeded");
                is_alive && !is_ready && (is_older || was_ready(pod))
            })
    }

    fn message(&self, phase: Phase, blockers: &[Blocker]) -> String {
        let name = pass::quote(&self.deployment.metadata.name);
        let wanted = self.limits.replicas;
        let status = self.status;
        let old = i64::from(status.replicas) - i64::from(status.updated_replicas);
        let terminating = match status.terminating_replicas {
            Some(number) if number > 0 => format!(", {number} terminating"),
            _ => String::new(),
        };
        let extra = match status.updated_replicas.saturating_sub(wanted) {
            extra if extra > 0 => format!(", {extra} to be removed"),
            _ => String::new(),
        };
        let numbers = format!(
            "{}, {}, {old} old{extra}{terminating}",
            share(status.updated_replicas, wanted, "updated"),
            share(status.available_replicas, wanted, "available")
        );
        let cause = blockers.first().map(|blocker| blocker.message.as_str());
        let because = cause.map_or_else(String::new, |cause| format!(": {cause}"));
        match phase {
            Phase::Progressing => format!("deployment {name} is rolling out ({numbers}){because}"),
            Phase::Degraded => format!("deployment {name} is degraded ({numbers}){because}"),
            Phase::Complete => format!(
                "deployment {name} successfully rolled out ({}{})",
                share(status.available_replicas, wanted, "available"),
                self.unready_note()
            ),
            Phase::Paused if self.held_by_caps.is_some() && !self.deployment.spec.paused => {
                format!("deployment {name} is stopped by caps ({numbers}){because}")
            }
            Phase::Paused => {
                let mut paused = blockers.iter();
                let paused = paused.find(|blocker| blocker.cause == Cause::Paused);
                let since = paused.and_then(|blocker| blocker.since);
                let paused = since.map_or_else(
                    || "is paused".to_owned(),
                    |since| {
                        let now = self.observed.snapshot.now;
                        format!("has been paused for {}", now.since(since))
                    },
                );
                format!("deployment {name} {paused} ({numbers})")
            }
            Phase::Stalled => format!("deployment {name} is stalled ({numbers}){because}"),
            Phase::Deleting => format!("deployment {name} is being deleted{because}"),
            Phase::Refused => format!("deployment {name} cannot be rolled out{because}"),
            // Deployments are always judged.
            Phase::NotJudged => format!("deployment {name} is not judged{because}"),
        }
    }

    /// The pods of a complete rollout that have become unready, which the controllers have not counted yet.
    fn unready_note(&self) -> String {
        let unready = self.observed.new_pods().iter().filter(|pod| {
            let ready = condition(pod, "Ready");
            pod.metadata.deletion_timestamp.is_none()
                && !matches!(pod.phase.as_str(), "Failed" | "Succeeded")
                && ready.is_some_and(|ready| ready.status != "True")
        });
        let names: BTreeSet<&str> = unready.map(|pod| pod.metadata.name.as_str()).collect();
        let Some(first) = names.first() else {
            return String::new();
        };
        let name = one_line(first, NAME_MAX);
        match names.len() {
            1 => format!("; pod {name} is not ready"),
            all => format!("; pod {name} and {} more are not ready", all - 1),
        }
    }

    fn counts(&self) -> RolloutCounts {
        let status = self.status;
        RolloutCounts {
            desired: self.limits.replicas,
            total: status.replicas,
            updated: status.updated_replicas,
            ready: status.ready_replicas,
            available: status.available_replicas,
            unavailable: status.unavailable_replicas,
            terminating: status.terminating_replicas,
            max_total: self.limits.max_total(),
            min_available: self.min_available(),
            max_total_arithmetic: self.arithmetic.max_total.clone(),
            min_available_arithmetic: self.arithmetic.min_available.clone(),
        }
    }

    /// `MinAvailable`. Recreate does not preserve any minimum.
    pub(super) fn min_available(&self) -> i32 {
        self.strategy.min_available(self.limits).unwrap_or(0)
    }
}

/// Which caps stop the rollout once the steps are carried out.
fn held_by_caps(
    observed: &ObservedRollout<'_>,
    options: Options,
    strategy: &dyn RolloutStrategy,
    limits: Limits,
    steps: &[Step],
) -> Option<String> {
    let sizes = steps::scaled(steps);
    let of = |set: &ReplicaSet| {
        let size = sizes.get(&*set.metadata.name).copied();
        let replicas = size.unwrap_or(set.replicas);
        SetView {
            replicas,
            available: set.status.available_replicas.min(replicas),
        }
    };
    let created = steps::created(steps).map(|set| SetView {
        replicas: set.replicas,
        available: 0,
    });
    let view = View {
        limits,
        caps: observed.snapshot.deployment.caps(options),
        // Old pods that still run are another blocker.
        old_pods_may_run: &|| false,
        new: observed.new_set().map(of).or(created),
        old: observed.old_sets().iter().map(|set| of(set)).collect(),
    };
    strategy::held_by_caps(strategy, &view)
}

/// Whether the stored status is of an earlier generation.
pub(super) fn is_unobserved(deployment: &Deployment) -> bool {
    deployment.status.observed_generation < deployment.metadata.generation
}
