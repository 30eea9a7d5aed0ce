//! Reads the answers to the calls of the last plan from a file.

use std::path::Path;

use serde_json::Value;

use super::document::{Document, documents};
use super::snapshot::message;
use super::source::source;
use crate::cli::error::Error;
use crate::proto;

/// Answers, and the place that each comes from.
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
    for Document { value, .. } in documents(&source)? {
        let Value::Array(items) = value else {
            return Err(Error::input(
                source.name,
                "must be a list of StepAnswer messages",
            ));
        };
        for item in items {
            let place = format!("{}, [{}]", source.name, read.answers.len());
            read.answers.push(message(&item, &place)?);
            read.places.push(place);
        }
    }
    Ok(read)
}
