//! Computes large calls on separate threads, a few at a time.
//!
//! Otherwise, on two cores, two large calls would delay health checks. All of their work is moved: decompressing,
//! decoding, planning and encoding.

use std::convert::Infallible;
use std::panic;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::{Request, Response};
use http_body::Frame;
use http_body_util::{BodyExt as _, Full, StreamBody};
use metrics::{Counter, Gauge};
use rollplan_core::interrupt::Interrupt as _;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tonic::body::Body;
use tower::{Layer, Service, ServiceExt as _};
use tracing::Span;

use crate::admission::buffered::{BufferedRequest, Rejection};
use crate::admission::overloaded;
use crate::protocol::ResponseFuture;
use crate::protocol::cancellation::Cancellation;
use crate::protocol::context::{AnswerContext, CallContext};
use crate::protocol::errors;

/// Runs large calls on separate threads.
#[derive(Clone)]
pub(crate) struct OffloadLayer {
    permits: Arc<Semaphore>,
    observed: OffloadMetrics,
}

/// The metrics of large calls.
#[derive(Clone)]
pub(crate) struct OffloadMetrics {
    pub(crate) waiting: Gauge,
    pub(crate) running: Gauge,
    pub(crate) shed: Counter,
}

#[derive(Clone)]
pub(crate) struct Offload<S> {
    inner: S,
    permits: Arc<Semaphore>,
    observed: OffloadMetrics,
}

/// Increments a gauge until dropped.
struct GaugeGuard(Gauge);

// === impl GaugeGuard ===

impl GaugeGuard {
    fn of(gauge: &Gauge) -> Self {
        gauge.increment(1.0);
        Self(gauge.clone())
    }
}

impl Drop for GaugeGuard {
    fn drop(&mut self) {
        self.0.decrement(1.0);
    }
}

// === impl OffloadLayer ===

impl OffloadLayer {
    pub(crate) fn new(at_once: usize, observed: OffloadMetrics) -> Self {
        Self {
            permits: Arc::new(Semaphore::new(at_once)),
            observed,
        }
    }
}

impl<S> Layer<S> for OffloadLayer {
    type Service = Offload<S>;

    fn layer(&self, inner: S) -> Self::Service {
        let Self { permits, observed } = self.clone();
        Offload {
            inner,
            permits,
            observed,
        }
    }
}

// === impl Offload ===

type Answer = Result<Response<Body>, Infallible>;

impl<S> Service<Request<BufferedRequest>> for Offload<S>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>
        + Clone
        + Send
        + 'static,
    S::Future: Send,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = ResponseFuture;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        // The readiness of the inner service is checked where it runs.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<BufferedRequest>) -> Self::Future {
        let inner = self.inner.clone();
        if !request.body().is_large() {
            // Small calls finish before they could be cancelled.
            return Box::pin(Cancellation::new(None).scope(async move {
                let (parts, body) = request.into_parts();
                let (bytes, _held) = body.into_bytes();
                answer(
                    inner,
                    Request::from_parts(parts, Body::new(Full::new(bytes))),
                )
                .await
            }));
        }
        let (permits, observed) = (Arc::clone(&self.permits), self.observed.clone());
        let cancellation = Cancellation::new(CallContext::of(&request).due);
        Box::pin(async move {
            let waiting = GaugeGuard::of(&observed.waiting);
            // The semaphore is never closed.
            let permit = permits.acquire_owned().await.ok();
            drop(waiting);
            let runtime = Handle::current();
            let span = Span::current();
            // Dropped with this future, which cancels the work.
            let _call = cancellation.on_drop();
            let is_late = cancellation.clone();
            let answered = tokio::task::spawn_blocking(move || {
                // Reservation until the work has ended, even if the call was dropped earlier.
                let _permit = permit;
                let _running = GaugeGuard::of(&observed.running);
                let shed = observed.shed.clone();
                span.in_scope(|| {
                    let work = large(inner, request, cancellation.clone(), shed);
                    runtime.block_on(cancellation.scope(work))
                })
            });
            let answered = answered.await;
            if is_late.is_interrupted() {
                // The deadline layer answers the call.
                std::future::pending::<()>().await;
            }
            match answered {
                Ok(answer) => answer,
                Err(failed) => match failed.try_into_panic() {
                    Ok(panicked) => panic::resume_unwind(panicked),
                    // Only a runtime that is shutting down drops a task before it runs.
                    Err(_) => Ok(errors::stopping().into_http()),
                },
            }
        })
    }
}

