//! Three servers behind a real Envoy, or behind a client that balances its calls: a failure of one server is not visible to
//! callers.
//!
//!     bash tests/run mesh        (installs Envoy; set ENVOY to use another one)

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that fails may panic"
)]

#[path = "../it/server/certificates.rs"]
#[allow(dead_code, reason = "shared with the tests of a single server")]
mod certificates;
mod envoy;
#[path = "../it/server/process.rs"]
#[allow(dead_code, reason = "shared with the tests of a single server")]
mod process;
#[path = "../it/request.rs"]
#[allow(dead_code, reason = "shared with the tests of a single server")]
mod request;
#[path = "../it/server/requests.rs"]
#[allow(dead_code, reason = "shared with the tests of a single server")]
mod requests;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use rollplan::client::RolloutPlannerClient;
use rollplan::proto::PlanRolloutRequest;
use rollplan::server::{Planner, PlannerService, RolloutPlannerServer};
use rollplan::service::MethodRequest;
use tokio::net::TcpListener;
use tokio::time::{sleep, timeout};
use tokio_stream::wrappers::TcpListenerStream;
use tonic::transport::channel::Change;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Response, Status};

use envoy::{Envoy, Member, Role};
use process::Process;
use requests::mk_request;

/// Callers that call continuously, and the number of their answers.
struct Load {
    over: Arc<AtomicBool>,
    answered: Arc<AtomicU64>,
    callers: Vec<tokio::task::JoinHandle<()>>,
}

