//! Where a rollout stands and why: for people who wait for it, and programs that must decide on it.
//!
//! Reasons are stable words; texts are free to change. What holds a rollout is ranked: first what somebody
//! must mend, then what only needs time, last what merely follows from the others.

mod limits;
mod pods;
mod text;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::action::{Action, Step};
use crate::pass;
use crate::revision::REVISION;
use crate::size::Limits;
use crate::snapshot::{Deployment, DeploymentStatus, Options, Pod, ReplicaSet, Snapshot, Strategy};
use crate::status;
use crate::time::{Span, Time};

/// The most pods that a blocker names.
pub const BLOCKED_PODS_MAX: usize = 20;

/// Where a rollout stands and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Where it stands.
    pub phase: Phase,
    /// One sentence for people.
    pub message: String,
    /// Pods of each kind, and the limits.
    pub counts: Counts,
    /// Why the plan is as it is.
    pub reasons: Vec<Reason>,
    /// What holds the rollout, the one to mend first leading.
    pub blockers: Vec<Blocker>,
    /// Revision of the new ReplicaSet; empty before it exists.
    pub revision: String,
    /// Name of the new ReplicaSet; empty before it exists.
    pub replica_set: String,
    /// When the progress deadline passes, if it is running.
    pub deadline: Option<Time>,
}

/// Where a rollout stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// On its way.
    Progressing,
    /// All wanted pods are updated and available, no old one is left, and a controller has observed the latest
    /// generation.
    Complete,
    /// Held by `spec.paused`.
    Paused,
    /// The deadline has passed, or pods or ReplicaSets are refused.
    Stalled,
    /// The Deployment is being deleted.
    Deleting,
    /// The Deployment cannot be planned for as it stands.
    Refused,
}

/// Pods of a rollout, and the limits it keeps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Wanted pods.
    pub desired: i32,
    /// Pods that are not terminating.
    pub total: i32,
    /// Pods of the current template.
    pub updated: i32,
    /// Ready pods.
    pub ready: i32,
    /// Available pods.
    pub available: i32,
    /// Pods wanted by the ReplicaSets and not available.
    pub unavailable: i32,
    /// Terminating pods, where they are reported.
    pub terminating: Option<i32>,
    /// The most that sizes may add up to.
    pub max_total: i32,
    /// The fewest available pods that scaling down leaves; 0 under Recreate.
    pub min_available: i32,
    /// How `max_total` comes about.
    pub max_total_arithmetic: String,
    /// How `min_available` comes about.
    pub min_available_arithmetic: String,
}

/// Why a plan is as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason {
    /// Stable word.
    pub reason: &'static str,
    /// One sentence for people.
    pub message: String,
}

/// What holds a rollout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocker {
    /// What kind of thing holds it.
    pub cause: Cause,
    /// One sentence for people, with the numbers.
    pub message: String,
    /// The nearest change that would let it go on; empty when only time helps.
    pub remedy: String,
    /// The pods it is about, those that it has held longest, at most [`BLOCKED_PODS_MAX`].
    pub pods: Vec<BlockedPod>,
    /// How many pods it is about.
    pub pod_count: usize,
    /// Since when.
    pub since: Option<Time>,
    /// Time left before it changes by itself.
    pub remaining: Option<Span>,
}

/// A pod that holds a rollout.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlockedPod {
    /// Name of the pod.
    pub name: String,
    /// Container it is about; empty for the pod as a whole.
    pub container: String,
    /// Reason as Kubernetes gives it.
    pub reason: String,
    /// Text as Kubernetes gives it, in one line; of what a program wrote only the last line.
    pub message: String,
    /// Restarts of the container.
    pub restarts: i32,
    /// Since when.
    pub since: Option<Time>,
}

