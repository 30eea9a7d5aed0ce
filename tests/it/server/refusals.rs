//! Every error has the appropriate gRPC code, and details for programs.

use bytes::Bytes;
use rollplan::client::RolloutPlannerClient;
use rollplan::proto::{
    ComputeStatusRequest, PlanRolloutRequest, PlanRolloutResponse, RollbackRequest, Snapshot,
};
use rollplan::wire::{
    ANSWER_BYTES_MAX, EXPRESSIONS_MAX, LISTED_VIOLATIONS_MAX, PODS_MAX, REQUEST_BYTES_MAX,
    VALUES_MAX,
};
use serde_json::{Value, json};
use tonic::codec::CompressionEncoding;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::Channel;
use tonic::{Code, Request, Status};
use tonic_health::pb::HealthCheckRequest;
use tonic_prost::ProstCodec;
use tonic_reflection::pb::v1::ServerReflectionRequest;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_types::StatusExt as _;

use super::planners::Staged;
use super::raw::{self, PLAN, framed};
use super::{
    Serving, mk_config, mk_large_request, mk_request, mk_request_with_bytes,
    mk_request_with_long_answer, mk_rollout, mk_rollout_with_pods, start,
};
use crate::request::ITEMS;

/// Checks that an error has this code, and one ErrorInfo with this reason.
pub(super) fn check(status: &Status, code: Code, reason: &str) {
    assert_eq!(status.code(), code, "{status:?}");
    assert!(!status.message().is_empty());
    let info = status.get_details_error_info().unwrap();
    assert_eq!(info.reason, reason);
    assert_eq!(info.domain, "rollplan.dev");
}

#[tokio::test]
async fn invalid_request_has_all_violations() {
    let Serving { mut client, .. } = start().await;
    let mut request = mk_rollout();
    request.snapshot.now = None;
    request.spec()["replicas"] = json!(-1);
    request.spec()["selector"] = json!(null);
    let status = client.plan_rollout(request.message()).await.unwrap_err();
    check(&status, Code::InvalidArgument, "INVALID_REQUEST");
    let violations = status.get_details_bad_request().unwrap().field_violations;
    let violations: Vec<_> = violations
        .into_iter()
        .map(|violation| (violation.field, violation.reason))
        .collect();
    let expected = [
        ("snapshot.now".to_owned(), "REQUIRED"),
        (format!("{ITEMS}[0].spec.replicas"), "NEGATIVE"),
        (format!("{ITEMS}[0].spec.selector"), "REQUIRED"),
    ];
    assert_eq!(
        violations,
        expected.map(|(field, it)| (field, it.to_owned()))
    );
}

#[tokio::test]
async fn many_violations_are_truncated_and_counted() {
    let Serving { mut client, .. } = start().await;
    let mut request = mk_rollout_with_pods(100);
    for pod in request.all("Pod") {
        pod["metadata"]["name"] = "same".into();
    }
    let status = client.plan_rollout(request.message()).await.unwrap_err();
    check(&status, Code::InvalidArgument, "INVALID_REQUEST");
    let violations = status.get_details_bad_request().unwrap().field_violations;
    assert_eq!(violations.len(), LISTED_VIOLATIONS_MAX);
    let metadata = status.get_details_error_info().unwrap().metadata;
    assert_eq!(metadata["violations"], "99");
    assert_eq!(metadata["omitted"], "79");
}

pub(super) fn check_too_large(status: &Status, subject: &str) {
    check(status, Code::ResourceExhausted, "REQUEST_TOO_LARGE");
    let violations = status.get_details_quota_failure().unwrap().violations;
    assert_eq!(violations.len(), 1);
    assert_eq!(violations[0].subject, subject);
    // Retrying does not help.
    assert!(status.get_details_retry_info().is_none());
}

