//! Texts, taken apart into documents: JSON values one after the other, YAML documents, or both.

use serde_json::Value;

use super::fault::{Fault, json_text};
use super::source::Source;
use super::yaml;
use crate::cli::error::Error;

/// One document of a source.
#[derive(Debug)]
pub(super) struct Document {
    /// Which it is, counted from 1. `None` if it is the only one.
    pub(super) number: Option<usize>,
    pub(super) value: Value,
}

/// All documents of a source that hold something.
pub(super) fn documents(source: &Source) -> Result<Vec<Document>, Error> {
    let mut values = Vec::new();
    for part in parts(&source.text) {
        let read = match part.text.trim_start().as_bytes().first() {
            Some(b'{' | b'[') => json(&part, &mut values),
            _ => yaml::read(part.text, &mut values).map_err(|fault| Fault {
                line: part.lines_before + fault.line,
                ..fault
            }),
        };
        read.map_err(|Fault { line, column, text }| {
            let line = match column {
                Some(column) => format!("line {line}, column {column}: "),
                None => format!("line {line}: "),
            };
            Error::input(&source.name, format!("{line}{text}"))
        })?;
    }
    values.retain(|value| !value.is_null());
    let several = values.len() > 1;
    let documents = values.into_iter().enumerate();
    Ok(documents
        .map(|(index, value)| Document {
            number: several.then_some(index + 1),
            value,
        })
        .collect())
}

/// What stands between two lines of three dashes. Neither JSON nor YAML can have such a line anywhere else.
struct Part<'a> {
    lines_before: usize,
    text: &'a str,
}

fn parts(text: &str) -> Vec<Part<'_>> {
    let mut parts = Vec::new();
    let mut part = Part {
        lines_before: 0,
        text,
    };
    let mut start = 0;
    let mut at = 0;
    for (number, line) in text.split_inclusive('\n').enumerate() {
        if is_separator(line) {
            part.text = &text[start..at];
            parts.push(part);
            // What follows the dashes on their line belongs to the document.
            start = at + DASHES.len();
            part = Part {
                lines_before: number,
                text,
            };
        }
        at += line.len();
    }
    part.text = &text[start..];
    parts.push(part);
    parts.retain(|part| !is_blank(part.text));
    parts
}

const DASHES: &str = "---";

fn is_separator(line: &str) -> bool {
    line.strip_prefix(DASHES)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with(char::is_whitespace))
}

/// Whether a part has comments and directives only.
fn is_blank(text: &str) -> bool {
    text.lines()
        .map(str::trim)
        .all(|line| line.is_empty() || line.starts_with(['#', '%']))
}

fn json(part: &Part<'_>, values: &mut Vec<Value>) -> Result<(), Fault> {
    let stream = serde_json::Deserializer::from_str(part.text).into_iter();
    for value in stream {
        values.push(value.map_err(|error| Fault {
            line: part.lines_before + error.line(),
            column: Some(error.column()),
            text: json_text(&error),
        })?);
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::expect_used, reason = "a test that fails may panic")]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(text: &str, expected: &[(Option<usize>, Value)]) {
        let source = Source {
            name: "test".to_owned(),
            text: text.to_owned(),
        };
        let documents = documents(&source).expect("documents");
        let found: Vec<_> = documents.into_iter().map(|d| (d.number, d.value)).collect();
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn one_and_several() {
        check("", &[]);
        check("# nothing\n---\n", &[]);
        check("{\"a\": 1}", &[(None, json!({"a": 1}))]);
        check("a: 1", &[(None, json!({"a": 1}))]);
        check(
            "{\"a\": 1}{\"b\": 2}\n[3]",
            &[
                (Some(1), json!({"a": 1})),
                (Some(2), json!({"b": 2})),
                (Some(3), json!([3])),
            ],
        );
        check(
            "%YAML 1.1\n---\na: 1\n---\n{\"b\": 2}\n---\n---\nnull\n---\nc: |\n  x\n  ---\n",
            &[
                (Some(1), json!({"a": 1})),
                (Some(2), json!({"b": 2})),
                (Some(3), json!({"c": "x\n---\n"})),
            ],
        );
    }
}
