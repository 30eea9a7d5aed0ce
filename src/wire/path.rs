//! Paths of API calls. Every segment is a name that was validated when the request was parsed, so nothing is escaped.

use rollplan_core::action::{ApiCall, Verb};
use rollplan_core::snapshot::Deployment;

use crate::proto;

/// The query parameter for the field manager, under which the API server records changes.
pub(super) const FIELD_MANAGER: &str = "fieldManager=rollplan";

/// The same, and the API server rejects unknown fields.
const FIELD_MANAGER_STRICT: &str = "fieldManager=rollplan&fieldValidation=Strict";

/// The resource of the object that steps are about. Its plural may differ from the one that Kubernetes derives from the
/// kind.
#[derive(Clone, Copy, Debug)]
pub struct OwnerResource<'a> {
    /// The group and version.
    pub api_version: &'a str,
    /// The kind.
    pub kind: &'a str,
    /// The plural. Empty if it is derived.
    pub plural: &'a str,
}

/// The plural of the owner's resource in a request. Empty if it has none.
pub(super) fn plural_of(snapshot: Option<&proto::Snapshot>) -> String {
    let target = snapshot.and_then(|snapshot| snapshot.target.as_ref());
    target.map_or_else(String::new, |target| target.resource.clone())
}

// === impl OwnerResource ===

impl<'a> OwnerResource<'a> {
    /// The resource of Deployments.
    pub const DEPLOYMENT: OwnerResource<'static> = OwnerResource {
        api_version: "apps/v1",
        kind: "Deployment",
        plural: "",
    };

    pub(super) fn of(owner: &'a Deployment, plural: &'a str) -> Self {
        Self {
            api_version: &owner.api_version,
            kind: &owner.kind,
            plural,
        }
    }

    /// The path of a call: that of the collection for creates, otherwise that of the object or its subresource.
    pub(super) fn path_of_call(&self, call: &ApiCall) -> String {
        match (call.verb, call.subresource.as_str()) {
            (Verb::Create, _) => self.path_of_collection(call),
            (_, "") => self.path_of_object(call),
            (_, subresource) => format!("{}/{subresource}", self.path_of_object(call)),
        }
    }

    /// The path of the object of a call.
    pub(super) fn path_of_object(&self, call: &ApiCall) -> String {
        format!("{}/{}", self.path_of_collection(call), call.name)
    }

    fn path_of_collection(&self, call: &ApiCall) -> String {
        self.path_of_kind(&call.api_version, &call.kind, &call.namespace)
    }

    /// The path of the objects of a kind in a namespace.
    pub(super) fn path_of_kind(&self, api_version: &str, kind: &str, namespace: &str) -> String {
        if !self.plural.is_empty() && self.api_version == api_version && self.kind == kind {
            of_resource(api_version, self.plural, namespace)
        } else {
            of_kind(api_version, kind, namespace)
        }
    }

    /// The query of a call. The API server reports unknown fields in the templates of new ReplicaSets if the owner is a
    /// custom resource: it does so itself for Deployments, but it preserves the unknown fields of custom resources, and
    /// drops them from ReplicaSets, so a typo would go unnoticed.
    pub(super) fn query_of_call(&self, call: &ApiCall) -> &'static str {
        let is_native =
            (self.api_version, self.kind) == (Self::DEPLOYMENT.api_version, Self::DEPLOYMENT.kind);
        match call.verb {
            Verb::Create if !is_native && call.kind == "ReplicaSet" => FIELD_MANAGER_STRICT,
            Verb::Create | Verb::Patch => FIELD_MANAGER,
            // Deletes have no field manager.
            Verb::Delete => "",
        }
    }
}

/// The path of the objects of a kind in a namespace, or in all if it is empty.
pub(super) fn of_kind(api_version: &str, kind: &str, namespace: &str) -> String {
    of_resource(api_version, &plural(kind), namespace)
}

fn of_resource(api_version: &str, resource: &str, namespace: &str) -> String {
    // The core group has an empty name.
    let root = if api_version.contains('/') {
        "apis"
    } else {
        "api"
    };
    if namespace.is_empty() {
        return format!("/{root}/{api_version}/{resource}");
    }
    format!("/{root}/{api_version}/namespaces/{namespace}/{resource}")
}

/// The default plural of a kind in Kubernetes (UnsafeGuessKindToResource in apimachinery).
fn plural(kind: &str) -> String {
    let singular = kind.to_ascii_lowercase();
    match singular.strip_suffix('y') {
        Some(stem) => format!("{stem}ies"),
        None if singular.ends_with('s') => format!("{singular}es"),
        None => format!("{singular}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::plural;

    #[test]
    fn plurals_match_kubernetes() {
        for (kind, resource) in [
            ("Deployment", "deployments"),
            ("ReplicaSet", "replicasets"),
            ("PlannedDeployment", "planneddeployments"),
            ("Proxy", "proxies"),
            ("Ingress", "ingresses"),
        ] {
            assert_eq!(plural(kind), resource);
        }
    }
}
