//! ReplicaSets in the controller's hands, and which of these copies are stale.

use std::borrow::Cow;
use std::rc::Rc;

use super::{Pass, Rules};
use crate::action::Target;
use crate::snapshot::{ReplicaSet, StringMap};

/// A ReplicaSet of this Deployment: what the controller's cache has, and what the server has by now.
pub(crate) struct Managed<'a> {
    pub(crate) cached: Cow<'a, ReplicaSet>,
    pub(super) stored: WorkingCopy,
    pub(super) generation: i64,
    /// Whether the server's resourceVersion is still the snapshot's.
    pub(super) version_known: bool,
}

/// A ReplicaSet in the controller's hands: a copy that it may change and send back. It is stale once the
/// server has a later version.
#[derive(Clone, Debug)]
pub(crate) struct WorkingCopy {
    pub(crate) index: usize,
    pub(super) version: u32,
    pub(crate) replicas: i32,
    pub(super) min_ready_seconds: i32,
    /// Annotations where they differ from the cached ones.
    pub(super) annotations: Option<Rc<StringMap>>,
}

/// The new ReplicaSet, if there is one, and the old ones.
pub(crate) struct Found {
    pub(crate) new: Option<WorkingCopy>,
    pub(crate) old: Vec<WorkingCopy>,
}

impl Found {
    /// Old ReplicaSets, then the new one.
    pub(crate) fn all(&self) -> impl Iterator<Item = &WorkingCopy> {
        self.old.iter().chain(&self.new)
    }
}
impl Pass<'_> {
    /// The ReplicaSet as the cache has it, however often it was written since.
    pub(super) fn look_up(&self, index: usize) -> WorkingCopy {
        let cached = &self.sets[index].cached;
        WorkingCopy {
            index,
            version: 0,
            replicas: cached.replicas,
            min_ready_seconds: cached.min_ready_seconds,
            annotations: None,
        }
    }

    pub(crate) fn annotations<'s>(&'s self, set: &'s WorkingCopy) -> &'s StringMap {
        set.annotations
            .as_deref()
            .unwrap_or(&self.sets[set.index].cached.metadata.annotations)
    }

    pub(super) fn cached(&self, set: &WorkingCopy) -> &ReplicaSet {
        &self.sets[set.index].cached
    }

    /// Available pods of a ReplicaSet, as decisions count them.
    pub(super) fn available(&self, set: &WorkingCopy) -> i32 {
        let cached = self.cached(set);
        let observed = cached.status.available_replicas;
        match self.rules {
            Rules::Exact => observed,
            Rules::LookAhead => observed.min(cached.replicas).min(cached.available_max),
        }
    }

    pub(super) fn total(
        &self,
        sets: impl IntoIterator<Item = impl std::borrow::Borrow<WorkingCopy>>,
    ) -> i64 {
        sets.into_iter()
            .map(|set| i64::from(set.borrow().replicas))
            .sum()
    }
}

// === impl Managed ===

impl<'a> Managed<'a> {
    /// A ReplicaSet of which the cache has the server's version.
    pub(crate) fn current(index: usize, cached: Cow<'a, ReplicaSet>) -> Self {
        Self {
            stored: WorkingCopy {
                index,
                version: 0,
                replicas: cached.replicas,
                min_ready_seconds: cached.min_ready_seconds,
                annotations: None,
            },
            generation: cached.metadata.generation,
            version_known: true,
            cached,
        }
    }

    /// The same after a write that the cache has not seen.
    pub(crate) fn written(mut self) -> Self {
        self.stored.version += 1;
        self.version_known = false;
        self
    }

    pub(super) fn target(&self) -> Target {
        let mut target = Target::set(&self.cached);
        target.generation = self.generation;
        target.resource_version = target.resource_version.filter(|_| self.version_known);
        target
    }
}
