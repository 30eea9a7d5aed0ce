//! Why an autoscaler adds no node for a pod.

use super::Resolver::{Cluster, Template};
use super::{Row, Table};

/// The remedy for a cloud provider that does not provide a node.
const CLOUD: &str =
    "check why the cloud provider adds no node, for example a quota: the autoscaler tries again";
/// The remedy for pods that no kind of node can run.
const LARGER: &str = "lower the requests of the pods, or allow larger instance types in a NodePool";
/// The remedy for labels that no kind of node has.
const LABELS: &str =
    "correct the nodeSelector or affinity of the template, or let a NodePool provide such nodes";

/// The reasons for node groups in the events `NotTriggerScaleUp` of the cluster autoscaler, besides those of the scheduler:
/// processors/status/eventing_scale_up_processor.go, `ReasonsMessage`.
pub(crate) static GROUPS: Table = Table {
    reasons: &["NotTriggerScaleUp"],
    wrappers: &[],
    endings: &[],
    rows: &[
        // core/scaleup/orchestrator/skippedreasons.go.
        Row::undecided(
            "max node group size reached",
            Cluster,
            "raise the maximum size of a node group",
        ),
        Row::undecided(
            "max cluster <resources...> limit reached",
            Cluster,
            "raise the limits of the cluster autoscaler for <resources>",
        ),
        Row::undecided("in backoff after failed scale-up", Cluster, CLOUD),
        Row::undecided(
            "not ready for scale-up",
            Cluster,
            "check the nodes of the node group: kubectl get nodes",
        ),
    ],
};

/// The events of the cluster autoscaler and of Karpenter that no node is added.
pub(crate) static REFUSALS: Table = Table {
    reasons: &["NotTriggerScaleUp", "FailedScaleUp", "FailedScheduling"],
    wrappers: &[
        // cluster-autoscaler: processors/status/eventing_scale_up_processor.go, Process.
        "pod didn't trigger scale-up (it wouldn't fit if a new node is added): ",
        "pod didn't trigger scale-up: ",
        // karpenter: pkg/controllers/provisioning/scheduling/events.go, PodFailedToScheduleEvent.
        "Failed to schedule pod, ",
        // karpenter: pkg/controllers/provisioning/scheduling/scheduler.go, addToNewNodeClaim, in earlier versions.
        "incompatible with nodepool \"<nodepool>\", daemonset overhead=<overhead...>}, ",
        // karpenter: pkg/scheduling/requirements.go.
        "incompatible requirements, ",
    ],
    endings: &[],
    rows: &[
        // karpenter: pkg/controllers/provisioning/scheduling/scheduler.go.
        Row::undecided(
            "all available instance types exceed limits for nodepool<rest...>",
            Cluster,
            "raise spec.limits of the NodePool",
        ),
        Row::undecided(
            "node limits have been exhausted for nodepool<rest...>",
            Cluster,
            "raise spec.limits of the NodePool",
        ),
        Row::undecided(
            "nodepool requirements filtered out all available instance types<rest...>",
            Cluster,
            "let the NodePool allow more instance types",
        ),
        Row::undecided("no nodepools found<rest...>", Cluster, "create a NodePool"),
        // karpenter: pkg/controllers/provisioning/scheduling/nodeclaim.go, InstanceTypeFilterError.
        Row::undecided(
            "no instance type has enough resources<rest...>",
            Template,
            LARGER,
        ),
        Row::undecided(
            "no instance type met all requirements<rest...>",
            Template,
            LABELS,
        ),
        Row::undecided(
            "no instance type has the required offering<rest...>",
            Cluster,
            CLOUD,
        ),
        // In earlier versions.
        Row::undecided(
            "no instance type satisfied resources <resources...> (no instance type has enough resources)<rest...>",
            Template,
            LARGER,
        ),
        Row::undecided(
            "no instance type satisfied resources <resources...> (no instance type met all requirements)<rest...>",
            Template,
            LABELS,
        ),
        // Several of these reasons.
        Row::undecided(
            "no instance type <rest...>",
            Template,
            "let a NodePool provide larger or other instance types, or change the requests, nodeSelector or affinity of the template",
        ),
        // karpenter: pkg/scheduling/requirements.go, Compatible.
        Row::undecided(
            "label <label> does not have known values<rest...>",
            Template,
            LABELS,
        ),
        Row::undecided("key <key>, <values...>", Template, LABELS),
        // karpenter: pkg/scheduling/taints.go, Tolerates.
        Row::undecided(
            "did not tolerate taint<rest...>",
            Template,
            "add a toleration for the taint of the NodePool to the template, or use another NodePool",
        ),
        Row::undecided(
            "did not tolerate <taint...>",
            Template,
            "add a toleration for the taint of the NodePool to the template, or use another NodePool",
        ),
        // Google Kubernetes Engine.
        Row::undecided(
            "Node scale up in zones <zones...> associated with this pod failed: <error...>",
            Cluster,
            CLOUD,
        ),
        Row::undecided("<reasons...>", Cluster, ""),
    ],
};
