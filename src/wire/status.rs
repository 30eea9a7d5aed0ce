//! Requests for statuses, and the responses.

use rollplan_core::snapshot::{DeploymentStatus, Options, Snapshot};
use rollplan_health::judge::VerdictOptions;
use rollplan_health::kinds::ObjectSnapshot;
use rollplan_health::report::Report;

use super::context::Context;
use super::error::Error;
use super::parse::Parser;
use super::print::{object_reference, observed_reference, print_status};
use super::print_report::print_report;
use super::snapshot::{Kinds, Subject, present, read_snapshot};
use crate::proto;

/// A request for a status.
#[derive(Debug)]
pub struct StatusInput {
    /// The object with what belongs to it.
    pub subject: Subject,
    /// The options of the planner.
    pub options: Options,
    /// How to judge failures.
    pub judgement: VerdictOptions,
}

/// Reads a request for a status.
///
/// # Errors
///
/// [`Error::InvalidArgument`] with all violations, [`Error::TooLarge`], [`Error::Interrupted`].
pub fn read_status(
    request: proto::ComputeStatusRequest,
    context: &mut Context<'_>,
) -> Result<StatusInput, Error> {
    let proto::ComputeStatusRequest {
        snapshot,
        options,
        previous_verdict,
        fail_on,
    } = request;
    let mut parser = Parser::new(context.interrupt);
    let subject = read_snapshot(snapshot, Kinds::All, context, &mut parser)?;
    let (options, _) = parser.options(options);
    let judgement = parser.judgement(previous_verdict, fail_on);
    Ok(StatusInput {
        subject: parser.finish(subject).and_then(present)?,
        options,
        judgement,
    })
}

/// Converts the status of a Deployment and the report on its rollout to a response.
#[must_use]
pub fn print_rollout_status(
    snapshot: &Snapshot,
    status: DeploymentStatus,
    report: Report,
) -> proto::ComputeStatusResponse {
    proto::ComputeStatusResponse {
        status: Some(print_status(status)),
        report: Some(print_report(report)),
        object: Some(object_reference(&snapshot.deployment)),
    }
}

/// Converts the report on an object of another kind to a response.
#[must_use]
pub fn print_observed_status(
    observed: &ObjectSnapshot,
    report: Report,
) -> proto::ComputeStatusResponse {
    proto::ComputeStatusResponse {
        status: None,
        report: Some(print_report(report)),
        object: Some(observed_reference(observed)),
    }
}
