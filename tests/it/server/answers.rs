//! What is answered is what `wire` answers, however it travels.

use prost::Message as _;
use rollplan::client::RolloutPlannerClient;
use rollplan::proto::{
    ComputeStatusRequest, ListRevisionsRequest, ObjectMeta, PlanRolloutRequest, Pod,
    RollbackRequest,
};
use rollplan::server::Config;
use rollplan::wire;
use rollplan::wire::estimate::ENTRIES_MAX;
use tonic::Code;
use tonic::codec::CompressionEncoding;
use tonic::transport::Channel;

use super::raw::{self, PLAN, framed};
use super::{
    Serving, mk_config, mk_large_request, mk_request, mk_request_with_bytes, mk_request_with_pods,
    start, start_with,
};

/// Asks for a plan, compares it, and gives the compression that the answer came in.
async fn check(
    client: &mut RolloutPlannerClient<Channel>,
    request: PlanRolloutRequest,
) -> Option<String> {
    let expected = wire::plan_rollout(request.clone()).unwrap();
    assert!(!expected.steps.is_empty());
    let answer = client.plan_rollout(request).await.unwrap();
    let encoding = answer.metadata().get("grpc-encoding").cloned();
    assert_eq!(answer.into_inner(), expected);
    encoding.map(|encoding| encoding.to_str().unwrap().to_owned())
}

#[tokio::test]
async fn plans_are_those_of_wire() {
    let Serving { mut client, .. } = start().await;
    assert_eq!(check(&mut client, mk_request()).await, None);
}

/// With a pod that nobody selects, and that has more labels than a selected one may have.
fn mk_request_with_odd_pod() -> PlanRolloutRequest {
    let mut request = mk_request();
    let labels = (0..=ENTRIES_MAX).map(|index| (format!("a{index}"), String::new()));
    let pod = Pod {
        metadata: Some(ObjectMeta {
            labels: labels.collect(),
            ..ObjectMeta::default()
        }),
        ..Pod::default()
    };
    request.snapshot.as_mut().unwrap().pods.push(pod);
    request
}

#[tokio::test]
async fn plans_beside_odd_objects_of_other_owners_are_those_of_wire() {
    let Serving { mut client, .. } = start().await;
    assert_eq!(check(&mut client, mk_request_with_odd_pod()).await, None);
}

#[tokio::test]
async fn statuses_are_those_of_wire() {
    let Serving { mut client, .. } = start().await;
    let PlanRolloutRequest { snapshot, options } = mk_request_with_odd_pod();
    let request = ComputeStatusRequest {
        snapshot,
        options,
        ..ComputeStatusRequest::default()
    };
    let expected = wire::compute_status(request.clone()).unwrap();
    let answer = client.compute_status(request).await.unwrap();
    assert_eq!(answer.into_inner(), expected);
}

#[tokio::test]
async fn rollbacks_and_revisions_are_those_of_wire() {
    let Serving { mut client, .. } = start().await;
    let PlanRolloutRequest { snapshot, options } = mk_request_with_odd_pod();
    let request = RollbackRequest {
        snapshot: snapshot.clone(),
        to_revision: 0,
        options,
    };
    let expected = wire::rollback(request.clone()).unwrap();
    let answer = client.rollback(request).await.unwrap();
    assert_eq!(answer.into_inner(), expected);

    let request = ListRevisionsRequest { snapshot };
    let expected = wire::list_revisions(request.clone()).unwrap();
    assert!(!expected.revisions.is_empty());
    let answer = client.list_revisions(request).await.unwrap();
    assert_eq!(answer.into_inner(), expected);
}

#[tokio::test]
async fn large_plans_are_those_of_wire() {
    let Serving { mut client, .. } = start().await;
    check(&mut client, mk_request_with_pods(1_000)).await;
    check(&mut client, mk_large_request()).await;
}

/// tonic's own limit is 4 MiB.
#[tokio::test]
async fn requests_may_nearly_have_the_bytes_of_the_contract() {
    let Serving { mut client, .. } = start().await;
    let request = mk_request_with_bytes(wire::REQUEST_BYTES_MAX - (64 << 10));
    check(&mut client, request).await;
}

#[tokio::test]
async fn requests_may_be_compressed() {
    let Serving { channel, .. } = start().await;
    for encoding in [CompressionEncoding::Gzip, CompressionEncoding::Zstd] {
        let mut client = RolloutPlannerClient::new(channel.clone()).send_compressed(encoding);
        assert_eq!(check(&mut client, mk_request()).await, None, "{encoding}");
    }
}

/// The flag before an answer says whether it is compressed; the header only how, should it be.
async fn is_compressed(config: Config, accepted: &str) -> bool {
    let mut raw = raw::connect(start_with(config).await.address).await;
    let request = raw::request(PLAN, &[("grpc-accept-encoding", accepted)]);
    let answer = raw.call(request, framed(&mk_request())).await.unwrap();
    assert_eq!(answer.status.code(), Code::Ok);
    answer.data[0] == 1
}

#[tokio::test]
async fn answers_are_compressed_only_from_a_size_on_and_where_it_is_set() {
    let bytes = wire::plan_rollout(mk_request()).unwrap().encoded_len();
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
async fn compressed_answers_are_those_of_wire() {
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
