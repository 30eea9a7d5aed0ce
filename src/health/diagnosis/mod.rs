//! The diagnosis of a rollout from a snapshot, before anything is planned.
//!
//! [`diagnose`] distinguishes new ReplicaSets and pods from old ones, and determines why new pods are not available and
//! whether their failure certainly persists. A policy can use it to hold a rollout or to roll it back. A
//! [report](crate::report) adds the status and the steps of a plan.
//!
//! ```
//! use rollplan_core::snapshot::{Options, Snapshot};
//! use rollplan_core::{Plan, plan_settled};
//! use rollplan_health::diagnosis::failure::judgement::Judgement;
//! use rollplan_health::diagnosis::{Finality, diagnose};
//!
//! /// Holds a rollout as soon as a failure of its new pods is certain.
//! fn plan(mut snapshot: Snapshot, options: Options) -> Plan {
//!     let failure = diagnose(&snapshot, Judgement::default()).failure();
//!     if failure.is_some_and(|failure| failure.finality == Finality::Certain) {
//!         snapshot.deployment.spec.paused = true;
//!     }
//!     plan_settled(&snapshot, options)
//! }
//! ```

mod blocker;
mod cause;
pub(crate) mod deletion;
pub(crate) mod examiner;
pub mod failure;
pub(crate) mod peers;
pub(crate) mod pods;
mod template;
pub(crate) mod text;

pub use self::blocker::{BLOCKED_PODS_MAX, BlockedPod, Blocker, Log};
pub use self::cause::Cause;
pub use self::failure::{Failure, Finality};
pub use self::pods::{Finding, is_creating};
pub use self::text::error_line;

use std::collections::{BTreeMap, BTreeSet};

use rollplan_core::action::Verb;
use rollplan_core::interrupt::{Interrupt, Interrupted, Never};
use rollplan_core::pass::{self, overlap};
use rollplan_core::snapshot::{Pod, ReplicaSet, Snapshot, StepFailure};
use rollplan_core::strategy;
use rollplan_core::template::Template;
use rollplan_core::time::Time;

use crate::messages::{Certainty, refusal};

use self::examiner::Examiner;
use self::failure::class::Class;
use self::failure::judgement::Judgement;
use self::failure::{Group, is_terminating};
use self::peers::{Peers, Replacement};
use self::text::{NAME_MAX, one_line};

/// The diagnosis of a rollout.
pub struct Diagnosis<'a> {
    pub(crate) snapshot: &'a Snapshot,
    new_set: Option<&'a ReplicaSet>,
    old_sets: Vec<&'a ReplicaSet>,
    new_pods: Vec<&'a Pod>,
    old_pods: Vec<&'a Pod>,
    examiner: Examiner<'a>,
    findings: Vec<Finding<'a>>,
}

/// Examines a rollout.
#[must_use]
pub fn diagnose(snapshot: &Snapshot, judgement: Judgement) -> Diagnosis<'_> {
    Diagnosis::new(snapshot, judgement, &Never)
}

/// [`diagnose`], unless it is interrupted.
///
/// # Errors
///
/// [`Interrupted`].
pub fn diagnose_until<'a>(
    snapshot: &'a Snapshot,
    judgement: Judgement,
    interrupt: &'a dyn Interrupt,
) -> Result<Diagnosis<'a>, Interrupted> {
    let diagnosis = Diagnosis::new(snapshot, judgement, interrupt);
    interrupt.check().map(|()| diagnosis)
}

// === impl Diagnosis ===

