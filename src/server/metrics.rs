//! What is counted. docs/operations.md says what each number tells.
//!
//! Names and labels of calls are those of go-grpc-middleware, so that stock dashboards show them. No label holds
//! anything that a caller chose. Every series is there from the start, at zero.

use std::time::{Duration, Instant};

use metrics::{
    Counter, Gauge, Histogram, counter, describe_counter, describe_gauge, describe_histogram,
    gauge, histogram, with_local_recorder,
};
use metrics_exporter_prometheus::{
    BuildError, Matcher, PrometheusBuilder, PrometheusHandle, PrometheusRecorder,
};
use tonic::Code;

use super::connection::Closed;
use super::tls::Observed;
use crate::proto::{Phase, PlanRolloutResponse};

/// Calls take between 0.2 ms and the deadline of 10 s.
const SECONDS: [f64; 14] = [
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
];
const STEPS: [f64; 9] = [0.0, 1.0, 2.0, 3.0, 5.0, 10.0, 30.0, 100.0, 1000.0];
const PODS: [f64; 9] = [0.0, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0, 10_000.0];

/// Type, service and name of every method that is served.
pub(super) const METHODS: [(&str, &str, &str); 8] = [
    ("unary", "rollplan.v1.RolloutPlanner", "PlanRollout"),
    ("unary", "rollplan.v1.RolloutPlanner", "ComputeStatus"),
    ("unary", "rollplan.v1.RolloutPlanner", "Rollback"),
    ("unary", "rollplan.v1.RolloutPlanner", "ListRevisions"),
    ("unary", "grpc.health.v1.Health", "Check"),
    ("server_stream", "grpc.health.v1.Health", "Watch"),
    (
        "bidi_stream",
        "grpc.reflection.v1.ServerReflection",
        "ServerReflectionInfo",
    ),
    (
        "bidi_stream",
        "grpc.reflection.v1alpha.ServerReflection",
        "ServerReflectionInfo",
    ),
];

/// As go-grpc-middleware writes them, by number.
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

const PHASES: [(Phase, &str); 7] = [
    (Phase::Unspecified, "unspecified"),
    (Phase::Progressing, "progressing"),
    (Phase::Complete, "complete"),
    (Phase::Paused, "paused"),
    (Phase::Stalled, "stalled"),
    (Phase::Deleting, "deleting"),
    (Phase::Refused, "refused"),
];

/// How methods that there are not are called.
const UNKNOWN: &str = "unknown";

/// The service and method of a path, if they are served. Others are the client's words.
pub(super) fn shown(path: &str) -> &str {
    let name = path.trim_start_matches('/');
    let named = name.split_once('/');
    let is_served = METHODS
        .iter()
        .any(|(_, service, method)| named == Some((*service, *method)));
    if is_served { name } else { UNKNOWN }
}

/// Everything that is counted, and its text.
pub(super) struct Metrics {
    pub(super) series: Series,
    recorder: PrometheusRecorder,
    handle: PrometheusHandle,
    process: metrics_process::Collector,
}

/// Everything that is counted.
pub(super) struct Series {
    methods: [MethodMetrics; METHODS.len()],
    /// All methods that there are not: their names are the client's.
    unknown: MethodMetrics,
    plans: [[Counter; PHASES.len()]; 2],
    plan_seconds: Histogram,
    plan_steps: Histogram,
    snapshot_pods: Histogram,
    /// Calls to the planner that are under way.
    pub(super) in_flight: Gauge,
    /// Calls that were refused for want of room.
    pub(super) shed: Counter,
    /// Connections that were closed from here.
    pub(super) closed: Closed,
    /// Certificates: until when they are valid, and how they were renewed.
    pub(super) tls: Observed,
}

/// What is counted of one method.
#[derive(Clone)]
pub(super) struct MethodMetrics {
    path: String,
    pub(super) started: Counter,
    handled: Vec<Counter>,
    pub(super) received: Counter,
    pub(super) sent: Counter,
    pub(super) seconds: Histogram,
    pub(super) is_planner: bool,
}

/// What is counted of the snapshot that a plan was made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SnapshotLabels {
    pub(super) is_recreate: bool,
    pub(super) pods: usize,
}

// === impl Metrics ===

