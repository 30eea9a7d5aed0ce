//! Reports the progress of a rollout and what blocks it, for people and for programs.
//!
//! Reasons are part of the API; the wording of messages may change. Blockers are ranked: those that need a fix come first,
//! followed by those that only need time, and by those that are consequences of others.

mod cause;
pub(crate) mod examiner;
mod limits;
pub(crate) mod pods;
mod template;
pub(crate) mod text;
pub mod verdict;

use std::collections::{BTreeMap, BTreeSet};

use crate::action::{Action, Step};
use crate::interrupt::{Interrupt, Interrupted, Never};
use crate::pass;
use crate::revision::REVISION;
use crate::size::Limits;
use crate::snapshot::{Deployment, DeploymentStatus, Options, Pod, ReplicaSet, Snapshot};
use crate::status;
use crate::strategy::{self, Arithmetic, RolloutStrategy};
use crate::time::{Span, Time};

pub use self::cause::Cause;
pub(crate) use self::limits::refused_remedy;

use self::examiner::Examiner;
use self::verdict::evidence::was_ready;
use self::verdict::{Outlook, Verdict};

/// The maximum number of pods that a blocker lists.
pub const BLOCKED_PODS_MAX: usize = 20;

/// The progress of a rollout, and what blocks it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The phase of the rollout.
    pub phase: Phase,
    /// A human-readable sentence.
    pub message: String,
    /// Numbers of pods, and the limits of the rollout. Absent without all ReplicaSets, and for other kinds.
    pub counts: Option<Counts>,
    /// The numbers of another kind than a Deployment.
    pub counters: Vec<Counter>,
    /// Whether the kind is not known, so that only generic conditions decide.
    pub is_generic: bool,
    /// The reasons for the decisions of the plan.
    pub reasons: Vec<Reason>,
    /// The causes that block the rollout, the one to fix first at the beginning.
    pub blockers: Vec<Blocker>,
    /// The revision of the new ReplicaSet. Empty before it exists.
    pub revision: String,
    /// The name of the new ReplicaSet. Empty before it exists.
    pub replica_set: String,
    /// The time at which the progress deadline expires, if there is one.
    pub deadline: Option<Time>,
    /// Whether the rollout completes by itself or needs a change.
    pub verdict: Verdict,
}

/// The phase of a rollout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The rollout is in progress.
    Progressing,
    /// All desired pods are updated and available, no old pods remain, and a controller has observed the latest
    /// generation.
    Complete,
    /// The rollout is paused by `spec.paused`.
    Paused,
    /// The deadline has passed, or the rollout certainly needs a change.
    Stalled,
    /// The Deployment is being deleted.
    Deleting,
    /// The Deployment does not allow a plan.
    Refused,
    /// The rollout completed earlier, and a pod that was ready then is not ready now.
    Degraded,
}

/// The numbers of pods of a rollout, and its limits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Desired pods.
    pub desired: i32,
    /// Pods that are not terminating.
    pub total: i32,
    /// Pods of the current template.
    pub updated: i32,
    /// Ready pods.
    pub ready: i32,
    /// Available pods.
    pub available: i32,
    /// Pods that are missing or not yet available: the sizes of all ReplicaSets less the available pods.
    pub unavailable: i32,
    /// Terminating pods, if they are reported.
    pub terminating: Option<i32>,
    /// The maximum sum of the sizes.
    pub max_total: i32,
    /// The minimum number of available pods that scaling down preserves. 0 under Recreate.
    pub min_available: i32,
    /// How `max_total` is calculated.
    pub max_total_arithmetic: String,
    /// How `min_available` is calculated.
    pub min_available_arithmetic: String,
}

/// A number that the controller of a workload publishes, or that its spec asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counter {
    /// What is counted, in lower case, for example "updated".
    pub name: &'static str,
    /// The number.
    pub value: i64,
}

