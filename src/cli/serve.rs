//! The configuration of `rollplan serve`: each setting is an option and an environment variable.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::error::Error;
use crate::server::{Config, TlsFiles, Traces};
use crate::text::span;

/// How to serve. Settings that are not given are those of [`Config::default`].
#[derive(Args, Debug)]
pub(super) struct ServeArgs {
    /// Where to listen for calls; port 0 selects a free port [default: 127.0.0.1:50051]
    ///
    /// Without --tls-cert, calls are neither encrypted nor authenticated: give other machines access only if you
    /// mean to, for example with 0.0.0.0:50051 in a container.
    #[arg(long, value_name = "ADDRESS:PORT", env = "ROLLPLAN_LISTEN")]
    listen: Option<SocketAddr>,
    /// Where to serve /metrics, /livez and /readyz in plain HTTP [default: nowhere]
    #[arg(long, value_name = "ADDRESS:PORT", env = "ROLLPLAN_HTTP_LISTEN")]
    http_listen: Option<SocketAddr>,
    /// Certificate chain of the server in PEM; reloaded when it changes
    #[arg(
        long,
        value_name = "FILE",
        env = "ROLLPLAN_TLS_CERT",
        requires = "tls_key"
    )]
    tls_cert: Option<PathBuf>,
    /// Private key of the certificate in PEM
    #[arg(
        long,
        value_name = "FILE",
        env = "ROLLPLAN_TLS_KEY",
        requires = "tls_cert"
    )]
    tls_key: Option<PathBuf>,
    /// CA bundle for client certificates in PEM; enables mutual TLS
    #[arg(
        long,
        value_name = "FILE",
        env = "ROLLPLAN_TLS_CLIENT_CA",
        requires = "tls_cert"
    )]
    tls_client_ca: Option<PathBuf>,
    /// Clients that may call, by a DNS name or URI of their certificates; several separated by commas
    ///
    /// A URI may end in /*, as spiffe://cluster.local/ns/apps/*, which stands for all URIs below it. Without names
    /// every client with a certificate of --tls-client-ca may call.
    #[arg(
        long,
        value_name = "NAME",
        env = "ROLLPLAN_TLS_CLIENT_SAN",
        value_delimiter = ','
    )]
    tls_client_san: Vec<String>,
    /// Origins of sites whose scripts may call from browsers; several separated by commas
    ///
    /// An origin has a scheme, a host, and a port unless it is the default of the scheme.
    #[arg(
        long,
        value_name = "ORIGIN",
        env = "ROLLPLAN_CORS_ALLOW_ORIGIN",
        value_delimiter = ','
    )]
    cors_allow_origin: Vec<String>,
    /// Compress answers of at least this many bytes, for clients that accept gzip [default: none]
    #[arg(long, value_name = "BYTES", env = "ROLLPLAN_COMPRESS_ANSWERS_MIN")]
    compress_answers_min: Option<usize>,
    /// How long a call may take, whatever its own deadline [default: 10s]
    #[arg(long, value_name = "TIME", env = "ROLLPLAN_DEADLINE_MAX", value_parser = span::parse)]
    deadline_max: Option<Duration>,
    /// Calls to the planner in flight at once; more are refused, to be retried [default: 100]
    #[arg(long, value_name = "COUNT", env = "ROLLPLAN_CONCURRENT_CALLS_MAX")]
    concurrent_calls_max: Option<usize>,
    /// How long a request may take to arrive and still be admitted under full load [default: 50ms]
    #[arg(long, value_name = "TIME", env = "ROLLPLAN_QUEUE_TIME_MAX", value_parser = span::parse)]
    queue_time_max: Option<Duration>,
    /// Large plans computed at once; more wait [default: one for each core]
    #[arg(long, value_name = "COUNT", env = "ROLLPLAN_LARGE_PLANS_MAX")]
    large_plans_max: Option<usize>,
    /// MiB of memory held for requests, large plans and answers; calls beyond it are refused [default: from the memory limit]
    #[arg(long, value_name = "MIB", env = "ROLLPLAN_BUFFER_MIB_MAX")]
    buffer_mib_max: Option<usize>,
    /// Connections open at once; more wait [default: 16384]
    #[arg(long, value_name = "COUNT", env = "ROLLPLAN_CONNECTIONS_MAX")]
    connections_max: Option<usize>,
    /// Calls open at once on one connection [default: 256]
    #[arg(long, value_name = "COUNT", env = "ROLLPLAN_STREAMS_MAX")]
    streams_max: Option<u32>,
    /// Bytes of headers of one call [default: 16384]
    #[arg(long, value_name = "BYTES", env = "ROLLPLAN_HEADER_BYTES_MAX")]
    header_bytes_max: Option<u32>,
    /// How long a connection may be silent before the server pings it [default: 60s]
    #[arg(long, value_name = "TIME", env = "ROLLPLAN_KEEPALIVE_INTERVAL", value_parser = span::parse)]
    keepalive_interval: Option<Duration>,
    /// How long the response to a ping may take [default: 20s]
    #[arg(long, value_name = "TIME", env = "ROLLPLAN_KEEPALIVE_TIMEOUT", value_parser = span::parse)]
    keepalive_timeout: Option<Duration>,
    /// How old a connection may become, give or take a tenth [default: any age]
    #[arg(long, value_name = "TIME", env = "ROLLPLAN_CONNECTION_AGE_MAX", value_parser = span::parse)]
    connection_age_max: Option<Duration>,
    /// How long to keep serving after SIGTERM, with readiness withdrawn [default: 5s]
    #[arg(long, value_name = "TIME", env = "ROLLPLAN_DRAIN_DELAY", value_parser = span::parse)]
    drain_delay: Option<Duration>,
    /// How long running calls may take to end after that [default: 20s]
    #[arg(long, value_name = "TIME", env = "ROLLPLAN_DRAIN_GRACE", value_parser = span::parse)]
    drain_grace: Option<Duration>,
    /// Where to send traces with OTLP over gRPC, for example http://127.0.0.1:4317 [default: nowhere]
    ///
    /// https:// encrypts them.
    ///
    /// [env: OTEL_EXPORTER_OTLP_ENDPOINT=]
    #[arg(long, value_name = "URL")]
    otlp_endpoint: Option<String>,
    /// Share of the traces started here that are sent, 0 to 1 [default: 1]
    ///
    /// For a trace that a caller started, the caller decides.
    ///
    /// [env: OTEL_TRACES_SAMPLER_ARG=]
    #[arg(long, value_name = "SHARE")]
    trace_ratio: Option<f64>,
    /// Log calls that take longer, even if they succeed [default: 1s]
    #[arg(long, value_name = "TIME", env = "ROLLPLAN_SLOW_CALL", value_parser = span::parse)]
    slow_call: Option<Duration>,
}

