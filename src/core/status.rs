//! The status of a Deployment: counters, conditions and the progress deadline.
//!
//! Kubernetes source: `calculateStatus` in `pkg/controller/deployment/sync.go`, `progress.go` and
//! `util/deployment_util.go`.

use crate::interrupt::Interrupt;
use crate::size::{Limits, clamp};
use crate::snapshot::{
    Condition, Deployment, DeploymentStatus, Options, ReplicaSet, ReplicaSetStatus,
};
use crate::time::{Span, Time};

/// The type of the condition that reports progress.
pub const PROGRESSING: &str = "Progressing";
/// The type of the condition that reports availability.
pub const AVAILABLE: &str = "Available";
/// The type of the condition that reports pods that cannot be created.
pub const REPLICA_FAILURE: &str = "ReplicaFailure";
/// The reason for a rollout that made no progress within its deadline.
pub const TIMED_OUT: &str = "ProgressDeadlineExceeded";
/// The reason for a rollout that is complete.
pub const NEW_SET_AVAILABLE: &str = "NewReplicaSetAvailable";
/// The reason for a rollout that the caps of the caller stop.
pub const CAPPED: &str = "DeploymentCapped";
/// The reason for a rollout that makes progress.
pub const SET_UPDATED: &str = "ReplicaSetUpdated";

/// A ReplicaSet, as the status counts it.
pub(crate) struct Sizes<'a> {
    /// The size of the controller's copy.
    pub(crate) wanted: i32,
    /// The stored status.
    pub(crate) status: &'a ReplicaSetStatus,
    /// Whether it has the current template.
    pub(crate) is_new: bool,
}

/// `calculateStatus`: counters, and whether enough pods are available.
pub(crate) fn calculate<'a>(
    deployment: &Deployment,
    before: &DeploymentStatus,
    limits: Limits,
    options: Options,
    now: Time,
    sets: impl Iterator<Item = Sizes<'a>>,
) -> DeploymentStatus {
    let (mut wanted, mut replicas, mut updated, mut ready, mut available) = (0, 0, 0, 0, 0);
    let mut terminating = Some(0);
    for Sizes {
        wanted: size,
        status,
        is_new,
    } in sets
    {
        wanted += i64::from(size);
        replicas += i64::from(status.replicas);
        updated += if is_new {
            i64::from(status.replicas)
        } else {
            0
        };
        ready += i64::from(status.ready_replicas);
        available += i64::from(status.available_replicas);
        terminating = match (terminating, status.terminating_replicas) {
            (Some(sum), Some(count)) => Some(sum + i64::from(count)),
            // A ReplicaSet that its controller has not observed yet has no pods.
            (sum, None) if status.observed_generation == 0 => sum,
            (None, _) | (_, None) => None,
        };
    }
    let mut status = DeploymentStatus {
        observed_generation: deployment.metadata.generation,
        replicas: clamp(replicas),
        updated_replicas: clamp(updated),
        ready_replicas: clamp(ready),
        available_replicas: clamp(available),
        // After scaling down, more pods may be available than desired.
        unavailable_replicas: clamp((wanted - available).max(0)),
        terminating_replicas: terminating
            .filter(|_| options.terminating_replicas)
            .map(clamp),
        collision_count: before.collision_count,
        conditions: before.conditions.clone(),
    };
    let condition = if available >= i64::from(limits.min_available()) {
        let message = "Deployment has minimum availability.";
        new_condition(AVAILABLE, "True", "MinimumReplicasAvailable", message, now)
    } else {
        let message = "Deployment does not have minimum availability.";
        new_condition(
            AVAILABLE,
            "False",
            "MinimumReplicasUnavailable",
            message,
            now,
        )
    };
    set_condition(&mut status, condition);
    status
}

