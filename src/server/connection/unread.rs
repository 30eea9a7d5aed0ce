//! HTTP/1 requests that are answered before they have been read to their end, for example because of their headers.
//!
//! hyper closes the connection after such an answer, unless the rest of the body has already arrived. A client that does not
//! know this may send its next call on that connection, and lose it. So the rest is read if it is small, and otherwise the
//! client is told that the connection is closed. Go's HTTP server does the same.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONNECTION, EXPECT};
use http::{HeaderValue, Request, Response};
use http_body::{Body as HttpBody, Frame, SizeHint};
use http_body_util::BodyExt as _;
use tokio::time::timeout;
use tonic::body::Body;

/// How many bytes of a body are read after the answer is known.
const UNREAD_BYTES_MAX: u64 = 256 << 10;

/// How long the answer waits for these bytes.
const UNREAD_TIMEOUT: Duration = Duration::from_secs(1);

/// The body of a request, which can still be read when the service has dropped it.
pub(super) struct Unread<B>(Arc<Mutex<State<B>>>);

struct State<B> {
    body: B,
    /// Whether the client waits for "100 Continue", which is sent when the body is first polled.
    expects_continue: bool,
    is_at_end: bool,
}

impl<B> Unread<B>
where
    B: HttpBody<Data = Bytes> + Unpin,
{
    /// Shares the body of a request.
    pub(super) fn of(request: Request<B>) -> (Request<Self>, Self) {
        let expects_continue = request.headers().contains_key(EXPECT);
        let (parts, body) = request.into_parts();
        let state = State {
            is_at_end: body.is_end_stream(),
            body,
            expects_continue,
        };
        let unread = Self(Arc::new(Mutex::new(state)));
        (Request::from_parts(parts, unread.share()), unread)
    }

    fn share(&self) -> Self {
        Self(Arc::clone(&self.0))
    }

    fn state(&self) -> MutexGuard<'_, State<B>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the rest of the body, or tells the client that the connection is closed after this answer.
    pub(super) async fn before(mut self, mut answer: Response<Body>) -> Response<Body> {
        if !self.read_rest().await {
            let close = HeaderValue::from_static("close");
            answer.headers_mut().insert(CONNECTION, close);
        }
        answer
    }

    /// Returns whether the end was reached.
    async fn read_rest(&mut self) -> bool {
        {
            let state = self.state();
            let is_large = state.body.size_hint().lower() > UNREAD_BYTES_MAX;
            if state.is_at_end || state.expects_continue || is_large {
                return state.is_at_end;
            }
        }
        let read = async {
            let mut bytes = 0;
            while let Some(Ok(frame)) = self.frame().await {
                bytes += frame.data_ref().map_or(0, Bytes::len) as u64;
                if bytes > UNREAD_BYTES_MAX {
                    break;
                }
            }
        };
        _ = timeout(UNREAD_TIMEOUT, read).await;
        self.state().is_at_end
    }
}

impl<B> HttpBody for Unread<B>
where
    B: HttpBody<Data = Bytes> + Unpin,
{
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let mut state = self.state();
        state.expects_continue = false;
        let polled = Pin::new(&mut state.body).poll_frame(cx);
        if let Poll::Ready(frame) = &polled {
            state.is_at_end = frame.is_none();
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.state().body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.state().body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use http_body_util::{Full, StreamBody};
    use tokio_stream::StreamExt as _;

    use super::*;

    type Chunks = Vec<Result<Frame<Bytes>, Infallible>>;

    fn chunks(count: usize, len: usize) -> Chunks {
        let chunk = Bytes::from(vec![0; len]);
        (0..count).map(|_| Ok(Frame::data(chunk.clone()))).collect()
    }

    /// Whether the connection stays open after an answer to a request with this body, of which the service reads a part.
    async fn stays_open(body: impl HttpBody<Data = Bytes> + Unpin, read: usize) -> bool {
        let (request, unread) = Unread::of(Request::new(body));
        let mut body = request.into_body();
        for _ in 0..read {
            body.frame().await;
        }
        drop(body);
        let answer = unread.before(Response::new(Body::empty())).await;
        !answer.headers().contains_key(CONNECTION)
    }

    #[tokio::test(start_paused = true)]
    async fn rest_of_a_small_body_is_read() {
        let small = || StreamBody::new(tokio_stream::iter(chunks(4, 1000)));
        for read in [0, 1, 4, 5] {
            assert!(stays_open(small(), read).await, "{read}");
        }
        assert!(stays_open(Full::from(vec![0; 1000]), 0).await);
        assert!(stays_open(Body::empty(), 0).await);
    }

    #[tokio::test(start_paused = true)]
    async fn connection_is_closed_after_an_answer_to_the_start_of_a_large_body() {
        let large = || StreamBody::new(tokio_stream::iter(chunks(4, 100_000)));
        assert!(!stays_open(large(), 0).await);
        assert!(stays_open(large(), 2).await);
        let announced = Full::from(vec![0; 300_000]);
        assert!(!stays_open(announced, 0).await);
    }

    #[tokio::test(start_paused = true)]
    async fn connection_is_closed_if_the_rest_does_not_arrive() {
        let first = tokio_stream::iter(chunks(1, 1000));
        let endless = StreamBody::new(first.chain(tokio_stream::pending()));
        assert!(!stays_open(Box::pin(endless), 1).await);
    }

    #[tokio::test(start_paused = true)]
    async fn body_that_was_not_requested_is_not_read() {
        let mut request = Request::new(StreamBody::new(tokio_stream::iter(chunks(1, 10))));
        let expected = HeaderValue::from_static("100-continue");
        request.headers_mut().insert(EXPECT, expected);
        let (request, mut unread) = Unread::of(request);
        drop(request);
        let answer = unread.share().before(Response::new(Body::empty())).await;
        assert_eq!(answer.headers()[CONNECTION], "close");
        assert!(unread.frame().await.is_some());
    }
}
