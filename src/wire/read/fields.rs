//! Reads JSON into structs that list their fields. Other fields are skipped.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::{self, Write as _};

use rollplan_core::interrupt::Never;
use rollplan_core::template::parse_time;
use rollplan_core::time::Time;

use super::text::{Json, Syntax};
use crate::error::Reason;
use crate::limits::ENTRIES_MAX;

/// The description of a duplicate key.
pub(crate) const DUPLICATE_KEY: &str = "the key occurs twice in its object";

/// The smallest block of the allocator.
const BLOCK: usize = 16;

/// The memory of an entry of a map with strings. The nodes of the tree are half full.
pub(super) const MAP_ENTRY: usize = 4 * size_of::<String>();

/// A value that can be read from JSON. `null` is read as absent: the default value, of fields and of items in a list.
pub(crate) trait Read<'a>: Default {
    /// Reads a value that is not `null`.
    fn read(json: &mut Json<'a>) -> Result<Self, Unread>;
}

/// Why a value was not read.
#[derive(Debug)]
pub(crate) enum Unread {
    Syntax(Syntax),
    /// The value is wrong.
    Wrong(Box<Fault>),
}

/// An error in a value.
#[derive(Clone, Debug)]
pub(crate) struct Fault {
    /// The steps to the value, innermost first.
    steps: Vec<PathStep>,
    pub(crate) reason: Reason,
    pub(crate) description: Cow<'static, str>,
}

/// A step of the path to a value.
#[derive(Clone, Debug)]
pub(crate) enum PathStep {
    Key(String),
    /// A key that the writer of the object has chosen.
    Entry(String),
    Index(usize),
}

// === impl Unread ===

impl From<Syntax> for Unread {
    fn from(syntax: Syntax) -> Self {
        match syntax {
            // A part of the value itself, which the syntax of the text does not show.
            Syntax::Surrogate => Self::wrong(Reason::MalformedJson, syntax.description()),
            syntax => Self::Syntax(syntax),
        }
    }
}

impl Unread {
    pub(crate) fn wrong(reason: Reason, description: impl Into<Cow<'static, str>>) -> Self {
        Self::Wrong(Box::new(Fault::new(reason, description)))
    }

    pub(crate) fn wrong_type(description: &'static str) -> Self {
        Self::wrong(Reason::WrongType, description)
    }

    /// The error in the value that contains this one.
    pub(crate) fn at(self, step: PathStep) -> Self {
        match self {
            Self::Wrong(mut fault) => {
                fault.steps.push(step);
                Self::Wrong(fault)
            }
            syntax => syntax,
        }
    }

    pub(crate) fn at_key(self, key: &str) -> Self {
        self.at(PathStep::Key(key.to_owned()))
    }
}

// === impl Fault ===

impl Fault {
    pub(crate) fn new(reason: Reason, description: impl Into<Cow<'static, str>>) -> Self {
        Self {
            steps: Vec::new(),
            reason,
            description: description.into(),
        }
    }

    /// The path within the value that was read, for example ".spec.replicas".
    pub(crate) fn path(&self) -> String {
        let mut path = String::new();
        for step in self.steps.iter().rev() {
            // Writing to a string cannot fail.
            _ = write!(path, "{step}");
        }
        path
    }
}

impl From<Unread> for Fault {
    fn from(unread: Unread) -> Self {
        match unread {
            Unread::Wrong(fault) => *fault,
            Unread::Syntax(syntax @ Syntax::TooDeep) => {
                Self::new(Reason::TooDeep, syntax.description())
            }
            Unread::Syntax(syntax) => Self::new(Reason::MalformedJson, syntax.description()),
        }
    }
}

impl fmt::Display for PathStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Key(key) if is_identifier(key) => write!(f, ".{key}"),
            Self::Key(key) | Self::Entry(key) => write!(f, "[{key:?}]"),
            Self::Index(index) => write!(f, "[{index}]"),
        }
    }
}