#[tokio::test]
async fn too_many_objects_are_too_large() {
    let Serving { mut client, .. } = start().await;
    let mut request = mk_rollout();
    let owners = request.pod(0)["metadata"]["ownerReferences"].clone();
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"ownerReferences": owners}});
    request.items.extend(vec![pod; PODS_MAX]);
    let status = client.plan_rollout(request.message()).await.unwrap_err();
    check_too_large(&status, "pods of the Deployment");
}

#[tokio::test]
async fn selectors_with_too_many_values_are_too_large() {
    let Serving { mut client, .. } = start().await;
    let requirement =
        |values| json!({"key": "app", "operator": "NotIn", "values": vec!["x"; values]});
    let with = |expressions: Vec<Value>| {
        let mut request = mk_rollout();
        request.spec()["selector"]["matchExpressions"] = expressions.into();
        request.message()
    };
    // The limit applies to the total of all expressions.
    let request = with(vec![requirement(VALUES_MAX), requirement(1)]);
    let status = client.plan_rollout(request).await.unwrap_err();
    check_too_large(&status, "values in the expressions of the selector");
    let request = with(vec![requirement(1); EXPRESSIONS_MAX + 1]);
    let status = client.plan_rollout(request).await.unwrap_err();
    check_too_large(&status, "expressions of the selector");
    let request = with(vec![requirement(VALUES_MAX / 2); 2]);
    client.plan_rollout(request).await.unwrap();
}

/// Clients reject longer answers with an error that does not state the reason.
#[tokio::test]
async fn answers_over_the_client_limit_are_refused() {
    let Serving { mut client, .. } = start().await;
    let request = mk_request_with_long_answer(ANSWER_BYTES_MAX);
    let status = client.plan_rollout(request).await.unwrap_err();
    check(&status, Code::ResourceExhausted, "ANSWER_TOO_LARGE");
    assert_eq!(
        status.get_details_quota_failure().unwrap().violations[0].subject,
        "answer"
    );
}

#[tokio::test]
async fn errors_are_deterministic() {
    let Serving { mut client, .. } = start().await;
    let mut request = mk_request();
    request.snapshot.as_mut().unwrap().now = None;
    let first = client.plan_rollout(request.clone()).await.unwrap_err();
    for _ in 0..20 {
        let again = client.plan_rollout(request.clone()).await.unwrap_err();
        assert_eq!(again.details(), first.details());
    }
}

#[tokio::test]
async fn large_decompressed_requests_are_refused() {
    let Serving { channel, .. } = start().await;
    for encoding in [CompressionEncoding::Gzip, CompressionEncoding::Zstd] {
        let client = RolloutPlannerClient::new(channel.clone());
        let mut client = client.send_compressed(encoding);
        let request = mk_request_with_bytes(REQUEST_BYTES_MAX);
        let status = client.plan_rollout(request).await.unwrap_err();
        check_too_large(&status, "request");
    }
}

/// Calls a method with a message of the wrong type.
async fn call(channel: Channel, path: &'static str) -> Status {
    let mut client = tonic::client::Grpc::new(channel);
    client.ready().await.unwrap();
    let codec = ProstCodec::<prost_types::Duration, PlanRolloutResponse>::default();
    let message = prost_types::Duration {
        seconds: 1,
        nanos: 1,
    };
    let path = PathAndQuery::from_static(path);
    let answer = client.unary(Request::new(message), path, codec).await;
    answer.unwrap_err()
}

#[tokio::test]
async fn undecodable_messages_are_malformed() {
    let Serving { channel, .. } = start().await;
    let status = call(channel, "/rollplan.v1.RolloutPlanner/PlanRollout").await;
    check(&status, Code::InvalidArgument, "MALFORMED_REQUEST");
    // The message names the expected type and the problem.
    let expected =
        "cannot decode the request as PlanRolloutRequest: failed to decode Protobuf message: ";
    assert!(status.message().starts_with(expected), "{status:?}");
}

