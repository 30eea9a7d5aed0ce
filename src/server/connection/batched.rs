//! Sends the responses of a connection in batches.
//!
//! hyper writes each response to the connection as soon as it is ready. Sending takes longer than all other layers of the
//! service together, so responses that are ready at about the same time are collected and sent together. No response waits
//! for a timer: a batch is sent when the task of its connection has nothing else to do.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::connection::Connection;

/// A connection as used by hyper. [`run`](Self::run) sends what hyper writes.
#[derive(Clone)]
pub(crate) struct Batched(Arc<Mutex<Connection>>);

impl Batched {
    pub(crate) fn new(connection: Connection) -> Self {
        Self(Arc::new(Mutex::new(connection)))
    }

    /// Runs `serving`, which uses this connection, to its end or to the end of the connection.
    pub(crate) async fn run(&self, mut serving: Pin<&mut impl Future>) {
        let mut has_yielded = false;
        let mut is_served = false;
        poll_fn(|cx| {
            if !is_served {
                // The first call to complete wakes this task, and tokio runs a woken task next. A task that wakes itself
                // runs after the others, so the calls that are ready complete first.
                has_yielded = !has_yielded;
                if has_yielded {
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
                is_served = serving.as_mut().poll(cx).is_ready();
            }
            match ready!(self.lock().poll_send_batch(cx)) {
                Ok(()) if !is_served => Poll::Pending,
                // The client notices a failed connection.
                Ok(()) | Err(_) => Poll::Ready(()),
            }
        })
        .await;
    }

    fn lock(&self) -> MutexGuard<'_, Connection> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AsyncRead for Batched {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.lock().poll_read(cx, buf)
    }
}

impl AsyncWrite for Batched {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.lock().poll_write(cx, &[io::IoSlice::new(buf)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.lock().poll_write(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    /// Does nothing: the batch is sent when hyper waits.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.lock().poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::pin::pin;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Wake, Waker};

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpStream;
    use tokio::sync::watch;

    use super::*;
    use crate::connection::BATCH_BYTES_MAX;
    use crate::connection::tests::mk_connection;

    /// Counts how often a task is woken.
    #[derive(Default)]
    struct Wakes(AtomicUsize);

    impl Wake for Wakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    async fn mk_batched() -> (Batched, TcpStream, watch::Sender<()>) {
        let (stop, stopping) = watch::channel(());
        let (connection, client) = mk_connection(stopping).await;
        (Batched::new(connection), client, stop)
    }

    async fn read_all(client: &mut TcpStream) -> Vec<u8> {
        let mut bytes = Vec::new();
        client.read_to_end(&mut bytes).await.unwrap();
        bytes
    }

    #[tokio::test]
    async fn responses_are_collected_until_the_connection_waits() {
        let (connection, mut client, _stop) = mk_batched().await;
        let mut io = connection.clone();
        let serving = async move {
            for response in [b"first ", b"second"] {
                io.write_all(response).await.unwrap();
                io.flush().await.unwrap();
            }
            assert_eq!(io.lock().batch, b"first second"[..]);
            pending::<()>().await;
        };
        let mut serving = pin!(serving);
        let mut bytes = [0; 12];
        tokio::select! {
            () = connection.run(serving.as_mut()) => panic!("it waits"),
            read = client.read_exact(&mut bytes) => read.unwrap(),
        };
        assert_eq!(&bytes, b"first second");
        assert_eq!(connection.lock().batch.capacity(), 0);
    }

    #[tokio::test]
    async fn calls_that_are_ready_run_before_their_connection() {
        let (connection, _client, _stop) = mk_batched().await;
        let is_polled = AtomicUsize::new(0);
        let mut serving = pin!(poll_fn(|_| {
            is_polled.fetch_add(1, Ordering::Relaxed);
            Poll::<()>::Pending
        }));
        let mut running = pin!(connection.run(serving.as_mut()));
        let wakes = Arc::new(Wakes::default());
        let waker = Waker::from(wakes.clone());
        for round in 1..=3 {
            let mut poll = || running.as_mut().poll(&mut Context::from_waker(&waker));
            assert!(poll().is_pending());
            // It asks to run again, after the tasks that are ready.
            assert_eq!(wakes.0.load(Ordering::Relaxed), round);
            assert_eq!(is_polled.load(Ordering::Relaxed), round - 1);
            assert!(poll().is_pending());
            assert_eq!(wakes.0.load(Ordering::Relaxed), round);
            assert_eq!(is_polled.load(Ordering::Relaxed), round);
        }
    }

    #[tokio::test]
    async fn last_response_is_sent_if_the_connection_is_not_shut_down() {
        let (connection, mut client, _stop) = mk_batched().await;
        let mut io = connection.clone();
        let serving = async move { io.write_all(b"last").await.unwrap() };
        connection.run(pin!(serving)).await;
        drop(connection);
        assert_eq!(read_all(&mut client).await, b"last");
    }

    #[tokio::test]
    async fn shutdown_sends_the_batch_first() {
        let (connection, mut client, _stop) = mk_batched().await;
        let mut io = connection.clone();
        let serving = async move {
            io.write_all(b"last").await.unwrap();
            io.shutdown().await.unwrap();
            pending::<()>().await;
        };
        let mut serving = pin!(serving);
        tokio::select! {
            () = connection.run(serving.as_mut()) => panic!("it waits"),
            bytes = read_all(&mut client) => assert_eq!(bytes, b"last"),
        }
    }

    #[tokio::test]
    async fn responses_of_all_sizes_keep_their_order() {
        const SIZES: [usize; 7] = [
            10,
            BATCH_BYTES_MAX - 10,
            1,
            BATCH_BYTES_MAX,
            BATCH_BYTES_MAX + 1,
            20,
            3 * BATCH_BYTES_MAX,
        ];
        let (connection, mut client, _stop) = mk_batched().await;
        let responses = || (b'a'..).zip(SIZES).map(|(byte, len)| vec![byte; len]);
        let mut io = connection.clone();
        let serving = async move {
            for response in responses() {
                io.write_all(&response).await.unwrap();
                assert!(io.lock().batch.len() <= BATCH_BYTES_MAX);
            }
        };
        let mut serving = pin!(serving);
        let run = async {
            connection.run(serving.as_mut()).await;
            drop(connection);
        };
        // `serving` has the other handle of the connection, so the client reads as many bytes as it expects.
        let expected = responses().flatten().collect::<Vec<_>>();
        let mut bytes = vec![0; expected.len()];
        let (read, ()) = tokio::join!(client.read_exact(&mut bytes), run);
        read.unwrap();
        assert!(bytes == expected);
    }

    #[tokio::test]
    async fn client_that_leaves_ends_the_connection() {
        let (connection, client, _stop) = mk_batched().await;
        client.set_zero_linger().unwrap();
        drop(client);
        let mut io = connection.clone();
        let serving = async move {
            // The end of the connection may be noticed only by the second write.
            loop {
                io.write_all(b"response").await.unwrap();
                io.flush().await.unwrap();
                tokio::task::yield_now().await;
            }
        };
        connection.run(pin!(serving)).await;
    }
}
