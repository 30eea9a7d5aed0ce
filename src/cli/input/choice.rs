//! Selects the requested object from the input.

use std::fmt::{self, Display};

use super::object::{Object, Objects, Role};
use crate::cli::error::Error;
use crate::cli::resource::Resource;
use crate::cli::target::Target;

/// The requested object.
#[derive(Clone, Debug)]
pub(in crate::cli) struct Wanted {
    /// The apiVersion and kind that kubectl printed for it. `None` for an object in files.
    kind: Option<(String, String)>,
    resource: Resource,
    namespace: Option<String>,
    name: String,
}

/// The index of the requested object, or of the only Deployment.
pub(super) fn choose(objects: &Objects<'_>, wanted: Option<&Wanted>) -> Result<usize, Error> {
    let candidates = candidates(objects, wanted);
    let matching = candidates.iter().copied();
    let matching: Vec<usize> = matching
        .filter(|&index| wanted.is_none_or(|wanted| wanted.matches(&objects.all[index])))
        .collect();
    let list = |indices: &[usize]| {
        let lines = indices
            .iter()
            .map(|&index| format!("\n  {}", objects.all[index].place()));
        lines.collect::<String>()
    };
    match (matching.as_slice(), wanted) {
        (&[one], _) => Ok(one),
        ([], Some(wanted)) if wanted.is_in_cluster() => Err(wanted.absent()),
        ([], _) if candidates.is_empty() => {
            let kind = wanted.map_or_else(Resource::deployments, |it| it.resource.clone());
            Err(Error::input("", format!("the input contains no {kind}")))
        }
        ([], Some(wanted)) => {
            let list = list(&candidates);
            let kind = &wanted.resource;
            Err(Error::input(
                "",
                format!("{kind} {wanted} not found in the input, which has:{list}"),
            ))
        }
        (several, None) => {
            let list = list(several);
            let text =
                format!("several Deployments in the input; choose one with --deployment:{list}");
            Err(Error::input("", text))
        }
        (several, Some(wanted)) => {
            let list = list(several);
            let text = format!("several {}s {wanted} in the input:{list}", wanted.resource);
            Err(Error::input("", text))
        }
    }
}

fn candidates(objects: &Objects<'_>, wanted: Option<&Wanted>) -> Vec<usize> {
    let kind = wanted.and_then(|wanted| wanted.kind.as_ref());
    let is_candidate = |object: &Object<'_>| match kind {
        Some((api_version, kind)) => {
            object.found.api_version == *api_version && object.found.kind == *kind
        }
        None => {
            wanted.is_none_or(Wanted::is_deployment) && object.role() == Role::Deployment
                || wanted.is_some_and(|it| {
                    it.resource
                        .means(&object.found.api_version, &object.found.kind)
                })
        }
    };
    let all = objects.all.iter().enumerate();
    all.filter(|(_, object)| is_candidate(object))
        .map(|(index, _)| index)
        .collect()
}

/// The error for an object that does not exist.
pub(in crate::cli) fn absent(resource: &Resource, name: &str, namespace: Option<&str>) -> Error {
    Error::Absent(match namespace {
        _ if resource.is_cluster_scoped() => format!("{resource} {name} not found"),
        Some(namespace) => format!("{resource} {name} not found in namespace {namespace}"),
        None => format!("{resource} {name} not found in the namespace that kubectl uses"),
    })
}

// === impl Wanted ===

impl Wanted {
    /// Parses "[NAMESPACE/]NAME".
    pub(in crate::cli) fn parse(text: &str) -> Result<Self, Error> {
        let (namespace, name) = match text.split_once('/') {
            Some((namespace, name)) => (Some(namespace.to_owned()), name),
            None => (None, text),
        };
        if name.is_empty() || name.contains('/') || namespace.as_deref() == Some("") {
            let text = format!("--deployment {text}: must be [NAMESPACE/]NAME");
            return Err(Error::Usage(text));
        }
        Ok(Self {
            kind: None,
            resource: Resource::deployments(),
            namespace,
            name: name.to_owned(),
        })
    }

    /// A requested object of a cluster, in the given namespace or in the one that kubectl uses. Its kind is that of the
    /// first printed object, because only the cluster can resolve the user's word for a kind.
    pub(in crate::cli) fn in_cluster(
        target: &Target,
        namespace: Option<&str>,
        printed: &Objects<'_>,
    ) -> Self {
        let first = printed.all.first().map(|object| &object.found);
        let kind = first.map(|found| {
            let (api_version, kind) = (&found.api_version, &found.kind);
            (api_version.clone().into_owned(), kind.clone().into_owned())
        });
        Self {
            kind: Some(kind.unwrap_or_default()),
            resource: target.resource.clone(),
            namespace: namespace.map(str::to_owned),
            name: target.name.clone(),
        }
    }

    /// A requested object in files, in the given namespace or in any.
    pub(in crate::cli) fn in_files(target: Target, namespace: Option<&str>) -> Self {
        Self {
            kind: None,
            resource: target.resource,
            namespace: namespace.map(str::to_owned),
            name: target.name,
        }
    }

    /// Whether it is a Deployment or a PlannedDeployment.
    fn is_deployment(&self) -> bool {
        self.resource == Resource::deployments()
    }

    pub(super) fn is_in_cluster(&self) -> bool {
        self.kind.is_some()
    }

    fn absent(&self) -> Error {
        absent(&self.resource, &self.name, self.namespace.as_deref())
    }

    /// An object without a namespace matches every namespace.
    fn matches(&self, object: &Object<'_>) -> bool {
        let wanted = self.namespace.as_deref();
        object.found.metadata.name == self.name
            && wanted.is_none_or(|wanted| match self.is_in_cluster() {
                true => object.is_in_namespace(wanted),
                false => object.found.metadata.namespace == wanted,
            })
    }
}

impl Display for Wanted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{namespace}/{}", self.name),
            None => f.write_str(&self.name),
        }
    }
}