/// The reason for one decision of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason {
    /// The machine-readable reason.
    pub reason: &'static str,
    /// A human-readable sentence.
    pub message: String,
}

/// A cause that blocks a rollout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocker {
    /// The kind of the cause.
    pub cause: Cause,
    /// A human-readable sentence with the numbers.
    pub message: String,
    /// The smallest change that would let the rollout continue. Empty if it only takes time.
    pub remedy: String,
    /// At most [`BLOCKED_PODS_MAX`] of the affected pods, beginning with those that have been blocked longest.
    pub pods: Vec<BlockedPod>,
    /// The number of affected pods.
    pub pod_count: usize,
    /// The time since which it has been the case.
    pub since: Option<Time>,
    /// The time left until the cause resolves by itself.
    pub remaining: Option<Span>,
}

/// A pod that blocks a rollout.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlockedPod {
    /// The name of the pod.
    pub name: String,
    /// The container that causes the problem. Empty if the pod as a whole does.
    pub container: String,
    /// The reason that Kubernetes reports.
    pub reason: String,
    /// The message that Kubernetes reports, as a single line. Only the last line of a container's output is included.
    pub message: String,
    /// The number of times the container has been restarted.
    pub restarts: i32,
    /// The time since which it has been the case.
    pub since: Option<Time>,
}

/// The input of a report: the ReplicaSets by role, and their sizes after the plan is carried out.
struct Survey<'a> {
    snapshot: &'a Snapshot,
    strategy: Box<dyn RolloutStrategy>,
    limits: Limits,
    /// How the limits result from what the user wrote.
    arithmetic: Arithmetic,
    status: &'a DeploymentStatus,
    new: Option<&'a ReplicaSet>,
    old: Vec<&'a ReplicaSet>,
    new_size: i64,
    old_size: i64,
    /// Pods of the new ReplicaSet.
    pods: Vec<&'a Pod>,
    /// Pods of the old ReplicaSets.
    old_pods: Vec<&'a Pod>,
    examiner: Examiner<'a>,
    /// Whether no controller has observed the latest generation, and no step of the plan publishes that it was.
    awaits_observation: bool,
}

/// Reports on a rollout. `status` and `steps` are those of the plan. Without steps, the report describes the current state.
#[must_use]
pub fn report(
    snapshot: &Snapshot,
    options: Options,
    status: &DeploymentStatus,
    steps: &[Step],
) -> Report {
    Survey::new(snapshot, options, status, steps, &Never).report(steps)
}

/// [`report`], unless it is interrupted.
///
/// # Errors
///
/// [`Interrupted`].
pub fn report_until(
    snapshot: &Snapshot,
    options: Options,
    status: &DeploymentStatus,
    steps: &[Step],
    interrupt: &dyn Interrupt,
) -> Result<Report, Interrupted> {
    let report = Survey::new(snapshot, options, status, steps, interrupt).report(steps);
    interrupt.check().map(|()| report)
}

// === impl Survey ===

