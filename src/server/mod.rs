//! The planner as a gRPC service: a port for calls over HTTP/2, plain or encrypted, and one for metrics and probes.
//!
//! [`run`] is all of `rollplan serve`: logs, signals and the threads. [`Server`] is the service alone, for
//! programs and tests that have these already. stack.rs shows what a call passes through, from top to bottom.

mod admin;
mod admission;
mod budget;
mod buffer;
mod calls;
mod clients;
mod codec;
mod compression;
mod config;
mod connection;
mod deadline;
mod errors;
mod health;
mod http2;
mod listener;
mod log;
mod metrics;
mod offload;
mod planner;
mod protocol;
mod reflection;
mod response;
mod shutdown;
mod stack;
mod streams;
mod tls;
mod trace;

use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::watch;
use tonic::service::Routes;

pub use budget::LARGE_BYTES;
pub use codec::Codec;
pub use config::{Config, TlsFiles};
pub use errors::{DOMAIN, to_status};
pub use shutdown::Shutdown;

use crate::proto::rollout_planner_server::RolloutPlanner;
use admin::Admin;
use health::Health;
use listener::Listener;
use metrics::Metrics;
use planner::Planner;
use tls::Tls;
use trace::Tracing;

/// How often observations are sorted into buckets when nobody reads the metrics.
const UPKEEP_INTERVAL: Duration = Duration::from_secs(5);

/// Why there is no service, or no longer one.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The configuration cannot be. No port was bound.
    #[error("{setting} {problem}")]
    Config {
        /// The setting, as the field of [`Config`] is named.
        setting: &'static str,
        /// What is wrong with its value.
        problem: String,
    },
    /// The address cannot be listened on.
    #[error("cannot listen on {address}")]
    Listen {
        /// The address, as configured.
        address: SocketAddr,
        /// What the system says.
        source: io::Error,
    },
    /// The system gives no threads or no signals.
    #[error("cannot start")]
    Start {
        /// What the system says.
        source: io::Error,
    },
    /// This build's own descriptors are broken: a bug.
    #[error("the descriptors for reflection are broken")]
    Reflection {
        /// What is wrong with them.
        source: tonic_reflection::server::Error,
    },
    /// The series cannot be: a bug.
    #[error("the metrics are broken")]
    Metrics {
        /// What is wrong with them.
        source: metrics_exporter_prometheus::BuildError,
    },
    /// Serving ended without having been asked to: a bug.
    #[error("serving ended")]
    Serve,
}

/// A service that has its ports, and does not serve yet.
pub struct Server {
    config: Config,
    listener: TcpListener,
    local_addr: SocketAddr,
    http: Option<(TcpListener, SocketAddr)>,
    tls: Option<Tls>,
    routes: Routes,
    health: Health,
    metrics: Arc<Metrics>,
    tracing: Tracing,
    /// Dropped when no more connections and streams are to be.
    stopping: watch::Sender<()>,
}

/// Everything that `rollplan serve` does once its arguments are read: serves until SIGTERM or SIGINT, and then
/// ends within the times of the configuration. Logs are lines of JSON on standard error.
///
/// # Errors
///
/// See [`Error`]. [`Error::Config`] is the caller's mistake, and found before any port is bound.
pub fn run(config: Config) -> Result<(), Error> {
    config.check()?;
    // The last lines are written when this is dropped.
    let _log = log::init();
    let start = |source| Error::Start { source };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(start)?;
    let ended = runtime.block_on(async {
        let shutdown = shutdown::on_signals().map_err(start)?;
        serve(config, shutdown).await
    });
    // What is still running had its grace. Dropping the runtime would wait for it.
    runtime.shutdown_background();
    ended
}

/// Binds, serves until told to stop, and then ends within the times of the configuration.
///
/// # Errors
///
/// See [`Error`].
pub async fn serve(config: Config, shutdown: watch::Receiver<Shutdown>) -> Result<(), Error> {
    Server::bind(config).await?.serve(shutdown).await
}

