//! Restarts after configuration changes.

use rollplan_restart::{Plan, plan_restarts as plan};
use rollplan_wire::{Context, Error, proto, read_restarts};

/// Plans the restarts of workloads whose configuration has changed. Violations of single items are part of the answer.
pub(crate) fn plan_restarts(
    request: proto::PlanRestartsRequest,
    context: &mut Context<'_>,
) -> Result<proto::PlanRestartsResponse, Error> {
    let restarts = read_restarts(request, context)?;
    let interrupt = context.interrupt;
    let plan = if restarts.plans() {
        plan(&restarts.input, interrupt)?
    } else {
        Plan::default()
    };
    let answer = restarts.print(plan, interrupt);
    interrupt.check()?;
    Ok(answer)
}
