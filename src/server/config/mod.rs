//! The configuration. docs/operations.md has it as a table.

mod traces;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

pub use self::traces::Traces;

use super::Error;
use crate::server::COMMIT;
use crate::server::admission::memory_limit::{self, memory_limit};
use crate::server::connection::clients;
use crate::wire;

const MIB: usize = 1 << 20;

/// The configuration of a server. Validated as a whole before any port is bound.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Where to listen for calls. Port 0 selects a free port. Default 127.0.0.1:50051: without [`tls`](Self::tls)
    /// calls are neither encrypted nor authenticated, so other machines have access only if you configure it.
    pub listen: SocketAddr,
    /// Where to answer `/metrics`, `/livez` and `/readyz` in plain HTTP. Default none.
    pub http_listen: Option<SocketAddr>,
    /// Encrypt calls. Default none: in a mesh the sidecar does it.
    pub tls: Option<TlsFiles>,
    /// Clients that may call, by the DNS names and URIs in their certificates; `/*` at the end of a URI stands for
    /// all URIs below it. Default none: every client with a certificate of [`TlsFiles::client_ca`] may.
    pub tls_client_sans: Vec<String>,
    /// Sites whose scripts may call from browsers, by origin, such as `https://console.example.com`. Default none.
    pub cors_allow_origins: Vec<String>,
    /// Compress answers with at least so many bytes, for clients that accept gzip. Default none: inside a cluster,
    /// compressing takes longer than sending.
    pub compress_answers_min: Option<usize>,
    /// How long a call may take, whatever its own deadline. Default 10 s.
    pub deadline_max: Duration,
    /// Calls to the planner that may be under way at once, and half as many large ones beside them; more are shed.
    /// Default 100: at 0.3 ms of one core for a usual plan, what is admitted last waits 15 ms for two cores.
    pub concurrent_calls_max: usize,
    /// How long a request may take to arrive, waiting for a processor included, and still be admitted when
    /// [`concurrent_calls_max`](Self::concurrent_calls_max) others are under way or arriving. Default 50 ms.
    pub queue_time_max: Duration,
    /// Large plans that may be computed at once; more of those under way wait for their turn. Default one for each
    /// core.
    pub large_plans_max: usize,
    /// MiB of requests that may be held while they arrive and wait; more are shed. Default 256.
    pub buffer_mib_max: usize,
    /// Connections that may be open at once; more wait to be accepted. Default 16,384, or fewer where the limit of open
    /// files is low: some are kept for probes.
    pub connections_max: usize,
    /// Calls that one connection may have open at once. Default 256.
    pub streams_max: u32,
    /// Bytes of headers that a call may have. Default 16 KiB.
    pub header_bytes_max: u32,
    /// How long a connection may be silent before the server pings it. Default 60 s.
    pub keepalive_interval: Duration,
    /// How long the response to a ping may take; then the connection is closed. Default 20 s.
    pub keepalive_timeout: Duration,
    /// How old a connection may become, give or take a tenth that is drawn for each, before its client is told to open
    /// another one. Default none: connections must be renewed only where connections are balanced instead of calls.
    pub connection_age_max: Option<Duration>,
    /// How long to keep serving after SIGTERM, with readiness withdrawn, so that balancers notice. Default 5 s.
    pub drain_delay: Duration,
    /// How long running calls may take to end after that. Default 20 s, which together with the delay fits into the
    /// 30 s that Kubernetes gives a pod.
    pub drain_grace: Duration,
    /// Where to send traces, and which. Default nowhere.
    pub traces: Traces,
    /// Calls that take longer are logged even if they succeed. Default 1 s.
    pub slow_call: Duration,
}

/// Files in PEM, read again when they change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The server's certificate chain.
    pub cert: PathBuf,
    /// The certificate's private key.
    pub key: PathBuf,
    /// CA bundle for client certificates. Enables mutual TLS.
    pub client_ca: Option<PathBuf>,
}