/// What kind of thing holds a rollout, in the order of what to mend first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// The selector is empty.
    SelectorEmpty,
    /// The rollout is paused.
    Paused,
    /// The new ReplicaSet cannot be created.
    ReplicaSetRefused,
    /// An image cannot be pulled.
    ImagePull,
    /// A container cannot be made from its configuration, as with a missing ConfigMap or Secret.
    ContainerConfig,
    /// A container ends again and again.
    CrashLoop,
    /// No node takes the pod.
    Unschedulable,
    /// The API server refuses pods, as for a quota.
    PodsRefused,
    /// A container runs, and its readiness check fails.
    NotReady,
    /// A pod has failed as a whole. Another one takes its place, and what holds that one comes before.
    PodFailed,
    /// Old pods have not ended yet (Recreate).
    OldPodsRunning,
    /// The list of pods may be incomplete, and Recreate needs all of it.
    PodsIncomplete,
    /// A pod is on its way to its first run.
    Starting,
    /// Pods are ready, but not for long enough.
    MinReadySeconds,
    /// New pods are not available, and the snapshot does not say why.
    NotAvailable,
    /// The surge leaves no room for more new pods.
    HeldBySurge,
    /// Old pods are kept for the minimum of available ones.
    HeldByAvailability,
    /// A ReplicaSet's stale annotation looks like a scaling event to Kubernetes' own controller.
    StaleAnnotation,
    /// The progress deadline has passed.
    DeadlineExceeded,
    /// The stored status speaks of an earlier generation.
    GenerationUnobserved,
}

/// What the report looks at: the ReplicaSets, by role, with their sizes once the plan is carried out.
struct Survey<'a> {
    snapshot: &'a Snapshot,
    limits: Limits,
    status: &'a DeploymentStatus,
    new: Option<&'a ReplicaSet>,
    old: Vec<&'a ReplicaSet>,
    new_size: i64,
    old_size: i64,
    pods: Vec<&'a Pod>,
    /// Whether no controller has observed the latest generation, and no step of the plan publishes that it was.
    awaits_observation: bool,
}

/// Reports on a rollout. `status` and `steps` are those of the plan; with no steps, of what is.
#[must_use]
pub fn report(
    snapshot: &Snapshot,
    options: Options,
    status: &DeploymentStatus,
    steps: &[Step],
) -> Report {
    let survey = Survey::new(snapshot, options, status, steps);
    let mut blockers = survey.blockers();
    blockers.sort_by_key(|blocker| blocker.cause);
    let phase = survey.phase(&blockers);
    let new_name = survey.new_name(steps);
    Report {
        phase,
        message: survey.message(phase, &blockers),
        counts: survey.counts(),
        reasons: reasons(steps),
        revision: survey.revision(steps),
        replica_set: new_name,
        deadline: status::progress_deadline(&snapshot.deployment, status),
        blockers,
    }
}

// === impl Survey ===

impl<'a> Survey<'a> {
    fn new(
        snapshot: &'a Snapshot,
        options: Options,
        status: &'a DeploymentStatus,
        steps: &[Step],
    ) -> Self {
        let (new, old) = pass::roles(snapshot, options);
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
        Self {
            snapshot,
            limits: pass::limits(&snapshot.deployment),
            status,
            new_size: new.map_or(created, size),
            old_size: old.iter().map(|set| size(set)).sum(),
            pods: pods_of(snapshot, new.as_slice()),
            new,
            old,
            awaits_observation: is_unobserved(&snapshot.deployment)
                && !steps
                    .iter()
                    .any(|step| publishes_observation(snapshot, step)),
        }
    }

