//! The threads on which plans are computed.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use rollplan::client::RolloutPlannerClient;
use rollplan::proto::RollbackRequest;
use rollplan::server::{Config, CurrentCall, Planner, Server};
use rollplan::service::MethodRequest;
use rollplan_core::interrupt::Interrupt as _;
use serde_json::json;
use tokio::sync::{Barrier, mpsc};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tonic::codec::CompressionEncoding;
use tonic::{Request, Response, Status};

use super::{PATIENCE, Serving, mk_config, mk_large_request, mk_request, mk_rollout, serve};

/// PlanRollout reports its thread and blocks it briefly. Rollback waits for the barrier.
struct Watched {
    threads: mpsc::UnboundedSender<ThreadId>,
    running: AtomicUsize,
    most: Arc<AtomicUsize>,
    barrier: Barrier,
}

#[tonic::async_trait]
impl Planner for Watched {
    async fn answer<R: MethodRequest>(
        &self,
        _: Request<R>,
    ) -> Result<Response<R::Response>, Status> {
        if R::METHOD.name == "Rollback" {
            // Without a limit, the thread would keep a failing test from ending.
            return match timeout(PATIENCE, self.barrier.wait()).await {
                Ok(_) => Ok(Response::new(R::Response::default())),
                Err(_) => Err(Status::aborted("nobody else came")),
            };
        }
        let running = self.running.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(running, Ordering::SeqCst);
        self.threads.send(thread::current().id()).unwrap();
        // Blocks the thread, like computing a plan.
        thread::sleep(Duration::from_millis(5));
        self.running.fetch_sub(1, Ordering::SeqCst);
        Ok(Response::new(R::Response::default()))
    }
}

/// A server, the threads of its plans, and the maximum number of concurrent plans.
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

/// Small plans run on the only thread of this test's runtime.
#[tokio::test]
async fn large_plans_run_on_separate_threads() {
    let (Serving { mut client, .. }, mut threads, _) = start(1).await;
    client.plan_rollout(mk_request()).await.unwrap();
    assert_eq!(threads.recv().await, Some(thread::current().id()));
    let large = mk_large_request();
    client.plan_rollout(large).await.unwrap();
    assert_ne!(threads.recv().await, Some(thread::current().id()));
}

/// The estimated memory counts, and not only the size of the request.
#[tokio::test]
async fn large_plans_are_recognized_by_their_memory_in_any_encoding() {
    let (Serving { client, .. }, mut threads, _) = start(1).await;
    let mut empty_pods = mk_rollout();
    let pod = json!({"apiVersion": "v1", "kind": "Pod"});
    empty_pods.items.extend(vec![pod; 20_000]);
    let empty_pods = empty_pods.message();
    let mut long_text = mk_rollout();
    long_text.items.truncate(1);
    let spaces = " ".repeat(80 << 10);
    let long_text = long_text.with_texts(vec![long_text.text() + &spaces]);
    for compression in [
        None,
        Some(CompressionEncoding::Gzip),
        Some(CompressionEncoding::Zstd),
    ] {
        let mut client = client.clone();
        if let Some(compression) = compression {
            client = client.send_compressed(compression);
        }
        client.plan_rollout(mk_request()).await.unwrap();
        assert_eq!(threads.recv().await, Some(thread::current().id()));
        client.plan_rollout(empty_pods.clone()).await.unwrap();
        assert_ne!(threads.recv().await, Some(thread::current().id()));
        client.plan_rollout(long_text.clone()).await.unwrap();
        let is_here = threads.recv().await == Some(thread::current().id());
        // Decompression is work, too.
        assert_eq!(is_here, compression.is_none());
    }
}

#[tokio::test]
async fn concurrent_large_plans_are_queued() {
    let (Serving { client, .. }, _threads, most) = start(1).await;
    let mut calls = JoinSet::new();
    for _ in 0..8 {
        let mut client = client.clone();
        let request = mk_large_request();
        calls.spawn(async move { client.plan_rollout(request).await });
    }
    for answer in calls.join_all().await {
        answer.unwrap();
    }
    assert_eq!(most.load(Ordering::SeqCst), 1);
}

/// Both plans wait for each other.
#[tokio::test]
async fn configured_number_of_large_plans_run_concurrently() {
    let (Serving { client, .. }, ..) = start(2).await;
    let large = RollbackRequest {
        snapshot: mk_large_request().snapshot,
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

/// PlanRollout reports its start and computes until it is interrupted.
struct Endless(mpsc::UnboundedSender<()>);

#[tonic::async_trait]
impl Planner for Endless {
    async fn answer<R: MethodRequest>(
        &self,
        _: Request<R>,
    ) -> Result<Response<R::Response>, Status> {
        if R::METHOD.name == "Rollback" {
            return Ok(Response::new(R::Response::default()));
        }
        self.0.send(()).unwrap();
        let call = CurrentCall::get();
        let start = Instant::now();
        while !call.is_interrupted() {
            assert!(start.elapsed() < PATIENCE, "the plan is never interrupted");
            thread::yield_now();
        }
        Err(Status::cancelled("interrupted"))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn abandoned_plan_stops_and_releases_its_slot() {
    let (begun, mut has_begun) = mpsc::unbounded_channel();
    let config = Config {
        deadline_max: PATIENCE * 2,
        large_plans_max: 1,
        ..mk_config()
    };
    let server = Server::bind_with(config, Endless(begun)).await.unwrap();
    let Serving { client, .. } = serve(server).await;
    let next = || {
        let mut client = client.clone();
        let snapshot = mk_large_request().snapshot;
        async move {
            let request = RollbackRequest {
                snapshot,
                ..RollbackRequest::default()
            };
            timeout(PATIENCE, client.rollback(request)).await.unwrap()
        }
    };
    // The client disconnects.
    let mut abandoned = client.clone();
    let call = tokio::spawn(async move { abandoned.plan_rollout(mk_large_request()).await });
    has_begun.recv().await.unwrap();
    call.abort();
    next().await.unwrap();
    // Its deadline expires.
    let mut request = Request::new(mk_large_request());
    request.set_timeout(Duration::from_millis(200));
    client.clone().plan_rollout(request).await.unwrap_err();
    next().await.unwrap();
}
