//! Volumes that cannot be mounted, according to events.

use super::Resolver::{Cluster, Node, Time};
use super::{Row, Table};

/// A ConfigMap that a volume or a variable refers to does not exist.
pub(super) const MISSING_CONFIG_MAP: Row = Row::definite(
    "configmap \"<name>\" not found",
    Cluster,
    "create the missing configmap <name> in namespace <namespace>, or correct the reference to it",
);
/// A Secret that a volume or a variable refers to does not exist.
pub(super) const MISSING_SECRET: Row = Row::definite(
    "secret \"<name>\" not found",
    Cluster,
    "create the missing secret <name> in namespace <namespace>, or correct the reference to it",
);

/// The remedy for a mount whose server or program has ended.
const DRIVER: &str = "check the driver and the server of volume <volume> on node <node>, and delete the pod to mount it again: kubectl \
                      delete pod <pod> -n <namespace>";

pub(crate) static TABLE: Table = Table {
    reasons: &["FailedMount", "FailedMapVolume"],
    wrappers: &[
        // kubelet: pkg/volume/util/operationexecutor/operation_generator.go, GenerateMountVolumeFunc.
        "MountVolume.<step> failed for volume \"<volume>\" : ",
        "MapVolume.<step> failed for volume \"<volume>\" : ",
        // kubelet: pkg/volume/csi/csi_mounter.go, SetUpAt; csi_attacher.go, MountDevice; csi_block.go.
        "kubernetes.io/csi: <operation...> failed to get CSI client: ",
        "kubernetes.io/csi: <operation...> failed to create newCsiDriverClient: ",
        "rpc error: code = <code> desc = ",
        // secrets-store-csi-driver: pkg/secrets-store/nodeserver.go, NodePublishVolume; utils.go, getSecretProviderItem.
        "failed to get secretproviderclass <object>, error: ",
    ],
    endings: &[],
    rows: &[
        // Controllers create these in each namespace: root-ca-cert-publisher of kube-controller-manager
        // (pkg/controller/certificates/rootcacertpublisher/publisher.go), OpenShift's service-ca operator, and istiod.
        Row::undecided(
            "configmap \"kube-root-ca.crt\" not found",
            Cluster,
            "check that kube-controller-manager is running, which creates the ConfigMap",
        ),
        Row::undecided(
            "configmap \"openshift-service-ca.crt\" not found",
            Cluster,
            "check that the service-ca operator is running, which creates the ConfigMap",
        ),
        Row::undecided(
            "configmap \"istio-ca-root-cert\" not found",
            Cluster,
            "check that istiod is running, which creates the ConfigMap, and that its discovery selectors include namespace <namespace>",
        ),
        // kubelet: pkg/volume/configmap/configmap.go, pkg/volume/secret/secret.go, SetUpAt.
        MISSING_CONFIG_MAP,
        MISSING_SECRET,
        // kubelet: pkg/volume/configmap/configmap.go, pkg/volume/secret/secret.go, MakePayload.
        Row::definite(
            "configmap references non-existent config key: <key...>",
            Cluster,
            "add key <key> to the ConfigMap of the volume, or correct the reference to it",
        ),
        Row::definite(
            "references non-existent secret key: <key...>",
            Cluster,
            "add key <key> to the Secret of the volume, or correct the reference to it",
        ),
        Row::definite(
            "SecretProviderClass.secrets-store.csi.x-k8s.io \"<name>\" not found",
            Cluster,
            "create SecretProviderClass <name> in namespace <namespace>, or correct the reference to it",
        ),
        // kubelet: pkg/kubelet/util/manager/watch_based_manager.go, Get: the kubelet has not registered the pod yet.
        Row::undecided("object \"<target>\"/\"<name>\" not registered", Time, ""),
        // kubelet: pkg/volume/projected/projected.go, collectData.
        Row::undecided(
            "failed to fetch token: serviceaccounts \"<name>\" not found",
            Cluster,
            "create ServiceAccount <name> in namespace <namespace> again",
        ),
        // kubelet: pkg/volume/csi/csi_client.go, newCsiDriverClient.
        Row::undecided(
            "driver name <driver> not found in the list of registered CSI drivers",
            Node,
            "check that CSI driver <driver> is running on node <node>",
        ),
        // kubelet: pkg/volume/hostpath/host_path.go, typeMatchedOrError.
        Row::undecided(
            "hostPath type check failed: <path> is not a <kind...>",
            Node,
            "create <path> on node <node>, or correct the type of the hostPath volume",
        ),
        // The server or the program of a mount has ended: mount-utils: mount_helper_unix.go, IsCorruptedMnt.
        Row::undecided(
            "<operation...>: transport endpoint is not connected",
            Node,
            DRIVER,
        ),
        Row::undecided("<operation...>: stale <nfs...>file handle", Node, DRIVER),
        // mount-utils: mount_linux.go, doMount. mount(8) prints the second text also if it lacks the program for a type.
        Row::undecided(
            "mount failed: <error...>: wrong fs type, bad option, bad superblock on <device>, <details...>",
            Node,
            "check the type (fsType), the mountOptions and the content of volume <volume>, and that node <node> has the program that \
             mounts it",
        ),
        Row::undecided(
            "mount failed: <error...>",
            Node,
            "check the server of volume <volume>, and that node <node> may mount it",
        ),
    ],
};
