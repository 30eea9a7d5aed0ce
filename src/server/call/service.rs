//! The methods as a gRPC service.

use prost::Message as _;
use rollplan_service::{MethodRequest, for_each_method};
use rollplan_wire::proto;
use tonic::{Request, Response, Status};

use crate::RolloutPlanner;

/// Answers the calls of every method.
#[tonic::async_trait]
pub trait Planner: Send + Sync + 'static {
    /// Answers a call.
    ///
    /// # Errors
    ///
    /// The status of the call.
    async fn answer<R: MethodRequest>(
        &self,
        request: Request<R>,
    ) -> Result<Response<R::Response>, Status>;
}

/// A planner, for the server that tonic generates from the contract.
pub struct PlannerService<P> {
    planner: P,
    /// The minimum size of compressed answers in bytes. `None` leaves the decision to tonic.
    compress_min: Option<usize>,
}

// === impl PlannerService ===

impl<P: Planner> PlannerService<P> {
    /// A service with this planner.
    pub fn new(planner: P) -> Self {
        Self {
            planner,
            compress_min: None,
        }
    }

    /// Compresses only answers of at least this size in bytes. (tonic compresses either all answers of a service, for
    /// clients that accept it, or none.)
    pub(crate) fn compressing(self, compress_min: Option<usize>) -> Self {
        Self {
            compress_min,
            ..self
        }
    }

    async fn answer<R: MethodRequest>(
        &self,
        request: Request<R>,
    ) -> Result<Response<R::Response>, Status> {
        let mut answer = self.planner.answer(request).await?;
        if let Some(min) = self.compress_min
            && answer.get_ref().encoded_len() < min
        {
            answer.disable_compression();
        }
        Ok(answer)
    }
}

macro_rules! implement {
    ($($method:ident = $name:ident($request:ident) -> $response:ident, $memory:expr;)*) => {
        #[tonic::async_trait]
        impl<P: Planner> RolloutPlanner for PlannerService<P> {
            $(
                async fn $name(
                    &self,
                    request: Request<proto::$request>,
                ) -> Result<Response<proto::$response>, Status> {
                    self.answer(request).await
                }
            )*
        }
    };
}
for_each_method!(implement);
