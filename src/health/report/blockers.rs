//! The blockers of a rollout: those in the snapshot, and those that depend on the plan (its limits, deadline and
//! conditions).

use rollplan_core::interrupt::Never;
use rollplan_core::revision;
use rollplan_core::snapshot::Condition;
use rollplan_core::status;
use rollplan_core::time::Span;

use super::predicted::{PredictedRollout, is_unobserved};
use crate::explain::{Blocker, Cause, deletion};
use crate::messages::{quota_may_have_room, refusal};
use crate::text::{KUBERNETES_MAX, agree, because, count, one_line, resource, word};

/// How long the message of a rejection counts as the current state. The first retries of the ReplicaSet controller are
/// sooner.
const FRESH_SECONDS: i64 = 30;

impl PredictedRollout<'_> {
    pub(super) fn blockers(&self) -> Vec<Blocker> {
        let mut blockers = self.observed.blockers();
        if self.deployment.spec.selector.is_empty() {
            return blockers;
        }
        let metadata = &self.deployment.metadata;
        if metadata.deletion_timestamp.is_some() {
            let now = self.observed.snapshot.now;
            return deletion::finalizers(metadata, now).into_iter().collect();
        }
        if self.is_complete() {
            return Vec::new();
        }
        blockers.extend(self.paused());
        blockers.extend(self.replica_set_refused());
        blockers.extend(self.pods_refused());
        blockers.extend(self.unexplained());
        blockers.extend(self.old_pods_running());
        // The limits delay pods in every rollout, so they are reported only if no other cause exists.
        let is_unexplained = |blocker: &Blocker| blocker.cause == Cause::NotAvailable;
        if blockers.iter().all(is_unexplained) {
            match self.capped() {
                Some(capped) => blockers.push(capped),
                None => {
                    blockers.extend(self.held_by_surge());
                    blockers.extend(self.held_by_availability());
                }
            }
        }
        blockers.extend(self.stale_annotation());
        blockers.extend(self.deadline_exceeded());
        blockers.extend(self.generation_unobserved());
        // The caller has not published the generation yet because one of its calls was rejected.
        let is_consequence = |cause| cause == Cause::GenerationUnobserved && self.may_be_stalled();
        blockers.sort_by_key(|blocker| (is_consequence(blocker.cause), blocker.cause));
        blockers
    }

    fn paused(&self) -> Option<Blocker> {
        self.deployment.spec.paused.then(|| {
            let deployment = self.deployment;
            let remedy = if deployment.is_native() {
                let name = word(&deployment.metadata.name);
                let namespace = word(&deployment.metadata.namespace);
                format!("resume it: kubectl rollout resume deploy/{name} -n {namespace}")
            } else {
                "resume it: set spec.paused to false".to_owned()
            };
            let message = "the rollout is paused".to_owned();
            let mut blocker = Blocker::new(Cause::Paused, message, remedy);
            let progressing = status::condition(self.status, status::PROGRESSING);
            blocker.since = progressing
                .filter(|condition| condition.reason == "DeploymentPaused")
                .and_then(|condition| condition.last_update_time);
            if let Some(since) = blocker.since {
                let age = self.observed.snapshot.now.since(since);
                blocker.message = format!("the rollout has been paused for {age}");
            }
            blocker
        })
    }

    fn capped(&self) -> Option<Blocker> {
        let caps = self.held_by_caps.as_ref()?;
        let remedy = "raise new_max or lower old_min of the caps, in the options of the planner or in the annotations \
                      rollplan.dev/new-max and rollplan.dev/old-min";
        let mut blocker = Blocker::new(Cause::Capped, format!("the caps allow {caps}"), remedy);
        let progressing = status::condition(self.status, status::PROGRESSING);
        blocker.since = progressing
            .filter(|condition| condition.reason == status::CAPPED)
            .and_then(|condition| condition.last_update_time);
        Some(blocker)
    }

    pub(super) fn replica_set_refused(&self) -> Option<Blocker> {
        let failure = self.observed.refused_create();
        let condition = status::condition(self.status, status::PROGRESSING)
            .filter(|condition| condition.reason == "ReplicaSetCreateError")
            .filter(|_| self.observed.new_set().is_none());
        let (reason, message) = match (failure, condition) {
            (Some(failure), _) => (&failure.reason, &failure.message),
            (None, Some(condition)) => (&condition.reason, &condition.message),
            (None, None) => return None,
        };
        let message = one_line(message, KUBERNETES_MAX);
        let message = because(if message.is_empty() { reason } else { &message });
        let remedy = "fix what the message reports: the template, a quota or an admission rule";
        let mut blocker = Blocker::new(
            Cause::ReplicaSetRefused,
            format!("the API server rejects the new ReplicaSet{message}"),
            remedy,
        );
        blocker.since = condition.and_then(|condition| condition.last_update_time);
        Some(blocker)
    }

    fn pods_refused(&self) -> Option<Blocker> {
        let condition = self.replica_failure()?;
        let what = match condition.reason.as_str() {
            "FailedDelete" => "pods cannot be deleted".to_owned(),
            "" => "the API server rejects the pods".to_owned(),
            reason => format!("the API server rejects the pods ({reason})"),
        };
        let why = because(&one_line(&condition.message, KUBERNETES_MAX));
        let namespace = word(&self.deployment.metadata.namespace);
        let mut message = format!("{what}{why}");
        let mut remedy = if self.observed.own_pods_terminate() {
            String::new()
        } else {
            refusal::remedy(&condition.message, &namespace)
        };
        if let Some(room) = self.room_after(condition) {
            message = format!("{message}; {room}");
            if !remedy.is_empty() {
                remedy = format!("wait for the next attempt, or {remedy}");
            }
        }
        let mut blocker = Blocker::new(Cause::PodsRefused, message, remedy);
        blocker.since = condition.last_transition_time;
        Some(blocker)
    }

    /// A note that a quota may have capacity again, because the message of the last rejection remains until the next
    /// attempt.
    fn room_after(&self, condition: &Condition) -> Option<String> {
        let observed = self.observed;
        let pods = observed.new_pods().iter().chain(observed.old_pods());
        let using = pods.filter(|pod| !matches!(pod.phase.as_str(), "Failed" | "Succeeded"));
        let using = i64::try_from(using.count()).unwrap_or(i64::MAX);
        let last = observed.last_refusal_of_pods();
        let age = observed
            .snapshot
            .now
            .since(last.or(condition.last_transition_time)?);
        let may_have_room = observed.snapshot.pods_complete
            && age >= Span::from_seconds(FRESH_SECONDS)
            && quota_may_have_room(&refusal::TABLE.look_up(&condition.message), using);
        may_have_room.then(|| {
            let exist = if using == 1 { "exists" } else { "exist" };
            format!(
                "that was {age} ago, and {} {exist} now: the quota may have room, and the ReplicaSet controller tries again \
                 after a delay that doubles with each rejection, up to 16m40s",
                count(using, "pod")
            )
        })
    }

    fn replica_failure(&self) -> Option<&Condition> {
        status::condition(self.status, status::REPLICA_FAILURE)
            .filter(|condition| condition.status == "True")
    }

    /// The blocker for new pods that are not available without a pod or a rejection that shows why.
    fn unexplained(&self) -> Option<Blocker> {
        let observed = self.observed;
        let missing = observed.missing_pods();
        if missing == 0 || !observed.explanations().is_empty() || self.replica_failure().is_some() {
            return None;
        }
        let size = observed.new_set().map_or(0, |new| new.replicas.into());
        let are = agree(format!("{missing} of {}", count(size, "new pod")), missing);
        let alive = observed.new_pods().iter();
        let alive = alive.filter(|pod| pod.metadata.deletion_timestamp.is_none());
        let alive = i64::try_from(alive.count()).unwrap_or(i64::MAX);
        let (message, remedy) = if alive >= size {
            (
                format!("{are} not counted as available yet, although all pods are ready"),
                "",
            )
        } else if observed.snapshot.pods_complete {
            (
                format!("{are} not available: {alive} exist, the others have not been created yet"),
                "",
            )
        } else {
            (
                format!(
                    "{are} not available, and the snapshot does not contain the pods that would show why"
                ),
                "include the pods of the ReplicaSets in the snapshot",
            )
        };
        Some(Blocker::new(Cause::NotAvailable, message, remedy))
    }

    fn held_by_surge(&self) -> Option<Blocker> {
        let total = self.new_size + self.old_size;
        let max = i64::from(self.limits.max_total());
        let held = !self.strategy.awaits_old_pods()
            && !self.deployment.spec.paused
            && self.new_size < i64::from(self.limits.replicas)
            && total >= max;
        held.then(|| {
            let missing = i64::from(self.limits.replicas) - self.new_size;
            let message = format!(
                "{} must wait: at most {} may exist ({})",
                count(missing, "more new pod"),
                count(max, "pod"),
                self.arithmetic.surge
            );
            Blocker::new(Cause::HeldBySurge, message, "")
        })
    }

    fn held_by_availability(&self) -> Option<Blocker> {
        let available = i64::from(self.status.available_replicas);
        let min = i64::from(self.min_available());
        let held = !self.strategy.awaits_old_pods()
            && !self.deployment.spec.paused
            && self.old_size > 0
            && available <= min;
        held.then(|| {
            let wanted = self.limits.replicas;
            let message = format!(
                "{} must stay: at least {min} of {wanted} must be available ({wanted} − {})",
                count(self.old_size, "old pod"),
                self.arithmetic.unavailable
            );
            Blocker::new(Cause::HeldByAvailability, message, "")
        })
    }

    fn stale_annotation(&self) -> Option<Blocker> {
        // A paused Deployment does not wait for the end of a scaling event. If the Deployment has just been scaled, the
        // scaling event is expected.
        if self.deployment.spec.paused || is_unobserved(self.deployment) {
            return None;
        }
        let wanted = self.limits.replicas;
        let (new, old) = (self.observed.new_set(), self.observed.old_sets());
        let mut sets = new.iter().chain(old);
        let set = sets.find(|set| {
            revision::is_scaled_for_another(&set.metadata.annotations, set.replicas, wanted)
                && (set.replicas == wanted || self.strategy.awaits_old_pods())
        })?;
        let message = format!(
            "the annotation desired-replicas of ReplicaSet {} is stale: the Deployment controller of Kubernetes \
             would treat it as a scaling event indefinitely",
            set.metadata.name
        );
        let remedy = "carry out this plan, which updates the annotation";
        Some(Blocker::new(Cause::StaleAnnotation, message, remedy))
    }

    fn deadline_exceeded(&self) -> Option<Blocker> {
        let condition = self.timed_out()?;
        let deadline = self.deployment.spec.progress_deadline_seconds;
        let deadline = Span::from_seconds(deadline.into());
        let mut blocker = Blocker::new(
            Cause::DeadlineExceeded,
            format!("no progress within the deadline of {deadline}"),
            format!(
                "fix the blockers above, or roll back: {}",
                self.undo_command()
            ),
        );
        blocker.since = condition.last_update_time;
        Some(blocker)
    }

    fn generation_unobserved(&self) -> Option<Blocker> {
        let deployment = self.deployment;
        let (observed, generation) = (
            deployment.status.observed_generation,
            deployment.metadata.generation,
        );
        self.awaits_observation.then(|| {
            let message = format!(
                "no controller has observed the latest change yet: generation {generation}, observed {observed}"
            );
            Blocker::new(Cause::GenerationUnobserved, message, "")
        })
    }

    /// The command that rolls the Deployment back to its previous revision, or to the last available one if the previous one
    /// never became available.
    fn undo_command(&self) -> String {
        let deployment = self.deployment;
        let metadata = &deployment.metadata;
        let snapshot = self.observed.snapshot;
        let target = if rollplan_core::previous_was_never_available(snapshot, &Never) {
            " --to-revision last-available"
        } else {
            ""
        };
        format!(
            "rollplan undo {}/{} -n {}{target}",
            resource(deployment),
            metadata.name,
            metadata.namespace
        )
    }
}
