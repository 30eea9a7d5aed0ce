//! Leads the loop of an adapter: which of its objects are outdated, what it must read before a plan is carried out, which
//! writes can wait, and when it asks again.
//!
//! An adapter observes objects through watches, and the watches of different kinds lag independently. After a restart
//! of the API server, or when a standby becomes the leader, its cache may show the newest template together with old
//! sizes. Each write has a precondition on the object that it changes, but none on the sizes of the other ReplicaSets,
//! which limit how far it may grow. Only the adapter that holds the lease changes sizes. So one list of the ReplicaSets
//! before its first write shows what others wrote, and from then on, the versions in the answers to its own calls show
//! what its cache lacks. The list is repeated after a call with an unknown outcome. (Kubernetes 1.37 remembers versions
//! in the same way: pkg/controller/util/consistency.)

mod state;

use std::collections::{BTreeMap, BTreeSet};

use sha2::{Digest as _, Sha256};

use crate::Plan;
use crate::action::{Action, ApiCall, CallId, Event, Step, Verb};
use crate::snapshot::{Deployment, DeploymentStatus, StepFailure, is_of_terminating_namespace};
use crate::status::is_complete;
use crate::time::{Span, Time};

pub use self::state::{Change, Known, NativeWrites, PendingCall, State};

/// The first delay after a failure. It doubles with each further one. The Deployment controller starts with the same one.
const BACKOFF_MIN_MILLIS: u64 = 5;
/// The longest delay after a failure, in milliseconds.
const BACKOFF_MAX_MILLIS: u64 = 30_000;
/// The maximum number of ReplicaSets that are read one by one.
const OBJECTS_READ_MAX: usize = 10;
/// The maximum number of reads in a response. Further ones are made after them.
pub const READS_MAX: usize = 100;
/// The maximum number of steps in a response, because the caller returns an answer to each. Each beginning of a plan
/// keeps its guarantees.
pub const STEPS_MAX: usize = 500;
/// The kind of the objects that are listed.
const REPLICA_SET: &str = "ReplicaSet";
/// How long the Deployment controller must not have written a status before work on an owner continues, in seconds.
const NATIVE_QUIET_SECONDS: i64 = 60;

/// One call of the planner in the loop of an adapter.
#[derive(Debug)]
pub struct Sync {
    /// The state after the answers, and after the plan once [`decide`](Self::decide) has returned.
    pub state: State,
    now: Time,
    /// What must be read before a plan is carried out.
    reads: Vec<Read>,
    /// Whether a read has failed.
    is_unreadable: bool,
    /// Whether a read has shown that the owner does not exist anymore.
    is_owner_gone: bool,
    /// The calls that have failed, and that may be repeated.
    failed: Vec<CallId>,
    /// Whether the answers contain a list of the ReplicaSets.
    is_listed: bool,
    /// Whether the list has ReplicaSets that other objects control.
    has_others: bool,
}

/// The answer to a call of the last plan.
#[derive(Clone, Debug)]
pub enum Answer<'a> {
    /// The call was not made, because an earlier one had failed.
    NotMade,
    /// The call succeeded. The object is that in the answer, if it could be read.
    Done(Option<Written<'a>>),
    /// The call failed.
    Failed {
        /// The HTTP status code, or 0 if there was no answer.
        http_code: i32,
        /// What the API server has answered, if it rejected the call.
        rejection: Option<&'a StepFailure>,
    },
}

/// An object in the answer to a write.
#[derive(Clone, Copy, Debug)]
pub struct Written<'a> {
    /// Its version.
    pub version: Version<'a>,
    /// Whether it has `status.terminatingReplicas`.
    pub has_terminating: bool,
}

/// A version of an object.
#[derive(Clone, Copy, Debug)]
pub struct Version<'a> {
    /// Kind.
    pub kind: &'a str,
    /// Name.
    pub name: &'a str,
    /// UID.
    pub uid: &'a str,
    /// The resourceVersion.
    pub version: &'a str,
    /// Whether the object is being deleted.
    pub is_deleting: bool,
    /// What controls it.
    pub controller: Controller,
}

