//! Selects the objects of an input that belong into a request about one object.

use std::collections::{BTreeSet, HashSet};

use rollplan_core::interrupt::Never;
use rollplan_core::kind::Dependents;
use rollplan_wire::objects::{Listed, Nearby, Selected, Wants, select};
use rollplan_wire::parse_selector;

use super::object::{Object, Objects};
use crate::cli::error::{Error, chain};

/// The objects of a request.
#[derive(Debug)]
pub(super) struct Selection<'o, 't> {
    objects: &'o Objects<'t>,
    pub(super) owner: &'o Object<'t>,
    /// Its objects, in the order of the input.
    pub(super) selected: Vec<&'o Object<'t>>,
    /// The UIDs of the owner and of the objects that belong to it.
    pub(super) uids: HashSet<&'o str>,
    /// The claims for which its pods wait.
    pub(super) claims: BTreeSet<String>,
}

// === impl Selection ===

impl<'o, 't> Selection<'o, 't> {
    pub(super) fn new(objects: &'o Objects<'t>, owner: usize) -> Result<Self, Error> {
        let mut selection = Self {
            objects,
            owner: &objects.all[owner],
            selected: Vec::new(),
            uids: HashSet::new(),
            claims: BTreeSet::new(),
        };
        match selection.owner.dependents() {
            Dependents::ReplicaSetsAndPods => selection.select_of_deployment(owner)?,
            _ => selection.select_controlled(owner)?,
        }
        Ok(selection)
    }

    /// Selects the objects of a Deployment as the planner does.
    fn select_of_deployment(&mut self, owner: usize) -> Result<(), Error> {
        let selector = self.owner.selector();
        // The planner reports that a selector is invalid.
        let selector = selector.and_then(|selector| parse_selector(&selector.to_string()));
        let selected = select(
            &self.objects.all,
            &self.owner.found,
            &selector.unwrap_or_default(),
            &Never,
        );
        let Selected {
            replica_sets,
            others,
            pods,
            events,
        } = selected.map_err(|error| Error::input(self.owner.place(), chain(&error)))?;
        let own = [&[owner], &*replica_sets, &*pods].concat();
        self.set_uids(&own);
        let nearby = self.nearby(&own)?;
        self.set_selected([own, others, events, nearby].concat());
        Ok(())
    }

    /// Selects the objects that the owner controls, directly or indirectly, and their events.
    fn select_controlled(&mut self, owner: usize) -> Result<(), Error> {
        let own = Vec::from_iter(self.objects.with_controlled(owner));
        self.set_uids(&own);
        let events = self.objects.all.events_about(&self.uids, &self.owner.found);
        let nearby = self.nearby(&own)?;
        self.set_selected([own, events, nearby].concat());
        Ok(())
    }

    /// The objects that show why pods of the owner wait.
    fn nearby(&mut self, own: &[usize]) -> Result<Vec<usize>, Error> {
        let all = &self.objects.all;
        let wants = Wants::of_found(all.at(own).into_iter().map(AsRef::as_ref));
        let nearby = Nearby::find(all, &self.owner.found, own, &wants, &Never);
        let nearby = nearby.map_err(|error| Error::input(self.owner.place(), chain(&error)))?;
        self.claims = wants.claims;
        Ok(nearby.positions())
    }

    fn set_uids(&mut self, own: &[usize]) {
        let objects = own.iter().map(|&index| &self.objects.all[index]);
        self.uids = objects.map(|object| &*object.found.metadata.uid).collect();
        self.uids.remove("");
    }

    fn set_selected(&mut self, mut indices: Vec<usize>) {
        indices.sort_unstable();
        // An event may be about itself.
        indices.dedup();
        self.selected = self.objects.all.at(&indices);
    }

    /// The objects from which it is inferred whether the input is complete.
    pub(super) fn listed(&self) -> Listed<'o, 't, Object<'t>> {
        Listed {
            owner: &self.owner.found,
            objects: &self.objects.all,
        }
    }
}
