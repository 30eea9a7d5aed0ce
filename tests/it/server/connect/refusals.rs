//! Requests that are refused by their headers or their contents.

use bytes::Bytes;

use super::{JSON, PROTO, ask_json, ask_proto, check_error};
use crate::server::http::Ask;
use crate::server::raw::{self, PLAN, framed};
use crate::server::{Serving, mk_request, start};

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
async fn malformed_json_is_reported_by_field_and_position() {
    let Serving { address, .. } = start().await;
    for (text, field, message) in [
        (
            r#"{"snapshot": {"answers": [{"httpCode": "hunter2"}]}}"#,
            "snapshot.answers[0].httpCode",
            "line 1, column 48",
        ),
        (
            r#"{"snapshot": {"answers": [{}, {"call": []}]}}"#,
            "snapshot.answers[1].call",
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
        // The invalid value may be a secret.
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
async fn malformed_bodies_are_invalid() {
    let Serving { address, .. } = start().await;
    let reply = Ask::post(PLAN, PROTO, &b"\x07"[..])
        .over_http1(address)
        .await;
    check_error(&reply, 400, "invalid_argument", "MALFORMED_REQUEST");
    // An empty body is a message without fields.
    let reply = Ask::post(PLAN, PROTO, "").over_http1(address).await;
    check_error(&reply, 400, "invalid_argument", "INVALID_REQUEST");
    for content_type in [JSON, PROTO] {
        let ask = Ask::post(PLAN, content_type, "not compressed").with("content-encoding", "gzip");
        let reply = ask.over_http1(address).await;
        check_error(&reply, 400, "invalid_argument", "MALFORMED_REQUEST");
    }
}

#[tokio::test]
async fn invalid_headers_are_refused() {
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
        // gRPC clients derive a status from that of HTTP.
        let sent = ask.headers.iter().find(|(name, _)| *name == "content-type");
        if sent.is_some_and(|(_, value)| value == JSON) {
            drop(check_error(&over_http2, http, code, reason));
        } else {
            assert_eq!(over_http2.status, http);
            assert_eq!(
                over_http2.header("content-type"),
                Some("text/plain; charset=utf-8")
            );
            assert!(over_http2.text().contains("content type"));
        }
        for reply in [over_http1, over_http2] {
            assert_eq!(reply.header("grpc-status"), None);
            if let Some((name, value)) = header {
                assert_eq!(reply.header(name), Some(value));
            }
        }
    }
    // gRPC requires HTTP/2.
    let reply = grpc.over_http1(address).await;
    check_error(&reply, 505, "unknown", "HTTP2_REQUIRED");
    let grpc = Ask {
        method: "GET",
        ..grpc
    };
    let reply = grpc.over_http2(&mut raw).await;
    // gRPC clients derive a status from that of HTTP.
    assert_eq!(reply.status, 405);
    assert_eq!(reply.header("allow"), Some("POST"));
    assert_eq!(reply.text(), "methods must be called with POST\n");
    let json = Ask::post(PLAN, "application/grpc+json", "{}");
    let reply = json.over_http2(&mut raw).await;
    assert_eq!(reply.status, 415);
    assert_eq!(reply.header("accept-post"), Some(accepted));
    assert_eq!(reply.header("grpc-status"), None);
    let reply = call.with("connect-protocol-version", "1");
    assert_eq!(reply.over_http1(address).await.status, 200);
}

/// The headers of gRPC have no meaning for Connect calls.
#[tokio::test]
async fn headers_of_grpc_are_ignored() {
    let Serving { address, .. } = start().await;
    let ask = ask_json(&mk_request())
        .with("grpc-timeout", "0n")
        .with("grpc-encoding", "br")
        .with("grpc-accept-encoding", "gzip");
    assert_eq!(ask.over_http1(address).await.status, 200);
}
