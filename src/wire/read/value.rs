//! Reads JSON as values, for objects whose fields are not known in advance.

use rollplan_core::template::{Number, Value};

use super::fields::{DUPLICATE_KEY, MAP_ENTRY, Read, Step, Unread, read, read_entries};
use super::text::Json;
use crate::wire::error::Reason;

impl<'a> Read<'a> for Value {
    fn read(json: &mut Json<'a>) -> Result<Self, Unread> {
        Ok(match json.peek()? {
            b'{' => {
                let mut map = Self::map();
                read_entries(json, |json, key| {
                    json.allocate(MAP_ENTRY + size_of::<Self>() + key.len());
                    let value: Self = read(json).map_err(|unread| unread.at_key(&key))?;
                    let entries = map.as_map_mut();
                    match entries.and_then(|it| it.insert(key.clone().into_owned(), value)) {
                        None => Ok(()),
                        Some(_) => {
                            let twice = Unread::wrong(Reason::DuplicateKey, DUPLICATE_KEY);
                            Err(twice.at_key(&key))
                        }
                    }
                })?;
                map
            }
            b'[' => {
                let mut items = Vec::new();
                json.begin(b'[')?;
                while json.has_next(b']')? {
                    json.allocate(size_of::<Self>());
                    let item = read(json).map_err(|unread| unread.at(Step::Index(items.len())))?;
                    items.push(item);
                }
                Self::List(items)
            }
            b'"' => Self::String(read(json)?),
            _ => match json.value()? {
                "true" => Self::Bool(true),
                "false" => Self::Bool(false),
                "null" => Self::Null,
                text => Self::Number(number(text)?),
            },
        })
    }
}

/// A number: an integer of 64 bits, or a float that cannot be a rounded integer. Kubernetes has no others.
pub(in crate::wire) fn number(text: &str) -> Result<Number, Unread> {
    if let Ok(integer) = text.parse::<i64>() {
        return Ok(Number::from(integer));
    }
    let is_float = text.contains(['.', 'e', 'E']);
    match text.parse::<f64>() {
        Ok(float) if is_float && float.abs() <= Number::MAX_SAFE as f64 => Ok(Number::from(float)),
        _ => Err(Unread::wrong(
            Reason::OutOfRange,
            "is neither an integer of 64 bits nor a fraction within ±(2^53 − 1)",
        )),
    }
}
