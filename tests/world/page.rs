//! Parts of the documentation that tests write from the code.

use std::path::Path;
use std::sync::Mutex;

/// Two tests may write parts of the same page.
static WRITING: Mutex<()> = Mutex::new(());

/// Checks that a page has a text between `<!-- NAME: written by COMMAND -->` and `<!-- NAME ends -->`. `UPDATE_GOLDEN=1`
/// writes it there.
///
/// # Panics
///
/// If the page has no such part, or another text in it.
pub fn check(page: &str, name: &str, expected: &str) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let _writing = WRITING.lock().unwrap();
    let text = std::fs::read_to_string(root.join(page)).unwrap();
    let (begin, end) = (
        format!("<!-- {name}: written by "),
        format!("<!-- {name} ends -->"),
    );
    let part = text.split_once(&begin).and_then(|(before, rest)| {
        let (command, rest) = rest.split_once("-->\n")?;
        let (part, after) = rest.split_once(&end)?;
        Some((before, command, part, after))
    });
    let (before, command, part, after) =
        part.unwrap_or_else(|| panic!("{page} has no part {name}"));
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        let text = format!("{before}{begin}{command}-->\n{expected}{end}{after}");
        std::fs::write(root.join(page), text).unwrap();
    } else {
        assert!(
            part == expected,
            "{page}: the part {name} must be as UPDATE_GOLDEN=1 writes it:\n{expected}"
        );
    }
}

/// A table in Markdown.
#[must_use]
pub fn table(headers: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let headers: Vec<_> = headers.iter().map(|&header| header.to_owned()).collect();
    let rule = vec!["---".to_owned(); headers.len()];
    let rows = rows.into_iter().map(|row| line(&row));
    [line(&headers), line(&rule)]
        .into_iter()
        .chain(rows)
        .collect()
}
