//! Finds the objects in any JSON text, and reports the positions of errors.

use std::borrow::Cow;
use std::fmt;
use std::rc::Rc;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::{At, DEEP, FIELDS, MEMBERS_MAX, ReadObject, Scanner};
use crate::wire::error::{Reason, Violations};
use crate::wire::objects::found::{FoundField, MembersSeed, ObjectText};
use crate::wire::objects::key::Key;

/// Reads a text that is an object or a list of objects.
pub(super) fn read<'a>(scanner: &mut Scanner<'_, 'a>, at: At) -> Result<(), serde_json::Error> {
    let mut json = serde_json::Deserializer::from_str(scanner.text);
    Item { scanner, at }.deserialize(&mut json)?;
    json.end()
}

/// A value that must be an object or a list of objects.
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
        let mut object = ReadObject::new(self.scanner.found.len());
        let mut others = Vec::new();
        let mut faults = Violations::default();
        let mut twice = None;
        while let Some(key) = map.next_key_seed(Key)? {
            let Some(&known) = FIELDS.iter().find(|known| **known == key) else {
                map.next_value::<IgnoredAny>()?;
                others.push(key);
                continue;
            };
            if known == "items" {
                if object.has_items {
                    twice = Some(Cow::Borrowed(known));
                }
                object.has_items = true;
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
            if object.field(known).is_some() {
                twice = Some(Cow::Borrowed(known));
            }
            let deep = DEEP.contains(&known).then_some(&key);
            let text = deep.and_then(|key| ObjectText::after(key, self.scanner.text));
            object.fields.push(match text {
                Some(text) => {
                    let (members, count) = map.next_value_seed(MembersSeed(MEMBERS_MAX))?;
                    FoundField {
                        name: known,
                        text: text.up_to_end_of(&members),
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
        object.duplicate_key = twice.or_else(|| {
            let pair = others.windows(2).find(|pair| pair[0] == pair[1])?;
            Some(pair[0].clone())
        });
        let Self { scanner, at } = self;
        scanner.object(at, object, faults);
        Ok(())
    }
}

/// The items of a list. Whether the enclosing object is a list is known only at its end.
struct Items<'s, 'a> {
    scanner: Scanner<'s, 'a>,
    list: Rc<str>,
}

impl<'a> DeserializeSeed<'a> for Items<'_, 'a> {
    /// Whether there are too many objects.
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
