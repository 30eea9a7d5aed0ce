//! Connect, the protocol that clients of plain HTTP speak: a POST with the message in the body, as JSON or protobuf,
//! over HTTP/1.1 or HTTP/2.
//!
//! This is a translation in front of the layers that gRPC calls pass through, and nothing else: headers are renamed on the
//! way in, and a status becomes an HTTP code and an error in JSON on the way out. The body itself is framed where it is
//! buffered (`buffer.rs`), decoded from JSON where work is estimated (`buffered.rs`), and encoded as JSON where the
//! answer is computed (`offload.rs`). `endpoint.rs` has two calls for people, which are translated the same way. So every limit, deadline, metric and line of the log is that of gRPC.

mod codec;
mod endpoint;
mod error;
mod methods;

use std::convert::Infallible;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::header::{
    ACCEPT_ENCODING, ALLOW, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, TE,
    TRAILER, TRANSFER_ENCODING,
};
use http::response::Parts;
use http::{
    HeaderMap, HeaderName, HeaderValue, Method as Verb, Request, Response, StatusCode, Version,
};
use http_body_util::{BodyExt as _, Full};
use tonic::body::Body;
use tonic::{Code, Status};
use tower::{Layer, Service};

pub(super) use self::codec::Call;
pub(super) use self::endpoint::Clock;
pub(super) use self::methods::Methods;

use self::codec::Encoding;
use self::endpoint::{Endpoint, Format, Query};
use crate::server::call::deadline::GRPC_TIMEOUT;
use crate::server::call::errors::{bug, refusal};
use crate::server::call::framing::PREFIX_BYTES;
use crate::server::call::protocol::{self, Refused};
use crate::server::call::{self, ResponseFuture};
use crate::server::methods::is_served;

const GRPC_ENCODING: &str = "grpc-encoding";
const GRPC_ACCEPT_ENCODING: &str = "grpc-accept-encoding";

const PROTOCOL_VERSION: &str = "connect-protocol-version";
const TIMEOUT: &str = "connect-timeout-ms";

/// The time that an answer is about.
const NOW: HeaderName = HeaderName::from_static("rollplan-now");

/// What a method of the planner takes.
const ACCEPT_POST: &str =
    "application/json, application/proto, application/grpc, application/grpc+proto";
/// What a method that is served beside it takes.
const ACCEPT_POST_GRPC: &str = "application/grpc, application/grpc+proto";

/// Translates calls of Connect.
#[derive(Clone)]
pub(super) struct ConnectLayer {
    methods: Methods,
    /// Answers with at least so many bytes are compressed, for clients that accept gzip.
    compress_min: Option<usize>,
    clock: Clock,
}

/// How a client is told of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ErrorForm {
    /// As Connect has it.
    Json,
    /// For people.
    Text,
    /// For clients of gRPC, whose requests are not even calls.
    HttpStatus,
}

#[derive(Clone)]
pub(super) struct Connect<S> {
    inner: S,
    layer: ConnectLayer,
}

// === impl ConnectLayer ===

impl ConnectLayer {
    pub(super) fn new(methods: Methods, compress_min: Option<usize>, clock: Clock) -> Self {
        Self {
            methods,
            compress_min,
            clock,
        }
    }

    /// What a request asks for, or why it is not a call.
    fn read(&self, request: &Request<Body>) -> Result<Call, Refused> {
        let path = request.uri().path();
        if let Some(endpoint) = Endpoint::of(path) {
            return self.read_objects(endpoint, request);
        }
        let method = self.methods.get(path);
        if method.is_none() && !is_served(path) {
            return Err(unknown(path));
        }
        if request.method() != Verb::POST {
            return Err(not_post());
        }
        let headers = request.headers();
        if protocol::is_grpc(headers) {
            return Err(needs_http2());
        }
        let Some(method) = method else {
            return Err(unsupported(ACCEPT_POST_GRPC));
        };
        let Some(encoding) = encoding(headers) else {
            return Err(unsupported(ACCEPT_POST));
        };
        check_version(headers)?;
        check_encoding(headers)?;
        let compress_min = self.compress_min.filter(|_| accepts_gzip(headers));
        Ok(Call::new(method, encoding, compress_min))
    }

