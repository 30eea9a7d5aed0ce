//! Pseudo-random numbers and texts.

use std::fmt::Write as _;

use serde_json::Value;

/// SplitMix64.
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `end`, which must not be zero.
    pub(super) fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    pub(super) fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            items.swap(i, self.below(i + 1));
        }
    }

    /// Changes or removes a byte, or applies `otherwise` at one.
    pub(super) fn break_bytes(
        &mut self,
        bytes: &mut Vec<u8>,
        otherwise: impl Fn(&mut Self, &mut Vec<u8>, usize),
    ) {
        for _ in 0..=self.below(3) {
            let at = self.below(bytes.len());
            match self.below(4) {
                0 => bytes[at] = self.next() as u8,
                1 => bytes[at] ^= 1 << self.below(8),
                2 if at > 0 => _ = bytes.remove(at),
                _ => otherwise(self, bytes, at),
            }
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
