//! Recreate: all old pods end before the first new one starts.
//!
//! Kubernetes source: `pkg/controller/deployment/recreate.go`.

use std::collections::BTreeSet;

use super::{Found, Pass, RolloutStrategy, SyncResult, WorkingCopy};
use crate::action::OnFailure;
use crate::snapshot::Pod;
use crate::status;

pub(super) struct Recreate;

impl RolloutStrategy for Recreate {
    /// `rolloutRecreate`.
    fn rollout(&self, pass: &mut Pass<'_>) -> SyncResult<()> {
        let mut found = pass.find_and_sync_revision(false)?;
        if pass.scale_old_to_zero(&found.old)? || pass.old_pods_may_run(&found) {
            return pass.sync_rollout_status(&found);
        }
        if found.new.is_none() {
            found = pass.find_and_sync_revision(true)?;
        }
        if let Some(new) = &found.new {
            let wanted = pass.limits.replicas;
            pass.scale_set(new, wanted, false, OnFailure::Stop)?;
        }
        if status::is_complete(pass.owner.deployment, &pass.owner.status) {
            pass.clean_up(&found.old)?;
        }
        pass.sync_rollout_status(&found)
    }
}

impl Pass<'_> {
    /// `scaleDownOldReplicaSetsForRecreate`.
    fn scale_old_to_zero(&mut self, old: &[WorkingCopy]) -> SyncResult<bool> {
        let mut scaled = false;
        for set in old.iter().filter(|set| set.replicas > 0) {
            scaled |= self.scale_set(set, 0, false, OnFailure::Stop)?.0;
        }
        Ok(scaled)
    }

    /// `oldPodsRunning`, and two reasons more to wait that Kubernetes does not have: a list of pods that may
    /// be incomplete proves nothing, and an old ReplicaSet whose controller has not seen its latest size may
    /// still start pods.
    fn old_pods_may_run(&self, found: &Found) -> bool {
        let old: Vec<_> = found.old.iter().map(|set| self.cached(set)).collect();
        if old.iter().any(|set| set.status.replicas > 0) {
            return true;
        }
        if old
            .iter()
            .any(|set| set.status.observed_generation < set.metadata.generation)
        {
            return true;
        }
        if !old.is_empty() && !self.snapshot.pods_complete {
            return true;
        }
        let owners: BTreeSet<(&str, &str)> = old
            .iter()
            .map(|set| (set.metadata.name.as_str(), set.metadata.uid.as_str()))
            .collect();
        let namespace = &self.owner.deployment.metadata.namespace;
        self.snapshot.pods.iter().any(|pod| {
            pod.metadata.namespace == *namespace && is_running(pod) && is_of_one_of(pod, &owners)
        })
    }
}

/// Whether a pod may still run something. A pod being deleted does, until it is gone.
fn is_running(pod: &Pod) -> bool {
    !matches!(pod.phase.as_str(), "Failed" | "Succeeded")
}

fn is_of_one_of(pod: &Pod, owners: &BTreeSet<(&str, &str)>) -> bool {
    pod.metadata.controller().is_some_and(|owner| {
        owner.kind == "ReplicaSet" && owners.contains(&(owner.name.as_str(), owner.uid.as_str()))
    })
}
