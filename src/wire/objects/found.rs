//! Objects in JSON texts. Only the texts of their fields are recorded; fields are parsed when needed.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::rc::Rc;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::key::Key;
use super::lean_pod::LeanPod;
use crate::proto;
use crate::wire::origin::Origin;
use crate::wire::parse::lean_pod::BYTES_MAX;
use crate::wire::plain_json::{Json, TYPICAL_FIELDS};

/// An object as the texts of its fields.
#[derive(Debug)]
pub(crate) struct Found<'a> {
    pub(super) list: Rc<str>,
    pub(super) index: usize,
    pub(crate) api_version: Cow<'a, str>,
    pub(crate) kind: Cow<'a, str>,
    /// The fields that are used for some kind.
    pub(super) fields: Vec<FoundField<'a>>,
    /// Whether its kind is derived from that of its list.
    pub(super) is_typed_by_list: bool,
    /// A key that occurs twice. The object is refused if it is selected.
    pub(super) duplicate_key: Option<Cow<'a, str>>,
    /// If it is a usual pod, the data that decides a plan. Only if it was asked for.
    pub(super) lean_pod: Option<LeanPod<'a>>,
}

/// A field of an object.
#[derive(Debug)]
pub(super) struct FoundField<'a> {
    pub(super) name: &'static str,
    pub(super) text: &'a str,
    /// Its members, if the scan read them, so that the text is not parsed again.
    pub(super) members: Option<Members<'a>>,
}

/// The identity of an object, and its controller.
#[derive(Debug, Default)]
pub(crate) struct Metadata<'a> {
    pub(crate) name: Cow<'a, str>,
    pub(crate) namespace: Cow<'a, str>,
    pub(crate) uid: Cow<'a, str>,
    /// The UID of its controller.
    pub(crate) controller: Option<Cow<'a, str>>,
}

// === impl Found ===

