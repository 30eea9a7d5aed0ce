//! Finds the objects in JSON texts. Only the kind of an object and the texts of its fields are read, so unusual content
//! of objects that are not selected is never an error.

mod exact;
mod plain;

use std::borrow::Cow;
use std::fmt;
use std::rc::Rc;

use super::OBJECTS_MAX;
use super::found::{Found, FoundField, string};
use super::key::DUPLICATE_KEY;
use super::lean_pod::{LeanPod, LeanPodReader};
use super::transcode::syntax;
use crate::wire::error::{Error, Reason, Violations};
use crate::wire::plain_json::TYPICAL_FIELDS;

/// The fields of objects and lists that are kept.
const FIELDS: [&str; 25] = [
    "apiVersion",
    "kind",
    "metadata",
    "spec",
    "status",
    "items",
    // A field of ConfigMaps and Secrets.
    "data",
    "binaryData",
    "immutable",
    // A field of Events.
    "involvedObject",
    "reason",
    "message",
    "type",
    "count",
    "firstTimestamp",
    "lastTimestamp",
    "eventTime",
    "series",
    "source",
    "reportingComponent",
    "reportingInstance",
    "action",
    "related",
    // A field of ControllerRevisions.
    "revision",
    // A field of watch events.
    "object",
];

/// The fields that identify an object.
const IDENTITY: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// The fields that are read one level deeper, because only a part of their content is ever needed.
const DEEP: [&str; 3] = ["metadata", "spec", "status"];

/// Kubernetes objects do not have as many fields. The content of larger fields is read only when it is needed, so it
/// uses no memory before.
const MEMBERS_MAX: usize = 256;

/// The field of the request that contains the texts.
const LIST: &str = "snapshot.objects_json";

/// Removes the prefix for the first text from a path that [`scan`] reported.
pub(super) fn path_in_text(field: &str) -> &str {
    let path = field.strip_prefix(LIST);
    path.and_then(|path| path.strip_prefix("[0]"))
        .unwrap_or(field)
}

/// Finds all objects in one text, which is the entry `index` of the field. Returns whether a list is only one page of a
/// longer list.
pub(crate) fn scan<'a>(
    index: usize,
    bytes: &'a [u8],
    found: &mut Vec<Found<'a>>,
    violations: &mut Violations,
) -> Result<bool, Error> {
    scan_field(LIST, index, bytes, found, violations)
}

/// Like [`scan`]. Usual pods are read as far as a plan without a report needs.
pub(super) fn scan_with_lean_pods<'a>(
    index: usize,
    bytes: &'a [u8],
    found: &mut Vec<Found<'a>>,
    violations: &mut Violations,
) -> Result<bool, Error> {
    let lean_pods = LeanPodReader::new();
    read(LIST, index, bytes, lean_pods, found, violations)
}

/// Like [`scan`], for the texts of another field.
pub(crate) fn scan_field<'a>(
    field: &'static str,
    index: usize,
    bytes: &'a [u8],
    found: &mut Vec<Found<'a>>,
    violations: &mut Violations,
) -> Result<bool, Error> {
    read(field, index, bytes, None, found, violations)
}

fn read<'a>(
    field: &'static str,
    index: usize,
    bytes: &'a [u8],
    lean_pods: Option<LeanPodReader<'a>>,
    found: &mut Vec<Found<'a>>,
    violations: &mut Violations,
) -> Result<bool, Error> {
    let list: Rc<str> = Rc::from(field);
    let place = format_args!("{list}[{index}]").to_string();
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => {
            let description = format_args!("byte {}: is not UTF-8", error.valid_up_to());
            violations.add(place, Reason::InvalidUtf8, description);
            return Ok(false);
        }
    };
    let mut is_continued = false;
    let mut scanner = Scanner {
        text,
        found,
        violations,
        is_full: false,
        is_continued: &mut is_continued,
    };
    let at = At { list, index };
    if scanner.read_plain(&at, lean_pods) {
        return Ok(is_continued);
    }
    let read = exact::read(&mut scanner, at);
    if scanner.is_full {
        return Err(Error::TooLarge {
            what: field,
            unit: "objects",
            count: OBJECTS_MAX + 1,
            max: OBJECTS_MAX,
        });
    }
    if let Err(error) = read {
        let (reason, description) = syntax(&error);
        let description = match &*description {
            "trailing characters" => "more than one JSON document: each needs an entry of its own",
            other => other,
        };
        let byte = offset(text, &error);
        violations.add(place, reason, format_args!("byte {byte}: {description}"));
    }
    Ok(is_continued)
}

/// The offset of an error in a text.
fn offset(text: &str, error: &serde_json::Error) -> usize {
    if error.is_eof() {
        return text.len();
    }
    let lines = text
        .split_inclusive('\n')
        .take(error.line().saturating_sub(1));
    let start: usize = lines.map(str::len).sum();
    (start + error.column().saturating_sub(1)).min(text.len())
}

struct Scanner<'s, 'a> {
    text: &'a str,
    found: &'s mut Vec<Found<'a>>,
    violations: &'s mut Violations,
    is_full: bool,
    /// Whether a list is only one page of a longer list.
    is_continued: &'s mut bool,
}

/// The position of an object in its list.
#[derive(Clone, Debug)]
struct At {
    list: Rc<str>,
    index: usize,
}

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}[{}]", self.list, self.index)
    }
}