/// Whether a key needs no quotes in a path.
pub(crate) fn is_identifier(key: &str) -> bool {
    let mut bytes = key.bytes();
    bytes.next().is_some_and(|byte| byte.is_ascii_alphabetic())
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// Reads a value, or the default instead of `null`.
#[inline]
pub(crate) fn read<'a, T: Read<'a>>(json: &mut Json<'a>) -> Result<T, Unread> {
    match json.peek()? {
        b'n' => json.value().map(|_| T::default()).map_err(Unread::from),
        _ => T::read(json),
    }
}

/// Reads the only value of a text.
pub(crate) fn read_all<'a, T: Read<'a>>(json: &mut Json<'a>) -> Result<T, Unread> {
    let value = read(json)?;
    json.end()?;
    Ok(value)
}

/// Reads the entries of an object with a function, which must consume the value of the key.
#[inline]
pub(crate) fn read_entries<'a>(
    json: &mut Json<'a>,
    mut entry: impl FnMut(&mut Json<'a>, Cow<'a, str>) -> Result<(), Unread>,
) -> Result<(), Unread> {
    if json.peek()? != b'{' {
        return Err(Unread::wrong_type("must be an object"));
    }
    json.begin(b'{')?;
    while json.has_next(b'}')? {
        let key = json.key()?;
        entry(json, key)?;
    }
    Ok(())
}

/// Reads a field of an object, which must not have been read before.
#[inline]
pub(crate) fn read_field<'a, T: Read<'a>>(
    json: &mut Json<'a>,
    key: &str,
    is_read: &mut bool,
    value: &mut T,
) -> Result<(), Unread> {
    let field = if std::mem::replace(is_read, true) {
        Err(Unread::wrong(Reason::DuplicateKey, DUPLICATE_KEY))
    } else {
        read(json)
    };
    *value = field.map_err(|unread| unread.at_key(key))?;
    Ok(())
}

/// Defines structs with the fields of JSON objects that are read.
macro_rules! objects {
    ($(
        $(#[$doc:meta])*
        struct $name:ident $(<$life:lifetime>)? {
            $($(#[$field_doc:meta])* $field:ident: $type:ty = $key:literal,)*
        }
    )*) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, Default)]
        pub(crate) struct $name $(<$life>)? {
            $($(#[$field_doc])* pub(crate) $field: $type,)*
        }

        impl<'a> $crate::read::Read<'a> for objects!(@type $name $($life)?) {
            fn read(
                json: &mut $crate::read::Json<'a>,
            ) -> Result<Self, $crate::read::Unread> {
                let mut object = Self::default();
                $(let mut $field = false;)*
                $crate::read::read_entries(json, |json, key| match &*key {
                    $($key => $crate::read::read_field(
                        json,
                        $key,
                        &mut $field,
                        &mut object.$field,
                    ),)*
                    other => {
                        json.value_of(other)?;
                        Ok(())
                    }
                })?;
                Ok(object)
            }
        }
    )*};
    (@type $name:ident) => { $name };
    (@type $name:ident $life:lifetime) => { $name<'a> };
}
pub(crate) use objects;

// === impl Read ===

impl<'a, T: Read<'a>> Read<'a> for Option<T> {
    fn read(json: &mut Json<'a>) -> Result<Self, Unread> {
        T::read(json).map(Some)
    }
}

/// A value that custom resources may define in another way. If it cannot be read, it counts as absent.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lenient<T>(pub(crate) T);

impl<'a, T: Read<'a>> Read<'a> for Lenient<T> {
    fn read(json: &mut Json<'a>) -> Result<Self, Unread> {
        let mut value = Json::new(json.value()?, &Never);
        let read = read_all(&mut value).unwrap_or_default();
        json.allocate(value.allocated());
        Ok(Self(read))
    }
}

