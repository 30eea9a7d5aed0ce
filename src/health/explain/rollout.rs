//! Why a rollout is not complete, as far as the snapshot alone shows it.

use rollplan_core::pass::overlap;
use rollplan_core::time::Time;

use crate::judge::class::Class;
use crate::observe::ObservedRollout;

use super::{Blocker, Cause};
use crate::text::{self, NAME_MAX, one_line};

impl<'a> ObservedRollout<'a> {
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
        let size = self.new_set().map_or(0, |set| set.replicas.into());
        let mut blockers = self.context.blockers(self.explanations(), size);
        blockers.extend(self.replica_set_unobserved());
        blockers.sort_by_key(|blocker| blocker.cause);
        blockers
    }

    /// The UIDs of the pods of all revisions that fail: without a change, they do not become available. One that waits for a
    /// node, or that is running and not ready, may still do so.
    pub fn failing_pods(&self) -> impl Iterator<Item = &'a str> {
        let pods = self.new_pods().iter().chain(self.old_pods()).copied();
        let explanations = self.context.explain_all(pods).into_iter();
        let failing = explanations.filter(|explanation| {
            let class = explanation.class;
            class.is_some_and(|it| !matches!(it, Class::Unschedulable | Class::NotReady))
        });
        failing.map(|explanation| explanation.pod.metadata.uid.as_str())
    }

    /// Why the API server rejects new pods, according to the latest event, or otherwise to the condition of the new
    /// ReplicaSet. `None` if it has all of its pods.
    #[must_use]
    pub fn refusal_text(&self) -> Option<&'a str> {
        let new = self.new_set()?;
        if new.status.replicas >= new.replicas.min(self.wanted()) {
            return None;
        }
        let events = self.context.events_about(&new.metadata.uid);
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

    /// The time until which the new pods may become available without a change. `None` if one of them has no time left, or
    /// if pods are missing.
    pub(crate) fn available_by(&self) -> Option<Time> {
        let unready = self.explanations().iter();
        let unready = unready.filter(|explanation| explanation.cause != Cause::PodFailed);
        let unready: Option<Vec<Time>> = unready
            .map(|explanation| explanation.available_by)
            .collect();
        if let Some(last) = unready?.into_iter().max() {
            return Some(last);
        }
        // Pods without an explanation are available, but the controllers may not have counted them yet.
        let replaced = self.explanations().len();
        let pods = self.new_pods().iter();
        let pods = pods.filter(|pod| pod.metadata.deletion_timestamp.is_none());
        let available = i64::try_from(pods.clone().count() - replaced).unwrap_or(i64::MAX);
        let counted = pods.filter_map(|pod| self.context.counted_by(pod));
        counted
            .max()
            .filter(|_| available >= self.new_set().map_or(0, |new| new.replicas.into()))
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
        let new = self.new_set();
        let mut sets = new.iter().chain(self.old_sets());
        let set = sets.find(|set| set.status.observed_generation < set.metadata.generation)?;
        let message = format!(
            "the ReplicaSet controller has not observed the latest change of ReplicaSet {} yet",
            set.metadata.name
        );
        Some(Blocker::new(Cause::ReplicaSetUnobserved, message, ""))
    }
}