    /// What a request with Kubernetes JSON asks for.
    fn read_objects(&self, endpoint: Endpoint, request: &Request<Body>) -> Result<Call, Refused> {
        if request.method() != Verb::POST {
            return Err(not_post());
        }
        let Some(method) = self.methods.get(endpoint.method().path()) else {
            return Err(unknown(request.uri().path()));
        };
        let headers = request.headers();
        check_encoding(headers)?;
        let query = request.uri().query().unwrap_or_default();
        let query = Query::read(endpoint, Format::of(headers), query, &self.clock);
        let encoding = Encoding::Objects(Arc::new(query.map_err(Refused::new)?));
        let compress_min = self.compress_min.filter(|_| accepts_gzip(headers));
        Ok(Call::new(method, encoding, compress_min))
    }
}

// === impl ErrorForm ===

impl ErrorForm {
    fn of(request: &Request<Body>) -> Self {
        let headers = request.headers();
        match Endpoint::of(request.uri().path()) {
            Some(_) if Format::of(headers) == Format::Text => Self::Text,
            Some(_) => Self::Json,
            // Clients of gRPC, whatever they send, would not know what to do with an error of Connect.
            None if request.version() == Version::HTTP_2 && encoding(headers).is_none() => {
                Self::HttpStatus
            }
            None => Self::Json,
        }
    }

    fn response(self, parts: &Parts, trailers: &HeaderMap, status: &Status) -> Response<Body> {
        match self {
            Self::Text => error::text(parts, trailers, status),
            Self::Json | Self::HttpStatus => error::response(parts, trailers, status),
        }
    }
}

impl<S> Layer<S> for ConnectLayer {
    type Service = Connect<S>;

    fn layer(&self, inner: S) -> Self::Service {
        let layer = self.clone();
        Connect { inner, layer }
    }
}

// === impl Connect ===

impl<S> Service<Request<Body>> for Connect<S>
where
    S: Service<
            Request<Body>,
            Response = Response<Body>,
            Error = Infallible,
            Future = ResponseFuture,
        >,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = ResponseFuture;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let endpoint = Endpoint::of(request.uri().path());
        if endpoint.is_none()
            && protocol::is_grpc(request.headers())
            && request.version() == Version::HTTP_2
            && request.method() == Verb::POST
        {
            return self.inner.call(request);
        }
        let errors = ErrorForm::of(&request);
        let call = self.layer.read(&request).and_then(|call| {
            to_grpc(request.headers_mut(), &call)?;
            Ok(call)
        });
        // Below here, and in the log and the metrics, it is a call of the method that answers.
        if let Some(endpoint) = endpoint {
            *request.uri_mut() = endpoint.method();
        }
        let extensions = request.extensions_mut();
        let call = match call {
            Ok(call) => {
                extensions.insert(call.clone());
                Some(call)
            }
            // Answered below the layers that log and count.
            Err(refused) => {
                extensions.insert(refused);
                None
            }
        };
        let answer = self.inner.call(request);
        Box::pin(async move {
            let answer = answer.await?;
            if call.is_none() && errors == ErrorForm::HttpStatus {
                return Ok(error::plain(answer));
            }
            let mut response = translated(call.as_ref(), answer, errors).await;
            if endpoint.is_some() {
                let headers = response.headers_mut();
                headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
                let now = call.as_ref().and_then(Call::now);
                if let Some(now) = now.and_then(|now| HeaderValue::try_from(now).ok()) {
                    headers.insert(NOW, now);
                }
            }
            Ok(response)
        })
    }
}

/// Renames the headers of a call.
fn to_grpc(headers: &mut HeaderMap, call: &Call) -> Result<(), Refused> {
    let timeout = timeout(headers)?;
    for name in [GRPC_TIMEOUT, GRPC_ENCODING, GRPC_ACCEPT_ENCODING] {
        headers.remove(name);
    }
    if let Some(timeout) = timeout {
        headers.insert(GRPC_TIMEOUT, timeout);
    }
    if let Some(encoding) = headers.remove(CONTENT_ENCODING) {
        headers.insert(GRPC_ENCODING, encoding);
    }
    // JSON is compressed where it is encoded.
    if call.is_compressed_by_tonic() {
        headers.insert(GRPC_ACCEPT_ENCODING, HeaderValue::from_static("gzip"));
    }
    Ok(())
}

