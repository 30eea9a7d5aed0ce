//! Validates names, and the keys and values of labels and annotations, like Kubernetes (apimachinery's validation
//! packages).

use std::collections::BTreeMap;

use super::Parser;
use super::path::Path;
use crate::error::Reason;
use crate::limits::ANNOTATIONS_BYTES_MAX;

impl Parser<'_> {
    /// The name of an object. Deployments, ReplicaSets, pods and custom resources need a DNS subdomain.
    pub(super) fn name(&mut self, name: String, path: &Path<'_>) -> String {
        let name = self.text(name, path);
        if !name.is_empty() && !is_dns_subdomain(&name) {
            let description = format_args!(
                "{name:?} is not a DNS subdomain: at most 253 of a-z, 0-9, '-' and '.', beginning and ending with a-z or 0-9"
            );
            self.violation(path, Reason::InvalidName, description);
        }
        name
    }

    /// A namespace, which must be a DNS label.
    pub(crate) fn namespace(&mut self, namespace: String, path: &Path<'_>) -> String {
        if !namespace.is_empty() && !is_dns_label(&namespace) {
            let description = format_args!(
                "{namespace:?} is not a DNS label: at most 63 of a-z, 0-9 and '-', beginning and ending with a-z or 0-9"
            );
            self.violation(path, Reason::InvalidName, description);
        }
        namespace
    }

    /// The plural name of a resource, which may be empty.
    pub(crate) fn plural(&mut self, name: &str, path: &Path<'_>) {
        if !name.is_empty() && !is_dns_label(name) {
            let description = "must be the plural name of a resource, for example \"deployments\"";
            self.violation(path, Reason::InvalidName, description);
        }
    }

    pub(super) fn labels(&mut self, labels: &BTreeMap<String, String>, path: &Path<'_>) {
        for (key, value) in labels {
            let entry = path.key(key);
            self.label_key(key, &entry);
            self.label_value(value, &entry);
        }
    }

    pub(super) fn label_key(&mut self, key: &str, path: &Path<'_>) {
        if !is_qualified_name(key) {
            let description = format_args!("{key:?} is not a valid label key");
            self.violation(path, Reason::InvalidLabelKey, description);
        }
    }

    pub(super) fn label_value(&mut self, value: &str, path: &Path<'_>) {
        if !is_label_value(value) {
            let description = format_args!("{value:?} is not a valid label value");
            self.violation(path, Reason::InvalidLabelValue, description);
        }
    }

    /// As in Kubernetes, keys are validated in lower case, and values are not validated.
    pub(super) fn annotations(&mut self, annotations: &BTreeMap<String, String>, path: &Path<'_>) {
        let entries = annotations.iter();
        let bytes: usize = entries.map(|(key, value)| key.len() + value.len()).sum();
        if bytes > ANNOTATIONS_BYTES_MAX {
            let description = format_args!(
                "{bytes} bytes of keys and values exceed the limit of {ANNOTATIONS_BYTES_MAX}"
            );
            self.violation(path, Reason::AnnotationsTooLarge, description);
        }
        for key in annotations.keys() {
            if !is_annotation_key(key) {
                let description = format_args!("{key:?} is not a valid annotation key");
                self.violation(&path.key(key), Reason::InvalidAnnotationKey, description);
            }
        }
    }
}

/// As ValidateAnnotations in Kubernetes.
pub(super) fn is_annotation_key(key: &str) -> bool {
    // Nearly all keys are in lower case already.
    is_qualified_name(key) || is_qualified_name(&key.chars().map(lower_case).collect::<String>())
}

/// Go's `unicode.ToLower`, for characters whose result may be an ASCII letter. Outside of ASCII, these are the Kelvin
/// sign and the dotted I.
fn lower_case(char: char) -> char {
    match char {
        '\u{212a}' => 'k',
        '\u{130}' => 'i',
        char => char.to_ascii_lowercase(),
    }
}

/// As IsValidLabelValue in Kubernetes.
pub(super) fn is_label_value(value: &str) -> bool {
    value.is_empty() || is_name(value)
}