/// Does all the work of a large call.
async fn large<S>(
    inner: S,
    request: Request<BufferedRequest>,
    cancellation: Cancellation,
    shed: Counter,
) -> Answer
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>,
{
    let (mut parts, body) = request.into_parts();
    let (bytes, _held) = match body.prepare(&mut parts.headers, &cancellation) {
        Ok(prepared) => prepared,
        Err(Rejection::Shed) => return Ok(overloaded(&shed)),
        Err(Rejection::Status(status)) => return Ok(status.into_http()),
    };
    answer(
        inner,
        Request::from_parts(parts, Body::new(Full::new(bytes))),
    )
    .await
}

/// Calls the inner service and collects its whole answer: encoded, as JSON if requested, and compressed. This is part
/// of the work.
async fn answer<S>(inner: S, request: Request<Body>) -> Answer
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>,
{
    let encoding = CallContext::transcoding(request.extensions());
    let (mut parts, body) = inner.oneshot(request).await?.into_parts();
    Ok(match body.collect().await {
        Ok(collected) => {
            let trailers = collected.trailers().cloned();
            let mut data = collected.to_bytes();
            // A status without a message must be sent in the headers of the stream, or clients do not find it.
            if data.is_empty() && trailers.is_none() {
                return Ok(Response::from_parts(parts, Body::empty()));
            }
            let context: &mut AnswerContext = parts.extensions.get_or_insert_default();
            if let Some(encoding) = encoding
                && !data.is_empty()
            {
                let Some(encoded) = encoding.encode(&data, &context.subject) else {
                    return Ok(errors::bug().into_http());
                };
                data = encoded;
            }
            context.bytes = data.len();
            let data = (!data.is_empty()).then(|| Frame::data(data));
            let frames = [data, trailers.map(Frame::trailers)];
            let frames = frames.into_iter().flatten().map(Ok::<_, Infallible>);
            let body = StreamBody::new(tokio_stream::iter(frames));
            Response::from_parts(parts, Body::new(body))
        }
        // This fails only for a message that cannot be encoded, and every message can be.
        Err(_) => errors::bug().into_http(),
    })
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use prost::Message as _;
    use rollplan_wire::proto::{PlanRolloutRequest, Snapshot};
    use tower::service_fn;

    use super::*;
    use crate::admission::budget::{Budget, Reservation};

    fn mk_observed() -> OffloadMetrics {
        OffloadMetrics {
            waiting: Gauge::noop(),
            running: Gauge::noop(),
            shed: Counter::noop(),
        }
    }

    /// A call with this number of empty pods.
    fn mk_request(pods: usize) -> Request<BufferedRequest> {
        let pods = format!(r#"{{"items":[{}{{}}]}}"#, "{},".repeat(pods));
        let message = PlanRolloutRequest {
            snapshot: Some(Snapshot {
                objects: vec![pods],
                ..Snapshot::default()
            }),
            ..PlanRolloutRequest::default()
        };
        let message = message.encode_to_vec();
        let length = u32::try_from(message.len()).unwrap().to_be_bytes();
        let bytes = Bytes::from([&[0], &length[..], &message].concat());
        let uri = "/rollplan.v1.RolloutPlanner/PlanRollout";
        let (mut parts, ()) = Request::builder().uri(uri).body(()).unwrap().into_parts();
        let budget = Budget::new(64, Gauge::noop());
        let body = BufferedRequest::new(&mut parts, bytes, budget, Reservation::default());
        let Ok(body) = body else {
            panic!("it is within all limits");
        };
        Request::from_parts(parts, body)
    }

    #[test]
    fn requests_that_take_much_memory_are_large() {
        assert!(!mk_request(100).body().is_large());
        assert!(mk_request(20_000).body().is_large());
    }

    #[tokio::test]
    async fn panic_on_a_separate_thread_is_a_panic_of_the_call() {
        let panics = service_fn(async |_: Request<Body>| -> Answer { panic!("planner bug") });
        let call = OffloadLayer::new(1, mk_observed())
            .layer(panics)
            .oneshot(mk_request(20_000));
        let failed = tokio::spawn(call).await.unwrap_err();
        let payload = failed.into_panic();
        assert_eq!(payload.downcast_ref(), Some(&"planner bug"));
    }
}
