//! Cases in which tonic differs from the gRPC specification. Each test first shows the behavior of tonic alone, to detect
//! when it is fixed, and then the correct behavior of this service.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use bytes::Bytes;
use rollplan::client::RolloutPlannerClient;
use rollplan::proto::{ComputeStatusRequest, PlanRolloutRequest};
use rollplan::server::{Config, PlannerService, RolloutPlannerServer, Shutdown};
use rollplan::wire::REQUEST_BYTES_MAX;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::Code;
use tonic::transport::Server;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use tonic_types::StatusExt as _;
use tower::ServiceBuilder;

use super::observed::{get, sample};
use super::planners::Staged;
use super::raw::{self, PLAN, framed};
use super::refusals::{check, check_too_large};
use super::stop::{check_ends, next, watch};
use super::{
    PATIENCE, Serving, connect, ends, mk_config, mk_large_request, mk_request,
    mk_request_with_bytes, start, start_with,
};

/// A plain tonic server with the same planner.
async fn stock(staged: &Staged, server: Server) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let mut server = server;
    let router = server.add_service(RolloutPlannerServer::new(PlannerService::new(
        staged.clone(),
    )));
    tokio::spawn(router.serve_with_incoming(TcpListenerStream::new(listener)));
    address
}

/// The codes of unanswered calls with these deadlines.
async fn codes_after(address: SocketAddr, timeouts: &[&str]) -> Vec<Code> {
    let mut raw = raw::connect(address).await;
    let mut codes = Vec::new();
    for timeout in timeouts {
        let request = raw::request(PLAN, &[("grpc-timeout", timeout)]);
        let body = framed(&PlanRolloutRequest::default());
        let answer = raw.call(request, body).await.unwrap();
        assert!(answer.is_status_alone);
        codes.push(answer.status.code());
    }
    codes
}

#[tokio::test]
async fn trap_1_deadline_is_deadline_exceeded() {
    let staged = Staged::default();
    let timeouts = ["0m", "100u", "1m", "2m", "3m", "5m", "20m"];
    let stock = stock(&staged, Server::builder()).await;
    assert_eq!(codes_after(stock, &timeouts).await, [Code::Cancelled; 7]);

    let ours = staged.start(mk_config()).await.address;
    for _ in 0..30 {
        let codes = codes_after(ours, &timeouts).await;
        assert_eq!(codes, [Code::DeadlineExceeded; 7]);
    }
    // A call without a deadline has the server's.
    let config = Config {
        deadline_max: Duration::from_millis(20),
        ..mk_config()
    };
    let mut client = staged.start(config).await.client;
    let status = client.plan_rollout(PlanRolloutRequest::default()).await;
    check(
        &status.unwrap_err(),
        Code::DeadlineExceeded,
        "DEADLINE_EXCEEDED",
    );
}

/// Starts a call, and waits until the connection accepts no further calls.
async fn call_over_age(staged: &Staged, address: SocketAddr) -> Result<Code, h2::Error> {
    let mut raw = raw::connect(address).await;
    let request = raw::request(PLAN, &[]);
    let (answer, mut stream) = raw.send.send_request(request, false).unwrap();
    let body = framed(&PlanRolloutRequest::default());
    stream.send_data(body, true).unwrap();
    staged.started.notified().await;
    let answer = tokio::spawn(raw::receive(answer));
    // After a GOAWAY, the call can finish. After a reset, it cannot.
    let mut other = raw.send.clone();
    let goodbye = async {
        while other.clone().ready().await.is_ok() {
            // Only an attempt shows whether a call may still be sent.
            match other.send_request(raw::request("/unknown", &[]), true) {
                Ok((answer, _)) => drop(answer.await),
                Err(_) => break,
            }
        }
    };
    timeout(PATIENCE, goodbye).await.unwrap();
    staged.go_on.notify_one();
    Ok(answer.await.unwrap()?.status.code())
}

#[tokio::test]
async fn trap_2_old_connection_drains_gracefully() {
    let staged = Staged::default();
    let age = Duration::from_secs(1);
    let server = Server::builder().max_connection_age(age / 10);
    let stock = stock(&staged, server.max_connection_age_grace(age / 10)).await;
    call_over_age(&staged, stock).await.unwrap_err();

    let config = Config {
        connection_age_max: Some(age),
        ..mk_config()
    };
    let staged = Staged::default();
    let ours = staged.start(config).await.address;
    assert_eq!(call_over_age(&staged, ours).await.unwrap(), Code::Ok);
}

