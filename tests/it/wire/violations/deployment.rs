//! The Deployment itself, and its status.

use rollplan::wire::Reason::*;
use serde_json::{Value, json};

use super::{Case, Field};
use crate::request::Request;

pub(super) const FIELDS: &[Field] = &[
    ("metadata", "null", Required),
    ("metadata.name", "null", Required),
    ("metadata.name", r#""Web""#, InvalidName),
    ("metadata.name", "7", WrongType),
    ("metadata.namespace", "null", Required),
    ("metadata.namespace", r#""a.b""#, InvalidName),
    ("metadata.uid", "null", Required),
    ("metadata.uid", r#""""#, Required),
    ("metadata.resourceVersion", "null", Required),
    ("metadata.generation", "-1", Negative),
    ("metadata.generation", "1.0", WrongType),
    ("metadata.creationTimestamp", r#""today""#, WrongType),
    ("metadata.deletionTimestamp", "0", WrongType),
    ("metadata.labels", "[]", WrongType),
    ("metadata.ownerReferences", "{}", WrongType),
    ("spec", "null", Required),
    ("spec.replicas", "-1", Negative),
    ("spec.replicas", "2147483648", OutOfRange),
    ("spec.selector", "null", Required),
    ("spec.template", "null", Required),
    ("spec.template", "[]", WrongType),
    ("spec.minReadySeconds", "-1", Negative),
    ("spec.revisionHistoryLimit", "-1", Negative),
    ("spec.progressDeadlineSeconds", "-1", Negative),
    ("spec.paused", r#""true""#, WrongType),
    ("spec.strategy.type", r#""Canary""#, UnknownStrategy),
    (SURGE, "-1", Negative),
    (SURGE, "1.5", NotIntOrPercent),
    (SURGE, "2147483648", OutOfRange),
    (SURGE, r#""2147483648%""#, OutOfRange),
    (SURGE, r#""25""#, NotIntOrPercent),
    (SURGE, r#""-5%""#, NotIntOrPercent),
    (SURGE, r#""+5%""#, NotIntOrPercent),
    (SURGE, r#""5%%""#, NotIntOrPercent),
    (SURGE, r#""%""#, NotIntOrPercent),
    (SURGE, r#""½%""#, NotIntOrPercent),
    (SURGE, "true", NotIntOrPercent),
    (UNAVAILABLE, r#""""#, NotIntOrPercent),
    ("status.observedGeneration", "-1", Negative),
    ("status.replicas", "-1", Negative),
    ("status.updatedReplicas", "-1", Negative),
    ("status.readyReplicas", "-1", Negative),
    ("status.availableReplicas", "-1", Negative),
    ("status.unavailableReplicas", "-1", Negative),
    ("status.terminatingReplicas", "-1", Negative),
    ("status.collisionCount", "-1", Negative),
    ("status.conditions[1].lastUpdateTime", r#""""#, WrongType),
];

const SURGE: &str = "spec.strategy.rollingUpdate.maxSurge";
const UNAVAILABLE: &str = "spec.strategy.rollingUpdate.maxUnavailable";

pub(super) const CASES: &[Case] = &[
    (
        |r| r.set_kind("../secrets/v1", "Rollout"),
        "[0].apiVersion",
        InvalidName,
    ),
    (
        |r| r.set_kind("example.com/v1", "Roll/out"),
        "[0].kind",
        InvalidName,
    ),
    (
        |r| r.meta()["annotations"] = json!({"a b": ""}),
        "[0].metadata.annotations[\"a b\"]",
        InvalidAnnotationKey,
    ),
    (
        |r| r.meta()["annotations"] = json!({"rollplan.dev/new-max": "50%"}),
        "[0].metadata.annotations[\"rollplan.dev/new-max\"]",
        InvalidValue,
    ),
    (
        |r| r.meta()["annotations"] = json!({"rollplan.dev/old-min": "2147483648"}),
        "[0].metadata.annotations[\"rollplan.dev/old-min\"]",
        InvalidValue,
    ),
    (
        |r| r.meta()["annotations"] = json!({"a": "x".repeat(256 << 10)}),
        "[0].metadata.annotations",
        AnnotationsTooLarge,
    ),
    (
        |r| r.spec()["strategy"]["type"] = "Recreate".into(),
        "[0].spec.strategy.rollingUpdate",
        StrategyConflict,
    ),
    (
        |r| require(r, "Equals", &["web"]),
        OPERATOR,
        UnknownOperator,
    ),
    (|r| require(r, "In", &[]), VALUES, OperatorValues),
    (|r| require(r, "NotIn", &[]), VALUES, OperatorValues),
    (|r| require(r, "Exists", &["web"]), VALUES, OperatorValues),
    (
        |r| require(r, "DoesNotExist", &["web"]),
        VALUES,
        OperatorValues,
    ),
    (
        |r| require(r, "In", &["web", "a b"]),
        "[0].spec.selector.matchExpressions[0].values[1]",
        InvalidLabelValue,
    ),
    (
        |r| {
            r.spec()["selector"] =
                json!({"matchExpressions": [{"key": "-app", "operator": "Exists"}]});
        },
        "[0].spec.selector.matchExpressions[0].key",
        InvalidLabelKey,
    ),
    (
        |r| selector(r)["a b"] = "".into(),
        "[0].spec.selector.matchLabels[\"a b\"]",
        InvalidLabelKey,
    ),
    (
        |r| selector(r)["example.com/tier"] = "x".repeat(64).into(),
        "[0].spec.selector.matchLabels[\"example.com/tier\"]",
        InvalidLabelValue,
    ),
];

const OPERATOR: &str = "[0].spec.selector.matchExpressions[0].operator";
const VALUES: &str = "[0].spec.selector.matchExpressions[0].values";

fn selector(request: &mut Request) -> &mut Value {
    &mut request.spec()["selector"]["matchLabels"]
}

fn require(request: &mut Request, operator: &str, values: &[&str]) {
    let requirement = json!({"key": "app", "operator": operator, "values": values});
    request.spec()["selector"]["matchExpressions"] = json!([requirement]);
}
