//! Buffers whole requests before they are processed, and counts the bytes of answers until the client has read them.
//! Both use bounded memory.
//!
//! A call that is still being received does not count against the limits of calls that are ready, however slow its
//! client is. When the whole request is available, its work can be estimated.
//!
//! On a busy machine, calls also wait outside of these limits: for their first poll, and until their bytes are read. So
//! a call that took long to receive is rejected while the maximum number of other calls is in flight. A call that arrives
//! quickly is not rejected, regardless of how many clients send slowly.

use std::convert::Infallible;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{BufMut as _, Bytes, BytesMut};
use http::request::Parts;
use http::{HeaderValue, Request, Response};
use http_body::Body as _;
use http_body_util::BodyExt as _;
use metrics::{Counter, Histogram};
use rollplan_wire::REQUEST_BYTES_MAX;
use tokio::time::timeout;
use tonic::Status;
use tonic::body::Body;
use tower::load_shed::error::Overloaded;
use tower::{BoxError, Layer, Service, ServiceExt as _};

use crate::admission::budget::{Budget, Reservation};
use crate::admission::buffered::{BufferedRequest, ENCODING, Rejection, announced_length};
use crate::admission::overloaded;
use crate::protocol::ResponseFuture;
use crate::protocol::context::{AnswerContext, CallContext};
use crate::protocol::errors;
use crate::protocol::framing::PREFIX_BYTES;
use crate::protocol::pending::PendingResponses;

/// Buffers requests, and counts the bytes of answers that clients have not read yet.
#[derive(Clone)]
pub(crate) struct BufferLayer {
    budget: Budget,
    queue_time_max: Duration,
    calls_max: usize,
    in_flight: InFlight,
    shed: Counter,
    request_bytes: Histogram,
}

/// The number of calls in flight. This includes calls that are being received, except while they wait for a slow
/// client.
#[derive(Clone, Default)]
struct InFlight(Arc<AtomicUsize>);

/// A call in flight. It does not count while it waits for its client.
struct InFlightGuard {
    all: InFlight,
    is_counted: bool,
}

#[derive(Clone)]
pub(crate) struct Buffer<S> {
    inner: S,
    /// Shared with the future of each call.
    layer: Arc<BufferLayer>,
}

/// Why a request was not received.
enum ReceiveError {
    /// The client disconnected, or violated the protocol.
    Disconnected,
    TooLarge,
    /// The memory budget is exhausted.
    Shed,
}

// === impl InFlight ===

impl InFlight {
    /// Counts a call until the guard is dropped.
    fn enter(self) -> InFlightGuard {
        let mut guard = InFlightGuard {
            all: self,
            is_counted: false,
        };
        guard.count(true);
        guard
    }
}

impl InFlightGuard {
    fn others(&self) -> usize {
        let all = self.all.0.load(Ordering::Relaxed);
        all.saturating_sub(usize::from(self.is_counted))
    }

    /// Waits for the client. The call stops counting after the given time.
    async fn wait<T>(&mut self, time: Duration, mut client: impl Future<Output = T> + Unpin) -> T {
        if let Ok(result) = timeout(time, &mut client).await {
            return result;
        }
        self.count(false);
        let result = client.await;
        self.count(true);
        result
    }

    fn count(&mut self, is_counted: bool) {
        match (self.is_counted, is_counted) {
            (false, true) => self.all.0.fetch_add(1, Ordering::Relaxed),
            (true, false) => self.all.0.fetch_sub(1, Ordering::Relaxed),
            _ => return,
        };
        self.is_counted = is_counted;
    }
}

impl Drop for InFlightGuard {
    fn drop(&mut self) {
        self.count(false);
    }
}

// === impl BufferLayer ===

impl BufferLayer {
    pub(crate) fn new(
        budget: Budget,
        queue_time_max: Duration,
        calls_max: usize,
        shed: Counter,
        request_bytes: Histogram,
    ) -> Self {
        Self {
            queue_time_max,
            calls_max,
            in_flight: InFlight::default(),
            budget,
            shed,
            request_bytes,
        }
    }
}

impl<S> Layer<S> for BufferLayer {
    type Service = Buffer<S>;

    fn layer(&self, inner: S) -> Self::Service {
        let layer = Arc::new(self.clone());
        Buffer { inner, layer }
    }
}

// === impl Buffer ===

