//! Parses metadata and kinds of objects.

use rollplan_core::snapshot::{ObjectMeta, OwnerReference};

use super::Parser;
use super::path::Path;
use crate::error::Reason;
use crate::read::kubernetes;

/// The metadata that an object must have, in addition to its name.
#[derive(Clone, Copy)]
pub(crate) struct Needed {
    pub(super) uid: bool,
    pub(super) namespace: bool,
    pub(super) resource_version: bool,
}

// === impl Needed ===

impl Needed {
    /// What a stored object has.
    pub(crate) const STORED: Self = Self {
        uid: true,
        namespace: true,
        resource_version: true,
    };
    /// A manifest needs nothing but a name.
    pub(crate) const MANIFEST: Self = Self {
        uid: false,
        namespace: false,
        resource_version: false,
    };
}

impl Parser<'_> {
    pub(super) fn metadata(
        &mut self,
        metadata: Option<kubernetes::ObjectMeta>,
        needed: Needed,
        path: &Path<'_>,
    ) -> ObjectMeta {
        let Some(metadata) = self.required(metadata, path) else {
            return ObjectMeta::default();
        };
        let kubernetes::ObjectMeta {
            name,
            namespace,
            uid,
            resource_version,
            generation,
            creation_timestamp,
            deletion_timestamp,
            labels,
            annotations,
            owner_references,
            finalizers,
        } = metadata;
        let namespace_path = path.field("namespace");
        let namespace = if needed.namespace {
            self.text(namespace, &namespace_path)
        } else {
            namespace
        };
        let version_path = path.field("resource_version");
        ObjectMeta {
            name: self.name(name, &path.field("name")),
            namespace: self.namespace(namespace, &namespace_path),
            uid: if needed.uid {
                self.text(uid, &path.field("uid"))
            } else {
                uid
            },
            resource_version: if needed.resource_version {
                self.text(resource_version, &version_path)
            } else {
                resource_version
            },
            generation: self.count(generation, &path.field("generation")),
            creation_timestamp,
            deletion_timestamp,
            labels: {
                self.labels(&labels, &path.field("labels"));
                labels
            },
            annotations: {
                self.annotations(&annotations, &path.field("annotations"));
                annotations
            },
            owner_references: self.owners(owner_references, &path.field("owner_references")),
            finalizers,
        }
    }

    /// The metadata of an object in the owner's namespace. A missing namespace is replaced by the owner's.
    pub(super) fn member_metadata(
        &mut self,
        metadata: Option<kubernetes::ObjectMeta>,
        resource_version: bool,
        namespace: &str,
        path: &Path<'_>,
    ) -> ObjectMeta {
        let needed = Needed {
            uid: true,
            namespace: false,
            resource_version,
        };
        let mut metadata = self.metadata(metadata, needed, path);
        if metadata.namespace.is_empty() {
            namespace.clone_into(&mut metadata.namespace);
        }
        metadata
    }

    fn owners(
        &mut self,
        owners: Vec<kubernetes::OwnerReference>,
        path: &Path<'_>,
    ) -> Vec<OwnerReference> {
        let controllers = owners.iter().filter(|owner| owner.controller == Some(true));
        let controllers = controllers.count();
        if controllers > 1 {
            let description = format_args!(
                "{controllers} owner references have controller set to true; at most one may"
            );
            self.violation(path, Reason::SeveralControllers, description);
        }
        owners
            .into_iter()
            .enumerate()
            .map(|(index, owner)| {
                let mut owner = owner_reference(owner);
                owner.uid = self.text(owner.uid, &path.index(index).field("uid"));
                owner
            })
            .collect()
    }
}

/// Converts an owner reference without validation.
pub(crate) fn owner_reference(owner: kubernetes::OwnerReference) -> OwnerReference {
    let kubernetes::OwnerReference {
        api_version,
        kind,
        name,
        uid,
        controller,
        block_owner_deletion,
    } = owner;
    OwnerReference {
        api_version,
        kind,
        name,
        uid,
        controller,
        block_owner_deletion,
    }
}
