//! Volumes that cannot be mounted, according to events.

use super::Resolver::Cluster;
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

pub(crate) const TABLE: Table = Table {
    reasons: &["FailedMount"],
    wrappers: &[
        // kubelet: pkg/volume/util/operationexecutor/operation_generator.go, GenerateMountVolumeFunc.
        "MountVolume.SetUp failed for volume \"<volume>\" : ",
    ],
    endings: &[],
    rows: &[
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
    ],
};