impl<'a> Diagnosis<'a> {
    fn new(snapshot: &'a Snapshot, judgement: Judgement, interrupt: &'a dyn Interrupt) -> Self {
        let deployment = &snapshot.deployment;
        let (new_set, old_sets) = if snapshot.replica_sets_complete {
            pass::roles(snapshot, interrupt)
        } else {
            // The missing one may be the new one.
            (None, Vec::new())
        };
        let created = old_sets
            .iter()
            .filter_map(|set| set.metadata.creation_timestamp);
        let new_pods = pods_of(snapshot, new_set.as_slice());
        let old_pods = pods_of(snapshot, &old_sets);
        let templates: BTreeMap<&str, &Template> = old_sets
            .iter()
            .map(|set| (set.metadata.uid.as_str(), &set.template))
            .collect();
        let template_of = |pod: &Pod| {
            let owner = pod.metadata.controller()?;
            templates.get(owner.uid.as_str()).copied()
        };
        let peers = Peers {
            old: old_pods
                .iter()
                .map(|pod| (*pod, template_of(pod)))
                .collect(),
            own: new_pods.clone(),
            surroundings: &snapshot.surroundings,
            replacement: if strategy::of(deployment).awaits_old_pods() {
                Replacement::AfterOld
            } else {
                Replacement::Surge
            },
        };
        let examiner = Examiner {
            now: snapshot.now,
            interrupt,
            namespace: &deployment.metadata.namespace,
            template: Some(&deployment.spec.template),
            min_ready_seconds: deployment.spec.min_ready_seconds,
            // After a rollback to a ReplicaSet that still has pods, an old ReplicaSet is younger than these.
            rollout_began: created.max(),
            events: examiner::by_object(&snapshot.events),
            judgement,
            noun: "new pod",
            peers,
            may_complete: false,
        };
        let findings = if new_set.map_or(0, missing) > 0 {
            examiner.examine_all(new_pods.iter().copied())
        } else {
            Vec::new()
        };
        Self {
            snapshot,
            old_pods,
            new_set,
            old_sets,
            new_pods,
            examiner,
            findings,
        }
    }

