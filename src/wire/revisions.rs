//! Rollbacks and lists of revisions: the request in, the response out.

use std::sync::Arc;

use rollplan_core::controller_revision::{self, ToRevision};

use super::context::Context;
use super::error::{Error, Reason};
use super::event_calls;
use super::limits::{CONFIGURATIONS_MAX, limit};
use super::parse::{Parser, Path};
use super::path::{OwnerResource, plural_of};
use super::print_revision::{print_restoration, print_revisions, print_rollback};
use super::snapshot::{Kinds, Subject, deployment, read_snapshot};
use crate::proto;

/// Plans a rollback of a Deployment, a StatefulSet or a DaemonSet to an earlier revision.
pub(super) fn rollback(
    request: proto::RollbackRequest,
    context: &mut Context<'_>,
) -> Result<proto::RollbackResponse, Error> {
    let interrupt = context.interrupt;
    let proto::RollbackRequest {
        snapshot,
        to_revision,
        options,
        to_last_available,
        configurations,
    } = request;
    limit("configurations", configurations.len(), CONFIGURATIONS_MAX)?;
    let plural = plural_of(snapshot.as_ref());
    let has_event_calls = options.as_ref().is_some_and(|it| it.events_as_calls);
    let mut parser = Parser::new(interrupt);
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
    let mut snapshot = match parser.finish(subject)? {
        Some(Subject::Workload(mut workload)) => {
            workload.surroundings.looked_up = looked_up;
            let to = match (to_last_available, to_revision) {
                (true, _) => ToRevision::LastAvailable,
                (false, 0) => ToRevision::Previous,
                (false, number) => ToRevision::Number(number),
            };
            let restoration = controller_revision::restore_until(&workload, to, interrupt)?;
            let owner = OwnerResource {
                api_version: &workload.api_version,
                kind: &workload.kind,
                plural: &plural,
            };
            let answer = print_restoration(restoration?, &owner, interrupt);
            interrupt.check()?;
            return Ok(answer);
        }
        subject => deployment(subject)?,
    };
    let to_revision = if to_last_available {
        rollplan_core::last_available_revision(&snapshot, interrupt)?
    } else {
        to_revision
    };
    Arc::make_mut(&mut snapshot.surroundings).looked_up = looked_up;
    let rollback = rollplan_core::rollback_until(&snapshot, to_revision, interrupt)?;
    let owner = OwnerResource::of(&snapshot.deployment, &plural);
    let mut answer = print_rollback(rollback?, &owner, interrupt);
    if has_event_calls {
        event_calls::add(&mut answer.steps, &snapshot);
    }
    interrupt.check()?;
    Ok(answer)
}

/// Lists the revisions of a Deployment, a StatefulSet or a DaemonSet.
pub(super) fn list_revisions(
    request: proto::ListRevisionsRequest,
    context: &mut Context<'_>,
) -> Result<proto::ListRevisionsResponse, Error> {
    let interrupt = context.interrupt;
    let proto::ListRevisionsRequest { snapshot } = request;
    let mut parser = Parser::new(interrupt);
    let subject = read_snapshot(snapshot, Kinds::Revisions, context, &mut parser)?;
    let revisions = match parser.finish(subject)? {
        Some(Subject::Workload(workload)) => {
            controller_revision::list_controller_revisions_until(&workload, interrupt)?
        }
        subject => rollplan_core::list_revisions_until(&deployment(subject)?, interrupt)?,
    };
    let answer = print_revisions(revisions);
    interrupt.check()?;
    Ok(answer)
}
