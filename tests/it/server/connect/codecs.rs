//! JSON and protobuf, compressed or not, have the answer that gRPC has.

use std::io::Read as _;

use flate2::read::GzDecoder;
use prost::Message as _;
use rollplan::proto::{PlanRolloutRequest, PlanRolloutResponse};
use rollplan::server::Config;
use rollplan::wire::json;
use serde_json::Value;

use super::{JSON, PROTO, ask_json, ask_proto, check_error, gzip};
use crate::server::http::Ask;
use crate::server::raw::{self, PLAN};
use crate::server::{
    Serving, mk_config, mk_large_request, mk_request, mk_request_with_long_answer, start,
    start_with,
};

#[tokio::test]
async fn json_and_protobuf_return_the_answer_of_grpc() {
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

/// The names of protobuf are accepted, too, and unknown fields are ignored.
#[tokio::test]
async fn names_of_fields_may_be_those_of_protobuf() {
    let Serving { address, .. } = start().await;
    let expected = rollplan::service::answer(mk_request()).unwrap();
    let request = json::to_json(&mk_request()).unwrap();
    let mut renamed: Value = serde_json::from_str(&request).unwrap();
    let snapshot = renamed["snapshot"].as_object_mut().unwrap();
    for (name, other) in [
        ("replicaSetsComplete", "replica_sets_complete"),
        ("podsComplete", "pods_complete"),
    ] {
        let value = snapshot.remove(name).unwrap();
        snapshot.insert(other.to_owned(), value);
    }
    let mut large = renamed.clone();
    large["snapshot"]["unknown"] = "x".repeat(100_000).into();
    for request in [request, renamed.to_string(), large.to_string()] {
        let ask = Ask::post(PLAN, "application/json; charset=utf-8", request);
        let reply = ask.over_http1(address).await;
        assert_eq!(reply.text(), json::to_json(&expected).unwrap());
    }
}

#[tokio::test]
async fn requests_may_be_compressed() {
    let Serving { address, .. } = start().await;
    for large in [false, true] {
        let request = if large {
            mk_large_request()
        } else {
            mk_request()
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
    // An empty body is never decompressed.
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
async fn answers_are_compressed_from_the_configured_size() {
    let bytes = json::to_json(&rollplan::service::answer(mk_request()).unwrap());
    let bytes = bytes.unwrap().len();
    for (min, encoding) in [(bytes, Some("gzip")), (bytes + 1, None)] {
        let config = Config {
            compress_answers_min: Some(min),
            ..mk_config()
        };
        let Serving { address, .. } = start_with(config).await;
        let ask = ask_json(&mk_request()).with("accept-encoding", "gzip");
        let reply = ask.over_http1(address).await;
        assert_eq!(reply.status, 200);
        assert_eq!(reply.header("content-encoding"), encoding);
    }
}

#[tokio::test]
async fn answers_are_compressed_if_configured_and_accepted() {
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
