//! Log lines in JSON on standard error. They contain no annotation, environment value or other text of a workload,
//! except for the namespace and name of its Deployment. Violations are logged by field and rule, and only with field
//! names of the contract.

mod rate_limit;

use std::borrow::Cow;
use std::convert::Infallible;
use std::fmt::Write as _;
use std::io;
use std::panic::{self, PanicHookInfo};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use http::{Request, Response};
use rollplan_service::INVALID_JSON;
use tonic::body::Body;
use tonic::{Code, Status};
use tower::{Layer, Service};
use tracing::{Instrument as _, Span, Subscriber, field};
use tracing_appender::non_blocking::{ErrorCounter, NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::fmt::MakeWriter;

pub(crate) use self::rate_limit::RateLimit;

use crate::observability::trace::{CallSpan, Tracing};
use crate::protocol::ResponseFuture;
use crate::protocol::context::{AnswerContext, CallContext};
use crate::protocol::errors;
use crate::protocol::methods;

/// The maximum number of queued lines. Further lines are dropped: a blocked log must not block calls.
const WAITING_LINES_MAX: usize = 4096;

static PANICS: AtomicU64 = AtomicU64::new(0);

static NOT_WRITTEN: OnceLock<ErrorCounter> = OnceLock::new();

/// Sends logs and panics to standard error until the guard is dropped. A program with its own subscriber keeps it.
#[allow(
    clippy::disallowed_methods,
    reason = "lines of JSON, in which control characters are escaped"
)]
pub(crate) fn init() -> WorkerGuard {
    let (writer, guard) = NonBlockingBuilder::default()
        .buffered_lines_limit(WAITING_LINES_MAX)
        .lossy(true)
        .finish(io::stderr());
    let not_written = writer.error_counter();
    if tracing::subscriber::set_global_default(subscriber(writer)).is_ok() {
        // It is set only here.
        let _ = NOT_WRITTEN.set(not_written);
        panic::set_hook(Box::new(log_panic));
    }
    guard
}

/// The number of panics of this process since [`init`].
pub(crate) fn panics() -> u64 {
    PANICS.load(Ordering::Relaxed)
}

/// The number of lines that were dropped because the queue was full.
pub(crate) fn lines_not_written() -> u64 {
    NOT_WRITTEN
        .get()
        .map_or(0, |lines| lines.dropped_lines() as u64)
}

fn subscriber<W>(writer: W) -> impl Subscriber + Send + Sync
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    tracing_subscriber::fmt()
        .json()
        .flatten_event(true)
        .with_span_list(false)
        .with_target(false)
        .with_writer(writer)
        .finish()
}

/// Logs the location. Logs the message only if it is a literal, because a formatted one may contain values.
fn log_panic(panicked: &PanicHookInfo<'_>) {
    PANICS.fetch_add(1, Ordering::Relaxed);
    tracing::error!(
        location = panicked.location().map(field::display),
        text = panicked.payload().downcast_ref::<&'static str>(),
        "panicked"
    );
}

/// Creates a span for each call, and logs each call that fails or is slow. Streams that fail later, and calls that the
/// client cancels early, are not logged.
#[derive(Clone)]
pub(crate) struct CallLogLayer {
    tracing: Tracing,
    slow_call: Duration,
    failures: RateLimit,
}

#[derive(Clone)]
pub(crate) struct CallLog<S> {
    inner: S,
    tracing: Tracing,
    slow_call: Duration,
    failures: RateLimit,
}

/// A call in flight. If it is dropped before its end, the client canceled it, or the grace period of a shutdown
/// expired.
struct Running {
    start: Instant,
    slow_call: Duration,
    failures: RateLimit,
    call: Option<CallSpan>,
}

// === impl CallLogLayer ===

impl CallLogLayer {
    pub(crate) fn new(tracing: Tracing, slow_call: Duration, failures: RateLimit) -> Self {
        Self {
            tracing,
            slow_call,
            failures,
        }
    }
}

impl<S> Layer<S> for CallLogLayer {
    type Service = CallLog<S>;

    fn layer(&self, inner: S) -> Self::Service {
        let Self {
            tracing,
            slow_call,
            failures,
        } = self.clone();
        CallLog {
            inner,
            tracing,
            slow_call,
            failures,
        }
    }
}

