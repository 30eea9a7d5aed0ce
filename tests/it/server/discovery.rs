//! Reflection and health checks, as used by tools and load balancers.

use std::collections::BTreeSet;

use bytes::{Buf as _, Bytes};
use prost::Message as _;
use rollplan::proto::PlanRolloutRequest;
use rollplan::server::Config;
use tokio_stream::once;
use tonic::Code;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;
use tonic_reflection::pb::v1::{
    ExtensionRequest, ServerReflectionRequest, ServerReflectionResponse,
};

use super::planners::Staged;
use super::raw::{self, framed};
use super::refusals::check;
use super::{Serving, mk_config, start};

const SERVICES: [&str; 2] = ["grpc.health.v1.Health", "rollplan.v1.RolloutPlanner"];

/// Both versions have the same messages with different names.
macro_rules! check_reflection {
    ($version:ident, $channel:expr) => {{
        use tonic_reflection::pb::$version::ServerReflectionRequest;
        use tonic_reflection::pb::$version::server_reflection_client::ServerReflectionClient;
        use tonic_reflection::pb::$version::server_reflection_request::MessageRequest;
        use tonic_reflection::pb::$version::server_reflection_response::MessageResponse;

        let mut client = ServerReflectionClient::new($channel);
        let mut ask = async |request| {
            let request = ServerReflectionRequest {
                host: String::new(),
                message_request: Some(request),
            };
            let answers = client.server_reflection_info(once(request)).await.unwrap();
            let answer = answers.into_inner().message().await.unwrap().unwrap();
            answer.message_response.unwrap()
        };
        match ask(MessageRequest::ListServices(String::new())).await {
            MessageResponse::ListServicesResponse(list) => {
                let services: BTreeSet<_> = list.service.into_iter().map(|s| s.name).collect();
                for service in SERVICES {
                    assert!(services.contains(service), "{services:?}");
                }
            }
            other => panic!("{other:?}"),
        }
        for symbol in SERVICES {
            match ask(MessageRequest::FileContainingSymbol(symbol.to_owned())).await {
                MessageResponse::FileDescriptorResponse(files) => {
                    assert_eq!(files.file_descriptor_proto.len(), 1, "{symbol}");
                }
                other => panic!("{other:?}"),
            }
        }
    }};
}

#[tokio::test]
async fn reflection_v1_has_every_service() {
    check_reflection!(v1, start().await.channel);
}

#[tokio::test]
async fn reflection_v1alpha_has_every_service() {
    check_reflection!(v1alpha, start().await.channel);
}

const V1: &str = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";
const V1_ALPHA: &str = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo";

/// The protocol reports this with an error response, and the stream continues.
#[tokio::test]
async fn reflection_stream_continues_after_unknown_names() {
    use MessageRequest::{
        AllExtensionNumbersOfType, FileByFilename, FileContainingExtension, FileContainingSymbol,
        ListServices,
    };

    let name = || "no.such.Name".to_owned();
    let extension = ExtensionRequest {
        containing_type: "rollplan.v1.Snapshot".to_owned(),
        extension_number: 7,
    };
    let asked = [
        (Some(FileContainingSymbol(name())), Code::NotFound),
        (Some(FileByFilename(name())), Code::NotFound),
        (Some(FileContainingExtension(extension)), Code::NotFound),
        (Some(AllExtensionNumbersOfType(name())), Code::NotFound),
        (None, Code::InvalidArgument),
    ];
    let mut raw = raw::connect(start().await.address).await;
    for path in [V1, V1_ALPHA] {
        let request = |message_request| ServerReflectionRequest {
            host: "host".to_owned(),
            message_request,
        };
        let mut requests: Vec<_> = asked.iter().map(|(it, _)| request(it.clone())).collect();
        requests.push(request(Some(ListServices(String::new()))));
        let known = "rollplan.v1.Snapshot".to_owned();
        requests.push(request(Some(AllExtensionNumbersOfType(known.clone()))));
        let body: Vec<u8> = requests.iter().flat_map(framed).collect();
        let answer = raw
            .call(raw::request(path, &[]), body.into())
            .await
            .unwrap();
        assert_eq!(answer.status.code(), Code::Ok, "{path}");
        let responses = responses(answer.data);
        assert_eq!(responses.len(), requests.len());
        for (response, request) in responses.iter().zip(&requests) {
            assert_eq!(response.valid_host, "host");
            assert_eq!(response.original_request.as_ref(), Some(request));
        }
        for (response, (_, code)) in responses.iter().zip(&asked) {
            match response.message_response.as_ref().unwrap() {
                MessageResponse::ErrorResponse(error) => {
                    assert_eq!(error.error_code, i32::from(*code), "{error:?}");
                }
                other => panic!("{other:?}"),
            }
        }
        let [.., services, extensions] = &responses[..] else {
            panic!("too few responses");
        };
        assert!(matches!(
            services.message_response,
            Some(MessageResponse::ListServicesResponse(_))
        ));
        match extensions.message_response.as_ref().unwrap() {
            MessageResponse::AllExtensionNumbersResponse(found) => {
                assert_eq!(found.base_type_name, known);
                assert!(found.extension_number.is_empty());
            }
            other => panic!("{other:?}"),
        }
    }
}

