//! Finds the objects in JSON texts. Of each only its kind and the texts of its fields are taken, so that what is odd about
//! one that is not selected refuses nothing.

use std::borrow::Cow;
use std::fmt;
use std::rc::Rc;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::OBJECTS_MAX;
use super::found::{Found, FoundField, MembersSeed, ObjectText, TYPICAL_FIELDS, string};
use super::key::{DUPLICATE_KEY, Key};
use super::transcode::syntax;
use crate::wire::error::{Error, Reason, Violations};

/// Fields of an object or a list that are taken.
const FIELDS: [&str; 25] = [
    "apiVersion",
    "kind",
    "metadata",
    "spec",
    "status",
    "items",
    // Of a ConfigMap or Secret.
    "data",
    "binaryData",
    "immutable",
    // Of an Event.
    "involvedObject",
    "reason",
    "message",
    "type",
    "count",
    "firstTimestamp",
    "lastTimestamp",
    "eventTime",
    "series",
    "source",
    "reportingComponent",
    "reportingInstance",
    "action",
    "related",
    // Of a ControllerRevision.
    "revision",
    // Of a watch event.
    "object",
];

/// Fields that say which object it is.
const IDENTITY: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// Fields that are read one level deeper: only a part of what is in them is ever needed.
const DEEP: [&str; 3] = ["metadata", "spec", "status"];

/// No object of Kubernetes has as many fields. What has more is read where it is needed, and takes no memory before.
const MEMBERS_MAX: usize = 256;

/// The field that the texts are in.
const LIST: &str = "snapshot.objects_json";

/// The path within the first text, of a path that [`scan`] has reported.
pub(super) fn path_in_text(field: &str) -> &str {
    let path = field.strip_prefix(LIST);
    path.and_then(|path| path.strip_prefix("[0]"))
        .unwrap_or(field)
}

/// Finds all objects of one text, which is the entry `index` of the field. Returns whether a list in it is a page of one that
/// goes on.
pub(crate) fn scan<'a>(
    index: usize,
    bytes: &'a [u8],
    found: &mut Vec<Found<'a>>,
    violations: &mut Violations,
) -> Result<bool, Error> {
    scan_field(LIST, index, bytes, found, violations)
}

/// [`scan`] for the texts of another field.
pub(crate) fn scan_field<'a>(
    field: &'static str,
    index: usize,
    bytes: &'a [u8],
    found: &mut Vec<Found<'a>>,
    violations: &mut Violations,
) -> Result<bool, Error> {
    let list: Rc<str> = Rc::from(field);
    let place = format_args!("{list}[{index}]").to_string();
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => {
            let description = format_args!("byte {}: is not UTF-8", error.valid_up_to());
            violations.add(place, Reason::InvalidUtf8, description);
            return Ok(false);
        }
    };
    let mut json = serde_json::Deserializer::from_str(text);
    let mut is_continued = false;
    let mut scanner = Scanner {
        text,
        found,
        violations,
        is_full: false,
        is_continued: &mut is_continued,
    };
    let at = At { list, index };
    let read = Item {
        scanner: &mut scanner,
        at,
    }
    .deserialize(&mut json);
    if scanner.is_full {
        return Err(Error::TooLarge {
            what: field,
            unit: "objects",
            count: OBJECTS_MAX + 1,
            max: OBJECTS_MAX,
        });
    }
    let end = read.and_then(|()| json.end());
    if let Err(error) = end {
        let (reason, description) = syntax(&error);
        let description = match &*description {
            "trailing characters" => "more than one JSON document: each needs an entry of its own",
            other => other,
        };
        let byte = offset(text, &error);
        violations.add(place, reason, format_args!("byte {byte}: {description}"));
    }
    Ok(is_continued)
}

/// The offset of an error in a text.
fn offset(text: &str, error: &serde_json::Error) -> usize {
    if error.is_eof() {
        return text.len();
    }
    let lines = text
        .split_inclusive('\n')
        .take(error.line().saturating_sub(1));
    let start: usize = lines.map(str::len).sum();
    (start + error.column().saturating_sub(1)).min(text.len())
}

