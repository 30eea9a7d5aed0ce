//! Calls with Connect: JSON and protobuf in the body, over HTTP/1.1 and HTTP/2, through the same layers as gRPC.

use std::io::{Read as _, Write as _};
use std::time::Duration;

use bytes::Bytes;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use prost::Message as _;
use rollplan::proto::{PlanRolloutRequest, PlanRolloutResponse};
use rollplan::server::{Config, Shutdown};
use rollplan::wire::{self, REQUEST_BYTES_MAX, json};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};

use super::http::{self, Ask, Reply};
use super::observed::{get, mk_observed, sample};
use super::raw::{self, PLAN, framed};
use super::{
    PATIENCE, Serving, Staged, ends, mk_config, mk_large_request, mk_request,
    mk_request_with_long_answer, start, start_with,
};

const JSON: &str = "application/json";
const PROTO: &str = "application/proto";

pub(super) fn ask_json(request: &PlanRolloutRequest) -> Ask {
    Ask::post(PLAN, JSON, json::to_json(request).unwrap())
}

pub(super) fn ask_proto(request: &PlanRolloutRequest) -> Ask {
    Ask::post(PLAN, PROTO, request.encode_to_vec())
}

/// An error of Connect with these codes and this reason, and its message.
pub(super) fn check_error(reply: &Reply, http: u16, code: &str, reason: &str) -> String {
    assert_eq!(reply.status, http, "{reply:?}");
    assert_eq!(reply.header("content-type"), Some(JSON));
    let error = reply.json();
    assert_eq!(error["code"], code, "{error}");
    let info = &error["details"][0];
    assert_eq!(info["type"], "google.rpc.ErrorInfo");
    assert_eq!(info["debug"]["reason"], reason, "{error}");
    assert_eq!(info["debug"]["domain"], "rollplan.dev");
    // For programs.
    assert!(!info["value"].as_str().unwrap().contains('='));
    for name in reply.headers.keys() {
        assert!(!name.starts_with("grpc-"), "{name}");
    }
    error["message"].as_str().unwrap().to_owned()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

#[tokio::test]
async fn both_codecs_over_both_versions_answer_as_grpc_does() {
    let Serving {
        address,
        mut client,
        ..
    } = start().await;
    let mut raw = raw::connect(address).await;
    for request in [mk_request(), mk_large_request()] {
        let expected = client.plan_rollout(request.clone()).await.unwrap();
        let expected = expected.into_inner();
        let ask = ask_proto(&request);
        for reply in [
            ask.over_http1(address).await,
            ask.over_http2(&mut raw).await,
        ] {
            assert_eq!(reply.status, 200);
            assert_eq!(reply.header("content-type"), Some(PROTO));
            let answer = PlanRolloutResponse::decode(reply.body.clone()).unwrap();
            assert_eq!(answer, expected);
        }
        let ask = ask_json(&request);
        for reply in [
            ask.over_http1(address).await,
            ask.over_http2(&mut raw).await,
        ] {
            assert_eq!(reply.status, 200);
            assert_eq!(reply.header("content-type"), Some(JSON));
            assert_eq!(reply.text(), json::to_json(&expected).unwrap());
            assert_eq!(reply.header("grpc-status"), None);
        }
    }
}

/// As curl sends it: nothing but a content type and the objects as kubectl prints them.
#[tokio::test]
async fn kubernetes_json_is_taken_with_its_unknown_fields_and_names() {
    let Serving { address, .. } = start().await;
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/mid-rollout.json");
    let list: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let of_kind = |kind: &str| -> Vec<&Value> {
        let items = list["items"].as_array().unwrap();
        items.iter().filter(|item| item["kind"] == kind).collect()
    };
    let expected = wire::plan_rollout(mk_request()).unwrap();
    for (replica_sets, sets_complete, pods_complete) in [
        ("replicaSets", "replicaSetsComplete", "podsComplete"),
        ("replica_sets", "replica_sets_complete", "pods_complete"),
    ] {
        let request = json!({"snapshot": {
            "now": "2026-11-20T23:27:30Z",
            "deployment": of_kind("Deployment")[0],
            replica_sets: of_kind("ReplicaSet"),
            "pods": of_kind("Pod"),
            sets_complete: true,
            pods_complete: true,
        }});
        let ask = Ask::post(PLAN, "application/json; charset=utf-8", request.to_string());
        let reply = ask.over_http1(address).await;
        assert_eq!(reply.text(), json::to_json(&expected).unwrap());
    }
}

#[tokio::test]
async fn connections_of_http1_are_kept_and_requests_of_both_versions_share_a_port() {
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
        // Refused by its headers, with a body that nobody reads.
        let reply = Ask::post(PLAN, "text/html", "x").on(&mut stream).await;
        assert_eq!(reply.status, 415);
        stream = match stream.try_read(&mut [0]) {
            Ok(0) => TcpStream::connect(address).await.unwrap(),
            _ => stream,
        };
    }
}

