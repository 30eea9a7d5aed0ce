//! Paths of API calls. Every segment is a name that was validated when the request was parsed, so nothing is escaped.

use rollplan_core::action::{ApiCall, Verb};
use rollplan_core::snapshot::Deployment;

use crate::proto;

/// The query parameter for the field manager, under which the API server records changes.
pub(super) const FIELD_MANAGER: &str = "fieldManager=rollplan";

const STRICT: &str = "&fieldValidation=Strict";

/// The path of a call: that of the collection for creates, otherwise that of the object or its subresource.
pub(super) fn of_call(call: &ApiCall) -> String {
    match (call.verb, call.subresource.as_str()) {
        (Verb::Create, _) => of_collection(call),
        (_, "") => of_object(call),
        (_, subresource) => format!("{}/{subresource}", of_object(call)),
    }
}

/// The path of the object of a call.
pub(super) fn of_object(call: &ApiCall) -> String {
    format!("{}/{}", of_collection(call), call.name)
}

/// Corrects the plural in the paths of the calls to the owner, if it is not the one that Kubernetes derives from the kind.
pub(super) fn use_resource(steps: &mut [proto::Step], owner: &Deployment, resource: &str) {
    if resource.is_empty() {
        return;
    }
    let Deployment {
        api_version,
        kind,
        metadata,
        ..
    } = owner;
    let derived = of_kind(api_version, kind, &metadata.namespace);
    let given = of_resource(api_version, resource, &metadata.namespace);
    let calls = steps.iter_mut().filter_map(|step| step.call.as_mut());
    for call in calls.filter(|call| call.kind == *kind && call.api_version == *api_version) {
        call.path = call.path.replacen(&derived, &given, 1);
    }
}

/// Makes the API server report unknown fields in the templates of ReplicaSets. It does so itself for Deployments. But
/// it preserves the unknown fields of custom resources, and drops them from ReplicaSets, so a typo would go unnoticed.
pub(super) fn validate_templates(steps: &mut [proto::Step], owner: &Deployment) {
    if owner.is_native() {
        return;
    }
    let calls = steps.iter_mut().filter_map(|step| step.call.as_mut());
    for call in calls.filter(|call| call.kind == "ReplicaSet" && call.verb() == proto::Verb::Create)
    {
        call.query.push_str(STRICT);
    }
}

/// Corrects the plural in the path of a call.
pub(super) fn use_resource_of(call: &mut proto::ApiCall, resource: &str) {
    let derived = of_kind(&call.api_version, &call.kind, &call.namespace);
    let given = of_resource(&call.api_version, resource, &call.namespace);
    call.path = call.path.replacen(&derived, &given, 1);
}

fn of_collection(call: &ApiCall) -> String {
    of_kind(&call.api_version, &call.kind, &call.namespace)
}

/// The query of a call.
pub(super) fn query(verb: Verb) -> &'static str {
    match verb {
        Verb::Create | Verb::Patch => FIELD_MANAGER,
        // Deletes have no field manager.
        Verb::Delete => "",
    }
}

/// The path of the objects of a kind in a namespace.
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
