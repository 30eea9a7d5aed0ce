//! Where plans are computed.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, ThreadId};
use std::time::Duration;

use rollplan::proto::rollout_planner_client::RolloutPlannerClient;
use rollplan::proto::rollout_planner_server::RolloutPlanner;
use rollplan::proto::{
    ComputeStatusRequest, ComputeStatusResponse, ListRevisionsRequest, ListRevisionsResponse,
    PlanRolloutRequest, PlanRolloutResponse, RollbackRequest, RollbackResponse,
};
use rollplan::server::{Config, LARGE_BYTES, Server};
use tokio::sync::{Barrier, mpsc};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tonic::codec::CompressionEncoding;
use tonic::{Request, Response, Status};

use super::{PATIENCE, Serving, mk_config, mk_request, mk_request_with_bytes, serve};

/// PlanRollout says on which thread it runs and takes a moment of it, Rollback waits for the barrier.
struct Watched {
    threads: mpsc::UnboundedSender<ThreadId>,
    running: AtomicUsize,
    most: Arc<AtomicUsize>,
    barrier: Barrier,
}

#[tonic::async_trait]
impl RolloutPlanner for Watched {
    async fn plan_rollout(
        &self,
        _: Request<PlanRolloutRequest>,
    ) -> Result<Response<PlanRolloutResponse>, Status> {
        let running = self.running.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(running, Ordering::SeqCst);
        self.threads.send(thread::current().id()).unwrap();
        // It is work: nothing else can be done on this thread.
        thread::sleep(Duration::from_millis(5));
        self.running.fetch_sub(1, Ordering::SeqCst);
        Ok(Response::new(PlanRolloutResponse::default()))
    }

    async fn compute_status(
        &self,
        _: Request<ComputeStatusRequest>,
    ) -> Result<Response<ComputeStatusResponse>, Status> {
        unreachable!()
    }

    async fn rollback(
        &self,
        _: Request<RollbackRequest>,
    ) -> Result<Response<RollbackResponse>, Status> {
        // Not for ever: the thread would outlive the test, which then would not end.
        match timeout(PATIENCE, self.barrier.wait()).await {
            Ok(_) => Ok(Response::new(RollbackResponse::default())),
            Err(_) => Err(Status::aborted("nobody else came")),
        }
    }

    async fn list_revisions(
        &self,
        _: Request<ListRevisionsRequest>,
    ) -> Result<Response<ListRevisionsResponse>, Status> {
        unreachable!()
    }
}

/// A server, the threads of its plans, and how many were computed at once.
async fn start(
    large_plans_max: usize,
) -> (Serving, mpsc::UnboundedReceiver<ThreadId>, Arc<AtomicUsize>) {
    let (threads, seen) = mpsc::unbounded_channel();
    let most = Arc::<AtomicUsize>::default();
    let planner = Watched {
        threads,
        running: AtomicUsize::default(),
        most: Arc::clone(&most),
        barrier: Barrier::new(2),
    };
    let config = Config {
        deadline_max: PATIENCE * 2,
        large_plans_max,
        ..mk_config()
    };
    let server = Server::bind_with(config, planner).await.unwrap();
    (serve(server).await, seen, most)
}

/// On one thread, as the runtime of this test is, small plans stay on it.
#[tokio::test]
async fn large_plans_run_on_threads_of_their_own() {
    let (Serving { mut client, .. }, mut threads, _) = start(1).await;
    client.plan_rollout(mk_request()).await.unwrap();
    assert_eq!(threads.recv().await, Some(thread::current().id()));
    let large = mk_request_with_bytes(LARGE_BYTES);
    client.plan_rollout(large).await.unwrap();
    assert_ne!(threads.recv().await, Some(thread::current().id()));
    // What it grows to is not known before.
    let mut client = client.send_compressed(CompressionEncoding::Gzip);
    client.plan_rollout(mk_request()).await.unwrap();
    assert_ne!(threads.recv().await, Some(thread::current().id()));
}

#[tokio::test]
async fn large_plans_wait_for_their_turn() {
    let (Serving { client, .. }, _threads, most) = start(1).await;
    let mut calls = JoinSet::new();
    for _ in 0..8 {
        let mut client = client.clone();
        let request = mk_request_with_bytes(LARGE_BYTES);
        calls.spawn(async move { client.plan_rollout(request).await });
    }
    for answer in calls.join_all().await {
        answer.unwrap();
    }
    assert_eq!(most.load(Ordering::SeqCst), 1);
}

/// Each waits for the other.
#[tokio::test]
async fn as_many_large_plans_run_at_once_as_configured() {
    let (Serving { client, .. }, ..) = start(2).await;
    let large = RollbackRequest {
        snapshot: mk_request_with_bytes(LARGE_BYTES).snapshot,
        ..RollbackRequest::default()
    };
    let call = |mut client: RolloutPlannerClient<_>| {
        let large = large.clone();
        async move { client.rollback(large).await }
    };
    let (one, other) = tokio::join!(call(client.clone()), call(client));
    one.unwrap();
    other.unwrap();
}