impl<'a> Read<'a> for Cow<'a, str> {
    #[inline]
    fn read(json: &mut Json<'a>) -> Result<Self, Unread> {
        match json.peek()? {
            b'"' => Ok(json.string()?),
            _ => Err(Unread::wrong_type("must be a string")),
        }
    }
}

impl<'a> Read<'a> for String {
    #[inline]
    fn read(json: &mut Json<'a>) -> Result<Self, Unread> {
        let text = <Cow<'a, str>>::read(json)?;
        json.allocate(text.len().next_multiple_of(BLOCK));
        Ok(text.into_owned())
    }
}

impl<'a> Read<'a> for bool {
    fn read(json: &mut Json<'a>) -> Result<Self, Unread> {
        match json.value()? {
            "true" => Ok(true),
            "false" => Ok(false),
            _ => Err(Unread::wrong_type("must be true or false")),
        }
    }
}

/// The text of an integer. `None` for numbers with a fraction or an exponent, and for other values.
pub(super) fn integer<'a>(json: &mut Json<'a>) -> Result<Option<&'a str>, Syntax> {
    let text = json.value()?;
    let digits = text.strip_prefix('-').unwrap_or(text);
    Ok(digits
        .bytes()
        .all(|byte| byte.is_ascii_digit())
        .then_some(text))
}

macro_rules! integers {
    ($($type:ty),*) => {$(
        impl<'a> Read<'a> for $type {
            fn read(json: &mut Json<'a>) -> Result<Self, Unread> {
                let Some(text) = integer(json)? else {
                    let description = "must be an integer, without a fraction or an exponent";
                    return Err(Unread::wrong_type(description));
                };
                text.parse().map_err(|_| {
                    let (min, max) = (<$type>::MIN, <$type>::MAX);
                    let description = format!("is {text}, and must be between {min} and {max}");
                    Unread::wrong(Reason::OutOfRange, description)
                })
            }
        }
    )*};
}
integers!(i32, i64);

impl<'a> Read<'a> for Time {
    fn read(json: &mut Json<'a>) -> Result<Self, Unread> {
        let time = match json.peek()? {
            b'"' => parse_time(&json.string()?),
            _ => None,
        };
        time.ok_or_else(|| {
            Unread::wrong_type("must be a time of RFC 3339, for example \"2026-01-31T12:00:00Z\"")
        })
    }
}

impl<'a, T: Read<'a>> Read<'a> for Vec<T> {
    fn read(json: &mut Json<'a>) -> Result<Self, Unread> {
        if json.peek()? != b'[' {
            return Err(Unread::wrong_type("must be a list"));
        }
        let mut items = Vec::new();
        json.begin(b'[')?;
        while json.has_next(b']')? {
            check_entries(items.len())?;
            json.allocate(size_of::<T>());
            let item = read(json).map_err(|unread| unread.at(PathStep::Index(items.len())))?;
            items.push(item);
        }
        Ok(items)
    }
}

impl<'a> Read<'a> for BTreeMap<String, String> {
    fn read(json: &mut Json<'a>) -> Result<Self, Unread> {
        let mut map = BTreeMap::new();
        read_entries(json, |json, key| {
            check_entries(map.len())?;
            json.allocate(MAP_ENTRY + key.len().next_multiple_of(BLOCK));
            let at = |unread: Unread| unread.at(PathStep::Entry(key.clone().into_owned()));
            let value: String = read(json).map_err(at)?;
            match map.insert(key.clone().into_owned(), value) {
                None => Ok(()),
                Some(_) => Err(at(Unread::wrong(Reason::DuplicateKey, DUPLICATE_KEY))),
            }
        })?;
        Ok(map)
    }
}

/// Rejects another entry of a list or map. Kubernetes has no such limit, but objects have at most dozens.
fn check_entries(count: usize) -> Result<(), Unread> {
    if count < ENTRIES_MAX {
        return Ok(());
    }
    let description = format!("more than {ENTRIES_MAX} entries");
    Err(Unread::wrong(Reason::ObjectTooLarge, description))
}

