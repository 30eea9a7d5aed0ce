//! The writes of a pass: each is compared with what the server has by now, and refused where the copy it is made
//! from is stale.

use std::borrow::Cow;
use std::rc::Rc;

use super::{Pass, Stop, SyncResult, WorkingCopy};
use crate::action::{Action, Event, OnFailure, OwnerChange, SetChange, Step, Target};
use crate::revision::{self, REVISION};
use crate::scaling::ScaleReason;
use crate::snapshot::StepFailure;

impl<'a> Pass<'a> {
    /// `scaleReplicaSet`. Lazy: without `force` only a change of size is written, though the annotations go
    /// along with it. Says whether the size was changed, and returns the set as the server has it.
    pub(super) fn scale_set(
        &mut self,
        set: &WorkingCopy,
        size: i32,
        force: bool,
        reason: ScaleReason,
        on_failure: OnFailure,
    ) -> SyncResult<(bool, WorkingCopy)> {
        self.checkpoint()?;
        if !force && set.replicas == size {
            return Ok((false, set.clone()));
        }
        let mut annotations = Cow::Borrowed(self.annotations(set));
        let stale = revision::set_replicas_annotations(
            &mut annotations,
            self.limits.replicas,
            self.limits.max_total(),
        );
        if set.replicas == size && !stale {
            return Ok((false, set.clone()));
        }
        let mut scaled = WorkingCopy {
            replicas: size,
            ..set.clone()
        };
        if let Cow::Owned(annotations) = annotations {
            scaled.annotations = Some(Rc::new(annotations));
        }
        let resized = set.replicas != size;
        let scaled = self.write_set(scaled, on_failure)?;
        let name = &self.cached(set).metadata.name;
        if let Some(event) = Event::scaled(name, set.replicas, size) {
            self.attach(event);
            self.explain(reason);
        }
        Ok((resized, scaled))
    }

    /// Sends a changed copy of a ReplicaSet back.
    pub(super) fn write_set(
        &mut self,
        set: WorkingCopy,
        on_failure: OnFailure,
    ) -> SyncResult<WorkingCopy> {
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
        managed.stored = WorkingCopy {
            version: set.version + 1,
            ..set
        };
        Ok(managed.stored.clone())
    }

    /// The action that makes the server's ReplicaSet like this one.
    pub(super) fn difference(&self, set: &WorkingCopy) -> Option<Action> {
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
    pub(super) fn write_status(&mut self) -> SyncResult<()> {
        self.checkpoint()?;
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
        let target = Target::owner(owner.deployment);
        let action = match revision {
            Some(revision) if !owner.deployment.is_native() => {
                let mut change = OwnerChange {
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
                status: owner.status.clone().into_owned(),
                revision,
                selector: (!owner.deployment.is_native())
                    .then(|| owner.deployment.spec.selector.to_string()),
                ready: (!owner.deployment.is_native()).then(|| {
                    let (ready, wanted) = (owner.status.ready_replicas, self.limits.replicas);
                    format!("{ready}/{wanted}")
                }),
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

    /// Adds an action to the plan, unless it was refused when the last plan was carried out. Its call is for whoever
    /// makes a plan of it: most actions of a look-ahead are merged into others.
    pub(crate) fn act(
        &mut self,
        action: Action,
        on_failure: OnFailure,
    ) -> Result<(), &'a StepFailure> {
        if !self.failures.is_empty() {
            let call = action.call();
            let failures = self.failures.get(call.name.as_str());
            let mut failures = failures.into_iter().flatten();
            if let Some(&failure) = failures.find(|failure| failure.call == call) {
                self.refused = true;
                return Err(failure);
            }
        }
        self.steps.push(Step {
            action: Some(action),
            call: None,
            events: Vec::new(),
            on_failure,
            reason: None,
        });
        Ok(())
    }

    /// Adds an event that goes with the write just added.
    pub(super) fn attach(&mut self, event: Event) {
        match self.steps.last_mut() {
            Some(step) => step.events.push(event),
            None => self.record(event),
        }
    }

    /// Says why the write just added changes a size.
    fn explain(&mut self, reason: ScaleReason) {
        if let Some(step) = self.steps.last_mut() {
            step.reason = Some(reason);
        }
    }

    /// Adds an event that no write goes with.
    pub(super) fn record(&mut self, event: Event) {
        self.steps.push(Step {
            action: None,
            call: None,
            events: vec![event],
            on_failure: OnFailure::Stop,
            reason: None,
        });
    }

    /// A status write may tell of a refusal: no other refused write must be able to hide it. Only the check of
    /// the Deployment goes before, for it tests the version that the status write changes. Events stay in order.
    pub(super) fn put_status_first(&mut self) {
        self.steps.sort_by_key(|step| match &step.action {
            Some(Action::CheckOwner { .. }) => 0,
            Some(Action::UpdateDeploymentStatus { .. }) => 1,
            Some(_) | None => 2,
        });
    }
}
