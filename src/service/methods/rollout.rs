//! Plans of rollouts.

use rollplan_core::Plan;
use rollplan_core::interrupt::{Interrupt, Interrupted};
use rollplan_health::judge::VerdictOptions;
use rollplan_health::observe::observe_until;
use rollplan_health::report::report;
use rollplan_wire::{Context, Error, Horizon, RolloutInput, proto, read_rollout};

/// Plans the next writes for one Deployment.
pub(crate) fn plan_rollout(
    request: proto::PlanRolloutRequest,
    context: &mut Context<'_>,
) -> Result<proto::PlanRolloutResponse, Error> {
    let input = read_rollout(request, context)?;
    let interrupt = context.interrupt;
    let snapshot = &input.snapshot;
    let plan = plan(&input, interrupt)?;
    // If ReplicaSets may be missing, the report is the whole answer: it states why nothing is planned.
    let report = if input.has_report || !snapshot.replica_sets_complete {
        let observed = observe_until(snapshot, VerdictOptions::default(), interrupt)?;
        Some(report(&observed, input.options, &plan.status, &plan.steps))
    } else {
        None
    };
    let is_complete = snapshot.replica_sets_complete;
    let mut answer = input.print(plan, report, interrupt);
    if !is_complete {
        answer.status = None;
    }
    interrupt.check()?;
    Ok(answer)
}

fn plan(input: &RolloutInput, interrupt: &dyn Interrupt) -> Result<Plan, Interrupted> {
    let RolloutInput {
        snapshot, options, ..
    } = input;
    match input.horizon {
        Horizon::Settled => rollplan_core::plan_settled_until(snapshot, *options, interrupt),
        Horizon::Pass => rollplan_core::plan_pass_until(snapshot, *options, interrupt),
    }
}
