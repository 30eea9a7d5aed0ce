//! Finds the objects in texts that are formatted like those of API servers and kubectl, several times faster than the
//! exact reader.

use std::rc::Rc;

use super::{At, DEEP, FIELDS, MEMBERS_MAX, ReadObject, Scanner};
use crate::wire::error::Violations;
use crate::wire::objects::found::{FoundField, Members};
use crate::wire::plain_json::Json;

/// The maximum depth of nested lists. Programs print at most two levels.
const LISTS_MAX: usize = 16;

/// Reads a text that is an object or a list of objects. `None` if the exact reader is needed.
pub(super) fn read(scanner: &mut Scanner<'_, '_>, at: At) -> Option<()> {
    let mut json = Json::new(scanner.text);
    item(scanner, &mut json, at, LISTS_MAX)?;
    json.end()
}

fn item<'a>(
    scanner: &mut Scanner<'_, 'a>,
    json: &mut Json<'a>,
    at: At,
    lists: usize,
) -> Option<()> {
    let mut object = ReadObject::new(scanner.found.len());
    let mut others = Vec::new();
    json.begin(b'{')?;
    while json.has_next(b'}')? {
        let key = json.key()?;
        let Some(&known) = FIELDS.iter().find(|known| **known == key) else {
            json.value()?;
            others.push(key);
            continue;
        };
        if known == "items" {
            if std::mem::replace(&mut object.has_items, true) {
                return None;
            }
            items(scanner, json, &at, lists)?;
            continue;
        }
        if object.field(known).is_some() {
            return None;
        }
        let is_deep = DEEP.contains(&known) && json.peek()? == b'{';
        object.fields.push(match is_deep {
            true => {
                let (text, members) = json.members(MEMBERS_MAX)?;
                FoundField {
                    name: known,
                    text,
                    members: Some(Members::from(members)),
                }
            }
            false => FoundField {
                name: known,
                text: json.value()?,
                members: None,
            },
        });
    }
    others.sort_unstable();
    if others.windows(2).any(|pair| pair[0] == pair[1]) {
        return None;
    }
    scanner.object(at, object, Violations::default());
    (!scanner.is_full).then_some(())
}

fn items<'a>(
    scanner: &mut Scanner<'_, 'a>,
    json: &mut Json<'a>,
    at: &At,
    lists: usize,
) -> Option<()> {
    if json.peek()? == b'n' {
        return json.value().map(|_| ());
    }
    let lists = lists.checked_sub(1)?;
    let list: Rc<str> = Rc::from(format!("{at}.items"));
    let mut index = 0;
    json.begin(b'[')?;
    while json.has_next(b']')? {
        let at = At {
            list: Rc::clone(&list),
            index,
        };
        item(scanner, json, at, lists)?;
        index += 1;
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::super::exact;
    use super::*;
    use crate::wire::objects::found::Found;
    use crate::wire::random::Random;

    const TEXT: &str = r#"{"apiVersion":"v1","kind":"List","metadata":{"resourceVersion":"","continue":""},
        "items": [
            {"kind":"List","items":null, "apiVersion" : "v1"},
            {"apiVersion":"v1","kind":"PodList","items":[{"metadata":{},"x":{}},{"metadata":{"name":"b"}}]},
            {"apiVersion":"v1","kind":"Pod","metadata":{"name":"a\"\u00fc","labels":{"a":"ü\\"},"ownerReferences":[
                {"uid":"u","controller":true}, {"uid":"v"}]},
                "spec":{"a":[1,-0.5,2e+7,[],{},[{}],true,false,null],"b":""},"status":{"phase":"Running"}},
            {"kind":"ConfigMap","apiVersion":"v1","data":{"k":"v"},"items":[1,2],"metadata":null}
        ]}"#;

    /// The objects that a reader finds in a text. `None` if it reports an error.
    fn found<'a>(
        text: &'a str,
        read: impl FnOnce(&mut Scanner<'_, 'a>, At) -> bool,
    ) -> Option<(Vec<Found<'a>>, bool)> {
        let mut found = Vec::new();
        let mut violations = Violations::default();
        let mut is_continued = false;
        let mut scanner = Scanner {
            text,
            found: &mut found,
            violations: &mut violations,
            is_full: false,
            is_continued: &mut is_continued,
        };
        let at = At {
            list: Rc::from("texts"),
            index: 0,
        };
        let is_read = read(&mut scanner, at);
        (is_read && violations.is_empty()).then_some((found, is_continued))
    }

    fn plain(text: &str) -> Option<(Vec<Found<'_>>, bool)> {
        found(text, |scanner, at| read(scanner, at).is_some())
    }

    fn exact(text: &str) -> Option<(Vec<Found<'_>>, bool)> {
        found(text, |scanner, at| exact::read(scanner, at).is_ok())
    }

    #[test]
    fn plain_reader_agrees_with_the_exact_reader() {
        let plain_text = TEXT.replace(r#""items":[1,2],"#, "");
        let (all, is_continued) = plain(&plain_text).unwrap();
        assert_eq!((all.len(), is_continued), (4, false));
        let mut random = Random(1);
        let mut below = |end: usize| random.below(end);
        let marks = b"\"\\{}[]:,0eE.+-tfnu \n\x01a";
        let mut read = 0;
        for _ in 0..40_000 {
            let mut bytes = plain_text.clone().into_bytes();
            for _ in 0..below(3) {
                let at = below(bytes.len());
                match below(4) {
                    0 => bytes[at] = marks[below(marks.len())],
                    1 => bytes.insert(at, marks[below(marks.len())]),
                    2 => bytes.truncate(at + 1),
                    _ => _ = bytes.remove(at),
                }
            }
            let Ok(text) = str::from_utf8(&bytes) else {
                continue;
            };
            if let Some(found) = plain(text) {
                read += 1;
                let expected = exact(text).unwrap();
                assert_eq!(format!("{found:?}"), format!("{expected:?}"), "{text}");
            }
        }
        assert!(read > 10_000, "{read}");
        // Both readers ignore the items of an object that is not a list, but the plain reader supports only items that
        // are objects.
        assert!(plain(TEXT).is_none());
        assert!(exact(TEXT).is_some());
    }
}