// === impl ServeArgs ===

impl ServeArgs {
    /// # Errors
    ///
    /// [`Error::Usage`] for options that must be given together.
    pub(super) fn config(self) -> Result<Config, Error> {
        let Self {
            listen,
            http_listen,
            tls_cert,
            tls_key,
            tls_client_ca,
            tls_client_san,
            cors_allow_origin,
            compress_answers_min,
            deadline_max,
            concurrent_calls_max,
            queue_time_max,
            large_plans_max,
            buffer_mib_max,
            connections_max,
            streams_max,
            header_bytes_max,
            keepalive_interval,
            keepalive_timeout,
            connection_age_max,
            drain_delay,
            drain_grace,
            otlp_endpoint,
            trace_ratio,
            slow_call,
        } = self;
        // clap does not parse these, because an invalid value in the environment must not stop the server.
        let variable =
            |name: &str| std::env::var_os(name).map(|value| value.to_string_lossy().into_owned());
        let endpoint = otlp_endpoint.filter(|endpoint| !endpoint.is_empty());
        let traces = Traces::new(endpoint, trace_ratio, variable);
        let tls = match (tls_cert, tls_key, tls_client_ca) {
            (Some(cert), Some(key), client_ca) => Some(TlsFiles {
                cert,
                key,
                client_ca,
            }),
            (None, None, None) => None,
            _ => {
                return Err(Error::Usage(
                    "--tls-cert and --tls-key must be given together, --tls-client-ca with both"
                        .into(),
                ));
            }
        };
        let default = Config::default();
        Ok(Config {
            listen: listen.unwrap_or(default.listen),
            http_listen,
            tls,
            tls_client_sans: named(tls_client_san),
            cors_allow_origins: named(cors_allow_origin),
            compress_answers_min,
            deadline_max: deadline_max.unwrap_or(default.deadline_max),
            concurrent_calls_max: concurrent_calls_max.unwrap_or(default.concurrent_calls_max),
            queue_time_max: queue_time_max.unwrap_or(default.queue_time_max),
            large_plans_max: large_plans_max.unwrap_or(default.large_plans_max),
            buffer_mib_max: buffer_mib_max.unwrap_or(default.buffer_mib_max),
            connections_max: connections_max.unwrap_or(default.connections_max),
            streams_max: streams_max.unwrap_or(default.streams_max),
            header_bytes_max: header_bytes_max.unwrap_or(default.header_bytes_max),
            keepalive_interval: keepalive_interval.unwrap_or(default.keepalive_interval),
            keepalive_timeout: keepalive_timeout.unwrap_or(default.keepalive_timeout),
            connection_age_max,
            drain_delay: drain_delay.unwrap_or(default.drain_delay),
            drain_grace: drain_grace.unwrap_or(default.drain_grace),
            traces,
            slow_call: slow_call.unwrap_or(default.slow_call),
        })
    }
}

/// clap reads an empty variable as one empty name.
fn named(names: Vec<String>) -> Vec<String> {
    names.into_iter().filter(|name| !name.is_empty()).collect()
}