/// It must not end with OK, as if the client had sent nothing.
#[tokio::test]
async fn malformed_reflection_request_ends_the_stream_with_an_error() {
    let mut raw = raw::connect(start().await.address).await;
    let first = framed(&ServerReflectionRequest {
        host: String::new(),
        message_request: Some(MessageRequest::ListServices(String::new())),
    });
    for path in [V1, V1_ALPHA] {
        // Invalid bytes, and an incomplete message.
        for garbage in [
            &[0, 0, 0, 0, 2, 0xff, 0xff][..],
            &[0, 0, 0, 0, 9, 1],
            &[7; 9],
        ] {
            let body = [&first[..], garbage].concat();
            let answer = raw
                .call(raw::request(path, &[]), body.into())
                .await
                .unwrap();
            assert_eq!(responses(answer.data).len(), 1, "{garbage:?}");
            check(&answer.status, Code::InvalidArgument, "MALFORMED_REQUEST");
        }
    }
}

/// The messages of a stream.
fn responses(mut data: Bytes) -> Vec<ServerReflectionResponse> {
    let mut responses = Vec::new();
    while !data.is_empty() {
        assert_eq!(data.get_u8(), 0);
        let message = data.get_u32() as usize;
        responses.push(ServerReflectionResponse::decode(data.split_to(message)).unwrap());
    }
    responses
}

#[tokio::test]
async fn health_covers_the_server_and_the_planner() {
    let Serving { channel, .. } = start().await;
    let mut client = HealthClient::new(channel);
    for service in ["", "rollplan.v1.RolloutPlanner"] {
        let service = service.to_owned();
        let answer = client.check(HealthCheckRequest { service }).await.unwrap();
        assert_eq!(answer.into_inner().status(), ServingStatus::Serving);
    }
}

#[tokio::test]
async fn health_of_an_unknown_service_is_not_found() {
    let Serving { channel, .. } = start().await;
    let mut client = HealthClient::new(channel);
    let request = HealthCheckRequest {
        service: "rollplan.v1.Unknown".to_owned(),
    };
    let status = client.check(request).await.unwrap_err();
    check(&status, Code::NotFound, "NOT_FOUND");
}

#[tokio::test]
async fn health_and_reflection_respond_while_the_planner_is_full() {
    let config = Config {
        concurrent_calls_max: 1,
        ..mk_config()
    };
    let staged = Staged::default();
    let Serving {
        channel,
        mut client,
        ..
    } = staged.start(config).await;
    let mut other = client.clone();
    let running =
        tokio::spawn(async move { other.plan_rollout(PlanRolloutRequest::default()).await });
    staged.started.notified().await;
    let shed = client.plan_rollout(PlanRolloutRequest::default()).await;
    assert_eq!(shed.unwrap_err().code(), Code::ResourceExhausted);
    let health = HealthClient::new(channel.clone())
        .check(HealthCheckRequest::default())
        .await;
    assert_eq!(
        health.unwrap().into_inner().status(),
        ServingStatus::Serving
    );
    check_reflection!(v1, channel.clone());
    check_reflection!(v1alpha, channel);
    staged.go_on.notify_one();
    running.await.unwrap().unwrap();
}
