//! Observability of the server: log, metrics, traces, and the port for metrics and probes.

pub(crate) mod admin;
pub(crate) mod calls;
pub(crate) mod health;
pub(crate) mod log;
pub(crate) mod metrics;
pub(crate) mod trace;