impl<S> Service<Request<Body>> for Buffer<S>
where
    S: Service<Request<BufferedRequest>, Response = Response<Body>, Error = BoxError>
        + Clone
        + Send
        + 'static,
    S::Future: Send,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = ResponseFuture;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        // The readiness of the inner service is checked once the request is complete.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let Self { inner, layer } = self.clone();
        Box::pin(async move {
            let BufferLayer {
                budget,
                queue_time_max,
                calls_max,
                in_flight,
                shed,
                request_bytes,
            } = &*layer;
            let CallContext {
                received_at,
                pending,
                ..
            } = CallContext::of(&request);
            let mut guard = in_flight.clone().enter();
            let should_shed = |guard: &InFlightGuard| {
                let is_late = received_at.is_some_and(|at| at.elapsed() > *queue_time_max);
                is_late && guard.others() >= *calls_max
            };
            // Before the bytes are read, if the call is late already.
            if should_shed(&guard) {
                return Ok(overloaded(shed));
            }
            let (mut parts, body) = request.into_parts();
            let framing = Framing::of(&parts);
            let receiving = receive(body, framing, budget, &mut guard, *queue_time_max);
            let received = match receiving.await {
                Ok(received) => received,
                Err(ReceiveError::Shed) => return Ok(overloaded(shed)),
                Err(ReceiveError::TooLarge) => return Ok(errors::request_too_large().into_http()),
                Err(ReceiveError::Disconnected) => return Ok(disconnected().into_http()),
            };
            if should_shed(&guard) {
                return Ok(overloaded(shed));
            }
            let (bytes, held) = received;
            request_bytes.record(bytes.len() as f64);
            let request = match BufferedRequest::new(&mut parts, bytes, budget.clone(), held) {
                Ok(request) => Request::from_parts(parts, request),
                Err(Rejection::Shed) => return Ok(overloaded(shed)),
                Err(Rejection::Status(status)) => return Ok(status.into_http()),
            };
            let answer = match inner.oneshot(request).await {
                Ok(answer) => answer,
                Err(error) if error.is::<Overloaded>() => return Ok(overloaded(shed)),
                // The inner services have no other error.
                Err(_) => return Ok(errors::bug().into_http()),
            };
            // `None` in tests without a connection.
            let Some(pending) = pending else {
                return Ok(answer);
            };
            let bytes = answer.extensions().get::<AnswerContext>();
            let mut held = Reservation::default();
            if !budget.reserve(&mut held, bytes.map_or(0, |it| it.bytes)) {
                return Ok(overloaded(shed));
            }
            Ok(answer.map(|body| count(body, pending, held)))
        })
    }
}

/// The status of a call whose client has disconnected. Only the log shows it.
fn disconnected() -> Status {
    Status::cancelled("the client did not send the complete request")
}

/// How the messages in a body are framed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Framing {
    /// Each message has a prefix, as in gRPC.
    Prefixed,
    /// The body is one message without a prefix. The flag is for the prefix to add.
    Bare { flag: u8 },
}

// === impl Framing ===

impl Framing {
    fn of(parts: &Parts) -> Self {
        let context = parts.extensions.get::<CallContext>();
        if context.is_none_or(|context| context.encoding.is_none()) {
            return Self::Prefixed;
        }
        let encoding = parts.headers.get(ENCODING).map(HeaderValue::as_bytes);
        Self::Bare {
            flag: u8::from(encoding.is_some_and(|it| it != b"identity")),
        }
    }
}

async fn receive(
    mut body: Body,
    framing: Framing,
    budget: &Budget,
    guard: &mut InFlightGuard,
    queue_time_max: Duration,
) -> Result<(Bytes, Reservation), ReceiveError> {
    let mut bytes = BytesMut::new();
    let mut held = Reservation::default();
    if let Framing::Bare { flag } = framing {
        if body.size_hint().lower() > REQUEST_BYTES_MAX as u64 {
            return Err(ReceiveError::TooLarge);
        }
        bytes.put_slice(&[flag, 0, 0, 0, 0]);
    }
    // While a call waits for its client, it does not count.
    while let Some(frame) = guard.wait(queue_time_max, body.frame()).await {
        let frame = frame.map_err(|_| ReceiveError::Disconnected)?;
        let Ok(data) = frame.into_data() else {
            continue;
        };
        if bytes.len() + data.len() > REQUEST_BYTES_MAX + PREFIX_BYTES {
            return Err(ReceiveError::TooLarge);
        }
        // While the buffer grows, the old and the new allocation exist.
        if !budget.reserve(&mut held, bytes.capacity().max(bytes.len() + data.len())) {
            return Err(ReceiveError::Shed);
        }
        // Copied, because a frame keeps the whole read buffer in memory.
        bytes.put(data);
        // A message that is announced as too large is rejected without reading it.
        if announced_length(&bytes).is_some_and(|bytes| bytes > REQUEST_BYTES_MAX) {
            return Err(ReceiveError::TooLarge);
        }
    }
    if framing != Framing::Prefixed {
        let length = bytes.len() - PREFIX_BYTES;
        // An empty message is not compressed, regardless of the headers.
        if length == 0 {
            bytes[0] = 0;
        }
        // Below the limit of the contract, so it fits.
        let length = u32::try_from(length).unwrap_or(u32::MAX);
        bytes[1..PREFIX_BYTES].copy_from_slice(&length.to_be_bytes());
    }
    Ok((bytes.freeze(), held))
}