#[tokio::test]
async fn trap_3_oversize_request_is_resource_exhausted() {
    let stock = stock(&Staged::default(), Server::builder()).await;
    let mut client = RolloutPlannerClient::new(connect(stock).await);
    let status = client.plan_rollout(mk_request_with_bytes(4 << 20)).await;
    assert_eq!(status.unwrap_err().code(), Code::OutOfRange);

    let Serving { mut client, .. } = start().await;
    let request = mk_request_with_bytes(REQUEST_BYTES_MAX);
    let status = client.plan_rollout(request).await.unwrap_err();
    check_too_large(&status, "request");
    // The connection remains open.
    client.plan_rollout(mk_request()).await.unwrap();
}

#[tokio::test]
async fn trap_4_panic_is_internal() {
    let staged = Staged::default();
    let stock = stock(&staged, Server::builder()).await;
    let mut client = RolloutPlannerClient::new(connect(stock).await);
    let status = client.compute_status(ComputeStatusRequest::default()).await;
    assert_eq!(status.unwrap_err().code(), Code::Cancelled);

    let Serving { mut client, .. } = staged.start(mk_config()).await;
    let status = client.compute_status(ComputeStatusRequest::default()).await;
    check(&status.unwrap_err(), Code::Internal, "INTERNAL_ERROR");
}

#[tokio::test]
async fn trap_5_call_limit_is_shared_by_all_connections() {
    let staged = Staged::default();
    let server = Server::builder().concurrency_limit_per_connection(1);
    let stock = stock(&staged, server.load_shed(true)).await;
    for _ in 0..2 {
        let mut client = RolloutPlannerClient::new(connect(stock).await);
        tokio::spawn(async move { client.plan_rollout(PlanRolloutRequest::default()).await });
        // Both are in progress.
        staged.started.notified().await;
    }

    let staged = Staged::default();
    let config = Config {
        concurrent_calls_max: 1,
        ..mk_config()
    };
    let Serving {
        address,
        mut client,
        ..
    } = staged.start(config).await;
    let running =
        tokio::spawn(async move { client.plan_rollout(PlanRolloutRequest::default()).await });
    staged.started.notified().await;
    let other = connect(address).await;
    let mut client = RolloutPlannerClient::new(other.clone());
    let status = client.plan_rollout(PlanRolloutRequest::default()).await;
    let status = status.unwrap_err();
    check(&status, Code::ResourceExhausted, "OVERLOADED");
    let retry = status.get_details_retry_info().unwrap();
    assert_eq!(retry.retry_delay, Some(Duration::from_millis(100)));
    // A planner at its limit still reports that it is healthy.
    let answer = HealthClient::new(other)
        .check(HealthCheckRequest::default())
        .await;
    assert_eq!(
        answer.unwrap().into_inner().status(),
        ServingStatus::Serving
    );
    staged.go_on.notify_one();
    running.await.unwrap().unwrap();
    // The slot is free again.
    let call = client.plan_rollout(PlanRolloutRequest::default());
    staged.go_on.notify_one();
    call.await.unwrap();
}

#[tokio::test]
async fn trap_6_calls_ended_by_a_limit_are_counted() {
    let staged = Staged::default();
    let seen = Arc::new(AtomicU32::new(0));
    let counts = Arc::clone(&seen);
    let layer = ServiceBuilder::new().map_response(move |response| {
        counts.fetch_add(1, Ordering::Relaxed);
        response
    });
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let stock = listener.local_addr().unwrap();
    let router = Server::builder()
        .timeout(Duration::from_millis(20))
        .layer(layer.into_inner())
        .add_service(RolloutPlannerServer::new(PlannerService::new(
            staged.clone(),
        )));
    tokio::spawn(router.serve_with_incoming(TcpListenerStream::new(listener)));
    let mut client = RolloutPlannerClient::new(connect(stock).await);
    let call = client.plan_rollout(PlanRolloutRequest::default()).await;
    call.unwrap_err();
    assert_eq!(seen.load(Ordering::Relaxed), 0);

    let config = Config {
        http_listen: Some(([127, 0, 0, 1], 0).into()),
        concurrent_calls_max: 1,
        deadline_max: Duration::from_millis(200),
        ..mk_config()
    };
    let staged = Staged::default();
    let Serving {
        mut client, http, ..
    } = staged.start(config).await;
    let mut other = client.clone();
    let late =
        tokio::spawn(async move { client.plan_rollout(PlanRolloutRequest::default()).await });
    staged.started.notified().await;
    let shed = other.plan_rollout(PlanRolloutRequest::default()).await;
    assert_eq!(shed.unwrap_err().code(), Code::ResourceExhausted);
    let late = late.await.unwrap();
    assert_eq!(late.unwrap_err().code(), Code::DeadlineExceeded);
    let (_, text) = get(http.unwrap(), "/metrics").await;
    let handled = |code| {
        sample(
            &text,
            "grpc_server_handled_total",
            &[("grpc_method", "PlanRollout"), ("grpc_code", code)],
        )
    };
    assert_eq!(handled("DeadlineExceeded"), 1.0);
    assert_eq!(handled("ResourceExhausted"), 1.0);
    assert_eq!(handled("Canceled"), 0.0);
    assert_eq!(sample(&text, "rollplan_shed_total", &[]), 1.0);
    assert_eq!(sample(&text, "rollplan_inflight_requests", &[]), 0.0);
}

