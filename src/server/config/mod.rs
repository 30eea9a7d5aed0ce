//! The configuration. docs/reference/service.md lists the settings.

pub(super) mod client_name;
mod traces;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use rollplan_wire as wire;

pub use self::traces::Traces;

use super::Error;
use crate::admission::memory_limit::{self, memory_limit};

const MIB: usize = 1 << 20;

/// The configuration of a server, validated as a whole before any port is bound.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// The commit that the program was built from, for the log and the metrics. Default `unknown`.
    pub commit: &'static str,
    /// The address for calls. Port 0 selects a free port. Default 127.0.0.1:50051: without [`tls`](Self::tls), calls
    /// are neither encrypted nor authenticated, so access from other machines must be configured explicitly.
    pub listen: SocketAddr,
    /// The address of `/metrics`, `/livez` and `/readyz` in plain HTTP. Default none.
    pub http_listen: Option<SocketAddr>,
    /// The files for encrypted calls. Default none: in a mesh, the sidecar encrypts them.
    pub tls: Option<TlsFiles>,
    /// The clients that may call, by the DNS names and URIs in their certificates. `/*` at the end of a URI matches all
    /// URIs below it. Default none: all clients with a certificate of [`TlsFiles::client_ca`] may call.
    pub tls_client_sans: Vec<String>,
    /// The origins whose scripts may call from browsers, for example `https://console.example.com`. Default none.
    pub cors_allow_origins: Vec<String>,
    /// The HTML page for people at `/`. Default none.
    pub page: Option<&'static str>,
    /// The minimum size of answers that are compressed, in bytes, for clients that accept gzip. Default none: inside a
    /// cluster, compression takes longer than sending.
    pub compress_answers_min: Option<usize>,
    /// The maximum duration of a call, which also limits its own deadline. Default 10 s.
    pub deadline_max: Duration,
    /// The maximum number of concurrent calls to the planner. Half as many large calls may run in addition. Calls over
    /// the limit are shed. Default 100: at 0.3 ms of one core for a typical plan, the last admitted call waits 15 ms on
    /// two cores.
    pub concurrent_calls_max: usize,
    /// How long a request may take to arrive, including the time until a processor is available, and still be admitted
    /// while [`concurrent_calls_max`](Self::concurrent_calls_max) other calls are in flight or arriving. Default 50 ms.
    pub queue_time_max: Duration,
    /// The maximum number of large plans that are computed concurrently. Further large plans wait. Default one per
    /// core.
    pub large_plans_max: usize,
    /// The memory budget of requests, large plans and answers, in MiB. Calls that exceed it are shed. Default 512, or
    /// less under a memory limit.
    pub buffer_mib_max: usize,
    /// The maximum number of open connections. Further connections wait to be accepted. Default 16,384, or less under a
    /// low limit of open files, because some are reserved for probes.
    pub connections_max: usize,
    /// The maximum number of concurrent calls on one connection. Default 256.
    pub streams_max: u32,
    /// The maximum size of the headers of a call, in bytes. Default 16 KiB.
    pub header_bytes_max: u32,
    /// How long a connection may be silent before the server pings it. Default 60 s.
    pub keepalive_interval: Duration,
    /// How long the response to a ping may take before the connection is closed. Default 20 s.
    pub keepalive_timeout: Duration,
    /// The maximum age of a connection, plus or minus a random tenth, after which its client is told to reconnect.
    /// Default none: only balancing by connection, instead of by call, needs new connections.
    pub connection_age_max: Option<Duration>,
    /// How long to keep serving after SIGTERM, with readiness withdrawn, so that load balancers notice. Default 5 s.
    pub drain_delay: Duration,
    /// How long running calls may take to end after that. Default 20 s. Together with the delay, this is within the 30
    /// s that Kubernetes gives a pod.
    pub drain_grace: Duration,
    /// The destination and selection of traces. Default none.
    pub traces: Traces,
    /// Calls that take longer are logged even if they succeed. Default 1 s.
    pub slow_call: Duration,
}

/// PEM files, reloaded when they change.
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
            commit: "unknown",
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 50051)),
            http_listen: None,
            tls: None,
            tls_client_sans: Vec::new(),
            cors_allow_origins: Vec::new(),
            page: None,
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
    /// The maximum number of concurrent large calls, including those that wait.
    pub(super) fn large_calls_max(&self) -> usize {
        (self.concurrent_calls_max / 2).max(self.large_plans_max)
    }

    pub(super) fn check(&self) -> Result<(), Error> {
        const MS: Duration = Duration::from_millis(1);
        const SECOND: Duration = Duration::from_secs(1);
        const HOUR: Duration = Duration::from_secs(3600);
        let Self {
            commit: _,
            // Only the system knows whether an address is available.
            listen: _,
            http_listen: _,
            // The files are read before a port is bound.
            tls: _,
            tls_client_sans,
            cors_allow_origins,
            page: _,
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
        // The largest possible request must fit.
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

    /// Logs all effective settings in one line, and the ignored variables.
    pub(super) fn log(&self) {
        let Self {
            commit,
            listen,
            http_listen,
            tls,
            tls_client_sans,
            cors_allow_origins,
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
            traces,
            slow_call,
        } = self;
        tracing::info!(
            version = env!("CARGO_PKG_VERSION"),
            commit,
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
            page = page.is_some(),
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

/// A value outside these bounds is an error, for example in its unit.
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

/// Checks that origins have the form in which browsers send them: a scheme, a host, and a port unless it is the
/// default.
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
        if let Err(problem) = client_name::check(name) {
            return wrong(format!("{name:?} {problem}"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
