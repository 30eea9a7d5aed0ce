//! Limits the number of calls in flight, with a separate limit for large calls.
//!
//! Large calls wait for each other. With a common limit, they would displace many calls that take little time.

pub(crate) mod budget;
pub(crate) mod buffer;
pub(crate) mod buffered;
pub(crate) mod decompress;
pub(crate) mod memory_limit;
pub(crate) mod offload;

use std::convert::Infallible;
use std::task::{Context, Poll};

use http::{Request, Response};
use metrics::Counter;
use tonic::body::Body;
use tower::limit::{ConcurrencyLimit, GlobalConcurrencyLimitLayer};
use tower::load_shed::LoadShed;
use tower::util::Oneshot;
use tower::{BoxError, Layer, Service, ServiceExt as _};

use crate::admission::buffered::BufferedRequest;
use crate::protocol::errors;

/// Admits calls up to one limit for small calls and one for large calls.
#[derive(Clone)]
pub(crate) struct AdmissionLayer {
    small: GlobalConcurrencyLimitLayer,
    large: GlobalConcurrencyLimitLayer,
}

#[derive(Clone)]
pub(crate) struct Admission<S> {
    small: Limited<S>,
    large: Limited<S>,
}

/// Calls over the limit are rejected immediately: in a queue, they would only fail later.
type Limited<S> = LoadShed<ConcurrencyLimit<S>>;

// === impl AdmissionLayer ===

impl AdmissionLayer {
    /// The limits apply to all connections together, because behind a sidecar all calls arrive on a few connections.
    pub(crate) fn new(small: usize, large: usize) -> Self {
        Self {
            small: GlobalConcurrencyLimitLayer::new(small),
            large: GlobalConcurrencyLimitLayer::new(large),
        }
    }
}

impl<S: Clone> Layer<S> for AdmissionLayer {
    type Service = Admission<S>;

    fn layer(&self, inner: S) -> Self::Service {
        Admission {
            small: LoadShed::new(self.small.layer(inner.clone())),
            large: LoadShed::new(self.large.layer(inner)),
        }
    }
}

// === impl Admission ===

impl<S> Service<Request<BufferedRequest>> for Admission<S>
where
    S: Service<Request<BufferedRequest>, Response = Response<Body>, Error = Infallible> + Clone,
{
    type Response = Response<Body>;
    /// Always `Overloaded`.
    type Error = BoxError;
    type Future = Oneshot<Limited<S>, Request<BufferedRequest>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        // The limit depends on the call.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<BufferedRequest>) -> Self::Future {
        let limited = if request.body().is_large() {
            &self.large
        } else {
            &self.small
        };
        limited.clone().oneshot(request)
    }
}

/// The answer to a call that was shed.
pub(crate) fn overloaded(shed: &Counter) -> Response<Body> {
    shed.increment(1);
    errors::overloaded().into_http()
}
