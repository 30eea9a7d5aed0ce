//! An index of objects by owner and name, so that the selection for one owner reads only objects that may be selected.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::ops::Deref;

use rollplan_core::interrupt::{Interrupt, Interrupted};

use super::found::Found;

/// The number of objects between two checks for an interruption.
const CHECK_INTERVAL: usize = 1024;

/// Objects, and their positions by these keys. Lists of positions have the order of the objects.
#[derive(Debug)]
pub struct ObjectIndex<'a, T> {
    all: Vec<T>,
    replica_sets: Vec<usize>,
    pods: Vec<usize>,
    by_name: Positions<'a>,
    /// By the UID of the controller.
    controlled: Positions<'a>,
    /// Events by the UID of the object that they are about.
    events: Positions<'a>,
    /// Events about PersistentVolumeClaims, by the name of the claim.
    claim_events: Positions<'a>,
}

type Positions<'a> = HashMap<Cow<'a, str>, Vec<usize>>;

// === impl ObjectIndex ===

impl<T> Default for ObjectIndex<'_, T> {
    fn default() -> Self {
        Self {
            all: Vec::new(),
            replica_sets: Vec::new(),
            pods: Vec::new(),
            by_name: HashMap::new(),
            controlled: HashMap::new(),
            events: HashMap::new(),
            claim_events: HashMap::new(),
        }
    }
}

impl<T> Deref for ObjectIndex<'_, T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.all
    }
}

impl<'a, T: AsRef<Found<'a>>> ObjectIndex<'a, T> {
    /// Indexes objects.
    ///
    /// # Errors
    ///
    /// [`Interrupted`].
    pub fn new(all: Vec<T>, interrupt: &dyn Interrupt) -> Result<Self, Interrupted> {
        let mut index = Self::default();
        index.all.reserve(all.len());
        index.by_name.reserve(all.len());
        for object in all {
            if index.all.len().is_multiple_of(CHECK_INTERVAL) {
                interrupt.check()?;
            }
            index.add(object);
        }
        Ok(index)
    }

    /// Adds an object after the others.
    pub fn add(&mut self, object: T) {
        self.index(self.all.len(), object.as_ref());
        self.all.push(object);
    }

    fn index(&mut self, position: usize, object: &Found<'a>) {
        let add = |positions: &mut Positions<'a>, key: &Cow<'a, str>| match positions.get_mut(key) {
            Some(positions) => positions.push(position),
            None => _ = positions.insert(key.clone(), vec![position]),
        };
        add(&mut self.by_name, &object.metadata.name);
        if let Some(controller) = &object.metadata.controller {
            add(&mut self.controlled, &controller.uid);
        }
        if let Some(uid) = object.involved_uid.as_ref().filter(|_| object.is_event()) {
            add(&mut self.events, uid);
        }
        let claim = object.involved_claim.as_ref();
        if let Some(claim) = claim.filter(|_| object.is_event()) {
            add(&mut self.claim_events, claim);
        }
        if object.is_replica_set() {
            self.replica_sets.push(position);
        }
        if object.is_pod() {
            self.pods.push(position);
        }
    }

    /// The objects at these positions.
    pub fn at(&self, positions: &[usize]) -> Vec<&T> {
        positions
            .iter()
            .map(|&position| &self.all[position])
            .collect()
    }

    /// The positions of the objects with this name.
    pub fn named(&self, name: &str) -> &[usize] {
        self.by_name.get(name).map_or(&[], Vec::as_slice)
    }

    /// The objects whose controller has this UID, in any namespace, with their positions.
    pub fn controlled_by(&self, uid: &str) -> impl Iterator<Item = (usize, &Found<'a>)> {
        self.found(self.controlled.get(uid).into_iter().flatten())
    }

    /// The ReplicaSets of all namespaces.
    pub(super) fn replica_sets(&self) -> impl Iterator<Item = (usize, &Found<'a>)> {
        self.found(&self.replica_sets)
    }

    /// The pods of all namespaces.
    pub(super) fn pods(&self) -> impl Iterator<Item = (usize, &Found<'a>)> {
        self.found(&self.pods)
    }

    /// The positions of the events about the objects with these UIDs, in the namespace of an owner.
    pub fn events_about(&self, uids: &HashSet<&str>, owner: &Found<'_>) -> Vec<usize> {
        let events = uids.iter().filter_map(|uid| self.events.get(*uid));
        let events = self.found(events.flatten());
        let events = events.filter(|(_, event)| event.is_in_namespace_of(owner));
        let mut events: Vec<usize> = events.map(|(position, _)| position).collect();
        events.sort_unstable();
        events
    }

    /// The events about PersistentVolumeClaims with this name, in any namespace, with their positions.
    pub(super) fn claim_events(&self, name: &str) -> impl Iterator<Item = (usize, &Found<'a>)> {
        self.found(self.claim_events.get(name).into_iter().flatten())
    }

    fn found<'i>(
        &'i self,
        positions: impl IntoIterator<Item = &'i usize>,
    ) -> impl Iterator<Item = (usize, &'i Found<'a>)> {
        let positions = positions.into_iter();
        positions.map(|&position| (position, self.all[position].as_ref()))
    }
}
