//! The reads that the planner asks for, and the versions of objects.

use std::sync::Arc;

use rollplan_core::snapshot::Deployment;
use rollplan_core::sync::{Controller, Read, Sync, Version};

use crate::flaw::Flaw;
use crate::script::Answer;
use crate::server::StoredSet;
use crate::tally::Tally;
use crate::world::World;

/// The answer to a read.
#[derive(Clone, Debug)]
pub(super) enum ReadAnswer {
    Sets(Vec<Arc<StoredSet>>),
    Set(Arc<StoredSet>),
    Deployment(Arc<Deployment>),
    Absent {
        uid: String,
    },
    /// There was no answer.
    Lost,
}

// === impl ReadAnswer ===

impl ReadAnswer {
    pub(super) fn record(&self, sync: &mut Sync, owner_uid: &str, observed: &[Version<'_>]) {
        match self {
            Self::Sets(sets) => {
                let listed: Vec<_> = sets.iter().map(|it| set_version(it, owner_uid)).collect();
                sync.record_list(&listed, observed);
            }
            Self::Set(stored) => sync.record_object(&set_version(stored, owner_uid)),
            Self::Deployment(deployment) => sync.record_object(&deployment_version(deployment)),
            Self::Absent { uid } => sync.record_absent(uid),
            Self::Lost => sync.record_unreadable(),
        }
    }

    pub(super) fn deployment(&self) -> Option<&Arc<Deployment>> {
        match self {
            Self::Deployment(deployment) => Some(deployment),
            _ => None,
        }
    }

    pub(super) fn sets(&self) -> &[Arc<StoredSet>] {
        match self {
            Self::Sets(sets) => sets,
            Self::Set(stored) => std::slice::from_ref(stored),
            _ => &[],
        }
    }
}

impl World {
    /// Makes the reads.
    pub(super) fn read(&mut self, wanted: &[Read]) -> Vec<ReadAnswer> {
        wanted.iter().map(|read| self.read_one(read)).collect()
    }

    fn read_one(&mut self, read: &Read) -> ReadAnswer {
        self.trace(|| format!("    read {read:?}"));
        let is_lost = matches!(self.next_answer, Some(Answer::LostBefore | Answer::Broken));
        if is_lost {
            self.next_answer = None;
            self.tallies.count(Tally::LostRead);
            return ReadAnswer::Lost;
        }
        let view = &self.adapter.view;
        let is_cached = self.flaw == Flaw::ReadsFromCache;
        match read {
            Read::ReplicaSets if is_cached => {
                ReadAnswer::Sets(view.cached_sets.values().cloned().collect())
            }
            Read::ReplicaSets => {
                let owner = view.cached_deployment.as_ref();
                let selector = owner.map(|owner| &owner.spec.selector);
                let sets = self.store.sets.values();
                let selected = sets.filter(|stored| {
                    selector.is_some_and(|it| it.matches(&stored.set.metadata.labels))
                });
                ReadAnswer::Sets(selected.cloned().collect())
            }
            Read::Object { kind, uid, .. } if kind == "ReplicaSet" => {
                let stored = if is_cached {
                    view.cached_sets.get(uid)
                } else {
                    self.store.set_by_uid(uid)
                };
                match stored {
                    Some(stored) => ReadAnswer::Set(Arc::clone(stored)),
                    None => ReadAnswer::Absent { uid: uid.clone() },
                }
            }
            Read::Object { uid, .. } => {
                let deployment = self.store.deployment.as_ref();
                match deployment.filter(|it| it.metadata.uid == *uid) {
                    Some(deployment) => ReadAnswer::Deployment(Arc::clone(deployment)),
                    None => ReadAnswer::Absent { uid: uid.clone() },
                }
            }
        }
    }
}

pub(super) fn set_version<'s>(stored: &'s StoredSet, owner_uid: &str) -> Version<'s> {
    let metadata = &stored.set.metadata;
    let controller = metadata.controller();
    Version {
        kind: "ReplicaSet",
        name: &metadata.name,
        uid: &metadata.uid,
        version: &metadata.resource_version,
        is_deleting: metadata.deletion_timestamp.is_some(),
        controller: match controller {
            None => Controller::None,
            Some(controller) if controller.uid == owner_uid => Controller::Owner,
            Some(_) => Controller::Other,
        },
    }
}

pub(super) fn deployment_version(deployment: &Deployment) -> Version<'_> {
    let metadata = &deployment.metadata;
    Version {
        kind: &deployment.kind,
        name: &metadata.name,
        uid: &metadata.uid,
        version: &metadata.resource_version,
        is_deleting: metadata.deletion_timestamp.is_some(),
        controller: Controller::None,
    }
}
