//! The JSONPath expressions of `kubectl wait`. They are not those of RFC 9535: braces and the first dot are optional, names
//! may contain any character, and a backslash escapes a dot. Only expressions that can select a single value are supported,
//! because kubectl requires one.

use serde_json::{Number, Value};

/// A path to values of an object.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct JsonPath(Vec<Step>);

#[derive(Clone, Debug, PartialEq)]
enum Step {
    Field(String),
    /// An item of a list. A negative index counts from the end.
    Index(i64),
    /// All items of a list, or all fields of an object.
    Every,
    /// The items of a list with a value at this path.
    Filter(JsonPath, Predicate),
}

/// The condition of a filter.
#[derive(Clone, Debug, PartialEq)]
enum Predicate {
    Exists,
    Equals(Value),
    Differs(Value),
}

// === impl JsonPath ===

impl JsonPath {
    /// Parses "{.status.phase}", ".status.phase", "{status.phase}" or "status.phase".
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let inside = text.strip_prefix('{');
        let inside = match inside {
            Some(inside) => inside.strip_suffix('}').ok_or("missing closing brace")?,
            None => text,
        };
        if inside.is_empty() || inside.contains(['{', '}']) {
            return Err("must be a single path, for example {.status.phase}".to_owned());
        }
        let first = if inside.starts_with(['.', '[']) {
            ""
        } else {
            "."
        };
        Self::steps(&format!("{first}{inside}"))
    }

    /// Parses steps, for example `.conditions[?(@.type=="Ready")].status`.
    fn steps(text: &str) -> Result<Self, String> {
        let mut steps = Vec::new();
        let mut rest = text;
        while !rest.is_empty() {
            if let Some(inside) = rest.strip_prefix('[') {
                let end = end_of_brackets(inside).ok_or("missing closing bracket")?;
                steps.push(Step::in_brackets(inside[..end].trim())?);
                rest = &inside[end + 1..];
                continue;
            }
            let name = rest.strip_prefix('.').ok_or("missing dot before a name")?;
            let (name, after) = name_of(name)?;
            match name.as_str() {
                "*" => steps.push(Step::Every),
                "" if after.starts_with('[') => {}
                "" => return Err("a name is empty; .. is not supported".to_owned()),
                _ => steps.push(Step::Field(name)),
            }
            rest = after;
        }
        Ok(Self(steps))
    }

    /// The values at this path.
    pub(super) fn find<'v>(&self, value: &'v Value) -> Vec<&'v Value> {
        let Self(steps) = self;
        let mut values = vec![value];
        for step in steps {
            values = values.into_iter().flat_map(|it| step.find(it)).collect();
        }
        values.retain(|value| !value.is_null());
        values
    }
}

/// The name at the start of a text without its escapes, and the text after it.
fn name_of(text: &str) -> Result<(String, &str), String> {
    let mut name = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '.' | '[' => return Ok((name, &text[at..])),
            '\\' => name.extend(chars.next().map(|(_, escaped)| escaped)),
            // In kubectl, these characters begin something else than a name: `range`, a text, a union, the root.
            c if c.is_whitespace() || "\"',$@()]".contains(c) => {
                return Err(format!(
                    "{text} is not supported: it must be names, indices and filters, for example .status.phase"
                ));
            }
            c => name.push(c),
        }
    }
    Ok((name, ""))
}

/// The position of the bracket that closes the one before this text.
fn end_of_brackets(text: &str) -> Option<usize> {
    let mut depth = 0_usize;
    let mut quote = None;
    for (at, c) in text.char_indices() {
        match (quote, c) {
            (Some(open), c) if open == c => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(c),
            (None, '[') => depth += 1,
            (None, ']') if depth == 0 => return Some(at),
            (None, ']') => depth -= 1,
            (None, _) => {}
        }
    }
    None
}

// === impl Step ===

impl Step {
    /// Parses what is in brackets: an index, a quoted name, * or a filter.
    fn in_brackets(text: &str) -> Result<Self, String> {
        if text == "*" {
            return Ok(Self::Every);
        }
        if let Some(filter) = text.strip_prefix("?(") {
            let filter = filter.strip_suffix(')').ok_or("a filter ends with )")?;
            return Self::filter(filter);
        }
        if let Some(name) = quoted(text) {
            return Ok(Self::Field(name.to_owned()));
        }
        text.parse().map(Self::Index).map_err(|_| {
            format!("[{text}] is not supported: it must be an index, a quoted name, * or a filter")
        })
    }

    /// Parses a filter, for example `@.type=="Ready"`.
    fn filter(text: &str) -> Result<Self, String> {
        let (path, predicate) = match (text.split_once("=="), text.split_once("!=")) {
            (Some((path, value)), None) => (path, Predicate::Equals(literal(value)?)),
            (None, Some((path, value))) => (path, Predicate::Differs(literal(value)?)),
            _ => (text, Predicate::Exists),
        };
        let path = path.trim().strip_prefix('@');
        let path = path.filter(|path| !path.contains(['<', '>', '=', '|', '&', '~']));
        let path = path.ok_or_else(|| {
            format!("?({text}) is not supported: a filter compares a path with == or !=, for example @.type==\"Ready\"")
        })?;
        Ok(Self::Filter(JsonPath::steps(path)?, predicate))
    }

