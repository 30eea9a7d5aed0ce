//! Requests are taken in as a whole before anything is done with them, and answers are counted until the client
//! has taken them: both in bounded memory.
//!
//! A call that is still being sent takes no turn of a call that can be answered, however slowly it comes. And
//! with the whole request there it is known how much work it is.
//!
//! When the processors are busy calls wait before that, where no limit counts them: for their first turn on a thread,
//! and for their bytes to be read. So one that took long to arrive is refused if as many others are under way as may
//! be; one that arrives at once is not, however many others send slowly.

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
use tokio::time::timeout;
use tonic::Status;
use tonic::body::Body;
use tower::load_shed::error::Overloaded;
use tower::{BoxError, Layer, Service, ServiceExt as _};

use crate::server::admission::budget::{Budget, Held};
use crate::server::admission::buffered::{BufferedRequest, ENCODING, Refusal, announced};
use crate::server::admission::offload::AnswerBytes;
use crate::server::admission::overloaded;
use crate::server::call::ResponseFuture;
use crate::server::call::errors;
use crate::server::call::framing::PREFIX_BYTES;
use crate::server::connect;
use crate::server::connection::PendingResponses;
use crate::server::observability::calls::Begun;
use crate::wire::REQUEST_BYTES_MAX;

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

/// How many calls are under way, those that are still being sent included, unless their clients keep them waiting.
#[derive(Clone, Default)]
struct InFlight(Arc<AtomicUsize>);

/// One of them, unless it waits for its client.
struct InFlightGuard {
    all: InFlight,
    is_counted: bool,
}

#[derive(Clone)]
pub(crate) struct Buffer<S> {
    inner: S,
    /// Shared: each call takes it along.
    layer: Arc<BufferLayer>,
}

/// Why a request did not arrive.
enum NotArrived {
    /// The client has gone, or broke the protocol.
    Gone,
    TooLarge,
    /// There is no memory for it now.
    Shed,
}

// === impl InFlight ===

impl InFlight {
    /// One more, until it is dropped.
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

    /// What comes of waiting for the client, who may take so long and still be counted.
    async fn wait<T>(&mut self, time: Duration, mut client: impl Future<Output = T> + Unpin) -> T {
        if let Ok(came) = timeout(time, &mut client).await {
            return came;
        }
        self.count(false);
        let came = client.await;
        self.count(true);
        came
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
        // What is inside is asked once the request is there.
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
            let begun = request.extensions().get::<Begun>().copied();
            let mut guard = in_flight.clone().enter();
            let should_shed = |guard: &InFlightGuard| {
                let is_late = begun.is_some_and(|Begun(at)| at.elapsed() > *queue_time_max);
                is_late && guard.others() >= *calls_max
            };
            // Before its bytes are read, if it is known then.
            if should_shed(&guard) {
                return Ok(overloaded(shed));
            }
            let pending = request.extensions().get::<PendingResponses>().cloned();
            let (mut parts, body) = request.into_parts();
            let framing = Framing::of(&parts);
            let arriving = arrive(body, framing, budget, &mut guard, *queue_time_max);
            let arrived = match arriving.await {
                Ok(arrived) => arrived,
                Err(NotArrived::Shed) => return Ok(overloaded(shed)),
                Err(NotArrived::TooLarge) => return Ok(errors::request_too_large().into_http()),
                Err(NotArrived::Gone) => return Ok(gone().into_http()),
            };
            if should_shed(&guard) {
                return Ok(overloaded(shed));
            }
            let (bytes, held) = arrived;
            request_bytes.record(bytes.len() as f64);
            let request = match BufferedRequest::new(&mut parts, bytes, budget.clone(), held) {
                Ok(request) => Request::from_parts(parts, request),
                Err(Refusal::Shed) => return Ok(overloaded(shed)),
                Err(Refusal::Status(status)) => return Ok(status.into_http()),
            };
            let answer = match inner.oneshot(request).await {
                Ok(answer) => answer,
                Err(error) if error.is::<Overloaded>() => return Ok(overloaded(shed)),
                // There is no other below.
                Err(_) => return Ok(errors::bug().into_http()),
            };
            // Not so in tests without a connection.
            let Some(pending) = pending else {
                return Ok(answer);
            };
            let bytes = answer.extensions().get::<AnswerBytes>();
            let mut held = Held::default();
            if !budget.hold(&mut held, bytes.map_or(0, |AnswerBytes(bytes)| *bytes)) {
                return Ok(overloaded(shed));
            }
            Ok(answer.map(|body| count(body, pending, held)))
        })
    }
}

/// Nobody reads it.
fn gone() -> Status {
    Status::cancelled("the request was not sent to its end")
}

/// Whether messages come with their prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Framing {
    /// As gRPC has it.
    Prefixed,
    /// The body is one message, and its prefix has this flag.
    Bare { flag: u8 },
}

// === impl Framing ===

impl Framing {
    fn of(parts: &Parts) -> Self {
        if parts.extensions.get::<connect::Call>().is_none() {
            return Self::Prefixed;
        }
        let encoding = parts.headers.get(ENCODING).map(HeaderValue::as_bytes);
        Self::Bare {
            flag: u8::from(encoding.is_some_and(|it| it != b"identity")),
        }
    }
}

