//! Kubernetes objects, out of documents and the Lists in them.

use serde_json::Value;

use super::document::{Document, documents};
use super::source::Source;
use crate::cli::error::Error;

/// Group of the custom resource that is a Deployment in all but name.
const PLANNED_GROUP: &str = "apps.rollplan.dev/";

/// An object, not looked into but for what it is.
#[derive(Debug)]
pub(super) struct Object {
    /// Where it is, as `web.json, items[3]`.
    place: String,
    pub(super) api_version: String,
    pub(super) kind: String,
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) value: Value,
}

/// What an object is to rollplan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Deployment,
    ReplicaSet,
    Pod,
    Event,
    /// Nothing.
    Other,
}

/// All objects of all sources, in their order.
pub(super) fn objects(sources: &[Source]) -> Result<Vec<Object>, Error> {
    let mut objects = Vec::new();
    for source in sources {
        for Document { number, value } in documents(source)? {
            let place = match number {
                Some(number) => format!("{}, document {number}", source.name),
                None => source.name.clone(),
            };
            let found = Found {
                place: &place,
                path: String::new(),
                item_type: None,
            };
            found.collect(value, &mut objects)?;
        }
    }
    Ok(objects)
}

/// Where in a document a value was found, and what the list around it says of it.
struct Found<'a> {
    place: &'a str,
    /// As `items[2].items[0]`.
    path: String,
    /// Version and kind of items that do not say themselves: the API server leaves them out in typed lists.
    item_type: Option<(String, String)>,
}

impl Found<'_> {
    fn collect(self, value: Value, objects: &mut Vec<Object>) -> Result<(), Error> {
        if let Value::Array(items) = value {
            // As `jq .items` prints them.
            return self.collect_items(items, "", self.item_type.clone(), objects);
        }
        let text = |pointer: &str| {
            let text = value.pointer(pointer).and_then(Value::as_str);
            text.unwrap_or_default().to_owned()
        };
        let (mut api_version, mut kind) = (text("/apiVersion"), text("/kind"));
        if kind.is_empty()
            && let Some((item_version, item_kind)) = &self.item_type
        {
            (api_version, kind) = (item_version.clone(), item_kind.clone());
        }
        if kind.is_empty() || !value.is_object() {
            let text = "not a Kubernetes object: missing kind";
            return Err(Error::input(self.place(), text));
        }
        let list_of = kind
            .strip_suffix("List")
            .filter(|_| value.get("items").is_some());
        let Some(list_of) = list_of else {
            objects.push(Object {
                place: self.place(),
                namespace: text("/metadata/namespace"),
                name: text("/metadata/name"),
                api_version,
                kind,
                value,
            });
            return Ok(());
        };
        if !text("/metadata/continue").is_empty() {
            let text = "incomplete list: metadata.continue is set, and the rest is missing";
            return Err(Error::input(self.place(), text));
        }
        let item_type = (!list_of.is_empty()).then(|| (api_version, list_of.to_owned()));
        let Value::Object(mut list) = value else {
            return Ok(());
        };
        match list.remove("items") {
            Some(Value::Array(items)) => self.collect_items(items, "items", item_type, objects),
            None | Some(Value::Null) => Ok(()),
            Some(_) => Err(Error::input(self.place(), "items: must be a list")),
        }
    }

    fn collect_items(
        &self,
        items: Vec<Value>,
        field: &str,
        item_type: Option<(String, String)>,
        objects: &mut Vec<Object>,
    ) -> Result<(), Error> {
        let point = if self.path.is_empty() || field.is_empty() {
            ""
        } else {
            "."
        };
        for (index, item) in items.into_iter().enumerate() {
            let found = Found {
                place: self.place,
                path: format!("{}{point}{field}[{index}]", self.path),
                item_type: item_type.clone(),
            };
            found.collect(item, objects)?;
        }
        Ok(())
    }

    fn place(&self) -> String {
        match self.path.as_str() {
            "" => self.place.to_owned(),
            path => format!("{}, {path}", self.place),
        }
    }
}

// === impl Object ===

impl Object {
    pub(super) fn role(&self) -> Role {
        match (self.api_version.as_str(), self.kind.as_str()) {
            ("apps/v1", "Deployment") => Role::Deployment,
            (version, "PlannedDeployment") if version.starts_with(PLANNED_GROUP) => {
                Role::Deployment
            }
            ("apps/v1", "ReplicaSet") => Role::ReplicaSet,
            ("v1", "Pod") => Role::Pod,
            ("v1", "Event") => Role::Event,
            _ => Role::Other,
        }
    }

    /// Namespace and name, as "shop/web".
    pub(super) fn key(&self) -> String {
        match self.namespace.as_str() {
            "" => self.name.clone(),
            namespace => format!("{namespace}/{}", self.name),
        }
    }

    /// As "Deployment shop/web".
    pub(super) fn label(&self) -> String {
        format!("{} {}", self.kind, self.key())
    }

    /// As `web.json, items[3] (Deployment shop/web)`.
    pub(super) fn place(&self) -> String {
        format!("{} ({})", self.place, self.label().trim_end())
    }
}
