//! Maps fields of a request to the objects in the input.

use crate::cli::error::Diagnostic;

/// The sources of the objects and answers of a request.
#[derive(Clone, Debug, Default)]
pub(in crate::cli) struct SourceMap {
    /// The path of the texts of the request, for example `snapshot.objects`.
    pub(in crate::cli) field: &'static str,
    /// The places of the items of each text of the request.
    pub(in crate::cli) texts: Vec<Vec<String>>,
    /// The places of the answers of the request.
    pub(in crate::cli) answers: Vec<String>,
    /// The file of the manifest that a forecast is about, if there is one.
    pub(in crate::cli) manifest: Option<String>,
}

// === impl SourceMap ===

impl SourceMap {
    /// The error for a field of the request, for example `snapshot.objects[0].items[2].spec.replicas`.
    pub(in crate::cli) fn diagnostic(&self, field: &str, text: &str) -> Diagnostic {
        if let Some((place, field)) = self.object(field) {
            // The place already contains the label of the object.
            let label = place.rfind(" (").map_or("", |at| &place[at..]);
            let text = text.strip_suffix(label).unwrap_or(text);
            return Diagnostic {
                place: place.to_owned(),
                field: field.trim_start_matches('.').to_owned(),
                text: self.with_places(text),
            };
        }
        let place = self.answer(field).or_else(|| self.manifest(field));
        let (place, field) = place.unwrap_or(("", field));
        Diagnostic {
            place: place.to_owned(),
            field: json_names(field),
            text: self.with_places(text),
        }
    }

    /// The place of the object, and the rest of the path.
    fn object<'a>(&'a self, field: &'a str) -> Option<(&'a str, &'a str)> {
        let (text, rest) = index(field.strip_prefix(self.field)?)?;
        let (item, rest) = index(rest.strip_prefix(".items")?)?;
        Some((self.texts.get(text)?.get(item)?, rest))
    }

    fn answer<'a>(&'a self, field: &'a str) -> Option<(&'a str, &'a str)> {
        let (answer, rest) = index(field.strip_prefix("snapshot.answers")?)?;
        let place = self.answers.get(answer)?;
        Some((place, rest.trim_start_matches('.')))
    }

    fn manifest<'a>(&'a self, field: &'a str) -> Option<(&'a str, &'a str)> {
        let rest = field.strip_prefix("changes[0].deployment")?;
        let manifest = self.manifest.as_ref()?;
        Some((manifest, rest.trim_start_matches('.')))
    }

    /// Replaces paths in a text with the places of their objects.
    fn with_places(&self, text: &str) -> String {
        let Some(start) = text.find(self.field) else {
            return text.to_owned();
        };
        match self.object(&text[start..]) {
            Some((place, rest)) => format!("{}{place}{rest}", &text[..start]),
            None => text.to_owned(),
        }
    }
}

/// The index at the start of a path, for example `[2].spec`, and the rest.
fn index(path: &str) -> Option<(usize, &str)> {
    let (index, rest) = path.strip_prefix('[')?.split_once(']')?;
    Some((index.parse().ok()?, rest))
}

/// A path with JSON names: `http_code` in the contract is `httpCode`. Text in brackets is data and stays unchanged.
fn json_names(path: &str) -> String {
    let mut names = String::with_capacity(path.len());
    let mut in_brackets = false;
    let mut upper = false;
    for c in path.chars() {
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
    names
}

#[cfg(test)]
mod tests {
    use rollplan_wire::objects::FIELD;

    use super::*;

    #[test]
    fn fields_are_mapped_to_their_objects() {
        let source_map = SourceMap {
            field: FIELD,
            texts: vec![
                vec![
                    "d (Deployment web)".to_owned(),
                    "r (ReplicaSet web-1)".to_owned(),
                ],
                vec!["e (Event x)".to_owned()],
            ],
            answers: vec!["a0".to_owned()],
            manifest: Some("new.yaml".to_owned()),
        };
        let check = |field: &str, text: &str, expected: &str| {
            let diagnostic = source_map.diagnostic(field, text);
            assert_eq!(diagnostic.to_string(), expected, "{field}");
        };
        check("snapshot.now", "is wrong", "snapshot.now: is wrong");
        check(
            "changes[0].deployment.spec.replicas",
            "is wrong",
            "new.yaml: spec.replicas: is wrong",
        );
        check(
            "changes[1].replicas",
            "is wrong",
            "changes[1].replicas: is wrong",
        );
        check(
            "snapshot.objects[0].items[0]",
            "is wrong",
            "d (Deployment web): is wrong",
        );
        check(
            "snapshot.objects[0].items[1].metadata.labels[\"a_b/c_d\"]",
            "is wrong (ReplicaSet web-1)",
            "r (ReplicaSet web-1): metadata.labels[\"a_b/c_d\"]: is wrong",
        );
        check(
            "snapshot.objects[1].items[0].count",
            "is odd: see snapshot.objects[0].items[1] (x)",
            "e (Event x): count: is odd: see r (ReplicaSet web-1) (x)",
        );
        check(
            "snapshot.objects[9].items[0].x",
            "is wrong",
            "snapshot.objects[9].items[0].x: is wrong",
        );
        check(
            "snapshot.answers[0].http_code",
            "is wrong",
            "a0: httpCode: is wrong",
        );
        check("options.horizon", "is wrong", "options.horizon: is wrong");
        check(
            "options.labels[\"a_b\"].http_code",
            "is wrong",
            "options.labels[\"a_b\"].httpCode: is wrong",
        );
    }
}
