//! Statuses of objects of every kind: the request in, the response out.

use rollplan_health::diagnosis::diagnose_until;
use rollplan_health::report::report;

use super::canary_status::add_canary;
use super::context::Context;
use super::error::Error;
use super::parse::Parser;
use super::print::{object_reference, observed_reference, print_status};
use super::print_report::print_report;
use super::snapshot::{Kinds, Subject, deployment, read_snapshot};
use crate::proto;

/// Computes the status of a Deployment or of an object of another kind, without planning writes.
pub(super) fn compute_status(
    request: proto::ComputeStatusRequest,
    context: &mut Context<'_>,
) -> Result<proto::ComputeStatusResponse, Error> {
    let interrupt = context.interrupt;
    let proto::ComputeStatusRequest {
        snapshot,
        options,
        previous_verdict,
        fail_on,
    } = request;
    let mut parser = Parser::new(interrupt);
    let subject = read_snapshot(snapshot, Kinds::All, context, &mut parser)?;
    let (options, _) = parser.options(options);
    let judgement = parser.judgement(previous_verdict, fail_on);
    let snapshot = match parser.finish(subject)? {
        Some(Subject::Other(observed)) => {
            let report = rollplan_health::kinds::report_until(&observed, judgement, interrupt)?;
            return Ok(proto::ComputeStatusResponse {
                status: None,
                report: Some(print_report(report)),
                object: Some(observed_reference(&observed)),
            });
        }
        subject => deployment(subject)?,
    };
    let status = rollplan_core::compute_status_until(&snapshot, options, interrupt)?;
    let diagnosis = diagnose_until(&snapshot, judgement, interrupt)?;
    let mut report = print_report(report(&diagnosis, &status, &[]));
    add_canary(&mut report, &snapshot, interrupt)?;
    let answer = proto::ComputeStatusResponse {
        status: snapshot.replica_sets_complete.then(|| print_status(status)),
        report: Some(report),
        object: Some(object_reference(&snapshot.deployment)),
    };
    interrupt.check()?;
    Ok(answer)
}
