//! Objects that are being deleted: what they wait for.

use rollplan_core::snapshot::{ContainerState, ObjectMeta, Pod};
use rollplan_core::time::Time;

use super::{Blocker, Cause};
use crate::observe::pod::is_node_lost;
use crate::text::{NAME_MAX, one_line, or, word};

/// A finalizer of Kubernetes.
struct Finalizer {
    name: &'static str,
    /// What must happen before it is removed.
    what: &'static str,
    /// What to check if it stays.
    remedy: &'static str,
}

const FINALIZERS: [Finalizer; 7] = [
    // garbage collector: apimachinery, pkg/apis/meta/v1/types.go.
    Finalizer {
        name: "foregroundDeletion",
        what: "its dependents must be deleted first",
        remedy: "check its dependents, which may have finalizers of their own",
    },
    Finalizer {
        name: "orphan",
        what: "its dependents must be released first",
        remedy: "",
    },
    // pkg/controller/volume/pvcprotection, pvprotection.
    Finalizer {
        name: "kubernetes.io/pvc-protection",
        what: "no pod may use it",
        remedy: "delete the pods that use it (Used By in the output of kubectl describe pvc)",
    },
    Finalizer {
        name: "kubernetes.io/pv-protection",
        what: "no claim may be bound to it",
        remedy: "delete the claim that is bound to it",
    },
    // cloud-provider: service/helpers/helper.go.
    Finalizer {
        name: "service.kubernetes.io/load-balancer-cleanup",
        what: "the cloud provider must delete the load balancer first",
        remedy: "check the cloud controller manager, and the events of the Service",
    },
    // pkg/controller/job.
    Finalizer {
        name: "batch.kubernetes.io/job-tracking",
        what: "the Job controller must count it first",
        remedy: "check that the Job controller is running",
    },
    // pkg/controller/resourceclaim.
    Finalizer {
        name: "resource.kubernetes.io/delete-protection",
        what: "no pod may use it",
        remedy: "delete the pods that use it",
    },
];

/// The blocker if the deletion of an object waits for finalizers.
pub(crate) fn finalizers(metadata: &ObjectMeta, now: Time) -> Option<Blocker> {
    let since = metadata.deletion_timestamp?;
    let known = |name: &str| FINALIZERS.iter().find(|known| known.name == name);
    let named: Vec<String> = metadata
        .finalizers
        .iter()
        .map(|name| {
            let what = known(name).map_or("its controller must remove it", |known| known.what);
            format!("{} ({what})", one_line(name, NAME_MAX))
        })
        .collect();
    let noun = match named.len() {
        0 => return None,
        1 => "finalizer",
        _ => "finalizers",
    };
    let age = now.since(since);
    let message = format!(
        "its deletion has waited {age} for {noun} {}",
        named.join(", ")
    );
    let remedy = metadata
        .finalizers
        .iter()
        .find_map(|name| match known(name) {
            Some(known) => Some(known.remedy.to_owned()).filter(|remedy| !remedy.is_empty()),
            None => Some(format!(
                "check the controller that removes finalizer {}",
                one_line(name, NAME_MAX)
            )),
        });
    let mut blocker = Blocker::new(Cause::Deleting, message, remedy.unwrap_or_default());
    blocker.since = Some(since);
    Some(blocker)
}

/// The progress of a pod that is being deleted. Its deletion timestamp is the end of its grace period.
pub(crate) fn progress(due: Time, now: Time) -> String {
    if due > now {
        format!("{} of its grace period left", due.since(now))
    } else {
        format!("{} past its grace period", now.since(due))
    }
}

/// The progress of a terminating pod. The deletion timestamp of a pod is the end of its grace period.
pub(crate) fn pod_progress(pod: &Pod, now: Time) -> String {
    match pod.metadata.deletion_timestamp {
        Some(due) => format!("Terminating, {}", progress(due, now)),
        None => or(&pod.phase, "Pending").to_owned(),
    }
}

/// What to do about a pod that has not ended after its grace period. Empty within it.
pub(crate) fn remedy(pod: &Pod, now: Time) -> String {
    let metadata = &pod.metadata;
    if metadata.deletion_timestamp.is_none_or(|due| due > now) {
        return String::new();
    }
    if let Some(name) = metadata.finalizers.first().filter(|_| has_ended(pod)) {
        let name = one_line(name, NAME_MAX);
        return format!("check the controller that removes finalizer {name} of the pod");
    }
    match (pod.node_name.as_str(), is_node_lost(pod)) {
        ("", _) => format!(
            "check what delays it: kubectl describe pod {} -n {}",
            word(&metadata.name),
            word(&metadata.namespace)
        ),
        (_, true) => of_lost_node(pod),
        (node, false) => format!(
            "check what delays it, a container that does not stop or its node: kubectl describe node {}",
            word(node)
        ),
    }
}

/// What to do about a pod on a node that has stopped reporting: deleting the pod is not enough, because the API server waits
/// for the kubelet.
pub(crate) fn of_lost_node(pod: &Pod) -> String {
    let metadata = &pod.metadata;
    let name = word(&metadata.name);
    format!(
        "repair the node, or delete it if it does not come back: kubectl describe node {}; kubectl delete pod {name} -n {} --force \
         only if {name} certainly no longer runs there, because otherwise two pods may use its name and its data",
        word(&pod.node_name),
        word(&metadata.namespace)
    )
}

/// Whether all containers of a pod have ended.
fn has_ended(pod: &Pod) -> bool {
    let mut containers = pod.containers.iter();
    matches!(pod.phase.as_str(), "Failed" | "Succeeded")
        || containers.all(|container| matches!(container.state, ContainerState::Terminated { .. }))
}
