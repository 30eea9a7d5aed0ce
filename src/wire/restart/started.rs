//! Determines when the pods of a workload's current revision started, and the state of its rollout.

use std::collections::HashMap;

use rollplan_core::template::Value;
use rollplan_core::time::Time;
use rollplan_restart::Started;

use super::json::{at, integer, items, text, time};
use crate::proto;
use crate::wire::objects::Metadata;

/// The annotation in which an adapter keeps the last resource version at which a pod had no node.
const UNSCHEDULED_VERSION: &str = "rollplan.dev/unscheduled-version";
const REVISION: &str = "deployment.kubernetes.io/revision";
/// The label of pods with the revision of a StatefulSet or DaemonSet.
const REVISION_HASH: &str = "controller-revision-hash";
/// The generation of a DaemonSet's template: a label of pods, and an annotation of the DaemonSet.
const GENERATION: &str = "pod-template-generation";
const DAEMON_SET_GENERATION: &str = "deprecated.daemonset.template.generation";

/// The reasons of waiting containers that an older configuration may cause.
const FAILING: [&str; 3] = [
    "CrashLoopBackOff",
    "CreateContainerConfigError",
    "RunContainerError",
];

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
    pub(super) fn pod(&mut self, identity: &Metadata<'_>, metadata: &Value, status: &Value) {
        let Some(owner) = identity.controller_uid() else {
            return;
        };
        let is_over = matches!(text(status, "/phase"), "Succeeded" | "Failed");
        if is_over || at(metadata, "/deletionTimestamp").is_some() {
            return;
        }
        let containers = items(status, "/containerStatuses");
        let running = containers
            .iter()
            .filter_map(|it| time(it, "/state/running/startedAt"));
        let init = items(status, "/initContainerStatuses")
            .iter()
            .filter_map(|it| {
                let running = time(it, "/state/running/startedAt");
                running.or_else(|| time(it, "/state/terminated/startedAt"))
            });
        let is_failing = |it: &Value| FAILING.contains(&text(it, "/state/waiting/reason"));
        let labels = at(metadata, "/labels");
        let label = |key: &str| {
            let label = labels.and_then(|labels| labels.get(key)?.as_str());
            label.unwrap_or_default().to_owned()
        };
        let pods = self.pods.entry(owner.to_owned()).or_default();
        pods.push(PodState {
            revision_hash: label(REVISION_HASH),
            generation: label(GENERATION),
            created_at: time(metadata, "/creationTimestamp"),
            unscheduled_version: annotation(metadata, UNSCHEDULED_VERSION)
                .and_then(|it| it.parse().ok()),
            started_at: running.chain(init).min(),
            is_failing: containers.iter().any(is_failing),
        });
    }

    pub(super) fn set(&mut self, identity: &Metadata<'_>, metadata: &Value, status: &Value) {
        let Some(owner) = identity.controller_uid() else {
            return;
        };
        let revision = annotation(metadata, REVISION);
        let sets = self.sets.entry(owner.to_owned()).or_default();
        sets.push(Set {
            uid: identity.uid.clone().into_owned(),
            revision: revision.and_then(|it| it.parse().ok()).unwrap_or_default(),
            created_at: time(metadata, "/creationTimestamp"),
            replicas: integer(status, "/replicas").unwrap_or_default(),
        });
    }

    /// The state of the pods of a workload.
    pub(super) fn of(
        &self,
        uid: &str,
        kind: &str,
        metadata: &Value,
        spec: &Value,
        status: &Value,
    ) -> PodsState {
        if let Some(sets) = self.sets.get(uid) {
            return self.of_sets(sets, metadata, spec);
        }
        let pods = self.pods.get(uid).map_or(&[][..], Vec::as_slice);
        let created_at = time(metadata, "/creationTimestamp");
        let is_new = status.as_map().is_some() && at(status, "/observedGeneration").is_none();
        if is_new && at(metadata, "/generation").is_some() {
            return PodsState::of(starting(created_at));
        }
        if !is_observed(metadata, status) {
            return if pods.is_empty() {
                PodsState::default()
            } else {
                // The current revision is not known.
                PodsState::of(starting(created_at))
            };
        }
        let of = |pointer| integer(status, pointer).unwrap_or_default();
        let replicas = integer(spec, "/replicas");
        let (label, revision, expected, desired): (fn(&PodState) -> &str, &str, _, _) = match kind {
            // Its pods belong to ReplicaSets, which are not in the request.
            "Deployment" => {
                return match (of("/replicas"), replicas) {
                    (0, Some(0)) => PodsState::of(Started::Never),
                    (0, _) => PodsState::of(starting(created_at)),
                    _ => PodsState::default(),
                };
            }
            "StatefulSet" => {
                let partition = integer(spec, "/updateStrategy/rollingUpdate/partition");
                let desired = replicas.unwrap_or(1).saturating_sub(partition.unwrap_or(0));
                let revision = text(status, "/updateRevision");
                (
                    |it| &it.revision_hash,
                    revision,
                    of("/updatedReplicas"),
                    desired,
                )
            }
            "DaemonSet" => {
                let generation = annotation(metadata, DAEMON_SET_GENERATION);
                (
                    |it| &it.generation,
                    generation.unwrap_or_default(),
                    of("/updatedNumberScheduled"),
                    of("/desiredNumberScheduled"),
                )
            }
            _ => match integer(status, "/replicas") {
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
    fn of_sets(&self, sets: &[Set], metadata: &Value, spec: &Value) -> PodsState {
        let Some(set) = sets.iter().max_by_key(|it| it.revision) else {
            return PodsState::default();
        };
        let revision = annotation(metadata, REVISION);
        let revision = revision.and_then(|it| it.parse::<i64>().ok());
        // The ReplicaSet of the current template does not exist yet, or the workload has not got its revision yet.
        if revision.is_some_and(|revision| revision != set.revision) {
            return PodsState::of(starting(None));
        }
        let pods = self.pods.get(&set.uid).map_or(&[][..], Vec::as_slice);
        let pods: Vec<&PodState> = pods.iter().collect();
        let desired = integer(spec, "/replicas").unwrap_or(1);
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

fn annotation<'a>(metadata: &'a Value, key: &str) -> Option<&'a str> {
    metadata.at(&["annotations", key])?.as_str()
}

fn is_observed(metadata: &Value, status: &Value) -> bool {
    // Without a status, the state is unknown, because objects may have been trimmed.
    let observed = integer(status, "/observedGeneration");
    let generation = integer(metadata, "/generation").unwrap_or_default();
    observed.is_some_and(|observed| observed >= generation)
}

/// The state of a rollout according to the counters in its status.
pub(super) fn rollout(
    kind: &str,
    metadata: &Value,
    spec: &Value,
    status: &Value,
    is_failing: bool,
) -> proto::RolloutState {
    let count = |pointer: &str| integer(status, pointer).unwrap_or_default();
    let is_complete = match kind {
        "CronJob" | "Job" => return proto::RolloutState::Complete,
        _ if at(status, "/observedGeneration").is_none() => {
            return proto::RolloutState::Unspecified;
        }
        "StatefulSet" => {
            let replicas = integer(spec, "/replicas").unwrap_or(1);
            let partition = integer(spec, "/updateStrategy/rollingUpdate/partition");
            let updated = replicas.saturating_sub(partition.unwrap_or_default());
            count("/updatedReplicas") >= updated && count("/readyReplicas") >= replicas
        }
        "DaemonSet" => {
            let desired = count("/desiredNumberScheduled");
            count("/updatedNumberScheduled") >= desired && count("/numberAvailable") >= desired
        }
        _ => {
            let replicas = integer(spec, "/replicas").unwrap_or(1);
            let updated = count("/updatedReplicas");
            updated >= replicas
                && count("/replicas") <= updated
                && count("/availableReplicas") >= updated
        }
    };
    if !is_observed(metadata, status) {
        return proto::RolloutState::Progressing;
    }
    let conditions = items(status, "/conditions").iter();
    let is_late = conditions
        .filter(|it| text(it, "/type") == "Progressing")
        .any(|it| text(it, "/reason") == "ProgressDeadlineExceeded");
    match is_complete {
        true => proto::RolloutState::Complete,
        false if is_late || is_failing => proto::RolloutState::Stalled,
        false => proto::RolloutState::Progressing,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value as Json, json};

    use super::*;
    use crate::proto::RolloutState::{Complete, Progressing, Stalled, Unspecified};

    #[test]
    fn rollouts_are_judged_by_the_counters_of_their_kind() {
        let metadata = json!({"generation": 2});
        let spec = json!({"replicas": 3, "updateStrategy": {"rollingUpdate": {"partition": 1}}});
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
            ("Deployment", json!({"replicas": 3}), Unspecified),
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
        ] {
            let values = [&metadata, &spec, &status].map(Value::from);
            let [metadata, spec, read] = &values;
            let state = rollout(kind, metadata, spec, read, false);
            assert_eq!(state, expected, "{kind} {status}");
        }
        let stuck = with(&deployment, "availableReplicas", json!(2));
        let [metadata, spec, stuck] = &[&metadata, &spec, &stuck].map(Value::from);
        let state = rollout("Deployment", metadata, spec, stuck, true);
        assert_eq!(state, Stalled);
    }
}
