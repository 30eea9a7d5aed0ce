//! What a Deployment is decided by: chosen among the objects of an input by what they are and whose.

use std::collections::{BTreeMap, BTreeSet};

use rollplan_core::revision::REVISION;
use serde_json::Value;

use super::object::{Object, Objects, Role};

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

    /// ReplicaSets that the Deployment controls or that nobody does.
    fn replica_sets(&self) -> impl Iterator<Item = &'o Object<'t>> {
        self.near(Role::ReplicaSet).filter(|set| {
            let controller = set.metadata.controller.as_deref();
            controller.is_none_or(|uid| uid == self.owner.metadata.uid)
        })
    }

    fn own_sets(&self) -> impl Iterator<Item = &'o Object<'t>> {
        self.replica_sets()
            .filter(|set| set.metadata.controller.is_some())
    }

    /// Whether the input looks as if no ReplicaSet of the Deployment were missing: the pods that those report which it
    /// controls add up to those that it reports, and the one of its annotated revision is there. It does not count what it
    /// has yet to adopt.
    pub(super) fn shows_every_set(&self) -> bool {
        let pods = |object: &Object<'_>| {
            let pods = object.value("status");
            i128::from(pods.get("replicas").and_then(Value::as_i64).unwrap_or(0))
        };
        let revision = revision(self.owner);
        self.own_sets().map(pods).sum::<i128>() == pods(self.owner)
            && (revision.is_none() || self.own_sets().any(|set| self::revision(set) == revision))
    }

    /// Whether the input looks as if no pod were missing: with strategy Recreate, new pods start once no old one is
    /// listed. kubectl prints one List of everything that it was asked for. Nothing in it tells pods that do not exist
    /// from pods that were not asked for, but ReplicaSets count their pods.
    ///
    /// A list of pods is complete, unless a ReplicaSet of the Deployment counts more than are listed. An empty one is
    /// complete only if every ReplicaSet of the namespace reports, for its latest size, that it has no pod, not even a
    /// terminating one; before Kubernetes 1.35 these are not counted.
    pub(super) fn shows_every_pod(&self) -> bool {
        let has_pods = self.near(Role::Pod).next().is_some();
        let mut listed: BTreeMap<&str, i64> = BTreeMap::new();
        for pod in self.near(Role::Pod) {
            if let Some(uid) = &pod.metadata.controller {
                *listed.entry(uid).or_default() += 1;
            }
        }
        self.near(Role::ReplicaSet).all(|set| {
            let status = set.value("status");
            if !status.is_object() {
                return has_pods;
            }
            let controller = set.metadata.controller.as_deref();
            if has_pods && controller != Some(&*self.owner.metadata.uid) {
                return true;
            }
            let number = |value: &Value, field: &str| value.get(field).and_then(Value::as_i64);
            let terminating = number(&status, "terminatingReplicas");
            let counted = number(&status, "replicas").unwrap_or(0) + terminating.unwrap_or(0);
            let generation = number(&set.value("metadata"), "generation").unwrap_or(0);
            let observed = number(&status, "observedGeneration").unwrap_or(0);
            let is_current = terminating.is_some() && observed >= generation;
            let listed = listed.get(&*set.metadata.uid).copied().unwrap_or(0);
            counted <= listed && (is_current || has_pods)
        })
    }
}

fn revision(object: &Object<'_>) -> Option<Value> {
    let metadata = object.value("metadata");
    metadata.get("annotations")?.get(REVISION).cloned()
}
