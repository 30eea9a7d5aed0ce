//! Limits the duration of calls.

use std::convert::Infallible;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use http::{HeaderMap, Request, Response};
use rollplan_service::{Code, Status};
use tokio::time::sleep;
use tonic::body::Body;
use tower::{Layer, Service};

use crate::protocol::ResponseFuture;
use crate::protocol::context::CallContext;
use crate::protocol::errors::to_tonic;

pub(crate) const GRPC_TIMEOUT: &str = "grpc-timeout";

/// Answers DEADLINE_EXCEEDED when the client's deadline or the server's own limit passes, whichever is earlier.
#[derive(Clone, Copy)]
pub(crate) struct DeadlineLayer {
    max: Duration,
}

#[derive(Clone)]
pub(crate) struct Deadline<S> {
    inner: S,
    max: Duration,
}

// === impl DeadlineLayer ===

impl DeadlineLayer {
    pub(crate) fn new(max: Duration) -> Self {
        Self { max }
    }
}

impl<S> Layer<S> for DeadlineLayer {
    type Service = Deadline<S>;

    fn layer(&self, inner: S) -> Self::Service {
        let Self { max } = *self;
        Deadline { inner, max }
    }
}

// === impl Deadline ===

impl<S> Service<Request<Body>> for Deadline<S>
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

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let time = remaining(request.headers()).map_or(self.max, |time| time.min(self.max));
        // Created here instead of at the first poll, so that it includes all waiting.
        let timer = sleep(time);
        // For work that dropping the future does not cancel.
        CallContext::edit(&mut request).due = Some(Instant::now() + time);
        let answer = self.inner.call(request);
        Box::pin(async move {
            tokio::select! {
                // An available answer takes precedence.
                biased;
                answer = answer => answer,
                () = timer => Ok(exceeded(time).into_http()),
            }
        })
    }
}

fn exceeded(time: Duration) -> tonic::Status {
    let milliseconds = time.as_millis().to_string();
    let message = format!("not answered within {milliseconds} ms");
    let status = Status::new(Code::DeadlineExceeded, message, "DEADLINE_EXCEEDED");
    to_tonic(status.with_metadata([("milliseconds", milliseconds)]))
}

/// The client's deadline, if it is valid in gRPC.
pub(crate) fn remaining(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get(GRPC_TIMEOUT)?.to_str().ok()?;
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    // The maximum of gRPC is eight digits.
    if digits.len() > 8 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let count: u64 = digits.parse().ok()?;
    Some(match unit {
        "H" => Duration::from_secs(count * 3600),
        "M" => Duration::from_secs(count * 60),
        "S" => Duration::from_secs(count),
        "m" => Duration::from_millis(count),
        "u" => Duration::from_micros(count),
        "n" => Duration::from_nanos(count),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn deadlines_are_parsed_like_grpc() {
        let read = |text: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(GRPC_TIMEOUT, HeaderValue::from_static(text));
            remaining(&headers)
        };
        assert_eq!(read("2H"), Some(Duration::from_secs(7200)));
        assert_eq!(read("2M"), Some(Duration::from_secs(120)));
        assert_eq!(read("99999999S"), Some(Duration::from_secs(99_999_999)));
        assert_eq!(read("250m"), Some(Duration::from_millis(250)));
        assert_eq!(read("0u"), Some(Duration::ZERO));
        assert_eq!(read("7n"), Some(Duration::from_nanos(7)));
        for wrong in ["", "S", "1", "1s", "-1S", "+1S", "1.5S", "999999999S"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
        assert_eq!(remaining(&HeaderMap::new()), None);
    }
}
