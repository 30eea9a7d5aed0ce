//! Reflection and health: what tools and balancers ask.

use std::collections::BTreeSet;

use rollplan::proto::PlanRolloutRequest;
use rollplan::server::Config;
use tokio_stream::once;
use tonic::Code;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use super::refusals::check;
use super::{Serving, Staged, mk_config, start};

const SERVICES: [&str; 2] = ["grpc.health.v1.Health", "rollplan.v1.RolloutPlanner"];

/// Both versions have the same messages under other names.
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

#[tokio::test]
async fn health_knows_the_server_and_the_planner() {
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
async fn tools_and_balancers_are_answered_while_the_planner_is_full() {
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
