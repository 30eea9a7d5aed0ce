//! Selects the objects of an input that belong into a request about one object.

use std::collections::BTreeSet;

use super::object::{Dependents, Object, Objects, Role};
use crate::wire::objects::Listed;

/// The number of bytes of a Deployment's name that every ReplicaSet name starts with: longer names are truncated before
/// the hash.
const NAME_BYTES: usize = 200;

/// The objects of a request: the owner, the objects that it controls, ReplicaSets that it may adopt or whose name a new
/// one might get, and their events. The planner selects from these.
#[derive(Debug)]
pub(super) struct Selection<'o, 't> {
    objects: &'o Objects<'t>,
    pub(super) owner: &'o Object<'t>,
    /// The indices of the owner and of the objects that it controls.
    controlled: BTreeSet<usize>,
}

// === impl Selection ===

impl<'o, 't> Selection<'o, 't> {
    pub(super) fn new(objects: &'o Objects<'t>, owner: usize) -> Self {
        Self {
            objects,
            owner: &objects.all[owner],
            controlled: objects.with_controlled(owner),
        }
    }

    /// The objects of the request, in the order of the input.
    pub(super) fn selected(&self) -> impl Iterator<Item = &'o Object<'t>> {
        let uids = self.uids();
        let name = &*self.owner.found.metadata.name;
        let prefix = &name[..name.floor_char_boundary(NAME_BYTES)];
        let namespace = &*self.owner.found.metadata.namespace;
        let all = self.objects.all.iter().enumerate();
        all.filter(move |(index, object)| {
            self.controlled.contains(index)
                || object.is_in_namespace(namespace)
                    && match object.role() {
                        Role::ReplicaSet if !self.has_replica_sets() => false,
                        Role::ReplicaSet => {
                            object.found.metadata.controller.is_none()
                                || object.found.metadata.name.starts_with(prefix)
                        }
                        Role::Event => {
                            let uid = object.found.involved_uid.as_ref();
                            uid.is_some_and(|uid| uids.contains(&**uid))
                        }
                        Role::Deployment | Role::Pod | Role::Other => false,
                    }
        })
        .map(|(_, object)| object)
    }

    /// The UIDs of the owner, of the objects that it controls, and of ReplicaSets without a controller.
    pub(super) fn uids(&self) -> BTreeSet<&'o str> {
        let controlled = self.controlled.iter();
        let uids = controlled.map(|&index| &*self.objects.all[index].found.metadata.uid);
        // ReplicaSets that it may adopt have events, too.
        uids.chain(self.replica_sets().map(|set| &*set.found.metadata.uid))
            .filter(|uid| !uid.is_empty())
            .collect()
    }

    fn near(&self, role: Role) -> impl Iterator<Item = &'o Object<'t>> {
        let namespace = &*self.owner.found.metadata.namespace;
        let all = self.objects.all.iter();
        all.filter(move |object| object.role() == role && object.is_in_namespace(namespace))
    }

    fn has_replica_sets(&self) -> bool {
        self.owner.dependents() == Dependents::ReplicaSetsAndPods
    }

    /// ReplicaSets that are controlled by the Deployment or have no controller.
    fn replica_sets(&self) -> impl Iterator<Item = &'o Object<'t>> {
        let has_sets = self.has_replica_sets();
        self.near(Role::ReplicaSet).filter(move |set| {
            let controller = set.found.metadata.controller.as_deref();
            has_sets && controller.is_none_or(|uid| uid == self.owner.found.metadata.uid)
        })
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