impl Load {
    /// Each caller repeats its call as soon as it is answered. A failed call fails the test.
    fn start(callers: usize, client: &RolloutPlannerClient<Channel>, tries: u32) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let answered = Arc::new(AtomicU64::new(0));
        let caller = |_| {
            let mut client = client.clone();
            let (over, answered) = (Arc::clone(&over), Arc::clone(&answered));
            tokio::spawn(async move {
                let request = mk_request();
                while !over.load(Ordering::Relaxed) {
                    call(&mut client, &request, tries).await;
                    answered.fetch_add(1, Ordering::Relaxed);
                }
            })
        };
        let callers = (0..callers).map(caller).collect();
        Self {
            over,
            answered,
            callers,
        }
    }

    /// Restarts the servers one by one, each as soon as the client knows that the others serve.
    async fn outlives(self, replicas: &mut Vec<Process>, known: impl AsyncFn()) {
        self.outlives_each(replicas, terminated, known).await;
    }

    /// Does the same, but stops each server with `ended`.
    async fn outlives_each(
        self,
        replicas: &mut Vec<Process>,
        ended: fn(&mut Process),
        known: impl AsyncFn(),
    ) {
        self.answers(200).await;
        for _ in 0..replicas.len() {
            let replica = restart(replicas.remove(0), ended).await;
            replicas.push(replica);
            known().await;
            self.answers(200).await;
        }
        println!("{} calls, none failed", self.end().await);
    }

    async fn end(self) -> u64 {
        self.over.store(true, Ordering::Relaxed);
        for caller in self.callers {
            caller.await.unwrap();
        }
        self.answered.load(Ordering::Relaxed)
    }

    /// Waits until this many more calls have been answered.
    async fn answers(&self, more: u64) {
        let until = self.answered.load(Ordering::Relaxed) + more;
        let answered = async {
            while self.answered.load(Ordering::Relaxed) < until {
                assert!(!self.callers.iter().any(|it| it.is_finished()));
                sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(PATIENCE, answered).await.unwrap();
    }
}

async fn call(
    client: &mut RolloutPlannerClient<Channel>,
    request: &PlanRolloutRequest,
    tries: u32,
) {
    for attempt in 1.. {
        match client.plan_rollout(request.clone()).await {
            Ok(_) => return,
            // The retry rules of AIP-194, and of docs/reference/api.md for tonic's clients.
            Err(status)
                if attempt < tries
                    && (status.code() == Code::Unavailable || is_of_the_connection(&status)) =>
            {
                // All delays together are long enough for a server that starts on a busy machine.
                sleep(Duration::from_millis(50 << attempt)).await;
            }
            Err(status) => panic!("attempt {attempt}: {status:?}"),
        }
    }
}

/// Whether the client created this status itself. If a connection closes during a call, tonic does not report UNAVAILABLE,
/// but CANCELLED if the request was not sent, and UNKNOWN if it may have been sent.
fn is_of_the_connection(status: &Status) -> bool {
    let mut source = std::error::Error::source(status);
    while let Some(error) = source {
        if error.is::<hyper::Error>() {
            return true;
        }
        source = error.source();
    }
    false
}

/// A timeout for operations that could hang.
const PATIENCE: Duration = Duration::from_secs(300);

const REPLICA: [&str; 4] = ["--drain-delay", "2s", "--drain-grace", "10s"];

fn replicas() -> Vec<Process> {
    (0..3).map(|_| Process::start(&REPLICA)).collect()
}

fn addresses(replicas: &[Process]) -> Vec<SocketAddr> {
    replicas.iter().map(|it| it.address).collect()
}

/// Stops a server as Kubernetes does.
fn terminated(replica: &mut Process) {
    replica.signal("TERM");
    let status = replica.ended();
    assert_eq!(status.code(), Some(0));
}

/// Kills a server, as the kernel does when memory runs out.
fn killed(replica: &mut Process) {
    replica.signal("KILL");
    replica.ended();
}

/// Stops a server, and starts another one with the same address.
async fn restart(mut replica: Process, ended: fn(&mut Process)) -> Process {
    let address = replica.address.to_string();
    tokio::task::spawn_blocking(move || {
        ended(&mut replica);
        Process::start(&[&REPLICA[..], &["--listen", &address]].concat())
    })
    .await
    .unwrap()
}

async fn client_of(address: SocketAddr) -> RolloutPlannerClient<Channel> {
    let endpoint = Endpoint::from_shared(format!("http://{address}")).unwrap();
    RolloutPlannerClient::new(endpoint.connect().await.unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rolling_restart_behind_envoy_fails_no_call() {
    let mut replicas = replicas();
    let envoy = Envoy::start(&addresses(&replicas), Role::Balancer).await;
    envoy.healthy(3).await;
    let client = client_of(envoy.address).await;
    // The caller does not retry, so a failure that Envoy cannot hide fails the test.
    let load = Load::start(8, &client, 1);
    load.outlives(&mut replicas, async || envoy.healthy(3).await)
        .await;
}

/// Envoy checks the health of a cluster without calls every `no_traffic_interval`, which is a minute by default: longer than
/// a drain.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn draining_server_without_calls_is_unhealthy_before_it_stops() {
    let drain = ["--drain-delay", "40s", "--drain-grace", "10s"];
    let replicas: Vec<_> = (0..2).map(|_| Process::start(&drain)).collect();
    let envoy = Envoy::start(&addresses(&replicas), Role::Balancer).await;
    envoy.healthy(2).await;
    replicas[0].signal("TERM");
    envoy.is_healthy(|count| count == 1).await;
    // The server still answers.
    let ready = envoy::get(replicas[0].http, "/readyz").await;
    assert!(ready.starts_with("HTTP/1.1 503"), "{ready}");
}

/// A server is killed without a warning: its calls in progress are reset, and retried on another server.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_servers_behind_envoy_fail_no_call() {
    let mut replicas = replicas();
    let envoy = Envoy::start(&addresses(&replicas), Role::Balancer).await;
    envoy.healthy(3).await;
    let client = client_of(envoy.address).await;
    // More callers than in other tests, so that every killed server has calls in flight. Envoy repeats them, except a call
    // whose response has already started, which the client repeats.
    let load = Load::start(24, &client, 2);
    // Only two: the server that was killed first stays ejected for a while after its restart.
    load.outlives_each(&mut replicas, killed, async || envoy.healthy(2).await)
        .await;
    assert!(envoy.stat("cluster.rollplan.upstream_rq_retry").await > 0);
}

/// As in a mesh, each server and the caller have an Envoy as a sidecar, and the sidecars use mutual TLS. The servers
/// themselves do not use TLS.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rolling_restart_between_sidecars_fails_no_call() {
    let member = Member::new();
    let mut replicas = replicas();
    let mut sidecars = Vec::new();
    for server in addresses(&replicas) {
        sidecars.push(Envoy::start(&[server], Role::Server(&member)).await);
    }
    let servers: Vec<_> = sidecars.iter().map(|sidecar| sidecar.address).collect();
    let caller = Envoy::start(&servers, Role::Caller(&member)).await;
    caller.healthy(3).await;
    let client = client_of(caller.address).await;
    let load = Load::start(8, &client, 1);
    load.outlives(&mut replicas, async || caller.healthy(3).await)
        .await;

    let outsiders = [
        Envoy::start(&servers, Role::Balancer).await,
        Envoy::start(&servers, Role::Caller(&Member::new())).await,
    ];
    for outsider in &outsiders {
        let mut client = client_of(outsider.address).await;
        let refused = client.plan_rollout(mk_request()).await.unwrap_err();
        assert_eq!(refused.code(), Code::Unavailable, "{refused:?}");
    }
}

