//! Objects in JSON texts. A text is read once for the identity of its objects; the content of an object is read when the
//! object is selected.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use rollplan_core::interrupt::{Interrupt, Interrupted, Never};

use crate::error::{Error, Reason, Violations};
use crate::limits::OBJECT_BYTES_MAX;
use crate::memory::Memory;
use crate::origin::Origin;
use crate::read::{DUPLICATE_KEY, Fault, Json, PathStep, Read, Syntax, Unread, objects, read_all};

/// An object in a text.
#[derive(Debug)]
pub struct Found<'a> {
    pub(super) list: Rc<str>,
    pub(super) index: Option<usize>,
    /// The whole object.
    pub(super) text: &'a str,
    /// The group and version.
    pub api_version: Cow<'a, str>,
    /// The kind.
    pub kind: Cow<'a, str>,
    /// The part of the metadata that is read for every object.
    pub metadata: Metadata<'a>,
    /// The UID of the object that it is about, if it is an event.
    pub involved_uid: Option<Cow<'a, str>>,
    /// The name of the PersistentVolumeClaim that it is about, if it is an event about one.
    pub involved_claim: Option<Cow<'a, str>>,
    /// Whether its kind is derived from that of its list.
    pub(super) is_typed_by_list: bool,
    /// A key of the object that occurs twice. The object is rejected if it is selected.
    pub(super) duplicate_key: Option<Cow<'a, str>>,
    /// The labels, once they have been read.
    pub(super) labels: OnceCell<BTreeMap<String, String>>,
}

/// The part of the metadata that decides whether an object is selected. Values of another type count as absent, because
/// only selected objects are validated.
#[derive(Debug, Default)]
pub struct Metadata<'a> {
    /// The name.
    pub name: Cow<'a, str>,
    /// The namespace. Empty if it is absent.
    pub namespace: Cow<'a, str>,
    /// The UID.
    pub uid: Cow<'a, str>,
    /// The resourceVersion.
    pub resource_version: Cow<'a, str>,
    /// Whether it is being deleted.
    pub is_deleting: bool,
    /// Its controller: the first owner that is one.
    pub controller: Option<Controller<'a>>,
    /// The text of the labels.
    pub(super) labels: &'a str,
    /// The token with which a list continues.
    pub(super) continues: Cow<'a, str>,
}

/// The reference to the controller of an object. Values of another type count as empty.
#[derive(Debug, Default)]
pub struct Controller<'a> {
    /// The group and version.
    pub api_version: Cow<'a, str>,
    /// The kind.
    pub kind: Cow<'a, str>,
    /// The name.
    pub name: Cow<'a, str>,
    /// The UID.
    pub uid: Cow<'a, str>,
}

objects! {
    /// The desired number of pods.
    struct Size {
        spec: SizeSpec = "spec",
    }

    /// The kind that the text of an object contains.
    struct OwnKind {
        api_version: Option<String> = "apiVersion",
        kind: Option<String> = "kind",
    }

    struct SizeSpec {
        replicas: Option<i32> = "replicas",
    }
}

/// Reads the content of selected objects, one after another, and counts its memory.
pub(crate) struct ContentReader<'a> {
    json: Json<'a>,
    pub memory: Memory,
    interrupt: &'a dyn Interrupt,
}

// === impl ContentReader ===

impl<'a> ContentReader<'a> {
    pub(crate) fn new(interrupt: &'a dyn Interrupt) -> Self {
        Self {
            json: Json::of_similar_objects("", interrupt),
            memory: Memory::default(),
            interrupt,
        }
    }

    /// Counts memory from zero again. The contents so far must have been dropped.
    pub(crate) fn reset_memory(&mut self) {
        self.memory = Memory::default();
    }

    /// Reads the content of an object.
    pub(crate) fn read<T: Read<'a>>(
        &mut self,
        object: &Found<'a>,
    ) -> Result<Result<T, Fault>, Error> {
        self.interrupt.check()?;
        if let Err(fault) = object.check() {
            return Ok(Err(fault));
        }
        self.json.continue_with(object.text);
        let read = read_all(&mut self.json);
        self.memory.take(self.json.allocated() + size_of::<T>())?;
        match read {
            Err(Unread::Syntax(Syntax::Interrupted)) => Err(Interrupted.into()),
            read => Ok(read.map_err(Fault::from)),
        }
    }

    /// Reads the content of an object. `None` after a violation, which is recorded.
    pub(crate) fn content<T: Read<'a>>(
        &mut self,
        object: &Found<'a>,
        violations: &mut Violations,
    ) -> Result<Option<T>, Error> {
        let read = self.read(object)?;
        Ok(read.map_err(|fault| object.reject(&fault, violations)).ok())
    }
}

