//! Deadlines, sizes, load and cancellation: Connect calls pass the same layers as gRPC calls.

use std::time::Duration;

use rollplan::server::Config;
use rollplan::wire::REQUEST_BYTES_MAX;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::{JSON, PROTO, ask_json, ask_proto, check_error, gzip};
use crate::server::http::{self, Ask};
use crate::server::observed::{get, mk_observed, sample};
use crate::server::planners::Staged;
use crate::server::raw::{self, PLAN};
use crate::server::{PATIENCE, Serving, mk_config, mk_request, start, start_with, until};

#[tokio::test]
async fn client_deadlines_are_enforced() {
    let staged = Staged::default();
    let Serving { address, .. } = staged.start(mk_config()).await;
    let mut raw = raw::connect(address).await;
    let ask = ask_json(&mk_request()).with("connect-timeout-ms", "50");
    for reply in [
        ask.over_http1(address).await,
        ask.over_http2(&mut raw).await,
    ] {
        let said = check_error(&reply, 504, "deadline_exceeded", "DEADLINE_EXCEEDED");
        assert_eq!(said, "not answered within 50 ms");
    }
}

/// The deadline expires while the server waits for the body.
#[tokio::test]
async fn deadline_includes_receiving_the_body() {
    let config = Config {
        deadline_max: Duration::from_millis(200),
        ..mk_config()
    };
    let Serving { address, .. } = start_with(config).await;
    let mut stream = TcpStream::connect(address).await.unwrap();
    let head = format!(
        "POST {PLAN} HTTP/1.1\r\nHost: a\r\nContent-Type: {JSON}\r\nContent-Length: 9\r\n\r\n{{"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let reply = http::read(&mut stream).await;
    check_error(&reply, 504, "deadline_exceeded", "DEADLINE_EXCEEDED");
    // The connection is closed, so the rest of the body is not taken for another request.
    let mut rest = Vec::new();
    timeout(PATIENCE, stream.read_to_end(&mut rest))
        .await
        .unwrap()
        .unwrap();
    assert!(rest.is_empty());
}

#[tokio::test]
async fn large_requests_are_refused_before_they_are_received() {
    let Serving { address, .. } = start().await;
    for content_type in [JSON, PROTO] {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let length = REQUEST_BYTES_MAX + 1;
        let head = format!(
            "POST {PLAN} HTTP/1.1\r\nHost: a\r\nContent-Type: {content_type}\r\nContent-Length: {length}\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        let reply = http::read(&mut stream).await;
        check_error(&reply, 429, "resource_exhausted", "REQUEST_TOO_LARGE");
    }
    // A chunked body is counted as it is received.
    let mut stream = TcpStream::connect(address).await.unwrap();
    let head = format!(
        "POST {PLAN} HTTP/1.1\r\nHost: a\r\nContent-Type: {PROTO}\r\nTransfer-Encoding: chunked\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let (mut from, mut to) = stream.split();
    let chunk = [b"100000\r\n", &vec![b'x'; 1 << 20][..], b"\r\n"].concat();
    let send = async {
        while to.write_all(&chunk).await.is_ok() {}
        std::future::pending::<()>().await;
    };
    let reply = tokio::select! {
        reply = http::read(&mut from) => reply,
        () = send => unreachable!(),
    };
    check_error(&reply, 429, "resource_exhausted", "REQUEST_TOO_LARGE");
}

/// Two bytes of JSON may need a kilobyte in memory. The size is estimated before decoding.
#[tokio::test]
async fn json_with_a_large_decoded_size_is_refused() {
    let Serving { address, .. } = start().await;
    let answers = "{},".repeat(2 << 20);
    let text = format!(r#"{{"snapshot":{{"answers":[{answers}{{}}]}}}}"#);
    for (ask, length) in [
        (Ask::post(PLAN, JSON, text.clone()), text.len()),
        (
            Ask::post(PLAN, JSON, gzip(text.as_bytes())).with("content-encoding", "gzip"),
            text.len(),
        ),
    ] {
        assert!(length < REQUEST_BYTES_MAX);
        let reply = ask.over_http1(address).await;
        let said = check_error(&reply, 429, "resource_exhausted", "REQUEST_TOO_LARGE");
        assert!(said.contains("bytes in memory"), "{said}");
    }
}

#[tokio::test]
async fn calls_beyond_the_limit_are_shed() {
    let staged = Staged::default();
    let config = Config {
        concurrent_calls_max: 1,
        ..mk_config()
    };
    let Serving { address, .. } = staged.start(config).await;
    let first = ask_proto(&mk_request());
    let running = tokio::spawn(async move { first.over_http1(address).await });
    staged.started.notified().await;
    let reply = ask_proto(&mk_request()).over_http1(address).await;
    check_error(&reply, 429, "resource_exhausted", "OVERLOADED");
    let retry = &reply.json()["details"][1];
    assert_eq!(retry["type"], "google.rpc.RetryInfo");
    staged.go_on.notify_one();
    assert_eq!(running.await.unwrap().status, 200);
}

#[tokio::test]
async fn disconnecting_cancels_the_call() {
    let staged = Staged::default();
    let serving = staged.start(mk_observed()).await;
    let address = serving.address;
    let ask = ask_proto(&mk_request());
    let call = tokio::spawn(async move { ask.over_http1(address).await });
    staged.started.notified().await;
    call.abort();
    let http = serving.http.unwrap();
    until("it is counted", async || {
        let (_, text) = get(http, "/metrics").await;
        let labels = [("grpc_method", "PlanRollout"), ("grpc_code", "Canceled")];
        sample(&text, "grpc_server_handled_total", &labels) == 1.0
    })
    .await;
}

#[tokio::test]
async fn calls_are_counted_like_those_of_grpc() {
    let serving = start_with(mk_observed()).await;
    let http = serving.http.unwrap();
    ask_json(&mk_request()).over_http1(serving.address).await;
    ask_proto(&mk_request()).over_http1(serving.address).await;
    Ask::post(PLAN, JSON, "{}")
        .over_http1(serving.address)
        .await;
    Ask::post(PLAN, "text/html", "")
        .over_http1(serving.address)
        .await;
    Ask::post("/hunter2", JSON, "")
        .over_http1(serving.address)
        .await;
    let (_, text) = get(http, "/metrics").await;
    let plan = ("grpc_method", "PlanRollout");
    let sum = |name, labels: &[(&str, &str)]| sample(&text, name, labels);
    assert_eq!(sum("grpc_server_started_total", &[plan]), 4.0);
    for (code, count) in [("OK", 2.0), ("InvalidArgument", 2.0)] {
        let labels = [plan, ("grpc_code", code)];
        assert_eq!(sum("grpc_server_handled_total", &labels), count, "{code}");
    }
    assert_eq!(sum("grpc_server_msg_received_total", &[plan]), 3.0);
    assert_eq!(sum("grpc_server_msg_sent_total", &[plan]), 2.0);
    let unknown = [("grpc_method", "unknown"), ("grpc_code", "Unimplemented")];
    assert_eq!(sum("grpc_server_handled_total", &unknown), 1.0);
    assert_eq!(sum("rollplan_inflight_requests", &[]), 0.0);
    assert_eq!(sum("rollplan_buffer_bytes", &[]), 0.0);
    assert_eq!(sum("rollplan_request_bytes_count", &[]), 3.0);
}
