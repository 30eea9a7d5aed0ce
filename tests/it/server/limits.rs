//! Configured limits of connections and calls.

use std::net::SocketAddr;
use std::time::Duration;

use rollplan::proto::PlanRolloutRequest;
use rollplan::server::Config;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};
use tonic::Code;
use tonic_types::StatusExt as _;

use super::observed::{get, mk_observed, sample};
use super::planners::Staged;
use super::raw::{self, PLAN, PREFACE, Raw, framed};
use super::refusals::check;
use super::{PATIENCE, Serving, mk_config, mk_request, mk_request_with_long_answer, start_with};

const SETTINGS: u8 = 4;
const PING: u8 = 6;

/// Connects and sends the HTTP/2 preface only.
async fn hello(address: SocketAddr) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(PREFACE).await.unwrap();
    stream
}

/// The type of the next frame. `None` at the end of the connection.
async fn next_frame(stream: &mut TcpStream) -> Option<u8> {
    let mut head = [0; 9];
    stream.read_exact(&mut head).await.ok()?;
    let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
    let mut payload = vec![0; length as usize];
    stream.read_exact(&mut payload).await.ok()?;
    Some(head[3])
}

/// Waits until the connection is closed, and returns the types of the received frames.
async fn until_closed(stream: &mut TcpStream) -> Vec<u8> {
    let mut kinds = Vec::new();
    let closed = async {
        while let Some(kind) = next_frame(stream).await {
            kinds.push(kind);
        }
    };
    timeout(PATIENCE, closed).await.expect("it is closed");
    kinds
}

async fn closed(http: SocketAddr, reason: &str) -> f64 {
    let (_, text) = get(http, "/metrics").await;
    let labels = [("reason", reason)];
    sample(&text, "rollplan_connections_closed_total", &labels)
}

#[tokio::test]
async fn streams_per_connection_are_limited() {
    let config = Config {
        streams_max: 7,
        ..mk_config()
    };
    let mut raw = raw::connect(start_with(config).await.address).await;
    // With the answer, the settings have been received.
    let request = raw::request(PLAN, &[]);
    raw.call(request, framed(&mk_request())).await.unwrap();
    assert_eq!(raw.send.current_max_send_streams(), 7);
}

/// The HTTP status of a call with a header of this size.
async fn status_with_header(raw: &mut Raw, bytes: usize) -> u16 {
    let long = "x".repeat(bytes);
    let request = raw::request(PLAN, &[("long", &long)]);
    let (answer, mut stream) = raw.send.send_request(request, false).unwrap();
    // A call that is refused by its headers may already have ended.
    let _ = stream.send_data(framed(&mk_request()), true);
    answer.await.unwrap().status().as_u16()
}

#[tokio::test]
async fn header_bytes_per_call_are_limited() {
    let config = Config {
        header_bytes_max: 4096,
        ..mk_config()
    };
    let Serving {
        address,
        mut client,
        ..
    } = start_with(config).await;
    let mut raw = raw::connect(address).await;
    assert_eq!(status_with_header(&mut raw, 2 << 10).await, 200);
    assert_eq!(status_with_header(&mut raw, 8 << 10).await, 431);
    // The connection remains open.
    assert_eq!(status_with_header(&mut raw, 2 << 10).await, 200);
    // It is not a gRPC response, so clients derive a status from that of HTTP.
    let mut request = tonic::Request::new(mk_request());
    let long = "x".repeat(8 << 10).parse().unwrap();
    request.metadata_mut().insert("long", long);
    let status = client.plan_rollout(request).await.unwrap_err();
    assert_eq!(status.code(), Code::Unknown);
    assert!(status.details().is_empty());
}

