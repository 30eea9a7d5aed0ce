//! Metrics and probes over plain HTTP. Their separate port works even if the port for calls is at its limit, closed, or
//! behind a mesh.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::{Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout};

use crate::observability::health::Health;
use crate::observability::metrics::Metrics;

/// How long a client may take to send its request. Probes send it immediately.
const HEADER_TIMEOUT: Duration = Duration::from_secs(1);
/// The maximum lifetime of a connection, which serves one request.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(10);
/// A pause after the system refuses a connection, most likely for lack of file descriptors.
const PAUSE: Duration = Duration::from_millis(100);

/// The server for metrics and probes.
#[derive(Clone)]
pub(crate) struct Admin {
    health: Health,
    metrics: Arc<Metrics>,
    header_timeout: Duration,
    connection_timeout: Duration,
}

/// The open connections, oldest first.
struct OpenConnections {
    connections: VecDeque<AdminConnection>,
    max: usize,
}

struct AdminConnection {
    task: AbortHandle,
    /// Whether its request has arrived.
    is_busy: Arc<AtomicBool>,
}

// === impl Admin ===

impl Admin {
    pub(crate) fn new(health: Health, metrics: Arc<Metrics>) -> Self {
        Self {
            health,
            metrics,
            header_timeout: HEADER_TIMEOUT,
            connection_timeout: CONNECTION_TIMEOUT,
        }
    }

    /// Serves at most this number of concurrent connections. Runs until it is dropped.
    pub(crate) async fn serve(self, listener: TcpListener, connections_max: usize) {
        let mut open = OpenConnections {
            connections: VecDeque::new(),
            max: connections_max,
        };
        loop {
            let Ok((stream, _)) = listener.accept().await else {
                sleep(PAUSE).await;
                continue;
            };
            open.make_room();
            let is_busy = Arc::new(AtomicBool::new(false));
            let connection = self.clone().connection(stream, Arc::clone(&is_busy));
            let task = tokio::spawn(connection).abort_handle();
            open.connections
                .push_back(AdminConnection { task, is_busy });
        }
    }