impl Metrics {
    pub(super) fn new() -> Result<Self, BuildError> {
        let full = |name: &str| Matcher::Full(name.to_owned());
        let recorder = PrometheusBuilder::new()
            .set_buckets_for_metric(Matcher::Suffix("_seconds".to_owned()), &SECONDS)?
            .set_buckets_for_metric(full("rollplan_plan_steps"), &STEPS)?
            .set_buckets_for_metric(full("rollplan_snapshot_pods"), &PODS)?
            .build_recorder();
        let handle = recorder.handle();
        with_local_recorder(&recorder, describe);
        let series = with_local_recorder(&recorder, Series::register);
        let process = metrics_process::Collector::default();
        with_local_recorder(&recorder, || process.describe());
        Ok(Self {
            series,
            recorder,
            handle,
            process,
        })
    }

    /// Everything, as Prometheus reads it.
    pub(super) fn render(&self) -> String {
        with_local_recorder(&self.recorder, || self.process.collect());
        self.handle.render()
    }

    /// Sorts what was observed since the last time into buckets; until then each observation takes memory.
    pub(super) fn upkeep(&self) {
        self.handle.run_upkeep();
    }
}

// === impl Series ===

impl Series {
    fn register() -> Self {
        gauge!("rollplan_build_info", "version" => env!("CARGO_PKG_VERSION")).set(1.0);
        let closed = |reason| counter!("rollplan_connections_closed_total", "reason" => reason);
        let reload = |outcome| counter!("rollplan_tls_reloads_total", "outcome" => outcome);
        let plans = ["RollingUpdate", "Recreate"].map(|strategy| {
            PHASES.map(|(_, outcome)| {
                counter!("rollplan_plans_total", "strategy" => strategy, "outcome" => outcome)
            })
        });
        Self {
            methods: METHODS.map(MethodMetrics::register),
            unknown: MethodMetrics::register(("unary", UNKNOWN, UNKNOWN)),
            plans,
            plan_seconds: histogram!("rollplan_plan_seconds"),
            plan_steps: histogram!("rollplan_plan_steps"),
            snapshot_pods: histogram!("rollplan_snapshot_pods"),
            in_flight: gauge!("rollplan_inflight_requests"),
            shed: counter!("rollplan_shed_total"),
            closed: Closed {
                silent: closed("silent"),
                slow: closed("answers_not_taken"),
            },
            tls: Observed {
                reloads: reload("done"),
                failures: reload("failed"),
                expiry: gauge!("rollplan_tls_certificate_expiry_timestamp_seconds"),
            },
        }
    }

    pub(super) fn method(&self, path: &str) -> &MethodMetrics {
        let mut methods = self.methods.iter();
        methods
            .find(|method| method.path == path)
            .unwrap_or(&self.unknown)
    }

    pub(super) fn planned(
        &self,
        snapshot: SnapshotLabels,
        plan: &PlanRolloutResponse,
        took: Duration,
    ) {
        let SnapshotLabels { is_recreate, pods } = snapshot;
        let phase = plan
            .report
            .as_ref()
            .map_or(Phase::Unspecified, |it| it.phase());
        for ((candidate, _), counter) in PHASES.iter().zip(&self.plans[usize::from(is_recreate)]) {
            if *candidate == phase {
                counter.increment(1);
            }
        }
        self.plan_seconds.record(took.as_secs_f64());
        self.plan_steps.record(plan.steps.len() as f64);
        self.snapshot_pods.record(pods as f64);
    }
}

// === impl MethodMetrics ===

impl MethodMetrics {
    fn register((kind, service, method): (&'static str, &'static str, &'static str)) -> Self {
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
            received: counter!("grpc_server_msg_received_total", &labels),
            sent: counter!("grpc_server_msg_sent_total", &labels),
            seconds: histogram!("grpc_server_handling_seconds", &labels),
            is_planner: service == METHODS[0].1,
        }
    }

    /// A call has ended.
    pub(super) fn handled(&self, code: Code, start: Instant) {
        if let Some(handled) = self.handled.get(code as usize) {
            handled.increment(1);
        }
        self.seconds.record(start.elapsed().as_secs_f64());
    }
}

