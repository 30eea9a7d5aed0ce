//! Kubernetes JSON as it is: finds the objects of a snapshot in it, selects those of its Deployment, and writes them as the
//! messages that a client with generated types would have sent. What is not selected is never looked into.

mod complete;
pub(super) mod kinds;
mod scan;
mod transcode;

use std::collections::{BTreeMap, HashSet};
use std::rc::Rc;

use bytes::Bytes;
use prost::{Message, Name};
use rollplan_core::interrupt::Interrupt;

pub(crate) use self::complete::Listed;
pub(crate) use self::kinds::is_deployment;
pub(crate) use self::scan::{Found, Metadata, scan, scan_field};
pub(super) use self::transcode::Fault;
use self::transcode::Transcoder;
use super::error::{Error, Reason, Violations};
use super::estimate::{self, COPIES, MEMORY_BYTES_MAX, OBJECT_BYTES_MAX};
use super::limits::{PODS_MAX, limit};
use super::origin::Origin;
use super::parse::selector::parse_selector;
use crate::proto;

/// Objects that the texts of a request may have, those that are not selected included.
pub const OBJECTS_MAX: usize = 200_000;

/// The name of a ReplicaSet begins with so many bytes of its Deployment's at least: longer ones are cut for the hash.
const NAME_BYTES: usize = 200;

/// Candidates that an error lists.
const CANDIDATES_LISTED_MAX: usize = 10;

/// What Kubernetes JSON shows before a plan is made of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectsSummary {
    /// The Deployment. Its resource is that of the request's target.
    pub target: proto::Target,
    /// Whether no ReplicaSet of the Deployment seems to be missing.
    pub replica_sets_complete: bool,
    /// Whether no pod of these seems to be missing.
    pub pods_complete: bool,
}

// === impl ObjectsSummary ===

impl ObjectsSummary {
    /// The Deployment, for example "Deployment shop/web".
    #[must_use]
    pub fn subject(&self) -> String {
        let proto::Target {
            kind,
            namespace,
            name,
            ..
        } = &self.target;
        match &**namespace {
            "" => format!("{kind} {name}"),
            namespace => format!("{kind} {namespace}/{name}"),
        }
    }
}

/// Where the objects of a snapshot come from, one for each.
#[derive(Debug)]
pub(super) struct Origins {
    pub(super) deployment: Origin,
    pub(super) replica_sets: Vec<Origin>,
    pub(super) pods: Vec<Origin>,
    pub(super) events: Vec<Origin>,
}

/// Fills in the objects of a snapshot from its JSON texts. `None` if it has none.
pub(super) fn read(
    snapshot: &mut proto::Snapshot,
    interrupt: &dyn Interrupt,
) -> Result<Option<Origins>, Error> {
    let mut violations = Violations::default();
    check_target(snapshot, &mut violations);
    if snapshot.objects_json.is_empty() {
        return match violations.is_empty() {
            true => Ok(None),
            false => Err(Error::InvalidArgument(violations)),
        };
    }
    check_exclusive(snapshot, &mut violations);
    check_kind(snapshot, &mut violations);
    let texts = std::mem::take(&mut snapshot.objects_json);
    let (found, _) = scan_all(&texts, violations, interrupt)?;
    let mut reader = Reader {
        violations: Violations::default(),
        memory: 0,
        interrupt,
    };
    let origins = reader.select(&found, snapshot)?;
    match (origins, reader.violations.is_empty()) {
        (Some(origins), true) => Ok(Some(origins)),
        _ => Err(Error::InvalidArgument(reader.violations)),
    }
}

