//! Transcodes Kubernetes JSON to messages of the contract.
//!
//! This takes one pass over the text, without an intermediate tree. The result is the message that a client with
//! generated types would have sent, so later code need not distinguish them.

mod plain;
pub(super) mod shape;
mod template;

use std::borrow::Cow;
use std::fmt::{self, Write as _};

use prost::encoding::{WireType, encode_key, encode_varint, encoded_len_varint};
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use self::shape::{Field, Json, Repeated, SHAPES, Seen};
use self::template::template_map;
use super::found::{FoundField, Members};
use super::key::{DUPLICATE_KEY, Key};
use super::time;
use crate::wire::error::Reason;

/// A segment of the path to a value.
#[derive(Clone, Debug)]
enum Step<'de> {
    Field(&'static str),
    Key(Cow<'de, str>),
    Index(usize),
}

/// An error in a value.
#[derive(Debug)]
pub(in crate::wire) struct Fault {
    /// The path within the object, for example ".spec.replicas".
    pub(in crate::wire) path: String,
    pub(in crate::wire) reason: Reason,
    pub(in crate::wire) description: String,
}

/// Transcodes JSON to messages.
#[derive(Debug, Default)]
pub(super) struct Transcoder<'de> {
    out: Vec<u8>,
    path: Vec<Step<'de>>,
    /// The keys of all open maps. Those of the innermost map are last.
    keys: Vec<Cow<'de, str>>,
    fault: Option<(Reason, Cow<'static, str>)>,
    /// Whether pod templates are kept as text instead of in the message.
    keeps_template: bool,
    template: Option<&'de str>,
}

/// A transcoded message.
#[derive(Debug)]
pub(super) struct Transcoded<'de> {
    pub(super) bytes: Vec<u8>,
    /// The text of the pod template, if it was kept.
    pub(super) template: Option<&'de str>,
}

// === impl Transcoder ===

impl<'de> Transcoder<'de> {
    pub(super) fn new(keeps_template: bool) -> Self {
        Self {
            keeps_template,
            ..Self::default()
        }
    }

