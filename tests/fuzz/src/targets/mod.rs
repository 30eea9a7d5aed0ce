//! What the fuzzer calls with each input. A panic is a failure.

pub mod body;
pub mod cli_input;
pub mod objects;
pub mod plan;
pub mod request_bytes;
pub mod request_json;

/// A target: it panics if an input shows a bug.
pub type Target = fn(&[u8]);

/// All targets, with the names of their directories in `corpus` and `regressions`.
pub const TARGETS: [(&str, Target); 6] = [
    ("request_bytes", request_bytes::run),
    ("request_json", request_json::run),
    ("objects", objects::run),
    ("body", body::run),
    ("cli_input", cli_input::run),
    ("plan", plan::run),
];

/// The start of an input that is text.
fn text_of(bytes: &[u8]) -> &str {
    let valid = bytes.utf8_chunks().next();
    valid.map_or("", |chunk| chunk.valid())
}
