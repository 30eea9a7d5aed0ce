//! Label selectors (Kubernetes: meta/v1 LabelSelector).

use std::fmt;

use crate::object::StringMap;

/// A selector. Labels must meet all of its requirements.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelSelector {
    /// Labels that must have exactly these values.
    pub match_labels: StringMap,
    /// Other requirements.
    pub match_expressions: Vec<Requirement>,
}

/// A requirement on a label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requirement {
    /// The key of the label.
    pub key: String,
    /// The operator, with its values.
    pub operator: Operator,
}

/// The operator of a requirement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operator {
    /// The label exists and has one of these values.
    In(Vec<String>),
    /// The label does not exist, or has none of these values.
    NotIn(Vec<String>),
    /// The label exists.
    Exists,
    /// The label does not exist.
    DoesNotExist,
}

impl LabelSelector {
    /// Whether the selector has no requirements. Kubernetes rejects such a Deployment.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let Self {
            match_labels,
            match_expressions,
        } = self;
        match_labels.is_empty() && match_expressions.is_empty()
    }

    /// Whether the labels meet every requirement. The empty selector matches everything.
    #[must_use]
    pub fn matches(&self, labels: &StringMap) -> bool {
        self.match_labels
            .iter()
            .all(|(key, value)| labels.get(key) == Some(value))
            && self
                .match_expressions
                .iter()
                .all(|requirement| requirement.matches(labels))
    }
}

/// The format of the parameter `labelSelector` of the Kubernetes API, with sorted requirements and values.
impl fmt::Display for LabelSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            match_labels,
            match_expressions,
        } = self;
        let labels = match_labels
            .iter()
            .map(|(key, value)| (key, format!("{key}={value}")));
        let expressions = match_expressions
            .iter()
            .map(|requirement| (&requirement.key, requirement.to_string()));
        let mut all: Vec<_> = labels.chain(expressions).collect();
        all.sort_by_key(|(key, _)| *key);
        let texts: Vec<_> = all.into_iter().map(|(_, text)| text).collect();
        f.write_str(&texts.join(","))
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, operator } = self;
        let sorted = |values: &[String]| {
            let mut values = values.to_vec();
            values.sort();
            values.join(",")
        };
        match operator {
            Operator::In(values) => write!(f, "{key} in ({})", sorted(values)),
            Operator::NotIn(values) => write!(f, "{key} notin ({})", sorted(values)),
            Operator::Exists => f.write_str(key),
            Operator::DoesNotExist => write!(f, "!{key}"),
        }
    }
}

impl Requirement {
    fn matches(&self, labels: &StringMap) -> bool {
        let label = labels.get(&self.key);
        match &self.operator {
            Operator::In(values) => label.is_some_and(|value| values.contains(value)),
            Operator::NotIn(values) => label.is_none_or(|value| !values.contains(value)),
            Operator::Exists => label.is_some(),
            Operator::DoesNotExist => label.is_none(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_form_is_valid_for_list_requests() {
        let requirement = |key: &str, operator| Requirement {
            key: key.to_owned(),
            operator,
        };
        let selector = LabelSelector {
            match_labels: labels("app=web,zone=a"),
            match_expressions: vec![
                requirement("tier", Operator::In(vec!["b".to_owned(), "a".to_owned()])),
                requirement("env", Operator::NotIn(vec!["test".to_owned()])),
                requirement("beta", Operator::DoesNotExist),
                requirement("paid", Operator::Exists),
            ],
        };
        assert_eq!(
            selector.to_string(),
            "app=web,!beta,env notin (test),paid,tier in (a,b),zone=a"
        );
        assert_eq!(LabelSelector::default().to_string(), "");
    }

    fn labels(text: &str) -> StringMap {
        text.split_terminator(',')
            .map(|pair| pair.split_once('=').unwrap())
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect()
    }

    fn expression(key: &str, operator: Operator) -> LabelSelector {
        LabelSelector {
            match_labels: StringMap::new(),
            match_expressions: vec![Requirement {
                key: key.to_owned(),
                operator,
            }],
        }
    }

    #[test]
    fn operators_match_kubernetes() {
        let values = || vec!["a".to_owned(), "b".to_owned()];
        for (operator, a, c, absent) in [
            (Operator::In(values()), true, false, false),
            (Operator::NotIn(values()), false, true, true),
            (Operator::Exists, true, true, false),
            (Operator::DoesNotExist, false, false, true),
        ] {
            let selector = expression("k", operator.clone());
            assert_eq!(selector.matches(&labels("k=a")), a, "{operator:?}");
            assert_eq!(selector.matches(&labels("k=c")), c, "{operator:?}");
            assert_eq!(selector.matches(&labels("other=a")), absent, "{operator:?}");
            assert!(!selector.is_empty());
        }
    }

    #[test]
    fn all_parts_must_match() {
        let mut selector = expression("tier", Operator::Exists);
        selector.match_labels = labels("app=web");
        assert!(selector.matches(&labels("app=web,tier=x,extra=y")));
        assert!(!selector.matches(&labels("app=web")));
        assert!(!selector.matches(&labels("app=api,tier=x")));
        assert!(!selector.matches(&labels("tier=x")));
        selector.match_expressions.clear();
        assert!(!selector.is_empty());
        assert!(LabelSelector::default().is_empty());
        assert!(LabelSelector::default().matches(&labels("")));
    }
}
