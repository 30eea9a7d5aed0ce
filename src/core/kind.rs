//! The kinds of Kubernetes objects that rollplan knows by name. Custom resources are judged by the table of kinds in the
//! crate of reports, or by fields that many controllers share.

use self::Dependents::{JobsAndPods, Pods, ReplicaSetsAndPods, RevisionsAndPods};
use self::Revisions::{ControllerRevisions, ReplicaSets};

/// A kind of objects.
#[derive(Debug, PartialEq, Eq)]
pub struct Kind {
    /// The group, and the version in which objects are read, for example "apps/v1".
    pub api_version: &'static str,
    /// The name, for example "StatefulSet".
    pub name: &'static str,
    /// The name of the resource, for example "statefulsets".
    pub plural: &'static str,
    /// kubectl's short name, or the singular. Empty for kinds that no command takes by these names.
    pub short: &'static str,
    /// The objects that are read together with an object.
    pub dependents: Dependents,
    /// The objects that keep its earlier templates.
    pub revisions: Revisions,
    /// Whether `restarts` reads the objects of a namespace. Secrets are read separately, because they may be forbidden.
    pub is_read_for_restarts: bool,
    /// The path of the pod template, if `restarts` restarts the objects.
    pub restarted_template: Option<&'static str>,
    /// Whether no controller makes its objects ready, so that there is nothing to wait for.
    pub is_inert: bool,
}

/// The objects that are read together with an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dependents {
    /// Those of a Deployment.
    ReplicaSetsAndPods,
    /// ControllerRevisions show which pods have the current template.
    RevisionsAndPods,
    /// No status depends on them. They are only displayed.
    JobsAndPods,
    /// Only its pods.
    Pods,
    /// None.
    None,
}

/// The objects that keep earlier templates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Revisions {
    /// Those of a Deployment, which is planned.
    ReplicaSets,
    /// Those of a StatefulSet or a DaemonSet.
    ControllerRevisions,
    /// Earlier templates are not kept.
    None,
}

/// The kinds.
#[rustfmt::skip] // a line for each kind
pub static KINDS: [Kind; 39] = [
    kind("apps/v1", "Deployment", "deployments", "deploy").with(ReplicaSetsAndPods, ReplicaSets).restarted("spec.template"),
    kind("apps.rollplan.dev/v1alpha1", "PlannedDeployment", "planneddeployments", "pdeploy")
        .with(ReplicaSetsAndPods, ReplicaSets),
    kind("apps/v1", "StatefulSet", "statefulsets", "sts").with(Pods, ControllerRevisions).restarted("spec.template"),
    kind("apps/v1", "DaemonSet", "daemonsets", "ds").with(RevisionsAndPods, ControllerRevisions).restarted("spec.template"),
    kind("apps/v1", "ReplicaSet", "replicasets", "rs").with(Pods, Revisions::None).read_for_restarts(),
    kind("v1", "ReplicationController", "replicationcontrollers", "rc").with(Pods, Revisions::None),
    kind("batch/v1", "Job", "jobs", "job").with(Pods, Revisions::None).restarted("spec.template"),
    kind("batch/v1", "CronJob", "cronjobs", "cj").with(JobsAndPods, Revisions::None)
        .restarted("spec.jobTemplate.spec.template"),
    kind("v1", "Pod", "pods", "po").read_for_restarts(),
    kind("v1", "Service", "services", "svc"),
    kind("v1", "PersistentVolumeClaim", "persistentvolumeclaims", "pvc"),
    kind("apiextensions.k8s.io/v1", "CustomResourceDefinition", "customresourcedefinitions", "crd"),
    kind("v1", "ConfigMap", "configmaps", "cm").inert().read_for_restarts(),
    kind("v1", "Secret", "secrets", "secret").inert(),
    kind("policy/v1", "PodDisruptionBudget", "poddisruptionbudgets", "").read_for_restarts(),
    inert("v1", "Endpoints"),
    inert("v1", "Event"),
    inert("v1", "LimitRange"),
    inert("v1", "PodTemplate"),
    inert("v1", "ServiceAccount"),
    inert("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration"),
    inert("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicyBinding"),
    inert("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration"),
    inert("apps/v1", "ControllerRevision"),
    inert("coordination.k8s.io/v1", "Lease"),
    inert("discovery.k8s.io/v1", "EndpointSlice"),
    inert("events.k8s.io/v1", "Event"),
    inert("networking.k8s.io/v1", "IngressClass"),
    inert("networking.k8s.io/v1", "NetworkPolicy"),
    inert("node.k8s.io/v1", "RuntimeClass"),
    inert("rbac.authorization.k8s.io/v1", "ClusterRole"),
    inert("rbac.authorization.k8s.io/v1", "ClusterRoleBinding"),
    inert("rbac.authorization.k8s.io/v1", "Role"),
    inert("rbac.authorization.k8s.io/v1", "RoleBinding"),
    inert("scheduling.k8s.io/v1", "PriorityClass"),
    inert("storage.k8s.io/v1", "CSIDriver"),
    inert("storage.k8s.io/v1", "CSINode"),
    inert("storage.k8s.io/v1", "StorageClass"),
    inert("storage.k8s.io/v1", "VolumeAttributesClass"),
];