    /// Writes the message with this full name from the fields of a JSON object.
    pub(super) fn message<'f>(
        mut self,
        name: &str,
        api_version: &str,
        kind: &str,
        fields: impl Iterator<Item = &'f FoundField<'de>>,
    ) -> Result<Transcoded<'de>, Fault>
    where
        'de: 'f,
    {
        let shape = SHAPES.named(name);
        // The first two fields of all objects in the contract. They may be those of the enclosing List.
        self.bytes(1, api_version.as_bytes());
        self.bytes(2, kind.as_bytes());
        for found in fields {
            let Some(field) = shape.and_then(|shape| shape.get(found.name)) else {
                continue;
            };
            self.path.push(Step::Field(&field.name));
            let read = match (&found.members, field.value) {
                (Some(members), Json::Message(shape)) => self.members(field, shape, members),
                _ => self.field(field, found.text),
            };
            if let Err(error) = read {
                return Err(self.into_fault(&error));
            }
            self.path.pop();
        }
        Ok(Transcoded {
            bytes: self.out,
            template: self.template,
        })
    }

    /// Writes the message with this full name with a single field. Paths of faults start at this field.
    pub(super) fn message_of_field(
        mut self,
        message: &str,
        name: &str,
        text: &'de str,
    ) -> Result<Vec<u8>, Fault> {
        let field = SHAPES.named(message).and_then(|shape| shape.get(name));
        match field.map_or(Ok(()), |field| self.field(field, text)) {
            Ok(()) => Ok(self.out),
            Err(error) => Err(self.into_fault(&error)),
        }
    }

    /// Writes a message field from the members of its JSON object. Members that the message does not have are skipped.
    fn members(
        &mut self,
        field: &Field,
        shape: usize,
        members: &Members<'de>,
    ) -> Result<(), serde_json::Error> {
        let start = self.open(field.number);
        let shape = SHAPES.at(shape);
        let mut seen = Seen::default();
        for (key, text) in members.iter() {
            let Some(inner) = shape.get(key) else {
                continue;
            };
            self.path.push(Step::Field(&inner.name));
            self.check_first(&mut seen, inner)?;
            match inner.value {
                Json::Template if self.keeps_template && text.starts_with('{') => {
                    self.template = Some(text);
                }
                _ => self.field(inner, text)?,
            }
            self.path.pop();
        }
        self.close(start);
        Ok(())
    }

    fn into_fault(self, error: &serde_json::Error) -> Fault {
        let mut path = String::new();
        for step in &self.path {
            _ = match step {
                Step::Field(name) => write!(path, ".{name}"),
                Step::Key(key) if is_identifier(key) => write!(path, ".{key}"),
                Step::Key(key) => write!(path, "[{key:?}]"),
                Step::Index(index) => write!(path, "[{index}]"),
            };
        }
        let (reason, description) = self.fault.unwrap_or_else(|| syntax(error));
        Fault {
            path,
            reason,
            description: description.into_owned(),
        }
    }

    fn field(&mut self, field: &'static Field, text: &'de str) -> Result<(), serde_json::Error> {
        let start = self.out.len();
        if self.plain_field(field, text).is_some() {
            return Ok(());
        }
        self.out.truncate(start);
        let writer = Value {
            to: self,
            field,
            repeated: field.repeated,
        };
        writer.deserialize(&mut serde_json::Deserializer::from_str(text))
    }

    /// Records a fault. The error is only used to stop reading.
    fn wrong<E: serde::de::Error>(
        &mut self,
        reason: Reason,
        text: impl Into<Cow<'static, str>>,
    ) -> E {
        self.fault = Some((reason, text.into()));
        E::custom("wrong")
    }

    fn key(&mut self, number: u32, wire_type: WireType) {
        encode_key(number, wire_type, &mut self.out);
    }

    fn bytes(&mut self, number: u32, bytes: &[u8]) {
        self.key(number, WireType::LengthDelimited);
        encode_varint(bytes.len() as u64, &mut self.out);
        self.out.extend_from_slice(bytes);
    }

    /// Starts a message field. Returns the argument for [`close`](Self::close).
    fn open(&mut self, number: u32) -> usize {
        self.key(number, WireType::LengthDelimited);
        self.out.push(0);
        self.out.len()
    }

    fn close(&mut self, start: usize) {
        let length = self.out.len() - start;
        if let Ok(short @ 0..0x80) = u8::try_from(length) {
            self.out[start - 1] = short;
            return;
        }
        // One byte was reserved for the length.
        let end = self.out.len();
        let more = encoded_len_varint(length as u64) - 1;
        self.out.resize(end + more, 0);
        self.out.copy_within(start..end, start + more);
        encode_varint(length as u64, &mut &mut self.out[start - 1..start + more]);
    }

    /// Refuses a field that occurs twice.
    fn check_first<E: serde::de::Error>(
        &mut self,
        seen: &mut Seen,
        field: &Field,
    ) -> Result<(), E> {
        match seen.add(field) {
            true => Ok(()),
            false => Err(self.wrong(Reason::DuplicateKey, DUPLICATE_KEY)),
        }
    }

    /// Refuses a map with a duplicate key. Its keys are those from index `first`.
    fn check_keys<E: serde::de::Error>(&mut self, first: usize) -> Result<(), E> {
        let keys = &mut self.keys[first..];
        // Kubernetes prints sorted keys, which need no search.
        if !keys.is_sorted_by(|key, next| key < next) {
            keys.sort_unstable();
            if let Some(twice) = keys.windows(2).find(|pair| pair[0] == pair[1]) {
                self.path.push(Step::Key(twice[0].clone()));
                return Err(self.wrong(Reason::DuplicateKey, DUPLICATE_KEY));
            }
        }
        self.keys.truncate(first);
        Ok(())
    }
}

/// The reason and description of a syntax error.
pub(super) fn syntax(error: &serde_json::Error) -> (Reason, Cow<'static, str>) {
    let text = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    let text = text.strip_suffix(&place).unwrap_or(&text);
    match text {
        "recursion limit exceeded" => (
            Reason::TooDeep,
            "too many levels of lists and objects".into(),
        ),
        text => (Reason::MalformedJson, text.to_owned().into()),
    }
}

fn is_identifier(key: &str) -> bool {
    let mut bytes = key.bytes();
    bytes.next().is_some_and(|byte| byte.is_ascii_alphabetic())
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// The value of a field, or an item of a list.
struct Value<'t, 'de> {
    to: &'t mut Transcoder<'de>,
    field: &'static Field,
    /// Whether a list or map is still expected.
    repeated: Repeated,
}

impl<'de> Value<'_, 'de> {
    fn wrong_type<E: serde::de::Error>(self) -> E {
        let (reason, text) = match (self.repeated, self.field.value) {
            (Repeated::List, _) => (Reason::WrongType, "must be a list"),
            (Repeated::Map, _) | (_, Json::Template | Json::Message(_)) => {
                (Reason::WrongType, "must be an object")
            }
            (_, Json::Text) => (Reason::WrongType, "must be a string"),
            (_, Json::Bool) => (Reason::WrongType, "must be true or false"),
            (_, Json::Integer(..)) => (
                Reason::WrongType,
                "must be an integer, without a fraction or an exponent",
            ),
            (_, Json::Time) => (
                Reason::WrongType,
                "must be a time of RFC 3339, for example \"2026-01-31T12:00:00Z\"",
            ),
            (_, Json::IntOrPercent) => (
                Reason::NotIntOrPercent,
                "must be a whole number, or a percentage, for example \"25%\"",
            ),
        };
        self.to.wrong(reason, text)
    }

    fn integer<E: serde::de::Error>(self, value: i128) -> Result<(), E> {
        let Self {
            to,
            field,
            repeated,
        } = self;
        match (repeated, field.value) {
            (Repeated::No, Json::Integer(min, max)) => {
                let exact = i64::try_from(value);
                let Some(value) = exact.ok().filter(|value| (min..=max).contains(value)) else {
                    let text = format!("is {value}, and must be between {min} and {max}");
                    return Err(to.wrong(Reason::OutOfRange, text));
                };
                to.key(field.number, WireType::Varint);
                encode_varint(value as u64, &mut to.out);
                Ok(())
            }
            (Repeated::No, Json::IntOrPercent) => {
                let start = to.open(field.number);
                to.key(2, WireType::SixtyFourBit);
                to.out.extend_from_slice(&(value as f64).to_le_bytes());
                to.close(start);
                Ok(())
            }
            _ => Err(Self {
                to,
                field,
                repeated,
            }
            .wrong_type()),
        }
    }
}

