//! Startup and shutdown: in order, and in bounded time.

use std::net::TcpListener;
use std::time::Duration;

use rollplan::client::RolloutPlannerClient;
use rollplan::proto::PlanRolloutRequest;
use rollplan::server::{self, Config, Server, Shutdown};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::task::yield_now;
use tokio::time::{Instant, timeout};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Streaming};
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;

use super::observed::get;
use super::planners::Staged;
use super::refusals::check;
use super::{PATIENCE, Serving, connect, ends, mk_config, mk_request, start, start_with};

/// Watches the health of a server that is serving.
pub(super) async fn watch(address: std::net::SocketAddr) -> Streaming<HealthCheckResponse> {
    let mut client = HealthClient::new(connect(address).await);
    let service = String::new();
    let watch = client.watch(HealthCheckRequest { service }).await;
    let mut watch = watch.unwrap().into_inner();
    assert_eq!(next(&mut watch).await, Some(ServingStatus::Serving));
    watch
}

pub(super) async fn next(watch: &mut Streaming<HealthCheckResponse>) -> Option<ServingStatus> {
    let message = timeout(PATIENCE, watch.message()).await;
    Some(message.expect("the status changes").unwrap()?.status())
}

/// Checks that the watch ends with the server and reports the reason.
pub(super) async fn check_ends(watch: &mut Streaming<HealthCheckResponse>) {
    let end = timeout(PATIENCE, watch.message()).await;
    let status = end.expect("it ends").unwrap_err();
    check(&status, Code::Unavailable, "STOPPING");
}

#[tokio::test]
async fn invalid_configuration_binds_no_port() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let config = Config {
        listen: taken.local_addr().unwrap(),
        drain_grace: Duration::from_secs(7200),
        ..mk_config()
    };
    // Although the port is unavailable, the error is about the configuration: the port was not bound.
    match Server::bind(config).await.err().unwrap() {
        server::Error::Config { setting, .. } => assert_eq!(setting, "drain_grace"),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn unavailable_port_is_named() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let config = Config {
        listen: address,
        ..mk_config()
    };
    let error = Server::bind(config).await.err().unwrap();
    assert_eq!(error.to_string(), format!("cannot listen on {address}"));
}

#[tokio::test]
async fn idle_connection_does_not_delay_shutdown() {
    let Serving {
        address,
        channel: _channel,
        stop,
        ended,
        ..
    } = start().await;
    stop.send(Shutdown::Graceful).unwrap();
    ends(ended).await;
    TcpStream::connect(address).await.unwrap_err();
}

/// A connection on which nothing was ever sent.
#[tokio::test]
async fn silent_connection_does_not_delay_shutdown() {
    let Serving {
        address,
        stop,
        ended,
        ..
    } = start().await;
    let mut silent = TcpStream::connect(address).await.unwrap();
    // Half of the HTTP/2 preface, to know that it has been accepted.
    silent.write_all(b"PRI * HTTP").await.unwrap();
    // Accepted in this order.
    RolloutPlannerClient::new(connect(address).await)
        .plan_rollout(mk_request())
        .await
        .unwrap();
    stop.send(Shutdown::Graceful).unwrap();
    ends(ended).await;
    let mut rest = Vec::new();
    // The connection may also be reset.
    let _ = silent.read_to_end(&mut rest).await;
}

/// A client that may still request descriptors.
#[tokio::test]
async fn open_reflection_stream_does_not_delay_shutdown() {
    let Serving {
        channel,
        stop,
        ended,
        ..
    } = start().await;
    let (_asks, asked) = mpsc::channel(1);
    let mut client = ServerReflectionClient::new(channel);
    let answers = client.server_reflection_info(ReceiverStream::new(asked));
    let mut answers = answers.await.unwrap().into_inner();
    stop.send(Shutdown::Graceful).unwrap();
    ends(ended).await;
    let status = answers.message().await.unwrap_err();
    check(&status, Code::Unavailable, "STOPPING");
}

