//! Whether the failures of a rollout persist, as far as the snapshot alone shows it.

use rollplan_core::snapshot::ReplicaSet;

use crate::messages::{Persistence, refusal};
use crate::observe::ObservedRollout;

use super::failure::{Certainty, Failure, Group};

impl ObservedRollout<'_> {
    /// The failure that all unready new pods share. `None` if their failures differ, if the snapshot does not contain all of
    /// them, if one of the new pods is or was ready, if capacity is becoming free that may resolve it, or if no pods are
    /// desired.
    #[must_use]
    pub fn failure(&self) -> Option<Failure> {
        let new = self.new_set().filter(|_| self.wanted() > 0)?;
        let group = Group {
            existing: new.status.replicas.into(),
            has_ready: new.status.ready_replicas > 0,
            makes_room: self.own_pods_terminate(),
        };
        self.context
            .shared_failure(self.explanations(), &group, None)
    }

    /// Whether it is certain, according to events, that the API server keeps rejecting desired new pods.
    #[must_use]
    pub fn refusal_of_pods(&self) -> Certainty {
        let lacks_pods = |new: &&ReplicaSet| new.status.replicas < self.wanted();
        self.new_set()
            .filter(lacks_pods)
            .map_or(Certainty::Open, |new| {
                self.refusal(&new.metadata.uid, "FailedCreate")
            })
    }

    /// Whether it is certain, according to events or the calls of the last plan, that the API server keeps rejecting the new
    /// ReplicaSet.
    #[must_use]
    pub fn refusal_of_replica_set(&self) -> Certainty {
        let is_definite = self.refused_create().is_some_and(|failure| {
            let persistence = refusal::TABLE.look_up(&failure.message).persistence();
            failure.http_code < 500 && persistence == Persistence::Definite
        });
        if is_definite {
            Certainty::Certain
        } else {
            self.refusal(
                &self.snapshot.deployment.metadata.uid,
                "ReplicaSetCreateError",
            )
        }
    }

    fn refusal(&self, uid: &str, reason: &str) -> Certainty {
        let makes_room = self.own_pods_terminate();
        self.context.refusal(uid, reason, makes_room)
    }
}