impl<'a> Survey<'a> {
    fn new(
        snapshot: &'a Snapshot,
        options: Options,
        status: &'a DeploymentStatus,
        steps: &[Step],
        interrupt: &'a dyn Interrupt,
    ) -> Self {
        let (status, (new, old)) = match snapshot.replica_sets_complete {
            true => (status, pass::roles(snapshot, options, interrupt)),
            // What is stored is all that is known.
            false => (&snapshot.deployment.status, (None, Vec::new())),
        };
        let mut sizes: BTreeMap<&str, i32> = BTreeMap::new();
        let mut created = 0;
        for action in steps.iter().filter_map(|step| step.action.as_ref()) {
            match action {
                Action::ScaleReplicaSet { set, to, .. } => _ = sizes.insert(&set.name, *to),
                Action::CreateReplicaSet(set) => created = i64::from(set.replicas),
                _ => {}
            }
        }
        let size = |set: &ReplicaSet| {
            let name = set.metadata.name.as_str();
            i64::from(sizes.get(name).copied().unwrap_or(set.replicas))
        };
        let strategy = strategy::of(&snapshot.deployment);
        let limits = strategy.limits(snapshot.deployment.spec.replicas);
        Self {
            snapshot,
            arithmetic: strategy.explain(limits),
            strategy,
            limits,
            status,
            new_size: new.map_or(created, size),
            old_size: old.iter().map(|set| size(set)).sum(),
            pods: pods_of(snapshot, new.as_slice()),
            old_pods: pods_of(snapshot, &old),
            examiner: Examiner {
                now: snapshot.now,
                interrupt,
                namespace: &snapshot.deployment.metadata.namespace,
                template: Some(&snapshot.deployment.spec.template),
                min_ready_seconds: snapshot.deployment.spec.min_ready_seconds,
                // After a rollback to a ReplicaSet that still has pods, an old ReplicaSet is younger than these.
                rollout_began: old
                    .iter()
                    .filter_map(|set| set.metadata.creation_timestamp)
                    .max(),
                events: examiner::by_object(&snapshot.events),
                judgement: options.judgement,
                noun: "new pod",
            },
            new,
            old,
            awaits_observation: is_unobserved(&snapshot.deployment)
                && !steps
                    .iter()
                    .any(|step| publishes_observation(snapshot, step)),
        }
    }

    fn report(&self, steps: &[Step]) -> Report {
        let findings = self.findings();
        let mut blockers = self.blockers(&findings);
        // A rejected call of the caller is why it has not published the generation yet.
        let is_consequence = |cause| cause == Cause::GenerationUnobserved && self.may_be_stalled();
        blockers.sort_by_key(|blocker| (is_consequence(blocker.cause), blocker.cause));
        if !self.snapshot.replica_sets_complete {
            return self.without_all_sets(&blockers);
        }
        let verdict = self.verdict(&blockers, &findings);
        let phase = self.phase(&blockers, &verdict);
        Report {
            phase,
            message: self.message(phase, &blockers),
            verdict,
            counts: Some(self.counts()),
            counters: Vec::new(),
            is_generic: false,
            reasons: reasons(steps),
            revision: self.revision(steps),
            replica_set: self.new_name(steps),
            deadline: status::progress_deadline(&self.snapshot.deployment, self.status),
            blockers,
        }
    }

    /// The report on a list of ReplicaSets that may be incomplete. Nothing can be counted: the phase is that which the
    /// Deployment alone shows, and nothing is decided.
    fn without_all_sets(&self, blockers: &[Blocker]) -> Report {
        let blocker = Blocker::new(
            Cause::ReplicaSetsIncomplete,
            "the list of ReplicaSets may be incomplete, so nothing is planned or counted"
                .to_owned(),
            "send all ReplicaSets of the Deployment, and set replicaSetsComplete",
        );
        let name = pass::quote(&self.snapshot.deployment.metadata.name);
        let verdict = Verdict::new(Outlook::Undecided, false, Some(&blocker));
        Report {
            phase: self.phase(blockers, &verdict),
            message: format!("deployment {name}: {}", blocker.message),
            verdict,
            counts: None,
            counters: Vec::new(),
            is_generic: false,
            reasons: Vec::new(),
            blockers: vec![blocker],
            revision: String::new(),
            replica_set: String::new(),
            deadline: None,
        }
    }

    fn phase(&self, blockers: &[Blocker], verdict: &Verdict) -> Phase {
        let deployment = &self.snapshot.deployment;
        let is_complete_for_an_earlier_generation =
            self.awaits_observation && status::is_complete(deployment, self.status);
        let has = |cause| blockers.iter().any(|blocker| blocker.cause == cause);
        let is_certain = verdict.outlook == Outlook::NeedsChange && verdict.is_certain;
        if deployment.metadata.deletion_timestamp.is_some() {
            Phase::Deleting
        } else if has(Cause::SelectorEmpty) {
            Phase::Refused
        } else if self.is_complete() {
            Phase::Complete
        } else if is_complete_for_an_earlier_generation {
            Phase::Progressing
        } else if deployment.spec.paused {
            Phase::Paused
        } else if self.may_be_stalled() && (has(Cause::DeadlineExceeded) || is_certain) {
            Phase::Stalled
        } else if self.is_degraded() {
            Phase::Degraded
        } else {
            Phase::Progressing
        }
    }

