//! Checks the final state, which no longer changes: nothing remains to be written, and the published status is correct.

use std::sync::Arc;

use rollplan_core::snapshot::{Deployment, DeploymentStatus, Options, Strategy};
use rollplan_core::status::{self, CAPPED, NEW_SET_AVAILABLE, TIMED_OUT};

use super::plans::summaries;
use super::stuck::has_caps;
use super::{is_owned, limits};
use crate::pods::SimPod;
use crate::server::StoredSet;
use crate::tally::Tally;
use crate::world::World;

/// The actual numbers of pods.
#[derive(Default, PartialEq, Eq, Debug)]
pub(super) struct Truth {
    pub(super) replicas: i32,
    pub(super) updated: i32,
    pub(super) ready: i32,
    pub(super) available: i32,
    pub(super) unavailable: i32,
    pub(super) terminating: i32,
}

impl World {
    /// The ReplicaSet with the Deployment's template, and all others of the Deployment.
    pub(super) fn roles(
        &self,
        deployment: &Deployment,
    ) -> (Option<Arc<StoredSet>>, Vec<Arc<StoredSet>>) {
        let sets = self.store.sets.values();
        let mut owned: Vec<_> = sets
            .filter(|stored| is_owned(deployment, &stored.set))
            .cloned()
            .collect();
        owned.sort_by_key(|stored| {
            let metadata = &stored.set.metadata;
            (metadata.creation_timestamp, metadata.name.clone())
        });
        let template = &deployment.spec.template;
        let new = owned
            .iter()
            .position(|stored| stored.set.template.same_as(template));
        let new = new.map(|index| owned.remove(index));
        (new, owned)
    }

    pub(super) fn truth(&self, deployment: &Deployment) -> Truth {
        let (new, old) = self.roles(deployment);
        let mut truth = Truth::default();
        let mut wanted = 0;
        for (stored, is_new) in new
            .iter()
            .map(|new| (new, true))
            .chain(old.iter().map(|old| (old, false)))
        {
            let seconds = stored.set.min_ready_seconds;
            wanted += stored.set.replicas;
            for pod in self.store.pods_of(&stored.set.metadata.uid) {
                let active = pod.is_active();
                truth.replicas += i32::from(active);
                truth.updated += i32::from(active && is_new);
                truth.ready += i32::from(pod.stored.is_ready());
                truth.available += i32::from(pod.stored.is_available(seconds, self.now));
                truth.terminating += i32::from(pod.stored.deleting.is_some() && !pod.is_evicted);
            }
        }
        truth.unavailable = (wanted - truth.available).max(0);
        truth
    }

    /// At rest, a new plan has no calls, and the published status is correct.
    pub(crate) fn check_rest(&mut self) {
        let Some(deployment) = self.store.deployment.clone() else {
            return;
        };
        let recreate = deployment.spec.strategy == Strategy::Recreate;
        let Some(snapshot) = self.snapshot(recreate) else {
            return self.violate(
                "rest",
                "the adapter does not know the Deployment".to_owned(),
            );
        };
        let plan = self.flaw.plan(&snapshot, Options::default());
        self.tallies.count(Tally::CheckRest);
        if plan.steps.iter().any(|step| step.action.is_some()) {
            self.violate("rest", format!("still to do: {:?}", summaries(&plan)));
        }
        self.check_status(&deployment);
        self.check_deadline(&deployment);
        self.check_conditions(&deployment, &snapshot);
    }

    fn check_status(&mut self, deployment: &Deployment) {
        self.tallies.count(Tally::CheckStatus);
        let DeploymentStatus {
            observed_generation,
            replicas,
            updated_replicas,
            ready_replicas,
            available_replicas,
            unavailable_replicas,
            terminating_replicas,
            ..
        } = deployment.status;
        let published = Truth {
            replicas,
            updated: updated_replicas,
            ready: ready_replicas,
            available: available_replicas,
            unavailable: unavailable_replicas,
            terminating: terminating_replicas.unwrap_or(-1),
        };
        let truth = self.truth(deployment);
        if published != truth || observed_generation != deployment.metadata.generation {
            let message = format!("published {:?}, actual {truth:?}", deployment.status);
            self.violate("status", message);
        }
        let condition = status::condition(&deployment.status, status::AVAILABLE);
        let enough = truth.available >= limits(deployment).min_available();
        if condition.is_none_or(|condition| (condition.status == "True") != enough) {
            let message = format!("{condition:?}, {} available", truth.available);
            self.violate("status", message);
        }
    }

    /// After the progress deadline, the status of an incomplete rollout reports that the deadline was exceeded, unless caps stop
    /// the rollout.
    fn check_deadline(&mut self, deployment: &Deployment) {
        let spec = &deployment.spec;
        if spec.paused
            || spec.progress_deadline_seconds == i32::MAX
            || deployment.metadata.deletion_timestamp.is_some()
        {
            return;
        }
        let progressing = status::condition(&deployment.status, status::PROGRESSING);
        let reason = progressing.map(|condition| condition.reason.as_str());
        if reason == Some(TIMED_OUT) {
            self.tallies.count(Tally::CheckDeadline);
        }
        if progressing.is_none() && self.roles(deployment).0.is_none() {
            // As upstream, Recreate has no deadline while it waits before its first progress.
            self.tallies.count(Tally::ExemptNoDeadline);
        } else if reason == Some(CAPPED) && has_caps(deployment) {
            self.tallies.count(Tally::CheckCapped);
        } else if reason != Some(TIMED_OUT) && reason != Some(NEW_SET_AVAILABLE) {
            let message = format!("nothing changes, but the condition is {progressing:?}");
            self.violate("deadline", message);
        }
    }

    /// After all faults have been removed, the rollout has completed.
    pub(crate) fn check_converged(&mut self) {
        let Some(deployment) = self.store.deployment.clone() else {
            return self.violate("converged", "the Deployment does not exist".to_owned());
        };
        self.tallies.count(Tally::CheckConverged);
        let wanted = deployment.spec.replicas;
        let (new, old) = self.roles(&deployment);
        let size = new.as_ref().map(|stored| stored.set.replicas);
        let truth = self.truth(&deployment);
        let rest = old.iter().map(|stored| stored.set.replicas).sum::<i32>();
        if size != Some(wanted)
            || rest != 0
            || truth.available != wanted
            || truth.replicas != wanted
        {
            let message = format!("{size:?} new and {rest} old pods, {wanted} desired, {truth:?}");
            self.violate("converged", message);
        }
        let failing = status::condition(&deployment.status, status::REPLICA_FAILURE);
        if failing.is_some() {
            self.violate("converged", format!("{failing:?}"));
        }
        let limit = usize::try_from(deployment.spec.revision_history_limit).unwrap_or(0);
        if old.len() > limit {
            let count = old.len();
            self.violate(
                "history",
                format!("{count} old ReplicaSets exceed the limit of {limit}"),
            );
        }
        let lingering = self
            .store
            .pods
            .values()
            .filter(|pod| pod.stored.deleting.is_some());
        let lingering: Vec<String> = lingering.map(|pod| SimPod::name(pod)).collect();
        if !lingering.is_empty() {
            self.violate("converged", format!("{lingering:?} do not terminate"));
        }
    }
}
