//! The server returns the answers of `wire`, whatever the transport.

use bytes::{BufMut as _, Bytes, BytesMut};
use prost::Message as _;
use prost::encoding::{WireType, encode_key, encode_varint};
use rollplan::client::RolloutPlannerClient;
use rollplan::proto::{
    ForecastRolloutRequest, PlanCanaryRequest, PlanRestartsRequest, PlanRolloutRequest,
};
use rollplan::server::Config;
use rollplan::wire;
use rollplan_world::json::{config_map, workload};
use serde_json::{Map, json};
use tonic::Code;
use tonic::codec::CompressionEncoding;
use tonic::transport::Channel;

use super::http::Ask;
use super::raw::{self, PLAN, framed};
use super::{
    Serving, mk_config, mk_large_request, mk_request, mk_request_with_bytes, mk_request_with_pods,
    mk_rollout, start, start_with,
};
use crate::request::{Request, list, restarts_of};

/// Requests a plan, compares it with the expected one, and returns the compression of the answer.
async fn check(
    client: &mut RolloutPlannerClient<Channel>,
    request: PlanRolloutRequest,
) -> Option<String> {
    let expected = rollplan::service::answer(request.clone()).unwrap();
    assert!(!expected.steps.is_empty());
    let answer = client.plan_rollout(request).await.unwrap();
    let encoding = answer.metadata().get("grpc-encoding").cloned();
    assert_eq!(answer.into_inner(), expected);
    encoding.map(|encoding| encoding.to_str().unwrap().to_owned())
}

#[tokio::test]
async fn plans_match_wire() {
    let Serving { mut client, .. } = start().await;
    assert_eq!(check(&mut client, mk_request()).await, None);
}

/// A request with an unselected pod that has more labels than a selected one may have.
fn mk_odd_rollout() -> Request {
    let mut request = mk_rollout();
    let labels: Map<_, _> = (0..=10_000)
        .map(|index| (format!("a{index}"), "".into()))
        .collect();
    request
        .items
        .push(json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"labels": labels}}));
    request
}

#[tokio::test]
async fn plans_beside_odd_objects_of_other_owners_match_wire() {
    let Serving { mut client, .. } = start().await;
    assert_eq!(check(&mut client, mk_odd_rollout().message()).await, None);
}

#[tokio::test]
async fn statuses_match_wire() {
    let Serving { mut client, .. } = start().await;
    let request = mk_odd_rollout();
    let answer = client.compute_status(request.status_request()).await;
    assert_eq!(answer.unwrap().into_inner(), request.compute_status());
}

#[tokio::test]
async fn rollbacks_and_revisions_match_wire() {
    let Serving { mut client, .. } = start().await;
    let request = mk_odd_rollout().rollback_request();
    let expected = rollplan::service::answer(request.clone()).unwrap();
    let answer = client.rollback(request).await.unwrap();
    assert_eq!(answer.into_inner(), expected);

    let request = mk_odd_rollout().revisions_request();
    let expected = rollplan::service::answer(request.clone()).unwrap();
    assert!(!expected.revisions.is_empty());
    let answer = client.list_revisions(request).await.unwrap();
    assert_eq!(answer.into_inner(), expected);
}

#[tokio::test]
async fn forecasts_match_wire() {
    let Serving { mut client, .. } = start().await;
    let mut snapshot = mk_odd_rollout().message().snapshot;
    snapshot.get_or_insert_default().pods_complete = true;
    let request = ForecastRolloutRequest {
        snapshot,
        ..ForecastRolloutRequest::default()
    };
    let expected = rollplan::service::answer(request.clone()).unwrap();
    let answer = client.forecast_rollout(request).await.unwrap();
    assert_eq!(answer.into_inner(), expected);
}

#[tokio::test]
async fn canaries_match_wire() {
    let Serving { mut client, .. } = start().await;
    let mut request = PlanCanaryRequest {
        snapshot: mk_odd_rollout().message().snapshot,
        ..PlanCanaryRequest::default()
    };
    request.snapshot.get_or_insert_default().pods_complete = false;
    let status = client.plan_canary(request.clone()).await.unwrap_err();
    assert_eq!(status.code(), tonic::Code::FailedPrecondition);
    assert_eq!(
        status.message(),
        rollplan::service::answer(request.clone())
            .unwrap_err()
            .to_string()
    );
    request.snapshot.get_or_insert_default().pods_complete = true;
    let expected = rollplan::service::answer(request.clone()).unwrap();
    let answer = client.plan_canary(request).await.unwrap();
    assert_eq!(answer.into_inner(), expected);
}

