//! The template digest that is written to the cluster: SHA-256 of the canonical form.
//!
//! Other programs and other releases read this annotation for years, so it contains a hash that anyone can recompute.

use std::fmt::Write as _;

use sha2::{Digest as _, Sha256};

use super::canonical::canonical;
use super::value::Value;

/// The value of the annotation `rollplan.dev/template-digest`: the SHA-256 of the template's canonical form as JSON, in
/// the format `sha256:` followed by 64 hexadecimal digits. Equal templates have equal digests.
#[must_use]
pub fn sha256_of_canonical(template: &Value) -> String {
    let mut text = String::from("sha256:");
    for byte in Sha256::digest(canonical(template)) {
        // Writing to a String cannot fail.
        _ = write!(text, "{byte:02x}");
    }
    text
}
