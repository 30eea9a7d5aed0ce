//! Determines when the pods of a workload's current revision started, and the state of its rollout.

use std::collections::{BTreeMap, HashMap};

use rollplan_core::revision::REVISION;
use rollplan_core::template::Value;
use rollplan_core::time::Time;
use rollplan_restart::{Rollout, Started};

use crate::objects::Found;
use crate::read::kubernetes::{IntOrString, PodLabels};
use crate::read::{Lenient, objects};

/// The annotation of a DaemonSet with the generation of its template, which is a label of its pods.
const DAEMON_SET_GENERATION: &str = "deprecated.daemonset.template.generation";

/// The reasons of waiting containers that an older configuration may cause.
const FAILING: [&str; 3] = [
    "CrashLoopBackOff",
    "CreateContainerConfigError",
    "RunContainerError",
];

objects! {
    /// A workload of any kind.
    struct WorkloadObject {
        metadata: WorkloadMetadata = "metadata",
        /// The caller may name the path of the template in it.
        spec: Value = "spec",
        status: Lenient<Option<WorkloadStatus>> = "status",
    }

    struct WorkloadMetadata {
        generation: Option<i64> = "generation",
        creation_timestamp: Option<Time> = "creationTimestamp",
        deletion_timestamp: Option<Time> = "deletionTimestamp",
        annotations: BTreeMap<String, String> = "annotations",
    }

    struct WorkloadStatus {
        /// Rollouts of Argo have a string.
        observed_generation: Option<IntOrString> = "observedGeneration",
        replicas: Option<i64> = "replicas",
        updated_replicas: i64 = "updatedReplicas",
        ready_replicas: i64 = "readyReplicas",
        available_replicas: i64 = "availableReplicas",
        update_revision: String = "updateRevision",
        desired_number_scheduled: i64 = "desiredNumberScheduled",
        updated_number_scheduled: i64 = "updatedNumberScheduled",
        number_available: i64 = "numberAvailable",
        conditions: Lenient<Vec<WorkloadCondition>> = "conditions",
    }

    struct WorkloadCondition {
        kind: String = "type",
        reason: String = "reason",
    }

    /// apps/v1 ReplicaSet.
    struct SetObject {
        metadata: SetMetadata = "metadata",
        status: SetStatus = "status",
    }

    struct SetMetadata {
        creation_timestamp: Option<Time> = "creationTimestamp",
        annotations: BTreeMap<String, String> = "annotations",
    }

    struct SetStatus {
        replicas: i64 = "replicas",
    }

    /// core/v1 Pod.
    struct PodObject {
        metadata: PodMetadata = "metadata",
        status: PodStatus = "status",
    }

    struct PodMetadata {
        creation_timestamp: Option<Time> = "creationTimestamp",
        deletion_timestamp: Option<Time> = "deletionTimestamp",
        labels: PodLabels = "labels",
        annotations: PodAnnotations = "annotations",
    }

    struct PodAnnotations {
        /// An adapter keeps the last resource version at which the pod had no node.
        unscheduled_version: String = "rollplan.dev/unscheduled-version",
    }

    struct PodStatus {
        phase: String = "phase",
        init_container_statuses: Vec<ContainerStatus> = "initContainerStatuses",
        container_statuses: Vec<ContainerStatus> = "containerStatuses",
    }

    struct ContainerStatus {
        state: ContainerState = "state",
    }

    /// At most one field is set.
    struct ContainerState {
        waiting: Waiting = "waiting",
        running: Start = "running",
        terminated: Start = "terminated",
    }

    struct Waiting {
        reason: String = "reason",
    }

    struct Start {
        started_at: Option<Time> = "startedAt",
    }
}

/// Objects by the UID of their controller.
type ByOwner<T> = HashMap<String, Vec<T>>;

/// Pods and ReplicaSets by their controllers.
#[derive(Default)]
pub(super) struct Pods {
    pods: ByOwner<PodState>,
    sets: ByOwner<Set>,
}

struct PodState {
    revision_hash: String,
    generation: String,
    created_at: Option<Time>,
    unscheduled_version: Option<u64>,
    /// The earliest start of its running containers, and of its init containers, which may have passed on what they read.
    started_at: Option<Time>,
    is_failing: bool,
}

struct Set {
    uid: String,
    revision: i64,
    created_at: Option<Time>,
    replicas: i64,
}