/// The input of the conditions of a rollout.
pub(crate) struct Rollout<'a> {
    pub(crate) deployment: &'a Deployment,
    /// The status in the memory of the controller.
    pub(crate) before: &'a DeploymentStatus,
    /// Old ReplicaSets by age, then the new one.
    pub(crate) all: &'a [&'a ReplicaSet],
    /// The new ReplicaSet.
    pub(crate) new: Option<&'a ReplicaSet>,
    /// Which caps stop the rollout, if they do.
    pub(crate) held_by_caps: Option<String>,
    pub(crate) now: Time,
    /// Checked for each ReplicaSet: all of them together may have a million conditions.
    pub(crate) interrupt: &'a dyn Interrupt,
}

/// The second half of `syncRolloutStatus`: progress, the deadline, and failures of ReplicaSets.
pub(crate) fn with_rollout_conditions(
    rollout: &Rollout<'_>,
    mut status: DeploymentStatus,
) -> DeploymentStatus {
    let Rollout {
        deployment,
        before,
        all,
        new,
        ref held_by_caps,
        now,
        interrupt,
    } = *rollout;
    let current = condition(before, PROGRESSING);
    if !has_progress_deadline(deployment) {
        remove_condition(&mut status, PROGRESSING);
    }
    // Only the new template has pods, and its rollout was complete before, so that no progress is expected.
    let at_rest = status.replicas == status.updated_replicas
        && current.is_some_and(|condition| condition.reason == NEW_SET_AVAILABLE);
    if has_progress_deadline(deployment) && !at_rest {
        let subject = match new {
            Some(set) => format!("ReplicaSet \"{}\"", set.metadata.name),
            None => format!("Deployment \"{}\"", deployment.metadata.name),
        };
        let progressing = |value, reason, end: &str| {
            new_condition(PROGRESSING, value, reason, format!("{subject} {end}"), now)
        };
        if is_complete(deployment, &status) {
            let end = "has successfully progressed.";
            set_condition(&mut status, progressing("True", NEW_SET_AVAILABLE, end));
        } else if let Some(caps) = held_by_caps {
            // As during a pause, the deadline does not count.
            let end = format!("is held by its caps: {caps}.");
            let condition = progressing("Unknown", CAPPED, &end);
            if current.is_none_or(|current| current.message != condition.message) {
                replace_condition(&mut status, condition);
            }
        } else if has_progressed(before, &status)
            || current.is_some_and(|condition| condition.reason == CAPPED)
        {
            // Progress changes the update time even if status and reason stay the same. After caps, the deadline starts
            // again.
            let condition = progressing("True", SET_UPDATED, "is progressing.");
            replace_condition(&mut status, condition);
        } else if has_timed_out(deployment, &status, now) {
            let end = "has timed out progressing.";
            set_condition(&mut status, progressing("False", TIMED_OUT, end));
        }
    }
    match replica_failure(all, new, interrupt) {
        Some(failure) => set_condition(&mut status, failure),
        None => remove_condition(&mut status, REPLICA_FAILURE),
    }
    status
}

/// `getReplicaFailures`: the failure of the new ReplicaSet comes before those of others.
fn replica_failure(
    all: &[&ReplicaSet],
    new: Option<&ReplicaSet>,
    interrupt: &dyn Interrupt,
) -> Option<Condition> {
    let failure = new
        .into_iter()
        .chain(all.iter().copied())
        .take_while(|_| !interrupt.is_interrupted())
        .flat_map(|set| &set.status.conditions)
        .find(|condition| condition.kind == REPLICA_FAILURE)?;
    Some(Condition {
        last_update_time: failure.last_transition_time,
        ..failure.clone()
    })
}

/// `DeploymentComplete`: all desired pods are updated and available, and no old pods are left.
#[must_use]
pub fn is_complete(deployment: &Deployment, status: &DeploymentStatus) -> bool {
    let wanted = deployment.spec.replicas;
    status.updated_replicas == wanted
        && status.replicas == wanted
        && status.available_replicas == wanted
        && status.observed_generation >= deployment.metadata.generation
}

/// `DeploymentProgressing`: more new pods, fewer old ones, more ready or more available.
fn has_progressed(before: &DeploymentStatus, after: &DeploymentStatus) -> bool {
    let old =
        |status: &DeploymentStatus| i64::from(status.replicas) - i64::from(status.updated_replicas);
    after.updated_replicas > before.updated_replicas
        || old(after) < old(before)
        || after.ready_replicas > before.ready_replicas
        || after.available_replicas > before.available_replicas
}

