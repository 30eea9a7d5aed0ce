//! Writes JSON values as YAML that all YAML parsers read as the same values.

use serde_json::Value;

use rollplan_text::is_unprintable;

/// Formats a value as YAML.
pub(super) fn to_yaml(value: &Value) -> String {
    let mut text = String::new();
    print(value, 0, &mut text);
    // Blocks start with a line break, which the first line does not need.
    let mut text = text.trim_start().to_owned();
    text.push('\n');
    text
}

/// Writes the text after a key or a dash: a space and the value, or a block on its own lines.
fn print(value: &Value, indent: usize, text: &mut String) {
    match value {
        Value::Array(items) if !items.is_empty() => {
            for item in items {
                begin(indent, text);
                text.push('-');
                let mut block = String::new();
                print(item, indent + 2, &mut block);
                // The first line of a block is on the same line as the dash.
                let block = block.trim_start();
                text.push(' ');
                text.push_str(block);
            }
        }
        Value::Object(entries) if !entries.is_empty() => {
            for (key, value) in entries {
                begin(indent, text);
                text.push_str(&scalar(key));
                text.push(':');
                let indent = match value {
                    // Like kubectl.
                    Value::Array(_) => indent,
                    _ => indent + 2,
                };
                print(value, indent, text);
            }
        }
        Value::Array(_) => text.push_str(" []"),
        Value::Object(_) => text.push_str(" {}"),
        Value::String(string) => {
            text.push(' ');
            text.push_str(&scalar(string));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {
            text.push(' ');
            text.push_str(&value.to_string());
        }
    }
}

fn begin(indent: usize, text: &mut String) {
    text.push('\n');
    text.extend(std::iter::repeat_n(' ', indent));
}

/// A string. It has no quotes if no parser can read it as another type. Otherwise, it is written as JSON, which is valid
/// YAML.
fn scalar(string: &str) -> String {
    let is_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '/' | ' ');
    let plain = string.starts_with(|c: char| c.is_ascii_alphabetic())
        && !string.ends_with(' ')
        && string.chars().all(is_word)
        && !is_reserved(string);
    if plain {
        string.to_owned()
    } else {
        quoted(string)
    }
}

/// Words that YAML 1.1 or 1.2 parses as a boolean or null.
fn is_reserved(string: &str) -> bool {
    const WORDS: [&str; 9] = ["y", "n", "yes", "no", "true", "false", "on", "off", "null"];
    WORDS.iter().any(|word| word.eq_ignore_ascii_case(string))
}

/// A JSON string. Characters that YAML forbids or that control a terminal are escaped.
fn quoted(string: &str) -> String {
    let json = Value::from(string).to_string();
    let mut text = String::with_capacity(json.len());
    for c in json.chars() {
        match c {
            c if !is_unprintable(c) && !matches!(c, '\u{fffe}' | '\u{ffff}') => text.push(c),
            ..='\u{ffff}' => text.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => text.push_str(&format!("\\U{:08x}", u32::from(c))),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn lists_are_indented_like_those_of_kubectl() {
        let value = json!({"a": [], "b": {}, "c": [1, [2, 3], {"d": []}, {}], "e": {"f": [null]}});
        let expected = "a: []\nb: {}\nc:\n- 1\n- - 2\n  - 3\n- d: []\n- {}\ne:\n  f:\n  - null\n";
        assert_eq!(to_yaml(&value), expected);
    }
}
