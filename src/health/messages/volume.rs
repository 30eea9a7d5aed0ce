//! Volumes that are not created, attached or mounted, according to events.

use super::Resolver::{Cluster, Node, Template, Time};
use super::{Row, Table};

/// The remedy if a CSI driver reports an error.
const ATTACH: &str =
    "check the volume and the controller of its CSI driver: kubectl get volumeattachments";
/// The remedy if a volume is attached to another node that no pod of the namespace explains.
const DETACH: &str = "check the node that the volume is attached to: kubectl get volumeattachments";
/// The remedy if a volume has many files.
const OWNED: &str = "wait, or set securityContext.fsGroupChangePolicy to OnRootMismatch: then the kubelet only changes volumes whose root \
                     does not belong to fsGroup yet";
/// The remedy if a provisioner reports an error.
const PROVISION: &str =
    "check storageClassName of the claim and its provisioner: kubectl get storageclass";

/// Volumes that cannot be attached. kube-controller-manager: pkg/volume/util/operationexecutor/operation_executor.go,
/// `generateVolumeMsg`.
pub(crate) static ATTACHMENTS: Table = Table {
    reasons: &["FailedAttachVolume"],
    wrappers: &[],
    endings: &[],
    rows: &[
        // pkg/controller/volume/attachdetach/reconciler/reconciler.go, reportMultiAttachError, in this and in earlier
        // versions. It is reported once.
        Row::undecided(
            "Multi-Attach error for volume \"<volume>\" Volume is already used by pod(s) <pods...>",
            Cluster,
            "",
        ),
        Row::undecided(
            "Waiting for detach for volume \"<volume>\" Volume is already used by pod(s) <pods...>",
            Cluster,
            "",
        ),
        Row::undecided(
            "Multi-Attach error for volume \"<volume>\" <rest...>",
            Time,
            DETACH,
        ),
        Row::undecided(
            "Waiting for detach for volume \"<volume>\" <rest...>",
            Time,
            DETACH,
        ),
        // csi: pkg/volume/csi/csi_attacher.go, waitForVolumeAttachmentInternal.
        Row::undecided(
            "AttachVolume.Attach failed for volume \"<volume>\" : timed out waiting for external-attacher of <driver> CSI driver to \
             attach volume <handle>",
            Cluster,
            "check the external-attacher of CSI driver <driver>",
        ),
        Row::undecided(
            "AttachVolume.Attach failed for volume \"<volume>\" : <error...>",
            Cluster,
            ATTACH,
        ),
        Row::undecided(
            "AttachVolume.<step> failed for volume \"<volume>\" : <error...>",
            Cluster,
            ATTACH,
        ),
    ],
};

/// Volumes that were attached: pkg/volume/util/operationexecutor/operation_generator.go, `GenerateAttachVolumeFunc`.
pub(crate) static ATTACHED: Table = Table {
    reasons: &["SuccessfulAttachVolume"],
    wrappers: &[],
    endings: &[],
    rows: &[Row::undecided(
        "AttachVolume.Attach succeeded for volume \"<volume>\"",
        Time,
        "",
    )],
};

/// Volumes that the kubelet waits for. It repeats this message, which does not say why.
pub(crate) static WAITS: Table = Table {
    reasons: &["FailedMount"],
    wrappers: &[
        // kubelet: pkg/kubelet/kubelet.go, SyncPod.
        "Unable to attach or mount volumes: ",
        "Unable to mount volumes for pod \"<pod_name...>\": ",
        "timeout expired waiting for volumes to attach or mount for pod \"<namespace_name>\"/\"<pod_name>\". list of ",
    ],
    endings: &[],
    rows: &[
        // kubelet: pkg/kubelet/volumemanager/volume_manager.go, WaitForAttachAndMount, in this and in earlier versions.
        Row::undecided(
            "unmounted volumes=[<volumes...>], unattached volumes=[<unattached...>], failed to process volumes=[]: <error...>",
            Node,
            "",
        ),
        Row::undecided(
            "unmounted volumes=[<volumes...>], unattached volumes=[<unattached...>]: <error...>",
            Node,
            "",
        ),
        Row::undecided(
            "unmounted volumes=[<volumes...>]. list of unattached volumes=[<unattached...>]",
            Node,
            "",
        ),
    ],
};

