//! What every layer of a call knows: its framing, its deadline and cancellation, its errors, the names of methods, and what
//! travels beside its request and its answer.

pub(crate) mod cancellation;
pub(crate) mod context;
pub(crate) mod deadline;
pub(crate) mod errors;
pub(crate) mod framing;
pub(crate) mod methods;
pub(crate) mod pending;
pub(crate) mod reject;
pub(crate) mod rejected;

use std::convert::Infallible;
use std::pin::Pin;

use http::Response;
use tonic::body::Body;

/// The future of a response. It never fails, because errors are responses, too.
pub(crate) type ResponseFuture =
    Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;