/// An error consists of headers only. Otherwise, clients other than tonic expect the status after a message and report
/// INTERNAL, and tonic's client closes the connection after some hundred empty frames.
#[tokio::test]
async fn errors_are_sent_as_headers_only() {
    let Serving { address, .. } = start().await;
    let mut raw = raw::connect(address).await;
    let huge = Bytes::from_static(&[0, 0xff, 0xff, 0xff, 0xff]);
    let large = framed(&PlanRolloutRequest {
        snapshot: mk_large_request()
            .snapshot
            .map(|it| Snapshot { now: None, ..it }),
        ..PlanRolloutRequest::default()
    });
    for (path, headers, body, code) in [
        (
            PLAN,
            &[][..],
            framed(&PlanRolloutRequest::default()),
            Code::InvalidArgument,
        ),
        (PLAN, &[], large, Code::InvalidArgument),
        (PLAN, &[], huge, Code::ResourceExhausted),
        (
            PLAN,
            &[],
            Bytes::from_static(&[0, 0, 0, 0, 1, 7]),
            Code::InvalidArgument,
        ),
        (
            PLAN,
            &[("grpc-encoding", "br")],
            framed(&mk_request()),
            Code::Unimplemented,
        ),
        ("/unknown/Unknown", &[], Bytes::new(), Code::Unimplemented),
    ] {
        let answer = raw.call(raw::request(path, headers), body).await.unwrap();
        assert_eq!(answer.status.code(), code, "{:?}", answer.status);
        assert!(answer.is_status_alone, "{:?}", answer.status);
    }
    let answer = raw.call(raw::request(PLAN, &[]), framed(&mk_request()));
    assert!(!answer.await.unwrap().is_status_alone);
}

#[tokio::test]
async fn unknown_methods_are_unimplemented() {
    let Serving { channel, .. } = start().await;
    for path in ["/rollplan.v1.RolloutPlanner/Unknown", "/unknown.v1/Unknown"] {
        let status = call(channel.clone(), path).await;
        check(&status, Code::Unimplemented, "UNKNOWN_METHOD");
    }
}

/// The specification: "method requires exactly one request but client sent some other number of requests".
#[tokio::test]
async fn unary_methods_take_exactly_one_message() {
    let Serving { address, .. } = start().await;
    let mut raw = raw::connect(address).await;
    let plan = framed(&mk_request());
    let health = framed(&HealthCheckRequest::default());
    for (path, message) in [
        (PLAN, &plan),
        ("/grpc.health.v1.Health/Check", &health),
        ("/grpc.health.v1.Health/Watch", &health),
    ] {
        for messages in [0, 2, 3] {
            let body = Bytes::from(message.repeat(messages));
            let call = raw.call(raw::request(path, &[]), body).await.unwrap();
            check(&call.status, Code::Unimplemented, "CARDINALITY_VIOLATION");
            assert!(call.is_status_alone, "{path} {messages}");
        }
    }
    // A truncated message cannot be decoded.
    for body in [
        plan.slice(..3),
        plan.slice(..5),
        plan.slice(..100),
        [&plan[..], &plan[..100]].concat().into(),
    ] {
        let call = raw.call(raw::request(PLAN, &[]), body).await.unwrap();
        check(&call.status, Code::InvalidArgument, "MALFORMED_REQUEST");
    }
    let call = raw.call(raw::request(PLAN, &[]), plan).await.unwrap();
    assert_eq!(call.status.code(), Code::Ok);
}

#[tokio::test]
async fn malformed_deadlines_are_refused() {
    let Serving { address, .. } = start().await;
    let mut raw = raw::connect(address).await;
    let mut call = async |timeout| {
        let request = raw::request(PLAN, &[("grpc-timeout", timeout)]);
        raw.call(request, framed(&mk_request())).await.unwrap()
    };
    for timeout in ["", "1", "S", "1s", "-1S", "1.5S", "123456789S", "18f6n"] {
        let answer = call(timeout).await;
        check(&answer.status, Code::InvalidArgument, "MALFORMED_TIMEOUT");
        assert!(answer.is_status_alone, "{timeout}");
    }
    assert_eq!(call("99999999m").await.status.code(), Code::Ok);
}

