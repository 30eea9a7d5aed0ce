//! Which objects of the input a Deployment is decided by: chosen by their metadata, before anything else is read. What is
//! odd about somebody else's object is not a reason to reject the input.

use std::collections::{BTreeMap, BTreeSet};

use rollplan_core::revision::REVISION;
use rollplan_core::selector::LabelSelector;
use serde_json::Value;

use super::object::{Object, Role};
use crate::proto;

/// Bytes of a Deployment's name that the name of a ReplicaSet begins with at least: longer ones are cut for the hash.
const NAME_BYTES: usize = 200;

/// The objects of a Deployment's namespace.
#[derive(Debug)]
pub(super) struct Selection<'a> {
    /// UID of the Deployment.
    owner: &'a str,
    /// ReplicaSets that the Deployment owns or may adopt.
    pub(super) replica_sets: Vec<&'a Object>,
    /// The other ReplicaSets.
    pub(super) other_sets: Vec<&'a Object>,
    /// Pods of the ReplicaSets that are selected.
    pub(super) pods: Vec<&'a Object>,
    /// Whether there are pods at all.
    has_pods: bool,
}

// === impl Selection ===

impl<'a> Selection<'a> {
    /// Selects as the planner does. Without a selector, only what the Deployment owns.
    pub(super) fn new(
        objects: &'a [Object],
        deployment: &'a Object,
        selector: Option<&LabelSelector>,
    ) -> Self {
        let near = |role| {
            let of_role = objects.iter().filter(move |object| object.role() == role);
            // An absent namespace is the Deployment's.
            of_role.filter(|object| {
                object.namespace == deployment.namespace || object.namespace.is_empty()
            })
        };
        let owner = uid(&deployment.value);
        let (replica_sets, other_sets): (Vec<_>, Vec<_>) =
            near(Role::ReplicaSet).partition(|set| match controller(&set.value) {
                Some(uid) => uid == owner,
                None => selector.is_some_and(|selector| selector.matches(&labels(&set.value))),
            });
        let uids: BTreeSet<&str> = replica_sets.iter().map(|set| uid(&set.value)).collect();
        let is_selected =
            |pod: &&Object| controller(&pod.value).is_some_and(|uid| uids.contains(uid));
        Self {
            owner,
            replica_sets,
            other_sets,
            pods: near(Role::Pod).filter(is_selected).collect(),
            has_pods: near(Role::Pod).next().is_some(),
        }
    }

    /// Those of the other ReplicaSets whose name the new ReplicaSet might get, with what must be known of them.
    pub(super) fn names_taken(&self, deployment: &Object) -> Vec<(&'a Object, proto::ReplicaSet)> {
        let name = &deployment.name;
        let prefix = &name[..name.floor_char_boundary(NAME_BYTES)];
        let others = self.other_sets.iter();
        let others = others.filter(|set| set.name.starts_with(prefix));
        others.map(|set| (*set, name_only(set))).collect()
    }

    /// Whether the input looks as if no ReplicaSet of the Deployment were missing: the pods that those report which it
    /// controls add up to those that it reports, and the one of its annotated revision is there. It does not count what it
    /// has yet to adopt.
    pub(super) fn shows_every_set(&self, deployment: &Object) -> bool {
        let pods = |object: &Object| {
            let pods = object.value.pointer("/status/replicas");
            i128::from(pods.and_then(Value::as_i64).unwrap_or(0))
        };
        let own = || {
            let sets = self.replica_sets.iter();
            sets.filter(|set| controller(&set.value).is_some())
        };
        let revision = revision(deployment);
        own().map(|set| pods(set)).sum::<i128>() == pods(deployment)
            && (revision.is_none() || own().any(|set| self::revision(set) == revision))
    }

    /// Whether the input looks as if no pod were missing: with strategy Recreate, new pods start once no old one is
    /// listed. kubectl prints one List of everything that it was asked for. Nothing in it tells pods that do not exist
    /// from pods that were not asked for, but ReplicaSets count their pods.
    ///
    /// A list of pods is complete, unless a ReplicaSet of the Deployment counts more than are listed. An empty one is
    /// complete only if every ReplicaSet of the namespace reports, for its latest size, that it has no pod, not even a
    /// terminating one; before Kubernetes 1.35 these are not counted.
    pub(super) fn shows_every_pod(&self) -> bool {
        let mut listed: BTreeMap<&str, i64> = BTreeMap::new();
        for uid in self.pods.iter().filter_map(|pod| controller(&pod.value)) {
            *listed.entry(uid).or_default() += 1;
        }
        let fits = |set: &&Object| {
            let status = set.value.get("status").filter(|status| status.is_object());
            let Some(status) = status else {
                return self.has_pods;
            };
            if self.has_pods && controller(&set.value) != Some(self.owner) {
                return true;
            }
            let number = |value: &Value, field: &str| value.get(field).and_then(Value::as_i64);
            let terminating = number(status, "terminatingReplicas");
            let counted = number(status, "replicas").unwrap_or(0) + terminating.unwrap_or(0);
            let generation = set.value.pointer("/metadata/generation");
            let generation = generation.and_then(Value::as_i64).unwrap_or(0);
            let observed = number(status, "observedGeneration").unwrap_or(0);
            let is_current = terminating.is_some() && observed >= generation;
            let listed = listed.get(uid(&set.value)).copied().unwrap_or(0);
            counted <= listed && (is_current || self.has_pods)
        };
        self.replica_sets.iter().all(fits) && self.other_sets.iter().all(fits)
    }
}

fn uid(object: &Value) -> &str {
    let uid = object.pointer("/metadata/uid").and_then(Value::as_str);
    uid.unwrap_or_default()
}

/// UID of the owner that manages an object.
fn controller(object: &Value) -> Option<&str> {
    let owners = object.pointer("/metadata/ownerReferences")?.as_array()?;
    let is_controller = |owner: &&Value| owner.get("controller") == Some(&Value::Bool(true));
    let owner = owners.iter().find(is_controller)?;
    Some(owner.get("uid").and_then(Value::as_str).unwrap_or_default())
}

fn revision(object: &Object) -> Option<&Value> {
    let metadata = object.value.get("metadata")?;
    metadata.get("annotations")?.get(REVISION)
}

fn labels(object: &Value) -> BTreeMap<String, String> {
    let labels = object
        .pointer("/metadata/labels")
        .and_then(Value::as_object);
    let labels = labels.into_iter().flatten();
    labels
        .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
        .collect()
}

/// A ReplicaSet of somebody else: what tells that it is, and its name.
fn name_only(set: &Object) -> proto::ReplicaSet {
    let owner = controller(&set.value).map(|uid| proto::OwnerReference {
        uid: uid.to_owned(),
        controller: Some(true),
        ..Default::default()
    });
    proto::ReplicaSet {
        metadata: Some(proto::ObjectMeta {
            name: set.name.clone(),
            namespace: set.namespace.clone(),
            uid: uid(&set.value).to_owned(),
            labels: labels(&set.value),
            owner_references: owner.into_iter().collect(),
            ..Default::default()
        }),
        ..Default::default()
    }
}