impl<'a> Found<'a> {
    fn found(&self, name: &str) -> Option<&FoundField<'a>> {
        let field = self.fields.iter().find(|field| field.name == name);
        field.filter(|field| field.text != "null")
    }

    /// The text of a field. `None` if it is absent or null.
    pub(crate) fn field(&self, name: &str) -> Option<&'a str> {
        self.found(name).map(|field| field.text)
    }

    /// The fields without apiVersion and kind, which the caller writes.
    pub(super) fn fields(&self) -> impl Iterator<Item = &FoundField<'a>> {
        let fields = self.fields.iter();
        fields.filter(|field| !matches!(field.name, "apiVersion" | "kind"))
    }

    /// Writes the object as JSON, with the texts of its recorded fields.
    pub(crate) fn write_json(&self, json: &mut String) {
        let text = |text: &str| serde_json::Value::from(text).to_string();
        json.push_str("{\"apiVersion\":");
        json.push_str(&text(&self.api_version));
        json.push_str(",\"kind\":");
        json.push_str(&text(&self.kind));
        for FoundField { name, text, .. } in self.fields() {
            for part in [",\"", name, "\":", text] {
                json.push_str(part);
            }
        }
        // A duplicate key may belong to a field that is not recorded. It is written so that the reader refuses the
        // object.
        if let Some(key) = &self.duplicate_key {
            let entry = format!(",{}:null", text(key));
            json.push_str(&entry.repeat(2));
        }
        json.push('}');
    }

    /// The members of a field that is an object.
    pub(super) fn members(&self, name: &str) -> Option<Cow<'_, Members<'a>>> {
        self.found(name).and_then(FoundField::members)
    }

    /// The metadata, as far as it is valid. Without valid owner references, the object has no controller.
    pub(crate) fn metadata(&self) -> Metadata<'a> {
        if let Some(pod) = &self.lean_pod {
            return Metadata {
                name: Cow::Borrowed(pod.name),
                namespace: Cow::Borrowed(pod.namespace),
                uid: Cow::Borrowed(pod.uid),
                controller: pod.controller.map(Cow::Borrowed),
            };
        }
        let Some(metadata) = self.members("metadata") else {
            return Metadata::default();
        };
        let text = |name: &str| metadata.text(name).unwrap_or_default();
        let controller = controller(&metadata);
        let controller = controller.map(|owner| owner.text("uid").unwrap_or_default());
        Metadata {
            name: text("name"),
            namespace: text("namespace"),
            uid: text("uid"),
            controller,
        }
    }

    /// The reference to its controller.
    pub(super) fn controller(&self) -> Option<proto::OwnerReference> {
        let owner = controller(&*self.members("metadata")?)?;
        let text = |name: &str| owner.text(name).unwrap_or_default().into_owned();
        Some(proto::OwnerReference {
            api_version: text("apiVersion"),
            kind: text("kind"),
            name: text("name"),
            uid: text("uid"),
            controller: Some(true),
            ..Default::default()
        })
    }

    /// The desired number of pods, as far as it is valid.
    pub(super) fn replicas(&self) -> Option<i32> {
        let replicas = self.members("spec")?.integer("replicas")?;
        i32::try_from(replicas).ok()
    }

    /// The data that decides a plan, if this is a usual pod, and the number of bytes of the fields that contain it.
    pub(super) fn lean_pod(&self) -> Option<(LeanPod<'a>, usize)> {
        let fields = self.fields().filter(|field| field.name != "spec");
        let bytes = fields.map(|field| field.text.len()).sum();
        let is_pod = (&*self.api_version, &*self.kind) == ("v1", "Pod");
        let is_usual = is_pod && bytes <= BYTES_MAX;
        Some((self.lean_pod.filter(|_| is_usual)?, bytes))
    }

    /// The labels. Empty if they are invalid.
    pub(super) fn labels(&self) -> BTreeMap<String, String> {
        let metadata = self.members("metadata");
        let labels = metadata.as_ref().and_then(|it| it.get("labels"));
        labels
            .and_then(|labels| serde_json::from_str(labels).ok())
            .unwrap_or_default()
    }

    /// The labels with these keys. Empty if any label is invalid. An object may have a million other labels.
    pub(super) fn labels_named(&self, keys: &HashSet<&str>) -> BTreeMap<String, String> {
        let metadata = self.members("metadata");
        let labels = metadata.as_ref().and_then(|it| it.get("labels"));
        let labels = labels.and_then(|labels| {
            let mut json = serde_json::Deserializer::from_str(labels);
            LabelsSeed(keys).deserialize(&mut json).ok()
        });
        labels.unwrap_or_default()
    }

    pub(super) fn annotation(&self, key: &str) -> Option<Cow<'a, str>> {
        Members::of(self.members("metadata")?.get("annotations")?)?.text(key)
    }

    /// The UID of the object of an event.
    pub(crate) fn involved_uid(&self) -> Option<Cow<'a, str>> {
        self.members("involvedObject")?.text("uid")
    }

    pub(crate) fn origin(&self, metadata: &Metadata<'a>) -> Origin {
        let Metadata {
            name, namespace, ..
        } = metadata;
        let object = match (&**namespace, &**name) {
            ("", "") => self.kind.clone().into_owned(),
            ("", name) => [&self.kind, " ", name].concat(),
            (namespace, name) => [&self.kind, " ", namespace, "/", name].concat(),
        };
        Origin {
            list: Rc::clone(&self.list),
            index: self.index,
            object,
            template: None,
        }
    }
}

// === impl FoundField ===

impl<'a> FoundField<'a> {
    /// The members of the field. `None` if it is not an object.
    pub(super) fn members(&self) -> Option<Cow<'_, Members<'a>>> {
        match &self.members {
            Some(members) => Some(Cow::Borrowed(members)),
            None => Members::of(self.text).map(Cow::Owned),
        }
    }
}

/// A text that starts with an object and may continue after it.
pub(super) struct ObjectText<'a>(&'a str);

// === impl ObjectText ===

impl<'a> ObjectText<'a> {
    /// The text starting at the value of a key, if the value is an object. The deserializer does not report its
    /// position, but a key without escapes is borrowed from the text.
    pub(super) fn after(key: &Cow<'a, str>, text: &'a str) -> Option<Self> {
        let Cow::Borrowed(key) = key else {
            return None;
        };
        let rest = after(key, text)?.strip_prefix('"')?;
        let value = rest.trim_ascii_start().strip_prefix(':')?;
        let value = value.trim_ascii_start();
        value.starts_with('{').then_some(Self(value))
    }

