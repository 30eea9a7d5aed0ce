//! Kinds of objects, by kubectl's names for them.

use std::borrow::Cow;
use std::fmt;

use super::goal::Goal;

/// A kind of objects: its argument for kubectl, and its name in messages.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Resource {
    argument: Cow<'static, str>,
    label: Cow<'static, str>,
}

/// A kind with several names in kubectl.
struct Known {
    kind: &'static str,
    group: &'static str,
    plural: &'static str,
    short: &'static str,
    /// The argument for kubectl.
    argument: &'static str,
}

const fn known(
    kind: &'static str,
    group: &'static str,
    plural: &'static str,
    short: &'static str,
    argument: &'static str,
) -> Known {
    Known {
        kind,
        group,
        plural,
        short,
        argument,
    }
}

const DEPLOYMENT: &str = "Deployment";
const PLANNED_DEPLOYMENT: &str = "PlannedDeployment";

/// The kinds that rollplan knows.
const KNOWN: [Known; 14] = [
    known(DEPLOYMENT, "apps", "deployments", "deploy", "deploy"),
    known(
        PLANNED_DEPLOYMENT,
        "apps.rollplan.dev",
        "planneddeployments",
        "pdeploy",
        "planneddeployments.apps.rollplan.dev",
    ),
    known(
        "StatefulSet",
        "apps",
        "statefulsets",
        "sts",
        "statefulsets.apps",
    ),
    known("DaemonSet", "apps", "daemonsets", "ds", "daemonsets.apps"),
    known(
        "ReplicaSet",
        "apps",
        "replicasets",
        "rs",
        "replicasets.apps",
    ),
    known(
        "ReplicationController",
        "",
        "replicationcontrollers",
        "rc",
        "replicationcontrollers",
    ),
    known("Job", "batch", "jobs", "job", "jobs.batch"),
    known("CronJob", "batch", "cronjobs", "cj", "cronjobs.batch"),
    known("Pod", "", "pods", "po", "pods"),
    known("Service", "", "services", "svc", "services"),
    known(
        "PersistentVolumeClaim",
        "",
        "persistentvolumeclaims",
        "pvc",
        "persistentvolumeclaims",
    ),
    known(
        "CustomResourceDefinition",
        "apiextensions.k8s.io",
        "customresourcedefinitions",
        "crd",
        "customresourcedefinitions.apiextensions.k8s.io",
    ),
    known("ConfigMap", "", "configmaps", "cm", "configmaps"),
    known("Secret", "", "secrets", "secret", "secrets"),
];

/// The short names of the kinds that can be waited for.
pub(super) fn short_names() -> impl Iterator<Item = &'static str> {
    let known = KNOWN
        .iter()
        .filter(|it| !matches!(it.kind, "ConfigMap" | "Secret"));
    known.map(|it| it.short)
}

/// Kubernetes kinds without a controller that makes them ready, by group and kind. They have no state to wait for, so
/// `--filename` skips them without reading them: a pipeline may not be permitted to read Secrets or roles. The configuration
/// kinds in the table of the planner are read, and reported as complete: they are of other projects, and only the cluster
/// shows whether it serves and has them.
const INERT: [(&str, &str); 26] = [
    ("", "ConfigMap"),
    ("", "Endpoints"),
    ("", "Event"),
    ("", "LimitRange"),
    ("", "PodTemplate"),
    ("", "Secret"),
    ("", "ServiceAccount"),
    (
        "admissionregistration.k8s.io",
        "MutatingWebhookConfiguration",
    ),
    (
        "admissionregistration.k8s.io",
        "ValidatingAdmissionPolicyBinding",
    ),
    (
        "admissionregistration.k8s.io",
        "ValidatingWebhookConfiguration",
    ),
    ("apps", "ControllerRevision"),
    ("coordination.k8s.io", "Lease"),
    ("discovery.k8s.io", "EndpointSlice"),
    ("events.k8s.io", "Event"),
    ("networking.k8s.io", "IngressClass"),
    ("networking.k8s.io", "NetworkPolicy"),
    ("node.k8s.io", "RuntimeClass"),
    ("rbac.authorization.k8s.io", "ClusterRole"),
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"),
    ("rbac.authorization.k8s.io", "Role"),
    ("rbac.authorization.k8s.io", "RoleBinding"),
    ("scheduling.k8s.io", "PriorityClass"),
    ("storage.k8s.io", "CSIDriver"),
    ("storage.k8s.io", "CSINode"),
    ("storage.k8s.io", "StorageClass"),
    ("storage.k8s.io", "VolumeAttributesClass"),
];

