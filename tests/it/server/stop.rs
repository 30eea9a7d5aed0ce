//! Starting with what is configured, and ending when asked to: in order, and in bounded time.

use std::net::TcpListener;
use std::time::Duration;

use rollplan::proto::PlanRolloutRequest;
use rollplan::server::{self, Config, DRAIN_GRACE_MAX, Server};
use tokio::net::TcpStream;
use tokio::time::Instant;
use tonic::Streaming;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};

use super::{Serving, Staged, connect, mk_config, start};

/// Watches the health of the server, which serves.
async fn watch(address: std::net::SocketAddr) -> Streaming<HealthCheckResponse> {
    let mut client = HealthClient::new(connect(address).await);
    let service = String::new();
    let watch = client.watch(HealthCheckRequest { service }).await;
    let mut watch = watch.unwrap().into_inner();
    assert_eq!(next(&mut watch).await, Some(ServingStatus::Serving));
    watch
}

async fn next(watch: &mut Streaming<HealthCheckResponse>) -> Option<ServingStatus> {
    Some(watch.message().await.unwrap()?.status())
}

#[tokio::test]
async fn a_wrong_configuration_binds_no_port() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let config = Config {
        listen: taken.local_addr().unwrap(),
        drain_grace: DRAIN_GRACE_MAX * 2,
    };
    // Nothing is said of the port, which is taken: it was not tried.
    match Server::bind(config).await.err().unwrap() {
        server::Error::Config { setting, .. } => assert_eq!(setting, "drain_grace"),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_taken_port_is_named() {
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
async fn an_idle_connection_does_not_hold_the_stop() {
    let Serving {
        address,
        channel: _channel,
        shutdown,
        ended,
        ..
    } = start().await;
    shutdown.send(()).unwrap();
    ended.await.unwrap().unwrap();
    TcpStream::connect(address).await.unwrap_err();
}

#[tokio::test]
async fn a_running_call_ends_before_the_server_does() {
    let staged = Staged::default();
    let Serving {
        address,
        mut client,
        shutdown,
        ended,
        ..
    } = staged.start(mk_config()).await;
    let mut health = watch(address).await;
    let running =
        tokio::spawn(async move { client.plan_rollout(PlanRolloutRequest::default()).await });
    staged.started.notified().await;

    shutdown.send(()).unwrap();
    assert_eq!(next(&mut health).await, Some(ServingStatus::NotServing));
    assert_eq!(next(&mut health).await, None);
    assert!(!ended.is_finished());
    assert!(!running.is_finished());

    staged.go_on.notify_one();
    running.await.unwrap().unwrap();
    ended.await.unwrap().unwrap();
    TcpStream::connect(address).await.unwrap_err();
}

/// Trap: with tonic alone an open Watch holds the server until the client leaves.
#[tokio::test]
async fn an_open_watch_does_not_hold_the_stop() {
    let Serving {
        address,
        shutdown,
        ended,
        ..
    } = start().await;
    let mut health = watch(address).await;
    shutdown.send(()).unwrap();
    // The client is still there, and does not even read.
    ended.await.unwrap().unwrap();
    assert_eq!(next(&mut health).await, Some(ServingStatus::NotServing));
    assert_eq!(next(&mut health).await, None);
}

#[tokio::test]
async fn a_call_that_does_not_end_is_left_after_the_grace() {
    let staged = Staged::default();
    let config = Config {
        drain_grace: Duration::from_secs(25),
        ..mk_config()
    };
    let Serving {
        mut client,
        shutdown,
        ended,
        ..
    } = staged.start(config).await;
    let running =
        tokio::spawn(async move { client.plan_rollout(PlanRolloutRequest::default()).await });
    staged.started.notified().await;

    // From here on time passes when there is nothing else to do, and only then.
    tokio::time::pause();
    let asked = Instant::now();
    shutdown.send(()).unwrap();
    ended.await.unwrap().unwrap();
    let took = asked.elapsed();
    assert!(took >= Duration::from_secs(25), "{took:?}");
    assert!(took < Duration::from_secs(26), "{took:?}");
    assert!(!running.is_finished());
}
