//! What the page needs besides the methods of the contract: it reads what kubectl printed, and shows forecasts as everywhere else.

use bytes::Bytes;
use prost::{Message, Name};
use rollplan_service::{Budget, Code, Encoding, Status, find_method};
use rollplan_text::forecast::{Facts, forecast, picture};
use rollplan_text::{Page, history, plan, status};
use rollplan_wire::proto::{
    ComputeStatusResponse, ForecastRolloutResponse, ListRevisionsResponse, PlanRolloutResponse,
};
use rollplan_wire::{Context, Shown, objects_of_body};
use serde_json::{Value, json};

/// Answers a method of the contract, or one of the page, whose responses are JSON, also `{"error": {"message", "reason"}}`:
///
/// - `Objects`: the request is JSON or YAML as kubectl prints it, and the response a list of texts, for `Snapshot.objects`.
/// - `Show METHOD`: the request is that of the method in JSON. Which lists are complete is inferred from the objects. The response has
///   its `response`, the name of its `subject`, the `text` that the command prints, and for a forecast a `picture` (SVG) and a `title`.
pub(crate) fn call(
    method: &str,
    encoding: Encoding,
    request: Bytes,
    budget: &Budget,
) -> Result<Vec<u8>, Status> {
    let shown = if method == "Objects" {
        let objects = objects_of_body(&request).map_err(|error| Status::from(&error));
        objects.map(|objects| json!(objects))
    } else if let Some(("Show", name)) = method.split_once(' ') {
        show(name, &String::from_utf8_lossy(&request), budget)
    } else {
        return rollplan_service::call(method, encoding, request, budget);
    };
    let shown = shown.unwrap_or_else(
        |status| json!({"error": {"message": status.message, "reason": status.reason()}}),
    );
    Ok(shown.to_string().into_bytes())
}

fn has_changes(request: &str) -> bool {
    let request: Value = serde_json::from_str(request).unwrap_or_default();
    request["changes"]
        .as_array()
        .is_some_and(|it| !it.is_empty())
}

fn show(name: &str, request: &str, budget: &Budget) -> Result<Value, Status> {
    let Some(method) = find_method(name) else {
        let message = format!("unknown method {name:?}");
        return Err(Status::new(Code::Unimplemented, message, "UNKNOWN_METHOD"));
    };
    let mut inferred = Shown::default();
    let mut context = Context {
        shown: Some(&mut inferred),
        ..Context::until(budget)
    };
    let response = method.call_json(request, &mut context)?;
    let subject = inferred.summary.map_or_else(String::new, |it| it.subject());
    let mut page = Page::new(false);
    let mut shown = json!({});
    match name {
        "ComputeStatus" => status(
            &mut page,
            &subject,
            &from_json::<ComputeStatusResponse>(&response)?,
        ),
        "PlanRollout" => plan(
            &mut page,
            &subject,
            &from_json::<PlanRolloutResponse>(&response)?,
        ),
        "ListRevisions" => history(
            &mut page,
            &subject,
            None,
            &from_json::<ListRevisionsResponse>(&response)?,
        ),
        "ForecastRollout" => {
            let facts = Facts {
                subject: &subject,
                has_changes: has_changes(request),
                response: &from_json::<ForecastRolloutResponse>(&response)?,
            };
            forecast(&mut page, &facts);
            shown["picture"] = picture(&facts).into();
            shown["title"] = facts.title().into();
        }
        _ => {
            let message = format!("{name} cannot be shown");
            return Err(Status::new(Code::Unimplemented, message, "UNKNOWN_METHOD"));
        }
    }
    shown["subject"] = subject.into();
    shown["text"] = page.into_text().into();
    shown["response"] = serde_json::from_str(&response).unwrap_or_default();
    Ok(shown)
}

fn from_json<M: Message + Name + Default>(text: &str) -> Result<M, Status> {
    rollplan_wire::json::from_json(text).map_err(|error| Status::from(&error))
}