    fn find<'v>(&self, value: &'v Value) -> Vec<&'v Value> {
        match self {
            Self::Field(name) => value.get(name).into_iter().collect(),
            Self::Index(index) => {
                let items = value.as_array().map_or(&[][..], Vec::as_slice);
                let from_start = usize::try_from(*index).ok();
                let from_end = || {
                    let back = usize::try_from(index.unsigned_abs()).ok()?;
                    items.len().checked_sub(back)
                };
                let index = from_start.or_else(from_end);
                index.and_then(|it| items.get(it)).into_iter().collect()
            }
            Self::Every => match value {
                Value::Array(items) => items.iter().collect(),
                Value::Object(fields) => fields.values().collect(),
                _ => Vec::new(),
            },
            Self::Filter(path, predicate) => {
                let items = value.as_array().into_iter().flatten();
                items
                    .filter(|item| predicate.is_met(&path.find(item)))
                    .collect()
            }
        }
    }
}

// === impl Predicate ===

impl Predicate {
    fn is_met(&self, values: &[&Value]) -> bool {
        match (self, values) {
            (Self::Exists, values) => !values.is_empty(),
            (Self::Equals(expected), [value]) => *value == expected,
            (Self::Differs(expected), [value]) => *value != expected,
            _ => false,
        }
    }
}

/// The text within quotes. `None` for other texts, and for several quoted ones.
fn quoted(text: &str) -> Option<&str> {
    let inside = |quote: char| {
        let inside = text.strip_prefix(quote)?.strip_suffix(quote)?;
        (!inside.contains(quote)).then_some(inside)
    };
    inside('\'').or_else(|| inside('"'))
}

/// A value in a filter: a quoted text, a number, true or false.
fn literal(text: &str) -> Result<Value, String> {
    let text = text.trim();
    if let Some(text) = quoted(text) {
        return Ok(text.into());
    }
    match text {
        "true" => Ok(true.into()),
        "false" => Ok(false.into()),
        _ => text.parse::<Number>().map(Value::Number).map_err(|_| {
            format!("{text} is not supported in a filter: it must be a quoted text, a number, true or false")
        }),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object() -> Value {
        json!({
            "metadata": {"annotations": {"example.com/a-b": "yes"}, "labels": null},
            "status": {
                "phase": "Running",
                "replicas": 3,
                "conditions": [
                    {"type": "Ready", "status": "True", "count": 2},
                    {"type": "Synced", "status": "False"},
                ],
            },
        })
    }

    #[test]
    fn paths_of_kubectl_select_values() {
        let object = object();
        for (path, expected) in [
            ("{.status.phase}", vec![json!("Running")]),
            ("{status.phase}", vec![json!("Running")]),
            (".status.phase", vec![json!("Running")]),
            ("status.replicas", vec![json!(3)]),
            (
                r"{.metadata.annotations.example\.com/a-b}",
                vec![json!("yes")],
            ),
            (
                "{.metadata.annotations['example.com/a-b']}",
                vec![json!("yes")],
            ),
            ("{['status']['phase']}", vec![json!("Running")]),
            (
                r#"{.status.conditions[?(@.type=="Ready")].status}"#,
                vec![json!("True")],
            ),
            (
                "status.conditions[?(@.type=='Synced')].status",
                vec![json!("False")],
            ),
            (
                "{.status.conditions[?(@.type!='Ready')].type}",
                vec![json!("Synced")],
            ),
            (
                "{.status.conditions[?(@.count == 2)].type}",
                vec![json!("Ready")],
            ),
            (
                "{.status.conditions[?(@.count)].type}",
                vec![json!("Ready")],
            ),
            ("{.status.conditions[0].type}", vec![json!("Ready")]),
            ("{.status.conditions[-1].type}", vec![json!("Synced")]),
            (
                "{.status.conditions[*].status}",
                vec![json!("True"), json!("False")],
            ),
            ("{.metadata.annotations.*}", vec![json!("yes")]),
            // Values that do not exist yet.
            ("{.status.conditions[7].type}", vec![]),
            ("{.status.conditions[-7].type}", vec![]),
            ("{.status.other.deep}", vec![]),
            ("{.status.phase.deep[0]}", vec![]),
            ("{.metadata.labels}", vec![]),
        ] {
            let found = JsonPath::parse(path).map(|path| {
                let values = path.find(&object).into_iter();
                values.cloned().collect::<Vec<_>>()
            });
            assert_eq!(found, Ok(expected), "{path}");
        }
    }

    #[test]
    fn unsupported_paths_are_refused() {
        for (path, expected) in [
            ("", "must be a single path"),
            ("{}", "must be a single path"),
            ("{.a}{.b}", "must be a single path"),
            ("{.a", "missing closing brace"),
            ("{.a[0}", "missing closing bracket"),
            ("{.a[0]b}", "missing dot"),
            ("{..a}", ".. is not supported"),
            ("{.a.}", "a name is empty"),
            ("{.a[0:2]}", "[0:2] is not supported"),
            ("{.a['b','c']}", "is not supported"),
            ("{.a[?(@.b>1)]}", "compares a path with == or !="),
            ("{.a[?(@.b==\"x\"||@.b==\"y\")]}", "is not supported"),
            ("{.a[?(b==1)]}", "compares a path with == or !="),
            ("{.a[?(@.b==c)]}", "c is not supported in a filter"),
            ("{.a[?(@.b==1]}", "a filter ends with )"),
            ("{range .items[*]}", "is not supported"),
            ("{range}{.a}{end}", "must be a single path"),
            ("{\"x\"}", "is not supported"),
            ("{'x'}", "is not supported"),
            ("{$.a}", "is not supported"),
            ("{.a,.b}", "is not supported"),
            ("{@}", "is not supported"),
        ] {
            let error = JsonPath::parse(path).unwrap_err();
            assert!(error.contains(expected), "{path}: {error}");
        }
    }
}
