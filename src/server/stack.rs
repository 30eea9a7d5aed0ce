//! The layers of the server.

use std::any::Any;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderName, HeaderValue, Method, Request, Response};
use rollplan_wire::REQUEST_BYTES_MAX;
use tokio::sync::watch;
use tonic::body::Body;
use tonic::codec::CompressionEncoding;
use tonic::service::{LayerExt as _, Routes};
use tonic_health::pb::health_server::{Health, HealthServer};
use tonic_reflection::pb::v1::server_reflection_server::ServerReflectionServer;
use tower::{Service, ServiceBuilder};
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::cors::{AllowOrigin, CorsLayer};

use super::config::Config;
use super::connect::{Clock, ConnectLayer, Methods};
use super::{Error, GrpcService};
use crate::RolloutPlannerServer;
use crate::admission::AdmissionLayer;
use crate::admission::budget::Budget;
use crate::admission::buffer::BufferLayer;
use crate::admission::offload::OffloadLayer;
use crate::call::reflection::{Reflection, V1Alpha};
use crate::call::service::{Planner, PlannerService};
use crate::call::streams::StreamsLayer;
use crate::connection::clients;
use crate::observability::calls::CountLayer;
use crate::observability::log::CallLogLayer;
use crate::observability::metrics::Metrics;
use crate::observability::trace::Tracing;
use crate::page::PageLayer;
use crate::protocol::deadline::DeadlineLayer;
use crate::protocol::errors;
use crate::protocol::reject::{self, RejectLayer};

/// The maximum size of requests for health and reflection. They contain names, and are kept in memory during the call.
const SMALL_REQUEST_BYTES_MAX: usize = 4 << 10;

/// The layers of every call: requests pass through them from top to bottom, answers from bottom to top. The limits
/// built into tonic are not used: they are outside of these layers, so their answers would be neither logged nor
/// counted.
pub(super) fn stack(
    config: &Config,
    metrics: &Arc<Metrics>,
    tracing: Tracing,
    methods: Methods,
    clock: Clock,
    routes: Routes,
) -> impl Service<Request<Body>, Response = Response<Body>, Error = Infallible, Future: Send>
+ Clone
+ Send
+ 'static {
    ServiceBuilder::new()
        // Outermost: not a call.
        .option_layer(config.page.map(PageLayer))
        // The layers below handle only gRPC calls.
        .option_layer(cors(&config.cors_allow_origins))
        .layer(ConnectLayer::new(
            methods,
            config.compress_answers_min,
            clock,
        ))
        // Outermost of the gRPC layers, so that it logs and traces the answer that the client gets.
        .layer(CallLogLayer::new(
            tracing,
            config.slow_call,
            metrics.series.failure_lines.clone(),
        ))
        // Above all layers that reject or end calls, so that each started call is counted once.
        .layer(CountLayer::new(Arc::clone(metrics)))
        // Above all layers that create errors, so that all errors have the codes and details of docs/reference/api.md.
        .map_response(errors::complete)
        // Above all layers that would process rejected requests as calls.
        .layer(RejectLayer(reject::rejected))
        .layer(RejectLayer(clients::rejected))
        // Above all layers that take time, including the time to receive a request and to wait for a permit.
        .layer(DeadlineLayer::new(config.deadline_max))
        // The next layer has its own body type.
        .map_response(|response: Response<_>| response.map(Body::new))
        // Innermost, so that a panic becomes an ordinary answer for all other layers.
        .layer(CatchPanicLayer::custom(panicked))
        .service(routes)
}

/// The planner as a gRPC service.
pub(super) fn planner<P: Planner>(
    config: &Config,
    planner: P,
) -> RolloutPlannerServer<PlannerService<P>> {
    let planner = PlannerService::new(planner).compressing(config.compress_answers_min);
    let planner = RolloutPlannerServer::new(planner);
    let planner = match config.compress_answers_min {
        Some(_) => planner.send_compressed(CompressionEncoding::Gzip),
        None => planner,
    };
    planner
        // The limit of the contract, which applies to the sent bytes and to the decompressed bytes.
        .max_decoding_message_size(REQUEST_BYTES_MAX)
        // Snapshots are repetitive, so they compress well.
        .accept_compressed(CompressionEncoding::Gzip)
        .accept_compressed(CompressionEncoding::Zstd)
}

