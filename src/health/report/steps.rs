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

/// Why a write that does not scale a ReplicaSet is made: the machine-readable reason, and its text.
struct WriteReason(&'static str, &'static str);

const OWNER_CHECK: WriteReason = WriteReason(
    "OWNER_CHECK",
    "an adoption for a deleted Deployment would delete running pods",
);
const ADOPT: WriteReason =
    WriteReason("ADOPT", "the selector matches it, and it has no controller");
const RELEASE: WriteReason = WriteReason("RELEASE", "the selector no longer matches it");
const NEW_TEMPLATE: WriteReason =
    WriteReason("NEW_TEMPLATE", "no ReplicaSet has the current template");
const ANNOTATIONS: WriteReason = WriteReason(
    "ANNOTATIONS",
    "annotations, revision or minReadySeconds differ from the Deployment",
);
const HISTORY_LIMIT: WriteReason = WriteReason("HISTORY_LIMIT", "it exceeds revisionHistoryLimit");
const ROLLBACK: WriteReason = WriteReason("ROLLBACK", "a rollback was requested");
const OWNER_ANNOTATIONS: WriteReason =
    WriteReason("OWNER_ANNOTATIONS", "its annotations are out of date");
const STATUS: WriteReason = WriteReason("STATUS", "the published status is out of date");

/// The reasons for the steps that write.
pub(super) fn reasons(steps: &[Step]) -> Vec<Reason> {
    let reason = |step: &Step| {
        let WriteReason(reason, why) = match step.action.as_ref()? {
            Action::CheckOwner { .. } => OWNER_CHECK,
            Action::AdoptReplicaSet { .. } => ADOPT,
            Action::ReleaseReplicaSet { .. } => RELEASE,
            Action::CreateReplicaSet(_) => NEW_TEMPLATE,
            Action::UpdateReplicaSet { .. } => ANNOTATIONS,
            Action::ScaleReplicaSet { .. } => {
                let reason = step.reason?;
                WriteReason(reason.as_str(), reason.text())
            }
            Action::DeleteReplicaSet { .. } => HISTORY_LIMIT,
            Action::UpdateDeployment { change, .. } if change.template.is_some() => ROLLBACK,
            Action::UpdateDeployment { .. } => OWNER_ANNOTATIONS,
            Action::UpdateDeploymentStatus { .. } => STATUS,
        };
        Some(Reason {
            reason,
            message: format!("{}: {why}", step.summary()),
        })
    };
    steps.iter().filter_map(reason).collect()
}

#[cfg(test)]
mod tests {
    use rollplan_core::scaling::ScaleReason;

    use super::*;

    #[test]
    fn documentation_has_the_reasons_of_writes() {
        let scales = ScaleReason::ALL
            .into_iter()
            .map(|it| WriteReason(it.as_str(), it.text()));
        let others = [
            NEW_TEMPLATE,
            ADOPT,
            RELEASE,
            OWNER_CHECK,
            ANNOTATIONS,
            OWNER_ANNOTATIONS,
            HISTORY_LIMIT,
            ROLLBACK,
            STATUS,
        ];
        let row = |WriteReason(reason, why)| vec![str::to_owned(reason), str::to_owned(why)];
        let table = rollplan_world::page::table(&["reason", "why"], scales.chain(others).map(row));
        rollplan_world::page::check("docs/reference/api.md", "writes", &table);
    }
}
