//! One pass: what a single sync of Kubernetes' Deployment controller does with this snapshot.
//!
//! Kubernetes source: `pkg/controller/deployment/` of v1.36.3; each function names the one it mirrors. A pass
//! runs against a server that enforces resourceVersion, and ends at its first error. The controller looks its
//! objects up several times within a sync, from a cache that has not seen its own writes; a second write
//! from such a look-up is refused as stale. [`WorkingCopy`] keeps track of that, so that a pass is exactly the writes
//! that succeed.

mod claim;
mod cleanup;
mod conditions;
mod create;
mod find;
mod proportional;
mod publish;
mod rollback_annotation;
mod rollout;
mod working_copy;
mod write;

pub(crate) use create::as_created;
pub(crate) use find::has_template_of;
pub(crate) use rollback_annotation::{restored, without_hash};
use working_copy::{Found, Managed, WorkingCopy};

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::action::{Event, Step};
use crate::interrupt::{Interrupt, Never};
use crate::revision::{self, REVISION};
use crate::size::Limits;
use crate::snapshot::{Deployment, DeploymentStatus, Options, ReplicaSet, Snapshot, StepFailure};
use crate::strategy::{self, RolloutStrategy};

/// By which rules a pass decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rules {
    /// Exactly Kubernetes'.
    Exact,
    /// Kubernetes', and two more. No more pods count as available than their ReplicaSet still wants: a
    /// look-ahead must not count pods that it has taken away. (Published numbers are the observed ones all the
    /// same.) And a stale `desired-replicas` is refreshed where Kubernetes would see a scaling event indefinitely.
    LookAhead,
}

/// What one pass comes to.
pub(crate) struct Outcome {
    /// The writes, in order, their calls yet to be made.
    pub(crate) steps: Vec<Step>,
    /// Why the pass ended early, if it did.
    pub(crate) stop: Option<Stop>,
    /// Whether a call of the pass was refused when it was last tried.
    pub(crate) refused: bool,
}

/// Why a pass ends before its end. None of these is a failure of ours to report: the next pass sees a newer
/// world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// The next write would be made from a stale look-up.
    Stale,
    /// The next write was refused when the last plan was carried out.
    Refused,
    /// The namespace is being deleted: nothing can be created in it any more.
    NamespaceTerminating,
    /// The name of the new ReplicaSet is taken; another one is tried next time.
    NameTaken,
    /// A ReplicaSet for this template could never be selected by the Deployment.
    Unselectable,
    /// Nobody waits for the plan any more.
    Interrupted,
}

/// What a step of a pass returns: nothing more is done after a [`Stop`].
pub(crate) type SyncResult<T> = Result<T, Stop>;

/// The state of a pass.
pub(crate) struct Pass<'a> {
    pub(crate) snapshot: &'a Snapshot,
    options: Options,
    rules: Rules,
    interrupt: &'a dyn Interrupt,
    /// What was refused when the last plan was carried out, by the name of the object. There may be a thousand.
    failures: BTreeMap<&'a str, Vec<&'a StepFailure>>,
    strategy: Box<dyn RolloutStrategy>,
    limits: Limits,
    owner: Owner<'a>,
    /// The ReplicaSets of this Deployment, oldest first; one that this pass creates comes last.
    pub(crate) sets: Vec<Managed<'a>>,
    /// Which of them has the current template.
    current: Option<usize>,
    steps: Vec<Step>,
    /// Whether a call of this pass was refused when it was last tried.
    refused: bool,
}

/// The Deployment, as the controller holds it in memory and as the server has it.
struct Owner<'a> {
    deployment: &'a Deployment,
    revision: Option<Cow<'a, str>>,
    status: Cow<'a, DeploymentStatus>,
    stored_revision: Option<Cow<'a, str>>,
    stored_status: Cow<'a, DeploymentStatus>,
    /// Whether this pass has written it: what the controller holds is stale from then on.
    written: bool,
}

/// The status that a pass would publish if it wrote nothing else.
pub(crate) fn observe(
    snapshot: &Snapshot,
    options: Options,
    interrupt: &dyn Interrupt,
) -> DeploymentStatus {
    // What a pass writes besides the status is thrown away.
    let mut pass = Pass::new(snapshot, options, Rules::Exact, interrupt);
    let deployment = &snapshot.deployment;
    if deployment.spec.selector.is_empty() || pass.claim().is_err() {
        return pass.owner.status.into_owned();
    }
    let deleting = deployment.metadata.deletion_timestamp.is_some();
    // In memory, the condition is set even where its write is refused.
    if !deleting {
        _ = pass.check_paused_conditions();
    }
    let found = pass.look_up_all();
    if deleting || deployment.spec.paused {
        pass.calculate_status(&found)
    } else {
        pass.calculate_rollout_status(&found)
    }
}