/// Whether objects of a kind have no state to wait for.
pub(super) fn is_inert(api_version: &str, kind: &str) -> bool {
    INERT.contains(&(group(api_version), kind))
}

fn group(api_version: &str) -> &str {
    api_version.split_once('/').map_or("", |(group, _)| group)
}

// === impl Known ===

impl Known {
    /// Whether a word such as "sts", "statefulsets.apps" or "StatefulSet.v1.apps" names this kind.
    fn is_named(&self, word: &str) -> bool {
        let (name, suffix) = word.split_once('.').unwrap_or((word, ""));
        let is_name = |one: &str| one.eq_ignore_ascii_case(name);
        is_of_group(suffix, self.group)
            && [self.kind, self.plural, self.short]
                .into_iter()
                .any(is_name)
    }

    fn resource(&self) -> Resource {
        Resource {
            argument: self.argument.into(),
            label: self.kind.into(),
        }
    }
}

/// Whether the suffix of a kind is empty, a group, or a version and a group, for example "v1.apps".
fn is_of_group(suffix: &str, group: &str) -> bool {
    let version = suffix.strip_suffix(group);
    let version = version.map(|version| version.strip_suffix('.').unwrap_or(version));
    suffix.is_empty() || version.is_some_and(|it| it.is_empty() || is_version(it))
}

/// For example "v1" or "v1alpha1".
fn is_version(text: &str) -> bool {
    let rest = text.strip_prefix('v').unwrap_or_default();
    rest.starts_with(|first: char| first.is_ascii_digit()) && !rest.contains('.')
}

// === impl Resource ===

impl Resource {
    pub(super) fn deployments() -> Self {
        KNOWN[0].resource()
    }

    /// The kind that a word names, if both kubectl and rollplan know it.
    pub(super) fn known(word: &str) -> Option<Self> {
        let known = KNOWN.iter().find(|known| known.is_named(word))?;
        Some(known.resource())
    }

    /// The kind that a word names, including kinds that only kubectl knows. `None` if the word cannot name a kind.
    pub(super) fn named(word: &str) -> Option<Self> {
        let is_part = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'.';
        let is_word = word.starts_with(|first: char| first.is_ascii_alphabetic())
            && word.bytes().all(is_part);
        Self::known(word).or_else(|| {
            is_word.then(|| Self {
                argument: word.to_owned().into(),
                label: word.to_owned().into(),
            })
        })
    }

    /// The kind of an object.
    pub(super) fn of(api_version: &str, kind: &str) -> Self {
        let group = group(api_version);
        let known = |known: &&Known| known.kind == kind && known.group == group;
        if let Some(known) = KNOWN.iter().find(known) {
            return known.resource();
        }
        let name = kind.to_ascii_lowercase();
        let version = api_version.rsplit('/').next().unwrap_or_default();
        Self {
            argument: match group {
                "" => name.into(),
                group => format!("{name}.{version}.{group}").into(),
            },
            label: kind.to_owned().into(),
        }
    }

    /// Whether it matches objects of this version and kind. An unknown word matches the singular or plural of its kind,
    /// with or without the group.
    pub(super) fn means(&self, api_version: &str, kind: &str) -> bool {
        if self.is_known() {
            return *self == Self::of(api_version, kind);
        }
        let argument = self.argument.to_ascii_lowercase();
        let (name, suffix) = argument.split_once('.').unwrap_or((&argument, ""));
        let singular = kind.to_ascii_lowercase();
        let stem = singular.strip_suffix('y').unwrap_or(&singular);
        let is_name = name == singular
            || name.strip_suffix('s') == Some(singular.as_str())
            || name.strip_suffix("es") == Some(singular.as_str())
            || name.strip_suffix("ies") == Some(stem);
        is_name && is_of_group(suffix, group(api_version))
    }

    /// Whether rollplan knows the kind.
    pub(super) fn is_known(&self) -> bool {
        KNOWN.iter().any(|known| known.argument == self.argument)
    }

    /// The argument for kubectl.
    pub(super) fn argument(&self) -> &str {
        &self.argument
    }

    /// Whether earlier templates of its objects are kept.
    pub(super) fn has_revisions(&self) -> bool {
        self.is_planned() || matches!(&*self.label, "StatefulSet" | "DaemonSet")
    }

    /// Whether rollplan can plan for this kind.
    pub(super) fn is_planned(&self) -> bool {
        matches!(&*self.label, DEPLOYMENT | PLANNED_DEPLOYMENT)
    }

    /// Whether its objects have no namespace.
    pub(super) fn is_cluster_scoped(&self) -> bool {
        self.label == "CustomResourceDefinition"
    }

