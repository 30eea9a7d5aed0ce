//! Pods.

use rollplan::wire::Reason;

use super::{Case, Parts as _};

pub(super) const CASES: &[Case] = &[
    (
        |r| r.snapshot().pods[1].metadata = None,
        "snapshot.pods[1].metadata",
        Reason::Required,
    ),
    (
        |r| r.pod_meta(1).name.clear(),
        "snapshot.pods[1].metadata.name",
        Reason::Required,
    ),
    (
        |r| r.pod_meta(1).uid.clear(),
        "snapshot.pods[1].metadata.uid",
        Reason::Required,
    ),
    (
        |r| r.pod_meta(1).name = "a".to_owned(),
        "snapshot.pods[1].metadata.name",
        Reason::Duplicate,
    ),
    (
        |r| r.pod_meta(1).uid = "a".to_owned(),
        "snapshot.pods[1].metadata.uid",
        Reason::Duplicate,
    ),
    (
        |r| r.snapshot().pods[1].kind = "Node".to_owned(),
        "snapshot.pods[1].kind",
        Reason::WrongKind,
    ),
];
