//! Serves HTTP/1 and HTTP/2 on connections: their limits, their maximum age, and their shutdown.
//!
//! The HTTP version is detected from the first bytes of a connection. With TLS, clients can also negotiate it.
//!
//! tonic's own server uses the same maximum age for all connections. Clients that connect at the same time, for example
//! after a restart, would all reconnect at the same time.

use std::convert::Infallible;
use std::future::pending;
use std::hash::{BuildHasher as _, RandomState};
use std::io;
use std::pin::pin;
use std::time::Duration;

use http::{Request, Response, Version};
use hyper::body::Incoming;
use hyper::service::{Service as HyperService, service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::sync::watch;
use tokio::time::sleep;
use tokio_stream::{Stream, StreamExt as _};
use tonic::body::Body;
use tower::{Service, ServiceExt as _};

use crate::config::Config;
use crate::connection::batched::Batched;
use crate::connection::clients::{AllowedClients, NotAllowed};
use crate::connection::unread::Unread;
use crate::connection::{Calls, Connection};
use crate::protocol::context::CallContext;
use crate::protocol::pending::PendingResponses;

/// The minimum of hyper.
const HTTP1_BUFFER_BYTES_MIN: usize = 8 << 10;

/// Serves calls on connections until the sender of `stop` is dropped, and returns when all connections are closed.
/// Clients are told to connect elsewhere, and calls in flight complete.
pub(crate) async fn serve<S>(
    config: &Config,
    service: S,
    connections: impl Stream<Item = io::Result<Connection>>,
    mut stop: watch::Receiver<()>,
) where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible, Future: Send>
        + Clone
        + Send
        + 'static,
{
    let builder = builder(config);
    let clients = AllowedClients::new(&config.tls_client_sans);
    // Each connection holds a receiver, so the channel is closed after the last connection.
    let (open, is_open) = watch::channel(());
    {
        let mut connections = pin!(connections);
        loop {
            let connection = tokio::select! {
                // No value is ever sent: this resolves when the sender is dropped.
                _ = stop.changed() => break,
                connection = connections.next() => connection,
            };
            match connection {
                Some(Ok(connection)) => {
                    let age = config.connection_age_max.map(jitter);
                    let not_allowed = clients.reject(connection.peer_certificate());
                    let pending = connection.pending_responses();
                    let calls = connection.calls();
                    let service =
                        with_connection_extensions(pending, calls, not_allowed, service.clone());
                    let connection = Batched::new(connection);
                    let serving =
                        builder.serve_connection(TokioIo::new(connection.clone()), service);
                    let serving = serve_one(connection, serving.into_owned(), age, stop.clone());
                    let is_open = is_open.clone();
                    tokio::spawn(async move {
                        serving.await;
                        drop(is_open);
                    });
                }
                Some(Err(_)) => {}
                None => break,
            }
        }
    }
    drop(is_open);
    open.closed().await;
}

fn builder(config: &Config) -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        // The time from one request to the end of the headers of the next one. HTTP/1 has no pings.
        .header_read_timeout(config.keepalive_interval)
        .max_buf_size((config.header_bytes_max as usize).max(HTTP1_BUFFER_BYTES_MIN));
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(config.streams_max)
        .max_header_list_size(config.header_bytes_max)
        .keep_alive_interval(config.keepalive_interval)
        .keep_alive_timeout(config.keepalive_timeout);
    builder
}

/// The service for one connection. It adds the data of the connection to each request.
fn with_connection_extensions<S>(
    pending: PendingResponses,
    calls: Calls,
    not_allowed: Option<NotAllowed>,
    service: S,
) -> impl HyperService<Request<Incoming>, Response = Response<Body>, Error = Infallible, Future: Send>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible, Future: Send>
        + Clone
        + Send
        + 'static,
{
    service_fn(move |mut request: Request<Incoming>| {
        CallContext::edit(&mut request).pending = Some(pending.clone());
        if let Some(not_allowed) = &not_allowed {
            request.extensions_mut().insert(not_allowed.clone());
        }
        let service = service.clone();
        // HTTP/2 clients answer pings while they wait, so they are not silent.
        let running = (request.version() < Version::HTTP_2).then(|| calls.start());
        async move {
            let Some(_running) = running else {
                return service.oneshot(request.map(Body::new)).await;
            };
            let (request, unread) = Unread::of(request);
            let answer = service.oneshot(request.map(Body::new)).await?;
            Ok(unread.before(answer).await)
        }
    })
}

/// Serves one connection to its end.
async fn serve_one<S>(
    connection: Batched,
    serving: auto::Connection<'static, TokioIo<Batched>, S, TokioExecutor>,
    age: Option<Duration>,
    mut stop: watch::Receiver<()>,
) where
    S: HyperService<
            Request<Incoming>,
            Response = Response<Body>,
            Error = Infallible,
            Future: Send + 'static,
        >,
{
    let mut serving = pin!(serving);
    tokio::select! {
        () = connection.run(serving.as_mut()) => return,
        () = reached(age) => {}
        _ = stop.changed() => {}
    }
    // Tells the client to connect elsewhere. Calls in flight complete.
    serving.as_mut().graceful_shutdown();
    connection.run(serving).await;
}

async fn reached(age: Option<Duration>) {
    match age {
        Some(age) => sleep(age).await,
        None => pending().await,
    }
}

/// The age plus or minus up to 10%, different for each connection.
fn jitter(age: Duration) -> Duration {
    // This is not used for security, so weak randomness is enough.
    let random = RandomState::new().hash_one(0_u8);
    age.mul_f64(0.9 + 0.2 * (random as f64 / u64::MAX as f64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_differ_by_at_most_a_tenth() {
        let age = Duration::from_secs(300);
        let ages: Vec<_> = (0..100).map(|_| jitter(age)).collect();
        assert!(
            ages.iter()
                .all(|it| *it >= age.mul_f64(0.9) && *it <= age.mul_f64(1.1))
        );
        assert!(ages.iter().any(|it| *it < age) && ages.iter().any(|it| *it > age));
    }
}
