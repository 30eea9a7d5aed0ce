//! Kinds of objects, by kubectl's names for them.

use std::borrow::Cow;
use std::fmt;

use rollplan_core::kind::{self, KINDS, Kind, Revisions, group};

use super::goal::Goal;

const DEPLOYMENT: &str = "Deployment";

/// A kind of objects: its argument for kubectl, and its name in messages.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Resource {
    argument: Cow<'static, str>,
    label: Cow<'static, str>,
}

/// The short names of the kinds that can be waited for.
pub(super) fn short_names() -> impl Iterator<Item = &'static str> {
    let known = known().filter(|it| !it.is_inert);
    known.map(|it| it.short)
}

/// Whether objects of a kind have no state to wait for, so that `--filename` skips them without reading them: a pipeline may
/// not be permitted to read Secrets or roles. The configuration kinds in the table of the planner are read, and reported as
/// complete: they are of other projects, and only the cluster shows whether it serves and has them.
pub(super) fn is_inert(api_version: &str, kind: &str) -> bool {
    kind::find(api_version, kind).is_some_and(|it| it.is_inert)
}

/// The kinds that commands know by kubectl's names.
fn known() -> impl Iterator<Item = &'static Kind> {
    KINDS.iter().filter(|it| !it.short.is_empty())
}

/// Whether a word such as "sts", "statefulsets.apps" or "StatefulSet.v1.apps" names a kind.
fn is_named(kind: &Kind, word: &str) -> bool {
    let (name, suffix) = word.split_once('.').unwrap_or((word, ""));
    let is_name = |one: &str| one.eq_ignore_ascii_case(name);
    is_of_group(suffix, kind.group())
        && [kind.name, kind.plural, kind.short]
            .into_iter()
            .any(is_name)
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

/// The argument for kubectl.
fn argument(kind: &'static Kind) -> Cow<'static, str> {
    match (kind.name, kind.group()) {
        (DEPLOYMENT, _) => kind.short.into(),
        (_, "") => kind.plural.into(),
        (_, group) => format!("{}.{group}", kind.plural).into(),
    }
}

// === impl Resource ===

impl Resource {
    pub(super) fn deployments() -> Self {
        Self::from(&KINDS[0])
    }

    /// The kind that a word names, if both kubectl and rollplan know it.
    pub(super) fn known(word: &str) -> Option<Self> {
        known().find(|kind| is_named(kind, word)).map(Self::from)
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
        if let Some(known) = known().find(|it| it.name == kind && it.group() == group) {
            return known.into();
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

    /// The known kind with its name.
    fn kind(&self) -> Option<&'static Kind> {
        known().find(|kind| kind.name == self.label)
    }

    /// Whether rollplan knows the kind.
    pub(super) fn is_known(&self) -> bool {
        self.kind()
            .is_some_and(|kind| argument(kind) == self.argument)
    }

    /// The argument for kubectl.
    pub(super) fn argument(&self) -> &str {
        &self.argument
    }

    /// Whether earlier templates of its objects are kept.
    pub(super) fn has_revisions(&self) -> bool {
        self.kind()
            .is_some_and(|kind| kind.revisions != Revisions::None)
    }

    /// Whether rollplan can plan for this kind.
    pub(super) fn is_planned(&self) -> bool {
        self.kind()
            .is_some_and(|kind| kind.revisions == Revisions::ReplicaSets)
    }

    /// Whether its objects have no namespace.
    pub(super) fn is_cluster_scoped(&self) -> bool {
        self.label == "CustomResourceDefinition"
    }

    /// Whether the goal applies to this kind. `None` for unknown kinds.
    pub(super) fn has_goal(&self, goal: &Goal) -> Option<bool> {
        match (goal, &*self.label) {
            (Goal::Complete | Goal::Deleted | Goal::Field(_), _) => Some(true),
            (Goal::Available, "ReplicaSet" | "ReplicationController") => Some(true),
            _ if self.has_revisions() => Some(true),
            _ => self.is_known().then_some(false),
        }
    }
}

impl From<&'static Kind> for Resource {
    fn from(kind: &'static Kind) -> Self {
        Self {
            argument: argument(kind),
            label: kind.name.into(),
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
