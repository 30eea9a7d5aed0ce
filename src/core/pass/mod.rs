//! A pass: what a single sync of the Deployment controller of Kubernetes does with a snapshot.
//!
//! Kubernetes source: `pkg/controller/deployment/` of v1.37.2; each function names the one that it mirrors. A pass runs
//! against a server that enforces resourceVersion, and ends at its first error. Within a sync, the controller reads its
//! objects several times from a cache that does not contain its own writes yet. If it writes an object and then writes an
//! older copy of it, the server rejects the second write as stale. A `WorkingCopy` (`sets.rs`) knows whether it is
//! stale, so a pass consists of exactly the writes that succeed.

mod claims;
mod cleanup;
mod create;
mod find;
pub mod overlap;
mod owner;
mod proportional;
mod publish;
pub mod rollback_annotation;
mod rollout;
mod scale;
mod sets;
mod writes;

pub use create::new_set_name;
pub use find::has_template_of;

pub(crate) use rollback_annotation::restored;
pub use rollback_annotation::without_hash;

use std::borrow::Cow;

use crate::action::{Action, Event, Step};
use crate::caps::Caps;
use crate::interrupt::{Interrupt, Never};
use crate::revision;
use crate::size::Limits;
use crate::snapshot::{DeploymentStatus, Options, ReplicaSet, Snapshot};
use crate::strategy::{self, RolloutStrategy};

use self::claims::claim_all;
use self::owner::Owner;
use self::sets::Sets;
use self::writes::Writes;

/// The rules by which a pass decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rules {
    /// Exactly those of Kubernetes.
    Exact,
    /// Those of Kubernetes with two additions. The available pods of a ReplicaSet are limited to its size, because a
    /// look-ahead must not count pods that it has removed. (The published numbers are the observed ones.) And a stale
    /// `desired-replicas` is updated if Kubernetes would detect a scaling event indefinitely.
    LookAhead,
}

/// The result of a pass.
pub(crate) struct Outcome {
    /// The steps in order.
    pub(crate) steps: Vec<Step>,
    /// Why the pass ended early, if it did.
    pub(crate) stop: Option<Stop>,
    /// Whether a call of the pass was rejected when the last plan was carried out.
    pub(crate) refused: bool,
}

// === impl Outcome ===

impl Outcome {
    /// The writes without events.
    pub(crate) fn actions(&self) -> impl Iterator<Item = &Action> {
        self.steps.iter().filter_map(|step| step.action.as_ref())
    }
}

/// Why a pass ends early. None of these is an error to report, because the next pass has a newer snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// The next write would be made from a stale copy.
    Stale,
    /// The next write was rejected when the last plan was carried out.
    Refused,
    /// The namespace is being deleted, so nothing can be created in it.
    NamespaceTerminating,
    /// The name of the new ReplicaSet is taken. The next pass tries another one.
    NameTaken,
    /// The selector of the Deployment would not match a ReplicaSet with this template.
    Unselectable,
    /// The selector of a custom resource matches the pods of a Deployment.
    Overlap,
    /// The caller no longer waits for the plan.
    Interrupted,
}

/// The result of a part of a pass. After a [`Stop`], nothing more is done.
type SyncResult<T> = Result<T, Stop>;

/// The state of a pass.
struct Pass<'a> {
    snapshot: &'a Snapshot,
    options: Options,
    rules: Rules,
    interrupt: &'a dyn Interrupt,
    strategy: Box<dyn RolloutStrategy>,
    limits: Limits,
    caps: Caps,
    owner: Owner<'a>,
    sets: Sets<'a>,
    writes: Writes<'a>,
}

/// The status that a pass would publish if it made no other write.
pub(crate) fn observe(
    snapshot: &Snapshot,
    options: Options,
    interrupt: &dyn Interrupt,
) -> DeploymentStatus {
    // The other writes of the pass are dropped.
    let mut pass = Pass::new(snapshot, options, Rules::Exact, interrupt);
    let deployment = &snapshot.deployment;
    if is_refused(snapshot) || pass.claim().is_err() {
        return pass.owner.status.into_owned();
    }
    let deleting = deployment.metadata.deletion_timestamp.is_some();
    // The result says whether the pass continues after the write. The status has the condition in any case.
    if !deleting {
        _ = pass.check_paused_conditions();
    }
    let found = pass.sets.look_up_all();
    if deleting || deployment.spec.paused {
        return pass.calculate_status(&found);
    }
    if let Some(new) = found.new.as_ref().filter(|_| !deployment.is_native()) {
        let set = &pass.sets.cached(new).metadata.name;
        let revision = pass.sets.annotations(new).get(revision::REVISION);
        let revision = revision.map_or("", String::as_str);
        pass.owner.find_rollout(set, revision, snapshot.now);
    }
    pass.calculate_rollout_status(&found)
}

/// Whether nothing can be planned because of the selector.
#[must_use]
pub fn is_refused(snapshot: &Snapshot) -> bool {
    snapshot.deployment.spec.selector.is_empty() || overlap::rival(snapshot).is_some()
}

