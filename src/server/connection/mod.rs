//! Connections, plain or encrypted. They are closed if the client is silent or does not read its responses.

pub(crate) mod batched;
pub(crate) mod clients;
pub(crate) mod descriptors;
pub(crate) mod listener;
pub(crate) mod serve;
pub(crate) mod tls;
mod unread;

use std::future::Future as _;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf as _, BytesMut};
use metrics::{Counter, Gauge};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio::time::{Instant, Sleep, sleep};
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::server::TlsStream;

use crate::protocol::pending::PendingResponses;

/// How long a client may take to read a response. The largest response needs 140 KB per second, so a slower client has
/// most likely stopped reading.
pub(crate) const RESPONSE_READ_TIMEOUT: Duration = Duration::from_secs(30);

/// How often a connection is checked for an idle client.
const IDLE_CHECK_INTERVAL: Duration = Duration::from_secs(5);

/// The length of the HTTP/2 client preface, which is shorter than any HTTP/1 request. A client that has not sent it
/// cannot be told that the server is shutting down.
const PREFACE_BYTES: usize = 24;

/// The size from which a batch is sent at once.
const BATCH_BYTES_MAX: usize = 32 << 10;

/// A client's connection.
pub(crate) struct Connection {
    stream: Stream,
    /// Bytes of responses that are sent together, see [`Batched`](batched::Batched).
    batch: BytesMut,
    /// When the first byte was added to the batch.
    batch_since: Instant,
    /// The longest permitted silence. A live client answers pings: if pings are sent, hyper closes a silent connection.
    /// Otherwise, it is closed by the next check here.
    silence_max: Duration,
    last_read: Instant,
    opened: Instant,
    bytes_read: usize,
    /// Shared with each call in flight.
    calls: Arc<()>,
    /// The sender is dropped when the server shuts down.
    stopping: watch::Receiver<()>,
    next_check: Pin<Box<Sleep>>,
    pending_responses: PendingResponses,
    metrics: ConnectionMetrics,
    /// Its share of the connection limit.
    _permit: OwnedSemaphorePermit,
}

pub(crate) enum Stream {
    Plain(TcpStream),
    Encrypted(Box<TlsStream<TcpStream>>),
}

/// A stream of either kind.
trait Io: AsyncRead + AsyncWrite + Unpin {}

impl<T: AsyncRead + AsyncWrite + Unpin> Io for T {}

/// The number of open connections, and of those closed by the server, by reason.
#[derive(Clone)]
pub(crate) struct ConnectionMetrics {
    pub(crate) open: Gauge,
    pub(crate) silent: Counter,
    pub(crate) unread: Counter,
}

/// The HTTP/1 calls in flight on a connection. Their clients are silent while they wait.
#[derive(Clone)]
pub(crate) struct Calls(Weak<()>);

/// An HTTP/1 call in flight, until dropped.
pub(crate) struct RunningCall {
    _of: Option<Arc<()>>,
}

// === impl Connection ===

impl Connection {
    pub(crate) fn new(
        stream: Stream,
        silence_max: Duration,
        metrics: ConnectionMetrics,
        stopping: watch::Receiver<()>,
        permit: OwnedSemaphorePermit,
    ) -> Self {
        metrics.open.increment(1);
        let now = Instant::now();
        Self {
            stream,
            batch: BytesMut::new(),
            batch_since: now,
            silence_max,
            last_read: now,
            opened: now,
            calls: Arc::default(),
            bytes_read: 0,
            stopping,
            next_check: Box::pin(sleep(IDLE_CHECK_INTERVAL)),
            pending_responses: PendingResponses::default(),
            metrics,
            _permit: permit,
        }
    }

    pub(crate) fn calls(&self) -> Calls {
        Calls(Arc::downgrade(&self.calls))
    }

    pub(crate) fn pending_responses(&self) -> PendingResponses {
        self.pending_responses.clone()
    }