/// What the JSON texts of a snapshot show. For callers who do not know what they were given, and so cannot promise that it is
/// complete.
///
/// # Errors
///
/// As [`compute_status`](super::compute_status), if it is not clear which Deployment is meant.
pub fn summarize_objects(
    snapshot: &proto::Snapshot,
    interrupt: &dyn Interrupt,
) -> Result<ObjectsSummary, Error> {
    let proto::Snapshot {
        objects_json,
        target,
        ..
    } = snapshot;
    let (found, is_continued) = scan_all(objects_json, Violations::default(), interrupt)?;
    let mut reader = Reader {
        violations: Violations::default(),
        memory: 0,
        interrupt,
    };
    let Some(owner) = reader.choose(&found, target.as_ref()) else {
        return Err(Error::InvalidArgument(reader.violations));
    };
    let all = |api_version, kind| {
        let objects = near(&found, owner, api_version, kind);
        objects
            .map(|(object, metadata)| (object, metadata))
            .collect()
    };
    let (object, metadata) = owner;
    let listed = Listed {
        owner: (object, metadata),
        replica_sets: all("apps/v1", "ReplicaSet"),
        pods: all("v1", "Pod"),
    };
    Ok(ObjectsSummary {
        target: proto::Target {
            api_version: object.api_version.clone().into_owned(),
            kind: object.kind.clone().into_owned(),
            namespace: metadata.namespace.clone().into_owned(),
            name: metadata.name.clone().into_owned(),
            resource: target
                .as_ref()
                .map_or_else(String::new, |it| it.resource.clone()),
        },
        replica_sets_complete: !is_continued && listed.shows_every_replica_set(),
        pods_complete: !is_continued && listed.shows_every_pod(),
    })
}

/// All objects of all texts, and whether a list in them is a page of one that goes on.
fn scan_all<'a>(
    texts: &'a [Bytes],
    mut violations: Violations,
    interrupt: &dyn Interrupt,
) -> Result<(Vec<(Found<'a>, Metadata<'a>)>, bool), Error> {
    let mut found = Vec::new();
    let mut is_continued = false;
    for (index, text) in texts.iter().enumerate() {
        interrupt.check()?;
        is_continued |= scan(index, text, &mut found, &mut violations)?;
    }
    if !violations.is_empty() {
        return Err(Error::InvalidArgument(violations));
    }
    let found = found.into_iter().map(|object| {
        let metadata = object.metadata();
        (object, metadata)
    });
    Ok((found.collect(), is_continued))
}

