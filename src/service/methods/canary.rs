//! Canaries, and the automatic rollback of rollouts.

use rollplan_wire::{Context, Error, print_canary, proto, read_canary};

/// Plans the next patch of a Deployment for a canary, or for the automatic rollback of a rollout.
pub(crate) fn plan_canary(
    request: proto::PlanCanaryRequest,
    context: &mut Context<'_>,
) -> Result<proto::PlanCanaryResponse, Error> {
    let input = read_canary(request, context)?;
    let plan = rollplan_canary::plan_canary(&input, context.interrupt)??;
    Ok(print_canary(plan))
}
