//! Takes connections: not more than there may be, and encrypted if so configured.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};
use tokio_stream::wrappers::ReceiverStream;

use super::connection::{Closed, Connection, Stream};
use super::tls::Tls;

/// How long a client may take to agree on encryption.
const HANDSHAKE_TIME_MAX: Duration = Duration::from_secs(10);

/// How often the files of certificates are read: three small ones, which costs nothing.
const RELOAD_INTERVAL: Duration = Duration::from_secs(1);

/// A pause after the system refuses a connection for want of something, as files.
const PAUSE: Duration = Duration::from_millis(100);

/// Takes connections until told to stop.
pub(super) struct Listener {
    pub(super) listener: TcpListener,
    pub(super) tls: Option<Tls>,
    pub(super) connections_max: usize,
    pub(super) silence_max: Duration,
    pub(super) closed: Closed,
}

type Connections = mpsc::Sender<io::Result<Connection>>;

// === impl Listener ===

impl Listener {
    /// The connections, in the order in which they are ready. The port is closed once `stop` is dropped.
    pub(super) fn connections(
        self,
        stop: watch::Receiver<()>,
    ) -> ReceiverStream<io::Result<Connection>> {
        let (sender, receiver) = mpsc::channel(16);
        if let Some(tls) = self.tls.clone() {
            tokio::spawn(until(stop.clone(), reload(tls)));
        }
        tokio::spawn(until(stop.clone(), self.accept(sender, stop)));
        ReceiverStream::new(receiver)
    }

    async fn accept(self, connections: Connections, stop: watch::Receiver<()>) {
        let Self {
            listener,
            tls,
            connections_max,
            silence_max,
            closed,
        } = self;
        let permits = Arc::new(Semaphore::new(connections_max));
        // Nobody closes it.
        while let Ok(permit) = Arc::clone(&permits).acquire_owned().await {
            let stream = match listener.accept().await {
                Ok((stream, _)) => stream,
                Err(error) if is_of_the_client(&error) => continue,
                Err(error) => {
                    tracing::error!("cannot accept a connection: {error}");
                    sleep(PAUSE).await;
                    continue;
                }
            };
            // Answers are written as a whole: waiting for more would only delay them.
            let _ = stream.set_nodelay(true);
            let closed = closed.clone();
            match &tls {
                None => {
                    let stop = stop.clone();
                    let stream = Stream::Plain(stream);
                    let connection = Connection::new(stream, silence_max, closed, stop, permit);
                    // Serving has ended, or is about to.
                    let _ = connections.send(Ok(connection)).await;
                }
                Some(tls) => {
                    let stream = timeout(HANDSHAKE_TIME_MAX, tls.acceptor().accept(stream));
                    let (stop, connections) = (stop.clone(), connections.clone());
                    tokio::spawn(async move {
                        // What a client does wrong here is nobody's business but its own.
                        if let Ok(Ok(stream)) = stream.await {
                            let stream = Stream::Encrypted(Box::new(stream));
                            let connection =
                                Connection::new(stream, silence_max, closed, stop, permit);
                            let _ = connections.send(Ok(connection)).await;
                        }
                    });
                }
            }
        }
    }
}

async fn reload(tls: Tls) {
    let mut ticks = interval(RELOAD_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let tls = tls.clone();
        // Files may lie on a slow disk.
        let _ = tokio::task::spawn_blocking(move || tls.reload()).await;
    }
}

async fn until(mut stop: watch::Receiver<()>, work: impl Future<Output = ()>) {
    tokio::select! {
        () = work => {}
        // Nothing is ever sent: it ends with its sender.
        _ = stop.changed() => {}
    }
}

fn is_of_the_client(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionRefused
            | io::ErrorKind::ConnectionReset
    )
}
