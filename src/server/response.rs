//! What layers that wrap a call return.

use std::convert::Infallible;
use std::pin::Pin;

use http::Response;
use tonic::body::Body;

/// The response of a call, still to be computed. It never fails: errors are responses too.
pub(super) type ResponseFuture =
    Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;
