//! Completes the errors of the framework with the codes and details that all errors have.

use http::Response;
use tonic::body::Body;
use tonic::{Code, Status};

use super::{rejection, request_too_large, to_tonic};

/// Replaces an error of the framework by one with the documented code and details. Other headers are preserved, because
/// some list the supported compressions.
pub(crate) fn complete(mut response: Response<Body>) -> Response<Body> {
    let Some(status) = failure(&response) else {
        return response;
    };
    if !status.details().is_empty() {
        return response;
    }
    let completed = if is_unsupported_encoding(&response, &status) {
        rejection(status.code(), status.message(), "UNSUPPORTED_ENCODING")
    } else {
        completed(&status)
    };
    // Base64 and percent-encoded values are valid headers.
    if completed.add_header(response.headers_mut()).is_ok() {
        response.extensions_mut().insert(completed);
    }
    response
}

/// The status of a call that failed before any part of its answer was sent.
pub(crate) fn failure(response: &Response<Body>) -> Option<Status> {
    let status = match response.extensions().get::<Status>() {
        Some(status) => status.clone(),
        None => Status::from_header_map(response.headers())?,
    };
    (status.code() != Code::Ok).then_some(status)
}

/// Whether the compression is not supported: only this error lists the supported ones.
fn is_unsupported_encoding(response: &Response<Body>, status: &Status) -> bool {
    status.code() == Code::Unimplemented && response.headers().contains_key("grpc-accept-encoding")
}

/// The same error with the documented code and details.
pub(crate) fn completed(status: &Status) -> Status {
    let (code, reason) = match status.code() {
        // The decompressed message exceeds the limit. The planner's layers reject larger requests earlier.
        Code::ResourceExhausted => return request_too_large(),
        // The request of another service than the planner exceeds its limit.
        Code::OutOfRange => {
            let message = status.message().to_owned();
            let status =
                rollplan_service::Status::over_quota("REQUEST_TOO_LARGE", "request", message);
            return to_tonic(status);
        }
        // The bytes are not a valid message or frame.
        Code::Internal => (Code::InvalidArgument, "MALFORMED_REQUEST"),
        code @ Code::Unimplemented => (code, "UNKNOWN_METHOD"),
        code @ Code::NotFound => (code, "NOT_FOUND"),
        code @ Code::Cancelled => (code, "CANCELLED"),
        code => (code, "UNKNOWN"),
    };
    let message = match status.message() {
        "" => status.code().description(),
        message => message,
    };
    rejection(code, message, reason)
}

#[cfg(test)]
mod tests {

    use super::*;
    use crate::protocol::errors::reason;

    #[test]
    fn errors_of_the_framework_get_details_and_preserve_headers() {
        let mut response = Status::unimplemented("Content is compressed with `br`").into_http();
        response.headers_mut().insert(
            "grpc-accept-encoding",
            http::HeaderValue::from_static("gzip"),
        );
        let response = complete(response);
        assert_eq!(response.headers()["grpc-accept-encoding"], "gzip");
        let status = Status::from_header_map(response.headers()).unwrap();
        assert_eq!(status.code(), Code::Unimplemented);
        assert_eq!(status.message(), "Content is compressed with `br`");
        assert_eq!(reason(&status).unwrap(), "UNSUPPORTED_ENCODING");
    }

    #[test]
    fn answers_and_errors_with_details_are_unchanged() {
        let ours = rejection(Code::ResourceExhausted, "busy", "BUSY");
        let status = failure(&complete(ours.into_http())).unwrap();
        assert_eq!(status.message(), "busy");
        assert_eq!(reason(&status).unwrap(), "BUSY");
        assert!(failure(&complete(Response::default())).is_none());
    }
}
