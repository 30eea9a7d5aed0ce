//! Syntax errors.

/// The message of a serde_json error without line and column, which refer to the parsed part only.
pub(super) fn json_text(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    match text.strip_suffix(&place) {
        Some(text) => text.to_owned(),
        None => text,
    }
}