/// The state of a workload's pods, as far as known.
#[derive(Default)]
pub(super) struct PodsState {
    pub(super) pods: Started,
    pub(super) revision_at: Option<Time>,
    /// When the oldest of these pods was created.
    pub(super) oldest_created_at: Option<Time>,
    /// A resource version at which none of these pods had a node yet.
    pub(super) unscheduled_version: Option<u64>,
    /// Whether a container of these pods keeps failing.
    pub(super) is_failing: bool,
}

// === impl Pods ===

impl Pods {
    pub(super) fn pod(&mut self, object: &Found<'_>) {
        let Some(owner) = object.metadata.controller_uid() else {
            return;
        };
        let PodObject { metadata, status } = object.read_leniently();
        let is_over = matches!(&*status.phase, "Succeeded" | "Failed");
        if is_over || metadata.deletion_timestamp.is_some() {
            return;
        }
        let containers = &status.container_statuses;
        let running = containers
            .iter()
            .filter_map(|it| it.state.running.started_at);
        let init = status.init_container_statuses.iter().map(|it| &it.state);
        let init = init.filter_map(|it| it.running.started_at.or(it.terminated.started_at));
        let is_failing = |it: &ContainerStatus| FAILING.contains(&&*it.state.waiting.reason);
        let PodLabels {
            revision,
            generation,
        } = metadata.labels;
        let pods = self.pods.entry(owner.to_owned()).or_default();
        pods.push(PodState {
            revision_hash: revision.unwrap_or_default(),
            generation: generation.unwrap_or_default(),
            created_at: metadata.creation_timestamp,
            unscheduled_version: metadata.annotations.unscheduled_version.parse().ok(),
            started_at: running.chain(init).min(),
            is_failing: containers.iter().any(is_failing),
        });
    }

    pub(super) fn set(&mut self, object: &Found<'_>) {
        let Some(owner) = object.metadata.controller_uid() else {
            return;
        };
        let SetObject { metadata, status } = object.read_leniently();
        let sets = self.sets.entry(owner.to_owned()).or_default();
        sets.push(Set {
            uid: object.metadata.uid.clone().into_owned(),
            revision: revision(&metadata.annotations).unwrap_or_default(),
            created_at: metadata.creation_timestamp,
            replicas: status.replicas,
        });
    }

    /// The state of the pods of a workload.
    pub(super) fn of(&self, uid: &str, kind: &str, workload: &WorkloadObject) -> PodsState {
        if let Some(sets) = self.sets.get(uid) {
            return self.of_sets(sets, workload);
        }
        let pods = self.pods.get(uid).map_or(&[][..], Vec::as_slice);
        let metadata = &workload.metadata;
        let created_at = metadata.creation_timestamp;
        let status = workload.status.0.as_ref();
        let is_new = status.is_some_and(|it| it.observed_generation.is_none());
        if is_new && metadata.generation.is_some() {
            return PodsState::of(starting(created_at));
        }
        let Some(status) = status.filter(|it| it.is_about(metadata)) else {
            return if pods.is_empty() {
                PodsState::default()
            } else {
                // The current revision is not known.
                PodsState::of(starting(created_at))
            };
        };
        let replicas = workload.replicas();
        let (label, revision, expected, desired): (fn(&PodState) -> &str, &str, _, _) = match kind {
            // Its pods belong to ReplicaSets, which are not in the request.
            "Deployment" => {
                return match (status.replicas.unwrap_or_default(), replicas) {
                    (0, Some(0)) => PodsState::of(Started::Never),
                    (0, _) => PodsState::of(starting(created_at)),
                    _ => PodsState::default(),
                };
            }
            "StatefulSet" => (
                |it| &it.revision_hash,
                &status.update_revision,
                status.updated_replicas,
                replicas.unwrap_or(1).saturating_sub(workload.partition()),
            ),
            "DaemonSet" => (
                |it| &it.generation,
                metadata
                    .annotations
                    .get(DAEMON_SET_GENERATION)
                    .map_or("", String::as_str),
                status.updated_number_scheduled,
                status.desired_number_scheduled,
            ),
            _ => match status.replicas {
                Some(expected) => (|_| "", "", expected, replicas.unwrap_or(expected)),
                None => return PodsState::default(),
            },
        };
        // The request does not contain the pods.
        if pods.is_empty() && expected > 0 {
            return PodsState::default();
        }
        let current: Vec<&PodState> = pods.iter().filter(|it| label(it) == revision).collect();
        PodsState {
            pods: started(&current, expected, desired, created_at),
            ..PodsState::about(&current)
        }
    }

