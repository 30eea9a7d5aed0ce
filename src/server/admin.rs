//! Metrics and probes in plain HTTP, on a port of their own: they go on when the port for calls is full, closed
//! or behind a mesh.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use http::{Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

use super::health::Health;
use super::metrics::Metrics;

/// Connections that may be open at once. Probes and one or two Prometheus come here.
const CONNECTIONS_MAX: usize = 64;
/// How long a connection may last. Both kinds of callers open another.
const CONNECTION_TIME_MAX: Duration = Duration::from_secs(60);
/// How long a caller may take to say what it wants.
const HEADER_TIME_MAX: Duration = Duration::from_secs(5);

/// What is answered.
#[derive(Clone)]
pub(super) struct Admin {
    pub(super) health: Health,
    pub(super) metrics: Arc<Metrics>,
}

// === impl Admin ===

impl Admin {
    /// Goes on until it is dropped.
    pub(super) async fn serve(self, listener: TcpListener) {
        let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        // Nobody closes it.
        while let Ok(place) = Arc::clone(&places).acquire_owned().await {
            let Ok((stream, _)) = listener.accept().await else {
                // Want of files, most likely.
                sleep(Duration::from_millis(100)).await;
                continue;
            };
            let admin = self.clone();
            let service = service_fn(move |request| {
                let answer = admin.answer(&request);
                async { Ok::<_, Infallible>(answer) }
            });
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEADER_TIME_MAX)
                .max_buf_size(16 << 10)
                .serve_connection(TokioIo::new(stream), service);
            tokio::spawn(async move {
                // However it ends, the caller knows.
                let _ = timeout(CONNECTION_TIME_MAX, connection).await;
                drop(place);
            });
        }
    }

    fn answer(&self, request: &Request<Incoming>) -> Response<Full<Bytes>> {
        const TEXT: &str = "text/plain; charset=utf-8";
        const EXPOSITION: &str = "text/plain; version=0.0.4; charset=utf-8";
        let (status, kind, text) = match (request.method(), request.uri().path()) {
            (&Method::GET | &Method::HEAD, path) => match path {
                "/metrics" => (StatusCode::OK, EXPOSITION, self.metrics.render()),
                // Whoever reads this knows that the process answers: there is no more to it.
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
                    "there are /metrics, /livez and /readyz\n".to_owned(),
                ),
            },
            _ => (
                StatusCode::METHOD_NOT_ALLOWED,
                TEXT,
                "only GET\n".to_owned(),
            ),
        };
        let mut response = Response::new(Full::from(text));
        *response.status_mut() = status;
        let kind = header::HeaderValue::from_static(kind);
        response.headers_mut().insert(header::CONTENT_TYPE, kind);
        response
    }
}
