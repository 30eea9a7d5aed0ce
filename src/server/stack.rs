//! What a call passes through.

use std::any::Any;
use std::convert::Infallible;

use http::{Request, Response};
use tonic::body::Body;
use tonic::codec::CompressionEncoding;
use tonic::service::Routes;
use tonic_health::pb::health_server::{Health, HealthServer};
use tower::{Service, ServiceBuilder};
use tower_http::catch_panic::CatchPanicLayer;

use super::log::CallLogLayer;
use super::{Error, errors};
use crate::proto::FILE_DESCRIPTOR_SET;
use crate::proto::rollout_planner_server::{RolloutPlanner, RolloutPlannerServer};
use crate::wire::REQUEST_BYTES_MAX;

/// Every call passes through these, from top to bottom, and its answer from bottom to top. No limit of tonic's
/// own is used: they lie outside of all this, so that their answers would be neither logged nor completed.
pub(super) fn stack(
    routes: Routes,
) -> impl Service<Request<Body>, Response = Response<Body>, Error = Infallible, Future: Send>
+ Clone
+ Send
+ 'static {
    ServiceBuilder::new()
        // Outermost: what is logged is what the client gets.
        .layer(CallLogLayer)
        // Above everything that makes errors, so that all of them have the codes and details of docs/api.md.
        .map_response(errors::complete)
        // The next layer has a type of body of its own.
        .map_response(|response: Response<_>| response.map(Body::new))
        // Innermost: a panic becomes an answer as any other before a layer can miss it.
        .layer(CatchPanicLayer::custom(panicked))
        .service(routes)
}

/// What is served, by the name of the service. What is for the planner alone belongs around it here, so that
/// health checks never wait behind plans.
pub(super) fn routes(
    planner: impl RolloutPlanner,
    health: HealthServer<impl Health>,
) -> Result<Routes, Error> {
    let planner = RolloutPlannerServer::new(planner)
        // The contract's limit, for the bytes sent and again for what they decompress to.
        .max_decoding_message_size(REQUEST_BYTES_MAX)
        // Snapshots repeat themselves and shrink well.
        .accept_compressed(CompressionEncoding::Gzip)
        .accept_compressed(CompressionEncoding::Zstd)
        // For clients that ask for it.
        .send_compressed(CompressionEncoding::Gzip);
    let reflection = || {
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(FILE_DESCRIPTOR_SET)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
    };
    let broken = |source| Error::Reflection { source };
    Ok(Routes::new(planner)
        .add_service(health)
        // Some tools ask the one, some the other; neither falls back.
        .add_service(reflection().build_v1().map_err(broken)?)
        .add_service(reflection().build_v1alpha().map_err(broken)?)
        .prepare())
}

/// The payload may hold anything, values of a workload too: it goes nowhere.
fn panicked(_: Box<dyn Any + Send>) -> Response<Body> {
    errors::bug().into_http()
}