async fn arrive(
    mut body: Body,
    framing: Framing,
    budget: &Budget,
    guard: &mut InFlightGuard,
    queue_time_max: Duration,
) -> Result<(Bytes, Held), NotArrived> {
    let mut bytes = BytesMut::new();
    let mut held = Held::default();
    if let Framing::Bare { flag } = framing {
        if body.size_hint().lower() > REQUEST_BYTES_MAX as u64 {
            return Err(NotArrived::TooLarge);
        }
        bytes.put_slice(&[flag, 0, 0, 0, 0]);
    }
    // What a client does not send keeps nobody else waiting.
    while let Some(frame) = guard.wait(queue_time_max, body.frame()).await {
        let frame = frame.map_err(|_| NotArrived::Gone)?;
        let Ok(data) = frame.into_data() else {
            continue;
        };
        if bytes.len() + data.len() > REQUEST_BYTES_MAX + PREFIX_BYTES {
            return Err(NotArrived::TooLarge);
        }
        // While it grows, the old and the new are there.
        if !budget.hold(&mut held, bytes.capacity().max(bytes.len() + data.len())) {
            return Err(NotArrived::Shed);
        }
        // Copied: a frame keeps all that it was read with in memory.
        bytes.put(data);
        // What is announced to be too large need not come.
        if announced(&bytes).is_some_and(|bytes| bytes > REQUEST_BYTES_MAX) {
            return Err(NotArrived::TooLarge);
        }
    }
    if framing != Framing::Prefixed {
        let length = bytes.len() - PREFIX_BYTES;
        // An empty message is not compressed, whatever its headers say.
        if length == 0 {
            bytes[0] = 0;
        }
        // No longer than the limit of the contract.
        let length = u32::try_from(length).unwrap_or(u32::MAX);
        bytes[1..PREFIX_BYTES].copy_from_slice(&length.to_be_bytes());
    }
    Ok((bytes.freeze(), held))
}

/// Holds the memory of an answer until the connection has let go of it.
fn count(body: Body, pending: PendingResponses, held: Held) -> Body {
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

    /// The status of a call that waited so long for its first turn.
    async fn after(layer: &BufferLayer, waited: Duration) -> Option<Status> {
        let inner = service_fn(async |_: Request<BufferedRequest>| {
            Ok::<_, BoxError>(Response::new(Body::empty()))
        });
        let mut request = Request::new(Body::empty());
        let begun = Instant::now().checked_sub(waited).unwrap();
        request.extensions_mut().insert(Begun(begun));
        errors::failure(&layer.layer(inner).oneshot(request).await.unwrap())
    }

    #[tokio::test]
    async fn who_had_to_wait_is_refused_if_there_are_many() {
        let layer = mk_layer();
        let late = QUEUE_TIME_MAX + Duration::from_secs(1);
        assert!(after(&layer, late).await.is_none());
        let other = layer.in_flight.clone().enter();
        assert!(after(&layer, Duration::ZERO).await.is_none());
        let status = after(&layer, late).await;
        assert_eq!(status.unwrap().code(), tonic::Code::ResourceExhausted);
        // Whoever leaves makes room.
        drop(other);
        assert!(after(&layer, late).await.is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn who_is_kept_waiting_by_a_client_keeps_nobody_waiting() {
        let layer = mk_layer();
        let mut waits = layer.in_flight.clone().enter();
        let other = layer.in_flight.clone().enter();
        assert_eq!(other.others(), 1);
        let never = std::future::pending::<()>();
        let long = QUEUE_TIME_MAX * 2;
        let waiting = waits.wait(QUEUE_TIME_MAX, Box::pin(never));
        timeout(long, waiting).await.unwrap_err();
        assert_eq!(other.others(), 0);
        // Given up meanwhile.
        drop(waits);
        assert_eq!(other.others(), 0);
        let mut waits = layer.in_flight.clone().enter();
        waits
            .wait(QUEUE_TIME_MAX, Box::pin(tokio::time::sleep(long)))
            .await;
        assert_eq!(other.others(), 1);
    }

    #[tokio::test]
    async fn frames_are_put_together() {
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
        let arrived = arrive(body, framing, &layer.budget, &mut guard, QUEUE_TIME_MAX).await;
        let Ok((arrived, _held)) = arrived else {
            panic!("it fits");
        };
        assert_eq!(arrived, all);
    }

    #[tokio::test]
    async fn a_bare_message_gets_its_prefix() {
        let layer = mk_layer();
        for (sent, flag, expected) in [
            ("abc", 0, &b"\0\0\0\0\x03abc"[..]),
            ("abc", 1, b"\x01\0\0\0\x03abc"),
            ("", 1, b"\0\0\0\0\0"),
        ] {
            let body = Body::new(http_body_util::Full::from(sent));
            let mut guard = layer.in_flight.clone().enter();
            let framing = Framing::Bare { flag };
            let arriving = arrive(body, framing, &layer.budget, &mut guard, QUEUE_TIME_MAX);
            let Ok((arrived, _held)) = arriving.await else {
                panic!("it fits");
            };
            assert_eq!(arrived, expected);
        }
    }
}
