//! Answers the calls of the contract with [`wire`].

use std::sync::Arc;
use std::time::Instant;

use prost::Message;
use rollplan_core::interrupt::Interrupt;
use tonic::{Request, Response, Status};
use tracing::Span;

use crate::proto::{
    ComputeStatusRequest, ComputeStatusResponse, ForecastRolloutRequest, ForecastRolloutResponse,
    ListRevisionsRequest, ListRevisionsResponse, PlanCanaryRequest, PlanCanaryResponse,
    PlanRestartsRequest, PlanRestartsResponse, PlanRolloutRequest, PlanRolloutResponse,
    RollbackRequest, RollbackResponse,
};
use crate::server::RolloutPlanner;
use crate::server::connect::Call;
use crate::server::observability::metrics::Metrics;
use crate::server::protocol::cancellation::Current;
use crate::server::protocol::context::AnswerContext;
use crate::server::protocol::errors::to_status;
use crate::wire::{self, Context, Facts, Shown};

/// The planner of this crate.
pub(crate) struct Planner {
    metrics: Arc<Metrics>,
}

// === impl Planner ===

impl Planner {
    pub(crate) fn new(metrics: Arc<Metrics>) -> Self {
        Self { metrics }
    }
}

#[tonic::async_trait]
impl RolloutPlanner for Planner {
    async fn plan_rollout(
        &self,
        request: Request<PlanRolloutRequest>,
    ) -> Result<Response<PlanRolloutResponse>, Status> {
        let start = Instant::now();
        let (answered, facts) = answer(request, wire::plan_rollout_in);
        let answered = answered?;
        self.metrics
            .series
            .planned(&facts, answered.get_ref(), start.elapsed());
        Ok(answered)
    }

    async fn compute_status(
        &self,
        request: Request<ComputeStatusRequest>,
    ) -> Result<Response<ComputeStatusResponse>, Status> {
        answer(request, wire::compute_status_in).0
    }

    async fn rollback(
        &self,
        request: Request<RollbackRequest>,
    ) -> Result<Response<RollbackResponse>, Status> {
        answer(request, wire::rollback_in).0
    }

    async fn list_revisions(
        &self,
        request: Request<ListRevisionsRequest>,
    ) -> Result<Response<ListRevisionsResponse>, Status> {
        answer(request, wire::list_revisions_in).0
    }

    async fn forecast_rollout(
        &self,
        request: Request<ForecastRolloutRequest>,
    ) -> Result<Response<ForecastRolloutResponse>, Status> {
        answer(request, wire::forecast_rollout_in).0
    }

    async fn plan_canary(
        &self,
        request: Request<PlanCanaryRequest>,
    ) -> Result<Response<PlanCanaryResponse>, Status> {
        answer(request, wire::plan_canary_in).0
    }

    async fn plan_restarts(
        &self,
        request: Request<PlanRestartsRequest>,
    ) -> Result<Response<PlanRestartsResponse>, Status> {
        // A plan of restarts covers many workloads, so the log contains none of them.
        answer(request, |request, _, interrupt| {
            wire::plan_restarts_until(request, interrupt)
        })
        .0
    }
}

/// Answers a call on the current thread, which was selected by the size of the call. Also returns facts about the snapshot,
/// as far as it was read.
fn answer<R, A: Message>(
    request: Request<R>,
    answer: impl FnOnce(R, &mut Context<'_>, &dyn Interrupt) -> Result<A, wire::Error>,
) -> (Result<Response<A>, Status>, Facts) {
    let (_, extensions, request) = request.into_parts();
    let mut facts = Facts::default();
    let in_context = |shown: Option<&mut Shown>| {
        let mut context = Context {
            shown,
            ..Context::default()
        };
        let answered = answer(request, &mut context, &Current::get());
        facts = context.facts;
        answered
    };
    let answered = match extensions.get::<Call>() {
        Some(call) => call.answer(in_context),
        None => in_context(None),
    };
    let deployment = name_of(&facts);
    let checked = |answer| wire::check_answer(&answer).map(|()| Response::new(answer));
    let answered = match answered.and_then(checked) {
        Ok(mut response) => {
            response.extensions_mut().insert(AnswerContext {
                deployment,
                ..AnswerContext::default()
            });
            Ok(response)
        }
        Err(error) => {
            Span::current().record("deployment", deployment);
            Err(to_status(&error))
        }
    };
    (answered, facts)
}

/// The namespace and name of the owner for the log, truncated to the maximum lengths in Kubernetes, because they are not
/// validated yet. Empty if no owner was found.
fn name_of(facts: &Facts) -> String {
    let Facts {
        namespace, name, ..
    } = facts;
    match (namespace.is_empty(), name.is_empty()) {
        (true, true) => String::new(),
        _ => format!("{namespace:.63}/{name:.253}"),
    }
}
