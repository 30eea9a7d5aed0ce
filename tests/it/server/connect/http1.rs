//! Connections of HTTP/1.1: reuse, timeouts, age, drain and header size.

use std::time::Duration;

use rollplan::server::{Config, Shutdown};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};

use super::{ask_json, ask_proto};
use crate::server::http::{self, Ask};
use crate::server::planners::Staged;
use crate::server::raw::PLAN;
use crate::server::{PATIENCE, Serving, ends, mk_config, mk_request, start, start_with};

#[tokio::test]
async fn http1_connections_are_reused_on_the_port_of_grpc() {
    let Serving {
        address,
        mut client,
        ..
    } = start().await;
    let mut stream = TcpStream::connect(address).await.unwrap();
    for _ in 0..3 {
        let reply = ask_json(&mk_request()).on(&mut stream).await;
        assert_eq!(reply.status, 200);
        client.plan_rollout(mk_request()).await.unwrap();
        // Refused by its headers.
        let reply = Ask::post(PLAN, "text/html", "x").on(&mut stream).await;
        assert_eq!(reply.status, 415);
        assert_eq!(reply.header("connection"), None);
    }
}

/// Otherwise, the client may send its next call on a connection that the server is closing.
#[tokio::test]
async fn answer_before_the_end_of_the_request_says_that_the_connection_is_closed() {
    let Serving { address, .. } = start().await;
    let mut stream = TcpStream::connect(address).await.unwrap();
    let unfinished = format!(
        "POST {PLAN} HTTP/1.1\r\nHost: a\r\nContent-Type: text/html\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n"
    );
    stream.write_all(unfinished.as_bytes()).await.unwrap();
    let reply = http::read(&mut stream).await;
    assert_eq!(reply.status, 415);
    assert_eq!(reply.header("connection"), Some("close"));
    let mut rest = Vec::new();
    let closed = timeout(PATIENCE, stream.read_to_end(&mut rest)).await;
    closed.expect("it is closed").unwrap();
}

#[tokio::test]
async fn slow_and_idle_connections_are_closed() {
    let config = Config {
        keepalive_interval: Duration::from_secs(7),
        ..mk_config()
    };
    let Serving { address, .. } = start_with(config).await;
    let mut idle = TcpStream::connect(address).await.unwrap();
    assert_eq!(ask_json(&mk_request()).on(&mut idle).await.status, 200);
    let mut slow = TcpStream::connect(address).await.unwrap();
    let head = format!("POST {PLAN} HTTP/1.1\r\nHost: a\r\n");
    slow.write_all(head.as_bytes()).await.unwrap();
    // After this answer, the server has read the incomplete headers.
    ask_json(&mk_request()).over_http1(address).await;
    tokio::time::pause();
    for mut stream in [idle, slow] {
        let start = Instant::now();
        let mut rest = Vec::new();
        let closed = timeout(PATIENCE, stream.read_to_end(&mut rest)).await;
        closed.expect("it is closed").unwrap();
        assert!(
            start.elapsed() <= Duration::from_secs(8),
            "{:?}",
            start.elapsed()
        );
    }
}

/// A client may be silent while it waits for its answer.
#[tokio::test]
async fn connections_with_a_running_call_stay_open() {
    let staged = Staged::default();
    let config = Config {
        deadline_max: Duration::from_secs(3600),
        keepalive_interval: Duration::from_secs(1),
        keepalive_timeout: Duration::from_secs(1),
        ..mk_config()
    };
    let Serving { address, .. } = staged.start(config).await;
    let mut stream = TcpStream::connect(address).await.unwrap();
    let ask = ask_proto(&mk_request());
    let mut call = tokio::spawn(async move { ask.on(&mut stream).await });
    staged.started.notified().await;
    tokio::time::pause();
    timeout(PATIENCE, &mut call).await.unwrap_err();
    staged.go_on.notify_one();
    assert_eq!(call.await.unwrap().status, 200);
}

#[tokio::test]
async fn connections_have_a_maximum_age() {
    let age = Duration::from_secs(30);
    let config = Config {
        connection_age_max: Some(age),
        ..mk_config()
    };
    let Serving { address, .. } = start_with(config).await;
    let mut stream = TcpStream::connect(address).await.unwrap();
    assert_eq!(ask_json(&mk_request()).on(&mut stream).await.status, 200);
    tokio::time::pause();
    let start = Instant::now();
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).await.unwrap();
    assert!(start.elapsed() <= age.mul_f64(1.1), "{:?}", start.elapsed());
}

#[tokio::test]
async fn drain_finishes_calls_and_closes_idle_connections() {
    let staged = Staged::default();
    let Serving {
        address,
        stop,
        ended,
        ..
    } = staged.start(mk_config()).await;
    let mut idle = TcpStream::connect(address).await.unwrap();
    let refused = Ask::post(PLAN, "text/html", "");
    assert_eq!(refused.on(&mut idle).await.status, 415);
    let ask = ask_proto(&mk_request());
    let mut running = TcpStream::connect(address).await.unwrap();
    let call = tokio::spawn(async move {
        let reply = ask.on(&mut running).await;
        let mut rest = Vec::new();
        running.read_to_end(&mut rest).await.unwrap();
        reply
    });
    staged.started.notified().await;
    stop.send(Shutdown::Graceful).unwrap();
    let mut rest = Vec::new();
    timeout(PATIENCE, idle.read_to_end(&mut rest))
        .await
        .unwrap()
        .unwrap();
    assert!(rest.is_empty());
    staged.go_on.notify_one();
    let reply = call.await.unwrap();
    assert_eq!(reply.status, 200);
    // The client must not send another request.
    assert_eq!(reply.header("connection"), Some("close"));
    ends(ended).await;
}

#[tokio::test]
async fn header_size_is_limited() {
    let config = Config {
        header_bytes_max: 8 << 10,
        ..mk_config()
    };
    let Serving { address, .. } = start_with(config).await;
    let long = |bytes| Ask::post(PLAN, "text/html", "").with("long", &"x".repeat(bytes));
    assert_eq!(long(4 << 10).over_http1(address).await.status, 415);
    assert_eq!(long(16 << 10).over_http1(address).await.status, 431);
}
