//! Carries out the decisions of the strategy: `rolloutRolling` and `rolloutRecreate`.

use std::collections::BTreeSet;

use super::sets::{Found, WorkingCopy};
use super::{Pass, Rules, SyncResult};
use crate::action::OnFailure;
use crate::scaling::ScaleReason;
use crate::snapshot::Pod;
use crate::status;
use crate::strategy::{Next, Role, Scale, SetView, View, held_by_caps};

impl Pass<'_> {
    /// Continues the rollout as far as one pass may.
    pub(super) fn roll_out(&mut self) -> SyncResult<()> {
        let mut found = self.find_and_sync_revision(false)?;
        let mut next = self.ask_strategy(&found);
        if matches!(next, Next::Create) {
            found = self.find_and_sync_revision(true)?;
            next = self.ask_strategy(&found);
        }
        match next {
            Next::Create | Next::Wait => return self.sync_rollout_status(&found),
            Next::Scale(sizes) => {
                if self.scale(&found, sizes)? {
                    return self.sync_rollout_status(&found);
                }
            }
            Next::ScaleBlindly(sizes) => _ = self.scale(&found, sizes)?,
            Next::Finish(size) => {
                if let Some(new) = &found.new {
                    self.scale_set(new, size, false, ScaleReason::NoOldPods, OnFailure::Stop)?;
                }
            }
        }
        if status::is_complete(self.owner.deployment, &self.owner.status) {
            self.clean_up(&found.old)?;
        }
        self.sync_rollout_status(&found)
    }

    fn ask_strategy(&self, found: &Found) -> Next {
        self.with_view(found, |view| self.strategy.next(view))
    }

    /// Which caps stop the rollout, if they do.
    pub(super) fn held_by_caps(&self, found: &Found) -> Option<String> {
        self.with_view(found, |view| held_by_caps(&*self.strategy, view))
    }

    fn with_view<T>(&self, found: &Found, ask: impl FnOnce(&View<'_>) -> T) -> T {
        let of = |set: &WorkingCopy| SetView {
            replicas: set.replicas,
            available: self.available(set),
        };
        ask(&View {
            limits: self.limits,
            caps: self.caps,
            old_pods_may_run: &|| self.old_pods_may_run(&found.old),
            new: found.new.as_ref().map(of),
            old: found.old.iter().map(of).collect(),
        })
    }

    /// The available pods of a ReplicaSet, as decisions count them.
    pub(super) fn available(&self, set: &WorkingCopy) -> i32 {
        let cached = self.sets.cached(set);
        let observed = cached.status.available_replicas;
        match self.rules {
            Rules::Exact => observed,
            Rules::LookAhead => observed.min(cached.replicas).min(cached.available_max),
        }
    }

    /// Returns whether a size has changed. If a write fails that may fail, this returns false, although other sizes may have
    /// changed.
    fn scale(&mut self, found: &Found, sizes: Vec<Scale>) -> SyncResult<bool> {
        if sizes.is_empty() {
            return Ok(false);
        }
        let mut new = found.new.clone();
        let mut old = found.old.clone();
        let mut changed = false;
        for Scale {
            set,
            to,
            reason,
            may_fail,
        } in sizes
        {
            let copy = match set {
                Role::New => new.as_mut(),
                Role::Old(index) => old.get_mut(index),
            };
            let Some(copy) = copy else { continue };
            let on_failure = if may_fail {
                OnFailure::Continue
            } else {
                OnFailure::Stop
            };
            match self.scale_set(copy, to, false, reason, on_failure) {
                Ok((resized, scaled)) => {
                    changed |= resized;
                    *copy = scaled;
                }
                Err(_) if may_fail => return Ok(false),
                Err(stop) => return Err(stop),
            }
        }
        Ok(changed)
    }

    /// `oldPodsRunning`, and two more reasons to wait that Kubernetes does not have: a list of pods that may be incomplete
    /// proves nothing, and an old ReplicaSet whose controller has not observed its latest size may still start pods.
    fn old_pods_may_run(&self, old: &[WorkingCopy]) -> bool {
        let old: Vec<_> = old.iter().map(|set| self.sets.cached(set)).collect();
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

/// Whether containers of a pod may still run. Those of a pod that is being deleted may.
fn is_running(pod: &Pod) -> bool {
    !matches!(pod.phase.as_str(), "Failed" | "Succeeded")
}

fn is_of_one_of(pod: &Pod, owners: &BTreeSet<(&str, &str)>) -> bool {
    pod.metadata.controller().is_some_and(|owner| {
        owner.kind == "ReplicaSet" && owners.contains(&(owner.name.as_str(), owner.uid.as_str()))
    })
}