    /// Answers one request. A connection that stayed open would only use the slot of a probe.
    async fn connection(self, stream: TcpStream, is_busy: Arc<AtomicBool>) {
        let Self {
            header_timeout,
            connection_timeout,
            ..
        } = self;
        let service = service_fn(move |request| {
            is_busy.store(true, Ordering::Relaxed);
            let response = self.respond(&request);
            async { Ok::<_, Infallible>(response) }
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(header_timeout)
            .keep_alive(false)
            .max_buf_size(16 << 10)
            .serve_connection(TokioIo::new(stream), service);
        // The client notices any error.
        let _ = timeout(connection_timeout, connection).await;
    }

    fn respond(&self, request: &Request<Incoming>) -> Response<Full<Bytes>> {
        const TEXT: &str = "text/plain; charset=utf-8";
        const EXPOSITION: &str = "text/plain; version=0.0.4; charset=utf-8";
        let (status, kind, text) = match (request.method(), request.uri().path()) {
            (&Method::GET | &Method::HEAD, path) => match path {
                "/metrics" => (StatusCode::OK, EXPOSITION, self.metrics.render()),
                // A response proves that the process is alive. Nothing else is checked.
                "/livez" => (StatusCode::OK, TEXT, "ok\n".to_owned()),
                "/readyz" if self.health.is_serving() => (StatusCode::OK, TEXT, "ok\n".to_owned()),
                "/readyz" => (
                    StatusCode::SERVICE_UNAVAILABLE,
                    TEXT,
                    "not serving\n".to_owned(),
                ),
                _ => (
                    StatusCode::NOT_FOUND,
                    TEXT,
                    "not found: use /metrics, /livez or /readyz\n".to_owned(),
                ),
            },
            _ => (
                StatusCode::METHOD_NOT_ALLOWED,
                TEXT,
                "only GET and HEAD are allowed\n".to_owned(),
            ),
        };
        let mut response = Response::new(Full::from(text));
        *response.status_mut() = status;
        let kind = header::HeaderValue::from_static(kind);
        response.headers_mut().insert(header::CONTENT_TYPE, kind);
        response
    }
}

// === impl OpenConnections ===

impl OpenConnections {
    /// If the limit is reached, closes the oldest idle connection, or the oldest one if all are busy.
    fn make_room(&mut self) {
        let Self { connections, max } = self;
        connections.retain(|it| !it.task.is_finished());
        if connections.len() >= *max {
            let is_idle = |it: &AdminConnection| !it.is_busy.load(Ordering::Relaxed);
            let oldest = connections.iter().position(is_idle).unwrap_or(0);
            if let Some(closed) = connections.remove(oldest) {
                closed.task.abort();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::time::Instant;

    use super::*;

    async fn mk_admin() -> Admin {
        let (health, _) = Health::new().await;
        Admin::new(health, Arc::new(Metrics::new("unknown").unwrap()))
    }

    async fn start(admin: Admin, connections_max: usize) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(admin.serve(listener, connections_max));
        address
    }

    /// Reads until the server closes the connection.
    async fn received(stream: &mut TcpStream) -> String {
        let mut text = String::new();
        // Closing a connection with an unread request resets it.
        let _ = stream.read_to_string(&mut text).await;
        text
    }

    const PROBE: &[u8] = b"GET /livez HTTP/1.1\r\nhost: test\r\n\r\n";

    #[tokio::test]
    async fn connection_is_closed_after_its_response() {
        let address = start(mk_admin().await, 64).await;
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(PROBE).await.unwrap();
        // The server closes the connection, although the client would keep it open.
        let response = received(&mut stream).await;
        assert!(response.starts_with("HTTP/1.1 200 OK\r\n"), "{response}");
        assert!(response.contains("\r\nconnection: close\r\n"), "{response}");
    }

    #[tokio::test]
    async fn client_has_one_second_to_send_its_request() {
        let address = start(mk_admin().await, 64).await;
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(&PROBE[..10]).await.unwrap();
        // From now on, time advances only when all tasks are idle.
        tokio::time::pause();
        let start = Instant::now();
        received(&mut stream).await;
        let took = start.elapsed();
        assert!(
            took >= HEADER_TIMEOUT && took < HEADER_TIMEOUT * 2,
            "{took:?}"
        );
    }

    #[tokio::test]
    async fn oldest_idle_connection_makes_room_for_a_probe() {
        // No connection is closed for being slow.
        let patient = Admin {
            header_timeout: Duration::from_secs(3600),
            connection_timeout: Duration::from_secs(3600),
            ..mk_admin().await
        };
        let address = start(patient, 3).await;
        let mut streams = Vec::new();
        for _ in 0..4 {
            streams.push(TcpStream::connect(address).await.unwrap());
        }
        assert_eq!(received(&mut streams[0]).await, "");
        for stream in &mut streams[1..] {
            stream.write_all(PROBE).await.unwrap();
            assert!(received(stream).await.ends_with("ok\n"));
        }
    }

    #[test]
    fn busy_connection_is_closed_only_if_none_is_idle() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        let connection = |is_busy| AdminConnection {
            task: runtime.spawn(std::future::pending::<()>()).abort_handle(),
            is_busy: Arc::new(AtomicBool::new(is_busy)),
        };
        let mut open = OpenConnections {
            connections: [true, false, true, false].map(connection).into(),
            max: 4,
        };
        let mut busy = || {
            open.make_room();
            let busy = open.connections.iter();
            let busy: Vec<_> = busy.map(|it| it.is_busy.load(Ordering::Relaxed)).collect();
            // The next one to come.
            open.max -= 1;
            busy
        };
        assert_eq!(busy(), [true, true, false]);
        assert_eq!(busy(), [true, true]);
        assert_eq!(busy(), [true]);
    }
}
