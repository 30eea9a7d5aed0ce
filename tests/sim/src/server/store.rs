//! The stored objects, their versions, and the changes that the watches have not delivered yet.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use rollplan_core::snapshot::{Deployment, ObjectMeta, ReplicaSet};

use crate::pods::SimPod;

/// The author of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Writer {
    /// The adapter under test.
    Adapter,
    /// Any other client.
    Other,
}

/// A ReplicaSet, and what the checks need to know about it.
#[derive(Clone, Debug)]
pub(crate) struct StoredSet {
    pub(crate) set: ReplicaSet,
    /// The number of its template.
    pub(crate) template: u8,
    /// The number of pods that it had lost for reasons other than our scaling when its status was written.
    pub(crate) lost: u32,
    /// The author of the last change to its size, owner or labels.
    pub(crate) changed_by: Writer,
}

/// A change to be delivered by a watch. The object is `None` if it was deleted.
#[derive(Clone, Debug)]
pub(crate) struct Change<K, T> {
    pub(crate) key: K,
    pub(crate) object: Option<Arc<T>>,
    pub(crate) writer: Writer,
}

/// The changes that the adapter's watches have not delivered yet, by kind.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pending {
    pub(crate) deployments: VecDeque<Change<String, Deployment>>,
    pub(crate) sets: VecDeque<Change<String, StoredSet>>,
    pub(crate) pods: VecDeque<Change<u32, SimPod>>,
}

/// The stored objects.
#[derive(Clone, Debug, Default)]
pub(crate) struct Store {
    /// The last resourceVersion that was assigned.
    pub(crate) version: u64,
    uids: u32,
    pub(crate) deployment: Option<Arc<Deployment>>,
    /// By name.
    pub(crate) sets: BTreeMap<String, Arc<StoredSet>>,
    /// By number.
    pub(crate) pods: BTreeMap<u32, Arc<SimPod>>,
    pub(crate) pending: Pending,
}

/// The resourceVersion of an object as a number.
pub(crate) fn version_of(metadata: &ObjectMeta) -> u64 {
    metadata.resource_version.parse().unwrap_or(0)
}

// === impl Store ===

impl Store {
    /// Returns an unused UID.
    pub(crate) fn new_uid(&mut self, kind: &str) -> String {
        self.uids += 1;
        format!("{kind}-{}", self.uids)
    }

    fn next_version(&mut self) -> u64 {
        self.version += 1;
        self.version
    }

    pub(crate) fn put_deployment(
        &mut self,
        mut deployment: Deployment,
        writer: Writer,
    ) -> Arc<Deployment> {
        deployment.metadata.resource_version = self.next_version().to_string();
        let deployment = Arc::new(deployment);
        self.deployment = Some(Arc::clone(&deployment));
        self.pending.deployments.push_back(Change {
            key: deployment.metadata.uid.clone(),
            object: Some(Arc::clone(&deployment)),
            writer,
        });
        deployment
    }

    pub(crate) fn remove_deployment(&mut self) {
        if let Some(deployment) = self.deployment.take() {
            self.next_version();
            self.pending.deployments.push_back(Change {
                key: deployment.metadata.uid.clone(),
                object: None,
                writer: Writer::Other,
            });
        }
    }

    pub(crate) fn put_set(&mut self, mut stored: StoredSet, writer: Writer) -> Arc<StoredSet> {
        stored.set.metadata.resource_version = self.next_version().to_string();
        let stored = Arc::new(stored);
        let metadata = &stored.set.metadata;
        self.sets.insert(metadata.name.clone(), Arc::clone(&stored));
        self.pending.sets.push_back(Change {
            key: metadata.uid.clone(),
            object: Some(Arc::clone(&stored)),
            writer,
        });
        stored
    }

    pub(crate) fn remove_set(&mut self, name: &str, writer: Writer) {
        if let Some(stored) = self.sets.remove(name) {
            self.next_version();
            self.pending.sets.push_back(Change {
                key: stored.set.metadata.uid.clone(),
                object: None,
                writer,
            });
        }
    }

    pub(crate) fn put_pod(&mut self, pod: SimPod) {
        self.next_version();
        let pod = Arc::new(pod);
        self.pods.insert(pod.stored.number, Arc::clone(&pod));
        self.pending.pods.push_back(Change {
            key: pod.stored.number,
            object: Some(pod),
            writer: Writer::Other,
        });
    }

    pub(crate) fn remove_pod(&mut self, number: u32) {
        if self.pods.remove(&number).is_some() {
            self.next_version();
            self.pending.pods.push_back(Change {
                key: number,
                object: None,
                writer: Writer::Other,
            });
        }
    }

    /// The ReplicaSet with a UID.
    pub(crate) fn set_by_uid(&self, uid: &str) -> Option<&Arc<StoredSet>> {
        self.sets
            .values()
            .find(|stored| stored.set.metadata.uid == uid)
    }

    /// The pods of a ReplicaSet, in the order of their numbers.
    pub(crate) fn pods_of<'a>(&'a self, set_uid: &'a str) -> impl Iterator<Item = &'a Arc<SimPod>> {
        self.pods
            .values()
            .filter(move |pod| *pod.set_uid == *set_uid)
    }
}