struct Scanner<'s, 'a> {
    text: &'a str,
    found: &'s mut Vec<Found<'a>>,
    violations: &'s mut Violations,
    is_full: bool,
    /// Whether a list is a page of one that goes on.
    is_continued: &'s mut bool,
}

/// The position of an object in its list.
#[derive(Clone, Debug)]
struct At {
    list: Rc<str>,
    index: usize,
}

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}[{}]", self.list, self.index)
    }
}

/// A value that is to be an object or a list of objects.
struct Item<'t, 's, 'a> {
    scanner: &'t mut Scanner<'s, 'a>,
    at: At,
}

impl Item<'_, '_, '_> {
    fn wrong(self, reason: Reason, description: impl fmt::Display) {
        let Self { scanner, at } = self;
        scanner.violations.add(at, reason, description);
    }

    fn not_an_object<E>(self) -> Result<(), E> {
        self.wrong(Reason::WrongType, "must be an object or a List of objects");
        Ok(())
    }
}

impl<'a> DeserializeSeed<'a> for Item<'_, '_, 'a> {
    type Value = ();

    fn deserialize<D: Deserializer<'a>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_any(self)
    }
}

impl<'a> Visitor<'a> for Item<'_, '_, 'a> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        self.not_an_object()
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        self.not_an_object()
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        self.not_an_object()
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        self.not_an_object()
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        self.not_an_object()
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        self.not_an_object()
    }

    fn visit_seq<A: SeqAccess<'a>>(self, mut items: A) -> Result<(), A::Error> {
        while items.next_element::<IgnoredAny>()?.is_some() {}
        self.not_an_object()
    }

    fn visit_map<A: MapAccess<'a>>(self, mut map: A) -> Result<(), A::Error> {
        let mut fields: Vec<FoundField<'a>> = Vec::with_capacity(TYPICAL_FIELDS);
        let mut others = Vec::new();
        let before = self.scanner.found.len();
        let mut has_items = false;
        let mut faults = Violations::default();
        let mut twice = None;
        while let Some(key) = map.next_key_seed(Key)? {
            let Some(&known) = FIELDS.iter().find(|known| **known == key) else {
                map.next_value::<IgnoredAny>()?;
                others.push(key);
                continue;
            };
            if known == "items" {
                if has_items {
                    twice = Some(Cow::Borrowed(known));
                }
                has_items = true;
                let items = Items {
                    scanner: Scanner {
                        text: self.scanner.text,
                        found: &mut *self.scanner.found,
                        violations: &mut faults,
                        is_full: false,
                        is_continued: &mut *self.scanner.is_continued,
                    },
                    list: Rc::from(format!("{}.items", self.at)),
                };
                if map.next_value_seed(items)? {
                    self.scanner.is_full = true;
                }
                continue;
            }
            if fields.iter().any(|earlier| earlier.name == known) {
                twice = Some(Cow::Borrowed(known));
            }
            let deep = DEEP.contains(&known).then_some(&key);
            let object = deep.and_then(|key| ObjectText::after(key, self.scanner.text));
            fields.push(match object {
                Some(object) => {
                    let (members, count) = map.next_value_seed(MembersSeed(MEMBERS_MAX))?;
                    FoundField {
                        name: known,
                        text: object.up_to_end_of(&members),
                        members: (count <= MEMBERS_MAX).then_some(members),
                    }
                }
                None => {
                    let value: &'a RawValue = map.next_value()?;
                    FoundField {
                        name: known,
                        text: value.get(),
                        members: None,
                    }
                }
            });
        }
        others.sort_unstable();
        let twice = twice.or_else(|| {
            let pair = others.windows(2).find(|pair| pair[0] == pair[1])?;
            Some(pair[0].clone())
        });
        let text = |name: &str| {
            let field = fields.iter().find(|field| field.name == name);
            field
                .and_then(|field| string(field.text))
                .unwrap_or_default()
        };
        let (api_version, kind) = (text("apiVersion"), text("kind"));
        let is_list = has_items && (kind.ends_with("List") || kind.is_empty());
        // Who can be taken for another object may not be a stranger. What else is odd matters if the object is selected.
        if let Some(key) = twice
            .as_deref()
            .filter(|key| is_list || IDENTITY.contains(key))
        {
            let field = format!("{}[{key:?}]", self.at);
            self.scanner
                .violations
                .add(field, Reason::DuplicateKey, DUPLICATE_KEY);
            return Ok(());
        }
        if !is_list {
            self.scanner.found.truncate(before);
        }
        let refused = match (&*api_version, &*kind) {
            ("v1", "Status") => {
                Some("is a Status, the answer to a call that failed or deleted something")
            }
            (_, "Table") => Some("is a Table, as people read it: ask for JSON with -o json"),
            (_, "WatchEvent") => Some("is a watch event, and not an object"),
            (_, "") if fields.iter().any(|field| field.name == "object") => {
                Some("is a watch event, and not an object: send what is in its field object")
            }
            _ => None,
        };
        if let Some(refused) = refused {
            self.wrong(Reason::WrongKind, refused);
            return Ok(());
        }
        if is_list {
            self.scanner.violations.extend(faults);
            let metadata = fields.iter().find(|field| field.name == "metadata");
            let metadata = metadata.and_then(FoundField::members);
            *self.scanner.is_continued |=
                metadata.is_some_and(|it| it.text("continue").is_some_and(|it| !it.is_empty()));
            let of = kind.strip_suffix("List").unwrap_or_default();
            for item in &mut self.scanner.found[before..] {
                if item.kind.is_empty() && !item.is_typed_by_list {
                    item.is_typed_by_list = !of.is_empty();
                    item.kind = Cow::Owned(of.to_owned());
                    item.api_version = api_version.clone();
                }
            }
            // Those of a List without kind.
            let Scanner {
                found, violations, ..
            } = &mut *self.scanner;
            for item in found.extract_if(before.., |item| item.kind.is_empty()) {
                let field = format!("{}[{}].kind", item.list, item.index);
                let description = "is required: neither the object nor its List has one";
                violations.add(field, Reason::Required, description);
            }
            return Ok(());
        }
        if self.scanner.found.len() >= OBJECTS_MAX {
            self.scanner.is_full = true;
            return Ok(());
        }
        let Self { scanner, at } = self;
        scanner.found.push(Found {
            list: at.list,
            index: at.index,
            api_version,
            kind,
            fields,
            is_typed_by_list: false,
            duplicate_key: twice,
        });
        Ok(())
    }
}

