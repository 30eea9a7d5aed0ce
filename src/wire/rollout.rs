//! Requests for plans of rollouts, and the responses.

use rollplan_core::Plan;
use rollplan_core::interrupt::Interrupt;
use rollplan_core::snapshot::{Options, Snapshot};
use rollplan_health::report::Report;

use super::context::Context;
use super::error::Error;
use super::event_calls;
use super::parse::{Horizon, Parser};
use super::path::{OwnerResource, plural_of};
use super::print::print_plan;
use super::snapshot::{Kinds, present, read_snapshot_in_loop};
use super::sync::{SyncInput, SyncRequest, check_snapshot};
use crate::proto;

/// A request for a plan.
#[derive(Debug)]
pub struct RolloutInput {
    /// The observed state.
    pub snapshot: Snapshot,
    /// The options of the planner.
    pub options: Options,
    /// How far to plan.
    pub horizon: Horizon,
    /// Whether a report is requested.
    pub has_report: bool,
    has_event_calls: bool,
    plural: String,
    sync: Option<SyncInput>,
}

/// Reads a request for a plan.
///
/// # Errors
///
/// [`Error::InvalidArgument`] with all violations, [`Error::TooLarge`], [`Error::Interrupted`].
pub fn read_rollout(
    request: proto::PlanRolloutRequest,
    context: &mut Context<'_>,
) -> Result<RolloutInput, Error> {
    let proto::PlanRolloutRequest {
        snapshot,
        options,
        sync,
    } = request;
    let plural = plural_of(snapshot.as_ref());
    let has_report = options.as_ref().is_some_and(|it| it.report);
    let has_event_calls = options.as_ref().is_some_and(|it| it.events_as_calls);
    let mut parser = Parser::new(context.interrupt);
    let sync = sync.map(|sync| {
        if let Some(snapshot) = &snapshot {
            check_snapshot(snapshot, &mut parser);
        }
        SyncRequest::read(sync, &mut parser)
    });
    let (subject, mut sync) = read_snapshot_in_loop(
        snapshot,
        sync.transpose()?,
        Kinds::Deployments,
        context,
        &mut parser,
    )?;
    let (mut options, horizon) = parser.options(options);
    let snapshot = parser.finish(subject).and_then(present)?.deployment()?;
    if let Some(sync) = &mut sync {
        options.terminating_replicas &= sync.stores_terminating(&snapshot);
    }
    Ok(RolloutInput {
        snapshot,
        options,
        horizon,
        has_report,
        has_event_calls,
        plural,
        sync,
    })
}

// === impl RolloutInput ===

impl RolloutInput {
    /// Converts a plan and its report, if there is one, to a response. After an interruption, steps are missing.
    #[must_use]
    pub fn print(
        self,
        mut plan: Plan,
        report: Option<Report>,
        interrupt: &dyn Interrupt,
    ) -> proto::PlanRolloutResponse {
        let owner = OwnerResource::of(&self.snapshot.deployment, &self.plural);
        let sync = self.sync;
        let sync = sync.map(|sync| sync.lead(&mut plan, &self.snapshot, &owner));
        let mut answer = print_plan(plan, report, &owner, interrupt);
        if let Some((sync, nonce)) = sync {
            let steps = answer.steps.iter_mut().enumerate();
            for (index, step) in steps.filter(|(_, step)| step.call.is_some()) {
                step.id = format!("{nonce}{index}");
            }
            answer.sync = Some(sync);
        }
        if self.has_event_calls {
            event_calls::add(&mut answer.steps, &self.snapshot);
        }
        answer
    }
}