    /// The text of the object with these members.
    pub(super) fn up_to_end_of(self, members: &Members<'a>) -> &'a str {
        let Self(text) = self;
        let rest = match members.0.last() {
            Some((_, last)) => after(last, text),
            None => text.get(1..),
        };
        let end = rest.and_then(|rest| rest.trim_ascii_start().strip_prefix('}'));
        // The deserializer found the end already, so it exists.
        end.map_or(text, |rest| &text[..text.len() - rest.len()])
    }
}

/// The rest of a text after one of its parts.
fn after<'a>(part: &str, text: &'a str) -> Option<&'a str> {
    let end = part.as_ptr().addr() + part.len();
    text.get(end.checked_sub(text.as_ptr().addr())?..)
}

/// A string, borrowed if it has no escapes. `None` for other values.
pub(super) fn string(text: &str) -> Option<Cow<'_, str>> {
    let inside = text.strip_prefix('"')?.strip_suffix('"')?;
    if inside.contains('\\') {
        return serde_json::from_str(text).ok().map(Cow::Owned);
    }
    Some(Cow::Borrowed(inside))
}

/// The reference to the controller in the metadata of an object.
fn controller<'a>(metadata: &Members<'a>) -> Option<Members<'a>> {
    let owners = metadata.get("ownerReferences").and_then(items);
    owners.unwrap_or_default().into_iter().find_map(|owner| {
        let owner = Members::of(owner)?;
        (owner.get("controller") == Some("true")).then_some(owner)
    })
}

/// The texts of the items of a list. `None` for other values.
fn items(text: &str) -> Option<Vec<&str>> {
    if let Some(items) = Json::new(text).items() {
        return Some(items);
    }
    let items: Vec<&RawValue> = serde_json::from_str(text).ok()?;
    Some(items.into_iter().map(RawValue::get).collect())
}

/// The members of an object: their names and texts.
#[derive(Clone, Debug, Default)]
pub(super) struct Members<'a>(Vec<(Cow<'a, str>, &'a str)>);

// === impl Members ===

impl<'a> From<Vec<(Cow<'a, str>, &'a str)>> for Members<'a> {
    fn from(members: Vec<(Cow<'a, str>, &'a str)>) -> Self {
        Self(members)
    }
}

impl<'a> Members<'a> {
    /// The members of an object. `None` for other values.
    pub(super) fn of(text: &'a str) -> Option<Self> {
        let mut plain = Json::new(text);
        if let Some((_, members)) = plain.members(usize::MAX)
            && plain.end().is_some()
        {
            return Some(Self(members));
        }
        let mut json = serde_json::Deserializer::from_str(text);
        let read = MembersSeed(usize::MAX).deserialize(&mut json);
        read.ok().map(|(members, _)| members)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &'a str)> {
        self.0.iter().map(|(name, text)| (&**name, *text))
    }

    pub(super) fn get(&self, name: &str) -> Option<&'a str> {
        let member = self.0.iter().find(|(key, _)| key == name)?;
        Some(member.1)
    }

    /// The names of the members, in the order of the text.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(name, _)| &**name)
    }

    /// The value of a string member.
    pub(super) fn text(&self, name: &str) -> Option<Cow<'a, str>> {
        self.get(name).and_then(string)
    }

    /// The value of an integer member.
    pub(super) fn integer(&self, name: &str) -> Option<i64> {
        self.get(name)?.parse().ok()
    }
}

/// Reads the members of an object. If it has more than this number, only the last one is kept.
pub(super) struct MembersSeed(pub(super) usize);

impl<'a> DeserializeSeed<'a> for MembersSeed {
    /// The members, and their number.
    type Value = (Members<'a>, usize);

    fn deserialize<D: Deserializer<'a>>(self, json: D) -> Result<Self::Value, D::Error> {
        json.deserialize_map(self)
    }
}

impl<'a> Visitor<'a> for MembersSeed {
    type Value = (Members<'a>, usize);

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'a>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut members = Vec::with_capacity(TYPICAL_FIELDS);
        let mut count = 0;
        while let Some(key) = map.next_key_seed(Key)? {
            let value: &'a RawValue = map.next_value()?;
            count += 1;
            if count > self.0 {
                members.clear();
            }
            members.push((key, value.get()));
        }
        Ok((Members(members), count))
    }
}

/// Reads the labels with these keys.
struct LabelsSeed<'k>(&'k HashSet<&'k str>);