/// The items of a list. Whether it is one is only known at the end of the object around it.
struct Items<'s, 'a> {
    scanner: Scanner<'s, 'a>,
    list: Rc<str>,
}

impl<'a> DeserializeSeed<'a> for Items<'_, 'a> {
    /// Whether there are too many.
    type Value = bool;

    fn deserialize<D: Deserializer<'a>>(self, json: D) -> Result<bool, D::Error> {
        json.deserialize_any(self)
    }
}

impl Items<'_, '_> {
    fn not_a_list<E>(self) -> Result<bool, E> {
        let Self { scanner, list } = self;
        scanner
            .violations
            .add(list, Reason::WrongType, "must be a list");
        Ok(false)
    }
}

impl<'a> Visitor<'a> for Items<'_, 'a> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_unit<E>(self) -> Result<bool, E> {
        Ok(false)
    }

    fn visit_bool<E>(self, _: bool) -> Result<bool, E> {
        self.not_a_list()
    }

    fn visit_i64<E>(self, _: i64) -> Result<bool, E> {
        self.not_a_list()
    }

    fn visit_u64<E>(self, _: u64) -> Result<bool, E> {
        self.not_a_list()
    }

    fn visit_f64<E>(self, _: f64) -> Result<bool, E> {
        self.not_a_list()
    }

    fn visit_str<E>(self, _: &str) -> Result<bool, E> {
        self.not_a_list()
    }

    fn visit_map<A: MapAccess<'a>>(self, mut map: A) -> Result<bool, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        self.not_a_list()
    }

    fn visit_seq<A: SeqAccess<'a>>(mut self, mut items: A) -> Result<bool, A::Error> {
        let mut index = 0;
        loop {
            let item = Item {
                scanner: &mut self.scanner,
                at: At {
                    list: Rc::clone(&self.list),
                    index,
                },
            };
            if items.next_element_seed(item)?.is_none() {
                return Ok(self.scanner.is_full);
            }
            index += 1;
        }
    }
}
