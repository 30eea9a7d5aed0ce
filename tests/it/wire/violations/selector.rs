//! The selector of the Deployment.

use rollplan::proto;
use rollplan::wire::Reason;

use super::{Case, selector};

const VALUES: &str = "snapshot.deployment.spec.selector.match_expressions[0].values";

pub(super) const CASES: &[Case] = &[
    (
        |r| require(r, "app", "Equals", &["web"]),
        "snapshot.deployment.spec.selector.match_expressions[0].operator",
        Reason::UnknownOperator,
    ),
    (
        |r| require(r, "app", "In", &[]),
        VALUES,
        Reason::OperatorValues,
    ),
    (
        |r| require(r, "app", "NotIn", &[]),
        VALUES,
        Reason::OperatorValues,
    ),
    (
        |r| require(r, "app", "Exists", &["web"]),
        VALUES,
        Reason::OperatorValues,
    ),
    (
        |r| require(r, "app", "DoesNotExist", &["web"]),
        VALUES,
        Reason::OperatorValues,
    ),
    (
        |r| require(r, "-app", "Exists", &[]),
        "snapshot.deployment.spec.selector.match_expressions[0].key",
        Reason::InvalidLabelKey,
    ),
    (
        |r| require(r, "app", "In", &["web", "a b"]),
        "snapshot.deployment.spec.selector.match_expressions[0].values[1]",
        Reason::InvalidLabelValue,
    ),
    (
        |r| {
            _ = selector(r)
                .match_labels
                .insert("a b".to_owned(), String::new())
        },
        "snapshot.deployment.spec.selector.match_labels[\"a b\"]",
        Reason::InvalidLabelKey,
    ),
    (
        |r| {
            _ = selector(r)
                .match_labels
                .insert("example.com/tier".to_owned(), "x".repeat(64))
        },
        "snapshot.deployment.spec.selector.match_labels[\"example.com/tier\"]",
        Reason::InvalidLabelValue,
    ),
];

fn require(request: &mut proto::PlanRolloutRequest, key: &str, operator: &str, values: &[&str]) {
    let requirement = proto::LabelSelectorRequirement {
        key: key.to_owned(),
        operator: operator.to_owned(),
        values: values.iter().map(|&value| value.to_owned()).collect(),
    };
    selector(request).match_expressions.push(requirement);
}