/// The controller of a ReplicaSet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Controller {
    /// It has none.
    None,
    /// The owner.
    Owner,
    /// Another object.
    Other,
}

/// A read that the caller must make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Read {
    /// The ReplicaSets that the selector of the owner matches.
    ReplicaSets,
    /// One object.
    Object {
        /// Kind.
        kind: String,
        /// Name.
        name: String,
        /// UID.
        uid: String,
    },
}

/// Where an object of the snapshot is taken from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The objects that the caller observes.
    Observed(usize),
    /// The objects in its answers.
    Answered(usize),
}

/// Whether the Deployment controller of Kubernetes manages an owner as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NativeController {
    /// Not as far as its writes show.
    Absent,
    /// It has written the status since the last call.
    Detected,
    /// It has written the status so recently that work on the owner is suspended.
    Suspends,
}

/// What the caller does next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Make these reads, and ask again at once with their answers.
    Read(Vec<Read>),
    /// Carry out the steps of the plan.
    CarryOut {
        /// When to ask again even if nothing changes.
        at_latest: Option<Span>,
    },
    /// Carry out none of the steps.
    Wait {
        /// When to ask again even if nothing changes.
        at_latest: Option<Span>,
    },
}

// === impl Sync ===

impl Sync {
    /// Begins a call about an owner. The state of another owner is discarded.
    #[must_use]
    pub fn begin(state: State, owner_uid: &str, now: Time) -> Self {
        let is_same = state.owner_uid == owner_uid;
        let state = if is_same { state } else { State::default() };
        Self {
            state: State {
                owner_uid: owner_uid.to_owned(),
                ..state
            },
            now,
            reads: Vec::new(),
            is_unreadable: false,
            is_owner_gone: false,
            failed: Vec::new(),
            is_listed: false,
            has_others: false,
        }
    }

    /// The call of a step of the last plan.
    #[must_use]
    pub fn pending(&self, index: u32) -> Option<&PendingCall> {
        self.state.pending.iter().find(|call| call.index == index)
    }

    /// Records the answers to the calls of the last plan, by the indices of their steps.
    pub fn record_answers(&mut self, answers: &BTreeMap<u32, Answer<'_>>) {
        let pending = std::mem::take(&mut self.state.pending);
        let mut are_all_done = true;
        for call in &pending {
            match answers.get(&call.index) {
                Some(Answer::Done(written)) => self.record_done(call, written.as_ref()),
                Some(Answer::Failed { http_code, .. }) if call.done_codes.contains(http_code) => {
                    self.record_missing(call, *http_code);
                }
                Some(Answer::Failed {
                    http_code,
                    rejection,
                }) => {
                    are_all_done = false;
                    self.record_failed(call, *http_code, *rejection);
                }
                Some(Answer::NotMade) => are_all_done = false,
                // It is not known whether the call was made.
                None => {
                    are_all_done = false;
                    self.state.is_verified &= !call.is_of_set();
                }
            }
        }
        if self.has_failed() {
            self.state.attempts = self.state.attempts.saturating_add(1);
        } else if are_all_done && !pending.is_empty() && !self.state.is_reaction {
            self.state.attempts = 0;
        }
    }

    fn record_done(&mut self, call: &PendingCall, written: Option<&Written<'_>>) {
        if call.id.verb == Verb::Delete {
            let known = self.state.known.entry(call.uid.clone());
            let known = known.or_insert_with(|| call.outdated());
            known.change = known.change.deleted();
            if known.change == Change::Deleted {
                known.version.clear();
            }
            return;
        }
        let Some(written) = written else {
            self.state.is_verified &= !call.is_of_set();
            return;
        };
        if call.writes_terminating {
            self.state.drops_terminating = !written.has_terminating;
        }
        let change = match call.id.verb {
            Verb::Create => Change::Created,
            Verb::Patch | Verb::Delete => Change::Changed,
        };
        self.record_version(&written.version, change);
    }

