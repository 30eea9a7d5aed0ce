//! The template of a new ReplicaSet: the template of the Deployment with the hash as a label, written without decoding it.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use super::canonical::{CanonicalSink, HASH_LABEL, write_canonical};
use super::name::Digest;
use super::tree::{Node, Tree, entry};
use super::value::Number;
use super::write::{JsonSink, write_entry, write_tree};

/// The initial capacity of the text. Most templates are smaller.
const TYPICAL_BYTES: usize = 8 * 1024;

/// The template of a new ReplicaSet, except for its hash. It may contain secrets, and is never printed.
pub struct Prepared {
    digest: Digest,
    /// The template with an empty hash.
    json: String,
    /// The position of the hash. `None` if the template cannot have labels.
    hash_at: Option<usize>,
    /// The end of the path to the hash that the text does not contain yet.
    missing: &'static [&'static str],
    labels: BTreeMap<String, String>,
}

/// Prepares the template of a new ReplicaSet.
#[must_use]
pub fn prepare<'a>(template: impl Tree<'a>) -> Prepared {
    let mut prepared = Prepared {
        digest: Digest::EMPTY,
        json: String::with_capacity(TYPICAL_BYTES),
        hash_at: None,
        missing: HASH_LABEL,
        labels: labels(template),
    };
    write_canonical(template, &mut prepared);
    prepared
}

/// The text is hashed while it is written. In the hash, each byte waits for the one before it, so the processor has time
/// to write the next parts.
impl JsonSink for Prepared {
    #[inline]
    fn push(&mut self, part: &str) {
        self.json.push_str(part);
        self.digest.push(part);
    }

    #[inline]
    fn push_quoted(&mut self, text: &str) {
        self.json.push_quoted(text);
        self.digest.push_quoted(text);
    }

    fn push_number(&mut self, number: Number) {
        let start = self.json.len();
        self.json.push_number(number);
        self.digest.push(&self.json[start..]);
    }
}

impl CanonicalSink for Prepared {
    type Mark = Digest;

    fn push_key(&mut self, key: &str, is_first: bool, path: &[&str]) -> Digest {
        if let Some((next, below)) = self.missing_from(path) {
            match next.cmp(key) {
                Ordering::Less => self.omit_label(path),
                Ordering::Equal => self.missing = below,
                Ordering::Greater => {}
            }
        }
        let before = self.digest;
        if is_first && !self.json.ends_with('{') {
            // In the text, it follows entries that the canonical form does not have.

            write_entry(&mut self.json, key, false);
            write_entry(&mut self.digest, key, true);
        } else {
            write_entry(self, key, is_first);
        }
        before
    }

    /// The text keeps the entry.
    fn back_to(&mut self, mark: Digest) {
        self.digest = mark;
    }

    fn push_null(&mut self, path: &[&str]) {
        match path {
            [] => self.json.push_str("null"),
            _ => self.write_missing(),
        }
    }

    fn push_normalized<'a, T: Tree<'a>>(&mut self, canonical: &str, written: Node<'a, T>) {
        self.digest.push(canonical);
        write_tree(&mut self.json, written, 0);
    }

    fn omit_label(&mut self, path: &[&str]) {
        if let Some((key, below)) = self.missing_from(path) {
            let is_first = self.json.ends_with('{');
            write_entry(&mut self.json, key, is_first);
            self.missing = below;
            self.write_missing();
        }
    }
}

impl Prepared {
    /// The key that the map at a path needs for the label and does not have yet, with the path below it.
    fn missing_from(&self, path: &[&str]) -> Option<(&'static str, &'static [&'static str])> {
        let (key, below) = self.missing.split_first()?;
        (self.missing.len() == path.len()).then_some((key, below))
    }

    /// Appends the missing maps and the empty label, to the text alone.
    fn write_missing(&mut self) {
        let Some((key, below)) = self.missing.split_first() else {
            self.hash_at = Some(self.json.len() + 1);
            return self.json.push_quoted("");
        };
        self.json.push('{');
        write_entry(&mut self.json, key, true);
        self.missing = below;
        self.write_missing();
        self.json.push('}');
    }

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

    /// Appends the template with this hash.
    pub(super) fn write_json(&self, hash: &str, json: &mut String) {
        // With room for the end of the body that contains it.
        json.reserve(self.json.len() + 64);
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