// === impl Found ===

impl<'a> Found<'a> {
    /// Reads a few fields of an object that is not validated. If one of them is invalid, all count as absent.
    pub(crate) fn read_leniently<T: Read<'a>>(&self) -> T {
        match self.check() {
            Ok(()) => read_all(&mut Json::new(self.text, &Never)).unwrap_or_default(),
            Err(_) => T::default(),
        }
    }

    /// Rejects an object for its keys, even if they are not used, and for its size.
    pub(crate) fn check(&self) -> Result<(), Fault> {
        if let Some(key) = &self.duplicate_key {
            let twice = Unread::wrong(Reason::DuplicateKey, DUPLICATE_KEY);
            return Err(twice.at(PathStep::Key(key.clone().into_owned())).into());
        }
        if self.text.len() > OBJECT_BYTES_MAX {
            let bytes = length_without_white_space(self.text);
            if bytes > OBJECT_BYTES_MAX {
                let description =
                    format!("{bytes} bytes exceed the limit of {OBJECT_BYTES_MAX} for an object");
                return Err(Fault::new(Reason::ObjectTooLarge, description));
            }
        }
        Ok(())
    }

    /// The text of the object. Items of typed lists may lack a kind in their text.
    pub fn text(&self) -> &'a str {
        self.text
    }

    /// Writes the object as JSON with its kind.
    pub fn write_json(&self, json: &mut String) {
        if !self.is_typed_by_list {
            return json.push_str(self.text);
        }
        let OwnKind { api_version, kind } = self.read_leniently();
        let own = [
            ("apiVersion", api_version, &self.api_version),
            ("kind", kind, &self.kind),
        ];
        let missing = own.into_iter().filter(|(_, given, _)| given.is_none());
        json.push('{');
        for (key, _, value) in missing {
            let value = serde_json::Value::from(&**value);
            json.push_str(&format!("\"{key}\":{value},"));
        }
        let rest = self.text.trim_start_matches('{').trim_start();
        if rest.starts_with('}') {
            // Nothing follows the last comma.
            json.pop();
        }
        json.push_str(rest);
    }

    /// The desired number of pods, as far as it is valid.
    pub fn replicas(&self) -> Option<i32> {
        self.read_leniently::<Size>().spec.replicas
    }

    /// The labels. Empty if they are invalid. They are read at most once, because several selectors may be compared with
    /// them.
    pub fn labels(&self) -> &BTreeMap<String, String> {
        self.labels.get_or_init(|| {
            read_all(&mut Json::new(self.metadata.labels, &Never)).unwrap_or_default()
        })
    }

    /// Whether it is in the namespace of an owner. An absent namespace is the owner's.
    pub fn is_in_namespace_of(&self, owner: &Self) -> bool {
        let namespace = &self.metadata.namespace;
        namespace.is_empty() || *namespace == owner.metadata.namespace
    }

    /// Whether it is a ReplicaSet.
    #[must_use]
    pub fn is_replica_set(&self) -> bool {
        (&*self.api_version, &*self.kind) == ("apps/v1", "ReplicaSet")
    }

    /// Whether it is a pod.
    #[must_use]
    pub fn is_pod(&self) -> bool {
        (&*self.api_version, &*self.kind) == ("v1", "Pod")
    }

    /// Whether it is a ControllerRevision.
    #[must_use]
    pub fn is_controller_revision(&self) -> bool {
        (&*self.api_version, &*self.kind) == ("apps/v1", "ControllerRevision")
    }

    /// Whether it is an event of the core group.
    #[must_use]
    pub fn is_event(&self) -> bool {
        (&*self.api_version, &*self.kind) == ("v1", "Event")
    }

    /// Its path in the request, for example `snapshot.objects[0].items[3]`.
    #[must_use]
    pub fn path(&self) -> String {
        self.origin().to_string()
    }

    pub(crate) fn origin(&self) -> Origin {
        let Metadata {
            name, namespace, ..
        } = &self.metadata;
        let object = match (&**namespace, &**name) {
            ("", "") => self.kind.clone().into_owned(),
            ("", name) => [&self.kind, " ", name].concat(),
            (namespace, name) => [&self.kind, " ", namespace, "/", name].concat(),
        };
        Origin {
            list: Rc::clone(&self.list),
            index: self.index,
            object,
        }
    }

    /// Records that the content cannot be read.
    pub(crate) fn reject(&self, fault: &Fault, violations: &mut Violations) {
        let origin = self.origin();
        let field = format!("{origin}{}", fault.path());
        let description = format!("{} ({})", fault.description, origin.object);
        violations.add(field, fault.reason, description);
    }
}