impl<'de> DeserializeSeed<'de> for Value<'_, 'de> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Value<'_, 'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    /// `null` is absent. In a list, it is the zero value, as in Kubernetes.
    fn visit_unit<E>(self) -> Result<(), E> {
        let Self {
            to,
            field,
            repeated,
        } = self;
        if field.repeated == Repeated::List && repeated == Repeated::No {
            to.bytes(field.number, &[]);
        }
        Ok(())
    }

    fn visit_bool<E: serde::de::Error>(self, value: bool) -> Result<(), E> {
        match (self.repeated, self.field.value) {
            (Repeated::No, Json::Bool) => {
                self.to.key(self.field.number, WireType::Varint);
                self.to.out.push(u8::from(value));
                Ok(())
            }
            _ => Err(self.wrong_type()),
        }
    }

    fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<(), E> {
        self.integer(value.into())
    }

    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<(), E> {
        self.integer(value.into())
    }

    fn visit_f64<E: serde::de::Error>(self, _: f64) -> Result<(), E> {
        Err(self.wrong_type())
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<(), E> {
        let Self {
            to,
            field,
            repeated,
        } = self;
        match (repeated, field.value) {
            (Repeated::No, Json::Text) => to.bytes(field.number, text.as_bytes()),
            (Repeated::No, Json::IntOrPercent) => {
                let start = to.open(field.number);
                to.bytes(3, text.as_bytes());
                to.close(start);
            }
            (Repeated::No, Json::Time) => {
                let Some(time) = time::parse(text) else {
                    return Err(Self {
                        to,
                        field,
                        repeated,
                    }
                    .wrong_type());
                };
                to.bytes(field.number, &prost::Message::encode_to_vec(&time));
            }
            _ => {
                return Err(Self {
                    to,
                    field,
                    repeated,
                }
                .wrong_type());
            }
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let Self {
            to,
            field,
            repeated,
        } = self;
        if repeated != Repeated::List {
            return Err(Self {
                to,
                field,
                repeated,
            }
            .wrong_type());
        }
        let mut index = 0;
        loop {
            to.path.push(Step::Index(index));
            let item = Value {
                to: &mut *to,
                field,
                repeated: Repeated::No,
            };
            let item = items.next_element_seed(item)?;
            to.path.pop();
            if item.is_none() {
                return Ok(());
            }
            index += 1;
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let Self {
            to,
            field,
            repeated,
        } = self;
        match (repeated, field.value) {
            (Repeated::Map, _) => {
                let first = to.keys.len();
                while let Some(key) = map.next_key_seed(Key)? {
                    let start = to.open(field.number);
                    to.bytes(1, key.as_bytes());
                    to.path.push(Step::Key(key.clone()));
                    to.keys.push(key);
                    map.next_value_seed(Value {
                        to: &mut *to,
                        field: &MAP_VALUE,
                        repeated: Repeated::No,
                    })?;
                    to.close(start);
                    to.path.pop();
                }
                to.check_keys(first)
            }
            (Repeated::No, Json::Template) => {
                let start = to.open(field.number);
                template_map(to, map)?;
                to.close(start);
                Ok(())
            }
            (Repeated::No, Json::Message(shape)) => {
                let start = to.open(field.number);
                let shape = SHAPES.at(shape);
                let mut seen = Seen::default();
                while let Some(key) = map.next_key_seed(Key)? {
                    let Some(inner) = shape.get(&key) else {
                        map.next_value::<IgnoredAny>()?;
                        continue;
                    };
                    to.path.push(Step::Field(&inner.name));
                    to.check_first(&mut seen, inner)?;
                    map.next_value_seed(Value {
                        to: &mut *to,
                        field: inner,
                        repeated: inner.repeated,
                    })?;
                    to.path.pop();
                }
                to.close(start);
                Ok(())
            }
            _ => Err(Self {
                to,
                field,
                repeated,
            }
            .wrong_type()),
        }
    }
}

/// The value of a map entry.
static MAP_VALUE: Field = Field {
    number: 2,
    name: String::new(),
    repeated: Repeated::No,
    value: Json::Text,
};
