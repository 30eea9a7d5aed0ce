//! Statuses of objects of every kind.

use rollplan_health::kinds::report_until;
use rollplan_health::observe::observe_until;
use rollplan_health::report::report;
use rollplan_wire::{
    Context, Error, StatusInput, Subject, print_observed_status, print_rollout_status, proto,
    read_status,
};

use super::canary_status::add_canary;

/// Computes the status of a Deployment or of an object of another kind, without planning writes.
pub(crate) fn compute_status(
    request: proto::ComputeStatusRequest,
    context: &mut Context<'_>,
) -> Result<proto::ComputeStatusResponse, Error> {
    let StatusInput {
        subject,
        options,
        judgement,
    } = read_status(request, context)?;
    let interrupt = context.interrupt;
    let snapshot = match subject {
        Subject::Other(observed) => {
            let report = report_until(&observed, judgement, interrupt)?;
            return Ok(print_observed_status(&observed, report));
        }
        subject => subject.deployment()?,
    };
    let status = rollplan_core::compute_status_until(&snapshot, options, interrupt)?;
    let observed = observe_until(&snapshot, judgement, interrupt)?;
    let report = report(&observed, options, &status, &[]);
    let mut answer = print_rollout_status(&snapshot, status, report);
    if let Some(report) = &mut answer.report {
        add_canary(report, &snapshot, interrupt)?;
    }
    // Without all ReplicaSets, the numbers would be wrong.
    if !snapshot.replica_sets_complete {
        answer.status = None;
    }
    interrupt.check()?;
    Ok(answer)
}