/// The API groups of Kubernetes itself, which need no custom resource definitions.
const BUILT_IN_GROUPS: [&str; 21] = [
    "",
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "apiregistration.k8s.io",
    "apps",
    "autoscaling",
    "batch",
    "certificates.k8s.io",
    "coordination.k8s.io",
    "discovery.k8s.io",
    "events.k8s.io",
    "extensions",
    "flowcontrol.apiserver.k8s.io",
    "internal.apiserver.k8s.io",
    "networking.k8s.io",
    "node.k8s.io",
    "policy",
    "rbac.authorization.k8s.io",
    "resource.k8s.io",
    "scheduling.k8s.io",
    "storage.k8s.io",
];

/// The kind of objects, in any version of its group.
#[must_use]
pub fn find(api_version: &str, kind: &str) -> Option<&'static Kind> {
    let group = group(api_version);
    KINDS
        .iter()
        .find(|it| it.name == kind && it.group() == group)
}

/// The first kind with this name.
#[must_use]
pub fn named(name: &str) -> Option<&'static Kind> {
    KINDS.iter().find(|it| it.name == name)
}

/// The path of the pod template in objects of this version and kind, if `restarts` restarts them.
#[must_use]
pub fn restarted_template(api_version: &str, kind: &str) -> Option<&'static str> {
    let mut kinds = KINDS.iter();
    let found = kinds.find(|it| it.name == kind && it.api_version == api_version);
    found?.restarted_template
}

/// The group of an apiVersion. Empty for "v1".
#[must_use]
pub fn group(api_version: &str) -> &str {
    api_version.rsplit_once('/').map_or("", |(group, _)| group)
}

/// Whether the group belongs to Kubernetes itself, so that its kinds need no custom resource definition.
#[must_use]
pub fn is_built_in(group: &str) -> bool {
    BUILT_IN_GROUPS.contains(&group)
}

// === impl Kind ===

const fn kind(
    api_version: &'static str,
    name: &'static str,
    plural: &'static str,
    short: &'static str,
) -> Kind {
    Kind {
        api_version,
        name,
        plural,
        short,
        dependents: Dependents::None,
        revisions: Revisions::None,
        is_read_for_restarts: false,
        restarted_template: None,
        is_inert: false,
    }
}

const fn inert(api_version: &'static str, name: &'static str) -> Kind {
    kind(api_version, name, "", "").inert()
}

impl Kind {
    const fn with(mut self, dependents: Dependents, revisions: Revisions) -> Self {
        self.dependents = dependents;
        self.revisions = revisions;
        self
    }

    const fn read_for_restarts(mut self) -> Self {
        self.is_read_for_restarts = true;
        self
    }

    const fn restarted(mut self, template: &'static str) -> Self {
        self.restarted_template = Some(template);
        self.read_for_restarts()
    }

    const fn inert(mut self) -> Self {
        self.is_inert = true;
        self
    }

    /// The group. Empty for the core group.
    #[must_use]
    pub fn group(&self) -> &'static str {
        group(self.api_version)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_listed_once_and_found_in_any_version() {
        for kind in &KINDS {
            assert!(is_built_in(kind.group()) || kind.group() == "apps.rollplan.dev");
            for version in ["v1", "v1beta1"] {
                let api_version = match kind.group() {
                    "" => version.to_owned(),
                    group => format!("{group}/{version}"),
                };
                let found = find(&api_version, kind.name);
                assert!(found.is_some_and(|it| std::ptr::eq(it, kind)), "{kind:?}");
            }
        }
        assert_eq!(find("example.com/v1", "Deployment"), None);
        assert!(!is_built_in("gateway.networking.k8s.io"));
    }
}