    /// Whether the rollout completed earlier, and a pod that was ready then is not ready now. Pods that were added since
    /// then are scaling, and not degraded.
    fn is_degraded(&self) -> bool {
        let progressing = status::condition(self.status, status::PROGRESSING);
        let completed = progressing
            .filter(|condition| condition.reason == status::NEW_SET_AVAILABLE)
            .map(|condition| condition.last_update_time);
        let Some(completed) = completed.filter(|_| !self.awaits_observation) else {
            return false;
        };
        let wanted = self.limits.replicas;
        let is_updated = self.status.updated_replicas == wanted && self.status.replicas == wanted;
        let mut alive = self.pods.iter();
        is_updated
            && alive.any(|pod| {
                let is_ready = pods::condition(pod, "Ready").is_some_and(|it| it.status == "True");
                let created = pod.metadata.creation_timestamp;
                let is_older = created
                    .zip(completed)
                    .is_some_and(|(created, at)| created < at);
                let is_alive = pod.metadata.deletion_timestamp.is_none()
                    && !matches!(pod.phase.as_str(), "Failed" | "Succeeded");
                is_alive && !is_ready && (is_older || was_ready(pod))
            })
    }

    fn message(&self, phase: Phase, blockers: &[Blocker]) -> String {
        let name = pass::quote(&self.snapshot.deployment.metadata.name);
        let wanted = self.limits.replicas;
        let status = self.status;
        let old = i64::from(status.replicas) - i64::from(status.updated_replicas);
        let terminating = match status.terminating_replicas {
            Some(number) if number > 0 => format!(", {number} terminating"),
            _ => String::new(),
        };
        let numbers = format!(
            "{} of {wanted} updated, {} of {wanted} available, {old} old{terminating}",
            status.updated_replicas, status.available_replicas
        );
        let cause = blockers.first().map(|blocker| blocker.message.as_str());
        let because = cause.map_or_else(String::new, |cause| format!(": {cause}"));
        match phase {
            Phase::Progressing => format!("deployment {name} is rolling out ({numbers}){because}"),
            Phase::Degraded => format!("deployment {name} is degraded ({numbers}){because}"),
            Phase::Complete => format!(
                "deployment {name} successfully rolled out ({} of {wanted} available)",
                status.available_replicas
            ),
            Phase::Paused => {
                let mut paused = blockers.iter();
                let paused = paused.find(|blocker| blocker.cause == Cause::Paused);
                let since = paused.and_then(|blocker| blocker.since);
                let paused = since.map_or_else(
                    || "is paused".to_owned(),
                    |since| format!("has been paused for {}", self.snapshot.now.since(since)),
                );
                format!("deployment {name} {paused} ({numbers})")
            }
            Phase::Stalled => format!("deployment {name} is stalled ({numbers}){because}"),
            Phase::Deleting => format!("deployment {name} is being deleted"),
            Phase::Refused => format!("deployment {name} cannot be rolled out{because}"),
        }
    }

    fn new_name(&self, steps: &[Step]) -> String {
        match (self.new, created(steps)) {
            (Some(set), _) => set.metadata.name.clone(),
            (None, Some(set)) => set.metadata.name.clone(),
            (None, None) => String::new(),
        }
    }

    fn revision(&self, steps: &[Step]) -> String {
        if let Some(set) = created(steps) {
            return set.revision.to_string();
        }
        let written = steps.iter().find_map(|step| match &step.action {
            Some(Action::UpdateDeploymentStatus { revision, .. }) => revision.clone(),
            _ => None,
        });
        let stored = || Some(self.new?.metadata.annotations.get(REVISION)?.clone());
        written.or_else(stored).unwrap_or_default()
    }

