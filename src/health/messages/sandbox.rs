//! The sandbox of a pod, its network and its devices that are not created, according to events.

use super::Resolver::{Cluster, Node};
use super::{Row, Table};

/// The remedy for a network plugin that reports an error.
const PLUGIN: &str = "check network plugin <plugin> on node <node>";

pub(crate) static TABLE: Table = Table {
    reasons: &[
        "FailedCreatePodSandBox",
        "FailedPrepareDynamicResources",
        "NetworkNotReady",
    ],
    wrappers: &[
        // kubelet: pkg/kubelet/kuberuntime/kuberuntime_manager.go, SyncPod.
        "Failed to create pod sandbox: ",
        "Failed to prepare dynamic resources: ",
        "rpc error: code = <code> desc = ",
        // kubelet: pkg/kubelet/cm/dra/manager.go, PrepareResources.
        "prepare dynamic resources: ",
        // kubelet: pkg/kubelet/kubelet.go, SyncPod.
        "network is not ready: ",
        // containerd: internal/cri/server/sandbox_run.go, RunPodSandbox; podsandbox/sandbox_run.go, Start.
        "failed to setup network for sandbox \"<id>\": ",
        "failed to start sandbox \"<id>\": ",
        "failed to get sandbox runtime: ",
        // CRI-O: server/sandbox_network.go, networkStart.
        "failed to create pod network sandbox <sandbox>: ",
        "error adding pod <pod_name> to CNI network \"<network>\": ",
    ],
    endings: &[],
    rows: &[
        // CNI: libcni/api.go, AddNetworkList; pkg/invoke/find.go, FindInPath.
        Row::undecided(
            "plugin type=\"<plugin>\" name=\"<network>\" failed (add): <error...>",
            Node,
            PLUGIN,
        ),
        Row::undecided(
            "plugin type=\"<plugin>\" failed (add): <error...>",
            Node,
            PLUGIN,
        ),
        Row::undecided(
            "failed to find plugin \"<plugin>\" in path <path...>",
            Node,
            "install network plugin <plugin> on node <node>",
        ),
        // kubelet: pkg/kubelet/kubelet.go, updateRuntimeUp.
        Row::undecided(
            "container runtime network not ready: <condition...>",
            Node,
            "check the network plugin on node <node>",
        ),
        // containerd: internal/cri/config/config.go, GetSandboxRuntime. CRI-O: internal/oci/oci.go, ValidateRuntimeHandler.
        Row::undecided(
            "no runtime for \"<handler>\" is configured",
            Cluster,
            "configure runtime <handler> on node <node>, or let the RuntimeClass select the nodes that have it",
        ),
        Row::undecided(
            "failed to find runtime handler <handler> from runtime list <list...>",
            Cluster,
            "configure runtime <handler> on node <node>, or let the RuntimeClass select the nodes that have it",
        ),
        // containerd: internal/cri/server/podsandbox/sandbox_run.go, Start.
        Row::undecided(
            "failed to get sandbox image \"<image>\": <error...>",
            Node,
            "let node <node> pull <image>, the image of sandboxes in the configuration of its runtime",
        ),
        // kubelet: pkg/kubelet/cm/dra/manager.go, prepareResources; plugin/dra_plugin_manager.go, GetPlugin.
        Row::undecided(
            "<operation...>: DRA driver <driver> is not registered",
            Node,
            "check that DRA driver <driver> is running on node <node>",
        ),
        Row::undecided("context deadline exceeded", Node, ""),
        Row::undecided("<operation...>: no space left on device", Node, ""),
        Row::undecided("<operation...>: cannot allocate memory", Node, ""),
        Row::undecided("<operation...>: too many open files", Node, ""),
    ],
};
