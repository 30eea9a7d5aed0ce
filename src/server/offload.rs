//! Large plans are computed off the threads that serve connections, a few at once.
//!
//! On two cores two of them would keep health checks waiting. "Large" is known before a byte of the message has
//! been decoded, so that decoding, planning and encoding all move.

use std::convert::Infallible;
use std::panic;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::{Request, Response};
use http_body::{Body as _, Frame};
use http_body_util::{BodyExt as _, StreamBody};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tonic::body::Body;
use tower::{Layer, Service, ServiceExt as _};
use tracing::Span;

use super::budget::LARGE_BYTES;
use super::errors;
use super::response::ResponseFuture;

/// See the text of this file.
#[derive(Clone)]
pub(super) struct OffloadLayer {
    turns: Arc<Semaphore>,
}

#[derive(Clone)]
pub(super) struct Offload<S> {
    inner: S,
    turns: Arc<Semaphore>,
}

// === impl OffloadLayer ===

impl OffloadLayer {
    pub(super) fn new(at_once: usize) -> Self {
        Self {
            turns: Arc::new(Semaphore::new(at_once)),
        }
    }
}

impl<S> Layer<S> for OffloadLayer {
    type Service = Offload<S>;

    fn layer(&self, inner: S) -> Self::Service {
        let turns = Arc::clone(&self.turns);
        Offload { inner, turns }
    }
}

// === impl Offload ===

type Answer = Result<Response<Body>, Infallible>;

impl<S> Service<Request<Body>> for Offload<S>
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

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let inner = self.inner.clone();
        if !is_large(&request) {
            return Box::pin(answer(inner, request));
        }
        let turns = Arc::clone(&self.turns);
        Box::pin(async move {
            // Nobody closes it.
            let turn = turns.acquire_owned().await.ok();
            let runtime = Handle::current();
            let span = Span::current();
            let answered = tokio::task::spawn_blocking(move || {
                // Kept to the end even if the call is given up meanwhile: work cannot be interrupted.
                let _turn = turn;
                span.in_scope(|| runtime.block_on(answer(inner, request)))
            });
            match answered.await {
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

/// Bytes of an answer, noted on its response. (As the size of the body they would become a header.)
#[derive(Clone, Copy)]
pub(super) struct AnswerBytes(pub(super) usize);

/// With the answer encoded, and compressed where the client wants that: both are work too.
async fn answer<S>(inner: S, request: Request<Body>) -> Answer
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>,
{
    let (mut parts, body) = inner.oneshot(request).await?.into_parts();
    Ok(match body.collect().await {
        Ok(collected) => {
            let trailers = collected.trailers().cloned();
            let data = collected.to_bytes();
            // A status alone: the stream must end with its headers, or clients look for it elsewhere.
            if data.is_empty() && trailers.is_none() {
                return Ok(Response::from_parts(parts, Body::empty()));
            }
            parts.extensions.insert(AnswerBytes(data.len()));
            let frames = [Some(Frame::data(data)), trailers.map(Frame::trailers)];
            let frames = frames.into_iter().flatten().map(Ok::<_, Infallible>);
            let body = StreamBody::new(tokio_stream::iter(frames));
            Response::from_parts(parts, Body::new(body))
        }
        // It is a message that cannot be encoded, which there is none of.
        Err(_) => errors::bug().into_http(),
    })
}

pub(super) fn is_large(request: &Request<Body>) -> bool {
    let encoding = request.headers().get("grpc-encoding");
    // What a few compressed bytes grow to is only known afterwards.
    let is_compressed = encoding.is_some_and(|encoding| encoding != "identity");
    let bytes = request.body().size_hint().exact();
    is_compressed || bytes.is_none_or(|bytes| bytes > LARGE_BYTES as u64)
}

#[cfg(test)]
mod tests {
    use http_body_util::Full;
    use tower::service_fn;

    use super::*;

    fn mk_request(bytes: usize) -> Request<Body> {
        Request::new(Body::new(Full::new(bytes::Bytes::from(vec![0; bytes]))))
    }

    #[test]
    fn large_is_what_has_many_bytes_or_may_have() {
        assert!(!is_large(&mk_request(LARGE_BYTES)));
        assert!(is_large(&mk_request(LARGE_BYTES + 1)));
        let mut request = mk_request(1);
        let mut encoded = |encoding: &'static str| {
            let encoding = http::HeaderValue::from_static(encoding);
            request.headers_mut().insert("grpc-encoding", encoding);
            is_large(&request)
        };
        assert!(!encoded("identity"));
        assert!(encoded("gzip"));
        assert!(encoded("zstd"));
    }

    #[tokio::test]
    async fn a_panic_off_the_serving_threads_is_a_panic_of_the_call() {
        let panics = service_fn(async |_: Request<Body>| -> Answer { panic!("planner bug") });
        let call = OffloadLayer::new(1)
            .layer(panics)
            .oneshot(mk_request(LARGE_BYTES + 1));
        let failed = tokio::spawn(call).await.unwrap_err();
        let payload = failed.into_panic();
        assert_eq!(payload.downcast_ref(), Some(&"planner bug"));
    }
}
