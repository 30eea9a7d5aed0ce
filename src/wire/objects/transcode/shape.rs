//! The JSON form of the messages of the contract.

use std::collections::HashMap;
use std::sync::LazyLock;

use prost_reflect::{FieldDescriptor, Kind};

/// The JSON form of all messages of the contract, by full name.
pub(in crate::wire::objects) static SHAPES: LazyLock<Shapes> = LazyLock::new(Shapes::read);

#[derive(Debug, Default)]
pub(in crate::wire::objects) struct Shapes {
    messages: Vec<Shape>,
    by_name: HashMap<String, usize>,
}

/// The fields of a message.
#[derive(Debug, Default)]
pub(in crate::wire::objects) struct Shape(Vec<Field>);

#[derive(Debug)]
pub(in crate::wire::objects) struct Field {
    pub(in crate::wire::objects) number: u32,
    pub(in crate::wire::objects) name: String,
    pub(in crate::wire::objects) repeated: Repeated,
    pub(in crate::wire::objects) value: Json,
}

/// The numbers of the fields that have been read.
#[derive(Default)]
pub(in crate::wire::objects) struct Seen(u64);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::wire::objects) enum Repeated {
    No,
    List,
    Map,
}

/// The JSON type of a field.
#[derive(Clone, Copy, Debug)]
pub(in crate::wire::objects) enum Json {
    Text,
    Bool,
    /// An integer with the bounds of its type.
    Integer(i64, i64),
    Time,
    /// A pod template.
    Template,
    IntOrPercent,
    Message(usize),
}

// === impl Shapes ===

impl Shapes {
    /// The shape of the message with this full name.
    pub(in crate::wire::objects) fn named(&self, name: &str) -> Option<&Shape> {
        self.by_name.get(name).map(|&at| &self.messages[at])
    }

    /// The shape with this index.
    pub(in crate::wire::objects) fn at(&self, index: usize) -> &Shape {
        &self.messages[index]
    }

    fn read() -> Self {
        let Some(pool) = crate::wire::json::descriptors() else {
            return Self::default();
        };
        let messages: Vec<_> = pool.all_messages().collect();
        let names = messages.iter().map(|it| it.full_name().to_owned());
        let by_name: HashMap<String, usize> = names.zip(0..).collect();
        let messages = messages.iter().map(|message| {
            let fields = message.fields();
            Shape(
                fields
                    .filter_map(|field| Field::read(&field, &by_name))
                    .collect(),
            )
        });
        Self {
            messages: messages.collect(),
            by_name,
        }
    }
}

impl Seen {
    /// Adds a field. Returns whether it is new.
    pub(in crate::wire::objects) fn add(&mut self, field: &Field) -> bool {
        let bit = 1_u64 << (field.number % 64);
        let is_first = self.0 & bit == 0;
        self.0 |= bit;
        is_first
    }
}

impl Shape {
    /// The shape of a message field.
    pub(in crate::wire::objects) fn message(&self, name: &str) -> Option<&'static Self> {
        match self.get(name)?.value {
            Json::Message(shape) => Some(SHAPES.at(shape)),
            _ => None,
        }
    }

    /// A linear search is faster than hashing, because messages have only about a dozen fields.
    pub(in crate::wire::objects) fn get(&self, name: &str) -> Option<&Field> {
        self.0.iter().find(|field| field.name == name)
    }
}

impl Field {
    /// `None` for types that Kubernetes JSON does not contain.
    fn read(field: &FieldDescriptor, by_name: &HashMap<String, usize>) -> Option<Self> {
        let repeated = if field.is_map() {
            Repeated::Map
        } else if field.is_list() {
            Repeated::List
        } else {
            Repeated::No
        };
        let value = match field.kind() {
            // The values of all maps in Kubernetes objects are strings.
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
