//! Counts calls: each call is counted once as started and once as handled, regardless of what ends it.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use bytes::Bytes;
use http::{Request, Response};
use http_body::{Frame, SizeHint};
use metrics::Counter;
use tonic::body::Body;
use tonic::{Code, Status};
use tower::{Layer, Service};

use crate::observability::metrics::{MethodMetrics, Metrics};
use crate::protocol::ResponseFuture;
use crate::protocol::context::CallContext;
use crate::protocol::errors;
use crate::protocol::framing::Messages;

/// Counts every call.
#[derive(Clone)]
pub(crate) struct CountLayer {
    metrics: Arc<Metrics>,
}

#[derive(Clone)]
pub(crate) struct Count<S> {
    inner: S,
    metrics: Arc<Metrics>,
}

/// A call in flight. If it is dropped before its code is known, the client canceled it.
struct CountedCall {
    method: Arc<MethodMetrics>,
    metrics: Arc<Metrics>,
    start: Instant,
    code: Code,
}

/// Forwards a body and counts its messages.
struct CountedBody {
    body: Body,
    /// `None` if the whole body is one message, which is counted at its end.
    messages: Option<Messages>,
    counter: Counter,
    /// Set for a response: the call ends with its body.
    call: Option<CountedCall>,
}

// === impl CountLayer ===

impl CountLayer {
    pub(crate) fn new(metrics: Arc<Metrics>) -> Self {
        Self { metrics }
    }
}

impl<S> Layer<S> for CountLayer {
    type Service = Count<S>;

    fn layer(&self, inner: S) -> Self::Service {
        let metrics = Arc::clone(&self.metrics);
        Count { inner, metrics }
    }
}

// === impl Count ===

impl<S> Service<Request<Body>> for Count<S>
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

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let call = CountedCall::start(&self.metrics, request.uri().path());
        let context = CallContext::edit(&mut request);
        context.received_at = Some(call.start);
        let is_framed = context.encoding.is_none();
        let received = call.method.received.clone();
        let messages = is_framed.then(Messages::default);
        let answer = self
            .inner
            .call(request.map(|body| CountedBody::body(body, messages, received, None)));
        Box::pin(async move {
            let response = answer.await?;
            Ok(match errors::failure(&response) {
                Some(status) => {
                    if errors::is_bug(&status) {
                        call.method.internal_errors.increment(1);
                    }
                    call.end(status.code());
                    response
                }
                None => {
                    let sent = call.method.sent.clone();
                    let messages = Some(Messages::default());
                    response.map(|body| CountedBody::body(body, messages, sent, Some(call)))
                }
            })
        })
    }
}

// === impl CountedCall ===

impl CountedCall {
    fn start(metrics: &Arc<Metrics>, path: &str) -> Self {
        let method = Arc::clone(metrics.series.method(path));
        method.started.increment(1);
        if method.is_planner {
            metrics.series.in_flight.increment(1);
        }
        Self {
            method,
            metrics: Arc::clone(metrics),
            start: Instant::now(),
            code: Code::Cancelled,
        }
    }

    fn end(mut self, code: Code) {
        self.code = code;
    }
}

impl Drop for CountedCall {
    fn drop(&mut self) {
        self.method.handled(self.code, self.start);
        if self.method.is_planner {
            self.metrics.series.in_flight.decrement(1);
        }
    }
}

// === impl CountedBody ===

impl CountedBody {
    fn body(
        body: Body,
        messages: Option<Messages>,
        counter: Counter,
        call: Option<CountedCall>,
    ) -> Body {
        Body::new(Self {
            body,
            messages,
            counter,
            call,
        })
    }
}

impl http_body::Body for CountedBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let this = &mut *self;
        let polled = Pin::new(&mut this.body).poll_frame(cx);
        match &polled {
            Poll::Ready(Some(Ok(frame))) => {
                if let Some(data) = frame.data_ref()
                    && let Some(messages) = &mut this.messages
                {
                    this.counter.increment(messages.count(data));
                }
                if let Some(trailers) = frame.trailers_ref()
                    && let Some(call) = this.call.take()
                {
                    let status = Status::from_header_map(trailers);
                    call.end(status.map_or(Code::Unknown, |status| status.code()));
                }
            }
            Poll::Ready(Some(Err(status))) => {
                if let Some(call) = this.call.take() {
                    call.end(status.code());
                }
            }
            // The body is not polled again.
            Poll::Ready(None) if this.messages.is_none() => this.counter.increment(1),
            Poll::Ready(None) | Poll::Pending => {}
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
