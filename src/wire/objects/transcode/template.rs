//! Transcodes pod templates to `google.protobuf.Struct`.

use std::fmt;

use prost::encoding::{WireType, encode_varint};
use rollplan_core::template::Number;
use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};

use super::{Step, Transcoder};
use crate::wire::objects::key::Key;
use crate::wire::tree::EXACT_INTEGER;

/// Writes the entries of a `google.protobuf.Struct`.
pub(super) fn template_map<'de, A: MapAccess<'de>>(
    to: &mut Transcoder<'de>,
    mut map: A,
) -> Result<(), A::Error> {
    let first = to.keys.len();
    while let Some(key) = map.next_key_seed(Key)? {
        let start = to.open(1);
        to.bytes(1, key.as_bytes());
        to.path.push(Step::Key(key.clone()));
        to.keys.push(key);
        let value = to.open(2);
        map.next_value_seed(TemplateValue(&mut *to))?;
        to.close(value);
        to.close(start);
        to.path.pop();
    }
    to.check_keys(first)
}

/// A value of a template, written as a `google.protobuf.Value`.
struct TemplateValue<'t, 'de>(&'t mut Transcoder<'de>);

impl TemplateValue<'_, '_> {
    fn number(self, value: f64) {
        self.0.key(2, WireType::SixtyFourBit);
        self.0.out.extend_from_slice(&value.to_le_bytes());
    }
}

impl<'de> DeserializeSeed<'de> for TemplateValue<'_, 'de> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for TemplateValue<'_, 'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        self.0.key(1, WireType::Varint);
        self.0.out.push(0);
        Ok(())
    }

    fn visit_bool<E>(self, value: bool) -> Result<(), E> {
        self.0.key(4, WireType::Varint);
        self.0.out.push(u8::from(value));
        Ok(())
    }

    fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<(), E> {
        if value.unsigned_abs() <= Number::MAX_SAFE.unsigned_abs() {
            self.number(value as f64);
        } else {
            self.0.key(EXACT_INTEGER, WireType::Varint);
            encode_varint(value as u64, &mut self.0.out);
        }
        Ok(())
    }

    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<(), E> {
        match i64::try_from(value) {
            Ok(value) => self.visit_i64(value),
            // Larger than any integer in Kubernetes. The reader of templates refuses it.
            Err(_) => {
                self.number(value as f64);
                Ok(())
            }
        }
    }

    fn visit_f64<E>(self, value: f64) -> Result<(), E> {
        self.number(value);
        Ok(())
    }

    fn visit_str<E>(self, text: &str) -> Result<(), E> {
        self.0.bytes(3, text.as_bytes());
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let Self(to) = self;
        let list = to.open(6);
        let mut index = 0;
        loop {
            let before = to.out.len();
            to.path.push(Step::Index(index));
            let start = to.open(1);
            let item = items.next_element_seed(TemplateValue(&mut *to))?;
            to.path.pop();
            if item.is_none() {
                to.out.truncate(before);
                break;
            }
            to.close(start);
            index += 1;
        }
        to.close(list);
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<(), A::Error> {
        let Self(to) = self;
        let start = to.open(5);
        template_map(to, map)?;
        to.close(start);
        Ok(())
    }
}
