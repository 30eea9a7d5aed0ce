//! Accepts connections, up to the configured number, with optional TLS.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use metrics::Counter;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};
use tokio_stream::wrappers::ReceiverStream;

use crate::connection::tls::Tls;
use crate::connection::{Connection, ConnectionMetrics, Stream};

/// The timeout of a TLS handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// How often the certificate files are checked. They are only three small files, so this is cheap.
const RELOAD_INTERVAL: Duration = Duration::from_secs(1);

/// A pause after the system refuses a connection, for example for lack of file descriptors.
const PAUSE: Duration = Duration::from_millis(100);

/// Accepts connections until shutdown.
pub(crate) struct Listener {
    pub(crate) listener: TcpListener,
    pub(crate) tls: Option<Tls>,
    pub(crate) connections_max: usize,
    pub(crate) silence_max: Duration,
    pub(crate) metrics: ConnectionMetrics,
    pub(crate) handshakes: HandshakeMetrics,
}

/// TLS handshakes that fail, by reason.
#[derive(Clone)]
pub(crate) struct HandshakeMetrics {
    pub(crate) failed: Counter,
    pub(crate) timed_out: Counter,
}

type Connections = mpsc::Sender<io::Result<Connection>>;

// === impl Listener ===

impl Listener {
    /// The connections in the order in which they are ready. The port is closed when the sender of `stop` is dropped.
    pub(crate) fn connections(
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
            metrics,
            handshakes,
        } = self;
        let permits = Arc::new(Semaphore::new(connections_max));
        // The semaphore is never closed.
        while let Ok(permit) = Arc::clone(&permits).acquire_owned().await {
            let stream = match listener.accept().await {
                Ok((stream, _)) => stream,
                Err(error) if is_client_error(&error) => continue,
                Err(error) => {
                    tracing::error!("cannot accept a connection: {error}");
                    sleep(PAUSE).await;
                    continue;
                }
            };
            // Responses are written as a whole, so waiting for more data would only delay them.
            let _ = stream.set_nodelay(true);
            let metrics = metrics.clone();
            match &tls {
                None => {
                    let stop = stop.clone();
                    let stream = Stream::Plain(stream);
                    let connection = Connection::new(stream, silence_max, metrics, stop, permit);
                    // This fails only after serving has ended.
                    let _ = connections.send(Ok(connection)).await;
                }
                Some(tls) => {
                    let handshake = timeout(HANDSHAKE_TIMEOUT, tls.acceptor().accept(stream));
                    let (stop, connections) = (stop.clone(), connections.clone());
                    let handshakes = handshakes.clone();
                    tokio::spawn(async move {
                        // Failures are only counted: anyone who reaches the port could fill the log.
                        let stream = match handshake.await {
                            Ok(Ok(stream)) => Stream::Encrypted(Box::new(stream)),
                            Ok(Err(_)) => return handshakes.failed.increment(1),
                            Err(_) => return handshakes.timed_out.increment(1),
                        };
                        let connection =
                            Connection::new(stream, silence_max, metrics, stop, permit);
                        let _ = connections.send(Ok(connection)).await;
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
        // Reading from disk may block.
        let _ = tokio::task::spawn_blocking(move || tls.reload()).await;
    }
}

async fn until(mut stop: watch::Receiver<()>, work: impl Future<Output = ()>) {
    tokio::select! {
        () = work => {}
        // No value is ever sent: this resolves when the sender is dropped.
        _ = stop.changed() => {}
    }
}

fn is_client_error(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionRefused
            | io::ErrorKind::ConnectionReset
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_errors_of_the_server_are_logged() {
        for kind in [
            io::ErrorKind::ConnectionAborted,
            io::ErrorKind::ConnectionRefused,
            io::ErrorKind::ConnectionReset,
        ] {
            assert!(is_client_error(&kind.into()), "{kind}");
        }
        // Among them is a lack of file descriptors.
        for kind in [
            io::ErrorKind::Other,
            io::ErrorKind::OutOfMemory,
            io::ErrorKind::TimedOut,
        ] {
            assert!(!is_client_error(&kind.into()), "{kind}");
        }
    }
}