impl<'a> AsRef<Self> for Found<'a> {
    fn as_ref(&self) -> &Self {
        self
    }
}

/// The length of valid JSON without the white space between its parts.
fn length_without_white_space(json: &str) -> usize {
    let (mut length, mut is_in_string, mut is_escaped) = (0, false, false);
    for byte in json.bytes() {
        let is_quote = byte == b'"' && !is_escaped;
        is_escaped = is_in_string && byte == b'\\' && !is_escaped;
        is_in_string ^= is_quote;
        length += usize::from(is_in_string || byte > b' ');
    }
    length
}

// === impl Metadata ===

impl<'a> Metadata<'a> {
    /// The UID of its controller.
    pub fn controller_uid(&self) -> Option<&str> {
        self.controller.as_ref().map(|controller| &*controller.uid)
    }

    /// Reads the metadata of an object.
    pub(super) fn read(json: &mut Json<'a>) -> Result<Self, Syntax> {
        let mut metadata = Self::default();
        if json.peek()? != b'{' {
            json.value()?;
            return Ok(metadata);
        }
        json.begin(b'{')?;
        while json.has_next(b'}')? {
            let key = json.key()?;
            match &*key {
                "name" => metadata.name = text(json)?,
                "namespace" => metadata.namespace = text(json)?,
                "uid" => metadata.uid = text(json)?,
                "resourceVersion" => metadata.resource_version = text(json)?,
                "deletionTimestamp" => metadata.is_deleting = json.value()? != "null",
                "continue" => metadata.continues = text(json)?,
                "labels" => metadata.labels = json.value_of(&key)?,
                "ownerReferences" => metadata.controller = controller(json)?,
                _ => _ = json.value_of(&key)?,
            }
        }
        Ok(metadata)
    }
}

/// A string. Other values count as empty.
pub(super) fn text<'a>(json: &mut Json<'a>) -> Result<Cow<'a, str>, Syntax> {
    match json.peek()? {
        // A string that cannot be decoded is rejected if the object is selected.
        b'"' => json.string().or_else(|error| match error {
            Syntax::Surrogate => Ok(Cow::Borrowed("")),
            error => Err(error),
        }),
        _ => json.value().map(|_| Cow::Borrowed("")),
    }
}

/// The first owner that is a controller.
fn controller<'a>(json: &mut Json<'a>) -> Result<Option<Controller<'a>>, Syntax> {
    let mut controller = None;
    if json.peek()? != b'[' {
        json.value()?;
        return Ok(None);
    }
    json.begin(b'[')?;
    while json.has_next(b']')? {
        if json.peek()? != b'{' {
            json.value()?;
            continue;
        }
        let (mut owner, mut is_controller) = (Controller::default(), false);
        json.begin(b'{')?;
        while json.has_next(b'}')? {
            let key = json.key()?;
            match &*key {
                "apiVersion" => owner.api_version = text(json)?,
                "kind" => owner.kind = text(json)?,
                "name" => owner.name = text(json)?,
                "uid" => owner.uid = text(json)?,
                "controller" => is_controller = json.value()? == "true",
                _ => _ = json.value()?,
            }
        }
        if is_controller && controller.is_none() {
            controller = Some(owner);
        }
    }
    Ok(controller)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn white_space_between_parts_does_not_count() {
        let json = "{ \"a b\" : [1,\n 2],\t\"c\" : \"\\\" d\" }";
        let short = r#"{"a b":[1,2],"c":"\" d"}"#;
        assert_eq!(length_without_white_space(json), short.len());
        assert_eq!(length_without_white_space(short), short.len());
    }
}
