//! The metrics. docs/reference/service.md describes them.
//!
//! The names and labels of call metrics are those of go-grpc-middleware, so common dashboards work. No label contains
//! text that a caller chose. All series exist from the start, with the value zero.

mod describe;

use std::sync::Arc;
use std::time::{Duration, Instant};

use metrics::{Counter, Gauge, Histogram, counter, gauge, histogram, with_local_recorder};
use metrics_exporter_prometheus::{
    BuildError, Matcher, PrometheusBuilder, PrometheusHandle, PrometheusRecorder,
};
use rollplan_core::snapshot::Strategy;
use rollplan_wire::Facts;
use rollplan_wire::proto::{Phase, PlanRolloutResponse};
use tonic::Code;

use self::describe::describe;
use crate::admission::offload;
use crate::connection::ConnectionMetrics;
use crate::connection::listener::HandshakeMetrics;
use crate::connection::tls::TlsMetrics;
use crate::observability::log::{self, RateLimit};
use crate::protocol::methods::{self, PLANNER, UNKNOWN};

/// From the plan of a small rollout to the default deadline.
const SECONDS: [f64; 17] = [
    0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0,
    2.5, 5.0, 10.0,
];
const STEPS: [f64; 9] = [0.0, 1.0, 2.0, 3.0, 5.0, 10.0, 30.0, 100.0, 1000.0];
const PODS: [f64; 9] = [0.0, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0, 10_000.0];

/// From 1 KiB to the limit of 16 MiB.
const BYTES: [f64; 8] = [
    1024.0,
    4096.0,
    16_384.0,
    65_536.0,
    262_144.0,
    1_048_576.0,
    4_194_304.0,
    16_777_216.0,
];

/// The labels of codes in go-grpc-middleware, by number.
const CODES: [&str; 17] = [
    "OK",
    "Canceled",
    "Unknown",
    "InvalidArgument",
    "DeadlineExceeded",
    "NotFound",
    "AlreadyExists",
    "PermissionDenied",
    "ResourceExhausted",
    "FailedPrecondition",
    "Aborted",
    "OutOfRange",
    "Unimplemented",
    "Internal",
    "Unavailable",
    "DataLoss",
    "Unauthenticated",
];

const PHASES: [(Phase, &str); 9] = [
    (Phase::Unspecified, "unspecified"),
    (Phase::Progressing, "progressing"),
    (Phase::Complete, "complete"),
    (Phase::Paused, "paused"),
    (Phase::Stalled, "stalled"),
    (Phase::Deleting, "deleting"),
    (Phase::Refused, "refused"),
    (Phase::Degraded, "degraded"),
    (Phase::NotJudged, "not_judged"),
];

/// The metrics and their exposition.
pub(crate) struct Metrics {
    pub(crate) series: Series,
    recorder: PrometheusRecorder,
    handle: PrometheusHandle,
    process: metrics_process::Collector,
}

/// The metrics.
pub(crate) struct Series {
    methods: Vec<Arc<MethodMetrics>>,
    /// The metrics of all unknown methods: their names are text that clients chose.
    unknown: Arc<MethodMetrics>,
    plans: [[Counter; PHASES.len()]; Strategy::NAMES.len()],
    plan_seconds: Histogram,
    plan_steps: Histogram,
    snapshot_pods: Histogram,
    /// Calls to the planner in flight.
    pub(crate) in_flight: Gauge,
    /// The work and memory of calls, and the calls that were shed.
    pub(crate) load: Load,
    pub(crate) connections: ConnectionMetrics,
    /// The maximum number of connections.
    pub(crate) connections_max: Gauge,
    pub(crate) handshakes: HandshakeMetrics,
    /// The expiry of the certificates, and failed reloads.
    pub(crate) tls: TlsMetrics,
    panics: Counter,
    lines_not_written: Counter,
    /// Decides which failed calls are logged.
    pub(crate) failure_lines: RateLimit,
}

/// The work and memory of calls.
#[derive(Clone)]
pub(crate) struct Load {
    pub(crate) buffer_bytes: Gauge,
    pub(crate) request_bytes: Histogram,
    pub(crate) large: offload::OffloadMetrics,
}

/// The metrics of one method.
pub(crate) struct MethodMetrics {
    path: String,
    pub(crate) started: Counter,
    handled: Vec<Counter>,
    pub(crate) internal_errors: Counter,
    pub(crate) received: Counter,
    pub(crate) sent: Counter,
    pub(crate) seconds: Histogram,
    pub(crate) is_planner: bool,
}

// === impl Metrics ===

