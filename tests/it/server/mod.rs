//! The service on a real socket, with a real client.

mod answers;
mod discovery;
mod refusals;
mod stop;

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use rollplan::proto::rollout_planner_client::RolloutPlannerClient;
use rollplan::proto::rollout_planner_server::RolloutPlanner;
use rollplan::proto::{
    ComputeStatusRequest, ComputeStatusResponse, ListRevisionsRequest, ListRevisionsResponse,
    PlanRolloutRequest, PlanRolloutResponse, Pod, RollbackRequest, RollbackResponse,
};
use rollplan::server::{self, Config, Server};
use rollplan::wire::json;
use serde_json::Value;
use tokio::sync::{Notify, oneshot};
use tokio::task::JoinHandle;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Response, Status};

/// A server that serves, and a client of it.
struct Serving {
    address: std::net::SocketAddr,
    channel: Channel,
    client: RolloutPlannerClient<Channel>,
    shutdown: oneshot::Sender<()>,
    ended: JoinHandle<Result<(), server::Error>>,
}

fn mk_config() -> Config {
    Config {
        listen: ([127, 0, 0, 1], 0).into(),
        // Longer than any test may take: one that waits for it fails.
        drain_grace: Duration::from_secs(3600),
    }
}

async fn serve(server: Server) -> Serving {
    let address = server.local_addr();
    let (shutdown, asked) = oneshot::channel();
    let ended = tokio::spawn(server.serve(async {
        // A test that drops the sender does not care about the end.
        if asked.await.is_err() {
            pending().await
        }
    }));
    let channel = connect(address).await;
    Serving {
        address,
        client: RolloutPlannerClient::new(channel.clone()),
        channel,
        shutdown,
        ended,
    }
}

async fn connect(address: std::net::SocketAddr) -> Channel {
    let endpoint = Endpoint::from_shared(format!("http://{address}")).unwrap();
    endpoint.connect().await.unwrap()
}

/// The service as it is.
async fn start() -> Serving {
    serve(Server::bind(mk_config()).await.unwrap()).await
}

/// PlanRollout waits until told, ComputeStatus panics.
#[derive(Clone, Default)]
struct Staged {
    started: Arc<Notify>,
    go_on: Arc<Notify>,
}

impl Staged {
    async fn start(&self, config: Config) -> Serving {
        let server = Server::bind_with(config, self.clone()).await.unwrap();
        serve(server).await
    }
}

#[tonic::async_trait]
impl RolloutPlanner for Staged {
    async fn plan_rollout(
        &self,
        _: Request<PlanRolloutRequest>,
    ) -> Result<Response<PlanRolloutResponse>, Status> {
        self.started.notify_one();
        self.go_on.notified().await;
        Ok(Response::new(PlanRolloutResponse::default()))
    }

    async fn compute_status(
        &self,
        _: Request<ComputeStatusRequest>,
    ) -> Result<Response<ComputeStatusResponse>, Status> {
        panic!("staged: {}", "secret");
    }

    async fn rollback(
        &self,
        _: Request<RollbackRequest>,
    ) -> Result<Response<RollbackResponse>, Status> {
        unreachable!()
    }

    async fn list_revisions(
        &self,
        _: Request<ListRevisionsRequest>,
    ) -> Result<Response<ListRevisionsResponse>, Status> {
        unreachable!()
    }
}

/// A rollout under way, as a real API server had it.
fn mk_request() -> PlanRolloutRequest {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/mid-rollout.json");
    let list: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let of_kind = |kind: &str| -> Vec<&Value> {
        let items = list["items"].as_array().unwrap();
        items.iter().filter(|item| item["kind"] == kind).collect()
    };
    let request = serde_json::json!({"snapshot": {
        "now": "2026-11-20T23:27:30Z",
        "deployment": of_kind("Deployment")[0],
        "replicaSets": of_kind("ReplicaSet"),
        "pods": of_kind("Pod"),
        "podsComplete": true,
    }});
    json::from_json(&request.to_string()).unwrap()
}

/// The same with so many pods, all different.
fn mk_request_with_pods(count: usize) -> PlanRolloutRequest {
    let mut request = mk_request();
    let pods = &mut request.snapshot.as_mut().unwrap().pods;
    let pod = pods[0].clone();
    *pods = (0..count).map(|i| mk_pod(&pod, i)).collect();
    request
}

fn mk_pod(like: &Pod, i: usize) -> Pod {
    let mut pod = like.clone();
    let metadata = pod.metadata.as_mut().unwrap();
    metadata.name = format!("pod-{i}");
    metadata.uid = format!("uid-{i}");
    pod
}

/// The same with an annotation of so many bytes on a pod, which comes back in no answer.
fn mk_request_with_bytes(count: usize) -> PlanRolloutRequest {
    let mut request = mk_request();
    let pod = &mut request.snapshot.as_mut().unwrap().pods[0];
    let long = "x".repeat(count);
    let metadata = pod.metadata.as_mut().unwrap();
    metadata.annotations.insert("long".to_owned(), long);
    request
}
