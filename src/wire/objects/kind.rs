//! The kinds that are planned.

use rollplan_core::kind::{self, Revisions, group};
use rollplan_core::template::Value;
use rollplan_health::kinds::table;

use super::found::Found;
use crate::read::objects;

objects! {
    /// The spec of an object of any kind.
    struct WithSpec {
        spec: Value = "spec",
    }
}

/// Whether a group belongs to Kubernetes itself. Of its kinds, only Deployment has the spec of a Deployment.
pub(crate) fn is_of_kubernetes(api_version: &str) -> bool {
    let group = group(api_version);
    !group.contains('.') || group.ends_with(".k8s.io")
}

/// Whether ControllerRevisions keep the templates of objects of a kind.
pub fn has_controller_revisions(api_version: &str, kind: &str) -> bool {
    let kind = kind::find(api_version, kind);
    kind.is_some_and(|it| it.revisions == Revisions::ControllerRevisions)
}

/// Whether an object is planned as a Deployment. A custom resource is, if it has a selector and a pod template, no strategy
/// other than those of Deployments, and no row in the table of kinds.
pub fn is_deployment(object: &Found<'_>) -> bool {
    if is_of_kubernetes(&object.api_version) {
        return (&*object.api_version, &*object.kind) == ("apps/v1", "Deployment");
    }
    if table::row(group(&object.api_version), &object.kind).is_some() {
        return false;
    }
    let WithSpec { spec } = object.read_leniently();
    let field = |path: &[&str]| spec.at(path).filter(|value| !value.is_null());
    let has_only = |key: &str, allowed: &[&str]| {
        let entries = field(&[key]).and_then(Value::as_map);
        let mut keys = entries.into_iter().flat_map(|entries| entries.keys());
        keys.all(|key| allowed.contains(&key.as_str()))
    };
    // An empty selector selects nothing, which the planner reports.
    field(&["selector"]).is_some()
        && has_only("selector", &["matchLabels", "matchExpressions"])
        && field(&["template", "spec", "containers"]).is_some()
        && has_only("strategy", &["type", "rollingUpdate"])
        && field(&["updateStrategy"]).is_none()
        && field(&["workloadRef"]).is_none()
}
