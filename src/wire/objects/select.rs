//! Selects the objects that a request about a Deployment needs.

use std::collections::HashSet;
use std::rc::Rc;

use rollplan_core::selector::LabelSelector;
use rollplan_core::snapshot::Pod;

use super::found::{Found, Metadata};
use super::message::mark_template;
use super::name_only::name_only;
use super::{Object, Origins, Reader};
use crate::proto;
use crate::wire::error::{Error, Reason};
use crate::wire::estimate::COPIES;
use crate::wire::limits::{PODS_MAX, limit};
use crate::wire::origin::Origin;
use crate::wire::parse::selector::parse_selector;

/// The number of bytes of a Deployment's name that every ReplicaSet name starts with: longer names are truncated before
/// the hash.
const NAME_BYTES: usize = 200;

/// The maximum number of candidates in an error.
const CANDIDATES_LISTED_MAX: usize = 10;

impl Reader<'_> {
    /// Adds the Deployment and its dependents to the snapshot. Returns `None` after a violation.
    pub(super) fn select(
        &mut self,
        found: &[(Found<'_>, Metadata<'_>)],
        snapshot: &mut proto::Snapshot,
        lean_pods: Option<&mut Vec<Pod>>,
    ) -> Result<Option<Origins>, Error> {
        let Some(owner) = self.choose(found, snapshot.target.as_ref()) else {
            return Ok(None);
        };
        let Some((mut deployment, origin)) = self.message::<proto::Deployment>(owner)? else {
            return Ok(None);
        };
        let spec = deployment.spec.as_mut();
        if let Some(template) = spec.and_then(|spec| spec.template.as_mut()) {
            template.mark_as_json();
        }
        let selector = deployment
            .spec
            .as_ref()
            .and_then(|spec| spec.selector.clone());
        // An invalid selector selects nothing, and is reported with the Deployment.
        let selector = selector.and_then(|selector| parse_selector(selector).ok());
        let keys = selector.as_ref().map(selector_keys).unwrap_or_default();
        let of_kind = |api_version, kind| in_namespace_of(found, owner, api_version, kind);
        let (mut sets, mut others) = (Vec::new(), Vec::new());
        for object in of_kind("apps/v1", "ReplicaSet") {
            self.interrupt.check()?;
            let is_own = object.1.controller.as_ref() == Some(&owner.1.uid);
            let is_matched = || {
                let selector = selector.as_ref();
                selector.is_some_and(|selector| selector.matches(&object.0.labels_named(&keys)))
            };
            match (is_own, &object.1.controller) {
                (true, _) => sets.push(object),
                (_, None) if is_matched() => sets.push(object),
                (_, None) => others.push((object, false)),
                (_, Some(_)) => {
                    others.push((object, is_matched() && !is_predecessor(object, owner)))
                }
            }
        }
        let uids: HashSet<&str> = sets.iter().map(|set| &*set.1.uid).collect();
        let name = &*owner.1.name;
        let prefix = &name[..name.floor_char_boundary(NAME_BYTES)];
        // Others are needed only if the new ReplicaSet might get their name, or if their UID is that of a selected one. Of those
        // that the selector matches as well, one is enough: one with pods that a Deployment runs, if there is one.
        let overlapping = others.iter().filter(|(_, is_matched)| *is_matched);
        let overlapping = overlapping
            .map(|((set, other), _)| (!runs_pods_of_deployment(set), other.name.clone()))
            .min();
        others.retain(|((_, other), _)| {
            other.name.starts_with(prefix)
                || uids.contains(&*other.uid)
                || overlapping
                    .as_ref()
                    .is_some_and(|(_, name)| *name == other.name)
        });
        let pods = of_kind("v1", "Pod").filter(|(_, pod)| {
            let owner = pod.controller.as_ref();
            owner.is_some_and(|uid| uids.contains(&**uid))
        });
        let pods: Vec<Object<'_, '_>> = pods.collect();
        limit("snapshot.pods", pods.len(), PODS_MAX)?;
        let mut about = uids;
        about.insert(&owner.1.uid);
        about.extend(pods.iter().map(|pod| &*pod.1.uid));
        let events = of_kind("v1", "Event").filter(|(event, _)| {
            let uid = event.involved_uid();
            uid.is_some_and(|uid| about.contains(&*uid))
        });
        let events: Vec<Object<'_, '_>> = events.collect();
        let mut origins = Origins {
            deployment: origin,
            replica_sets: Vec::new(),
            pods: Vec::new(),
            events: Vec::new(),
        };
        snapshot.deployment = Some(deployment);
        let before = self.memory;
        self.messages(&sets, &mut snapshot.replica_sets, &mut origins.replica_sets)?;
        self.take_memory((self.memory - before).saturating_mul(COPIES - 1))?;
        snapshot.replica_sets.iter_mut().for_each(mark_template);
        for ((object, metadata), _) in others {
            snapshot
                .replica_sets
                .push(name_only(object, metadata, &keys));
            origins.replica_sets.push(object.origin(metadata));
        }
        let are_lean = match lean_pods {
            Some(lean_pods) => self.lean_pods(&pods, lean_pods, &mut origins.pods)?,
            None => false,
        };
        if !are_lean {
            self.messages(&pods, &mut snapshot.pods, &mut origins.pods)?;
        }
        // Events in their own field precede events in the texts.
        let given = snapshot.events.len();
        if given > 0 {
            let list: Rc<str> = Rc::from("snapshot.events");
            origins.events.extend((0..given).map(|index| Origin {
                list: Rc::clone(&list),
                index,
                object: "Event".to_owned(),
                template: None,
            }));
        }
        self.messages(&events, &mut snapshot.events, &mut origins.events)?;
        Ok(Some(origins))
    }

    /// Finds the target, or the only Deployment.
    pub(super) fn choose<'f, 'a>(
        &mut self,
        found: &'f [(Found<'a>, Metadata<'a>)],
        target: Option<&proto::Target>,
    ) -> Option<Object<'f, 'a>> {
        // Owners of other kinds must be named explicitly.
        let of_another_kind =
            target.is_some_and(|it| !it.api_version.is_empty() && !it.kind.is_empty());
        let candidates: Vec<_> = found
            .iter()
            .filter(|(object, _)| {
                of_another_kind || object.kind == "Deployment" && object.api_version == "apps/v1"
            })
            .collect();
        let matching: Vec<_> = candidates
            .iter()
            .copied()
            .filter(|(object, metadata)| {
                target.is_none_or(|target| {
                    let Metadata {
                        namespace, name, ..
                    } = metadata;
                    matches(target, &object.api_version, &object.kind, namespace, name)
                })
            })
            .collect();
        let [first, rest @ ..] = matching.as_slice() else {
            let owners = |objects: &mut dyn Iterator<Item = Object<'f, 'a>>| {
                let owners = objects.filter(|(object, _)| !is_read_for_owners(object));
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
                    ("snapshot.objects_json", description)
                }
            };
            self.violations.add(field, Reason::NotFound, description);
            return None;
        };
        if rest.is_empty() {
            return Some(first);
        }
        let uid = &*first.1.uid;
        if let Some(twice) = rest
            .iter()
            .find(|(_, other)| !uid.is_empty() && other.uid == uid)
        {
            let field = format!("{}.metadata.uid", twice.0.origin(&twice.1));
            let origin = first.0.origin(&first.1);
            let description = format!("{origin} has {uid:?} as well ({})", origin.object);
            self.violations.add(field, Reason::Duplicate, description);
            return None;
        }
        let field = "snapshot.target";
        let (reason, what) = match target {
            None => (Reason::Required, "is required"),
            Some(_) => (Reason::NotFound, "names several objects"),
        };
        let description = format!("{what}; {}", list(&matching));
        self.violations.add(field, reason, description);
        None
    }
}

