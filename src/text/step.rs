//! Formats the details of a step.

use serde_json::Value;

use rollplan_wire::proto::{ApiCall, OnFailure, Step, Verb};

/// The longest value of a precondition that is shown.
const VALUE_MAX: usize = 100;

/// The call, for example "PATCH apps/v1 ReplicaSet shop/web-7d9".
pub(super) fn call(call: &ApiCall) -> String {
    let ApiCall {
        verb: _,
        api_version,
        kind,
        namespace,
        name,
        subresource,
        content_type: _,
        body_json: _,
        path: _,
        query: _,
        accept: _,
    } = call;
    let verb = match call.verb() {
        Verb::Create => "POST",
        Verb::Patch => "PATCH",
        Verb::Delete => "DELETE",
        Verb::Get => "GET",
        Verb::Unspecified => "?",
    };
    let part = match subresource.as_str() {
        "" => String::new(),
        part => format!(", {part}"),
    };
    format!("{verb} {api_version} {kind} {namespace}/{name}{part}")
}

/// The preconditions of the call, for example "uid is 9cae… and generation is 4". Empty if it has none.
pub(super) fn precondition(call: &ApiCall) -> String {
    let Ok(body) = serde_json::from_str::<Value>(&call.body_json) else {
        return String::new();
    };
    let tests: Vec<String> = match (call.verb(), &body) {
        (Verb::Patch, Value::Array(operations)) => operations.iter().filter_map(tested).collect(),
        (Verb::Patch, _) => fields(body.get("metadata")),
        (Verb::Delete, _) => fields(body.get("preconditions")),
        (Verb::Create | Verb::Get | Verb::Unspecified, _) => Vec::new(),
    };
    tests.join(" and ")
}

/// A `test` operation of a JSON Patch, with the last segments of its path.
fn tested(operation: &Value) -> Option<String> {
    if operation.get("op")?.as_str()? != "test" {
        return None;
    }
    let path = operation.get("path")?.as_str()?;
    let path = path.trim_start_matches("/metadata").trim_start_matches('/');
    let path = path.replace("~1", "/");
    Some(match operation.get("value") {
        None | Some(Value::Null) => format!("{path} is absent"),
        // For example the state of a canary.
        Some(Value::String(text)) if text.len() > VALUE_MAX => format!("{path} is unchanged"),
        Some(value) => is(&path, value),
    })
}

/// The fields of the metadata that act as preconditions.
fn fields(object: Option<&Value>) -> Vec<String> {
    let field = |name| Some(is(name, object?.get(name)?));
    ["uid", "resourceVersion"]
        .into_iter()
        .filter_map(field)
        .collect()
}

fn is(name: &str, value: &Value) -> String {
    match value {
        Value::String(text) => format!("{name} is {text}"),
        value => format!("{name} is {value}"),
    }
}

/// The reaction to a failed call, unless the plan stops.
pub(super) fn on_failure(step: &Step) -> Option<String> {
    match step.on_failure() {
        OnFailure::Unspecified | OnFailure::Stop => None,
        OnFailure::Continue => Some("continue with the next step".to_owned()),
        OnFailure::DoneIf => {
            let codes: Vec<String> = step.done_http_codes.iter().map(i32::to_string).collect();
            Some(format!("{} counts as done", codes.join(" or ")))
        }
    }
}
