//! Reads the fields of an object individually. Other fields are not parsed.

use std::cell::{OnceCell, RefCell};
use std::rc::Rc;

use rollplan_core::size::IntOrPercent;
use rollplan_core::template::Value;
use rollplan_core::time::Time;
use serde_json::value::RawValue;

use crate::wire::error::Reason;
use crate::wire::objects::Fault;
use crate::wire::objects::found::{Members, string};
use crate::wire::objects::key::DUPLICATE_KEY;

/// The errors in the fields that were read.
#[derive(Debug, Default)]
pub(super) struct Faults {
    list: RefCell<Vec<Fault>>,
    /// Whether a value of an unexpected type counts as absent, because the fields of an unknown kind have no expected
    /// types.
    is_lenient: bool,
}

/// A field of an object, which may be absent.
#[derive(Clone, Debug)]
pub(super) struct Field<'a, 'f> {
    text: Option<&'a str>,
    /// The members of the text, once they have been read.
    members: OnceCell<Option<Rc<Members<'a>>>>,
    /// The path within the object, for example ".spec.replicas".
    path: String,
    faults: &'f Faults,
}

// === impl Faults ===

impl Faults {
    pub(super) fn new(is_lenient: bool) -> Self {
        Self {
            is_lenient,
            ..Self::default()
        }
    }

    pub(super) fn into_list(self) -> Vec<Fault> {
        self.list.into_inner()
    }

    /// A top-level field of the object.
    pub(super) fn field<'a>(&self, name: &str, text: Option<&'a str>) -> Field<'a, '_> {
        Field {
            text,
            members: OnceCell::new(),
            path: format!(".{name}"),
            faults: self,
        }
    }
}

// === impl Field ===

impl<'a, 'f> Field<'a, 'f> {
    fn wrong(&self, reason: Reason, description: impl Into<String>) {
        if !self.faults.is_lenient {
            self.faults.list.borrow_mut().push(Fault {
                path: self.path.clone(),
                reason,
                description: description.into(),
            });
        }
    }

    fn wrong_type<T>(&self, description: &str) -> Option<T> {
        self.wrong(Reason::WrongType, description);
        None
    }

    pub(super) fn is_present(&self) -> bool {
        self.text.is_some()
    }

    /// The members of an object. The text is parsed once, however many of them are read.
    fn members(&self) -> Option<&Members<'a>> {
        let read = || self.text.and_then(Members::of).map(Rc::new);
        self.members.get_or_init(read).as_deref()
    }

    /// A nested field. This field must be an object.
    pub(super) fn get(&self, name: &str) -> Self {
        let inner = |text| Self {
            text,
            members: OnceCell::new(),
            path: format!("{}.{name}", self.path),
            faults: self.faults,
        };
        if self.text.is_none() {
            return inner(None);
        }
        let Some(members) = self.members() else {
            return inner(self.wrong_type("must be an object"));
        };
        if members.names().filter(|key| *key == name).count() > 1 {
            let twice = inner(None);
            twice.wrong(Reason::DuplicateKey, DUPLICATE_KEY);
            return twice;
        }
        inner(members.get(name).filter(|text| *text != "null"))
    }

    /// The keys of an object.
    pub(super) fn keys(&self) -> Vec<String> {
        let names = self.members().map(Members::names);
        names.into_iter().flatten().map(str::to_owned).collect()
    }

    pub(super) fn list(&self) -> Vec<Self> {
        let Some(text) = self.text else {
            return Vec::new();
        };
        let Ok(items) = serde_json::from_str::<Vec<&'a RawValue>>(text) else {
            return self.wrong_type("must be a list").unwrap_or_default();
        };
        let items = items.into_iter().enumerate();
        items
            .map(|(index, item)| Self {
                text: Some(item.get()).filter(|text| *text != "null"),
                members: OnceCell::new(),
                path: format!("{}[{index}]", self.path),
                faults: self.faults,
            })
            .collect()
    }

    pub(super) fn text(&self) -> String {
        let text = self.text.map(|text| match string(text) {
            Some(text) => text.into_owned(),
            None => self.wrong_type("must be a string").unwrap_or_default(),
        });
        text.unwrap_or_default()
    }

    pub(super) fn is_true(&self) -> bool {
        match self.text {
            Some("true") => true,
            None | Some("false") => false,
            Some(_) => self.wrong_type("must be true or false").unwrap_or_default(),
        }
    }

    /// An integer, which may be negative.
    pub(super) fn integer(&self) -> Option<i64> {
        let integer = self.text?.parse();
        match integer {
            Ok(integer) => Some(integer),
            Err(_) => {
                self.wrong_type("must be an integer of 64 bits, without a fraction or an exponent")
            }
        }
    }

    /// An integer, also as a string. `None` for other values.
    pub(super) fn number(&self) -> Option<i64> {
        let text = self.text?;
        string(text).as_deref().unwrap_or(text).parse().ok()
    }

    /// A string, number or truth value as text. `None` for other and empty values.
    pub(super) fn scalar(&self) -> Option<String> {
        let text = self.text.filter(|text| !text.starts_with(['{', '[']))?;
        let text = match string(text) {
            Some(text) => text.into_owned(),
            None => text.to_owned(),
        };
        (!text.is_empty()).then_some(text)
    }

    /// A number of pods or seconds.
    pub(super) fn count(&self) -> Option<i32> {
        let integer = self.integer()?;
        match i32::try_from(integer) {
            Ok(count) if count >= 0 => Some(count),
            Ok(_) => {
                self.wrong(
                    Reason::Negative,
                    format!("is {integer}, and may not be negative"),
                );
                None
            }
            Err(_) => {
                let text = format!("is {integer}, and must be between 0 and {}", i32::MAX);
                self.wrong(Reason::OutOfRange, text);
                None
            }
        }
    }

    pub(super) fn time(&self) -> Option<Time> {
        let text = string(self.text?)?;
        let time = text.parse::<prost_types::Timestamp>().ok();
        // The parser also accepts a date without a time, which is invalid here.
        let time = time.filter(|_| text.len() >= "2026-01-31T12:00:00Z".len());
        let time = time.and_then(|time| Time::new(time.seconds, u32::try_from(time.nanos).ok()?));
        time.or_else(|| {
            self.wrong_type("must be a time of RFC 3339, for example \"2026-01-31T12:00:00Z\"")
        })
    }

    pub(super) fn int_or_percent(&self) -> Option<IntOrPercent> {
        let text = self.text?;
        let read = match string(text) {
            Some(percent) => percent
                .strip_suffix('%')
                .and_then(|number| number.parse().ok())
                .map(IntOrPercent::Percent),
            None => text.parse().ok().map(IntOrPercent::Int),
        };
        let is_valid = |it: &IntOrPercent| match it {
            IntOrPercent::Int(number) | IntOrPercent::Percent(number) => *number >= 0,
        };
        read.filter(is_valid).or_else(|| {
            let text =
                "must be a whole number that is not negative, or a percentage, for example \"25%\"";
            self.wrong(Reason::NotIntOrPercent, text);
            None
        })
    }

    /// The whole value. `None` if it is not valid JSON, or nested too deeply.
    pub(super) fn value(&self) -> Option<Value> {
        let json: serde_json::Value = serde_json::from_str(self.text?).ok()?;
        Some((&json).into())
    }
}
