//! A connection: plain or encrypted, closed when nothing comes, or when answers are not taken.

use std::any::Any;
use std::collections::BTreeMap;
use std::future::Future as _;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use metrics::Counter;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio::time::{Instant, Sleep, sleep};
use tokio_rustls::server::TlsStream;
use tonic::transport::server::Connected;

/// How long a client may take to read an answer. More means that it does not: the largest answer needs 140 KB a
/// second.
pub(super) const TAKE_TIME_MAX: Duration = Duration::from_secs(30);

/// How often a connection is looked at.
const LOOK_INTERVAL: Duration = Duration::from_secs(5);

/// What a client says first, in HTTP/2. Who has not said it yet cannot be told that the server stops.
const PREFACE_BYTES: usize = 24;

/// See the text of this file.
pub(super) struct Connection {
    stream: Stream,
    /// The longest silence: clients that live answer pings. Where pings are sent, whoever sends them closes the
    /// connection after it; where they are not, it is done here, a look later.
    silence_max: Duration,
    last_read: Instant,
    bytes_read: usize,
    /// Its sender is dropped when the server stops.
    stopping: watch::Receiver<()>,
    look: Pin<Box<Sleep>>,
    untaken: Untaken,
    closed: Closed,
    /// Its place among the connections that there may be.
    _place: OwnedSemaphorePermit,
}

pub(super) enum Stream {
    Plain(TcpStream),
    Encrypted(Box<TlsStream<TcpStream>>),
}

/// Connections closed from here, by the reason.
#[derive(Clone)]
pub(super) struct Closed {
    pub(super) silent: Counter,
    pub(super) slow: Counter,
}

/// Answers of a connection that its client has not taken yet. Every call knows it by its request.
#[derive(Clone, Default)]
pub(super) struct Untaken(Arc<Mutex<Answers>>);

#[derive(Default)]
struct Answers {
    next: u64,
    /// When they were given; the first is the oldest.
    since: BTreeMap<u64, Instant>,
}

/// Bytes of an answer.
struct Tracked {
    data: Bytes,
    answer: u64,
    untaken: Untaken,
    _held: Box<dyn Any + Send + Sync>,
}

// === impl Connection ===

impl Connection {
    pub(super) fn new(
        stream: Stream,
        silence_max: Duration,
        closed: Closed,
        stopping: watch::Receiver<()>,
        place: OwnedSemaphorePermit,
    ) -> Self {
        Self {
            stream,
            silence_max,
            last_read: Instant::now(),
            bytes_read: 0,
            stopping,
            look: Box::pin(sleep(LOOK_INTERVAL)),
            untaken: Untaken::default(),
            closed,
            _place: place,
        }
    }

    /// Looks now and then while there is nothing else to do. It may be reading that waits, or writing.
    fn unless_closed<T>(
        &mut self,
        cx: &mut Context<'_>,
        done: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if done.is_pending()
            && let Err(closed) = self.poll_look(cx)
        {
            return Poll::Ready(Err(closed));
        }
        done
    }