#[tokio::test]
async fn running_call_ends_before_the_server() {
    let staged = Staged::default();
    let Serving {
        address,
        mut client,
        stop,
        ended,
        ..
    } = staged.start(mk_config()).await;
    let mut health = watch(address).await;
    let running =
        tokio::spawn(async move { client.plan_rollout(PlanRolloutRequest::default()).await });
    staged.started.notified().await;

    stop.send(Shutdown::Graceful).unwrap();
    assert_eq!(next(&mut health).await, Some(ServingStatus::NotServing));
    check_ends(&mut health).await;
    // New connections are not accepted, while existing ones are still served.
    let refused = async {
        while TcpStream::connect(address).await.is_ok() {
            yield_now().await;
        }
    };
    timeout(PATIENCE, refused).await.unwrap();
    assert!(!ended.is_finished());
    assert!(!running.is_finished());

    staged.go_on.notify_one();
    running.await.unwrap().unwrap();
    ends(ended).await;
    TcpStream::connect(address).await.unwrap_err();
}

/// An immediate shutdown skips the grace period, too.
#[tokio::test]
async fn immediate_shutdown_aborts_running_calls() {
    let staged = Staged::default();
    let Serving {
        mut client,
        stop,
        ended,
        ..
    } = staged.start(mk_config()).await;
    let running =
        tokio::spawn(async move { client.plan_rollout(PlanRolloutRequest::default()).await });
    staged.started.notified().await;
    stop.send(Shutdown::Immediate).unwrap();
    let ended = timeout(PATIENCE, ended).await.unwrap();
    ended.unwrap().unwrap();
    assert!(!running.is_finished());
}

#[tokio::test]
async fn call_that_does_not_end_is_aborted_after_the_grace() {
    let staged = Staged::default();
    let config = Config {
        deadline_max: Duration::from_secs(3600),
        drain_grace: Duration::from_secs(25),
        ..mk_config()
    };
    let Serving {
        mut client,
        stop,
        ended,
        ..
    } = staged.start(config).await;
    let running =
        tokio::spawn(async move { client.plan_rollout(PlanRolloutRequest::default()).await });
    staged.started.notified().await;

    // From here on, time advances only when there is nothing else to do.
    tokio::time::pause();
    let asked = Instant::now();
    stop.send(Shutdown::Graceful).unwrap();
    ends(ended).await;
    let took = asked.elapsed();
    assert!(took >= Duration::from_secs(25), "{took:?}");
    assert!(took < Duration::from_secs(26), "{took:?}");
    assert!(!running.is_finished());
}

/// Load balancers need time to notice the shutdown. Until then, calls are answered, also on new connections.
#[tokio::test]
async fn calls_are_answered_during_the_delay() {
    let config = Config {
        http_listen: Some(([127, 0, 0, 1], 0).into()),
        drain_delay: Duration::from_secs(3600),
        ..mk_config()
    };
    let Serving {
        address,
        http,
        mut client,
        stop,
        ended,
        ..
    } = start_with(config).await;
    let http = http.unwrap();
    assert_eq!(get(http, "/livez").await.0, 200);
    assert_eq!(get(http, "/readyz").await.0, 200);
    let mut health = watch(address).await;

    stop.send(Shutdown::Graceful).unwrap();
    assert_eq!(next(&mut health).await, Some(ServingStatus::NotServing));
    assert_eq!(get(http, "/readyz").await.0, 503);
    assert_eq!(get(http, "/livez").await.0, 200);
    client.plan_rollout(mk_request()).await.unwrap();
    let mut other = RolloutPlannerClient::new(connect(address).await);
    other.plan_rollout(mk_request()).await.unwrap();

    // A repeated signal skips the delay, and nothing else.
    stop.send(Shutdown::SkipDelay).unwrap();
    ends(ended).await;
    TcpStream::connect(address).await.unwrap_err();
}

/// A call that crosses with the GOAWAY of its connection fails CANCELLED in tonic's client (docs/reference/api.md): no server has
/// seen it. Any later call is UNAVAILABLE.
#[tokio::test]
async fn call_after_the_end_is_unavailable() {
    let Serving {
        mut client,
        stop,
        ended,
        ..
    } = start().await;
    client.plan_rollout(mk_request()).await.unwrap();
    stop.send(Shutdown::SkipDelay).unwrap();
    ends(ended).await;
    let unavailable = async {
        loop {
            let status = client.plan_rollout(mk_request()).await.unwrap_err();
            match status.code() {
                Code::Unavailable => break,
                code => assert_eq!(code, Code::Cancelled, "{status:?}"),
            }
        }
    };
    timeout(PATIENCE, unavailable).await.unwrap();
}
