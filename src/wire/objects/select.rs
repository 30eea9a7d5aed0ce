//! Selects the objects that a request about an owner needs.

use std::collections::HashSet;

use rollplan_core::interrupt::Interrupt;
use rollplan_core::selector::LabelSelector;

use super::found::{Found, Metadata};
use super::index::ObjectIndex;
use crate::error::{Error, Reason};
use crate::limits::{EVENTS_MAX, PODS_MAX, REPLICA_SETS_MAX, limit};
use crate::proto;

/// The number of bytes of a Deployment's name that every ReplicaSet name starts with: longer names are truncated before
/// the hash.
const NAME_BYTES: usize = 200;

/// The maximum number of candidates in an error.
const CANDIDATES_LISTED_MAX: usize = 10;

/// The positions of the objects of a Deployment.
#[derive(Debug)]
pub struct Selected {
    /// The ReplicaSets that it controls or may adopt.
    pub replica_sets: Vec<usize>,
    /// ReplicaSets of its namespace whose names or UIDs matter.
    pub others: Vec<usize>,
    /// The pods of its ReplicaSets.
    pub pods: Vec<usize>,
    /// The events about all of them.
    pub events: Vec<usize>,
}

/// Selects the objects of a Deployment. As in Kubernetes, a ReplicaSet belongs to the Deployment by its controller, or by
/// its labels if it has none.
pub fn select<'a, T: AsRef<Found<'a>>>(
    objects: &ObjectIndex<'a, T>,
    owner: &Found<'a>,
    selector: &LabelSelector,
    interrupt: &dyn Interrupt,
) -> Result<Selected, Error> {
    let (mut replica_sets, mut others) = (Vec::new(), Vec::new());
    let mut uids: HashSet<&str> = HashSet::new();
    for (position, set) in objects.replica_sets() {
        interrupt.check()?;
        if !set.is_in_namespace_of(owner) {
            continue;
        }
        let controller = set.metadata.controller_uid();
        let is_matched = || selector.matches(set.labels());
        let is_selected = match controller {
            Some(uid) => uid == owner.metadata.uid,
            None => is_matched(),
        };
        if is_selected {
            replica_sets.push(position);
            uids.insert(&set.metadata.uid);
        } else {
            let overlaps = controller.is_some() && is_matched() && !is_predecessor(set, owner);
            others.push((position, set, overlaps));
        }
    }
    let name = &*owner.metadata.name;
    let prefix = &name[..name.floor_char_boundary(NAME_BYTES)];
    // Others are needed only if the new ReplicaSet might get their name, or if their UID is that of a selected one. Of those
    // that the selector matches as well, one is enough: one with pods that a Deployment runs, if there is one.
    let overlapping = others.iter().filter(|(_, _, overlaps)| *overlaps);
    let overlapping = overlapping
        .map(|(_, set, _)| (!runs_pods_of_deployment(set), &*set.metadata.name))
        .min();
    let overlapping = overlapping.map(|(_, name)| name);
    let others = others.into_iter().filter(|(_, set, _)| {
        let Metadata { name, uid, .. } = &set.metadata;
        name.starts_with(prefix) || uids.contains(&**uid) || overlapping == Some(&**name)
    });
    let others: Vec<usize> = others.map(|(position, ..)| position).collect();
    let pods = uids.iter().flat_map(|uid| objects.controlled_by(uid));
    let pods = pods.filter(|(_, pod)| pod.is_pod() && pod.is_in_namespace_of(owner));
    let (mut pods, pod_uids): (Vec<usize>, Vec<&str>) = pods
        .map(|(position, pod)| (position, &*pod.metadata.uid))
        .unzip();
    pods.sort_unstable();
    let mut about = uids;
    about.insert(&owner.metadata.uid);
    about.extend(pod_uids);
    let events = objects.events_about(&about, owner);
    limit(
        "ReplicaSets of the Deployment",
        replica_sets.len() + others.len(),
        REPLICA_SETS_MAX,
    )?;
    limit("pods of the Deployment", pods.len(), PODS_MAX)?;
    limit("events about the Deployment", events.len(), EVENTS_MAX)?;
    Ok(Selected {
        replica_sets,
        others,
        pods,
        events,
    })
}