/// Counts the memory of an answer until the connection has sent it.
fn count(body: Body, pending: PendingResponses, held: Reservation) -> Body {
    let held = Arc::new(held);
    Body::new(body.map_frame(move |frame| {
        frame.map_data(|data| {
            let held = Arc::clone(&held);
            pending.track(data, Box::new(held))
        })
    }))
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use http_body::Frame;
    use metrics::Gauge;
    use tower::service_fn;

    use super::*;

    const QUEUE_TIME_MAX: Duration = Duration::from_secs(60);

    fn mk_layer() -> BufferLayer {
        BufferLayer::new(
            Budget::new(32, Gauge::noop()),
            QUEUE_TIME_MAX,
            1,
            Counter::noop(),
            Histogram::noop(),
        )
    }

    /// The status of a call that was first polled after this time.
    async fn after(layer: &BufferLayer, waited: Duration) -> Option<Status> {
        let inner = service_fn(async |_: Request<BufferedRequest>| {
            Ok::<_, BoxError>(Response::new(Body::empty()))
        });
        let mut request = Request::new(Body::empty());
        let received_at = Instant::now().checked_sub(waited).unwrap();
        CallContext::edit(&mut request).received_at = Some(received_at);
        errors::failure(&layer.layer(inner).oneshot(request).await.unwrap())
    }

    #[tokio::test]
    async fn late_calls_are_rejected_at_the_limit() {
        let layer = mk_layer();
        let late = QUEUE_TIME_MAX + Duration::from_secs(1);
        assert!(after(&layer, late).await.is_none());
        let other = layer.in_flight.clone().enter();
        assert!(after(&layer, Duration::ZERO).await.is_none());
        let status = after(&layer, late).await;
        assert_eq!(status.unwrap().code(), tonic::Code::ResourceExhausted);
        // A call that ends makes room.
        drop(other);
        assert!(after(&layer, late).await.is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn calls_waiting_for_their_client_do_not_count() {
        let layer = mk_layer();
        let mut waits = layer.in_flight.clone().enter();
        let other = layer.in_flight.clone().enter();
        assert_eq!(other.others(), 1);
        let never = std::future::pending::<()>();
        let long = QUEUE_TIME_MAX * 2;
        let waiting = waits.wait(QUEUE_TIME_MAX, Box::pin(never));
        timeout(long, waiting).await.unwrap_err();
        assert_eq!(other.others(), 0);
        // The call is dropped while it waits.
        drop(waits);
        assert_eq!(other.others(), 0);
        let mut waits = layer.in_flight.clone().enter();
        waits
            .wait(QUEUE_TIME_MAX, Box::pin(tokio::time::sleep(long)))
            .await;
        assert_eq!(other.others(), 1);
    }

    #[tokio::test]
    async fn frames_are_concatenated() {
        let all: Vec<u8> = [0, 0, 0, 0, 0]
            .into_iter()
            .chain((0..=255).cycle())
            .take(10_000)
            .collect();
        let frames = all
            .chunks(3)
            .map(|part| Frame::data(Bytes::copy_from_slice(part)));
        let frames: Vec<_> = frames.map(Ok::<_, Infallible>).collect();
        let body = Body::new(http_body_util::StreamBody::new(tokio_stream::iter(frames)));
        let layer = mk_layer();
        let mut guard = layer.in_flight.clone().enter();
        let framing = Framing::Prefixed;
        let received = receive(body, framing, &layer.budget, &mut guard, QUEUE_TIME_MAX).await;
        let Ok((received, _held)) = received else {
            panic!("it fits");
        };
        assert_eq!(received, all);
    }

    #[tokio::test]
    async fn bare_messages_are_received_up_to_the_limit_only() {
        const PART: usize = 1 << 20;
        let layer = mk_layer();
        let parts = Arc::new(AtomicUsize::new(0));
        let polled = Arc::clone(&parts);
        let frames = std::iter::repeat_with(move || {
            polled.fetch_add(1, Ordering::Relaxed);
            Ok::<_, Infallible>(Frame::data(Bytes::from(vec![0; PART])))
        });
        let body = http_body_util::StreamBody::new(tokio_stream::iter(frames));
        let mut guard = layer.in_flight.clone().enter();
        let framing = Framing::Bare { flag: 0 };
        let budget = &layer.budget;
        let received = receive(Body::new(body), framing, budget, &mut guard, QUEUE_TIME_MAX);
        assert!(matches!(received.await, Err(ReceiveError::TooLarge)));
        assert_eq!(parts.load(Ordering::Relaxed), REQUEST_BYTES_MAX / PART + 1);
    }

    #[tokio::test]
    async fn bare_message_gets_a_prefix() {
        let layer = mk_layer();
        for (sent, flag, expected) in [
            ("abc", 0, &b"\0\0\0\0\x03abc"[..]),
            ("abc", 1, b"\x01\0\0\0\x03abc"),
            ("", 1, b"\0\0\0\0\0"),
        ] {
            let body = Body::new(http_body_util::Full::from(sent));
            let mut guard = layer.in_flight.clone().enter();
            let framing = Framing::Bare { flag };
            let receiving = receive(body, framing, &layer.budget, &mut guard, QUEUE_TIME_MAX);
            let Ok((received, _held)) = receiving.await else {
                panic!("it fits");
            };
            assert_eq!(received, expected);
        }
    }
}