/// The new ReplicaSet, if there is one, and the old ones by age.
#[must_use]
pub fn roles<'a>(
    snapshot: &'a Snapshot,
    interrupt: &dyn Interrupt,
) -> (Option<&'a ReplicaSet>, Vec<&'a ReplicaSet>) {
    let mut sets = Sets::default();
    // After a rejected claim, the list is shorter.
    _ = claim_all(snapshot, &mut sets, &mut Writes::new(snapshot), interrupt);
    sets.into_roles()
}

/// Makes a pass.
pub(crate) fn run(snapshot: &Snapshot, options: Options, rules: Rules) -> Outcome {
    run_until(snapshot, options, rules, &Never)
}

/// Makes a pass, or stops with [`Stop::Interrupted`].
pub(crate) fn run_until(
    snapshot: &Snapshot,
    options: Options,
    rules: Rules,
    interrupt: &dyn Interrupt,
) -> Outcome {
    run_to_status(snapshot, options, rules, interrupt).0
}

/// Makes a pass, and returns the status that the server has after it.
pub(crate) fn run_to_status<'a>(
    snapshot: &'a Snapshot,
    options: Options,
    rules: Rules,
    interrupt: &'a dyn Interrupt,
) -> (Outcome, Cow<'a, DeploymentStatus>) {
    let mut pass = Pass::new(snapshot, options, rules, interrupt);
    let outcome = Outcome {
        stop: pass.sync().err(),
        refused: pass.writes.refused,
        steps: pass.writes.into_steps(),
    };
    (outcome, pass.owner.stored_status)
}

// === impl Pass ===

impl<'a> Pass<'a> {
    fn new(
        snapshot: &'a Snapshot,
        options: Options,
        rules: Rules,
        interrupt: &'a dyn Interrupt,
    ) -> Self {
        let deployment = &snapshot.deployment;
        let strategy = strategy::of(deployment);
        Self {
            snapshot,
            options,
            rules,
            interrupt,
            limits: strategy.limits(deployment.spec.replicas),
            caps: deployment.caps(options),
            strategy,
            owner: Owner::new(deployment),
            sets: Sets::default(),
            writes: Writes::new(snapshot),
        }
    }

    /// Checks for an interruption, between the objects that a pass reads.
    fn checkpoint(&self) -> SyncResult<()> {
        self.interrupt.check().map_err(|_| Stop::Interrupted)
    }

    /// `syncDeployment`.
    fn sync(&mut self) -> SyncResult<()> {
        let deployment = self.owner.deployment;
        if deployment.spec.selector.is_empty() {
            return self.refuse_empty_selector();
        }
        if let Some(rival) = overlap::rival(self.snapshot) {
            return self.refuse_overlap(rival);
        }
        self.claim()?;
        if deployment.metadata.deletion_timestamp.is_some() {
            let found = self.find_and_sync_revision(false)?;
            return self.sync_status(&found);
        }
        self.check_paused_conditions()?;
        if deployment.spec.paused {
            return self.sync_sizes();
        }
        if let Some(revision) = rollback_annotation::requested(deployment) {
            return self.roll_back(revision);
        }
        if self.is_scaling_event()? {
            return self.sync_sizes();
        }
        self.roll_out()
    }

    fn claim(&mut self) -> SyncResult<()> {
        claim_all(
            self.snapshot,
            &mut self.sets,
            &mut self.writes,
            self.interrupt,
        )
    }

    fn refuse_empty_selector(&mut self) -> SyncResult<()> {
        let message =
            "This deployment is selecting all pods. A non-empty selector is required.".to_owned();
        self.writes.record(Event::warning("SelectingAll", message));
        let generation = self.owner.deployment.metadata.generation;
        if self.owner.status.observed_generation < generation {
            self.owner.status.to_mut().observed_generation = generation;
            self.write_status()?;
        }
        Ok(())
    }

    /// `sync`: sizes and status of Deployments that are paused or were scaled.
    fn sync_sizes(&mut self) -> SyncResult<()> {
        let mut found = self.find_and_sync_revision(false)?;
        self.scale_all(&mut found)?;
        let deployment = self.owner.deployment;
        if deployment.spec.paused && rollback_annotation::requested(deployment).is_none() {
            self.clean_up(&found.old)?;
        }
        self.sync_status(&found)
    }

    /// `isScalingEvent`: whether an active ReplicaSet was last scaled for another number of desired pods.
    fn is_scaling_event(&mut self) -> SyncResult<bool> {
        let found = self.find_and_sync_revision(false)?;
        let wanted = self.limits.replicas;
        for set in found.all() {
            self.checkpoint()?;
            if revision::is_scaled_for_another(self.sets.annotations(set), set.replicas, wanted) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// A name in quotes, as Go's `%q` prints it. Names are DNS names, so nothing in them needs an escape.
#[must_use]
pub fn quote(name: &str) -> String {
    format!("\"{name}\"")
}
