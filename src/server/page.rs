//! Serves a page for people at `/`, above all layers of calls.

use std::convert::Infallible;
use std::future::ready;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderValue, Method, Request, Response};
use http_body_util::Full;
use tonic::body::Body;
use tower::{Layer, Service};

use crate::protocol::ResponseFuture;

/// Answers GET and HEAD of `/` with a page.
#[derive(Clone, Copy)]
pub(crate) struct PageLayer(pub(crate) &'static str);

#[derive(Clone)]
pub(crate) struct PageService<S> {
    inner: S,
    page: &'static str,
}

// === impl PageLayer ===

impl<S> Layer<S> for PageLayer {
    type Service = PageService<S>;

    fn layer(&self, inner: S) -> Self::Service {
        PageService {
            inner,
            page: self.0,
        }
    }
}

// === impl PageService ===

impl<S> Service<Request<Body>> for PageService<S>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>,
    S::Future: Send + 'static,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = ResponseFuture;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let page = match *request.method() {
            Method::GET => self.page,
            Method::HEAD => "",
            _ => return Box::pin(self.inner.call(request)),
        };
        if request.uri().path() != "/" {
            return Box::pin(self.inner.call(request));
        }
        let body = Full::new(Bytes::from_static(page.as_bytes()));
        let mut response = Response::new(Body::new(body));
        let headers = response.headers_mut();
        for (name, value) in [
            (CONTENT_TYPE, "text/html; charset=utf-8"),
            // The page has a policy of its own; this is what it cannot contain.
            (CONTENT_SECURITY_POLICY, "frame-ancestors 'none'"),
            (X_CONTENT_TYPE_OPTIONS, "nosniff"),
            // Another version of the service may answer the next time.
            (CACHE_CONTROL, "no-cache"),
        ] {
            headers.insert(name, HeaderValue::from_static(value));
        }
        Box::pin(ready(Ok(response)))
    }
}
