//! The servers to compare, each a process.

use std::env;
use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};

use bytes::Bytes;
use prost::Message as _;
use rollplan::proto::{
    ComputeStatusRequest, ComputeStatusResponse, ListRevisionsRequest, ListRevisionsResponse,
    PlanRestartsRequest, PlanRestartsResponse, PlanRolloutRequest, PlanRolloutResponse,
    RollbackRequest, RollbackResponse,
};
use rollplan::server::{Config, Server, Shutdown};
use rollplan::server::{RolloutPlanner, RolloutPlannerServer};
use rollplan::wire::{self, EncodedPlanRequest};
use rollplan_core::interrupt::Never;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status};
use tower::service_fn;

use super::bytes_codec::BytesCodec;
use super::request::request;

/// The kind of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// The complete service.
    Rollplan,
    /// The complete service, except that it returns a constant response.
    ConstantInService,
    /// Bare tonic with the same decoding and a constant response.
    Constant,
    /// The same, but templates are decoded to protobuf's own types.
    ConstantEager,
    /// Bare tonic, which returns the request without decoding it.
    Echo,
}

impl Kind {
    pub(super) const ALL: [Self; 5] = [
        Self::Rollplan,
        Self::ConstantInService,
        Self::Constant,
        Self::ConstantEager,
        Self::Echo,
    ];

    /// The place of bare tonic with the same decoding.
    pub(super) const CONSTANT: usize = 2;

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Rollplan => "rollplan",
            Self::ConstantInService => "same layers, constant response",
            Self::Constant => "bare tonic, same decoding, constant response",
            Self::ConstantEager => "bare tonic, templates decoded, constant response",
            Self::Echo => "bare tonic, opaque echo",
        }
    }
}

/// A running server.
pub(super) struct Process {
    child: Child,
    pub(super) address: SocketAddr,
}

impl Process {
    pub(super) fn start(kind: Kind) -> Self {
        let mut command = Command::new(env::current_exe().unwrap());
        command
            .env("ROLLPLAN_BENCH_SERVER", format!("{kind:?}"))
            .stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        let out = child.stdout.take().unwrap();
        BufReader::new(out).read_line(&mut line).unwrap();
        Self {
            child,
            address: line.trim().parse().unwrap(),
        }
    }

    pub(super) fn resident_kib(&self) -> u64 {
        let path = format!("/proc/{}/status", self.child.id());
        let status = std::fs::read_to_string(path).unwrap();
        let line = status.lines().find_map(|it| it.strip_prefix("VmRSS:"));
        let text = line.unwrap().trim().trim_end_matches(" kB");
        text.parse().unwrap()
    }
}

impl Process {
    /// The CPU time of all threads so far, in seconds.
    pub(super) fn busy_seconds(&self) -> f64 {
        /// The unit of /proc on Linux, on every architecture.
        const TICKS_PER_SECOND: f64 = 100.0;
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap();
        // The name in parentheses may contain any character. User and system time are the 12th and 13th fields after it.
        let fields = stat.rsplit(") ").next().unwrap().split(' ');
        let ticks: f64 = fields
            .skip(11)
            .take(2)
            .map(|it| it.parse::<f64>().unwrap())
            .sum();
        ticks / TICKS_PER_SECOND
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Formats and writes the log as in production, but discards it.
fn discard_log() {
    let log = tracing_subscriber::fmt()
        .json()
        .flatten_event(true)
        .with_span_list(false)
        .with_target(false)
        .with_writer(File::create("/dev/null").unwrap())
        .finish();
    tracing::subscriber::set_global_default(log).unwrap();
}

/// Runs a server until the process is killed.
pub(super) fn run(kind: &str) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build();
    runtime.unwrap().block_on(async {
        let config = Config {
            listen: ([127, 0, 0, 1], 0).into(),
            ..Config::default()
        };
        let (_stop, stopped) = watch::channel(Shutdown::NotRequested);
        match kind {
            "Rollplan" => {
                discard_log();
                let server = Server::bind(config).await.unwrap();
                println!("{}", server.local_addr());
                server.serve(stopped).await.unwrap();
            }
            "ConstantInService" => {
                discard_log();
                let server = Server::bind_with(config, Constant::new(false))
                    .await
                    .unwrap();
                println!("{}", server.local_addr());
                server.serve(stopped).await.unwrap();
            }
            "Constant" | "ConstantEager" => {
                let incoming = listen().await;
                let server = RolloutPlannerServer::new(Constant::new(kind == "ConstantEager"))
                    .max_decoding_message_size(wire::REQUEST_BYTES_MAX);
                let router = tonic::transport::Server::builder().add_service(server);
                router.serve_with_incoming(incoming).await.unwrap();
            }
            "Echo" => {
                let incoming = listen().await;
                let server = tonic::transport::Server::builder();
                let service = service_fn(async |request| {
                    let mut grpc = tonic::server::Grpc::new(BytesCodec);
                    let echo = service_fn(async |request: Request<Bytes>| {
                        Ok::<_, Status>(Response::new(request.into_inner()))
                    });
                    Ok::<_, std::convert::Infallible>(grpc.unary(echo, request).await)
                });
                server.serve_with_incoming(service, incoming).await.unwrap();
            }
            other => panic!("unknown server {other}"),
        }
    });
}

async fn listen() -> TcpIncoming {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    println!("{}", listener.local_addr().unwrap());
    // Like the service.
    TcpIncoming::from(listener).with_nodelay(Some(true))
}

/// Answers every PlanRollout with the same plan.
struct Constant {
    answer: PlanRolloutResponse,
    is_eager: bool,
}

impl Constant {
    fn new(is_eager: bool) -> Self {
        let bytes = request(3, 13).encode_to_vec();
        let answer = wire::plan_rollout_bytes(&bytes).unwrap();
        let answer = PlanRolloutResponse::decode(&answer[..]).unwrap();
        Self { answer, is_eager }
    }
}

/// Decodes all templates and discards them.
fn decode_templates(request: PlanRolloutRequest) {
    let snapshot = request.snapshot.unwrap();
    let own = snapshot.deployment.unwrap().spec.unwrap().template;
    let sets = snapshot.replica_sets.into_iter();
    for template in sets.map(|set| set.spec.unwrap().template).chain([own]) {
        let bytes = template.unwrap().encode_to_vec();
        std::hint::black_box(prost_types::Struct::decode(&bytes[..]).unwrap());
    }
}

#[tonic::async_trait]
impl RolloutPlanner for Constant {
    async fn plan_rollout(
        &self,
        request: Request<EncodedPlanRequest>,
    ) -> Result<Response<PlanRolloutResponse>, Status> {
        let request = request.into_inner().decode(&Never).unwrap();
        if self.is_eager {
            decode_templates(request);
        }
        Ok(Response::new(self.answer.clone()))
    }

    async fn compute_status(
        &self,
        _: Request<ComputeStatusRequest>,
    ) -> Result<Response<ComputeStatusResponse>, Status> {
        Err(Status::unimplemented("not measured"))
    }

    async fn rollback(
        &self,
        _: Request<RollbackRequest>,
    ) -> Result<Response<RollbackResponse>, Status> {
        Err(Status::unimplemented("not measured"))
    }

    async fn list_revisions(
        &self,
        _: Request<ListRevisionsRequest>,
    ) -> Result<Response<ListRevisionsResponse>, Status> {
        Err(Status::unimplemented("not measured"))
    }

    async fn plan_restarts(
        &self,
        _: Request<PlanRestartsRequest>,
    ) -> Result<Response<PlanRestartsResponse>, Status> {
        Err(Status::unimplemented("not measured"))
    }
}
