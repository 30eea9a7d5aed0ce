//! The status that a pass publishes.

use std::borrow::Cow;

use super::{Found, Pass, SyncResult};
use crate::snapshot::{Condition, DeploymentStatus, ReplicaSet};
use crate::status::{self, Sizes};

impl Pass<'_> {
    /// `syncDeploymentStatus`.
    pub(super) fn sync_status(&mut self, found: &Found) -> SyncResult<()> {
        self.owner.status = Cow::Owned(self.calculate_status(found));
        self.write_status()
    }

    /// `syncRolloutStatus`.
    pub(super) fn sync_rollout_status(&mut self, found: &Found) -> SyncResult<()> {
        self.owner.status = Cow::Owned(self.calculate_rollout_status(found));
        self.write_status()
    }

    pub(super) fn calculate_rollout_status(&self, found: &Found) -> DeploymentStatus {
        let calculated = self.calculate_status(found);
        let all: Vec<&ReplicaSet> = found.all().map(|set| self.cached(set)).collect();
        let new = found.new.as_ref().map(|set| self.cached(set));
        let rollout = status::Rollout {
            deployment: self.owner.deployment,
            before: &self.owner.status,
            all: &all,
            new,
            now: self.snapshot.now,
            interrupt: self.interrupt,
        };
        status::with_rollout_conditions(&rollout, calculated)
    }

    pub(super) fn calculate_status(&self, found: &Found) -> DeploymentStatus {
        status::calculate(
            self.owner.deployment,
            &self.owner.status,
            self.limits,
            self.options,
            self.snapshot.now,
            found.all().map(|set| Sizes {
                wanted: set.replicas,
                status: &self.cached(set).status,
                is_new: found.new.as_ref().is_some_and(|new| new.index == set.index),
            }),
        )
    }

    pub(super) fn has_deadline(&self) -> bool {
        status::has_progress_deadline(self.owner.deployment)
    }

    pub(super) fn progressing(&self) -> Option<&Condition> {
        status::condition(&self.owner.status, status::PROGRESSING)
    }

    pub(super) fn set_progressing(&mut self, value: &str, reason: &str, message: String) {
        let condition = status::new_condition(
            status::PROGRESSING,
            value,
            reason,
            message,
            self.snapshot.now,
        );
        status::set_condition(self.owner.status.to_mut(), condition);
    }
}
