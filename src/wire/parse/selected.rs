//! Finds the selected objects of an encoded snapshot before it is decoded, because only these are refused for their
//! size. Used only if an object exceeds a limit.

use std::collections::HashSet;

use prost::Message;
use rollplan_core::interrupt::{Interrupt, Interrupted, Never};

use super::{Owner, Parser, Path, Relation, controller};
use crate::proto;
use crate::wire::fields::next_field;

// The numbers of fields: of a request, a snapshot, an object, its metadata, and a map entry.
const SNAPSHOT: u32 = 1;
const REPLICA_SETS: u32 = 3;
const PODS: u32 = 4;
const EVENTS: u32 = 10;
const METADATA: u32 = 3;
const INVOLVED_OBJECT: u32 = 4;
const NAMESPACE: u32 = 2;
const UID: u32 = 3;
const LABELS: u32 = 8;
const OWNER_REFERENCES: u32 = 10;
const KEY: u32 = 1;
const VALUE: u32 = 2;

/// The parts of a request that contain its Deployment.
#[derive(Clone, PartialEq, Message)]
struct RequestOfDeployment {
    #[prost(message, optional, tag = "1")]
    snapshot: Option<SnapshotOfDeployment>,
}

#[derive(Clone, PartialEq, Message)]
struct SnapshotOfDeployment {
    #[prost(message, optional, tag = "2")]
    deployment: Option<proto::Deployment>,
}

/// The addresses of the encoded ReplicaSets, pods and events that are selected. Empty without a Deployment. Malformed
/// objects count as selected.
pub(in crate::wire) fn find_selected(
    request: &[u8],
    interrupt: &dyn Interrupt,
) -> Result<HashSet<usize>, Interrupted> {
    let mut selected = HashSet::new();
    let decoded = RequestOfDeployment::decode(request).unwrap_or_default();
    let Some(deployment) = decoded.snapshot.and_then(|snapshot| snapshot.deployment) else {
        return Ok(selected);
    };
    let keys = selector_keys(&deployment);
    // Its violations are reported when the request is parsed.
    let mut parser = Parser::new(&Never);
    let (deployment, _) = parser.deployment(Some(deployment), &None, &Path::Root("deployment"));
    let owner = Owner {
        deployment: &deployment,
        template: None,
    };
    let mut owners = HashSet::new();
    for set in members(request, REPLICA_SETS) {
        interrupt.check()?;
        let metadata = read_metadata(set, &keys);
        let is_selected = |it: &proto::ObjectMeta| owner.relation(it) == Relation::Selected;
        if metadata.as_ref().is_none_or(is_selected) {
            selected.insert(set.as_ptr().addr());
            owners.extend(metadata.map(|it| it.uid));
        }
    }
    let mut about = HashSet::new();
    for pod in members(request, PODS) {
        interrupt.check()?;
        let metadata = read_metadata(pod, &HashSet::new());
        let is_selected = |it: &proto::ObjectMeta| {
            let controller = controller(it).map(|it| &*it.uid);
            owner.selects_pod(&it.namespace, controller, &owners)
        };
        if metadata.as_ref().is_none_or(is_selected) {
            selected.insert(pod.as_ptr().addr());
            about.extend(metadata.map(|it| it.uid));
        }
    }
    about.extend(owners);
    about.insert(deployment.metadata.uid.clone());
    for event in members(request, EVENTS) {
        interrupt.check()?;
        let object = fields(event, INVOLVED_OBJECT).last().unwrap_or_default();
        let object = proto::ObjectReference::decode(object);
        if object.map_or(true, |object| about.contains(&object.uid)) {
            selected.insert(event.as_ptr().addr());
        }
    }
    Ok(selected)
}

/// The keys of the labels that decide whether a selector matches.
fn selector_keys(deployment: &proto::Deployment) -> HashSet<Vec<u8>> {
    let spec = deployment.spec.as_ref();
    let Some(selector) = spec.and_then(|spec| spec.selector.as_ref()) else {
        return HashSet::new();
    };
    let expressions = selector.match_expressions.iter().map(|it| &it.key);
    let keys = selector.match_labels.keys().chain(expressions);
    keys.map(|key| key.clone().into_bytes()).collect()
}

/// The objects in a list of the snapshot.
fn members(request: &[u8], number: u32) -> impl Iterator<Item = &[u8]> {
    fields(request, SNAPSHOT).flat_map(move |snapshot| fields(snapshot, number))
}

/// All occurrences of a length-delimited field.
fn fields(mut message: &[u8], number: u32) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        while !message.is_empty() {
            let (found, inside) = next_field(&mut message)?;
            if found == number && inside.is_some() {
                return inside;
            }
        }
        None
    })
}

/// The metadata that decides whether an object is selected: namespace, UID, controller, and the labels with these keys.
/// An object may have a million other labels.
fn read_metadata(object: &[u8], keys: &HashSet<Vec<u8>>) -> Option<proto::ObjectMeta> {
    let mut metadata = proto::ObjectMeta::default();
    for mut fields_left in fields(object, METADATA) {
        while !fields_left.is_empty() {
            match next_field(&mut fields_left)? {
                (NAMESPACE, Some(inside)) => metadata.namespace = text(inside)?,
                (UID, Some(inside)) => metadata.uid = text(inside)?,
                (LABELS, Some(entry)) => {
                    let key = fields(entry, KEY).last().unwrap_or_default();
                    if keys.contains(key) {
                        let value = fields(entry, VALUE).last().unwrap_or_default();
                        metadata.labels.insert(text(key)?, text(value)?);
                    }
                }
                (OWNER_REFERENCES, Some(inside)) if metadata.owner_references.is_empty() => {
                    let owner = proto::OwnerReference::decode(inside).ok()?;
                    metadata
                        .owner_references
                        .extend(Some(owner).filter(proto::OwnerReference::controller));
                }
                _ => {}
            }
        }
    }
    Some(metadata)
}

fn text(bytes: &[u8]) -> Option<String> {
    str::from_utf8(bytes).ok().map(str::to_owned)
}
