//! Tests of logged and omitted text.

use std::sync::Arc;
use std::thread;
use std::time::SystemTime;

use rollplan_service::MethodRequest;
use rollplan_wire::json;
use rollplan_wire::proto::PlanRolloutRequest;
use serde_json::Value;
use tokio::sync::watch;

use super::*;
use crate::call::planner::BuiltInPlanner;
use crate::call::service::Planner;
use crate::client::RolloutPlannerClient;
use crate::config::Config;
use crate::connect::Methods;
use crate::observability::health::Health;
use crate::observability::metrics::Metrics;
use crate::stack;

const TRACEPARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
const TRACE_ID: &str = "0af7651916cd43dd8448eb211c80319c";

fn planner() -> BuiltInPlanner {
    BuiltInPlanner::new(Arc::new(Metrics::new("unknown").unwrap()))
}

struct Panicking;

#[tonic::async_trait]
impl Planner for Panicking {
    async fn answer<R: MethodRequest>(
        &self,
        _: tonic::Request<R>,
    ) -> Result<tonic::Response<R::Response>, Status> {
        panic!("hunter2");
    }
}

/// The lines that a request for a plan logs, without timestamps and durations.
async fn check(planner: impl Planner, request: Value) -> Vec<Value> {
    check_with(&Config::default(), planner, request, None).await
}

async fn check_with(
    config: &Config,
    planner: impl Planner,
    request: Value,
    traceparent: Option<&'static str>,
) -> Vec<Value> {
    let (written, _guard) = Written::start();
    let (_, health) = Health::new().await;
    let metrics = Arc::new(Metrics::new("unknown").unwrap());
    let planner = stack::planner(config, planner);
    let routes = stack::routes(config, &metrics, planner, health, &watch::Sender::new(())).unwrap();
    let methods = Methods::default();
    let stack = stack::stack(
        config,
        &metrics,
        Tracing::off(),
        methods,
        Arc::new(SystemTime::now),
        routes,
    );
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
    let deployment = serde_json::json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
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
    });
    let snapshot =
        serde_json::json!({"now": "2026-01-01T00:00:00Z", "objects": [deployment.to_string()]});
    serde_json::json!({"snapshot": snapshot})
}

#[tokio::test]
async fn successful_call_is_not_logged() {
    assert_eq!(check(planner(), mk_request(3)).await, [] as [Value; 0]);
}

