//! The planner as a gRPC and Connect service: one port for calls, plain or encrypted, and one for metrics and probes.
//!
//! [`run`] is the whole command `rollplan serve`: log, signals and threads. [`Server`] is only the service, for
//! programs and tests that have these already. `stack.rs` lists the layers that a call passes through, from top to
//! bottom.

mod admission;
mod call;
pub mod client;
mod config;
mod connect;
mod connection;
mod observability;
mod page;
mod protocol;
mod shutdown;
mod stack;
mod threads;

/// The service, generated from `proto/rollplan/v1/service.proto`.
mod service {
    // The generated code does not follow our lints, and not all of it is documented.
    #![allow(missing_docs, unreachable_pub, clippy::all, rustdoc::all)]

    include!(concat!(env!("OUT_DIR"), "/server/rollplan.v1.rs"));
}

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use http::{Request, Response};
use prost_reflect::DescriptorPool;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tonic::body::Body;
use tonic::server::NamedService;
use tonic::service::Routes;
use tower::Service;

pub use admission::buffered::LARGE_MEMORY;
pub use call::codec::Codec;
pub use call::service::{Planner, PlannerService};
pub use config::{Config, TlsFiles, Traces};
pub use protocol::cancellation::Current as CurrentCall;
use rollplan_wire as wire;
pub use service::rollout_planner_server::{RolloutPlanner, RolloutPlannerServer};
pub use shutdown::Shutdown;

use self::call::planner::BuiltInPlanner;
use self::connect::{Clock, Methods};
use self::connection::descriptors::Descriptors;
use self::connection::listener::Listener;
use self::connection::serve;
use self::connection::tls::Tls;
use self::observability::admin::Admin;
use self::observability::health::Health;
use self::observability::log;
use self::observability::metrics::Metrics;
use self::observability::trace::Tracing;
use self::protocol::methods::PLANNER;

/// How often metrics move observations into buckets if they are not scraped.
const UPKEEP_INTERVAL: Duration = Duration::from_secs(5);

/// Why a server cannot start, or stopped serving.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The configuration is invalid. No port was bound.
    #[error("{setting} {problem}")]
    Config {
        /// The setting: a field of [`Config`] or a variable.
        setting: &'static str,
        /// What is wrong with its value.
        problem: String,
    },
    /// The address cannot be used for listening.
    #[error("cannot listen on {address}")]
    Listen {
        /// The address, as configured.
        address: SocketAddr,
        /// The error of the system.
        source: io::Error,
    },
    /// Threads or signal handlers cannot be created.
    #[error("cannot start")]
    Start {
        /// The error of the system.
        source: io::Error,
    },
    /// The built-in descriptors are invalid: a bug.
    #[error("the descriptors for reflection are broken")]
    Reflection {
        /// The error.
        source: tonic_reflection::server::Error,
    },
    /// The metrics cannot be registered: a bug.
    #[error("the metrics are broken")]
    Metrics {
        /// The error.
        source: metrics_exporter_prometheus::BuildError,
    },
    /// Serving ended without a shutdown request: a bug.
    #[error("serving ended")]
    Serve,
}

/// A gRPC service.
#[doc(hidden)]
pub trait GrpcService:
    Service<Request<Body>, Response = Response<Body>, Error = Infallible, Future: Send>
    + NamedService
    + Clone
    + Send
    + Sync
    + 'static
{
}

impl<S> GrpcService for S where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible, Future: Send>
        + NamedService
        + Clone
        + Send
        + Sync
        + 'static
{
}

/// A server that has bound its ports but does not serve yet.
pub struct Server {
    config: Config,
    listener: TcpListener,
    local_addr: SocketAddr,
    http: Option<(TcpListener, SocketAddr)>,
    tls: Option<Tls>,
    methods: Methods,
    clock: Clock,
    routes: Routes,
    health: Health,
    metrics: Arc<Metrics>,
    tracing: Tracing,
    descriptors: Descriptors,
    /// Dropped when the server stops accepting connections and streams.
    stopping: watch::Sender<()>,
}

