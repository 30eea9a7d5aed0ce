//! Why no node can run a pod, according to the scheduler: pkg/scheduler/framework/types.go, `FitError.Error`. The message
//! has a reason with a number of nodes for each plugin that rejects nodes.
//!
//! The plugins reject a node one after another, so the nodes with a reason met the demands of the plugins before it. The
//! message has the reasons in alphabetical order; [`Subject`] ranks them.

use super::Resolver::{Cluster, Node, Template, Time};
use super::{Row, Table};

/// What a reason is about, beginning with what is most likely to change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Subject {
    /// A claim that only one pod may use.
    ExclusiveClaim,
    /// A port of the node.
    HostPort,
    /// The pods that a node or a zone runs already.
    OtherPods,
    /// Free resources.
    Room,
    /// The state of the node.
    NodeState,
    /// Devices that the pod claims.
    Device,
    /// The nodes that can use a volume.
    VolumeTopology,
    /// Anything else.
    Other,
    /// What most nodes of a cluster have in common, so that it explains nothing if there is another reason.
    Unlikely,
}

/// The remedy for missing resources.
const ROOM: &str = "add or free resources, or lower the requests of the pods";
/// The remedy for labels that no node has.
const LABELS: &str =
    "label a node as the template demands, or correct its nodeSelector or affinity";
/// The remedy for a claim without a volume.
const CLAIMS: &str = "create or bind the claims: kubectl get pvc -n <namespace>";
/// The remedy for a node whose kubelet does not report.
const REPORT: &str = "check the kubelets of the nodes that are not ready: kubectl get nodes";
/// The remedy for nodes that are being removed.
const REMOVED: &str = "wait for another node: the autoscaler is removing the nodes with this taint";

/// The wrapper and the endings of a taint: pkg/scheduler/framework/plugins/tainttoleration/taint_toleration.go, `Filter`, in
/// this and in earlier versions.
const TAINT: [&str; 2] = ["node(s) had untolerated taint ", "node(s) had taint "];
const TAINT_END: [&str; 1] = [", that the pod didn't tolerate"];

const fn table(rows: &'static [Row]) -> Table {
    Table {
        reasons: &[],
        wrappers: &TAINT,
        endings: &TAINT_END,
        rows,
    }
}