/// The memory of requests to these services is not limited in total, so each request must be short.
#[tokio::test]
async fn health_and_reflection_refuse_long_requests() {
    let Serving { address, .. } = start().await;
    let mut raw = raw::connect(address).await;
    let service = "x".repeat(4 << 10);
    let body = framed(&HealthCheckRequest { service });
    let request = raw::request("/grpc.health.v1.Health/Check", &[]);
    let answer = raw.call(request, body).await.unwrap();
    check_too_large(&answer.status, "request");

    for version in ["v1", "v1alpha"] {
        let path = format!("/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo");
        // Both versions have the same encoding.
        let ask = |host: String| {
            framed(&ServerReflectionRequest {
                host,
                message_request: Some(MessageRequest::ListServices(String::new())),
            })
        };
        let short = raw.call(raw::request(&path, &[]), ask("x".to_owned()));
        assert!(!short.await.unwrap().data.is_empty());
        // A long message is refused by its announced length, before it is received.
        let (answer, mut stream) = raw
            .send
            .send_request(raw::request(&path, &[]), false)
            .unwrap();
        let long = ask("x".repeat(4 << 10));
        stream.send_data(long.slice(..100), false).unwrap();
        let answer = raw::receive(answer).await.unwrap();
        assert!(answer.data.is_empty());
        check_too_large(&answer.status, "request");
    }
}

#[tokio::test]
async fn rollback_without_a_target_states_the_reason() {
    let Serving { mut client, .. } = start().await;
    let request = |paused, to_revision| {
        let mut request = mk_rollout();
        request.spec()["paused"] = json!(paused);
        RollbackRequest {
            to_revision,
            ..request.rollback_request()
        }
    };
    let status = client.rollback(request(true, 0)).await.unwrap_err();
    check(&status, Code::FailedPrecondition, "DEPLOYMENT_PAUSED");
    let violations = status.get_details_precondition_failure().unwrap();
    assert_eq!(violations.violations.len(), 1);
    let status = client.rollback(request(false, 99)).await.unwrap_err();
    check(&status, Code::NotFound, "REVISION_NOT_FOUND");
    assert!(status.get_details_resource_info().is_some());
    let mut alone = mk_rollout();
    alone.remove_all("ReplicaSet");
    let status = client.rollback(alone.rollback_request()).await.unwrap_err();
    check(&status, Code::FailedPrecondition, "NO_EARLIER_REVISION");
    let violations = status.get_details_precondition_failure().unwrap();
    assert_eq!(violations.violations[0].r#type, "NO_EARLIER_REVISION");
}

#[tokio::test]
async fn unsupported_compression_is_refused() {
    let mut raw = raw::connect(start().await.address).await;
    let request = raw::request(PLAN, &[("grpc-encoding", "br")]);
    let answer = raw.call(request, raw::framed(&mk_request())).await;
    let status = answer.unwrap().status;
    check(&status, Code::Unimplemented, "UNSUPPORTED_ENCODING");
}

#[tokio::test]
async fn panic_is_internal_and_other_calls_continue() {
    let staged = Staged::default();
    let Serving { client, .. } = staged.start(mk_config()).await;
    let mut other = client.clone();
    let mut client = client;
    // Both calls use the only connection of the channel.
    let running =
        tokio::spawn(async move { other.plan_rollout(PlanRolloutRequest::default()).await });
    staged.started.notified().await;
    let status = client.compute_status(ComputeStatusRequest::default()).await;
    let status = status.unwrap_err();
    check(&status, Code::Internal, "INTERNAL_ERROR");
    assert!(!format!("{status:?}").contains("secret"));
    staged.go_on.notify_one();
    running.await.unwrap().unwrap();
}