/// Runs `rollplan serve` after its arguments are parsed: serves until SIGTERM or SIGINT, then shuts down within the
/// configured times. Logs are JSON lines on standard error.
///
/// # Errors
///
/// See [`Error`]. [`Error::Config`] is an error of the caller, found before any port is bound.
pub fn run(config: Config) -> Result<(), Error> {
    config.check()?;
    let threads = threads::count()?;
    // Dropping it writes the last lines.
    let _log = log::init();
    connection::descriptors::raise_limit();
    let start = |source| Error::Start { source };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(threads)
        .enable_all()
        .build()
        .map_err(start)?;
    let ended = runtime.block_on(async {
        let shutdown = shutdown::on_signals().map_err(start)?;
        serve(config, shutdown).await
    });
    // The grace period is over. Dropping the runtime would wait for calls that are still running.
    runtime.shutdown_background();
    ended
}

/// Binds the ports, serves until a shutdown is requested, then shuts down within the configured times.
///
/// # Errors
///
/// See [`Error`].
pub async fn serve(config: Config, shutdown: watch::Receiver<Shutdown>) -> Result<(), Error> {
    Server::bind(config).await?.serve(shutdown).await
}

// === impl Server ===

impl Server {
    /// Validates the configuration and binds the ports. Connections wait until [`serve`](Self::serve).
    ///
    /// # Errors
    ///
    /// [`Error::Config`] before any port is bound, [`Error::Listen`].
    pub async fn bind(config: Config) -> Result<Self, Error> {
        Self::bind_as(config, planner_methods(), |config, metrics| {
            stack::planner(config, BuiltInPlanner::new(metrics))
        })
        .await
    }

    /// Like [`bind`](Self::bind), with a different planner.
    ///
    /// # Errors
    ///
    /// See [`bind`](Self::bind).
    pub async fn bind_with(config: Config, planner: impl Planner) -> Result<Self, Error> {
        Self::bind_as(config, planner_methods(), |config, _| {
            stack::planner(config, planner)
        })
        .await
    }

    /// Like [`bind`](Self::bind), with a different service instead of the planner, called through the same layers with
    /// gRPC and Connect. `descriptors` must contain the messages of its methods. (For conformance tests of the
    /// protocols.)
    ///
    /// # Errors
    ///
    /// See [`bind`](Self::bind).
    #[doc(hidden)]
    pub async fn bind_service<S>(
        config: Config,
        descriptors: &DescriptorPool,
        service: S,
    ) -> Result<Self, Error>
    where
        S: GrpcService,
    {
        let methods = Methods::of(descriptors, S::NAME);
        Self::bind_as(config, methods, |_, _| service).await
    }

    async fn bind_as<S: GrpcService>(
        config: Config,
        methods: Methods,
        planner: impl FnOnce(&Config, Arc<Metrics>) -> S,
    ) -> Result<Self, Error> {
        config.check()?;
        let metrics = Metrics::new(config.commit).map_err(|source| Error::Metrics { source })?;
        let metrics = Arc::new(metrics);
        let tls = config.tls.clone().map(|files| {
            Tls::read(files, metrics.series.tls.clone()).map_err(|error| Error::Config {
                setting: "tls",
                problem: error.to_string(),
            })
        });
        let tls = tls.transpose()?;
        config.log();
        let tracing = Tracing::new(&config.traces);
        let descriptors = Descriptors::of_process(config.connections_max);
        let connections_max = descriptors.connections as f64;
        metrics.series.connections_max.set(connections_max);
        let (health, health_service) = Health::new().await;
        let planner = planner(&config, Arc::clone(&metrics));
        let stopping = watch::Sender::new(());
        let routes = stack::routes(&config, &metrics, planner, health_service, &stopping)?;
        let (listener, local_addr) = listen(config.listen).await?;
        let http = match config.http_listen {
            Some(address) => Some(listen(address).await?),
            None => None,
        };
        Ok(Self {
            config,
            listener,
            local_addr,
            http,
            tls,
            methods,
            clock: Arc::new(SystemTime::now),
            routes,
            health,
            metrics,
            tracing,
            descriptors,
            stopping,
        })
    }