#[tokio::test]
async fn invalid_request_is_logged_by_fields_and_rules() {
    let fields = "snapshot.objects[0].spec.replicas NEGATIVE, \
                  snapshot.objects[0].spec.strategy.type UNKNOWN_STRATEGY";
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
async fn line_has_the_trace_of_the_caller() {
    let config = Config::default();
    let lines = check_with(&config, planner(), mk_request(-1), Some(TRACEPARENT)).await;
    assert_eq!(lines[0]["trace_id"], TRACE_ID);
}

#[tokio::test]
async fn slow_call_is_logged() {
    let config = Config {
        slow_call: Duration::ZERO,
        ..Config::default()
    };
    let expected = serde_json::json!({
        "level": "WARN",
        "message": "slow call",
        "trace_id": TRACE_ID,
        "span": {
            "name": "call",
            "method": "rollplan.v1.RolloutPlanner/PlanRollout",
            "deployment": "shop/web",
        },
    });
    let lines = check_with(&config, planner(), mk_request(3), Some(TRACEPARENT)).await;
    assert_eq!(lines, [expected]);
}

#[tokio::test]
async fn canceled_slow_call_is_logged() {
    for (slow_call, count) in [(Duration::ZERO, 1), (Duration::from_secs(3600), 0)] {
        let (written, _guard) = Written::start();
        let hangs = tower::service_fn(|_| std::future::pending());
        let failures = RateLimit::new(::metrics::Counter::noop());
        let mut service = CallLogLayer::new(Tracing::off(), slow_call, failures).layer(hangs);
        let mut request = Request::new(Body::empty());
        let traceparent = http::HeaderValue::from_static(TRACEPARENT);
        request.headers_mut().insert("traceparent", traceparent);
        let call = service.call(request);
        tokio::time::timeout(Duration::ZERO, call)
            .await
            .unwrap_err();
        let lines = written.lines();
        assert_eq!(lines.len(), count);
        for line in lines {
            assert_eq!(line["message"], "slow call given up");
            assert_eq!(line["trace_id"], TRACE_ID);
            assert_eq!(line["span"]["method"], "unknown");
            assert!(line["seconds"].is_f64());
        }
    }
}

#[tokio::test]
async fn panic_is_logged_without_its_message() {
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

/// Under overload or with a broken client, each call fails.
#[tokio::test(start_paused = true)]
async fn failed_calls_are_logged_ten_times_per_second_and_reason() {
    let (written, _guard) = Written::start();
    let failures = RateLimit::new(::metrics::Counter::noop());
    let reports = failures.clone().report();
    let fails = tower::service_fn(|_| async { Ok(errors::overloaded().into_http()) });
    let layer = CallLogLayer::new(Tracing::off(), Duration::from_secs(3600), failures.clone());
    let mut service = layer.layer(fails);
    for _ in 0..25 {
        service.call(Request::new(Body::empty())).await.unwrap();
    }
    assert_eq!(written.lines().len(), 10);
    let waited = tokio::time::timeout(Duration::from_millis(2500), reports).await;
    waited.unwrap_err();
    service.call(Request::new(Body::empty())).await.unwrap();
    // There is nothing more to report.
    let waited = tokio::time::timeout(Duration::from_millis(2500), failures.clone().report()).await;
    waited.unwrap_err();
    let lines = written.lines();
    assert_eq!(lines.len(), 12);
    let report = serde_json::json!({
        "level": "WARN",
        "message": "failed calls were not logged",
        "reason": "OVERLOADED",
        "not_logged": 15,
    });
    assert_eq!(lines[10], report);
    assert_eq!(lines[11]["message"], "call failed");
    assert_eq!(lines[11].get("not_logged"), None);
    // The first line of the next second has the number, too.
    for _ in 0..25 {
        service.call(Request::new(Body::empty())).await.unwrap();
    }
    tokio::time::advance(Duration::from_secs(1)).await;
    service.call(Request::new(Body::empty())).await.unwrap();
    let lines = written.lines();
    assert_eq!(lines.len(), 23);
    assert_eq!(lines[22]["message"], "call failed");
    assert_eq!(lines[22]["not_logged"], 15);
}

#[test]
fn fields_are_logged_up_to_names_of_the_caller() {
    let deployment = "snapshot.objects[0].items[0].spec";
    for (path, logged) in [
        (
            "snapshot.objects[0].items[3].metadata.name",
            "snapshot.objects[0].items[3].metadata.name",
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
            "snapshot.objects[0].items[1].spec.selector.matchLabels[\"a\\\"].hunter2\"]",
            "snapshot.objects[0].items[1].spec.selector.matchLabels[*]",
        ),
        (
            "snapshot.objects[0].items[1].sp...hunter2\"]",
            "snapshot.objects[0].items[1].sp[*]",
        ),
    ] {
        assert_eq!(contract_names(path), logged);
    }
}

#[test]
fn only_location_and_literal_of_a_panic_are_logged() {
    let (written, _guard) = Written::start();
    // Panics of other tests go to the previous hook.
    let (own, others) = (thread::current().id(), panic::take_hook());
    panic::set_hook(Box::new(move |panicked| {
        if thread::current().id() == own {
            log_panic(panicked);
        } else {
            others(panicked);
        }
    }));
    let before = panics();
    let secret = "hunter2";
    panic::catch_unwind(|| panic!("the value is {secret}")).unwrap_err();
    panic::catch_unwind(|| panic!("a rule is broken")).unwrap_err();
    assert_eq!(panics() - before, 2);
    let lines = written.lines();
    for (line, text) in lines.iter().zip([Value::Null, "a rule is broken".into()]) {
        assert_eq!(line["message"], "panicked");
        assert_eq!(line["text"], text);
        let location = line["location"].as_str().unwrap();
        assert!(location.starts_with(file!()), "{location}");
    }
    assert_eq!(lines.len(), 2);
}
