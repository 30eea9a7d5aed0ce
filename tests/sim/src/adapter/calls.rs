//! Carries out a plan: the calls of its steps, in order.

use std::sync::Arc;

use rollplan_core::action::{Action, ApiCall, OnFailure, Step, Verb};
use rollplan_core::snapshot::{Deployment, StepFailure};
use rollplan_core::sync;
use rollplan_world::at;

use super::Running;
use super::reads::{deployment_version, set_version};
use crate::flaw::Flaw;
use crate::script::Answer;
use crate::server::{Rejection, StoredSet, Writer, Written, version_of};
use crate::tally::Tally;
use crate::world::World;

/// The outcome of a call, as far as the adapter can tell.
#[derive(Clone, Debug)]
pub(crate) enum Outcome {
    /// It was not made.
    NotMade,
    Done(Written),
    Failed {
        code: i32,
        rejection: Option<Box<StepFailure>>,
    },
}

// === impl Outcome ===

impl Outcome {
    pub(super) fn answer(&self, owner_uid: &str) -> sync::Answer<'_> {
        match self {
            Self::NotMade => sync::Answer::NotMade,
            Self::Done(written) => sync::Answer::Done(match written {
                Written::Set(stored) => Some(sync::Written {
                    version: set_version(stored, owner_uid),
                    has_terminating: false,
                }),
                Written::Deployment(deployment) => Some(sync::Written {
                    version: deployment_version(deployment),
                    has_terminating: deployment.status.terminating_replicas.is_some(),
                }),
                Written::Deleted => None,
            }),
            Self::Failed { code, rejection } => sync::Answer::Failed {
                http_code: *code,
                rejection: rejection.as_deref(),
            },
        }
    }

    pub(super) fn rejection(&self) -> Option<&StepFailure> {
        match self {
            Self::Failed { rejection, .. } => rejection.as_deref(),
            Self::NotMade | Self::Done(_) => None,
        }
    }

    /// The code of the answer, and the version of the object in it.
    pub(crate) fn code_and_version(&self) -> (i32, Option<u64>) {
        let set = self.set().map(|stored| version_of(&stored.set.metadata));
        let owner = self.deployment().map(|it| version_of(&it.metadata));
        match self {
            Self::NotMade => (-1, None),
            Self::Done(_) => (200, set.or(owner)),
            Self::Failed { code, .. } => (*code, None),
        }
    }

    pub(super) fn set(&self) -> Option<&Arc<StoredSet>> {
        match self {
            Self::Done(Written::Set(stored)) => Some(stored),
            _ => None,
        }
    }

    pub(super) fn deployment(&self) -> Option<&Arc<Deployment>> {
        match self {
            Self::Done(Written::Deployment(deployment)) => Some(deployment),
            _ => None,
        }
    }
}

/// The result of a call.
enum Made {
    Done(Written),
    Rejected(Rejection),
    Unknown,
}

impl World {
    pub(super) fn continue_plan(&mut self, mut running: Running) {
        let plan = Arc::clone(&running.plan);
        let Some(step) = plan.steps.get(running.next) else {
            return self.finish(&running);
        };
        let (Some(call), Some(action)) = (step.call(), &step.action) else {
            running.next += 1;
            return self.skip_events(running);
        };
        self.tallies.count(Tally::Called);
        if self.flaw == Flaw::NoOwnerCheck && matches!(action, Action::CheckOwner { .. }) {
            running.next += 1;
            return self.skip_events(running);
        }
        let made = self.make(&call, action, &running);
        let (outcome, continues) = match made {
            Made::Done(written) => {
                self.trace(|| format!("    done: {}", step.summary()));
                self.tallies.count(Tally::Done);
                self.remember(action, &written, &mut running);
                (Outcome::Done(self.returned(written)), true)
            }
            Made::Rejected(rejection) => {
                self.trace(|| format!("    {}: {}", rejection.code, step.summary()));
                let stale = rejection.is_stale();
                self.tallies.count(match (stale, rejection.reason) {
                    (true, _) => Tally::Stale,
                    (false, "AlreadyExists") => Tally::Taken,
                    (false, _) => Tally::Rejected,
                });
                let code = rejection.code;
                running.has_failed |=
                    !matches!(step.on_failure, OnFailure::Tolerate(codes) if codes.contains(&code));
                let rejection = (!stale).then(|| Box::new(self.failure(&call, rejection)));
                let outcome = match self.flaw {
                    Flaw::ReportsNoFailures => Outcome::NotMade,
                    _ => Outcome::Failed { code, rejection },
                };
                (outcome, should_continue(step, code))
            }
            Made::Unknown => {
                self.trace(|| format!("    timeout: {}", step.summary()));
                self.adapter.disturb();
                running.has_failed = true;
                let outcome = Outcome::Failed {
                    code: 0,
                    rejection: None,
                };
                (outcome, step.on_failure == OnFailure::Continue)
            }
        };
        let index = u32::try_from(running.next).unwrap_or(u32::MAX);
        self.adapter.answers.insert(index, outcome);
        running.next += 1;
        if continues || self.flaw == Flaw::IgnoresFailures {
            return self.skip_events(running);
        }
        for index in running.next..plan.steps.len() {
            let index = u32::try_from(index).unwrap_or(u32::MAX);
            self.adapter.answers.insert(index, Outcome::NotMade);
        }
        self.finish(&running);
    }

