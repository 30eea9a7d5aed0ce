//! What to wait for.

mod jsonpath;

use std::borrow::Cow;
use std::ffi::OsStr;
use std::fmt;

use clap::builder::{PossibleValue, TypedValueParser, ValueParserFactory};
use rollplan_text::DELETED;
use serde_json::Value;

use self::jsonpath::JsonPath;

/// What to wait for.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) enum Goal {
    #[default]
    Complete,
    Available,
    Updated,
    Deleted,
    /// A value in the object, as for `kubectl wait`.
    Field(Field),
}

/// The goals that are words, and their descriptions.
const WORDS: [(&str, Goal, &str); 4] = [
    (
        "complete",
        Goal::Complete,
        "All pods are updated and available, and no old pod is left; for other kinds, see docs/reference/kinds.md",
    ),
    (
        "available",
        Goal::Available,
        "The desired number of pods is available, updated or not",
    ),
    (
        "updated",
        Goal::Updated,
        "The desired number of pods is updated, available or not (for a StatefulSet, the pods from its partition up)",
    ),
    (DELETED, Goal::Deleted, "The object is deleted"),
];

// === impl Goal ===

impl Goal {
    /// The text on the command line.
    pub(super) fn text(&self) -> Cow<'static, str> {
        match self {
            Self::Field(field) => field.text.clone().into(),
            goal => {
                let mut words = WORDS.into_iter();
                words
                    .find(|(_, of, _)| of == goal)
                    .map_or("", |(word, ..)| word)
                    .into()
            }
        }
    }

    /// The error for objects of a kind that the goal does not apply to.
    pub(super) fn refusal(&self, kind: &dyn fmt::Display) -> String {
        match self {
            Self::Available => format!(
                "--for=available is for Deployments, StatefulSets, DaemonSets and ReplicaSets: a {kind} has no number of \
                 available pods; wait for complete or deleted"
            ),
            Self::Updated => format!(
                "--for=updated is for Deployments, StatefulSets and DaemonSets: a {kind} has no number of updated pods; wait \
                 for complete or deleted"
            ),
            Self::Complete | Self::Deleted | Self::Field(_) => {
                format!("a {kind} can be waited for")
            }
        }
    }

    fn parse(text: &str) -> Result<Self, String> {
        if let Some((_, goal, _)) = WORDS.into_iter().find(|(word, ..)| *word == text) {
            return Ok(goal);
        }
        let test = match text.split_once('=') {
            Some(("condition", condition)) => Test::condition(condition)?,
            Some(("jsonpath", path)) => Test::path(path)?,
            _ => {
                return Err(
                    "must be complete, available, updated, deleted, condition=TYPE[=STATUS] or jsonpath={.PATH}[=VALUE]"
                        .to_owned(),
                );
            }
        };
        Ok(Self::Field(Field {
            text: text.to_owned(),
            test,
        }))
    }
}

impl ValueParserFactory for Goal {
    type Parser = GoalParser;

    fn value_parser() -> GoalParser {
        GoalParser
    }
}

/// Parses goals. Shells complete those with a word.
#[derive(Clone, Copy, Debug)]
pub(super) struct GoalParser;

impl TypedValueParser for GoalParser {
    type Value = Goal;

    fn parse_ref(
        &self,
        command: &clap::Command,
        _: Option<&clap::Arg>,
        value: &OsStr,
    ) -> Result<Goal, clap::Error> {
        let text = value.to_string_lossy();
        Goal::parse(&text).map_err(|reason| {
            let text = format!("--for={text}: {reason}\n");
            clap::Error::raw(clap::error::ErrorKind::ValueValidation, text).with_cmd(command)
        })
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let words = WORDS.into_iter();
        Some(Box::new(
            words.map(|(word, _, help)| PossibleValue::new(word).help(help)),
        ))
    }
}

/// A value in an object.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Field {
    /// The text on the command line, for example "condition=Ready".
    text: String,
    test: Test,
}

#[derive(Clone, Debug, PartialEq)]
enum Test {
    /// A condition of this type has this status. Both are compared without regard to case.
    Condition { kind: String, status: String },
    /// The path leads to this value, or to any value.
    Path(JsonPath, Option<String>),
}

/// The result of a test.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Finding {
    Met,
    /// The actual value.
    Unmet(String),
    /// The test can never succeed.
    Invalid(String),
}

// === impl Field ===

