//! Texts and bytes that are changed at random.

use std::fmt::Write as _;

use rollplan_world::random::Random;
use serde_json::Value;

/// Changes or removes a byte, or applies `otherwise` at one.
pub(super) fn break_bytes(
    random: &mut Random,
    bytes: &mut Vec<u8>,
    otherwise: impl Fn(&mut Random, &mut Vec<u8>, usize),
) {
    for _ in 0..=random.below(3) {
        let at = random.below(bytes.len());
        match random.below(4) {
            0 => bytes[at] = random.number() as u8,
            1 => bytes[at] ^= 1 << random.below(8),
            2 if at > 0 => _ = bytes.remove(at),
            _ => otherwise(random, bytes, at),
        }
    }
}

/// Writes JSON with random key order, whitespace and escapes.
pub(super) fn print(value: &Value, random: &mut Random, text: &mut String) {
    let space = ["", " ", "\n\t"][random.below(3)];
    text.push_str(space);
    match value {
        Value::Object(map) => {
            let mut entries: Vec<_> = map.iter().collect();
            random.shuffle(&mut entries);
            text.push('{');
            for (index, (key, value)) in entries.into_iter().enumerate() {
                if index > 0 {
                    text.push(',');
                }
                print(&Value::from(key.as_str()), random, text);
                text.push(':');
                print(value, random, text);
            }
            text.push('}');
        }
        Value::Array(items) => {
            text.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    text.push(',');
                }
                print(item, random, text);
            }
            text.push(']');
        }
        Value::String(string) if random.below(4) == 0 => {
            text.push('"');
            for unit in string.encode_utf16() {
                _ = write!(text, "\\u{unit:04x}");
            }
            text.push('"');
        }
        value => _ = write!(text, "{value}"),
    }
    text.push_str(space);
}
