//! The configuration of `rollplan serve`: each setting is an option and an environment variable.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use rollplan_server::{Config, TlsFiles, Traces};
use rollplan_text::span;

use super::error::Error;
use super::options::Switch;
use super::page::{HINT_PAGE, PAGE};

/// How to serve. Settings that are not given are those of [`Config::default`].
#[derive(Args, Debug)]
pub(super) struct ServeArgs {
    /// Address to listen on; port 0 selects a free port [default: 127.0.0.1:50051]
    ///
    /// Without --tls-cert, calls are neither encrypted nor authenticated: allow access from other machines only
    /// deliberately, for example with 0.0.0.0:50051 in a container.
    #[arg(long, value_name = "ADDRESS:PORT", env = "ROLLPLAN_LISTEN")]
    listen: Option<SocketAddr>,
    /// Address to serve /metrics, /livez and /readyz on, over plain HTTP [default: none]
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
    /// DNS names or URIs, separated by commas: only clients with one of them in their certificates may call
    ///
    /// A URI may end in /* to include all URIs below it, for example spiffe://cluster.local/ns/apps/*. Without names, every
    /// client with a certificate of --tls-client-ca may call.
    #[arg(
        long,
        value_name = "NAME",
        env = "ROLLPLAN_TLS_CLIENT_SAN",
        value_delimiter = ','
    )]
    tls_client_san: Vec<String>,
    /// Origins from which browsers may call, separated by commas
    ///
    /// An origin has a scheme, a host, and a port unless it is the default port of the scheme.
    #[arg(
        long,
        value_name = "ORIGIN",
        env = "ROLLPLAN_CORS_ALLOW_ORIGIN",
        value_delimiter = ','
    )]
    cors_allow_origin: Vec<String>,
    /// Whether to serve the page for browsers at / [default: on]
    #[arg(long, value_enum, env = "ROLLPLAN_PAGE")]
    page: Option<Switch>,
    /// Compress answers of at least this many bytes, for clients that accept gzip [default: never]
    #[arg(long, value_name = "BYTES", env = "ROLLPLAN_COMPRESS_ANSWERS_MIN")]
    compress_answers_min: Option<usize>,
    /// Upper limit of the deadlines of calls [default: 10s]
    #[arg(long, value_name = "DURATION", env = "ROLLPLAN_DEADLINE_MAX", value_parser = span::parse)]
    deadline_max: Option<Duration>,
    /// Maximum number of concurrent calls to the planner; further calls are rejected, and clients may retry them [default:
    /// 100]
    ///
    /// The limit applies to all connections together. Half as many large calls may run in addition.
    #[arg(long, value_name = "COUNT", env = "ROLLPLAN_CONCURRENT_CALLS_MAX")]
    concurrent_calls_max: Option<usize>,
    /// How long a request may take to arrive and still be admitted under full load [default: 50ms]
    ///
    /// This includes the wait for a processor. The load is full while --concurrent-calls-max other calls are in flight or
    /// arriving, not counting those that wait for their client.
    #[arg(long, value_name = "DURATION", env = "ROLLPLAN_QUEUE_TIME_MAX", value_parser = span::parse)]
    queue_time_max: Option<Duration>,
    /// Maximum number of large plans that are computed at the same time; others wait [default: one for each core]
    ///
    /// A plan is large if it takes more than about a millisecond.
    #[arg(long, value_name = "COUNT", env = "ROLLPLAN_LARGE_PLANS_MAX")]
    large_plans_max: Option<usize>,
    /// MiB of memory for requests, large plans and answers; calls that exceed it are rejected [default: from the memory
    /// limit]
    ///
    /// The default is (M - 64) / 2 for a container with a memory limit of M MiB, but at least 32 and at most 512, and 512
    /// without a limit.
    #[arg(long, value_name = "MIB", env = "ROLLPLAN_BUFFER_MIB_MAX")]
    buffer_mib_max: Option<usize>,
    /// Maximum number of open connections; others wait [default: 16384]
    #[arg(long, value_name = "COUNT", env = "ROLLPLAN_CONNECTIONS_MAX")]
    connections_max: Option<usize>,
    /// Maximum number of concurrent calls on a connection [default: 256]
    #[arg(long, value_name = "COUNT", env = "ROLLPLAN_STREAMS_MAX")]
    streams_max: Option<u32>,
    /// Maximum size of the headers of a call [default: 16384]
    #[arg(long, value_name = "BYTES", env = "ROLLPLAN_HEADER_BYTES_MAX")]
    header_bytes_max: Option<u32>,
    /// How long a connection may be idle before the server pings it [default: 60s]
    ///
    /// With HTTP/1.1, which has no pings, this is how long the headers of the next request may take.
    #[arg(long, value_name = "DURATION", env = "ROLLPLAN_KEEPALIVE_INTERVAL", value_parser = span::parse)]
    keepalive_interval: Option<Duration>,
    /// How long the response to a ping may take [default: 20s]
    #[arg(long, value_name = "DURATION", env = "ROLLPLAN_KEEPALIVE_TIMEOUT", value_parser = span::parse)]
    keepalive_timeout: Option<Duration>,
    /// Age at which the server asks a client to reconnect, plus or minus up to 10% for each connection [default: unlimited]
    #[arg(long, value_name = "DURATION", env = "ROLLPLAN_CONNECTION_AGE_MAX", value_parser = span::parse)]
    connection_age_max: Option<Duration>,
    /// How long to keep serving after SIGTERM, with readiness withdrawn [default: 5s]
    #[arg(long, value_name = "DURATION", env = "ROLLPLAN_DRAIN_DELAY", value_parser = span::parse)]
    drain_delay: Option<Duration>,
    /// How long running calls may take after the drain delay [default: 20s]
    #[arg(long, value_name = "DURATION", env = "ROLLPLAN_DRAIN_GRACE", value_parser = span::parse)]
    drain_grace: Option<Duration>,
    /// OTLP/gRPC endpoint to send traces to, for example http://127.0.0.1:4317 [default: none]
    ///
    /// With https://, the connection is encrypted.
    ///
    /// [env: OTEL_EXPORTER_OTLP_ENDPOINT=]
    #[arg(long, value_name = "URL")]
    otlp_endpoint: Option<String>,
    /// Share of the traces started by rollplan that are sampled, from 0 to 1 [default: 1]
    ///
    /// For a trace that a caller started, the decision of the caller applies.
    ///
    /// [env: OTEL_TRACES_SAMPLER_ARG=]
    #[arg(long, value_name = "SHARE")]
    trace_ratio: Option<f64>,
    /// Log calls that take longer than this, even if they succeed [default: 1s]
    #[arg(long, value_name = "DURATION", env = "ROLLPLAN_SLOW_CALL", value_parser = span::parse)]
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
            page,
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
            commit: env!("ROLLPLAN_COMMIT"),
            listen: listen.unwrap_or(default.listen),
            http_listen,
            tls,
            tls_client_sans: named(tls_client_san),
            cors_allow_origins: named(cors_allow_origin),
            page: (page != Some(Switch::Off)).then(|| PAGE.unwrap_or(HINT_PAGE)),
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