    /// Replaces the system clock. Only the calls for people read it, because their requests may omit the time.
    #[must_use]
    pub fn with_clock(self, clock: impl Fn() -> SystemTime + Send + Sync + 'static) -> Self {
        Self {
            clock: Arc::new(clock),
            ..self
        }
    }

    /// The address for calls, with the selected port if the configuration has port 0.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.local_addr
    }

    /// The address for metrics and probes.
    #[must_use]
    pub fn http_addr(&self) -> Option<SocketAddr> {
        self.http.as_ref().map(|(_, address)| *address)
    }

    /// Serves until a shutdown is requested. Then:
    /// 1. Health reports NOT_SERVING, while the server keeps serving for the configured delay.
    /// 2. The server closes its port, and open connections accept no new calls.
    /// 3. Running calls end.
    ///
    /// This returns when they have ended, or after the configured grace period. Calls that are still running then
    /// continue until their connection closes or the runtime ends.
    ///
    /// # Errors
    ///
    /// [`Error::Serve`].
    pub async fn serve(self, mut shutdown: watch::Receiver<Shutdown>) -> Result<(), Error> {
        let Self {
            config,
            listener,
            local_addr,
            http,
            tls,
            methods,
            clock,
            routes,
            health,
            metrics,
            tracing,
            descriptors,
            stopping,
        } = self;
        let stack = stack::stack(&config, &metrics, tracing.clone(), methods, clock, routes);
        let connections = Listener {
            listener,
            tls,
            connections_max: descriptors.connections,
            silence_max: config.keepalive_interval + config.keepalive_timeout,
            metrics: metrics.series.connections.clone(),
            handshakes: metrics.series.handshakes.clone(),
        }
        .connections(stopping.subscribe());
        let stopped = stopping.subscribe();
        let mut serving = pin!(serve::serve(&config, stack, connections, stopped));
        // Aborted when this function returns.
        let mut background = tokio::task::JoinSet::new();
        background.spawn(metrics.series.failure_lines.clone().report());
        let upkept = Arc::clone(&metrics);
        background.spawn(async move {
            let mut ticks = tokio::time::interval(UPKEEP_INTERVAL);
            loop {
                ticks.tick().await;
                upkept.upkeep();
            }
        });
        if let Some((listener, address)) = http {
            tracing::info!("metrics and probes on {address}");
            let health = health.clone();
            background.spawn(Admin::new(health, metrics).serve(listener, descriptors.http));
        }
        health.serving().await;
        // Programs read the port from this line: docs/reference/service.md guarantees it.
        tracing::info!("listening on {local_addr}");
        tokio::select! {
            () = &mut serving => return Err(Error::Serve),
            () = shutdown::requested(&mut shutdown) => {}
        }
        let Config {
            drain_delay,
            drain_grace,
            ..
        } = config;
        tracing::info!(
            delay_seconds = drain_delay.as_secs_f64(),
            grace_seconds = drain_grace.as_secs_f64(),
            "draining"
        );
        health.not_serving().await;
        tokio::select! {
            () = &mut serving => return Err(Error::Serve),
            () = shutdown::delay(&mut shutdown, drain_delay) => {}
        }
        drop(stopping);
        let ended = tokio::select! {
            () = &mut serving => true,
            () = shutdown::grace(&mut shutdown, drain_grace) => false,
        };
        // It blocks until the collector responds, and the threads of this runtime read the response.
        let _ = tokio::task::spawn_blocking(move || tracing.flush()).await;
        if ended {
            tracing::info!("stopped");
        } else {
            tracing::warn!("stopped with calls still running");
        }
        Ok(())
    }
}

/// The methods of the planner. Tests ensure that the built-in descriptors contain them.
fn planner_methods() -> Methods {
    let descriptors = wire::json::descriptors();
    descriptors.map_or_else(Methods::default, |it| Methods::of(it, PLANNER))
}

async fn listen(address: SocketAddr) -> Result<(TcpListener, SocketAddr), Error> {
    let failed = |source| Error::Listen { address, source };
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let local_addr = listener.local_addr().map_err(failed)?;
    Ok((listener, local_addr))
}
