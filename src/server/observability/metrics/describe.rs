//! The help texts of the metrics.

use metrics::{describe_counter, describe_gauge, describe_histogram};

/// Registers the help texts with the recorder of the current thread.
pub(super) fn describe() {
    describe_counter!("grpc_server_started_total", "Calls started.");
    describe_counter!(
        "grpc_server_handled_total",
        "Calls completed, by the code sent to the client; Canceled if the client gave up. A call of Connect counts as one of its method."
    );
    describe_counter!(
        "grpc_server_msg_received_total",
        "Messages received from clients."
    );
    describe_counter!("grpc_server_msg_sent_total", "Messages sent to clients.");
    describe_histogram!(
        "grpc_server_handling_seconds",
        "Time from the first byte of a call to the last of its response."
    );
    describe_gauge!(
        "rollplan_build_info",
        "Always 1; the labels are the version and the commit of the running build, or unknown if the build did not know it."
    );
    describe_counter!(
        "rollplan_plans_total",
        "Plans computed, by strategy and by the phase of the rollout; unspecified for plans without options.report."
    );
    describe_histogram!(
        "rollplan_plan_seconds",
        "Time to validate a snapshot and compute the plan."
    );
    describe_histogram!("rollplan_plan_steps", "Number of steps in a plan.");
    describe_histogram!("rollplan_snapshot_pods", "Number of pods in a snapshot.");
    describe_gauge!(
        "rollplan_inflight_requests",
        "Calls to the planner in flight, including those still being sent."
    );
    describe_counter!(
        "rollplan_shed_total",
        "Calls rejected because of overload; clients may retry them."
    );
    describe_gauge!(
        "rollplan_buffer_bytes",
        "Memory held for requests, for large plans and for answers, of --buffer-mib-max."
    );
    describe_histogram!(
        "rollplan_request_bytes",
        "Size of requests to the planner in bytes, as received."
    );
    describe_gauge!(
        "rollplan_large_plans_running",
        "Large plans that are being computed."
    );
    describe_gauge!(
        "rollplan_large_plans_waiting",
        "Large plans that wait until others have been computed, because of --large-plans-max."
    );
    describe_counter!(
        "rollplan_connections_closed_total",
        "Connections closed by the server: a ping was not answered, nothing was ever sent, or responses were not read."
    );
    describe_gauge!("rollplan_open_connections", "Connections that are open.");
    describe_gauge!(
        "rollplan_connections_max",
        "Maximum number of open connections."
    );
    describe_counter!(
        "rollplan_tls_handshake_failures_total",
        "TLS handshakes that failed or timed out."
    );
    describe_counter!(
        "rollplan_internal_errors_total",
        "Calls that failed because of a bug in rollplan."
    );
    describe_counter!("rollplan_panics_total", "Panics of this process.");
    describe_counter!(
        "rollplan_log_lines_dropped_total",
        "Log lines dropped because standard error was not read, or because of the rate limit."
    );
    describe_counter!(
        "rollplan_tls_reloads_total",
        "Reloads of certificate files; a failed reload is counted every second until the files are usable."
    );
    describe_gauge!(
        "rollplan_tls_certificate_expiry_timestamp_seconds",
        "When the first certificate of the chain in use expires, in Unix time. 0 without encryption."
    );
}
