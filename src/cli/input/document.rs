//! Splits text into JSON documents: consecutive JSON values, YAML documents, or both.

use std::borrow::Cow;

use serde_json::value::RawValue;

use super::fault::json_text;
use super::source::Source;
use crate::cli::error::Error;
use crate::wire;
use crate::wire::yaml::{self, YamlFault};

/// The maximum depth of nested arrays.
const DEPTH_MAX: usize = 128;

/// One document of a source, or one item of an array, such as the output of `jq .items`.
#[derive(Debug)]
pub(super) struct Document<'a> {
    /// Its place, for example `web.json, document 2` or `web.json, [3]`.
    pub(super) place: String,
    pub(super) json: Cow<'a, str>,
}

/// All documents of a source that are not empty.
pub(super) fn documents(source: &Source) -> Result<Vec<Document<'_>>, Error> {
    let mut texts = Vec::new();
    let is_blank = source.text.trim().is_empty();
    if let Some(what) = wire::unreadable(&source.text).filter(|_| !is_blank) {
        return Err(Error::input(&source.name, what));
    }
    for part in parts(&source.text) {
        let read = match part.text.trim_start().as_bytes().first() {
            Some(b'{' | b'[') => json(&part, &mut texts),
            _ => yaml(&part, &mut texts),
        };
        read.map_err(|YamlFault { line, column, text }| {
            let line = match column {
                Some(column) => format!("line {line}, column {column}: "),
                None => format!("line {line}: "),
            };
            Error::input(&source.name, format!("{line}{text}"))
        })?;
    }
    texts.retain(|json| json != "null");
    let several = texts.len() > 1;
    let documents = texts.into_iter().enumerate().map(|(index, json)| {
        let place = match several {
            true => format!("{}, document {}", source.name, index + 1),
            false => source.name.clone(),
        };
        Document { place, json }
    });
    Ok(documents.collect())
}

/// All documents of a source, with arrays replaced by their items.
pub(super) fn flat_documents(source: &Source) -> Result<Vec<Document<'_>>, Error> {
    let mut flat = Vec::new();
    for document in documents(source)? {
        flatten(document, "", 0, &mut flat)?;
    }
    Ok(flat)
}

fn flatten<'a>(
    document: Document<'a>,
    path: &str,
    depth: usize,
    flat: &mut Vec<Document<'a>>,
) -> Result<(), Error> {
    let place = || match path {
        "" => document.place.clone(),
        path => format!("{}, {path}", document.place),
    };
    if !document.json.starts_with('[') {
        let place = place();
        flat.push(Document {
            place,
            json: document.json,
        });
        return Ok(());
    }
    if depth > DEPTH_MAX {
        let text = format!("more than {DEPTH_MAX} levels deep");
        return Err(Error::input(document.place, text));
    }
    let items = items(&document.json);
    let items = items.map_err(|error| Error::input(place(), json_text(&error)))?;
    for (index, json) in items.into_iter().enumerate() {
        let item = Document {
            place: document.place.clone(),
            json,
        };
        flatten(item, &format!("{path}[{index}]"), depth + 1, flat)?;
    }
    Ok(())
}

/// The items of an array, borrowed if the array is.
fn items<'a>(array: &Cow<'a, str>) -> Result<Vec<Cow<'a, str>>, serde_json::Error> {
    match array {
        Cow::Borrowed(text) => {
            let items: Vec<&'a RawValue> = serde_json::from_str(text)?;
            Ok(items
                .into_iter()
                .map(|it| Cow::Borrowed(it.get()))
                .collect())
        }
        Cow::Owned(text) => {
            let items: Vec<&RawValue> = serde_json::from_str(text)?;
            Ok(items
                .into_iter()
                .map(|item| Cow::Owned(item.get().to_owned()))
                .collect())
        }
    }
}

/// The text between two `---` lines. Neither JSON nor YAML allows such a line anywhere else.
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
            // The rest of the line belongs to the next document.
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

/// Whether a part contains only comments and directives.
fn is_blank(text: &str) -> bool {
    text.lines()
        .map(str::trim)
        .all(|line| line.is_empty() || line.starts_with(['#', '%']))
}

fn json<'a>(part: &Part<'a>, texts: &mut Vec<Cow<'a, str>>) -> Result<(), YamlFault> {
    let stream = serde_json::Deserializer::from_str(part.text).into_iter::<&'a RawValue>();
    for value in stream {
        let value = value.map_err(|error| YamlFault {
            line: part.lines_before + error.line(),
            column: Some(error.column()),
            text: json_text(&error),
        })?;
        texts.push(Cow::Borrowed(value.get()));
    }
    Ok(())
}

fn yaml<'a>(part: &Part<'a>, texts: &mut Vec<Cow<'a, str>>) -> Result<(), YamlFault> {
    let mut values = Vec::new();
    yaml::read(part.text, &mut values).map_err(|fault| YamlFault {
        line: part.lines_before + fault.line,
        ..fault
    })?;
    texts.extend(values.iter().map(|value| Cow::Owned(value.to_string())));
    Ok(())
}

#[cfg(test)]
#[allow(clippy::expect_used, reason = "a test that fails may panic")]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn check(text: &str, expected: &[(&str, Value)]) {
        let source = Source {
            name: "test".to_owned(),
            text: text.to_owned(),
        };
        let documents = flat_documents(&source).expect("documents");
        let found: Vec<_> = documents
            .iter()
            .map(|document| {
                let value = serde_json::from_str(&document.json).expect("JSON");
                (document.place.as_str(), value)
            })
            .collect();
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn single_and_multiple_documents() {
        check("", &[]);
        check("# nothing\n---\n", &[]);
        check("{\"a\": 1}", &[("test", json!({"a": 1}))]);
        check("a: 1", &[("test", json!({"a": 1}))]);
        check(
            "{\"a\": 1}{\"b\": 2}\n[3, [4]]",
            &[
                ("test, document 1", json!({"a": 1})),
                ("test, document 2", json!({"b": 2})),
                ("test, document 3, [0]", json!(3)),
                ("test, document 3, [1][0]", json!(4)),
            ],
        );
        check("- [a]\n", &[("test, [0][0]", json!("a"))]);
        check(
            "%YAML 1.1\n---\na: 1\n---\n{\"b\": 2}\n---\n---\nnull\n---\nc: |\n  x\n  ---\n",
            &[
                ("test, document 1", json!({"a": 1})),
                ("test, document 2", json!({"b": 2})),
                ("test, document 3", json!({"c": "x\n---\n"})),
            ],
        );
    }

    #[test]
    fn depth_of_arrays_is_limited() {
        let nested = |levels: usize| "[".repeat(levels) + "1" + &"]".repeat(levels);
        let place = format!("test, {}", "[0]".repeat(DEPTH_MAX + 1));
        check(&nested(DEPTH_MAX + 1), &[(&place, json!(1))]);
        let source = Source {
            name: "test".to_owned(),
            text: nested(DEPTH_MAX + 2),
        };
        let error = flat_documents(&source).expect_err("too deep");
        assert_eq!(error.texts(), ["test: more than 128 levels deep"]);
    }
}