#[tokio::test]
async fn invalid_requests_name_their_fields() {
    let Serving { address, .. } = start().await;
    let mut request = mk_request();
    request.snapshot.as_mut().unwrap().now = None;
    for ask in [ask_json(&request), ask_proto(&request)] {
        let reply = ask.over_http1(address).await;
        check_error(&reply, 400, "invalid_argument", "INVALID_REQUEST");
        let violations = &reply.json()["details"][1]["debug"]["fieldViolations"];
        assert_eq!(violations[0]["field"], "snapshot.now");
        assert_eq!(violations[0]["reason"], "REQUIRED");
    }
}

#[tokio::test]
async fn malformed_json_is_told_by_field_and_position() {
    let Serving { address, .. } = start().await;
    for (text, field, message) in [
        (
            r#"{"snapshot": {"deployment": {"spec": {"replicas": "hunter2"}}}}"#,
            "snapshot.deployment.spec.replicas",
            "line 1, column 59",
        ),
        (
            r#"{"snapshot": {"pods": [{}, {"metadata": []}]}}"#,
            "snapshot.pods[1].metadata",
            "expected",
        ),
        (
            r#"{"snapshot": {"now": "hunter2"}}"#,
            "snapshot.now",
            "line 1",
        ),
        (r#"{"snapshot": {"#, "", "the JSON text ends too early"),
        (r#"{"snapshot": {}} x"#, "", "not valid JSON"),
        ("", "", "the JSON text ends too early"),
        ("hunter2", "", "not valid JSON"),
    ] {
        let reply = Ask::post(PLAN, JSON, text).over_http1(address).await;
        let said = check_error(&reply, 400, "invalid_argument", "INVALID_JSON");
        assert!(said.contains(message), "{text}: {said}");
        // What is wrong may be a secret.
        assert!(!reply.text().contains("hunter2"), "{said}");
        let violation = &reply.json()["details"][1]["debug"]["fieldViolations"][0];
        let named = violation["field"].as_str().unwrap_or_default();
        if !field.is_empty() {
            assert_eq!(named, field, "{text}");
            assert!(said.starts_with(field), "{said}");
        }
    }
    let reply = Ask::post(PLAN, JSON, &b"{\"snapshot\": \"\xff\"}"[..]);
    let reply = reply.over_http1(address).await;
    check_error(&reply, 400, "invalid_argument", "INVALID_JSON");
    let reply = Ask::post(PLAN, JSON, "[".repeat(100_000));
    let reply = reply.over_http1(address).await;
    check_error(&reply, 400, "invalid_argument", "INVALID_JSON");
}

#[tokio::test]
async fn bytes_that_are_no_message_are_invalid() {
    let Serving { address, .. } = start().await;
    let reply = Ask::post(PLAN, PROTO, &b"\x07"[..])
        .over_http1(address)
        .await;
    check_error(&reply, 400, "invalid_argument", "MALFORMED_REQUEST");
    // No bytes are a message without fields.
    let reply = Ask::post(PLAN, PROTO, "").over_http1(address).await;
    check_error(&reply, 400, "invalid_argument", "INVALID_REQUEST");
    for content_type in [JSON, PROTO] {
        let ask = Ask::post(PLAN, content_type, "not compressed").with("content-encoding", "gzip");
        let reply = ask.over_http1(address).await;
        check_error(&reply, 400, "invalid_argument", "MALFORMED_REQUEST");
    }
}

#[tokio::test]
async fn requests_may_be_compressed() {
    let Serving { address, .. } = start().await;
    for large in [false, true] {
        let request = match large {
            false => mk_request(),
            true => mk_large_request(),
        };
        for ask in [ask_json(&request), ask_proto(&request)] {
            let plain = ask.over_http1(address).await;
            assert_eq!(plain.status, 200);
            let compressed = [
                ("gzip", gzip(&ask.body)),
                ("zstd", zstd::stream::encode_all(&ask.body[..], 0).unwrap()),
                ("identity", ask.body.to_vec()),
            ];
            for (encoding, body) in compressed {
                let mut ask = ask.clone().with("content-encoding", encoding);
                ask.body = body.into();
                let reply = ask.over_http1(address).await;
                assert_eq!(reply.status, 200, "{reply:?}");
                assert_eq!(reply.body, plain.body, "{encoding}");
            }
        }
    }
    // An empty body is not compressed, whatever its headers say.
    let empty = Ask::post(PLAN, PROTO, "").with("content-encoding", "gzip");
    let reply = empty.over_http1(address).await;
    check_error(&reply, 400, "invalid_argument", "INVALID_REQUEST");
    let br = ask_json(&mk_request()).with("content-encoding", "br");
    let reply = br.over_http1(address).await;
    let said = check_error(&reply, 501, "unimplemented", "UNSUPPORTED_ENCODING");
    assert!(said.contains("gzip, zstd or identity"), "{said}");
    assert_eq!(
        reply.header("accept-encoding"),
        Some("gzip, zstd, identity")
    );
}

#[tokio::test]
async fn answers_are_compressed_where_configured_and_accepted() {
    let config = Config {
        compress_answers_min: Some(2_000),
        ..mk_config()
    };
    let Serving { address, .. } = start_with(config).await;
    let short = PlanRolloutRequest {
        snapshot: None,
        ..mk_request()
    };
    for ask in [ask_json, ask_proto] {
        let long = ask(&mk_request_with_long_answer(10_000));
        let plain = long.over_http1(address).await;
        assert_eq!(plain.header("content-encoding"), None);
        let refused = long.clone().with("accept-encoding", "br, gzip;q=0");
        let refused = refused.over_http1(address).await;
        assert_eq!(refused.header("content-encoding"), None);
        let reply = long.with("accept-encoding", "br, gzip;q=0.5");
        let reply = reply.over_http1(address).await;
        assert_eq!(reply.header("content-encoding"), Some("gzip"));
        let mut text = Vec::new();
        GzDecoder::new(&reply.body[..])
            .read_to_end(&mut text)
            .unwrap();
        assert_eq!(text, plain.body);
        let error = ask(&short).with("accept-encoding", "gzip");
        let error = error.over_http1(address).await;
        check_error(&error, 400, "invalid_argument", "INVALID_REQUEST");
    }
}

#[tokio::test]
async fn what_is_not_a_call_is_refused_by_its_headers() {
    let Serving { address, .. } = start().await;
    let mut raw = raw::connect(address).await;
    let call = ask_json(&mk_request());
    let grpc = Ask::post(PLAN, "application/grpc", framed(&mk_request()));
    let with_path = |path: &str| Ask {
        path: path.to_owned(),
        ..call.clone()
    };
    let with_method = |method| Ask {
        method,
        body: Bytes::new(),
        ..call.clone()
    };
    let accepted = "application/json, application/proto, application/grpc, application/grpc+proto";
    let grpc_only = "application/grpc, application/grpc+proto";
    let health = "/grpc.health.v1.Health/Check";
    let content_type = "UNSUPPORTED_CONTENT_TYPE";
    for (ask, http, code, reason, header) in [
        (
            call.clone().with("content-type", "text/html"),
            415,
            "unknown",
            content_type,
            Some(("accept-post", accepted)),
        ),
        (
            call.clone().without("content-type"),
            415,
            "unknown",
            content_type,
            Some(("accept-post", accepted)),
        ),
        (
            call.clone()
                .with("content-type", "application/connect+json"),
            415,
            "unknown",
            content_type,
            Some(("accept-post", accepted)),
        ),
        (
            call.clone().with("content-type", "application/grpc-web"),
            415,
            "unknown",
            content_type,
            Some(("accept-post", accepted)),
        ),
        (
            with_path(health),
            415,
            "unknown",
            content_type,
            Some(("accept-post", grpc_only)),
        ),
        (
            with_method("GET"),
            405,
            "unknown",
            "METHOD_NOT_ALLOWED",
            Some(("allow", "POST")),
        ),
        (
            with_method("PUT"),
            405,
            "unknown",
            "METHOD_NOT_ALLOWED",
            Some(("allow", "POST")),
        ),
        (
            with_method("OPTIONS"),
            405,
            "unknown",
            "METHOD_NOT_ALLOWED",
            Some(("allow", "POST")),
        ),
        (with_path("/"), 404, "unimplemented", "UNKNOWN_METHOD", None),
        (
            with_path("/rollplan.v1.RolloutPlanner/Unknown"),
            404,
            "unimplemented",
            "UNKNOWN_METHOD",
            None,
        ),
        (
            call.clone().with("connect-protocol-version", "2"),
            400,
            "invalid_argument",
            "UNSUPPORTED_PROTOCOL_VERSION",
            None,
        ),
        (
            call.clone().with("connect-timeout-ms", "1s"),
            400,
            "invalid_argument",
            "MALFORMED_TIMEOUT",
            None,
        ),
    ] {
        let over_http1 = ask.over_http1(address).await;
        let over_http2 = ask.over_http2(&mut raw).await;
        check_error(&over_http1, http, code, reason);
        // Clients of gRPC make a status of that of HTTP.
        let sent = ask.headers.iter().find(|(name, _)| *name == "content-type");
        match sent.is_some_and(|(_, value)| value == JSON) {
            true => drop(check_error(&over_http2, http, code, reason)),
            false => {
                assert_eq!(over_http2.status, http);
                assert_eq!(
                    over_http2.header("content-type"),
                    Some("text/plain; charset=utf-8")
                );
                assert!(over_http2.text().contains("content type"));
            }
        }
        for reply in [over_http1, over_http2] {
            assert_eq!(reply.header("grpc-status"), None);
            if let Some((name, value)) = header {
                assert_eq!(reply.header(name), Some(value));
            }
        }
    }
    // gRPC has no HTTP/1.
    let reply = grpc.over_http1(address).await;
    check_error(&reply, 505, "unknown", "HTTP2_REQUIRED");
    let grpc = Ask {
        method: "GET",
        ..grpc
    };
    let reply = grpc.over_http2(&mut raw).await;
    // Clients of gRPC make a status of that of HTTP.
    assert_eq!(reply.status, 405);
    assert_eq!(reply.header("allow"), Some("POST"));
    assert_eq!(reply.text(), "methods are called with POST\n");
    let json = Ask::post(PLAN, "application/grpc+json", "{}");
    let reply = json.over_http2(&mut raw).await;
    assert_eq!(reply.status, 415);
    assert_eq!(reply.header("accept-post"), Some(accepted));
    assert_eq!(reply.header("grpc-status"), None);
    let reply = call.with("connect-protocol-version", "1");
    assert_eq!(reply.over_http1(address).await.status, 200);
}

/// Headers of gRPC mean nothing to a call of Connect.
#[tokio::test]
async fn headers_of_grpc_are_ignored() {
    let Serving { address, .. } = start().await;
    let ask = ask_json(&mk_request())
        .with("grpc-timeout", "0n")
        .with("grpc-encoding", "br")
        .with("grpc-accept-encoding", "gzip");
    assert_eq!(ask.over_http1(address).await.status, 200);
}

#[tokio::test]
async fn deadlines_of_clients_hold() {
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

/// A body that does not come is a call that is not answered in time, too.
#[tokio::test]
async fn a_slow_body_meets_the_deadline() {
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
    // What else would come is not taken for another request.
    let mut rest = Vec::new();
    timeout(PATIENCE, stream.read_to_end(&mut rest))
        .await
        .unwrap()
        .unwrap();
    assert!(rest.is_empty());
}

#[tokio::test]
async fn what_is_too_large_is_refused_before_it_comes() {
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
    // Sent in chunks, it is counted as it comes.
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

/// Two bytes of JSON may be a kilobyte in memory: known before it is decoded.
#[tokio::test]
async fn json_that_would_take_too_much_memory_is_refused() {
    let Serving { address, .. } = start().await;
    let values = "0,".repeat(2 << 20);
    let template = format!(r#"{{"a":[{values}0]}}"#);
    let text = format!(r#"{{"snapshot":{{"deployment":{{"spec":{{"template":{template}}}}}}}}}"#);
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
async fn calls_are_counted_as_those_of_grpc() {
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

#[tokio::test]
async fn a_call_beyond_the_limit_is_shed() {
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

/// A client that leaves ends its call.
#[tokio::test]
async fn a_client_that_leaves_ends_its_call() {
    let staged = Staged::default();
    let serving = staged.start(mk_observed()).await;
    let address = serving.address;
    let ask = ask_proto(&mk_request());
    let call = tokio::spawn(async move { ask.over_http1(address).await });
    staged.started.notified().await;
    call.abort();
    let http = serving.http.unwrap();
    super::until("it is counted", async || {
        let (_, text) = get(http, "/metrics").await;
        let labels = [("grpc_method", "PlanRollout"), ("grpc_code", "Canceled")];
        sample(&text, "grpc_server_handled_total", &labels) == 1.0
    })
    .await;
}

#[tokio::test]
async fn slow_headers_and_idle_connections_of_http1_end() {
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
    // Answered by then, the server has read it.
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

/// A client that waits for its answer may be silent.
#[tokio::test]
async fn a_long_call_of_http1_is_not_cut_off() {
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
    timeout(Duration::from_secs(300), &mut call)
        .await
        .unwrap_err();
    staged.go_on.notify_one();
    assert_eq!(call.await.unwrap().status, 200);
}

#[tokio::test]
async fn connections_of_http1_have_an_age() {
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
async fn a_drain_lets_calls_of_http1_end_and_closes_idle_connections() {
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
    // Told not to send another.
    assert_eq!(reply.header("connection"), Some("close"));
    ends(ended).await;
}

#[tokio::test]
async fn headers_of_http1_are_limited() {
    let config = Config {
        header_bytes_max: 8 << 10,
        ..mk_config()
    };
    let Serving { address, .. } = start_with(config).await;
    let long = |bytes| Ask::post(PLAN, "text/html", "").with("long", &"x".repeat(bytes));
    assert_eq!(long(4 << 10).over_http1(address).await.status, 415);
    assert_eq!(long(16 << 10).over_http1(address).await.status, 431);
}

#[tokio::test]
async fn scripts_of_other_sites_may_not_call_unless_configured() {
    let preflight = |origin: &str| Ask {
        method: "OPTIONS",
        path: PLAN.to_owned(),
        headers: vec![
            ("origin", origin.to_owned()),
            ("access-control-request-method", "POST".to_owned()),
            (
                "access-control-request-headers",
                "connect-protocol-version,content-type".to_owned(),
            ),
        ],
        body: Bytes::new(),
    };
    let (ours, other) = ("https://console.example.com", "https://evil.example.com");
    let allowed = |reply: &Reply| {
        let allowed = reply.header("access-control-allow-origin");
        allowed.map(str::to_owned)
    };

    let Serving { address, .. } = start().await;
    let reply = preflight(ours).over_http1(address).await;
    assert_eq!(reply.status, 405);
    assert_eq!(allowed(&reply), None);
    let call = ask_json(&mk_request()).with("origin", ours);
    assert_eq!(allowed(&call.over_http1(address).await), None);

    let config = Config {
        cors_allow_origins: vec!["http://localhost:8080".to_owned(), ours.to_owned()],
        ..mk_config()
    };
    let Serving { address, .. } = start_with(config).await;
    let mut raw = raw::connect(address).await;
    for reply in [
        preflight(ours).over_http1(address).await,
        preflight(ours).over_http2(&mut raw).await,
    ] {
        assert_eq!(reply.status, 200);
        assert_eq!(allowed(&reply).as_deref(), Some(ours));
        assert_eq!(reply.header("access-control-allow-methods"), Some("POST"));
        let headers = reply.header("access-control-allow-headers").unwrap();
        for needed in [
            "content-type",
            "connect-protocol-version",
            "connect-timeout-ms",
        ] {
            assert!(headers.contains(needed), "{headers}");
        }
        assert_eq!(reply.header("access-control-max-age"), Some("7200"));
        assert_eq!(reply.header("access-control-allow-credentials"), None);
        assert!(reply.header("vary").unwrap().contains("origin"));
        assert!(reply.body.is_empty());
    }
    let reply = preflight(other).over_http1(address).await;
    assert_eq!(allowed(&reply), None);
    let call = |origin| ask_json(&mk_request()).with("origin", origin);
    let reply = call(ours).over_http1(address).await;
    assert_eq!(reply.status, 200);
    assert_eq!(allowed(&reply).as_deref(), Some(ours));
    // The browser does not give the answer to the script.
    let reply = call(other).over_http1(address).await;
    assert_eq!(allowed(&reply), None);
}
