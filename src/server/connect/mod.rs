//! Connect, a protocol for plain HTTP clients: a POST request with the message in the body, as JSON or protobuf, over
//! HTTP/1.1 or HTTP/2.
//!
//! This is only a translation in front of the layers for gRPC calls: requests get gRPC's headers, and a status becomes
//! an HTTP status with an error in JSON. The layers below use the call as an
//! [`Encoding`](crate::protocol::context::Encoding) of its messages. `endpoint/` has the calls for people, which are
//! translated the same way. So all limits, deadlines, metrics and log lines are the same as for gRPC.

mod answer;
mod codec;
mod endpoint;
mod error;
mod headers;
mod methods;
mod rejection;

use std::convert::Infallible;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::header::CACHE_CONTROL;
use http::{HeaderName, HeaderValue, Method as Verb, Request, Response, Version};
use tonic::body::Body;
use tower::{Layer, Service};

pub(super) use self::endpoint::Clock;
pub(super) use self::methods::Methods;

use self::answer::translated;
use self::codec::{Call, Encoding};
use self::endpoint::{Endpoint, Format, Query};
use self::error::ErrorForm;
use self::headers::{accepts_gzip, check_encoding, check_version, to_grpc};
use self::rejection::{ACCEPT_POST, ACCEPT_POST_GRPC};
use crate::protocol::ResponseFuture;
use crate::protocol::context::CallContext;
use crate::protocol::methods::is_served;
use crate::protocol::reject;
use crate::protocol::rejected::Rejected;

/// The header with the time that an answer refers to.
const NOW: HeaderName = HeaderName::from_static("rollplan-now");

/// Translates Connect calls.
#[derive(Clone)]
pub(super) struct ConnectLayer {
    methods: Methods,
    /// The minimum size of answers that are compressed, in bytes, for clients that accept gzip.
    compress_min: Option<usize>,
    clock: Clock,
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

    /// Parses the call of a request, or rejects it.
    fn read(&self, request: &Request<Body>) -> Result<Call, Rejected> {
        let path = request.uri().path();
        if let Some(endpoint) = Endpoint::of(path) {
            return self.read_objects(endpoint, request);
        }
        let method = self.methods.get(path);
        if method.is_none() && !is_served(path) {
            return Err(rejection::unknown(path));
        }
        if request.method() != Verb::POST {
            return Err(rejection::not_post());
        }
        let headers = request.headers();
        if reject::is_grpc(headers) {
            return Err(rejection::needs_http2());
        }
        let Some(method) = method else {
            return Err(rejection::unsupported_content_type(ACCEPT_POST_GRPC));
        };
        let Some(encoding) = Encoding::of(headers) else {
            return Err(rejection::unsupported_content_type(ACCEPT_POST));
        };
        check_version(headers)?;
        check_encoding(headers)?;
        let compress_min = self.compress_min.filter(|_| accepts_gzip(headers));
        Ok(Call::new(method, encoding, compress_min))
    }

    /// Parses the call of a request with Kubernetes JSON.
    fn read_objects(&self, endpoint: Endpoint, request: &Request<Body>) -> Result<Call, Rejected> {
        if request.method() != Verb::POST {
            return Err(rejection::not_post());
        }
        let Some(method) = self.methods.get(endpoint.method().path()) else {
            return Err(rejection::unknown(request.uri().path()));
        };
        let headers = request.headers();
        check_encoding(headers)?;
        let query = request.uri().query().unwrap_or_default();
        let query = Query::read(endpoint, Format::of(headers), query, &self.clock);
        let encoding = Encoding::Objects(Arc::new(query.map_err(Rejected::new)?));
        let compress_min = self.compress_min.filter(|_| accepts_gzip(headers));
        Ok(Call::new(method, encoding, compress_min))
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
            && reject::is_grpc(request.headers())
            && request.version() == Version::HTTP_2
            && request.method() == Verb::POST
        {
            return self.inner.call(request);
        }
        let errors = ErrorForm::of(&request);
        let call = self.layer.read(&request).and_then(|call| {
            to_grpc(request.headers_mut(), call.is_compressed_by_tonic())?;
            Ok(Arc::new(call))
        });
        // For the layers below, the log and the metrics, this is a call of the method that answers.
        if let Some(endpoint) = endpoint {
            *request.uri_mut() = endpoint.method();
        }
        let context = CallContext::edit(&mut request);
        let call = match call {
            Ok(call) => {
                context.inferred = call.inferred();
                context.encoding = Some(Arc::clone(&call) as _);
                Some(call)
            }
            // Rejected by a lower layer, so that it is logged and counted.
            Err(rejected) => {
                context.rejected = Some(rejected);
                None
            }
        };
        let answer = self.inner.call(request);
        Box::pin(async move {
            let answer = answer.await?;
            if call.is_none() && errors == ErrorForm::HttpStatus {
                return Ok(error::plain(answer));
            }
            let mut response = translated(call.as_deref(), answer, errors).await;
            if endpoint.is_some() {
                let headers = response.headers_mut();
                headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
                let now = call.as_deref().and_then(Call::now);
                if let Some(now) = now.and_then(|now| HeaderValue::try_from(now).ok()) {
                    headers.insert(NOW, now);
                }
            }
            Ok(response)
        })
    }
}
