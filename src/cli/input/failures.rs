//! What was refused when the last plan was carried out, out of a file.

use std::path::Path;

use serde_json::Value;

use super::document::{Document, documents};
use super::snapshot::message;
use super::source::source;
use crate::cli::error::Error;
use crate::proto;

/// Failures, and where each comes from.
#[derive(Debug, Default)]
pub(in crate::cli) struct Failures {
    pub(super) failures: Vec<proto::StepFailure>,
    pub(super) places: Vec<String>,
}

/// Reads a list of failures. An empty file is an empty list.
pub(in crate::cli) fn failures(file: &Path) -> Result<Failures, Error> {
    if file.as_os_str() == "-" {
        let text = "--failures - is not supported: standard input is for objects";
        return Err(Error::Usage(text.to_owned()));
    }
    let source = source(file)?;
    let mut read = Failures::default();
    for Document { value, .. } in documents(&source)? {
        let Value::Array(items) = value else {
            return Err(Error::input(
                source.name,
                "must be a list of StepFailure messages",
            ));
        };
        for item in items {
            let place = format!("{}, [{}]", source.name, read.failures.len());
            read.failures.push(message(&item, &place)?);
            read.places.push(place);
        }
    }
    Ok(read)
}
