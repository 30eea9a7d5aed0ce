//! Matches texts with format strings that have named holes.

use super::Facts;
use crate::text::{NAME_MAX, one_line};

/// The texts of holes by name. The last one with a name applies.
pub(super) type Holes = Vec<(&'static str, String)>;

/// The parts of a pattern: a literal, and the hole before it, which the first part does not have.
pub(super) fn pieces(pattern: &str) -> impl Iterator<Item = (Option<&str>, &str)> {
    let mut pieces = pattern.split('<');
    let first = pieces.next().map(|literal| (None, literal));
    let others = pieces.filter_map(|piece| {
        let (hole, literal) = piece.split_once('>')?;
        Some((Some(hole), literal))
    });
    first.into_iter().chain(others)
}

/// Whether a pattern begins with a hole for any text.
pub(super) fn begins_with_text(pattern: &str) -> bool {
    let mut pieces = pieces(pattern);
    pieces.next().is_some_and(|(_, literal)| literal.is_empty())
        && pieces
            .next()
            .is_some_and(|(hole, _)| hole.is_some_and(|hole| hole.ends_with("...")))
}

/// The holes of a pattern, if it matches the whole text.
pub(super) fn matched(pattern: &'static str, text: &str) -> Option<Holes> {
    let (holes, _) = consume(pattern, text, true)?;
    Some(holes)
}

/// The text without a wrapper at its beginning, whose holes are added.
pub(super) fn without_beginning<'t>(
    wrapper: &'static str,
    text: &'t str,
    holes: &mut Holes,
) -> Option<&'t str> {
    let (own, rest) = consume(wrapper, text, false)?;
    holes.extend(own);
    Some(rest)
}

/// The text without an ending. One that ends in a hole begins at its first occurrence.
pub(super) fn without_ending<'t>(ending: &str, text: &'t str) -> Option<&'t str> {
    match ending.split_once('<') {
        Some((begin, _)) => text.split_once(begin).map(|(text, _)| text),
        None => text.strip_suffix(ending),
    }
}

/// Matches a pattern with the beginning of a text, or with the whole of it. Returns the holes, and the rest of the text.
///
/// Each hole ends at the first occurrence of the literal after it. If this does not match, no later one does: the holes that
/// follow would have even less text.
fn consume<'t>(pattern: &'static str, text: &'t str, is_whole: bool) -> Option<(Holes, &'t str)> {
    let mut holes = Holes::new();
    let mut rest = text;
    let mut pieces = pieces(pattern).peekable();
    while let Some((hole, literal)) = pieces.next() {
        let is_last = is_whole && pieces.peek().is_none();
        let Some(hole) = hole else {
            rest = rest.strip_prefix(literal)?;
            continue;
        };
        let (value, after) = if is_last {
            (rest.strip_suffix(literal)?, "")
        } else {
            rest.split_once(literal)?
        };
        let name = match hole.strip_suffix("...") {
            Some(name) => name,
            None if value.is_empty() || value.contains(char::is_whitespace) => return None,
            None => hole,
        };
        holes.push((name, value.to_owned()));
        rest = after;
    }
    (!is_whole || rest.is_empty()).then_some((holes, rest))
}

/// The text of a hole.
pub(super) fn hole<'h>(holes: &'h Holes, name: &str) -> Option<&'h str> {
    let mut named = holes.iter().rev().filter(|(other, _)| *other == name);
    named.next().map(|(_, text)| text.as_str())
}

/// A text with its holes filled.
pub(super) fn fill(format: &str, holes: &Holes, facts: &Facts) -> String {
    let mut text = String::new();
    for (name, literal) in pieces(format) {
        match name {
            None => {}
            Some("namespace") => text.push_str(&facts.namespace),
            Some("pod") => text.push_str(&facts.pod),
            Some("container") => text.push_str(&facts.container),
            Some("node") => text.push_str(&facts.node),
            Some("probe") => text.push_str(&facts.probe),
            Some("log") => text.push_str(&facts.log),
            Some(name) => {
                text.push_str(&one_line(hole(holes, name).unwrap_or_default(), NAME_MAX));
            }
        }
        text.push_str(literal);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holes_are_words_or_texts() {
        for (pattern, text, expected) in [
            ("a <b> c", "a word c", Some(vec!["word"])),
            ("a <b> c", "a two words c", None),
            ("a <b...> c", "a two words c", Some(vec!["two words"])),
            ("a <b...> c", "a  c", Some(vec![""])),
            ("a <b> c", "a  c", None),
            ("a <b...> c", "a word c and more", None),
            ("a <b...> c", "an a word c", None),
            (
                "exec: \"<x...>\": <y...>",
                "exec: \"a b\": no",
                Some(vec!["a b", "no"]),
            ),
            ("<x>: not found", "r/x:1: not found", Some(vec!["r/x:1"])),
            ("<x>: not found", "a b: not found", None),
            ("plain", "plain", Some(vec![])),
            ("plain", "plainly", None),
            ("<x...>ü", "öü", Some(vec!["ö"])),
        ] {
            let holes = matched(pattern, text);
            let holes = holes.map(|it| it.into_iter().map(|(_, text)| text).collect::<Vec<_>>());
            let expected = expected.map(|it| it.into_iter().map(str::to_owned).collect());
            assert_eq!(holes, expected, "{pattern} {text}");
        }
    }

    #[test]
    fn endings_are_removed() {
        assert_eq!(without_ending(": unknown", "a: unknown"), Some("a"));
        assert_eq!(without_ending(": unknown", "a: unknown error"), None);
        assert_eq!(
            without_ending("; also: <x...>", "a; also: b; also: c"),
            Some("a")
        );
    }
}
