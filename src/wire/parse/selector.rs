//! Parses selectors.

use rollplan_core::interrupt::Never;
use rollplan_core::selector::{LabelSelector, Operator, Requirement};

use super::path::Path;
use super::{Parser, limit_selector};
use crate::proto;
use crate::wire::error::{Error, Reason};

/// Parses the selector of a Deployment without a request. Violations have the paths of a request.
///
/// # Errors
///
/// See [`parse_snapshot`](super::parse_snapshot).
pub fn parse_selector(selector: proto::LabelSelector) -> Result<LabelSelector, Error> {
    limit_selector(&selector)?;
    let mut parser = Parser::new(&Never);
    let path = Path::Root("snapshot.deployment.spec.selector");
    let parsed = parser.selector(selector, &path);
    parser.finish(parsed)
}

impl Parser<'_> {
    pub(super) fn selector(
        &mut self,
        selector: proto::LabelSelector,
        path: &Path<'_>,
    ) -> LabelSelector {
        let proto::LabelSelector {
            match_labels,
            match_expressions,
        } = selector;
        let labels_path = path.field("match_labels");
        self.labels(&match_labels, &labels_path);
        let expressions_path = path.field("match_expressions");
        LabelSelector {
            match_labels,
            match_expressions: match_expressions
                .into_iter()
                .enumerate()
                .map(|(index, requirement)| {
                    self.requirement(requirement, &expressions_path.index(index))
                })
                .collect(),
        }
    }

    fn requirement(
        &mut self,
        requirement: proto::LabelSelectorRequirement,
        path: &Path<'_>,
    ) -> Requirement {
        let proto::LabelSelectorRequirement {
            key,
            operator,
            values,
        } = requirement;
        self.label_key(&key, &path.field("key"));
        let values_path = path.field("values");
        for (index, value) in values.iter().enumerate() {
            self.label_value(value, &values_path.index(index));
        }
        let (takes_values, operator) = match operator.as_str() {
            "In" => (true, Operator::In(values)),
            "NotIn" => (true, Operator::NotIn(values)),
            "Exists" => (!values.is_empty(), Operator::Exists),
            "DoesNotExist" => (!values.is_empty(), Operator::DoesNotExist),
            unknown => {
                let description =
                    format_args!("is {unknown:?}, and must be In, NotIn, Exists or DoesNotExist");
                self.violation(
                    &path.field("operator"),
                    Reason::UnknownOperator,
                    description,
                );
                (false, Operator::Exists)
            }
        };
        let description = match (&operator, takes_values) {
            (Operator::In(values) | Operator::NotIn(values), _) if values.is_empty() => {
                Some("at least one is required with In and NotIn")
            }
            (Operator::Exists | Operator::DoesNotExist, true) => {
                Some("must be empty with Exists and DoesNotExist")
            }
            _ => None,
        };
        if let Some(description) = description {
            self.violation(&values_path, Reason::OperatorValues, description);
        }
        Requirement { key, operator }
    }
}