#[tokio::test]
async fn excess_connection_waits_until_another_closes() {
    let config = Config {
        connections_max: 2,
        ..mk_config()
    };
    // The client of the test uses the first connection.
    let serving = start_with(config).await;
    let mut second = hello(serving.address).await;
    assert_eq!(next_frame(&mut second).await, Some(SETTINGS));
    let mut third = hello(serving.address).await;
    let mut client = serving.client.clone();
    client.plan_rollout(mk_request()).await.unwrap();
    let waits = timeout(Duration::from_millis(200), third.readable()).await;
    waits.unwrap_err();
    drop(second);
    let greeted = timeout(PATIENCE, next_frame(&mut third)).await;
    assert_eq!(greeted.unwrap(), Some(SETTINGS));
}

fn mk_impatient() -> Config {
    Config {
        keepalive_interval: Duration::from_secs(1),
        keepalive_timeout: Duration::from_secs(1),
        ..mk_observed()
    }
}

/// After its preface, the connection is pinged.
#[tokio::test]
async fn connection_without_ping_replies_is_closed() {
    let Serving { address, http, .. } = start_with(mk_impatient()).await;
    let mut silent = hello(address).await;
    assert_eq!(next_frame(&mut silent).await, Some(SETTINGS));
    // From here on, time advances only when there is nothing else to do.
    tokio::time::pause();
    let start = Instant::now();
    let kinds = until_closed(&mut silent).await;
    let took = start.elapsed();
    assert!(kinds.contains(&PING), "{kinds:?}");
    assert!(took >= Duration::from_secs(2), "{took:?}");
    assert!(took < Duration::from_secs(3), "{took:?}");
    tokio::time::resume();
    assert_eq!(closed(http.unwrap(), "silent").await, 1.0);
}

/// The server sends no pings before the preface.
#[tokio::test]
async fn connection_without_a_preface_is_closed() {
    let Serving { address, http, .. } = start_with(mk_impatient()).await;
    let mut silent = TcpStream::connect(address).await.unwrap();
    tokio::time::pause();
    let start = Instant::now();
    until_closed(&mut silent).await;
    let took = start.elapsed();
    assert!(took < Duration::from_secs(20), "{took:?}");
    tokio::time::resume();
    assert_eq!(closed(http.unwrap(), "silent").await, 1.0);
}

/// The client replies to pings, but does not extend its window.
#[tokio::test]
async fn connection_that_does_not_read_its_answer_is_closed() {
    let Serving { address, http, .. } = start_with(mk_impatient()).await;
    let request = mk_request_with_long_answer(1 << 20);
    let mut raw = raw::connect(address).await;
    let (answer, mut stream) = raw
        .send
        .send_request(raw::request(PLAN, &[]), false)
        .unwrap();
    stream.send_data(framed(&request), true).unwrap();
    let (_, mut body) = answer.await.unwrap().into_parts();
    tokio::time::pause();
    let start = Instant::now();
    // The received data is not acknowledged, so the server sends no more.
    let ended = async { while let Some(Ok(_)) = body.data().await {} };
    timeout(PATIENCE, ended).await.expect("it is closed");
    let took = start.elapsed();
    assert!(took >= Duration::from_secs(30), "{took:?}");
    assert!(took < Duration::from_secs(41), "{took:?}");
    tokio::time::resume();
    let http = http.unwrap();
    assert_eq!(closed(http, "response_not_read").await, 1.0);
    assert_eq!(closed(http, "silent").await, 0.0);
}

#[tokio::test]
async fn shorter_of_two_deadlines_applies() {
    let config = Config {
        deadline_max: Duration::from_millis(20),
        ..mk_config()
    };
    let staged = Staged::default();
    let mut raw = raw::connect(staged.start(config).await.address).await;
    for (timeout, milliseconds) in [("1H", "20"), ("7m", "7")] {
        let request = raw::request(PLAN, &[("grpc-timeout", timeout)]);
        let body = framed(&PlanRolloutRequest::default());
        let call = raw.call(request, body);
        let status = tokio::time::timeout(PATIENCE, call)
            .await
            .unwrap()
            .unwrap()
            .status;
        check(&status, Code::DeadlineExceeded, "DEADLINE_EXCEEDED");
        let metadata = status.get_details_error_info().unwrap().metadata;
        assert_eq!(metadata["milliseconds"], milliseconds);
    }
}
