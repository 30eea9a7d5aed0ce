//! Selects the requested object from the input.

use std::collections::BTreeMap;
use std::fmt::{self, Display};

use super::object::{Object, Objects, Role};
use crate::cli::error::Error;
use crate::cli::resource::Resource;
use crate::cli::target::Target;

/// The maximum number of kinds that an error names.
const KINDS_MAX: usize = 10;

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
    choose_of(matching(objects, wanted), objects, wanted)
}

/// The index of the requested object of manifests, or of the only Deployment. Of several manifests of one object, the last
/// one is applied last. Also returns whether there are several.
pub(super) fn choose_manifest(
    objects: &Objects<'_>,
    wanted: Option<&Wanted>,
) -> Result<(usize, bool), Error> {
    let matching = matching(objects, wanted);
    let count = matching.len();
    let is_replaced = |index: usize| {
        let later = matching.iter().filter(|later| **later > index);
        let mut later = later.map(|&later| &objects.all[later]);
        later.any(|later| later.is_same_as(&objects.all[index]))
    };
    let last = matching.iter().copied().filter(|&it| !is_replaced(it));
    let last: Vec<usize> = last.collect();
    let has_several = last.len() < count;
    choose_of(last, objects, wanted).map(|index| (index, has_several))
}

fn matching(objects: &Objects<'_>, wanted: Option<&Wanted>) -> Vec<usize> {
    let is_candidate = |index: &usize| is_candidate(&objects.all[*index], wanted);
    match wanted {
        None => (0..objects.all.len()).filter(is_candidate).collect(),
        Some(wanted) => {
            let named = objects.all.named(&wanted.name).iter().copied();
            named
                .filter(is_candidate)
                .filter(|&index| wanted.is_in_namespace(&objects.all[index]))
                .collect()
        }
    }
}

/// The only one of the objects that match.
fn choose_of(
    matching: Vec<usize>,
    objects: &Objects<'_>,
    wanted: Option<&Wanted>,
) -> Result<usize, Error> {
    let is_candidate = |index: &usize| is_candidate(&objects.all[*index], wanted);
    let list = |indices: &[usize]| {
        let lines = indices
            .iter()
            .map(|&index| format!("\n  {}", objects.all[index].place()));
        lines.collect::<String>()
    };
    match (matching.as_slice(), wanted) {
        (&[one], _) => Ok(one),
        ([], Some(wanted)) if wanted.is_in_cluster() => Err(wanted.absent()),
        ([], _) => {
            let resource = wanted.map_or_else(Resource::deployments, |it| it.resource.clone());
            let candidates = (0..objects.all.len()).filter(is_candidate);
            let candidates: Vec<usize> = candidates.collect();
            let text = match wanted {
                Some(wanted) if !candidates.is_empty() => {
                    let list = list(&candidates);
                    format!("{resource} {wanted} not found in the input, which has:{list}")
                }
                _ => format!("the input contains no {resource}{}", kinds(objects)),
            };
            Err(Error::input("", text))
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

/// The kinds in the input with their numbers, for example ", only ConfigMap (2), Service (1)". Empty without objects.
fn kinds(objects: &Objects<'_>) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for object in objects.all.iter() {
        *counts.entry(&object.found.kind).or_default() += 1;
    }
    let kinds = counts
        .iter()
        .map(|(kind, count)| format!("{kind} ({count})"));
    let kinds: Vec<String> = kinds.take(KINDS_MAX).collect();
    let more = if counts.len() > KINDS_MAX {
        ", …"
    } else {
        ""
    };
    if kinds.is_empty() {
        String::new()
    } else {
        format!(", only {}{more}", kinds.join(", "))
    }
}

/// Whether an object has the requested kind.
fn is_candidate(object: &Object<'_>, wanted: Option<&Wanted>) -> bool {
    let Object { found, .. } = object;
    match wanted.and_then(|wanted| wanted.kind.as_ref()) {
        Some((api_version, kind)) => found.api_version == *api_version && found.kind == *kind,
        None => {
            wanted.is_none_or(Wanted::is_deployment) && object.role() == Role::Deployment
                || wanted.is_some_and(|it| it.resource.means(&found.api_version, &found.kind))
        }
    }
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
    pub(super) fn is_deployment(&self) -> bool {
        self.resource == Resource::deployments()
    }

    pub(super) fn is_in_cluster(&self) -> bool {
        self.kind.is_some()
    }

    fn absent(&self) -> Error {
        absent(&self.resource, &self.name, self.namespace.as_deref())
    }

    /// Whether an object is in the requested namespace. An object without a namespace is in every namespace: in a cluster,
    /// because it is not namespaced, and in files, because it is applied to the namespace that is given.
    fn is_in_namespace(&self, object: &Object<'_>) -> bool {
        let wanted = self.namespace.as_deref();
        let namespace = &object.found.metadata.namespace;
        wanted.is_none_or(|wanted| namespace == wanted || namespace.is_empty())
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
