//! What an object is decided by: chosen among the objects of an input by what they are and whose.

use std::collections::BTreeSet;

use super::object::{Dependents, Object, Objects, Role};
use crate::wire::objects::Listed;

/// Bytes of a Deployment's name that the name of a ReplicaSet begins with at least: longer ones are cut for the hash.
const NAME_BYTES: usize = 200;

/// What a request about an object has: the object, what it controls, what nobody controls, and what has a name that a new
/// ReplicaSet might get. The planner selects among these.
#[derive(Debug)]
pub(super) struct Selection<'o, 't> {
    objects: &'o Objects<'t>,
    pub(super) owner: &'o Object<'t>,
    /// Indices of the owner and of what it controls.
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

    /// In the order of the input.
    pub(super) fn selected(&self) -> impl Iterator<Item = &'o Object<'t>> {
        let uids = self.uids();
        let name = &*self.owner.metadata.name;
        let prefix = &name[..name.floor_char_boundary(NAME_BYTES)];
        let namespace = &*self.owner.metadata.namespace;
        let all = self.objects.all.iter().enumerate();
        all.filter(move |(index, object)| {
            self.controlled.contains(index)
                || object.is_near(namespace)
                    && match object.role() {
                        Role::ReplicaSet if !self.has_replica_sets() => false,
                        Role::ReplicaSet => {
                            object.metadata.controller.is_none()
                                || object.metadata.name.starts_with(prefix)
                        }
                        Role::Event => {
                            let uid = object.found.involved_uid();
                            uid.is_some_and(|uid| uids.contains(&*uid))
                        }
                        Role::Deployment | Role::Pod | Role::Other => false,
                    }
        })
        .map(|(_, object)| object)
    }

    /// UIDs of the owner and of what it controls.
    pub(super) fn uids(&self) -> BTreeSet<&'o str> {
        let controlled = self.controlled.iter();
        let uids = controlled.map(|&index| &*self.objects.all[index].metadata.uid);
        // A ReplicaSet that it may adopt has events too.
        uids.chain(self.replica_sets().map(|set| &*set.metadata.uid))
            .filter(|uid| !uid.is_empty())
            .collect()
    }

    fn near(&self, role: Role) -> impl Iterator<Item = &'o Object<'t>> {
        let namespace = &*self.owner.metadata.namespace;
        let all = self.objects.all.iter();
        all.filter(move |object| object.role() == role && object.is_near(namespace))
    }

    fn has_replica_sets(&self) -> bool {
        self.owner.dependents() == Dependents::ReplicaSetsAndPods
    }

    /// ReplicaSets that the Deployment controls or that nobody does.
    fn replica_sets(&self) -> impl Iterator<Item = &'o Object<'t>> {
        let has_sets = self.has_replica_sets();
        self.near(Role::ReplicaSet).filter(move |set| {
            let controller = set.metadata.controller.as_deref();
            has_sets && controller.is_none_or(|uid| uid == self.owner.metadata.uid)
        })
    }

    /// What tells whether the input is complete.
    pub(super) fn listed(&self) -> Listed<'o, 't> {
        let all = |role| self.near(role).map(Object::parts).collect();
        Listed {
            owner: self.owner.parts(),
            replica_sets: all(Role::ReplicaSet),
            pods: all(Role::Pod),
        }
    }
}