impl<'de> DeserializeSeed<'de> for LabelsSeed<'_> {
    type Value = BTreeMap<String, String>;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<Self::Value, D::Error> {
        json.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for LabelsSeed<'_> {
    type Value = BTreeMap<String, String>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map of strings")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut labels = BTreeMap::new();
        while let Some(key) = map.next_key_seed(Key)? {
            // The seed of keys reads any string.
            let value = map.next_value_seed(Key)?;
            if self.0.contains(&*key) {
                labels.insert(key.into_owned(), value.into_owned());
            }
        }
        Ok(labels)
    }
}

#[cfg(test)]
mod tests {
    use super::super::scan;
    use super::*;
    use crate::wire::error::Violations;

    fn found(json: &str) -> Found<'_> {
        let mut found = Vec::new();
        let mut violations = Violations::default();
        scan(0, json.as_bytes(), &mut found, &mut violations).unwrap();
        assert!(violations.is_empty(), "{json}: {violations:?}");
        assert_eq!(found.len(), 1, "{json}");
        found.remove(0)
    }

    #[test]
    fn labels_are_found_by_their_keys() {
        let keys = HashSet::from(["a", "c"]);
        for (labels, expected) in [
            (r#"{"a":"1","b":"2"}"#, Some("1")),
            (r#"{"b":"2", "\u0061" : "\u0031"}"#, Some("1")),
            ("{}", None),
            ("null", None),
            ("[]", None),
            // Invalid labels as a whole.
            (r#"{"a":"1","b":2}"#, None),
            (r#"{"a":"1","b":null}"#, None),
        ] {
            let json = format!(r#"{{"kind":"Pod","metadata":{{"labels":{labels}}}}}"#);
            let labels = found(&json).labels_named(&keys);
            assert_eq!(labels.get("a").map(String::as_str), expected, "{json}");
            assert_eq!(labels.len(), usize::from(expected.is_some()), "{json}");
        }
    }

    #[test]
    fn text_of_a_field_is_that_of_its_value() {
        for (spec, is_object) in [
            ("{}", true),
            ("{ \n}", true),
            (r#"{"a":{"b":"}"}}"#, true),
            ("{ \"a\" : [ 1 , {} ]\t, \"ü\\\"}\" : \"ü\\\\\"\r\n}", true),
            ("[{}]", false),
            ("7", false),
            (r#""{}""#, false),
        ] {
            for json in [
                format!(r#"{{"kind":"Pod","spec":{spec},"status":{{}}}}"#),
                format!(
                    "\n{{ \"status\" : {{ }}\n, \"kind\" : \"Pod\",\"spec\"\t:\r\n {spec}\n}} "
                ),
                format!(r#"{{"\u006bind":"Pod","\u0073pec":{spec}}}"#),
                format!(r#"{{"\u006bind":"Pod","spec":{spec},"status":{{}}}}"#),
            ] {
                let found = found(&json);
                assert_eq!(found.field("spec"), Some(spec), "{json}");
                assert_eq!(found.members("spec").is_some(), is_object, "{json}");
            }
        }
    }

    #[test]
    fn fields_with_many_members_are_parsed_when_needed() {
        let many: Vec<_> = (0..300).map(|i| format!("\"a{i}\":{i}")).collect();
        let status = format!("{{{} }}", many.join(","));
        let json = format!(r#"{{"kind":"Pod","status":{status}}}"#);
        let found = found(&json);
        assert!(found.fields().all(|field| field.members.is_none()));
        assert_eq!(found.field("status"), Some(&*status));
        assert_eq!(found.members("status").unwrap().integer("a7"), Some(7));
    }

    #[test]
    fn members_are_found_in_any_formatting() {
        for key in ["status", r"\u0073tatus"] {
            let json = format!(r#"{{"kind":"Pod","{key}":{{"a":1,"b" : "x", "c":null}}}}"#);
            let found = found(&json);
            let status = found.members("status").unwrap();
            let read: Vec<_> = status.iter().collect();
            let expected = [("a", "1"), ("b", r#""x""#), ("c", "null")];
            assert_eq!(read, expected, "{json}");
            assert_eq!(status.integer("a"), Some(1));
            assert_eq!(status.text("b").as_deref(), Some("x"));
        }
        assert!(
            found(r#"{"kind":"Pod","status":null}"#)
                .members("status")
                .is_none()
        );
    }
}
