//! Kubernetes JSON, written as messages of the contract.
//!
//! One pass over the text, which is never decoded into a tree: the message that comes out is what a client with generated
//! types would have sent, so that everything behind it is the same for both.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt::{self, Write as _};
use std::sync::LazyLock;

use prost::encoding::{WireType, encode_key, encode_varint};
use prost_reflect::{FieldDescriptor, Kind};
use rollplan_core::template::Number;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::wire::error::Reason;
use crate::wire::tree::EXACT_INTEGER;

/// How the JSON of each message of the contract is written, by full name.
static SHAPES: LazyLock<Shapes> = LazyLock::new(Shapes::read);

#[derive(Debug, Default)]
struct Shapes {
    messages: Vec<HashMap<String, Field>>,
    by_name: HashMap<String, usize>,
}

#[derive(Debug)]
struct Field {
    number: u32,
    name: String,
    repeated: Repeated,
    value: Json,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Repeated {
    No,
    List,
    Map,
}

/// What a field has in JSON.
#[derive(Clone, Copy, Debug)]
enum Json {
    Text,
    Bool,
    /// With the bounds of its type.
    Integer(i64, i64),
    Time,
    /// A pod template.
    Template,
    IntOrPercent,
    Message(usize),
}

/// One step of the path to a value.
#[derive(Clone, Debug)]
enum Step<'de> {
    Field(&'static str),
    Key(Cow<'de, str>),
    Index(usize),
}

/// What is wrong with a value.
#[derive(Debug)]
pub(in crate::wire) struct Fault {
    /// The path from the object on, for example ".spec.replicas".
    pub(in crate::wire) path: String,
    pub(in crate::wire) reason: Reason,
    pub(in crate::wire) description: String,
}

/// Writes messages from JSON.
#[derive(Debug, Default)]
pub(super) struct Transcoder<'de> {
    out: Vec<u8>,
    path: Vec<Step<'de>>,
    fault: Option<(Reason, Cow<'static, str>)>,
}

// === impl Shapes ===

impl Shapes {
    fn read() -> Self {
        let Some(pool) = crate::wire::json::descriptors() else {
            return Self::default();
        };
        let messages: Vec<_> = pool.all_messages().collect();
        let names = messages.iter().map(|it| it.full_name().to_owned());
        let by_name: HashMap<String, usize> = names.zip(0..).collect();
        let messages = messages.iter().map(|message| {
            let fields = message.fields().filter_map(|field| {
                let field = Field::read(&field, &by_name)?;
                Some((field.name.clone(), field))
            });
            fields.collect()
        });
        Self {
            messages: messages.collect(),
            by_name,
        }
    }
}

impl Field {
    /// `None` for what Kubernetes JSON does not have.
    fn read(field: &FieldDescriptor, by_name: &HashMap<String, usize>) -> Option<Self> {
        let repeated = if field.is_map() {
            Repeated::Map
        } else if field.is_list() {
            Repeated::List
        } else {
            Repeated::No
        };
        let value = match field.kind() {
            // The values of all maps of Kubernetes objects are texts.
            _ if field.is_map() => Json::Text,
            Kind::String => Json::Text,
            Kind::Bool => Json::Bool,
            Kind::Int32 => Json::Integer(i32::MIN.into(), i32::MAX.into()),
            Kind::Int64 => Json::Integer(i64::MIN, i64::MAX),
            Kind::Message(message) => match message.full_name() {
                "google.protobuf.Timestamp" => Json::Time,
                "google.protobuf.Struct" => Json::Template,
                "google.protobuf.Value" => Json::IntOrPercent,
                name => Json::Message(*by_name.get(name)?),
            },
            _ => return None,
        };
        Some(Self {
            number: field.number(),
            name: field.json_name().to_owned(),
            repeated,
            value,
        })
    }
}

// === impl Transcoder ===

impl<'de> Transcoder<'de> {
    /// Writes the message with this full name from fields of a JSON object, each with its text.
    pub(super) fn message(
        mut self,
        name: &str,
        api_version: &str,
        kind: &str,
        fields: impl Iterator<Item = (&'static str, &'de str)>,
    ) -> Result<Vec<u8>, Fault> {
        let shape = SHAPES.by_name.get(name).map(|&at| &SHAPES.messages[at]);
        // The first two fields of every object of the contract. A List may have given them.
        self.bytes(1, api_version.as_bytes());
        self.bytes(2, kind.as_bytes());
        for (name, text) in fields {
            let Some(field) = shape.and_then(|shape| shape.get(name)) else {
                continue;
            };
            let mut json = serde_json::Deserializer::from_str(text);
            self.path.push(Step::Field(&field.name));
            let read = self.field(field, &mut json);
            if let Err(error) = read {
                return Err(self.into_fault(&error));
            }
            self.path.pop();
        }
        Ok(self.out)
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

    fn field<D: Deserializer<'de>>(
        &mut self,
        field: &'static Field,
        json: D,
    ) -> Result<(), D::Error> {
        let writer = Value {
            to: self,
            field,
            repeated: field.repeated,
        };
        writer.deserialize(json)
    }

    /// Notes what is wrong. The error only ends the reading.
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

    /// Begins a message in a field, and returns what [`close`](Self::close) takes.
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
        let mut prefix = Vec::with_capacity(5);
        encode_varint(length as u64, &mut prefix);
        self.out.splice(start - 1..start, prefix);
    }

    /// Whether a key of a map was there before. `keys` are those so far.
    fn check_keys<E: serde::de::Error>(&mut self, mut keys: Vec<Cow<'de, str>>) -> Result<(), E> {
        keys.sort_unstable();
        let twice = keys.windows(2).find(|pair| pair[0] == pair[1]);
        let Some(twice) = twice else { return Ok(()) };
        self.path.push(Step::Key(twice[0].clone()));
        Err(self.wrong(Reason::DuplicateKey, DUPLICATE_KEY))
    }
}

pub(super) const DUPLICATE_KEY: &str = "the key occurs twice in its object";

/// Reason and description of what the JSON reader finds wrong.
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

/// A key of an object, borrowed where it has no escapes.
#[derive(Debug)]
pub(super) struct Key;

impl<'de> DeserializeSeed<'de> for Key {
    type Value = Cow<'de, str>;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<Self::Value, D::Error> {
        json.deserialize_str(self)
    }
}