    /// The ReplicaSet with the current template. `None` before it exists, and if the list of ReplicaSets may be incomplete.
    #[must_use]
    pub fn new_set(&self) -> Option<&'a ReplicaSet> {
        self.new_set
    }

    /// The other ReplicaSets of the Deployment, oldest first. Empty if the list of ReplicaSets may be incomplete.
    #[must_use]
    pub fn old_sets(&self) -> &[&'a ReplicaSet] {
        &self.old_sets
    }

    /// The pods of the new ReplicaSet that the snapshot contains.
    #[must_use]
    pub fn new_pods(&self) -> &[&'a Pod] {
        &self.new_pods
    }

    /// The pods of the old ReplicaSets that the snapshot contains.
    #[must_use]
    pub fn old_pods(&self) -> &[&'a Pod] {
        &self.old_pods
    }

    /// The number of new pods that are not available, as the new ReplicaSet counts them.
    #[must_use]
    pub fn missing_pods(&self) -> i64 {
        self.new_set.map_or(0, missing).max(0)
    }

    /// Why new pods are not available, pod by pod. Empty if all of them are available.
    #[must_use]
    pub fn findings(&self) -> &[Finding<'a>] {
        &self.findings
    }

    /// Whether nothing can be planned because of the selector.
    pub(crate) fn is_refused(&self) -> bool {
        pass::is_refused(self.snapshot)
    }

    /// The causes that the snapshot shows, the one to fix first at the beginning. They do not include causes that depend on
    /// a plan: the limits of the rollout, the progress deadline, and conditions that a plan changes.
    #[must_use]
    pub fn blockers(&self) -> Vec<Blocker> {
        if let Some(blocker) = self.replica_sets_incomplete() {
            return vec![blocker];
        }
        if self.snapshot.deployment.spec.selector.is_empty() {
            let message = "the selector is empty and would select all pods".to_owned();
            let remedy = "give the Deployment a selector that matches its template's labels";
            return vec![Blocker::new(Cause::SelectorEmpty, message, remedy)];
        }
        if let Some(rival) = overlap::rival(self.snapshot) {
            let remedy = "delete that Deployment (with --cascade=orphan, its pods are adopted), or choose other labels";
            let message = overlap::message(rival);
            return vec![Blocker::new(Cause::SelectorOverlap, message, remedy)];
        }
        let size = self.new_set.map_or(0, |set| set.replicas.into());
        let mut blockers = self.examiner.blockers(&self.findings, size);
        blockers.extend(self.replica_set_unobserved());
        blockers.sort_by_key(|blocker| blocker.cause);
        blockers
    }

    /// The failure that all unready new pods share. `None` if their failures differ, if the snapshot does not contain all of
    /// them, if one of the new pods is or was ready, if capacity is becoming free that may resolve it, or if no pods are
    /// desired.
    #[must_use]
    pub fn failure(&self) -> Option<Failure> {
        let new = self.new_set.filter(|_| self.wanted() > 0)?;
        let group = Group {
            existing: new.status.replicas.into(),
            has_ready: new.status.ready_replicas > 0,
            makes_room: self.own_pods_terminate(),
        };
        self.examiner.shared_failure(&self.findings, &group, None)
    }

    /// Whether it is certain, according to events, that the API server keeps rejecting desired new pods.
    #[must_use]
    pub fn refusal_of_pods(&self) -> Finality {
        let lacks_pods = |new: &&ReplicaSet| new.status.replicas < self.wanted();
        self.new_set
            .filter(lacks_pods)
            .map_or(Finality::Open, |new| {
                self.refusal(&new.metadata.uid, "FailedCreate")
            })
    }

    /// The UIDs of the pods of all revisions that fail: without a change, they do not become available. One that waits for a
    /// node, or that is running and not ready, may still do so.
    pub fn failing_pods(&self) -> impl Iterator<Item = &'a str> {
        let pods = self.new_pods.iter().chain(&self.old_pods).copied();
        let findings = self.examiner.examine_all(pods).into_iter();
        let failing = findings.filter(|finding| {
            let class = finding.class;
            class.is_some_and(|it| !matches!(it, Class::Unschedulable | Class::NotReady))
        });
        failing.map(|finding| finding.source.metadata.uid.as_str())
    }

    /// Why the API server rejects new pods, according to the latest event, or otherwise to the condition of the new
    /// ReplicaSet. `None` if it has all of its pods.
    #[must_use]
    pub fn refusal_text(&self) -> Option<&'a str> {
        let new = self.new_set?;
        if new.status.replicas >= new.replicas.min(self.wanted()) {
            return None;
        }
        let events = self.examiner.events_about(&new.metadata.uid);
        let refused = events.filter(|event| event.reason == "FailedCreate");
        let latest = refused.max_by_key(|event| event.last);
        let mut conditions = new.status.conditions.iter();
        let condition = conditions.find(|condition| {
            condition.kind == rollplan_core::status::REPLICA_FAILURE && condition.status == "True"
        });
        latest
            .map(|event| event.message.as_str())
            .or(condition.map(|condition| condition.message.as_str()))
    }

    /// When the API server last rejected a new pod, according to events.
    pub(crate) fn last_refusal_of_pods(&self) -> Option<Time> {
        let events = self.examiner.events_about(&self.new_set?.metadata.uid);
        let refused = events.filter(|event| event.reason == "FailedCreate");
        refused.filter_map(|event| event.last).max()
    }

    /// Whether it is certain, according to events or the calls of the last plan, that the API server keeps rejecting the new
    /// ReplicaSet.
    #[must_use]
    pub fn refusal_of_replica_set(&self) -> Finality {
        let is_definite = self.refused_create().is_some_and(|failure| {
            let certainty = refusal::TABLE.look_up(&failure.message).certainty();
            failure.http_code < 500 && certainty == Certainty::Definite
        });
        if is_definite {
            Finality::Certain
        } else {
            self.refusal(
                &self.snapshot.deployment.metadata.uid,
                "ReplicaSetCreateError",
            )
        }
    }

    /// The call of the last plan to create the new ReplicaSet, if it was rejected for another reason than a name that is
    /// already in use. A call for an earlier template does not count.
    pub(crate) fn refused_create(&self) -> Option<&'a StepFailure> {
        let mut failures = self.snapshot.failures.iter();
        failures.find(|failure| {
            let call = &failure.call;
            (call.verb, call.kind.as_str()) == (Verb::Create, "ReplicaSet")
                && failure.reason != "AlreadyExists"
                && self.new_set.is_none()
                && call.name == pass::new_set_name(&self.snapshot.deployment)
        })
    }

    /// The time until which the new pods may become available without a change. `None` if one of them has no time left, or
    /// if pods are missing.
    pub(crate) fn available_by(&self) -> Option<Time> {
        let unready = self.findings.iter();
        let unready = unready.filter(|finding| finding.cause != Cause::PodFailed);
        let unready: Option<Vec<Time>> = unready.map(|finding| finding.available_by).collect();
        if let Some(last) = unready?.into_iter().max() {
            return Some(last);
        }
        // Pods without a finding are available, but the controllers may not have counted them yet.
        let replaced = self.findings.len();
        let pods = self.new_pods.iter();
        let pods = pods.filter(|pod| pod.metadata.deletion_timestamp.is_none());
        let available = i64::try_from(pods.clone().count() - replaced).unwrap_or(i64::MAX);
        let counted = pods.filter_map(|pod| self.examiner.counted_by(pod));
        counted
            .max()
            .filter(|_| available >= self.new_set.map_or(0, |new| new.replicas.into()))
    }

    /// The number of desired pods.
    fn wanted(&self) -> i32 {
        self.snapshot.deployment.spec.replicas
    }

    fn refusal(&self, uid: &str, reason: &str) -> Finality {
        let makes_room = self.own_pods_terminate();
        self.examiner.refusal(uid, reason, makes_room)
    }

    /// Whether pods of the Deployment are terminating, except for lost ones.
    pub(crate) fn own_pods_terminate(&self) -> bool {
        let mut pods = self.new_pods.iter().chain(&self.old_pods);
        pods.any(|pod| is_terminating(pod, self.snapshot.now))
    }

    /// The blocker if the list of ReplicaSets may be incomplete.
    pub(crate) fn replica_sets_incomplete(&self) -> Option<Blocker> {
        let deployment = &self.snapshot.deployment;
        (!self.snapshot.replica_sets_complete).then(|| {
            let remedy = format!(
                "send all ReplicaSets (kubectl get {},rs,pods -n {} -o json), or set replicaSetsComplete if none are missing \
                 (--replica-sets-complete)",
                text::resource(deployment),
                text::word(&deployment.metadata.namespace)
            );
            Blocker::new(
                Cause::ReplicaSetsIncomplete,
                "the list of ReplicaSets may be incomplete, so nothing can be planned or counted"
                    .to_owned(),
                remedy,
            )
        })
    }

    /// A warning: the selector also matches pods of another controller.
    pub(crate) fn selector_overlap(&self) -> Option<Blocker> {
        if self.is_refused() {
            return None;
        }
        let (set, owner) =
            overlap::others(self.snapshot).min_by_key(|(set, _)| &set.metadata.name)?;
        let owner = match (owner.kind.as_str(), owner.name.as_str()) {
            ("", _) | (_, "") => "another controller".to_owned(),
            (kind, name) => one_line(&format!("{kind} {name}"), NAME_MAX),
        };
        let message = format!(
            "the selector also matches the pods of {owner} (ReplicaSet {})",
            one_line(&set.metadata.name, NAME_MAX)
        );
        let remedy = "create one of them again with labels and a selector of its own: a selector cannot be changed";
        Some(Blocker::new(Cause::SelectorOverlap, message, remedy))
    }

    /// The blocker if the counters of a ReplicaSet are about an earlier size, so that they prove nothing.
    pub(crate) fn replica_set_unobserved(&self) -> Option<Blocker> {
        let mut sets = self.new_set.iter().chain(&self.old_sets);
        let set = sets.find(|set| set.status.observed_generation < set.metadata.generation)?;
        let message = format!(
            "the ReplicaSet controller has not observed the latest change of ReplicaSet {} yet",
            set.metadata.name
        );
        Some(Blocker::new(Cause::ReplicaSetUnobserved, message, ""))
    }
}

/// How many pods of a ReplicaSet are not available. Negative if its status is older than its size.
fn missing(set: &ReplicaSet) -> i64 {
    i64::from(set.replicas) - i64::from(set.status.available_replicas)
}

/// The pods of some ReplicaSets. UIDs are looked up in a set, because there may be ten thousand ReplicaSets and pods.
fn pods_of<'a>(snapshot: &'a Snapshot, sets: &[&ReplicaSet]) -> Vec<&'a Pod> {
    let uids: BTreeSet<&str> = sets.iter().map(|set| set.metadata.uid.as_str()).collect();
    let pods = snapshot.pods.iter();
    pods.filter(|pod| {
        let owner = pod.metadata.controller();
        owner.is_some_and(|owner| uids.contains(owner.uid.as_str()))
    })
    .collect()
}