    fn phase(&self, blockers: &[Blocker]) -> Phase {
        let deployment = &self.snapshot.deployment;
        let is_complete_for_an_earlier_generation =
            self.awaits_observation && status::is_complete(deployment, self.status);
        let has = |cause| blockers.iter().any(|blocker| blocker.cause == cause);
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
        } else if self.may_be_stalled()
            && [
                Cause::ReplicaSetRefused,
                Cause::PodsRefused,
                Cause::DeadlineExceeded,
            ]
            .into_iter()
            .any(has)
        {
            Phase::Stalled
        } else {
            Phase::Progressing
        }
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
            Phase::Complete => format!(
                "deployment {name} successfully rolled out ({} of {wanted} available)",
                status.available_replicas
            ),
            Phase::Paused => {
                let since = blockers.first().and_then(|blocker| blocker.since);
                let paused = since.map_or_else(
                    || "is paused".to_owned(),
                    |since| format!("has been paused for {}", self.snapshot.now.since(since)),
                );
                format!("deployment {name} {paused} ({numbers})")
            }
            Phase::Stalled => format!("deployment {name} is stuck ({numbers}){because}"),
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
    /// spec that is no longer the current one. And a refused create ends the sync before the counters are updated:
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

    fn is_rolling(&self) -> bool {
        let strategy = self.snapshot.deployment.spec.strategy;
        matches!(strategy, Strategy::RollingUpdate { .. })
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

/// The pods of some ReplicaSets, which are looked up, not searched: there may be ten thousand of either.
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
                "adopting for a Deployment that is gone would delete running pods",
            ),
            Action::AdoptReplicaSet { .. } => {
                ("ADOPT", "the selector matches it and nobody owns it")
            }
            Action::ReleaseReplicaSet { .. } => ("RELEASE", "the selector no longer matches it"),
            Action::CreateReplicaSet(_) => {
                ("NEW_TEMPLATE", "no ReplicaSet has the current template")
            }
            Action::UpdateReplicaSet { .. } => (
                "ANNOTATIONS",
                "annotations, revision or minReadySeconds follow the Deployment",
            ),
            Action::ScaleReplicaSet { from, to, .. } if to > from => {
                ("SCALE_UP", "the limits leave room for more pods of it")
            }
            Action::ScaleReplicaSet { .. } => (
                "SCALE_DOWN",
                "its pods are not wanted and the limits let them go",
            ),
            Action::DeleteReplicaSet { .. } => {
                ("HISTORY_LIMIT", "it is beyond revisionHistoryLimit")
            }
            Action::UpdateDeployment { change, .. } if change.template.is_some() => {
                ("ROLLBACK", "a rollback was asked for")
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

// === impl Cause ===

impl Cause {
    /// The stable word for it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::SelectorEmpty => "SELECTOR_EMPTY",
            Self::Paused => "PAUSED",
            Self::ReplicaSetRefused => "REPLICA_SET_REFUSED",
            Self::ImagePull => "IMAGE_PULL",
            Self::ContainerConfig => "CONTAINER_CONFIG",
            Self::CrashLoop => "CRASH_LOOP",
            Self::PodFailed => "POD_FAILED",
            Self::Unschedulable => "UNSCHEDULABLE",
            Self::PodsRefused => "PODS_REFUSED",
            Self::NotReady => "NOT_READY",
            Self::OldPodsRunning => "OLD_PODS_RUNNING",
            Self::PodsIncomplete => "PODS_INCOMPLETE",
            Self::Starting => "STARTING",
            Self::MinReadySeconds => "MIN_READY_SECONDS",
            Self::NotAvailable => "NOT_AVAILABLE",
            Self::HeldBySurge => "HELD_BY_SURGE",
            Self::HeldByAvailability => "HELD_BY_AVAILABILITY",
            Self::StaleAnnotation => "STALE_ANNOTATION",
            Self::DeadlineExceeded => "DEADLINE_EXCEEDED",
            Self::GenerationUnobserved => "GENERATION_UNOBSERVED",
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

// === impl Blocker ===

impl Blocker {
    fn new(cause: Cause, message: String, remedy: impl Into<String>) -> Self {
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

    fn with_pods(mut self, mut pods: Vec<BlockedPod>) -> Self {
        self.pod_count = pods.len();
        self.since = self
            .since
            .or_else(|| pods.iter().filter_map(|pod| pod.since).min());
        pods.truncate(BLOCKED_PODS_MAX);
        self.pods = pods;
        self
    }
}
