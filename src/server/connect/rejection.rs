//! The rejections of invalid requests.

use http::header::{ACCEPT_ENCODING, ALLOW};
use http::{HeaderName, HeaderValue, StatusCode};
use tonic::Code;

use crate::protocol::errors::rejection;
use crate::protocol::reject;
use crate::protocol::rejected::Rejected;

/// The content types of the planner's methods.
pub(super) const ACCEPT_POST: &str =
    "application/json, application/proto, application/grpc, application/grpc+proto";
/// The content types of the other served methods.
pub(super) const ACCEPT_POST_GRPC: &str = "application/grpc, application/grpc+proto";

pub(super) fn malformed_timeout() -> Rejected {
    let message = "malformed Connect-Timeout-Ms: must be up to 10 digits";
    Rejected::new(reject::malformed_timeout(message))
}

pub(super) fn unsupported_version() -> Rejected {
    let message = "Connect-Protocol-Version must be 1";
    let reason = "UNSUPPORTED_PROTOCOL_VERSION";
    Rejected::new(rejection(Code::InvalidArgument, message, reason))
}

pub(super) fn unsupported_encoding() -> Rejected {
    let message = "unsupported Content-Encoding: use gzip, zstd or identity";
    let status = rejection(Code::Unimplemented, message, "UNSUPPORTED_ENCODING");
    let accepted = HeaderValue::from_static("gzip, zstd, identity");
    Rejected::new(status).with_header(ACCEPT_ENCODING, accepted)
}

/// The path is not served.
pub(super) fn unknown(path: &str) -> Rejected {
    let message = match path {
        "/" => {
            "nothing is served here: POST to /rollplan.v1.RolloutPlanner/PlanRollout, or POST the output of kubectl to /v1/plan"
        }
        _ => {
            "unknown path: use /v1/status, /v1/plan, /v1/history, /v1/undo, /v1/restarts or the methods of /rollplan.v1.RolloutPlanner/"
        }
    };
    Rejected::new(rejection(Code::Unimplemented, message, "UNKNOWN_METHOD"))
        .with_http(StatusCode::NOT_FOUND)
}

pub(super) fn not_post() -> Rejected {
    let message = "methods must be called with POST";
    let status = rejection(Code::Unimplemented, message, "METHOD_NOT_ALLOWED");
    Rejected::new(status)
        .with_http(StatusCode::METHOD_NOT_ALLOWED)
        .with_header(ALLOW, HeaderValue::from_static("POST"))
}

pub(super) fn needs_http2() -> Rejected {
    let message = "gRPC needs HTTP/2: use application/json or application/proto with HTTP/1.1";
    let status = rejection(Code::Unimplemented, message, "HTTP2_REQUIRED");
    Rejected::new(status).with_http(StatusCode::HTTP_VERSION_NOT_SUPPORTED)
}

pub(super) fn unsupported_content_type(accepted: &'static str) -> Rejected {
    let message = format!("the content type must be one of {accepted}");
    let code = Code::InvalidArgument;
    let status = rejection(code, &message, "UNSUPPORTED_CONTENT_TYPE");
    Rejected::new(status)
        .with_http(StatusCode::UNSUPPORTED_MEDIA_TYPE)
        .with_header(
            HeaderName::from_static("accept-post"),
            HeaderValue::from_static(accepted),
        )
}