    /// Whether it is to be closed.
    fn poll_look(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        while self.look.as_mut().poll(cx).is_ready() {
            let now = Instant::now();
            if self.bytes_read < PREFACE_BYTES && self.stopping.has_changed().is_err() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            if now - self.last_read >= self.silence_max + LOOK_INTERVAL {
                return Err(io::ErrorKind::TimedOut.into());
            }
            if self.untaken.longest(now) >= TAKE_TIME_MAX {
                self.closed.slow.increment(1);
                return Err(io::ErrorKind::TimedOut.into());
            }
            self.look.as_mut().reset(now + LOOK_INTERVAL);
        }
        Ok(())
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // Its client's own end of it would have been read.
        if self.last_read.elapsed() >= self.silence_max {
            self.closed.silent.increment(1);
        }
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let before = buf.filled().len();
        let read = match &mut this.stream {
            Stream::Plain(stream) => Pin::new(stream).poll_read(cx, buf),
            Stream::Encrypted(stream) => Pin::new(stream).poll_read(cx, buf),
        };
        if read.is_ready() {
            this.last_read = Instant::now();
            this.bytes_read += buf.filled().len() - before;
        }
        this.unless_closed(cx, read)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = match &mut self.stream {
            Stream::Plain(stream) => Pin::new(stream).poll_write(cx, buf),
            Stream::Encrypted(stream) => Pin::new(stream).poll_write(cx, buf),
        };
        self.unless_closed(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = match &mut self.stream {
            Stream::Plain(stream) => Pin::new(stream).poll_write_vectored(cx, bufs),
            Stream::Encrypted(stream) => Pin::new(stream).poll_write_vectored(cx, bufs),
        };
        self.unless_closed(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        match &self.stream {
            Stream::Plain(stream) => stream.is_write_vectored(),
            Stream::Encrypted(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.stream {
            Stream::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Stream::Encrypted(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.stream {
            Stream::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Stream::Encrypted(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}

impl Connected for Connection {
    type ConnectInfo = Untaken;

    fn connect_info(&self) -> Untaken {
        self.untaken.clone()
    }
}

// === impl Untaken ===

impl Untaken {
    /// Counts these bytes until the last copy of them is dropped, and then drops what is held for them.
    pub(super) fn track(&self, data: Bytes, held: Box<dyn Any + Send + Sync>) -> Bytes {
        if data.is_empty() {
            return data;
        }
        let mut answers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let answer = answers.next;
        answers.next += 1;
        answers.since.insert(answer, Instant::now());
        drop(answers);
        Bytes::from_owner(Tracked {
            data,
            answer,
            untaken: self.clone(),
            _held: held,
        })
    }

    fn longest(&self, now: Instant) -> Duration {
        let answers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let oldest = answers.since.first_key_value();
        oldest.map_or(Duration::ZERO, |(_, since)| now - *since)
    }
}

// === impl Tracked ===

impl AsRef<[u8]> for Tracked {
    fn as_ref(&self) -> &[u8] {
        &self.data
    }
}

impl Drop for Tracked {
    fn drop(&mut self) {
        let answers = self.untaken.0.lock();
        let mut answers = answers.unwrap_or_else(PoisonError::into_inner);
        answers.since.remove(&self.answer);
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use metrics::Counter;
    use tokio::net::TcpListener;
    use tokio::sync::Semaphore;
    use tokio::time::timeout;

    use super::*;

    const SILENCE_MAX: Duration = Duration::from_secs(100);

    /// A connection, and its other end.
    async fn mk_connection(stopping: watch::Receiver<()>) -> (Connection, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (client, server) = tokio::join!(TcpStream::connect(address), listener.accept());
        let place = Arc::new(Semaphore::new(1)).acquire_owned().await.unwrap();
        let closed = Closed {
            silent: Counter::noop(),
            slow: Counter::noop(),
        };
        let server = server.unwrap().0;
        let connection =
            Connection::new(Stream::Plain(server), SILENCE_MAX, closed, stopping, place);
        // From here on time passes when there is nothing else to do.
        tokio::time::pause();
        (connection, client.unwrap())
    }

    /// After what time reading ends, nothing having come.
    async fn closes_after(connection: &mut Connection) -> Duration {
        let start = Instant::now();
        let mut bytes = [0; 8];
        let mut buf = ReadBuf::new(&mut bytes);
        let read = poll_fn(|cx| Pin::new(&mut *connection).poll_read(cx, &mut buf));
        let read = timeout(SILENCE_MAX * 2, read).await.expect("it is closed");
        assert_eq!(read.unwrap_err().kind(), io::ErrorKind::TimedOut);
        start.elapsed()
    }

    fn check(took: Duration, time: Duration) {
        assert!(took >= time && took <= time + LOOK_INTERVAL * 2, "{took:?}");
    }

    #[tokio::test]
    async fn silence_ends_a_connection() {
        let (_stop, stopping) = watch::channel(());
        let (mut connection, _client) = mk_connection(stopping).await;
        check(closes_after(&mut connection).await, SILENCE_MAX);
    }

    #[tokio::test]
    async fn a_connection_that_says_nothing_does_not_hold_the_stop() {
        let (stop, stopping) = watch::channel(());
        drop(stop);
        let (mut connection, _client) = mk_connection(stopping).await;
        check(closes_after(&mut connection).await, LOOK_INTERVAL);
    }

    #[tokio::test]
    async fn a_connection_that_is_open_is_told_of_the_stop_and_not_cut() {
        let (stop, stopping) = watch::channel(());
        drop(stop);
        let (mut connection, _client) = mk_connection(stopping).await;
        connection.bytes_read = PREFACE_BYTES;
        check(closes_after(&mut connection).await, SILENCE_MAX);
    }

    #[tokio::test]
    async fn an_answer_that_is_not_taken_ends_a_connection_and_one_that_is_does_not() {
        let (_stop, stopping) = watch::channel(());
        let (mut connection, _client) = mk_connection(stopping).await;
        let taken = connection
            .untaken
            .track(Bytes::from_static(b"a"), Box::new(()));
        drop(taken);
        let untaken = connection
            .untaken
            .track(Bytes::from_static(b"b"), Box::new(()));
        check(closes_after(&mut connection).await, TAKE_TIME_MAX);
        drop(untaken);
    }
}
