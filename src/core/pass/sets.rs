//! The ReplicaSets of a pass: in the controller's cache, on the server after the writes so far, and the copies that the
//! controller works on.

use std::borrow::{Borrow, Cow};
use std::rc::Rc;

use super::{Stop, SyncResult, has_template_of};
use crate::action::{Action, SetChange, Target};
use crate::interrupt::Interrupt;
use crate::snapshot::{Deployment, ReplicaSet, StringMap};

/// The ReplicaSets of the Deployment, oldest first. One that the pass creates comes last.
#[derive(Default)]
pub(super) struct Sets<'a> {
    managed: Vec<Managed<'a>>,
    /// The index of the one with the current template.
    current: Option<usize>,
}

/// A ReplicaSet in the controller's cache and on the server.
struct Managed<'a> {
    cached: Cow<'a, ReplicaSet>,
    stored: WorkingCopy,
    generation: i64,
    /// Whether the server still has the resourceVersion of the snapshot.
    version_known: bool,
}

/// A copy of a ReplicaSet that the controller may change and send back. It is stale once the server has a later version.
#[derive(Clone, Debug)]
pub(super) struct WorkingCopy {
    pub(super) index: usize,
    version: u32,
    pub(super) replicas: i32,
    pub(super) min_ready_seconds: i32,
    /// The annotations if they differ from the cached ones.
    pub(super) annotations: Option<Rc<StringMap>>,
}

/// The new ReplicaSet, if there is one, and the old ones.
pub(super) struct Found {
    pub(super) new: Option<WorkingCopy>,
    pub(super) old: Vec<WorkingCopy>,
}

/// The sizes of some ReplicaSets, added up.
pub(super) fn total(sets: impl IntoIterator<Item = impl Borrow<WorkingCopy>>) -> i64 {
    sets.into_iter()
        .map(|set| i64::from(set.borrow().replicas))
        .sum()
}

// === impl Found ===

impl Found {
    pub(super) fn is_new(&self, set: &WorkingCopy) -> bool {
        self.new.as_ref().is_some_and(|new| new.index == set.index)
    }

    /// The old ReplicaSets, and then the new one.
    pub(super) fn all(&self) -> impl Iterator<Item = &WorkingCopy> {
        self.old.iter().chain(&self.new)
    }
}

// === impl Sets ===

impl<'a> Sets<'a> {
    /// Adds a ReplicaSet. `is_written` means that the server has a later version than the cache.
    pub(super) fn add(&mut self, cached: Cow<'a, ReplicaSet>, is_written: bool) {
        self.managed.push(Managed {
            stored: WorkingCopy {
                version: is_written.into(),
                ..WorkingCopy::of(&cached, self.managed.len())
            },
            generation: cached.metadata.generation,
            version_known: !is_written,
            cached,
        });
    }

    /// Adds the ReplicaSet with the current template.
    pub(super) fn add_new(&mut self, cached: Cow<'a, ReplicaSet>, is_written: bool) -> WorkingCopy {
        let index = self.managed.len();
        self.add(cached, is_written);
        self.current = Some(index);
        self.look_up(index)
    }

    /// `FindNewReplicaSet`: the oldest of those with the current template.
    pub(super) fn find_current(
        &mut self,
        deployment: &Deployment,
        interrupt: &dyn Interrupt,
    ) -> SyncResult<()> {
        for (index, set) in self.managed.iter().enumerate() {
            interrupt.check().map_err(|_| Stop::Interrupted)?;
            if has_template_of(&set.cached, deployment) {
                self.current = Some(index);
                break;
            }
        }
        Ok(())
    }

    /// The new ReplicaSet, if there is one, and the old ones by age. One that the pass has created is not among them.
    pub(super) fn into_roles(self) -> (Option<&'a ReplicaSet>, Vec<&'a ReplicaSet>) {
        let (mut new, mut old) = (None, Vec::new());
        for (index, set) in self.managed.into_iter().enumerate() {
            match set.cached {
                Cow::Borrowed(set) if Some(index) == self.current => new = Some(set),
                Cow::Borrowed(set) => old.push(set),
                Cow::Owned(_) => {}
            }
        }
        (new, old)
    }

    /// A ReplicaSet as observed, without later writes of the plan.
    fn look_up(&self, index: usize) -> WorkingCopy {
        WorkingCopy::of(&self.managed[index].cached, index)
    }

    /// All ReplicaSets as observed.
    pub(super) fn look_up_all(&self) -> Found {
        let all = || (0..self.managed.len()).map(|index| self.look_up(index));
        Found {
            new: self.current.map(|index| self.look_up(index)),
            old: all()
                .filter(|set| Some(set.index) != self.current)
                .collect(),
        }
    }

    pub(super) fn cached(&self, set: &WorkingCopy) -> &ReplicaSet {
        &self.managed[set.index].cached
    }

    pub(super) fn annotations<'s>(&'s self, set: &'s WorkingCopy) -> &'s StringMap {
        set.annotations
            .as_deref()
            .unwrap_or(&self.cached(set).metadata.annotations)
    }

    /// The ReplicaSet as the target of an action.
    pub(super) fn target(&self, set: &WorkingCopy) -> Target {
        let managed = &self.managed[set.index];
        let mut target = Target::set(&managed.cached);
        target.generation = managed.generation;
        target.resource_version = target.resource_version.filter(|_| managed.version_known);
        target
    }

    /// The size that the server has.
    pub(super) fn stored_replicas(&self, set: &WorkingCopy) -> i32 {
        self.managed[set.index].stored.replicas
    }

    /// The action that makes the server's ReplicaSet equal to this copy. `None` if it is.
    pub(super) fn difference(&self, set: &WorkingCopy) -> SyncResult<Option<Action>> {
        let stored = &self.managed[set.index].stored;
        if set.version != stored.version {
            return Err(Stop::Stale);
        }
        let before = self.annotations(stored);
        let changed = self.annotations(set).iter();
        let changed = changed.filter(|&(key, value)| before.get(key) != Some(value));
        let change = SetChange {
            annotations: changed
                .map(|(key, value)| (key.clone(), value.clone()))
                .collect(),
            first_annotations: before.is_empty(),
            min_ready_seconds: (set.min_ready_seconds != stored.min_ready_seconds)
                .then_some(set.min_ready_seconds),
        };
        let target = self.target(set);
        if set.replicas != stored.replicas {
            return Ok(Some(Action::ScaleReplicaSet {
                set: target,
                from: stored.replicas,
                to: set.replicas,
                change,
            }));
        }
        let is_changed = !change.annotations.is_empty() || change.min_ready_seconds.is_some();
        Ok(is_changed.then_some(Action::UpdateReplicaSet {
            set: target,
            change,
        }))
    }

    /// Stores a copy that was sent, and returns it as the server has it.
    pub(super) fn store(&mut self, set: WorkingCopy) -> WorkingCopy {
        let managed = &mut self.managed[set.index];
        let spec_changed = set.replicas != managed.stored.replicas
            || set.min_ready_seconds != managed.stored.min_ready_seconds;
        managed.generation = managed.generation.saturating_add(spec_changed.into());
        managed.version_known = false;
        managed.stored = WorkingCopy {
            version: set.version + 1,
            ..set
        };
        managed.stored.clone()
    }
}

// === impl WorkingCopy ===

impl WorkingCopy {
    fn of(cached: &ReplicaSet, index: usize) -> Self {
        Self {
            index,
            version: 0,
            replicas: cached.replicas,
            min_ready_seconds: cached.min_ready_seconds,
            annotations: None,
        }
    }
}
