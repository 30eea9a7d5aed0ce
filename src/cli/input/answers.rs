//! Reads the API server's answers to the calls of the last plan from a file.

use std::path::Path;

use rollplan_wire as wire;
use rollplan_wire::proto;
use serde_json::value::RawValue;

use super::document::documents;
use super::fault::json_text;
use super::source::source;
use crate::cli::error::{Diagnostic, Error, chain};

/// Answers, with their places in the file.
#[derive(Debug, Default)]
pub(in crate::cli) struct Answers {
    pub(super) answers: Vec<proto::StepAnswer>,
    pub(super) places: Vec<String>,
}

/// Reads a list of answers. An empty file is an empty list.
pub(in crate::cli) fn answers(file: &Path) -> Result<Answers, Error> {
    if file.as_os_str() == "-" {
        let text = "--answers - is not supported: standard input is for objects";
        return Err(Error::Usage(text.to_owned()));
    }
    let source = source(file)?;
    let mut read = Answers::default();
    for document in documents(&source, &mut |_| {})? {
        let items: Result<Vec<&RawValue>, _> = serde_json::from_str(&document.json);
        let Ok(items) = items else {
            return Err(Error::input(
                source.name,
                "must be a list of StepAnswer messages",
            ));
        };
        for item in items {
            let place = format!("{}, [{}]", source.name, read.answers.len());
            read.answers.push(answer(item.get(), &place)?);
            read.places.push(place);
        }
    }
    Ok(read)
}

fn answer(json: &str, place: &str) -> Result<proto::StepAnswer, Error> {
    wire::json::from_json(json).map_err(|error| match error {
        wire::Error::InvalidJson { path, source, .. } => Error::Input(vec![Diagnostic {
            place: place.to_owned(),
            field: if path == "." { String::new() } else { path },
            text: match json_text(&source).as_str() {
                // The message of std is about the type, not the field.
                "invalid digit found in string" => "must be a whole number".to_owned(),
                "out of range integral type conversion attempted" => "is out of range".to_owned(),
                text => text.to_owned(),
            },
        }]),
        error => Error::Bug(chain(&error)),
    })
}
