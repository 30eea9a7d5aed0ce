//! Selects the objects of an input that belong into a request about one object.

use std::collections::BTreeSet;
use std::ptr;

use rollplan_core::interrupt::Never;

use super::object::{Dependents, Object, Objects, Role};
use crate::cli::error::{Error, chain};
use crate::wire::objects::{Found, Listed, Selected, select};
use crate::wire::parse_selector;

/// The objects of a request.
#[derive(Debug)]
pub(super) struct Selection<'o, 't> {
    objects: &'o Objects<'t>,
    pub(super) owner: &'o Object<'t>,
    /// Its objects, in the order of the input.
    pub(super) selected: Vec<&'o Object<'t>>,
    /// The UIDs of the owner and of the objects that belong to it.
    pub(super) uids: BTreeSet<&'o str>,
}

// === impl Selection ===

impl<'o, 't> Selection<'o, 't> {
    pub(super) fn new(objects: &'o Objects<'t>, owner: usize) -> Result<Self, Error> {
        let mut selection = Self {
            objects,
            owner: &objects.all[owner],
            selected: Vec::new(),
            uids: BTreeSet::new(),
        };
        match selection.owner.dependents() {
            Dependents::ReplicaSetsAndPods => selection.select_of_deployment()?,
            _ => selection.select_controlled(owner),
        }
        Ok(selection)
    }

    /// Selects the objects of a Deployment as the planner does.
    fn select_of_deployment(&mut self) -> Result<(), Error> {
        let owner = &self.owner.found;
        let selector = self.owner.selector();
        // The planner reports that a selector is invalid.
        let selector = selector.and_then(|selector| parse_selector(&selector.to_string()));
        let found = self.objects.all.iter().map(|object| &object.found);
        let selected = select(found, owner, &selector.unwrap_or_default(), &Never);
        let Selected {
            replica_sets,
            others,
            pods,
            events,
        } = selected.map_err(|error| Error::input(self.owner.place(), chain(&error)))?;
        let own = [&[owner], &*replica_sets, &*pods].concat();
        self.uids = own.iter().map(|object| &*object.metadata.uid).collect();
        let all = [own, others, events].concat();
        let all: BTreeSet<*const Found<'t>> = all.into_iter().map(ptr::from_ref).collect();
        let selected = self.objects.all.iter();
        self.selected = selected
            .filter(|object| all.contains(&ptr::from_ref(&object.found)))
            .collect();
        self.uids.remove("");
        Ok(())
    }

    /// Selects the objects that the owner controls, directly or indirectly, and their events.
    fn select_controlled(&mut self, owner: usize) {
        let controlled = self.objects.with_controlled(owner);
        let uids = controlled.iter();
        self.uids = uids
            .map(|&index| &*self.objects.all[index].found.metadata.uid)
            .filter(|uid| !uid.is_empty())
            .collect();
        let namespace = &*self.owner.found.metadata.namespace;
        let is_event = |object: &Object<'_>| {
            let uid = object.found.involved_uid.as_ref();
            object.role() == Role::Event
                && object.is_in_namespace(namespace)
                && uid.is_some_and(|uid| self.uids.contains(&**uid))
        };
        let all = self.objects.all.iter().enumerate();
        let selected = all.filter(|(index, object)| controlled.contains(index) || is_event(object));
        self.selected = selected.map(|(_, object)| object).collect();
    }

    fn near(&self, role: Role) -> impl Iterator<Item = &'o Object<'t>> {
        let namespace = &*self.owner.found.metadata.namespace;
        let all = self.objects.all.iter();
        all.filter(move |object| object.role() == role && object.is_in_namespace(namespace))
    }

    /// The objects from which it is inferred whether the input is complete.
    pub(super) fn listed(&self) -> Listed<'o, 't> {
        let all = |role| self.near(role).map(|object| &object.found).collect();
        Listed {
            owner: &self.owner.found,
            replica_sets: all(Role::ReplicaSet),
            pods: all(Role::Pod),
        }
    }
}
