//! Metadata and owners of Kubernetes objects.

use std::collections::BTreeMap;

use crate::time::Time;

/// An ordered map of strings, for labels and annotations.
pub type StringMap = BTreeMap<String, String>;

/// The metadata of an object that plans need.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObjectMeta {
    /// Name within the namespace.
    pub name: String,
    /// Namespace.
    pub namespace: String,
    /// UID of the object.
    pub uid: String,
    /// The opaque version of the stored object.
    pub resource_version: String,
    /// The number that increases with each change of the spec.
    pub generation: i64,
    /// When it was created. Objects without this time sort first.
    pub creation_timestamp: Option<Time>,
    /// When it is deleted at the latest, if its deletion was requested.
    pub deletion_timestamp: Option<Time>,
    /// Labels.
    pub labels: StringMap,
    /// Annotations.
    pub annotations: StringMap,
    /// All owners.
    pub owner_references: Vec<OwnerReference>,
    /// What must be done before the object is removed, by the controller that removes the entry.
    pub finalizers: Vec<String>,
}

impl ObjectMeta {
    /// The owner that manages the object, if any. Of several, Kubernetes uses the first.
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
    /// UID of the owner, which decides ownership.
    pub uid: String,
    /// Whether this owner manages the object.
    pub controller: Option<bool>,
    /// Whether the owner cannot be deleted in the foreground while this object exists.
    pub block_owner_deletion: Option<bool>,
}
