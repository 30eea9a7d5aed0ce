//! Uses arbitrary text as the body of `/v1/*`: JSON or YAML.

use rollplan::wire;
use serde_json::Value;

/// The server reserves ten times the size of a YAML body: this factor for the JSON while it grows, and the rest for the copy
/// of the JSON in a request.
const GROWTH_MAX: usize = 5;

/// Checks one input.
pub fn run(body: &[u8]) {
    let Ok(texts) = wire::objects_of_body(body) else {
        return;
    };
    if let [text] = texts.as_slice()
        && body.ends_with(text.as_bytes())
    {
        return; // JSON is passed on as it is
    }
    let bytes: usize = texts.iter().map(String::len).sum();
    // As long as with the newline that the last line may lack.
    assert!(
        bytes <= GROWTH_MAX * (body.len() + 1),
        "{bytes} bytes of JSON"
    );
    for text in texts {
        assert!(serde_json::from_str::<Value>(&text).is_ok(), "{text}");
    }
}