/// The objects of a kind in the namespace of an owner. An absent namespace is the owner's.
fn near<'f, 'a>(
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

/// Objects are either in their fields or in texts.
fn check_exclusive(snapshot: &proto::Snapshot, violations: &mut Violations) {
    for (field, is_given) in [
        ("snapshot.deployment", snapshot.deployment.is_some()),
        ("snapshot.replica_sets", !snapshot.replica_sets.is_empty()),
        ("snapshot.pods", !snapshot.pods.is_empty()),
    ] {
        if is_given {
            let description = "may not be given beside objects_json";
            violations.add(field, Reason::Exclusive, description);
        }
    }
}

/// Nothing is planned for other kinds of Kubernetes than Deployments.
fn check_kind(snapshot: &proto::Snapshot, violations: &mut Violations) {
    let Some(target) = &snapshot.target else {
        return;
    };
    let (api_version, kind) = (target.api_version.as_str(), target.kind.as_str());
    let is_given = !api_version.is_empty() && !kind.is_empty();
    if is_given
        && kinds::is_of_kubernetes(api_version)
        && (api_version, kind) != ("apps/v1", "Deployment")
    {
        let description = format!(
            "is {kind:?} of {api_version}: only apps/v1 Deployments and custom resources with the same spec can be \
             planned, rolled back and listed; ComputeStatus reports on every kind"
        );
        violations.add("snapshot.target.kind", Reason::WrongKind, description);
    }
}

/// The events about an object and its pods.
fn events_about<'f, 'a>(
    found: &'f [(Found<'a>, Metadata<'a>)],
    owner: Object<'f, 'a>,
    pods: &[Object<'f, 'a>],
) -> Vec<Object<'f, 'a>> {
    let mut about: HashSet<&str> = pods.iter().map(|pod| &*pod.1.uid).collect();
    about.insert(&owner.1.uid);
    // Nothing tells what an event without a UID is about.
    about.remove("");
    near(found, owner, "v1", "Event")
        .filter(|(event, _)| {
            let uid = event.involved_uid();
            uid.is_some_and(|uid| about.contains(&*uid))
        })
        .collect()
}

/// Reads a text with exactly one ReplicaSet. The path of an error is relative to the text.
pub(super) fn read_replica_set(
    text: &[u8],
    interrupt: &dyn Interrupt,
) -> Result<proto::ReplicaSet, Fault> {
    let fault = |reason, description: String| Fault {
        path: String::new(),
        reason,
        description,
    };
    let mut found = Vec::new();
    let mut violations = Violations::default();
    self::scan(0, text, &mut found, &mut violations)
        .map_err(|error| fault(Reason::ObjectTooLarge, error.to_string()))?;
    if let Some(first) = violations.listed.into_iter().next() {
        return Err(Fault {
            path: scan::path_in_text(&first.field).to_owned(),
            reason: first.reason,
            description: first.description,
        });
    }
    let [object] = found.as_slice() else {
        let description = format!("must be one ReplicaSet, and has {} objects", found.len());
        return Err(fault(Reason::WrongKind, description));
    };
    if (&*object.api_version, &*object.kind) != ("apps/v1", "ReplicaSet") {
        let description = format!(
            "must be an apps/v1 ReplicaSet, and is {} {}",
            object.api_version, object.kind
        );
        return Err(fault(Reason::WrongKind, description));
    }
    match message_of::<proto::ReplicaSet>(object, interrupt) {
        Ok((mut set, _)) => {
            mark_template(&mut set);
            Ok(set)
        }
        Err(Unread::Faults(faults)) => Err(faults
            .into_iter()
            .next()
            .unwrap_or_else(|| fault(Reason::MalformedJson, "cannot be read".to_owned()))),
        Err(Unread::Error(error)) => Err(fault(Reason::ObjectTooLarge, error.to_string())),
    }
}

/// Why an object has no message.
enum Unread {
    /// What is wrong with the object.
    Faults(Vec<Fault>),
    /// What ends the whole request.
    Error(Error),
}

/// The message of an object, and the bytes that it takes in memory.
fn message_of<M: Message + Name + Default>(
    object: &Found<'_>,
    interrupt: &dyn Interrupt,
) -> Result<(M, usize), Unread> {
    let name = M::full_name();
    let bytes = Transcoder::default()
        .message(&name, &object.api_version, &object.kind, object.fields())
        .map_err(|fault| Unread::Faults(vec![fault]))?;
    if bytes.len() > OBJECT_BYTES_MAX {
        return Err(Unread::Faults(vec![Fault {
            path: String::new(),
            reason: Reason::ObjectTooLarge,
            description: format!(
                "{} bytes exceed the limit of {OBJECT_BYTES_MAX} for an object",
                bytes.len()
            ),
        }]));
    }
    let estimate =
        estimate::estimate_named(&name, &bytes, interrupt).map_err(|error| match error {
            Error::InvalidArgument(inside) => Unread::Faults(
                inside
                    .listed
                    .into_iter()
                    .map(|violation| Fault {
                        path: format!(".{}", violation.field),
                        reason: violation.reason,
                        description: violation.description,
                    })
                    .collect(),
            ),
            error => Unread::Error(error),
        })?;
    let memory = estimate.memory + bytes.len() + size_of::<M>();
    match M::decode(Bytes::from(bytes)) {
        Ok(message) => Ok((message, memory)),
        Err(source) => Err(Unread::Error(Error::Undecodable {
            message: M::NAME,
            source,
        })),
    }
}

/// Its integers are exact, other than those of a Struct from elsewhere.
fn mark_template(set: &mut proto::ReplicaSet) {
    let template = set.spec.as_mut().and_then(|spec| spec.template.as_mut());
    if let Some(template) = template {
        template.mark_as_json();
    }
}

/// What is wrong with the target by itself, or with a Deployment in fields that is another one.
fn check_target(snapshot: &proto::Snapshot, violations: &mut Violations) {
    let Some(target) = &snapshot.target else {
        return;
    };
    let is_resource = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if target.resource.len() > 63 || !target.resource.bytes().all(is_resource) {
        let description = "must be the plural name of a resource, for example \"deployments\"";
        violations.add("snapshot.target.resource", Reason::InvalidName, description);
    }
    let Some(deployment) = snapshot
        .deployment
        .as_ref()
        .filter(|_| snapshot.objects_json.is_empty())
    else {
        return;
    };
    let metadata = deployment.metadata.as_ref();
    let name = metadata.map_or("", |metadata| &metadata.name);
    let namespace = metadata.map_or("", |metadata| &metadata.namespace);
    let or = |given: &str, default: &str| match given {
        "" => default.to_owned(),
        given => given.to_owned(),
    };
    let api_version = or(&deployment.api_version, "apps/v1");
    let kind = or(&deployment.kind, "Deployment");
    if !matches(target, &api_version, &kind, namespace, name) {
        let description = format!(
            "is not the Deployment of the snapshot: {kind} {namespace}/{name} ({api_version})"
        );
        violations.add("snapshot.target", Reason::NotFound, description);
    }
}

/// Whether an object is the target. Fields that the target does not have match all.
fn matches(
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

struct Reader<'i> {
    violations: Violations,
    /// Bytes that the messages take in memory.
    memory: usize,
    interrupt: &'i dyn Interrupt,
}

/// An object, with what tells whose it is.
type Object<'f, 'a> = &'f (Found<'a>, Metadata<'a>);

impl Reader<'_> {
    /// Fills in what the Deployment is decided by. `None` after a violation.
    fn select(
        &mut self,
        found: &[(Found<'_>, Metadata<'_>)],
        snapshot: &mut proto::Snapshot,
    ) -> Result<Option<Origins>, Error> {
        let Some(owner) = self.choose(found, snapshot.target.as_ref()) else {
            return Ok(None);
        };
        let Some(mut deployment) = self.message::<proto::Deployment>(owner)? else {
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
        // One that is invalid selects nothing, and is refused with the Deployment.
        let selector = selector.and_then(|selector| parse_selector(selector).ok());
        let of_kind = |api_version, kind| near(found, owner, api_version, kind);
        let (mut sets, mut others) = (Vec::new(), Vec::new());
        for object in of_kind("apps/v1", "ReplicaSet") {
            self.interrupt.check()?;
            let is_selected = match &object.1.controller {
                Some(uid) => *uid == owner.1.uid,
                None => selector
                    .as_ref()
                    .is_some_and(|selector| selector.matches(&object.0.labels())),
            };
            match is_selected {
                true => sets.push(object),
                false => others.push(object),
            }
        }
        let uids: HashSet<&str> = sets.iter().map(|set| &*set.1.uid).collect();
        let name = &*owner.1.name;
        let prefix = &name[..name.floor_char_boundary(NAME_BYTES)];
        // Of others only the name counts that the new ReplicaSet might get, and a UID that belongs to one that is selected.
        others.retain(|(_, other)| other.name.starts_with(prefix) || uids.contains(&*other.uid));
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
            deployment: owner.0.origin(&owner.1),
            replica_sets: Vec::new(),
            pods: Vec::new(),
            events: Vec::new(),
        };
        snapshot.deployment = Some(deployment);
        let before = self.memory;
        self.messages(&sets, &mut snapshot.replica_sets, &mut origins.replica_sets)?;
        self.take_memory((self.memory - before).saturating_mul(COPIES - 1))?;
        snapshot.replica_sets.iter_mut().for_each(mark_template);
        for (object, metadata) in others {
            snapshot.replica_sets.push(name_only(object, metadata));
            origins.replica_sets.push(object.origin(metadata));
        }
        self.messages(&pods, &mut snapshot.pods, &mut origins.pods)?;
        // Events may also come in their field, before those in the texts.
        let given = snapshot.events.len();
        if given > 0 {
            let list: Rc<str> = Rc::from("snapshot.events");
            origins.events.extend((0..given).map(|index| Origin {
                list: Rc::clone(&list),
                index,
                object: "Event".to_owned(),
            }));
        }
        self.messages(&events, &mut snapshot.events, &mut origins.events)?;
        Ok(Some(origins))
    }

    /// The Deployment that is meant.
    fn choose<'f, 'a>(
        &mut self,
        found: &'f [(Found<'a>, Metadata<'a>)],
        target: Option<&proto::Target>,
    ) -> Option<Object<'f, 'a>> {
        // Another owner than a Deployment is only one for who says so.
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
            let description = match (candidates.as_slice(), target) {
                ([], None) => "has no apps/v1 Deployment; name another owner in target".to_owned(),
                (_, None) => "has no Deployment".to_owned(),
                (candidates, Some(_)) => {
                    let deployments = candidates
                        .iter()
                        .filter(|(object, _)| !is_read_for_owners(object));
                    let deployments: Vec<_> = deployments.copied().collect();
                    format!("not found; there {}", list(&deployments))
                }
            };
            let field = match target {
                None => "snapshot.objects_json",
                Some(_) => "snapshot.target",
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
            let description = format!("{origin} has {uid:?} too ({})", origin.object);
            self.violations.add(field, Reason::Duplicate, description);
            return None;
        }
        let field = "snapshot.target";
        let (reason, what) = match target {
            None => (Reason::Required, "is required"),
            Some(_) => (Reason::NotFound, "names several objects"),
        };
        let description = format!("{what}: there {}", list(&matching));
        self.violations.add(field, reason, description);
        None
    }

    /// The messages of selected objects, and where these come from.
    fn messages<M: Message + Name + Default>(
        &mut self,
        objects: &[Object<'_, '_>],
        messages: &mut Vec<M>,
        origins: &mut Vec<Origin>,
    ) -> Result<(), Error> {
        messages.reserve(objects.len());
        origins.reserve(objects.len());
        for object in objects {
            self.interrupt.check()?;
            if let Some(message) = self.message(object)? {
                messages.push(message);
                origins.push(object.0.origin(&object.1));
            }
        }
        Ok(())
    }

    /// The message of an object. `None` after a violation.
    fn message<M: Message + Name + Default>(
        &mut self,
        (object, metadata): Object<'_, '_>,
    ) -> Result<Option<M>, Error> {
        match message_of(object, self.interrupt) {
            Ok((message, memory)) => {
                self.take_memory(memory)?;
                Ok(Some(message))
            }
            Err(Unread::Faults(faults)) => {
                let origin = object.origin(metadata);
                for fault in faults {
                    let field = format!("{origin}{}", fault.path);
                    let description = format!("{} ({})", fault.description, origin.object);
                    self.violations.add(field, fault.reason, description);
                }
                Ok(None)
            }
            Err(Unread::Error(error)) => Err(error),
        }
    }

    fn take_memory(&mut self, bytes: usize) -> Result<(), Error> {
        self.memory = self.memory.saturating_add(bytes);
        if self.memory > MEMORY_BYTES_MAX {
            return Err(Error::TooLarge {
                what: "request",
                unit: "bytes in memory",
                count: self.memory,
                max: MEMORY_BYTES_MAX,
            });
        }
        Ok(())
    }
}