    fn record_version(&mut self, version: &Version<'_>, change: Change) {
        let before = self.state.known.get(version.uid);
        let is_new = before.is_some_and(|before| before.change == Change::Created);
        let known = Known {
            kind: version.kind.to_owned(),
            name: version.name.to_owned(),
            version: version.version.to_owned(),
            change: if is_new { Change::Created } else { change },
        };
        self.state.known.insert(version.uid.to_owned(), known);
    }

    /// Forgets an object that does not exist. The owner must be read instead, because the caller's copy may be older than
    /// the one that an earlier plan used.
    fn record_missing(&mut self, call: &PendingCall, http_code: i32) {
        if http_code != 404 {
            return;
        }
        self.state.forget(&call.id.kind, &call.id.name);
        if call.uid == self.state.owner_uid {
            self.state.known.insert(call.uid.clone(), call.outdated());
        }
    }

    fn record_failed(
        &mut self,
        call: &PendingCall,
        http_code: i32,
        rejection: Option<&StepFailure>,
    ) {
        self.record_missing(call, http_code);
        // A rejection by a quota or an admission rule raises no doubts about the objects. An internal error does: if
        // etcd does not answer in time, the write may nevertheless have been made.
        let is_clear =
            rejection.is_some() && http_code != 409 && http_code != 404 && http_code < 500;
        self.state.is_verified &= is_clear || !call.is_of_set();
        // Nothing can be created anymore in a namespace that is being deleted, so there is nothing to repeat.
        if !rejection.is_some_and(|it| is_of_terminating_namespace(&it.causes)) {
            self.failed.push(call.id.clone());
        }
    }

    /// Records the ReplicaSets that the API server has listed. Others of the owner may have been deleted, or no longer
    /// match the selector: they must be read, because their preconditions do not notice a change of their labels or of
    /// their owner.
    pub fn record_list(&mut self, listed: &[Version<'_>], observed: &[Version<'_>]) {
        self.is_listed = true;
        self.state.is_verified = true;
        let uids: BTreeSet<&str> = listed.iter().map(|it| it.uid).collect();
        let own = observed
            .iter()
            .filter(|it| it.kind == REPLICA_SET && it.controller == Controller::Owner);
        for set in own {
            if !self.state.known.contains_key(set.uid) {
                self.record_version(set, Change::Changed);
            }
        }
        for (uid, known) in &mut self.state.known {
            let is_listed = uids.contains(uid.as_str());
            if known.kind == REPLICA_SET && !known.change.is_deleted() && !is_listed {
                known.version.clear();
            }
        }
        let observed: BTreeMap<&str, &str> =
            observed.iter().map(|it| (it.uid, it.version)).collect();
        for set in listed {
            let is_of_other = set.controller == Controller::Other;
            self.has_others |= is_of_other;
            let own = self.state.known.get(set.uid);
            let newest = own.map_or_else(
                || observed.get(set.uid).copied(),
                |own| Some(own.version.as_str()),
            );
            let is_newer =
                newest.is_none_or(|newest| is_older(newest, set.version).unwrap_or(true));
            if is_newer && newest != Some(set.version) && !is_of_other {
                let change = if observed.contains_key(set.uid) {
                    Change::Changed
                } else {
                    Change::Created
                };
                self.record_version(set, change);
            }
        }
    }

    /// Records the object that a read has returned. An older one than is known cannot be the answer to this read.
    pub fn record_object(&mut self, version: &Version<'_>) {
        let known = self.state.known.get(version.uid);
        if known.is_some_and(|known| is_older(version.version, &known.version) == Some(true)) {
            self.record_unreadable();
        } else {
            self.record_version(version, Change::Changed);
        }
    }

