//! The Progressing condition of Deployments that are paused and resumed, and the reasons it can have.

use super::{Pass, SyncResult};

pub(super) const FOUND_NEW_SET: &str = "FoundNewReplicaSet";
pub(super) const NEW_SET_CREATED: &str = "NewReplicaSetCreated";
pub(super) const CREATE_FAILED: &str = "ReplicaSetCreateError";
const PAUSED: &str = "DeploymentPaused";
const RESUMED: &str = "DeploymentResumed";

impl Pass<'_> {
    /// `checkPausedConditions`: the progress deadline must not count time spent paused.
    pub(super) fn check_paused_conditions(&mut self) -> SyncResult<()> {
        if !self.has_deadline() {
            return Ok(());
        }
        let reason = self
            .progressing()
            .map(|condition| condition.reason.as_str());
        if reason == Some(crate::status::TIMED_OUT) {
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
}
