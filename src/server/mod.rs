//! The planner as a gRPC service: one port, plain HTTP/2.
//!
//! [`run`] is all of `rollplan serve`: logs, signals and the threads. [`Server`] is the service alone, for
//! programs and tests that have these already. stack.rs shows what a call passes through, from top to bottom.

mod config;
mod errors;
mod health;
mod log;
mod planner;
mod stack;

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;

use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;
use tonic::service::Routes;
use tonic::transport::server::TcpIncoming;

pub use config::{Config, DRAIN_GRACE_MAX};
pub use errors::{DOMAIN, to_status};
pub use planner::{LARGE_BYTES, LARGE_OBJECTS};

use crate::proto::rollout_planner_server::RolloutPlanner;
use health::Health;
use planner::Planner;

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
    /// Serving ended without having been asked to.
    #[error("serving ended")]
    Serve {
        /// What ended it.
        source: tonic::transport::Error,
    },
}

/// A service that has its port, and does not serve yet.
pub struct Server {
    config: Config,
    listener: TcpListener,
    local_addr: SocketAddr,
    routes: Routes,
    health: Health,
}

/// Everything that `rollplan serve` does once its arguments are read: serves until SIGTERM or SIGINT, and then
/// ends within the grace of the configuration. Logs are lines of JSON on standard error.
///
/// # Errors
///
/// See [`Error`]. [`Error::Config`] is the caller's mistake, and found before any port is bound.
pub fn run(config: Config) -> Result<(), Error> {
    config.check()?;
    log::init();
    let start = |source| Error::Start { source };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(start)?;
    let ended = runtime.block_on(async {
        let mut terminate = signal(SignalKind::terminate()).map_err(start)?;
        let mut interrupt = signal(SignalKind::interrupt()).map_err(start)?;
        serve(config, async {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
        })
        .await
    });
    // What is still running had its grace. Dropping the runtime would wait for it.
    runtime.shutdown_background();
    ended
}

/// Binds, serves until `shutdown` is ready, and then ends within the grace of the configuration.
///
/// # Errors
///
/// See [`Error`].
pub async fn serve(config: Config, shutdown: impl Future<Output = ()>) -> Result<(), Error> {
    Server::bind(config).await?.serve(shutdown).await
}

// === impl Server ===

impl Server {
    /// Checks the configuration and takes the port. Connections wait until [`serve`](Self::serve).
    ///
    /// # Errors
    ///
    /// [`Error::Config`] before any port is bound, [`Error::Listen`].
    pub async fn bind(config: Config) -> Result<Self, Error> {
        Self::bind_with(config, Planner).await
    }

    /// As [`bind`](Self::bind), with other answers: everything around them stays.
    ///
    /// # Errors
    ///
    /// As [`bind`](Self::bind).
    pub async fn bind_with(config: Config, planner: impl RolloutPlanner) -> Result<Self, Error> {
        config.check()?;
        config.log();
        let (health, health_service) = Health::new().await;
        let routes = stack::routes(planner, health_service)?;
        let address = config.listen;
        let listen = |source| Error::Listen { address, source };
        let listener = TcpListener::bind(address).await.map_err(listen)?;
        let local_addr = listener.local_addr().map_err(listen)?;
        Ok(Self {
            config,
            listener,
            local_addr,
            routes,
            health,
        })
    }

    /// The address that is listened on, its port known even if any was asked for.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.local_addr
    }

    /// Serves until `shutdown` is ready. Then, in this order: health says NOT_SERVING, no connection is taken
    /// any more, running calls end, and after the grace of the configuration this returns whatever still runs.
    /// That goes on until its connection closes or the runtime ends.
    ///
    /// # Errors
    ///
    /// [`Error::Serve`].
    pub async fn serve(self, shutdown: impl Future<Output = ()>) -> Result<(), Error> {
        let Self {
            config,
            listener,
            local_addr,
            routes,
            health,
        } = self;
        let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
        let (stop, stopped) = oneshot::channel::<()>();
        let mut serving = pin!(
            tonic::transport::Server::builder().serve_with_incoming_shutdown(
                stack::stack(routes),
                incoming,
                async { drop(stopped.await) },
            )
        );
        health.serving().await;
        // Programs find the port by this line: docs/api.md promises it.
        tracing::info!("listening on {local_addr}");
        tokio::select! {
            ended = &mut serving => return ended.map_err(|source| Error::Serve { source }),
            () = shutdown => {}
        }
        tracing::info!(grace_seconds = config.drain_grace.as_secs_f64(), "draining");
        health.not_serving().await;
        drop(stop);
        let drained = async {
            let (ended, ()) = tokio::join!(serving, health.end_watches());
            ended
        };
        match tokio::time::timeout(config.drain_grace, drained).await {
            Ok(ended) => {
                tracing::info!("stopped");
                ended.map_err(|source| Error::Serve { source })
            }
            Err(_) => {
                tracing::warn!("stopped with calls still running");
                Ok(())
            }
        }
    }
}
