//! Blockers that are caused by the Deployment itself: its limits, its deadline, and rejected calls.

use super::pods::Finding;
use super::text::{KUBERNETES_MAX, because, count, one_line, word};
use super::{Blocker, Cause, Counts, Survey, is_unobserved};
use crate::action::Verb;
use crate::revision;
use crate::status;

impl Survey<'_> {
    pub(super) fn blockers(&self, findings: &[Finding<'_>]) -> Vec<Blocker> {
        let deployment = &self.snapshot.deployment;
        if deployment.spec.selector.is_empty() {
            let message = "the selector is empty and would select all pods".to_owned();
            let remedy = "give the Deployment a selector that matches its template's labels";
            return vec![Blocker::new(Cause::SelectorEmpty, message, remedy)];
        }
        if deployment.metadata.deletion_timestamp.is_some() || self.is_complete() {
            return Vec::new();
        }
        let mut blockers = Vec::new();
        blockers.extend(self.paused());
        blockers.extend(self.replica_set_refused());
        blockers.extend(self.pods_refused());
        blockers.extend(self.new_pods(findings));
        blockers.extend(self.old_pods_running());
        blockers.extend(self.replica_set_unobserved());
        // The limits hold pods back in every rollout. They are the cause only where nothing else is.
        let is_unexplained = |blocker: &Blocker| blocker.cause == Cause::NotAvailable;
        if blockers.iter().all(is_unexplained) {
            blockers.extend(self.held_by_surge());
            blockers.extend(self.held_by_availability());
        }
        blockers.extend(self.stale_annotation());
        blockers.extend(self.deadline_exceeded());
        blockers.extend(self.generation_unobserved());
        blockers
    }

    fn paused(&self) -> Option<Blocker> {
        self.snapshot.deployment.spec.paused.then(|| {
            let deployment = &self.snapshot.deployment;
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
                let age = self.snapshot.now.since(since);
                blocker.message = format!("the rollout has been paused for {age}");
            }
            blocker
        })
    }

    pub(super) fn replica_set_refused(&self) -> Option<Blocker> {
        let failure = self.snapshot.failures.iter().find(|failure| {
            failure.call.verb == Verb::Create
                && failure.call.kind == "ReplicaSet"
                && failure.reason != "AlreadyExists"
        });
        let condition = status::condition(self.status, status::PROGRESSING)
            .filter(|condition| condition.reason == "ReplicaSetCreateError" && self.new.is_none());
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
        let condition = status::condition(self.status, status::REPLICA_FAILURE)
            .filter(|condition| condition.status == "True")?;
        let what = match condition.reason.as_str() {
            "FailedDelete" => "pods cannot be deleted".to_owned(),
            "" => "the API server rejects the pods".to_owned(),
            reason => format!("the API server rejects the pods ({reason})"),
        };
        let why = because(&one_line(&condition.message, KUBERNETES_MAX));
        let namespace = word(&self.snapshot.deployment.metadata.namespace);
        let remedy = match self.own_pods_terminate() {
            true => String::new(),
            false => refused_remedy(&condition.message, &namespace),
        };
        let mut blocker = Blocker::new(Cause::PodsRefused, format!("{what}{why}"), remedy);
        blocker.since = condition.last_transition_time;
        Some(blocker)
    }

    fn held_by_surge(&self) -> Option<Blocker> {
        let total = self.new_size + self.old_size;
        let max = i64::from(self.limits.max_total());
        let held = !self.strategy.awaits_old_pods()
            && !self.snapshot.deployment.spec.paused
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
            let remedy = "maxSurge limits how many pods may exist at once";
            Blocker::new(Cause::HeldBySurge, message, remedy)
        })
    }

    fn held_by_availability(&self) -> Option<Blocker> {
        let available = i64::from(self.status.available_replicas);
        let min = i64::from(self.min_available());
        let held = !self.strategy.awaits_old_pods()
            && !self.snapshot.deployment.spec.paused
            && self.old_size > 0
            && available <= min;
        held.then(|| {
            let wanted = self.limits.replicas;
            let message = format!(
                "{} must stay: at least {min} of {wanted} must be available ({wanted} − {})",
                count(self.old_size, "old pod"),
                self.arithmetic.unavailable
            );
            let remedy = "maxUnavailable limits how many pods may be unavailable at once";
            Blocker::new(Cause::HeldByAvailability, message, remedy)
        })
    }

    fn stale_annotation(&self) -> Option<Blocker> {
        if self.snapshot.deployment.spec.paused {
            return None; // A paused Deployment does not wait for scaling events to pass.
        }
        if is_unobserved(&self.snapshot.deployment) {
            return None; // The Deployment has just been scaled, so its ReplicaSets must be scaled too.
        }
        let wanted = self.limits.replicas;
        let mut sets = self.new.iter().chain(&self.old);
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
        let condition = status::condition(self.status, status::PROGRESSING)
            .filter(|condition| condition.reason == status::TIMED_OUT)?;
        let seconds = self.snapshot.deployment.spec.progress_deadline_seconds;
        let mut blocker = Blocker::new(
            Cause::DeadlineExceeded,
            format!("no progress within the deadline of {seconds} s"),
            format!(
                "fix the blockers above, or roll back: {}",
                self.undo_command()
            ),
        );
        blocker.since = condition.last_update_time;
        Some(blocker)
    }

    fn generation_unobserved(&self) -> Option<Blocker> {
        let deployment = &self.snapshot.deployment;
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

    /// The counters of a ReplicaSet are of an earlier size, so that nothing can be concluded from them.
    fn replica_set_unobserved(&self) -> Option<Blocker> {
        let mut sets = self.new.iter().chain(&self.old);
        let set = sets.find(|set| set.status.observed_generation < set.metadata.generation)?;
        let message = format!(
            "the ReplicaSet controller has not observed the latest change of ReplicaSet {} yet",
            set.metadata.name
        );
        Some(Blocker::new(Cause::ReplicaSetUnobserved, message, ""))
    }

    pub(super) fn counts(&self) -> Counts {
        let status = self.status;
        Counts {
            desired: self.limits.replicas,
            total: status.replicas,
            updated: status.updated_replicas,
            ready: status.ready_replicas,
            available: status.available_replicas,
            unavailable: status.unavailable_replicas,
            terminating: status.terminating_replicas,
            max_total: self.limits.max_total(),
            min_available: self.min_available(),
            max_total_arithmetic: self.arithmetic.max_total.clone(),
            min_available_arithmetic: self.arithmetic.min_available.clone(),
        }
    }

    /// `MinAvailable`. Recreate does not preserve any minimum.
    fn min_available(&self) -> i32 {
        self.strategy.min_available(self.limits).unwrap_or(0)
    }

    /// The command that rolls the Deployment back to its previous revision.
    fn undo_command(&self) -> String {
        let deployment = &self.snapshot.deployment;
        let metadata = &deployment.metadata;
        let kind = if deployment.is_native() {
            "deploy".to_owned()
        } else {
            deployment.kind.to_lowercase()
        };
        format!(
            "rollplan undo {kind}/{} -n {}",
            metadata.name, metadata.namespace
        )
    }
}

/// What to change so that the API server accepts the pods.
pub(crate) fn refused_remedy(message: &str, namespace: &str) -> String {
    let has = |text: &str| message.contains(text);
    if has("exceeded quota") {
        format!("raise the quota, or free some of it: kubectl describe quota -n {namespace}")
    } else if has("violates PodSecurity") {
        "set the securityContext that the message demands, or change the label pod-security.kubernetes.io/enforce of the \
         namespace"
            .to_owned()
    } else if has("usage per") {
        format!(
            "change the resources of the containers, or the limits: kubectl describe limitrange -n {namespace}"
        )
    } else if has("error looking up service account") {
        "create the ServiceAccount, or correct serviceAccountName".to_owned()
    } else if has("PriorityClass") {
        "create the PriorityClass, or correct priorityClassName".to_owned()
    } else if has("failed calling webhook") {
        "check that the webhook answers".to_owned()
    } else {
        "fix what the message reports".to_owned()
    }
}