    /// Records that an object that was to be read does not exist.
    pub fn record_absent(&mut self, uid: &str) {
        if uid == self.state.owner_uid {
            self.is_owner_gone = true;
            // As long as the caller observes it, it is read again.
            if let Some(known) = self.state.known.get_mut(uid) {
                known.version.clear();
            }
        } else if let Some(known) = self.state.known.get_mut(uid) {
            known.change = known.change.deleted();
        }
    }

    /// Records that a read has failed.
    pub fn record_unreadable(&mut self) {
        self.is_unreadable = true;
        self.state.attempts = self.state.attempts.saturating_add(1);
    }

    /// The newest versions of the objects, among those that the caller observes and those in its answers. Where neither
    /// has the newest one that is known, it must be read.
    pub fn current(&mut self, observed: &[Version<'_>], answered: &[Version<'_>]) -> Vec<Origin> {
        let mut newest: BTreeMap<&str, usize> = BTreeMap::new();
        for (index, version) in answered.iter().enumerate() {
            let at = newest.entry(version.uid).or_insert(index);
            if is_older(answered[*at].version, version.version) != Some(false) {
                *at = index;
            }
        }
        let mut current = Vec::with_capacity(observed.len());
        let mut shown = BTreeSet::new();
        for (index, object) in observed.iter().enumerate() {
            shown.insert(object.uid);
            let Some(known) = self.state.known.get_mut(object.uid) else {
                current.push(Origin::Observed(index));
                continue;
            };
            if known.change.is_deleted() {
                known.change = Change::Deleted;
                if object.is_deleting {
                    self.state.known.remove(object.uid);
                    current.push(Origin::Observed(index));
                }
                continue;
            }
            let is_current = known.version == object.version
                || is_older(&known.version, object.version) == Some(true);
            if is_current {
                self.state.known.remove(object.uid);
                current.push(Origin::Observed(index));
            } else if let Some(&index) = newest
                .get(object.uid)
                .filter(|index| answered[**index].version == known.version)
            {
                current.push(Origin::Answered(index));
            } else {
                self.reads.push(known.read(object.uid));
                current.push(Origin::Observed(index));
            }
        }
        let reads = &mut self.reads;
        self.state.known.retain(|uid, known| {
            if shown.contains(uid.as_str()) {
                if known.change == Change::Created {
                    known.change = Change::Changed;
                }
                return true;
            }
            match known.change {
                Change::Created => {}
                // Its creation may still be observed.
                Change::DeletedUnobserved => return !known.is_passed(observed),
                // The caller has observed that the object was deleted.
                Change::Changed | Change::Deleted => return false,
            }
            match newest.get(uid.as_str()) {
                Some(&index) if answered[index].version == known.version => {
                    current.push(Origin::Answered(index));
                }
                _ => reads.push(known.read(uid)),
            }
            true
        });
        let others = answered.iter().enumerate();
        let others =
            others.filter(|(_, it)| it.controller == Controller::Other && !shown.contains(it.uid));
        current.extend(others.map(|(index, _)| Origin::Answered(index)));
        current
    }

    /// Whether the Deployment controller of Kubernetes manages the owner as well. `last_write` is its latest write to
    /// the status. The two controllers would overwrite each other's sizes.
    pub fn native_controller(&mut self, last_write: Option<Time>) -> NativeController {
        let native = &mut self.state.native;
        let is_new = native.is_observed && native.last < last_write;
        native.is_observed = true;
        native.last = native.last.max(last_write);
        if is_new {
            native.suspended_until = Some(self.now.plus_seconds(NATIVE_QUIET_SECONDS));
            self.state.is_verified = false;
            return NativeController::Detected;
        }
        match native.suspended_until {
            Some(until) if self.now < until => NativeController::Suspends,
            _ => NativeController::Absent,
        }
    }

