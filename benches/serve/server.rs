//! The servers to compare, each a process.

use std::any::Any;
use std::convert::Infallible;
use std::env;
use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};

use rollplan::proto::{PlanRolloutRequest, PlanRolloutResponse};
use rollplan::server::{Config, Planner, Server, Shutdown};
use rollplan::service::MethodRequest;
use rollplan::wire;
use rollplan_benches::bytes_codec::BytesCodec;
use rollplan_benches::derive;
use rollplan_benches::request::request;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tonic::codec::Codec;
use tonic::server::Grpc;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status};
use tonic_prost::ProstCodec;
use tower::service_fn;

/// The kind of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// The complete service.
    Rollplan,
    /// The complete service, except that it returns a constant response.
    ConstantInService,
    /// Bare tonic, which reads the objects with serde's derive, and returns a constant response.
    Derive,
    /// Bare tonic, which returns the request without decoding it.
    Echo,
}

impl Kind {
    pub(super) const ALL: [Self; 4] = [
        Self::Rollplan,
        Self::ConstantInService,
        Self::Derive,
        Self::Echo,
    ];

    /// The place of bare tonic that reads the objects with serde's derive.
    pub(super) const DERIVE: usize = 2;

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Rollplan => "rollplan",
            Self::ConstantInService => "same layers, nothing read, constant response",
            Self::Derive => "bare tonic, objects read with serde's derive, constant response",
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
                let answer = constant_answer();
                let server = Server::bind_with(config, Constant(answer)).await.unwrap();
                println!("{}", server.local_addr());
                server.serve(stopped).await.unwrap();
            }
            "Derive" => {
                let answer = constant_answer();
                let codec = ProstCodec::<PlanRolloutResponse, PlanRolloutRequest>::default;
                serve_bare(codec, move |request| {
                    let snapshot = request.snapshot.unwrap();
                    for text in &snapshot.objects {
                        std::hint::black_box(derive::read(text).unwrap());
                    }
                    answer.clone()
                })
                .await;
            }
            "Echo" => serve_bare(|| BytesCodec, |request| request).await,
            other => panic!("unknown server {other}"),
        }
    });
}

/// Serves a method with tonic and nothing else.
async fn serve_bare<C: Codec<Encode: Send, Decode: Send> + Send>(
    codec: impl Fn() -> C + Clone + Send + 'static,
    answer: impl Fn(C::Decode) -> C::Encode + Clone + Send + Sync + 'static,
) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    println!("{}", listener.local_addr().unwrap());
    // Like the service.
    let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
    let service = service_fn(move |request| {
        let (codec, answer) = (codec(), answer.clone());
        async move {
            let mut grpc = Grpc::new(codec).max_decoding_message_size(wire::REQUEST_BYTES_MAX);
            let method = service_fn(async |request: Request<C::Decode>| {
                Ok::<_, Status>(Response::new(answer(request.into_inner())))
            });
            Ok::<_, Infallible>(grpc.unary(method, request).await)
        }
    });
    let server = tonic::transport::Server::builder();
    server.serve_with_incoming(service, incoming).await.unwrap();
}

/// The plan for the usual request.
fn constant_answer() -> PlanRolloutResponse {
    rollplan::service::answer(request(3, 13)).unwrap()
}

/// Answers every PlanRollout with the same plan.
struct Constant(PlanRolloutResponse);

#[tonic::async_trait]
impl Planner for Constant {
    async fn answer<R: MethodRequest>(
        &self,
        _: Request<R>,
    ) -> Result<Response<R::Response>, Status> {
        let answer = (&self.0 as &dyn Any).downcast_ref::<R::Response>();
        let answer = answer
            .cloned()
            .ok_or_else(|| Status::unimplemented("not measured"))?;
        Ok(Response::new(answer))
    }
}