#[tokio::test]
async fn restarts_match_wire() {
    let Serving { mut client, .. } = start().await;
    let items = [
        config_map("app", json!({"a": "1"})),
        workload(
            "web",
            json!({"rollplan.dev/restart": "enabled"}),
            json!({"envFrom": [{"configMapRef": {"name": "app"}}]}),
        ),
    ];
    let request = restarts_of("2026-01-01T00:00:00Z", &[list(&items).to_string()]);
    let request: PlanRestartsRequest = wire::json::from_json(&request.to_string()).unwrap();
    let expected = rollplan::service::answer(request.clone()).unwrap();
    assert!(!expected.plans.is_empty());
    let answer = client.plan_restarts(request).await.unwrap();
    assert_eq!(answer.into_inner(), expected);
}

#[tokio::test]
async fn large_plans_match_wire() {
    let Serving { mut client, .. } = start().await;
    check(&mut client, mk_request_with_pods(1_000)).await;
    check(&mut client, mk_large_request()).await;
}

/// The default limit of tonic is 4 MiB.
#[tokio::test]
async fn requests_may_be_as_large_as_documented() {
    let Serving { mut client, .. } = start().await;
    let request = mk_request_with_bytes(wire::REQUEST_BYTES_MAX - (256 << 10));
    check(&mut client, request).await;
}

/// A message with an unknown field that fills it to this size.
fn filled(request: &PlanRolloutRequest, size: usize) -> Bytes {
    const NUMBER: u32 = 1000;
    let mut message = BytesMut::with_capacity(size);
    request.encode(&mut message).unwrap();
    encode_key(NUMBER, WireType::LengthDelimited, &mut message);
    // The length takes four bytes.
    let rest = size - message.len() - 4;
    encode_varint(rest as u64, &mut message);
    message.put_bytes(0, rest);
    assert_eq!(message.len(), size);
    message.freeze()
}

/// Without the prefix of gRPC, which does not count.
#[tokio::test]
async fn size_limit_of_requests_is_exact() {
    let Serving { address, .. } = start().await;
    let mut raw = raw::connect(address).await;
    for (more, code, http) in [(0, Code::Ok, 200), (1, Code::ResourceExhausted, 429)] {
        let size = wire::REQUEST_BYTES_MAX + more;
        let message = filled(&mk_request(), size);
        let prefix = [&[0][..], &u32::try_from(size).unwrap().to_be_bytes()].concat();
        let framed = [&prefix, &message[..]].concat();
        let call = raw.call(raw::request(PLAN, &[]), framed.into());
        assert_eq!(call.await.unwrap().status.code(), code);
        let ask = Ask::post(PLAN, "application/proto", message);
        assert_eq!(ask.over_http1(address).await.status, http);
    }
}

#[tokio::test]
async fn requests_may_be_compressed() {
    let Serving { channel, .. } = start().await;
    for encoding in [CompressionEncoding::Gzip, CompressionEncoding::Zstd] {
        let mut client = RolloutPlannerClient::new(channel.clone()).send_compressed(encoding);
        assert_eq!(check(&mut client, mk_request()).await, None, "{encoding}");
    }
}

/// Whether an answer is compressed, according to the flag before the message. The header only names the encoding.
async fn is_compressed(config: Config, accepted: &str) -> bool {
    let mut raw = raw::connect(start_with(config).await.address).await;
    let request = raw::request(PLAN, &[("grpc-accept-encoding", accepted)]);
    let answer = raw.call(request, framed(&mk_request())).await.unwrap();
    assert_eq!(answer.status.code(), Code::Ok);
    answer.data[0] == 1
}

#[tokio::test]
async fn answers_are_compressed_from_the_configured_size() {
    let bytes = rollplan::service::answer(mk_request())
        .unwrap()
        .encoded_len();
    let from = |compress_answers_min| Config {
        compress_answers_min,
        ..mk_config()
    };
    assert!(!is_compressed(from(None), "gzip").await);
    assert!(is_compressed(from(Some(1)), "gzip").await);
    assert!(is_compressed(from(Some(bytes)), "identity, deflate, gzip").await);
    assert!(!is_compressed(from(Some(bytes + 1)), "gzip").await);
    assert!(!is_compressed(from(Some(1)), "identity").await);
}

#[tokio::test]
async fn compressed_answers_match_wire() {
    let config = Config {
        compress_answers_min: Some(1),
        ..mk_config()
    };
    let client = RolloutPlannerClient::new(start_with(config).await.channel);
    let mut client = client.accept_compressed(CompressionEncoding::Gzip);
    let encoding = check(&mut client, mk_request()).await;
    assert_eq!(encoding.as_deref(), Some("gzip"));
    check(&mut client, mk_request_with_pods(1_000)).await;
}
