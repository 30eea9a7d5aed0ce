//! Translates gRPC answers to Connect.

use bytes::Bytes;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Response};
use http_body_util::{BodyExt as _, Full};
use tonic::body::Body;
use tonic::{Code, Status};

use super::codec::Call;
use super::error::ErrorForm;
use super::headers::copy_metadata;
use crate::protocol::errors::{bug, failure};
use crate::protocol::framing::PREFIX_BYTES;

/// Translates an answer. `call` is `None` if the request was rejected.
pub(super) async fn translated(
    call: Option<&Call>,
    answer: Response<Body>,
    errors: ErrorForm,
) -> Response<Body> {
    let failure = failure(&answer);
    let (parts, body) = answer.into_parts();
    // The answer is buffered already.
    let (data, trailers) = match body.collect().await {
        Ok(collected) => {
            let trailers = collected.trailers().cloned().unwrap_or_default();
            (collected.to_bytes(), trailers)
        }
        Err(status) => return errors.response(&parts, &HeaderMap::new(), &status),
    };
    let failure = failure.or_else(|| {
        let status = Status::from_header_map(&trailers)?;
        (status.code() != Code::Ok).then_some(status)
    });
    if let Some(status) = failure {
        return errors.response(&parts, &trailers, &status);
    }
    let (Some(call), Some((prefix, message))) = (call, unframed(&data)) else {
        return errors.response(&parts, &trailers, &bug());
    };
    let mut response = Response::new(Body::new(Full::new(message)));
    let headers = response.headers_mut();
    copy_metadata(&parts.headers, &trailers, headers);
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(call.content_type()));
    if prefix == 1 {
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    response
}

/// The single message of an answer, and its flag for compression.
fn unframed(data: &Bytes) -> Option<(u8, Bytes)> {
    let prefix = *data.first()?;
    (data.len() >= PREFIX_BYTES).then(|| (prefix, data.slice(PREFIX_BYTES..)))
}
