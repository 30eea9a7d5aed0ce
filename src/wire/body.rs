//! The objects in a text that kubectl or a person sent: JSON or YAML. Other texts are named.

use super::error::{Error, Reason, quoted};
use super::objects::FIELD;
use super::yaml;

/// The maximum size of YAML in bytes: it takes much longer to read than JSON.
pub(crate) const YAML_BYTES_MAX: usize = 4 << 20;

/// How kubectl begins its messages. It prints them to standard error, and some shells redirect both.
const MESSAGES: [&str; 6] = [
    "No resources found",
    "Error from server",
    "error: ",
    "Unable to connect to the server",
    "The connection to the server ",
    "Unexpected error: ",
];

/// Whether a text is read as YAML, and not as JSON.
pub fn is_yaml(text: &[u8]) -> bool {
    let first = text.iter().find(|byte| !byte.is_ascii_whitespace());
    !matches!(first, Some(b'{' | b'['))
}

/// The texts of the objects in a body, as JSON.
///
/// # Errors
///
/// [`Error::InvalidArgument`] if the body is not JSON or YAML of objects, [`Error::TooLarge`] for more than 4 MiB of YAML.
pub fn objects_of_body(body: &[u8]) -> Result<Vec<String>, Error> {
    let violation = |reason, description: &str| {
        Error::violation(
            format_args!("{FIELD}[0]"),
            reason,
            format_args!("{description}"),
        )
    };
    let text = str::from_utf8(body).map_err(|error| {
        let description = format!("byte {}: is not UTF-8", error.valid_up_to());
        violation(Reason::InvalidUtf8, &description)
    })?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if let Some(what) = unreadable(text) {
        return Err(violation(Reason::MalformedJson, &what));
    }
    if !is_yaml(text.as_bytes()) {
        return Ok(vec![text.to_owned()]);
    }
    if text.len() > YAML_BYTES_MAX {
        return Err(Error::TooLarge {
            what: "the body",
            unit: "bytes of YAML",
            count: text.len(),
            max: YAML_BYTES_MAX,
        });
    }
    let documents = yaml::to_json(text).map_err(|fault| {
        let column = fault.column.unwrap_or(1);
        let description = format!("YAML line {}, column {column}: {}", fault.line, fault.text);
        violation(Reason::MalformedJson, &description)
    })?;
    if documents.is_empty() {
        Err(violation(Reason::Required, "the body contains no objects"))
    } else {
        Ok(documents)
    }
}

/// Describes a text that is neither JSON nor YAML of objects. `None` for any other text.
pub fn unreadable(text: &str) -> Option<String> {
    let text = text.trim_start();
    if text.is_empty() {
        return Some("is empty: kubectl prints nothing if it fails".to_owned());
    }
    if !is_yaml(text.as_bytes()) {
        return None;
    }
    let line = text.lines().next().unwrap_or_default();
    if is_html(line) {
        let title = title(text).map_or_else(String::new, |title| format!(": {title}"));
        return Some(format!(
            "is HTML, for example the error page of a proxy{title}"
        ));
    }
    if MESSAGES.iter().any(|begin| line.starts_with(begin)) {
        return Some(format!("is a message of kubectl: {}", quoted(line)));
    }
    is_table(line).then(|| "is a table of kubectl: use kubectl get -o json".to_owned())
}

/// YAML may begin with the merge key `<<`.
fn is_html(line: &str) -> bool {
    let rest = line.strip_prefix('<');
    rest.is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_alphabetic() || "!?".contains(c)))
}

/// The title of a page, which often names the error.
fn title(text: &str) -> Option<String> {
    let lower = text.to_ascii_lowercase();
    let start = lower.find("<title>")? + "<title>".len();
    let end = start + lower[start..].find("</title>")?;
    Some(quoted(&text[start..end])).filter(|title| !title.is_empty())
}

/// Whether a line is the head of a table, for example "NAMESPACE   NAME   READY   UP-TO-DATE".
fn is_table(line: &str) -> bool {
    let is_head = |word: &str| {
        word.starts_with(|c: char| c.is_ascii_uppercase())
            && word
                .chars()
                .all(|c| c.is_ascii_uppercase() || "-()/".contains(c))
    };
    line.contains("  ") && line.split_whitespace().all(is_head)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_without_objects_are_described() {
        for (text, expected) in [
            ("", "is empty: kubectl prints nothing if it fails"),
            (" \n\n", "is empty: kubectl prints nothing if it fails"),
            (
                "<!DOCTYPE html>\n<html><head><TITLE>502 Bad\nGateway</TITLE>",
                "is HTML, for example the error page of a proxy: 502 Bad Gateway",
            ),
            (
                "<?xml version=\"1.0\"?>",
                "is HTML, for example the error page of a proxy",
            ),
            (
                "NAME   READY   UP-TO-DATE   AVAILABLE   AGE\nweb    3/3     3            3           5d\n",
                "is a table of kubectl: use kubectl get -o json",
            ),
            (
                "\nLAST SEEN   TYPE   REASON\n",
                "is a table of kubectl: use kubectl get -o json",
            ),
            (
                "No resources found in shop namespace.\n",
                "is a message of kubectl: No resources found in shop namespace.",
            ),
            (
                "error: You must be logged in\n",
                "is a message of kubectl: error: You must be logged in",
            ),
        ] {
            assert_eq!(unreadable(text).as_deref(), Some(expected), "{text}");
        }
        for text in [
            "{}",
            "a: 1",
            "# x",
            "---\n",
            "<<: *a",
            "A: 1",
            "- A  B",
            "NAME",
            "errors: 1",
        ] {
            assert_eq!(unreadable(text), None, "{text}");
        }
        let long = format!("error: {}", "é".repeat(400));
        assert!(unreadable(&long).is_some_and(|it| it.ends_with("é…")));
    }

    #[test]
    fn bodies_are_json_or_yaml() {
        let texts =
            |body: &str| objects_of_body(body.as_bytes()).map_err(|error| error.to_string());
        assert_eq!(texts(" {\"a\":1}"), Ok(vec![" {\"a\":1}".to_owned()]));
        assert_eq!(texts("\u{feff}[1]"), Ok(vec!["[1]".to_owned()]));
        let documents = texts("a: 1\n---\n- \"x\\ty\"\n- {b: yes, c: }\n").unwrap();
        assert_eq!(
            documents,
            ["{\"a\":1}", "[\"x\\ty\",{\"b\":true,\"c\":null}]"]
        );
        assert_eq!(
            texts("a: [1"),
            Err("snapshot.objects[0]: YAML line 1, column 4: unclosed bracket '['".to_owned())
        );
        assert_eq!(
            texts("# nothing\n"),
            Err("snapshot.objects[0]: the body contains no objects".to_owned())
        );
        let mut large = format!("a: 1\n#{}", "x".repeat(YAML_BYTES_MAX - 6));
        assert_eq!(large.len(), YAML_BYTES_MAX);
        assert_eq!(texts(&large), Ok(vec!["{\"a\":1}".to_owned()]));
        large.push('x');
        assert!(texts(&large).is_err_and(|it| it.contains("bytes of YAML exceed the limit")));
        let invalid = objects_of_body(b"a\xff").unwrap_err().to_string();
        assert_eq!(invalid, "snapshot.objects[0]: byte 1: is not UTF-8");
    }
}