// === impl CallLog ===

impl<S> Service<Request<Body>> for CallLog<S>
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
        let method = methods::shown(request.uri().path());
        let encoding = CallContext::of(&request).encoding;
        let system = encoding.map_or("grpc", |encoding| encoding.protocol());
        let running = Running {
            start: Instant::now(),
            slow_call: self.slow_call,
            failures: self.failures.clone(),
            call: Some(self.tracing.start(request.headers(), system, method)),
        };
        let span = tracing::info_span!("call", method, deployment = field::Empty);
        let answer = self.inner.call(request);
        let logged = async move {
            let running = running;
            let response = answer.await?;
            running.end(&response);
            Ok(response)
        };
        Box::pin(logged.instrument(span))
    }
}

// === impl Running ===

impl Running {
    fn end(mut self, response: &Response<Body>) {
        let Some(call) = self.call.take() else {
            return;
        };
        let took = self.start.elapsed();
        let failure = errors::failure(response);
        match &failure {
            Some(status) => log_failure(status, took, &call, &self.failures),
            None if took >= self.slow_call => {
                if let Some(context) = response.extensions().get::<AnswerContext>() {
                    Span::current().record("deployment", &context.deployment);
                }
                log_slow(took, &call, "slow call");
            }
            None => {}
        }
        call.end(failure.map_or(Code::Ok, |status| status.code()));
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let took = self.start.elapsed();
        if let Some(call) = &self.call
            && took >= self.slow_call
        {
            log_slow(took, call, "slow call given up");
        }
    }
}

fn log_slow(took: Duration, call: &CallSpan, message: &str) {
    let trace_id = call.trace_id().map(field::display);
    tracing::warn!(seconds = took.as_secs_f64(), trace_id, "{message}");
}

fn log_failure(status: &Status, took: Duration, call: &CallSpan, failures: &RateLimit) {
    let code = field::debug(status.code());
    let decoded = rollplan_service::Status::decode(status.details());
    let reason = decoded.as_ref().and_then(|it| it.reason());
    let Some(not_logged) = failures.admit(reason.unwrap_or_default()) else {
        return;
    };
    let not_logged = (not_logged > 0).then_some(not_logged);
    let seconds = took.as_secs_f64();
    let trace_id = call.trace_id().map(field::display);
    let is_json = reason == Some(INVALID_JSON);
    // Its field may contain keys that the caller chose, for example of annotations, so it is not logged.
    let fields = decoded.as_ref().map(|it| it.field_violations());
    let fields = fields.filter(|fields| !fields.is_empty() && !is_json);
    let violations = fields.map(|fields| {
        let mut text = String::new();
        for violation in fields {
            let separator = if text.is_empty() { "" } else { ", " };
            // Writing to a String does not fail.
            let field = contract_names(&violation.field);
            let _ = write!(text, "{separator}{field} {}", violation.reason);
        }
        text
    });
    // The message of a violation may quote the request.
    let text = (violations.is_none() && !is_json).then(|| status.message());
    match status.code() {
        Code::Internal | Code::Unknown | Code::DataLoss => {
            tracing::error!(
                code,
                reason,
                seconds,
                trace_id,
                violations,
                text,
                not_logged,
                "call failed"
            );
        }
        _ => tracing::warn!(
            code,
            reason,
            seconds,
            trace_id,
            violations,
            text,
            not_logged,
            "call failed"
        ),
    }
}

/// A path up to the first name that the caller chose: keys of maps, and everything inside a template. (The middle of a
/// long path is truncated, and the rest may be the end of a key.)
fn contract_names(path: &str) -> Cow<'_, str> {
    const TEMPLATE: &str = ".spec.template";
    let template = path.find(TEMPLATE).map(|at| at + TEMPLATE.len());
    let ends = [path.find("[\""), path.find(errors::ELLIPSIS), template];
    match ends.into_iter().flatten().min() {
        Some(end) if end < path.len() => Cow::Owned(format!("{}[*]", &path[..end])),
        _ => Cow::Borrowed(path),
    }
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod written;
#[cfg(test)]
pub(crate) use self::written::Written;