    /// Whether the goal applies to this kind. `None` for unknown kinds.
    pub(super) fn has_goal(&self, goal: &Goal) -> Option<bool> {
        match (goal, &*self.label) {
            (Goal::Complete | Goal::Deleted | Goal::Field(_), _) => Some(true),
            (_, DEPLOYMENT | PLANNED_DEPLOYMENT | "StatefulSet" | "DaemonSet")
            | (Goal::Available, "ReplicaSet" | "ReplicationController") => Some(true),
            _ => self.is_known().then_some(false),
        }
    }
}

/// The name of the kind in messages.
impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.label)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kind_names_match_kubectl() {
        for (words, argument) in [
            (
                &[
                    "sts",
                    "statefulset",
                    "StatefulSets",
                    "statefulset.apps",
                    "statefulsets.v1.apps",
                ][..],
                "statefulsets.apps",
            ),
            (&["ds", "DaemonSet", "daemonsets"], "daemonsets.apps"),
            (&["rs", "replicaset"], "replicasets.apps"),
            (&["rc", "ReplicationController"], "replicationcontrollers"),
            (&["job", "jobs", "job.batch", "Job.v1.batch"], "jobs.batch"),
            (&["cj", "cronjob"], "cronjobs.batch"),
            (&["po", "pod", "Pods"], "pods"),
            (&["svc", "service"], "services"),
            (&["pvc", "persistentvolumeclaim"], "persistentvolumeclaims"),
            (
                &["crd", "customresourcedefinition.apiextensions.k8s.io"],
                "customresourcedefinitions.apiextensions.k8s.io",
            ),
            (&["deploy", "Deployment", "deployments.apps"], "deploy"),
            (
                &["pdeploy", "planneddeployment.v1alpha1.apps.rollplan.dev"],
                "planneddeployments.apps.rollplan.dev",
            ),
        ] {
            for word in words {
                let resource = Resource::known(word).map(|it| it.argument.into_owned());
                assert_eq!(resource.as_deref(), Some(argument), "{word}");
            }
        }
        for word in [
            "certificate",
            "ing",
            "deploy.other",
            "pods.metrics.k8s.io",
            "job.v1",
            "sts.v.apps",
        ] {
            assert_eq!(Resource::known(word), None, "{word}");
            let named = Resource::named(word).map(|it| it.to_string());
            assert_eq!(named.as_deref(), Some(word));
        }
        for word in ["", "-o", "a b", "a,b", "--raw=x", "a/b", "1st"] {
            assert_eq!(Resource::named(word), None, "{word}");
        }
    }

    #[test]
    fn objects_are_requested_by_group_and_version() {
        for (api_version, kind, argument) in [
            ("apps/v1", "Deployment", "deploy"),
            ("apps/v1", "StatefulSet", "statefulsets.apps"),
            ("v1", "Pod", "pods"),
            ("v1", "Namespace", "namespace"),
            (
                "cert-manager.io/v1",
                "Certificate",
                "certificate.v1.cert-manager.io",
            ),
            (
                "serving.knative.dev/v1",
                "Service",
                "service.v1.serving.knative.dev",
            ),
        ] {
            assert_eq!(Resource::of(api_version, kind).argument(), argument);
        }
        for (word, api_version, kind, is_meant) in [
            ("sts", "apps/v1", "StatefulSet", true),
            ("sts", "example.com/v1", "StatefulSet", false),
            ("svc", "serving.knative.dev/v1", "Service", false),
            ("certificate", "cert-manager.io/v1", "Certificate", true),
            (
                "certificates.cert-manager.io",
                "cert-manager.io/v1",
                "Certificate",
                true,
            ),
            (
                "Certificate.v1.cert-manager.io",
                "cert-manager.io/v1",
                "Certificate",
                true,
            ),
            (
                "certificates.example.com",
                "cert-manager.io/v1",
                "Certificate",
                false,
            ),
            (
                "certificates.manager.io",
                "cert-manager.io/v1",
                "Certificate",
                false,
            ),
            ("ingresses", "networking.k8s.io/v1", "Ingress", true),
            (
                "networkpolicies.networking.k8s.io",
                "networking.k8s.io/v1",
                "NetworkPolicy",
                true,
            ),
            ("namespaces", "v1", "Namespace", true),
            ("ing", "networking.k8s.io/v1", "Ingress", false),
        ] {
            let resource = Resource::named(word).unwrap();
            assert_eq!(
                resource.means(api_version, kind),
                is_meant,
                "{word} {api_version} {kind}"
            );
        }
        assert!(is_inert("v1", "Secret") && !is_inert("example.com/v1", "Secret"));
    }
}