// === impl Config ===

impl Default for Config {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let buffer_mib_max = memory_limit::buffer_mib_max(memory_limit());
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 50051)),
            http_listen: None,
            tls: None,
            tls_client_sans: Vec::new(),
            cors_allow_origins: Vec::new(),
            compress_answers_min: None,
            deadline_max: Duration::from_secs(10),
            concurrent_calls_max: 100,
            queue_time_max: Duration::from_millis(50),
            large_plans_max: cores,
            buffer_mib_max,
            connections_max: 16_384,
            streams_max: 256,
            header_bytes_max: 16 << 10,
            keepalive_interval: Duration::from_secs(60),
            keepalive_timeout: Duration::from_secs(20),
            connection_age_max: None,
            drain_delay: Duration::from_secs(5),
            drain_grace: Duration::from_secs(20),
            traces: Traces::default(),
            slow_call: Duration::from_secs(1),
        }
    }
}

impl Config {
    /// Large calls that may be under way at once, those that wait for their turn included.
    pub(super) fn large_calls_max(&self) -> usize {
        (self.concurrent_calls_max / 2).max(self.large_plans_max)
    }

    pub(super) fn check(&self) -> Result<(), Error> {
        const MS: Duration = Duration::from_millis(1);
        const SECOND: Duration = Duration::from_secs(1);
        const HOUR: Duration = Duration::from_secs(3600);
        let Self {
            // Only the system knows whether an address is available.
            listen: _,
            http_listen: _,
            // The files are read before a port is bound.
            tls: _,
            tls_client_sans,
            cors_allow_origins,
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
            traces,
            slow_call,
        } = self;
        check_client_sans(tls_client_sans, self.tls.as_ref())?;
        check_origins(cors_allow_origins)?;
        if let Some(bytes) = compress_answers_min {
            count("compress_answers_min", *bytes, 1, wire::ANSWER_BYTES_MAX)?;
        }
        time("deadline_max", *deadline_max, MS, HOUR)?;
        count("concurrent_calls_max", *concurrent_calls_max, 1, 100_000)?;
        time("queue_time_max", *queue_time_max, MS, HOUR)?;
        count("large_plans_max", *large_plans_max, 1, 1_000)?;
        // One request of the largest size must fit.
        count("buffer_mib_max", *buffer_mib_max, 32, 1 << 20)?;
        count("connections_max", *connections_max, 1, 1_000_000)?;
        count("streams_max", *streams_max as usize, 1, 100_000)?;
        count("header_bytes_max", *header_bytes_max as usize, 1 << 10, MIB)?;
        time("keepalive_interval", *keepalive_interval, SECOND, HOUR * 24)?;
        time("keepalive_timeout", *keepalive_timeout, SECOND, HOUR)?;
        if let Some(age) = connection_age_max {
            time("connection_age_max", *age, SECOND, HOUR * 24)?;
        }
        time("drain_delay", *drain_delay, Duration::ZERO, HOUR)?;
        time("drain_grace", *drain_grace, Duration::ZERO, HOUR)?;
        time("slow_call", *slow_call, Duration::ZERO, HOUR)?;
        if !(0.0..=1.0).contains(&traces.ratio) {
            return Err(wrong("trace_ratio", "must be from 0 to 1".to_owned()));
        }
        if let Some(endpoint) = &traces.endpoint
            && let Err(problem) = traces::check_endpoint(endpoint)
        {
            return Err(wrong("otlp_endpoint", problem.to_owned()));
        }
        Ok(())
    }

