//! From fields of a request back to the objects that it was made from.

use crate::cli::error::Diagnostic;

/// Where the objects of a request come from.
#[derive(Clone, Debug, Default)]
pub(in crate::cli) struct SourceMap {
    pub(super) deployment: String,
    /// One for each, as in the request.
    pub(super) replica_sets: Vec<String>,
    /// One for each, as in the request.
    pub(super) pods: Vec<String>,
    /// One for each, as in the request.
    pub(super) answers: Vec<String>,
}

// === impl SourceMap ===

impl SourceMap {
    /// What is wrong with a field of the request, for example `snapshot.replica_sets[2].spec.replicas`.
    pub(in crate::cli) fn diagnostic(&self, field: &str, text: String) -> Diagnostic {
        let (place, field) = self.find(field).unwrap_or(("", field));
        Diagnostic {
            place: place.to_owned(),
            field: json_names(field),
            text,
        }
    }

    fn find<'a>(&'a self, field: &'a str) -> Option<(&'a str, &'a str)> {
        let field = field.strip_prefix("snapshot.")?;
        if let Some(rest) = field.strip_prefix("deployment") {
            return Some((&self.deployment, rest.strip_prefix('.').unwrap_or(rest)));
        }
        let (list, rest) = field.split_once('[')?;
        let (index, rest) = rest.split_once(']')?;
        let places = match list {
            "replica_sets" => &self.replica_sets,
            "pods" => &self.pods,
            "answers" => &self.answers,
            _ => return None,
        };
        let place = places.get(index.parse::<usize>().ok()?)?;
        Some((place, rest.strip_prefix('.').unwrap_or(rest)))
    }
}

/// A path with the names of JSON: `max_surge` of the contract is `maxSurge`. Text in brackets and everything inside a
/// template is data, and stays as it is.
fn json_names(path: &str) -> String {
    const TEMPLATE: &str = ".template.";
    let (ours, inside) = match path.find(TEMPLATE) {
        Some(at) => path.split_at(at + TEMPLATE.len()),
        None => (path, ""),
    };
    let mut names = String::with_capacity(path.len());
    let mut in_brackets = false;
    let mut upper = false;
    for c in ours.chars() {
        match c {
            '[' => in_brackets = true,
            ']' => in_brackets = false,
            _ => {}
        }
        if c == '_' && !in_brackets {
            upper = true;
        } else if upper {
            names.push(c.to_ascii_uppercase());
            upper = false;
        } else {
            names.push(c);
        }
    }
    names.push_str(inside);
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_go_back_to_their_objects() {
        let source_map = SourceMap {
            deployment: "d".to_owned(),
            replica_sets: vec!["r0".to_owned(), "r1".to_owned()],
            pods: vec!["p0".to_owned()],
            answers: vec!["a0".to_owned()],
        };
        let check = |field: &str, expected: &str| {
            let diagnostic = source_map.diagnostic(field, "is wrong".to_owned());
            assert_eq!(
                diagnostic.to_string(),
                format!("{expected}: is wrong"),
                "{field}"
            );
        };
        check("snapshot.now", "snapshot.now");
        check("snapshot.deployment", "d");
        check(
            "snapshot.deployment.spec.strategy.rolling_update.max_surge",
            "d: spec.strategy.rollingUpdate.maxSurge",
        );
        check(
            "snapshot.replica_sets[1].metadata.labels[\"a_b/c_d\"]",
            "r1: metadata.labels[\"a_b/c_d\"]",
        );
        check(
            "snapshot.replica_sets[0].spec.template.spec.x_y[0].some_key",
            "r0: spec.template.spec.x_y[0].some_key",
        );
        check("snapshot.pods[0].metadata.uid", "p0: metadata.uid");
        check(
            "snapshot.pods[1].metadata.uid",
            "snapshot.pods[1].metadata.uid",
        );
        check("snapshot.answers[0].http_code", "a0: httpCode");
        check("options.horizon", "options.horizon");
    }
}
