//! One pass: what a single sync of Kubernetes' Deployment controller does with this snapshot.
//!
//! Kubernetes source: `pkg/controller/deployment/` of v1.36.3; each function names the one it mirrors. A pass
//! runs against a server that enforces resourceVersion, and ends at its first error. The controller looks its
//! objects up anew several times within a sync, from a cache that has not seen its own writes; a second write
//! from such a look-up is refused as stale. [`Held`] keeps track of that, so that a pass is exactly the writes
//! that succeed.

mod cleanup;
mod conditions;
mod create;
mod proportional;
mod recreate;
mod rollback;
mod rolling;

pub(crate) use create::as_created;
pub(crate) use rollback::{restored, without_hash};

use std::borrow::Cow;

use crate::action::{Action, Event, NewReplicaSet, OnFailure, SetChange, Step, Target};
use crate::revision::{self, REVISION, TEMPLATE_DIGEST};
use crate::size::Limits;
use crate::snapshot::{
    Condition, Deployment, DeploymentStatus, Options, ReplicaSet, Snapshot, StepFailure, Strategy,
    StringMap,
};
use crate::status::{self, Sizes};
use crate::template::sha256_of_canonical;

/// By which rules a pass decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rules {
    /// Exactly Kubernetes'.
    Exact,
    /// Kubernetes', and two more. No more pods count as available than their ReplicaSet still wants: a
    /// look-ahead must not count pods that it has taken away. (Published numbers are the observed ones all the
    /// same.) And a stale `desired-replicas` is refreshed where Kubernetes would see a scaling event for ever.
    LookAhead,
}

/// What one pass comes to.
pub(crate) struct Outcome {
    /// The writes, in order.
    pub(crate) steps: Vec<Step>,
    /// The status that the server has after them.
    pub(crate) status: DeploymentStatus,
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
}

/// What a step of a pass returns: nothing more is done after a [`Stop`].
pub(crate) type Flow<T> = Result<T, Stop>;

/// One way of replacing old pods. Each strategy is a file below this one.
pub(crate) trait RolloutStrategy {
    /// Takes the rollout as far as one pass may.
    fn rollout(&self, pass: &mut Pass<'_>) -> Flow<()>;
}

fn strategy(strategy: Strategy) -> &'static dyn RolloutStrategy {
    match strategy {
        Strategy::RollingUpdate { .. } => &rolling::RollingUpdate,
        Strategy::Recreate => &recreate::Recreate,
    }
}

/// The state of a pass.
pub(crate) struct Pass<'a> {
    pub(crate) snapshot: &'a Snapshot,
    options: Options,
    rules: Rules,
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
    status: DeploymentStatus,
    stored_revision: Option<Cow<'a, str>>,
    stored_status: DeploymentStatus,
    /// Whether this pass has written it: what the controller holds is stale from then on.
    written: bool,
}

/// A ReplicaSet of this Deployment: what the controller's cache has, and what the server has by now.
pub(crate) struct Managed<'a> {
    pub(crate) cached: Cow<'a, ReplicaSet>,
    stored: Held,
    generation: i64,
    /// Whether the server's resourceVersion is still the snapshot's.
    version_known: bool,
}

/// A ReplicaSet in the controller's hands: a copy that it may change and send back. It is stale once the
/// server has a later version.
#[derive(Clone, Debug)]
pub(crate) struct Held {
    pub(crate) index: usize,
    version: u32,
    pub(crate) replicas: i32,
    min_ready_seconds: i32,
    /// Annotations where they differ from the cached ones.
    annotations: Option<StringMap>,
}

/// The new ReplicaSet, if there is one, and the old ones.
pub(crate) struct Found {
    pub(crate) new: Option<Held>,
    pub(crate) old: Vec<Held>,
}

impl Found {
    /// Old ReplicaSets, then the new one.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Held> {
        self.old.iter().chain(&self.new)
    }
}