/// Finds the target, or the only Deployment.
pub(crate) fn choose<'f, 'a>(
    found: &'f [Found<'a>],
    target: Option<&proto::Target>,
) -> Result<&'f Found<'a>, Error> {
    // Owners of other kinds must be named explicitly.
    let of_another_kind =
        target.is_some_and(|it| !it.api_version.is_empty() && !it.kind.is_empty());
    let candidates: Vec<_> = found
        .iter()
        .filter(|object| {
            of_another_kind || object.kind == "Deployment" && object.api_version == "apps/v1"
        })
        .collect();
    let matching: Vec<_> = candidates
        .iter()
        .copied()
        .filter(|object| target.is_none_or(|target| matches(target, object)))
        .collect();
    let [first, rest @ ..] = matching.as_slice() else {
        let owners = |objects: &mut dyn Iterator<Item = &'f Found<'a>>| {
            let owners = objects.filter(|object| !is_read_for_owners(object));
            list(&owners.collect::<Vec<_>>())
        };
        let (field, description) = match target {
            Some(_) => {
                let there = owners(&mut candidates.into_iter());
                ("snapshot.target", format!("not found; {there}"))
            }
            None => {
                let there = owners(&mut found.iter());
                let description = format!(
                    "has no apps/v1 Deployment, and target does not name another owner; {there}"
                );
                ("snapshot.objects", description)
            }
        };
        return Err(Error::violation(field, Reason::NotFound, description));
    };
    if rest.is_empty() {
        return Ok(first);
    }
    let uid = &*first.metadata.uid;
    if let Some(twice) = rest
        .iter()
        .find(|other| !uid.is_empty() && other.metadata.uid == uid)
    {
        let field = format!("{}.metadata.uid", twice.origin());
        let origin = first.origin();
        let description = format!("{origin} has {uid:?} as well ({})", origin.object);
        return Err(Error::violation(field, Reason::Duplicate, description));
    }
    let field = "snapshot.target";
    let (reason, what) = match target {
        None => (Reason::Required, "is required"),
        Some(_) => (Reason::NotFound, "names several objects"),
    };
    let description = format!("{what}; {}", list(&matching));
    Err(Error::violation(field, reason, description))
}

/// Whether the controller of a ReplicaSet is an earlier owner with the same name.
fn is_predecessor(set: &Found<'_>, owner: &Found<'_>) -> bool {
    let controller = set.metadata.controller.as_ref();
    controller.is_some_and(|it| it.kind == owner.kind && it.name == owner.metadata.name)
}

/// Whether a ReplicaSet belongs to a Deployment and has pods.
fn runs_pods_of_deployment(set: &Found<'_>) -> bool {
    let controller = set.metadata.controller.as_ref();
    let is_of_deployment =
        controller.is_some_and(|it| it.kind == "Deployment" && it.api_version == "apps/v1");
    is_of_deployment && set.replicas() != Some(0)
}

/// Whether an object is the target. Empty fields of the target match any value.
pub(crate) fn matches(target: &proto::Target, object: &Found<'_>) -> bool {
    [
        (&target.api_version, &object.api_version),
        (&target.kind, &object.kind),
        (&target.namespace, &object.metadata.namespace),
        (&target.name, &object.metadata.name),
    ]
    .into_iter()
    .all(|(wanted, given)| wanted.is_empty() || wanted == given)
}

/// Whether objects of this kind are only read as dependents of an owner.
fn is_read_for_owners(object: &Found<'_>) -> bool {
    object.is_replica_set() || object.is_pod() || object.is_event()
}

/// Lists objects, for example "candidates: Deployment shop/web, Deployment shop/api".
fn list(objects: &[&Found<'_>]) -> String {
    let shown = objects.iter().take(CANDIDATES_LISTED_MAX);
    let shown: Vec<String> = shown.map(|object| object.origin().object).collect();
    match objects.len() {
        0 => "candidates: none".to_owned(),
        count if count > CANDIDATES_LISTED_MAX => {
            let more = count - CANDIDATES_LISTED_MAX;
            format!("candidates: {} and {more} more", shown.join(", "))
        }
        _ => format!("candidates: {}", shown.join(", ")),
    }
}
