//! Checks the report: a complete rollout is reported as complete, and a stuck one with the actual cause.

use std::collections::BTreeSet;

use rollplan_core::caps::Caps;
use rollplan_core::revision::ROLLBACK_TO;
use rollplan_core::snapshot::{Deployment, Options, Strategy};
use rollplan_health::explain::Cause;
use rollplan_health::judge::VerdictOptions;
use rollplan_health::observe::observe;
use rollplan_health::report::{Phase, report};
use rollplan_simulation::pods::PodState;

use crate::pods::{Fault, SimPod};
use crate::server::StoredSet;
use crate::tally::Tally;
use crate::world::World;

impl World {
    /// Checks the report when the state no longer changes, or when the adapter's calls keep being rejected.
    pub(crate) fn check_report(&mut self) {
        let Some(deployment) = self.store.deployment.clone() else {
            return;
        };
        if deployment.metadata.deletion_timestamp.is_some() {
            return;
        }
        let Some(snapshot) = self.snapshot(true) else {
            return;
        };
        let plan = self.flaw.plan(&snapshot, Options::default());
        let observed = observe(&snapshot, VerdictOptions::default());
        let report = report(&observed, Options::default(), &plan.status, &plan.steps);
        let truth = self.truth(&deployment);
        let wanted = deployment.spec.replicas;
        let rejected = self.is_create_rejected(&deployment);
        let complete = !rejected
            && truth.replicas == wanted
            && truth.updated == wanted
            && truth.available == wanted;
        let mut blockers = report.blockers.iter().map(|blocker| blocker.cause);
        // The ReplicaSet of another controller has the same labels.
        let first = blockers.find(|cause| *cause != Cause::SelectorOverlap);
        if complete {
            self.tallies.count(Tally::CheckComplete);
            if report.phase != Phase::Complete || first.is_some() {
                let message = format!("complete, but reported as {:?}, {first:?}", report.phase);
                self.violate("report", message);
            }
            return;
        }
        let causes = self.causes(&deployment);
        self.tallies.count(Tally::CheckStuck);
        let Some(actual) = causes.first() else {
            let message = format!(
                "stuck without a cause: {truth:?}, report {:?}",
                report.message
            );
            return self.violate("stuck", message);
        };
        if causes.len() > 1 {
            self.tallies.count(Tally::StuckSeveral);
        }
        self.tallies.count(match actual {
            Cause::Paused => Tally::StuckPaused,
            Cause::Capped => Tally::StuckCapped,
            Cause::ReplicaSetRefused => Tally::StuckReplicaSetRejected,
            Cause::ImagePull => Tally::StuckImagePull,
            Cause::ContainerConfig => Tally::StuckConfig,
            Cause::CrashLoop => Tally::StuckCrashLoop,
            Cause::Unschedulable => Tally::StuckUnschedulable,
            Cause::PodsRefused => Tally::StuckPodsRejected,
            Cause::OldPodsRunning => Tally::StuckOldPods,
            _ => Tally::StuckNotReady,
        });
        if first != Some(*actual) {
            let message = format!(
                "stuck because of {causes:?}, but reported as {first:?}: {}",
                report.message
            );
            return self.violate("report", message);
        }
        self.check_decided(&snapshot);
    }

    /// The actual causes that block the rollout, the one to fix first at the beginning.
    fn causes(&self, deployment: &Deployment) -> BTreeSet<Cause> {
        if deployment.spec.paused {
            return BTreeSet::from([Cause::Paused]);
        }
        let (new, old) = self.roles(deployment);
        let mut causes = BTreeSet::new();
        let size = new.as_ref().map_or(0, |stored| stored.set.replicas);
        let is_kept = self.are_old_pods_kept(deployment);
        // Recreate does not scale the new ReplicaSet while an old pod is running.
        if size != deployment.spec.replicas && !is_kept && self.waits_for_old_pods(deployment) {
            causes.insert(Cause::OldPodsRunning);
        }
        // As in Kubernetes, rejected pods of an old ReplicaSet are reported for the Deployment too.
        let short = |stored: &StoredSet| {
            let pods = self.store.pods_of(&stored.set.metadata.uid);
            let active = pods.filter(|pod| pod.is_active()).count();
            active < usize::try_from(stored.set.replicas).unwrap_or(0)
        };
        let rejected =
            self.quota_pods.is_some() && new.iter().chain(&old).any(|stored| short(stored));
        let Some(new) = new else {
            if self.is_create_rejected(deployment) {
                causes.insert(Cause::ReplicaSetRefused);
            } else if is_kept {
                causes.insert(if rejected {
                    Cause::PodsRefused
                } else {
                    Cause::Capped
                });
            }
            return causes;
        };
        let seconds = new.set.min_ready_seconds;
        let pods: Vec<_> = self
            .store
            .pods_of(&new.set.metadata.uid)
            .filter(|pod| pod.is_active())
            .collect();
        for pod in &pods {
            if !pod.stored.is_available(seconds, self.now) {
                causes.insert(self.cause(pod));
            }
        }
        if rejected {
            causes.insert(Cause::PodsRefused);
        }
        if causes.is_empty() && has_caps(deployment) {
            causes.insert(Cause::Capped);
        }
        causes
    }

    /// Whether caps keep old pods, perhaps those that Recreate would remove.
    fn are_old_pods_kept(&self, deployment: &Deployment) -> bool {
        let (_, old) = self.roles(deployment);
        has_caps(deployment) && old.iter().any(|it| it.set.replicas > 0)
    }

    fn waits_for_old_pods(&self, deployment: &Deployment) -> bool {
        let (_, old) = self.roles(deployment);
        let mut pods = old
            .iter()
            .flat_map(|stored| self.store.pods_of(&stored.set.metadata.uid));
        deployment.spec.strategy == Strategy::Recreate && pods.any(|pod| !pod.is_evicted)
    }

    /// Whether a quota rejects a ReplicaSet that must be created.
    fn is_create_rejected(&self, deployment: &Deployment) -> bool {
        let is_recreated = deployment.spec.strategy == Strategy::Recreate;
        let waits = self.waits_for_old_pods(deployment)
            || is_recreated && self.are_old_pods_kept(deployment);
        // A rollback by annotation creates the ReplicaSet before it waits.
        let creates = deployment.metadata.annotations.contains_key(ROLLBACK_TO) || !waits;
        let is_new_missing = self.roles(deployment).0.is_none();
        self.quota_sets && creates && is_new_missing && !deployment.spec.paused
    }

    fn cause(&self, pod: &SimPod) -> Cause {
        match (pod.stored.state, self.fault(pod.template)) {
            _ if pod.is_crashed => Cause::CrashLoop,
            (PodState::Pending, Fault::Unschedulable) => Cause::Unschedulable,
            (PodState::Scheduled, Fault::ImagePull) => Cause::ImagePull,
            (PodState::Scheduled, Fault::Config) => Cause::ContainerConfig,
            // A restarted container counts as crashing until it has run for ten minutes.
            (PodState::Running, _) if pod.stored.restarts > 0 && self.now - pod.started < 600 => {
                Cause::CrashLoop
            }
            (PodState::Running, Fault::NeverReady) => Cause::NotReady,
            (PodState::Ready, _) => Cause::MinReadySeconds,
            _ => Cause::Starting,
        }
    }
}

/// Whether caps limit the rollout.
pub(super) fn has_caps(deployment: &Deployment) -> bool {
    deployment.caps(Options::default()) != Caps::NONE
}
