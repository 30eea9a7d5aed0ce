//! Deliberate bugs of callers and of the planner, which show that the checks detect them.

use serde_json::{Value, json};

/// A deliberate bug.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CanaryFlaw {
    /// No bug.
    #[default]
    None,
    /// Patches have no preconditions.
    NoTests,
    /// A hold has a larger `maxSurge`.
    LooseSurge,
    /// A hold has a larger `maxUnavailable`.
    LooseUnavailable,
    /// The pods of a hold count as available.
    NotHeld,
    /// Patches do not write the annotation.
    NoState,
    /// The fields of the user are restored with other limits.
    OtherLimits,
    /// A canary that is not decided is promoted.
    PromotesEarly,
    /// The last patch of a canary is not carried out.
    NeverEnds,
    /// Verdicts about any template and step count as verdicts about the canary.
    MisusesVerdicts,
    /// The next step does not wait until a step is good.
    RaisesEarly,
    /// The next step permits that stable pods are removed.
    RaisesWithUnavailable,
}

// === impl CanaryFlaw ===

impl CanaryFlaw {
    /// The patch with this bug.
    pub(super) fn patch(self, body: &str) -> String {
        let Ok(Value::Array(mut operations)) = serde_json::from_str(body) else {
            return body.to_owned();
        };
        let limit = |field: &str| format!("/spec/strategy/rollingUpdate/{field}");
        let replace = |operations: &mut Vec<Value>, path: &str, value: &Value| {
            for operation in operations.iter_mut().filter(|it| it["path"] == path) {
                operation["value"] = value.clone();
            }
        };
        let is_hold = operations
            .iter()
            .any(|it| it["value"] == json!(rollplan_canary::HELD_MIN_READY));
        match self {
            Self::NoTests => operations.retain(|it| it["op"] != "test"),
            Self::LooseSurge if is_hold => {
                replace(&mut operations, &limit("maxSurge"), &json!("100%"));
            }
            Self::LooseUnavailable if is_hold => {
                replace(&mut operations, &limit("maxUnavailable"), &json!("100%"));
            }
            Self::NotHeld => replace(&mut operations, "/spec/minReadySeconds", &json!(0)),
            Self::NoState => operations.retain(|it| {
                let path = it["path"].as_str().unwrap_or_default();
                it["op"] == "test" || !path.starts_with("/metadata/annotations")
            }),
            Self::OtherLimits if !is_hold => {
                replace(&mut operations, &limit("maxSurge"), &json!("30%"));
            }
            _ => {}
        }
        Value::from(operations).to_string()
    }
}
