//! Connect errors: an HTTP status and a JSON object.

use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use http::header::CONTENT_TYPE;
use http::response::Parts;
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, Version};
use http_body_util::Full;
use prost::Message as _;
use prost_reflect::{DescriptorPool, DynamicMessage};
use prost_types::Any;
use rollplan_text::printable;
use rollplan_wire::json::descriptors;
use serde_json::{Map, Value, json};
use tonic::body::Body;
use tonic::{Code, Status};
use tonic_types::pb;

use super::codec::Encoding;
use super::endpoint::{Endpoint, Format};
use super::headers::copy_metadata;
use crate::protocol::errors::failure;

/// The descriptors of error details. `None` if they are invalid, which a test rules out.
static DETAILS: LazyLock<Option<DescriptorPool>> = LazyLock::new(|| {
    // The details may contain messages of the contract.
    let mut pool = descriptors()?.clone();
    pool.decode_file_descriptor_set(pb::FILE_DESCRIPTOR_SET)
        .ok()?;
    Some(pool)
});

const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");

/// The format of an error response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ErrorForm {
    /// The JSON of Connect.
    Json,
    /// Text for people.
    Text,
    /// An HTTP status, for gRPC clients whose requests are not valid calls.
    HttpStatus,
}

// === impl ErrorForm ===

impl ErrorForm {
    pub(super) fn of(request: &Request<Body>) -> Self {
        let headers = request.headers();
        match Endpoint::of(request.uri().path()) {
            Some(_) if Format::of(headers) == Format::Text => Self::Text,
            Some(_) => Self::Json,
            // A gRPC client does not understand errors of Connect, even if its request is invalid.
            None if request.version() == Version::HTTP_2 && Encoding::of(headers).is_none() => {
                Self::HttpStatus
            }
            None => Self::Json,
        }
    }

    pub(super) fn response(
        self,
        parts: &Parts,
        trailers: &HeaderMap,
        status: &Status,
    ) -> Response<Body> {
        match self {
            Self::Text => text(parts, trailers, status),
            Self::Json | Self::HttpStatus => response(parts, trailers, status),
        }
    }
}