    /// The client's certificate, if TLS requires one.
    pub(crate) fn peer_certificate(&self) -> Option<&CertificateDer<'static>> {
        match &self.stream {
            Stream::Plain(_) => None,
            Stream::Encrypted(stream) => stream.get_ref().1.peer_certificates()?.first(),
        }
    }

    /// Checks for an idle client if a read or write is pending.
    fn unless_closed<T>(
        &mut self,
        cx: &mut Context<'_>,
        polled: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if polled.is_pending()
            && let Err(closed) = self.poll_idle_check(cx)
        {
            return Poll::Ready(Err(closed));
        }
        polled
    }

    fn poll_read(&mut self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = self.stream.io().poll_read(cx, buf);
        if read.is_ready() {
            self.last_read = Instant::now();
            self.bytes_read += buf.filled().len() - before;
        }
        self.unless_closed(cx, read)
    }

    /// Adds the bytes to the batch. If the batch is full, sends it first.
    fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let len: usize = bufs.iter().map(|buf| buf.len()).sum();
        if self.batch.len() + len > BATCH_BYTES_MAX {
            ready!(self.poll_send_batch(cx))?;
        }
        if len > BATCH_BYTES_MAX {
            let written = self.stream.io().poll_write_vectored(cx, bufs);
            return self.unless_closed(cx, written);
        }
        if self.batch.is_empty() {
            self.batch = BytesMut::with_capacity(BATCH_BYTES_MAX);
            self.batch_since = Instant::now();
        }
        for buf in bufs {
            self.batch.extend_from_slice(buf);
        }
        Poll::Ready(Ok(len))
    }

    /// Sends the batch.
    fn poll_send_batch(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.batch.is_empty() {
            let written = self.stream.io().poll_write(cx, &self.batch);
            match ready!(self.unless_closed(cx, written))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                written => self.batch.advance(written),
            }
        }
        // An idle connection needs no memory for responses.
        self.batch = BytesMut::new();
        self.stream.io().poll_flush(cx)
    }

    fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_send_batch(cx))?;
        self.stream.io().poll_shutdown(cx)
    }

    /// Fails if the connection must be closed.
    fn poll_idle_check(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        while self.next_check.as_mut().poll(cx).is_ready() {
            let now = Instant::now();
            if self.bytes_read < PREFACE_BYTES
                && (self.stopping.has_changed().is_err()
                    || now - self.opened >= self.silence_max + IDLE_CHECK_INTERVAL)
            {
                return Err(io::ErrorKind::TimedOut.into());
            }
            if now - self.last_read >= self.silence_max + IDLE_CHECK_INTERVAL
                && Arc::strong_count(&self.calls) == 1
            {
                return Err(io::ErrorKind::TimedOut.into());
            }
            let batch_is_unread =
                !self.batch.is_empty() && now - self.batch_since >= RESPONSE_READ_TIMEOUT;
            if batch_is_unread || self.pending_responses.oldest_age(now) >= RESPONSE_READ_TIMEOUT {
                self.metrics.unread.increment(1);
                return Err(io::ErrorKind::TimedOut.into());
            }
            self.next_check.as_mut().reset(now + IDLE_CHECK_INTERVAL);
        }
        Ok(())
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // If the client had closed it, the end of the stream would have been read.
        if self.last_read.elapsed() >= self.silence_max {
            self.metrics.silent.increment(1);
        }
        self.metrics.open.decrement(1);
    }
}

// === impl Stream ===

impl Stream {
    fn io(&mut self) -> Pin<&mut dyn Io> {
        match self {
            Self::Plain(stream) => Pin::new(stream),
            Self::Encrypted(stream) => Pin::new(stream),
        }
    }
}

// === impl Calls ===