/// The new ReplicaSet, if there is one, and the old ones by age.
pub(crate) fn roles<'a>(
    snapshot: &'a Snapshot,
    options: Options,
    interrupt: &'a dyn Interrupt,
) -> (Option<&'a ReplicaSet>, Vec<&'a ReplicaSet>) {
    let mut pass = Pass::new(snapshot, options, Rules::Exact, interrupt);
    // A refused claim leaves a shorter list, and a report on that.
    _ = pass.claim();
    let current = pass.current;
    let sets = pass.sets.into_iter().enumerate();
    let (new, old): (Vec<_>, Vec<_>) = sets
        .filter_map(|(index, set)| match set.cached {
            Cow::Borrowed(set) => Some((index, set)),
            // Created by the pass, and this one creates nothing.
            Cow::Owned(_) => None,
        })
        .partition(|(index, _)| Some(*index) == current);
    (
        new.into_iter().map(|(_, set)| set).next(),
        old.into_iter().map(|(_, set)| set).collect(),
    )
}

/// Runs one pass.
pub(crate) fn run(snapshot: &Snapshot, options: Options, rules: Rules) -> Outcome {
    run_until(snapshot, options, rules, &Never)
}

/// Runs one pass, or stops with [`Stop::Interrupted`].
pub(crate) fn run_until(
    snapshot: &Snapshot,
    options: Options,
    rules: Rules,
    interrupt: &dyn Interrupt,
) -> Outcome {
    run_to_status(snapshot, options, rules, interrupt).0
}

/// Runs one pass, and says which status the server has after it.
pub(crate) fn run_to_status<'a>(
    snapshot: &'a Snapshot,
    options: Options,
    rules: Rules,
    interrupt: &'a dyn Interrupt,
) -> (Outcome, Cow<'a, DeploymentStatus>) {
    let mut pass = Pass::new(snapshot, options, rules, interrupt);
    let stop = pass.sync().err();
    if pass.refused {
        pass.put_status_first();
    }
    let outcome = Outcome {
        steps: pass.steps,
        stop,
        refused: pass.refused,
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
        let revision = deployment.metadata.annotations.get(REVISION);
        let revision = revision.map(|revision| Cow::Borrowed(revision.as_str()));
        let mut failures = BTreeMap::<_, Vec<_>>::new();
        for failure in &snapshot.failures {
            let name = failure.call.name.as_str();
            failures.entry(name).or_default().push(failure);
        }
        Self {
            snapshot,
            options,
            rules,
            interrupt,
            failures,
            limits: strategy.limits(deployment.spec.replicas),
            strategy,
            owner: Owner {
                deployment,
                revision: revision.clone(),
                status: Cow::Borrowed(&deployment.status),
                stored_revision: revision,
                stored_status: Cow::Borrowed(&deployment.status),
                written: false,
            },
            sets: Vec::new(),
            current: None,
            steps: Vec::new(),
            refused: false,
        }
    }

    /// Between the objects that a pass looks at: whether to go on.
    pub(crate) fn checkpoint(&self) -> SyncResult<()> {
        self.interrupt.check().map_err(|_| Stop::Interrupted)
    }

    /// `syncDeployment`.
    fn sync(&mut self) -> SyncResult<()> {
        let deployment = self.owner.deployment;
        if deployment.spec.selector.is_empty() {
            return self.refuse_empty_selector();
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

    fn refuse_empty_selector(&mut self) -> SyncResult<()> {
        let message =
            "This deployment is selecting all pods. A non-empty selector is required.".to_owned();
        self.record(Event::warning("SelectingAll", message));
        let generation = self.owner.deployment.metadata.generation;
        if self.owner.status.observed_generation < generation {
            self.owner.status.to_mut().observed_generation = generation;
            self.write_status()?;
        }
        Ok(())
    }

    /// `sync`: sizes and status, for Deployments that are paused or were scaled.
    fn sync_sizes(&mut self) -> SyncResult<()> {
        let mut found = self.find_and_sync_revision(false)?;
        self.scale_all(&mut found)?;
        let deployment = self.owner.deployment;
        if deployment.spec.paused && rollback_annotation::requested(deployment).is_none() {
            self.clean_up(&found.old)?;
        }
        self.sync_status(&found)
    }

    /// `isScalingEvent`: whether an active ReplicaSet was last scaled for another number of wanted pods.
    fn is_scaling_event(&mut self) -> SyncResult<bool> {
        let found = self.find_and_sync_revision(false)?;
        let wanted = self.limits.replicas;
        for set in found.all() {
            self.checkpoint()?;
            if revision::is_scaled_for_another(self.annotations(set), set.replicas, wanted) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// A name in quotes, as Go's `%q` prints it. Names are DNS names: nothing in them needs an escape.
pub(crate) fn quote(name: &str) -> String {
    format!("\"{name}\"")
}
