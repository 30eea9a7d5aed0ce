//! What all objects of Kubernetes have: metadata and owners.

use std::collections::BTreeMap;

use crate::time::Time;

/// Ordered map of strings: labels, annotations.
pub type StringMap = BTreeMap<String, String>;

/// Metadata of an object, as far as plans need it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObjectMeta {
    /// Name within the namespace.
    pub name: String,
    /// Namespace.
    pub namespace: String,
    /// UID of the object.
    pub uid: String,
    /// Opaque version of the stored object.
    pub resource_version: String,
    /// Counts changes of the spec.
    pub generation: i64,
    /// When it was created; absent sorts first.
    pub creation_timestamp: Option<Time>,
    /// When its deletion was asked for.
    pub deletion_timestamp: Option<Time>,
    /// Labels.
    pub labels: StringMap,
    /// Annotations.
    pub annotations: StringMap,
    /// Owners, all of them.
    pub owner_references: Vec<OwnerReference>,
}

impl ObjectMeta {
    /// The owner that manages the object, if any. Kubernetes takes the first that says so.
    #[must_use]
    pub fn controller(&self) -> Option<&OwnerReference> {
        self.owner_references
            .iter()
            .find(|owner| owner.controller == Some(true))
    }
}

/// An owner of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnerReference {
    /// Group and version of the owner.
    pub api_version: String,
    /// Kind of the owner.
    pub kind: String,
    /// Name of the owner.
    pub name: String,
    /// Uid of the owner: what ownership is decided by.
    pub uid: String,
    /// Whether this owner manages the object.
    pub controller: Option<bool>,
    /// Whether the owner cannot be deleted in the foreground while this object exists.
    pub block_owner_deletion: Option<bool>,
}
