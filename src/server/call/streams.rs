//! The response streams of health and reflection. They have no end, and a client can keep the maximum number of calls
//! open without reading any response.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body::Frame;
use tokio::sync::watch;
use tonic::Status;
use tonic::body::Body;
use tower::{Layer, Service};

use crate::admission::budget::{Budget, Reservation};
use crate::protocol::ResponseFuture;
use crate::protocol::context::CallContext;
use crate::protocol::errors;
use crate::protocol::pending::PendingResponses;

/// Ends open streams at shutdown, which they would otherwise delay for its whole grace period, and tracks responses
/// that clients have not read.
#[derive(Clone)]
pub(crate) struct StreamsLayer {
    stopping: watch::Receiver<()>,
    budget: Option<Budget>,
}

#[derive(Clone)]
pub(crate) struct Streams<S> {
    inner: S,
    layer: StreamsLayer,
}

/// An open response stream.
struct Open {
    body: Body,
    stopped: Stopped,
    is_over: bool,
    /// `None` in tests without a connection.
    pending: Option<PendingResponses>,
    budget: Option<Budget>,
}

type Stopped = Pin<Box<dyn Future<Output = ()> + Send>>;

// === impl StreamsLayer ===

impl StreamsLayer {
    /// For streams with small responses. They end when the sender of `stopping` is dropped.
    pub(crate) fn new(stopping: watch::Receiver<()>) -> Self {
        Self {
            stopping,
            budget: None,
        }
    }

    /// For streams whose responses count against the memory budget.
    pub(crate) fn within(self, budget: Budget) -> Self {
        Self {
            budget: Some(budget),
            ..self
        }
    }

    fn stopped(&self) -> Stopped {
        let mut stopping = self.stopping.clone();
        // No value is ever sent: the loop ends when the sender is dropped.
        Box::pin(async move { while stopping.changed().await.is_ok() {} })
    }
}

impl<S> Layer<S> for StreamsLayer {
    type Service = Streams<S>;

    fn layer(&self, inner: S) -> Self::Service {
        let layer = self.clone();
        Streams { inner, layer }
    }
}

// === impl Streams ===

impl<S> Service<Request<Body>> for Streams<S>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>,
    S::Future: Send + 'static,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = ResponseFuture;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let pending = CallContext::of(&request).pending;
        let stopped = self.layer.stopped();
        let budget = self.layer.budget.clone();
        let answer = self.inner.call(request);
        Box::pin(async move {
            Ok(answer.await?.map(|body| {
                Body::new(Open {
                    body,
                    stopped,
                    is_over: false,
                    pending,
                    budget,
                })
            }))
        })
    }
}

// === impl Open ===

impl Open {
    fn end(&mut self, status: &Status) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        self.is_over = true;
        // Also drops the request, which may still be open.
        self.body = Body::empty();
        let mut trailers = HeaderMap::new();
        Poll::Ready(Some(match status.add_header(&mut trailers) {
            Ok(()) => Ok(Frame::trailers(trailers)),
            Err(status) => Err(status),
        }))
    }
}

impl http_body::Body for Open {
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
        let frame = match Pin::new(&mut this.body).poll_frame(cx) {
            Poll::Ready(Some(Ok(frame))) => frame,
            Poll::Ready(ended) => return Poll::Ready(ended),
            Poll::Pending => {
                ready!(this.stopped.as_mut().poll(cx));
                return this.end(&errors::stopping());
            }
        };
        let (Some(pending), Some(data)) = (&this.pending, frame.data_ref()) else {
            return Poll::Ready(Some(Ok(frame)));
        };
        let mut held = Reservation::default();
        if let Some(budget) = &this.budget
            && !budget.reserve(&mut held, data.len())
        {
            return this.end(&errors::overloaded());
        }
        let tracked = frame.map_data(|data| pending.track(data, Box::new(held)));
        Poll::Ready(Some(Ok(tracked)))
    }

    fn is_end_stream(&self) -> bool {
        self.is_over || self.body.is_end_stream()
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::{BodyExt as _, Full, StreamBody};
    use tonic::Code;
    use tower::{ServiceExt as _, service_fn};

    use super::*;

    /// The frames and the status of a stream whose body sends `first` and then nothing.
    async fn frames(layer: &StreamsLayer, first: &'static [u8]) -> (Vec<Bytes>, Option<Status>) {
        let endless = service_fn(move |_: Request<Body>| async move {
            let first = tokio_stream::iter([Ok::<_, Infallible>(Frame::data(Bytes::from(first)))]);
            let more = tokio_stream::pending();
            let body = StreamBody::new(tokio_stream::StreamExt::chain(first, more));
            Ok::<_, Infallible>(Response::new(Body::new(body)))
        });
        let mut request = Request::new(Body::new(Full::<Bytes>::default()));
        CallContext::edit(&mut request).pending = Some(PendingResponses::default());
        let answer = layer.layer(endless).oneshot(request).await;
        let body = answer.unwrap().into_body().collect().await.unwrap();
        let status = body.trailers().and_then(Status::from_header_map);
        (vec![body.to_bytes()], status)
    }

    #[tokio::test]
    async fn open_stream_ends_at_shutdown() {
        let (stop, stopping) = watch::channel(());
        drop(stop);
        let (said, status) = frames(&StreamsLayer::new(stopping), b"said before").await;
        assert_eq!(said, ["said before"]);
        assert_eq!(status.unwrap().code(), Code::Unavailable);
    }

    #[tokio::test]
    async fn stream_ends_when_the_budget_is_exhausted() {
        let (_stop, stopping) = watch::channel(());
        let layer = StreamsLayer::new(stopping).within(Budget::new(0, metrics::Gauge::noop()));
        let (said, status) = frames(&layer, b"no room").await;
        assert_eq!(said, [""]);
        assert_eq!(status.unwrap().code(), Code::ResourceExhausted);
    }
}
