//! Formats messages: numbers with their nouns, and text from other sources that must be made safe to print.

use rollplan_core::snapshot::Deployment;

/// The maximum length of a message from Kubernetes or an admission webhook, in characters.
pub(crate) const KUBERNETES_MAX: usize = 500;
/// The maximum length of a container's output, in characters.
pub(crate) const PROGRAM_MAX: usize = 200;

/// The maximum length of the name of an object, in characters.
pub(crate) const NAME_MAX: usize = 253;

/// A name as one word of a shell command.
pub(crate) fn word(name: &str) -> String {
    let name = one_line(name, NAME_MAX);
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-/".contains(c);
    if !name.is_empty() && !name.starts_with('-') && name.chars().all(is_plain) {
        return name;
    }
    format!("'{}'", name.replace('\'', "'\\''"))
}

/// The kind of a Deployment, or of the custom resource that acts as one, as an argument of kubectl.
pub(crate) fn resource(deployment: &Deployment) -> String {
    match deployment.is_native() {
        true => "deploy".to_owned(),
        false => deployment.kind.to_lowercase(),
    }
}

/// "1 pod", "2 pods".
pub(crate) fn count(number: i64, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{plural}")
}

/// "1 pod is", "2 pods are".
pub(crate) fn agree(text: String, number: i64) -> String {
    format!("{text} {}", if number == 1 { "is" } else { "are" })
}

/// Returns ": why", or nothing if `why` is empty.
pub(crate) fn because(why: &str) -> String {
    if why.is_empty() {
        String::new()
    } else {
        format!(": {why}")
    }
}

/// Converts a text to a single line of at most `max` characters without control characters.
pub(crate) fn one_line(text: &str, max: usize) -> String {
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

/// The last line of a container's output. The rest is dropped, because it may contain secrets.
pub(crate) fn last_line(output: &str) -> String {
    let mut lines = output.lines().map(|line| one_line(line, PROGRAM_MAX));
    lines.rfind(|line| !line.is_empty()).unwrap_or_default()
}
