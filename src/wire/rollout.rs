//! Plans of rollouts: the request in, the response out.

use rollplan_core::Plan;
use rollplan_core::interrupt::{Interrupt, Interrupted};
use rollplan_core::snapshot::{Options, Snapshot};
use rollplan_health::diagnosis::diagnose_until;
use rollplan_health::diagnosis::failure::judgement::Judgement;
use rollplan_health::report::report;

use super::context::Context;
use super::error::Error;
use super::event_calls;
use super::parse::{Horizon, Parser};
use super::path::{OwnerResource, plural_of};
use super::print::print_plan;
use super::snapshot::{Kinds, deployment, read_snapshot};
use crate::proto;

/// Plans the next writes for one Deployment.
pub(super) fn plan_rollout(
    request: proto::PlanRolloutRequest,
    context: &mut Context<'_>,
) -> Result<proto::PlanRolloutResponse, Error> {
    let interrupt = context.interrupt;
    let proto::PlanRolloutRequest { snapshot, options } = request;
    let plural = plural_of(snapshot.as_ref());
    let has_report = options.as_ref().is_some_and(|it| it.report);
    let has_event_calls = options.as_ref().is_some_and(|it| it.events_as_calls);
    let mut parser = Parser::new(interrupt);
    let subject = read_snapshot(snapshot, Kinds::Deployments, context, &mut parser)?;
    let (options, horizon) = parser.options(options);
    let snapshot = parser.finish(subject).and_then(deployment)?;
    let plan = plan(&snapshot, options, horizon, interrupt)?;
    // If ReplicaSets may be missing, the report is the whole answer: it states why nothing is planned.
    let report = if has_report || !snapshot.replica_sets_complete {
        let diagnosis = diagnose_until(&snapshot, Judgement::default(), interrupt)?;
        Some(report(&diagnosis, &plan.status, &plan.steps))
    } else {
        None
    };
    let owner = OwnerResource::of(&snapshot.deployment, &plural);
    let mut answer = print_plan(plan, report, &owner, interrupt);
    if has_event_calls {
        event_calls::add(&mut answer.steps, &snapshot);
    }
    if !snapshot.replica_sets_complete {
        answer.status = None;
    }
    interrupt.check()?;
    Ok(answer)
}

fn plan(
    snapshot: &Snapshot,
    options: Options,
    horizon: Horizon,
    interrupt: &dyn Interrupt,
) -> Result<Plan, Interrupted> {
    match horizon {
        Horizon::Settled => rollplan_core::plan_settled_until(snapshot, options, interrupt),
        Horizon::Pass => rollplan_core::plan_pass_until(snapshot, options, interrupt),
    }
}
