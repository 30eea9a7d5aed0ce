//! What a snapshot shows about a canary: the ReplicaSets by template, and the pods that are really available.

use rollplan_core::interrupt::Interrupt;
use rollplan_core::pass::{roles, without_hash};
use rollplan_core::revision::max_revision;
use rollplan_core::snapshot::{ContainerState, Deployment, Pod, ReplicaSet, Snapshot, Strategy};
use rollplan_core::status;
use rollplan_core::template::{Template, Value};
use rollplan_core::time::Time;

use crate::state::{Fields, HELD_DEADLINE, HELD_MIN_READY};

/// A snapshot with the ReplicaSets by their role.
pub(crate) struct Observed<'a> {
    pub(crate) snapshot: &'a Snapshot,
    /// The digest of the current template.
    pub(crate) digest: &'a str,
    /// The fields as they are, unless the strategy is Recreate.
    pub(crate) fields: Option<Fields>,
    /// The ReplicaSet with the current template.
    pub(crate) new: Option<&'a ReplicaSet>,
    /// The others, oldest first.
    pub(crate) old: Vec<&'a ReplicaSet>,
}

// === impl Observed ===

impl<'a> Observed<'a> {
    pub(crate) fn new(snapshot: &'a Snapshot, interrupt: &dyn Interrupt) -> Self {
        let deployment = &snapshot.deployment;
        let (new, mut old) = roles(snapshot, interrupt);
        let uid = &deployment.metadata.uid;
        let is_owned =
            |set: &ReplicaSet| set.metadata.controller().is_some_and(|it| it.uid == *uid);
        old.retain(|set| is_owned(set));
        Self {
            snapshot,
            digest: deployment.spec.template.canonical_sha256(),
            fields: Fields::of(deployment),
            new: new.filter(|set| is_owned(set)),
            old,
        }
    }

    pub(crate) fn deployment(&self) -> &'a Deployment {
        &self.snapshot.deployment
    }

    pub(crate) fn now(&self) -> Time {
        self.snapshot.now
    }

    pub(crate) fn replicas(&self) -> i32 {
        self.deployment().spec.replicas
    }

    /// The ReplicaSets of the Deployment.
    pub(crate) fn sets(&self) -> impl Iterator<Item = &'a ReplicaSet> {
        self.old.iter().copied().chain(self.new)
    }

    /// Whether the fields hold a canary.
    pub(crate) fn is_held(&self) -> bool {
        let spec = &self.deployment().spec;
        spec.min_ready_seconds == HELD_MIN_READY && spec.progress_deadline_seconds == HELD_DEADLINE
    }

    /// Whether at least one of the fields that only a hold has is left.
    pub(crate) fn has_field_of_hold(&self) -> bool {
        let spec = &self.deployment().spec;
        spec.min_ready_seconds == HELD_MIN_READY || spec.progress_deadline_seconds == HELD_DEADLINE
    }

    /// The ReplicaSet with this template.
    pub(crate) fn set_of(&self, digest: &str) -> Option<&'a ReplicaSet> {
        self.sets()
            .find(|set| set.template.canonical_sha256() == digest)
    }

    /// The highest revision of the ReplicaSets with other templates than the one with this digest.
    pub(crate) fn revision_besides(&self, digest: &str) -> i64 {
        let others = self
            .sets()
            .filter(|set| set.template.canonical_sha256() != digest);
        max_revision(others.map(|set| &set.metadata.annotations))
    }

    /// Whether the rollout is complete, in its status as well as in its ReplicaSets.
    pub(crate) fn is_complete(&self) -> bool {
        let deployment = self.deployment();
        let size = self.new.map_or(0, |set| set.replicas);
        let is_observed = |set: &ReplicaSet| {
            set.status.observed_generation >= set.metadata.generation
                && set.status.replicas == set.replicas
        };
        status::is_complete(deployment, &deployment.status)
            && size == self.replicas()
            && self.old.iter().all(|set| set.replicas == 0)
            && self.sets().all(is_observed)
    }

    /// The pods of a ReplicaSet that exist and do not terminate.
    pub(crate) fn pods(&self, set: &ReplicaSet) -> impl Iterator<Item = &'a Pod> {
        let uid = set.metadata.uid.clone();
        self.snapshot.pods.iter().filter(move |pod| {
            pod.metadata.controller().is_some_and(|it| it.uid == uid)
                && pod.metadata.deletion_timestamp.is_none()
                && pod.phase != "Failed"
                && pod.phase != "Succeeded"
        })
    }

    /// The number of pods of a ReplicaSet that have been ready for this number of seconds. At most its size, because it may
    /// delete the others at any time.
    pub(crate) fn available(&self, set: &ReplicaSet, min_ready_seconds: i32) -> i32 {
        let seconds = i64::from(min_ready_seconds);
        let is_available = |since: Time| seconds == 0 || since.plus_seconds(seconds) <= self.now();
        let count = self
            .pods(set)
            .filter(|pod| ready_since(pod).is_some_and(is_available))
            .count();
        i32::try_from(count).unwrap_or(i32::MAX).min(set.replicas)
    }

    /// The number of really available pods of all ReplicaSets except for one.
    pub(crate) fn available_besides(
        &self,
        set: Option<&ReplicaSet>,
        min_ready_seconds: i32,
    ) -> i32 {
        let uid = set.map(|set| &set.metadata.uid);
        let others = self.sets().filter(|it| Some(&it.metadata.uid) != uid);
        let counts = others.map(|set| self.available(set, min_ready_seconds));
        counts.fold(0, i32::saturating_add)
    }

    /// The snapshot with the fields of the user instead of those of a hold, so that the verdict is about the pods alone.
    pub(crate) fn with_fields(&self, user: Fields) -> Snapshot {
        Snapshot {
            deployment: with_user_fields(self.deployment(), user),
            ..self.snapshot.clone()
        }
    }
}

/// A Deployment with the fields of the user.
fn with_user_fields(deployment: &Deployment, user: Fields) -> Deployment {
    let mut deployment = deployment.clone();
    let spec = &mut deployment.spec;
    spec.strategy = Strategy::RollingUpdate {
        max_surge: user.max_surge,
        max_unavailable: user.max_unavailable,
    };
    spec.min_ready_seconds = user.min_ready_seconds;
    spec.progress_deadline_seconds = user.progress_deadline_seconds;
    deployment
}

/// The template of a ReplicaSet as its Deployment had it.
pub(crate) fn template_of(set: &ReplicaSet) -> Value {
    without_hash(set.template.value())
}

/// The digest of a template as the API server will store it.
pub(crate) fn stored_digest(template: &Template) -> String {
    Template::from(template.defaulted().clone())
        .canonical_sha256()
        .to_owned()
}

/// Since when a pod is ready, if it is.
pub(crate) fn ready_since(pod: &Pod) -> Option<Time> {
    let ready = pod.conditions.iter().find(|it| it.kind == "Ready")?;
    if ready.status == "True" {
        ready.last_transition_time
    } else {
        None
    }
}

/// When a container of a pod was last restarted.
pub(crate) fn restarted_at(pod: &Pod) -> Option<Time> {
    let restarted = pod.containers.iter().filter(|it| it.restarts > 0);
    let times = restarted.flat_map(|it| {
        let started = match it.state {
            ContainerState::Running { started_at } => started_at,
            _ => None,
        };
        let ended = match it.last_state {
            ContainerState::Terminated { finished_at, .. } => finished_at,
            _ => None,
        };
        [started, ended]
    });
    times.flatten().max()
}