// === impl Server ===

impl Server {
    /// Checks the configuration and takes the ports. Connections wait until [`serve`](Self::serve).
    ///
    /// # Errors
    ///
    /// [`Error::Config`] before any port is bound, [`Error::Listen`].
    pub async fn bind(config: Config) -> Result<Self, Error> {
        Self::bind_as(config, Planner::new).await
    }

    /// As [`bind`](Self::bind), with other answers: everything around them stays.
    ///
    /// # Errors
    ///
    /// As [`bind`](Self::bind).
    pub async fn bind_with(config: Config, planner: impl RolloutPlanner) -> Result<Self, Error> {
        Self::bind_as(config, |_| planner).await
    }

    async fn bind_as<P: RolloutPlanner>(
        config: Config,
        planner: impl FnOnce(Arc<Metrics>) -> P,
    ) -> Result<Self, Error> {
        config.check()?;
        let metrics = Metrics::new().map_err(|source| Error::Metrics { source })?;
        let metrics = Arc::new(metrics);
        let tls = config.tls.clone().map(|files| {
            Tls::read(files, metrics.series.tls.clone()).map_err(|error| Error::Config {
                setting: "tls",
                problem: error.to_string(),
            })
        });
        let tls = tls.transpose()?;
        let tracing = Tracing::new(config.otlp_endpoint.as_deref(), config.trace_ratio);
        let tracing = tracing.map_err(|error| Error::Config {
            setting: "otlp_endpoint",
            problem: error.to_string(),
        })?;
        config.log();
        let (health, health_service) = Health::new().await;
        let planner = planner(Arc::clone(&metrics));
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
            routes,
            health,
            metrics,
            tracing,
            stopping,
        })
    }

    /// The address that is listened on for calls, its port known even if any was asked for.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.local_addr
    }

    /// The same for metrics and probes.
    #[must_use]
    pub fn http_addr(&self) -> Option<SocketAddr> {
        self.http.as_ref().map(|(_, address)| *address)
    }

    /// Serves until told to stop. Then, in this order: health says NOT_SERVING while serving goes on for the
    /// delay of the configuration, no connection is taken any more and those there are take no new calls, running
    /// calls end, and after the grace of the configuration this returns whatever still runs. That goes on until
    /// its connection closes or the runtime ends.
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
            routes,
            health,
            metrics,
            tracing,
            stopping,
        } = self;
        let stack = stack::stack(&config, &metrics, tracing.clone(), routes);
        let connections = Listener {
            listener,
            tls,
            connections_max: config.connections_max,
            silence_max: config.keepalive_interval + config.keepalive_timeout,
            closed: metrics.series.closed.clone(),
        }
        .connections(stopping.subscribe());
        let stopped = stopping.subscribe();
        let mut serving = pin!(http2::serve(&config, stack, connections, stopped));
        // Aborted when this returns.
        let mut beside = tokio::task::JoinSet::new();
        let upkept = Arc::clone(&metrics);
        beside.spawn(async move {
            let mut ticks = tokio::time::interval(UPKEEP_INTERVAL);
            loop {
                ticks.tick().await;
                upkept.upkeep();
            }
        });
        if let Some((listener, address)) = http {
            tracing::info!("metrics and probes on {address}");
            let health = health.clone();
            beside.spawn(Admin { health, metrics }.serve(listener));
        }
        health.serving().await;
        // Programs find the port by this line: docs/api.md promises it.
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
        // It waits for an answer of the collector, which the threads of this runtime read.
        let _ = tokio::task::spawn_blocking(move || tracing.flush()).await;
        if ended {
            tracing::info!("stopped");
        } else {
            tracing::warn!("stopped with calls still running");
        }
        Ok(())
    }
}

async fn listen(address: SocketAddr) -> Result<(TcpListener, SocketAddr), Error> {
    let failed = |source| Error::Listen { address, source };
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let local_addr = listener.local_addr().map_err(failed)?;
    Ok((listener, local_addr))
}