/// The status that a pass would publish if it wrote nothing else.
pub(crate) fn observe(snapshot: &Snapshot, options: Options) -> DeploymentStatus {
    // What a pass writes besides the status is thrown away.
    let mut pass = Pass::new(snapshot, options, Rules::Exact);
    let deployment = &snapshot.deployment;
    if deployment.spec.selector.is_empty() || pass.claim().is_err() {
        return pass.owner.status;
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
pub(crate) fn roles(
    snapshot: &Snapshot,
    options: Options,
) -> (Option<&ReplicaSet>, Vec<&ReplicaSet>) {
    let mut pass = Pass::new(snapshot, options, Rules::Exact);
    // A refused claim leaves a shorter list, and a report on that.
    _ = pass.claim();
    pass.find_current();
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
    let mut pass = Pass::new(snapshot, options, rules);
    let stop = pass.sync().err();
    if pass.refused {
        pass.put_status_first();
    }
    Outcome {
        steps: pass.steps,
        status: pass.owner.stored_status,
        stop,
        refused: pass.refused,
    }
}

// === impl Pass ===

impl<'a> Pass<'a> {
    fn new(snapshot: &'a Snapshot, options: Options, rules: Rules) -> Self {
        let deployment = &snapshot.deployment;
        let revision = deployment.metadata.annotations.get(REVISION);
        let revision = revision.map(|revision| Cow::Borrowed(revision.as_str()));
        Self {
            snapshot,
            options,
            rules,
            limits: limits(deployment),
            owner: Owner {
                deployment,
                revision: revision.clone(),
                status: deployment.status.clone(),
                stored_revision: revision,
                stored_status: deployment.status.clone(),
                written: false,
            },
            sets: Vec::new(),
            current: None,
            steps: Vec::new(),
            refused: false,
        }
    }

    /// `syncDeployment`.
    fn sync(&mut self) -> Flow<()> {
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
        if let Some(revision) = rollback::requested(deployment) {
            return self.roll_back(revision);
        }
        if self.is_scaling_event()? {
            return self.sync_sizes();
        }
        strategy(deployment.spec.strategy).rollout(self)
    }

    fn refuse_empty_selector(&mut self) -> Flow<()> {
        let message =
            "This deployment is selecting all pods. A non-empty selector is required.".to_owned();
        self.record(Event::warning("SelectingAll", message));
        let generation = self.owner.deployment.metadata.generation;
        if self.owner.status.observed_generation < generation {
            self.owner.status.observed_generation = generation;
            self.write_status()?;
        }
        Ok(())
    }

    /// `sync`: sizes and status, for Deployments that are paused or were scaled.
    fn sync_sizes(&mut self) -> Flow<()> {
        let mut found = self.find_and_sync_revision(false)?;
        self.scale_all(&mut found)?;
        let deployment = self.owner.deployment;
        if deployment.spec.paused && rollback::requested(deployment).is_none() {
            self.clean_up(&found.old)?;
        }
        self.sync_status(&found)
    }

    /// `isScalingEvent`: whether an active ReplicaSet was last scaled for another number of wanted pods.
    fn is_scaling_event(&mut self) -> Flow<bool> {
        let found = self.find_and_sync_revision(false)?;
        Ok(found
            .all()
            .filter(|set| set.replicas > 0)
            .filter_map(|set| revision::desired_replicas(self.annotations(set)))
            .any(|desired| desired != self.limits.replicas))
    }

    // Looking up ReplicaSets.

    /// `getAllReplicaSetsAndSyncRevision` and the first half of `getNewReplicaSet`: looks the ReplicaSets up,
    /// and brings annotations and revision of the new one and of the Deployment up to date.
    fn find_and_sync_revision(&mut self, create_if_missing: bool) -> Flow<Found> {
        let Found { new, old } = self.look_up_all();
        let highest = revision::max_revision(old.iter().map(|set| self.annotations(set)));
        let new_revision = revision::next_revision(highest);
        let new = match new {
            Some(set) => Some(self.sync_new_set(set, new_revision)?),
            None if create_if_missing => Some(self.create_new_set(&old, new_revision)?),
            None => None,
        };
        Ok(Found { new, old })
    }

    fn look_up_all(&self) -> Found {
        let all = || (0..self.sets.len()).map(|index| self.look_up(index));
        Found {
            new: all().find(|set| Some(set.index) == self.current),
            old: all()
                .filter(|set| Some(set.index) != self.current)
                .collect(),
        }
    }

    /// `FindNewReplicaSet`: of several with the current template, the oldest.
    pub(crate) fn find_current(&mut self) {
        self.current =
            (0..self.sets.len()).find(|&index| self.has_current_template(&self.sets[index].cached));
    }

    /// Whether a ReplicaSet has the template of the Deployment. The stored template of a custom resource lacks
    /// the defaults that the ReplicaSet's has: there, what we noted when we created the set decides as well.
    fn has_current_template(&self, set: &ReplicaSet) -> bool {
        let deployment = self.owner.deployment;
        set.template.same_as(&deployment.spec.template)
            || !deployment.is_native()
                && set.metadata.annotations.get(TEMPLATE_DIGEST)
                    == Some(&sha256_of_canonical(deployment.spec.template.value()))
    }

    /// The ReplicaSet as the cache has it, however often it was written since.
    fn look_up(&self, index: usize) -> Held {
        let cached = &self.sets[index].cached;
        Held {
            index,
            version: 0,
            replicas: cached.replicas,
            min_ready_seconds: cached.min_ready_seconds,
            annotations: None,
        }
    }

    fn sync_new_set(&mut self, mut set: Held, new_revision: i64) -> Flow<Held> {
        let deployment = self.owner.deployment;
        let mut annotations = self.annotations(&set).clone();
        let changed = revision::sync_annotations(
            &deployment.metadata.annotations,
            &mut annotations,
            new_revision,
        );
        set.annotations = Some(annotations);
        if changed || set.min_ready_seconds != deployment.spec.min_ready_seconds {
            set.min_ready_seconds = deployment.spec.min_ready_seconds;
            return self.write_set(set, OnFailure::Stop);
        }
        let revision = self.annotations(&set).get(REVISION).cloned();
        let mut needs_update = self.set_revision(revision.unwrap_or_default());
        if self.has_deadline() && self.progressing().is_none() {
            let name = &self.sets[set.index].cached.metadata.name;
            let message = format!("Found new replica set {}", quote(name));
            self.set_progressing("True", conditions::FOUND_NEW_SET, message);
            needs_update = true;
        }
        if needs_update {
            self.write_status()?;
        }
        Ok(set)
    }

    /// `SetDeploymentRevision`, in memory.
    fn set_revision(&mut self, revision: String) -> bool {
        // Go reads an absent annotation as "".
        let changed = self.owner.revision.as_deref().unwrap_or_default() != revision;
        if changed {
            self.owner.revision = Some(Cow::Owned(revision));
        }
        changed
    }

    pub(crate) fn annotations<'s>(&'s self, set: &'s Held) -> &'s StringMap {
        set.annotations
            .as_ref()
            .unwrap_or(&self.sets[set.index].cached.metadata.annotations)
    }

    fn cached(&self, set: &Held) -> &ReplicaSet {
        &self.sets[set.index].cached
    }

    /// Available pods of a ReplicaSet, as decisions count them.
    fn available(&self, set: &Held) -> i32 {
        let cached = self.cached(set);
        let observed = cached.status.available_replicas;
        match self.rules {
            Rules::Exact => observed,
            Rules::LookAhead => observed.min(cached.replicas).min(cached.available_max),
        }
    }

    fn total(&self, sets: impl IntoIterator<Item = impl std::borrow::Borrow<Held>>) -> i64 {
        sets.into_iter()
            .map(|set| i64::from(set.borrow().replicas))
            .sum()
    }

    // Writing.

    /// `scaleReplicaSet`. Lazy: without `force` only a change of size is written, though the annotations go
    /// along with it. Says whether the size was changed, and returns the set as the server has it.
    fn scale_set(
        &mut self,
        set: &Held,
        size: i32,
        force: bool,
        on_failure: OnFailure,
    ) -> Flow<(bool, Held)> {
        if !force && set.replicas == size {
            return Ok((false, set.clone()));
        }
        let mut scaled = set.clone();
        let mut annotations = self.annotations(set).clone();
        let stale = revision::set_replicas_annotations(
            &mut annotations,
            self.limits.replicas,
            self.limits.max_total(),
        );
        if set.replicas == size && !stale {
            return Ok((false, scaled));
        }
        scaled.annotations = Some(annotations);
        scaled.replicas = size;
        let resized = set.replicas != size;
        let scaled = self.write_set(scaled, on_failure)?;
        let name = &self.cached(set).metadata.name;
        if let Some(event) = scaled_event(name, set.replicas, size) {
            self.attach(event);
        }
        Ok((resized, scaled))
    }

    /// Sends a changed copy of a ReplicaSet back.
    fn write_set(&mut self, set: Held, on_failure: OnFailure) -> Flow<Held> {
        let managed = &self.sets[set.index];
        if set.version != managed.stored.version {
            return Err(Stop::Stale);
        }
        let Some(action) = self.difference(&set) else {
            return Ok(set);
        };
        let spec_changed = set.replicas != managed.stored.replicas
            || set.min_ready_seconds != managed.stored.min_ready_seconds;
        self.act(action, on_failure).map_err(|_| Stop::Refused)?;
        let managed = &mut self.sets[set.index];
        managed.generation = managed.generation.saturating_add(spec_changed.into());
        managed.version_known = false;
        managed.stored = Held {
            version: set.version + 1,
            ..set
        };
        Ok(managed.stored.clone())
    }

    /// The action that makes the server's ReplicaSet like this one.
    fn difference(&self, set: &Held) -> Option<Action> {
        let managed = &self.sets[set.index];
        let stored = &managed.stored;
        let stored_annotations = self.annotations(stored);
        let change = SetChange {
            annotations: self
                .annotations(set)
                .iter()
                .filter(|&(key, value)| stored_annotations.get(key) != Some(value))
                .map(|(key, value)| (key.clone(), value.clone()))
                .collect(),
            first_annotations: stored_annotations.is_empty(),
            min_ready_seconds: (set.min_ready_seconds != stored.min_ready_seconds)
                .then_some(set.min_ready_seconds),
        };
        let target = managed.target();
        if set.replicas != stored.replicas {
            return Some(Action::ScaleReplicaSet {
                set: target,
                from: stored.replicas,
                to: set.replicas,
                change,
            });
        }
        (!change.annotations.is_empty() || change.min_ready_seconds.is_some()).then_some(
            Action::UpdateReplicaSet {
                set: target,
                change,
            },
        )
    }

    /// `UpdateStatus` of the Deployment as it is held in memory. A custom resource drops metadata from a
    /// status write: its revision is written by itself, and the status with the next plan.
    fn write_status(&mut self) -> Flow<()> {
        if self.owner.written {
            return Err(Stop::Stale);
        }
        let owner = &self.owner;
        let revision = owner
            .revision
            .as_ref()
            .filter(|revision| Some(*revision) != owner.stored_revision.as_ref())
            .map(|revision| revision.clone().into_owned());
        if revision.is_none() && owner.status == owner.stored_status {
            return Ok(());
        }
        let target = owner_target(owner.deployment);
        let action = match revision {
            Some(revision) if !owner.deployment.is_native() => {
                let mut change = crate::action::OwnerChange {
                    all_annotations: owner.deployment.metadata.annotations.clone(),
                    ..Default::default()
                };
                for annotations in [&mut change.annotations, &mut change.all_annotations] {
                    annotations.insert(REVISION.to_owned(), revision.clone());
                }
                Action::UpdateDeployment {
                    owner: target,
                    change,
                }
            }
            revision => Action::UpdateDeploymentStatus {
                owner: target,
                status: owner.status.clone(),
                revision,
            },
        };
        let status_written = matches!(action, Action::UpdateDeploymentStatus { .. });
        self.act(action, OnFailure::Stop)
            .map_err(|_| Stop::Refused)?;
        self.owner.written = true;
        self.owner.stored_revision = self.owner.revision.clone();
        if status_written {
            self.owner.stored_status = self.owner.status.clone();
        }
        Ok(())
    }

    /// Adds an action to the plan, unless it was refused when the last plan was carried out.
    pub(crate) fn act(
        &mut self,
        action: Action,
        on_failure: OnFailure,
    ) -> Result<(), &'a StepFailure> {
        let call = action.call();
        let failures = &self.snapshot.failures;
        if let Some(failure) = failures.iter().find(|failure| failure.call == call) {
            self.refused = true;
            return Err(failure);
        }
        self.steps.push(Step {
            action: Some(action),
            call: Some(call),
            events: Vec::new(),
            on_failure,
        });
        Ok(())
    }

    /// Adds an event that goes with the write just added.
    fn attach(&mut self, event: Event) {
        match self.steps.last_mut() {
            Some(step) => step.events.push(event),
            None => self.record(event),
        }
    }

    /// Adds an event that no write goes with.
    fn record(&mut self, event: Event) {
        self.steps.push(Step {
            action: None,
            call: None,
            events: vec![event],
            on_failure: OnFailure::Stop,
        });
    }

    /// A status write may tell of a refusal: no other refused write must be able to hide it. Only the check of
    /// the Deployment goes before, for it tests the version that the status write changes.
    fn put_status_first(&mut self) {
        self.steps.sort_by_key(|step| match &step.action {
            None => 0,
            Some(Action::CheckOwner { .. }) => 1,
            Some(Action::UpdateDeploymentStatus { .. }) => 2,
            Some(_) => 3,
        });
    }

    // Status.

    /// `syncDeploymentStatus`.
    fn sync_status(&mut self, found: &Found) -> Flow<()> {
        self.owner.status = self.calculate_status(found);
        self.write_status()
    }

    /// `syncRolloutStatus`.
    fn sync_rollout_status(&mut self, found: &Found) -> Flow<()> {
        self.owner.status = self.calculate_rollout_status(found);
        self.write_status()
    }

    fn calculate_rollout_status(&self, found: &Found) -> DeploymentStatus {
        let calculated = self.calculate_status(found);
        let all: Vec<&ReplicaSet> = found.all().map(|set| self.cached(set)).collect();
        let new = found.new.as_ref().map(|set| self.cached(set));
        let rollout = status::Rollout {
            deployment: self.owner.deployment,
            before: &self.owner.status,
            all: &all,
            new,
            now: self.snapshot.now,
        };
        status::with_rollout_conditions(&rollout, calculated)
    }

    fn calculate_status(&self, found: &Found) -> DeploymentStatus {
        status::calculate(
            self.owner.deployment,
            &self.owner.status,
            self.limits,
            self.options,
            self.snapshot.now,
            found.all().map(|set| Sizes {
                wanted: set.replicas,
                status: &self.cached(set).status,
                is_new: found.new.as_ref().is_some_and(|new| new.index == set.index),
            }),
        )
    }

    fn has_deadline(&self) -> bool {
        status::has_progress_deadline(self.owner.deployment)
    }

    fn progressing(&self) -> Option<&Condition> {
        status::condition(&self.owner.status, status::PROGRESSING)
    }

    fn set_progressing(&mut self, value: &str, reason: &str, message: String) {
        let condition = status::new_condition(
            status::PROGRESSING,
            value,
            reason,
            message,
            self.snapshot.now,
        );
        status::set_condition(&mut self.owner.status, condition);
    }
}

// === impl Managed ===

impl<'a> Managed<'a> {
    /// A ReplicaSet of which the cache has the server's version.
    pub(crate) fn current(index: usize, cached: Cow<'a, ReplicaSet>) -> Self {
        Self {
            stored: Held {
                index,
                version: 0,
                replicas: cached.replicas,
                min_ready_seconds: cached.min_ready_seconds,
                annotations: None,
            },
            generation: cached.metadata.generation,
            version_known: true,
            cached,
        }
    }

    /// The same after a write that the cache has not seen.
    pub(crate) fn written(mut self) -> Self {
        self.stored.version += 1;
        self.version_known = false;
        self
    }

    fn target(&self) -> Target {
        let mut target = set_target(&self.cached);
        target.generation = self.generation;
        target.resource_version = target.resource_version.filter(|_| self.version_known);
        target
    }
}

/// The limits that the strategy sets.
pub(crate) fn limits(deployment: &Deployment) -> Limits {
    let replicas = deployment.spec.replicas;
    match deployment.spec.strategy {
        Strategy::RollingUpdate {
            max_surge,
            max_unavailable,
        } => Limits::rolling(replicas, max_surge, max_unavailable),
        Strategy::Recreate => Limits::recreate(replicas),
    }
}

pub(crate) fn set_target(set: &ReplicaSet) -> Target {
    Target {
        api_version: "apps/v1".to_owned(),
        kind: "ReplicaSet".to_owned(),
        namespace: set.metadata.namespace.clone(),
        name: set.metadata.name.clone(),
        uid: set.metadata.uid.clone(),
        generation: set.metadata.generation,
        resource_version: Some(set.metadata.resource_version.clone()),
    }
}

pub(crate) fn owner_target(deployment: &Deployment) -> Target {
    Target {
        api_version: deployment.api_version.clone(),
        kind: deployment.kind.clone(),
        namespace: deployment.metadata.namespace.clone(),
        name: deployment.metadata.name.clone(),
        uid: deployment.metadata.uid.clone(),
        generation: deployment.metadata.generation,
        resource_version: Some(deployment.metadata.resource_version.clone()),
    }
}

/// The event that tells of a change of size, if it is one.
pub(crate) fn scaled_event(name: &str, from: i32, to: i32) -> Option<Event> {
    let direction = match from.cmp(&to) {
        std::cmp::Ordering::Less => "up",
        std::cmp::Ordering::Greater => "down",
        std::cmp::Ordering::Equal => return None,
    };
    let message = format!("Scaled {direction} replica set {name} from {from} to {to}");
    Some(Event::normal("ScalingReplicaSet", message))
}

/// A name in quotes, as Go's `%q` prints it. Names are DNS names: nothing in them needs an escape.
pub(crate) fn quote(name: &str) -> String {
    format!("\"{name}\"")
}
