//! What the planner must know of earlier calls.

use std::collections::BTreeMap;

use crate::action::{Action, CallId, OnFailure, Step};
use crate::time::Time;

/// What the planner must know of earlier calls about an owner. Callers keep it without understanding it. It has versions of
/// objects, and never their content. Without it, the planner only reads more.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// The UID of the owner. Empty before the first call.
    pub owner_uid: String,
    /// The number of plans that were to be carried out. The ids of their steps contain it.
    pub plans: u64,
    /// Whether the objects that the caller observes, together with `known`, contain every change of a ReplicaSet that
    /// was made before the last call.
    pub is_verified: bool,
    /// The versions that the caller may not have observed yet, by UID.
    pub known: BTreeMap<String, Known>,
    /// The calls of the last plan.
    pub pending: Vec<PendingCall>,
    /// Whether the last plan reacted to calls that had failed.
    pub is_reaction: bool,
    /// The number of failures since the last plan that was carried out entirely.
    pub attempts: u32,
    /// Whether the API server has dropped `status.terminatingReplicas` from a write.
    pub drops_terminating: bool,
    /// When the first of the statuses that were delayed was due.
    pub delayed_since: Option<Time>,
    /// What is known of the Deployment controller of Kubernetes.
    pub native: NativeWrites,
}

/// The newest version of an object that an answer has shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known {
    /// Kind.
    pub kind: String,
    /// Name.
    pub name: String,
    /// The resourceVersion. Empty if the object must be read.
    pub version: String,
    /// Why the caller may not have observed it.
    pub change: Change,
}

/// A change of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It may be new, so that the caller does not observe it at all.
    Created,
    /// It is known to the caller in some version.
    Changed,
    /// It was deleted.
    Deleted,
    /// It was created and deleted, and the caller may not have observed either of them.
    DeletedUnobserved,
}

/// A call of the last plan, to which the caller returns an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingCall {
    /// The index of its step in the plan.
    pub index: u32,
    /// Identifies the call.
    pub id: CallId,
    /// The UID of the object. Empty if it is created.
    pub uid: String,
    /// The HTTP status codes, besides those of success, with which the step counts as carried out.
    pub done_codes: Vec<i32>,
    /// Whether the body has a number in `status.terminatingReplicas`.
    pub writes_terminating: bool,
}

/// The writes of the Deployment controller of Kubernetes to the status of an owner, by the clock of the API server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NativeWrites {
    /// Whether the owner has been observed before.
    pub is_observed: bool,
    /// The latest write.
    pub last: Option<Time>,
    /// When work on the owner continues, by the clock of the caller.
    pub suspended_until: Option<Time>,
}

// === impl State ===

impl State {
    /// Forgets the versions of objects of this kind and name: the API server has answered that there is none.
    pub(super) fn forget(&mut self, kind: &str, name: &str) {
        self.known
            .retain(|_, known| known.kind != kind || known.name != name);
    }
}

// === impl Change ===

impl Change {
    pub(super) fn is_deleted(self) -> bool {
        matches!(self, Self::Deleted | Self::DeletedUnobserved)
    }

    /// The change after the object was deleted.
    pub(super) fn deleted(self) -> Self {
        match self {
            Self::Created | Self::DeletedUnobserved => Self::DeletedUnobserved,
            Self::Changed | Self::Deleted => Self::Deleted,
        }
    }
}

// === impl PendingCall ===

impl PendingCall {
    /// What is known of its object if only a read can show its version.
    pub(super) fn outdated(&self) -> Known {
        Known {
            kind: self.id.kind.clone(),
            name: self.id.name.clone(),
            version: String::new(),
            change: Change::Changed,
        }
    }

    pub(super) fn of(index: usize, step: &Step) -> Option<Self> {
        let action = step.action.as_ref()?;
        let call = action.call();
        let (uid, writes_terminating) = match action {
            Action::CheckOwner { owner } | Action::UpdateDeployment { owner, .. } => {
                (&owner.uid, false)
            }
            Action::UpdateDeploymentStatus { owner, status, .. } => {
                (&owner.uid, status.terminating_replicas.is_some())
            }
            Action::AdoptReplicaSet { set, .. }
            | Action::ReleaseReplicaSet { set, .. }
            | Action::UpdateReplicaSet { set, .. }
            | Action::ScaleReplicaSet { set, .. }
            | Action::DeleteReplicaSet { set } => (&set.uid, false),
            // The API server chooses it.
            Action::CreateReplicaSet(_) => (&String::new(), false),
        };
        Some(Self {
            index: u32::try_from(index).ok()?,
            id: call.id(),
            uid: uid.clone(),
            done_codes: match step.on_failure {
                OnFailure::Tolerate(codes) => codes.to_vec(),
                OnFailure::Stop | OnFailure::Continue => Vec::new(),
            },
            writes_terminating,
        })
    }

    pub(super) fn is_of_set(&self) -> bool {
        self.id.kind == super::REPLICA_SET
    }
}