impl Metrics {
    /// `commit` is that of the build.
    pub(crate) fn new(commit: &'static str) -> Result<Self, BuildError> {
        let full = |name: &str| Matcher::Full(name.to_owned());
        let recorder = PrometheusBuilder::new()
            .set_buckets_for_metric(Matcher::Suffix("_seconds".to_owned()), &SECONDS)?
            .set_buckets_for_metric(full("rollplan_plan_steps"), &STEPS)?
            .set_buckets_for_metric(full("rollplan_snapshot_pods"), &PODS)?
            .set_buckets_for_metric(full("rollplan_request_bytes"), &BYTES)?
            .build_recorder();
        let handle = recorder.handle();
        with_local_recorder(&recorder, describe);
        let series = with_local_recorder(&recorder, || Series::register(commit));
        let process = metrics_process::Collector::default();
        with_local_recorder(&recorder, || process.describe());
        Ok(Self {
            series,
            recorder,
            handle,
            process,
        })
    }

    /// Renders all metrics in the text format of Prometheus.
    pub(crate) fn render(&self) -> String {
        let Series {
            panics,
            lines_not_written,
            ..
        } = &self.series;
        panics.absolute(log::panics());
        lines_not_written.absolute(log::lines_not_written());
        with_local_recorder(&self.recorder, || self.process.collect());
        self.handle.render()
    }

    /// Moves recent observations into buckets. Until then, each observation uses memory.
    pub(crate) fn upkeep(&self) {
        self.handle.run_upkeep();
    }
}

// === impl Series ===

impl Series {
    fn register(commit: &'static str) -> Self {
        gauge!(
            "rollplan_build_info",
            "version" => env!("CARGO_PKG_VERSION"),
            "commit" => commit
        )
        .set(1.0);
        let handshake =
            |reason| counter!("rollplan_tls_handshake_failures_total", "reason" => reason);
        let lines = |reason| counter!("rollplan_log_lines_dropped_total", "reason" => reason);
        let closed = |reason| counter!("rollplan_connections_closed_total", "reason" => reason);
        let reload = |outcome| counter!("rollplan_tls_reloads_total", "outcome" => outcome);
        let plans = Strategy::NAMES.map(|strategy| {
            PHASES.map(|(_, outcome)| {
                counter!("rollplan_plans_total", "strategy" => strategy, "outcome" => outcome)
            })
        });
        Self {
            methods: methods::all()
                .map(|it| MethodMetrics::register(it.kind, it.service, it.name).into())
                .collect(),
            unknown: MethodMetrics::register("unary", UNKNOWN, UNKNOWN).into(),
            plans,
            plan_seconds: histogram!("rollplan_plan_seconds"),
            plan_steps: histogram!("rollplan_plan_steps"),
            snapshot_pods: histogram!("rollplan_snapshot_pods"),
            in_flight: gauge!("rollplan_inflight_requests"),
            load: Load {
                buffer_bytes: gauge!("rollplan_buffer_bytes"),
                request_bytes: histogram!("rollplan_request_bytes"),
                large: offload::OffloadMetrics {
                    waiting: gauge!("rollplan_large_plans_waiting"),
                    running: gauge!("rollplan_large_plans_running"),
                    shed: counter!("rollplan_shed_total"),
                },
            },
            connections: ConnectionMetrics {
                open: gauge!("rollplan_open_connections"),
                silent: closed("silent"),
                unread: closed("response_not_read"),
            },
            connections_max: gauge!("rollplan_connections_max"),
            handshakes: HandshakeMetrics {
                failed: handshake("failed"),
                timed_out: handshake("timed_out"),
            },
            tls: TlsMetrics {
                reloads: reload("done"),
                failures: reload("failed"),
                expiry: gauge!("rollplan_tls_certificate_expiry_timestamp_seconds"),
            },
            panics: counter!("rollplan_panics_total"),
            lines_not_written: lines("not_written"),
            failure_lines: RateLimit::new(lines("rate_limited")),
        }
    }

    pub(crate) fn method(&self, path: &str) -> &Arc<MethodMetrics> {
        let mut methods = self.methods.iter();
        methods
            .find(|method| method.path == path)
            .unwrap_or(&self.unknown)
    }

    pub(crate) fn planned(&self, snapshot: &Facts, plan: &PlanRolloutResponse, took: Duration) {
        let Facts { strategy, pods, .. } = *snapshot;
        let phase = plan
            .report
            .as_ref()
            .map_or(Phase::Unspecified, |it| it.phase());
        for (name, counters) in Strategy::NAMES.iter().zip(&self.plans) {
            for ((candidate, _), counter) in PHASES.iter().zip(counters) {
                if *name == strategy && *candidate == phase {
                    counter.increment(1);
                }
            }
        }
        self.plan_seconds.record(took.as_secs_f64());
        self.plan_steps.record(plan.steps.len() as f64);
        self.snapshot_pods.record(pods as f64);
    }
}

