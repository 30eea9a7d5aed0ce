//! The calls of the contract, answered by [`wire`].

use std::panic;

use prost::Message as _;
use tonic::{Code, Request, Response, Status};
use tracing::Span;

use super::errors::{refusal, to_status};
use crate::proto::rollout_planner_server::RolloutPlanner;
use crate::proto::{
    ComputeStatusRequest, ComputeStatusResponse, ListRevisionsRequest, ListRevisionsResponse,
    PlanRolloutRequest, PlanRolloutResponse, RollbackRequest, RollbackResponse, Snapshot,
};
use crate::wire;

/// Snapshots with more objects are planned off the threads that serve connections, where calls of the same
/// connection would wait for them. One of that size takes between 1 and 2 ms (`cargo bench`), twice the usual
/// rollout of 13 pods, beside which a change of threads costs nothing.
pub const LARGE_OBJECTS: usize = 100;

/// As [`LARGE_OBJECTS`], in bytes: ReplicaSets with their templates weigh more than pods.
pub const LARGE_BYTES: usize = 128 << 10;

/// The planner of this crate.
pub(super) struct Planner;

#[tonic::async_trait]
impl RolloutPlanner for Planner {
    async fn plan_rollout(
        &self,
        request: Request<PlanRolloutRequest>,
    ) -> Result<Response<PlanRolloutResponse>, Status> {
        let request = request.into_inner();
        let asked = Asked::of(request.snapshot.as_ref());
        asked.answer(move || wire::plan_rollout(request)).await
    }

    async fn compute_status(
        &self,
        request: Request<ComputeStatusRequest>,
    ) -> Result<Response<ComputeStatusResponse>, Status> {
        let request = request.into_inner();
        let asked = Asked::of(request.snapshot.as_ref());
        asked.answer(move || wire::compute_status(request)).await
    }

    async fn rollback(
        &self,
        request: Request<RollbackRequest>,
    ) -> Result<Response<RollbackResponse>, Status> {
        let request = request.into_inner();
        let asked = Asked::of(request.snapshot.as_ref());
        asked.answer(move || wire::rollback(request)).await
    }

    async fn list_revisions(
        &self,
        request: Request<ListRevisionsRequest>,
    ) -> Result<Response<ListRevisionsResponse>, Status> {
        let request = request.into_inner();
        let asked = Asked::of(request.snapshot.as_ref());
        asked.answer(move || wire::list_revisions(request)).await
    }
}

/// What is kept of a request to answer it well.
struct Asked {
    /// Namespace and name of the Deployment, for the log.
    deployment: String,
    is_large: bool,
}

// === impl Asked ===

impl Asked {
    fn of(snapshot: Option<&Snapshot>) -> Self {
        let metadata = snapshot
            .and_then(|snapshot| snapshot.deployment.as_ref())
            .and_then(|deployment| deployment.metadata.as_ref());
        Self {
            deployment: metadata.map_or_else(String::new, |metadata| {
                // As long as Kubernetes has them at most: this is what the caller says, unchecked.
                format!("{:.63}/{:.253}", metadata.namespace, metadata.name)
            }),
            is_large: snapshot.is_some_and(is_large),
        }
    }

    /// Plans cannot be interrupted, so large ones go where they block no connection. How many there may be at
    /// once is not limited here.
    async fn answer<A: Send + 'static>(
        self,
        answer: impl FnOnce() -> Result<A, wire::Error> + Send + 'static,
    ) -> Result<Response<A>, Status> {
        let answered = if self.is_large {
            match tokio::task::spawn_blocking(answer).await {
                Ok(answered) => answered,
                Err(failed) => match failed.try_into_panic() {
                    Ok(panicked) => panic::resume_unwind(panicked),
                    // Only a runtime that is going away drops a task before it ran.
                    Err(_) => {
                        return Err(refusal(
                            Code::Unavailable,
                            "the server is stopping",
                            "STOPPING",
                            &[],
                        ));
                    }
                },
            }
        } else {
            answer()
        };
        answered.map(Response::new).map_err(|error| {
            Span::current().record("deployment", self.deployment);
            to_status(&error)
        })
    }
}

fn is_large(snapshot: &Snapshot) -> bool {
    let objects = [
        snapshot.replica_sets.len(),
        snapshot.pods.len(),
        snapshot.failures.len(),
    ];
    // Bytes are only counted where there is little to count.
    objects.into_iter().sum::<usize>() > LARGE_OBJECTS || snapshot.encoded_len() > LARGE_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::{Deployment, ObjectMeta, Pod};

    #[test]
    fn many_objects_or_many_bytes_are_large() {
        let mut snapshot = Snapshot {
            pods: vec![Pod::default(); LARGE_OBJECTS],
            ..Snapshot::default()
        };
        assert!(!is_large(&snapshot));
        snapshot.failures.push(Default::default());
        assert!(is_large(&snapshot));

        let named = |name: String| Snapshot {
            deployment: Some(Deployment {
                metadata: Some(ObjectMeta {
                    name,
                    ..ObjectMeta::default()
                }),
                ..Deployment::default()
            }),
            ..Snapshot::default()
        };
        assert!(!is_large(&named("x".repeat(LARGE_BYTES - 100))));
        assert!(is_large(&named("x".repeat(LARGE_BYTES))));
    }

    #[tokio::test]
    async fn a_panic_off_the_serving_threads_is_a_panic_of_the_call() {
        let asked = Asked {
            deployment: String::new(),
            is_large: true,
        };
        let call = asked.answer(|| -> Result<(), wire::Error> { panic!("planner bug") });
        let failed = tokio::spawn(call).await.unwrap_err();
        let payload = failed.into_panic();
        assert_eq!(payload.downcast_ref(), Some(&"planner bug"));
    }
}
