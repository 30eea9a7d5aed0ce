//! How many calls may be under way at once, the large ones apart.
//!
//! A large call waits for its turn, and would take the place of many that are answered at once.

use std::convert::Infallible;
use std::task::{Context, Poll};

use http::{Request, Response};
use tonic::body::Body;
use tower::limit::{ConcurrencyLimit, GlobalConcurrencyLimitLayer};
use tower::load_shed::LoadShed;
use tower::util::Oneshot;
use tower::{BoxError, Layer, Service, ServiceExt as _};

use super::offload::is_large;

/// See the text of this file.
#[derive(Clone)]
pub(super) struct PlacesLayer {
    small: GlobalConcurrencyLimitLayer,
    large: GlobalConcurrencyLimitLayer,
}

#[derive(Clone)]
pub(super) struct Places<S> {
    small: Limited<S>,
    large: Limited<S>,
}

/// A call that finds no place is refused at once: a queue would only make it late as well.
type Limited<S> = LoadShed<ConcurrencyLimit<S>>;

// === impl PlacesLayer ===

impl PlacesLayer {
    /// One limit of each kind for all connections: behind a sidecar all calls come over a few.
    pub(super) fn new(small: usize, large: usize) -> Self {
        Self {
            small: GlobalConcurrencyLimitLayer::new(small),
            large: GlobalConcurrencyLimitLayer::new(large),
        }
    }
}

impl<S: Clone> Layer<S> for PlacesLayer {
    type Service = Places<S>;

    fn layer(&self, inner: S) -> Self::Service {
        Places {
            small: LoadShed::new(self.small.layer(inner.clone())),
            large: LoadShed::new(self.large.layer(inner)),
        }
    }
}

// === impl Places ===

impl<S> Service<Request<Body>> for Places<S>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible> + Clone,
{
    type Response = Response<Body>;
    /// `Overloaded`, and no other.
    type Error = BoxError;
    type Future = Oneshot<Limited<S>, Request<Body>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        // Which of the two is asked depends on the call.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let limited = if is_large(&request) {
            &self.large
        } else {
            &self.small
        };
        limited.clone().oneshot(request)
    }
}
