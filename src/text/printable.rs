//! Escapes text from other sources: names, messages and errors must not control a terminal.

/// The text with characters escaped that would control a terminal or be invisible. Line breaks are preserved.
pub fn printable(text: &str) -> String {
    let mut printable = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' => printable.push(c),
            c if is_unprintable(c) => printable.extend(c.escape_default()),
            c => printable.push(c),
        }
    }
    printable
}

/// The escaped text on one line.
pub fn one_line(text: &str) -> String {
    printable(text).replace('\n', " ")
}

/// The text for a terminal that shows only ASCII.
pub fn ascii(text: &str) -> String {
    let mut ascii = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '…' => ascii.push_str("..."),
            '−' | '–' => ascii.push('-'),
            '×' => ascii.push('x'),
            c if c.is_ascii() => ascii.push(c),
            c => ascii.extend(c.escape_default()),
        }
    }
    ascii
}

/// JSON with such characters escaped as `\uXXXX`. In JSON, they occur only within strings.
pub fn printable_json(json: &str) -> String {
    let mut printable = String::with_capacity(json.len());
    for c in json.chars() {
        match c {
            '\n' => printable.push(c),
            c if is_unprintable(c) => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    printable.push_str(&format!("\\u{unit:04x}"));
                }
            }
            c => printable.push(c),
        }
    }
    printable
}

/// Whether it is a control character, changes the direction of text, or has no width.
pub fn is_unprintable(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    const NASTY: &str = "a\u{1b}[31mb\tc\rd\ne \u{9b}2J \u{202e}gnp.exe\u{2066} \u{200b}\u{feff}\u{e0041}\u{7f} ü漢";

    #[test]
    fn terminal_controls_are_escaped() {
        assert_eq!(
            printable(NASTY),
            "a\\u{1b}[31mb\\tc\\rd\ne \\u{9b}2J \\u{202e}gnp.exe\\u{2066} \\u{200b}\\u{feff}\\u{e0041}\\u{7f} ü漢"
        );
        assert_eq!(one_line("a\nb\u{1b}"), "a b\\u{1b}");
    }

    #[test]
    fn other_characters_are_replaced_for_ascii_terminals() {
        assert_eq!(ascii("4 − 25% … 3 × ü\n"), "4 - 25% ... 3 x \\u{fc}\n");
    }

    #[test]
    fn escaped_json_has_the_same_value() {
        let json = serde_json::Value::from(NASTY);
        let printed = printable_json(&json.to_string());
        assert!(!printed.contains(is_unprintable), "{printed}");
        assert_eq!(serde_json::from_str(&printed).ok(), Some(json), "{printed}");
    }
}
