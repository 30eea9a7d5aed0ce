//! Answers the calls of the contract with [`wire`].

use std::sync::Arc;
use std::time::Instant;

use prost::Message;
use rollplan_core::interrupt::Interrupt;
use tonic::{Request, Response, Status};
use tracing::Span;

use crate::proto::{
    ComputeStatusRequest, ComputeStatusResponse, ListRevisionsRequest, ListRevisionsResponse,
    PlanRestartsRequest, PlanRestartsResponse, PlanRolloutResponse, RollbackRequest,
    RollbackResponse, Snapshot,
};
use crate::server::RolloutPlanner;
use crate::server::call::cancellation::Current;
use crate::server::call::errors::to_status;
use crate::server::connect::Call;
use crate::server::observability::log::LoggedDeployment;
use crate::server::observability::metrics::{Metrics, SnapshotLabels};
use crate::wire::{self, EncodedPlanRequest, PlanRequest, Shown};

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
        request: Request<EncodedPlanRequest>,
    ) -> Result<Response<PlanRolloutResponse>, Status> {
        let (_, extensions, request) = request.into_parts();
        let request =
            PlanRequest::decode(request, &Current::get()).map_err(|error| to_status(&error))?;
        let asked = snapshot_labels(&request);
        let start = Instant::now();
        let answered = answer_shown(
            request,
            extensions.get(),
            PlanRequest::snapshot,
            wire::plan_shown_until,
        )?;
        self.metrics
            .series
            .planned(asked, answered.get_ref(), start.elapsed());
        Ok(answered)
    }

    async fn compute_status(
        &self,
        request: Request<ComputeStatusRequest>,
    ) -> Result<Response<ComputeStatusResponse>, Status> {
        let (_, extensions, request) = request.into_parts();
        answer_shown(
            request,
            extensions.get(),
            |it| it.snapshot.as_ref(),
            wire::compute_shown_status_until,
        )
    }

    async fn rollback(
        &self,
        request: Request<RollbackRequest>,
    ) -> Result<Response<RollbackResponse>, Status> {
        let request = request.into_inner();
        answer(request, |it| it.snapshot.as_ref(), wire::rollback_until)
    }

    async fn list_revisions(
        &self,
        request: Request<ListRevisionsRequest>,
    ) -> Result<Response<ListRevisionsResponse>, Status> {
        let request = request.into_inner();
        answer(
            request,
            |it| it.snapshot.as_ref(),
            wire::list_revisions_until,
        )
    }

    async fn plan_restarts(
        &self,
        request: Request<PlanRestartsRequest>,
    ) -> Result<Response<PlanRestartsResponse>, Status> {
        // A plan of restarts covers many workloads, so the log contains none of them.
        answer(request.into_inner(), |_| None, wire::plan_restarts_until)
    }
}

/// Answers a call on the current thread, which was selected by the size of the call.
fn answer<R, A: Message>(
    request: R,
    snapshot: impl FnOnce(&R) -> Option<&Snapshot>,
    answer: impl FnOnce(R, &dyn Interrupt) -> Result<A, wire::Error>,
) -> Result<Response<A>, Status> {
    answer_shown(request, None, snapshot, |request, _, interrupt| {
        answer(request, interrupt)
    })
}

/// Like [`answer`], for calls whose owner and complete lists may be inferred from the objects.
fn answer_shown<R, A: Message>(
    request: R,
    call: Option<&Call>,
    snapshot: impl FnOnce(&R) -> Option<&Snapshot>,
    answer: impl FnOnce(R, Option<&mut Shown>, &dyn Interrupt) -> Result<A, wire::Error>,
) -> Result<Response<A>, Status> {
    let mut deployment = name(snapshot(&request));
    let answer = |shown: Option<&mut Shown>| answer(request, shown, &Current::get());
    let (answered, target) = match call {
        Some(call) => call.answer(answer),
        None => (answer(None), None),
    };
    if let Some(target) = target {
        deployment = name_of(&target.namespace, &target.name);
    }
    let checked = |answer| wire::check_answer(&answer).map(|()| Response::new(answer));
    match answered.and_then(checked) {
        Ok(mut response) => {
            response
                .extensions_mut()
                .insert(LoggedDeployment(deployment));
            Ok(response)
        }
        Err(error) => {
            Span::current().record("deployment", deployment);
            Err(to_status(&error))
        }
    }
}

/// The namespace and name of the Deployment for the log.
fn name(snapshot: Option<&Snapshot>) -> String {
    let Some(snapshot) = snapshot else {
        return String::new();
    };
    match (&snapshot.deployment, &snapshot.target) {
        (Some(deployment), _) => {
            let metadata = deployment.metadata.as_ref();
            metadata.map_or_else(String::new, |it| name_of(&it.namespace, &it.name))
        }
        // The objects in objects_json have not been read.
        (None, Some(target)) => name_of(&target.namespace, &target.name),
        (None, None) => String::new(),
    }
}

/// A namespace and name for the log, truncated to the maximum lengths in Kubernetes, because they are not validated
/// yet.
fn name_of(namespace: &str, name: &str) -> String {
    format!("{namespace:.63}/{name:.253}")
}

fn snapshot_labels(request: &PlanRequest) -> SnapshotLabels {
    let spec = request
        .snapshot()
        .and_then(|snapshot| snapshot.deployment.as_ref())
        .and_then(|deployment| deployment.spec.as_ref());
    let strategy = spec.and_then(|spec| spec.strategy.as_ref());
    SnapshotLabels {
        is_recreate: strategy.is_some_and(|strategy| strategy.r#type == "Recreate"),
        pods: request.pods(),
    }
}
