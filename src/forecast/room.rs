//! What a snapshot shows about room for more pods: quotas, and pods that no node can run. What the change of a template can
//! resolve does not limit the rollout.

use std::collections::BTreeMap;

use rollplan_core::autoscaler::Reaction;
use rollplan_core::interrupt::Never;
use rollplan_core::snapshot::{Pod, ReplicaSet, Snapshot};
use rollplan_core::status::REPLICA_FAILURE;
use rollplan_core::template::{Quantity, Template, Value, template_changes};

use crate::change::is_own;

/// The fields of a pod that decide on which nodes it can run, in addition to its requests.
const PLACEMENT: [&str; 14] = [
    "spec.affinity",
    "spec.hostNetwork",
    "spec.nodeName",
    "spec.nodeSelector",
    "spec.os",
    "spec.overhead",
    "spec.preemptionPolicy",
    "spec.priority",
    "spec.resourceClaims",
    "spec.runtimeClassName",
    "spec.schedulerName",
    "spec.schedulingGates",
    "spec.tolerations",
    "spec.volumes",
];

/// Whether a ReplicaSet reports that a quota has no room for the pods of the Deployment.
pub(crate) fn exceeds_quota(snapshot: &Snapshot) -> bool {
    let sets = snapshot.replica_sets.iter();
    let mut own = sets.filter(|set| is_own(snapshot, set));
    let after = &snapshot.deployment.spec.template;
    own.any(|set| {
        let mut conditions = set.status.conditions.iter();
        conditions.any(|condition| {
            condition.kind == REPLICA_FAILURE
                && condition.message.contains("exceeded quota")
                && !is_within(&condition.message, &set.template, after)
        })
    })
}

/// Whether the new template requests less of the resources that exceed a quota. The admission plugin names them: "requested:
/// requests.cpu=2, used: …".
fn is_within(message: &str, before: &Template, after: &Template) -> bool {
    let (_, rest) = message.split_once("requested: ").unwrap_or_default();
    let (requested, _) = rest.split_once(", used: ").unwrap_or_default();
    let lowered = lowered(before, after);
    requested.split(',').any(|it| {
        let (name, _) = it.split_once('=').unwrap_or_default();
        let name = name.trim();
        let name = if name.contains('.') {
            name.to_owned()
        } else {
            // As in a quota: "cpu" is "requests.cpu".
            format!("requests.{name}")
        };
        lowered.contains(&name)
    })
}

/// Whether a pod of the Deployment waits for a node, and nothing makes room for it.
pub(crate) fn is_unschedulable(snapshot: &Snapshot, pod: &Pod) -> bool {
    let mut conditions = pod.conditions.iter();
    let is_adding_node = || {
        let events = snapshot.events.iter();
        let about = events.filter(|event| event.object_uid == pod.metadata.uid);
        Reaction::latest(about).is_some_and(|reaction| reaction.adds_node(snapshot.now))
    };
    pod.metadata.deletion_timestamp.is_none()
        && pod.nominated_node_name.is_empty()
        && conditions.any(|it| {
            it.kind == "PodScheduled" && it.status == "False" && it.reason == "Unschedulable"
        })
        && !is_adding_node()
}

/// Whether pods with the template after the changes can run on no node either, as one shows that cannot.
pub(crate) fn lacks_nodes(snapshot: &Snapshot) -> bool {
    let sets = snapshot.replica_sets.iter();
    let own = sets.filter(|set| is_own(snapshot, set));
    let own: BTreeMap<&str, &ReplicaSet> =
        own.map(|set| (set.metadata.uid.as_str(), set)).collect();
    let after = &snapshot.deployment.spec.template;
    let pods = snapshot.pods.iter();
    let mut waiting = pods.filter(|pod| is_unschedulable(snapshot, pod));
    let mut judged = BTreeMap::new();
    waiting.any(|pod| {
        let owner = pod.metadata.controller();
        let set = owner.and_then(|owner| own.get(owner.uid.as_str()));
        set.is_some_and(|set| {
            let key = set.metadata.uid.as_str();
            *judged
                .entry(key)
                .or_insert_with(|| !changes_placement(&set.template, after))
        })
    })
}

/// Whether pods of a template can run on nodes on which those of another one cannot.
fn changes_placement(before: &Template, after: &Template) -> bool {
    let spreads = ["affinity", "topologySpreadConstraints"];
    let spec = after.value().get("spec");
    let spreads = spreads
        .iter()
        .any(|key| spec.and_then(|spec| spec.get(key)).is_some());
    let changes = template_changes(before, after, &Never);
    let mut paths = changes.iter().map(|change| change.path.as_str());
    paths.any(|path| {
        PLACEMENT.iter().any(|field| path.starts_with(field))
            || path.starts_with("spec.topologySpreadConstraints")
            || path.contains(".ports")
            || spreads && path.starts_with("metadata.labels")
    }) || !lowered(before, after).is_empty()
}

/// The requests and limits that all containers together have less of, for example "requests.cpu".
fn lowered(before: &Template, after: &Template) -> Vec<String> {
    let (before, after) = (demand(before), demand(after));
    let lowered = before
        .into_iter()
        .filter(|(name, nanos)| after.get(name).copied().unwrap_or(0) < *nanos);
    lowered.map(|(name, _)| name).collect()
}

/// What all containers ask for. Limits are the default of requests.
fn demand(template: &Template) -> BTreeMap<String, i128> {
    let mut demand = BTreeMap::new();
    let spec = template.value().get("spec");
    let containers = ["initContainers", "containers"]
        .into_iter()
        .filter_map(|key| spec?.get(key)?.as_list());
    for container in containers.flatten() {
        let of = |kind: &str| {
            let resources = container.at(&["resources", kind]).and_then(Value::as_map);
            resources.cloned().unwrap_or_default()
        };
        let limits = of("limits");
        let mut requests = limits.clone();
        requests.extend(of("requests"));
        for (kind, resources) in [("limits", limits), ("requests", requests)] {
            for (name, value) in resources {
                let nanos = Quantity::of(&value).and_then(|it| it.to_nanos());
                let nanos = nanos.unwrap_or(0);
                let sum: &mut i128 = demand.entry(format!("{kind}.{name}")).or_default();
                *sum = sum.saturating_add(nanos);
            }
        }
    }
    demand
}
