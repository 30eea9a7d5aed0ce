//! The service on a real socket, with a real client.

mod abuse;
mod ages;
mod answers;
pub(crate) mod certificates;
mod codes;
mod connect;
mod descriptors;
mod discovery;
mod endpoints;
mod http;
mod limits;
mod monitoring;
mod observed;
mod offload;
mod planners;
mod process;
mod raw;
mod refusals;
mod requests;
mod secrets;
mod settings;
mod signals;
mod stop;
mod table;
mod tls;
mod traces;
mod traps;

use std::time::Duration;

use rollplan::client::RolloutPlannerClient;
use rollplan::server::{self, Config, Server, Shutdown};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tonic::transport::{Channel, Endpoint};

use requests::{
    mk_large_request, mk_request, mk_request_with_bytes, mk_request_with_long_answer,
    mk_request_with_pods, mk_rollout, mk_rollout_with_pods,
};

/// A running server, with a client.
struct Serving {
    address: std::net::SocketAddr,
    channel: Channel,
    client: RolloutPlannerClient<Channel>,
    http: Option<std::net::SocketAddr>,
    stop: watch::Sender<Shutdown>,
    ended: JoinHandle<Result<(), server::Error>>,
}

/// A timeout for what would otherwise hang: much longer than any wait on a busy machine, and much shorter than [`LONG`].
const PATIENCE: Duration = Duration::from_secs(300);

/// Longer than any test.
const LONG: Duration = Duration::from_secs(3600);

fn mk_config() -> Config {
    Config {
        listen: ([127, 0, 0, 1], 0).into(),
        // Machines that run tests may be busier than those that serve.
        deadline_max: PATIENCE,
        queue_time_max: PATIENCE,
        drain_delay: Duration::ZERO,
        // No test may wait for the end of the grace period.
        drain_grace: LONG,
        ..Config::default()
    }
}

async fn serve(server: Server) -> Serving {
    let address = server.local_addr();
    let http = server.http_addr();
    let (stop, stopped) = watch::channel(Shutdown::NotRequested);
    let ended = tokio::spawn(server.serve(stopped));
    let channel = connect(address).await;
    Serving {
        address,
        http,
        client: RolloutPlannerClient::new(channel.clone()),
        channel,
        stop,
        ended,
    }
}

async fn connect(address: std::net::SocketAddr) -> Channel {
    let endpoint = Endpoint::from_shared(format!("http://{address}")).unwrap();
    endpoint.connect().await.unwrap()
}

/// A server with the configuration of most tests.
async fn start() -> Serving {
    start_with(mk_config()).await
}

async fn start_with(config: Config) -> Serving {
    serve(Server::bind(config).await.unwrap()).await
}

/// Waits until a condition holds.
async fn until(what: &str, condition: impl AsyncFn() -> bool) {
    let holds = async {
        while !condition().await {
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(PATIENCE, holds).await.expect(what);
}

/// Waits until the server has shut down.
async fn ends(ended: JoinHandle<Result<(), server::Error>>) {
    let ended = timeout(PATIENCE, ended).await;
    ended.expect("the server ends").unwrap().unwrap();
}