/// The objects of a kind in the namespace of an owner. An absent namespace is the owner's.
pub(super) fn in_namespace_of<'f, 'a>(
    found: &'f [(Found<'a>, Metadata<'a>)],
    (_, owner): Object<'f, 'a>,
    api_version: &'static str,
    kind: &'static str,
) -> impl Iterator<Item = Object<'f, 'a>> {
    found.iter().filter(move |(object, metadata)| {
        object.kind == kind
            && object.api_version == api_version
            && (metadata.namespace.is_empty() || metadata.namespace == owner.namespace)
    })
}

/// Whether the controller of a ReplicaSet is an earlier owner with the same name.
fn is_predecessor(set: Object<'_, '_>, owner: Object<'_, '_>) -> bool {
    let controller = set.0.controller();
    controller.is_some_and(|it| it.kind == *owner.0.kind && it.name == *owner.1.name)
}

/// Whether a ReplicaSet belongs to a Deployment and has pods.
fn runs_pods_of_deployment(set: &Found<'_>) -> bool {
    let controller = set.controller();
    let is_of_deployment =
        controller.is_some_and(|it| it.kind == "Deployment" && it.api_version == "apps/v1");
    is_of_deployment && set.replicas() != Some(0)
}

/// The events about an object and its pods.
pub(super) fn events_about<'f, 'a>(
    found: &'f [(Found<'a>, Metadata<'a>)],
    owner: Object<'f, 'a>,
    pods: &[Object<'f, 'a>],
) -> Vec<Object<'f, 'a>> {
    let mut about: HashSet<&str> = pods.iter().map(|pod| &*pod.1.uid).collect();
    about.insert(&owner.1.uid);
    // An event without a UID is not about a known object.
    about.remove("");
    in_namespace_of(found, owner, "v1", "Event")
        .filter(|(event, _)| {
            let uid = event.involved_uid();
            uid.is_some_and(|uid| about.contains(&*uid))
        })
        .collect()
}

/// Whether an object is the target. Empty fields of the target match any value.
pub(super) fn matches(
    target: &proto::Target,
    api_version: &str,
    kind: &str,
    namespace: &str,
    name: &str,
) -> bool {
    [
        (&target.api_version, api_version),
        (&target.kind, kind),
        (&target.namespace, namespace),
        (&target.name, name),
    ]
    .into_iter()
    .all(|(wanted, given)| wanted.is_empty() || wanted == given)
}

/// Whether objects of this kind are only read as dependents of an owner.
fn is_read_for_owners(object: &Found<'_>) -> bool {
    matches!(
        (&*object.api_version, &*object.kind),
        ("apps/v1", "ReplicaSet") | ("v1", "Pod" | "Event")
    )
}

/// Lists objects, for example "candidates: Deployment shop/web, Deployment shop/api".
fn list(objects: &[Object<'_, '_>]) -> String {
    let shown = objects.iter().take(CANDIDATES_LISTED_MAX);
    let shown: Vec<String> = shown
        .map(|(object, metadata)| object.origin(metadata).object)
        .collect();
    match objects.len() {
        0 => "candidates: none".to_owned(),
        count if count > CANDIDATES_LISTED_MAX => {
            let more = count - CANDIDATES_LISTED_MAX;
            format!("candidates: {} and {more} more", shown.join(", "))
        }
        _ => format!("candidates: {}", shown.join(", ")),
    }
}

/// The keys of the labels that a selector uses.
fn selector_keys(selector: &LabelSelector) -> HashSet<&str> {
    let expressions = selector.match_expressions.iter().map(|it| &it.key);
    let keys = selector.match_labels.keys().chain(expressions);
    keys.map(String::as_str).collect()
}