/// The services by name. The layers around the planner do not apply to the others: health checks never wait for plans,
/// and are never rejected because of them.
pub(super) fn routes(
    config: &Config,
    metrics: &Metrics,
    planner: impl GrpcService,
    health: HealthServer<impl Health>,
    stopping: &watch::Sender<()>,
) -> Result<Routes, Error> {
    let load = metrics.series.load.clone();
    let budget = Budget::new(config.buffer_mib_max, load.buffer_bytes);
    let planner = ServiceBuilder::new()
        // Above the limit of calls, so that slow clients do not use it up.
        .layer(BufferLayer::new(
            budget.clone(),
            config.queue_time_max,
            config.concurrent_calls_max,
            load.large.shed.clone(),
            load.request_bytes,
        ))
        // Rejects excess calls. Above the layer in which large calls wait, because those are in flight, too.
        .layer(AdmissionLayer::new(
            config.concurrent_calls_max,
            config.large_calls_max(),
        ))
        // Innermost: decoding, planning and encoding take most of the time.
        .layer(OffloadLayer::new(config.large_plans_max, load.large))
        // Below the buffer, which hides why a body failed.
        .map_request(reject::one_message)
        .named_layer(planner);
    let reflection = ServerReflectionServer::new(Reflection::new()?);
    let reflection = reflection.max_decoding_message_size(SMALL_REQUEST_BYTES_MAX);
    // The answers of health checks are small, and must not depend on the memory budget that other calls use.
    let for_health = StreamsLayer::new(stopping.subscribe());
    let for_reflection = for_health.clone().within(budget);
    let health = health.max_decoding_message_size(SMALL_REQUEST_BYTES_MAX);
    let for_health = ServiceBuilder::new()
        .layer(for_health)
        .map_request(reject::one_message);
    Ok(Routes::new(planner)
        .add_service(for_health.named_layer(health))
        // Some tools use one version, some the other, without a fallback.
        .add_service(for_reflection.named_layer(reflection.clone()))
        .add_service(for_reflection.named_layer(V1Alpha(reflection)))
        .prepare())
}

/// Allows calls by scripts of these origins only.
fn cors(origins: &[String]) -> Option<CorsLayer> {
    /// The maximum that browsers accept.
    const MAX_AGE: Duration = Duration::from_secs(2 * 3600);
    if origins.is_empty() {
        return None;
    }
    // The configuration has been checked already.
    let origins = origins
        .iter()
        .filter_map(|it| HeaderValue::try_from(it).ok());
    let sent = [
        "accept",
        "connect-protocol-version",
        "connect-timeout-ms",
        "content-encoding",
        "content-type",
        "traceparent",
        "tracestate",
    ];
    Some(
        CorsLayer::new()
            .allow_origin(AllowOrigin::list(origins))
            .allow_methods([Method::POST])
            .allow_headers(sent.map(HeaderName::from_static))
            .max_age(MAX_AGE),
    )
}

/// The payload is dropped, because it may contain values of a workload.
fn panicked(_: Box<dyn Any + Send>) -> Response<Body> {
    errors::bug().into_http()
}

#[cfg(test)]
mod tests {
    use http::uri::PathAndQuery;
    use tonic::Code;
    use tonic::client::Grpc;
    use tonic_health::pb::HealthCheckRequest;
    use tonic_health::pb::health_client::HealthClient;
    use tonic_prost::ProstCodec;
    use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
    use tonic_reflection::pb::v1::{ServerReflectionRequest, ServerReflectionResponse};

    use super::*;
    use crate::call::planner::BuiltInPlanner;
    use crate::observability::health::Health;
    use crate::protocol::context::CallContext;
    use crate::protocol::pending::PendingResponses;

    #[tokio::test]
    async fn reflection_uses_the_memory_budget_and_health_does_not() {
        let config = Config {
            buffer_mib_max: 0,
            ..Config::default()
        };
        let metrics = Arc::new(Metrics::new("unknown").unwrap());
        let planner = planner(&config, BuiltInPlanner::new(Arc::clone(&metrics)));
        let (_, health) = Health::new().await;
        let stopping = watch::Sender::new(());
        let routes = routes(&config, &metrics, planner, health, &stopping).unwrap();
        let service = ServiceBuilder::new()
            // A real connection adds this extension.
            .map_request(|mut request: Request<Body>| {
                CallContext::edit(&mut request).pending = Some(PendingResponses::default());
                request
            })
            .service(routes);
        // Both versions have the same encoding.
        for version in ["v1", "v1alpha"] {
            let path = format!("/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo");
            let path = PathAndQuery::try_from(path).unwrap();
            let ask = tokio_stream::once(ServerReflectionRequest {
                host: String::new(),
                message_request: Some(MessageRequest::ListServices(String::new())),
            });
            let codec = ProstCodec::<_, ServerReflectionResponse>::default();
            let mut grpc = Grpc::new(service.clone());
            let answers = grpc.streaming(tonic::Request::new(ask), path, codec).await;
            let ended = answers.unwrap().into_inner().message().await;
            let code = ended.map_err(|status| status.code());
            assert_eq!(code, Err(Code::ResourceExhausted), "{version}");
        }
        let check = HealthCheckRequest::default();
        HealthClient::new(service).check(check).await.unwrap();
    }
}