/// A name, optionally with a DNS subdomain as its prefix (IsQualifiedName in Kubernetes).
pub(super) fn is_qualified_name(key: &str) -> bool {
    match key.split_once('/') {
        None => is_name(key),
        Some((prefix, name)) => is_dns_subdomain(prefix) && is_name(name),
    }
}

/// At most 63 letters, digits, '-', '_' and '.', starting and ending with a letter or digit.
fn is_name(name: &str) -> bool {
    let bytes = name.as_bytes();
    let ends = [bytes.first(), bytes.last()];
    bytes.len() <= 63
        && ends
            .iter()
            .all(|end| end.is_some_and(u8::is_ascii_alphanumeric))
        && bytes
            .iter()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(byte))
}

/// At most 253 bytes of DNS labels, separated by dots. The labels may be longer than 63 bytes (IsDNS1123Subdomain in
/// Kubernetes).
pub fn is_dns_subdomain(name: &str) -> bool {
    name.len() <= 253 && name.split('.').all(is_word)
}

/// As IsDNS1123Label in Kubernetes.
pub(super) fn is_dns_label(name: &str) -> bool {
    name.len() <= 63 && is_word(name)
}

/// A group and a version, or only a version for the core group.
pub(super) fn is_api_version(api_version: &str) -> bool {
    match api_version.split_once('/') {
        None => is_dns_label(api_version),
        Some((group, version)) => is_dns_subdomain(group) && is_dns_label(version),
    }
}

/// A kind is a DNS label in lower case. In practice, kinds contain only letters and digits.
pub(super) fn is_kind(kind: &str) -> bool {
    (1..=63).contains(&kind.len()) && kind.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

/// Lower-case letters, digits and '-', starting and ending with a letter or digit.
fn is_word(word: &str) -> bool {
    let bytes = word.as_bytes();
    let alphanumeric = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let ends = [bytes.first(), bytes.last()];
    ends.iter().all(|end| end.is_some_and(alphanumeric))
        && bytes.iter().all(|byte| alphanumeric(byte) || *byte == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn label_keys_match_kubernetes() {
        let long = "a".repeat(63);
        let domain = ["a"; 127].join(".");
        for key in ["app", "A", "a.b_c-d", "example.com/x", "1/2", &long] {
            assert!(is_qualified_name(key), "{key}");
        }
        assert!(is_qualified_name(&format!("{domain}/{long}")));
        for key in [
            "",
            "/",
            "a/",
            "/a",
            "a/b/c",
            "-a",
            "a-",
            "a b",
            "ä",
            "Example.com/x",
            "a..b/c",
            "-a.b/c",
            "a_b/c",
        ] {
            assert!(!is_qualified_name(key), "{key}");
        }
        assert!(!is_qualified_name(&format!("{long}a")));
        assert!(!is_qualified_name(&format!("{domain}a/x")));
    }

    #[test]
    fn annotation_keys_are_validated_in_lower_case() {
        for key in [
            "a",
            "A",
            "Example.COM/Name_1",
            "kubectl.kubernetes.io/last-applied-configuration",
            "\u{212a}",
            "\u{130}.io/x",
        ] {
            assert!(is_annotation_key(key), "{key}");
        }
        for key in [
            "",
            "a b",
            "A/",
            "/A",
            "A/B/C",
            "-A",
            "EXAMPLE..com/x",
            "ä",
            "Ä",
        ] {
            assert!(!is_annotation_key(key), "{key}");
        }
        assert!(!is_annotation_key(&"A".repeat(64)));
    }

    #[test]
    fn names_must_be_dns_names() {
        let long = "a".repeat(64);
        for name in ["web", "1", "web-0.a.b", &long, &["a"; 127].join(".")] {
            assert!(is_dns_subdomain(name), "{name}");
        }
        for name in [
            "",
            "Web",
            "web_0",
            ".a",
            "a.",
            "a..b",
            "-a",
            "a-",
            "a b",
            &"a".repeat(254),
        ] {
            assert!(!is_dns_subdomain(name), "{name}");
        }
        for name in ["default", "1", &long[1..]] {
            assert!(is_dns_label(name), "{name}");
        }
        for name in ["", "a.b", "A", &long] {
            assert!(!is_dns_label(name), "{name}");
        }
    }
}
