//! Parses selectors.

use rollplan_core::interrupt::Never;
use rollplan_core::selector::{LabelSelector, Operator, Requirement};

use super::Parser;
use super::path::Path;
use crate::error::{Error, Reason};
use crate::limits::{EXPRESSIONS_MAX, VALUES_MAX, limit};
use crate::read::kubernetes;

/// Parses a selector on its own. `None` if it is invalid.
pub(crate) fn parse_selector(selector: kubernetes::LabelSelector) -> Option<LabelSelector> {
    limit_selector(&selector).ok()?;
    let mut parser = Parser::new(&Never);
    let parsed = parser.selector(selector, &Path::Root("selector"));
    parser.finish(parsed).ok()
}

/// Limits the size of a selector, because it is evaluated for every object.
pub(super) fn limit_selector(selector: &kubernetes::LabelSelector) -> Result<(), Error> {
    let expressions = &selector.match_expressions;
    limit(
        "expressions of the selector",
        expressions.len(),
        EXPRESSIONS_MAX,
    )?;
    limit(
        "values in the expressions of the selector",
        expressions.iter().map(|it| it.values.len()).sum(),
        VALUES_MAX,
    )
}

impl Parser<'_> {
    pub(super) fn selector(
        &mut self,
        selector: kubernetes::LabelSelector,
        path: &Path<'_>,
    ) -> LabelSelector {
        let kubernetes::LabelSelector {
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
        requirement: kubernetes::LabelSelectorRequirement,
        path: &Path<'_>,
    ) -> Requirement {
        let kubernetes::LabelSelectorRequirement {
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