fn describe() {
    describe_counter!("grpc_server_started_total", "Calls begun.");
    describe_counter!(
        "grpc_server_handled_total",
        "Calls ended, by the code that the client was given; Canceled if it did not wait."
    );
    describe_counter!(
        "grpc_server_msg_received_total",
        "Messages received from clients."
    );
    describe_counter!("grpc_server_msg_sent_total", "Messages sent to clients.");
    describe_histogram!(
        "grpc_server_handling_seconds",
        "Time from the first byte of a call to the last of its answer."
    );
    describe_gauge!("rollplan_build_info", "1, with the version that runs.");
    describe_counter!(
        "rollplan_plans_total",
        "Plans made, by strategy and by the phase of the rollout."
    );
    describe_histogram!(
        "rollplan_plan_seconds",
        "Time to check a snapshot and to plan for it."
    );
    describe_histogram!("rollplan_plan_steps", "Steps of plans.");
    describe_histogram!(
        "rollplan_snapshot_pods",
        "Pods of the snapshots planned for."
    );
    describe_gauge!(
        "rollplan_inflight_requests",
        "Calls to the planner that are under way, being sent included."
    );
    describe_counter!(
        "rollplan_shed_total",
        "Calls refused for want of room, to be tried again."
    );
    describe_counter!(
        "rollplan_connections_closed_total",
        "Connections closed for being silent, or for not taking answers."
    );
    describe_counter!(
        "rollplan_tls_reloads_total",
        "Changes of certificate files, and seconds in which they could not be used."
    );
    describe_gauge!(
        "rollplan_tls_certificate_expiry_timestamp_seconds",
        "When the first certificate of the chain in use ends, in Unix time. 0 without encryption."
    );
}

#[cfg(test)]
mod tests {
    use prost::Message as _;
    use prost_types::FileDescriptorSet;

    use super::*;
    use crate::proto::FILE_DESCRIPTOR_SET;

    #[test]
    fn every_method_of_the_contract_is_counted_and_every_code_and_phase() {
        let files = FileDescriptorSet::decode(FILE_DESCRIPTOR_SET).unwrap();
        let mut count = 0;
        for file in &files.file {
            for service in &file.service {
                let name = format!("{}.{}", file.package(), service.name());
                for method in &service.method {
                    assert!(METHODS.contains(&("unary", &name, method.name())), "{name}");
                    count += 1;
                }
            }
        }
        assert_eq!(count, 4);
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
    fn every_series_is_there_at_zero() {
        let text = Metrics::new().unwrap().render();
        let planner = r#"grpc_type="unary",grpc_service="rollplan.v1.RolloutPlanner",grpc_method="PlanRollout""#;
        for line in [
            format!("grpc_server_started_total{{{planner}}} 0"),
            format!("grpc_server_handled_total{{{planner},grpc_code=\"OK\"}} 0"),
            format!("grpc_server_handled_total{{{planner},grpc_code=\"Unavailable\"}} 0"),
            format!("grpc_server_msg_received_total{{{planner}}} 0"),
            format!("grpc_server_handling_seconds_bucket{{{planner},le=\"0.0005\"}} 0"),
            "rollplan_plan_seconds_bucket{le=\"+Inf\"} 0".to_owned(),
            "rollplan_plan_steps_count 0".to_owned(),
            "rollplan_snapshot_pods_count 0".to_owned(),
            "rollplan_inflight_requests 0".to_owned(),
            "rollplan_shed_total 0".to_owned(),
            "rollplan_plans_total{strategy=\"Recreate\",outcome=\"stalled\"} 0".to_owned(),
            "rollplan_connections_closed_total{reason=\"silent\"} 0".to_owned(),
            "rollplan_tls_reloads_total{outcome=\"failed\"} 0".to_owned(),
            "rollplan_tls_certificate_expiry_timestamp_seconds 0".to_owned(),
            format!(
                "rollplan_build_info{{version=\"{}\"}} 1",
                env!("CARGO_PKG_VERSION")
            ),
        ] {
            assert!(
                text.lines().any(|it| it == line),
                "{line} is not in\n{text}"
            );
        }
        assert!(text.contains("\nprocess_resident_memory_bytes "));
        // A histogram without buckets would be a summary.
        assert!(!text.contains(" summary\n"));
    }
}
