//! What a call passes through.

use std::any::Any;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderName, HeaderValue, Method, Request, Response};
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
use crate::server::admission::AdmissionLayer;
use crate::server::admission::budget::Budget;
use crate::server::admission::buffer::BufferLayer;
use crate::server::admission::offload::OffloadLayer;
use crate::server::call::compression::LargeAnswersCompressed;
use crate::server::call::deadline::DeadlineLayer;
use crate::server::call::errors;
use crate::server::call::protocol::{self, RefuseLayer};
use crate::server::call::reflection::{Reflection, V1Alpha};
use crate::server::call::streams::StreamsLayer;
use crate::server::connection::clients;
use crate::server::observability::calls::CountLayer;
use crate::server::observability::log::CallLogLayer;
use crate::server::observability::metrics::Metrics;
use crate::server::observability::trace::Tracing;
use crate::server::{RolloutPlanner, RolloutPlannerServer};
use crate::wire::REQUEST_BYTES_MAX;

/// Bytes that may be sent to ask for health or descriptors: names, and the call is held in memory with them.
const ASKED_BYTES_MAX: usize = 4 << 10;

/// Every call passes through these, from top to bottom, and its answer from bottom to top. No limit of tonic's
/// own is used: they lie outside of all this, so that their answers would be neither logged nor counted.
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
        // Around everything: what is below sees calls of gRPC only.
        .option_layer(cors(&config.cors_allow_origins))
        .layer(ConnectLayer::new(
            methods,
            config.compress_answers_min,
            clock,
        ))
        // Outermost of gRPC: what is logged and traced is what the client gets.
        .layer(CallLogLayer::new(
            tracing,
            config.slow_call,
            metrics.series.failure_lines.clone(),
        ))
        // Above everything that may refuse a call, or end it: each one that begins is counted once.
        .layer(CountLayer::new(Arc::clone(metrics)))
        // Above everything that makes errors, so that all of them have the codes and details of docs/api.md.
        .map_response(errors::complete)
        // Above everything that takes what it refuses for a call.
        .layer(RefuseLayer(protocol::refused))
        .layer(RefuseLayer(clients::refused))
        // Above everything that takes time, a request on its way and a turn to wait for included.
        .layer(DeadlineLayer::new(config.deadline_max))
        // The next layer has a type of body of its own.
        .map_response(|response: Response<_>| response.map(Body::new))
        // Innermost: a panic becomes an answer as any other before a layer can miss it.
        .layer(CatchPanicLayer::custom(panicked))
        .service(routes)
}

/// The planner as a service of gRPC.
pub(super) fn planner<P: RolloutPlanner>(
    config: &Config,
    planner: P,
) -> RolloutPlannerServer<LargeAnswersCompressed<P>> {
    let planner = RolloutPlannerServer::new(LargeAnswersCompressed {
        planner,
        bytes_min: config.compress_answers_min,
    });
    let planner = match config.compress_answers_min {
        Some(_) => planner.send_compressed(CompressionEncoding::Gzip),
        None => planner,
    };
    planner
        // The contract's limit, for the bytes sent and again for what they decompress to.
        .max_decoding_message_size(REQUEST_BYTES_MAX)
        // Snapshots repeat themselves and shrink well.
        .accept_compressed(CompressionEncoding::Gzip)
        .accept_compressed(CompressionEncoding::Zstd)
}

/// What is served, by the name of the service. The layers around the planner are not around the others: health
/// checks never wait behind plans, and are never refused for them.
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
        // Above the limit: a request that is still arriving, however slowly, takes nobody's place.
        .layer(BufferLayer::new(
            budget.clone(),
            config.queue_time_max,
            config.concurrent_calls_max,
            load.large.shed.clone(),
            load.request_bytes,
        ))
        // Refuses what is too much. Above the turns of large calls: those that wait for one are under way too.
        .layer(AdmissionLayer::new(
            config.concurrent_calls_max,
            config.large_calls_max(),
        ))
        // Innermost: decoding, planning and encoding are what takes time.
        .layer(OffloadLayer::new(config.large_plans_max, load.large))
        // Below the buffer, which hides why a body failed.
        .map_request(protocol::one_message)
        .named_layer(planner);
    let reflection = ServerReflectionServer::new(Reflection::new()?);
    let reflection = reflection.max_decoding_message_size(ASKED_BYTES_MAX);
    // Health has no limit of memory that others might have used up: its answers are of a few bytes.
    let for_health = StreamsLayer::new(stopping.subscribe());
    let for_reflection = for_health.clone().within(budget);
    let health = health.max_decoding_message_size(ASKED_BYTES_MAX);
    let for_health = ServiceBuilder::new()
        .layer(for_health)
        .map_request(protocol::one_message);
    Ok(Routes::new(planner)
        .add_service(for_health.named_layer(health))
        // Some tools ask the one, some the other; neither falls back.
        .add_service(for_reflection.named_layer(reflection.clone()))
        .add_service(for_reflection.named_layer(V1Alpha(reflection)))
        .prepare())
}

/// Lets the scripts of these sites call, and those of no other.
fn cors(origins: &[String]) -> Option<CorsLayer> {
    /// Browsers keep the answer no longer.
    const MAX_AGE: Duration = Duration::from_secs(2 * 3600);
    if origins.is_empty() {
        return None;
    }
    // They have been checked with the configuration.
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

/// The payload may hold anything, values of a workload too: it goes nowhere.
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
    use crate::server::call::health::Health;
    use crate::server::call::planner::Planner;
    use crate::server::connection::PendingResponses;

    #[tokio::test]
    async fn descriptors_take_room_of_the_budget_and_health_does_not() {
        let config = Config {
            buffer_mib_max: 0,
            ..Config::default()
        };
        let metrics = Arc::new(Metrics::new().unwrap());
        let planner = planner(&config, Planner::new(Arc::clone(&metrics)));
        let (_, health) = Health::new().await;
        let stopping = watch::Sender::new(());
        let routes = routes(&config, &metrics, planner, health, &stopping).unwrap();
        let service = ServiceBuilder::new()
            // As every connection does.
            .map_request(|mut request: Request<Body>| {
                request.extensions_mut().insert(PendingResponses::default());
                request
            })
            .service(routes);
        // The two versions have the same bytes.
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
