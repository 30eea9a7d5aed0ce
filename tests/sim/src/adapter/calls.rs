//! Carries out a plan: the calls of its steps, in order.

use std::sync::Arc;

use rollplan_core::action::{Action, ApiCall, OnFailure, Step, Verb};
use rollplan_core::snapshot::StepFailure;
use rollplan_world::at;

use super::{Running, set_version};
use crate::flaw::Flaw;
use crate::script::Answer;
use crate::server::{Rejection, StoredSet, Writer, Written};
use crate::tally::Tally;
use crate::world::World;

/// The outcome of a call, as far as the adapter can tell.
enum Outcome {
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
        match self.make(&call, action, &running) {
            Outcome::Done(written) => {
                self.trace(|| format!("    done: {}", step.summary()));
                self.tallies.count(Tally::Done);
                self.remember(action, &written, &mut running);
                running.next += 1;
            }
            Outcome::Rejected(rejection) => {
                self.trace(|| format!("    {}: {}", rejection.code, step.summary()));
                let stale = rejection.is_stale();
                self.tallies.count(match (stale, rejection.reason) {
                    (true, _) => Tally::Stale,
                    (false, "AlreadyExists") => Tally::Taken,
                    (false, _) => Tally::Rejected,
                });
                if should_continue(step, rejection.code) || self.flaw == Flaw::IgnoresFailures {
                    running.next += 1;
                } else {
                    running.next = usize::MAX;
                }
                if stale {
                    running.is_stale = true;
                } else {
                    let failure = self.failure(&call, rejection);
                    running.rejected.push(failure);
                }
            }
            Outcome::Unknown => {
                self.trace(|| format!("    timeout: {}", step.summary()));
                running.is_stale = true;
                if self.flaw != Flaw::NoReadAfterTimeout {
                    self.read_back(&call, action);
                }
                running.next = if self.flaw == Flaw::IgnoresFailures {
                    running.next + 1
                } else {
                    usize::MAX
                };
            }
        }
        if running.next == usize::MAX {
            self.finish(&running);
        } else {
            self.skip_events(running);
        }
    }

    /// Makes a call, and checks its effect.
    fn make(&mut self, call: &ApiCall, action: &Action, running: &Running) -> Outcome {
        let answer = self.next_answer.take();
        match answer {
            Some(Answer::LostBefore | Answer::Broken) => {
                self.tallies.count(Tally::LostBefore);
                return Outcome::Unknown;
            }
            Some(Answer::Forbidden) => {
                let message = "not now";
                return Outcome::Rejected(Rejection::new(403, "Forbidden", message));
            }
            Some(Answer::TooMany) => {
                let message = "too many requests";
                return Outcome::Rejected(Rejection::new(429, "TooManyRequests", message));
            }
            Some(Answer::LostAfter) | None => {}
        }
        if self.quota_sets && call.verb == Verb::Create {
            let message = "exceeded quota: replicasets";
            return Outcome::Rejected(Rejection::new(403, "Forbidden", message));
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
                    return Outcome::Unknown;
                }
                self.detect_foreign_change(call, before.as_deref(), owner_before.is_some());
                Outcome::Done(written)
            }
            Err(rejection) => {
                self.check_rejection(call, &rejection);
                Outcome::Rejected(rejection)
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
        let view = &self.adapter.view;
        let changed = match before {
            Some(before) if call.kind == "ReplicaSet" => view
                .set(&before.set.metadata.uid)
                .is_none_or(|seen| set_version(seen) != set_version(before)),
            // Writes to the Deployment have a resourceVersion precondition, so they cannot miss a change.
            _ => !has_owner,
        };
        if changed {
            self.adapter.disturb();
        }
    }

    fn remember(&mut self, action: &Action, written: &Written, running: &mut Running) {
        let overlaid = self.flaw != Flaw::NoOverlay;
        let adapter = &mut self.adapter;
        match written {
            Written::Set(stored) if overlaid => adapter.view.overlay_set(stored),
            Written::Deployment(deployment) if overlaid => {
                adapter.view.overlay_deployment(deployment);
            }
            Written::Set(_) | Written::Deployment(_) | Written::Deleted => {}
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
                if overlaid {
                    adapter.view.own_sets.insert(set.uid.clone(), None);
                }
            }
            _ => {}
        }
    }

    /// Reads the object after a timeout. It is unknown whether the call took effect, and the cache may not show it yet, but
    /// the next plan must take it into account.
    fn read_back(&mut self, call: &ApiCall, action: &Action) {
        self.adapter.disturb();
        let view = &mut self.adapter.view;
        if call.kind != "ReplicaSet" {
            if let Some(deployment) = &self.store.deployment {
                view.overlay_deployment(deployment);
            }
            return;
        }
        match (self.store.sets.get(&call.name), action) {
            (Some(stored), _) => view.overlay_set(stored),
            (None, Action::DeleteReplicaSet { set }) if view.set(&set.uid).is_some() => {
                view.own_sets.insert(set.uid.clone(), None);
            }
            (None, _) => {}
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
            call: call.clone(),
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
