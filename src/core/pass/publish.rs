//! The status that a pass publishes, and the other writes of the Deployment.
//!
//! Kubernetes source: `syncDeploymentStatus` and `checkPausedConditions` in `pkg/controller/deployment/sync.go`, and
//! `progress.go`.

use std::borrow::Cow;

use super::sets::Found;
use super::{Pass, Stop, SyncResult};
use crate::action::{Action, OnFailure};
use crate::snapshot::{DeploymentStatus, ReplicaSet};
use crate::status::{self, Sizes};

pub(super) const FOUND_NEW_SET: &str = "FoundNewReplicaSet";
pub(super) const NEW_SET_CREATED: &str = "NewReplicaSetCreated";
pub(super) const CREATE_FAILED: &str = "ReplicaSetCreateError";
const PAUSED: &str = "DeploymentPaused";
const RESUMED: &str = "DeploymentResumed";

impl Pass<'_> {
    /// `checkPausedConditions`: the progress deadline must not count time spent paused.
    pub(super) fn check_paused_conditions(&mut self) -> SyncResult<()> {
        if !self.owner.has_deadline() {
            return Ok(());
        }
        let progressing = self.owner.progressing();
        let reason = progressing.map(|condition| condition.reason.as_str());
        if reason == Some(status::TIMED_OUT) {
            // Lack of progress, once reported, stays.
            return Ok(());
        }
        let (reason, message) = match (self.owner.deployment.spec.paused, reason == Some(PAUSED)) {
            (true, false) => (PAUSED, "Deployment is paused"),
            (false, true) => (RESUMED, "Deployment is resumed"),
            (true, true) | (false, false) => return Ok(()),
        };
        self.set_progressing("Unknown", reason, message.to_owned());
        self.write_status()
    }

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
        let all: Vec<&ReplicaSet> = found.all().map(|set| self.sets.cached(set)).collect();
        let new = found.new.as_ref().map(|set| self.sets.cached(set));
        let rollout = status::Rollout {
            deployment: self.owner.deployment,
            before: &self.owner.status,
            all: &all,
            new,
            held_by_caps: self.held_by_caps(found),
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
                status: &self.sets.cached(set).status,
                is_new: found.is_new(set),
            }),
        )
    }

    pub(super) fn set_progressing(&mut self, value: &str, reason: &str, message: String) {
        let now = self.snapshot.now;
        self.owner.set_progressing(value, reason, message, now);
    }

    /// `UpdateStatus` of the Deployment in memory.
    pub(super) fn write_status(&mut self) -> SyncResult<()> {
        self.checkpoint()?;
        if self.owner.is_written {
            return Err(Stop::Stale);
        }
        let Some(action) = self.owner.difference() else {
            return Ok(());
        };
        let writes_status = matches!(action, Action::UpdateDeploymentStatus { .. });
        self.write_owner(action)?;
        if writes_status {
            self.owner.stored_status = self.owner.status.clone();
        }
        Ok(())
    }

    /// Writes the Deployment, which a pass can do once.
    pub(super) fn write_owner(&mut self, action: Action) -> SyncResult<()> {
        if self.owner.is_written {
            return Err(Stop::Stale);
        }
        let written = self.writes.act(action, OnFailure::Stop);
        written.map_err(|_| Stop::Refused)?;
        self.owner.is_written = true;
        Ok(())
    }
}