/// Volumes that the kubelet cannot process, because of their claims.
pub(crate) static UNPROCESSED: Table = Table {
    reasons: &["FailedMount"],
    wrappers: &[
        // kubelet: pkg/kubelet/kubelet.go, SyncPod; volumemanager/volume_manager.go, WaitForAttachAndMount.
        "Unable to attach or mount volumes: ",
        "unmounted volumes=[<volumes...>], unattached volumes=[<unattached...>], failed to process volumes=[<failed...>]: ",
        // kubelet: pkg/kubelet/volumemanager/populator/desired_state_of_world_populator.go, createVolumeSpec.
        "error processing PVC <claim>: ",
        "failed to fetch PVC from API server: ",
    ],
    endings: &[],
    rows: &[
        // apimachinery: pkg/api/errors/errors.go, NewNotFound.
        Row::undecided(
            "persistentvolumeclaims \"<name>\" not found",
            Cluster,
            "create claim <name> in namespace <namespace>, or correct the reference to it",
        ),
        Row::undecided(
            "persistentvolumeclaim \"<name>\" not found",
            Cluster,
            "create claim <name> in namespace <namespace>, or correct the reference to it",
        ),
        // getPVCExtractPV.
        Row::undecided(
            "PVC is being deleted",
            Cluster,
            "create the claim again once it is deleted: kubectl get pvc -n <namespace>",
        ),
        Row::undecided(
            "PVC is not bound",
            Cluster,
            "check the claim and its events: kubectl describe pvc -n <namespace>",
        ),
    ],
};

/// Volumes whose files the kubelet gives to fsGroup before it mounts them: pkg/volume/volume_linux.go, `monitorProgress` and
/// `logWarning`. It reports the number of files every minute.
pub(crate) static OWNERSHIP: Table = Table {
    reasons: &["VolumePermissionChangeInProgress"],
    wrappers: &[],
    endings: &[],
    rows: &[
        Row::undecided(
            "Setting volume ownership for <directory> is taking longer than expected, <advice...>",
            Template,
            OWNED,
        )
        .showing("setting volume ownership is taking longer than expected"),
        Row::undecided(
            "Setting volume ownership for <directory>, processed <count> files.",
            Template,
            OWNED,
        ),
    ],
};

/// Claims without a volume.
pub(crate) static CLAIMS: Table = Table {
    reasons: &[
        "ProvisioningFailed",
        "FailedBinding",
        "VolumeMismatch",
        "ExternalProvisioning",
    ],
    wrappers: &[
        // sig-storage-lib-external-provisioner: controller/controller.go, provisionClaimOperation.
        "failed to provision volume with StorageClass \"<class>\": ",
        "failed to get target node: ",
        "rpc error: code = <code> desc = ",
    ],
    endings: &[],
    rows: &[
        // kube-controller-manager: pkg/controller/volume/persistentvolume/pv_controller.go, syncUnboundClaim.
        Row::undecided(
            "no persistent volumes available for this claim and no storage class is set",
            Cluster,
            "set storageClassName of the claim, make a StorageClass the default, or create a PersistentVolume",
        ),
        Row::undecided(
            "storageclass.storage.k8s.io \"<class>\" not found",
            Cluster,
            "create StorageClass <class>, or create the claim again with another storageClassName",
        ),
        // pv_controller.go, provisionClaimOperationExternal.
        Row::undecided(
            "Waiting for a volume to be created either by the external provisioner '<provisioner>' or manually by the system \
             administrator. <rest...>",
            Cluster,
            "check that provisioner <provisioner> is running",
        ),
        Row::undecided("<error...>", Cluster, PROVISION),
    ],
};