    /// Whether the API server stores `status.terminatingReplicas`, as far as its answers show. A ReplicaSet with the
    /// field shows it, too.
    pub fn stores_terminating(&mut self, has_set_with_field: bool) -> bool {
        self.state.drops_terminating &= !has_set_with_field;
        !self.state.drops_terminating
    }

    /// Decides what the caller does with a plan. A status that only reports progress may wait for `status_interval`, so
    /// that one write covers several changes.
    pub fn decide(
        &mut self,
        plan: &mut Plan,
        deployment: &Deployment,
        status_interval: Span,
    ) -> Decision {
        plan.steps.truncate(STEPS_MAX);
        let writes_sets = plan.steps.iter().any(writes_set);
        if self.is_unreadable {
            return self.wait(Some(self.backoff()));
        }
        if self.is_owner_gone {
            return self.wait(None);
        }
        if !self.state.is_verified && writes_sets {
            self.reads.push(Read::ReplicaSets);
        }
        if !self.reads.is_empty() {
            return Decision::Read(self.take_reads());
        }
        if self.is_listed && self.has_others {
            // The caller does not observe the ReplicaSets of others. If they prevent all writes, they must be listed again.
            self.state.is_verified = writes_sets;
        }
        let requeue = plan.requeue_after;
        let soonest = |delay: Option<Span>| requeue.into_iter().chain(delay).min();
        let repeated = self.repeated(plan);
        // The first failure may be due to an outdated object, and this plan is made from newer ones. A plan that
        // reports a rejection does not repeat the call.
        if self.state.attempts > 1 && repeated > 0 {
            return self.wait(soonest(Some(self.backoff())));
        }
        // What a plan repeats at once needs no timer.
        let backoff = (repeated < self.failed.len()).then(|| self.backoff());
        let at_latest = soonest(backoff);
        if let Some(delay) = self.status_delay(plan, deployment, status_interval) {
            return self.wait(soonest(Some(delay)));
        }
        self.state.is_reaction = self.has_failed();
        let steps = plan.steps.iter().enumerate();
        self.state.pending = steps
            .filter_map(|(index, step)| PendingCall::of(index, step))
            .collect();
        if !self.state.pending.is_empty() {
            self.state.plans = self.state.plans.wrapping_add(1);
        }
        Decision::CarryOut { at_latest }
    }

    fn has_failed(&self) -> bool {
        !self.failed.is_empty()
    }

    /// The number of steps that repeat a failed call, perhaps with another body.
    fn repeated(&self, plan: &Plan) -> usize {
        if !self.has_failed() {
            // Writing the bodies of calls takes as long as planning.
            return 0;
        }
        let repeats = |call: &ApiCall| {
            self.failed.iter().any(|failed| {
                (failed.verb, &failed.kind, &failed.name, &failed.subresource)
                    == (call.verb, &call.kind, &call.name, &call.subresource)
            })
        };
        let calls = plan.steps.iter().filter_map(Step::call);
        calls.filter(repeats).count()
    }

    /// What must be read. One list is cheaper than many objects.
    fn take_reads(&mut self) -> Vec<Read> {
        let is_set = |read: &Read| matches!(read, Read::Object { kind, .. } if kind == REPLICA_SET);
        let mut reads = std::mem::take(&mut self.reads);
        if !self.is_listed && reads.iter().filter(|read| is_set(read)).count() > OBJECTS_READ_MAX {
            reads.retain(|read| !is_set(read));
            if !reads.contains(&Read::ReplicaSets) {
                reads.push(Read::ReplicaSets);
            }
        }
        reads.truncate(READS_MAX);
        reads
    }

    /// Ends a call whose plan is not carried out.
    fn wait(&mut self, at_latest: Option<Span>) -> Decision {
        self.state.is_reaction = false;
        Decision::Wait { at_latest }
    }

    /// The decision while work on the owner is suspended.
    pub fn suspend(&mut self) -> Decision {
        let until = self.state.native.suspended_until;
        self.wait(until.map(|until| until.since(self.now)))
    }

