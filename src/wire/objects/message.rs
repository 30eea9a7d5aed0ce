//! The messages of selected objects.

use std::collections::HashSet;
use std::sync::Arc;

use bytes::Bytes;
use prost::{Message, Name};
use rollplan_core::interrupt::Interrupt;
use rollplan_core::snapshot::Pod;

use super::found::{Found, Metadata};
use super::key::DUPLICATE_KEY;
use super::lean_pod::LeanPods;
use super::name_only::name_only;
use super::scan::{path_in_text, scan};
use super::transcode::{Fault, Transcoded, Transcoder};
use super::{Object, Reader};
use crate::proto;
use crate::proto::RawStruct;
use crate::wire::error::{Error, Reason, Violations};
use crate::wire::estimate::{self, OBJECT_BYTES_MAX};
use crate::wire::origin::Origin;
use crate::wire::parse::lean_pod::lean_pod_memory;
use crate::wire::parse::path::JsonName;

/// Reads a text with exactly one ReplicaSet. If `is_own` returns false, only its name and owner are read. The path of
/// an error is relative to the text.
pub(in crate::wire) fn read_replica_set(
    text: &[u8],
    is_own: impl FnOnce(&Metadata<'_>) -> bool,
    interrupt: &dyn Interrupt,
) -> Result<proto::ReplicaSet, Fault> {
    let fault = |reason, description: String| Fault {
        path: String::new(),
        reason,
        description,
    };
    let mut found = Vec::new();
    let mut violations = Violations::default();
    scan(0, text, &mut found, &mut violations)
        .map_err(|error| fault(Reason::ObjectTooLarge, error.to_string()))?;
    if let Some(first) = violations.listed.into_iter().next() {
        return Err(Fault {
            path: path_in_text(&first.field).to_owned(),
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
    let metadata = object.metadata();
    if object.field("metadata").is_some() && !is_own(&metadata) {
        return Ok(name_only(object, &metadata, &HashSet::new()));
    }
    match message_of::<proto::ReplicaSet>(object, false, interrupt) {
        Ok(Read { mut message, .. }) => {
            mark_template(&mut message);
            Ok(message)
        }
        Err(Unread::Faults(faults)) => Err(faults
            .into_iter()
            .next()
            .unwrap_or_else(|| fault(Reason::MalformedJson, "cannot be read".to_owned()))),
        Err(Unread::Error(error)) => Err(fault(Reason::ObjectTooLarge, error.to_string())),
    }
}

/// Reads a pod template in JSON. The path of an error is relative to the text.
pub(in crate::wire) fn read_template(text: &str) -> Result<RawStruct, Fault> {
    let bytes = Transcoder::default().message_of_field(
        &proto::ReplicaSetSpec::full_name(),
        "template",
        text,
    )?;
    let spec = proto::ReplicaSetSpec::decode(Bytes::from(bytes)).unwrap_or_default();
    let mut template = spec.template.unwrap_or_default();
    template.mark_as_json();
    Ok(template)
}

impl Reader<'_> {
    /// Reads the messages of selected objects, with their origins.
    pub(super) fn messages<M: Message + Name + Default>(
        &mut self,
        objects: &[Object<'_, '_>],
        messages: &mut Vec<M>,
        origins: &mut Vec<Origin>,
    ) -> Result<(), Error> {
        messages.reserve(objects.len());
        origins.reserve(objects.len());
        for object in objects {
            self.interrupt.check()?;
            if let Some((message, origin)) = self.message(object)? {
                messages.push(message);
                origins.push(origin);
            }
        }
        Ok(())
    }

    /// Reads the data of selected pods that decides a plan, with their origins. Returns false if any of them is
    /// unusual: [`messages`](Self::messages) must then read them all.
    pub(super) fn lean_pods(
        &mut self,
        objects: &[Object<'_, '_>],
        pods: &mut Vec<Pod>,
        origins: &mut Vec<Origin>,
    ) -> Result<bool, Error> {
        let before = self.memory;
        let mut lean = LeanPods::default();
        pods.reserve(objects.len());
        origins.reserve(objects.len());
        for (object, metadata) in objects {
            self.interrupt.check()?;
            let pod = object.lean_pod();
            let pod = pod.and_then(|(pod, bytes)| Some((lean.pod(pod)?, bytes)));
            let Some((pod, bytes)) = pod else {
                pods.clear();
                origins.clear();
                self.memory = before;
                return Ok(false);
            };
            self.take_memory(lean_pod_memory(bytes))?;
            pods.push(pod);
            origins.push(object.origin(metadata));
        }
        Ok(true)
    }

    /// Reads the message of an object, with its origin. Returns `None` after a violation.
    pub(super) fn message<M: Message + Name + Default>(
        &mut self,
        (object, metadata): Object<'_, '_>,
    ) -> Result<Option<(M, Origin)>, Error> {
        match message_of(object, true, self.interrupt) {
            Ok(Read {
                message,
                template,
                memory,
            }) => {
                self.take_memory(memory)?;
                let mut origin = object.origin(metadata);
                origin.template = template.map(Arc::from);
                Ok(Some((message, origin)))
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

    pub(super) fn take_memory(&mut self, bytes: usize) -> Result<(), Error> {
        self.memory = self.memory.saturating_add(bytes);
        estimate::check_memory(self.memory)
    }
}

/// Why an object has no message.
enum Unread {
    /// The errors in the object.
    Faults(Vec<Fault>),
    /// An error of the whole request.
    Error(Error),
}

/// Refuses an object with a duplicate key, even if the key is not used.
pub(in crate::wire) fn check_keys(object: &Found<'_>) -> Result<(), Fault> {
    match &object.duplicate_key {
        None => Ok(()),
        Some(key) => Err(Fault {
            path: format!("[{key:?}]"),
            reason: Reason::DuplicateKey,
            description: DUPLICATE_KEY.to_owned(),
        }),
    }
}

/// An object that has been read.
struct Read<'a, M> {
    message: M,
    /// The text of its pod template, if it is not in the message.
    template: Option<&'a str>,
    /// The memory of both, in bytes.
    memory: usize,
}

/// An upper bound for the size of a value in protobuf relative to its JSON. For numbers below ten, the ratio is 5.5.
const PROTOBUF_GROWTH: usize = 8;

/// The memory of a template relative to its text: the text itself, and a copy while its values are compared.
const TEMPLATE_MEMORY: usize = 2;

/// Reads the message of an object. With `keeps_template`, its pod template may be kept as text instead.
fn message_of<'a, M: Message + Name + Default>(
    object: &Found<'a>,
    keeps_template: bool,
    interrupt: &dyn Interrupt,
) -> Result<Read<'a, M>, Unread> {
    check_keys(object).map_err(|fault| Unread::Faults(vec![fault]))?;
    let name = M::full_name();
    let Transcoded { bytes, template } = Transcoder::new(keeps_template)
        .message(&name, &object.api_version, &object.kind, object.fields())
        .map_err(|fault| Unread::Faults(vec![fault]))?;
    let text = template.map_or(0, str::len);
    if text > 0 && bytes.len() + text.saturating_mul(PROTOBUF_GROWTH) > OBJECT_BYTES_MAX {
        // The message with its template may exceed the limit, so it is created to find out.
        return message_of(object, false, interrupt);
    }
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
                        path: format!(".{}", JsonName(&violation.field)),
                        reason: violation.reason,
                        description: violation.description,
                    })
                    .collect(),
            ),
            error => Unread::Error(error),
        })?;
    let memory = estimate.memory + bytes.len() + size_of::<M>() + text * TEMPLATE_MEMORY;
    match M::decode(Bytes::from(bytes)) {
        Ok(message) => Ok(Read {
            message,
            template,
            memory,
        }),
        Err(source) => Err(Unread::Error(Error::Undecodable {
            message: M::NAME,
            source,
        })),
    }
}

/// Marks the template as transcoded, so that its integers are exact.
pub(super) fn mark_template(set: &mut proto::ReplicaSet) {
    let template = set.spec.as_mut().and_then(|spec| spec.template.as_mut());
    if let Some(template) = template {
        template.mark_as_json();
    }
}