/// `DeploymentTimedOut`.
fn has_timed_out(deployment: &Deployment, status: &DeploymentStatus, now: Time) -> bool {
    condition(status, PROGRESSING).is_some_and(|condition| match condition.reason.as_str() {
        // A new rollout may begin before its condition is written, and a complete one has no deadline.
        NEW_SET_AVAILABLE | CAPPED => false,
        TIMED_OUT => true,
        _ => deadline_of(deployment, condition) < now,
    })
}

fn deadline_of(deployment: &Deployment, progressing: &Condition) -> Time {
    progressing
        .last_update_time
        .unwrap_or(Time::MIN)
        .plus_seconds(i64::from(deployment.spec.progress_deadline_seconds))
}

/// Whether the Deployment has a progress deadline.
#[must_use]
pub fn has_progress_deadline(deployment: &Deployment) -> bool {
    deployment.spec.progress_deadline_seconds != i32::MAX
}

/// The time at which the progress deadline passes. `None` if the rollout is complete, paused, stopped by caps or deleted, or
/// if the deadline has been reported as exceeded.
#[must_use]
pub fn progress_deadline(deployment: &Deployment, status: &DeploymentStatus) -> Option<Time> {
    let idle = deployment.spec.paused
        || deployment.metadata.deletion_timestamp.is_some()
        || !has_progress_deadline(deployment)
        || is_complete(deployment, status);
    let progressing = condition(status, PROGRESSING).filter(|_| !idle)?;
    // A completed rollout has no deadline until the next one makes progress. Kubernetes requeues the Deployment repeatedly
    // here after the old deadline has passed.
    let has_deadline = ![TIMED_OUT, NEW_SET_AVAILABLE, CAPPED].contains(&&*progressing.reason);
    has_deadline.then(|| deadline_of(deployment, progressing))
}

/// The time until the deadline must be checked, with a second added because clocks differ.
#[must_use]
pub fn requeue_after(
    deployment: &Deployment,
    status: &DeploymentStatus,
    now: Time,
) -> Option<Span> {
    let deadline = progress_deadline(deployment, status)?;
    Some(deadline.since(now).plus_seconds(1))
}

// Conditions.

/// The condition of a type.
#[must_use]
pub fn condition<'a>(status: &'a DeploymentStatus, kind: &str) -> Option<&'a Condition> {
    status
        .conditions
        .iter()
        .find(|condition| condition.kind == kind)
}

/// A condition that is new at this time.
#[must_use]
pub fn new_condition(
    kind: &str,
    value: &str,
    reason: &str,
    message: impl Into<String>,
    now: Time,
) -> Condition {
    let now = Some(now.whole_seconds());
    Condition {
        kind: kind.to_owned(),
        status: value.to_owned(),
        reason: reason.to_owned(),
        message: message.into(),
        last_update_time: now,
        last_transition_time: now,
    }
}

/// `SetDeploymentCondition`: a condition with the same status and reason stays as it is, and a changed one moves to the end.
pub fn set_condition(status: &mut DeploymentStatus, new: Condition) {
    let current = condition(status, &new.kind);
    let is_same =
        |current: &Condition| current.status == new.status && current.reason == new.reason;
    if !current.is_some_and(is_same) {
        replace_condition(status, new);
    }
}

/// Sets a condition, even if its status and reason stay the same. Only a change of the status is a transition.
pub(crate) fn replace_condition(status: &mut DeploymentStatus, mut new: Condition) {
    if let Some(current) = condition(status, &new.kind)
        && current.status == new.status
    {
        new.last_transition_time = current.last_transition_time;
    }
    remove_condition(status, &new.kind);
    status.conditions.push(new);
}

/// `RemoveDeploymentCondition`.
fn remove_condition(status: &mut DeploymentStatus, kind: &str) {
    status.conditions.retain(|condition| condition.kind != kind);
}
