//! What a snapshot shows about a rollout: which ReplicaSets and pods are new and which are old.

use std::collections::{BTreeMap, BTreeSet};

use rollplan_core::action::Verb;
use rollplan_core::interrupt::{Interrupt, Interrupted, Never};
use rollplan_core::pass;
use rollplan_core::snapshot::{Pod, ReplicaSet, Snapshot, StepFailure};
use rollplan_core::strategy;
use rollplan_core::template::Template;
use rollplan_core::time::Time;

use crate::explain::pods::Explanation;
use crate::judge::options::VerdictOptions;

use super::context::{self, PodContext};
use super::peers::{Peers, Replacement};
use super::pod::is_terminating;

/// A rollout as a snapshot shows it, before anything is planned. `explain` and `judge` have more of its methods.
pub struct ObservedRollout<'a> {
    pub(crate) snapshot: &'a Snapshot,
    new_set: Option<&'a ReplicaSet>,
    old_sets: Vec<&'a ReplicaSet>,
    new_pods: Vec<&'a Pod>,
    old_pods: Vec<&'a Pod>,
    pub(crate) context: PodContext<'a>,
    explanations: Vec<Explanation<'a>>,
}

/// Finds the ReplicaSets and pods of a rollout in a snapshot, and explains why its new pods are not available.
#[must_use]
pub fn observe(snapshot: &Snapshot, options: VerdictOptions) -> ObservedRollout<'_> {
    ObservedRollout::new(snapshot, options, &Never)
}

/// [`observe`], unless it is interrupted.
///
/// # Errors
///
/// [`Interrupted`].
pub fn observe_until<'a>(
    snapshot: &'a Snapshot,
    options: VerdictOptions,
    interrupt: &'a dyn Interrupt,
) -> Result<ObservedRollout<'a>, Interrupted> {
    let observed = ObservedRollout::new(snapshot, options, interrupt);
    interrupt.check().map(|()| observed)
}

// === impl ObservedRollout ===

impl<'a> ObservedRollout<'a> {
    fn new(snapshot: &'a Snapshot, options: VerdictOptions, interrupt: &'a dyn Interrupt) -> Self {
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
        let context = PodContext {
            now: snapshot.now,
            interrupt,
            namespace: &deployment.metadata.namespace,
            template: Some(&deployment.spec.template),
            min_ready_seconds: deployment.spec.min_ready_seconds,
            // After a rollback to a ReplicaSet that still has pods, an old ReplicaSet is younger than these.
            rollout_began: created.max(),
            events: context::by_object(&snapshot.events),
            options,
            noun: "new pod",
            peers,
            may_complete: false,
        };
        let explanations = if new_set.map_or(0, missing) > 0 {
            context.explain_all(new_pods.iter().copied())
        } else {
            Vec::new()
        };
        Self {
            snapshot,
            old_pods,
            new_set,
            old_sets,
            new_pods,
            context,
            explanations,
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
    pub fn explanations(&self) -> &[Explanation<'a>] {
        &self.explanations
    }

    /// Whether nothing can be planned because of the selector.
    pub(crate) fn is_refused(&self) -> bool {
        pass::is_refused(self.snapshot)
    }

    /// When the API server last rejected a new pod, according to events.
    pub(crate) fn last_refusal_of_pods(&self) -> Option<Time> {
        let events = self.context.events_about(&self.new_set?.metadata.uid);
        let refused = events.filter(|event| event.reason == "FailedCreate");
        refused.filter_map(|event| event.last).max()
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

    /// The number of desired pods.
    pub(crate) fn wanted(&self) -> i32 {
        self.snapshot.deployment.spec.replicas
    }

    /// Whether pods of the Deployment are terminating, except for lost ones.
    pub(crate) fn own_pods_terminate(&self) -> bool {
        let mut pods = self.new_pods.iter().chain(&self.old_pods);
        pods.any(|pod| is_terminating(pod, self.snapshot.now))
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