// === impl MethodMetrics ===

impl MethodMetrics {
    fn register(kind: &'static str, service: &'static str, method: &'static str) -> Self {
        let labels = [
            ("grpc_type", kind),
            ("grpc_service", service),
            ("grpc_method", method),
        ];
        let handled = CODES.map(|code| {
            let labels = labels.into_iter().chain([("grpc_code", code)]);
            counter!("grpc_server_handled_total", &labels.collect::<Vec<_>>())
        });
        Self {
            path: format!("/{service}/{method}"),
            started: counter!("grpc_server_started_total", &labels),
            handled: handled.into(),
            internal_errors: counter!("rollplan_internal_errors_total", &labels),
            received: counter!("grpc_server_msg_received_total", &labels),
            sent: counter!("grpc_server_msg_sent_total", &labels),
            seconds: histogram!("grpc_server_handling_seconds", &labels),
            is_planner: service == PLANNER,
        }
    }

    /// Records the end of a call.
    pub(crate) fn handled(&self, code: Code, start: Instant) {
        if let Some(handled) = self.handled.get(code as usize) {
            handled.increment(1);
        }
        self.seconds.record(start.elapsed().as_secs_f64());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_and_phase_has_a_label() {
        for (number, name) in CODES.iter().enumerate() {
            let code = format!("{:?}", Code::from(i32::try_from(number).unwrap()));
            let code = code.replace("Cancelled", "Canceled").replace("Ok", "OK");
            assert_eq!(code, *name);
        }
        for number in 0.. {
            let Ok(phase) = Phase::try_from(number) else {
                assert_eq!(usize::try_from(number).unwrap(), PHASES.len());
                break;
            };
            assert_eq!(PHASES[usize::try_from(number).unwrap()].0, phase);
        }
    }

    #[test]
    fn every_series_starts_at_zero() {
        let text = Metrics::new("abc1234").unwrap().render();
        let planner = r#"grpc_type="unary",grpc_service="rollplan.v1.RolloutPlanner",grpc_method="PlanRollout""#;
        for line in [
            format!("grpc_server_started_total{{{planner}}} 0"),
            format!("grpc_server_handled_total{{{planner},grpc_code=\"OK\"}} 0"),
            format!("grpc_server_handled_total{{{planner},grpc_code=\"Unavailable\"}} 0"),
            format!("grpc_server_msg_received_total{{{planner}}} 0"),
            format!("grpc_server_handling_seconds_bucket{{{planner},le=\"0.00005\"}} 0"),
            "rollplan_plan_seconds_bucket{le=\"+Inf\"} 0".to_owned(),
            "rollplan_plan_steps_count 0".to_owned(),
            "rollplan_snapshot_pods_count 0".to_owned(),
            "rollplan_inflight_requests 0".to_owned(),
            "rollplan_shed_total 0".to_owned(),
            "rollplan_plans_total{strategy=\"Recreate\",outcome=\"stalled\"} 0".to_owned(),
            "rollplan_connections_closed_total{reason=\"silent\"} 0".to_owned(),
            "rollplan_open_connections 0".to_owned(),
            "rollplan_tls_handshake_failures_total{reason=\"timed_out\"} 0".to_owned(),
            "rollplan_log_lines_dropped_total{reason=\"not_written\"} 0".to_owned(),
            format!("rollplan_internal_errors_total{{{planner}}} 0"),
            "rollplan_tls_reloads_total{outcome=\"failed\"} 0".to_owned(),
            "rollplan_tls_certificate_expiry_timestamp_seconds 0".to_owned(),
            format!(
                "rollplan_build_info{{version=\"{}\",commit=\"abc1234\"}} 1",
                env!("CARGO_PKG_VERSION")
            ),
        ] {
            assert!(
                text.lines().any(|it| it == line),
                "{line} is not in\n{text}"
            );
        }
        for series in text.lines().filter_map(|it| it.strip_prefix("# TYPE ")) {
            let (name, _) = series.split_once(' ').unwrap();
            let help = format!("# HELP {name} ");
            assert!(text.lines().any(|it| it.starts_with(&help)), "{name}");
        }
        assert!(text.contains("\nprocess_resident_memory_bytes "));
        // A histogram without buckets would be rendered as a summary.
        assert!(!text.contains(" summary\n"));
    }
}