/// An object whose text has been read.
struct ReadObject<'a> {
    fields: Vec<FoundField<'a>>,
    has_items: bool,
    /// The number of objects that were found before its items.
    before: usize,
    /// A key that occurs twice.
    duplicate_key: Option<Cow<'a, str>>,
    lean_pod: Option<LeanPod<'a>>,
}

// === impl ReadObject ===

impl<'a> ReadObject<'a> {
    fn new(before: usize) -> Self {
        Self {
            fields: Vec::with_capacity(TYPICAL_FIELDS),
            has_items: false,
            before,
            duplicate_key: None,
            lean_pod: None,
        }
    }

    fn field(&self, name: &str) -> Option<&FoundField<'a>> {
        self.fields.iter().find(|field| field.name == name)
    }

    /// The value of a string field.
    fn text(&self, name: &str) -> Cow<'a, str> {
        let text = self.field(name).and_then(|field| string(field.text));
        text.unwrap_or_default()
    }
}

// === impl Scanner ===

impl<'a> Scanner<'_, 'a> {
    /// Reads a text that is formatted like those of API servers and has no errors. Otherwise, reads nothing and returns
    /// false.
    fn read_plain(&mut self, at: &At, lean_pods: Option<LeanPodReader<'a>>) -> bool {
        let before = self.found.len();
        let mut faults = Violations::default();
        let mut is_continued = false;
        let mut scanner = Scanner {
            text: self.text,
            found: &mut *self.found,
            violations: &mut faults,
            is_full: false,
            is_continued: &mut is_continued,
        };
        let read = plain::read(&mut scanner, at.clone(), lean_pods);
        if read.is_none() || scanner.is_full || !faults.is_empty() {
            self.found.truncate(before);
            return false;
        }
        *self.is_continued |= is_continued;
        true
    }

    /// Adds an object, or the items of a list. `faults` are the errors in the items.
    fn object(&mut self, at: At, object: ReadObject<'a>, faults: Violations) {
        let (api_version, kind) = (object.text("apiVersion"), object.text("kind"));
        let is_list = object.has_items && (kind.ends_with("List") || kind.is_empty());
        // Duplicate keys that identify an object are always an error, because the object could be mistaken for another
        // one. Other errors only matter if the object is selected.
        if let Some(key) = object
            .duplicate_key
            .as_deref()
            .filter(|key| is_list || IDENTITY.contains(key))
        {
            let field = format!("{at}[{key:?}]");
            self.violations
                .add(field, Reason::DuplicateKey, DUPLICATE_KEY);
            return;
        }
        if !is_list {
            self.found.truncate(object.before);
        }
        let refused = match (&*api_version, &*kind) {
            ("v1", "Status") => {
                Some("is a Status, which is the response to a failed call or a deletion")
            }
            (_, "Table") => Some("is a Table, which is for display only: use kubectl get -o json"),
            (_, "WatchEvent") => Some("is a watch event, and not an object"),
            (_, "") if object.field("object").is_some() => {
                Some("is a watch event, and not an object: send its field object")
            }
            _ => None,
        };
        if let Some(refused) = refused {
            self.violations.add(at, Reason::WrongKind, refused);
        } else if is_list {
            self.violations.extend(faults);
            self.list(&object, api_version, &kind);
        } else if self.found.len() >= OBJECTS_MAX {
            self.is_full = true;
        } else {
            self.found.push(Found {
                list: at.list,
                index: at.index,
                api_version: current_version(api_version, &kind),
                kind,
                fields: object.fields,
                is_typed_by_list: false,
                duplicate_key: object.duplicate_key,
                lean_pod: object.lean_pod,
            });
        }
    }

    /// Sets the kind of items without a kind to that of their list.
    fn list(&mut self, list: &ReadObject<'a>, api_version: Cow<'a, str>, kind: &str) {
        let metadata = list.field("metadata").and_then(FoundField::members);
        *self.is_continued |=
            metadata.is_some_and(|it| it.text("continue").is_some_and(|it| !it.is_empty()));
        let of = kind.strip_suffix("List").unwrap_or_default();
        for item in &mut self.found[list.before..] {
            if item.kind.is_empty() && !item.is_typed_by_list {
                item.is_typed_by_list = !of.is_empty();
                item.kind = Cow::Owned(of.to_owned());
                item.api_version = current_version(api_version.clone(), of);
            }
        }
        // Items of a List that has no kind.
        for item in self
            .found
            .extract_if(list.before.., |item| item.kind.is_empty())
        {
            let field = format!("{}[{}].kind", item.list, item.index);
            let description = "is required: neither the object nor its List has one";
            self.violations.add(field, Reason::Required, description);
        }
    }
}

/// The version in which an object is read. Clusters before Kubernetes 1.16 also served workloads in older versions, with the
/// same fields, and printed them in these.
pub(super) fn current_version<'a>(api_version: Cow<'a, str>, kind: &str) -> Cow<'a, str> {
    match (&*api_version, kind) {
        (
            "extensions/v1beta1" | "apps/v1beta1" | "apps/v1beta2",
            "Deployment" | "ReplicaSet" | "DaemonSet" | "StatefulSet",
        ) => Cow::Borrowed("apps/v1"),
        _ => api_version,
    }
}
