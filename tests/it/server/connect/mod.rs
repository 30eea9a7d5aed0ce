//! Calls with Connect: JSON and protobuf in the body, over HTTP/1.1 and HTTP/2, through the same layers as gRPC.

mod codecs;
mod cors;
mod http1;
mod limits;
mod page;
mod refusals;

use std::io::Write as _;

use flate2::write::GzEncoder;
use prost::Message as _;
use rollplan::proto::PlanRolloutRequest;
use rollplan::wire::json;

use super::http::{Ask, Reply};
use super::raw::PLAN;

const JSON: &str = "application/json";

const PROTO: &str = "application/proto";

pub(super) fn ask_json(request: &PlanRolloutRequest) -> Ask {
    Ask::post(PLAN, JSON, json::to_json(request).unwrap())
}

pub(super) fn ask_proto(request: &PlanRolloutRequest) -> Ask {
    Ask::post(PLAN, PROTO, request.encode_to_vec())
}

/// Checks that a reply is a Connect error with these codes and this reason. Returns the message.
pub(super) fn check_error(reply: &Reply, http: u16, code: &str, reason: &str) -> String {
    assert_eq!(reply.status, http, "{reply:?}");
    assert_eq!(reply.header("content-type"), Some(JSON));
    let error = reply.json();
    assert_eq!(error["code"], code, "{error}");
    let info = &error["details"][0];
    assert_eq!(info["type"], "google.rpc.ErrorInfo");
    assert_eq!(info["debug"]["reason"], reason, "{error}");
    assert_eq!(info["debug"]["domain"], "rollplan.dev");
    // The details are in the form for programs: base64 without padding.
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