    /// How long to delay a plan that only reports progress.
    fn status_delay(
        &mut self,
        plan: &Plan,
        deployment: &Deployment,
        interval: Span,
    ) -> Option<Span> {
        if !self.has_failed() && is_progress_only(&plan.steps, deployment) {
            let since = *self.state.delayed_since.get_or_insert(self.now);
            let left = interval.minus(self.now.since(since));
            if left > Span::default() {
                return Some(left);
            }
        }
        self.state.delayed_since = None;
        None
    }

    /// The delay after the failures so far.
    fn backoff(&self) -> Span {
        let State {
            attempts,
            owner_uid,
            ..
        } = &self.state;
        Span::from_millis(backoff_millis(*attempts, owner_uid))
    }
}

// === impl Known ===

impl Known {
    fn read(&self, uid: &str) -> Read {
        Read::Object {
            kind: self.kind.clone(),
            name: self.name.clone(),
            uid: uid.to_owned(),
        }
    }

    /// Whether the caller observes a newer object of this kind. A watch delivers the changes of a kind in order, so the caller
    /// has also observed this version.
    fn is_passed(&self, observed: &[Version<'_>]) -> bool {
        let mut others = observed.iter().filter(|it| it.kind == self.kind);
        others.any(|it| is_older(&self.version, it.version) == Some(true))
    }
}

/// The event that reports that work on an owner is suspended.
#[must_use]
pub fn native_controller_event() -> Event {
    let message = "the Deployment controller of kube-controller-manager also writes to this Deployment: disable it \
                   (--controllers=*,-deployment-controller) or use PlannedDeployments";
    Event::warning("NativeController", message.to_owned())
}

/// Whether the step writes a ReplicaSet, which is only safe if all sizes in the snapshot are current.
fn writes_set(step: &Step) -> bool {
    !matches!(
        step.action,
        None | Some(
            Action::CheckOwner { .. }
                | Action::UpdateDeployment { .. }
                | Action::UpdateDeploymentStatus { .. }
        )
    )
}

/// Whether a plan only publishes other numbers of a rollout that has not ended.
fn is_progress_only(steps: &[Step], deployment: &Deployment) -> bool {
    let [
        Step {
            action: Some(Action::UpdateDeploymentStatus { status, .. }),
            events,
            ..
        },
    ] = steps
    else {
        return false;
    };
    events.is_empty()
        && !is_complete(deployment, status)
        && states(status) == states(&deployment.status)
}

/// The types and statuses of the conditions.
fn states(status: &DeploymentStatus) -> BTreeSet<(&str, &str)> {
    let conditions = status.conditions.iter();
    conditions
        .map(|it| (it.kind.as_str(), it.status.as_str()))
        .collect()
}

/// The delay after some failures in sequence, in milliseconds. It differs between objects, so that not all calls are repeated
/// at the same time.
#[must_use]
pub fn backoff_millis(attempts: u32, uid: &str) -> u64 {
    let doublings = attempts.saturating_sub(1).min(16);
    let millis = (BACKOFF_MIN_MILLIS << doublings).min(BACKOFF_MAX_MILLIS);
    let mut hash = Sha256::new();
    hash.update(uid.as_bytes());
    hash.update(attempts.to_be_bytes());
    let spread = u64::from(hash.finalize()[0]);
    // At most a quarter shorter.
    millis - millis * spread / 1024
}

/// Whether a version is older than another one of the same object. Kubernetes 1.35 and later guarantee that the
/// resourceVersions of a kind can be compared, and so does every API server on etcd. `None` if they cannot.
#[must_use]
pub fn is_older(a: &str, b: &str) -> Option<bool> {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number(a) || !is_number(b) {
        return None;
    }
    let (a, b) = (a.trim_start_matches('0'), b.trim_start_matches('0'));
    Some((a.len(), a) < (b.len(), b))
}