/// The client's deadline, as gRPC writes it.
fn timeout(headers: &HeaderMap) -> Result<Option<HeaderValue>, Refused> {
    /// gRPC has eight digits, Connect ten: a day is enough.
    const MAX: u64 = 99_999_999;
    let Some(text) = headers.get(TIMEOUT) else {
        return Ok(None);
    };
    let is_number =
        |text: &&str| text.len() <= 10 && text.bytes().all(|byte| byte.is_ascii_digit());
    let milliseconds = text.to_str().ok().filter(is_number);
    let milliseconds: Option<u64> = milliseconds.and_then(|text| text.parse().ok());
    let written = milliseconds.and_then(|it| format!("{}m", it.min(MAX)).parse().ok());
    written.map(Some).ok_or_else(|| {
        Refused::new(protocol::malformed_timeout(
            "malformed Connect-Timeout-Ms: must be up to 10 digits",
        ))
    })
}

fn check_version(headers: &HeaderMap) -> Result<(), Refused> {
    match headers.get(PROTOCOL_VERSION).map(HeaderValue::as_bytes) {
        // Anybody may call with curl.
        None | Some(b"1") => Ok(()),
        Some(_) => Err(Refused::new(refusal(
            Code::InvalidArgument,
            "Connect-Protocol-Version must be 1",
            "UNSUPPORTED_PROTOCOL_VERSION",
            &[],
        ))),
    }
}

fn check_encoding(headers: &HeaderMap) -> Result<(), Refused> {
    match headers.get(CONTENT_ENCODING).map(HeaderValue::as_bytes) {
        None | Some(b"identity" | b"gzip" | b"zstd") => Ok(()),
        Some(_) => Err(Refused::new(refusal(
            Code::Unimplemented,
            "unsupported Content-Encoding: use gzip, zstd or identity",
            "UNSUPPORTED_ENCODING",
            &[],
        ))
        .with_header(
            ACCEPT_ENCODING,
            HeaderValue::from_static("gzip, zstd, identity"),
        )),
    }
}

fn unknown(path: &str) -> Refused {
    let message = match path {
        "/" => {
            "nothing is served here: POST to /rollplan.v1.RolloutPlanner/PlanRollout, or what kubectl prints to /v1/plan"
        }
        _ => {
            "unknown path: there are /v1/status, /v1/plan and the methods at /rollplan.v1.RolloutPlanner/"
        }
    };
    Refused::new(refusal(Code::Unimplemented, message, "UNKNOWN_METHOD", &[]))
        .with_http(StatusCode::NOT_FOUND)
}

fn not_post() -> Refused {
    let message = "methods are called with POST";
    let status = refusal(Code::Unimplemented, message, "METHOD_NOT_ALLOWED", &[]);
    Refused::new(status)
        .with_http(StatusCode::METHOD_NOT_ALLOWED)
        .with_header(ALLOW, HeaderValue::from_static("POST"))
}

fn needs_http2() -> Refused {
    let message = "gRPC needs HTTP/2: use application/json or application/proto with HTTP/1.1";
    let status = refusal(Code::Unimplemented, message, "HTTP2_REQUIRED", &[]);
    Refused::new(status).with_http(StatusCode::HTTP_VERSION_NOT_SUPPORTED)
}

fn unsupported(accepted: &'static str) -> Refused {
    let message = format!("the content type must be one of {accepted}");
    let code = Code::InvalidArgument;
    let status = refusal(code, &message, "UNSUPPORTED_CONTENT_TYPE", &[]);
    Refused::new(status)
        .with_http(StatusCode::UNSUPPORTED_MEDIA_TYPE)
        .with_header(
            HeaderName::from_static("accept-post"),
            HeaderValue::from_static(accepted),
        )
}

/// The encoding of a content type of Connect.
fn encoding(headers: &HeaderMap) -> Option<Encoding> {
    match media_type(headers)?.as_str() {
        "application/json" => Some(Encoding::Json),
        "application/proto" => Some(Encoding::Proto),
        _ => None,
    }
}

/// The content type in lower case, without its parameters.
fn media_type(headers: &HeaderMap) -> Option<String> {
    let value = headers.get(CONTENT_TYPE)?.to_str().ok()?;
    let (media_type, _) = value.split_once(';').unwrap_or((value, ""));
    Some(media_type.trim().to_ascii_lowercase())
}

