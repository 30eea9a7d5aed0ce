//! Properties of every answer, for any request. Each check panics with a description of the violation.

use std::fmt::Debug;

use prost::{Message, Name};
use rollplan::proto::{
    ComputeStatusRequest, ForecastRolloutRequest, ForecastRolloutResponse, Horizon,
    ListRevisionsRequest, PlanRolloutRequest, RollbackRequest,
};
use rollplan::service::{Code, MethodRequest, Status};
use rollplan::wire::{self, Context, json};
use rollplan_core::Plan;
use rollplan_core::lint::{Rule, lint};
use rollplan_core::revision;
use rollplan_core::size::Limits;
use rollplan_core::snapshot::{Snapshot, Strategy};
use serde_json::Value;

/// Maximum bytes of an answer for each byte of its request. The smallest ReplicaSet has about 150 bytes, and the step that
/// scales it about 800. The step contains each text of the ReplicaSet up to four times, and JSON escapes can make a text six
/// times as long.
const ANSWER_FACTOR_MAX: usize = 32;
/// Maximum bytes of the answer to an almost empty request.
const ANSWER_BYTES_MIN: usize = 64 << 10;

/// Calls every method with a snapshot, and checks the answers.
pub fn check_request(request: &PlanRolloutRequest) {
    let asked_bytes = request.encoded_len();
    let bound = |answer: usize| {
        let max = ANSWER_BYTES_MIN + ANSWER_FACTOR_MAX * asked_bytes;
        assert!(
            answer <= max,
            "a request of {asked_bytes} bytes has an answer of {answer}"
        );
    };
    let PlanRolloutRequest {
        snapshot, options, ..
    } = request.clone();
    let plan = twice(request);
    // Bytes are decoded only as far as the plan needs them. They are also rejected if they would take too much memory.
    if let Ok(answer) =
        PlanRolloutRequest::METHOD.call(request.encode_to_vec().into(), &mut Context::default())
    {
        let plan = plan.as_ref().map(Message::encode_to_vec);
        assert_eq!(
            Some(answer),
            plan,
            "the encoded and the decoded request have different plans"
        );
    }
    if let Some(plan) = plan {
        bound(plan.encoded_len());
        check_json(&plan);
    }
    let status = ComputeStatusRequest {
        snapshot: snapshot.clone(),
        options,
        ..ComputeStatusRequest::default()
    };
    if let Some(status) = twice(&status) {
        bound(status.encoded_len());
    }
    let back = RollbackRequest {
        snapshot: snapshot.clone(),
        options,
        ..RollbackRequest::default()
    };
    if let Some(back) = twice(&back) {
        bound(back.encoded_len());
    }
    let forecast = ForecastRolloutRequest {
        snapshot: snapshot.clone(),
        options,
        samples: 2,
        ..ForecastRolloutRequest::default()
    };
    if let Some(forecast) = twice(&forecast) {
        check_forecast(&forecast);
    }
    let list = ListRevisionsRequest { snapshot };
    if let Some(list) = twice(&list) {
        bound(list.encoded_len());
    }
}

/// Checks that the numbers of a forecast are possible.
pub fn check_forecast(forecast: &ForecastRolloutResponse) {
    check_json(forecast);
    let scenarios = [&forecast.expected, &forecast.never_ready, &forecast.slow];
    for scenario in scenarios.into_iter().flatten() {
        let points = &scenario.trajectory;
        assert!(points.len() <= 500, "{} points", points.len());
        for point in points {
            let all = point.pods.iter().zip(&point.available);
            for (pods, available) in all {
                assert!(0 <= *available && available <= pods, "{point:?}");
            }
            assert!(point.terminating >= 0, "{point:?}");
        }
        assert!(!scenario.outcomes.is_empty(), "a forecast without samples");
    }
}

/// Makes a call twice, and checks that the answers have the same bytes. Returns the answer, unless the call was rejected.
fn twice<R: MethodRequest + Clone>(request: &R) -> Option<R::Response> {
    match (
        rollplan::service::answer(request.clone()),
        rollplan::service::answer(request.clone()),
    ) {
        (Ok(first), Ok(second)) => {
            assert_eq!(first.encode_to_vec(), second.encode_to_vec());
            Some(first)
        }
        (Err(first), Err(second)) => {
            check_error(&Status::from(&first));
            assert_eq!(first.to_string(), second.to_string());
            None
        }
        (first, second) => panic!("{:?}, then {:?}", first.err(), second.err()),
    }
}

/// Checks that a plan does not depend on the spelling of the JSON: the order of keys, white space and escapes.
pub fn check_spelling(request: &PlanRolloutRequest) {
    let mut spelled = request.clone();
    let mut text = String::new();
    spell(&objects(request), &mut text);
    set_objects(&mut spelled, text);
    let plan = |request: &PlanRolloutRequest| rollplan::service::answer(request.clone());
    let [plain, spelled] = [request, &spelled].map(|it| plan(it).expect("the request is valid"));
    assert_eq!(plain, spelled, "the plan depends on the spelling");
}

/// Writes JSON with keys in reverse order, white space, and all characters escaped in about half of the strings.
fn spell(value: &Value, text: &mut String) {
    let quote = |string: &str, text: &mut String| {
        if text.len().is_multiple_of(2) {
            return text.push_str(&Value::from(string).to_string());
        }
        text.push('"');
        for unit in string.encode_utf16() {
            text.push_str(&format!("\\u{unit:04x}"));
        }
        text.push('"');
    };
    match value {
        Value::String(string) => quote(string, text),
        Value::Array(items) => {
            text.push_str("[ ");
            for (index, item) in items.iter().enumerate() {
                text.push_str(if index > 0 { "\t, " } else { "" });
                spell(item, text);
            }
            text.push_str(" ]");
        }
        Value::Object(fields) => {
            text.push_str("{\n");
            for (index, (key, value)) in fields.iter().rev().enumerate() {
                text.push_str(if index > 0 { "\r\n, " } else { "" });
                quote(key, text);
                text.push_str(" : ");
                spell(value, text);
            }
            text.push_str("\n}");
        }
        other => text.push_str(&other.to_string()),
    }
}

