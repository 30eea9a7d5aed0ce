//! Finds the objects in JSON texts. Only the identity of objects is read, so unusual content of objects that are not
//! selected is never an error.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::fmt;
use std::rc::Rc;

use rollplan_core::interrupt::{Interrupt, Interrupted, Never};

use super::found::{Found, Metadata, text};
use crate::error::{Error, Reason, Violations, quoted};
use crate::limits::OBJECTS_MAX;
use crate::origin::place;
use crate::read::{DUPLICATE_KEY, Json, Syntax};

type OptionalText<'a> = Option<Cow<'a, str>>;

/// The fields that identify an object.
const IDENTITY: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// All objects of a request.
#[derive(Debug, Default)]
pub struct Objects<'a> {
    /// The objects, in the order of the texts.
    pub found: Vec<Found<'a>>,
    /// Whether a list is only one page of a longer list.
    pub is_continued: bool,
}

// === impl Objects ===

impl<'a> Objects<'a> {
    /// Finds all objects in the texts of a field, which has this path.
    pub fn find<T: AsRef<str>>(
        field: &'static str,
        texts: &'a [T],
        violations: &mut Violations,
        interrupt: &'a dyn Interrupt,
    ) -> Result<Self, Error> {
        let mut objects = Self::default();
        for (index, text) in texts.iter().enumerate() {
            interrupt.check()?;
            objects.add(field, index, text.as_ref(), violations, interrupt)?;
        }
        Ok(objects)
    }

    /// Finds the objects in one text, which is the entry `index` of the field.
    pub fn add(
        &mut self,
        field: &'static str,
        index: usize,
        text: &'a str,
        violations: &mut Violations,
        interrupt: &'a dyn Interrupt,
    ) -> Result<(), Error> {
        let at = At {
            list: Rc::from(field),
            index: Some(index),
        };
        self.scan(field, at, text, violations, interrupt)
    }

    /// Finds the objects in the text of a field with this path.
    pub fn find_in(
        path: &str,
        text: &'a str,
        violations: &mut Violations,
        interrupt: &'a dyn Interrupt,
    ) -> Result<Self, Error> {
        let mut objects = Self::default();
        let at = At {
            list: Rc::from(path),
            index: None,
        };
        objects.scan("request", at, text, violations, interrupt)?;
        Ok(objects)
    }

    fn scan(
        &mut self,
        what: &'static str,
        at: At,
        text: &'a str,
        violations: &mut Violations,
        interrupt: &'a dyn Interrupt,
    ) -> Result<(), Error> {
        let place = at.to_string();
        let before = self.found.len();
        let mut scanner = Scanner {
            json: Json::of_similar_objects(text, interrupt),
            objects: self,
        };
        let read = scanner.item(at, violations);
        let read = read.and_then(|()| scanner.json.end().map_err(Unscanned::Syntax));
        match read {
            Ok(()) => Ok(()),
            Err(Unscanned::Syntax(Syntax::Interrupted)) => Err(Interrupted.into()),
            Err(Unscanned::Full) => Err(Error::TooLarge {
                what,
                unit: "objects",
                count: OBJECTS_MAX + 1,
                max: OBJECTS_MAX,
            }),
            Err(Unscanned::Syntax(error)) => {
                let reason = match error {
                    Syntax::TooDeep => Reason::TooDeep,
                    _ => Reason::MalformedJson,
                };
                let (at, description) = (scanner.json.offset(), error.description());
                self.found.truncate(before);
                violations.add(place, reason, format_args!("byte {at}: {description}"));
                Ok(())
            }
        }
    }
}

/// Why a text was not scanned to its end.
enum Unscanned {
    Syntax(Syntax),
    /// It has too many objects.
    Full,
}

impl From<Syntax> for Unscanned {
    fn from(syntax: Syntax) -> Self {
        Self::Syntax(syntax)
    }
}

struct Scanner<'s, 'a> {
    json: Json<'a>,
    objects: &'s mut Objects<'a>,
}

/// The position of an object in its list.
#[derive(Clone, Debug)]
struct At {
    list: Rc<str>,
    index: Option<usize>,
}

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        place(f, &self.list, self.index)
    }
}

