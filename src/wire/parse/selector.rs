//! Selectors, and what labels look like.

use rollplan_core::selector::{LabelSelector, Operator, Requirement};

use super::Parser;
use super::path::Path;
use crate::proto;
use crate::wire::error::Reason;

impl Parser {
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
        for (key, value) in &match_labels {
            let entry = labels_path.key(key);
            self.label_key(key, &entry);
            self.label_value(value, &entry);
        }
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
                Some("none may be given with Exists and DoesNotExist")
            }
            _ => None,
        };
        if let Some(description) = description {
            self.violation(&values_path, Reason::OperatorValues, description);
        }
        Requirement { key, operator }
    }

    fn label_key(&mut self, key: &str, path: &Path<'_>) {
        if !is_label_key(key) {
            let description = format_args!("{key:?} is no key that a label can have");
            self.violation(path, Reason::InvalidLabelKey, description);
        }
    }

    fn label_value(&mut self, value: &str, path: &Path<'_>) {
        if !value.is_empty() && !is_name(value) {
            let description = format_args!("{value:?} is no value that a label can have");
            self.violation(path, Reason::InvalidLabelValue, description);
        }
    }
}

/// A name, or a DNS subdomain and a name (Kubernetes: validation.IsQualifiedName).
fn is_label_key(key: &str) -> bool {
    match key.split_once('/') {
        None => is_name(key),
        Some((prefix, name)) => is_dns_subdomain(prefix) && is_name(name),
    }
}

/// At most 63 letters, digits, '-', '_' and '.', the first and last a letter or digit.
fn is_name(name: &str) -> bool {
    let bytes = name.as_bytes();
    let ends = [bytes.first(), bytes.last()];
    bytes.len() <= 63
        && ends
            .iter()
            .all(|end| end.is_some_and(u8::is_ascii_alphanumeric))
        && bytes
            .iter()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(byte))
}

/// At most 253 bytes: lower-case letters, digits and '-' between dots, each part beginning and ending with a
/// letter or digit.
fn is_dns_subdomain(name: &str) -> bool {
    let part = |part: &str| {
        let bytes = part.as_bytes();
        let word = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        let ends = [bytes.first(), bytes.last()];
        ends.iter().all(|end| end.is_some_and(word))
            && bytes.iter().all(|byte| word(byte) || *byte == b'-')
    };
    name.len() <= 253 && name.split('.').all(part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn label_keys_are_those_of_kubernetes() {
        let long = "a".repeat(63);
        let domain = ["a"; 127].join(".");
        for key in ["app", "A", "a.b_c-d", "example.com/x", "1/2", &long] {
            assert!(is_label_key(key), "{key}");
        }
        assert!(is_label_key(&format!("{domain}/{long}")));
        for key in [
            "",
            "/",
            "a/",
            "/a",
            "a/b/c",
            "-a",
            "a-",
            "a b",
            "ä",
            "Example.com/x",
            "a..b/c",
            "-a.b/c",
            "a_b/c",
        ] {
            assert!(!is_label_key(key), "{key}");
        }
        assert!(!is_label_key(&format!("{long}a")));
        assert!(!is_label_key(&format!("{domain}a/x")));
    }
}