    /// The state of the pods of the ReplicaSet with the highest revision.
    fn of_sets(&self, sets: &[Set], workload: &WorkloadObject) -> PodsState {
        let Some(set) = sets.iter().max_by_key(|it| it.revision) else {
            return PodsState::default();
        };
        let revision = revision(&workload.metadata.annotations);
        // The ReplicaSet of the current template does not exist yet, or the workload has not got its revision yet.
        if revision.is_some_and(|revision| revision != set.revision) {
            return PodsState::of(starting(None));
        }
        let pods = self.pods.get(&set.uid).map_or(&[][..], Vec::as_slice);
        let pods: Vec<&PodState> = pods.iter().collect();
        let desired = workload.replicas().unwrap_or(1);
        PodsState {
            pods: if pods.is_empty() && set.replicas > 0 {
                // According to the ReplicaSet, there are pods, but the request does not contain them.
                Started::Unknown
            } else {
                started(&pods, set.replicas, desired, set.created_at)
            },
            revision_at: set.created_at,
            ..PodsState::about(&pods)
        }
    }
}

// === impl PodsState ===

impl PodsState {
    fn of(pods: Started) -> Self {
        Self {
            pods,
            ..Self::default()
        }
    }

    /// What these pods show, except for their starts.
    fn about(pods: &[&PodState]) -> Self {
        let created: Option<Vec<Time>> = pods.iter().map(|it| it.created_at).collect();
        let unscheduled: Option<Vec<u64>> = pods.iter().map(|it| it.unscheduled_version).collect();
        Self {
            oldest_created_at: created.and_then(|it| it.into_iter().min()),
            unscheduled_version: unscheduled.and_then(|it| it.into_iter().min()),
            is_failing: pods.iter().any(|it| it.is_failing),
            ..Self::default()
        }
    }
}

/// The starts of the pods of a revision. `expected` is their number according to a status, and `desired` the desired number.
fn started(pods: &[&PodState], expected: i64, desired: i64, revision_at: Option<Time>) -> Started {
    if pods.is_empty() && desired <= 0 {
        return Started::Never;
    }
    let reported = pods.iter().filter_map(|it| it.started_at).min();
    let unstarted = pods.iter().filter(|it| it.started_at.is_none());
    let unstarted = unstarted
        .map(|it| it.created_at.unwrap_or(Time::default()))
        .min();
    // Pods that are missing were created after those that are not.
    let newest = pods.iter().filter_map(|it| it.created_at).max();
    let count = i64::try_from(pods.len()).unwrap_or(i64::MAX);
    let missing =
        (count < expected.max(1)).then(|| newest.max(revision_at).unwrap_or(Time::default()));
    match (unstarted.into_iter().chain(missing).min(), reported) {
        (Some(since), reported) => Started::Starting { reported, since },
        (None, Some(at)) => Started::At(at),
        (None, None) => starting(None),
    }
}

/// Pods that may have started since a time without being reported.
fn starting(since: Option<Time>) -> Started {
    Started::Starting {
        reported: None,
        since: since.unwrap_or_default(),
    }
}

/// The revision of a Deployment or ReplicaSet.
fn revision(annotations: &BTreeMap<String, String>) -> Option<i64> {
    annotations.get(REVISION)?.parse().ok()
}

// === impl WorkloadObject ===

impl WorkloadObject {
    fn integer(&self, path: &[&str]) -> Option<i64> {
        self.spec.at(path)?.as_number()?.as_i64()
    }

    fn replicas(&self) -> Option<i64> {
        self.integer(&["replicas"])
    }

    /// The number of pods of a StatefulSet that keep the earlier revision.
    fn partition(&self) -> i64 {
        let partition = self.integer(&["updateStrategy", "rollingUpdate", "partition"]);
        partition.unwrap_or_default()
    }

    /// The state of its rollout according to the counters in its status.
    pub(super) fn rollout(&self, kind: &str, is_failing: bool) -> Rollout {
        if matches!(kind, "CronJob" | "Job") {
            return Rollout::Complete;
        }
        // Without these fields, the state is unknown, because objects may have been trimmed.
        let status = self.status.0.as_ref();
        let Some(status) = status.filter(|it| it.observed_generation.is_some()) else {
            return Rollout::Unknown;
        };
        if !status.is_about(&self.metadata) {
            return Rollout::Progressing;
        }
        let replicas = self.replicas().unwrap_or(1);
        let is_complete = match kind {
            "StatefulSet" => {
                status.updated_replicas >= replicas.saturating_sub(self.partition())
                    && status.ready_replicas >= replicas
            }
            "DaemonSet" => {
                let desired = status.desired_number_scheduled;
                status.updated_number_scheduled >= desired && status.number_available >= desired
            }
            _ => {
                let updated = status.updated_replicas;
                updated >= replicas
                    && status.replicas.unwrap_or_default() <= updated
                    && status.available_replicas >= updated
            }
        };
        let is_late = |it: &WorkloadCondition| {
            it.kind == "Progressing" && it.reason == "ProgressDeadlineExceeded"
        };
        if is_complete {
            Rollout::Complete
        } else if is_failing || status.conditions.0.iter().any(is_late) {
            Rollout::Stalled
        } else {
            Rollout::Progressing
        }
    }
}

