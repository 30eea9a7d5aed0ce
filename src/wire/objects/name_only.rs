//! ReplicaSets of other owners.

use std::collections::HashSet;

use super::found::{Found, Metadata};
use crate::proto;

/// A ReplicaSet that is not selected. Its name is taken, and its UID must differ from those of selected ones. Namespace,
/// controller and labels show that it is not selected: the selector may match an object without labels. With the size, they
/// also show whether the selector matches pods of another controller.
pub(super) fn name_only(
    object: &Found<'_>,
    metadata: &Metadata<'_>,
    keys: &HashSet<&str>,
) -> proto::ReplicaSet {
    proto::ReplicaSet {
        metadata: Some(proto::ObjectMeta {
            name: metadata.name.clone().into_owned(),
            namespace: metadata.namespace.clone().into_owned(),
            uid: metadata.uid.clone().into_owned(),
            labels: object.labels_named(keys),
            owner_references: object.controller().into_iter().collect(),
            ..Default::default()
        }),
        spec: Some(proto::ReplicaSetSpec {
            replicas: object.replicas(),
            ..Default::default()
        }),
        ..Default::default()
    }
}
