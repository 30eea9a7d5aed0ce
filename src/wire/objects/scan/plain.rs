//! Finds the objects in texts that are formatted like those of API servers and kubectl, several times faster than the
//! exact reader.

use std::rc::Rc;

use super::{At, DEEP, FIELDS, MEMBERS_MAX, ReadObject, Scanner};
use crate::wire::error::Violations;
use crate::wire::objects::found::{FoundField, Members};
use crate::wire::objects::lean_pod::{LeanPod, LeanPodReader};
use crate::wire::plain_json::Json;

/// The maximum depth of nested lists. Programs print at most two levels.
const LISTS_MAX: usize = 16;

/// Reads a text that is an object or a list of objects. `None` if the exact reader is needed.
pub(super) fn read<'a>(
    scanner: &mut Scanner<'_, 'a>,
    at: At,
    lean_pods: Option<LeanPodReader<'a>>,
) -> Option<()> {
    let mut reader = Reader {
        json: Json::of_similar_objects(scanner.text),
        scanner,
        lean_pods,
    };
    reader.item(at, "", LISTS_MAX)?;
    reader.json.end()
}

struct Reader<'r, 's, 'a> {
    scanner: &'r mut Scanner<'s, 'a>,
    json: Json<'a>,
    /// Reads pods, if only data for a plan is needed.
    lean_pods: Option<LeanPodReader<'a>>,
}

impl<'a> Reader<'_, '_, 'a> {
    /// Reads an object or a list of objects in a list of this kind.
    fn item(&mut self, at: At, list_kind: &str, lists: usize) -> Option<()> {
        let mut object = ReadObject::new(self.scanner.found.len());
        let mut others = Vec::new();
        let mut pod = self.lean_pods.is_some().then(LeanPod::default);
        self.json.begin(b'{')?;
        while self.json.has_next(b'}')? {
            let key = self.json.key()?;
            let Some(&known) = FIELDS.iter().find(|known| **known == key) else {
                self.json.value_of(key)?;
                others.push(key);
                continue;
            };
            if known == "items" {
                if std::mem::replace(&mut object.has_items, true) {
                    return None;
                }
                self.items(&at, &object.text("kind"), lists)?;
                continue;
            }
            if object.field(known).is_some() {
                return None;
            }
            let field = self.field(known, &object, list_kind, &mut pod)?;
            object.fields.push(field);
        }
        others.sort_unstable();
        if others.windows(2).any(|pair| pair[0] == pair[1]) {
            return None;
        }
        object.lean_pod = pod;
        self.scanner.object(at, object, Violations::default());
        (!self.scanner.is_full).then_some(())
    }

    /// Reads a field of an object. `pod` becomes `None` unless the object is a usual pod.
    fn field(
        &mut self,
        name: &'static str,
        object: &ReadObject<'a>,
        list_kind: &str,
        pod: &mut Option<LeanPod<'a>>,
    ) -> Option<FoundField<'a>> {
        let is_deep = DEEP.contains(&name) && self.json.peek()? == b'{';
        let (text, members) = match is_deep {
            true => match self.lean_field(name, object, list_kind, pod) {
                Some(text) => (text, None),
                None => {
                    let (text, members) = self.json.members(MEMBERS_MAX)?;
                    (text, Some(Members::from(members)))
                }
            },
            false => {
                let text = self.json.value_of(name)?;
                // Fields that are read must be objects.
                if DEEP.contains(&name) && text != "null" {
                    *pod = None;
                }
                (text, None)
            }
        };
        Some(FoundField {
            name,
            text,
            members,
        })
    }

    /// Reads a field of a pod, and returns its text. `None` if it must be read otherwise.
    fn lean_field(
        &mut self,
        name: &str,
        object: &ReadObject<'a>,
        list_kind: &str,
        pod: &mut Option<LeanPod<'a>>,
    ) -> Option<&'a str> {
        let (reader, read) = (self.lean_pods.as_mut()?, pod.as_mut()?);
        let is_pod = match &*object.text("kind") {
            "" => list_kind == "PodList",
            kind => kind == "Pod",
        };
        let text = is_pod.then(|| self.json.attempt(|json| reader.read(name, json, read)));
        let text = text.flatten();
        if text.is_none() {
            *pod = None;
        }
        text
    }

    fn items(&mut self, at: &At, kind: &str, lists: usize) -> Option<()> {
        if self.json.peek()? == b'n' {
            return self.json.value().map(|_| ());
        }
        let lists = lists.checked_sub(1)?;
        let list: Rc<str> = Rc::from(format!("{at}.items"));
        let mut index = 0;
        self.json.begin(b'[')?;
        while self.json.has_next(b']')? {
            let at = At {
                list: Rc::clone(&list),
                index,
            };
            self.item(at, kind, lists)?;
            index += 1;
        }
        Some(())
    }
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
            {"kind":"Pod","spec":{"containers":[{"env":[{"name":"a","value":"1"}],"ports":[{"containerPort":80}]},
                {"env":[{"name":"b","value":"2"}],"ports":[{"containerPort":80}]}]}},
            {"kind":"Pod","spec":{"containers":[{"env":[{"name":"a","value":"1"}],"ports":[{"containerPort":81}]},
                {"env":[{"name":"b","value":"2"}],"ports":[{"containerPort":80}]}]}},
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
        found(text, |scanner, at| read(scanner, at, None).is_some())
    }

    fn exact(text: &str) -> Option<(Vec<Found<'_>>, bool)> {
        found(text, |scanner, at| exact::read(scanner, at).is_ok())
    }

    #[test]
    fn plain_reader_agrees_with_the_exact_reader() {
        let plain_text = TEXT.replace(r#""items":[1,2],"#, "");
        let (all, is_continued) = plain(&plain_text).unwrap();
        assert_eq!((all.len(), is_continued), (6, false));
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
