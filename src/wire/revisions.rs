//! Requests for rollbacks and for lists of revisions, and the responses.

use std::sync::Arc;

use rollplan_core::Rollback;
use rollplan_core::controller_revision::{Restoration, ToRevision, Workload};
use rollplan_core::interrupt::Interrupt;
use rollplan_core::snapshot::Snapshot;

use super::context::Context;
use super::error::{Error, Reason};
use super::event_calls;
use super::limits::{CONFIGURATIONS_MAX, limit};
use super::parse::{Parser, Path};
use super::path::{OwnerResource, plural_of};
use super::print_revision::{print_restoration, print_rollback};
use super::snapshot::{Kinds, Subject, present, read_snapshot};
use crate::proto;

/// A request for a rollback.
#[derive(Debug)]
pub struct RollbackInput {
    /// A Deployment, a StatefulSet or a DaemonSet.
    pub subject: Subject,
    /// The revision to return to.
    pub to_revision: ToRevision,
    /// How to print the rollback.
    pub printer: RollbackPrinter,
}

/// Converts rollbacks to responses.
#[derive(Debug)]
pub struct RollbackPrinter {
    has_event_calls: bool,
    plural: String,
}

/// Reads a request for a rollback.
///
/// # Errors
///
/// [`Error::InvalidArgument`] with all violations, [`Error::TooLarge`], [`Error::Interrupted`].
pub fn read_rollback(
    request: proto::RollbackRequest,
    context: &mut Context<'_>,
) -> Result<RollbackInput, Error> {
    let proto::RollbackRequest {
        snapshot,
        to_revision,
        options,
        to_last_available,
        configurations,
    } = request;
    limit("configurations", configurations.len(), CONFIGURATIONS_MAX)?;
    let printer = RollbackPrinter {
        has_event_calls: options.as_ref().is_some_and(|it| it.events_as_calls),
        plural: plural_of(snapshot.as_ref()),
    };
    let mut parser = Parser::new(context.interrupt);
    let subject = read_snapshot(snapshot, Kinds::Revisions, context, &mut parser)?;
    parser.options(options);
    let to_revision = parser.count(to_revision, &Path::Root("to_revision"));
    if to_last_available && to_revision != 0 {
        let path = Path::Root("to_last_available");
        parser.violation(&path, Reason::Exclusive, "excludes to_revision");
    }
    let path = Path::Root("configurations");
    let configurations = configurations.into_iter().enumerate();
    let looked_up = configurations
        .filter_map(|(index, message)| parser.looked_up(message, &path.index(index)))
        .collect();
    let mut subject = parser.finish(subject).and_then(present)?;
    match &mut subject {
        Subject::Deployment(snapshot) => {
            Arc::make_mut(&mut snapshot.surroundings).looked_up = looked_up;
        }
        Subject::Workload(workload) => workload.surroundings.looked_up = looked_up,
        Subject::Other(_) => {}
    }
    Ok(RollbackInput {
        subject,
        to_revision: match (to_last_available, to_revision) {
            (true, _) => ToRevision::LastAvailable,
            (false, 0) => ToRevision::Previous,
            (false, number) => ToRevision::Number(number),
        },
        printer,
    })
}

/// Reads a request for the revisions of a Deployment, a StatefulSet or a DaemonSet.
///
/// # Errors
///
/// [`Error::InvalidArgument`] with all violations, [`Error::TooLarge`], [`Error::Interrupted`].
pub fn read_list_revisions(
    request: proto::ListRevisionsRequest,
    context: &mut Context<'_>,
) -> Result<Subject, Error> {
    let proto::ListRevisionsRequest { snapshot } = request;
    let mut parser = Parser::new(context.interrupt);
    let subject = read_snapshot(snapshot, Kinds::Revisions, context, &mut parser)?;
    parser.finish(subject).and_then(present)
}

// === impl RollbackPrinter ===

impl RollbackPrinter {
    /// Converts the rollback of a Deployment to a response. After an interruption, changes are missing.
    #[must_use]
    pub fn print(
        &self,
        rollback: Rollback,
        snapshot: &Snapshot,
        interrupt: &dyn Interrupt,
    ) -> proto::RollbackResponse {
        let owner = OwnerResource::of(&snapshot.deployment, &self.plural);
        let mut answer = print_rollback(rollback, &owner, interrupt);
        if self.has_event_calls {
            event_calls::add(&mut answer.steps, snapshot);
        }
        answer
    }

    /// Converts the rollback of a StatefulSet or a DaemonSet to a response. After an interruption, changes are missing.
    #[must_use]
    pub fn print_restoration(
        &self,
        restoration: Restoration,
        workload: &Workload,
        interrupt: &dyn Interrupt,
    ) -> proto::RollbackResponse {
        let owner = OwnerResource {
            api_version: &workload.api_version,
            kind: &workload.kind,
            plural: &self.plural,
        };
        print_restoration(restoration, &owner, interrupt)
    }
}