    /// Logs everything that is in effect in one line, and what is ignored.
    pub(super) fn log(&self) {
        let Self {
            listen,
            http_listen,
            tls,
            tls_client_sans,
            cors_allow_origins,
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
            traces,
            slow_call,
        } = self;
        tracing::info!(
            version = env!("CARGO_PKG_VERSION"),
            commit = COMMIT,
            %listen,
            http_listen = http_listen.map(tracing::field::display),
            tls_cert = tls.as_ref().map(|tls| tracing::field::display(tls.cert.display())),
            tls_key = tls.as_ref().map(|tls| tracing::field::display(tls.key.display())),
            tls_client_ca = tls
                .as_ref()
                .and_then(|tls| tls.client_ca.as_ref())
                .map(|path| tracing::field::display(path.display())),
            tls_client_san = (!tls_client_sans.is_empty()).then(|| tls_client_sans.join(",")),
            cors_allow_origin =
                (!cors_allow_origins.is_empty()).then(|| cors_allow_origins.join(",")),
            compress_answers_min,
            deadline_max_seconds = deadline_max.as_secs_f64(),
            concurrent_calls_max,
            queue_time_max_seconds = queue_time_max.as_secs_f64(),
            large_plans_max,
            buffer_mib_max,
            memory_limit_bytes = memory_limit(),
            connections_max,
            streams_max,
            header_bytes_max,
            keepalive_interval_seconds = keepalive_interval.as_secs_f64(),
            keepalive_timeout_seconds = keepalive_timeout.as_secs_f64(),
            connection_age_max_seconds = connection_age_max.map(|age| age.as_secs_f64()),
            drain_delay_seconds = drain_delay.as_secs_f64(),
            drain_grace_seconds = drain_grace.as_secs_f64(),
            otlp_endpoint = traces.shown_endpoint(),
            trace_ratio = traces.ratio,
            trace_parent_based = traces.is_parent_based,
            slow_call_seconds = slow_call.as_secs_f64(),
            request_bytes_max = wire::REQUEST_BYTES_MAX,
            answer_bytes_max = wire::ANSWER_BYTES_MAX,
            "rollplan starts"
        );
        for ignored in &traces.ignored {
            tracing::warn!("{ignored}");
        }
    }
}

fn wrong(setting: &'static str, problem: String) -> Error {
    Error::Config { setting, problem }
}

/// A value beyond these bounds is a mistake, for example in its unit.
fn time(setting: &'static str, value: Duration, min: Duration, max: Duration) -> Result<(), Error> {
    if value < min || value > max {
        let problem = format!("must be from {min:?} to {max:?}, not {value:?}");
        return Err(wrong(setting, problem));
    }
    Ok(())
}

fn count(setting: &'static str, value: usize, min: usize, max: usize) -> Result<(), Error> {
    if value < min || value > max {
        let problem = format!("must be from {min} to {max}, not {value}");
        return Err(wrong(setting, problem));
    }
    Ok(())
}

/// As browsers send them: a scheme, a host, and a port unless it is the scheme's own.
fn check_origins(origins: &[String]) -> Result<(), Error> {
    for origin in origins {
        let host = ["https://", "http://"].map(|scheme| origin.strip_prefix(scheme));
        let host = host.into_iter().flatten().next();
        let is_host = |byte: u8| {
            byte.is_ascii_lowercase() || byte.is_ascii_digit() || b".-:[]_".contains(&byte)
        };
        if !host.is_some_and(|host| !host.is_empty() && host.bytes().all(is_host)) {
            let problem = format!(
                "{origin:?} is not an origin, such as https://console.example.com or http://localhost:8080"
            );
            return Err(wrong("cors_allow_origin", problem));
        }
    }
    Ok(())
}

fn check_client_sans(names: &[String], tls: Option<&TlsFiles>) -> Result<(), Error> {
    let wrong = |problem: String| Err(wrong("tls_client_san", problem));
    if !names.is_empty() && tls.is_none_or(|tls| tls.client_ca.is_none()) {
        return wrong("needs tls_client_ca: without it, clients show no certificates".to_owned());
    }
    for name in names {
        if let Err(problem) = clients::check(name) {
            return wrong(format!("{name:?} {problem}"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