/// The calls of one connection are distributed to all servers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_and_not_connections_are_balanced() {
    let replicas = replicas();
    let envoy = Envoy::start(&addresses(&replicas), Role::Balancer).await;
    envoy.healthy(3).await;
    let mut client = client_of(envoy.address).await;
    for _ in 0..300 {
        client.plan_rollout(mk_request()).await.unwrap();
    }
    for replica in &replicas {
        let started = envoy::sample(
            &envoy::get(replica.http, "/metrics").await,
            "grpc_server_started_total{grpc_type=\"unary\",grpc_service=\"rollplan.v1.RolloutPlanner\",grpc_method=\"PlanRollout\"}",
        );
        assert!((50..=150).contains(&started), "{started}");
    }
}

/// A server that reports that it is healthy, but fails every call.
struct Misbehaving;

#[tonic::async_trait]
impl Planner for Misbehaving {
    async fn answer<R: MethodRequest>(
        &self,
        _: Request<R>,
    ) -> Result<Response<R::Response>, Status> {
        Err(Status::unavailable("staged"))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_misbehaves_is_tried_elsewhere_and_ejected() {
    let replicas = [Process::start(&REPLICA), Process::start(&REPLICA)];
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let misbehaving = listener.local_addr().unwrap();
    let (reporter, health) = tonic_health::server::health_reporter();
    reporter
        .set_serving::<RolloutPlannerServer<PlannerService<Misbehaving>>>()
        .await;
    let router = tonic::transport::Server::builder()
        .add_service(RolloutPlannerServer::new(PlannerService::new(Misbehaving)))
        .add_service(health);
    tokio::spawn(router.serve_with_incoming(TcpListenerStream::new(listener)));

    let servers = [addresses(&replicas), vec![misbehaving]].concat();
    let envoy = Envoy::start(&servers, Role::Balancer).await;
    envoy.healthy(3).await;
    let mut client = client_of(envoy.address).await;
    for _ in 0..100 {
        client.plan_rollout(mk_request()).await.unwrap();
    }
    assert!(
        envoy
            .stat("cluster.rollplan.upstream_rq_retry_success")
            .await
            > 0
    );
    assert_eq!(
        envoy
            .stat("cluster.rollplan.outlier_detection.ejections_active")
            .await,
        1
    );
}

/// Without a mesh: a client that knows all addresses, for example from a headless Service, and chooses one for each call.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rolling_restart_behind_a_balancing_client_fails_no_call_that_is_retried() {
    let mut replicas = replicas();
    let (channel, endpoints) = Channel::balance_channel(8);
    for (key, address) in addresses(&replicas).into_iter().enumerate() {
        let endpoint = Endpoint::from_shared(format!("http://{address}")).unwrap();
        endpoints.send(Change::Insert(key, endpoint)).await.unwrap();
    }
    let load = Load::start(8, &RolloutPlannerClient::new(channel), 5);
    load.outlives(&mut replicas, async || ()).await;
}
