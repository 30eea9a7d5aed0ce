//! The automatic rollback of `rollplan wait --on-failure`.

use std::time::Duration;

use rollplan_wire::proto::RolloutResponse;

use super::steering::{self, Action, Mode, Steering, Verdicts};
use crate::cli::error::Error;
use crate::cli::options::{ClusterArgs, Output};
use crate::cli::planner::Planner;
use crate::cli::target::Target;

/// How long to wait for the end of a rollback by default.
const TIMEOUT: Duration = Duration::from_secs(600);

/// How to roll failed rollouts back.
#[derive(Clone, Copy, Debug)]
pub(in crate::cli::commands) struct RollBack {
    pub(in crate::cli::commands) output: Output,
    pub(in crate::cli::commands) dry_run: bool,
    pub(in crate::cli::commands) interval: Duration,
    /// How long to wait for the end of the rollback.
    pub(in crate::cli::commands) timeout: Option<Duration>,
}

// === impl RollBack ===

impl RollBack {
    /// Restores the template of the old ReplicaSet with the most available pods if it is certain that the rollout needs a
    /// change, and waits until that is complete. The planner remembers the rejected template, and does not roll it back
    /// again. If the rollout is complete, only ends an earlier rollback or canary whose command was stopped.
    pub(in crate::cli::commands) fn carry_out(
        self,
        planner: &Planner,
        cluster: &ClusterArgs,
        target: &Target,
        has_failed: bool,
    ) -> Result<(), Error> {
        if self.dry_run && !has_failed {
            return Ok(());
        }
        let mut policy = steering::hold();
        // A hold is not a failed rollout.
        if has_failed {
            policy.on_rollout_failure = RolloutResponse::RollBack.into();
        }
        let mut mode = Mode::new(self.dry_run, Some(self.output)).polling(self.interval, true);
        mode.limits.timeout = Some(self.timeout.unwrap_or(TIMEOUT));
        let (target, action) = (target.clone(), Action::RollBack { has_failed });
        let verdicts = Verdicts::default();
        let steering = Steering::new(planner, cluster, target, action, policy, verdicts, mode)?;
        steering.run().map(drop)
    }
}