/// The response for a status. `parts` are the headers of the gRPC answer, `trailers` its trailers.
fn response(parts: &Parts, trailers: &HeaderMap, status: &Status) -> Response<Body> {
    let code = match parts.status {
        // The code that clients derive from these statuses if the body has no error.
        StatusCode::METHOD_NOT_ALLOWED
        | StatusCode::UNSUPPORTED_MEDIA_TYPE
        | StatusCode::HTTP_VERSION_NOT_SUPPORTED => "unknown",
        _ => name(status.code()),
    };
    let mut response = Response::new(Body::new(Full::from(body(code, status).into_bytes())));
    *response.status_mut() = match parts.status {
        StatusCode::OK => http_status(status.code()),
        // A rejection with its own HTTP status.
        other => other,
    };
    let headers = response.headers_mut();
    copy_metadata(&parts.headers, trailers, headers);
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// The response for people who request text.
fn text(parts: &Parts, trailers: &HeaderMap, status: &Status) -> Response<Body> {
    let text = format!("error: {}\n", printable(status.message()));
    let mut response = response(parts, trailers, status);
    *response.body_mut() = Body::new(Full::from(text.into_bytes()));
    response.headers_mut().insert(CONTENT_TYPE, TEXT);
    response
}

/// The response for a gRPC client whose headers are invalid. It derives its error from the HTTP status.
pub(super) fn plain(rejected: Response<Body>) -> Response<Body> {
    let message = failure(&rejected).map(|it| it.message().to_owned());
    let (parts, _) = rejected.into_parts();
    let text = message.unwrap_or_default() + "\n";
    let mut response = Response::new(Body::new(Full::from(text.into_bytes())));
    *response.status_mut() = parts.status;
    let headers = response.headers_mut();
    copy_metadata(&parts.headers, &HeaderMap::new(), headers);
    headers.insert(CONTENT_TYPE, TEXT);
    response
}

fn body(code: &str, status: &Status) -> String {
    let mut error = Map::new();
    error.insert("code".to_owned(), code.into());
    if !status.message().is_empty() {
        error.insert("message".to_owned(), status.message().into());
    }
    let details = pb::Status::decode(status.details()).unwrap_or_default();
    let details: Vec<Value> = details.details.iter().map(detail).collect();
    if !details.is_empty() {
        error.insert("details".to_owned(), details.into());
    }
    Value::from(error).to_string()
}

/// A detail with its encoded value, and with the optional JSON form for people.
fn detail(any: &Any) -> Value {
    let name = any.type_url.rsplit('/').next().unwrap_or_default();
    let mut detail = json!({"type": name, "value": STANDARD_NO_PAD.encode(&any.value)});
    if let Some(debug) = debug(name, &any.value) {
        detail["debug"] = debug;
    }
    detail
}

fn debug(name: &str, value: &[u8]) -> Option<Value> {
    let descriptor = DETAILS.as_ref()?.get_message_by_name(name)?;
    let message = DynamicMessage::decode(descriptor, value).ok()?;
    serde_json::to_value(message).ok()
}

/// The HTTP status that Connect specifies for a gRPC code.
fn http_status(code: Code) -> StatusCode {
    let status = match code {
        Code::Ok => 200,
        Code::Cancelled => 499,
        Code::InvalidArgument | Code::FailedPrecondition | Code::OutOfRange => 400,
        Code::DeadlineExceeded => 504,
        Code::NotFound => 404,
        Code::AlreadyExists | Code::Aborted => 409,
        Code::PermissionDenied => 403,
        Code::ResourceExhausted => 429,
        Code::Unimplemented => 501,
        Code::Unavailable => 503,
        Code::Unauthenticated => 401,
        Code::Unknown | Code::Internal | Code::DataLoss => 500,
    };
    // All of these are valid HTTP statuses.
    StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
}

/// The name of a code in Connect.
fn name(code: Code) -> &'static str {
    match code {
        Code::Ok => "ok",
        Code::Cancelled => "canceled",
        Code::Unknown => "unknown",
        Code::InvalidArgument => "invalid_argument",
        Code::DeadlineExceeded => "deadline_exceeded",
        Code::NotFound => "not_found",
        Code::AlreadyExists => "already_exists",
        Code::PermissionDenied => "permission_denied",
        Code::ResourceExhausted => "resource_exhausted",
        Code::FailedPrecondition => "failed_precondition",
        Code::Aborted => "aborted",
        Code::OutOfRange => "out_of_range",
        Code::Unimplemented => "unimplemented",
        Code::Internal => "internal",
        Code::Unavailable => "unavailable",
        Code::DataLoss => "data_loss",
        Code::Unauthenticated => "unauthenticated",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::errors;

    #[test]
    fn details_have_a_readable_form() {
        let body: Value = {
            let status = errors::overloaded();
            serde_json::from_str(&body(name(status.code()), &status)).unwrap()
        };
        assert_eq!(body["code"], "resource_exhausted");
        assert_eq!(body["details"][0]["type"], "google.rpc.ErrorInfo");
        let debug = json!({"reason": "OVERLOADED", "domain": "rollplan.dev"});
        assert_eq!(body["details"][0]["debug"], debug);
        assert_eq!(body["details"][1]["type"], "google.rpc.RetryInfo");
        assert_eq!(body["details"][1]["debug"], json!({"retryDelay": "0.100s"}));
    }

    #[test]
    fn errors_without_details_have_only_code_and_message() {
        let status = Status::new(Code::Aborted, "");
        assert_eq!(body("aborted", &status), r#"{"code":"aborted"}"#);
        let status = Status::new(Code::Unknown, "a \"b\"\n");
        assert_eq!(
            body("unknown", &status),
            r#"{"code":"unknown","message":"a \"b\"\n"}"#
        );
    }
}
