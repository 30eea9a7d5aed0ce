//! Words for people: numbers that agree with their nouns, and texts of others made fit to print.

/// The most characters of what Kubernetes or an admission rule wrote.
pub(super) const KUBERNETES_MAX: usize = 500;
/// The most characters of what a program wrote.
pub(super) const PROGRAM_MAX: usize = 200;

/// "1 pod", "2 pods".
pub(super) fn count(number: i64, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{plural}")
}

/// "1 pod is", "2 pods are".
pub(super) fn agree(text: String, number: i64) -> String {
    format!("{text} {}", if number == 1 { "is" } else { "are" })
}

/// ": why", or nothing.
pub(super) fn because(why: &str) -> String {
    if why.is_empty() {
        String::new()
    } else {
        format!(": {why}")
    }
}

/// A text in one line of at most `max` characters, without what could steer a terminal.
pub(super) fn one_line(text: &str, max: usize) -> String {
    let mut line = String::new();
    let words = text.split(|c: char| c.is_whitespace() || c.is_control());
    for word in words.filter(|word| !word.is_empty()) {
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    match line.char_indices().nth(max) {
        None => line,
        Some(_) => {
            let kept: String = line.chars().take(max.saturating_sub(1)).collect();
            format!("{}…", kept.trim_end())
        }
    }
}

/// The last line that a program wrote: what it ended with. Nothing else of its output is passed on.
pub(super) fn last_line(output: &str) -> String {
    let mut lines = output.lines().map(|line| one_line(line, PROGRAM_MAX));
    lines.rfind(|line| !line.is_empty()).unwrap_or_default()
}