impl Field {
    /// Tests an object, as kubectl does.
    pub(super) fn test(&self, object: &Value) -> Finding {
        match &self.test {
            Test::Condition { kind, status } => test_condition(object, kind, status),
            Test::Path(path, expected) => test_path(&path.find(object), expected.as_deref()),
        }
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

// === impl Test ===

impl Test {
    /// Parses "TYPE" or "TYPE=STATUS".
    fn condition(text: &str) -> Result<Self, String> {
        let (kind, status) = text.split_once('=').unwrap_or((text, "true"));
        if kind.is_empty() || status.is_empty() {
            return Err("must be condition=TYPE or condition=TYPE=STATUS".to_owned());
        }
        Ok(Self::Condition {
            kind: kind.to_owned(),
            status: status.to_owned(),
        })
    }

    /// Parses "PATH" or "PATH=VALUE".
    fn path(text: &str) -> Result<Self, String> {
        let (path, value) = match end_of_path(text) {
            Some(end) => (&text[..end], Some(&text[end + 1..])),
            None => (text, None),
        };
        let value = value.map(|value| value.trim_matches(['\'', '"']));
        if value == Some("") {
            return Err("missing value after the path".to_owned());
        }
        Ok(Self::Path(JsonPath::parse(path)?, value.map(str::to_owned)))
    }
}

/// The position of the = after a path. A path may have others in brackets.
fn end_of_path(text: &str) -> Option<usize> {
    let mut depth = 0_i32;
    text.char_indices().find_map(|(at, c)| {
        match c {
            '[' | '{' => depth += 1,
            ']' | '}' => depth -= 1,
            _ => {}
        }
        (c == '=' && depth == 0).then_some(at)
    })
}

fn test_condition(object: &Value, kind: &str, status: &str) -> Finding {
    let conditions = object.pointer("/status/conditions");
    let conditions = conditions.and_then(Value::as_array).into_iter().flatten();
    let text = |condition: &Value, field: &str| condition[field].as_str().map(str::to_lowercase);
    let wanted = kind.to_lowercase();
    let found = conditions.into_iter().find(|condition| {
        text(condition, "type") == Some(wanted.clone()) && condition["status"].is_string()
    });
    let Some(condition) = found else {
        return Finding::Unmet(format!("it has no condition {kind}"));
    };
    let number = |value: &Value| value.as_i64();
    let observed = number(&condition["observedGeneration"])
        .or_else(|| number(&object["status"]["observedGeneration"]));
    let generation = number(&object["metadata"]["generation"]);
    if let Some((observed, generation)) = observed.zip(generation)
        && observed < generation
    {
        return Finding::Unmet(format!(
            "its condition {kind} is of generation {observed}, and the object has generation {generation}"
        ));
    }
    if text(condition, "status") == Some(status.to_lowercase()) {
        Finding::Met
    } else {
        let status = condition["status"].as_str().unwrap_or_default();
        Finding::Unmet(format!("its condition {kind} is {status}"))
    }
}

fn test_path(values: &[&Value], expected: Option<&str>) -> Finding {
    let (value, expected) = match (values, expected) {
        ([], _) => return Finding::Unmet("it has no such value".to_owned()),
        ([_], None) => return Finding::Met,
        ([value], Some(expected)) => (value, expected),
        (several, _) => {
            let count = several.len();
            return Finding::Invalid(format!(
                "the path leads to {count} values; it must lead to one"
            ));
        }
    };
    let text = match value {
        Value::Array(_) | Value::Object(_) => {
            let text = "the path leads to a list or an object, which cannot be compared";
            return Finding::Invalid(text.to_owned());
        }
        Value::String(text) => text.clone(),
        value => value.to_string(),
    };
    if text.trim() == expected.trim() {
        Finding::Met
    } else {
        Finding::Unmet(format!("its value is {text}"))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn test(goal: &str, object: &Value) -> Result<Finding, String> {
        match Goal::parse(goal)? {
            Goal::Field(field) => Ok(field.test(object)),
            goal => panic!("{goal:?}"),
        }
    }

    fn unmet(text: &str) -> Finding {
        Finding::Unmet(text.to_owned())
    }

    #[test]
    fn words_are_goals() {
        for (word, goal, _) in WORDS {
            assert_eq!(goal.text(), word);
            assert_eq!(Goal::parse(word), Ok(goal));
        }
        for wrong in ["", "done", "condition", "Complete", "ready=true"] {
            assert!(
                Goal::parse(wrong)
                    .unwrap_err()
                    .starts_with("must be complete, ")
            );
        }
    }

    /// As for `kubectl wait`.
    #[test]
    fn conditions_are_compared_without_regard_to_case() {
        let object = json!({"status": {"conditions": [
            {"type": "Stale"},
            {"type": "Ready", "status": "True"},
            {"type": "Synced", "status": "False"},
            {"type": "Phase", "status": "Odd"},
        ]}});
        for (goal, expected) in [
            ("condition=Ready", Finding::Met),
            ("condition=ready", Finding::Met),
            ("condition=READY=tRUE", Finding::Met),
            (
                "condition=Ready=False",
                unmet("its condition Ready is True"),
            ),
            ("condition=Synced", unmet("its condition Synced is False")),
            ("condition=Synced=false", Finding::Met),
            ("condition=Phase=odd", Finding::Met),
            ("condition=Other", unmet("it has no condition Other")),
            ("condition=Stale", unmet("it has no condition Stale")),
        ] {
            assert_eq!(test(goal, &object), Ok(expected), "{goal}");
        }
        let goal = "condition=Ready=Unknown";
        assert_eq!(
            test(goal, &json!({})),
            Ok(unmet("it has no condition Ready"))
        );
        for wrong in ["condition=", "condition==True", "condition=Ready="] {
            let error = Goal::parse(wrong).unwrap_err();
            assert!(error.starts_with("must be condition=TYPE"), "{error}");
        }
    }

    #[test]
    fn condition_of_an_older_generation_is_not_met() {
        let object = |in_condition: Value, in_status: Value| {
            json!({
                "metadata": {"generation": 2},
                "status": {
                    "observedGeneration": in_status,
                    "conditions": [{"type": "Ready", "status": "True", "observedGeneration": in_condition}],
                },
            })
        };
        let old =
            || unmet("its condition Ready is of generation 1, and the object has generation 2");
        for (in_condition, in_status, expected) in [
            (json!(null), json!(null), Finding::Met),
            (json!(2), json!(1), Finding::Met),
            (json!(1), json!(2), old()),
            (json!(null), json!(1), old()),
            (json!(null), json!(2), Finding::Met),
        ] {
            let object = object(in_condition, in_status);
            assert_eq!(test("condition=Ready", &object), Ok(expected), "{object}");
        }
    }

    #[test]
    fn values_are_compared_as_text() {
        let object = json!({"status": {
            "phase": "Running", "replicas": 3, "ready": true, "ingress": [{"ip": "10.0.0.1"}],
            "conditions": [{"type": "Ready", "status": "True"}, {"type": "Synced", "status": "True"}],
        }});
        for (goal, expected) in [
            ("jsonpath={.status.phase}=Running", Finding::Met),
            ("jsonpath={.status.phase}='Running'", Finding::Met),
            ("jsonpath=status.phase=\" Running \"", Finding::Met),
            (
                "jsonpath={.status.phase}=running",
                unmet("its value is Running"),
            ),
            ("jsonpath={.status.replicas}=3", Finding::Met),
            ("jsonpath={.status.ready}=true", Finding::Met),
            ("jsonpath={.status.ready}=True", unmet("its value is true")),
            // Any value.
            ("jsonpath={.status.ingress}", Finding::Met),
            ("jsonpath={.status.other}", unmet("it has no such value")),
            ("jsonpath={.status.other}=x", unmet("it has no such value")),
            (
                "jsonpath={.status.conditions[?(@.type==\"Ready\")].status}=True",
                Finding::Met,
            ),
            (
                "jsonpath=.status.conditions[?(@.type!='Ready')].type=Synced",
                Finding::Met,
            ),
        ] {
            assert_eq!(test(goal, &object), Ok(expected), "{goal}");
        }
        for (goal, expected) in [
            (
                "jsonpath={.status.conditions[*].status}=True",
                "leads to 2 values",
            ),
            (
                "jsonpath={.status.conditions[*].status}",
                "leads to 2 values",
            ),
            (
                "jsonpath={.status.ingress}=10.0.0.1",
                "leads to a list or an object",
            ),
        ] {
            let found = test(goal, &object);
            assert!(
                matches!(&found, Ok(Finding::Invalid(text)) if text.contains(expected)),
                "{goal}: {found:?}"
            );
        }
        for wrong in [
            "jsonpath=",
            "jsonpath={.a}=",
            "jsonpath={.a}=''",
            "jsonpath={.a",
        ] {
            assert!(Goal::parse(wrong).is_err(), "{wrong}");
        }
    }
}
