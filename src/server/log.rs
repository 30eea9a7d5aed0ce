//! Lines of JSON on standard error. None holds an annotation, an environment value, or any other text of a
//! workload besides the namespace and the name of its Deployment: violations are logged by field and rule, of
//! fields only the contract's own names.

use std::borrow::Cow;
use std::convert::Infallible;
use std::fmt::Write as _;
use std::future::Future;
use std::io;
use std::panic::{self, PanicHookInfo};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use http::{Request, Response};
use tonic::body::Body;
use tonic::{Code, Status};
use tonic_types::StatusExt as _;
use tower::{Layer, Service};
use tracing::{Instrument as _, Subscriber, field};
use tracing_appender::non_blocking::{NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::fmt::MakeWriter;

use super::errors;
use super::metrics;
use super::trace::{CallSpan, Tracing};

/// Lines that wait to be written. What comes when so many wait is lost: who does not read the log must not stop calls.
const WAITING_LINES_MAX: usize = 4096;

/// Sends logs and panics to standard error, until what is returned is dropped. A program that has its own subscriber
/// keeps it.
pub(super) fn init() -> WorkerGuard {
    let (writer, guard) = NonBlockingBuilder::default()
        .buffered_lines_limit(WAITING_LINES_MAX)
        .lossy(true)
        .finish(io::stderr());
    if tracing::subscriber::set_global_default(subscriber(writer)).is_ok() {
        panic::set_hook(Box::new(log_panic));
    }
    guard
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

/// Where it happened, and the text only if it is a literal: a formatted one may hold values.
fn log_panic(panicked: &PanicHookInfo<'_>) {
    tracing::error!(
        location = panicked.location().map(field::display),
        text = panicked.payload().downcast_ref::<&'static str>(),
        "panicked"
    );
}

/// One line for each call that fails or is slow, and one span for each call. Streams that fail later, and calls
/// that the client soon gives up, have no line.
#[derive(Clone)]
pub(super) struct CallLogLayer {
    tracing: Tracing,
    slow_call: Duration,
}

#[derive(Clone)]
pub(super) struct CallLog<S> {
    inner: S,
    tracing: Tracing,
    slow_call: Duration,
}

/// A call that is under way. Dropped before its end, the client has given it up, or the server after its grace.
struct Running {
    start: Instant,
    slow_call: Duration,
    call: Option<CallSpan>,
}

// === impl CallLogLayer ===

impl CallLogLayer {
    pub(super) fn new(tracing: Tracing, slow_call: Duration) -> Self {
        Self { tracing, slow_call }
    }
}

impl<S> Layer<S> for CallLogLayer {
    type Service = CallLog<S>;

    fn layer(&self, inner: S) -> Self::Service {
        let Self { tracing, slow_call } = self.clone();
        CallLog {
            inner,
            tracing,
            slow_call,
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
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let method = metrics::shown(request.uri().path());
        let running = Running {
            start: Instant::now(),
            slow_call: self.slow_call,
            call: Some(self.tracing.start(request.headers(), method)),
        };
        let span = tracing::info_span!("call", method, deployment = field::Empty);
        let answer = self.inner.call(request);
        let logged = async move {
            let running = running;
            let response = answer.await?;
            running.end(errors::failure(&response));
            Ok(response)
        };
        Box::pin(logged.instrument(span))
    }
}

// === impl Running ===

impl Running {
    fn end(mut self, failure: Option<Status>) {
        let Some(call) = self.call.take() else {
            return;
        };
        let took = self.start.elapsed();
        match &failure {
            Some(status) => log_failure(status, took, &call),
            None if took >= self.slow_call => log_slow(took, &call, "slow call"),
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

fn log_failure(status: &Status, took: Duration, call: &CallSpan) {
    let details = status.get_error_details();
    let code = field::debug(status.code());
    let reason = details.error_info().map(|info| info.reason.as_str());
    let seconds = took.as_secs_f64();
    let trace_id = call.trace_id().map(field::display);
    let violations = details.bad_request().map(|bad_request| {
        let mut text = String::new();
        for violation in &bad_request.field_violations {
            let separator = if text.is_empty() { "" } else { ", " };
            // Writing to a String does not fail.
            let field = contract_names(&violation.field);
            let _ = write!(text, "{separator}{field} {}", violation.reason);
        }
        text
    });
    // What is wrong with a request may quote it.
    let text = violations.is_none().then(|| status.message());
    match status.code() {
        Code::Internal | Code::Unknown | Code::DataLoss => {
            tracing::error!(
                code,
                reason,
                seconds,
                trace_id,
                violations,
                text,
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
            "call failed"
        ),
    }
}

/// A path up to where its names are the caller's: keys of maps, and all that is inside a template. (The middle of a
/// long path is cut, and what follows may be the end of a key.)
fn contract_names(path: &str) -> Cow<'_, str> {
    const TEMPLATE: &str = ".spec.template";
    let template = path.find(TEMPLATE).map(|at| at + TEMPLATE.len());
    let ends = [path.find("[\""), path.find(errors::CUT), template];
    match ends.into_iter().flatten().min() {
        Some(end) if end < path.len() => Cow::Owned(format!("{}[*]", &path[..end])),
        _ => Cow::Borrowed(path),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};
    use std::thread;

    use serde_json::Value;
    use tokio::sync::watch;
    use tracing::subscriber;

    use super::*;
    use crate::proto::rollout_planner_client::RolloutPlannerClient;
    use crate::proto::rollout_planner_server::RolloutPlanner;
    use crate::proto::{
        ComputeStatusRequest, ComputeStatusResponse, ListRevisionsRequest, ListRevisionsResponse,
        PlanRolloutRequest, PlanRolloutResponse, RollbackRequest, RollbackResponse,
    };
    use crate::server::config::Config;
    use crate::server::health::Health;
    use crate::server::metrics::Metrics;
    use crate::server::planner::Planner;
    use crate::server::stack;
    use crate::wire::json;

    fn planner() -> Planner {
        Planner::new(Arc::new(Metrics::new().unwrap()))
    }

    struct Panicking;

    #[tonic::async_trait]
    impl RolloutPlanner for Panicking {
        async fn plan_rollout(
            &self,
            _: tonic::Request<PlanRolloutRequest>,
        ) -> Result<tonic::Response<PlanRolloutResponse>, Status> {
            panic!("hunter2");
        }

        async fn compute_status(
            &self,
            _: tonic::Request<ComputeStatusRequest>,
        ) -> Result<tonic::Response<ComputeStatusResponse>, Status> {
            unreachable!()
        }

        async fn rollback(
            &self,
            _: tonic::Request<RollbackRequest>,
        ) -> Result<tonic::Response<RollbackResponse>, Status> {
            unreachable!()
        }

        async fn list_revisions(
            &self,
            _: tonic::Request<ListRevisionsRequest>,
        ) -> Result<tonic::Response<ListRevisionsResponse>, Status> {
            unreachable!()
        }
    }

    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl Written {
        /// Without their times.
        fn lines(&self) -> Vec<Value> {
            let written = String::from_utf8(self.0.lock().unwrap().clone()).unwrap();
            assert!(!written.contains("hunter2"), "{written}");
            let line = |line| {
                let mut line: Value = serde_json::from_str(line).unwrap();
                let time = line.as_object_mut().unwrap().remove("timestamp");
                assert!(time.unwrap().is_string());
                line
            };
            written.lines().map(line).collect()
        }
    }

    impl io::Write for Written {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// What is logged while a plan is asked for, without time and duration.
    async fn check(planner: impl RolloutPlanner, request: Value) -> Vec<Value> {
        check_with(&Config::default(), planner, request, None).await
    }

    async fn check_with(
        config: &Config,
        planner: impl RolloutPlanner,
        request: Value,
        traceparent: Option<&'static str>,
    ) -> Vec<Value> {
        let written = Written::default();
        let writer = written.clone();
        let _guard = subscriber::set_default(subscriber(move || writer.clone()));
        let (_, health) = Health::new().await;
        let metrics = Arc::new(Metrics::new().unwrap());
        let routes =
            stack::routes(config, &metrics, planner, health, &watch::Sender::new(())).unwrap();
        let stack = stack::stack(config, &metrics, Tracing::off(), routes);
        let request: PlanRolloutRequest = json::from_json(&request.to_string()).unwrap();
        let mut request = tonic::Request::new(request);
        if let Some(traceparent) = traceparent {
            let traceparent = tonic::metadata::MetadataValue::from_static(traceparent);
            request.metadata_mut().insert("traceparent", traceparent);
        }
        let _ = RolloutPlannerClient::new(stack).plan_rollout(request).await;
        let mut lines = written.lines();
        for line in &mut lines {
            assert!(line["seconds"].is_f64());
            line.as_object_mut().unwrap().remove("seconds");
        }
        lines
    }

    fn mk_request(replicas: i32) -> Value {
        serde_json::json!({"snapshot": {
            "now": "2026-01-01T00:00:00Z",
            "deployment": {
                "metadata": {
                    "namespace": "shop",
                    "name": "web",
                    "uid": "1",
                    "resourceVersion": "1",
                    "annotations": {"password": "hunter2"},
                },
                "spec": {
                    "replicas": replicas,
                    "selector": {"matchLabels": {"app": "web"}},
                    "strategy": {"type": if replicas < 0 { "hunter2" } else { "Recreate" }},
                    "template": {
                        "metadata": {"labels": {"app": "web"}},
                        "spec": {"containers": [{
                            "name": "app",
                            "image": "app",
                            "env": [{"name": "PASSWORD", "value": "hunter2"}],
                        }]},
                    },
                },
            },
        }})
    }

    #[tokio::test]
    async fn an_answer_is_not_logged() {
        assert_eq!(check(planner(), mk_request(3)).await, [] as [Value; 0]);
    }

    #[tokio::test]
    async fn an_invalid_request_is_logged_by_fields_and_rules() {
        let fields = "snapshot.deployment.spec.replicas NEGATIVE, \
                      snapshot.deployment.spec.strategy.type UNKNOWN_STRATEGY";
        let expected = serde_json::json!({
            "level": "WARN",
            "message": "call failed",
            "code": "InvalidArgument",
            "reason": "INVALID_REQUEST",
            "violations": fields,
            "span": {
                "name": "call",
                "method": "rollplan.v1.RolloutPlanner/PlanRollout",
                "deployment": "shop/web",
            },
        });
        assert_eq!(check(planner(), mk_request(-1)).await, [expected]);
    }

    #[tokio::test]
    async fn a_line_has_the_trace_of_the_caller() {
        let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let config = Config::default();
        let lines = check_with(&config, planner(), mk_request(-1), Some(parent)).await;
        assert_eq!(lines[0]["trace_id"], "0af7651916cd43dd8448eb211c80319c");
    }

    #[tokio::test]
    async fn a_slow_answer_is_logged() {
        let config = Config {
            slow_call: Duration::ZERO,
            ..Config::default()
        };
        let expected = serde_json::json!({
            "level": "WARN",
            "message": "slow call",
            "span": {"name": "call", "method": "rollplan.v1.RolloutPlanner/PlanRollout"},
        });
        let lines = check_with(&config, planner(), mk_request(3), None).await;
        assert_eq!(lines, [expected]);
    }

    #[tokio::test]
    async fn a_slow_call_that_the_client_gives_up_is_logged() {
        for (slow_call, count) in [(Duration::ZERO, 1), (Duration::from_secs(3600), 0)] {
            let written = Written::default();
            let writer = written.clone();
            let _guard = subscriber::set_default(subscriber(move || writer.clone()));
            let hangs = tower::service_fn(|_| std::future::pending());
            let mut service = CallLogLayer::new(Tracing::off(), slow_call).layer(hangs);
            let call = service.call(Request::new(Body::empty()));
            tokio::time::timeout(Duration::ZERO, call)
                .await
                .unwrap_err();
            let lines = written.lines();
            assert_eq!(lines.len(), count);
            for line in lines {
                assert_eq!(line["message"], "slow call given up");
                assert_eq!(line["span"]["method"], "unknown");
                assert!(line["seconds"].is_f64());
            }
        }
    }

    #[tokio::test]
    async fn a_panic_is_logged_without_its_text() {
        let expected = serde_json::json!({
            "level": "ERROR",
            "message": "call failed",
            "code": "Internal",
            "reason": "INTERNAL_ERROR",
            "text": errors::bug().message(),
            "span": {"name": "call", "method": "rollplan.v1.RolloutPlanner/PlanRollout"},
        });
        assert_eq!(check(Panicking, mk_request(3)).await, [expected]);
    }

    #[test]
    fn fields_are_logged_up_to_where_their_names_are_the_callers() {
        let deployment = "snapshot.deployment.spec";
        for (path, logged) in [
            (
                "snapshot.pods[3].metadata.name",
                "snapshot.pods[3].metadata.name",
            ),
            (
                &format!("{deployment}.template"),
                &format!("{deployment}.template"),
            ),
            (
                &format!("{deployment}.template.metadata.annotations.hunter2"),
                &format!("{deployment}.template[*]"),
            ),
            (
                "snapshot.replica_sets[1].spec.selector.match_labels[\"a\\\"].hunter2\"]",
                "snapshot.replica_sets[1].spec.selector.match_labels[*]",
            ),
            (
                "snapshot.replica_sets[1].sp...hunter2\"]",
                "snapshot.replica_sets[1].sp[*]",
            ),
        ] {
            assert_eq!(contract_names(path), logged);
        }
    }

    #[test]
    fn of_a_panic_only_place_and_literal_are_logged() {
        let written = Written::default();
        let writer = written.clone();
        let _guard = subscriber::set_default(subscriber(move || writer.clone()));
        // Other tests panic as they always do.
        let (own, others) = (thread::current().id(), panic::take_hook());
        panic::set_hook(Box::new(move |panicked| {
            if thread::current().id() == own {
                log_panic(panicked);
            } else {
                others(panicked);
            }
        }));
        let secret = "hunter2";
        panic::catch_unwind(|| panic!("the value is {secret}")).unwrap_err();
        panic::catch_unwind(|| panic!("a rule is broken")).unwrap_err();
        let lines = written.lines();
        for (line, text) in lines.iter().zip([Value::Null, "a rule is broken".into()]) {
            assert_eq!(line["message"], "panicked");
            assert_eq!(line["text"], text);
            let location = line["location"].as_str().unwrap();
            assert!(location.starts_with(file!()), "{location}");
        }
        assert_eq!(lines.len(), 2);
    }
}
