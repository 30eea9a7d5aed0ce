//! Rejects invalid calls: those that `connect` has rejected, malformed deadlines, and unary requests with no message or
//! more than one. (tonic reads the first message and drops the others, ignores a malformed deadline, and does not check
//! the content type.)

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, Request, Response};
use http_body::{Frame, SizeHint};
use tonic::body::Body;
use tonic::{Code, Status};
use tower::{Layer, Service};

use crate::protocol::ResponseFuture;
use crate::protocol::context::CallContext;
use crate::protocol::deadline::{GRPC_TIMEOUT, remaining};
use crate::protocol::errors::rejection;
use crate::protocol::framing::Messages;

/// Rejects calls based on their headers, before their bodies are read.
#[derive(Clone, Copy)]
pub(crate) struct RejectLayer(pub(crate) fn(&Request<Body>) -> Option<Response<Body>>);

#[derive(Clone)]
pub(crate) struct Reject<S> {
    inner: S,
    rejected: fn(&Request<Body>) -> Option<Response<Body>>,
}

/// The body of a request that must contain exactly one message.
struct OneMessage {
    body: Body,
    messages: Messages,
    /// The number of complete messages.
    count: u64,
    is_over: bool,
}

// === impl RejectLayer ===

impl<S> Layer<S> for RejectLayer {
    type Service = Reject<S>;

    fn layer(&self, inner: S) -> Self::Service {
        let Self(rejected) = *self;
        Reject { inner, rejected }
    }
}

// === impl Reject ===

impl<S> Service<Request<Body>> for Reject<S>
where
    S: Service<Request<Body>, Error = Infallible, Future = ResponseFuture>,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = ResponseFuture;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        match (self.rejected)(&request) {
            Some(rejected) => Box::pin(std::future::ready(Ok(rejected))),
            None => self.inner.call(request),
        }
    }
}

/// The response to a request with invalid headers.
pub(crate) fn rejected(request: &Request<Body>) -> Option<Response<Body>> {
    if let Some(rejected) = CallContext::of(request).rejected {
        return Some(rejected.response());
    }
    let headers = request.headers();
    if headers.contains_key(GRPC_TIMEOUT) && remaining(headers).is_none() {
        let status = malformed_timeout(
            "malformed grpc-timeout: must be up to 8 digits and one of H, M, S, m, u, n",
        );
        return Some(status.into_http());
    }
    None
}

pub(crate) fn malformed_timeout(message: &str) -> Status {
    rejection(Code::InvalidArgument, message, "MALFORMED_TIMEOUT")
}

/// Whether the content type is gRPC with protobuf.
pub(crate) fn is_grpc(headers: &HeaderMap) -> bool {
    const GRPC: &[u8] = b"application/grpc";
    let Some(value) = headers.get(CONTENT_TYPE) else {
        return false;
    };
    let value = value.as_bytes();
    let Some((prefix, rest)) = value.split_at_checked(GRPC.len()) else {
        return false;
    };
    let end = rest.iter().position(|it| *it == b';').unwrap_or(rest.len());
    // `application/grpc-web` is another protocol.
    let codec = rest[..end].trim_ascii_end();
    prefix.eq_ignore_ascii_case(GRPC) && (codec.is_empty() || codec.eq_ignore_ascii_case(b"+proto"))
}

/// Makes a request body fail unless it contains exactly one message.
pub(crate) fn one_message(request: Request<Body>) -> Request<Body> {
    request.map(|body| {
        Body::new(OneMessage {
            body,
            messages: Messages::default(),
            count: 0,
            is_over: false,
        })
    })
}

// === impl OneMessage ===

impl OneMessage {
    fn violated(&mut self, message: &str) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        self.is_over = true;
        let status = rejection(Code::Unimplemented, message, "CARDINALITY_VIOLATION");
        Poll::Ready(Some(Err(status)))
    }
}

impl http_body::Body for OneMessage {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let this = &mut *self;
        if this.is_over {
            return Poll::Ready(None);
        }
        let polled = Pin::new(&mut this.body).poll_frame(cx);
        match &polled {
            Poll::Ready(Some(Ok(frame))) => {
                if let Some(data) = frame.data_ref() {
                    this.count += this.messages.count(data);
                }
                if this.count > 1 {
                    return this.violated("the method takes one message, and the request has more");
                }
            }
            // The decoder reports an incomplete message.
            Poll::Ready(None) if this.count == 0 && this.messages.is_between() => {
                return this.violated("the method takes one message, and the request has none");
            }
            Poll::Ready(Some(Err(_)) | None) => this.is_over = true,
            Poll::Pending => {}
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        // A request without a message must be polled to be rejected.
        self.is_over || (self.count > 0 && self.body.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn grpc_content_types_are_recognized() {
        let is = |value: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(CONTENT_TYPE, HeaderValue::from_static(value));
            is_grpc(&headers)
        };
        for grpc in [
            "application/grpc",
            "application/grpc+proto",
            "application/grpc;charset=utf-8",
            "Application/GRPC",
            "application/grpc+proto; charset=utf-8",
        ] {
            assert!(is(grpc), "{grpc}");
        }
        for other in [
            "",
            "application/json",
            "application/grpc+json",
            "application/grpc-web",
            "application/grpc-web+proto",
            "application/grp",
            "text/application/grpc",
        ] {
            assert!(!is(other), "{other}");
        }
        assert!(!is_grpc(&HeaderMap::new()));
    }
}
