//! The part of a configuration that a workload reads, and how it has changed.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use rollplan_core::reference::{ConfigurationKind, Reference, Usage};

use super::checksum::digest;
use super::configuration::{Configuration, Content};
use super::options::Profile;
use super::state::{Applied, Entry};

/// The maximum number of keys whose checksums are recorded individually.
const KEYS_MAX: usize = 32;
/// The number of digits of a key's checksum.
const KEY_DIGITS: usize = 12;
/// The checksum of a key that does not exist.
const ABSENT: &str = "-";

/// A change that a workload has not applied.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Change {
    /// Kind of the configuration.
    pub kind: ConfigurationKind,
    /// Namespace of the configuration.
    pub namespace: String,
    /// Name of the configuration.
    pub name: String,
    /// The key. Empty for the whole configuration.
    pub key: String,
    /// The kind of change.
    pub change: ChangeKind,
}

/// How a configuration or one of its keys has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ChangeKind {
    /// The value changed.
    Changed,
    /// The key was added.
    Added,
    /// The key was removed.
    Removed,
    /// The configuration was created.
    Created,
    /// The configuration was deleted.
    Deleted,
    /// It changed after the pods were started, and no earlier checksum is recorded.
    Unrecorded,
    /// Pods are running that started before the change was applied.
    Undone,
}

/// The part of a configuration that a workload reads.
#[derive(Clone, Debug, Default)]
pub(super) struct Reading<'a> {
    pub(super) is_whole: bool,
    /// Whether all keys include those of `binaryData`, which `envFrom` does not read (kubelet_pods.go:
    /// `makeEnvironmentVariables`).
    pub(super) reads_binary: bool,
    pub(super) keys: BTreeSet<&'a str>,
    /// The keys among these that are read as files. Variables do not read `binaryData`, either.
    pub(super) files: BTreeSet<&'a str>,
    /// Whether pods do not start without the configuration.
    pub(super) is_required: bool,
    /// Keys without which pods do not start, and whether they may be in `binaryData`.
    pub(super) required_keys: BTreeSet<(&'a str, bool)>,
}

/// The current state of a configuration.
#[derive(Debug)]
pub(super) enum Current {
    /// The caller does not know.
    Unknown,
    /// It does not exist, or lacks this key, and pods cannot start without it.
    Missing(String),
    /// It is unchanged since it was applied.
    Same,
    Known(Applied),
}

/// How the current configuration differs from the applied one.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Difference {
    Same,
    /// The workload reads other keys than before, and no key that it read before has changed.
    Reading,
    Changed(Vec<(String, ChangeKind)>),
}

// === impl Reading ===

impl<'a> Reading<'a> {
    pub(super) fn whole() -> Self {
        Self {
            is_whole: true,
            reads_binary: true,
            ..Self::default()
        }
    }

    /// Adds what a reference reads.
    pub(super) fn add(&mut self, reference: &'a Reference) {
        let is_file = !matches!(reference.usage, Usage::Env | Usage::EnvFrom);
        match &reference.keys {
            None => {
                self.is_whole = true;
                self.reads_binary |= is_file;
            }
            Some(keys) => {
                let keys = keys.iter().map(String::as_str);
                self.keys.extend(keys.clone());
                self.files.extend(keys.filter(|_| is_file));
            }
        }
        self.require(reference);
    }

    /// Adds what pods need to start.
    pub(super) fn require(&mut self, reference: &'a Reference) {
        if reference.optional {
            return;
        }
        self.is_required = true;
        let is_file = !matches!(reference.usage, Usage::Env | Usage::EnvFrom);
        let keys = reference.required_keys.iter();
        self.required_keys
            .extend(keys.map(|key| (key.as_str(), is_file)));
    }

    /// The current state of this part of a configuration, compared with the applied one.
    pub(super) fn of(
        &self,
        configuration: Option<&Configuration>,
        profile: Profile,
        applied: Option<&Applied>,
    ) -> Current {
        let Some(configuration) = configuration else {
            return Current::Unknown;
        };
        let (keys, binary, whole) = match &configuration.content {
            Content::Absent if self.is_required => return Current::Missing(String::new()),
            Content::Absent => return Current::Known(Applied::Absent),
            Content::Present {
                keys,
                binary,
                whole,
            } => (keys, binary, whole),
        };
        let Some(keys) = keys else {
            return Current::Known(Applied::whole(whole.clone()));
        };
        let exists =
            |key: &str, is_file: bool| keys.contains_key(key) && (is_file || !binary.contains(key));
        let mut required = self.required_keys.iter();
        if let Some((missing, _)) = required.find(|(key, is_file)| !exists(key, *is_file)) {
            return Current::Missing((*missing).to_owned());
        }
        if profile != Profile::Rollplan && !whole.is_empty() {
            return Current::Known(Applied::whole(whole.clone()));
        }
        let read: Vec<_> = self.read(keys, binary).collect();
        let digest = digest(read.iter().flat_map(|(key, checksum)| [*key, *checksum]));
        if let Some(Applied::Present(applied)) = applied
            && applied.is_whole == self.is_whole
            && applied.digest == digest
        {
            return Current::Same;
        }
        Current::Known(Applied::Present(self.entry(&read, digest)))
    }

