//! Metrics and probes.

use std::net::SocketAddr;
use std::time::Duration;

use rollplan::proto::{ComputeStatusRequest, PlanRolloutRequest};
use rollplan::server::Config;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};
use tonic::codegen::http::uri::PathAndQuery;
use tonic::{Code, Request};

use super::planners::Staged;
use super::raw;
use super::refusals::check;
use super::{PATIENCE, Serving, mk_config, mk_request, mk_request_with_pods, start_with, until};

/// The status and the body of a path.
pub(super) async fn get(address: SocketAddr, path: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!("GET {path} HTTP/1.0\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let (head, text) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, text.to_owned())
}

/// The only sample with this name and these labels.
pub(super) fn sample(text: &str, name: &str, labels: &[(&str, &str)]) -> f64 {
    let values: Vec<f64> = text
        .lines()
        .filter(|line| {
            let rest = line.strip_prefix(name);
            rest.is_some_and(|rest| rest.starts_with(['{', ' ']))
                && labels
                    .iter()
                    .all(|(key, value)| line.contains(&format!("{key}=\"{value}\"")))
        })
        .map(|line| line.rsplit(' ').next().unwrap().parse().unwrap())
        .collect();
    assert_eq!(values.len(), 1, "{name} {labels:?} in\n{text}");
    values[0]
}

pub(super) fn mk_observed() -> Config {
    Config {
        http_listen: Some(([127, 0, 0, 1], 0).into()),
        ..mk_config()
    }
}

#[tokio::test]
async fn calls_and_plans_are_counted() {
    let Serving {
        mut client,
        channel,
        http,
        ..
    } = start_with(mk_observed()).await;
    let http = http.unwrap();
    let mut reported = mk_request();
    reported.options.get_or_insert_default().report = true;
    client.plan_rollout(reported).await.unwrap();
    client
        .plan_rollout(mk_request_with_pods(500))
        .await
        .unwrap();
    let mut wrong = mk_request();
    wrong.snapshot = None;
    client.plan_rollout(wrong).await.unwrap_err();
    let mut grpc = tonic::client::Grpc::new(channel);
    for method in ["/hunter2/One", "/hunter2/Two"] {
        grpc.ready().await.unwrap();
        let codec = tonic_prost::ProstCodec::<PlanRolloutRequest, PlanRolloutRequest>::default();
        let path = PathAndQuery::from_static(method);
        let request = Request::new(PlanRolloutRequest::default());
        grpc.unary(request, path, codec).await.unwrap_err();
    }
    let (status, text) = get(http, "/metrics").await;
    assert_eq!(status, 200);
    let plan = ("grpc_method", "PlanRollout");
    let count = |name, labels: &[(&str, &str)]| sample(&text, name, labels);
    assert_eq!(count("grpc_server_started_total", &[plan]), 3.0);
    assert_eq!(count("grpc_server_msg_received_total", &[plan]), 3.0);
    assert_eq!(count("grpc_server_msg_sent_total", &[plan]), 2.0);
    assert_eq!(count("grpc_server_handling_seconds_count", &[plan]), 3.0);
    let handled = |labels: &[_]| count("grpc_server_handled_total", labels);
    assert_eq!(handled(&[plan, ("grpc_code", "OK")]), 2.0);
    assert_eq!(handled(&[plan, ("grpc_code", "InvalidArgument")]), 1.0);
    let unknown = ("grpc_method", "unknown");
    assert_eq!(handled(&[unknown, ("grpc_code", "Unimplemented")]), 2.0);
    assert!(!text.contains("hunter2"));
    // Without a report, the phase is unknown.
    for outcome in ["progressing", "unspecified"] {
        let labels = [("strategy", "RollingUpdate"), ("outcome", outcome)];
        assert_eq!(count("rollplan_plans_total", &labels), 1.0, "{outcome}");
    }
    for (strategy, outcome) in [("RollingUpdate", "complete"), ("Recreate", "progressing")] {
        let labels = [("strategy", strategy), ("outcome", outcome)];
        assert_eq!(count("rollplan_plans_total", &labels), 0.0, "{outcome}");
    }
    assert_eq!(count("rollplan_plan_seconds_count", &[]), 2.0);
    assert_eq!(count("rollplan_plan_steps_count", &[]), 2.0);
    assert_eq!(count("rollplan_snapshot_pods_sum", &[]), 513.0);
    assert!(count("process_resident_memory_bytes", &[]) > 1e6);
}

#[tokio::test]
async fn connections_are_counted_while_they_are_open() {
    let Serving {
        mut client,
        channel,
        http,
        ..
    } = start_with(mk_observed()).await;
    let open = async || {
        let (_, text) = get(http.unwrap(), "/metrics").await;
        sample(&text, "rollplan_open_connections", &[])
    };
    client.plan_rollout(mk_request()).await.unwrap();
    assert_eq!(open().await, 1.0);
    drop((client, channel));
    until("the connection is closed", async || open().await == 0.0).await;
}

/// A panic is a bug, an invalid request is not.
#[tokio::test]
async fn bugs_are_counted_separately_from_client_errors() {
    let Serving {
        mut client,
        address,
        http,
        ..
    } = Staged::default().start(mk_observed()).await;
    let garbage = bytes::Bytes::from_static(&[0, 0, 0, 0, 2, 0xff, 0xff]);
    let mut raw = raw::connect(address).await;
    let request = raw::request("/rollplan.v1.RolloutPlanner/Rollback", &[]);
    let answer = raw.call(request, garbage).await.unwrap();
    check(&answer.status, Code::InvalidArgument, "MALFORMED_REQUEST");
    client
        .compute_status(ComputeStatusRequest::default())
        .await
        .unwrap_err();
    let (_, text) = get(http.unwrap(), "/metrics").await;
    let bugs = |method| {
        let labels = [("grpc_method", method)];
        sample(&text, "rollplan_internal_errors_total", &labels)
    };
    assert_eq!(bugs("Rollback"), 0.0);
    assert_eq!(bugs("ComputeStatus"), 1.0);
}

#[tokio::test]
async fn canceled_call_is_counted_as_canceled() {
    let staged = Staged::default();
    let Serving {
        mut client, http, ..
    } = staged.start(mk_observed()).await;
    let call =
        tokio::spawn(async move { client.plan_rollout(PlanRolloutRequest::default()).await });
    staged.started.notified().await;
    let (_, text) = get(http.unwrap(), "/metrics").await;
    assert_eq!(sample(&text, "rollplan_inflight_requests", &[]), 1.0);
    call.abort();
    let canceled = async {
        loop {
            let (_, text) = get(http.unwrap(), "/metrics").await;
            let labels = [("grpc_method", "PlanRollout"), ("grpc_code", "Canceled")];
            if sample(&text, "grpc_server_handled_total", &labels) == 1.0 {
                assert_eq!(sample(&text, "rollplan_inflight_requests", &[]), 0.0);
                break;
            }
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(PATIENCE, canceled).await.unwrap();
}

#[tokio::test]
async fn http_port_serves_three_paths() {
    let Serving { http, .. } = start_with(mk_observed()).await;
    let http = http.unwrap();
    assert_eq!(get(http, "/livez").await, (200, "ok\n".to_owned()));
    assert_eq!(get(http, "/readyz").await, (200, "ok\n".to_owned()));
    assert_eq!(get(http, "/").await.0, 404);
    let mut stream = TcpStream::connect(http).await.unwrap();
    stream
        .write_all(b"POST /metrics HTTP/1.0\r\n\r\n")
        .await
        .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.contains(" 405 "), "{answer}");
}
