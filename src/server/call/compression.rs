//! Selects the answers that are compressed.

use prost::Message;
use tonic::{Request, Response, Status};

use crate::proto::{
    ComputeStatusRequest, ComputeStatusResponse, ForecastRolloutRequest, ForecastRolloutResponse,
    ListRevisionsRequest, ListRevisionsResponse, PlanCanaryRequest, PlanCanaryResponse,
    PlanRestartsRequest, PlanRestartsResponse, PlanRolloutRequest, PlanRolloutResponse,
    RollbackRequest, RollbackResponse,
};
use crate::server::RolloutPlanner;

/// Compresses only answers above a minimum size. (tonic compresses either all answers of a service, for clients that
/// accept it, or none.)
pub(crate) struct LargeAnswersCompressed<P> {
    pub(crate) planner: P,
    /// The minimum size in bytes. `None` leaves the decision to tonic.
    pub(crate) bytes_min: Option<usize>,
}

// === impl LargeAnswersCompressed ===

impl<P> LargeAnswersCompressed<P> {
    fn decide<A: Message>(
        &self,
        answer: Result<Response<A>, Status>,
    ) -> Result<Response<A>, Status> {
        let mut answer = answer?;
        if let Some(bytes_min) = self.bytes_min
            && answer.get_ref().encoded_len() < bytes_min
        {
            answer.disable_compression();
        }
        Ok(answer)
    }
}

#[tonic::async_trait]
impl<P: RolloutPlanner> RolloutPlanner for LargeAnswersCompressed<P> {
    async fn plan_rollout(
        &self,
        request: Request<PlanRolloutRequest>,
    ) -> Result<Response<PlanRolloutResponse>, Status> {
        self.decide(self.planner.plan_rollout(request).await)
    }

    async fn compute_status(
        &self,
        request: Request<ComputeStatusRequest>,
    ) -> Result<Response<ComputeStatusResponse>, Status> {
        self.decide(self.planner.compute_status(request).await)
    }

    async fn rollback(
        &self,
        request: Request<RollbackRequest>,
    ) -> Result<Response<RollbackResponse>, Status> {
        self.decide(self.planner.rollback(request).await)
    }

    async fn list_revisions(
        &self,
        request: Request<ListRevisionsRequest>,
    ) -> Result<Response<ListRevisionsResponse>, Status> {
        self.decide(self.planner.list_revisions(request).await)
    }

    async fn forecast_rollout(
        &self,
        request: Request<ForecastRolloutRequest>,
    ) -> Result<Response<ForecastRolloutResponse>, Status> {
        self.decide(self.planner.forecast_rollout(request).await)
    }

    async fn plan_canary(
        &self,
        request: Request<PlanCanaryRequest>,
    ) -> Result<Response<PlanCanaryResponse>, Status> {
        self.decide(self.planner.plan_canary(request).await)
    }

    async fn plan_restarts(
        &self,
        request: Request<PlanRestartsRequest>,
    ) -> Result<Response<PlanRestartsResponse>, Status> {
        self.decide(self.planner.plan_restarts(request).await)
    }
}