/// What was read of an object.
#[derive(Default)]
struct ReadObject<'a> {
    api_version: Cow<'a, str>,
    kind: Cow<'a, str>,
    metadata: Metadata<'a>,
    involved_uid: OptionalText<'a>,
    involved_claim: OptionalText<'a>,
    has_items: bool,
    /// Whether it has the field of watch events that contains an object.
    has_object: bool,
    /// The number of objects that were found before its items.
    before: usize,
    /// A key that occurs twice.
    duplicate_key: Option<Cow<'a, str>>,
}

// === impl Scanner ===

impl<'a> Scanner<'_, 'a> {
    /// Reads a value that must be an object or a list of objects.
    fn item(&mut self, at: At, violations: &mut Violations) -> Result<(), Unscanned> {
        if self.json.peek()? != b'{' {
            self.json.value()?;
            let description = "must be an object or a List of objects";
            violations.add(at, Reason::WrongType, description);
            return Ok(());
        }
        let start = self.json.offset();
        let mut object = ReadObject {
            before: self.objects.found.len(),
            ..ReadObject::default()
        };
        let mut keys = Vec::with_capacity(8);
        // Whether the object is a list is known only at its end.
        let mut faults = Violations::default();
        self.json.begin(b'{')?;
        while self.json.has_next(b'}')? {
            let key = self.json.key()?;
            match &*key {
                "apiVersion" => object.api_version = text(&mut self.json)?,
                "kind" => object.kind = text(&mut self.json)?,
                "metadata" => object.metadata = Metadata::read(&mut self.json)?,
                "involvedObject" => {
                    (object.involved_uid, object.involved_claim) = self.involved()?;
                }
                "items" => {
                    object.has_items = true;
                    self.items(&at, &mut faults)?;
                }
                other => {
                    object.has_object |= other == "object";
                    self.json.value_of(other)?;
                }
            }
            keys.push(key);
        }
        keys.sort_unstable();
        let twice = keys.windows(2).find(|pair| pair[0] == pair[1]);
        object.duplicate_key = twice.map(|pair| pair[0].clone());
        let text = self.json.text_from(start);
        self.object(at, text, object, faults, violations)
    }

    /// Reads an object reference: the UID, and the name if it refers to a PersistentVolumeClaim.
    fn involved(&mut self) -> Result<(OptionalText<'a>, OptionalText<'a>), Syntax> {
        if self.json.peek()? != b'{' {
            self.json.value()?;
            return Ok((None, None));
        }
        let (mut kind, mut name, mut uid) = Default::default();
        self.json.begin(b'{')?;
        while self.json.has_next(b'}')? {
            match &*self.json.key()? {
                "kind" => kind = text(&mut self.json)?,
                "name" => name = text(&mut self.json)?,
                "uid" => uid = text(&mut self.json)?,
                key => _ = self.json.value_of(key)?,
            }
        }
        let claim = Some(name).filter(|_| kind == "PersistentVolumeClaim");
        Ok((Some(uid).filter(|uid| !uid.is_empty()), claim))
    }

    /// Reads the items of a list.
    fn items(&mut self, at: &At, violations: &mut Violations) -> Result<(), Unscanned> {
        let list: Rc<str> = Rc::from(format!("{at}.items"));
        match self.json.peek()? {
            b'[' => {}
            b'n' => {
                self.json.value()?;
                return Ok(());
            }
            _ => {
                self.json.value()?;
                violations.add(list, Reason::WrongType, "must be a list");
                return Ok(());
            }
        }
        self.json.begin(b'[')?;
        let mut index = 0;
        while self.json.has_next(b']')? {
            let at = At {
                list: Rc::clone(&list),
                index: Some(index),
            };
            self.item(at, violations)?;
            index += 1;
        }
        Ok(())
    }

    /// Adds an object, or the items of a list. `faults` are the errors in the items.
    fn object(
        &mut self,
        at: At,
        text: &'a str,
        object: ReadObject<'a>,
        faults: Violations,
        violations: &mut Violations,
    ) -> Result<(), Unscanned> {
        let ReadObject {
            api_version,
            kind,
            metadata,
            involved_uid,
            involved_claim,
            has_items,
            has_object,
            before,
            duplicate_key,
        } = object;
        let is_list = has_items && (kind.ends_with("List") || kind.is_empty());
        // Duplicate keys that identify an object are always an error, because the object could be mistaken for another
        // one. Other errors only matter if the object is selected.
        let twice = duplicate_key.as_deref();
        if let Some(key) = twice.filter(|key| is_list || IDENTITY.contains(key)) {
            self.objects.found.truncate(before);
            let field = format!("{at}[{key:?}]");
            violations.add(field, Reason::DuplicateKey, DUPLICATE_KEY);
            return Ok(());
        }
        if !is_list {
            self.objects.found.truncate(before);
        }
        let rejected = match (&*api_version, &*kind) {
            ("v1", "Status") => Some(status(text)),
            (_, "Table") => {
                Some("is a Table, which is for display only: use kubectl get -o json".to_owned())
            }
            (_, "WatchEvent") => Some("is a watch event, and not an object".to_owned()),
            (_, "") if has_object => {
                Some("is a watch event, and not an object: send its field object".to_owned())
            }
            _ => None,
        };
        if let Some(rejected) = rejected {
            self.objects.found.truncate(before);
            violations.add(at, Reason::WrongKind, rejected);
        } else if is_list {
            violations.extend(faults);
            self.objects.is_continued |= !metadata.continues.is_empty();
            self.set_kinds(before, api_version, &kind, violations);
        } else if self.objects.found.len() >= OBJECTS_MAX {
            return Err(Unscanned::Full);
        } else {
            self.objects.found.push(Found {
                list: at.list,
                index: at.index,
                text,
                api_version: current_version(api_version, &kind),
                kind,
                metadata,
                involved_uid,
                involved_claim,
                is_typed_by_list: false,
                duplicate_key,
                labels: OnceCell::new(),
            });
        }
        Ok(())
    }

    /// Sets the kind of items without a kind to that of their list.
    fn set_kinds(
        &mut self,
        before: usize,
        api_version: Cow<'a, str>,
        kind: &str,
        violations: &mut Violations,
    ) {
        let of = kind.strip_suffix("List").unwrap_or_default();
        let found = &mut self.objects.found;
        for item in &mut found[before..] {
            if item.kind.is_empty() && !item.is_typed_by_list {
                item.is_typed_by_list = !of.is_empty();
                item.kind = Cow::Owned(of.to_owned());
                item.api_version = current_version(api_version.clone(), of);
            }
        }
        // Items of a List that has no kind.
        for item in found.extract_if(before.., |item| item.kind.is_empty()) {
            let field = format!("{}.kind", item.origin());
            let description = "is required: neither the object nor its List has one";
            violations.add(field, Reason::Required, description);
        }
    }
}

/// Describes a Status with its message.
fn status(json: &str) -> String {
    let mut json = Json::new(json, &Never);
    let mut read = || {
        let mut message = Cow::default();
        json.begin(b'{')?;
        while json.has_next(b'}')? {
            match &*json.key()? {
                "message" => message = text(&mut json)?,
                key => _ = json.value_of(key)?,
            }
        }
        Ok::<_, Syntax>(quoted(&message))
    };
    let message = read().unwrap_or_default();
    let what = "is a Status, which is the response to a failed call or a deletion";
    match message.as_str() {
        "" => what.to_owned(),
        message => format!("{what}: {message}"),
    }
}

/// The version in which an object is read. Clusters before Kubernetes 1.16 also served workloads in older versions, with the
/// same fields, and printed them in these.
pub fn current_version<'a>(api_version: Cow<'a, str>, kind: &str) -> Cow<'a, str> {
    match (&*api_version, kind) {
        (
            "extensions/v1beta1" | "apps/v1beta1" | "apps/v1beta2",
            "Deployment" | "ReplicaSet" | "DaemonSet" | "StatefulSet",
        ) => Cow::Borrowed("apps/v1"),
        _ => api_version,
    }
}