    /// Makes a call, and checks its effect.
    fn make(&mut self, call: &ApiCall, action: &Action, running: &Running) -> Made {
        let answer = self.next_answer.take();
        match answer {
            Some(Answer::LostBefore | Answer::Broken) => {
                self.tallies.count(Tally::LostBefore);
                return Made::Unknown;
            }
            Some(Answer::Forbidden) => {
                let message = "not now";
                return Made::Rejected(Rejection::new(403, "Forbidden", message));
            }
            Some(Answer::TooMany) => {
                let message = "too many requests";
                return Made::Rejected(Rejection::new(429, "TooManyRequests", message));
            }
            Some(Answer::LostAfter) | None => {}
        }
        if self.quota_sets && call.verb == Verb::Create {
            let message = "exceeded quota: replicasets";
            return Made::Rejected(Rejection::new(403, "Forbidden", message));
        }
        let before = self.store.sets.get(&call.name).cloned();
        let owner_before = self.store.deployment.clone();
        let stripped = match self.flaw {
            Flaw::NoPreconditions => without_preconditions(call),
            _ => call.clone(),
        };
        let result = self.store.call(&stripped, at(self.now), Writer::Adapter);
        match result {
            Ok(written) => {
                self.check_write(
                    action,
                    before.as_deref(),
                    owner_before.as_deref(),
                    &written,
                    running,
                );
                if answer == Some(Answer::LostAfter) {
                    self.tallies.count(Tally::LostAfter);
                    return Made::Unknown;
                }
                self.detect_foreign_change(call, before.as_deref(), owner_before.is_some());
                Made::Done(written)
            }
            Err(rejection) => {
                self.check_rejection(call, &rejection);
                Made::Rejected(rejection)
            }
        }
    }

    /// The response to a write may reveal that another client has changed the object since it was last observed.
    fn detect_foreign_change(
        &mut self,
        call: &ApiCall,
        before: Option<&StoredSet>,
        has_owner: bool,
    ) {
        let changed = match before {
            Some(before) if call.kind == "ReplicaSet" => {
                let metadata = &before.set.metadata;
                self.adapter.newest.get(&metadata.uid) != Some(&version_of(metadata))
            }
            // Writes to the Deployment have a resourceVersion precondition, so they cannot miss a change.
            _ => !has_owner,
        };
        if changed {
            self.adapter.disturb();
        }
    }

    fn remember(&mut self, action: &Action, written: &Written, running: &mut Running) {
        let adapter = &mut self.adapter;
        let metadata = match written {
            Written::Set(stored) => Some(&stored.set.metadata),
            Written::Deployment(deployment) => Some(&deployment.metadata),
            Written::Deleted => None,
        };
        if let Some(metadata) = metadata {
            let version = version_of(metadata);
            adapter.newest.insert(metadata.uid.clone(), version);
        }
        let mut moved = |name: &str, direction: i8| {
            if let Some(undisturbed) = &mut adapter.undisturbed {
                undisturbed.directions.insert(name.to_owned(), direction);
            }
        };
        match (action, written) {
            (Action::CheckOwner { .. }, _) => running.owner_checked = true,
            (Action::CreateReplicaSet(set), Written::Set(stored)) => {
                let uid = stored.set.metadata.uid.clone();
                running.sizes.insert(uid, set.replicas);
                if set.replicas > 0 {
                    moved(&set.metadata.name, 1);
                }
            }
            (Action::ScaleReplicaSet { set, from, to, .. }, _) => {
                running.sizes.insert(set.uid.clone(), *to);
                moved(&set.name, if to > from { 1 } else { -1 });
            }
            (Action::DeleteReplicaSet { set }, _) => {
                running.sizes.remove(&set.uid);
                // Every change that is still delivered is older.
                adapter.newest.insert(set.uid.clone(), u64::MAX);
            }
            _ => {}
        }
    }

    /// The object that the adapter returns to the planner.
    fn returned(&self, written: Written) -> Written {
        match &written {
            Written::Set(stored) if self.flaw == Flaw::ReturnsCachedObjects => {
                let cached = self.adapter.view.cached_sets.get(&stored.set.metadata.uid);
                cached.map_or(written.clone(), |cached| Written::Set(Arc::clone(cached)))
            }
            _ => written,
        }
    }

    /// The failure that the next request reports for a definite rejection.
    fn failure(&self, call: &ApiCall, rejection: Rejection) -> StepFailure {
        let Rejection {
            code,
            reason,
            message,
            causes,
        } = rejection;
        let existing = self.store.sets.get(&call.name);
        let existing = existing.filter(|_| reason == "AlreadyExists");
        StepFailure {
            call: call.id(),
            http_code: code,
            reason: reason.to_owned(),
            message,
            causes,
            existing: existing.map(|stored| stored.set.clone()),
        }
    }
}

/// Whether the plan continues after a failure with this code.
fn should_continue(step: &Step, code: i32) -> bool {
    match step.on_failure {
        OnFailure::Stop => false,
        OnFailure::Tolerate(codes) => codes.contains(&code),
        OnFailure::Continue => true,
    }
}

/// The call without the tests of a JSON Patch and without the resourceVersion of a merge patch.
fn without_preconditions(call: &ApiCall) -> ApiCall {
    let mut call = call.clone();
    if let Ok(mut body) = serde_json::from_str::<serde_json::Value>(&call.body_json) {
        if let Some(operations) = body.as_array_mut() {
            operations.retain(|operation| operation["op"] != "test");
        }
        if let Some(metadata) = body
            .get_mut("metadata")
            .and_then(serde_json::Value::as_object_mut)
        {
            metadata.remove("resourceVersion");
        }
        call.body_json = body.to_string();
    }
    call
}