/// Whether an object is of a kind that belongs to an owner and is none.
fn is_read_for_owners(object: &Found<'_>) -> bool {
    matches!(
        (&*object.api_version, &*object.kind),
        ("apps/v1", "ReplicaSet") | ("v1", "Pod" | "Event")
    )
}

/// Lists objects, for example "are Deployment shop/web, Deployment shop/api".
fn list(objects: &[Object<'_, '_>]) -> String {
    let shown = objects.iter().take(CANDIDATES_LISTED_MAX);
    let shown: Vec<String> = shown
        .map(|(object, metadata)| object.origin(metadata).object)
        .collect();
    match objects.len() {
        0 => "is none".to_owned(),
        1 => format!("is {}", shown.join(", ")),
        count if count > CANDIDATES_LISTED_MAX => {
            let more = count - CANDIDATES_LISTED_MAX;
            format!("are {} and {more} more", shown.join(", "))
        }
        _ => format!("are {}", shown.join(", ")),
    }
}

/// A ReplicaSet of somebody else: what tells that it is, and its name.
fn name_only(object: &Found<'_>, metadata: &Metadata<'_>) -> proto::ReplicaSet {
    let owner = metadata
        .controller
        .as_ref()
        .map(|uid| proto::OwnerReference {
            uid: uid.clone().into_owned(),
            controller: Some(true),
            ..Default::default()
        });
    let labels = match owner {
        // Whom it belongs to is known.
        Some(_) => BTreeMap::new(),
        None => object.labels(),
    };
    proto::ReplicaSet {
        metadata: Some(proto::ObjectMeta {
            name: metadata.name.clone().into_owned(),
            namespace: metadata.namespace.clone().into_owned(),
            uid: metadata.uid.clone().into_owned(),
            labels,
            owner_references: owner.into_iter().collect(),
            ..Default::default()
        }),
        ..Default::default()
    }
}