// === impl WorkloadStatus ===

impl WorkloadStatus {
    /// Whether it is about the current generation.
    fn is_about(&self, metadata: &WorkloadMetadata) -> bool {
        let generation = metadata.generation.unwrap_or_default();
        matches!(self.observed_generation, Some(IntOrString::Int(observed)) if observed >= generation)
    }
}

#[cfg(test)]
mod tests {
    use rollplan_core::interrupt::Never;
    use rollplan_restart::Rollout::{Complete, Progressing, Stalled, Unknown};
    use serde_json::{Value as Json, json};

    use super::*;
    use crate::read::{Json as Text, read_all};

    fn rollout(kind: &str, status: &Json, is_failing: bool) -> Rollout {
        let spec = json!({"replicas": 3, "updateStrategy": {"rollingUpdate": {"partition": 1}}});
        let object = json!({"metadata": {"generation": 2}, "spec": spec, "status": status});
        let object = object.to_string();
        let object: WorkloadObject = read_all(&mut Text::new(&object, &Never)).unwrap();
        object.rollout(kind, is_failing)
    }

    #[test]
    fn rollouts_are_judged_by_the_counters_of_their_kind() {
        let deployment = json!({"observedGeneration": 2, "replicas": 3, "updatedReplicas": 3, "availableReplicas": 3});
        let set = json!({"observedGeneration": 2, "updatedReplicas": 2, "readyReplicas": 3});
        let daemons = json!({"observedGeneration": 2, "desiredNumberScheduled": 2, "updatedNumberScheduled": 2,
            "numberAvailable": 2});
        let with = |status: &Json, field: &str, value: Json| {
            let mut status = status.clone();
            status[field] = value;
            status
        };
        let late = json!([{"type": "Progressing", "reason": "ProgressDeadlineExceeded"}]);
        for (kind, status, expected) in [
            ("Job", json!({}), Complete),
            ("CronJob", json!({}), Complete),
            ("Deployment", json!({"replicas": 3}), Unknown),
            ("Deployment", deployment.clone(), Complete),
            (
                "Deployment",
                with(&deployment, "observedGeneration", json!(1)),
                Progressing,
            ),
            (
                "Deployment",
                with(&deployment, "replicas", json!(4)),
                Progressing,
            ),
            (
                "Deployment",
                with(&deployment, "updatedReplicas", json!(2)),
                Progressing,
            ),
            (
                "Deployment",
                with(&deployment, "availableReplicas", json!(2)),
                Progressing,
            ),
            (
                "Deployment",
                with(&deployment, "conditions", late.clone()),
                Complete,
            ),
            (
                "Deployment",
                with(&with(&deployment, "replicas", json!(4)), "conditions", late),
                Stalled,
            ),
            ("StatefulSet", set.clone(), Complete),
            (
                "StatefulSet",
                with(&set, "updatedReplicas", json!(1)),
                Progressing,
            ),
            (
                "StatefulSet",
                with(&set, "readyReplicas", json!(2)),
                Progressing,
            ),
            ("DaemonSet", daemons.clone(), Complete),
            (
                "DaemonSet",
                with(&daemons, "updatedNumberScheduled", json!(1)),
                Progressing,
            ),
            (
                "DaemonSet",
                with(&daemons, "numberAvailable", json!(1)),
                Progressing,
            ),
            // Custom resources may have fields of other types.
            (
                "Rollout",
                with(&deployment, "observedGeneration", json!("2")),
                Progressing,
            ),
            (
                "Other",
                with(&deployment, "conditions", json!({})),
                Complete,
            ),
            ("Other", with(&deployment, "replicas", json!({})), Unknown),
        ] {
            assert_eq!(rollout(kind, &status, false), expected, "{kind} {status}");
        }
        let stuck = with(&deployment, "availableReplicas", json!(2));
        assert_eq!(rollout("Deployment", &stuck, true), Stalled);
    }
}
