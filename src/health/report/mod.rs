//! Reports the progress of a rollout and what blocks it, for people and for programs: what a snapshot
//! [shows](crate::observe), with the status and the steps of a plan.
//!
//! Reasons are part of the API; the wording of messages may change. Blockers are ranked: those that need a fix come first,
//! followed by those that only need time, and by those that are consequences of others.

mod blockers;
mod old_pods;
mod predicted;
mod steps;
mod verdict;

use rollplan_core::action::Step;
use rollplan_core::snapshot::{DeploymentStatus, Options};
use rollplan_core::time::Time;

use crate::explain::Blocker;
use crate::judge::verdict::Verdict;
use crate::observe::ObservedRollout;

use self::predicted::PredictedRollout;

/// The progress of a rollout, and what blocks it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The phase of the rollout.
    pub phase: Phase,
    /// A human-readable sentence.
    pub message: String,
    /// Numbers of pods, and the limits of the rollout. Absent without all ReplicaSets, and for other kinds.
    pub counts: Option<RolloutCounts>,
    /// The numbers of another kind than a Deployment.
    pub counters: Vec<Counter>,
    /// Whether the kind is judged by the table of kinds or by the rule for all others.
    pub is_generic: bool,
    /// Whether a controller has observed the latest generation.
    pub is_observed: bool,
    /// The reasons for the decisions of the plan.
    pub reasons: Vec<Reason>,
    /// The causes that block the rollout, the one to fix first at the beginning.
    pub blockers: Vec<Blocker>,
    /// The revision of the new ReplicaSet. Empty before it exists.
    pub revision: String,
    /// The name of the new ReplicaSet. Empty before it exists.
    pub replica_set: String,
    /// The time at which the progress deadline expires, if there is one.
    pub deadline: Option<Time>,
    /// Whether the rollout completes by itself or needs a change.
    pub verdict: Verdict,
}

/// The phase of a rollout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The rollout is in progress.
    Progressing,
    /// All desired pods are updated and available, no old pods remain, and a controller has observed the latest
    /// generation.
    Complete,
    /// The rollout is paused by `spec.paused`, or caps stop it.
    Paused,
    /// The deadline has passed, or the rollout certainly needs a change.
    Stalled,
    /// The Deployment is being deleted.
    Deleting,
    /// The Deployment does not allow a plan.
    Refused,
    /// The rollout completed earlier, and a pod that was ready then is not ready now.
    Degraded,
    /// No rule judges the object.
    NotJudged,
}

/// The numbers of pods of a rollout, and its limits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RolloutCounts {
    /// Desired pods.
    pub desired: i32,
    /// Pods that are not terminating.
    pub total: i32,
    /// Pods of the current template.
    pub updated: i32,
    /// Ready pods.
    pub ready: i32,
    /// Available pods.
    pub available: i32,
    /// Pods that are missing or not yet available: the sizes of all ReplicaSets less the available pods.
    pub unavailable: i32,
    /// Terminating pods, if they are reported.
    pub terminating: Option<i32>,
    /// The maximum sum of the sizes.
    pub max_total: i32,
    /// The minimum number of available pods that scaling down preserves. 0 under Recreate.
    pub min_available: i32,
    /// How `max_total` is calculated.
    pub max_total_arithmetic: String,
    /// How `min_available` is calculated.
    pub min_available_arithmetic: String,
}

/// A number that the controller of a workload publishes, or that its spec asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counter {
    /// What is counted, in lower case, for example "updated".
    pub name: &'static str,
    /// The number.
    pub value: i64,
}

/// The reason for one decision of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason {
    /// The machine-readable reason.
    pub reason: &'static str,
    /// A human-readable sentence.
    pub message: String,
}

/// Reports on a rollout. `options`, `status` and `steps` are those of the plan. Without steps, the report describes the
/// current state.
#[must_use]
pub fn report(
    observed: &ObservedRollout<'_>,
    options: Options,
    status: &DeploymentStatus,
    steps: &[Step],
) -> Report {
    PredictedRollout::new(observed, options, status, steps).report(steps)
}
