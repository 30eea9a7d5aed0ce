//! The parts of the steps of a plan that reports use.

use std::collections::BTreeMap;

use rollplan_core::action::{Action, NewReplicaSet, Step};
use rollplan_core::revision::REVISION;
use rollplan_core::snapshot::{Deployment, ReplicaSet};

use super::Reason;
use crate::observe::ObservedRollout;

/// The sizes that steps give to ReplicaSets, by name.
pub(super) fn scaled(steps: &[Step]) -> BTreeMap<&str, i32> {
    let actions = steps.iter().filter_map(|step| step.action.as_ref());
    actions
        .filter_map(|action| match action {
            Action::ScaleReplicaSet { set, to, .. } => Some((&*set.name, *to)),
            _ => None,
        })
        .collect()
}

/// The sizes of the new ReplicaSet and of all old ones once the steps are carried out.
pub(super) fn sizes(observed: &ObservedRollout<'_>, steps: &[Step]) -> (i64, i64) {
    let sizes = scaled(steps);
    let size = |set: &ReplicaSet| {
        let name = set.metadata.name.as_str();
        i64::from(sizes.get(name).copied().unwrap_or(set.replicas))
    };
    let created = created(steps).map_or(0, |set| i64::from(set.replicas));
    (
        observed.new_set().map_or(created, size),
        observed.old_sets().iter().map(|set| size(set)).sum(),
    )
}

/// Whether a step publishes that the latest generation was observed.
pub(super) fn publish_observation(steps: &[Step], deployment: &Deployment) -> bool {
    let generation = deployment.metadata.generation;
    steps.iter().any(|step| {
        matches!(
            &step.action,
            Some(Action::UpdateDeploymentStatus { status, .. }) if status.observed_generation >= generation
        )
    })
}

/// The ReplicaSet that is created.
pub(super) fn created(steps: &[Step]) -> Option<&NewReplicaSet> {
    steps.iter().find_map(|step| match &step.action {
        Some(Action::CreateReplicaSet(set)) => Some(&**set),
        _ => None,
    })
}

/// The revision of the rollout once the steps are carried out. Empty before it has one.
pub(super) fn revision(steps: &[Step], new: Option<&ReplicaSet>) -> String {
    if let Some(set) = created(steps) {
        return set.revision.to_string();
    }
    let written = steps.iter().find_map(|step| match &step.action {
        Some(Action::UpdateDeploymentStatus { revision, .. }) => revision.clone(),
        _ => None,
    });
    let stored = || Some(new?.metadata.annotations.get(REVISION)?.clone());
    written.or_else(stored).unwrap_or_default()
}

/// The reasons for the steps that write.
pub(super) fn reasons(steps: &[Step]) -> Vec<Reason> {
    let reason = |step: &Step| {
        let (reason, why) = match step.action.as_ref()? {
            Action::CheckOwner { .. } => (
                "OWNER_CHECK",
                "an adoption for a deleted Deployment would delete running pods",
            ),
            Action::AdoptReplicaSet { .. } => {
                ("ADOPT", "the selector matches it, and it has no controller")
            }
            Action::ReleaseReplicaSet { .. } => ("RELEASE", "the selector no longer matches it"),
            Action::CreateReplicaSet(_) => {
                ("NEW_TEMPLATE", "no ReplicaSet has the current template")
            }
            Action::UpdateReplicaSet { .. } => (
                "ANNOTATIONS",
                "annotations, revision or minReadySeconds differ from the Deployment",
            ),
            Action::ScaleReplicaSet { .. } => {
                let reason = step.reason?;
                (reason.as_str(), reason.text())
            }
            Action::DeleteReplicaSet { .. } => ("HISTORY_LIMIT", "it exceeds revisionHistoryLimit"),
            Action::UpdateDeployment { change, .. } if change.template.is_some() => {
                ("ROLLBACK", "a rollback was requested")
            }
            Action::UpdateDeployment { .. } => {
                ("OWNER_ANNOTATIONS", "its annotations are out of date")
            }
            Action::UpdateDeploymentStatus { .. } => {
                ("STATUS", "the published status is out of date")
            }
        };
        Some(Reason {
            reason,
            message: format!("{}: {why}", step.summary()),
        })
    };
    steps.iter().filter_map(reason).collect()
}