fn accepts_gzip(headers: &HeaderMap) -> bool {
    let values = headers.get_all(ACCEPT_ENCODING).into_iter();
    let values = values.filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|coding| {
        let (name, weight) = weighted(coding);
        name.eq_ignore_ascii_case("gzip") && weight > 0.0
    })
}

/// An entry of a list of what a client accepts, and its weight. RFC 9110, 12.4.2: one of 0 is "not acceptable".
fn weighted(entry: &str) -> (&str, f32) {
    let mut parts = entry.split(';').map(str::trim);
    let name = parts.next().unwrap_or_default();
    let weight = parts.find_map(|part| {
        let weight = part.strip_prefix("q=").or_else(|| part.strip_prefix("Q="));
        weight?.parse().ok()
    });
    (name, weight.unwrap_or(1.0))
}

/// The answer as Connect has it. Without a call the request was refused.
async fn translated(
    call: Option<&Call>,
    answer: Response<Body>,
    errors: ErrorForm,
) -> Response<Body> {
    let failure = call::errors::failure(&answer);
    let (parts, body) = answer.into_parts();
    // There as a whole: it was buffered.
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
    carry(&parts.headers, &trailers, headers);
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(call.content_type()));
    if prefix == 1 {
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    response
}

/// The one message of an answer, and whether it is compressed.
fn unframed(data: &Bytes) -> Option<(u8, Bytes)> {
    let prefix = *data.first()?;
    (data.len() >= PREFIX_BYTES).then(|| (prefix, data.slice(PREFIX_BYTES..)))
}

/// Metadata of an answer. What gRPC sends after the message goes before it, with a prefix.
fn carry(leading: &HeaderMap, trailing: &HeaderMap, to: &mut HeaderMap) {
    for (name, value) in leading.iter().filter(|(name, _)| is_metadata(name)) {
        to.append(name, value.clone());
    }
    for (name, value) in trailing.iter().filter(|(name, _)| is_metadata(name)) {
        let prefixed = HeaderName::try_from(format!("trailer-{name}"));
        if let Ok(name) = prefixed {
            to.append(name, value.clone());
        }
    }
}

/// Whether a header is neither of HTTP nor of gRPC itself.
fn is_metadata(name: &HeaderName) -> bool {
    let of_http = [CONTENT_TYPE, CONTENT_LENGTH, TRANSFER_ENCODING, TE, TRAILER];
    !of_http.contains(name) && !name.as_str().starts_with("grpc-")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mk_headers(name: &'static str, value: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(
            HeaderName::from_static(name),
            HeaderValue::from_static(value),
        )])
    }

    #[test]
    fn timeouts_are_up_to_ten_digits() {
        let read = |text| {
            let timeout = timeout(&mk_headers(TIMEOUT, text)).map_err(|_| "refused");
            timeout.map(|it| it.unwrap().to_str().unwrap().to_owned())
        };
        assert_eq!(read("0").as_deref(), Ok("0m"));
        assert_eq!(read("1500").as_deref(), Ok("1500m"));
        assert_eq!(read("0000001500").as_deref(), Ok("1500m"));
        assert_eq!(read("9999999999").as_deref(), Ok("99999999m"));
        for wrong in ["", "-1", "+1", "1.5", "1s", " 1", "10000000000"] {
            assert_eq!(read(wrong), Err("refused"), "{wrong}");
        }
        assert!(timeout(&HeaderMap::new()).is_ok_and(|it| it.is_none()));
    }

    #[test]
    fn gzip_is_accepted_unless_its_weight_is_zero() {
        for (value, expected) in [
            ("gzip", true),
            ("GZIP", true),
            ("br, gzip;q=0.5", true),
            ("deflate, gzip , br", true),
            ("gzip;q=0", false),
            ("gzip; q=0.000", false),
            ("identity", false),
            ("x-gzip", false),
            ("", false),
        ] {
            let headers = mk_headers("accept-encoding", value);
            assert_eq!(accepts_gzip(&headers), expected, "{value}");
        }
    }

    #[test]
    fn parameters_of_content_types_are_ignored() {
        let read = |value| media_type(&mk_headers("content-type", value));
        let json = Some("application/json".to_owned());
        assert_eq!(read("application/json"), json);
        assert_eq!(read("Application/JSON; charset=utf-8"), json);
        assert_ne!(read("application/jsonx"), json);
        assert_eq!(media_type(&HeaderMap::new()), None);
    }
}
