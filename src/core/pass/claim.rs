//! Which ReplicaSets are this Deployment's: those it owns and matches. Orphans that match are adopted, owned
//! ones that no longer match are released, those of others are left alone; none of that while the Deployment
//! is being deleted.
//!
//! Kubernetes source: `pkg/controller/controller_ref_manager.go`.

use std::borrow::Cow;

use super::{Managed, Pass, Stop, SyncResult};
use crate::action::{Action, OnFailure, Target};
use crate::revision;
use crate::snapshot::{Deployment, OwnerReference, ReplicaSet};

/// What is to be done about a ReplicaSet's owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Claim {
    /// It is ours, and matches.
    Keep,
    /// Nobody owns it, and it matches.
    Adopt,
    /// It is ours, and no longer matches.
    Release,
    /// It is none of our business.
    Ignore,
}

impl<'a> Pass<'a> {
    /// `ClaimReplicaSets`. A refused claim ends the pass, after all others were made.
    pub(crate) fn claim(&mut self) -> SyncResult<()> {
        let snapshot = self.snapshot;
        let deployment = &snapshot.deployment;
        let mut sets: Vec<&'a ReplicaSet> = snapshot
            .replica_sets
            .iter()
            .filter(|set| set.metadata.namespace == deployment.metadata.namespace)
            .collect();
        // Kubernetes claims in the order of a map, which is none.
        sets.sort_by(|a, b| revision::by_age(a, b));
        let mut adoptable = None;
        let mut refused = false;
        for set in sets {
            self.checkpoint()?;
            match claim(deployment, set) {
                Claim::Keep => self.manage(set, false),
                // Kubernetes asks the server once, before the first adoption. Where the answer is no, none is
                // made, but what is to be released is.
                Claim::Adopt if *adoptable.get_or_insert_with(|| self.check_owner()) => {
                    match self.adopt(set) {
                        Ok(true) => self.manage(set, true),
                        Ok(false) => {}
                        Err(_) => refused = true,
                    }
                }
                Claim::Adopt => refused = true,
                Claim::Release => refused |= self.release(set).is_err(),
                Claim::Ignore => {}
            }
        }
        self.find_current()?;
        if refused {
            return Err(Stop::Refused);
        }
        Ok(())
    }

    fn manage(&mut self, set: &'a ReplicaSet, adopted: bool) {
        let managed = Managed::current(self.sets.len(), Cow::Borrowed(set));
        self.sets
            .push(if adopted { managed.written() } else { managed });
    }

    /// Adopting for a Deployment that is gone makes the garbage collector delete running pods, so that the
    /// server is asked first. Says whether it may still be there.
    fn check_owner(&mut self) -> bool {
        let owner = Target::owner(&self.snapshot.deployment);
        self.act(Action::CheckOwner { owner }, OnFailure::Stop)
            .is_ok()
    }

    /// Reports whether the ReplicaSet is ours now. A deleted one is not, which is not a failure.
    fn adopt(&mut self, set: &ReplicaSet) -> SyncResult<bool> {
        let reference = Target::owner(&self.snapshot.deployment).controller_reference();
        // As Kubernetes' strategic merge patch leaves the list: a new owner comes first.
        let mut owner_references = set.metadata.owner_references.clone();
        let known = owner_references
            .iter_mut()
            .find(|other| other.uid == reference.uid);
        match known {
            Some(known) => *known = reference,
            None => owner_references.insert(0, reference),
        }
        let action = Action::AdoptReplicaSet {
            set: Target::set(set),
            owner_references,
        };
        // Kubernetes goes on without it, and so do we once we know. The rest of this plan counts its pods.
        self.claim_by(action, OnFailure::Stop, &[404])
    }

    fn release(&mut self, set: &ReplicaSet) -> SyncResult<()> {
        let action = Action::ReleaseReplicaSet {
            set: Target::set(set),
            owner_references: owners_without(set, &self.snapshot.deployment.metadata.uid),
        };
        self.claim_by(action, OnFailure::Tolerate(&[404, 422]), &[404, 422])
            .map(|_| ())
    }

    /// Says whether the write is made; not if it was refused with an answer that says the set is none of ours.
    fn claim_by(
        &mut self,
        action: Action,
        on_failure: OnFailure,
        not_ours: &[i32],
    ) -> SyncResult<bool> {
        match self.act(action, on_failure) {
            Ok(()) => Ok(true),
            Err(failure) if not_ours.contains(&failure.http_code) => Ok(false),
            Err(_) => Err(Stop::Refused),
        }
    }
}

fn claim(deployment: &Deployment, set: &ReplicaSet) -> Claim {
    let matches = deployment.spec.selector.matches(&set.metadata.labels);
    let deleting = deployment.metadata.deletion_timestamp.is_some();
    match set.metadata.controller() {
        Some(owner) if owner.uid != deployment.metadata.uid => Claim::Ignore,
        Some(_) if matches => Claim::Keep,
        Some(_) if deleting => Claim::Ignore,
        Some(_) => Claim::Release,
        None if deleting || !matches || set.metadata.deletion_timestamp.is_some() => Claim::Ignore,
        None => Claim::Adopt,
    }
}

fn owners_without(set: &ReplicaSet, uid: &str) -> Vec<OwnerReference> {
    let owners = set.metadata.owner_references.iter();
    owners.filter(|owner| owner.uid != uid).cloned().collect()
}
