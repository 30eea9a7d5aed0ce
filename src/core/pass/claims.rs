//! Which ReplicaSets belong to the Deployment: those that it controls and selects. A ReplicaSet without a controller is
//! adopted if the selector matches it, and one that the selector no longer matches is released. Those of other controllers
//! are left alone. A Deployment that is being deleted neither adopts nor releases.
//!
//! Kubernetes source: `pkg/controller/controller_ref_manager.go`.

use std::borrow::Cow;

use super::sets::Sets;
use super::writes::Writes;
use super::{Stop, SyncResult};
use crate::action::{Action, OnFailure, Target};
use crate::interrupt::Interrupt;
use crate::revision;
use crate::snapshot::{Deployment, OwnerReference, ReplicaSet, Snapshot};

/// What to do about the controller of a ReplicaSet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Claim {
    /// The Deployment controls and selects it.
    Keep,
    /// It has no controller, and the Deployment selects it.
    Adopt,
    /// The Deployment controls it and no longer selects it.
    Release,
    /// It does not belong to the Deployment.
    Ignore,
}

/// The claims of a Deployment.
struct Claims<'p, 'a> {
    deployment: &'a Deployment,
    writes: &'p mut Writes<'a>,
}

/// `ClaimReplicaSets`: adds the ReplicaSets of the Deployment. A rejected claim ends the pass after all other claims were
/// made.
pub(super) fn claim_all<'a>(
    snapshot: &'a Snapshot,
    sets: &mut Sets<'a>,
    writes: &mut Writes<'a>,
    interrupt: &dyn Interrupt,
) -> SyncResult<()> {
    let deployment = &snapshot.deployment;
    let mut claims = Claims { deployment, writes };
    let all = snapshot.replica_sets.iter();
    let mut all: Vec<&ReplicaSet> = all
        .filter(|set| set.metadata.namespace == deployment.metadata.namespace)
        .collect();
    // Kubernetes claims in the random order of a map.
    all.sort_by(|a, b| revision::by_age(a, b));
    let mut adoptable = None;
    let mut refused = false;
    for set in all {
        interrupt.check().map_err(|_| Stop::Interrupted)?;
        match claim(deployment, set) {
            Claim::Keep => sets.add(Cow::Borrowed(set), false),
            // Kubernetes asks the server once, before the first adoption. If it rejects the check, nothing is adopted, but
            // ReplicaSets are still released.
            Claim::Adopt if *adoptable.get_or_insert_with(|| claims.check_owner()) => {
                match claims.adopt(set) {
                    Ok(true) => sets.add(Cow::Borrowed(set), true),
                    Ok(false) => {}
                    Err(_) => refused = true,
                }
            }
            Claim::Adopt => refused = true,
            Claim::Release => refused |= claims.release(set).is_err(),
            Claim::Ignore => {}
        }
    }
    sets.find_current(deployment, interrupt)?;
    if refused { Err(Stop::Refused) } else { Ok(()) }
}

// === impl Claims ===

impl Claims<'_, '_> {
    /// Checks that the Deployment exists. The garbage collector would delete the running pods of a ReplicaSet that is
    /// adopted for a deleted Deployment.
    fn check_owner(&mut self) -> bool {
        let owner = Target::owner(self.deployment);
        let check = Action::CheckOwner { owner };
        self.writes.act(check, OnFailure::Stop).is_ok()
    }

    /// Returns whether the ReplicaSet now belongs to the Deployment. If it has been deleted, this returns false, not an
    /// error.
    fn adopt(&mut self, set: &ReplicaSet) -> SyncResult<bool> {
        let reference = Target::owner(self.deployment).controller_reference();
        // Kubernetes' strategic merge patch puts a new owner first.
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
        // Stop after a 404: the scale-downs below count the pods of this ReplicaSet. The next plan, without it, does what
        // Kubernetes does.
        self.act(action, OnFailure::Stop, &[404])
    }

    fn release(&mut self, set: &ReplicaSet) -> SyncResult<()> {
        let action = Action::ReleaseReplicaSet {
            set: Target::set(set),
            owner_references: owners_without(set, &self.deployment.metadata.uid),
        };
        self.act(action, OnFailure::Tolerate(&[404, 422]), &[404, 422])
            .map(|_| ())
    }

    /// Returns whether the write is made. It is skipped if the server already answered it with one of the codes in
    /// `not_owned`, which mean that the ReplicaSet does not belong to the Deployment.
    fn act(
        &mut self,
        action: Action,
        on_failure: OnFailure,
        not_owned: &[i32],
    ) -> SyncResult<bool> {
        match self.writes.act(action, on_failure) {
            Ok(()) => Ok(true),
            Err(failure) if not_owned.contains(&failure.http_code) => Ok(false),
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