#[cfg(test)]
mod tests {
    use rollplan_core::interrupt::Never;

    use super::*;

    objects! {
        /// An object with a field of each type.
        struct Sample {
            text: String = "text",
            count: i32 = "count",
            large: Option<i64> = "large",
            is_on: Option<bool> = "on",
            at: Option<Time> = "at",
            map: BTreeMap<String, String> = "map",
            list: Vec<Inner> = "list",
        }

        /// A nested object.
        struct Inner {
            name: String = "name",
        }
    }

    fn sample(text: &str) -> Result<Sample, Fault> {
        read_all(&mut Json::new(text, &Never)).map_err(Fault::from)
    }

    #[test]
    fn fields_are_read_and_others_skipped() {
        let text = r#"{"other":{"text":[1]},"text":"a\n","list":[{"name":"x"},null,{"name":null}],"count":-2147483648,
            "large":9223372036854775807,"on":false,"at":"2026-01-31T12:00:00Z","map":{"k":"v","n":null}}"#;
        let read = sample(text).unwrap();
        assert_eq!((&*read.text, read.count), ("a\n", i32::MIN));
        assert_eq!((read.large, read.is_on), (Some(i64::MAX), Some(false)));
        assert_eq!(read.at.unwrap().to_string(), "2026-01-31T12:00:00Z");
        assert_eq!(read.map["k"].len() + read.map["n"].len(), 1);
        let names: Vec<&str> = read.list.iter().map(|it| &*it.name).collect();
        // `null` is the zero value in a list.
        assert_eq!(names, ["x", "", ""]);
        let absent =
            sample(r#"{"text":null,"count":null,"large":null,"on":null,"at":null,"list":null}"#);
        assert_eq!(
            format!("{:?}", absent.unwrap()),
            format!("{:?}", Sample::default())
        );
    }

    #[test]
    fn faults_have_their_place() {
        let entries = |count| {
            (0..count)
                .map(|key| format!(r#""{key}":"""#))
                .collect::<Vec<_>>()
                .join(",")
        };
        let long = format!(r#"{{"map":{{{}}}}}"#, entries(ENTRIES_MAX + 1));
        for (text, path, reason) in [
            ("[]", "", Reason::WrongType),
            (r#"{"text":1}"#, ".text", Reason::WrongType),
            (r#"{"count":1.0}"#, ".count", Reason::WrongType),
            (r#"{"count":1e3}"#, ".count", Reason::WrongType),
            (r#"{"count":"1"}"#, ".count", Reason::WrongType),
            (r#"{"count":2147483648}"#, ".count", Reason::OutOfRange),
            (
                r#"{"large":-9223372036854775809}"#,
                ".large",
                Reason::OutOfRange,
            ),
            (r#"{"on":"true"}"#, ".on", Reason::WrongType),
            (r#"{"at":"2026-01-31"}"#, ".at", Reason::WrongType),
            (r#"{"list":{}}"#, ".list", Reason::WrongType),
            (
                r#"{"list":[{},{"name":[]}]}"#,
                ".list[1].name",
                Reason::WrongType,
            ),
            (
                r#"{"map":{"a":"1","b":2}}"#,
                r#".map["b"]"#,
                Reason::WrongType,
            ),
            (
                r#"{"map":{"a":"1","a":"1"}}"#,
                r#".map["a"]"#,
                Reason::DuplicateKey,
            ),
            (
                r#"{"text":"","list":[],"text":""}"#,
                ".text",
                Reason::DuplicateKey,
            ),
            (r#"{"text":"\udc00"}"#, ".text", Reason::MalformedJson),
            (&long, ".map", Reason::ObjectTooLarge),
        ] {
            let fault = sample(text).unwrap_err();
            assert_eq!((&*fault.path(), fault.reason), (path, reason), "{text:.60}");
        }
    }
}
