//! Reads JSON as values, for objects whose fields are not known in advance.

use rollplan_core::template::{Number, Value};

use super::fields::{DUPLICATE_KEY, MAP_ENTRY, PathStep, Read, Unread, read, read_entries};
use super::text::Json;
use crate::error::Reason;

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
                    let item =
                        read(json).map_err(|unread| unread.at(PathStep::Index(items.len())))?;
                    items.push(item);
                }
                Self::List(items)
            }
            b'"' => Self::String(read(json)?),
            _ => match json.value()? {
                "true" => Self::Bool(true),
                "false" => Self::Bool(false),
                "null" => Self::Null,
                // Fields of unknown kinds may have any number.
                text => match (text.parse::<i64>(), text.parse::<f64>()) {
                    (Ok(integer), _) => Self::from(integer),
                    (_, float) => Self::from(Number::from(float.unwrap_or_default())),
                },
            },
        })
    }
}

/// A number of a template: an integer of 64 bits, or a float that cannot be a rounded integer. Kubernetes has no others.
pub(crate) fn number(text: &str) -> Result<Number, Unread> {
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

#[cfg(test)]
mod tests {
    use rollplan_core::interrupt::Never;

    use super::*;
    use crate::read::{Fault, read_all};

    fn value(text: &str) -> Result<Value, Fault> {
        read_all(&mut Json::new(text, &Never)).map_err(Fault::from)
    }

    #[test]
    fn values_are_those_of_serde_json() {
        for text in [
            "null",
            r#"{"b":1,"a":[true,false,null,"x","\u0000ü",{"c":[[]]}],"\u0061b":{}}"#,
            "[0,-7,1.0,1.5,-2.5e-3,1E3,9223372036854775807,-9223372036854775808,18446744073709551615,1e300]",
        ] {
            let expected: serde_json::Value = serde_json::from_str(text).unwrap();
            assert_eq!(value(text).unwrap(), Value::from(&expected), "{text}");
        }
    }

    #[test]
    fn faults_have_their_place() {
        for (text, path, reason) in [
            (r#"{"a":{"b":1,"b":2}}"#, ".a.b", Reason::DuplicateKey),
            (
                r#"[{"a b":1,"\u0061 b":2}]"#,
                r#"[0]["a b"]"#,
                Reason::DuplicateKey,
            ),
            (r#"{"a":"\ud800"}"#, ".a", Reason::MalformedJson),
        ] {
            let fault = value(text).unwrap_err();
            assert_eq!((&*fault.path(), fault.reason), (path, reason), "{text}");
        }
    }
}