/// The reasons.
pub(crate) static TABLES: [(Subject, Table); 9] = [
    (
        Subject::Unlikely,
        table(&[
            Row::undecided(
                "{node-role.kubernetes.io/control-plane: <value...>}",
                Cluster,
                "add a node that is not part of the control plane",
            ),
            Row::undecided(
                "{node-role.kubernetes.io/master: <value...>}",
                Cluster,
                "add a node that is not part of the control plane",
            ),
            // plugins/tainttoleration/taint_toleration.go: newer schedulers do not name the taint.
            Row::undecided(
                "node(s) had untolerated taint(s)",
                Cluster,
                "check which taints the nodes have (kubectl describe nodes): wait for those of a condition, and tolerate or \
                 remove others",
            ),
            // The pod was considered only for some nodes, for example for one, as in a DaemonSet.
            Row::undecided("node(s) didn't satisfy plugin(s) <plugins...>", Cluster, ""),
            // schedule_one.go, ErrNoNodesAvailable.
            Row::undecided("no nodes available to schedule pods", Cluster, "add a node"),
        ]),
    ),
    (
        Subject::ExclusiveClaim,
        table(&[
            // plugins/volumerestrictions/volume_restrictions.go, in this and in earlier versions.
            Row::undecided(
                "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod",
                Cluster,
                "",
            ),
            Row::undecided(
                "node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod access mode",
                Cluster,
                "",
            ),
        ]),
    ),
    (
        Subject::HostPort,
        table(&[
            // plugins/nodeports/node_ports.go.
            Row::undecided(
                "node(s) didn't have free ports for the requested pod ports",
                Cluster,
                "",
            ),
        ]),
    ),
    (
        Subject::OtherPods,
        table(&[
            // plugins/interpodaffinity/filtering.go.
            Row::undecided(
                "node(s) didn't match pod anti-affinity rules",
                Template,
                "add a node, or relax the podAntiAffinity of the template",
            ),
            Row::undecided(
                "node(s) didn't satisfy existing pods anti-affinity rules",
                Cluster,
                "add a node, or relax the podAntiAffinity of the pods that reject this one",
            ),
            // plugins/podtopologyspread/plugin.go.
            Row::undecided(
                "node(s) didn't match pod topology spread constraints",
                Template,
                "add a node or a zone with room, or relax the topologySpreadConstraints of the template",
            ),
        ]),
    ),
    (
        Subject::Room,
        table(&[
            // plugins/noderesources/fit.go, fitsRequest.
            Row::undecided("Insufficient <resource>", Cluster, ROOM),
            Row::undecided(
                "Too many pods",
                Cluster,
                "add a node, or remove pods: the nodes run as many pods as their kubelets allow",
            ),
            // plugins/nodevolumelimits/csi.go.
            Row::undecided(
                "node(s) exceed max volume count",
                Cluster,
                "add a node, or remove volumes: the nodes have as many as their CSI driver can attach",
            ),
            // plugins/volumebinding/binder.go.
            Row::undecided(
                "node(s) did not have enough free storage",
                Cluster,
                "add storage, or lower the storage requests of the claims",
            ),
        ]),
    ),
    (
        Subject::NodeState,
        table(&[
            // pkg/controller/nodelifecycle/node_lifecycle_controller.go, taintNodeByCondition.
            Row::undecided(
                "{node.kubernetes.io/disk-pressure: <value...>}",
                Node,
                "free disk space on the nodes with disk pressure: unused images, logs and volumes",
            ),
            Row::undecided(
                "{node.kubernetes.io/memory-pressure: <value...>}",
                Node,
                "free memory on the nodes with memory pressure",
            ),
            Row::undecided(
                "{node.kubernetes.io/pid-pressure: <value...>}",
                Node,
                "end processes on the nodes with PID pressure",
            ),
            Row::undecided("{node.kubernetes.io/not-ready: <value...>}", Node, REPORT),
            Row::undecided("{node.kubernetes.io/unreachable: <value...>}", Node, REPORT),
            Row::undecided(
                "{node.kubernetes.io/network-unavailable: <value...>}",
                Node,
                "check the network plugin on the nodes without a network",
            ),
            Row::undecided(
                "{node.kubernetes.io/out-of-service: <value...>}",
                Node,
                "start the nodes that are out of service, and remove their taint out-of-service",
            ),
            // cloud-provider: api/well_known_taints.go.
            Row::undecided(
                "{node.cloudprovider.kubernetes.io/uninitialized: <value...>}",
                Node,
                "check the cloud controller manager, which has not initialized the nodes yet",
            ),
            Row::undecided(
                "{node.cloudprovider.kubernetes.io/shutdown: <value...>}",
                Node,
                "start the nodes that are shut down",
            ),
            // plugins/nodeunschedulable/node_unschedulable.go.
            Row::undecided("node(s) were unschedulable", Node, "uncordon a node"),
            Row::undecided(
                "{node.kubernetes.io/unschedulable: <value...>}",
                Node,
                "uncordon a node",
            ),
            Row::undecided("node(s) had unknown conditions", Node, REPORT),
            // cluster-autoscaler: utils/taints/taints.go.
            Row::undecided(
                "{ToBeDeletedByClusterAutoscaler: <value...>}",
                Time,
                REMOVED,
            ),
            Row::undecided(
                "{DeletionCandidateOfClusterAutoscaler: <value...>}",
                Time,
                REMOVED,
            ),
            // karpenter: pkg/apis/v1/taints.go.
            Row::undecided("{karpenter.sh/disrupted: <value...>}", Time, REMOVED),
            Row::undecided(
                "{karpenter.sh/unregistered: <value...>}",
                Time,
                "wait until Karpenter has registered the node",
            ),
            // A plugin of the node, for example of the network or of volumes, removes this taint once it is ready.
            Row::undecided(
                "{<agent>/agent-not-ready: <value...>}",
                Node,
                "check the agent of <agent> on the nodes: it removes the taint once it is ready",
            ),
        ]),
    ),
    (
        Subject::Device,
        table(&[
            // plugins/dynamicresources/dynamicresources.go.
            Row::undecided(
                "cannot allocate all claims",
                Cluster,
                "add a node with free devices, or correct the ResourceClaims: kubectl get resourceclaims,resourceslices -n \
                 <namespace>",
            ),
            Row::undecided(
                "resourceclaim in use",
                Cluster,
                "let the other pods that use the ResourceClaim end, or use a ResourceClaimTemplate: kubectl get resourceclaims -n \
                 <namespace>",
            ),
            Row::undecided(
                "resourceclaim not available on the node",
                Cluster,
                "free a node that can use the devices of the ResourceClaim: kubectl get resourceclaims -n <namespace>",
            ),
            Row::undecided(
                "request <request>: device class <class> does not exist",
                Cluster,
                "create DeviceClass <class>, or correct the reference to it",
            ),
            Row::undecided(
                "resourceclaim \"<claim>\" is being deleted",
                Cluster,
                "create ResourceClaim <claim> again once it is deleted",
            ),
            Row::undecided(
                "resourceclaim.resource.k8s.io \"<claim>\" not found",
                Cluster,
                "create ResourceClaim <claim>, or correct the reference to it",
            ),
            Row::undecided(
                "resource claim <claim> is in the process of being allocated",
                Time,
                "",
            ),
        ]),
    ),
    (
        Subject::VolumeTopology,
        table(&[
            // plugins/volumebinding/binder.go, in this and in earlier versions.
            Row::undecided(
                "node(s) didn't match PersistentVolume's node affinity",
                Cluster,
                "",
            ),
            Row::undecided("node(s) had volume node affinity conflict", Cluster, ""),
            // plugins/volumezone/volume_zone.go.
            Row::undecided("node(s) had no available volume zone", Cluster, ""),
        ]),
    ),
    (
        Subject::Other,
        table(&[
            // plugins/volumebinding/binder.go.
            Row::undecided(
                "node(s) didn't find available persistent volumes to bind",
                Cluster,
                "create a PersistentVolume that matches the claims and that these nodes can use: kubectl get pvc -n <namespace>",
            ),
            Row::undecided(
                "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)",
                Cluster,
                "restore the volumes of the claims, or create the claims again: kubectl get pvc -n <namespace>",
            ),
            // plugins/volumerestrictions/volume_restrictions.go.
            Row::undecided(
                "node(s) had no available disk",
                Cluster,
                "let the other pods that use the disk end",
            ),
            // plugins/interpodaffinity/filtering.go.
            Row::undecided(
                "node(s) didn't match pod affinity rules",
                Template,
                "start the pods that the podAffinity of the template demands, or correct it",
            ),
            // plugins/podtopologyspread/plugin.go.
            Row::undecided(
                "node(s) didn't match pod topology spread constraints (missing required label)",
                Template,
                "label the nodes with the topologyKey of the topologySpreadConstraints, or correct it",
            ),
            // plugins/nodevolumelimits/csi.go.
            Row::undecided(
                "<driver> CSI driver is not installed on the node",
                Node,
                "install CSI driver <driver> on the nodes",
            ),
            // plugins/volumebinding/volume_binding.go, podHasPVCs and PreFilter.
            Row::undecided(
                "pod has unbound immediate PersistentVolumeClaims",
                Cluster,
                CLAIMS,
            ),
            Row::undecided(
                "persistentvolumeclaim \"<claim>\" not found",
                Cluster,
                "create claim <claim> in namespace <namespace>, or correct the reference to it",
            ),
            Row::undecided(
                "persistentvolumeclaim \"<claim>\" is being deleted",
                Cluster,
                "create claim <claim> again once it is deleted: kubectl describe pvc <claim> -n <namespace>",
            ),
            Row::undecided(
                "persistentvolumeclaim \"<claim>\" bound to non-existent persistentvolume \"<volume>\"",
                Cluster,
                "restore PersistentVolume <volume>, or create claim <claim> again",
            ),
            Row::undecided(
                "waiting for ephemeral volume controller to create the persistentvolumeclaim \"<claim>\"",
                Time,
                "",
            ),
            // plugins/tainttoleration/taint_toleration.go, in earlier versions.
            Row::undecided(
                "{<taint>: <value...>}",
                Template,
                "add a toleration for taint <taint> to the template, or remove the taint of a node",
            ),
            // plugins/nodeaffinity/node_affinity.go, in this and in earlier versions.
            Row::undecided(
                "node(s) didn't match Pod's node affinity/selector",
                Template,
                LABELS,
            ),
            Row::undecided("node(s) didn't match node selector", Template, LABELS),
            Row::undecided("node(s) didn't match Pod's node affinity", Template, LABELS),
            Row::undecided(
                "node(s) didn't match scheduler-enforced node affinity",
                Cluster,
                "check addedAffinity in the configuration of the scheduler",
            ),
            // plugins/nodename/node_name.go.
            Row::undecided(
                "node(s) didn't match the requested node name",
                Template,
                "correct nodeName in the template",
            ),
        ]),
    ),
];
