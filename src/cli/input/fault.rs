//! Syntax errors.

/// What is wrong with a text, and where.
#[derive(Debug)]
pub(super) struct Fault {
    /// From 1.
    pub(super) line: usize,
    /// From 1.
    pub(super) column: Option<usize>,
    pub(super) text: String,
}

/// An error of serde_json without line and column, which are those of the text that it was given.
pub(super) fn json_text(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    match text.strip_suffix(&place) {
        Some(text) => text.to_owned(),
        None => text,
    }
}
