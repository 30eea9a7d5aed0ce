//! Splits text into JSON documents: consecutive JSON values or YAML documents.

use std::borrow::Cow;
use std::ops::Range;

use rollplan_wire as wire;
use rollplan_wire::yaml::{self, YamlFault};
use serde_json::value::RawValue;

use super::fault::json_text;
use super::source::Source;
use crate::cli::error::Error;

/// The maximum depth of nested arrays.
const DEPTH_MAX: usize = 128;

/// One document of a source, or one item of an array, such as the output of `jq .items`.
#[derive(Debug)]
pub(super) struct Document<'a> {
    /// Its place, for example `web.json, document 2` or `web.json, [3]`.
    pub(super) place: String,
    pub(super) json: Cow<'a, str>,
}

/// All documents of a source that are not empty, as kubectl reads them.
pub(super) fn documents<'s>(
    source: &'s Source,
    note: &mut dyn FnMut(String),
) -> Result<Vec<Document<'s>>, Error> {
    let is_blank = source.text.trim().is_empty();
    if let Some(what) = wire::unreadable(&source.text).filter(|_| !is_blank) {
        return Err(Error::input(&source.name, what));
    }
    let place = |YamlFault { line, column, text }: YamlFault| match column {
        Some(column) => format!("line {line}, column {column}: {text}"),
        None => format!("line {line}: {text}"),
    };
    let mut notes = Vec::new();
    let mut texts = read(&source.text, &mut notes).map_err(|fault| {
        let text = match template_line(&source.text) {
            Some(line) => format!(
                "line {line}: this is a template: render it first, for example with helm template"
            ),
            None => place(fault),
        };
        Error::input(&source.name, text)
    })?;
    for fault in notes {
        note(format!("{}: {}", source.name, place(fault)));
    }
    texts.retain(|json| json != "null");
    let several = texts.len() > 1;
    let documents = texts.into_iter().enumerate().map(|(index, json)| {
        let place = if several {
            format!("{}, document {}", source.name, index + 1)
        } else {
            source.name.clone()
        };
        Document { place, json }
    });
    Ok(documents.collect())
}

/// The first line with an action of Go's templates.
fn template_line(text: &str) -> Option<usize> {
    let mut lines = text.lines();
    let is_template = |line: &str| line.contains("{{") && line.contains("}}");
    lines.position(is_template).map(|index| index + 1)
}

/// All documents of a source, with arrays replaced by their items.
pub(super) fn flat_documents<'s>(
    source: &'s Source,
    note: &mut dyn FnMut(String),
) -> Result<Vec<Document<'s>>, Error> {
    let mut flat = Vec::new();
    for document in documents(source, note)? {
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

/// Reads JSON values and YAML documents as kubectl does (apimachinery, util/yaml/decoder.go: `YAMLOrJSONDecoder`): a text
/// that begins as JSON is JSON, but at most one value may precede YAML. Unlike kubectl, it may be an array, such as the
/// output of `jq .items`.
fn read<'a>(text: &'a str, notes: &mut Vec<YamlFault>) -> Result<Vec<Cow<'a, str>>, YamlFault> {
    let mut texts = Vec::new();
    if wire::is_yaml(text.as_bytes()) {
        yaml(text, 0, &mut texts, notes)?;
        return Ok(texts);
    }
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<&'a RawValue>();
    loop {
        let end = values.byte_offset();
        match values.next() {
            None => return Ok(texts),
            Some(Ok(value)) => texts.push(Cow::Borrowed(value.get())),
            Some(Err(error)) => {
                let fault = YamlFault {
                    line: error.line(),
                    column: Some(error.column()),
                    text: json_text(&error),
                };
                if texts.len() > 1 {
                    return Err(fault);
                }
                // The rest of the line belongs to the value.
                let rest = text[end..].trim_start_matches(|c: char| c != '\n' && c.is_whitespace());
                let rest = rest.strip_prefix('\n').unwrap_or(rest);
                let lines_before = text[..text.len() - rest.len()].matches('\n').count();
                yaml(rest, lines_before, &mut texts, notes).map_err(|_| fault)?;
                return Ok(texts);
            }
        }
    }
}

/// Reads YAML documents. As for kubectl, each line that begins with `---` separates documents, and only a comment may
/// follow.
fn yaml<'a>(
    text: &'a str,
    lines_before: usize,
    texts: &mut Vec<Cow<'a, str>>,
    notes: &mut Vec<YamlFault>,
) -> Result<(), YamlFault> {
    let (mut start, mut start_line, mut at) = (0, lines_before, 0);
    let mut part = |range: Range<usize>, line: usize| -> Result<(), YamlFault> {
        let moved = |fault: YamlFault| YamlFault {
            line: line + fault.line,
            ..fault
        };
        let mut found = Vec::new();
        let value = yaml::read(&text[range], &mut found).map_err(moved)?;
        notes.extend(found.into_iter().map(moved));
        texts.extend(value.map(|value| Cow::Owned(value.to_string())));
        Ok(())
    };
    for (index, line) in text.split_inclusive('\n').enumerate() {
        let end = at + line.len();
        if let Some(rest) = line.strip_prefix("---") {
            let rest = rest.trim();
            if !rest.is_empty() && !rest.starts_with('#') {
                return Err(YamlFault {
                    line: lines_before + index + 1,
                    column: Some(4),
                    text: "kubectl allows no content on the line of ---: begin it on the next line"
                        .to_owned(),
                });
            }
            part(start..at, start_line)?;
            (start, start_line) = (end, lines_before + index + 1);
        }
        at = end;
    }
    part(start..text.len(), start_line)
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
        let documents = flat_documents(&source, &mut |_| {}).expect("documents");
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
            "--- # x\na: 1\n---\n{\"b\": 2}\n---\n---\nnull\n---\nc: |\n  x\n  ---\n",
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
        let error = flat_documents(&source, &mut |_| {}).expect_err("too deep");
        assert_eq!(error.texts(), ["test: more than 128 levels deep"]);
    }
}