/// Returns the List in the request of a world.
fn objects(request: &PlanRolloutRequest) -> Value {
    let snapshot = request.snapshot.as_ref();
    let texts = snapshot.map_or(&[][..], |snapshot| &snapshot.objects);
    serde_json::from_str(&texts[0]).expect("a world is JSON")
}

fn set_objects(request: &mut PlanRolloutRequest, text: String) {
    let snapshot = request.snapshot.get_or_insert_default();
    snapshot.objects = vec![text];
}

/// Checks that an answer can be converted to JSON and back.
fn check_json<A>(answer: &A)
where
    A: Message + Name + Default + PartialEq + Debug,
{
    let text = json::to_json(answer).expect("an answer can be converted to JSON");
    let read: A = json::from_json(&text).expect("the JSON of an answer can be decoded");
    assert_eq!(read, *answer, "JSON does not change an answer");
}

/// Checks that an error is short, and names every invalid field.
pub fn check_error(status: &Status) {
    assert_ne!(status.code, Code::Internal, "{status:?}");
    let fields = status.field_violations();
    assert_eq!(
        fields.is_empty(),
        status.reason() != Some("INVALID_REQUEST"),
        "{status:?}"
    );
    assert!(fields.len() <= wire::LISTED_VIOLATIONS_MAX);
    for violation in fields {
        assert!(!violation.field.is_empty(), "{violation:?}");
        assert!(!violation.description.is_empty(), "{violation:?}");
        assert!(violation.field.len() <= 1024, "{violation:?}");
        assert!(violation.description.len() <= 1024, "{violation:?}");
    }
}

/// Plans a valid request, and lints the plan: it violates no rule that the snapshot does not violate already. Also checks
/// that the plan does not depend on the order of the objects.
pub fn check_plan(request: &PlanRolloutRequest) {
    let snapshot = wire::parse_snapshot(request.snapshot.clone()).expect("the snapshot is valid");
    let (options, _) = wire::parse_options(request.options).expect("the options are valid");
    let pass = rollplan_core::plan_pass(&snapshot, options);
    let settled = rollplan_core::plan_settled(&snapshot, options);
    for violation in lint(&snapshot, options, &settled) {
        let exempt = matches!(violation.rule, Rule::MaxTotal { .. }) && is_tampered(&snapshot);
        assert!(violation.inherited || exempt, "{violation:?}");
    }
    for plan in [&pass, &settled] {
        check_numbers(plan);
    }
    let mut partial = snapshot.clone();
    partial.replica_sets_complete = false;
    partial.replica_sets.pop();
    for plan in [rollplan_core::plan_pass, rollplan_core::plan_settled] {
        let plan = plan(&partial, options);
        assert!(plan.steps.is_empty(), "{plan:?}");
    }
    let mut list = objects(request);
    if let Some(items) = list["items"].as_array_mut() {
        items.reverse();
    }
    let mut turned = request.clone();
    set_objects(&mut turned, list.to_string());
    for horizon in [Horizon::Pass, Horizon::Settled] {
        let ask = |request: &PlanRolloutRequest| {
            let mut request = request.clone();
            request.options.get_or_insert_default().horizon = horizon.into();
            rollplan::service::answer(request).expect("the request is valid")
        };
        assert_eq!(
            ask(request),
            ask(&turned),
            "the plan depends on the order of the objects"
        );
    }
}

fn check_numbers(plan: &Plan) {
    use rollplan_core::action::Action;
    for action in plan.steps.iter().filter_map(|step| step.action.as_ref()) {
        match action {
            Action::ScaleReplicaSet { from, to, .. } => assert!(*from >= 0 && *to >= 0),
            Action::CreateReplicaSet(set) => assert!(set.replicas >= 0),
            _ => {}
        }
    }
    let status = &plan.status;
    for number in [
        status.replicas,
        status.updated_replicas,
        status.ready_replicas,
        status.available_replicas,
        status.unavailable_replicas,
        status.terminating_replicas.unwrap_or(0),
    ] {
        assert!(number >= 0, "{status:?}");
    }
    if let Some(span) = plan.requeue_after {
        assert!(span.seconds() >= 1, "{span:?}");
    }
}

/// Whether an annotation makes a ReplicaSet grow although there are too many pods: it states a lower maximum for all
/// ReplicaSets than the current one. Kubernetes behaves in the same way. Scaling alone never leads to such annotations
/// (docs/contributors/parity.md).
fn is_tampered(snapshot: &Snapshot) -> bool {
    let spec = &snapshot.deployment.spec;
    let Strategy::RollingUpdate {
        max_surge,
        max_unavailable,
    } = spec.strategy
    else {
        return false;
    };
    let max_total = Limits::rolling(spec.replicas, max_surge, max_unavailable).max_total();
    let active = || snapshot.replica_sets.iter().filter(|set| set.replicas > 0);
    let total: i64 = active().map(|set| i64::from(set.replicas)).sum();
    let grows = active().any(|set| {
        let annotated = revision::max_replicas(&set.metadata.annotations).filter(|&max| max != 0);
        let before = annotated.unwrap_or(snapshot.deployment.status.replicas);
        before != 0 && before < max_total
    });
    total > i64::from(max_total) && grows
}