#[tokio::test]
async fn trap_7_open_watch_does_not_delay_shutdown() {
    let (reporter, health) = tonic_health::server::health_reporter();
    reporter
        .set_service_status("", tonic_health::ServingStatus::Serving)
        .await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let stock = listener.local_addr().unwrap();
    let (close, closing) = tokio::sync::oneshot::channel::<Infallible>();
    let router = Server::builder().add_service(health);
    let mut ended = tokio::spawn(router.serve_with_incoming_shutdown(
        TcpListenerStream::new(listener),
        async {
            drop(closing.await);
        },
    ));
    let _watched = watch(stock).await;
    drop(close);
    timeout(Duration::from_millis(300), &mut ended)
        .await
        .unwrap_err();

    let Serving {
        address,
        stop,
        ended,
        ..
    } = start().await;
    let mut health = watch(address).await;
    stop.send(Shutdown::Graceful).unwrap();
    // The client is still connected, but does not read.
    ends(ended).await;
    assert_eq!(next(&mut health).await, Some(ServingStatus::NotServing));
    check_ends(&mut health).await;
}

/// Incomplete requests do not occupy slots.
#[tokio::test]
async fn incomplete_requests_do_not_block_others() {
    let config = Config {
        concurrent_calls_max: 1,
        ..mk_config()
    };
    let Serving {
        address,
        mut client,
        ..
    } = start_with(config).await;
    let mut raw = raw::connect(address).await;
    let mut half = Vec::new();
    for _ in 0..50 {
        let request = raw::request(PLAN, &[]);
        let (answer, mut stream) = raw.send.send_request(request, false).unwrap();
        let bytes = framed(&mk_request());
        stream.send_data(bytes.slice(..100), false).unwrap();
        half.push((answer, stream, bytes));
    }
    client.plan_rollout(mk_request()).await.unwrap();
    // An incomplete request can still be completed.
    let (answer, mut stream, bytes) = half.pop().unwrap();
    stream.send_data(bytes.slice(100..), true).unwrap();
    let answer = raw::receive(answer).await.unwrap();
    assert_eq!(answer.status.code(), Code::Ok);
    assert_ne!(answer.data, Bytes::new());
}

/// Queued large calls do not occupy the slots of small ones, which are answered at once.
#[tokio::test]
async fn large_calls_do_not_block_small_ones() {
    let staged = Staged::default();
    let config = Config {
        concurrent_calls_max: 4,
        large_plans_max: 1,
        ..mk_config()
    };
    let Serving { client, .. } = staged.start(config).await;
    let call = |request: PlanRolloutRequest| {
        let mut client = client.clone();
        tokio::spawn(async move { client.plan_rollout(request).await })
    };
    let large = || mk_large_request();
    let computed = call(large());
    staged.started.notified().await;
    // The limit of large calls is half of that of small ones: two of three more are refused.
    let mut more: Vec<_> = (0..3).map(|_| call(large())).collect();
    let mut shed = 0;
    while shed < 2 {
        let ended = more.iter().position(JoinHandle::is_finished);
        let Some(ended) = ended else {
            tokio::task::yield_now().await;
            continue;
        };
        let status = more.remove(ended).await.unwrap().unwrap_err();
        check(&status, Code::ResourceExhausted, "OVERLOADED");
        shed += 1;
    }
    let small = call(PlanRolloutRequest::default());
    timeout(PATIENCE, staged.started.notified()).await.unwrap();
    staged.go_on.notify_waiters();
    small.await.unwrap().unwrap();
    computed.await.unwrap().unwrap();
    // Then the queued call is computed.
    staged.started.notified().await;
    staged.go_on.notify_one();
    more.remove(0).await.unwrap().unwrap();
}