    /// The keys that the workload reads, with their short checksums, in order.
    fn read<'s>(
        &'s self,
        keys: &'s BTreeMap<String, String>,
        binary: &'s BTreeSet<String>,
    ) -> impl Iterator<Item = (&'s str, &'s str)> {
        let short = |checksum: &'s String| &checksum[..checksum.floor_char_boundary(KEY_DIGITS)];
        let is_read = move |key: &str, reads_binary: bool| {
            reads_binary || !binary.contains(key) || self.files.contains(key)
        };
        let all = keys
            .iter()
            .filter(move |(key, _)| self.is_whole && is_read(key, self.reads_binary));
        let all = all.map(move |(key, checksum)| (key.as_str(), short(checksum)));
        let some = self.keys.iter().filter(|_| !self.is_whole);
        let some = some.map(move |key| {
            let checksum = keys.get(*key).filter(|_| is_read(key, false));
            (*key, checksum.map_or(ABSENT, short))
        });
        all.chain(some)
    }

    fn entry(&self, read: &[(&str, &str)], digest: String) -> Entry {
        let owned = |(key, checksum): &(&str, &str)| ((*key).to_owned(), (*checksum).to_owned());
        Entry {
            digest,
            is_whole: self.is_whole,
            keys: (read.len() <= KEYS_MAX).then(|| read.iter().map(owned).collect()),
        }
    }
}

// === impl Applied ===

impl Applied {
    /// How the current configuration differs from this one.
    pub(super) fn difference(&self, current: &Self) -> Difference {
        let (before, now) = match (self, current) {
            (Self::Absent, Self::Absent) => return Difference::Same,
            (Self::Absent, Self::Present(_)) => return Difference::whole(ChangeKind::Created),
            (Self::Present(_), Self::Absent) => return Difference::whole(ChangeKind::Deleted),
            (Self::Present(before), Self::Present(now)) => (before, now),
        };
        let is_same_reading = before.is_whole == now.is_whole;
        if is_same_reading && before.digest == now.digest {
            return Difference::Same;
        }
        let (Some(old), Some(new)) = (&before.keys, &now.keys) else {
            return if is_same_reading {
                Difference::whole(ChangeKind::Changed)
            } else {
                // They have no checksums in common to compare.
                Difference::Reading
            };
        };
        let changed = keys(old, new, before.is_whole, now.is_whole);
        if changed.is_empty() {
            Difference::Reading
        } else {
            Difference::Changed(changed)
        }
    }
}

/// The keys that differ. A key that the workload did not read before counts as added only if the workload read all
/// keys.
fn keys(
    old: &BTreeMap<String, String>,
    new: &BTreeMap<String, String>,
    was_whole: bool,
    is_whole: bool,
) -> Vec<(String, ChangeKind)> {
    let changed = new.iter().filter_map(|(key, checksum)| {
        let was_read = was_whole || old.contains_key(key);
        let before = old.get(key).map_or(ABSENT, String::as_str);
        let change = match (before, checksum.as_str()) {
            (before, now) if !was_read || before == now => return None,
            (ABSENT, _) => ChangeKind::Added,
            (_, ABSENT) => ChangeKind::Removed,
            _ => ChangeKind::Changed,
        };
        Some((key.clone(), change))
    });
    let removed = old.iter().filter(|(key, checksum)| {
        is_whole && checksum.as_str() != ABSENT && !new.contains_key(*key)
    });
    let removed = removed.map(|(key, _)| (key.clone(), ChangeKind::Removed));
    changed.chain(removed).collect()
}

// === impl Difference ===

impl Difference {
    /// Whether a key was removed. The API server does not record the time of that: no manager owns a removed field.
    pub(super) fn has_removed_key(&self) -> bool {
        let Self::Changed(changes) = self else {
            return false;
        };
        let mut changes = changes.iter();
        changes.any(|(_, change)| *change == ChangeKind::Removed)
    }

    fn whole(change: ChangeKind) -> Self {
        Self::Changed(vec![(String::new(), change)])
    }
}

/// For example "DB_HOST of ConfigMap shop/app changed".
impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            kind,
            namespace,
            name,
            key,
            change,
        } = self;
        if *change == ChangeKind::Undone {
            return f.write_str("some pods were started before the last change was applied");
        }
        if !key.is_empty() {
            write!(f, "{key} of ")?;
        }
        write!(f, "{kind} {namespace}/{name} ")?;
        f.write_str(match change {
            ChangeKind::Changed => "changed",
            ChangeKind::Added => "was added",
            ChangeKind::Removed => "was removed",
            ChangeKind::Created => "was created",
            ChangeKind::Deleted => "was deleted",
            ChangeKind::Unrecorded | ChangeKind::Undone => "changed after the pods were started",
        })
    }
}
