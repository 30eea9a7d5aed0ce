//! The writes of a pass, in order.

use std::collections::BTreeMap;

use crate::action::{Action, Event, OnFailure, Step};
use crate::scaling::ScaleReason;
use crate::snapshot::{Snapshot, StepFailure};

/// The steps of a pass, and the calls that were rejected when the last plan was carried out.
pub(super) struct Writes<'a> {
    steps: Vec<Step>,
    /// The rejected calls by the name of their object. A map, because there may be a thousand.
    failures: BTreeMap<&'a str, Vec<&'a StepFailure>>,
    /// Whether one of them is a call of this pass.
    pub(super) refused: bool,
}

// === impl Writes ===

impl<'a> Writes<'a> {
    pub(super) fn new(snapshot: &'a Snapshot) -> Self {
        let mut failures = BTreeMap::<_, Vec<_>>::new();
        for failure in &snapshot.failures {
            let name = failure.call.name.as_str();
            failures.entry(name).or_default().push(failure);
        }
        Self {
            steps: Vec::new(),
            failures,
            refused: false,
        }
    }

    /// Adds an action, unless its call was rejected when the last plan was carried out.
    pub(super) fn act(
        &mut self,
        action: Action,
        on_failure: OnFailure,
    ) -> Result<(), &'a StepFailure> {
        if !self.failures.is_empty() {
            let call = action.call().id();
            let failures = self.failures.get(call.name.as_str());
            let mut failures = failures.into_iter().flatten();
            if let Some(&failure) = failures.find(|failure| failure.call == call) {
                self.refused = true;
                return Err(failure);
            }
        }
        self.steps.push(Step::of(action, on_failure));
        Ok(())
    }

    /// Adds an event to the last write.
    pub(super) fn attach(&mut self, event: Event) {
        match self.steps.last_mut() {
            Some(step) => step.events.push(event),
            None => self.record(event),
        }
    }

    /// Sets the reason why the last write changes a size.
    pub(super) fn explain(&mut self, reason: ScaleReason) {
        if let Some(step) = self.steps.last_mut() {
            step.reason = Some(reason);
        }
    }

    /// Adds an event that is independent of any write.
    pub(super) fn record(&mut self, event: Event) {
        self.steps.push(Step::of_event(event));
    }

    /// The steps. If a call was rejected, the write of the status comes first, because it may report the rejection and no
    /// other rejection must be able to hide it. Only the check of the Deployment comes before, because it tests the version
    /// that the write of the status changes. Events stay in order.
    pub(super) fn into_steps(mut self) -> Vec<Step> {
        if self.refused {
            self.steps.sort_by_key(|step| match &step.action {
                Some(Action::CheckOwner { .. }) => 0,
                Some(Action::UpdateDeploymentStatus { .. }) => 1,
                Some(_) | None => 2,
            });
        }
        self.steps
    }
}
