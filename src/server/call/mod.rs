//! A call: its deadline, its decoding, its processing by the planner, and its errors.

pub(crate) mod cancellation;
pub(crate) mod codec;
pub(crate) mod compression;
pub(crate) mod deadline;
pub(crate) mod errors;
pub(crate) mod framing;
pub(crate) mod health;
pub(crate) mod planner;
pub(crate) mod protocol;
pub(crate) mod reflection;
pub(crate) mod streams;

use std::convert::Infallible;
use std::pin::Pin;

use http::Response;
use tonic::body::Body;

/// The future of a response. It never fails, because errors are responses, too.
pub(crate) type ResponseFuture =
    Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;
