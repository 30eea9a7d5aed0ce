//! Planners whose methods do what a test needs.

use std::sync::Arc;

use rollplan::proto::{
    ComputeStatusRequest, ComputeStatusResponse, ForecastRolloutRequest, ForecastRolloutResponse,
    ListRevisionsRequest, ListRevisionsResponse, PlanCanaryRequest, PlanCanaryResponse,
    PlanRestartsRequest, PlanRestartsResponse, PlanRolloutRequest, PlanRolloutResponse,
    RollbackRequest, RollbackResponse,
};
use rollplan::server::{Config, RolloutPlanner, Server};
use tokio::sync::Notify;
use tokio::time::timeout;
use tonic::{Request, Response, Status};

use super::{LONG, Serving, serve};

/// What the methods do that tests call. Their answers are empty.
#[tonic::async_trait]
pub(super) trait Behavior: Send + Sync + 'static {
    async fn plan_rollout(&self) -> Result<(), Status>;

    async fn compute_status(&self) -> Result<(), Status> {
        unreachable!()
    }

    async fn rollback(&self) -> Result<(), Status> {
        unreachable!()
    }
}

/// A planner with this behavior.
pub(super) struct TestPlanner<B>(pub(super) B);

#[tonic::async_trait]
impl<B: Behavior> RolloutPlanner for TestPlanner<B> {
    async fn plan_rollout(
        &self,
        _: Request<PlanRolloutRequest>,
    ) -> Result<Response<PlanRolloutResponse>, Status> {
        self.0.plan_rollout().await?;
        Ok(Response::new(Default::default()))
    }

    async fn compute_status(
        &self,
        _: Request<ComputeStatusRequest>,
    ) -> Result<Response<ComputeStatusResponse>, Status> {
        self.0.compute_status().await?;
        Ok(Response::new(Default::default()))
    }

    async fn rollback(
        &self,
        _: Request<RollbackRequest>,
    ) -> Result<Response<RollbackResponse>, Status> {
        self.0.rollback().await?;
        Ok(Response::new(Default::default()))
    }

    async fn forecast_rollout(
        &self,
        _: Request<ForecastRolloutRequest>,
    ) -> Result<Response<ForecastRolloutResponse>, Status> {
        unreachable!()
    }

    async fn plan_canary(
        &self,
        _: Request<PlanCanaryRequest>,
    ) -> Result<Response<PlanCanaryResponse>, Status> {
        unreachable!()
    }

    async fn list_revisions(
        &self,
        _: Request<ListRevisionsRequest>,
    ) -> Result<Response<ListRevisionsResponse>, Status> {
        unreachable!()
    }

    async fn plan_restarts(
        &self,
        _: Request<PlanRestartsRequest>,
    ) -> Result<Response<PlanRestartsResponse>, Status> {
        unreachable!()
    }
}

/// PlanRollout waits for `go_on`, and ComputeStatus panics.
#[derive(Clone, Default)]
pub(super) struct Staged {
    pub(super) started: Arc<Notify>,
    pub(super) go_on: Arc<Notify>,
}

impl Staged {
    pub(super) async fn start(&self, config: Config) -> Serving {
        let planner = TestPlanner(self.clone());
        serve(Server::bind_with(config, planner).await.unwrap()).await
    }
}

#[tonic::async_trait]
impl Behavior for Staged {
    async fn plan_rollout(&self) -> Result<(), Status> {
        self.started.notify_one();
        // The timeout never expires in a test that passes. In a test that fails, it ends with the runtime, so the thread of
        // a large call ends, too.
        match timeout(2 * LONG, self.go_on.notified()).await {
            Ok(()) => Ok(()),
            Err(_) => Err(Status::aborted("nobody said to go on")),
        }
    }

    async fn compute_status(&self) -> Result<(), Status> {
        panic!("staged: {}", "secret");
    }
}