impl<'de> Visitor<'de> for Key {
    type Value = Cow<'de, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(text))
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Cow::Owned(text.to_owned()))
    }
}

/// The value of a field, or an item of a list.
struct Value<'t, 'de> {
    to: &'t mut Transcoder<'de>,
    field: &'static Field,
    /// What is left of its lists and maps.
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
                "must be a whole number, or a percentage as \"25%\"",
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

    /// `null` is absent. An item of a list has its zero value then, as in Kubernetes.
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
                // A date alone is none.
                let time: Option<prost_types::Timestamp> = text
                    .parse()
                    .ok()
                    .filter(|_| text.len() >= "2026-01-31T12:00:00Z".len());
                let Some(time) = time else {
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
                let mut keys = Vec::new();
                while let Some(key) = map.next_key_seed(Key)? {
                    to.path.push(Step::Key(key.clone()));
                    let start = to.open(field.number);
                    to.bytes(1, key.as_bytes());
                    map.next_value_seed(Value {
                        to: &mut *to,
                        field: &MAP_VALUE,
                        repeated: Repeated::No,
                    })?;
                    to.close(start);
                    to.path.pop();
                    keys.push(key);
                }
                to.check_keys(keys)
            }
            (Repeated::No, Json::Template) => {
                let start = to.open(field.number);
                template_map(to, map)?;
                to.close(start);
                Ok(())
            }
            (Repeated::No, Json::Message(shape)) => {
                let start = to.open(field.number);
                let shape = &SHAPES.messages[shape];
                let mut seen = 0_u64;
                while let Some(key) = map.next_key_seed(Key)? {
                    let Some(inner) = shape.get(&*key) else {
                        map.next_value::<IgnoredAny>()?;
                        continue;
                    };
                    to.path.push(Step::Field(&inner.name));
                    let bit = 1_u64 << (inner.number % 64);
                    if seen & bit != 0 {
                        return Err(to.wrong(Reason::DuplicateKey, DUPLICATE_KEY));
                    }
                    seen |= bit;
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

/// The value of an entry of a map.
static MAP_VALUE: Field = Field {
    number: 2,
    name: String::new(),
    repeated: Repeated::No,
    value: Json::Text,
};

/// The entries of a `google.protobuf.Struct`.
fn template_map<'de, A: MapAccess<'de>>(
    to: &mut Transcoder<'de>,
    mut map: A,
) -> Result<(), A::Error> {
    let mut keys = Vec::new();
    while let Some(key) = map.next_key_seed(Key)? {
        to.path.push(Step::Key(key.clone()));
        let start = to.open(1);
        to.bytes(1, key.as_bytes());
        let value = to.open(2);
        map.next_value_seed(TemplateValue(&mut *to))?;
        to.close(value);
        to.close(start);
        to.path.pop();
        keys.push(key);
    }
    to.check_keys(keys)
}

/// A value of a template: a `google.protobuf.Value`.
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
            // Beyond every integer of Kubernetes: refused where templates are read.
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
