//! The template of a new ReplicaSet: the template of the Deployment with the hash as a label, written without decoding it.

use std::collections::BTreeMap;

use super::canonical::{HASH_LABEL, MAX_DEPTH};
use super::name::Digest;
use super::tree::{Node, Tree, entry};
use super::write::{write_entry, write_tree};

/// The template of a new ReplicaSet, except for its hash. It may contain secrets, and is never printed.
pub struct Prepared {
    digest: Digest,
    /// The template with an empty hash.
    json: String,
    /// The position of the hash. `None` if the template cannot have labels.
    hash_at: Option<usize>,
    labels: BTreeMap<String, String>,
}

/// Prepares the template of a new ReplicaSet.
#[must_use]
pub fn prepare<'a>(template: impl Tree<'a>) -> Prepared {
    let mut prepared = Prepared {
        digest: Digest::of(template),
        json: String::new(),
        hash_at: None,
        labels: labels(template),
    };
    prepared.write(Some(template), HASH_LABEL, MAX_DEPTH);
    prepared
}

// === impl Prepared ===

impl Prepared {
    /// The [`template_hash`](super::template_hash) of the template.
    pub(crate) fn hash(&self, collision_count: Option<i32>) -> String {
        self.digest.to_hash(collision_count)
    }

    /// The labels of the template with this hash.
    pub(crate) fn labels(&self, hash: &str) -> BTreeMap<String, String> {
        let mut labels = self.labels.clone();
        if let (Some(_), Some(key)) = (self.hash_at, HASH_LABEL.last()) {
            labels.insert((*key).to_owned(), hash.to_owned());
        }
        labels
    }

    /// Appends a value that may be absent. `path` is the path from the value to the label.
    fn write<'a, T: Tree<'a>>(&mut self, value: Option<T>, path: &[&str], levels: usize) {
        let [key, path @ ..] = path else {
            self.json.push('"');
            self.hash_at = Some(self.json.len());
            return self.json.push('"');
        };
        let entries = match value.map(T::node) {
            Some(Node::Map(entries)) => Some(entries),
            // The template is missing.
            Some(Node::Null) if path.len() + 1 == HASH_LABEL.len() => {
                return self.json.push_str("null");
            }
            None | Some(Node::Null) => None,
            Some(node) => return write_tree(&mut self.json, node, levels),
        };
        let mut entries = entries.into_iter().flatten().peekable();
        self.json.push('{');
        let mut is_first = true;
        while let Some((other, value)) = entries.next_if(|(other, _)| *other < *key) {
            write_entry(&mut self.json, other, is_first);
            write_tree(&mut self.json, value.node(), levels - 1);
            is_first = false;
        }
        write_entry(&mut self.json, key, is_first);
        let value = entries.next_if(|(other, _)| other == key);
        self.write(value.map(|(_, value)| value), path, levels - 1);
        for (other, value) in entries {
            write_entry(&mut self.json, other, false);
            write_tree(&mut self.json, value.node(), levels - 1);
        }
        self.json.push('}');
    }

    /// Appends the template with this hash.
    pub(super) fn write_json(&self, hash: &str, json: &mut String) {
        let (before, after) = self.json.split_at(self.hash_at.unwrap_or(self.json.len()));
        json.push_str(before);
        if self.hash_at.is_some() {
            json.push_str(hash);
        }
        json.push_str(after);
    }
}

/// The labels whose values are strings.
fn labels<'a>(template: impl Tree<'a>) -> BTreeMap<String, String> {
    let labels = entry(template, "metadata").and_then(|metadata| entry(metadata, "labels"));
    let Some(Node::Map(labels)) = labels.map(Tree::node) else {
        return BTreeMap::new();
    };
    let texts = labels.filter_map(|(key, value)| match value.node() {
        Node::String(text) => Some((key.to_owned(), text.to_owned())),
        _ => None,
    });
    texts.collect()
}
