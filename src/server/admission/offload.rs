//! Large calls are computed off the threads that serve connections, a few at once.
//!
//! On two cores two of them would keep health checks waiting. All of the work moves: decompressing, decoding, planning and
//! encoding.

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

use crate::server::admission::buffered::{BufferedRequest, Refusal};
use crate::server::admission::overloaded;
use crate::server::call::ResponseFuture;
use crate::server::call::cancellation::{Cancellation, Due};
use crate::server::call::errors;
use crate::server::connect::Call;

/// Runs large calls on threads of their own.
#[derive(Clone)]
pub(crate) struct OffloadLayer {
    turns: Arc<Semaphore>,
    observed: Observed,
}

/// What is counted of large calls.
#[derive(Clone)]
pub(crate) struct Observed {
    pub(crate) waiting: Gauge,
    pub(crate) running: Gauge,
    pub(crate) shed: Counter,
}

#[derive(Clone)]
pub(crate) struct Offload<S> {
    inner: S,
    turns: Arc<Semaphore>,
    observed: Observed,
}

/// One more in a gauge, until dropped.
struct OneMore(Gauge);

// === impl OneMore ===

impl OneMore {
    fn of(gauge: &Gauge) -> Self {
        gauge.increment(1.0);
        Self(gauge.clone())
    }
}

impl Drop for OneMore {
    fn drop(&mut self) {
        self.0.decrement(1.0);
    }
}

// === impl OffloadLayer ===

impl OffloadLayer {
    pub(crate) fn new(at_once: usize, observed: Observed) -> Self {
        Self {
            turns: Arc::new(Semaphore::new(at_once)),
            observed,
        }
    }
}

impl<S> Layer<S> for OffloadLayer {
    type Service = Offload<S>;

    fn layer(&self, inner: S) -> Self::Service {
        let Self { turns, observed } = self.clone();
        Offload {
            inner,
            turns,
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
        // What is inside is asked where it runs.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<BufferedRequest>) -> Self::Future {
        let inner = self.inner.clone();
        if !request.body().is_large() {
            // Done before anybody could cancel it.
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
        let (turns, observed) = (Arc::clone(&self.turns), self.observed.clone());
        let cancellation = Cancellation::new(request.extensions().get::<Due>().copied());
        Box::pin(async move {
            let waiting = OneMore::of(&observed.waiting);
            // Nobody closes it.
            let turn = turns.acquire_owned().await.ok();
            drop(waiting);
            let runtime = Handle::current();
            let span = Span::current();
            // Dropped with this future: the work notices.
            let _call = cancellation.on_drop();
            let is_late = cancellation.clone();
            let answered = tokio::task::spawn_blocking(move || {
                // Kept until the work has ended, even if the call is given up before.
                let _turn = turn;
                let _running = OneMore::of(&observed.running);
                let shed = observed.shed.clone();
                span.in_scope(|| {
                    let work = large(inner, request, cancellation.clone(), shed);
                    runtime.block_on(cancellation.scope(work))
                })
            });
            let answered = answered.await;
            if is_late.is_interrupted() {
                // What there is to say of that, the deadline says.
                std::future::pending::<()>().await;
            }
            match answered {
                Ok(answer) => answer,
                Err(failed) => match failed.try_into_panic() {
                    Ok(panicked) => panic::resume_unwind(panicked),
                    // Only a runtime that is going away drops a task before it ran.
                    Err(_) => Ok(errors::stopping().into_http()),
                },
            }
        })
    }
}

/// All the work of a large call.
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
        Err(Refusal::Shed) => return Ok(overloaded(&shed)),
        Err(Refusal::Status(status)) => return Ok(status.into_http()),
    };
    answer(
        inner,
        Request::from_parts(parts, Body::new(Full::new(bytes))),
    )
    .await
}

/// Bytes of an answer, noted on its response. (As the size of the body they would become a header.)
#[derive(Clone, Copy)]
pub(crate) struct AnswerBytes(pub(crate) usize);

/// With the answer encoded, in JSON where the client wants that, and compressed: all of it is work too.
async fn answer<S>(inner: S, request: Request<Body>) -> Answer
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>,
{
    let json = request
        .extensions()
        .get::<Call>()
        .filter(|it| it.is_transcoded())
        .cloned();
    let (mut parts, body) = inner.oneshot(request).await?.into_parts();
    Ok(match body.collect().await {
        Ok(collected) => {
            let trailers = collected.trailers().cloned();
            let mut data = collected.to_bytes();
            // A status alone: the stream must end with its headers, or clients look for it elsewhere.
            if data.is_empty() && trailers.is_none() {
                return Ok(Response::from_parts(parts, Body::empty()));
            }
            if let Some(call) = json
                && !data.is_empty()
            {
                let Some(encoded) = call.encode(&data) else {
                    return Ok(errors::bug().into_http());
                };
                data = encoded;
            }
            parts.extensions.insert(AnswerBytes(data.len()));
            let data = (!data.is_empty()).then(|| Frame::data(data));
            let frames = [data, trailers.map(Frame::trailers)];
            let frames = frames.into_iter().flatten().map(Ok::<_, Infallible>);
            let body = StreamBody::new(tokio_stream::iter(frames));
            Response::from_parts(parts, Body::new(body))
        }
        // It is a message that cannot be encoded, which there is none of.
        Err(_) => errors::bug().into_http(),
    })
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use tower::service_fn;

    use super::*;
    use crate::server::admission::budget::{Budget, Held};

    fn mk_observed() -> Observed {
        Observed {
            waiting: Gauge::noop(),
            running: Gauge::noop(),
            shed: Counter::noop(),
        }
    }

    /// A call with so many empty pods.
    fn mk_request(pods: usize) -> Request<BufferedRequest> {
        let pods = [0x22, 0].repeat(pods);
        let mut message = vec![0x0a];
        prost::encoding::encode_varint(pods.len() as u64, &mut message);
        message.extend(pods);
        let length = u32::try_from(message.len()).unwrap().to_be_bytes();
        let bytes = Bytes::from([&[0], &length[..], &message].concat());
        let uri = "/rollplan.v1.RolloutPlanner/PlanRollout";
        let (mut parts, ()) = Request::builder().uri(uri).body(()).unwrap().into_parts();
        let budget = Budget::new(64, Gauge::noop());
        let body = BufferedRequest::new(&mut parts, bytes, budget, Held::default());
        let Ok(body) = body else {
            panic!("it is within all limits");
        };
        Request::from_parts(parts, body)
    }

    #[test]
    fn large_is_what_takes_much_work() {
        assert!(!mk_request(100).body().is_large());
        assert!(mk_request(20_000).body().is_large());
    }

    #[tokio::test]
    async fn a_panic_off_the_serving_threads_is_a_panic_of_the_call() {
        let panics = service_fn(async |_: Request<Body>| -> Answer { panic!("planner bug") });
        let call = OffloadLayer::new(1, mk_observed())
            .layer(panics)
            .oneshot(mk_request(20_000));
        let failed = tokio::spawn(call).await.unwrap_err();
        let payload = failed.into_panic();
        assert_eq!(payload.downcast_ref(), Some(&"planner bug"));
    }
}
