//! Converts revisions and rollbacks to protobuf messages.

use rollplan_core::controller_revision::Restoration;
use rollplan_core::interrupt::Interrupt;
use rollplan_core::reference::ConfigurationKind;
use rollplan_core::requirement::Requirement;
use rollplan_core::template::TemplateChange;
use rollplan_core::{Revision, Rollback};

use super::path::OwnerResource;
use super::print::{api_call, print_step};
use super::print_time::timestamp;
use crate::proto;

/// Converts a rollback to a response. After an interruption, changes are missing.
pub(super) fn print_rollback(
    rollback: Rollback,
    owner: &OwnerResource<'_>,
    interrupt: &dyn Interrupt,
) -> proto::RollbackResponse {
    let Rollback {
        steps,
        from_revision,
        to_revision,
        replica_set,
        changes,
        required,
        warnings,
        reason,
    } = rollback;
    proto::RollbackResponse {
        steps: steps
            .into_iter()
            .map(|step| print_step(step, owner))
            .collect(),
        from_revision,
        to_revision,
        replica_set,
        controller_revision: String::new(),
        changes: print_changes(changes, interrupt),
        required: required.into_iter().map(print_requirement).collect(),
        warnings,
        reason,
    }
}

/// Converts a rollback of a StatefulSet or a DaemonSet to a response. After an interruption, changes are missing.
pub(super) fn print_restoration(
    restoration: Restoration,
    owner: &OwnerResource<'_>,
    interrupt: &dyn Interrupt,
) -> proto::RollbackResponse {
    let Restoration {
        call,
        from_revision,
        to_revision,
        name,
        changes,
        required,
        warnings,
        reason,
    } = restoration;
    let step = call.map(|(summary, call)| proto::Step {
        summary,
        call: Some(api_call(call, owner)),
        on_failure: proto::OnFailure::Stop.into(),
        ..proto::Step::default()
    });
    proto::RollbackResponse {
        steps: step.into_iter().collect(),
        from_revision,
        to_revision,
        replica_set: String::new(),
        controller_revision: name,
        changes: print_changes(changes, interrupt),
        required: required.into_iter().map(print_requirement).collect(),
        warnings,
        reason,
    }
}

fn print_requirement(requirement: Requirement) -> proto::RequiredConfiguration {
    let Requirement {
        kind, name, keys, ..
    } = requirement;
    proto::RequiredConfiguration {
        kind: print_configuration_kind(kind),
        name,
        keys: keys.into_iter().collect(),
    }
}

pub(super) fn print_configuration_kind(kind: ConfigurationKind) -> i32 {
    let kind = match kind {
        ConfigurationKind::ConfigMap => proto::ConfigurationKind::ConfigMap,
        ConfigurationKind::Secret => proto::ConfigurationKind::Secret,
        ConfigurationKind::SecretProviderClass => proto::ConfigurationKind::SecretProviderClass,
    };
    kind.into()
}

fn print_changes(
    changes: Vec<TemplateChange>,
    interrupt: &dyn Interrupt,
) -> Vec<proto::TemplateChange> {
    let changes = changes.into_iter();
    changes
        .take_while(|_| !interrupt.is_interrupted())
        .map(change)
        .collect()
}

pub(super) fn change(change: TemplateChange) -> proto::TemplateChange {
    let TemplateChange { path, from, to } = change;
    let json = |value: Option<rollplan_core::template::Value>| {
        value.map_or_else(String::new, |value| value.to_json())
    };
    proto::TemplateChange {
        path,
        from_json: json(from),
        to_json: json(to),
    }
}

/// Converts a list of revisions to a response.
#[must_use]
pub fn print_revisions(revisions: Vec<Revision>) -> proto::ListRevisionsResponse {
    proto::ListRevisionsResponse {
        revisions: revisions.into_iter().map(revision).collect(),
    }
}

fn revision(revision: Revision) -> proto::Revision {
    let Revision {
        revision,
        replica_set,
        controller_revision,
        change_cause,
        images,
        creation_timestamp,
        replicas,
        ready_replicas,
        available_replicas,
        current,
        cleaned_up_next,
        earlier_revisions,
    } = revision;
    proto::Revision {
        revision,
        replica_set,
        controller_revision,
        change_cause,
        images,
        creation_timestamp: creation_timestamp.map(timestamp),
        replicas,
        ready_replicas,
        available_replicas,
        current,
        cleaned_up_next,
        earlier_revisions,
    }
}
