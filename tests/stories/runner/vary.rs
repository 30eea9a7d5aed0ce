//! Variations of a story that have the same answer: other names, and another order.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

/// In alphabetical order, so that renamed objects keep theirs.
const NAMES: [&str; 26] = [
    "alpha", "bravo", "charlie", "delta", "echo", "foxtrot", "golf", "hotel", "india", "juliett",
    "kilo", "lima", "mike", "november", "oscar", "papa", "quebec", "romeo", "sierra", "tango",
    "uniform", "victor", "whiskey", "xray", "yankee", "zulu",
];

/// The kinds whose names have a meaning.
const FIXED: [&str; 4] = [
    "APIService",
    "CustomResourceDefinition",
    "Event",
    "PriorityClass",
];

/// Other names for the objects, containers, volumes and nodes of a state.
#[derive(Debug, Default)]
pub(super) struct Renaming(BTreeMap<String, String>);

// === impl Renaming ===

impl Renaming {
    pub(super) fn of(objects: &[Value]) -> Self {
        let mut names = BTreeSet::new();
        for object in objects {
            let metadata = &object["metadata"];
            if !FIXED.iter().any(|kind| object["kind"] == *kind) {
                names.extend(text(&metadata["name"]));
            }
            let namespace = text(&metadata["namespace"]);
            names.extend(namespace.filter(|it| *it != "default" && !it.starts_with("kube-")));
            collect(object, &mut names);
        }
        // A name that begins with another one, such as that of a pod, keeps its end.
        let is_root = |name: &&String| {
            let mut others = names.iter();
            !others.any(|other| name.starts_with(&format!("{other}-")))
        };
        let roots = names.iter().filter(is_root).cloned();
        let others = NAMES
            .iter()
            .map(|it| (*it).to_owned())
            .chain((0..).map(|it| format!("zz{it:03}")));
        Self(roots.zip(others).collect())
    }

    /// The text with the other names.
    pub(super) fn text(&self, text: &str) -> String {
        let is_part = |c: char| c.is_alphanumeric() || matches!(c, '-' | '.' | '_');
        let mut renamed = String::new();
        let mut rest = text;
        while !rest.is_empty() {
            let end = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
            let (token, tail) = rest.split_at(end);
            renamed += &self.token(token);
            let next = tail.chars().next().map_or(0, char::len_utf8);
            renamed += &tail[..next];
            rest = &tail[next..];
        }
        renamed
    }

    fn token(&self, token: &str) -> String {
        let new = |name: &str| self.0.get(name);
        // The longest name that the token is, or begins with.
        let ends = token.match_indices(['-', '.', '_']).map(|(end, _)| end);
        let mut ends: Vec<usize> = ends.chain([token.len()]).collect();
        ends.reverse();
        let found = ends
            .iter()
            .find_map(|end| Some((new(&token[..*end])?, &token[*end..])));
        found.map_or_else(|| token.to_owned(), |(name, rest)| format!("{name}{rest}"))
    }

    pub(super) fn value(&self, value: &mut Value) {
        match value {
            Value::String(text) => *text = self.text(text),
            Value::Array(items) => items.iter_mut().for_each(|item| self.value(item)),
            Value::Object(fields) => {
                for (key, field) in fields {
                    if !matches!(
                        key.as_str(),
                        "kind" | "apiVersion" | "type" | "reason" | "phase"
                    ) {
                        self.value(field);
                    }
                }
            }
            _ => {}
        }
    }
}

fn text(value: &Value) -> Option<String> {
    let text = value.as_str().filter(|text| !text.is_empty());
    text.map(str::to_owned)
}

/// The names of containers, volumes, claims and nodes.
fn collect(value: &Value, names: &mut BTreeSet<String>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| collect(item, names)),
        Value::Object(fields) => {
            for (key, field) in fields {
                match key.as_str() {
                    "containers" | "initContainers" | "volumes" => {
                        let items = field.as_array().into_iter().flatten();
                        names.extend(items.filter_map(|item| text(&item["name"])));
                    }
                    "nodeName" | "claimName" => names.extend(text(field)),
                    _ => {}
                }
                collect(field, names);
            }
        }
        _ => {}
    }
}

/// Reverses the objects, and the lists whose order means nothing.
pub(super) fn reverse(objects: &mut [Value]) {
    objects.reverse();
    for object in objects {
        if let Some(status) = object["status"].as_object_mut() {
            // The order of init containers is that in which they run.
            for key in ["conditions", "containerStatuses"] {
                if let Some(Value::Array(items)) = status.get_mut(key) {
                    items.reverse();
                }
            }
        }
    }
}