impl Calls {
    pub(crate) fn start(&self) -> RunningCall {
        RunningCall {
            _of: self.0.upgrade(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use bytes::Bytes;
    use tokio::net::TcpListener;
    use tokio::sync::Semaphore;
    use tokio::time::timeout;

    use super::*;

    const SILENCE_MAX: Duration = Duration::from_secs(100);

    /// A connection, and its client side.
    pub(super) async fn mk_connection(stopping: watch::Receiver<()>) -> (Connection, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (client, server) = tokio::join!(TcpStream::connect(address), listener.accept());
        let permit = Arc::new(Semaphore::new(1)).acquire_owned().await.unwrap();
        let metrics = ConnectionMetrics {
            open: Gauge::noop(),
            silent: Counter::noop(),
            unread: Counter::noop(),
        };
        let server = server.unwrap().0;
        let connection = Connection::new(
            Stream::Plain(server),
            SILENCE_MAX,
            metrics,
            stopping,
            permit,
        );
        // From now on, time advances only when all tasks are idle.
        tokio::time::pause();
        (connection, client.unwrap())
    }

    /// How long a read waits until the silent connection is closed.
    async fn closes_after(connection: &mut Connection) -> Duration {
        let start = Instant::now();
        let mut bytes = [0; 8];
        let mut buf = ReadBuf::new(&mut bytes);
        let read = poll_fn(|cx| connection.poll_read(cx, &mut buf));
        let read = timeout(SILENCE_MAX * 2, read).await.expect("it is closed");
        assert_eq!(read.unwrap_err().kind(), io::ErrorKind::TimedOut);
        start.elapsed()
    }

    fn assert_within_a_check(took: Duration, time: Duration) {
        assert!(
            took >= time && took <= time + IDLE_CHECK_INTERVAL * 2,
            "{took:?}"
        );
    }

    #[tokio::test]
    async fn silent_connection_is_closed() {
        let (_stop, stopping) = watch::channel(());
        let (mut connection, _client) = mk_connection(stopping).await;
        assert_within_a_check(closes_after(&mut connection).await, SILENCE_MAX);
    }

    #[tokio::test]
    async fn connection_without_preface_does_not_delay_shutdown() {
        let (stop, stopping) = watch::channel(());
        drop(stop);
        let (mut connection, _client) = mk_connection(stopping).await;
        assert_within_a_check(closes_after(&mut connection).await, IDLE_CHECK_INTERVAL);
    }

    #[tokio::test]
    async fn open_connection_is_not_cut_by_shutdown() {
        let (stop, stopping) = watch::channel(());
        drop(stop);
        let (mut connection, _client) = mk_connection(stopping).await;
        connection.bytes_read = PREFACE_BYTES;
        assert_within_a_check(closes_after(&mut connection).await, SILENCE_MAX);
    }

    #[tokio::test]
    async fn unread_response_closes_the_connection() {
        let (_stop, stopping) = watch::channel(());
        let (mut connection, _client) = mk_connection(stopping).await;
        let pending = connection.pending_responses.clone();
        let unread = pending.track(Bytes::from_static(b"a"), Box::new(()));
        drop(pending.track(Bytes::from_static(b"b"), Box::new(())));
        assert_within_a_check(closes_after(&mut connection).await, RESPONSE_READ_TIMEOUT);
        drop(unread);
    }

    #[tokio::test]
    async fn responses_that_were_read_do_not_close_the_connection() {
        let (_stop, stopping) = watch::channel(());
        let (mut connection, _client) = mk_connection(stopping).await;
        let pending = connection.pending_responses.clone();
        drop(pending.track(Bytes::from_static(b"a"), Box::new(())));
        assert_within_a_check(closes_after(&mut connection).await, SILENCE_MAX);
    }

    #[tokio::test]
    async fn unread_batch_closes_the_connection() {
        let (_stop, stopping) = watch::channel(());
        let (mut connection, _client) = mk_connection(stopping).await;
        // Without a client that reads, the buffers of the system are full at some point.
        let response = [0; 20 << 10];
        let written =
            |cx: &mut Context<'_>| connection.poll_write(cx, &[io::IoSlice::new(&response)]);
        let start = Instant::now();
        let write = timeout(SILENCE_MAX * 2, async {
            let mut written = written;
            loop {
                if let Err(closed) = poll_fn(&mut written).await {
                    return closed;
                }
            }
        });
        let closed = write.await.expect("it is closed");
        assert_eq!(closed.kind(), io::ErrorKind::TimedOut);
        assert_within_a_check(start.elapsed(), RESPONSE_READ_TIMEOUT);
    }
}