    /// A controller must have observed the latest generation: until then, the ReplicaSets may be complete for a
    /// spec that is no longer the current one. A rejected create also ends the sync before the counters are updated:
    /// the published ones may still be those of a rollout that was complete once.
    fn is_complete(&self) -> bool {
        let refused = || self.new.is_none() && self.replica_set_refused().is_some();
        status::is_complete(&self.snapshot.deployment, self.status)
            && !self.awaits_observation
            && !refused()
    }

    /// What has stalled an earlier generation says nothing about a change that no controller has observed, unless
    /// it was the caller's own plan that was refused.
    fn may_be_stalled(&self) -> bool {
        !self.awaits_observation || !self.snapshot.failures.is_empty()
    }
}

/// Whether the stored status is of an earlier generation.
fn is_unobserved(deployment: &Deployment) -> bool {
    deployment.status.observed_generation < deployment.metadata.generation
}

fn publishes_observation(snapshot: &Snapshot, step: &Step) -> bool {
    let generation = snapshot.deployment.metadata.generation;
    matches!(
        &step.action,
        Some(Action::UpdateDeploymentStatus { status, .. }) if status.observed_generation >= generation
    )
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

fn created(steps: &[Step]) -> Option<&crate::action::NewReplicaSet> {
    steps.iter().find_map(|step| match &step.action {
        Some(Action::CreateReplicaSet(set)) => Some(&**set),
        _ => None,
    })
}

fn reasons(steps: &[Step]) -> Vec<Reason> {
    let reason = |step: &Step| {
        let (reason, why) = match step.action.as_ref()? {
            Action::CheckOwner { .. } => (
                "OWNER_CHECK",
                "an adoption for a deleted Deployment would delete running pods",
            ),
            Action::AdoptReplicaSet { .. } => {
                ("ADOPT", "the selector matches it, and it has no controller")
            }
            Action::ReleaseReplicaSet { .. } => ("RELEASE", "the selector no longer matches it"),
            Action::CreateReplicaSet(_) => {
                ("NEW_TEMPLATE", "no ReplicaSet has the current template")
            }
            Action::UpdateReplicaSet { .. } => (
                "ANNOTATIONS",
                "annotations, revision or minReadySeconds differ from the Deployment",
            ),
            Action::ScaleReplicaSet { .. } => {
                let reason = step.reason?;
                (reason.as_str(), reason.text())
            }
            Action::DeleteReplicaSet { .. } => ("HISTORY_LIMIT", "it exceeds revisionHistoryLimit"),
            Action::UpdateDeployment { change, .. } if change.template.is_some() => {
                ("ROLLBACK", "a rollback was requested")
            }
            Action::UpdateDeployment { .. } => {
                ("OWNER_ANNOTATIONS", "its annotations are out of date")
            }
            Action::UpdateDeploymentStatus { .. } => {
                ("STATUS", "the published status is out of date")
            }
        };
        Some(Reason {
            reason,
            message: format!("{}: {why}", step.summary()),
        })
    };
    steps.iter().filter_map(reason).collect()
}

// === impl Blocker ===

impl Blocker {
    pub(crate) fn new(cause: Cause, message: String, remedy: impl Into<String>) -> Self {
        Self {
            cause,
            message,
            remedy: remedy.into(),
            pods: Vec::new(),
            pod_count: 0,
            since: None,
            remaining: None,
        }
    }

    pub(crate) fn with_pods(mut self, mut pods: Vec<BlockedPod>) -> Self {
        self.pod_count = pods.len();
        self.since = self
            .since
            .or_else(|| pods.iter().filter_map(|pod| pod.since).min());
        pods.truncate(BLOCKED_PODS_MAX);
        self.pods = pods;
        self
    }
}
